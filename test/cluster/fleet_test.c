/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "../sim/gossip_cluster.h"
#include "cluster/fleet.h"

enum { S = 1000000, MODEL = 1 };

/* Four nodes that know each other, node 1 with a fleet. All have the model and idle slots. */
struct setting {
    struct gossip_cluster c;
    struct fleet *fleet;
    unsigned breaker_changes;
};

static struct setting t;

static void set_load(unsigned i, uint32_t pending)
{
    const struct gossip_load load = { .pending = pending, .slots = 8, .service_ms = 1000 };
    assert_int_equal(gossip_set_load(t.c.nodes[i].gossip, &load, NULL), OK);
}

static void breaker_changed(void *ctx, uint16_t shard, const struct breaker *b,
                            enum breaker_state from)
{
    (void)ctx;
    (void)shard;
    (void)b;
    (void)from;
    t.breaker_changes++;
}

static void event(struct gossip_cluster_node *n, const struct gossip_member *m, enum gossip_event e)
{
    if (t.fleet && n->id == 1)
        fleet_on_gossip(t.fleet, m, e);
}

static int setup(void **state)
{
    static const double accuracy[] = { 0.45, 0.95, 0.85, 0.7 };

    (void)state;
    memset(&t, 0, sizeof t);
    gossip_cluster_init(&t.c, 4, 1);
    t.c.on_event = event;
    gossip_cluster_start_all(&t.c);
    for (unsigned i = 0; i < 4; i++) {
        set_load(i, 0);
        gossip_cluster_announce(&t.c, i, "legal", accuracy[i]);
    }
    const struct fleet_options opt = { .gossip = t.c.nodes[0].gossip,
                                       .env = &t.c.time.clock.env,
                                       .settings = fleet_defaults(),
                                       .on_breaker = breaker_changed };
    t.fleet = fleet_new(&opt);
    gossip_cluster_run(&t.c, 4);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fleet_free(t.fleet);
    gossip_cluster_release(&t.c);
    return 0;
}

static struct fleet_request request(const char *domain)
{
    return (struct fleet_request){ .model = MODEL,
                                   .domain = slice_str(domain),
                                   .slot = 5,
                                   .owner = 4,
                                   .deadline_us = vtime_now(&t.c.time) + 60 * S };
}

static void check_sums(void)
{
    const struct fleet_stats *s = fleet_stats(t.fleet);

    assert_int_equal(s->errands, s->done + s->failed);
    assert_int_equal(s->calls, s->ended);
    for (uint16_t i = 1; i <= 4; i++)
        assert_int_equal(fleet_in_flight(t.fleet, i), 0);
}

static void an_answer_ends_the_errand(void **state)
{
    struct errand e;
    const struct fleet_request req = request("legal");

    (void)state;
    errand_init(t.fleet, &e, &req);
    assert_int_equal(fleet_call(t.fleet, &e, NULL), OK);
    assert_int_equal(e.call.shard, 2);
    assert_int_equal(e.decision.reason, ROUTE_BY_DOMAIN);
    assert_int_equal(fleet_in_flight(t.fleet, 2), 1);
    assert_int_equal(fleet_end(t.fleet, &e, e.call.number, 200), FLEET_DONE);
    check_sums();
}

static void each_retry_goes_to_a_shard_that_was_not_tried(void **state)
{
    static const uint16_t want[] = { 2, 3, 4, 1 };
    struct errand e;
    const struct fleet_request req = request("legal");

    (void)state;
    errand_init(t.fleet, &e, &req);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(fleet_call(t.fleet, &e, NULL), OK);
        assert_int_equal(e.call.shard, want[i]);
        assert_int_equal(e.call.is_local, want[i] == 1);
        assert_int_equal(fleet_end(t.fleet, &e, e.call.number, i & 1 ? 0 : 502),
                         i < 3 ? FLEET_RETRY : FLEET_FAILED);
    }
    assert_int_equal(fleet_stats(t.fleet)->retries, 3);
    check_sums();
}

static void a_4xx_is_an_answer(void **state)
{
    struct errand e;
    const struct fleet_request req = request("legal");

    (void)state;
    errand_init(t.fleet, &e, &req);
    assert_int_equal(fleet_call(t.fleet, &e, NULL), OK);
    assert_int_equal(fleet_end(t.fleet, &e, e.call.number, 422), FLEET_DONE);
    assert_int_equal(fleet_breaker(t.fleet, 2)->failures, 0);
    check_sums();
}

