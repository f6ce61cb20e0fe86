/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "../sim/gossip_cluster.h"
#include "base/hash.h"

static void start(struct gossip_cluster *c, unsigned count, uint64_t seed)
{
    gossip_cluster_init(c, count, seed);
    gossip_cluster_start_all(c);
    gossip_cluster_run(c, 6);
}

static const struct gossip_stats *stats(const struct gossip_cluster *c, unsigned i)
{
    return gossip_stats(c->nodes[i].gossip);
}

static void a_cluster_that_starts_sees_itself_alive(void **state)
{
    struct gossip_cluster c;

    (void)state;
    start(&c, 16, 1);
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(gossip_cluster_seeing(&c, i, GOSSIP_ALIVE), 15);
    gossip_cluster_run(&c, 60);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(gossip_cluster_seeing(&c, i, GOSSIP_ALIVE), 15);
        assert_int_equal(stats(&c, i)->claims_made, 0);
    }
    gossip_cluster_release(&c);
}

static void news_is_forwarded_at_once(void **state)
{
    struct gossip_cluster c;

    (void)state;
    start(&c, 16, 2);
    gossip_cluster_announce(&c, 3, "legal", 0.9);
    gossip_cluster_run(&c, 0.03); /* links of 1 to 3 ms */
    assert_in_range(gossip_cluster_knowing(&c, 3, "legal", 0.9), 11, 15);
    gossip_cluster_run(&c, 2);
    assert_int_equal(gossip_cluster_knowing(&c, 3, "legal", 0.9), 15);
    for (unsigned i = 0; i < 16; i++) /* the sixteen states at the start and this one, once each */
        assert_true(stats(&c, i)->forwarded <= 17);
    gossip_cluster_release(&c);
}

/* The bar: at N = 16 and 20 % loss 99 % within 2 s. */
static void news_converges_in_two_seconds_at_a_fifth_lost(void **state)
{
    enum { TRIALS = 300 };
    struct gossip_cluster c;
    unsigned in_time = 0;

    (void)state;
    gossip_cluster_init(&c, 16, 3);
    c.loss = 0.2;
    gossip_cluster_start_all(&c);
    gossip_cluster_run(&c, 10);
    for (int i = 0; i < TRIALS; i++) {
        double s = gossip_cluster_converge(&c, 10);
        in_time += s <= 2;
        gossip_cluster_run(&c, 1 + vtime_chance(&c.time));
    }
    print_message("16 nodes, 20 %% lost: %u of %d within 2 s\n", in_time, TRIALS);
    assert_true(in_time >= TRIALS * 99 / 100);
    gossip_cluster_release(&c);
}

static void rounds_alone_repair_what_was_not_forwarded(void **state)
{
    struct gossip_cluster c;

    (void)state;
    start(&c, 16, 4);
    c.loss = 1;
    gossip_cluster_announce(&c, 3, "legal", 0.9);
    gossip_cluster_run(&c, 0.1);
    assert_int_equal(gossip_cluster_knowing(&c, 3, "legal", 0.9), 0);
    c.loss = 0;
    gossip_cluster_run(&c, 4);
    assert_int_equal(gossip_cluster_knowing(&c, 3, "legal", 0.9), 15);
    gossip_cluster_release(&c);
}

static void a_silent_node_is_suspected_then_dead(void **state)
{
    struct gossip_cluster c;

    (void)state;
    start(&c, 16, 5);
    gossip_cluster_stop(&c, 7);
    gossip_cluster_run(&c, 7.5); /* silence of 5.5 s, less what a claim saves, and a round */
    assert_int_equal(gossip_cluster_seeing(&c, 7, GOSSIP_ALIVE), 0);
    gossip_cluster_run(&c, 5);
    assert_int_equal(gossip_cluster_seeing(&c, 7, GOSSIP_DEAD), 15);
    gossip_cluster_release(&c);
}

