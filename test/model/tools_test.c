/* SPDX-License-Identifier: Apache-2.0 */
/* Tools: what a request may offer, the grammar of calls, and reading them from a growing text. */
#include "model/tools.h"

#include "../check.h"
#include "base/val_text.h"
#include "model/grammar.h"

#include <stdio.h>

#define WEATHER                                                                                    \
    "{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"description\":\"d\","             \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},"          \
    "\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":7}},\"required\":[\"city\"]}}}"
#define NOW "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}"

static enum errc read(const char *json, struct gen_tools wish, struct arena *arena,
                      struct toolset *out, struct error *err)
{
    enum errc rc = val_parse(slice_str(json), arena, &wish.list, err);
    return rc == OK ? tools_read(&wish, arena, out, err) : rc;
}

static void refused(const char *json, struct gen_tools wish, const char *why)
{
    struct arena *arena = arena_new(0);
    struct toolset set;
    struct error err = { 0 };
    struct buf text;
    buf_init(&text, 0);
    enum errc rc = read(json, wish, arena, &set, &err);
    if (rc == OK)
        rc = tools_grammar(&set, &text, &err);
    if (rc != ERR_INVALID || !strstr(err.text, why))
        fail_msg("%s: %d %s, not: %s", json, (int)rc, err.text, why);
    buf_release(&text);
    arena_free(arena);
}

static void bad_tools_are_refused(void **state)
{
    (void)state;
    struct gen_tools any = { .choice = GEN_TOOLS_AUTO };
    struct gen_tools must = { .choice = GEN_TOOLS_REQUIRED };
    struct gen_tools other = { .choice = GEN_TOOLS_REQUIRED, .only = slice_str("other") };
    refused("{}", any, "must be an array");
    refused("[5]", any, "tools[0] must be");
    refused("[{\"type\":\"retrieval\"}]", any, "tools[0] must be");
    refused("[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]", any, "must be 1 to 64");
    refused("[" NOW "," NOW "]", any, "two tools have the name 'now'");
    refused("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":[]}}]", any,
            "must be a JSON schema");
    refused("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":"
            "{\"type\":\"array\"}}}]",
            any, "must have the type 'object'");
    refused("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"extra\":1}}]", any,
            "unknown member 'extra'");
    refused(
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":"
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\",\"multipleOf\":2}}}}}]",
        any, "tool 'f': the schema at #/properties/a: the keyword 'multipleOf'");
    refused("[]", must, "there are no tools");
    refused("[" NOW "]", other, "'tool_choice' names 'other'");
}

/* Does the text follow the grammar of these tools? */
static bool follows(const char *json, struct gen_tools wish, const char *text)
{
    struct arena *arena = arena_new(0);
    struct toolset set;
    struct error err;
    struct buf gbnf;
    struct grammar *g = NULL;
    buf_init(&gbnf, 0);
    if (read(json, wish, arena, &set, &err) != OK || tools_grammar(&set, &gbnf, &err) != OK ||
        grammar_parse(&g, buf_slice(&gbnf), &err) != OK)
        fail_msg("%s: %s", json, err.text);
    struct grammar_run *run = grammar_run_new(g);
    int at = grammar_run_text(run, grammar_run_begin(run), slice_str(text));
    bool is_whole = grammar_run_may_end(run, at);
    grammar_run_free(run);
    grammar_unref(g);
    buf_release(&gbnf);
    arena_free(arena);
    return is_whole;
}

#define CALL(text) "<tool_call>\n" text "\n</tool_call>"

