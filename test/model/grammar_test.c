/* SPDX-License-Identifier: Apache-2.0 */
/* Grammars: which texts follow them, what is refused before, and that no grammar takes for ever. */
#include "../check.h"
#include "base/buf.h"
#include "model/grammar.h"

#include <stdio.h>

static struct grammar *parse(const char *text)
{
    struct grammar *g = NULL;
    struct error err;
    if (grammar_parse(&g, slice_str(text), &err) != OK)
        fail_msg("%s: %s", text, err.text);
    return g;
}

enum verdict { NOTHING, BEGINNING, WHOLE, COMPLETE };

/* COMPLETE: a whole text that nothing can follow. */
static enum verdict judge(struct grammar *g, struct slice text)
{
    struct grammar_run *run = grammar_run_new(g);
    int state = grammar_run_begin(run);
    for (size_t i = 0; i < text.len && state != GRAMMAR_DEAD; i++)
        state = grammar_run_keep(run, grammar_run_next(run, state, (uint8_t)text.ptr[i]));
    enum verdict v = state == GRAMMAR_DEAD              ? NOTHING
                     : grammar_run_must_end(run, state) ? COMPLETE
                     : grammar_run_may_end(run, state)  ? WHOLE
                                                        : BEGINNING;
    grammar_run_free(run);
    return v;
}

static void expect(const char *grammar, const char *text, enum verdict wanted)
{
    struct grammar *g = parse(grammar);
    enum verdict v = judge(g, slice_str(text));
    if (v != wanted)
        fail_msg("%s\n'%s': %d, not %d", grammar, text, (int)v, (int)wanted);
    grammar_unref(g);
}

static void texts_follow_their_grammar(void **state)
{
    (void)state;
    static const char yes_no[] =
        "root ::= \"yes\" | \"no\" reason?\nreason ::= \" because \" [a-z]{2,4}";
    expect(yes_no, "", BEGINNING);
    expect(yes_no, "ye", BEGINNING);
    expect(yes_no, "yes", COMPLETE);
    expect(yes_no, "yess", NOTHING);
    expect(yes_no, "no", WHOLE);
    expect(yes_no, "no because a", BEGINNING);
    expect(yes_no, "no because ab", WHOLE);
    expect(yes_no, "no because abcd", COMPLETE);
    expect(yes_no, "no because abcde", NOTHING);
    expect("root ::= (\"a\" | \"b\")* \"c\"", "abbac", COMPLETE);
    expect("root ::= \"ab\"+", "ababab", WHOLE);
    expect("root ::= \"ab\"+", "aba", BEGINNING);
    expect("root ::= \"\"", "", COMPLETE);
    expect("root ::= [^a-c\\n]", "d", COMPLETE);
    expect("root ::= [^a-c\\n]", "b", NOTHING);
    expect("root ::= . .", "\n.", COMPLETE);
    expect("root ::= \"\\x41\\u00e9\\U0001F600\\\"\"", "A\xc3\xa9\xf0\x9f\x98\x80\"", COMPLETE);
    expect("root ::= [\\]\\-a]", "-", COMPLETE);
    expect("root ::= [a-]", "-", COMPLETE);
    expect("root ::= x # the rest is said below\n# and here\nx ::= \"a\"\n", "a", COMPLETE);
    expect("root ::= \"a\" |\n  \"b\"", "b", COMPLETE);
    expect("root ::= (\n\"a\"\n\"b\"\n)", "ab", COMPLETE);
}

static void nesting_is_remembered(void **state)
{
    (void)state;
    static const char brackets[] = "root ::= \"[\" (root (\",\" root)*)? \"]\"";
    expect(brackets, "[[],[[],[]],[]]", COMPLETE);
    expect(brackets, "[[],[[],[]],[]", BEGINNING);
    expect(brackets, "[[],]", NOTHING);
    struct buf deep;
    buf_init(&deep, 0);
    struct grammar *g = parse(brackets);
    for (int i = 0; i < 5000; i++)
        buf_add_char(&deep, '[');
    assert_int_equal(judge(g, buf_slice(&deep)), BEGINNING);
    for (int i = 0; i < 5000; i++)
        buf_add_char(&deep, ']');
    assert_int_equal(judge(g, buf_slice(&deep)), COMPLETE);
    buf_add_char(&deep, ']');
    assert_int_equal(judge(g, buf_slice(&deep)), NOTHING);
    grammar_unref(g);
    buf_release(&deep);
}

