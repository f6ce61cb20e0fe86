/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random conditions over random documents: a query gives the same rows with
 * and without indexes, with and without the planner's rules, directly and through
 * the codec, as a filter and as a value; a condition and its negation share out the
 * collection, and so do the types of an attribute; LIMIT gives the head of what SORT
 * gives; joins, orders, offsets and groups are the same by index, by table and by neither.
 */
#include "random_world.h"

enum { DOCS = 300, SMALL = 40, ROUNDS = 60 };

/* Few different values of all types, many of them nearly equal. */
static const char *const values[] = {
    "null",
    "true",
    "false",
    "0",
    "1",
    "2",
    "1.5",
    "-1",
    "1e3",
    "''",
    "'a'",
    "'b'",
    "'A'",
    "'ä'",
    "'ab'",
    "[]",
    "[1]",
    "[1, null]",
    "[1, 2]",
    "{}",
    "{x: 1}",
    "{x: null}",
    "9007199254740993",
    "'1'",
    "['a', 'b', 'a']",
    "[null, 'a']",
    "[[1], 'ab']",
};

static const char *value(struct world *w)
{
    return values[chance(w, ARRAY_LEN(values))];
}

static void add_condition(struct world *w, struct buf *out, int depth)
{
    static const char *const ops[] = { "==", "!=", "<", "<=", ">", ">=" };
    static const char fields[] = "abc";

    if (depth && chance(w, 3)) {
        buf_add_char(out, '(');
        add_condition(w, out, depth - 1);
        buf_add_str(out, chance(w, 4) ? " AND " : " OR ");
        add_condition(w, out, depth - 1);
        buf_add_char(out, ')');
        return;
    }
    char field = fields[chance(w, 3)];
    switch (chance(w, 8)) {
    case 5:
        buf_printf(out, "%s IN d.%c[*]", value(w), field);
        return;
    case 6:
        buf_printf(out, "d.%c%s ANY %s [%s, %s]", field, chance(w, 2) ? "[*]" : "",
                   chance(w, 2) ? "==" : "IN", value(w), value(w));
        return;
    case 7:
        buf_printf(out, "d.%c != null", field);
        return;
    case 0:
        buf_printf(out, "d.%c IN [%s, %s, %s]", field, value(w), value(w), value(w));
        return;
    case 1:
        buf_printf(out, "%s %s d.%c", value(w), ops[chance(w, 6)], field);
        return;
    case 2:
        buf_printf(out, "!(d.%c == %s)", field, value(w));
        return;
    default:
        buf_printf(out, "d.%c %s %s", field, ops[chance(w, 6)], value(w));
        return;
    }
}

static void compare_condition(struct world *w, const char *p)
{
    static char a[4000], b[4000];

    snprintf(a, sizeof a,
             "FOR d IN c OPTIONS {disableIndex: true} FILTER %s SORT d._key RETURN d._key", p);
    snprintf(b, sizeof b, "FOR d IN c FILTER %s SORT d._key RETURN d._key", p);
    must_equal(w, a, b);
    snprintf(b, sizeof b, "FOR d IN c LET keep = (%s) SORT d._key FILTER keep RETURN d._key", p);
    must_equal(w, a, b);
    snprintf(b, sizeof b,
             "FOR x IN 1..1 FOR d IN c FILTER x == 1 FILTER %s SORT d._key RETURN d._key", p);
    must_equal(w, a, b);
    snprintf(b, sizeof b, "FOR k IN (FOR d IN c FILTER %s RETURN d._key) SORT k RETURN k", p);
    must_equal(w, a, b);
    snprintf(a, sizeof a,
             "FOR d IN c OPTIONS {disableIndex: true} FILTER %s SORT d._key RETURN [d._key, d.b, "
             "d.c]",
             p);
    snprintf(b, sizeof b, "FOR d IN c FILTER %s SORT d._key RETURN [d._key, d.b, d.c]", p);
    must_equal(w, a, b);
    snprintf(a, sizeof a, "FOR d IN c COLLECT WITH COUNT INTO n RETURN n");
    snprintf(
        b, sizeof b,
        "RETURN LENGTH(FOR d IN c FILTER %s RETURN 1) + LENGTH(FOR d IN c FILTER !(%s) RETURN d)",
        p, p);
    must_equal(w, a, b);
    unsigned offset = chance(w, 20), count = chance(w, 50);
    snprintf(
        a, sizeof a,
        "FOR x IN SLICE((FOR d IN c FILTER %s SORT d.b DESC, d.a, d._key RETURN d._key), %u, %u) "
        "RETURN x",
        p, offset, count);
    snprintf(b, sizeof b,
             "FOR d IN c FILTER %s SORT d.b DESC, d.a, d._key LIMIT %u, %u RETURN d._key", p,
             offset, count);
    if (count)
        must_equal(w, a, b);
}

