/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "base/pool.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { JOBS = 20000 };

struct counted {
    struct job job;
    atomic_int *total;
};

static void count(struct job *job)
{
    struct counted *c = CONTAINER_OF(job, struct counted, job);

    atomic_fetch_add(c->total, 1);
    free(c);
}

static struct job *new_counted(atomic_int *total)
{
    struct counted *c = malloc(sizeof *c);

    *c = (struct counted){ { .run = count }, total };
    return &c->job;
}

struct poster {
    struct pool *pool;
    atomic_int *total;
};

static void *post_many(void *arg)
{
    struct poster *p = arg;

    for (int i = 0; i < JOBS / 4; i++) {
        struct job *job = new_counted(p->total);
        while (pool_post(p->pool, job, NULL) != OK)
            usleep(10);
    }
    return NULL;
}

static void every_job_runs_once_whoever_posts_it(void **state)
{
    atomic_int total = 0;
    struct poster p = { .total = &total };
    pthread_t threads[4];

    (void)state;
    assert_int_equal(pool_new(&p.pool, "test", 3, 64, NULL), OK);
    for (size_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, post_many, &p);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    pool_free(p.pool);
    assert_int_equal(total, JOBS);
}

/* A worker that waits until it is told to go on. */
struct gate {
    struct job job;
    sem_t entered, may_leave;
    char name[16];
};

static void wait_at_gate(struct job *job)
{
    struct gate *g = CONTAINER_OF(job, struct gate, job);

    pthread_getname_np(pthread_self(), g->name, sizeof g->name);
    sem_post(&g->entered);
    sem_wait(&g->may_leave);
}

static void gate_init(struct gate *g)
{
    g->job.run = wait_at_gate;
    sem_init(&g->entered, 0, 0);
    sem_init(&g->may_leave, 0, 0);
}

static void a_full_queue_refuses_new_work_but_takes_what_resumes(void **state)
{
    struct pool *pool;
    struct pool_stats stats;
    struct error err = { 0 };
    struct gate gate;
    atomic_int total = 0;

    (void)state;
    assert_int_equal(pool_new(&pool, "worker", 1, 2, &err), OK);
    gate_init(&gate);
    assert_int_equal(pool_post(pool, &gate.job, &err), OK);
    sem_wait(&gate.entered);
    assert_string_equal(gate.name, "worker");
    assert_int_equal(pool_post(pool, new_counted(&total), &err), OK);
    assert_int_equal(pool_post(pool, new_counted(&total), &err), OK);
    struct job *extra = new_counted(&total);
    assert_int_equal(pool_post(pool, extra, &err), ERR_BUSY);
    assert_int_equal(error_http(&err), 503);
    pool_resume(pool, extra);
    pool_stats(pool, &stats);
    assert_int_equal(stats.threads, 1);
    assert_int_equal(stats.busy, 1);
    assert_int_equal(stats.queued, 3);
    assert_int_equal(stats.queue_max, 2);
    assert_int_equal(stats.posted, 4);
    assert_int_equal(stats.refused, 1);
    assert_int_equal(total, 0);
    sem_post(&gate.may_leave);
    pool_free(pool); /* runs what is queued */
    assert_int_equal(total, 3);
}

struct ordered {
    struct job job;
    int number;
    int *next;
};

static void check_order(struct job *job)
{
    struct ordered *o = CONTAINER_OF(job, struct ordered, job);

    if (o->number != (*o->next)++)
        abort();
}

static void jobs_start_in_the_order_of_posting(void **state)
{
    struct ordered jobs[100];
    struct pool *pool;
    int next = 0;

    (void)state;
    assert_int_equal(pool_new(&pool, "one", 1, 100, NULL), OK);
    for (int i = 0; i < 100; i++) {
        jobs[i] = (struct ordered){ { .run = check_order }, i, &next };
        assert_int_equal(pool_post(pool, &jobs[i].job, NULL), OK);
    }
    pool_free(pool);
    assert_int_equal(next, 100);
    pool_free(NULL);
}

/* A job that waits for another one of the same pool. */
struct pair {
    struct job first, second;
    sem_t done;
    bool has_met;
};

static void wait_for_second(struct job *job)
{
    struct pair *p = CONTAINER_OF(job, struct pair, first);
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20;
    pool_wait_begin();
    p->has_met = sem_timedwait(&p->done, &end) == 0;
    pool_wait_end();
}

static void let_first_go(struct job *job)
{
    sem_post(&CONTAINER_OF(job, struct pair, second)->done);
}

static void a_job_that_waits_makes_room_for_another(void **state)
{
    struct pool *pool;
    struct pair pairs[8];
    (void)state;
    assert_int_equal(pool_new(&pool, "one", 1, 100, NULL), OK);
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        pairs[i] = (struct pair){ .first.run = wait_for_second, .second.run = let_first_go };
        sem_init(&pairs[i].done, 0, 0);
        assert_int_equal(pool_post(pool, &pairs[i].first, NULL), OK);
    }
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        assert_int_equal(pool_post(pool, &pairs[i].second, NULL), OK);
    pool_free(pool);
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        assert_true(pairs[i].has_met);
}

/* Counts who is inside between waits. */
struct runner {
    struct job job;
    atomic_int *inside, *most;
};

static void run_between_waits(struct job *job)
{
    struct runner *r = CONTAINER_OF(job, struct runner, job);
    int n = atomic_fetch_add(r->inside, 1) + 1, most = atomic_load(r->most);
    while (n > most && !atomic_compare_exchange_weak(r->most, &most, n))
        ;
    usleep(2000);
    atomic_fetch_sub(r->inside, 1);
    pool_wait_begin();
    usleep(20000);
    pool_wait_end();
}

static void no_more_start_than_may_run(void **state)
{
    struct pool *pool;
    struct runner runners[40];
    atomic_int inside = 0, most = 0;
    (void)state;
    assert_int_equal(pool_new(&pool, "two", 2, 100, NULL), OK);
    for (size_t i = 0; i < ARRAY_LEN(runners); i++) {
        runners[i] = (struct runner){ { .run = run_between_waits }, &inside, &most };
        assert_int_equal(pool_post(pool, &runners[i].job, NULL), OK);
    }
    pool_free(pool);
    assert_in_range(most, 1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_runs_once_whoever_posts_it),
        cmocka_unit_test(a_job_that_waits_makes_room_for_another),
        cmocka_unit_test(no_more_start_than_may_run),
        cmocka_unit_test(a_full_queue_refuses_new_work_but_takes_what_resumes),
        cmocka_unit_test(jobs_start_in_the_order_of_posting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
