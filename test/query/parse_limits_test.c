/* SPDX-License-Identifier: Apache-2.0 */
/* Queries that are too deep, too long or no queries at all. */
#include "../check.h"
#include "ast_rules.h"
#include "base/val_text.h"
#include <stdio.h>
#include <time.h>

/* head, count times open, middle, count times close, tail */
static void nest(struct buf *text, const char *head, const char *open, const char *middle,
                 const char *close, size_t count)
{
    buf_clear(text);
    buf_add_str(text, head);
    for (size_t i = 0; i < count; i++)
        buf_add_str(text, open);
    buf_add_str(text, middle);
    for (size_t i = 0; i < count; i++)
        buf_add_str(text, close);
}

static const struct nesting {
    const char *head, *open, *middle, *close;
    size_t fits; /* levels that are certainly allowed */
} nestings[] = {
    { "RETURN ", "(", "1", ")", 500 },
    { "RETURN ", "[", "1", "]", 497 },
    { "RETURN ", "{a:", "1", "}", 248 },
    { "RETURN ", "F(", "1", ")", 497 },
    { "RETURN ", "-", "a", "", 497 },
    { "RETURN ", "!", "a", "", 497 },
    { "RETURN ", "NOT ", "a", "", 497 },
    { "RETURN ", "a+", "a", "", 497 },
    { "RETURN ", "a + (", "a", ")", 497 },
    { "RETURN ", "a OR ", "a", "", 497 },
    { "RETURN ", "a?b:", "a", "", 497 },
    { "RETURN ", "a?:", "a", "", 497 },
    { "RETURN ", "1?", "a", ":b", 497 },
    { "RETURN a", ".b", "", "", 497 },
    { "RETURN a", "[0]", "", "", 497 },
    { "RETURN ", "a[", "0", "]", 497 },
    { "RETURN a", "[*]", "", "", 496 },
    { "RETURN a", "[*].b", "", "", 248 },
    { "RETURN ", "a[* RETURN ", "0", "]", 497 },
    { "RETURN ", "a[? FILTER ", "0", "]", 497 },
    { "RETURN a", "[**]", "", "", 497 },
    { "RETURN ", "(RETURN ", "0", ")", 248 },
    { "RETURN ", "F(RETURN ", "0", ")", 165 },
    { "RETURN ", "(FOR x IN [1] RETURN ", "0", ")", 248 },
    { "RETURN ", "a OR b AND c == d IN e < f .. g + h * -(", "i", ")", 55 },
    { "RETURN ", "INFER \"m\" ", "p", "", 497 },
    { "RETURN ", "EMBED \"m\" (", "p", ")", 497 },
    { "RETURN ", "INFER \"m\" p DOMAIN ", "p", "", 165 },
    { "LET ", "[", "a", "] = 1 RETURN a", 0 },
    { "FOR x IN ", "1..2 OUTBOUND ", "a e RETURN x", "", 1 },
};

static enum errc parse(struct slice text, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct ast *query = NULL;
    enum errc rc = aql_parse(text, arena, &query, err);
    if (rc == OK && ast_broken_rule(query))
        fail_msg("%.*s breaks a rule", SLICE_ARG(text));
    arena_free(arena);
    return rc;
}

static void nesting_within_the_limit_is_accepted(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 0);
    for (size_t i = 0; i < ARRAY_LEN(nestings); i++) {
        const struct nesting *n = &nestings[i];
        struct error err = { 0 };
        if (n->fits == 0)
            continue;
        nest(&text, n->head, n->open, n->middle, n->close, n->fits);
        if (parse(buf_slice(&text), &err) != OK)
            fail_msg("%s%s... %zu times: %s", n->head, n->open, n->fits, err.text);
    }
    buf_release(&text);
}

static void deeper_nesting_is_refused_without_exhausting_a_stack(void **state)
{
    (void)state;
    static const size_t counts[] = { 600, 100 * 1000 };
    struct buf text;
    buf_init(&text, 0);
    for (size_t i = 0; i < ARRAY_LEN(nestings); i++) {
        for (size_t j = 0; j < ARRAY_LEN(counts); j++) {
            const struct nesting *n = &nestings[i];
            struct error err = { 0 };
            nest(&text, n->head, n->open, n->middle, n->close, counts[j]);
            if (parse(buf_slice(&text), &err) == OK)
                fail_msg("%s%s... %zu times was accepted", n->head, n->open, counts[j]);
            if (err.num != 1524 && n->fits > 1)
                fail_msg("%s%s... %zu times: %d %s", n->head, n->open, counts[j], err.num,
                         err.text);
        }
    }
    buf_release(&text);
}

