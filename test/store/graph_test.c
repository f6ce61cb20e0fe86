/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "store/graph.h"

static int setup(void **out)
{
    struct fixture *f = calloc(1, sizeof *f);
    fixture_init(f, false);
    *out = f;
    return 0;
}

static int teardown(void **out)
{
    fixture_release(*out);
    free(*out);
    return 0;
}

static int parse_num(struct fixture *f, const char *text)
{
    struct graph g;
    struct error err = { 0 };

    return graph_parse(json(f, text), f->arena, &g, &err) == OK ? 0 : error_num(&err);
}

static void definitions_are_checked(void **out)
{
    struct fixture *f = *out;

    assert_int_equal(parse_num(f, "{\"name\":\"g\"}"), 0);
    assert_int_equal(parse_num(f, "{}"), 1922);
    assert_int_equal(parse_num(f, "{\"name\":\"a/b\"}"), 1221);
    assert_int_equal(parse_num(f, "{\"name\":\"g\",\"edgeDefinitions\":{}}"), 1923);
    assert_int_equal(parse_num(f, "{\"name\":\"g\",\"edgeDefinitions\":[{\"collection\":\"e\"}]}"),
                     1923);
    assert_int_equal(
        parse_num(f, "{\"name\":\"g\",\"edgeDefinitions\":[{\"collection\":\"e\",\"from\":[],"
                     "\"to\":[\"v\"]}]}"),
        1923);
    assert_int_equal(
        parse_num(f, "{\"name\":\"g\",\"edgeDefinitions\":[{\"collection\":\"e\",\"from\":[\"v\"],"
                     "\"to\":[\"v\"]},{\"collection\":\"e\",\"from\":[\"v\"],\"to\":[\"v\"]}]}"),
        1920);
    assert_int_equal(parse_num(f, "{\"name\":\"g\",\"orphanCollections\":[1]}"), 1943);
}

/* "e(a b>c) f(...) | orphans" */
static const char *shown(struct fixture *f, const struct graph *g)
{
    struct buf text;

    buf_init(&text, 0);
    for (size_t i = 0; i < g->edge_count; i++) {
        const struct graph_edges *e = &g->edges[i];
        buf_printf(&text, "%.*s(", SLICE_ARG(e->collection));
        for (size_t k = 0; k < e->from_count; k++)
            buf_printf(&text, "%s%.*s", k ? " " : "", SLICE_ARG(e->from[k]));
        for (size_t k = 0; k < e->to_count; k++)
            buf_printf(&text, "%s%.*s", k ? " " : ">", SLICE_ARG(e->to[k]));
        buf_add_str(&text, ") ");
    }
    buf_add_char(&text, '|');
    for (size_t i = 0; i < g->orphan_count; i++)
        buf_printf(&text, " %.*s", SLICE_ARG(g->orphans[i]));
    const char *copy = arena_copy(f->arena, buf_slice(&text)).ptr;
    buf_release(&text);
    return copy;
}

static struct graph_edges edges(struct fixture *f, const char *text)
{
    struct graph_edges e;

    OK_OR_FAIL(graph_parse_edges(json(f, text), f->arena, &e, &f->err), &f->err);
    return e;
}

