/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One turn: timers, turn-end tasks, poll, turn-end tasks. Calls from other
 * threads go through a list and one eventfd; libuv's own uv_async is not used,
 * because 1.44 spins in it while the sender is preempted.
 *
 * Timers share one timerfd. With libuv's, each wait would have an end, for which
 * the kernel sets a timer and takes it back.
 */
#include "net/loop.h"
#include "base/fault.h"
#include "base/log.h"
#include "net/blocks.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

enum { BLOCKS_KEEP = 4 * MIB };

struct loop {
    uv_loop_t uv;
    uv_poll_t wake, alarm;
    uv_prepare_t prepare;
    uv_check_t check;
    int wake_fd, alarm_fd;
    uint64_t alarm_ms;         /* monotonic; 0 = not set */
    struct loop_timer *timers; /* those that run; few */
    pthread_mutex_t lock;
    struct loop_task *first, **last; /* from other threads */
    struct loop_task *turn_first, **turn_last;
    struct blocks *blocks;
    pthread_t thread;
    atomic_bool is_running, is_stopping;
};

struct loop_timer {
    struct loop *loop;
    struct loop_timer *next, **prev; /* prev NULL: it does not run */
    uint64_t due_ms, repeat_ms;
    void (*fn)(void *ctx);
    void *ctx;
};

static void run_tasks(struct loop_task *task)
{
    while (task) {
        struct loop_task *next = task->next; /* the task may be posted again or freed */
        task->run(task);
        task = next;
    }
}

static void on_wake(uv_poll_t *handle, int status, int events)
{
    struct loop *loop = handle->data;
    uint64_t count;

    (void)status, (void)events;
    if ((fault_errno("loop.wake", EIO) || read(loop->wake_fd, &count, sizeof count) < 0) &&
        errno != EAGAIN)
        log_error("net", "reading the wake-up event failed: %s", strerror(errno));
    pthread_mutex_lock(&loop->lock);
    struct loop_task *task = loop->first;
    loop->first = NULL;
    loop->last = &loop->first;
    pthread_mutex_unlock(&loop->lock);
    run_tasks(task);
    if (atomic_load(&loop->is_stopping))
        uv_stop(&loop->uv);
}

static void run_turn_end(struct loop *loop)
{
    while (loop->turn_first) {
        struct loop_task *task = loop->turn_first;
        loop->turn_first = NULL;
        loop->turn_last = &loop->turn_first;
        run_tasks(task);
    }
}

static void on_prepare(uv_prepare_t *handle)
{
    run_turn_end(handle->data);
}

static void on_check(uv_check_t *handle)
{
    run_turn_end(handle->data);
}

/* Watches a descriptor that was just made, -1 when that failed with errno. 0, or why not. */
static int watch(struct loop *loop, uv_poll_t *handle, int fd)
{
    if (fd < 0)
        return uv_translate_sys_error(errno);
    int why = fault_hit("loop.poll") ? UV_ENOMEM : uv_poll_init(&loop->uv, handle, fd);
    if (why)
        close(fd);
    return why;
}

static int open_wake(struct loop *loop)
{
    loop->wake_fd =
        fault_errno("loop.eventfd", EMFILE) ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return watch(loop, &loop->wake, loop->wake_fd);
}

static int open_alarm(struct loop *loop)
{
    loop->alarm_fd = fault_errno("loop.timerfd", EMFILE)
                         ? -1
                         : timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    return watch(loop, &loop->alarm, loop->alarm_fd);
}

/* 0, or why not. */
static int open_both(struct loop *loop)
{
    int why = open_wake(loop);

    if (why)
        return why;
    why = open_alarm(loop);
    if (!why)
        return 0;
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    close(loop->wake_fd);
    return why;
}

static void on_alarm(uv_poll_t *handle, int status, int events);

enum errc loop_new(struct loop **out, struct error *err)
{
    struct loop *loop = mem_zalloc(sizeof *loop);
    int why = fault_hit("loop.init") ? UV_EMFILE : uv_loop_init(&loop->uv);

    if (!why) {
        why = open_both(loop);
        if (why)
            uv_loop_close(&loop->uv);
    }
    if (why) {
        mem_free(loop);
        return fail(err, ERR_LIMIT, "cannot make an event loop: %s", uv_strerror(why));
    }
    pthread_mutex_init(&loop->lock, NULL);
    loop->blocks = blocks_new(BLOCKS_KEEP);
    loop->last = &loop->first;
    loop->turn_last = &loop->turn_first;
    uv_prepare_init(&loop->uv, &loop->prepare);
    uv_check_init(&loop->uv, &loop->check);
    loop->wake.data = loop->alarm.data = loop->prepare.data = loop->check.data = loop;
    uv_poll_start(&loop->wake, UV_READABLE, on_wake);
    uv_poll_start(&loop->alarm, UV_READABLE, on_alarm);
    uv_prepare_start(&loop->prepare, on_prepare);
    uv_check_start(&loop->check, on_check);
    *out = loop;
    return OK;
}