static void a_claim_against_one_who_lives_is_refuted(void **state)
{
    struct gossip_cluster c;
    struct gossip_writer w;
    struct buf buf;

    (void)state;
    start(&c, 4, 6);
    const struct gossip_member *m = gossip_find(c.nodes[0].gossip, 2);
    const struct gossip_claim claim = { 2, m->boot, m->versions[GOSSIP_LOAD] };
    buf_init(&buf, 0);
    gossip_write_begin(&w, &buf, GOSSIP_NEWS);
    assert_true(gossip_write_claim(&w, &claim));
    gossip_write_end(&w);
    /* Somebody who has just heard of it does not believe. */
    assert_int_equal(gossip_receive(c.nodes[0].gossip, 3, buf_slice(&buf), NULL), OK);
    assert_int_equal(m->status, GOSSIP_ALIVE);
    /* Who has not, does, until the next heartbeat. */
    c.nodes[0].side = 1;
    gossip_cluster_run(&c, 2.5);
    assert_int_equal(m->status, GOSSIP_ALIVE); /* not long enough for its own suspicion */
    assert_int_equal(gossip_receive(c.nodes[0].gossip, 3, buf_slice(&buf), NULL), OK);
    assert_int_equal(m->versions[GOSSIP_LOAD], claim.beat);
    assert_int_equal(m->status, GOSSIP_SUSPECT);
    c.nodes[0].side = 0;
    gossip_cluster_run(&c, 2);
    assert_int_equal(m->status, GOSSIP_ALIVE);
    /* The one accused answers with a new heartbeat at once. */
    uint32_t before = gossip_self(c.nodes[1].gossip)->versions[GOSSIP_LOAD];
    const struct gossip_claim now = { 2, m->boot, before };
    gossip_write_begin(&w, &buf, GOSSIP_NEWS);
    assert_true(gossip_write_claim(&w, &now));
    gossip_write_end(&w);
    assert_int_equal(gossip_receive(c.nodes[1].gossip, 3, buf_slice(&buf), NULL), OK);
    assert_int_equal(gossip_self(c.nodes[1].gossip)->versions[GOSSIP_LOAD], before + 1);
    assert_int_equal(stats(&c, 1)->refutations, 1);
    buf_release(&buf);
    gossip_cluster_release(&c);
}

static void a_partition_heals(void **state)
{
    struct gossip_cluster c;

    (void)state;
    start(&c, 16, 7);
    for (unsigned i = 0; i < 8; i++)
        c.nodes[i].side = 1;
    gossip_cluster_run(&c, 20);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(gossip_cluster_seeing(&c, i, GOSSIP_ALIVE), 7);
        assert_int_equal(gossip_cluster_seeing(&c, i, GOSSIP_DEAD), 8);
    }
    gossip_cluster_announce(&c, 0, "legal", 0.9);
    gossip_cluster_run(&c, 2);
    assert_int_equal(gossip_cluster_knowing(&c, 0, "legal", 0.9), 7);
    uint64_t sent = 0, dropped = 0;
    for (unsigned i = 0; i < 16; i++)
        sent += stats(&c, i)->sent;
    for (unsigned i = 0; i < 8; i++)
        c.nodes[i].side = 0;
    gossip_cluster_run(&c, 4);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(gossip_cluster_seeing(&c, i, GOSSIP_ALIVE), 15);
        sent -= stats(&c, i)->sent; /* wraps around */
        dropped += stats(&c, i)->over_budget;
    }
    assert_int_equal(gossip_cluster_knowing(&c, 0, "legal", 0.9), 15);
    sent = -sent;
    print_message("healing took %llu messages in 4 s, %llu over the budget\n",
                  (unsigned long long)sent, (unsigned long long)dropped);
    assert_true(sent < 16 * 4 * 40); /* no storm */
    gossip_cluster_release(&c);
}

static void a_restart_throws_away_what_was_known(void **state)
{
    const struct gossip_chain chain = { 99, 512 };
    struct gossip_cluster c;

    (void)state;
    start(&c, 4, 8);
    gossip_cluster_announce(&c, 1, "legal", 0.9);
    gossip_set_prefixes(c.nodes[1].gossip, &chain, 1);
    gossip_cluster_run(&c, 4);
    const struct gossip_member *m = gossip_find(c.nodes[0].gossip, 2);
    assert_int_equal(m->chain_count, 1);
    assert_int_equal(m->state.adapter_count, 1);
    gossip_cluster_stop(&c, 1); /* and starts again before anybody has missed it */
    gossip_cluster_start(&c, 1);
    gossip_cluster_run(&c, 3);
    assert_int_equal(m->boot, 2);
    assert_int_equal(m->chain_count, 0);
    assert_int_equal(m->state.adapter_count, 0);
    assert_int_equal(m->status, GOSSIP_ALIVE);
    assert_int_equal(stats(&c, 0)->restarts_seen, 1);
    gossip_cluster_release(&c);
}

/* Everything that node 1 ever got comes again, after a restart of all others. */
static struct buf recorded[256];
static unsigned recorded_count;

static unsigned record(struct gossip_cluster *c, uint16_t from, uint16_t to, struct buf *bytes)
{
    (void)c;
    (void)from;
    if (to == 1 && recorded_count < ARRAY_LEN(recorded)) {
        buf_init(&recorded[recorded_count], 0);
        buf_add_slice(&recorded[recorded_count++], buf_slice(bytes));
    }
    return 1;
}