static void orphans_follow_the_edge_definitions(void **out)
{
    struct fixture *f = *out;
    struct graph g;
    struct error err = { 0 };
    struct graph_edges first = edges(f, "{\"collection\":\"e\",\"from\":[\"b\",\"a\",\"b\"],"
                                        "\"to\":[\"c\"]}");
    struct graph_edges second = edges(f, "{\"collection\":\"f\",\"from\":[\"c\"],\"to\":[\"o\"]}");
    struct graph_edges other = edges(f, "{\"collection\":\"e\",\"from\":[\"c\"],\"to\":[\"c\"]}");

    OK_OR_FAIL(graph_parse(json(f, "{\"name\":\"g\",\"orphanCollections\":[\"o\",\"p\"]}"),
                           f->arena, &g, &err),
               &err);
    OK_OR_FAIL(graph_add_edges(&g, &first, f->arena, &err), &err);
    assert_string_equal(shown(f, &g), "e(a b>c) | o p");
    OK_OR_FAIL(graph_add_edges(&g, &second, f->arena, &err), &err);
    assert_string_equal(shown(f, &g), "e(a b>c) f(c>o) | p");
    assert_int_equal(graph_add_edges(&g, &second, f->arena, &err), ERR_INVALID);
    assert_int_equal(error_num(&err), 1920);
    OK_OR_FAIL(graph_replace_edges(&g, &other, f->arena, &err), &err);
    assert_string_equal(shown(f, &g), "e(c>c) f(c>o) | p a b");
    OK_OR_FAIL(graph_remove_edges(&g, slice_str("f"), f->arena, &err), &err);
    assert_string_equal(shown(f, &g), "e(c>c) | p a b o");
    assert_int_equal(graph_remove_edges(&g, slice_str("f"), f->arena, &err), ERR_NOT_FOUND);
    assert_int_equal(error_num(&err), 1930);
    assert_int_equal(graph_remove_orphan(&g, slice_str("c"), f->arena, &err), ERR_INVALID);
    assert_int_equal(error_num(&err), 1928);
    OK_OR_FAIL(graph_remove_orphan(&g, slice_str("a"), f->arena, &err), &err);
    OK_OR_FAIL(graph_add_orphan(&g, slice_str("x"), f->arena, &err), &err);
    assert_string_equal(shown(f, &g), "e(c>c) | p b o x");
    assert_int_equal(graph_add_orphan(&g, slice_str("x"), f->arena, &err), ERR_INVALID);
    assert_int_equal(error_num(&err), 1938);
    assert_int_equal(graph_add_orphan(&g, slice_str("c"), f->arena, &err), ERR_INVALID);
    assert_int_equal(error_num(&err), 1929);
}

static void graphs_are_stored_by_name(void **out)
{
    struct fixture *f = *out;
    struct graph g, *all;
    size_t count;
    struct error err = { 0 };
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);

    assert_int_equal(graph_get(t, 1, slice_str("g"), f->arena, &g, &err), ERR_NOT_FOUND);
    assert_int_equal(error_num(&err), 1924);
    OK_OR_FAIL(graph_list(t, 1, f->arena, &all, &count, &err), &err);
    assert_int_equal(count, 0);
    txn_end(t);
    OK_OR_FAIL(graph_prepare(f->store, 1, &err), &err);
    OK_OR_FAIL(graph_prepare(f->store, 1, &err), &err);
    t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(graph_parse(json(f, "{\"name\":\"g\",\"edgeDefinitions\":[{\"collection\":\"e\","
                                   "\"from\":[\"v\"],\"to\":[\"w\",\"v\"]}]}"),
                           f->arena, &g, &err),
               &err);
    OK_OR_FAIL(graph_save(t, 1, &g, true, f->arena, &err), &err);
    assert_int_equal(graph_save(t, 1, &g, true, f->arena, &err), ERR_EXISTS);
    assert_int_equal(error_num(&err), 1925);
    OK_OR_FAIL(txn_commit(t, &err), &err);
    txn_end(t);

    t = begin(f, ISOLATION_SNAPSHOT);
    struct graph read;
    OK_OR_FAIL(graph_get(t, 1, slice_str("g"), f->arena, &read, &err), &err);
    assert_string_equal(shown(f, &read), "e(v>v w) |");
    assert_true(graph_edges_equal(&read.edges[0], &g.edges[0]));
    OK_OR_FAIL(graph_list(t, 1, f->arena, &all, &count, &err), &err);
    assert_int_equal(count, 1);
    OK_OR_FAIL(graph_remove(t, 1, slice_str("g"), f->arena, &err), &err);
    assert_int_equal(graph_remove(t, 1, slice_str("g"), f->arena, &err), ERR_NOT_FOUND);
    assert_int_equal(error_num(&err), 1924);
    txn_end(t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(definitions_are_checked),
        TEST(orphans_follow_the_edge_definitions),
        TEST(graphs_are_stored_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
