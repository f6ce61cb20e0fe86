/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit -- the committer: checks transactions against recent commits, writes
 * each group once, syncs, and publishes the view that readers get next. Nobody
 * reads what a crash could take back. Groups are written one after the other, by
 * the thread of a caller who completes a group or by a thread of the committer.
 */
#ifndef STORE_COMMIT_H
#define STORE_COMMIT_H

#include "store/catalog.h"
#include "store/change_log.h"
#include "store/counter.h"
#include "store/disk.h"
#include "store/garbage.h"
#include "store/ids.h"
#include "store/prepared.h"
#include "store/trail.h"
#include "store/txn.h"

/* One published state. Immutable, reference counted by the committer. */
struct view {
    struct kv_snapshot *snapshot;
    uint64_t seq;      /* last commit in it */
    uint64_t position; /* trail behind it */
    struct catalog *catalog;
    unsigned refs;
    struct view *older, *newer; /* list of views that are read, and the current one */
};

/* What the committer uses; all of it outlives the committer. */
struct commit_parts {
    struct kv *kv;
    struct ids *ids;
    struct disk *disk;
    struct garbage *garbage;
    struct prepared_table *prepared;
    struct change_log *log;
    uint64_t last_seq;
    size_t window_bytes;
};

/* What a request is for. */
enum commit_kind {
    COMMIT_WRITES,
    COMMIT_PREPARE, /* batch holds the record, prepare the entry, pending what it is about */
    COMMIT_RESOLVE, /* batch ends the record of name; was checked when it was prepared */
};

/* One transaction on its way. The caller owns everything and waits. */
struct commit_request {
    enum commit_kind kind;
    struct kv_batch batch;        /* counters are added to it */
    const struct read_set *reads; /* NULL for COMMIT_RESOLVE */
    struct prepared *prepare;     /* taken when accepted */
    struct slice pending;         /* batch that a later resolve writes */
    struct slice name;            /* of the prepared transaction */
    bool is_decided;              /* COMMIT_RESOLVE: to commit */
    bool is_held;                 /* answer: the conflict is with a prepared transaction */
    uint64_t position;            /* trail checked up to here; starts at the view's */
    const struct counter_change *counters;
    size_t counter_count;
    struct catalog *catalog; /* borrows; the new one, or NULL */
    bool no_sync;
    bool is_removal; /* passes when the disk is full */
    bool is_derived; /* its keys are not in the window: they refuse nobody */
    enum errc rc;    /* the answer from here on */
    struct error err;
    struct buf conflict; /* family byte and key that conflicted */
    uint64_t seq;
    struct commit_request *next;
};

struct committer;

/* Keeps a reference to the catalog and publishes the first view. */
MUST_CHECK enum errc committer_new(struct committer **out, const struct commit_parts *parts,
                                   struct catalog *catalog, struct error *err);
/* Commits what is queued, then ends the thread. No caller may arrive meanwhile. */
void committer_free(struct committer *c);
/* Before the first commit; keeps the sink in its list. */
void committer_add_sink(struct committer *c, struct commit_sink *sink);

struct view *committer_view(struct committer *c); /* newest; give it back: */
void committer_release(struct committer *c, struct view *view);

/*
 * Waits. ERR_CONFLICT leaves the key in r->conflict (empty: the window is too short); a view taken
 * after it contains the commit that won.
 */
MUST_CHECK enum errc committer_commit(struct committer *c, struct commit_request *r,
                                      struct error *err);

/* ERR_IO after a failed write to the log, ERR_LIMIT when the disk is full. */
MUST_CHECK enum errc committer_check(struct committer *c, struct error *err);

struct commit_stats {
    uint64_t commits, conflicts, groups, views, window_bytes, last_seq;
};
void committer_stats(struct committer *c, struct commit_stats *out);

/*
 * A write to the log that failed leaves the outcome unknown: waiting
 * transactions are answered, then fn is called on the committer's thread; when
 * it returns, all later commits are refused. fn NULL ends the process. Nobody
 * is told before the first call of this.
 */
void committer_on_fatal(struct committer *c, void (*fn)(void *ctx, const struct error *err),
                        void *ctx);

#endif