static void brackets_that_nobody_closes_are_refused_too(void **state)
{
    (void)state;
    static const char *const opens[] = { "(", "[", "{a:", "F(", "a[", "(RETURN ", "a[*FILTER " };
    struct buf text;
    buf_init(&text, 0);
    for (size_t i = 0; i < ARRAY_LEN(opens); i++) {
        struct error err = { 0 };
        nest(&text, "RETURN ", opens[i], "", "", 100 * 1000);
        assert_int_equal(parse(buf_slice(&text), &err), ERR_INVALID);
        assert_int_equal(err.num, 1524);
    }
    nest(&text, "RETURN 1", ")", "", "", 100 * 1000);
    struct error err = { 0 };
    assert_int_equal(parse(buf_slice(&text), &err), ERR_INVALID);
    assert_int_equal(err.num, 1501);
    buf_release(&text);
}

static void the_error_of_nesting_says_where(void **state)
{
    (void)state;
    struct buf text;
    struct error err = { 0 };
    buf_init(&text, 0);
    nest(&text, "RETURN\n", "(", "1", ")", 600);
    assert_int_equal(parse(buf_slice(&text), &err), ERR_INVALID);
    assert_string_equal(err.text, "too much nesting or too many objects near "
                                  "'((((((((((((((((((((((((((((((((...' at position 2:501");
    buf_release(&text);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void a_megabyte_of_numbers_or_text_is_read_in_no_time(void **state)
{
    (void)state;
    struct buf text;
    struct error err = { 0 };
    buf_init(&text, 0);
    buf_add_str(&text, "RETURN [0");
    while (text.len < MIB)
        buf_add_str(&text, ",12345");
    buf_add_str(&text, "]");
    double start = seconds();
    assert_int_equal(parse(buf_slice(&text), &err), OK);
    print_message("array of numbers: %.0f ms\n", (seconds() - start) * 1000);
    assert_true(seconds() - start < 5); /* sanitizers included; 0.1 s otherwise */

    nest(&text, "RETURN '", "0123456789abcde\\n", "'", "", MIB / 17);
    start = seconds();
    assert_int_equal(parse(buf_slice(&text), &err), OK);
    nest(&text, "RETURN '", "0123456789abcde\\n", "", "", MIB / 17); /* unterminated */
    assert_int_equal(parse(buf_slice(&text), &err), ERR_INVALID);
    nest(&text, "/*", "* / ", "", "", MIB / 4);
    assert_int_equal(parse(buf_slice(&text), &err), ERR_INVALID);
    nest(&text, "RETURN F(1", ",/**/ a.b", ")", "", MIB / 9);
    assert_int_equal(parse(buf_slice(&text), &err), OK);
    nest(&text, "LET a = 1 ", "LET b = a ", "RETURN a", "", MIB / 10);
    assert_int_equal(parse(buf_slice(&text), &err), OK);
    print_message("other shapes: %.0f ms\n", (seconds() - start) * 1000);
    assert_true(seconds() - start < 10);
    buf_release(&text);
}

/* A generator of its own, so that a failure can be repeated by its seed. */
static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* An accepted text prints to one that gives the same tree. */
static void check_round_trip(struct slice text, uint64_t seed)
{
    struct arena *arena = arena_new(0);
    struct error err = { 0 };
    struct ast *one = NULL, *two = NULL;
    struct buf out;
    buf_init(&out, 0);
    if (aql_parse(text, arena, &one, &err) == OK) {
        const char *broken = ast_broken_rule(one);
        if (broken)
            fail_msg("seed %llu: %.*s breaks the rule of %s", (unsigned long long)seed,
                     SLICE_ARG(text), broken);
        ast_print(one, &out);
        if (aql_parse(buf_slice(&out), arena, &two, &err) != OK || !ast_equal(one, two))
            fail_msg("seed %llu: %.*s\nprints %.*s: %s", (unsigned long long)seed, SLICE_ARG(text),
                     SLICE_ARG(buf_slice(&out)), err.text);
    }
    buf_release(&out);
    arena_free(arena);
}

static void random_bytes_are_answered(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        uint64_t r = seed;
        char bytes[64];
        size_t len = next_random(&r) % sizeof bytes;
        bool is_text = next_random(&r) % 2;
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)(is_text ? 32 + next_random(&r) % 95 : next_random(&r));
        check_round_trip(slice_of(bytes, len), seed);
    }
}

