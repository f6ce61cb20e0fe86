/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "cluster/breaker.h"

enum { S = 1000000 };

/* One call at a time: begins it, which must be allowed, and ends it. */
static void call(struct breaker *b, uint64_t now, enum breaker_outcome outcome)
{
    struct breaker_ticket t;

    assert_true(breaker_would_allow(b, now));
    assert_true(breaker_begin(b, now, &t));
    breaker_end(b, t, outcome, now);
}

static bool is_refused(struct breaker *b, uint64_t now)
{
    struct breaker_ticket t;
    bool would = breaker_would_allow(b, now);
    bool is_let = breaker_begin(b, now, &t);

    assert_int_equal(would, is_let);
    return !is_let;
}

static void five_failures_in_a_row_open_it(void **state)
{
    struct breaker b;

    (void)state;
    breaker_init(&b, NULL);
    for (int i = 0; i < 4; i++)
        call(&b, 0, BREAKER_FAILURE);
    assert_int_equal(b.state, BREAKER_CLOSED);
    call(&b, 0, BREAKER_SUCCESS); /* not in a row */
    for (int i = 0; i < 4; i++)
        call(&b, 0, BREAKER_FAILURE);
    assert_int_equal(b.state, BREAKER_CLOSED);
    call(&b, 0, BREAKER_FAILURE);
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_true(is_refused(&b, 0));
    assert_int_equal(b.stats.opened, 1);
    assert_int_equal(b.stats.refused, 1);
}

static void a_4xx_and_an_orderly_busy_count_neither_way(void **state)
{
    static const int neutral[] = { 400, 401, 404, 408, 409, 413, 422, 429, 499, 501, 503 };
    struct breaker b;

    (void)state;
    breaker_init(&b, NULL);
    for (int i = 0; i < 4; i++)
        call(&b, 0, BREAKER_FAILURE);
    for (size_t i = 0; i < ARRAY_LEN(neutral); i++)
        call(&b, 0, breaker_outcome_of(neutral[i]));
    assert_int_equal(b.state, BREAKER_CLOSED);
    assert_int_equal(b.failures, 4); /* nor do they reset the count */
    call(&b, 0, breaker_outcome_of(500));
    assert_int_equal(b.state, BREAKER_OPEN);
}

static void statuses_are_told_apart(void **state)
{
    (void)state;
    assert_int_equal(breaker_outcome_of(200), BREAKER_SUCCESS);
    assert_int_equal(breaker_outcome_of(204), BREAKER_SUCCESS);
    assert_int_equal(breaker_outcome_of(304), BREAKER_SUCCESS);
    assert_int_equal(breaker_outcome_of(0), BREAKER_FAILURE);
    assert_int_equal(breaker_outcome_of(500), BREAKER_FAILURE);
    assert_int_equal(breaker_outcome_of(502), BREAKER_FAILURE);
    assert_int_equal(breaker_outcome_of(504), BREAKER_FAILURE);
    assert_int_equal(breaker_outcome_of(-1), BREAKER_FAILURE);
}

static void open_at(struct breaker *b, uint64_t now)
{
    breaker_init(b, NULL);
    for (int i = 0; i < 5; i++)
        call(b, now, BREAKER_FAILURE);
    assert_int_equal(b->state, BREAKER_OPEN);
}

static void one_probe_leaves_after_sixty_seconds(void **state)
{
    struct breaker b;
    struct breaker_ticket probe;

    (void)state;
    open_at(&b, 10 * S);
    assert_true(is_refused(&b, 70 * S - 1));
    assert_true(breaker_begin(&b, 70 * S, &probe));
    assert_true(probe.is_probe);
    assert_int_equal(b.state, BREAKER_HALF_OPEN);
    for (int i = 0; i < 100; i++)
        assert_true(is_refused(&b, 70 * S + i));
    breaker_end(&b, probe, BREAKER_SUCCESS, 71 * S);
    assert_int_equal(b.state, BREAKER_CLOSED);
    assert_false(is_refused(&b, 71 * S));
    assert_int_equal(b.stats.probes, 1);
    assert_int_equal(b.stats.closed, 1);
}

static void a_probe_that_fails_opens_it_for_another_sixty_seconds(void **state)
{
    struct breaker b;
    struct breaker_ticket probe;

    (void)state;
    open_at(&b, 0);
    assert_true(breaker_begin(&b, 60 * S, &probe));
    breaker_end(&b, probe, BREAKER_FAILURE, 65 * S);
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_true(is_refused(&b, 125 * S - 1));
    assert_false(is_refused(&b, 125 * S));
}

