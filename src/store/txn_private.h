/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txn_private -- what the files of store may do with a transaction beyond txn.h.
 */
#ifndef STORE_TXN_PRIVATE_H
#define STORE_TXN_PRIVATE_H

#include "store/store_private.h"
#include "store/write_set.h"

enum { GUARDS_REMEMBERED = 4 };

struct txn {
    struct store *store;
    struct view *view;
    struct txn_options options;
    struct write_set *writes;
    uint64_t sees_until; /* reads see own writes before this mark */
    struct read_set *reads;
    struct counter_change *counters; /* owned */
    size_t counter_count, counter_cap;
    struct txn_iter *iters;  /* open ones */
    struct catalog *catalog; /* borrowed; the new one of a catalog change */
    uint64_t guards[GUARDS_REMEMBERED];
    size_t guard_count;
    uint64_t read_allowed, write_allowed; /* ids of the collections that were asked for last */
    struct val_builder *builder;          /* owned; made when first used */
    struct arena *scratch;                /* owned; of one document's write */
    struct arena_mark scratch_start;
    bool is_removal, is_over, must_sync;
    bool is_derived; /* made from what others wrote: its keys refuse nobody */
    uint64_t commit_seq;
};

/* Documents of the object, own changes included. */
MUST_CHECK enum errc txn_count(struct txn *t, uint64_t object_id, int64_t *out, struct error *err);
void txn_add_count(struct txn *t, uint64_t object_id, int64_t delta);
void txn_note_increment(struct txn *t, uint64_t collection_id, int64_t value);

/*
 * Before the first use of a collection: ERR_FORBIDDEN when who asks may not, 1652
 * when it is out of the scope. A
 * guard ties a writer to the catalog it reads: a change of the collection
 * (txn_break_guard) refuses writers that began before it, and readers where
 * reads count.
 */
MUST_CHECK enum errc txn_open_write(struct txn *t, const struct collection *c, struct error *err);
MUST_CHECK enum errc txn_open_read(struct txn *t, const struct collection *c, struct error *err);
MUST_CHECK enum errc txn_break_guard(struct txn *t, uint64_t collection_id, struct error *err);

/* The commit fails if somebody wrote this key since the view, in any isolation. */
void txn_watch(struct txn *t, enum kv_family f, struct slice key);
/* Counts as read when the transaction is serializable. */
void txn_read_range(struct txn *t, enum kv_family f, struct slice from, struct slice to);

/* Publishes the catalog with the commit. Borrows it. */
void txn_set_catalog(struct txn *t, struct catalog *catalog);

/* An empty builder, the same one each time. */
struct val_builder *txn_builder(struct txn *t);

/* Memory of one step: everything in it is gone after the reset. */
struct arena *txn_scratch(struct txn *t);
void txn_scratch_reset(struct txn *t);

/* Iterators that are still open count as read up to their end. */
void txn_iters_record(struct txn *t);

/* The text of a conflict on that key (family byte first). */
enum errc conflict_fail(const struct txn *t, struct slice key, struct error *err);

#endif
