/* SPDX-License-Identifier: Apache-2.0 */
/* JSON schemas as grammars: which JSON follows them, and which schemas are refused, and why. */
#include "../check.h"
#include "base/val_text.h"
#include "model/grammar.h"
#include "model/schema.h"

#include <stdio.h>

static enum errc read_schema(const char *json, struct grammar **out, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct val schema;
    struct buf text;
    enum errc rc = OK;
    buf_init(&text, GRAMMAR_BYTES_MAX);
    TRY(val_parse(slice_str(json), arena, &schema, err));
    TRY(schema_grammar(schema, &text, err));
    rc = grammar_parse(out, buf_slice(&text), err);
out:
    buf_release(&text);
    arena_free(arena);
    return rc;
}

static struct grammar *grammar_of(const char *json)
{
    struct grammar *g = NULL;
    struct error err;
    if (read_schema(json, &g, &err) != OK)
        fail_msg("%s: %s", json, err.text);
    return g;
}

static bool accepts(struct grammar *g, const char *text)
{
    struct grammar_run *run = grammar_run_new(g);
    int state = grammar_run_text(run, grammar_run_begin(run), slice_str(text));
    bool is_whole = grammar_run_may_end(run, state);
    grammar_run_free(run);
    return is_whole;
}

/* Lists end with NULL. */
static void check(const char *schema, const char *const *good, const char *const *bad)
{
    struct grammar *g = grammar_of(schema);
    for (; *good; good++)
        if (!accepts(g, *good))
            fail_msg("%s does not accept %s", schema, *good);
    for (; *bad; bad++)
        if (accepts(g, *bad))
            fail_msg("%s accepts %s", schema, *bad);
    grammar_unref(g);
}

#define LIST(...)                                                                                  \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void objects_have_their_members(void **state)
{
    (void)state;
    check("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},"
          "\"b\":{\"type\":\"boolean\"},\"c\":{\"type\":\"null\"}},\"required\":[\"b\"]}",
          LIST("{\"a\":1,\"b\":true,\"c\":null}", "{\"b\":false}", "{ \"b\" : true , \"c\":null }",
               "{\n  \"a\": -5,\n  \"b\": true\n}"),
          LIST("{}", "{\"a\":1}", "{\"b\":true,\"a\":1}", "{\"b\":1}", "{\"b\":true,}",
               "{\"b\":true,\"x\":1}", "{,\"b\":true}", "[]"));
    check("{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}}}",
          LIST("{}", "{\"a\":[1]}", "{\"b\":{\"x\":1}}", "{\"a\":1,\"b\":\"\"}"),
          LIST("{\"c\":1}", "{\"a\":1,\"a\":1}"));
    check("{\"type\":\"object\"}", LIST("{}", "{\"x\":{\"y\":[1.5e3,\"\\u00e9\"]}}"),
          LIST("[]", "{\"x\"}", "{\"x\":\"\\ud800\"}", "{\"x\":01}"));
    check("{\"type\":\"object\",\"properties\":{\"ab\":{\"type\":\"null\"},\"ac\":{\"type\":"
          "\"null\"},"
          "\"a\\\"\":{\"type\":\"null\"}},\"additionalProperties\":{\"type\":\"integer\"}}",
          LIST("{}", "{\"ab\":null,\"x\":1}", "{\"abc\":1,\"a\":2,\"\":3}", "{\"x\":1,\"y\":2}",
               "{\"a\\\"\":null}"),
          LIST("{\"ab\":1}", "{\"x\":null}", "{\"x\":1,\"ab\":null}", "{\"ac\":5}",
               "{\"\\u0061b\":1}"));
}

static void arrays_have_their_items(void **state)
{
    (void)state;
    check("{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
          LIST("[1]", "[1,2]", "[ 1, 2, 3 ]"), LIST("[]", "[1,2,3,4]", "[\"a\"]", "[1,]"));
    check("{\"type\":\"array\",\"maxItems\":0}", LIST("[]"), LIST("[1]"));
    check("{\"type\":\"array\",\"items\":{\"type\":\"null\"}}", LIST("[]", "[null,null]"),
          LIST("[1]"));
    check("{\"prefixItems\":[{\"type\":\"null\"},{\"type\":\"boolean\"}],\"items\":false}",
          LIST("[null,true]"), LIST("[null]", "[true,null]", "[null,true,1]"));
}

