/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens one by one: kinds, names, values and where they stand. */
#include "../check.h"
#include "query/lex.h"
#include "query/parse.h"
#include <stdio.h>

/* All kinds of a text, as far as they go. */
static size_t kinds_of(const char *text, int *kinds, size_t max)
{
    struct arena *arena = arena_new(0);
    struct lexer lx = { .text = slice_str(text), .arena = arena };
    struct token t;
    size_t n = 0;
    do {
        struct error err = { 0 };
        assert_in_range(n, 0, max - 1);
        if (lex_next(&lx, &t, &err) != OK)
            fail_msg("%s: %s", text, err.text);
        kinds[n++] = t.kind;
    } while (t.kind != 0);
    arena_free(arena);
    return n - 1;
}

static void check_kinds(const char *text, const int *expected, size_t count)
{
    int kinds[64];
    assert_int_equal(kinds_of(text, kinds, ARRAY_LEN(kinds)), count);
    for (size_t i = 0; i < count; i++)
        if (kinds[i] != expected[i])
            fail_msg("token %zu of %s is %d, not %d", i, text, kinds[i], expected[i]);
}
#define CHECK_KINDS(text, ...)                                                                     \
    check_kinds(text, (const int[]){ __VA_ARGS__ }, ARRAY_LEN(((const int[]){ __VA_ARGS__ })))

/* The only token of a text; its values live in arena. */
static struct token token_of(struct arena *arena, const char *text)
{
    struct lexer lx = { .text = slice_str(text), .arena = arena };
    struct token t, end;
    struct error err = { 0 };
    if (lex_next(&lx, &t, &err) != OK || lex_next(&lx, &end, &err) != OK || end.kind != 0)
        fail_msg("%s is not one token: %s", text, err.text);
    return t;
}

static void operators_take_the_longest_match(void **state)
{
    (void)state;
    CHECK_KINDS("< <= > >= = == =~ ! != !~", TK_LT, TK_LE, TK_GT, TK_GE, TK_ASSIGN, TK_EQ, TK_MATCH,
                TK_NOT, TK_NE, TK_NOT_MATCH);
    CHECK_KINDS("<<=>==!=~", TK_LT, TK_LE, TK_GE, TK_ASSIGN, TK_NE, TK_ILLEGAL);
    CHECK_KINDS("&&||&|", TK_AND, TK_OR, TK_ILLEGAL, TK_ILLEGAL);
    CHECK_KINDS("a::b:c", TK_ID, TK_SCOPE, TK_ID, TK_COLON, TK_ID);
    CHECK_KINDS("+-*/%?", TK_PLUS, TK_MINUS, TK_TIMES, TK_DIV, TK_MOD, TK_QUESTION);
    CHECK_KINDS("(){}[],", TK_LP, TK_RP, TK_LC, TK_RC, TK_LB, TK_RB, TK_COMMA);
}

static void dots_and_numbers_are_told_apart(void **state)
{
    (void)state;
    CHECK_KINDS("1..2", TK_NUMBER, TK_RANGE, TK_NUMBER);
    CHECK_KINDS("1.5..2.5", TK_NUMBER, TK_RANGE, TK_NUMBER);
    CHECK_KINDS("1...5", TK_NUMBER, TK_RANGE, TK_NUMBER);
    CHECK_KINDS("1.", TK_NUMBER, TK_DOT);
    CHECK_KINDS("a.b..c", TK_ID, TK_DOT, TK_ID, TK_RANGE, TK_ID);
    CHECK_KINDS("1.e3", TK_NUMBER, TK_DOT, TK_ID);
    CHECK_KINDS("1e", TK_NUMBER, TK_ID);
    CHECK_KINDS("1e+", TK_NUMBER, TK_ID, TK_PLUS);
    CHECK_KINDS("007", TK_NUMBER, TK_NUMBER, TK_NUMBER);
}

static void white_space_and_comments_are_skipped(void **state)
{
    (void)state;
    CHECK_KINDS(" \t\r\n 1 // x\n2 /* y */ 3 /**/4/***/5 /* ** / * */", TK_NUMBER, TK_NUMBER,
                TK_NUMBER, TK_NUMBER, TK_NUMBER);
    check_kinds("// to the end", NULL, 0);
    CHECK_KINDS("1 / 2 // /* \n", TK_NUMBER, TK_DIV, TK_NUMBER);
    CHECK_KINDS("1\v2\f3", TK_NUMBER, TK_ILLEGAL, TK_NUMBER, TK_ILLEGAL, TK_NUMBER);
}

static void keywords_are_words_of_any_case_and_no_prefixes(void **state)
{
    (void)state;
    CHECK_KINDS("for FOR For fOr", TK_FOR, TK_FOR, TK_FOR, TK_FOR);
    CHECK_KINDS("forx for_ for1 $for _for", TK_ID, TK_ID, TK_ID, TK_ID, TK_ID);
    CHECK_KINDS("in into inbound", TK_IN, TK_INTO, TK_INBOUND);
    CHECK_KINDS("and or not like", TK_AND, TK_OR, TK_NOT, TK_LIKE);
    CHECK_KINDS("`for` ´for´", TK_ID, TK_ID);
    CHECK_KINDS("options Prune search to keep count domain", TK_OPTIONS, TK_PRUNE, TK_SEARCH, TK_TO,
                TK_KEEP, TK_COUNT, TK_DOMAIN);
    CHECK_KINDS("current new old view xor", TK_ID, TK_ID, TK_ID, TK_ID, TK_ID);
}

