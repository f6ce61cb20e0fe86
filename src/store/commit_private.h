/* SPDX-License-Identifier: Apache-2.0 */
/* commit_private -- the committer as its files share it. */
#ifndef STORE_COMMIT_PRIVATE_H
#define STORE_COMMIT_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/commit.h"

struct committer {
    struct commit_parts parts;
    pthread_t thread;

    pthread_mutex_t lock; /* of the following */
    pthread_cond_t work;  /* for the thread */
    struct commit_request *queue, **queue_end;
    size_t queued;
    size_t crowd;   /* so many are worth waiting for, a moment */
    bool is_taken;  /* somebody has the turn */
    bool is_wanted; /* by the thread, next: for chores that are due */
    bool is_closing, is_failed;
    bool is_fatal_due; /* failure is to be told, by the thread */
    struct error failure;
    uint64_t due_us;      /* when the next chore is due; 0 = none */
    uint64_t wakes_at_us; /* the thread sleeps until then; 0 = until it is told */
    uint32_t gathering;   /* number of the group that takes new arrivals */
    struct view *oldest, *current;
    size_t view_count;
    struct commit_stats stats;
    void (*on_fatal)(void *ctx, const struct error *err);
    void *fatal_ctx;

    _Atomic uint32_t done[2]; /* futex words by parity of the group */

    /* of whoever has the turn */
    struct trail *trail; /* others may check against it */
    struct counter_table *counters;
    struct kv_batch joined;
    uint64_t seq;
    uint64_t write_us;    /* what a group takes to be written */
    uint64_t sync_due_us; /* 0 = all is durable */
    struct commit_sink *sinks, **sinks_end;
};

/* ---- views ---- */

struct view *view_new(struct committer *c, struct catalog *catalog); /* of what is written */
void view_free(struct committer *c, struct view *v);                 /* NULL is allowed */
/* Returns the view before it when that is to be freed. Lock held. */
struct view *view_publish(struct committer *c, struct view *v);

/* ---- one group: all of it by whoever has the turn ---- */

struct group {
    struct commit_request *first;
    size_t size, accepted;
    bool is_synced, is_written;
    struct catalog *catalog; /* the newest of the group, or NULL */
};

void group_register_metrics(void);
/* Against what was committed since r->position. Any thread; moves r->position on. */
MUST_CHECK enum errc group_check_window(struct committer *c, struct commit_request *r,
                                        struct error *err);
/* Writes what the group's transactions agree on; their rc tells the outcome. */
MUST_CHECK enum errc group_commit(struct committer *c, struct group *g, struct error *err);
/* After a failure: true when only the next start can tell what of the group is on disk. */
bool group_is_unknown(const struct group *g, enum errc rc);
/* After the group is published or has failed, while the requests are still there. */
void group_settle(struct committer *c, const struct group *g);

#endif
