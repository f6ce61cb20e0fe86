/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traversals and shortest paths over ten edges a vertex, against recursive SQL over
 * an indexed table of edges. PostgreSQL is asked for the length of a path only, in
 * as many rows as the path has vertices.
 */
#include "aql.h"
#include "aql_data.h"
#include "aql_sides.h"

static void one_start(uint64_t chance, struct aql_values *out)
{
    aql_key(chance % aql_vertices(), &out->text[0]);
}

static void start_and_target(uint64_t chance, struct aql_values *out)
{
    uint64_t from = chance % aql_vertices(), step = 1 + (chance >> 32) % (aql_vertices() - 1);
    aql_key(from, &out->text[0]);
    aql_key((from + step) % aql_vertices(), &out->text[1]);
}

#define TRAVERSE(depth)                                                                            \
    "WITH RECURSIVE w(v, steps) AS (SELECT dst, 1 FROM e WHERE src = $1 UNION ALL SELECT e.dst, "  \
    "w.steps + 1 FROM w JOIN e ON e.src = w.v WHERE w.steps < " #depth                             \
    ") SELECT v.doc->>'name' FROM w JOIN v ON v.key = w.v"

static const struct aql_row rows[] = {
    { .what = "depth1",
      .aql = "WITH v FOR v IN 1..1 OUTBOUND CONCAT('v/', @a) e RETURN v.name",
      .sql = "SELECT v.doc->>'name' FROM e JOIN v ON v.key = e.dst WHERE e.src = $1",
      .kinds = "s",
      .choose = one_start,
      .is_short = true,
      .target = 2 },
    { .what = "depth2",
      .aql = "WITH v FOR v IN 1..2 OUTBOUND CONCAT('v/', @a) e RETURN v.name",
      .sql = TRAVERSE(2),
      .kinds = "s",
      .choose = one_start,
      .is_short = true,
      .target = 2 },
    { .what = "depth3",
      .aql = "WITH v FOR v IN 1..3 OUTBOUND CONCAT('v/', @a) e RETURN v.name",
      .sql = TRAVERSE(3),
      .kinds = "s",
      .choose = one_start,
      .is_short = true,
      .target = 2 },
    { .what = "path",
      .aql = "WITH v FOR v IN OUTBOUND SHORTEST_PATH CONCAT('v/', @a) TO CONCAT('v/', @b) e RETURN "
             "v._key",
      .sql = "WITH RECURSIVE w(v, steps) AS (SELECT $1::text, 0 UNION SELECT e.dst, w.steps + 1 "
             "FROM w JOIN e ON e.src = w.v WHERE w.steps < 20) SELECT generate_series(0, f.steps) "
             "FROM (SELECT steps FROM w WHERE v = $2 LIMIT 1) f",
      .kinds = "ss",
      .choose = start_and_target,
      .target = 2 },
};

void aql_graph(void)
{
    static const unsigned tables[] = { AQL_VERTICES, AQL_EDGES };
    static struct aql_sides s;
    aql_sides_start(&s, "graph", tables, ARRAY_LEN(tables));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        aql_sides_compare(&s, &rows[i]);
    aql_sides_stop(&s);
}
