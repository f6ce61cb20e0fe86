/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "cluster/route.h"
#include <math.h>

/* An idle, healthy shard with the domain. */
static struct route_shard shard(uint16_t id, double accuracy)
{
    return (struct route_shard){ .id = id,
                                 .has_load = true,
                                 .slots = 8,
                                 .service_ms = 1000,
                                 .has_domain = true,
                                 .accuracy = accuracy };
}

static const struct route_request legal = {
    .domain = { "legal", 5 }, .has_domain = true, .slot = 77, .owner = 2, .prompt_tokens = 1000
};
static const struct route_request plain = { .slot = 77, .owner = 2 };

static struct env_test chance;

static int setup(void **state)
{
    (void)state;
    env_test_init(&chance, 1);
    return 0;
}

static struct route_decision choose_by(enum route_rule rule, const struct route_request *req,
                                       const struct route_shard *shards, size_t n)
{
    struct route_settings set = route_defaults();

    set.rule = rule;
    return route_choose(&set, req, shards, n, &chance.env);
}

static struct route_decision choose(const struct route_request *req,
                                    const struct route_shard *shards, size_t n)
{
    return choose_by(ROUTE_RULE_ADAPTIVE, req, shards, n);
}

/* How often each of n shards is chosen in 1,000 decisions. */
static void count(const struct route_request *req, const struct route_shard *shards, size_t n,
                  unsigned *out)
{
    memset(out, 0, n * sizeof *out);
    for (int i = 0; i < 1000; i++) {
        struct route_decision d = choose(req, shards, n);
        assert_in_range(d.index, 0, n - 1);
        out[d.index]++;
    }
}

static void the_highest_of_three_announcements_wins(void **state)
{
    const struct route_shard s[] = { shard(1, 0.85), shard(2, 0.95), shard(3, 0.9) };

    (void)state;
    for (int i = 0; i < 100; i++) {
        struct route_decision d = choose(&legal, s, 3);
        assert_int_equal(d.index, 1);
        assert_int_equal(d.reason, ROUTE_BY_DOMAIN);
        assert_int_equal(d.tier, 0);
        assert_false(d.is_fallback);
        assert_true(fabs(d.score - 0.95) < 1e-9);
    }
}

static void a_stale_announcement_is_none(void **state)
{
    struct route_shard s[] = { shard(1, 0.85), shard(2, 0.95), shard(3, 0.9) };

    (void)state;
    s[1].domain_age_ms = 7200 * 1000;
    assert_int_equal(choose(&legal, s, 3).index, 1);
    s[1].domain_age_ms = 7200 * 1000 + 1;
    assert_int_equal(choose(&legal, s, 3).index, 2);
    assert_int_equal(choose_by(ROUTE_RULE_PAPER, &legal, s, 3).index, 2);
}

static void below_all_tiers_the_owner_of_the_slot_answers(void **state)
{
    const struct route_shard s[] = { shard(1, 0.4), shard(2, -0.2), shard(3, 0.39) };
    struct route_decision d = choose(&legal, s, 3);

    (void)state;
    assert_int_equal(d.index, 1);
    assert_int_equal(d.reason, ROUTE_BY_SLOT);
    assert_true(d.is_fallback);
    assert_int_equal(d.tier, -1);
}

static void tiers_are_strict_and_come_in_order(void **state)
{
    struct route_shard s[] = { shard(1, 0.8), shard(2, 0.6), shard(3, 0.4) };
    struct route_decision d = choose(&legal, s, 3);

    (void)state;
    assert_int_equal(d.index, 0); /* 0.8 is not above 0.8, but above 0.6 */
    assert_int_equal(d.tier, 1);
    s[0].accuracy = 0.6;
    d = choose(&legal, s, 3);
    assert_int_equal(d.tier, 2);
    s[0].accuracy = nextafter(0.8, 1);
    assert_int_equal(choose(&legal, s, 3).tier, 0);
}

