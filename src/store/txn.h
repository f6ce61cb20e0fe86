/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txn -- a transaction: reads one published view plus its own writes, commits
 * through the committer (design decision 2).
 *
 * Belongs to one thread at a time. Calls block on I/O: pool threads only.
 */
#ifndef STORE_TXN_H
#define STORE_TXN_H

#include "base/arena.h"
#include "store/access.h"
#include "store/kv.h"
#include "store/store.h"

enum isolation {
    ISOLATION_SNAPSHOT,     /* written keys are checked: first committer wins */
    ISOLATION_SERIALIZABLE, /* read keys and ranges too: no write skew, no phantoms */
};

/* Which collections a transaction may use; ids of collections. */
struct txn_scope {
    const uint64_t *read, *write; /* writing includes reading */
    size_t read_count, write_count;
    bool reads_any; /* collections that are not listed may be read */
};

struct txn_options {
    enum isolation isolation;
    bool is_read_only;
    struct access_rights *access; /* who asks; NULL = everything is allowed. A reference is taken */
    bool no_sync;                 /* answer after the log write; durable within 100 ms */
    bool must_sync;               /* durable on return, whatever no_sync and the setting say */
    uint64_t max_bytes;           /* of writes; 0 = 512 MiB; more is ERR_LIMIT */
    /* Borrowed until txn_end; NULL = all. Others are refused with errorNum 1652. */
    const struct txn_scope *scope;
};

/* Returned to the caller, who must txn_end() it. */
MUST_CHECK enum errc txn_begin(struct txn **out, struct store *s, const struct txn_options *opt,
                               struct error *err);

/* The catalog of its view; valid until txn_end. */
const struct catalog *txn_catalog(const struct txn *t);
struct store *txn_store(const struct txn *t);
uint64_t txn_view_seq(const struct txn *t);

/*
 * Durable and visible on OK. ERR_CONFLICT (1200) names the key and, when known,
 * the collection. Waits for the committer. Without writes it is free.
 */
MUST_CHECK enum errc txn_commit(struct txn *t, struct error *err);
uint64_t txn_commit_seq(const struct txn *t); /* after txn_commit; 0 without writes */
/* Rolls back unless committed. NULL is allowed. */
void txn_end(struct txn *t);

/*
 * Two-phase commit, local half: one transaction over several stores is prepared
 * in each under one name, decided by its coordinator, and resolved in each.
 *
 * txn_prepare checks like a commit and writes a record that survives a crash;
 * from then on commits that would touch what it read or wrote get
 * ERR_CONFLICT, and readers of its writes with a newer view wait. A later
 * txn_resolve cannot be refused by another transaction. The transaction is
 * over afterwards, whatever the outcome. name: 1 to 128 bytes; ERR_EXISTS when
 * it is prepared already, ERR_LIMIT when too many are. Catalog changes cannot
 * be prepared.
 */
MUST_CHECK enum errc txn_prepare(struct txn *t, struct slice name, struct error *err);
/*
 * Commits or drops what was prepared under the name. ERR_NOT_FOUND: nothing is,
 * for instance since it was resolved before. *commit_seq may be NULL.
 */
MUST_CHECK enum errc txn_resolve(struct store *s, struct slice name, bool is_commit,
                                 uint64_t *commit_seq, struct error *err);

enum { PREPARED_NAME_MAX = 128 };
struct prepared_info {
    char name[PREPARED_NAME_MAX];
    size_t name_len;
    uint64_t age_ms; /* by the wall clock: the coordinator is to be asked about old ones */
};
/* Answers how many there are; fills at most max. */
size_t txn_prepared(struct store *s, struct prepared_info *out, size_t max);

bool txn_has_writes(const struct txn *t);
uint64_t txn_write_bytes(const struct txn *t);

/* The commit is durable on return, as by the option must_sync. */
void txn_wait_for_sync(struct txn *t);

/*
 * Exclusive use: the commit fails if anybody else wrote to the collection since the view, in any
 * isolation.
 */
MUST_CHECK enum errc txn_claim(struct txn *t, const struct collection *c, struct error *err);

/* Undo of a part: everything written after the mark is forgotten. */
size_t txn_mark(const struct txn *t);
void txn_rewind(struct txn *t, size_t mark);

/*
 * From now on reads see the own writes before the mark only; returns what held before.
 * TXN_SEES_ALL, as at the start: all of them. A write always works on the newest state.
 */
#define TXN_SEES_ALL SIZE_MAX
size_t txn_see_until(struct txn *t, size_t mark);

/* ---- for the files of store only: raw keys under the transaction ---- */

MUST_CHECK enum errc txn_get(struct txn *t, enum kv_family f, struct slice key, struct arena *arena,
                             struct slice *value, struct error *err);
MUST_CHECK enum errc txn_put(struct txn *t, enum kv_family f, struct slice key, struct slice value,
                             struct error *err);
MUST_CHECK enum errc txn_delete(struct txn *t, enum kv_family f, struct slice key,
                                struct error *err);

struct txn_iter;
MUST_CHECK enum errc txn_iter_new(struct txn_iter **out, struct txn *t, enum kv_family f,
                                  const struct kv_scan *scan, struct error *err);
bool txn_iter_valid(const struct txn_iter *it);
struct slice txn_iter_key(const struct txn_iter *it);
struct slice txn_iter_value(const struct txn_iter *it);
void txn_iter_next(struct txn_iter *it);
MUST_CHECK enum errc txn_iter_check(const struct txn_iter *it, struct error *err);
void txn_iter_free(struct txn_iter *it); /* before the transaction ends */

/* ---- replication, feeds, index builders ---- */

/*
 * A sink sees every commit in order, one call at a time, on whichever thread writes the group.
 * stage runs before publication and may delay or fail it (a replica); published runs after it.
 */
struct commit_sink {
    enum errc (*stage)(void *ctx, uint64_t seq, struct slice batch, struct error *err);
    void (*published)(void *ctx, uint64_t seq);
    void *ctx;
    struct commit_sink *next; /* the store's */
};
void store_add_sink(struct store *s, struct commit_sink *sink); /* before the first commit */

#endif