/* Which documents an offset leaves is open, but not how many, and that all of them pass. */
static void compare_offsets(struct world *w)
{
    static char a[4000], b[4000];
    struct buf p;

    buf_init(&p, 0);
    add_condition(w, &p, (int)chance(w, 2));
    unsigned offset = chance(w, 40), count = chance(w, 80);
    snprintf(a, sizeof a,
             "RETURN LENGTH(SLICE((FOR d IN c OPTIONS {disableIndex: true} FILTER NOOPT(%s) RETURN "
             "1), %u, %u))",
             buf_cstr(&p), offset, count + 1);
    snprintf(b, sizeof b,
             "RETURN LENGTH(FOR k IN UNIQUE((FOR d IN c FILTER %s LIMIT %u, %u RETURN d._key)) FOR "
             "d IN c FILTER d._key == k AND NOOPT(%s) RETURN 1)",
             buf_cstr(&p), offset, count + 1, buf_cstr(&p));
    must_equal(w, a, b);
    buf_release(&p);
}

/* What a condition, its negation and the types of an attribute share out is everything. */
static void compare_parts(struct world *w, const char *p)
{
    static const char all[] = "FOR k IN (FOR d IN c RETURN d._key) SORT k RETURN k";
    static char text[4000];

    snprintf(text, sizeof text,
             "FOR k IN UNION((FOR d IN c FILTER %s RETURN d._key), (FOR d IN c FILTER !(%s) "
             "RETURN d._key)) SORT k RETURN k",
             p, p);
    must_equal(w, all, text);
    snprintf(text, sizeof text,
             "FOR b IN [true, false] FOR d IN c FILTER (%s) == b SORT d._key RETURN d._key", p);
    must_equal(w, all, text);
    for (char field = 'a'; field <= 'c'; field++) {
        snprintf(
            text, sizeof text,
            "FOR k IN FLATTEN(FOR t IN ['null', 'bool', 'number', 'string', 'array', 'object'] "
            "RETURN (FOR d IN c FILTER TYPENAME(d.%c) == t FILTER %s OR !(%s) RETURN d._key)) "
            "SORT k RETURN k",
            field, p, p);
        must_equal(w, all, text);
    }
}

/* The first text has nothing that an index or a table could be used for. */
static void compare_joins(struct world *w, const char *p)
{
    static const char fields[] = "abc";
    static char a[4000], b[4000];
    char left = fields[chance(w, 3)], right = fields[chance(w, 3)];

    snprintf(a, sizeof a,
             "FOR d IN c FILTER NOOPT(%s) FOR e IN small FILTER NOOPT(d.%c) == e.%c SORT d._key, "
             "e._key RETURN [d._key, e._key, e.a]",
             p, left, right);
    snprintf(b, sizeof b,
             "FOR d IN c FILTER %s FOR e IN small FILTER d.%c == e.%c SORT d._key, e._key RETURN "
             "[d._key, e._key, e.a]",
             p, left, right);
    must_equal(w, a, b);
    snprintf(b, sizeof b,
             "FOR e IN small FOR d IN c FILTER d.%c == e.%c AND (%s) SORT d._key, e._key RETURN "
             "[d._key, e._key, e.a]",
             left, right, p);
    must_equal(w, a, b);
    snprintf(b, sizeof b,
             "FOR d IN c FILTER %s SORT d._key FOR k IN (FOR e IN small FILTER e.%c == d.%c SORT "
             "e._key RETURN [d._key, e._key, e.a]) RETURN k",
             p, right, left);
    must_equal(w, a, b);
    snprintf(b, sizeof b,
             "FOR d IN c FILTER %s LET l = (FOR e IN small FILTER e.%c == d.%c SORT e._key RETURN "
             "[d._key, e._key, e.a]) SORT d._key FOR k IN l RETURN k",
             p, right, left);
    must_equal(w, a, b);
    snprintf(a, sizeof a,
             "FOR d IN c FILTER NOOPT(%s) SORT d._key RETURN LENGTH(NOOPT((FOR e IN small FILTER "
             "NOOPT(e.%c) == d.%c RETURN 1)))",
             p, right, left);
    snprintf(b, sizeof b,
             "FOR d IN c FILTER %s SORT d._key RETURN LENGTH(FOR e IN small FILTER e.%c == d.%c "
             "RETURN e)",
             p, right, left);
    must_equal(w, a, b);
}

/* Equal values of these types may differ: [1] and [1, null]. Which comes first is open. */
#define SCALARS                                                                                    \
    "FILTER LENGTH(INTERSECTION(['array', 'object'], [TYPENAME(d.a), TYPENAME(d.b), "              \
    "TYPENAME(d.c)])) == 0 "