static void busy_is_tried_elsewhere_without_blame(void **state)
{
    const struct fleet_request req = request("legal");

    (void)state;
    for (int i = 0; i < 20; i++) {
        struct errand e;
        errand_init(t.fleet, &e, &req);
        assert_int_equal(fleet_call(t.fleet, &e, NULL), OK);
        assert_int_equal(fleet_end(t.fleet, &e, e.call.number, 503), FLEET_RETRY);
        assert_int_equal(fleet_call(t.fleet, &e, NULL), OK);
        assert_int_equal(fleet_end(t.fleet, &e, e.call.number, 200), FLEET_DONE);
    }
    assert_int_equal(fleet_breaker(t.fleet, 2)->state, BREAKER_CLOSED);
    assert_int_equal(t.breaker_changes, 0);
    check_sums();
}

static void nothing_is_tried_again_after_the_first_token(void **state)
{
    struct errand e;
    const struct fleet_request req = request("legal");

    (void)state;
    errand_init(t.fleet, &e, &req);
    assert_int_equal(fleet_call(t.fleet, &e, NULL), OK);
    errand_begun(&e);
    assert_int_equal(fleet_end(t.fleet, &e, e.call.number, 0), FLEET_FAILED);
    check_sums();
}

static void what_comes_late_is_dropped(void **state)
{
    struct errand e;
    const struct fleet_request req = request("legal");

    (void)state;
    errand_init(t.fleet, &e, &req);
    assert_int_equal(fleet_call(t.fleet, &e, NULL), OK);
    uint32_t first = e.call.number;
    assert_int_equal(fleet_end(t.fleet, &e, first, 0), FLEET_RETRY);
    assert_int_equal(fleet_end(t.fleet, &e, first, 200), FLEET_LATE);
    assert_int_equal(fleet_call(t.fleet, &e, NULL), OK);
    assert_int_equal(fleet_end(t.fleet, &e, first, 200), FLEET_LATE);
    assert_int_equal(fleet_end(t.fleet, &e, e.call.number, 200), FLEET_DONE);
    assert_int_equal(fleet_end(t.fleet, &e, e.calls, 200), FLEET_LATE);
    assert_int_equal(fleet_stats(t.fleet)->late, 3);
    check_sums();
}

static void an_open_breaker_diverts_and_a_restart_closes_it(void **state)
{
    struct errand e;
    const struct fleet_request req = request("legal");

    (void)state;
    for (int i = 0; i < 5; i++) {
        errand_init(t.fleet, &e, &req);
        assert_int_equal(fleet_call(t.fleet, &e, NULL), OK);
        assert_int_equal(e.call.shard, 2);
        assert_int_equal(fleet_end(t.fleet, &e, e.call.number, 0), FLEET_RETRY);
        fleet_abandon(t.fleet, &e);
    }
    assert_int_equal(t.breaker_changes, 1);
    struct route_decision d = fleet_explain(t.fleet, &req);
    assert_true(d.bars & ROUTE_BAR_BREAKER);
    assert_string_equal(d.text, "domain legal: shard 3: accuracy 0.85, wait 0 ms, score 0.850, "
                                "the best of 1 in tier 1");
    gossip_cluster_stop(&t.c, 1);
    gossip_cluster_start(&t.c, 1);
    set_load(1, 0);
    gossip_cluster_announce(&t.c, 1, "legal", 0.95);
    gossip_cluster_run(&t.c, 3);
    assert_int_equal(fleet_breaker(t.fleet, 2)->state, BREAKER_CLOSED);
    check_sums();
}

static void a_lost_peer_is_left_out_at_once(void **state)
{
    struct errand e;
    const struct fleet_request req = request("legal");

    (void)state;
    fleet_peer_lost(t.fleet, 2);
    errand_init(t.fleet, &e, &req);
    assert_int_equal(fleet_call(t.fleet, &e, NULL), OK);
    assert_int_equal(e.call.shard, 3);
    assert_int_equal(fleet_end(t.fleet, &e, e.call.number, 200), FLEET_DONE);
    check_sums();
}

static void own_sends_count_until_the_next_report(void **state)
{
    static struct errand e[40];
    const struct fleet_request req = request("legal");
    unsigned at_2 = 0;

    (void)state;
    for (size_t i = 0; i < 40; i++) {
        errand_init(t.fleet, &e[i], &req);
        assert_int_equal(fleet_call(t.fleet, &e[i], NULL), OK);
        at_2 += e[i].call.shard == 2;
    }
    /* Shard 2 is the best until a request would wait there for 2 s or score below shard 3. */
    assert_in_range(at_2, 8, 24);
    for (size_t i = 0; i < 40; i++)
        assert_int_equal(fleet_end(t.fleet, &e[i], e[i].call.number, 200), FLEET_DONE);
    gossip_cluster_run(&t.c, 3); /* it reports that it is idle */
    assert_int_equal(fleet_explain(t.fleet, &req).index, 1);
    check_sums();
}

