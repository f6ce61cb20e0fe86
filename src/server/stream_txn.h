/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_txn -- transactions that last over several requests: their table, and
 * how a request gets at the one that it names.
 *
 * Any thread; one request at a time uses a transaction, others get 28.
 */
#ifndef SERVER_STREAM_TXN_H
#define SERVER_STREAM_TXN_H

#include "base/arena.h"
#include "base/env.h"
#include "base/error.h"
#include "base/settings.h"
#include "store/txn.h"

enum stream_state { STREAM_RUNNING, STREAM_COMMITTED, STREAM_ABORTED };

struct stream_txns;
struct stream_txns *stream_txns_new(struct store *store, const struct settings *settings,
                                    const struct env *env);
/* Aborts what runs; nobody may use one any more. */
void stream_txns_free(struct stream_txns *s);

/* Who asks; a transaction belongs to a database and a user, others do not find it (1655). */
struct stream_owner {
    uint64_t db_id;
    struct slice user;
};

struct stream_options {
    struct txn_options txn;           /* without scope */
    const struct slice *read, *write; /* names of collections */
    const struct slice *exclusive;
    size_t read_count, write_count, exclusive_count;
    bool reads_any;
};

/* 1203 when a collection is unknown; ERR_LIMIT when too many run. */
MUST_CHECK enum errc stream_begin(struct stream_txns *s, const struct stream_owner *who,
                                  const struct stream_options *opt, uint64_t *id,
                                  struct error *err);
/*
 * Again on a finished one: OK when it ended that way, else 1653 with the state
 * it has. A refused commit (1200) leaves it aborted.
 */
MUST_CHECK enum errc stream_commit(struct stream_txns *s, const struct stream_owner *who,
                                   uint64_t id, struct error *err);
MUST_CHECK enum errc stream_abort(struct stream_txns *s, const struct stream_owner *who,
                                  uint64_t id, struct error *err);
MUST_CHECK enum errc stream_find(struct stream_txns *s, const struct stream_owner *who, uint64_t id,
                                 enum stream_state *state, struct error *err);

/* Those that run, at most max; returns how many there are. */
size_t stream_list(struct stream_txns *s, const struct stream_owner *who, uint64_t *ids,
                   size_t max);
/* Aborts what was idle for too long, forgets what ended long ago. */
void stream_expire(struct stream_txns *s);

/* ---- use by a request ---- */

struct stream_txn;
/* Until stream_give nobody else gets it. 1653 when it has ended. */
MUST_CHECK enum errc stream_take(struct stream_txns *s, const struct stream_owner *who, uint64_t id,
                                 struct stream_txn **out, struct error *err);
struct txn *stream_inside(struct stream_txn *t);
/* Undoes what was written since it was taken, unless kept. */
void stream_give(struct stream_txns *s, struct stream_txn *t, bool is_kept);

#endif
