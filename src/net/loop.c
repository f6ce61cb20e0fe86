/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One turn: timers, turn-end tasks, poll, turn-end tasks. Calls from other
 * threads go through a list and one eventfd; libuv's own uv_async is not used,
 * because 1.44 spins in it while the sender is preempted.
 */
#include "net/loop.h"
#include "base/fault.h"
#include "base/log.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

struct loop {
    uv_loop_t uv;
    uv_poll_t wake;
    uv_prepare_t prepare;
    uv_check_t check;
    int wake_fd;
    pthread_mutex_t lock;
    struct loop_task *first, **last; /* from other threads */
    struct loop_task *turn_first, **turn_last;
    pthread_t thread;
    atomic_bool is_running, is_stopping;
};

struct loop_timer {
    uv_timer_t handle;
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

/* Makes the wake-up event. 0, or why not. */
static int open_wake(struct loop *loop)
{
    loop->wake_fd =
        fault_errno("loop.eventfd", EMFILE) ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->wake_fd < 0)
        return uv_translate_sys_error(errno);
    int why =
        fault_hit("loop.poll") ? UV_ENOMEM : uv_poll_init(&loop->uv, &loop->wake, loop->wake_fd);
    if (why)
        close(loop->wake_fd);
    return why;
}

enum errc loop_new(struct loop **out, struct error *err)
{
    struct loop *loop = mem_zalloc(sizeof *loop);
    int why = fault_hit("loop.init") ? UV_EMFILE : uv_loop_init(&loop->uv);

    if (!why) {
        why = open_wake(loop);
        if (why)
            uv_loop_close(&loop->uv);
    }
    if (why) {
        mem_free(loop);
        return fail(err, ERR_LIMIT, "cannot make an event loop: %s", uv_strerror(why));
    }
    pthread_mutex_init(&loop->lock, NULL);
    loop->last = &loop->first;
    loop->turn_last = &loop->turn_first;
    uv_prepare_init(&loop->uv, &loop->prepare);
    uv_check_init(&loop->uv, &loop->check);
    loop->wake.data = loop->prepare.data = loop->check.data = loop;
    uv_poll_start(&loop->wake, UV_READABLE, on_wake);
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
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->check, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT); /* close callbacks */
    run_turn_end(loop);
    if (uv_loop_close(&loop->uv))
        log_warn("net", "the loop was freed with open handles");
    close(loop->wake_fd);
    pthread_mutex_destroy(&loop->lock);
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
    if (!atomic_load(&loop->is_stopping))
        uv_run(&loop->uv, UV_RUN_DEFAULT);
    atomic_store(&loop->is_running, false);
}

void loop_step(struct loop *loop)
{
    loop->thread = pthread_self();
    atomic_store(&loop->is_running, true);
    uv_run(&loop->uv, UV_RUN_NOWAIT);
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

struct loop_timer *loop_timer_new(struct loop *loop, void (*fn)(void *ctx), void *ctx)
{
    struct loop_timer *t = mem_zalloc(sizeof *t);

    uv_timer_init(&loop->uv, &t->handle);
    t->handle.data = t;
    t->fn = fn;
    t->ctx = ctx;
    return t;
}

static void on_timer(uv_timer_t *handle)
{
    struct loop_timer *t = handle->data;

    t->fn(t->ctx);
}

void loop_timer_start(struct loop_timer *t, uint64_t ms, uint64_t repeat_ms)
{
    uv_timer_start(&t->handle, on_timer, ms, repeat_ms);
}

void loop_timer_stop(struct loop_timer *t)
{
    uv_timer_stop(&t->handle);
}

static void timer_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

void loop_timer_free(struct loop_timer *t)
{
    if (t)
        uv_close((uv_handle_t *)&t->handle, timer_closed);
}

uint64_t loop_now_ms(const struct loop *loop)
{
    return uv_now(&loop->uv);
}
