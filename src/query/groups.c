/* SPDX-License-Identifier: Apache-2.0 */
#include "query/groups.h"

static uint64_t hash_keys(const struct groups *g, const struct val *keys)
{
    uint64_t hash = 0x9e3779b97f4a7c15u;

    for (size_t i = 0; i < g->key_count; i++)
        hash = (hash ^ val_hash(keys[i])) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 32;
}

static bool same_keys(const struct groups *g, const struct val *a, const struct val *b)
{
    for (size_t i = 0; i < g->key_count; i++)
        if (!val_equal(a[i], b[i]))
            return false;
    return true;
}

static void grow(struct groups *g)
{
    size_t count = g->slot_count ? g->slot_count * 2 : 64;
    struct group **slots = arena_zalloc(g->arena, count * sizeof(*slots));

    for (struct group *at = g->first; at; at = at->next) {
        size_t i = at->hash & (count - 1);
        while (slots[i])
            i = (i + 1) & (count - 1);
        slots[i] = at;
    }
    g->slots = slots;
    g->slot_count = count;
}

/* The slot that holds the keys, or the empty one where they belong. */
static size_t find_slot(const struct groups *g, const struct val *keys, uint64_t hash)
{
    size_t i = hash & (g->slot_count - 1);

    while (g->slots[i] && (g->slots[i]->hash != hash || !same_keys(g, g->slots[i]->keys, keys)))
        i = (i + 1) & (g->slot_count - 1);
    return i;
}

struct group *groups_add(struct groups *g, const struct val *keys, bool *is_new)
{
    uint64_t hash = hash_keys(g, keys);

    if (g->count * 2 >= g->slot_count)
        grow(g);
    struct group **slot = &g->slots[find_slot(g, keys, hash)];
    *is_new = !*slot;
    if (*slot)
        return *slot;
    struct group *made = arena_zalloc(g->arena, g->group_bytes);
    made->hash = hash;
    made->keys = arena_alloc(g->arena, (g->key_count + 1) * sizeof *made->keys);
    for (size_t i = 0; i < g->key_count; i++)
        made->keys[i] = val_copy(g->arena, keys[i]);
    *slot = made;
    if (g->last)
        g->last->next = made;
    else
        g->first = made;
    g->last = made;
    g->count++;
    return made;
}

struct group *groups_find(const struct groups *g, const struct val *keys)
{
    return g->slot_count ? g->slots[find_slot(g, keys, hash_keys(g, keys))] : NULL;
}