static void choices_and_references(void **state)
{
    (void)state;
    check("{\"anyOf\":[{\"type\":\"null\"},{\"enum\":[1,\"a\\\"b\",{\"x\":[]}]}]}",
          LIST("null", "1", "\"a\\\"b\"", "{\"x\":[]}"), LIST("2", "\"a\"", "{}"));
    check("{\"type\":[\"string\",\"null\"],\"minLength\":2}", LIST("null", "\"ab\""),
          LIST("\"a\"", "1"));
    check("{\"const\":\"x\"}", LIST("\"x\""), LIST("\"y\""));
    check("{\"type\":\"string\",\"enum\":[\"a\",1]}", LIST("\"a\""), LIST("1"));
    check("{\"$ref\":\"#/$defs/tree\",\"$defs\":{\"tree\":{\"type\":\"object\",\"properties\":"
          "{\"v\":{\"type\":\"integer\"},\"kids\":{\"type\":\"array\",\"items\":"
          "{\"$ref\":\"#/$defs/tree\"}}},\"required\":[\"v\",\"kids\"]}}}",
          LIST("{\"v\":1,\"kids\":[]}", "{\"v\":1,\"kids\":[{\"v\":2,\"kids\":[]},{\"v\":3,"
                                        "\"kids\":[{\"v\":4,\"kids\":[]}]}]}"),
          LIST("{\"v\":1}", "{\"v\":1,\"kids\":[{}]}"));
    check("{\"type\":\"array\",\"items\":{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}}",
          LIST("[]", "[null,[null,[]]]"), LIST("[1]"));
    check("{\"allOf\":[{\"$ref\":\"#/definitions/a~1b\"}],\"definitions\":{\"a/"
          "b\":{\"type\":\"null\"}}}",
          LIST("null"), LIST("1"));
}

/* Every bound against every number near it. */
static void whole_numbers_are_within_their_bounds(void **state)
{
    (void)state;
    static const int bounds[] = { -1234, -100, -99, -10, -9,  -1,  0,    1,
                                  5,     9,    10,  19,  100, 999, 1000, 2345 };
    char schema[128], text[32];
    for (size_t a = 0; a < ARRAY_LEN(bounds); a++) {
        for (size_t b = a; b < ARRAY_LEN(bounds); b++) {
            snprintf(schema, sizeof schema, "{\"type\":\"integer\",\"minimum\":%d,\"maximum\":%d}",
                     bounds[a], bounds[b]);
            struct grammar *g = grammar_of(schema);
            for (int i = -1300; i <= 2400; i += i > -130 && i < 130 ? 1 : 7) {
                snprintf(text, sizeof text, "%d", i);
                if (accepts(g, text) != (i >= bounds[a] && i <= bounds[b]))
                    fail_msg("%s: %s", schema, text);
            }
            for (size_t k = 0; k < 3; k++) {
                int i = bounds[k == 2 ? b : a] + (k == 1);
                snprintf(text, sizeof text, "%d", i);
                if (accepts(g, text) != (i <= bounds[b]))
                    fail_msg("%s: %s", schema, text);
            }
            grammar_unref(g);
        }
    }
    check("{\"type\":\"integer\",\"minimum\":17}", LIST("17", "18", "99", "100", "123456789012345"),
          LIST("16", "9", "-17", "017", "17.5"));
    check("{\"type\":\"integer\",\"exclusiveMaximum\":-3}", LIST("-4", "-1000"),
          LIST("-3", "0", "4"));
    check("{\"type\":\"integer\",\"minimum\":0.5,\"maximum\":1.5}", LIST("1"), LIST("0", "2"));
    check("{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", LIST("0", "0.5", "1", "1.0"),
          LIST("1.5", "-0.5", "2", ".5", "1.01"));
    check("{\"type\":\"number\",\"minimum\":-2,\"maximum\":10}",
          LIST("-2", "-1.99", "0.1", "9.75", "10", "10.00"), LIST("-2.1", "10.5", "11", "-3"));
    check("{\"type\":\"number\"}", LIST("-1.5e-7", "0", "12345.25"), LIST("1e999", "+1", "1."));
}

