/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order is arrival, with two exceptions that are bounded in time: a lane leaves
 * a job to another lane that runs its beginning (while few of that group run
 * there: sharing saves prefill, spreading doubles decode speed), and to another
 * lane that has less to do, longer when it has much less.
 */
#include "model/sched.h"

#include "base/metrics.h"

#include <pthread.h>
#include <time.h>

enum {
    LOOK_AHEAD = 64,         /* jobs that a lane looks at */
    GROUP_SPREAD = 4,        /* from so many of a group on, other lanes help */
    LEAVE_GROUP_US = 200000, /* how long a job is left to the lane of its group */
    LEAVE_IDLE_US = 50000,
    FAR_APART = 2,         /* with so much less to do the other lane is worth waiting for: */
    LEAVE_FAR_US = 500000, /* it may be in a long step, and who is taken now stays here */
    WAIT_MS = 20,          /* flags of waiting jobs are looked at so often when idle */
};

static struct metric running_now =
    METRIC_GAUGE("themis_requests_running", "Generations that have a place in a lane.");
static struct metric waiting_now =
    METRIC_GAUGE("themis_pending_llm_requests", "Generations that wait for a place.");

struct lane_view {
    uint32_t running;
    uint64_t groups[ENGINE_SEQ_MAX]; /* one entry per running sequence */
    uint32_t group_count;
};

struct sched {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct gen_job *head, *tail;
    uint32_t waiting;
    struct sched_options opt;
    struct lane_view lanes[LANES_MAX];
    atomic_bool is_stopping, is_closed;
    const char *_Atomic why;
};

struct sched *sched_new(const struct sched_options *opt)
{
    struct sched *s = mem_zalloc(sizeof *s);
    pthread_condattr_t attr;
    s->opt = *opt;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &attr);
    pthread_condattr_destroy(&attr);
    return s;
}

