/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of threads on simulated machines: what a step costs is a function of theirs. */
#include "model/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STEP_US = 10000 };

struct machine {
    struct pace pace;
    uint64_t us;
    unsigned cores, busy; /* threads of others that want a core and can be seen */
    bool is_stolen;       /* somebody unseen takes a core: steps of many threads wait for it */
    bool is_shared;       /* another lane works */
    unsigned scales_to;   /* more threads than this do not help */
    double growth;        /* of the cost of a step, by its number */
    unsigned steps, slow_steps;
};

static struct machine machine(unsigned cores)
{
    struct machine m = { .us = 1000000, .cores = cores, .scales_to = cores };
    pace_init(&m.pace, cores);
    return m;
}

/* One step; returns its threads. */
static unsigned step(struct machine *m, uint32_t tokens)
{
    unsigned free = m->busy + 1 < m->cores ? m->cores - m->busy : 1;
    struct pace_now now = {
        .us = m->us, .is_alone = !m->is_shared, .free_cores = free, .tokens = tokens
    };
    struct pace_step chosen = pace_next(&m->pace, &now);
    unsigned threads = chosen.threads, useful = threads < m->scales_to ? threads : m->scales_to;
    double us = STEP_US * tokens * (1 + m->growth * m->steps++) / (0.2 + 0.8 * useful);
    if (threads > 1 && (m->is_stolen || threads > free)) {
        us *= 20;
        m->slow_steps++;
    }
    m->us += (uint64_t)us + 50;
    pace_took(&m->pace, &chosen, m->us, (uint64_t)us);
    return threads;
}

static unsigned steps(struct machine *m, unsigned count, uint32_t tokens)
{
    unsigned threads = 0;
    for (unsigned i = 0; i < count; i++)
        threads = step(m, tokens);
    return threads;
}

static void run_for(struct machine *m, unsigned seconds)
{
    for (uint64_t begin = m->us; m->us - begin < seconds * 1000000ull;)
        step(m, 1);
}

static void a_quiet_machine_gives_a_lone_lane_its_cores(void **state)
{
    (void)state;
    struct machine m = machine(2);
    assert_int_equal(step(&m, 1), 1); /* measures first */
    assert_int_equal(step(&m, 1), 2);
    unsigned many = 0;
    for (int i = 0; i < 1000; i++)
        many += step(&m, 1) == 2;
    assert_in_range(many, 980, 1000); /* one thread is measured now and then */
    m = machine(1);
    assert_int_equal(steps(&m, 50, 1), 1);
}

static void others_who_want_a_core_get_it_at_once(void **state)
{
    (void)state;
    struct machine m = machine(2);
    steps(&m, 50, 1);
    m.busy = 1;
    for (int i = 0; i < 100; i++)
        assert_int_equal(step(&m, 1), 1);
    m.busy = 0;
    assert_int_equal(step(&m, 1), 1); /* one look is no proof */
    assert_int_equal(steps(&m, 20, 1), 2);
    m.is_shared = true;
    for (int i = 0; i < 100; i++)
        assert_int_equal(step(&m, 1), 1);
    assert_int_equal(m.slow_steps, 0);
}

static void a_neighbour_who_cannot_be_seen_costs_few_steps(void **state)
{
    (void)state;
    struct machine m = machine(2);
    steps(&m, 50, 1);
    m.is_stolen = true;
    run_for(&m, 60);
    assert_in_range(m.slow_steps, 1, 9); /* waits 0.25, 0.5, ... 30 s between them */
    m.is_stolen = false;
    run_for(&m, 100);
    assert_int_equal(steps(&m, 5, 1), 2);
    m.is_stolen = true; /* forgiven by now: it waits shortly again */
    step(&m, 1);
    m.is_stolen = false;
    run_for(&m, 1);
    assert_int_equal(steps(&m, 5, 1), 2);
}

static void only_as_many_as_pay(void **state)
{
    (void)state;
    struct machine m = machine(16);
    m.scales_to = 4;
    steps(&m, 200, 1);
    unsigned fours = 0;
    for (int i = 0; i < 200; i++)
        fours += step(&m, 1) == 4;
    assert_in_range(fours, 180, 200);
    m.busy = 13; /* three are left */
    steps(&m, 5, 1);
    assert_int_equal(steps(&m, 5, 1), 2);
}

static void a_growing_context_is_not_taken_for_a_slow_machine(void **state)
{
    (void)state;
    struct machine m = machine(2);
    m.growth = 0.002;
    steps(&m, 50, 1);
    unsigned many = 0;
    for (int i = 0; i < 2000; i++)
        many += step(&m, 1) == 2;
    assert_in_range(many, 1980, 2000);
}

static void prompts_use_what_pays(void **state)
{
    (void)state;
    struct machine m = machine(2);
    assert_int_equal(step(&m, 500), 1); /* never measured */
    assert_int_equal(step(&m, 500), 2);
    m.us += 100000000;
    assert_int_equal(step(&m, 500), 2); /* not measured again */
    m.is_stolen = true;
    assert_int_equal(step(&m, 500), 2);
    assert_int_equal(step(&m, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quiet_machine_gives_a_lone_lane_its_cores),
        cmocka_unit_test(others_who_want_a_core_get_it_at_once),
        cmocka_unit_test(a_neighbour_who_cannot_be_seen_costs_few_steps),
        cmocka_unit_test(only_as_many_as_pay),
        cmocka_unit_test(a_growing_context_is_not_taken_for_a_slow_machine),
        cmocka_unit_test(prompts_use_what_pays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
