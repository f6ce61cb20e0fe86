/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "net/loop.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS = 4, POSTS = 20000 };

struct counter {
    struct loop *loop;
    struct loop_timer *timer;
    int ticks, ends;
    atomic_int posted;
    struct loop_task task, end_task;
};

struct counted {
    struct loop_task task;
    struct counter *c;
};

static struct loop *new_loop(void)
{
    struct loop *loop = NULL;
    struct error err = { 0 };

    assert_int_equal(loop_new(&loop, &err), OK);
    return loop;
}

static void on_tick(void *ctx)
{
    struct counter *c = ctx;

    assert_true(loop_is_here(c->loop));
    if (++c->ticks == 3)
        loop_stop(c->loop);
}

static void timers_repeat_until_stopped(void **state)
{
    struct counter c = { .loop = new_loop() };
    struct loop_timer *once = loop_timer_new(c.loop, on_tick, &c);

    (void)state;
    c.timer = loop_timer_new(c.loop, on_tick, &c);
    loop_timer_start(c.timer, 1, 2);
    loop_timer_start(once, 1, 0);
    loop_run(c.loop);
    assert_int_equal(c.ticks, 3);
    assert_true(loop_now_ms(c.loop) > 0);
    loop_timer_stop(c.timer);
    loop_timer_free(c.timer);
    loop_timer_free(once);
    loop_free(c.loop);
}

static void free_itself(void *ctx)
{
    struct counter *c = ctx;

    c->ticks++;
    loop_timer_free(c->timer);
    c->timer = NULL;
}

static void stop_the_loop(void *ctx)
{
    loop_stop(ctx);
}

static void never(void *ctx)
{
    (void)ctx;
    fail_msg("a stopped timer has run");
}

/* Three that are due together, in whatever order: one ends itself, one is stopped, one is late. */
static void a_timer_may_be_freed_by_its_own_call(void **state)
{
    struct counter c = { .loop = new_loop() };
    struct loop_timer *stopped = loop_timer_new(c.loop, never, NULL);
    struct loop_timer *last = loop_timer_new(c.loop, stop_the_loop, c.loop);

    (void)state;
    c.timer = loop_timer_new(c.loop, free_itself, &c);
    loop_timer_start(stopped, 1, 1);
    loop_timer_start(last, 10000, 0);
    loop_timer_start(c.timer, 1, 1);
    loop_timer_stop(stopped);
    loop_timer_start(last, 20, 0); /* again, earlier */
    loop_run(c.loop);
    assert_int_equal(c.ticks, 1);
    loop_timer_stop(last); /* it has run: nothing happens */
    loop_timer_free(last);
    loop_timer_free(stopped);
    loop_timer_free(NULL);
    loop_free(c.loop);
}

static void run_counted(struct loop_task *task)
{
    struct counter *c = CONTAINER_OF(task, struct counted, task)->c;

    assert_true(loop_is_here(c->loop));
    if (atomic_fetch_add(&c->posted, 1) + 1 == THREADS * POSTS)
        loop_stop(c->loop);
}

static void *post_many(void *arg)
{
    struct counted *tasks = arg;

    assert_false(loop_is_running_here(tasks->c->loop));
    for (int i = 0; i < POSTS; i++)
        loop_post(tasks[i].c->loop, &tasks[i].task);
    return NULL;
}

static void posts_from_threads_all_arrive(void **state)
{
    struct counter c = { .loop = new_loop() };
    struct counted *tasks = mem_zalloc(THREADS * POSTS * sizeof *tasks);
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS * POSTS; i++)
        tasks[i] = (struct counted){ .task.run = run_counted, .c = &c };
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, post_many, tasks + i * POSTS);
    loop_run(c.loop);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&c.posted), THREADS * POSTS);
    mem_free(tasks);
    loop_free(c.loop);
}

static void at_end(struct loop_task *task)
{
    struct counter *c = CONTAINER_OF(task, struct counter, end_task);

    c->ends++;
    if (c->ends < 3)
        loop_at_turn_end(c->loop, task); /* again in the same turn */
    else
        loop_stop(c->loop);
}

static void ask_for_end(struct loop_task *task)
{
    struct counter *c = CONTAINER_OF(task, struct counter, task);

    c->end_task.run = at_end;
    loop_at_turn_end(c->loop, &c->end_task);
    assert_int_equal(c->ends, 0);
}

static void work_for_the_end_of_a_turn_is_done_in_it(void **state)
{
    struct counter c = { .loop = new_loop(), .task.run = ask_for_end };

    (void)state;
    loop_post(c.loop, &c.task);
    loop_run(c.loop);
    assert_int_equal(c.ends, 3);
    loop_free(c.loop);
}

static void what_is_posted_after_the_end_still_runs_when_freed(void **state)
{
    struct counter c = { .loop = new_loop() };
    struct counted late = { .task.run = run_counted, .c = &c };

    (void)state;
    loop_stop(c.loop);
    loop_run(c.loop); /* returns at once */
    loop_post(c.loop, &late.task);
    loop_free(c.loop);
    assert_int_equal(atomic_load(&c.posted), 1);
    loop_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_repeat_until_stopped),
        cmocka_unit_test(a_timer_may_be_freed_by_its_own_call),
        cmocka_unit_test(posts_from_threads_all_arrive),
        cmocka_unit_test(work_for_the_end_of_a_turn_is_done_in_it),
        cmocka_unit_test(what_is_posted_after_the_end_still_runs_when_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