void sched_free(struct sched *s)
{
    if (!s)
        return;
    assert(s->waiting == 0);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

enum errc sched_add(struct sched *s, struct gen_job *job, struct error *err)
{
    enum errc rc = OK;
    pthread_mutex_lock(&s->lock);
    if (s->is_closed) {
        rc = fail(err, ERR_NOT_FOUND, "the model is being unloaded");
    } else if (s->is_stopping) {
        rc = fail(err, ERR_BUSY, "the server is shutting down");
    } else if (s->waiting >= s->opt.queue_max) {
        rc = fail(err, ERR_BUSY, "%u generations are waiting already", s->waiting);
    } else {
        job->next = NULL;
        if (s->tail)
            s->tail->next = job;
        else
            s->head = job;
        s->tail = job;
        s->waiting++;
        metric_add(&waiting_now, 1);
        pthread_cond_broadcast(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static uint32_t group_size(const struct lane_view *l, uint64_t group)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->group_count; i++)
        n += l->groups[i] == group;
    return n;
}

static void group_add(struct lane_view *l, uint64_t group)
{
    assert(l->group_count < ARRAY_LEN(l->groups));
    l->groups[l->group_count++] = group;
}

static void group_remove(struct lane_view *l, uint64_t group)
{
    for (uint32_t i = 0; i < l->group_count; i++) {
        if (l->groups[i] == group) {
            l->groups[i] = l->groups[--l->group_count];
            return;
        }
    }
    BUG("a group that is not there");
}

/* Should this lane leave the job to another one for now? */
static bool belongs_elsewhere(const struct sched *s, uint32_t lane, const struct gen_job *job,
                              uint64_t now_us)
{
    const struct lane_view *me = &s->lanes[lane];
    uint64_t waited = now_us - job->submitted_us;
    if (job->group && group_size(me, job->group) > 0)
        return false;
    for (uint32_t i = 0; i < s->opt.lanes; i++) {
        const struct lane_view *other = &s->lanes[i];
        if (i == lane || other->running >= s->opt.places)
            continue;
        uint32_t group = job->group ? group_size(other, job->group) : 0;
        if (group > 0 && group < GROUP_SPREAD && waited < LEAVE_GROUP_US)
            return true;
        if (other->running < me->running && waited < LEAVE_IDLE_US)
            return true;
        if (other->running + FAR_APART <= me->running && waited < LEAVE_FAR_US)
            return true;
    }
    return false;
}

struct gen_job *sched_take(struct sched *s, uint32_t lane, uint64_t now_us)
{
    struct gen_job *job = NULL, *before = NULL;
    pthread_mutex_lock(&s->lock);
    struct lane_view *me = &s->lanes[lane];
    if (me->running < s->opt.places) {
        job = s->head;
        for (int i = 0; job && belongs_elsewhere(s, lane, job, now_us); i++) {
            before = job;
            job = i < LOOK_AHEAD ? job->next : NULL;
        }
    }
    if (job) {
        if (before)
            before->next = job->next;
        else
            s->head = job->next;
        if (s->tail == job)
            s->tail = before;
        job->next = NULL;
        s->waiting--;
        me->running++;
        metric_add(&waiting_now, -1);
        metric_add(&running_now, 1);
        group_add(me, job->group);
    }
    pthread_mutex_unlock(&s->lock);
    return job;
}

void sched_return(struct sched *s, uint32_t lane, struct gen_job *job)
{
    pthread_mutex_lock(&s->lock);
    job->next = s->head;
    s->head = job;
    if (!s->tail)
        s->tail = job;
    s->waiting++;
    s->lanes[lane].running--;
    metric_add(&waiting_now, 1);
    metric_add(&running_now, -1);
    group_remove(&s->lanes[lane], job->group);
    pthread_mutex_unlock(&s->lock);
}

void sched_done(struct sched *s, uint32_t lane, uint64_t group)
{
    pthread_mutex_lock(&s->lock);
    s->lanes[lane].running--;
    metric_add(&running_now, -1);
    group_remove(&s->lanes[lane], group);
    pthread_mutex_unlock(&s->lock);
}

struct gen_job *sched_sweep(struct sched *s, uint64_t now_us)
{
    struct gen_job *dead = NULL;
    pthread_mutex_lock(&s->lock);
    struct gen_job **link = &s->head;
    s->tail = NULL;
    while (*link) {
        struct gen_job *job = *link;
        if (s->is_stopping || gen_job_is_cancelled(job) || now_us >= job->deadline_us) {
            *link = job->next;
            job->next = dead;
            dead = job;
            s->waiting--;
            metric_add(&waiting_now, -1);
        } else {
            s->tail = job;
            link = &job->next;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return dead;
}

bool sched_wait(struct sched *s)
{
    struct timespec until;
    pthread_mutex_lock(&s->lock);
    if (s->head && !s->is_stopping) {
        /* Somebody waits for another lane or for cells: look again soon. */
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += WAIT_MS * 1000000L;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_nsec -= 1000000000L;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&s->wake, &s->lock, &until);
    } else {
        while (!s->head && !s->is_stopping)
            pthread_cond_wait(&s->wake, &s->lock);
    }
    bool is_open = !s->is_stopping;
    pthread_mutex_unlock(&s->lock);
    return is_open;
}

void sched_close(struct sched *s)
{
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->is_closed, true);
    pthread_mutex_unlock(&s->lock);
}

const char *sched_stop_reason(struct sched *s)
{
    return atomic_load(&s->why);
}

void sched_stop(struct sched *s, const char *why)
{
    pthread_mutex_lock(&s->lock);
    if (!s->is_stopping)
        atomic_store(&s->why, why);
    atomic_store(&s->is_stopping, true);
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

bool sched_is_stopping(struct sched *s)
{
    return atomic_load_explicit(&s->is_stopping, memory_order_relaxed);
}

bool sched_is_alone(struct sched *s, uint32_t lane)
{
    pthread_mutex_lock(&s->lock);
    bool is_alone = s->waiting == 0;
    for (uint32_t i = 0; i < s->opt.lanes; i++)
        is_alone = is_alone && (i == lane || s->lanes[i].running == 0);
    pthread_mutex_unlock(&s->lock);
    return is_alone;
}

void sched_counts(struct sched *s, uint32_t *waiting, uint32_t *running)
{
    *running = 0;
    pthread_mutex_lock(&s->lock);
    *waiting = s->waiting;
    for (uint32_t i = 0; i < s->opt.lanes; i++)
        *running += s->lanes[i].running;
    pthread_mutex_unlock(&s->lock);
}
