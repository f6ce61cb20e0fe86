/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool -- worker threads with a bounded queue.
 *
 * A job is embedded in what it works on; posting hands over everything
 * reachable from it. New work is refused when the queue is full; work that was
 * admitted before and waited for somebody comes back by pool_resume, which
 * never fails (its number is bounded by what was admitted).
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/base.h"
#include "base/error.h"

struct pool;

struct job {
    void (*run)(struct job *job); /* on a worker; may free the job */
    struct job *next;             /* the pool's */
};

MUST_CHECK enum errc pool_new(struct pool **out, const char *name, unsigned threads,
                              unsigned queue_max, struct error *err);

/* Runs what is queued, joins the threads. No posting from elsewhere during this. NULL is allowed. */
void pool_free(struct pool *pool);

/* ERR_BUSY when the queue is full. */
MUST_CHECK enum errc pool_post(struct pool *pool, struct job *job, struct error *err);
void pool_resume(struct pool *pool, struct job *job);

struct pool_stats {
    unsigned threads, busy, queued, queue_max;
    uint64_t posted, refused;
};
void pool_stats(struct pool *pool, struct pool_stats *out);

#endif
