/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_query -- well-formed queries from bytes: each byte makes a choice, and where bytes end
 * the simplest choice is made, so that a shorter input is a simpler query.
 *
 * Names are known, so a query fails only for what its values are.
 */
#ifndef TEST_FUZZ_RANDOM_QUERY_H
#define TEST_FUZZ_RANDOM_QUERY_H

#include "base/buf.h"
#include "query/fn.h"
#include <stdio.h>

enum { VARIABLES_MAX = 12, DEPTH_USUAL = 4, DEPTH_HOSTILE = 60, OPERATIONS_MAX = 6 };

struct name {
    char text[8];
};

struct random_query {
    const uint8_t *bytes;
    size_t len, at;
    struct buf text;
    struct name variables[VARIABLES_MAX]; /* that may be used here */
    size_t variable_count;
    unsigned named;
    unsigned depth, depth_max;
    bool is_stable;     /* the same rows each time */
    bool is_order_free; /* the same rows, in any order, whatever order documents are read in */
};

/* 0 to n - 1; 0 when the bytes are used up. */
static unsigned choose(struct random_query *q, unsigned n)
{
    return q->at < q->len ? q->bytes[q->at++] % n : 0;
}

static void say(struct random_query *q, const char *text)
{
    buf_add_str(&q->text, text);
}

#define CHOOSE(q, ...)                                                                             \
    say(q, ((const char *const[]){                                                                 \
               __VA_ARGS__ })[choose(q, ARRAY_LEN(((const char *const[]){ __VA_ARGS__ })))])

static void say_value(struct random_query *q);
static void say_pipeline(struct random_query *q);

/* ---- names ---- */

static struct name new_name(struct random_query *q)
{
    struct name n;

    snprintf(n.text, sizeof n.text, "x%u", q->named++ % 1000000);
    return n;
}

/* From here on it may be used; when there are many, one is forgotten. */
static void declare(struct random_query *q, struct name n)
{
    size_t i = q->variable_count < VARIABLES_MAX ? q->variable_count++ : VARIABLES_MAX - 1;

    q->variables[i] = n;
}

static void say_variable(struct random_query *q)
{
    if (q->variable_count)
        say(q, q->variables[choose(q, (unsigned)q->variable_count)].text);
    else
        say(q, "(1)");
}

static void say_collection(struct random_query *q)
{
    CHOOSE(q, "c", "d", "u", "e");
}

static void say_attribute(struct random_query *q)
{
    CHOOSE(q, "n", "t", "v", "o", "_key", "_id", "_from", "o.p", "absent");
}

/* ---- expressions ---- */

static void say_literal(struct random_query *q)
{
    CHOOSE(q, "null", "true", "false", "0", "1", "-1", "2", "1.5", "1e300", "9007199254740993",
           "'a'", "''", "'x'", "'ab'", "'1'", "'c/a'", "'2024-02-29T12:00:00Z'", "'^a.*$'",
           "'days'", "[]", "[1, 2]", "[[1, null], 'a']", "[1, 0]", "{}", "{n: 1, o: {p: 2}}",
           "-9223372036854775807", "9223372036854775807", "-1e308", "5e-324", "'\\u0000'",
           "'\\ud83d\\ude00e\\u0301'", "[[[[[[[[[[]]]]]]]]]]", "REPEAT('ab', 500)", "(1..300)",
           "{a: {a: {a: {a: {a: [{}]}}}}}");
}

static void say_list(struct random_query *q)
{
    unsigned count = choose(q, 4);

    for (unsigned i = 0; i < count; i++) {
        say(q, i ? ", " : "");
        say_value(q);
    }
}