static void compare_orders(struct world *w, const char *p)
{
    static char a[4000], b[4000];

    snprintf(a, sizeof a,
             "FOR d IN c OPTIONS {disableIndex: true} FILTER %s " SCALARS
             "SORT d.c, d.b, d.a RETURN [d.c, d.b, "
             "d.a]",
             p);
    snprintf(b, sizeof b,
             "FOR d IN c FILTER %s " SCALARS "SORT d.c, d.b, d.a RETURN [d.c, d.b, d.a]", p);
    must_equal(w, a, b);
    snprintf(a, sizeof a,
             "FOR d IN c OPTIONS {disableIndex: true} FILTER %s " SCALARS
             "SORT d.a DESC, d.b DESC LIMIT 2, 20 "
             "RETURN [d.a, d.b]",
             p);
    snprintf(
        b, sizeof b,
        "FOR d IN c FILTER %s " SCALARS "SORT d.a DESC, d.b DESC LIMIT 2, 20 RETURN [d.a, d.b]", p);
    must_equal(w, a, b);
    snprintf(a, sizeof a,
             "FOR d IN c OPTIONS {disableIndex: true} FILTER %s " SCALARS
             "COLLECT x = d.c, y = d.b WITH COUNT "
             "INTO n OPTIONS {method: 'hash'} RETURN [x, y, n]",
             p);
    snprintf(b, sizeof b,
             "FOR d IN c FILTER %s " SCALARS
             "COLLECT x = d.c, y = d.b WITH COUNT INTO n RETURN [x, y, n]",
             p);
    must_equal(w, a, b);
    snprintf(a, sizeof a,
             "FOR d IN c FILTER NOOPT(%s) " SCALARS
             "COLLECT x = d.b AGGREGATE m = MIN(d.a), s = SUM(1), u = "
             "COUNT_DISTINCT(d.c) OPTIONS {method: 'hash'} RETURN [x, m, s, u]",
             p);
    snprintf(b, sizeof b,
             "FOR d IN c FILTER %s " SCALARS
             "COLLECT x = d.b AGGREGATE m = MIN(d.a), s = SUM(1), u = "
             "COUNT_DISTINCT(d.c) RETURN [x, m, s, u]",
             p);
    must_equal(w, a, b);
}

static void insert_random(struct world *w, const char *collection, int count)
{
    struct buf text, rows;

    buf_init(&text, 0);
    buf_init(&rows, 0);
    for (int i = 0; i < count; i++) {
        buf_clear(&text);
        buf_printf(&text, "INSERT {_key: '%d'", i);
        for (char field = 'a'; field <= 'c'; field++)
            if (chance(w, 6))
                buf_printf(&text, ", %c: %s", field, value(w));
        buf_printf(&text, "} INTO %s", collection);
        run(w, buf_cstr(&text), PLAIN, &rows);
    }
    buf_release(&rows);
    buf_release(&text);
}

static void plans_agree(void **state)
{
    struct world *w = *state;
    struct error err = { 0 };
    struct buf text;
    struct collection_options c = { .name = slice_str("c"),
                                    .type = COLLECTION_DOCUMENT,
                                    .allow_user_keys = true };
    uint64_t id;

    c.name = slice_str("small");
    assert_int_equal(store_create_collection(w->store, 1, &c, &id, &err), OK);
    c.name = slice_str("c");
    assert_int_equal(store_create_collection(w->store, 1, &c, &id, &err), OK);
    add_index(w, id, "{\"type\":\"persistent\",\"fields\":[\"a\",\"b\"]}");
    add_index(w, id, "{\"type\":\"persistent\",\"fields\":[\"b\"],\"sparse\":true}");
    add_index(w, id, "{\"type\":\"persistent\",\"fields\":[\"c\",\"a[*]\"]}");
    add_index(w, id, "{\"type\":\"persistent\",\"fields\":[\"a[*]\"]}");
    add_index(w, id, "{\"type\":\"persistent\",\"fields\":[\"b[*]\"],\"sparse\":true}");
    add_index(w, id, "{\"type\":\"persistent\",\"fields\":[\"c\",\"a\"],\"sparse\":true}");
    add_index(w, id, "{\"type\":\"persistent\",\"fields\":[\"c\",\"b\",\"a\"]}");
    add_index(w, id, "{\"type\":\"persistent\",\"fields\":[\"b\"],\"storedValues\":[\"c\",\"a\"]}");
    assert_int_equal(txn_begin(&w->txn, w->store, &(struct txn_options){ 0 }, &err), OK);
    buf_init(&text, 0);
    insert_random(w, "c", DOCS);
    insert_random(w, "small", SMALL);
    for (int i = 0; i < ROUNDS; i++) {
        buf_clear(&text);
        add_condition(w, &text, (int)chance(w, 4));
        compare_condition(w, buf_cstr(&text));
        compare_parts(w, buf_cstr(&text));
        compare_joins(w, buf_cstr(&text));
        compare_orders(w, buf_cstr(&text));
        compare_offsets(w);
    }
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plans_agree, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