static void replays_change_nothing(void **state)
{
    struct gossip_cluster c;

    (void)state;
    recorded_count = 0;
    gossip_cluster_init(&c, 4, 9);
    c.meddle = record;
    c.settings.receives_per_interval = 1000;
    gossip_cluster_start_all(&c);
    gossip_cluster_run(&c, 1);
    gossip_cluster_announce(&c, 1, "legal", 0.5);
    gossip_cluster_run(&c, 5);
    gossip_cluster_announce(&c, 1, "legal", 0.9);
    gossip_cluster_run(&c, 3);
    for (unsigned i = 1; i < 4; i++) {
        gossip_cluster_stop(&c, i);
        gossip_cluster_start(&c, i);
    }
    gossip_cluster_run(&c, 3);
    uint64_t accepted = stats(&c, 0)->accepted;
    for (unsigned i = 0; i < recorded_count; i++) {
        (void)!gossip_receive(c.nodes[0].gossip, 2, buf_slice(&recorded[i]), NULL);
        buf_release(&recorded[i]);
    }
    assert_true(recorded_count > 20);
    assert_int_equal(stats(&c, 0)->accepted, accepted);
    assert_int_equal(gossip_find(c.nodes[0].gossip, 2)->boot, 2);
    assert_int_equal(gossip_find(c.nodes[0].gossip, 2)->state.adapter_count, 0);
    gossip_cluster_release(&c);
}

static void strangers_and_damaged_messages_are_refused(void **state)
{
    struct gossip_cluster c;
    struct error err;

    (void)state;
    start(&c, 4, 10);
    struct gossip *g = c.nodes[0].gossip;
    assert_int_equal(gossip_receive(g, 9, slice_of("\1\1\0\0\0\0\0\0", 8), &err), ERR_FORBIDDEN);
    assert_int_equal(gossip_receive(g, 2, slice_of("\1\1\0\0\0\0\0", 7), &err), ERR_CORRUPT);
    assert_int_equal(gossip_receive(g, 2, slice_of("\1\1\0\0\0\0\0\0", 8), &err), OK);
    for (int i = 0; i < 200; i++)
        (void)!gossip_receive(g, 2, slice_of("\1\1\0\0\0\0\0\0", 8), &err);
    assert_int_equal(err.code, ERR_BUSY); /* a flood */
    assert_int_equal(gossip_receive(g, 3, slice_of("\1\1\0\0\0\0\0\0", 8), &err), OK);
    const struct gossip_stats *s = gossip_stats(g);
    assert_int_equal(s->received, s->taken + s->from_stranger + s->flooded + s->damaged);
    assert_int_equal(s->items, s->accepted + s->stale + s->refused + s->strange);
    gossip_cluster_release(&c);
}

/* A seal that only its shard can make, for the test: a keyed digest. */
static size_t seal_sign(void *ctx, struct slice sealed, uint8_t *out)
{
    const struct gossip_cluster_node *n = ctx;

    hash_hmac_sha256(slice_of(&n->id, sizeof n->id), sealed, out);
    return 32;
}

static bool seal_verify(void *ctx, uint16_t shard, struct slice sealed, struct slice seal)
{
    uint8_t want[32];

    (void)ctx;
    hash_hmac_sha256(slice_of(&shard, sizeof shard), sealed, want);
    return seal.len == 32 && hash_equal(want, seal.ptr, 32);
}

/* Puts what node 3 sends into node 2's mouth: its items get another number of shard. */
static unsigned impersonate(struct gossip_cluster *c, uint16_t from, uint16_t to, struct buf *bytes)
{
    struct gossip_message msg;
    struct gossip_item item;

    (void)c;
    (void)to;
    if (from != 3 || gossip_message_decode(buf_slice(bytes), &msg, NULL) != OK)
        return 1;
    while (gossip_next_item(&msg.items, &item)) {
        if (item.shard == 3)
            ((char *)item.sealed.ptr)[1] = 2;
    }
    return 1;
}

static void nobody_speaks_for_another_shard(void **state)
{
    struct gossip_cluster c;

    (void)state;
    gossip_cluster_init(&c, 4, 11);
    c.seal = (struct gossip_seal){ .sign = seal_sign, .verify = seal_verify };
    c.meddle = impersonate;
    gossip_cluster_start_all(&c);
    gossip_cluster_announce(&c, 2, "legal", 0.99);
    gossip_cluster_run(&c, 5);
    for (unsigned i = 0; i < 4; i++) {
        const struct gossip_member *m = gossip_find(c.nodes[i].gossip, 2);
        if (m)
            assert_int_equal(m->state.adapter_count, 0);
    }
    assert_true(stats(&c, 0)->refused > 0);
    c.meddle = NULL; /* the true words pass, also over others */
    gossip_cluster_run(&c, 5);
    assert_int_equal(gossip_cluster_knowing(&c, 2, "legal", 0.99), 3);
    gossip_cluster_release(&c);
}

