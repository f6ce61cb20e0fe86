/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random graphs: what traversals and path searches give equals what joins over
 * the edges give, and what one search says agrees with the others.
 */
#include "random_world.h"

enum { GRAPHS = 12, VERTICES = 7, PAIRS = 6 };

static const char *const directions[] = { "OUTBOUND", "INBOUND", "ANY" };

static void make_collection(struct world *w, const char *name, enum collection_type type)
{
    struct collection_options c = { .name = slice_str(name),
                                    .type = type,
                                    .allow_user_keys = true };
    struct error err = { 0 };
    uint64_t id;

    assert_int_equal(store_create_collection(w->store, 1, &c, &id, &err), OK);
}

static void execute(struct world *w, const char *text)
{
    struct buf rows;

    buf_init(&rows, 0);
    run(w, text, PLAIN, &rows);
    buf_release(&rows);
}

/* Edges with weights from 0, some of them twice, some from a vertex to itself. */
static void make_graph(struct world *w)
{
    char text[300];
    unsigned edges = 4 + chance(w, 14);

    execute(w, "FOR d IN e REMOVE d IN e");
    execute(w, "FOR d IN f REMOVE d IN f");
    for (unsigned i = 0; i < edges; i++) {
        snprintf(text, sizeof text,
                 "INSERT {_key: '%u', _from: 'v/%u', _to: 'v/%u', w: %u} INTO %s", i,
                 chance(w, VERTICES), chance(w, VERTICES), chance(w, 5), chance(w, 4) ? "e" : "f");
        execute(w, text);
    }
}