static void texts_have_their_form(void **state)
{
    (void)state;
    check("{\"type\":\"string\",\"minLength\":1,\"maxLength\":3}",
          LIST("\"a\"", "\"\xc3\xa9\\n\\\"\""), LIST("\"\"", "\"abcd\"", "\"a\nb\""));
    check("{\"type\":\"string\",\"format\":\"date\"}", LIST("\"2026-02-28\""),
          LIST("\"2026-13-01\"", "\"2026-1-1\""));
    check("{\"type\":\"string\",\"format\":\"date-time\"}",
          LIST("\"2026-02-28T12:59:00Z\"", "\"2026-02-28T12:59:00.125+02:00\""),
          LIST("\"2026-02-28 12:59:00\"", "\"2026-02-28T25:00:00Z\""));
    check("{\"format\":\"uuid\"}", LIST("\"123e4567-e89b-12d3-a456-426614174000\""), LIST("\"1\""));
}

static void patterns_are_followed(void **state)
{
    (void)state;
    check("{\"type\":\"string\",\"pattern\":\"^[a-z]{2,3}-\\\\d+$\"}",
          LIST("\"ab-1\"", "\"abc-123\""), LIST("\"a-1\"", "\"ab-\"", "\"ab-1x\""));
    check("{\"type\":\"string\",\"pattern\":\"^(?:red|green)?$\"}", LIST("\"\"", "\"red\""),
          LIST("\"blue\""));
    check("{\"type\":\"string\",\"pattern\":\"b+\"}", LIST("\"abc\"", "\"b\""),
          LIST("\"ac\"", "\"\""));
    check("{\"type\":\"string\",\"pattern\":\"a|b\"}", LIST("\"xay\"", "\"b\""), LIST("\"c\""));
    check("{\"type\":\"string\",\"pattern\":\"^\\\\w+\\\\.\\\\w*$\"}", LIST("\"a_1.\"", "\"x.y\""),
          LIST("\".\"", "\"a\""));
    /* A quote, a backslash and a newline in the text are escapes in its JSON. */
    check("{\"type\":\"string\",\"pattern\":\"^.$\"}",
          LIST("\"a\"", "\"\\\"\"", "\"\\\\\"", "\"\\t\""), LIST("\"\"\"", "\"\\n\"", "\"\n\""));
    check("{\"type\":\"string\",\"pattern\":\"^[^a]$\"}", LIST("\"b\"", "\"\\n\"", "\"\\\"\""),
          LIST("\"a\"", "\"\"\"", "\"\n\""));
    check("{\"type\":\"string\",\"pattern\":\"^\\\"\\\\\\\\$\"}", LIST("\"\\\"\\\\\""),
          LIST("\"\"\\\""));
    check("{\"type\":\"string\",\"pattern\":\"^[\\\\D]$\"}", LIST("\"x\""), LIST("\"5\""));
    check("{\"type\":\"string\",\"pattern\":\"^\\\\u00e9\\\\x41$\"}",
          LIST("\"\xc3\xa9"
               "A\""),
          LIST("\"eA\""));
}

static void refused(const char *schema, const char *why)
{
    struct grammar *g = NULL;
    struct error err = { 0 };
    enum errc rc = read_schema(schema, &g, &err);
    if (rc != ERR_INVALID || !strstr(err.text, why))
        fail_msg("%s: %d %s, not: %s", schema, (int)rc, err.text, why);
}