static void repetitions_are_counted(void **state)
{
    (void)state;
    expect("root ::= \"a\"{3}", "aaa", COMPLETE);
    expect("root ::= \"a\"{2,3}", "aa", WHOLE);
    expect("root ::= \"a\"{2,}", "aaaaaaa", WHOLE);
    expect("root ::= \"a\"{0,0} \"b\"", "b", COMPLETE);
    expect("root ::= (\"a\"{2} \"b\"){2}", "aabaab", COMPLETE);
    expect("root ::= (\"a\"?){3} \"b\"", "b", COMPLETE);
    expect("root ::= (\"a\"?){3} \"b\"", "aaab", COMPLETE);
    expect("root ::= (\"a\"?){3} \"b\"", "aaaab", NOTHING);
    expect("root ::= (\"a\"*)* \"b\"", "aaab", COMPLETE);
    char text[10002];
    memset(text, 'x', sizeof text);
    struct grammar *g = parse("root ::= [a-z]{9999,10000}");
    assert_int_equal(judge(g, slice_of(text, 9998)), BEGINNING);
    assert_int_equal(judge(g, slice_of(text, 9999)), WHOLE);
    assert_int_equal(judge(g, slice_of(text, 10000)), COMPLETE);
    assert_int_equal(judge(g, slice_of(text, 10001)), NOTHING);
    grammar_unref(g);
}

/* Tokens end inside of characters. */
static void characters_come_byte_by_byte(void **state)
{
    (void)state;
    expect("root ::= [à-ü]", "\xc3", BEGINNING);
    expect("root ::= [à-ü]", "\xc3\xa9", COMPLETE);
    expect("root ::= [à-ü]", "\xc4", NOTHING);     /* no such character begins so */
    expect("root ::= [à-ü]", "\xc3\x9f", NOTHING); /* sharp s is before */
    expect("root ::= [a-z]", "\xc3", NOTHING);
    expect("root ::= [^é]", "\xc3", BEGINNING);
    expect("root ::= [^é]", "\xc3\xa9", NOTHING);
    expect("root ::= .", "\xf0\x9f\x98", BEGINNING);
    expect("root ::= .", "\xc0", NOTHING); /* longer than needed */
    expect("root ::= .", "\xe0\x80", NOTHING);
    expect("root ::= .", "\xed\xa0", NOTHING); /* a surrogate */
    expect("root ::= .", "\xf4\x90", NOTHING); /* beyond the last character */
    expect("root ::= .", "\x80", NOTHING);
    expect("root ::= \"\\U0010FFFF\"", "\xf4\x8f\xbf\xbf", COMPLETE);
}

static void refused(const char *text, const char *why)
{
    struct grammar *g = NULL;
    struct error err = { 0 };
    enum errc rc = grammar_parse(&g, slice_str(text), &err);
    if (rc != ERR_INVALID || !strstr(err.text, why))
        fail_msg("'%s': %d %s, not: %s", text, (int)rc, err.text, why);
}

static void bad_grammars_are_refused(void **state)
{
    (void)state;
    refused("", "no rule 'root'");
    refused("foo ::= \"a\"", "no rule 'root'");
    refused("root ::= nope", "'nope' is not defined");
    refused("root ::= (", "')' is missing");
    refused("root ::= \"a", "does not end");
    refused("root ::= [a", "does not end");
    refused("root ::= [z-a]", "ends before it begins");
    refused("root ::= *", "nothing is there to repeat");
    refused("root ::= \"\"*", "nothing is there to repeat");
    refused("root ::= \"a\"{3,2}", "fewer");
    refused("root ::= \"a\"{x}", "number is missing");
    refused("root ::= \"a\"{10001}", "more than 10000 repetitions");
    refused("root ::= \"a\"{99999999999999999999}", "more than 10000 repetitions");
    refused("root ::= \"\\q\"", "unknown escape");
    refused("root ::= \"\\x4\"", "hexadecimal");
    refused("root ::= \"\\U00110000\"", "no such character");
    refused("root = \"a\"", "'::=' is missing");
    refused("root ::= \"a\"\n\"b\"", "the name of a rule is missing");
    refused("root ::= \"a\"\nroot ::= \"b\"", "line 2: the rule 'root' is defined twice");
    refused("root ::= <[7]>", "tokens are not supported");
    refused("root ::= \"a\" )", "unexpected");
}

static void rules_that_begin_with_themselves_are_refused(void **state)
{
    (void)state;
    refused("root ::= root", "'root' begins with itself");
    refused("root ::= root \"a\" | \"b\"", "begins with itself");
    refused("root ::= \"x\" | a\na ::= b \"y\" | \"c\"\nb ::= a | \"z\"", "begins with itself");
    /* hidden behind what may be empty, through two rules */
    refused("root ::= b root \"z\" | \"y\"\nb ::= c\nc ::= | \"x\"", "begins with itself");
    refused("root ::= \"x\"* root \"z\" | \"y\"", "begins with itself");
    refused("root ::= (root \"a\")? \"b\"", "begins with itself");
    struct grammar *g = parse("root ::= \"a\" root | \"b\"");
    grammar_unref(g);
}

