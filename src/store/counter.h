/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counter -- numbers that many transactions change at once without conflict:
 * documents per collection, highest autoincrement key. A transaction carries
 * changes; the committer, the only writer, turns them into absolute values.
 */
#ifndef STORE_COUNTER_H
#define STORE_COUNTER_H

#include "store/kv.h"

enum counter_kind {
    COUNTER_DOCUMENTS, /* by object id of the collection; values add up */
    COUNTER_INCREMENT, /* by id of the collection; the highest wins */
};

struct counter_change {
    enum counter_kind kind;
    uint64_t id;
    int64_t value;
    uint64_t mark; /* of the write set when it was made, for undo */
};

/* Appends the key of the meta family under which the value stands. */
void counter_key(struct buf *out, enum counter_kind kind, uint64_t id);
/* Absent counts as 0. snapshot NULL = newest. */
MUST_CHECK enum errc counter_read(struct kv *kv, const struct kv_snapshot *snapshot,
                                  enum counter_kind kind, uint64_t id, int64_t *out,
                                  struct error *err);

/* The committer's copy of the values that were changed since it started. */
struct counter_table;
struct counter_table *counter_table_new(struct kv *kv);
void counter_table_free(struct counter_table *t);
/* Reads what the changes need, so that applying them cannot fail. */
MUST_CHECK enum errc counter_table_load(struct counter_table *t,
                                        const struct counter_change *changes, size_t count,
                                        struct error *err);
/* Applies loaded changes of one transaction and adds the new values to its batch, for the log. */
void counter_table_apply(struct counter_table *t, const struct counter_change *changes,
                         size_t count, struct kv_batch *batch);
/* Adds the values changed since the last flush: a group of transactions writes each once. */
void counter_table_flush(struct counter_table *t, struct kv_batch *batch);
/* After a failed write: values are read again. */
void counter_table_forget(struct counter_table *t);

#endif