static void calls_follow_their_tools(void **state)
{
    (void)state;
    struct gen_tools one = { .choice = GEN_TOOLS_AUTO };
    struct gen_tools many = { .choice = GEN_TOOLS_AUTO, .is_parallel = true };
    struct gen_tools only = { .choice = GEN_TOOLS_REQUIRED, .only = slice_str("now") };
    static const char both[] = "[" WEATHER "," NOW "]";
    static const char oslo[] = CALL("{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}");
    static const char now[] = CALL("{\"name\":\"now\",\"arguments\":{}}");
    char two[256];
    snprintf(two, sizeof two, "%s\n%s", oslo, now);
    assert_true(follows(both, one, oslo));
    assert_true(follows(both, one, now));
    assert_false(follows(both, one, two));
    assert_true(follows(both, many, two));
    assert_true(follows(both, only, now));
    assert_false(follows(both, only, oslo));
    assert_false(follows(both, one, CALL("{\"name\":\"weather\",\"arguments\":{}}")));
    assert_false(follows(both, one,
                         CALL("{\"name\":\"weather\",\"arguments\":{\"city\":\"a\",\"days\":8}}")));
    assert_false(follows(both, one, CALL("{\"name\":\"other\",\"arguments\":{}}")));
    assert_false(follows(both, one, "It is cold."));
}

/* Without strict, what a grammar cannot say is left out, and the rest still holds. */
static void lenient_schemas_hold_as_far_as_they_can(void **state)
{
    (void)state;
    static const char tool[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{\"n\":{\"type\":\"integer\",\"multipleOf\":2},\"s\":{\"type\":\"string\","
        "\"format\":\"email\"},\"x\":{\"oneOf\":[{},{}]}},\"required\":[\"n\"],"
        "\"minProperties\":1}}}]";
    struct gen_tools wish = { .choice = GEN_TOOLS_AUTO };
    assert_true(follows(tool, wish, CALL("{\"name\":\"f\",\"arguments\":{\"n\":3}}")));
    assert_true(
        follows(tool, wish, CALL("{\"name\":\"f\",\"arguments\":{\"n\":3,\"s\":7,\"x\":[{}]}}")));
    assert_false(follows(tool, wish, CALL("{\"name\":\"f\",\"arguments\":{\"n\":\"a\"}}")));
    assert_false(follows(tool, wish, CALL("{\"name\":\"f\",\"arguments\":{}}")));
}

static bool grows(struct slice before, struct slice now)
{
    return now.len >= before.len && memcmp(now.ptr, before.ptr, before.len) == 0;
}

/* Every beginning of an answer: parts only grow, and end as what was written. */
static void answers_are_read_while_they_grow(void **state)
{
    (void)state;
    static const char answer[] = "Let me look.\n" CALL(
        "{\"name\": \"weather\", \"arguments\": {\"city\": "
        "\"a}\\\"<tool_call>\"}}") "\n" CALL("{\"name\":\"now\", \"arguments\": {}}");
    struct arena *arena = arena_new(0);
    struct answer_parts before = { .content = slice_str("") }, p;
    for (size_t n = 0; n <= strlen(answer); n++) {
        tools_read_answer(slice_of(answer, n), true, arena, &p);
        assert_true(grows(before.content, p.content));
        assert_true(p.call_count >= before.call_count);
        for (size_t i = 0; i < before.call_count; i++) {
            assert_true(slice_eq(before.calls[i].name, p.calls[i].name));
            assert_true(grows(before.calls[i].arguments, p.calls[i].arguments));
        }
        before = p;
    }
    tools_read_answer(slice_str(answer), false, arena, &p);
    assert_true(slice_is(p.content, "Let me look."));
    assert_int_equal(p.call_count, 2);
    assert_true(slice_is(p.calls[0].name, "weather"));
    assert_true(slice_is(p.calls[0].arguments, "{\"city\": \"a}\\\"<tool_call>\"}"));
    assert_true(slice_is(p.calls[1].name, "now"));
    assert_true(slice_is(p.calls[1].arguments, "{}"));
    tools_read_answer(slice_str("a < b "), false, arena, &p);
    assert_true(slice_is(p.content, "a < b "));
    assert_int_equal(p.call_count, 0);
    tools_read_answer(slice_str("a <tool"), true, arena, &p);
    assert_true(slice_is(p.content, "a"));
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_tools_are_refused),
        cmocka_unit_test(calls_follow_their_tools),
        cmocka_unit_test(lenient_schemas_hold_as_far_as_they_can),
        cmocka_unit_test(answers_are_read_while_they_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
