/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_set -- the uncommitted writes of one transaction, ordered by key, with
 * undo to a mark and cursors that see the state at their creation only.
 *
 * Belongs to one thread at a time. Everything lives until it is freed.
 */
#ifndef STORE_WRITE_SET_H
#define STORE_WRITE_SET_H

#include "base/arena.h"
#include "store/kv.h"

/* One write; older writes of the same key stay behind it for undo and cursors. */
struct write_entry {
    struct write_node *node;
    struct write_entry *older;  /* of the same key */
    struct write_entry *before; /* in time */
    uint64_t ordinal;
    struct slice value;
    enum kv_family family;
    bool is_delete;
};

struct write_set;
struct write_set *write_set_new(void);
void write_set_free(struct write_set *w);

/* Copies key and value. */
void write_set_put(struct write_set *w, enum kv_family f, struct slice key, struct slice value);
void write_set_delete(struct write_set *w, enum kv_family f, struct slice key);

/* The newest write of the key before the mark, or NULL. WRITES_ALL: whenever it was made. */
#define WRITES_ALL UINT64_MAX
const struct write_entry *write_set_get(const struct write_set *w, enum kv_family f,
                                        struct slice key, uint64_t mark);

bool write_set_is_empty(const struct write_set *w);
bool write_set_has_family(const struct write_set *w, enum kv_family f);
size_t write_set_bytes(const struct write_set *w); /* keys and values not undone */

/* A moment of its own, for what is undone beside the writes. */
uint64_t write_set_tick(struct write_set *w);
uint64_t write_set_mark(const struct write_set *w);
void write_set_rewind(struct write_set *w, uint64_t mark);

/* The newest writes, as records; *has_puts tells whether any of them adds. */
void write_set_encode(const struct write_set *w, struct kv_batch *out, bool *has_puts);

/* A walk over one family as of its creation, or as of the mark when that is earlier. */
struct write_cursor {
    const struct write_set *set;
    enum kv_family family;
    uint64_t limit;                  /* writes from here on are not seen */
    const struct write_entry *entry; /* NULL at the end */
};
void write_cursor_init(struct write_cursor *c, const struct write_set *w, enum kv_family f,
                       uint64_t mark);
/* First key >= key, or with is_reverse the last key < key (all = no bound). */
void write_cursor_seek(struct write_cursor *c, struct slice key, bool is_reverse, bool all);
void write_cursor_step(struct write_cursor *c, bool is_reverse);
struct slice write_entry_key(const struct write_entry *e);

#endif