static void a_probe_answered_by_4xx_makes_room_for_another(void **state)
{
    struct breaker b;
    struct breaker_ticket probe;

    (void)state;
    open_at(&b, 0);
    assert_true(breaker_begin(&b, 60 * S, &probe));
    breaker_end(&b, probe, BREAKER_NEUTRAL, 60 * S);
    assert_int_equal(b.state, BREAKER_HALF_OPEN);
    call(&b, 60 * S, BREAKER_SUCCESS);
    assert_int_equal(b.state, BREAKER_CLOSED);
}

static void a_lost_probe_is_replaced_and_decides_nothing_later(void **state)
{
    struct breaker b;
    struct breaker_ticket lost, next;

    (void)state;
    open_at(&b, 0);
    assert_true(breaker_begin(&b, 60 * S, &lost));
    assert_true(is_refused(&b, 90 * S - 1));
    assert_true(breaker_begin(&b, 90 * S, &next));
    breaker_end(&b, lost, BREAKER_SUCCESS, 91 * S);
    assert_int_equal(b.state, BREAKER_HALF_OPEN);
    assert_int_equal(b.stats.late, 1);
    breaker_end(&b, next, BREAKER_SUCCESS, 92 * S);
    assert_int_equal(b.state, BREAKER_CLOSED);
}

static void calls_from_before_it_opened_change_nothing(void **state)
{
    struct breaker b;
    struct breaker_ticket old[10], probe;

    (void)state;
    breaker_init(&b, NULL);
    for (int i = 0; i < 10; i++)
        assert_true(breaker_begin(&b, 0, &old[i]));
    for (int i = 0; i < 7; i++)
        breaker_end(&b, old[i], BREAKER_FAILURE, 1 * S);
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_int_equal(b.until_us, 61 * S); /* the sixth and seventh did not move it */
    breaker_end(&b, old[7], BREAKER_SUCCESS, 2 * S);
    assert_int_equal(b.state, BREAKER_OPEN);
    assert_true(breaker_begin(&b, 61 * S, &probe));
    breaker_end(&b, old[8], BREAKER_SUCCESS, 61 * S);
    breaker_end(&b, old[9], BREAKER_FAILURE, 61 * S);
    assert_int_equal(b.state, BREAKER_HALF_OPEN);
    assert_int_equal(b.stats.late, 5);
    assert_int_equal(b.stats.started, b.stats.success + b.stats.neutral + b.stats.failure +
                                          b.stats.late + 1 /* the probe */);
}

static void a_trip_opens_and_a_restart_closes(void **state)
{
    struct breaker b;

    (void)state;
    breaker_init(&b, NULL);
    breaker_trip(&b, 5 * S);
    assert_int_equal(b.state, BREAKER_OPEN);
    breaker_trip(&b, 6 * S); /* still gone */
    assert_true(is_refused(&b, 66 * S - 1));
    breaker_reset(&b);
    assert_int_equal(b.state, BREAKER_CLOSED);
    breaker_reset(&b);
    assert_false(is_refused(&b, 7 * S));
    assert_int_equal(b.stats.opened, 1);
    assert_int_equal(b.stats.closed, 1);
}

static void write_change(void *ctx, const struct breaker *b, enum breaker_state from)
{
    char *text = ctx;

    strcat(text, breaker_state_name(from));
    strcat(text, ">");
    strcat(text, breaker_state_name(b->state));
    strcat(text, " ");
}

static void observers_see_each_change(void **state)
{
    struct breaker b;
    char text[256] = "";

    (void)state;
    breaker_init(&b, NULL);
    b.on_change = write_change;
    b.ctx = text;
    for (int i = 0; i < 5; i++)
        call(&b, 0, BREAKER_FAILURE);
    call(&b, 60 * S, BREAKER_FAILURE);
    call(&b, 120 * S, BREAKER_SUCCESS);
    assert_string_equal(text, "closed>open open>half-open half-open>open open>half-open "
                              "half-open>closed ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_failures_in_a_row_open_it),
        cmocka_unit_test(a_4xx_and_an_orderly_busy_count_neither_way),
        cmocka_unit_test(statuses_are_told_apart),
        cmocka_unit_test(one_probe_leaves_after_sixty_seconds),
        cmocka_unit_test(a_probe_that_fails_opens_it_for_another_sixty_seconds),
        cmocka_unit_test(a_probe_answered_by_4xx_makes_room_for_another),
        cmocka_unit_test(a_lost_probe_is_replaced_and_decides_nothing_later),
        cmocka_unit_test(calls_from_before_it_opened_change_nothing),
        cmocka_unit_test(a_trip_opens_and_a_restart_closes),
        cmocka_unit_test(observers_see_each_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
