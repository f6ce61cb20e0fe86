/* SPDX-License-Identifier: Apache-2.0 */
#include "query/intern.h"
#include "base/hash.h"

/* The slot of the text, or the empty one where it belongs. */
static uint32_t find_slot(const struct intern *in, struct slice text, uint64_t hash)
{
    uint32_t i = (uint32_t)hash & (in->slot_count - 1);

    for (; in->slots[i]; i = (i + 1) & (in->slot_count - 1)) {
        uint32_t number = in->slots[i] - 1;
        if (in->hashes[number] == hash && slice_eq(in->items[number], text))
            break;
    }
    return i;
}

static void *grow(struct arena *arena, const void *old, size_t count, size_t cap, size_t size)
{
    void *more = arena_alloc(arena, cap * size);

    if (count)
        memcpy(more, old, count * size);
    return more;
}

static void reserve(struct intern *in)
{
    if (in->count == in->cap) {
        uint32_t cap = in->cap ? in->cap * 2 : 32;
        in->items = grow(in->arena, in->items, in->count, cap, sizeof *in->items);
        in->hashes = grow(in->arena, in->hashes, in->count, cap, sizeof *in->hashes);
        in->cap = cap;
    }
    if (in->count * 2 < in->slot_count)
        return;
    in->slot_count = in->slot_count ? in->slot_count * 2 : 64;
    in->slots = arena_zalloc(in->arena, in->slot_count * sizeof *in->slots);
    for (uint32_t n = 0; n < in->count; n++)
        in->slots[find_slot(in, in->items[n], in->hashes[n])] = n + 1;
}

uint32_t intern_add(struct intern *in, struct slice text, bool *is_new)
{
    uint64_t hash = hash_xxh3(text.ptr, text.len);

    reserve(in);
    uint32_t slot = find_slot(in, text, hash);
    if (is_new)
        *is_new = !in->slots[slot];
    if (!in->slots[slot]) {
        in->items[in->count] = arena_copy(in->arena, text);
        in->hashes[in->count] = hash;
        in->slots[slot] = ++in->count;
    }
    return in->slots[slot] - 1;
}

uint32_t intern_find(const struct intern *in, struct slice text)
{
    if (!in->slot_count)
        return INTERN_NONE;
    uint32_t slot = find_slot(in, text, hash_xxh3(text.ptr, text.len));

    return in->slots[slot] ? in->slots[slot] - 1 : INTERN_NONE;
}