void loop_free(struct loop *loop)
{
    struct loop_task *late;

    if (!loop)
        return;
    late = loop->first; /* what was posted after the end still gives back what it holds */
    loop->first = NULL;
    loop->last = &loop->first;
    run_tasks(late);
    run_turn_end(loop);
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_close((uv_handle_t *)&loop->alarm, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->check, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT); /* close callbacks */
    run_turn_end(loop);
    if (uv_loop_close(&loop->uv))
        log_warn("net", "the loop was freed with open handles");
    close(loop->wake_fd);
    close(loop->alarm_fd);
    pthread_mutex_destroy(&loop->lock);
    blocks_free(loop->blocks);
    mem_free(loop);
}

void *loop_uv(struct loop *loop)
{
    return &loop->uv;
}

void loop_run(struct loop *loop)
{
    loop->thread = pthread_self();
    atomic_store(&loop->is_running, true);
    blocks_use(loop->blocks);
    if (!atomic_load(&loop->is_stopping))
        uv_run(&loop->uv, UV_RUN_DEFAULT);
    blocks_use(NULL);
    atomic_store(&loop->is_running, false);
}

void loop_step(struct loop *loop)
{
    loop->thread = pthread_self();
    atomic_store(&loop->is_running, true);
    blocks_use(loop->blocks);
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    blocks_use(NULL);
    atomic_store(&loop->is_running, false);
}

static void wake(struct loop *loop)
{
    uint64_t one = 1;

    while (write(loop->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void loop_stop(struct loop *loop)
{
    atomic_store(&loop->is_stopping, true);
    wake(loop);
}

bool loop_is_here(const struct loop *loop)
{
    return !atomic_load(&loop->is_running) || pthread_equal(loop->thread, pthread_self());
}

bool loop_is_running(const struct loop *loop)
{
    return atomic_load(&loop->is_running);
}

bool loop_is_running_here(const struct loop *loop)
{
    return atomic_load(&loop->is_running) && pthread_equal(loop->thread, pthread_self());
}

void loop_flush(struct loop *loop)
{
    run_turn_end(loop);
}

void loop_post(struct loop *loop, struct loop_task *task)
{
    pthread_mutex_lock(&loop->lock);
    bool was_empty = !loop->first;
    task->next = NULL;
    *loop->last = task;
    loop->last = &task->next;
    pthread_mutex_unlock(&loop->lock);
    if (was_empty)
        wake(loop);
}

void loop_at_turn_end(struct loop *loop, struct loop_task *task)
{
    task->next = NULL;
    *loop->turn_last = task;
    loop->turn_last = &task->next;
}

/* ---- timers ---- */

/* The alarm goes off when the next one is due. */
static void set_alarm(struct loop *loop)
{
    uint64_t due_ms = 0;

    for (const struct loop_timer *t = loop->timers; t; t = t->next)
        if (!due_ms || t->due_ms < due_ms)
            due_ms = t->due_ms;
    if (due_ms == loop->alarm_ms)
        return;
    loop->alarm_ms = due_ms;
    struct itimerspec at = { .it_value = { .tv_sec = (time_t)(due_ms / 1000),
                                           .tv_nsec = (long)(due_ms % 1000) * 1000000 } };
    timerfd_settime(loop->alarm_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static struct loop_timer *find_due(const struct loop *loop, uint64_t now_ms)
{
    struct loop_timer *t = loop->timers;

    while (t && t->due_ms > now_ms)
        t = t->next;
    return t;
}

static void on_alarm(uv_poll_t *handle, int status, int events)
{
    struct loop *loop = handle->data;
    uint64_t now_ms = uv_hrtime() / 1000000, count;
    struct loop_timer *t;

    (void)status, (void)events;
    if (read(loop->alarm_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        log_error("net", "reading the alarm failed: %s", strerror(errno));
    while (!atomic_load(&loop->is_stopping) && (t = find_due(loop, now_ms))) {
        if (t->repeat_ms)
            t->due_ms = now_ms + t->repeat_ms;
        else
            loop_timer_stop(t);
        t->fn(t->ctx); /* it may free the timer */
    }
    set_alarm(loop);
}

struct loop_timer *loop_timer_new(struct loop *loop, void (*fn)(void *ctx), void *ctx)
{
    struct loop_timer *t = mem_zalloc(sizeof *t);

    t->loop = loop;
    t->fn = fn;
    t->ctx = ctx;
    return t;
}

void loop_timer_start(struct loop_timer *t, uint64_t ms, uint64_t repeat_ms)
{
    struct loop *loop = t->loop;

    loop_timer_stop(t);
    t->due_ms = uv_hrtime() / 1000000 + ms + 1; /* never early */
    t->repeat_ms = repeat_ms;
    t->prev = &loop->timers;
    t->next = loop->timers;
    if (t->next)
        t->next->prev = &t->next;
    loop->timers = t;
    set_alarm(loop);
}

void loop_timer_stop(struct loop_timer *t)
{
    if (!t->prev)
        return;
    *t->prev = t->next;
    if (t->next)
        t->next->prev = t->prev;
    t->prev = NULL;
}

void loop_timer_free(struct loop_timer *t)
{
    if (t)
        loop_timer_stop(t);
    mem_free(t);
}

uint64_t loop_now_ms(const struct loop *loop)
{
    return uv_now(&loop->uv);
}