static void a_lower_tier_is_asked_when_the_upper_one_is_busy(void **state)
{
    struct route_shard s[] = { shard(1, 0.95), shard(2, 0.7), shard(3, 0.5) };
    struct route_decision d;

    (void)state;
    s[0].pending = 8 + 15; /* 16 * 1000 / 8 = 2,000 ms: just allowed */
    d = choose(&legal, s, 3);
    assert_int_equal(d.index, 0);
    assert_true(fabs(d.wait_ms - 2000) < 1e-9);
    s[0].own_sends = 1;
    d = choose(&legal, s, 3);
    assert_int_equal(d.index, 1);
    assert_int_equal(d.tier, 1);
    assert_false(d.is_fallback);
}

static void the_wait_is_the_queue_ahead_times_the_service_time(void **state)
{
    const struct route_settings set = route_defaults();
    struct route_shard s = shard(1, 0.9);

    (void)state;
    s.pending = 7;
    assert_true(route_wait_ms(&set, &s) == 0); /* a slot is free */
    s.pending = 8;
    assert_true(fabs(route_wait_ms(&set, &s) - 125) < 1e-9);
    s.own_sends = 8;
    assert_true(fabs(route_wait_ms(&set, &s) - 1125) < 1e-9);
    s.load_age_ms = 10001;
    assert_true(route_wait_ms(&set, &s) < 0);
    s.load_age_ms = 0;
    s.slots = 0;
    assert_true(route_wait_ms(&set, &s) < 0);
}

static void a_second_of_waiting_costs_a_tenth_of_accuracy(void **state)
{
    struct route_shard s[] = { shard(1, 0.99), shard(2, 0.9) };
    struct route_decision d;

    (void)state;
    s[0].pending = 8 + 7; /* 8 * 1000 / 8 = 1,000 ms: 0.89 */
    d = choose(&legal, s, 2);
    assert_int_equal(d.near, 2); /* within 0.02 */
    assert_int_equal(d.index, 1);
    s[0].pending = 8 + 3; /* 500 ms: 0.94 against 0.9 */
    d = choose(&legal, s, 2);
    assert_int_equal(d.near, 1);
    assert_int_equal(d.index, 0);
    assert_true(fabs(d.score - 0.94) < 1e-9);
}

static void a_held_prefix_is_worth_at_most_a_twentieth(void **state)
{
    struct route_shard s[] = { shard(1, 0.905), shard(2, 0.87) };
    struct route_decision d;

    (void)state;
    s[1].prefix_tokens = 1000;
    d = choose(&legal, s, 2);
    assert_int_equal(d.near, 2); /* 0.92 against 0.905: equal enough */
    assert_true(d.score >= 0.9 - 1e-9);
    s[1].prefix_tokens = 5000; /* more than the prompt is not more */
    s[0].accuracy = 0.95;
    d = choose(&legal, s, 2);
    assert_int_equal(d.index, 0);
    s[0].accuracy = 0.89;
    d = choose(&legal, s, 2);
    assert_int_equal(d.index, 1);
    assert_true(fabs(d.score - 0.92) < 1e-9);
}

static void near_shards_share_and_the_less_loaded_of_two_wins(void **state)
{
    struct route_shard s[] = { shard(1, 0.9), shard(2, 0.9), shard(3, 0.89), shard(4, 0.85) };
    unsigned n[4];

    (void)state;
    count(&legal, s, 4, n);
    assert_in_range(n[0], 250, 420);
    assert_in_range(n[1], 250, 420);
    assert_in_range(n[2], 250, 420);
    assert_int_equal(n[3], 0); /* 0.05 below the best */
    s[0].pending = 2;          /* still no wait, but fuller */
    s[1].own_sends = 1;
    count(&legal, s, 4, n);
    assert_int_equal(n[0], 0); /* loses against either */
    assert_in_range(n[1], 250, 420);
    assert_in_range(n[2], 580, 750);
}

