/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "base/val_text.h"
#include "cluster/place.h"
#include <stdio.h>

enum { NODES = 4 };

/* Four nodes that are up and serve "chat"; the first is this one. */
static void fill(struct peer_view *nodes)
{
    memset(nodes, 0, NODES * sizeof *nodes);
    for (size_t i = 0; i < NODES; i++) {
        snprintf(nodes[i].node.id, sizeof nodes[i].node.id, "n%zu", i + 1);
        nodes[i].state = i ? PEER_UP : PEER_SELF;
        nodes[i].hello.model_count = 2;
        nodes[i].hello.models[0].kind = MODEL_EMBEDDING;
        snprintf(nodes[i].hello.models[0].name, 16, "embed");
        nodes[i].hello.models[1].kind = MODEL_CHAT;
        snprintf(nodes[i].hello.models[1].name, 16, "chat");
    }
}

static void expect(const struct peer_view *nodes, size_t owner, const struct place_wish *wish,
                   size_t node, enum place_reason reason)
{
    struct place_choice got = { 99, PLACE_NAMED };
    struct error err = { 0 };

    if (place_choose(nodes, NODES, owner, wish, &got, &err) != OK)
        fail_msg("nobody: %s", err.text);
    assert_int_equal(got.node, node);
    assert_int_equal(got.reason, reason);
}

static void expect_failure(const struct peer_view *nodes, const struct place_wish *wish,
                           enum errc code, const char *words)
{
    struct place_choice got;
    struct error err = { 0 };

    assert_int_equal(place_choose(nodes, NODES, 2, wish, &got, &err), code);
    if (!strstr(err.text, words))
        fail_msg("'%s' is not in '%s'", words, err.text);
}

static void the_owner_of_the_slot_answers(void **state)
{
    struct peer_view nodes[NODES];
    struct place_wish wish = { .model = slice_str("chat") };

    (void)state;
    fill(nodes);
    for (size_t owner = 0; owner < NODES; owner++)
        expect(nodes, owner, &wish, owner, PLACE_SLOT);
}

static void who_is_named_answers_or_nobody(void **state)
{
    struct peer_view nodes[NODES];
    struct place_wish wish = { .model = slice_str("chat"), .node = slice_str("n3") };
    bool tried[NODES] = { false, false, true, false };

    (void)state;
    fill(nodes);
    expect(nodes, 0, &wish, 2, PLACE_NAMED);
    nodes[2].state = PEER_DOWN;
    snprintf(nodes[2].why, sizeof nodes[2].why, "connection refused");
    expect_failure(nodes, &wish, ERR_BUSY, "connection refused");
    nodes[2].state = PEER_UP;
    wish.tried = tried;
    expect_failure(nodes, &wish, ERR_BUSY, "lost");
    wish.tried = NULL;
    wish.model = slice_str("other");
    expect_failure(nodes, &wish, ERR_NOT_FOUND, "node n3 does not serve the model 'other'");
    wish.node = slice_str("n5");
    expect_failure(nodes, &wish, ERR_NOT_FOUND, "n5");
}

static void this_node_comes_before_others_when_the_owner_cannot(void **state)
{
    struct peer_view nodes[NODES];
    struct place_wish wish = { .model = slice_str("chat") };
    static const enum peer_state bad[] = { PEER_DOWN, PEER_DRAINING, PEER_UNKNOWN };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        fill(nodes);
        nodes[2].state = bad[i];
        expect(nodes, 2, &wish, 0, PLACE_FALLBACK);
    }
    fill(nodes);
    nodes[2].hello.is_draining = true;
    expect(nodes, 2, &wish, 0, PLACE_FALLBACK);
    fill(nodes);
    nodes[2].hello.model_count = 1; /* the embedding model */
    expect(nodes, 2, &wish, 0, PLACE_FALLBACK);
}

static void an_open_breaker_bars_a_node(void **state)
{
    struct peer_view nodes[NODES];
    struct place_wish wish = { .model = slice_str("chat") };

    (void)state;
    fill(nodes);
    nodes[2].is_barred = true;
    nodes[2].breaker = BREAKER_OPEN;
    expect(nodes, 2, &wish, 0, PLACE_FALLBACK);
    wish.node = slice_str("n3");
    expect_failure(nodes, &wish, ERR_BUSY, "circuit breaker is open");
}

static void who_was_tried_is_not_asked_again(void **state)
{
    struct peer_view nodes[NODES];
    bool tried[NODES] = { false };
    struct place_wish wish = { .model = slice_str("chat"), .tried = tried };
    static const size_t order[] = { 0, 3, 1 };

    (void)state;
    fill(nodes);
    tried[2] = true;
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        expect(nodes, 2, &wish, order[i], PLACE_FALLBACK);
        tried[order[i]] = true;
    }
    expect_failure(nodes, &wish, ERR_BUSY, "can answer now");
}

static void a_model_that_nobody_serves_is_not_found(void **state)
{
    struct peer_view nodes[NODES];
    struct place_wish wish = { .model = slice_str("embed") };

    (void)state;
    fill(nodes);
    expect_failure(nodes, &wish, ERR_NOT_FOUND, "no node of the cluster serves");
    wish.model = slice_of("", 0); /* any that chats */
    expect(nodes, 3, &wish, 3, PLACE_SLOT);
}

/* ---- slots ---- */

static uint16_t slot_of(struct arena *arena, const char *tenant, const char *domain,
                        const char *messages)
{
    struct gen_request req = { .tenant = slice_str(tenant), .domain = slice_str(domain) };
    struct error err = { 0 };

    if (val_parse(slice_str(messages), arena, &req.messages, &err) != OK)
        fail_msg("%s", err.text);
    return place_slot(&req);
}

static void turns_of_a_conversation_have_one_slot(void **state)
{
    struct arena *arena = arena_new(0);
    static const char first[] = "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\","
                                "\"content\":\"one\"}]";
    static const char later[] = "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\","
                                "\"content\":\"one\"},{\"role\":\"assistant\",\"content\":\"a\"},"
                                "{\"role\":\"user\",\"content\":\"two\"}]";
    static const char other[] = "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\","
                                "\"content\":\"two\"}]";

    (void)state;
    uint16_t slot = slot_of(arena, "u", "", first);
    assert_int_equal(slot, slot_of(arena, "u", "", later));
    assert_int_not_equal(slot, slot_of(arena, "u", "", other));
    assert_int_not_equal(slot, slot_of(arena, "v", "", first)); /* prefixes are not shared either */
    assert_int_equal(slot_of(arena, "u", "legal", first), slot_of(arena, "v", "legal", other));
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_owner_of_the_slot_answers),
        cmocka_unit_test(who_is_named_answers_or_nobody),
        cmocka_unit_test(this_node_comes_before_others_when_the_owner_cannot),
        cmocka_unit_test(an_open_breaker_bars_a_node),
        cmocka_unit_test(who_was_tried_is_not_asked_again),
        cmocka_unit_test(a_model_that_nobody_serves_is_not_found),
        cmocka_unit_test(turns_of_a_conversation_have_one_slot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