static void a_domain_that_nobody_knows_falls_back_and_is_counted(void **state)
{
    struct errand e;
    const struct fleet_request req = request("medical");

    (void)state;
    errand_init(t.fleet, &e, &req);
    assert_int_equal(fleet_call(t.fleet, &e, NULL), OK);
    assert_int_equal(e.call.shard, 4);
    assert_int_equal(e.decision.reason, ROUTE_BY_SLOT);
    assert_int_equal(fleet_stats(t.fleet)->domain_fallbacks, 1);
    assert_int_equal(fleet_end(t.fleet, &e, e.call.number, 200), FLEET_DONE);
    check_sums();
}

static void draining_and_other_models_are_left_out(void **state)
{
    struct gossip_state draining = { .is_draining = true, .model_count = 1, .models = { MODEL } };
    struct gossip_state other = { .model_count = 1, .models = { MODEL + 1 } };
    struct fleet_request req = request("");

    (void)state;
    assert_int_equal(gossip_set_state(t.c.nodes[1].gossip, &draining, NULL), OK);
    assert_int_equal(gossip_set_state(t.c.nodes[2].gossip, &other, NULL), OK);
    gossip_cluster_run(&t.c, 2);
    for (int i = 0; i < 50; i++) {
        struct route_decision d = fleet_explain(t.fleet, &req);
        assert_true(d.index == 0 || d.index == 3);
    }
    req.model = MODEL + 1;
    assert_int_equal(fleet_explain(t.fleet, &req).index, 2);
    req.model = 99;
    struct errand e;
    struct error err;
    errand_init(t.fleet, &e, &req);
    assert_int_equal(fleet_call(t.fleet, &e, &err), ERR_BUSY);
    assert_non_null(strstr(err.text, "other model"));
    check_sums();
}

static void the_deadline_ends_it(void **state)
{
    struct errand e;
    struct error err;
    struct fleet_request req = request("legal");

    (void)state;
    req.deadline_us = vtime_now(&t.c.time) + 10 * S;
    errand_init(t.fleet, &e, &req);
    assert_int_equal(fleet_call(t.fleet, &e, NULL), OK);
    assert_true(e.call.until_us == req.deadline_us); /* earlier than 30 s */
    gossip_cluster_run(&t.c, 10);
    assert_int_equal(fleet_end(t.fleet, &e, e.call.number, 0), FLEET_FAILED);
    errand_init(t.fleet, &e, &req);
    assert_int_equal(fleet_call(t.fleet, &e, &err), ERR_TIMEOUT);
    check_sums();
}

static void held_prefixes_attract(void **state)
{
    const struct gossip_chain held = { 4711, 900 };
    const struct gossip_chain own[] = { { 1, 300 }, { 4711, 900 } };
    struct fleet_request req = request("legal");

    (void)state;
    gossip_cluster_announce(&t.c, 1, "legal", 0.86);
    gossip_set_prefixes(t.c.nodes[2].gossip, &held, 1);
    gossip_cluster_run(&t.c, 3);
    req.prompt_tokens = 1000;
    req.chains = own;
    req.chain_count = 2;
    struct route_decision d = fleet_explain(t.fleet, &req); /* 0.85 + 0.045 against 0.86 */
    assert_int_equal(d.index, 2);
    assert_int_equal(d.near, 1);
}

static void calls_of_batches_pass_the_breaker_too(void **state)
{
    struct breaker_ticket ticket;

    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_true(fleet_begin_at(t.fleet, 3, 16, &ticket));
        fleet_end_at(t.fleet, 3, ticket, 0);
    }
    assert_false(fleet_begin_at(t.fleet, 3, 16, &ticket));
    assert_true(fleet_begin_at(t.fleet, 1, 16, &ticket)); /* itself */
    fleet_end_at(t.fleet, 1, ticket, 0);
    check_sums();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_answer_ends_the_errand),
        TEST(each_retry_goes_to_a_shard_that_was_not_tried),
        TEST(a_4xx_is_an_answer),
        TEST(busy_is_tried_elsewhere_without_blame),
        TEST(nothing_is_tried_again_after_the_first_token),
        TEST(what_comes_late_is_dropped),
        TEST(an_open_breaker_diverts_and_a_restart_closes_it),
        TEST(a_lost_peer_is_left_out_at_once),
        TEST(own_sends_count_until_the_next_report),
        TEST(a_domain_that_nobody_knows_falls_back_and_is_counted),
        TEST(draining_and_other_models_are_left_out),
        TEST(the_deadline_ends_it),
        TEST(held_prefixes_attract),
        TEST(calls_of_batches_pass_the_breaker_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
