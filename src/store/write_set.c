/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A skip list of keys per family; each node heads the chain of its writes,
 * newest first. Nodes are never removed: a key whose writes were all undone
 * has an empty chain and is passed over.
 */
#include "store/write_set.h"

enum { HEIGHT_MAX = 20 };

struct write_node {
    struct slice key;
    struct write_entry *newest;
    unsigned height;
    struct write_node *next[]; /* height of them */
};

struct write_list {
    struct write_node *head[HEIGHT_MAX];
    size_t writes; /* entries not undone */
};

struct write_set {
    struct arena *arena;
    struct write_list lists[KV_FAMILY_COUNT];
    struct write_entry *last; /* in time */
    uint64_t ordinal;         /* of the next entry; never reused */
    uint64_t random;
    size_t bytes;
};

struct write_set *write_set_new(void)
{
    struct write_set *w = mem_zalloc(sizeof *w);
    w->random = 0x9e3779b97f4a7c15u;
    return w;
}

void write_set_free(struct write_set *w)
{
    if (!w)
        return;
    arena_free(w->arena);
    mem_free(w);
}

static unsigned random_height(struct write_set *w)
{
    unsigned height = 1;
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    for (uint64_t r = w->random; (r & 3) == 0 && height < HEIGHT_MAX; r >>= 2)
        height++;
    return height;
}

/*
 * Fills links[level] with the pointer behind which the first node >= key
 * stands; returns that node or NULL.
 */
static struct write_node *list_find(struct write_list *list, struct slice key,
                                    struct write_node **links[HEIGHT_MAX])
{
    struct write_node **row = list->head;
    for (int level = HEIGHT_MAX - 1; level >= 0; level--) {
        while (row[level] && slice_cmp(row[level]->key, key) < 0)
            row = row[level]->next;
        if (links)
            links[level] = &row[level];
    }
    return row[0];
}

static struct write_node *node_for(struct write_set *w, enum kv_family f, struct slice key)
{
    struct write_node **links[HEIGHT_MAX];
    struct write_node *n = list_find(&w->lists[f], key, links);
    if (n && slice_eq(n->key, key))
        return n;
    unsigned height = random_height(w);
    n = arena_zalloc(w->arena, sizeof *n + height * sizeof(void *));
    n->key = arena_copy(w->arena, key);
    n->height = height;
    for (unsigned level = 0; level < height; level++) {
        n->next[level] = *links[level];
        *links[level] = n;
    }
    return n;
}

static void add(struct write_set *w, enum kv_family f, struct slice key, struct slice value,
                bool is_delete)
{
    if (!w->arena)
        w->arena = arena_new(0);
    struct write_node *n = node_for(w, f, key);
    struct write_entry *e = ARENA_NEW(w->arena, struct write_entry);
    *e = (struct write_entry){ .node = n,
                               .older = n->newest,
                               .before = w->last,
                               .ordinal = w->ordinal++,
                               .value = arena_copy(w->arena, value),
                               .family = f,
                               .is_delete = is_delete };
    n->newest = w->last = e;
    w->lists[f].writes++;
    w->bytes += key.len + value.len + 8;
}

void write_set_put(struct write_set *w, enum kv_family f, struct slice key, struct slice value)
{
    add(w, f, key, value, false);
}

void write_set_delete(struct write_set *w, enum kv_family f, struct slice key)
{
    add(w, f, key, (struct slice){ NULL, 0 }, true);
}

static const struct write_entry *newest_before(const struct write_node *n, uint64_t mark)
{
    const struct write_entry *e = n->newest;
    while (e && e->ordinal >= mark)
        e = e->older;
    return e;
}

const struct write_entry *write_set_get(const struct write_set *w, enum kv_family f,
                                        struct slice key, uint64_t mark)
{
    if (!w->lists[f].writes)
        return NULL;
    const struct write_node *n = list_find((struct write_list *)&w->lists[f], key, NULL);
    return n && slice_eq(n->key, key) ? newest_before(n, mark) : NULL;
}

bool write_set_is_empty(const struct write_set *w)
{
    return w->last == NULL;
}

bool write_set_has_family(const struct write_set *w, enum kv_family f)
{
    return w->lists[f].writes > 0;
}

size_t write_set_bytes(const struct write_set *w)
{
    return w->bytes;
}

uint64_t write_set_tick(struct write_set *w)
{
    return w->ordinal++;
}

uint64_t write_set_mark(const struct write_set *w)
{
    return w->ordinal;
}

void write_set_rewind(struct write_set *w, uint64_t mark)
{
    while (w->last && w->last->ordinal >= mark) {
        struct write_entry *e = w->last;
        e->node->newest = e->older;
        w->lists[e->family].writes--;
        w->bytes -= e->node->key.len + e->value.len + 8;
        w->last = e->before;
    }
}

void write_set_encode(const struct write_set *w, struct kv_batch *out, bool *has_puts)
{
    *has_puts = false;
    for (int f = 0; f < KV_FAMILY_COUNT; f++) {
        for (const struct write_node *n = w->lists[f].head[0]; n; n = n->next[0]) {
            const struct write_entry *e = n->newest;
            if (!e)
                continue;
            *has_puts |= !e->is_delete;
            kv_batch_add(out, &(struct kv_record){ .op = e->is_delete ? KV_DELETE : KV_PUT,
                                                   .family = (enum kv_family)f,
                                                   .key = n->key,
                                                   .value = e->value });
        }
    }
}

/* ---- cursor ---- */

void write_cursor_init(struct write_cursor *c, const struct write_set *w, enum kv_family f,
                       uint64_t mark)
{
    *c = (struct write_cursor){ .set = w,
                                .family = f,
                                .limit = w->ordinal < mark ? w->ordinal : mark };
}

static void forward_to_visible(struct write_cursor *c, const struct write_node *n)
{
    c->entry = NULL;
    for (; n && !c->entry; n = n->next[0])
        c->entry = newest_before(n, c->limit);
}

/* The last node below key; all = the last node. */
static const struct write_node *node_below(const struct write_list *list, struct slice key,
                                           bool all)
{
    struct write_node *const *row = list->head;
    const struct write_node *n = NULL;
    for (int level = HEIGHT_MAX - 1; level >= 0; level--) {
        while (row[level] && (all || slice_cmp(row[level]->key, key) < 0)) {
            n = row[level];
            row = row[level]->next;
        }
    }
    return n;
}

static void backward_to_visible(struct write_cursor *c, struct slice key, bool all)
{
    const struct write_list *list = &c->set->lists[c->family];
    c->entry = NULL;
    for (const struct write_node *n = node_below(list, key, all); n && !c->entry;
         n = node_below(list, n->key, false))
        c->entry = newest_before(n, c->limit);
}

void write_cursor_seek(struct write_cursor *c, struct slice key, bool is_reverse, bool all)
{
    if (is_reverse)
        backward_to_visible(c, key, all);
    else
        forward_to_visible(c, list_find((struct write_list *)&c->set->lists[c->family], key, NULL));
}

void write_cursor_step(struct write_cursor *c, bool is_reverse)
{
    if (is_reverse)
        backward_to_visible(c, c->entry->node->key, false);
    else
        forward_to_visible(c, c->entry->node->next[0]);
}

struct slice write_entry_key(const struct write_entry *e)
{
    return e->node->key;
}