static void say_call(struct random_query *q)
{
    size_t all = 0;

    while (fn_at(all))
        all++;
    if (choose(q, 16) == 15) {
        CHOOSE(q, "INFER('m', ", "EMBED('m', ");
        say_value(q);
        say(q, ")");
        return;
    }
    const struct fn *fn = fn_at((choose(q, 256) * 256 + choose(q, 256)) % all);
    unsigned more = fn->max_args < 0 ? 3 : (unsigned)(fn->max_args - fn->min_args);
    unsigned count = (unsigned)fn->min_args + choose(q, more + 1);

    q->is_stable = q->is_stable && fn->flags & FN_PURE;
    buf_printf(&q->text, "%s(", fn->name);
    for (unsigned i = 0; i < count; i++) {
        say(q, i ? ", " : "");
        say_value(q);
    }
    say(q, ")");
}

static void say_object(struct random_query *q)
{
    unsigned count = choose(q, 3);

    say(q, "{");
    for (unsigned i = 0; i < count; i++) {
        say(q, i ? ", " : "");
        if (choose(q, 4) == 3) {
            say(q, "[");
            say_value(q);
            say(q, "]");
        } else {
            CHOOSE(q, "n", "t", "v", "_key");
        }
        say(q, ": ");
        say_value(q);
    }
    say(q, "}");
}

static void say_expansion(struct random_query *q)
{
    say(q, "(");
    say_value(q);
    CHOOSE(q, ")[*", ")[**");
    if (choose(q, 2))
        say(q, " FILTER CURRENT != 1");
    if (choose(q, 3) == 2)
        say(q, " LIMIT 1, 2");
    if (choose(q, 3) == 2)
        say(q, " RETURN [CURRENT]");
    CHOOSE(q, "]", "].n", "].o.p", "][0]");
}

static void say_array_test(struct random_query *q)
{
    say(q, "(");
    say_value(q);
    CHOOSE(q, ")[? FILTER CURRENT > 1]", ")[? ANY FILTER CURRENT == 'a']",
           ")[? AT LEAST (2) FILTER CURRENT]", ")[? NONE FILTER CURRENT]", ")[? 1..2 FILTER true]");
}

static void say_operator(struct random_query *q)
{
    say(q, "(");
    say_value(q);
    CHOOSE(q, " == ", " != ", " < ", " <= ", " > ", " >= ", " IN ", " NOT IN ", " && ", " || ",
           " + ", " - ", " * ", " / ", " % ", " LIKE ", " NOT LIKE ", " =~ ", " !~ ",
           " ANY == ", " ALL IN ", " NONE < ", " AT LEAST (1) > ");
    say_value(q);
    say(q, ")");
}

/* What it declares is known in it alone. */
static void say_subquery(struct random_query *q)
{
    struct name outer[VARIABLES_MAX];
    size_t count = q->variable_count;

    q->is_order_free = false; /* an array has an order */

    memcpy(outer, q->variables, sizeof outer);
    say(q, "(");
    say_pipeline(q);
    say(q, ")");
    memcpy(q->variables, outer, sizeof outer);
    q->variable_count = count;
}

static void say_simple(struct random_query *q)
{
    switch (choose(q, 3)) {
    case 0:
        say_variable(q);
        break;
    case 1:
        say_variable(q);
        say(q, ".");
        say_attribute(q);
        break;
    default:
        say_literal(q);
    }
}

/* At the limit of the depth only what has no parts. */
static void say_value(struct random_query *q)
{
    unsigned kind = q->depth < q->depth_max ? choose(q, 14) : choose(q, 2);

    q->depth++;
    switch (kind) {
    case 0:
    case 1:
    case 2:
        say_simple(q);
        break;
    case 3:
    case 4:
        say_operator(q);
        break;
    case 5:
        CHOOSE(q, "!(", "-(", "+(");
        say_value(q);
        say(q, ")");
        break;
    case 6:
        say(q, "(");
        say_value(q);
        say(q, " ? ");
        say_value(q);
        say(q, " : ");
        say_value(q);
        say(q, ")");
        break;
    case 7:
        say(q, "[");
        say_list(q);
        say(q, "]");
        break;
    case 8:
        say_object(q);
        break;
    case 9:
        say_expansion(q);
        break;
    case 10:
        say_array_test(q);
        break;
    case 11:
        say(q, "(");
        say_value(q);
        say(q, ")[");
        say_value(q);
        say(q, "]");
        break;
    case 12:
        say_subquery(q);
        break;
    default:
        say_call(q);
    }
    q->depth--;
}