static void random_tokens_are_answered_and_survive_printing(void **state)
{
    (void)state;
    static const char *const words[] = {
        "FOR",        "IN",
        "RETURN",     "LET",
        "=",          "x",
        "y",          "1",
        "'s'",        "@v",
        "@@c",        "(",
        ")",          "[",
        "]",          "{",
        "}",          ",",
        ":",          ".",
        "..",         "?",
        "*",          "+",
        "-",          "==",
        "<",          "NOT",
        "LIKE",       "ANY",
        "ALL",        "AND",
        "OR",         "OUTBOUND",
        "GRAPH",      "OPTIONS",
        "FILTER",     "SORT",
        "LIMIT",      "COLLECT",
        "INTO",       "WITH",
        "INSERT",     "UPDATE",
        "INFER",      "EMBED",
        "DOMAIN",     "AT",
        "LEAST",      "`a b`",
        "null",       "INFER 'm'",
        "RETURN x",   "FOR x IN",
        "x.y",        "[*]",
        "[* FILTER",  "[? ANY FILTER",
        "AT LEAST (", "=~",
        "F(",         "PRUNE",
        "TO",         "DESC",
        "-1",         "!",
    };
    struct buf text;
    buf_init(&text, 0);
    for (uint64_t seed = 1; seed <= 40000; seed++) {
        uint64_t r = seed;
        size_t count = 1 + next_random(&r) % 14;
        buf_clear(&text);
        buf_add_str(&text, next_random(&r) % 2 ? "RETURN " : "FOR x IN ");
        for (size_t i = 0; i < count; i++) {
            buf_add_str(&text, words[next_random(&r) % ARRAY_LEN(words)]);
            buf_add_char(&text, ' ');
        }
        if (next_random(&r) % 2)
            buf_add_str(&text, "RETURN x");
        check_round_trip(buf_slice(&text), seed);
    }
    buf_release(&text);
}

/* A random expression that is right by construction, with parentheses only where chance has it. */
static void add_expression(struct buf *out, uint64_t *r, unsigned depth)
{
    static const char *const operators[] = {
        "OR", "AND",    "==",   "!=",       "<",      "<=",     ">",           ">=",
        "IN", "NOT IN", "LIKE", "NOT LIKE", "=~",     "!~",     "+",           "-",
        "*",  "/",      "%",    "..",       "ALL ==", "ANY IN", "NONE NOT IN", "AT LEAST (2) <",
    };
    static const char *const leaves[] = {
        "a",          "b.c",   "1",         "-2",
        "0.5",        "'s'",   "@v",        "null",
        "F(x)",       "[1]",   "{a: 1}",    "d[*].e",
        "CURRENT",    "x[0]",  "`options`", "y[? 2 FILTER CURRENT]",
        "(RETURN 1)", "z[**]",
    };
    uint32_t choice = next_random(r) % 12;
    if (depth == 0 || choice < 2) {
        buf_add_str(out, leaves[next_random(r) % ARRAY_LEN(leaves)]);
    } else if (choice < 8) {
        add_expression(out, r, depth - 1);
        buf_printf(out, " %s ", operators[next_random(r) % ARRAY_LEN(operators)]);
        add_expression(out, r, depth - 1);
    } else if (choice == 8) {
        static const char *const signs[] = { "-", "+", "!", "NOT " };
        buf_add_str(out, signs[next_random(r) % ARRAY_LEN(signs)]);
        add_expression(out, r, depth - 1);
    } else if (choice == 9) {
        add_expression(out, r, depth - 1);
        buf_add_str(out, next_random(r) % 3 ? " ? x : " : " ? : ");
        add_expression(out, r, depth - 1);
    } else if (choice == 10) {
        buf_add_str(out, "(");
        add_expression(out, r, depth - 1);
        buf_add_str(out, next_random(r) % 2 ? ")" : ")[*].q");
    } else {
        buf_add_str(out, "INFER 'm' (");
        add_expression(out, r, depth - 1);
        buf_add_str(out, ")");
    }
}

static void random_expressions_print_with_the_parentheses_they_need(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 0);
    unsigned accepted = 0;
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        uint64_t r = seed;
        struct error err = { 0 };
        buf_clear(&text);
        static const char *const heads[] = { "RETURN ", "FOR v IN OUTBOUND ", "UPDATE ",
                                             "FOR v IN " };
        static const char *const tails[] = { "", " ANY edges RETURN v", " IN c",
                                             " ANY start GRAPH 'g' RETURN v" };
        uint32_t form = next_random(&r) % ARRAY_LEN(heads);
        buf_add_str(&text, heads[form]);
        add_expression(&text, &r, 4);
        buf_add_str(&text, tails[form]);
        if (parse(buf_slice(&text), &err) == OK)
            accepted++;
        else if (form == 0) /* the others read some operands differently */
            fail_msg("seed %llu: %.*s: %s", (unsigned long long)seed, SLICE_ARG(buf_slice(&text)),
                     err.text);
        check_round_trip(buf_slice(&text), seed);
    }
    assert_in_range(accepted, 10000, 20000);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nesting_within_the_limit_is_accepted),
        cmocka_unit_test(deeper_nesting_is_refused_without_exhausting_a_stack),
        cmocka_unit_test(brackets_that_nobody_closes_are_refused_too),
        cmocka_unit_test(the_error_of_nesting_says_where),
        cmocka_unit_test(a_megabyte_of_numbers_or_text_is_read_in_no_time),
        cmocka_unit_test(random_bytes_are_answered),
        cmocka_unit_test(random_tokens_are_answered_and_survive_printing),
        cmocka_unit_test(random_expressions_print_with_the_parentheses_they_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