static void equal(struct world *w, const char *a, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* b may contain a format. */
static void equal(struct world *w, const char *a, const char *fmt, ...)
{
    char b[2000];
    va_list args;

    va_start(args, fmt);
    vsnprintf(b, sizeof b, fmt, args);
    va_end(args);
    must_equal(w, a, b);
}

/* The edges that leave the vertex held by a variable, as a join. */
static const char *joined(const char *direction, const char *vertex, const char *edge, char *out,
                          size_t size)
{
    if (*direction == 'O')
        snprintf(out, size, "FOR %s IN all_edges FILTER %s._from == %s", edge, edge, vertex);
    else if (*direction == 'I')
        snprintf(out, size, "FOR %s IN all_edges FILTER %s._to == %s", edge, edge, vertex);
    else
        snprintf(out, size, "FOR %s IN all_edges FILTER %s._to == %s || %s._from == %s", edge, edge,
                 vertex, edge, vertex);
    return out;
}

static const char *other_end(const char *direction, const char *vertex, const char *edge, char *out,
                             size_t size)
{
    if (*direction == 'O')
        snprintf(out, size, "%s._to", edge);
    else if (*direction == 'I')
        snprintf(out, size, "%s._from", edge);
    else
        snprintf(out, size, "(%s._from == %s ? %s._to : %s._from)", edge, vertex, edge, edge);
    return out;
}

static const char both[] = "LET all_edges = UNION((FOR x IN e RETURN x), (FOR x IN f RETURN x)) ";

/* Two steps with different edges, against a join of the edges with themselves. */
static void two_steps_are_a_join(struct world *w, const char *direction, unsigned start)
{
    char a[2000], first[200], second[200], middle[200], end[200], from[20];

    snprintf(from, sizeof from, "'v/%u'", start);
    joined(direction, from, "x", first, sizeof first);
    other_end(direction, from, "x", middle, sizeof middle);
    joined(direction, "m", "y", second, sizeof second);
    other_end(direction, "m", "y", end, sizeof end);
    snprintf(a, sizeof a,
             "%s%s LET m = %s %s FILTER y._id != x._id SORT x._id, y._id RETURN [x._id, "
             "y._id, %s]",
             both, first, middle, second, end);
    equal(w, a,
          "FOR t, x, p IN 2 %s %s e, f SORT p.edges[0]._id, p.edges[1]._id RETURN [p.edges[0]._id, "
          "p.edges[1]._id, t._id]",
          direction, from);
    equal(w, a,
          "FOR t, x, p IN 1..2 %s %s e, f OPTIONS {order: 'bfs'} FILTER LENGTH(p.edges) == 2 SORT "
          "p.edges[0]._id, x._id RETURN [p.edges[0]._id, x._id, t._id]",
          direction, from);
}

static void orders_give_the_same_paths(struct world *w, const char *direction, unsigned start)
{
    static const char *const unique[] = { "none", "path" };
    const char *vertices = unique[chance(w, 2)];
    char a[1000];

    snprintf(
        a, sizeof a,
        "FOR t, x, p IN 0..4 %s 'v/%u' e, f OPTIONS {uniqueVertices: '%s'} LET k = p.edges[*]._id "
        "SORT LENGTH(k), k RETURN [t._id, x._id, k, p.vertices[*]._id]",
        direction, start, vertices);
    equal(w, a,
          "FOR t, x, p IN 0..4 %s 'v/%u' e, f OPTIONS {order: 'bfs', uniqueVertices: '%s'} LET k = "
          "p.edges[*]._id SORT LENGTH(k), k RETURN [t._id, x._id, k, p.vertices[*]._id]",
          direction, start, vertices);
    equal(w, a,
          "FOR t, x, p IN 0..4 %s 'v/%u' e, f OPTIONS {order: 'weighted', weightAttribute: 'w', "
          "uniqueVertices: '%s'} LET k = p.edges[*]._id SORT LENGTH(k), k RETURN [t._id, x._id, k, "
          "p.vertices[*]._id]",
          direction, start, vertices);
    snprintf(a, sizeof a,
             "FOR t, x, p IN 0..4 %s 'v/%u' e, f OPTIONS {order: 'weighted', weightAttribute: 'w'} "
             "LET s = SUM(p.edges[*].w) SORT s RETURN s",
             direction, start);
    equal(w, a,
          "FOR t, x, p IN 0..4 %s 'v/%u' e, f OPTIONS {order: 'weighted', weightAttribute: 'w'} "
          "RETURN LAST(p.weights)",
          direction, start);
}

/* Each vertex once, where it was first met. */
static void global_visits_are_the_nearest(struct world *w, const char *direction, unsigned start)
{
    char a[1000];

    snprintf(
        a, sizeof a,
        "FOR t, x, p IN 0..6 %s 'v/%u' e, f COLLECT id = t._id AGGREGATE d = MIN(LENGTH(p.edges))"
        " RETURN [id, d]",
        direction, start);
    equal(
        w, a,
        "FOR t, x, p IN 0..6 %s 'v/%u' e, f OPTIONS {order: 'bfs', uniqueVertices: 'global'} SORT "
        "t._id RETURN [t._id, LENGTH(p.edges)]",
        direction, start);
    snprintf(
        a, sizeof a,
        "FOR t, x, p IN 0..7 %s 'v/%u' e, f OPTIONS {uniqueVertices: 'path'} COLLECT id = t._id "
        "AGGREGATE d = MIN(SUM(p.edges[*].w)) RETURN [id, d]",
        direction, start);
    equal(w, a,
          "FOR t, x, p IN 0..7 %s 'v/%u' e, f OPTIONS {order: 'weighted', weightAttribute: 'w', "
          "uniqueVertices: 'global'} SORT t._id RETURN [t._id, LAST(p.weights)]",
          direction, start);
}

static void prune_cuts_what_a_filter_would(struct world *w, const char *direction, unsigned start)
{
    char a[1000];

    snprintf(
        a, sizeof a,
        "FOR t, x, p IN 0..4 %s 'v/%u' e, f FILTER LENGTH(p.vertices[* FILTER CURRENT._key > "
        "'4']) - (t._key > '4' ? 1 : 0) == 0 LET k = p.edges[*]._id SORT LENGTH(k), k RETURN k",
        direction, start);
    equal(w, a,
          "FOR t, x, p IN 0..4 %s 'v/%u' e, f PRUNE t._key > '4' LET k = p.edges[*]._id SORT "
          "LENGTH(k), k RETURN k",
          direction, start);
}

/* All simple paths between two vertices, by a traversal; the searches against them. */
static void searches_agree(struct world *w, const char *direction, unsigned s, unsigned t)
{
    char simple[600], a[1500];

    snprintf(simple, sizeof simple,
             "FOR z, x, p IN 0..7 %s 'v/%u' e, f OPTIONS {uniqueVertices: 'path'} FILTER z._id == "
             "'v/%u'",
             direction, s, t);
    snprintf(a, sizeof a, "%s LET k = p.edges[*]._id SORT LENGTH(k), k RETURN k", simple);
    equal(w, a,
          "FOR p IN 0..7 %s K_PATHS 'v/%u' TO 'v/%u' e, f LET k = p.edges[*]._id SORT LENGTH(k), k "
          "RETURN k",
          direction, s, t);
    snprintf(
        a, sizeof a,
        "%s FILTER LENGTH(p.edges) IN [2, 3] LET k = p.edges[*]._id SORT LENGTH(k), k RETURN k",
        simple);
    equal(w, a,
          "FOR p IN 2..3 %s K_PATHS 'v/%u' TO 'v/%u' e, f LET k = p.edges[*]._id SORT LENGTH(k), k "
          "RETURN k",
          direction, s, t);
    snprintf(
        a, sizeof a,
        "LET l = (%s RETURN p.edges[*]._id) LET n = MIN(l[* RETURN LENGTH(CURRENT)]) FOR k IN l "
        "FILTER LENGTH(k) == n SORT k RETURN k",
        simple);
    equal(
        w, a,
        "FOR p IN %s ALL_SHORTEST_PATHS 'v/%u' TO 'v/%u' e, f LET k = p.edges[*]._id SORT k RETURN "
        "k",
        direction, s, t);
    snprintf(a, sizeof a, "RETURN MIN((%s RETURN LENGTH(p.edges)))", simple);
    equal(w, a,
          "LET l = (FOR z IN %s SHORTEST_PATH 'v/%u' TO 'v/%u' e, f RETURN z) RETURN LENGTH(l) == "
          "0 ? null "
          ": LENGTH(l) - 1",
          direction, s, t);
    snprintf(a, sizeof a, "RETURN MIN((%s RETURN SUM(p.edges[*].w)))", simple);
    equal(w, a,
          "LET l = (FOR z, x IN %s SHORTEST_PATH 'v/%u' TO 'v/%u' e, f OPTIONS {weightAttribute: "
          "'w'} RETURN x.w) RETURN LENGTH(l) == 0 ? null : SUM(l)",
          direction, s, t);
    snprintf(a, sizeof a, "%s LET c = SUM(p.edges[*].w) SORT c RETURN c", simple);
    equal(
        w, a,
        "FOR p IN %s K_SHORTEST_PATHS 'v/%u' TO 'v/%u' e, f OPTIONS {weightAttribute: 'w'} RETURN "
        "p.weight",
        direction, s, t);
    snprintf(a, sizeof a, "%s LET k = p.edges[*]._id SORT k RETURN [k, p.vertices[*]._id]", simple);
    equal(
        w, a,
        "FOR p IN %s K_SHORTEST_PATHS 'v/%u' TO 'v/%u' e, f OPTIONS {weightAttribute: 'w'} LET k = "
        "p.edges[*]._id SORT k RETURN [k, p.vertices[*]._id]",
        direction, s, t);
}

static void graphs_agree_with_joins(void **state)
{
    struct world *w = *state;
    struct error err = { 0 };
    char text[100];

    make_collection(w, "v", COLLECTION_DOCUMENT);
    make_collection(w, "e", COLLECTION_EDGE);
    make_collection(w, "f", COLLECTION_EDGE);
    assert_int_equal(txn_begin(&w->txn, w->store, &(struct txn_options){ 0 }, &err), OK);
    for (int i = 0; i < VERTICES; i++) {
        snprintf(text, sizeof text, "INSERT {_key: '%d'} INTO v", i);
        execute(w, text);
    }
    for (int round = 0; round < GRAPHS; round++) {
        make_graph(w);
        for (int i = 0; i < PAIRS; i++) {
            const char *direction = directions[chance(w, 3)];
            unsigned s = chance(w, VERTICES), t = chance(w, VERTICES);
            two_steps_are_a_join(w, direction, s);
            orders_give_the_same_paths(w, direction, s);
            global_visits_are_the_nearest(w, direction, s);
            prune_cuts_what_a_filter_would(w, direction, s);
            searches_agree(w, direction, s, t);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(graphs_agree_with_joins, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
