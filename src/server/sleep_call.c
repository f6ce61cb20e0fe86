/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleepers stand in a list under a lock. While there are any, a timer of the loop
 * looks through it every TICK_MS; starting that timer is posted to the loop, since a
 * query comes on a worker. Nobody is woken with the lock held.
 */
#include "server/sleep_call.h"
#include "base/env.h"
#include "net/loop.h"
#include <pthread.h>

enum { TICK_MS = 10, SLEEP_MAX_S = 3600 };

struct sleeper {
    struct call_batch *batch;
    uint64_t until_ms;
    struct sleeper *next;
};

struct sleep_calls {
    struct batch_call row;
    struct loop *loop;
    struct loop_timer *timer; /* the loop's; NULL before the first sleeper */
    struct loop_task start_task;
    pthread_mutex_t lock;
    struct sleeper *first; /* under the lock, like the next two */
    bool is_ticking;       /* the timer runs or was asked for */
    bool is_stopped;
};

static bool is_over(const struct sleeper *s, uint64_t now_ms)
{
    return now_ms >= s->until_ms || (s->batch->cancel && atomic_load(s->batch->cancel));
}

/* Takes out who may go on; the caller wakes them. Under the lock. */
static struct sleeper *take(struct sleep_calls *s, uint64_t now_ms)
{
    struct sleeper *awake = NULL;

    for (struct sleeper **at = &s->first; *at;) {
        struct sleeper *one = *at;
        if (!is_over(one, now_ms)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        one->next = awake;
        awake = one;
    }
    return awake;
}

static void wake(struct sleeper *awake)
{
    while (awake) {
        struct sleeper *next = awake->next;
        struct call_batch *batch = awake->batch;
        mem_free(awake);
        batch->done(batch);
        awake = next;
    }
}

static void tick(void *ctx)
{
    struct sleep_calls *s = ctx;

    pthread_mutex_lock(&s->lock);
    struct sleeper *awake = take(s, env_mono_ms(env_system()));
    if (!s->first) {
        s->is_ticking = false;
        loop_timer_stop(s->timer);
    }
    pthread_mutex_unlock(&s->lock);
    wake(awake);
}

static void start_timer(struct loop_task *task)
{
    struct sleep_calls *s = CONTAINER_OF(task, struct sleep_calls, start_task);

    pthread_mutex_lock(&s->lock);
    bool is_stopped = s->is_stopped;
    pthread_mutex_unlock(&s->lock);
    if (is_stopped) /* the loop runs what is left while it is freed */
        return;
    if (!s->timer)
        s->timer = loop_timer_new(s->loop, tick, s);
    loop_timer_start(s->timer, TICK_MS, TICK_MS);
}

/* Seconds of all rows, one after the other. */
static enum errc read_ms(const struct call_batch *b, uint64_t *ms, struct error *err)
{
    double total = 0;

    for (size_t i = 0; i < b->count; i++) {
        double seconds = val_double(b->rows[i].args[0]);
        if (val_type(b->rows[i].args[0]) != VAL_NUMBER || !(seconds >= 0))
            return fail_num(err, 1542, "SLEEP takes a number of seconds from 0");
        total += seconds;
    }
    if (total > SLEEP_MAX_S)
        return fail_num(err, 10, "SLEEP for %.0f seconds is longer than the limit of %d", total,
                        SLEEP_MAX_S);
    *ms = (uint64_t)(total * 1000);
    return OK;
}

static enum errc sleep_start(const struct batch_call *call, struct call_batch *b, struct error *err)
{
    struct sleep_calls *s = call->ctx;
    uint64_t ms;
    enum errc rc = read_ms(b, &ms, err);

    if (rc != OK)
        return rc;
    if (b->deadline_ms && b->deadline_ms < ms)
        ms = b->deadline_ms;
    struct sleeper *one = mem_zalloc(sizeof *one);
    *one = (struct sleeper){ .batch = b, .until_ms = env_mono_ms(env_system()) + ms };
    pthread_mutex_lock(&s->lock);
    bool is_stopped = s->is_stopped, starts = !is_stopped && !s->is_ticking;
    if (!is_stopped) {
        one->next = s->first;
        s->first = one;
        s->is_ticking = true;
    }
    pthread_mutex_unlock(&s->lock);
    if (starts)
        loop_post(s->loop, &s->start_task);
    if (is_stopped)
        wake(one);
    return OK;
}

struct sleep_calls *sleep_calls_new(struct loop *loop)
{
    struct sleep_calls *s = mem_zalloc(sizeof *s);

    s->row = (struct batch_call){ .name = "SLEEP",
                                  .min_args = 1,
                                  .max_args = 1,
                                  .max_rows = LIMIT_ROWS_PER_BATCH,
                                  .start = sleep_start,
                                  .ctx = s,
                                  .is_model_free = true };
    s->loop = loop;
    s->start_task.run = start_timer;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

const struct batch_call *sleep_calls_row(struct sleep_calls *s)
{
    return &s->row;
}

void sleep_calls_stop(struct sleep_calls *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->is_stopped = true;
    struct sleeper *awake = take(s, UINT64_MAX);
    pthread_mutex_unlock(&s->lock);
    if (s->timer)
        loop_timer_free(s->timer);
    s->timer = NULL;
    wake(awake);
}

void sleep_calls_free(struct sleep_calls *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}
