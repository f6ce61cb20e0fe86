/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"
#include "base/metrics.h"
#include <pthread.h>
#include <stdio.h>

enum {
    NAME_BYTES = 16,
    WAITING_MAX = 60, /* threads beyond those that may run */
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct job *first, **last;
    unsigned queued, queue_max;
    unsigned threads; /* that may run at once */
    unsigned running; /* inside a job and not waiting; more than threads when many come back */
    unsigned started, idle;
    uint64_t posted, refused;
    bool is_closing;
    char name[NAME_BYTES];
    pthread_t *ids;
};

static _Thread_local struct pool *own_pool; /* of a worker */

static struct metric refused_total =
    METRIC_COUNTER("themis_pool_refused_total", "Jobs refused because the queue was full.");

static struct job *take(struct pool *p)
{
    struct job *job = p->first;

    p->first = job->next;
    if (!p->first)
        p->last = &p->first;
    p->queued--;
    return job;
}

static void *worker_main(void *arg);

/* Sees to it that somebody takes the first job, if one more may run. Lock held. */
static void find_worker(struct pool *p)
{
    if (!p->first || p->running >= p->threads)
        return;
    if (p->idle)
        pthread_cond_signal(&p->work);
    else if (p->started < p->threads + WAITING_MAX &&
             pthread_create(&p->ids[p->started], NULL, worker_main, p) == 0)
        p->started++; /* without it the job waits for one who comes back */
}

/* Lock held; false when the pool closes and nothing is left. */
static bool wait_for_job(struct pool *p)
{
    p->idle++;
    while (p->first ? p->running >= p->threads : !p->is_closing)
        pthread_cond_wait(&p->work, &p->lock);
    p->idle--;
    return p->first != NULL;
}

static void *worker_main(void *arg)
{
    struct pool *p = arg;

    pthread_setname_np(pthread_self(), p->name);
    own_pool = p;
    pthread_mutex_lock(&p->lock);
    while (wait_for_job(p)) {
        struct job *job = take(p);
        p->running++;
        find_worker(p); /* several jobs may have come for one signal */
        pthread_mutex_unlock(&p->lock);
        job->run(job);
        pthread_mutex_lock(&p->lock);
        p->running--;
    }
    pthread_cond_broadcast(&p->work); /* the others look again */
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

void pool_wait_begin(void)
{
    struct pool *p = own_pool;
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->running--;
    find_worker(p);
    pthread_mutex_unlock(&p->lock);
}

void pool_wait_end(void)
{
    struct pool *p = own_pool;
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->running++;
    pthread_mutex_unlock(&p->lock);
}

enum errc pool_new(struct pool **out, const char *name, unsigned threads, unsigned queue_max,
                   struct error *err)
{
    struct pool *p = mem_zalloc(sizeof *p);

    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    p->last = &p->first;
    p->queue_max = queue_max;
    p->threads = threads;
    p->ids = mem_alloc((threads + WAITING_MAX) * sizeof *p->ids);
    snprintf(p->name, sizeof p->name, "%s", name);
    metric_register(&refused_total);
    for (; p->started < threads; p->started++) {
        int why = pthread_create(&p->ids[p->started], NULL, worker_main, p);
        if (why) {
            pool_free(p);
            return fail(err, ERR_LIMIT, "cannot start a %s thread: %s", name, strerror(why));
        }
    }
    *out = p;
    return OK;
}

/* What is left in the queue may need one more, up to the end. */
static bool has_thread(struct pool *p, unsigned number)
{
    pthread_mutex_lock(&p->lock);
    bool is_started = number < p->started;
    pthread_mutex_unlock(&p->lock);
    return is_started;
}

void pool_stop(struct pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->is_closing = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; has_thread(p, i); i++)
        pthread_join(p->ids[i], NULL);
    pthread_mutex_lock(&p->lock);
    p->started = 0; /* pool_free finds nothing to join */
    pthread_mutex_unlock(&p->lock);
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    pool_stop(p);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    mem_free(p->ids);
    mem_free(p);
}

/* Lock held. */
static void append(struct pool *p, struct job *job)
{
    job->next = NULL;
    *p->last = job;
    p->last = &job->next;
    p->queued++;
    p->posted++;
    find_worker(p);
}

enum errc pool_post(struct pool *p, struct job *job, struct error *err)
{
    pthread_mutex_lock(&p->lock);
    bool is_closing = p->is_closing;
    bool is_full = is_closing || p->queued >= p->queue_max;
    if (is_full)
        p->refused++;
    else
        append(p, job);
    pthread_mutex_unlock(&p->lock);
    if (!is_full)
        return OK;
    if (is_closing)
        return fail(err, ERR_BUSY, "the %s pool has stopped", p->name);
    metric_add(&refused_total, 1);
    return fail(err, ERR_BUSY, "the queue of the %s pool is full (%u jobs)", p->name, p->queue_max);
}

void pool_resume(struct pool *p, struct job *job)
{
    pthread_mutex_lock(&p->lock);
    append(p, job);
    pthread_mutex_unlock(&p->lock);
}

void pool_stats(struct pool *p, struct pool_stats *out)
{
    pthread_mutex_lock(&p->lock);
    *out = (struct pool_stats){ p->threads,   p->running, p->queued,
                                p->queue_max, p->posted,  p->refused };
    pthread_mutex_unlock(&p->lock);
}