/* ---- operations ---- */

static void say_for(struct random_query *q)
{
    struct name n = new_name(q);

    buf_printf(&q->text, "FOR %s IN ", n.text);
    switch (choose(q, 4)) {
    case 1:
        CHOOSE(q, "1..3", "[3, 1, 2, 1]", "['a', 'c/b', null]");
        break;
    case 2:
        say(q, "(");
        say_value(q);
        say(q, ")");
        break;
    default:
        say_collection(q);
    }
    declare(q, n);
}

static void say_let(struct random_query *q)
{
    struct name n = new_name(q);

    buf_printf(&q->text, "LET %s = ", n.text);
    say_value(q);
    declare(q, n);
}

static void say_sort(struct random_query *q)
{
    say(q, "SORT ");
    say_value(q);
    CHOOSE(q, "", " DESC", " ASC");
    if (choose(q, 2)) {
        say(q, ", ");
        say_value(q);
    }
}

static void say_key(struct random_query *q, struct name n)
{
    buf_printf(&q->text, "%s = ", n.text);
    say_value(q);
}

static void say_aggregate(struct random_query *q, struct name n)
{
    static const char *const names[] = { "COUNT",         "SUM",
                                         "MIN",           "MAX",
                                         "AVERAGE",       "UNIQUE",
                                         "SORTED_UNIQUE", "COUNT_DISTINCT",
                                         "STDDEV",        "VARIANCE_SAMPLE" };
    unsigned i = choose(q, ARRAY_LEN(names));

    q->is_order_free = q->is_order_free && (i == 0 || i == 6 || i == 7);
    buf_printf(&q->text, " AGGREGATE %s = %s(", n.text, names[i]);
    say_value(q);
    say(q, ")");
}

/* Only what it declares is known behind it. */
static void say_collect(struct random_query *q)
{
    struct name key = new_name(q), other = new_name(q);
    unsigned form = choose(q, 5);

    say(q, "COLLECT ");
    if (form != 1)
        say_key(q, key);
    if (form == 1 || form == 2)
        say_aggregate(q, other);
    q->is_order_free = q->is_order_free && form != 3;
    if (form == 3)
        buf_printf(&q->text, " INTO %s", other.text);
    if (form == 3 && choose(q, 2)) {
        say(q, " = ");
        say_value(q);
    }
    if (form == 4)
        buf_printf(&q->text, " WITH COUNT INTO %s", other.text);
    q->variable_count = 0;
    if (form != 1)
        declare(q, key);
    if (form != 0)
        declare(q, other);
}

static void say_window(struct random_query *q)
{
    struct name n = new_name(q);

    q->is_order_free = false;
    say(q, "WINDOW ");
    if (choose(q, 2)) {
        say_value(q);
        CHOOSE(q, " WITH {preceding: 1, following: 1}", " WITH {preceding: 0.5}",
               " WITH {following: 'PT1H'}");
    } else {
        CHOOSE(q, "{preceding: 1, following: 1}", "{preceding: 'unbounded'}", "{following: 2}");
    }
    say_aggregate(q, n);
    declare(q, n);
}

/* Comparisons that indexes and joins are looked for in. */
static void say_condition(struct random_query *q)
{
    unsigned parts = 1 + choose(q, 3);

    for (unsigned i = 0; i < parts; i++) {
        say(q, i ? (choose(q, 3) == 2 ? " || " : " && ") : "");
        if (choose(q, 5) == 4) {
            say_simple(q);
            say(q, " IN ");
            say_variable(q);
            CHOOSE(q, ".t[*]", ".n[*]");
            continue;
        }
        say_variable(q);
        CHOOSE(q, ".n", ".t", "._key", ".o.p", "._from");
        CHOOSE(q, " == ", " < ", " >= ", " IN ", " != ", " ANY == ", " ANY IN ", " > ");
        say_simple(q);
    }
}

