/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "cluster/topology.h"
#include <stdio.h>
#include <stdlib.h>

static struct topology_node node(const char *id, unsigned port)
{
    struct topology_node n = { 0 };

    snprintf(n.id, sizeof n.id, "%s", id);
    snprintf(n.cluster, sizeof n.cluster, "127.0.0.1:%u", port);
    snprintf(n.public_url, sizeof n.public_url, "http://127.0.0.1:%u", port + 1);
    return n;
}

/* Keeps t. */
static struct topology *with(struct topology *t, const char *id, unsigned port)
{
    struct topology_node n = node(id, port);
    struct error err = { 0 };
    struct topology *next = topology_with(t, &n, &err);

    assert_int_equal(err.code, OK);
    topology_unref(t);
    return next;
}

static struct topology *of_size(unsigned count)
{
    struct topology *t = NULL;
    char id[16];

    for (unsigned i = 1; i <= count; i++) {
        snprintf(id, sizeof id, "n%u", i);
        t = with(t, id, 1000 * i);
    }
    return t;
}

static void slots_are_even_to_one(void **state)
{
    (void)state;
    for (unsigned count = 1; count <= 33; count++) {
        struct topology *t = of_size(count);
        size_t all = 0;
        assert_int_equal(t->epoch, count);
        for (size_t i = 0; i < count; i++) {
            size_t own = topology_slots(t, i);
            assert_in_range(own, SLOT_COUNT / count, SLOT_COUNT / count + 1);
            assert_int_equal(t->nodes[i].number, i + 1);
            all += own;
        }
        assert_int_equal(all, SLOT_COUNT);
        topology_unref(t);
    }
}

static void a_join_moves_only_the_share_of_the_new_node(void **state)
{
    struct topology *before = of_size(4);
    struct topology_node n = node("n5", 5000);
    struct topology *after = topology_with(before, &n, NULL);
    size_t moved = 0;

    (void)state;
    for (size_t slot = 0; slot < SLOT_COUNT; slot++) {
        if (before->owners[slot] == after->owners[slot])
            continue;
        assert_int_equal(after->owners[slot], 4);
        moved++;
    }
    assert_int_equal(moved, SLOT_COUNT / 5);
    topology_unref(before);
    topology_unref(after);
}

static void a_known_node_changes_its_address_only(void **state)
{
    struct topology *t = of_size(3);
    struct topology_node same = node("n2", 2000), moved = node("n2", 7000);

    (void)state;
    assert_null(topology_with(t, &same, NULL));
    struct topology *next = topology_with(t, &moved, NULL);
    assert_int_equal(next->epoch, 4);
    assert_int_equal(next->nodes[1].number, 2);
    assert_string_equal(next->nodes[1].cluster, "127.0.0.1:7000");
    assert_memory_equal(next->owners, t->owners, sizeof t->owners);
    topology_unref(t);
    topology_unref(next);
}

static void the_text_reads_back(void **state)
{
    struct topology *t = of_size(7), *back = NULL;
    struct buf text, again;
    struct error err = { 0 };

    (void)state;
    buf_init(&text, 0);
    buf_init(&again, 0);
    topology_print(t, &text);
    assert_int_equal(topology_parse(buf_slice(&text), &back, &err), OK);
    topology_print(back, &again);
    assert_string_equal(buf_cstr(&text), buf_cstr(&again));
    assert_int_equal(back->epoch, 7);
    assert_int_equal(topology_find(back, slice_str("n7")), 6);
    assert_int_equal(topology_find(back, slice_str("n8")), -1);
    assert_memory_equal(back->owners, t->owners, sizeof t->owners);
    topology_unref(t);
    topology_unref(back);
    buf_release(&text);
    buf_release(&again);
}

/* The format is fixed: nodes of two versions read it. */
static void the_text_is_as_documented(void **state)
{
    static const char golden[] = "{\"format\":1,\"epoch\":2,\"nodes\":["
                                 "{\"id\":\"n1\",\"number\":1,\"cluster\":\"127.0.0.1:1000\","
                                 "\"public\":\"http://127.0.0.1:1001\"},"
                                 "{\"id\":\"n2\",\"number\":2,\"cluster\":\"127.0.0.1:2000\","
                                 "\"public\":\"http://127.0.0.1:2001\"}],"
                                 "\"slots\":[[2048,1],[2048,2]]}";
    struct topology *t = of_size(2);
    struct buf text;

    (void)state;
    buf_init(&text, 0);
    topology_print(t, &text);
    assert_string_equal(buf_cstr(&text), golden);
    buf_release(&text);
    topology_unref(t);
}

static void what_is_none_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"format\":2,\"epoch\":1,\"nodes\":[{\"id\":\"n1\",\"number\":1}],\"slots\":[[4096,1]]}",
        "{\"format\":1,\"epoch\":1,\"nodes\":[],\"slots\":[]}",
        "{\"format\":1,\"epoch\":1,\"nodes\":[{\"id\":\"N1\",\"number\":1}],\"slots\":[[4096,1]]}",
        "{\"format\":1,\"epoch\":1,\"nodes\":[{\"id\":\"n1\",\"number\":0}],\"slots\":[[4096,0]]}",
        "{\"format\":1,\"epoch\":1,\"nodes\":[{\"id\":\"n1\",\"number\":1},{\"id\":\"n1\","
        "\"number\":2}],"
        "\"slots\":[[4096,1]]}",
        "{\"format\":1,\"epoch\":1,\"nodes\":[{\"id\":\"n1\",\"number\":2},{\"id\":\"n2\","
        "\"number\":2}],"
        "\"slots\":[[4096,2]]}",
        "{\"format\":1,\"epoch\":1,\"nodes\":[{\"id\":\"n1\",\"number\":1}],\"slots\":[[4095,1]]}",
        "{\"format\":1,\"epoch\":1,\"nodes\":[{\"id\":\"n1\",\"number\":1}],\"slots\":[[4097,1]]}",
        "{\"format\":1,\"epoch\":1,\"nodes\":[{\"id\":\"n1\",\"number\":1}],\"slots\":[[4096,2]]}",
        "{\"format\":1,\"epoch\":1,\"nodes\":[{\"id\":\"n1\",\"number\":1}],\"slots\":[[-1,1],["
        "4097,1]]}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct topology *t = NULL;
        struct error err = { 0 };
        assert_int_equal(topology_parse(slice_str(bad[i]), &t, &err), ERR_CORRUPT);
        assert_null(t);
        assert_true(err.text[0]);
    }
}

static void ids_fit_into_certificates(void **state)
{
    static const char *const good[] = { "n1", "a", "node-1-east", "0" };
    static const char *const bad[] = { "", "-a", "a-", "A", "a_b", "a.b", "a b", "\xc3\xa9" };
    char longest[65] = { 0 };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(node_id_is_valid(slice_str(good[i])));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(node_id_is_valid(slice_str(bad[i])));
    memset(longest, 'a', 63);
    assert_true(node_id_is_valid(slice_str(longest)));
    longest[63] = 'a';
    assert_false(node_id_is_valid(slice_str(longest)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_even_to_one),
        cmocka_unit_test(a_join_moves_only_the_share_of_the_new_node),
        cmocka_unit_test(a_known_node_changes_its_address_only),
        cmocka_unit_test(the_text_reads_back),
        cmocka_unit_test(the_text_is_as_documented),
        cmocka_unit_test(what_is_none_is_refused),
        cmocka_unit_test(ids_fit_into_certificates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