static void announcements_end_after_their_time(void **state)
{
    struct gossip_cluster c;

    (void)state;
    gossip_cluster_init(&c, 4, 12);
    c.settings.interval_us = 60 * 1000000ull; /* rounds a minute apart: hours are short */
    gossip_cluster_start_all(&c);
    gossip_cluster_run(&c, 300);
    gossip_cluster_announce(&c, 1, "legal", 0.9);
    gossip_cluster_run(&c, 3 * 7200); /* announced again and again by who has it */
    assert_int_equal(gossip_cluster_knowing(&c, 1, "legal", 0.9), 3);
    gossip_cluster_stop(&c, 1);
    gossip_cluster_run(&c, 7200 * 3 / 4 - 200);
    assert_int_equal(gossip_cluster_knowing(&c, 1, "legal", 0.9), 3);
    gossip_cluster_run(&c, 7200 / 4 + 400);
    assert_int_equal(gossip_cluster_knowing(&c, 1, "legal", 0.9), 0);
    assert_int_equal(stats(&c, 0)->evicted, 1);
    gossip_cluster_release(&c);
}

static void an_announcement_from_the_future_is_refused(void **state)
{
    struct gossip_cluster c;
    struct gossip_adapter a = { .domain = "legal", .model = 1, .accuracy = 0.9 };
    struct gossip_state s = {
        .model_count = 1, .models = { 1 }, .adapter_count = 1, .adapters = &a
    };
    struct buf payload, item, msg;
    struct gossip_writer w;

    (void)state;
    start(&c, 4, 13);
    struct gossip *g = c.nodes[0].gossip;
    uint64_t wall_ms = env_wall_us(&c.time.clock.env) / 1000;
    buf_init(&payload, 0);
    buf_init(&item, 0);
    buf_init(&msg, 0);
    for (int is_far = 1; is_far >= 0; is_far--) {
        a.announced_ms = wall_ms + (is_far ? 301 : 299) * 1000;
        buf_clear(&payload);
        buf_clear(&item);
        gossip_state_encode(&s, &payload);
        const struct gossip_item head = { .shard = 2,
                                          .boot = 1,
                                          .kind = GOSSIP_STATE,
                                          .version = 50,
                                          .payload = buf_slice(&payload) };
        gossip_item_open(&item, &head);
        gossip_item_close(&item, 0, slice_of(NULL, 0));
        gossip_write_begin(&w, &msg, GOSSIP_NEWS);
        assert_true(gossip_write_item(&w, buf_slice(&item)));
        gossip_write_end(&w);
        assert_int_equal(gossip_receive(g, 2, buf_slice(&msg), NULL), OK);
        assert_int_equal(gossip_stats(g)->refused, 1);
        assert_int_equal(gossip_find(g, 2)->state.adapter_count, is_far ? 0 : 1);
    }
    buf_release(&payload);
    buf_release(&item);
    buf_release(&msg);
    gossip_cluster_release(&c);
}

static void a_node_that_leaves_is_not_suspected(void **state)
{
    struct gossip_cluster c;
    struct gossip_state leaving = { .is_draining = true, .is_leaving = true };

    (void)state;
    start(&c, 8, 14);
    assert_int_equal(gossip_set_state(c.nodes[2].gossip, &leaving, NULL), OK);
    gossip_cluster_run(&c, 1.5);
    assert_int_equal(gossip_cluster_seeing(&c, 2, GOSSIP_LEFT), 7);
    gossip_cluster_stop(&c, 2);
    gossip_cluster_run(&c, 20);
    assert_int_equal(gossip_cluster_seeing(&c, 2, GOSSIP_LEFT), 7);
    for (unsigned i = 0; i < 8; i++)
        if (i != 2)
            assert_int_equal(stats(&c, i)->claims_made, 0);
    gossip_cluster_start(&c, 2);
    gossip_cluster_run(&c, 4);
    assert_int_equal(gossip_cluster_seeing(&c, 2, GOSSIP_ALIVE), 7);
    gossip_cluster_release(&c);
}

