/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "model/sched.h"

#include <stdlib.h>

enum { JOBS = 16, MS = 1000 };

/* The queue looks at times and groups only. */
static void add_jobs(struct sched *s, struct gen_job *jobs)
{
    struct error err;
    memset(jobs, 0, JOBS * sizeof *jobs);
    for (int i = 0; i < JOBS; i++) {
        jobs[i].deadline_us = UINT64_MAX;
        assert_int_equal(sched_add(s, &jobs[i], &err), OK);
    }
}

static int take_all(struct sched *s, uint32_t lane, uint64_t now_us)
{
    int n = 0;
    while (sched_take(s, lane, now_us))
        n++;
    return n;
}

static void a_lane_in_a_long_step_gets_its_share(void **state)
{
    struct gen_job jobs[JOBS];
    struct sched *s =
        sched_new(&(struct sched_options){ .lanes = 2, .places = JOBS, .queue_max = JOBS });
    (void)state;
    add_jobs(s, jobs);
    int first = take_all(s, 0, 0), second = take_all(s, 1, 0);
    first += take_all(s, 0, 200 * MS); /* the other one is in its step still */
    second += take_all(s, 1, 250 * MS);
    first += take_all(s, 0, 300 * MS);
    second += take_all(s, 1, 400 * MS);
    while (first + second < JOBS) {
        first += take_all(s, 0, 450 * MS);
        second += take_all(s, 1, 450 * MS);
    }
    assert_in_range(first, JOBS / 2 - 1, JOBS / 2 + 1);
    for (int i = 0; i < JOBS; i++)
        sched_done(s, i < first ? 0 : 1, 0);
    sched_free(s);
}

static void nobody_waits_for_a_lane_that_does_not_come(void **state)
{
    struct gen_job jobs[JOBS];
    struct sched *s =
        sched_new(&(struct sched_options){ .lanes = 2, .places = JOBS, .queue_max = JOBS });
    (void)state;
    add_jobs(s, jobs);
    int first = take_all(s, 0, 0);
    assert_true(first < JOBS);
    assert_int_equal(first + take_all(s, 0, 1300 * MS), JOBS);
    for (int i = 0; i < JOBS; i++)
        sched_done(s, 0, 0);
    sched_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_in_a_long_step_gets_its_share),
        cmocka_unit_test(nobody_waits_for_a_lane_that_does_not_come),
    };
    return cmocka_run_group_tests_name("sched", tests, NULL, NULL);
}
