/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster under 200 seeds (THEMIS_SIM_SEEDS): no request without an answer, no
 * answer twice, batches in order, counters that add up. THEMIS_SIM_SEED=n runs
 * one seed and says more. Seeds that once failed are in `kept`.
 */
#include "../check.h"
#include "fabric.h"
#include <stdlib.h>

static const uint64_t kept[] = { 1 };

static struct fabric fabric;

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t n;

    return text && slice_to_u64(slice_str(text), &n) ? n : otherwise;
}

static void run(uint64_t seed)
{
    fabric_run(&fabric, seed, PLANT_NOTHING);
    if (fabric.wrong[0])
        fail_msg("seed %llu: %s (THEMIS_SIM_SEED=%llu runs it alone)", (unsigned long long)seed,
                 fabric.wrong, (unsigned long long)seed);
}

static void every_request_is_answered_once_under_every_seed(void **state)
{
    uint64_t one = number("THEMIS_SIM_SEED", 0), seeds = number("THEMIS_SIM_SEEDS", 200);
    uint64_t answered = 0, retries = 0, late = 0, lost = 0, errors = 0;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(kept) && !one; i++)
        run(kept[i]);
    for (uint64_t seed = one ? one : 1000; seed < (one ? one + 1 : 1000 + seeds); seed++) {
        run(seed);
        answered += fabric.answered;
        retries += fabric.retries;
        late += fabric.late_answers;
        lost += fabric.lost;
        errors += fabric.row_errors;
    }
    print_message("%llu answers, %llu retries, %llu late answers dropped, %llu requests lost with "
                  "their node, %llu rows that ended as errors\n",
                  (unsigned long long)answered, (unsigned long long)retries,
                  (unsigned long long)late, (unsigned long long)lost, (unsigned long long)errors);
    if (!one)
        assert_true(retries && late && lost && errors); /* the faults did happen */
}

static void the_same_seed_gives_the_same_run(void **state)
{
    (void)state;
    fabric_run(&fabric, 7, PLANT_NOTHING);
    uint64_t events = fabric.c.time.orders, answered = fabric.answered, retries = fabric.retries;
    fabric_run(&fabric, 7, PLANT_NOTHING);
    assert_int_equal(fabric.c.time.orders, events);
    assert_int_equal(fabric.answered, answered);
    assert_int_equal(fabric.retries, retries);
}

/* The checks find each planted mistake within some seeds. */
static void planted_mistakes_are_found(void **state)
{
    static const struct {
        enum fabric_plant plant;
        const char *says;
    } plants[] = {
        { PLANT_TAKE_LATE, "answered twice" },
        { PLANT_NO_TIMEOUT, "has no answer" },
        { PLANT_TAKE_ROW, "answered twice" },
        { PLANT_DISORDER, "in place of" },
        { PLANT_LEAK, "calls" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(plants); i++) {
        bool is_found = false;
        for (uint64_t seed = 1; seed <= 20 && !is_found; seed++) {
            fabric_run(&fabric, seed, plants[i].plant);
            is_found = strstr(fabric.wrong, plants[i].says) != NULL;
        }
        if (!is_found)
            fail_msg("mistake %zu was not found; last: %s", i, fabric.wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_is_answered_once_under_every_seed),
        cmocka_unit_test(the_same_seed_gives_the_same_run),
        cmocka_unit_test(planted_mistakes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
