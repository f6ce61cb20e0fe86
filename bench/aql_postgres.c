/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions that databases are asked all day, over documents on one side and a
 * table of jsonb with equal indexes on the other. Writes are durable when answered.
 */
#include "aql.h"
#include "aql_data.h"
#include "aql_sides.h"

enum { INSERTED = 1000 };

static void one_key(uint64_t chance, struct aql_values *out)
{
    aql_key(chance % aql_docs(), &out->text[0]);
}

static void one_name(uint64_t chance, struct aql_values *out)
{
    buf_printf(&out->text[0], "person %llu", (unsigned long long)(chance % aql_docs()));
}

/* A thousandth of the documents. */
static void some_scores(uint64_t chance, struct aql_values *out)
{
    unsigned from = (unsigned)(chance % 999);
    buf_printf(&out->text[0], "%u", from);
    buf_printf(&out->text[1], "%u", from + 1);
}

static void age_and_city(uint64_t chance, struct aql_values *out)
{
    buf_printf(&out->text[0], "%u", (unsigned)(chance % AQL_AGES));
    buf_add_str(&out->text[1], aql_city((unsigned)(chance >> 8)));
}

static void one_group(uint64_t chance, struct aql_values *out)
{
    uint64_t number = chance % aql_docs(); /* a group that has a document */
    buf_printf(&out->text[0], "%u", (unsigned)(aql_mixed(number) >> 20) % AQL_GROUPS);
}

static void new_documents(uint64_t chance, struct aql_values *out)
{
    buf_add_char(&out->text[0], '[');
    for (unsigned i = 0; i < INSERTED; i++) {
        if (i)
            buf_add_char(&out->text[0], ',');
        aql_body(chance % 1000000 + i, &out->text[0]);
    }
    buf_add_char(&out->text[0], ']');
}

static const struct aql_row rows[] = {
    { .what = "point",
      .aql = "FOR d IN d FILTER d._key == @a RETURN d",
      .sql = "SELECT doc FROM d WHERE key = $1",
      .kinds = "s",
      .choose = one_key,
      .is_short = true },
    { .what = "secondary",
      .aql = "FOR d IN d FILTER d.name == @a RETURN d",
      .sql = "SELECT doc FROM d WHERE doc->>'name' = $1",
      .kinds = "s",
      .choose = one_name,
      .is_short = true },
    { .what = "range",
      .aql = "FOR d IN d FILTER d.score >= @a && d.score < @b && d.active == true RETURN d.name",
      .sql = "SELECT doc->>'name' FROM d WHERE (doc->>'score')::float8 >= $1::float8 AND "
             "(doc->>'score')::float8 < $2::float8 AND (doc->>'active')::bool",
      .kinds = "jj",
      .choose = some_scores,
      .is_short = true },
    { .what = "scan",
      .aql = "FOR d IN d FILTER d.age == @a && d.city == @b RETURN d._key",
      .sql = "SELECT key FROM d WHERE (doc->>'age')::int = $1::int AND doc->>'city' = $2",
      .kinds = "js",
      .choose = age_and_city,
      .is_parallel = true },
    { .what = "group",
      .aql = "FOR d IN d COLLECT city = d.city AGGREGATE a = AVG(d.age), m = MAX(d.score) RETURN "
             "{city, a, m}",
      .sql = "SELECT doc->>'city', avg((doc->>'age')::int), max((doc->>'score')::float8) FROM d "
             "GROUP BY 1",
      .is_parallel = true },
    { .what = "topk",
      .aql = "FOR d IN d SORT d.age DESC, d.n LIMIT 10 RETURN d.name",
      .sql = "SELECT doc->>'name' FROM d ORDER BY (doc->>'age')::int DESC, (doc->>'n')::int LIMIT "
             "10",
      .is_parallel = true },
    { .what = "join",
      .aql = "FOR d IN d FOR g IN g FILTER g.code == d.group COLLECT kind = g.kind AGGREGATE w = "
             "SUM(g.weight) RETURN {kind, w}",
      .sql = "SELECT g.doc->>'kind', sum((g.doc->>'weight')::int) FROM d JOIN g ON "
             "(g.doc->>'code')::int = (d.doc->>'group')::int GROUP BY 1",
      .is_parallel = true },
    { .what = "insert",
      .aql = "FOR x IN @a INSERT x INTO b",
      .sql = "INSERT INTO b (doc) SELECT x FROM jsonb_array_elements($1::jsonb) x",
      .kinds = "j",
      .choose = new_documents,
      .is_short = true,
      .is_write = true,
      .units = INSERTED,
      .unit = "documents/s" },
    { .what = "update",
      .aql = "FOR d IN d FILTER d.group == @a UPDATE d WITH {n: d.n + 1} IN d",
      .sql = "UPDATE d SET doc = jsonb_set(doc, '{n}', to_jsonb((doc->>'n')::int + 1)) WHERE "
             "(doc->>'group')::int = $1::int",
      .kinds = "j",
      .choose = one_group,
      .is_short = true,
      .is_write = true },
};

void aql_postgres(void)
{
    static const unsigned tables[] = { AQL_DOCUMENTS, AQL_JOINED, AQL_EMPTY };
    static struct aql_sides s;
    aql_sides_start(&s, "postgres", tables, ARRAY_LEN(tables));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        aql_sides_compare(&s, &rows[i]);
    aql_sides_stop(&s);
}