static void rules_that_cannot_end_are_refused(void **state)
{
    (void)state;
    refused("root ::= \"a\" root", "can never end");
    refused("root ::= \"a\" x | \"b\"\nx ::= \"c\" y\ny ::= \"d\" x", "can never end");
    refused("root ::= []", "can never end");
    struct grammar *g = parse("root ::= \"a\" root{0,3}");
    grammar_unref(g);
}

static void refused_bytes(struct buf *text, const char *why)
{
    struct grammar *g = NULL;
    struct error err = { 0 };
    assert_int_equal(grammar_parse(&g, buf_slice(text), &err), ERR_INVALID);
    if (!strstr(err.text, why))
        fail_msg("%s, not: %s", err.text, why);
    buf_clear(text);
}

static void large_grammars_are_refused_or_read_quickly(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 0);
    buf_add_str(&text, "root ::= \"a\" #");
    for (int i = 0; i < GRAMMAR_BYTES_MAX; i++)
        buf_add_char(&text, 'x');
    refused_bytes(&text, "may have 524288 bytes");
    buf_add_str(&text, "root ::= ");
    for (int i = 0; i < 100; i++)
        buf_add_char(&text, '(');
    refused_bytes(&text, "more than 64 parentheses");
    buf_add_str(&text, "root ::= \"a\"");
    for (int i = 0; i < 20000; i++)
        buf_printf(&text, "\nr%d ::= \"a\"", i);
    refused_bytes(&text, "more than 16384 rules");
    buf_add_str(&text, "root ::= \"a\"");
    buf_add_char(&text, 0);
    refused_bytes(&text, "zero byte");
    /* A long chain of rules, each of which needs the next: neither recursion nor quadratic. */
    buf_add_str(&text, "root ::= r0\n");
    for (int i = 0; i < 16000; i++)
        buf_printf(&text, "r%d ::= r%d | r%d\n", i, i + 1, i + 1);
    buf_add_str(&text, "r16000 ::= \"a\"\n");
    struct grammar *g = NULL;
    struct error err;
    assert_int_equal(grammar_parse(&g, buf_slice(&text), &err), OK);
    assert_int_equal(judge(g, slice_str("a")), COMPLETE);
    grammar_unref(g);
    buf_release(&text);
}

/* Twice as many stacks after each character: given up, and nothing else happens. */
static void what_remembers_too_much_is_given_up(void **state)
{
    (void)state;
    static const char *const hostile[] = {
        "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"d\"",
        "root ::= (((\"a\"{0,100}){0,100}){0,100}){0,100}",
        "root ::= (\"a\" | \"a\" \"a\" | \"a\" \"a\" \"a\" x)* \"b\"\nx ::= (\"a\" x \"c\")?",
    };
    for (size_t i = 0; i < ARRAY_LEN(hostile); i++) {
        struct grammar *g = parse(hostile[i]);
        struct grammar_run *run = grammar_run_new(g);
        int at = grammar_run_begin(run);
        for (int k = 0; k < 2000 && at != GRAMMAR_DEAD; k++)
            at = grammar_run_keep(run, grammar_run_next(run, at, 'a'));
        assert_int_equal(grammar_run_is_over(run), at == GRAMMAR_DEAD);
        if (i < 2)
            assert_true(grammar_run_is_over(run));
        assert_int_equal(grammar_run_next(run, grammar_run_begin(run), 'z'), GRAMMAR_DEAD);
        grammar_run_free(run);
        grammar_unref(g);
    }
}

/* Forgetting renumbers states and nodes: a long text goes on as if nothing had happened. */
static void forgetting_changes_nothing(void **state)
{
    (void)state;
    struct grammar *g = parse("root ::= item{1,9000}\nitem ::= \"<\" [a-z]{1,26} inner \">\"\n"
                              "inner ::= \"(\" inner? \")\" [0-9]{1,3}");
    struct buf text;
    buf_init(&text, 0);
    for (int i = 0; i < 3000; i++)
        buf_printf(&text, "<%.*s((((()%d)23)4)555)6>", 1 + i % 26, "abcdefghijklmnopqrstuvwxyz",
                   i % 1000);
    assert_int_equal(judge(g, buf_slice(&text)), WHOLE);
    text.ptr[text.len - 2] = 'x';
    assert_int_equal(judge(g, buf_slice(&text)), NOTHING);
    grammar_unref(g);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_follow_their_grammar),
        cmocka_unit_test(nesting_is_remembered),
        cmocka_unit_test(repetitions_are_counted),
        cmocka_unit_test(characters_come_byte_by_byte),
        cmocka_unit_test(bad_grammars_are_refused),
        cmocka_unit_test(rules_that_begin_with_themselves_are_refused),
        cmocka_unit_test(rules_that_cannot_end_are_refused),
        cmocka_unit_test(large_grammars_are_refused_or_read_quickly),
        cmocka_unit_test(what_remembers_too_much_is_given_up),
        cmocka_unit_test(forgetting_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