static void say_operation(struct random_query *q)
{
    switch (choose(q, 11)) {
    case 0:
    case 1:
        say(q, "FILTER ");
        say_value(q);
        break;
    case 9:
        say(q, "FILTER ");
        say_condition(q);
        break;
    case 10:
        say(q, "SORT ");
        say_variable(q);
        CHOOSE(q, ".n", ".n DESC", ".t", "._key");
        break;
    case 2:
        say_let(q);
        break;
    case 3:
        say_sort(q);
        break;
    case 4:
        q->is_order_free = false;
        CHOOSE(q, "LIMIT 2", "LIMIT 0", "LIMIT 1, 3", "LIMIT 5, 1");
        break;
    case 5:
        say_for(q);
        break;
    case 6:
        say_collect(q);
        break;
    case 7:
        say_window(q);
        break;
    default:
        q->is_order_free = false;
        say(q, "SORT ");
        say_variable(q);
        say(q, " LIMIT 3");
    }
}

static void say_write(struct random_query *q)
{
    static const char *const options[] = {
        "",
        " OPTIONS {ignoreErrors: true}",
        " OPTIONS {keepNull: false, mergeObjects: false}",
        " OPTIONS {overwriteMode: 'update'}",
        " OPTIONS {overwriteMode: 'ignore'}",
    };
    unsigned form = choose(q, 5);

    switch (form) {
    case 0:
        say(q, "INSERT ");
        say_value(q);
        break;
    case 1:
        say(q, "UPDATE ");
        say_value(q);
        say(q, " WITH ");
        say_value(q);
        break;
    case 2:
        say(q, "REPLACE ");
        say_value(q);
        say(q, " WITH ");
        say_value(q);
        break;
    case 3:
        say(q, "REMOVE ");
        say_value(q);
        break;
    default:
        say(q, "UPSERT {n: ");
        say_value(q);
        say(q, "} INSERT ");
        say_value(q);
        CHOOSE(q, " UPDATE ", " REPLACE ");
        say_value(q);
    }
    say(q, " IN ");
    say_collection(q);
    say(q, options[choose(q, form == 0 ? 5 : 3)]);
    if (form != 3)
        CHOOSE(q, "", " RETURN NEW", " RETURN [NEW, 1]");
    else
        CHOOSE(q, "", " RETURN OLD");
    q->is_stable = false; /* keys and revisions are new each time */
}

static void say_return(struct random_query *q, bool has_for)
{
    say(q, "RETURN ");
    if (has_for && choose(q, 4) == 3)
        say(q, "DISTINCT ");
    say_value(q);
}

/* Starts with a FOR or a value, ends with RETURN. */
static void say_pipeline(struct random_query *q)
{
    unsigned operations = choose(q, q->depth ? 3 : OPERATIONS_MAX);

    bool has_for = choose(q, 4) != 3;

    if (has_for) {
        say_for(q);
        say(q, " ");
    }
    for (unsigned i = 0; i < operations; i++) {
        say_operation(q);
        say(q, " ");
    }
    say_return(q, has_for);
}

/* The text is released by the caller. */
static void random_query(struct random_query *q, const uint8_t *bytes, size_t len)
{
    *q = (struct random_query){
        .bytes = bytes, .len = len, .is_stable = true, .is_order_free = true
    };
    buf_init(&q->text, 0);
    q->depth_max = choose(q, 8) == 7 ? DEPTH_HOSTILE : DEPTH_USUAL;
    if (choose(q, 4) != 3) {
        say_pipeline(q);
        return;
    }
    if (choose(q, 2)) {
        say_for(q);
        say(q, " ");
    }
    unsigned operations = choose(q, 3);
    for (unsigned i = 0; i < operations; i++) {
        say_operation(q);
        say(q, " ");
    }
    say_write(q);
}

#endif