static void a_node_that_changes_all_the_time_makes_no_storm(void **state)
{
    struct gossip_cluster c;

    (void)state;
    start(&c, 16, 15);
    uint64_t before = c.delivered;
    for (int i = 0; i < 10000; i++) { /* for ten seconds */
        gossip_cluster_announce(&c, 3, "legal", (double)i / 10000);
        gossip_cluster_run(&c, 0.001);
    }
    /* Sixteen nodes, ten seconds: rounds are 4 + 4 messages, and 10 changes a second are spread
       with 4 messages by each. */
    assert_true(c.delivered - before < 16 * 10 * (4 * 3 + 10 * 4));
    gossip_cluster_run(&c, 3);
    assert_int_equal(gossip_cluster_knowing(&c, 3, "legal", 0.9999), 15);
    gossip_cluster_release(&c);
}

static void the_budget_bounds_what_a_node_sends(void **state)
{
    struct gossip_cluster c;

    (void)state;
    gossip_cluster_init(&c, 16, 16);
    c.settings.sends_per_s = 8;
    gossip_cluster_start_all(&c);
    gossip_cluster_run(&c, 30);
    uint64_t sent = stats(&c, 0)->sent;
    for (int i = 0; i < 1000; i++) {
        gossip_cluster_announce(&c, 3, "legal", (double)i / 1000);
        gossip_cluster_run(&c, 0.01);
    }
    assert_true(stats(&c, 0)->sent - sent <= 8 * 11);
    assert_true(stats(&c, 0)->over_budget > 0);
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(gossip_cluster_seeing(&c, i, GOSSIP_ALIVE), 15);
    gossip_cluster_release(&c);
}

static void members_that_go_are_forgotten(void **state)
{
    static const uint16_t fewer[] = { 1, 2, 2, 4 };
    struct gossip_cluster c;

    (void)state;
    start(&c, 4, 17);
    struct gossip *g = c.nodes[0].gossip;
    assert_int_equal(gossip_set_members(g, fewer, 4, NULL), OK);
    assert_int_equal(gossip_count(g), 2);
    assert_null(gossip_find(g, 3));
    assert_int_equal(gossip_find(g, 4)->status, GOSSIP_ALIVE);
    gossip_cluster_run(&c, 3); /* the others still tell of it */
    assert_null(gossip_find(g, 3));
    assert_true(gossip_stats(g)->strange + gossip_stats(g)->from_stranger > 0);
    uint16_t many[GOSSIP_MEMBERS_MAX + 1] = { 0 };
    assert_int_equal(gossip_set_members(g, many, ARRAY_LEN(many), NULL), ERR_LIMIT);
    gossip_cluster_release(&c);
}

static void a_boot_id_that_does_not_grow_is_outdone(void **state)
{
    struct gossip_cluster c;

    (void)state;
    start(&c, 4, 18);
    gossip_cluster_stop(&c, 1);
    c.nodes[1].boots = 0; /* starts again as boot 1, version 1: older than what others know */
    gossip_cluster_start(&c, 1);
    gossip_cluster_run(&c, 5);
    assert_true(gossip_boot(c.nodes[1].gossip) > 1);
    assert_int_equal(gossip_cluster_seeing(&c, 1, GOSSIP_ALIVE), 3);
    gossip_cluster_announce(&c, 1, "legal", 0.7);
    gossip_cluster_run(&c, 2);
    assert_int_equal(gossip_cluster_knowing(&c, 1, "legal", 0.7), 3);
    gossip_cluster_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cluster_that_starts_sees_itself_alive),
        cmocka_unit_test(news_is_forwarded_at_once),
        cmocka_unit_test(news_converges_in_two_seconds_at_a_fifth_lost),
        cmocka_unit_test(rounds_alone_repair_what_was_not_forwarded),
        cmocka_unit_test(a_silent_node_is_suspected_then_dead),
        cmocka_unit_test(a_claim_against_one_who_lives_is_refuted),
        cmocka_unit_test(a_partition_heals),
        cmocka_unit_test(a_restart_throws_away_what_was_known),
        cmocka_unit_test(replays_change_nothing),
        cmocka_unit_test(strangers_and_damaged_messages_are_refused),
        cmocka_unit_test(nobody_speaks_for_another_shard),
        cmocka_unit_test(announcements_end_after_their_time),
        cmocka_unit_test(an_announcement_from_the_future_is_refused),
        cmocka_unit_test(a_node_that_leaves_is_not_suspected),
        cmocka_unit_test(a_node_that_changes_all_the_time_makes_no_storm),
        cmocka_unit_test(the_budget_bounds_what_a_node_sends),
        cmocka_unit_test(members_that_go_are_forgotten),
        cmocka_unit_test(a_boot_id_that_does_not_grow_is_outdone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
