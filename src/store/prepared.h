/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prepared -- transactions that promised to commit and wait for the decision:
 * the local half of two-phase commit (docs/adr/0011). Each is a durable record
 * in the meta family; this table holds what is needed to keep others away
 * from it.
 *
 * The committer adds and ends entries; any thread may wait or list.
 */
#ifndef STORE_PREPARED_H
#define STORE_PREPARED_H

#include "store/counter.h"
#include "store/trail.h"
#include "store/txn.h"

enum { PREPARED_MAX = 1024 }; /* entries of a node */

/* What a record holds. Slices point into the record's bytes. */
struct prepared_record {
    uint64_t wall_us;       /* when it was prepared */
    struct read_set *guard; /* owned: keys and ranges read, keys to be written */
    struct slice counters;  /* encoded */
    struct slice writes;    /* batch */
};
void prepared_encode(struct buf *out, uint64_t wall_us, const struct read_set *guard,
                     const struct counter_change *counters, size_t counter_count,
                     struct slice writes);
/* ERR_CORRUPT on bad bytes. Give it back with prepared_record_release. */
MUST_CHECK enum errc prepared_decode(struct prepared_record *out, struct slice bytes,
                                     struct error *err);
void prepared_record_release(struct prepared_record *r);
/* Into arena. */
MUST_CHECK enum errc prepared_counters(const struct prepared_record *r, struct arena *arena,
                                       struct counter_change **out, size_t *count,
                                       struct error *err);

/* "prepared/" and the name. */
void prepared_key(struct buf *out, struct slice name);

struct prepared_table;
struct prepared_limits {
    size_t max_bytes; /* of all guards and keys together */
    uint64_t wait_ms; /* of a reader for a decision */
};
/* Reads the records that a former process left. */
MUST_CHECK enum errc prepared_table_open(struct prepared_table **out, struct kv *kv,
                                         const struct env *env,
                                         const struct prepared_limits *limits, struct error *err);
void prepared_table_free(struct prepared_table *t);

/* An entry that is not in a table yet. */
struct prepared;
MUST_CHECK enum errc prepared_new(struct prepared **out, struct slice name, struct slice record,
                                  struct error *err);
void prepared_free(struct prepared *p);

/* ---- committer ---- */

/* ERR_EXISTS: the name is taken; ERR_LIMIT: too many or too large. */
MUST_CHECK enum errc prepared_may_add(struct prepared_table *t, const struct prepared *p,
                                      struct error *err);
/* Takes p. Views from seq on wait for it. */
void prepared_add(struct prepared_table *t, struct prepared *p, uint64_t seq);
/* The add's group was not written. */
void prepared_take_back(struct prepared_table *t, struct slice name);

/*
 * The commit that ends the entry is on its way with this number; it stops to
 * refuse others from here on. ERR_NOT_FOUND: no such entry, or it is ending already.
 */
MUST_CHECK enum errc prepared_end(struct prepared_table *t, struct slice name, uint64_t seq,
                                  bool is_commit, struct error *err);
/* After that commit was published (or not written): wakes who waits. */
void prepared_settle(struct prepared_table *t, struct slice name, bool is_written);

/*
 * ERR_CONFLICT when a key of the batch is in somebody's guard or, with reads
 * (for a transaction that is to be prepared itself), somebody will write what
 * was read. *conflict gets family byte and key, err the name of the holder.
 */
MUST_CHECK enum errc prepared_check(struct prepared_table *t, struct slice batch,
                                    const struct read_set *reads, struct buf *conflict,
                                    struct error *err);

/* ---- any thread ---- */

/*
 * A view that is younger than a prepared write of the key must not read around
 * it: waits for the decision, at most wait_ms. OK: nothing is in the way, or it
 * was aborted; ERR_CONFLICT: it committed, which needs a newer view, or is
 * still undecided. Free while nothing is prepared.
 */
MUST_CHECK enum errc prepared_wait_key(struct prepared_table *t, uint64_t view_seq,
                                       enum kv_family f, struct slice key, struct error *err);
/* The same for [from, to); empty to = end of the family. */
MUST_CHECK enum errc prepared_wait_range(struct prepared_table *t, uint64_t view_seq,
                                         enum kv_family f, struct slice from, struct slice to,
                                         struct error *err);

size_t prepared_list(struct prepared_table *t, struct prepared_info *out, size_t max);

#endif