static void what_is_barred_is_left_out(void **state)
{
    static const unsigned bars[] = { ROUTE_BAR_UNHEALTHY, ROUTE_BAR_BREAKER, ROUTE_BAR_DRAINING,
                                     ROUTE_BAR_INCOMPATIBLE, ROUTE_BAR_TRIED };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bars); i++) {
        for (int rule = ROUTE_RULE_ADAPTIVE; rule <= ROUTE_RULE_HASH; rule++) {
            struct route_shard s[] = { shard(1, 0.99), shard(2, 0.9) };
            s[0].bars = bars[i];
            assert_int_equal(choose_by((enum route_rule)rule, &legal, s, 2).index, 1);
            assert_int_equal(choose_by((enum route_rule)rule, &plain, s, 2).index, 1);
            s[0].bars = 0;
            s[1].bars = bars[i]; /* it owns the slot */
            assert_int_equal(choose_by((enum route_rule)rule, &plain, s, 2).index, 0);
        }
    }
}

static void nowhere_says_why(void **state)
{
    struct route_shard s[] = { shard(1, 0.99), shard(2, 0.9) };
    struct route_decision d;

    (void)state;
    s[0].bars = ROUTE_BAR_DRAINING;
    s[1].bars = ROUTE_BAR_BREAKER | ROUTE_BAR_UNHEALTHY;
    d = choose(&legal, s, 2);
    assert_int_equal(d.index, -1);
    assert_int_equal(d.reason, ROUTE_NOWHERE);
    assert_string_equal(d.text, "domain legal: no good shard; no shard can answer (unhealthy, "
                                "breaker open, draining)");
    assert_int_equal(choose(&plain, s, 0).index, -1);
}

static void without_a_domain_the_least_loaded_of_three_answers(void **state)
{
    struct route_shard s[] = { shard(1, 0), shard(2, 0), shard(3, 0) };
    unsigned n[3];

    (void)state;
    s[0].pending = 9;
    s[1].pending = 2;
    s[2].pending = 5;
    count(&plain, s, 3, n);
    assert_int_equal(n[1], 1000);
    s[1].own_sends = 4; /* sent since the report: 6 */
    count(&plain, s, 3, n);
    assert_int_equal(n[2], 1000);
    assert_int_equal(choose(&plain, s, 3).reason, ROUTE_BY_LOAD);
}

static void among_many_two_are_drawn(void **state)
{
    struct route_shard s[8];
    unsigned n[8];

    (void)state;
    for (uint16_t i = 0; i < 8; i++) {
        s[i] = shard((uint16_t)(i + 1), 0);
        s[i].pending = i;
    }
    count(&plain, s, 8, n);
    assert_in_range(n[0], 180, 320); /* one in four draws the least loaded: no herd */
    assert_in_range(n[3], 80, 200);
    assert_int_equal(n[7], 0); /* loses against any other */
}

static void load_that_is_not_known_counts_as_full(void **state)
{
    struct route_shard s[] = { shard(1, 0.99), shard(2, 0.9) };

    (void)state;
    s[0].load_age_ms = 10001;
    s[1].pending = 10;
    assert_int_equal(choose(&legal, s, 2).index, 1);
    assert_int_equal(choose(&plain, s, 2).index, 1);
    s[1].bars = ROUTE_BAR_UNHEALTHY; /* but better than nothing */
    assert_int_equal(choose(&plain, s, 2).index, 0);
    assert_int_equal(choose(&legal, s, 2).reason, ROUTE_BY_SLOT_INSTEAD);
}

static void the_papers_rule_takes_the_announced_latency(void **state)
{
    struct route_shard s[] = { shard(1, 0.9), shard(2, 0.95), shard(3, 0.85) };
    struct route_decision d;

    (void)state;
    s[0].pending = 5000; /* it does not look at load */
    s[1].latency_ms = 1000;
    d = choose_by(ROUTE_RULE_PAPER, &legal, s, 3);
    assert_int_equal(d.index, 0); /* 0.9 against 0.95 - 0.1 */
    s[1].latency_ms = 400;
    assert_int_equal(choose_by(ROUTE_RULE_PAPER, &legal, s, 3).index, 1);
    assert_int_equal(choose_by(ROUTE_RULE_PAPER, &plain, s, 3).reason, ROUTE_BY_SLOT);
}

