/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool -- worker threads with a bounded queue, of which so many run at once.
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

/* Runs what is queued, joins the threads. Whoever posts afterwards gets ERR_BUSY. */
void pool_stop(struct pool *pool);
/* Stops, then frees. No posting from elsewhere during this. NULL is allowed. */
void pool_free(struct pool *pool);

/*
 * Around a wait for the disk or for others, by a job: it does not count as running meanwhile, so
 * that another runs in its place, on a further thread when there is none. On a thread that is not a
 * worker they do nothing.
 */
void pool_wait_begin(void);
void pool_wait_end(void);

/* ERR_BUSY when the queue is full, or the pool stops. */
MUST_CHECK enum errc pool_post(struct pool *pool, struct job *job, struct error *err);
void pool_resume(struct pool *pool, struct job *job);

struct pool_stats {
    unsigned threads; /* that may run at once */
    unsigned busy;    /* that run */
    unsigned queued, queue_max;
    uint64_t posted, refused;
};
void pool_stats(struct pool *pool, struct pool_stats *out);

#endif