static void what_a_grammar_cannot_say_is_refused(void **state)
{
    (void)state;
    refused("{\"type\":\"number\",\"multipleOf\":3}", "at #: the keyword 'multipleOf'");
    refused(
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"uniqueItems\":true}}}",
        "at #/properties/a: the keyword 'uniqueItems'");
    refused("{\"not\":{\"type\":\"string\"}}", "'not'");
    refused("{\"if\":{},\"then\":{}}", "'if'");
    refused("{\"oneOf\":[{},{}]}", "'oneOf'");
    refused("{\"allOf\":[{},{}]}", "'allOf' of more than one");
    refused("{\"type\":\"object\",\"patternProperties\":{}}", "'patternProperties'");
    refused("{\"type\":\"string\",\"format\":\"email\"}", "'format' email");
    refused("{\"type\":\"string\",\"minLength\":1,\"pattern\":\"a\"}", "only one of");
    refused("{\"type\":\"string\",\"pattern\":\"(?=a)\"}", "looks around");
    refused("{\"type\":\"string\",\"pattern\":\"a\\\\b\"}",
            "an escape that a grammar does not know");
    refused("{\"type\":\"string\",\"pattern\":\"(a)\\\\1\"}",
            "an escape that a grammar does not know");
    refused("{\"type\":\"string\",\"pattern\":\"^(a[\"}", "does not end");
    refused("{\"type\":\"string\",\"pattern\":\"(a\"}", "a group does not end");
    refused("{\"type\":\"string\",\"pattern\":\"a)\"}", "')' without '('");
    refused("{\"type\":\"string\",\"pattern\":\"^a|b$\"}", "an anchor belongs to one choice only");
    refused("{\"type\":\"string\",\"pattern\":\"a^b\"}", "an anchor inside");
    refused("{\"type\":\"string\",\"pattern\":\"*\"}", "not expected");
    refused("{\"type\":\"string\",\"pattern\":\"a{99999}\"}", "more than 10000 repetitions");
    refused("{\"type\":\"banana\"}", "the 'type' banana is unknown");
    refused("{\"type\":5}", "'type' must be a text");
    refused("{\"type\":\"string\",\"minimum\":3}", "'minimum' does not belong to the 'type'");
    refused("{\"minimum\":3,\"minLength\":3}", "does not belong to the 'type'");
    refused("{\"type\":\"object\",\"required\":[\"a\"]}", "'required' names 'a'");
    refused("{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}", "no number is between");
    refused("{\"type\":\"integer\",\"minimum\":1e300}", "at most 15 digits");
    refused("{\"type\":\"number\",\"minimum\":0.5}", "with a fraction");
    refused("{\"type\":\"array\",\"minItems\":100000}", "10000 at most");
    refused("{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}", "larger than");
    refused("{\"type\":\"array\",\"minItems\":-1}", "whole number");
    refused("{\"enum\":[]}", "1 to 4096 values");
    refused("{\"type\":\"string\",\"enum\":[1,2]}", "no value of 'enum' has the 'type'");
    refused("{\"$ref\":\"#/definitions/no\"}", "leads nowhere");
    refused("{\"$ref\":\"http://x.invalid/s.json\"}", "must begin with #/");
    refused("{\"$ref\":\"#\"}", "begins with itself");
    refused("{\"$ref\":\"#/$defs/a\",\"minLength\":3,\"$defs\":{\"a\":{}}}", "'minLength'");
    refused("{\"anyOf\":[]}", "must be an array of schemas");
    refused("{\"anyOf\":[{}],\"properties\":{}}", "'properties'");
    refused("[]", "a schema must be an object");
    refused("{\"type\":\"object\",\"properties\":{\"a\":false}}", "a schema must be an object");
}

static void large_schemas_are_refused(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 0);
    for (int i = 0; i < 70; i++)
        buf_add_str(&text, "{\"type\":\"array\",\"items\":");
    buf_add_str(&text, "{}");
    for (int i = 0; i < 70; i++)
        buf_add_char(&text, '}');
    refused(buf_cstr(&text), "nested deeper than 64");
    buf_clear(&text);
    buf_add_str(&text, "{\"anyOf\":[");
    for (int i = 0; i < 5000; i++)
        buf_printf(&text, "%s{}", i ? "," : "");
    buf_add_str(&text, "]}");
    refused(buf_cstr(&text), "more than 4096");
    buf_clear(&text);
    buf_add_str(&text, "{\"enum\":[\"");
    for (int i = 0; i < 300 * 1024; i++)
        buf_add_char(&text, 'x');
    buf_add_str(&text, "\"]}");
    refused(buf_cstr(&text), "more than 262144");
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_have_their_members),
        cmocka_unit_test(arrays_have_their_items),
        cmocka_unit_test(choices_and_references),
        cmocka_unit_test(whole_numbers_are_within_their_bounds),
        cmocka_unit_test(texts_have_their_form),
        cmocka_unit_test(patterns_are_followed),
        cmocka_unit_test(what_a_grammar_cannot_say_is_refused),
        cmocka_unit_test(large_schemas_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