static void names_begin_with_a_letter_behind_dollar_and_underscores(void **state)
{
    (void)state;
    CHECK_KINDS("a $a _a __a1_ $_a A9", TK_ID, TK_ID, TK_ID, TK_ID, TK_ID, TK_ID);
    CHECK_KINDS("_", TK_ILLEGAL);
    CHECK_KINDS("$1", TK_ILLEGAL, TK_NUMBER);
    CHECK_KINDS("_1", TK_ILLEGAL, TK_NUMBER);
    CHECK_KINDS("a$b", TK_ID, TK_ID);
    CHECK_KINDS("a-b", TK_ID, TK_MINUS, TK_ID);
}

static void bind_parameters_keep_the_second_at_of_collections(void **state)
{
    (void)state;
    struct arena *arena = arena_new(0);
    static const struct {
        const char *text, *name;
        int kind;
    } cases[] = {
        { "@a", "a", TK_BIND },
        { "@1", "1", TK_BIND },
        { "@_x", "_x", TK_BIND },
        { "@for", "for", TK_BIND },
        { "@__1a", "__1a", TK_BIND },
        { "@@coll", "@coll", TK_BIND_COLLECTION },
        { "@@1", "@1", TK_BIND_COLLECTION },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct token t = token_of(arena, cases[i].text);
        assert_int_equal(t.kind, cases[i].kind);
        assert_true(slice_is(t.name, cases[i].name));
    }
    arena_free(arena);
}

static void strings_and_quoted_names_are_unescaped(void **state)
{
    (void)state;
    struct arena *arena = arena_new(0);
    static const struct {
        const char *text, *value;
    } strings[] = {
        { "''", "" },
        { "\"\"", "" },
        { "'a\"b'", "a\"b" },
        { "\"a'b\"", "a'b" },
        { "'a\\'b\\\"'", "a'b\"" },
        { "\"\\b\\f\\n\\r\\t\\/\\\\\"", "\b\f\n\r\t/\\" },
        { "'\\d\\%\\_'", "d%_" },
        { "'\\u0041\\u00e4\\u20AC'", "Aä€" },
        { "'\\ud83d\\ude00!'", "\U0001f600!" },
        { "'line\nline'", "line\nline" },
        { "'\\\n'", "\n" },
        { "'ä€\U0001f600'", "ä€\U0001f600" },
        { "'\\ä'", "ä" },
    };
    static const struct {
        const char *text, *name;
    } names[] = {
        { "`a b`", "a b" }, { "´a b´", "a b" }, { "`a\\`b`", "a`b" }, { "´a\\´b´", "a´b" },
        { "`a´b`", "a´b" }, { "´a`b´", "a`b" }, { "´¶Â´", "¶Â" },     { "`\\u0041`", "A" },
    };
    for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
        struct token t = token_of(arena, strings[i].text);
        assert_int_equal(t.kind, TK_STRING);
        assert_true(slice_is(val_string(t.val), strings[i].value));
        assert_true(slice_is(t.name, strings[i].value));
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct token t = token_of(arena, names[i].text);
        assert_int_equal(t.kind, TK_ID);
        assert_true(slice_is(t.name, names[i].name));
    }
    arena_free(arena);
}

static void a_string_may_hold_a_zero_character(void **state)
{
    (void)state;
    struct arena *arena = arena_new(0);
    struct token t = token_of(arena, "'a\\u0000b'");
    assert_true(slice_eq(val_string(t.val), slice_of("a\0b", 3)));
    arena_free(arena);
}

static void tokens_know_their_bytes(void **state)
{
    (void)state;
    struct arena *arena = arena_new(0);
    struct lexer lx = { .text = slice_str("  ab 'c' @d"), .arena = arena };
    static const uint32_t places[][2] = { { 2, 2 }, { 5, 3 }, { 9, 2 }, { 11, 0 }, { 11, 0 } };
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        struct token t;
        struct error err;
        assert_int_equal(lex_next(&lx, &t, &err), OK);
        assert_int_equal(t.pos, places[i][0]);
        assert_int_equal(t.len, places[i][1]);
    }
    arena_free(arena);
}

static void words_have_a_class(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        enum word_class class;
    } cases[] = {
        { "", WORD_NONE },
        { "a b", WORD_NONE },
        { "1a", WORD_NONE },
        { "_1", WORD_NONE },
        { "$", WORD_NONE },
        { "ä", WORD_NONE },
        { "a$", WORD_NONE },
        { "return", WORD_RESERVED },
        { "K_Paths", WORD_RESERVED },
        { "Null", WORD_RESERVED },
        { "like", WORD_RESERVED },
        { "options", WORD_CONTEXTUAL },
        { "INFER", WORD_CONTEXTUAL },
        { "at", WORD_CONTEXTUAL },
        { "current", WORD_PLAIN },
        { "$a", WORD_PLAIN },
        { "__a1", WORD_PLAIN },
        { "a_very_long_name_that_is_longer_than_every_keyword_of_the_language", WORD_PLAIN },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(lex_word_class(slice_str(cases[i].word)), cases[i].class);
    assert_int_equal(lex_word_class(slice_of("a\0b", 3)), WORD_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_take_the_longest_match),
        cmocka_unit_test(dots_and_numbers_are_told_apart),
        cmocka_unit_test(white_space_and_comments_are_skipped),
        cmocka_unit_test(keywords_are_words_of_any_case_and_no_prefixes),
        cmocka_unit_test(names_begin_with_a_letter_behind_dollar_and_underscores),
        cmocka_unit_test(bind_parameters_keep_the_second_at_of_collections),
        cmocka_unit_test(strings_and_quoted_names_are_unescaped),
        cmocka_unit_test(a_string_may_hold_a_zero_character),
        cmocka_unit_test(tokens_know_their_bytes),
        cmocka_unit_test(words_have_a_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
