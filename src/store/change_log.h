/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change_log -- every commit once more, in order: what the change feed, incremental backups and
 * restoring to a point in time are made of. Written in the batch of the commit itself, so it holds
 * exactly the commits that are there (ADR 0017).
 *
 * Also keeps the catalog as it was after each change of it, as far back as the records reach: a row
 * is of a collection only by the catalog of its time.
 */
#ifndef STORE_CHANGE_LOG_H
#define STORE_CHANGE_LOG_H

#include "base/env.h"
#include "store/kv.h"

struct change_log;

struct change_log_options {
    struct kv *kv;
    const struct env *env;
    uint64_t last_seq;
    bool is_off;         /* records say only that there was a commit */
    uint64_t keep_bytes; /* older records go; 0 = the default */
    uint64_t keep_us;    /* as do those of this age; 0 = any age */
};

/*
 * Reads where it ends. The catalog on disk begins the history of catalogs when there is none, as in
 * a store of format 1, which becomes one of format 2 here.
 */
MUST_CHECK enum errc change_log_open(struct change_log **out, const struct change_log_options *opt,
                                     struct error *err);
void change_log_close(struct change_log *log);

/*
 * Adds the commit's record to the group that will hold it, and now and then a range delete of what
 * is too old. has_catalog: the batch changes the catalog. Committer only.
 */
void change_log_add(struct change_log *log, uint64_t seq, struct slice batch, bool has_catalog,
                    struct kv_batch *group);

/* The group was not written: commits end at seq. The same. */
void change_log_rewind(struct change_log *log, uint64_t seq);

bool change_log_is_on(const struct change_log *log);

/* ---- records ---- */

struct change_record {
    uint64_t seq, time_us; /* wall clock, never falling; 0 in a record of format 1 */
    struct slice batch;
    bool is_empty; /* was written while the log was off */
};

/* False when the bytes are no record. The batch is not looked at. Borrows both. */
bool change_record_decode(struct slice key, struct slice value, struct change_record *out);

/* The record that is first kept; 0 = there is none. */
MUST_CHECK enum errc change_log_first(struct kv *kv, uint64_t *out, struct error *err);
/* The newest commit; 0 = there is none. */
MUST_CHECK enum errc change_log_last(struct kv *kv, uint64_t *out, struct error *err);

/* The key in the meta family of the catalog that the commit made. */
void change_log_catalog_key(struct buf *out, uint64_t seq);

/*
 * The catalog's bytes as they were after the commit: ERR_NOT_FOUND, err untouched, when the history
 * does not reach back so far. They live in arena.
 */
MUST_CHECK enum errc change_log_catalog(struct kv *kv, uint64_t seq, struct arena *arena,
                                        struct slice *out, struct error *err);

#endif