static void a_slot_without_its_owner_has_the_same_stand_in_everywhere(void **state)
{
    struct route_shard s[] = { shard(5, 0), shard(6, 0), shard(7, 0), shard(8, 0) };
    const struct route_shard reversed[] = { s[3], s[2], s[1], s[0] };
    unsigned n[4] = { 0 };

    (void)state;
    for (uint16_t slot = 0; slot < 4096; slot++) {
        const struct route_request req = { .slot = slot, .owner = 1 };
        struct route_decision d = choose_by(ROUTE_RULE_HASH, &req, s, 4);
        struct route_decision again = choose_by(ROUTE_RULE_HASH, &req, reversed, 4);
        assert_int_equal(d.reason, ROUTE_BY_SLOT_INSTEAD);
        assert_int_equal(s[d.index].id, reversed[again.index].id);
        n[d.index]++;
    }
    for (int i = 0; i < 4; i++)
        assert_in_range(n[i], 900, 1150);
}

static void unusable_figures_choose_nobody(void **state)
{
    struct route_shard s[] = { shard(1, NAN), shard(2, 0.9) };

    (void)state;
    assert_int_equal(choose(&legal, s, 2).index, 1);
    s[1].service_ms = NAN;
    s[1].pending = 100;
    s[0].accuracy = 0.85;
    assert_int_equal(choose(&legal, s, 2).index, 0);
}

static void names_read_back(void **state)
{
    enum route_rule rule;

    (void)state;
    for (int i = ROUTE_RULE_ADAPTIVE; i <= ROUTE_RULE_HASH; i++) {
        assert_true(route_rule_from_name(slice_str(route_rule_name((enum route_rule)i)), &rule));
        assert_int_equal(rule, i);
    }
    assert_false(route_rule_from_name(slice_str("best"), &rule));
    assert_string_equal(route_reason_name(ROUTE_BY_SLOT), "slot");
}

static void a_long_domain_leaves_room_for_the_reason(void **state)
{
    char name[300];
    const struct route_shard s[] = { shard(1, 0.9) };

    (void)state;
    memset(name, 'x', sizeof name);
    const struct route_request req = { .domain = { name, sizeof name }, .has_domain = true };
    struct route_decision d = choose(&req, s, 1);
    assert_non_null(strstr(d.text, "shard 1: accuracy 0.90"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_highest_of_three_announcements_wins, setup),
        cmocka_unit_test_setup(a_stale_announcement_is_none, setup),
        cmocka_unit_test_setup(below_all_tiers_the_owner_of_the_slot_answers, setup),
        cmocka_unit_test_setup(tiers_are_strict_and_come_in_order, setup),
        cmocka_unit_test_setup(a_lower_tier_is_asked_when_the_upper_one_is_busy, setup),
        cmocka_unit_test_setup(the_wait_is_the_queue_ahead_times_the_service_time, setup),
        cmocka_unit_test_setup(a_second_of_waiting_costs_a_tenth_of_accuracy, setup),
        cmocka_unit_test_setup(a_held_prefix_is_worth_at_most_a_twentieth, setup),
        cmocka_unit_test_setup(near_shards_share_and_the_less_loaded_of_two_wins, setup),
        cmocka_unit_test_setup(what_is_barred_is_left_out, setup),
        cmocka_unit_test_setup(nowhere_says_why, setup),
        cmocka_unit_test_setup(without_a_domain_the_least_loaded_of_three_answers, setup),
        cmocka_unit_test_setup(among_many_two_are_drawn, setup),
        cmocka_unit_test_setup(load_that_is_not_known_counts_as_full, setup),
        cmocka_unit_test_setup(the_papers_rule_takes_the_announced_latency, setup),
        cmocka_unit_test_setup(a_slot_without_its_owner_has_the_same_stand_in_everywhere, setup),
        cmocka_unit_test_setup(unusable_figures_choose_nobody, setup),
        cmocka_unit_test_setup(names_read_back, setup),
        cmocka_unit_test_setup(a_long_domain_leaves_room_for_the_reason, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
