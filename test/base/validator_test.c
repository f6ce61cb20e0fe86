/* SPDX-License-Identifier: Apache-2.0 */
#include "base/validator.h"

#include "random_val.h"

static struct arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static struct validator *made(const char *rule)
{
    struct error err = { 0 };
    struct validator *s;

    if (validator_new(&s, parsed(arena, rule), &err) != OK)
        fail_msg("%s: %s", rule, err.text);
    return s;
}

static bool accepts(const struct validator *s, const char *text)
{
    struct error err = { 0 };
    bool is_valid;

    if (validator_check(s, parsed(arena, text), &is_valid, &err) != OK)
        fail_msg("%s: %s", text, err.text);
    return is_valid;
}

/* What a schema says of values. */
static const struct verdict {
    const char *rule;
    const char *good[8], *bad[8];
} verdicts[] = {
    { "{}", { "null", "1", "\"a\"", "[]", "{}" }, { 0 } },
    { "{\"x-unknown\": [1], \"const\": 1}", { "null", "2" }, { 0 } },
    { "{\"type\":\"null\"}", { "null" }, { "false", "0", "\"\"", "[]", "{}" } },
    { "{\"type\":\"boolean\"}", { "true", "false" }, { "null", "0" } },
    { "{\"type\":\"integer\"}", { "0", "-7", "9223372036854775807" }, { "1.5", "1e300", "\"1\"" } },
    { "{\"type\":\"number\"}", { "0", "-7", "1.5", "1e300" }, { "\"1\"", "null" } },
    { "{\"type\":[\"string\",\"null\"]}", { "\"\"", "null" }, { "0", "[]" } },
    { "{\"type\":\"array\"}", { "[]", "[1.5,2.5,3.5,4.5]" }, { "{}" } },
    { "{\"type\":\"object\"}", { "{}" }, { "[]" } },
    /* enum: JSON's equality, not AQL's */
    { "{\"enum\":[1,\"a\",null,[1],{\"a\":{\"b\":1}},2.5]}",
      { "1", "1.0", "\"a\"", "null", "[1]", "{\"a\":{\"b\":1}}", "2.5" },
      { "2", "\"b\"", "[1,null]", "{\"a\":{\"b\":1},\"c\":null}", "{\"a\":{}}", "true" } },
    { "{\"enum\":[]}", { 0 }, { "null", "1" } },
    { "{\"enum\":[{}]}", { "{}" }, { "{\"a\":null}" } },
    /* numbers */
    { "{\"minimum\":2,\"maximum\":4}", { "2", "3.5", "4", "\"x\"" }, { "1", "1.9", "4.1", "5" } },
    { "{\"minimum\":2,\"exclusiveMinimum\":true}", { "2.1", "3" }, { "2", "1" } },
    { "{\"maximum\":2,\"exclusiveMaximum\":true}", { "1.9" }, { "2", "3" } },
    { "{\"maximum\":2,\"exclusiveMaximum\":false}", { "2" }, { "2.1" } },
    { "{\"maximum\":9007199254740992}", { "9007199254740992" }, { "9007199254740993" } },
    { "{\"multipleOf\":3}", { "9", "-9", "0", "9.0", "\"a\"" }, { "10", "9.5" } },
    { "{\"multipleOf\":0.5}", { "1", "2.5", "-0.5" }, { "0.7" } },
    { "{\"multipleOf\":1}", { "5", "5.0" }, { "5.5" } },
    /* strings: lengths in characters */
    { "{\"minLength\":2,\"maxLength\":3}",
      { "\"ab\"", "\"abc\"", "\"\\u00e4\\u00f6\\u00fc\"", "1" },
      { "\"a\"", "\"abcd\"", "\"\\u00e4\"" } },
    { "{\"pattern\":\"b+\"}", { "\"abbc\"", "1" }, { "\"ac\"" } },
    { "{\"pattern\":\"^a$\"}", { "\"a\"" }, { "\"a\\n\"", "\"ba\"" } },
    { "{\"pattern\":\"^.$\"}", { "\"\\u00e4\"" }, { "\"ab\"", "\"\"" } },
    { "{\"pattern\":\"\\\\u00e4\"}", { "\"x\\u00e4\"" }, { "\"a\"" } },
    { "{\"format\":\"made-up\"}", { "\"anything\"" }, { 0 } },
    { "{\"format\":\"date-time\"}",
      { "\"2024-02-29T23:59:59Z\"", "\"2000-01-01T00:00:00.123+01:30\"", "7" },
      { "\"2023-02-29T00:00:00Z\"", "\"2024-13-01T00:00:00Z\"", "\"2024-01-01\"",
        "\"2024-01-01T24:00:00Z\"", "\"2024-01-01T00:00:00\"", "\"2024-01-01T00:00:00.Z\"" } },
    { "{\"format\":\"email\"}",
      { "\"a.b+c@example.org\"", "\"x@y\"" },
      { "\"a@\"", "\"@b\"", "\"a..b@c\"", "\"a b@c\"", "\"a@b@c\"", "\"ab\"" } },
    { "{\"format\":\"hostname\"}",
      { "\"example.org\"", "\"a-1\"", "\"X\"" },
      { "\"\"", "\"-a\"", "\"a..b\"", "\"a_b\"", "\"a.\"" } },
    { "{\"format\":\"ipv4\"}",
      { "\"127.0.0.1\"", "\"255.255.255.255\"" },
      { "\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\"", "\"1.2.3.4 \"", "\"\"" } },
    { "{\"format\":\"ipv6\"}",
      { "\"::1\"", "\"fe80::1:2\"", "\"::ffff:1.2.3.4\"" },
      { "\"1.2.3.4\"", "\":::1\"", "\"12345::\"", "\"::1%eth0\"" } },
    { "{\"format\":\"uri\"}",
      { "\"http://a.b/c?d=e#f\"", "\"urn:x:y\"", "\"http://[::1]:80/\"", "\"mailto:a@b\"" },
      { "\"/a/b\"", "\"http://a b\"", "\"a:%zz\"", "\"1a:b\"", "\"a:#b#c\"",
        "\"http://[::x]/\"" } },
    /* arrays */
    { "{\"items\":{\"type\":\"number\"}}", { "[]", "[1,2.5]", "{}" }, { "[1,\"a\"]" } },
    { "{\"items\":[{\"type\":\"number\"},{\"type\":\"string\"}]}",
      { "[]", "[1]", "[1,\"a\"]", "[1,\"a\",null]" },
      { "[\"a\"]", "[1,2]" } },
    { "{\"items\":[{}],\"additionalItems\":false}", { "[]", "[1]" }, { "[1,2]" } },
    { "{\"items\":[],\"additionalItems\":false}", { "[]" }, { "[1]" } },
    { "{\"items\":[{}],\"additionalItems\":{\"type\":\"string\"}}", { "[1,\"a\"]" }, { "[1,2]" } },
    { "{\"items\":{},\"additionalItems\":false}", { "[1,2]" }, { 0 } },
    { "{\"additionalItems\":{\"type\":\"string\"}}", { "[1,2]" }, { 0 } },
    { "{\"minItems\":1,\"maxItems\":2}", { "[1]", "[1,2]", "{}" }, { "[]", "[1,2,3]" } },
    { "{\"uniqueItems\":true}",
      { "[]", "[1,2]", "[1,true,\"1\"]", "[[1],[1,null]]", "[{},{\"a\":null}]",
        "[1,2,3,4,5,6,7,8,9,10]" },
      { "[1,1]", "[1,1.0]", "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]", "[[1],[1]]",
        "[1,2,3,4,5,6,7,8,9,1]", "[0.5,1.5,2.5,0.5]" } },
    { "{\"uniqueItems\":false}", { "[1,1]" }, { 0 } },
    /* objects */
    { "{\"properties\":{\"a\":{\"type\":\"number\"}}}",
      { "{}", "{\"a\":1}", "{\"b\":\"x\"}", "[]" },
      { "{\"a\":\"x\"}", "{\"a\":null}" } },
    { "{\"required\":[\"a\",\"b\"]}", { "{\"a\":null,\"b\":1}", "7" }, { "{}", "{\"a\":1}" } },
    { "{\"properties\":{\"a\":{}},\"additionalProperties\":false}",
      { "{}", "{\"a\":1}" },
      { "{\"b\":1}", "{\"a\":1,\"b\":null}" } },
    { "{\"properties\":{\"a\":{}},\"required\":[\"b\"],\"additionalProperties\":false}",
      { 0 },
      { "{}", "{\"a\":1,\"b\":1}" } },
    { "{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"string\"}}",
      { "{\"a\":1,\"b\":\"x\"}" },
      { "{\"b\":1}" } },
    { "{\"additionalProperties\":true}", { "{\"b\":1}" }, { 0 } },
    { "{\"patternProperties\":{\"^n\":{\"type\":\"number\"},\"x$\":{\"minimum\":5}}}",
      { "{\"n\":1,\"x\":7,\"nx\":5,\"other\":\"a\"}" },
      { "{\"n\":\"a\"}", "{\"nx\":4}", "{\"x\":4}" } },
    { "{\"properties\":{\"a\":{\"type\":\"number\"}},\"patternProperties\":{\"^p\":{}},"
      "\"additionalProperties\":false}",
      { "{\"a\":1,\"p1\":2}" },
      { "{\"q\":1}", "{\"a\":\"x\"}" } },
    { "{\"minProperties\":1,\"maxProperties\":2}",
      { "{\"a\":1}", "{\"a\":1,\"b\":2}" },
      { "{}", "{\"a\":1,\"b\":2,\"c\":3}" } },
    { "{\"dependencies\":{\"a\":[\"b\",\"c\"]}}",
      { "{}", "{\"b\":1}", "{\"a\":1,\"b\":1,\"c\":1}" },
      { "{\"a\":1}", "{\"a\":1,\"b\":1}" } },
    { "{\"dependencies\":{\"a\":{\"minProperties\":2}}}",
      { "{}", "{\"a\":1,\"b\":1}" },
      { "{\"a\":1}" } },
    /* what the store adds is not looked at, at any depth */
    { "{\"properties\":{\"a\":{\"type\":\"object\",\"additionalProperties\":false}},"
      "\"additionalProperties\":false,\"maxProperties\":1}",
      { "{\"_key\":\"1\",\"_id\":\"c/1\",\"_rev\":\"x\",\"a\":{\"_from\":1}}", "{\"_to\":1}" },
      { "{\"_other\":1}", "{\"_keys\":1}" } },
    { "{\"required\":[\"_key\"]}", { "1" }, { "{\"_key\":\"a\"}" } },
    { "{\"properties\":{\"_key\":{\"type\":\"number\"}}}", { "{\"_key\":\"a\"}" }, { 0 } },
    { "{\"patternProperties\":{\"^_\":{\"type\":\"number\"}}}",
      { "{\"_id\":\"a\",\"_x\":1}" },
      { "{\"_x\":\"a\"}" } },
    /* more than eight members: the value is searched in another way */
    { "{\"properties\":{\"a\":{\"type\":\"number\"},\"j\":{\"type\":\"string\"}},\"required\":["
      "\"j\"]}",
      { "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":\"x\"}" },
      { "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1}",
        "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"k\":\"x\"}" } },
    /* combinations */
    { "{\"allOf\":[{\"minimum\":1},{\"maximum\":3}]}", { "2", "\"x\"" }, { "0", "4" } },
    { "{\"anyOf\":[{\"type\":\"string\"},{\"minimum\":5}]}", { "\"a\"", "5", "null" }, { "4" } },
    { "{\"oneOf\":[{\"multipleOf\":2},{\"multipleOf\":3}]}", { "4", "9" }, { "6", "7" } },
    { "{\"not\":{\"type\":\"string\"}}", { "1" }, { "\"a\"" } },
    { "{\"not\":{}}", { 0 }, { "1" } },
    /* $ref */
    { "{\"definitions\":{\"n\":{\"type\":\"number\"}},\"properties\":{\"a\":{\"$ref\":\"#/"
      "definitions/n\"}}}",
      { "{\"a\":1}" },
      { "{\"a\":\"x\"}" } },
    { "{\"properties\":{\"child\":{\"$ref\":\"#\"},\"n\":{\"type\":\"number\"}}}",
      { "{\"n\":1,\"child\":{\"n\":2,\"child\":{}}}" },
      { "{\"child\":{\"child\":{\"n\":\"x\"}}}" } },
    { "{\"definitions\":{\"a/b~c d\":{\"type\":\"null\"}},"
      "\"items\":{\"$ref\":\"#/definitions/a~1b~0c%20d\"}}",
      { "[null]" },
      { "[1]" } },
    { "{\"items\":[{\"type\":\"null\"}],\"additionalItems\":{\"$ref\":\"#/items/0\"}}",
      { "[null,null]" },
      { "[null,1]" } },
    { "{\"$ref\":\"#/definitions/"
      "x\",\"definitions\":{\"x\":{\"type\":\"null\"}},\"type\":\"string\"}",
      { "null" },
      { "\"a\"" } },
};

static void schemas_say_what_the_standard_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(verdicts); i++) {
        const struct verdict *v = &verdicts[i];
        struct validator *s = made(v->rule);
        for (size_t k = 0; k < ARRAY_LEN(v->good) && v->good[k]; k++)
            if (!accepts(s, v->good[k]))
                fail_msg("%s refuses %s", v->rule, v->good[k]);
        for (size_t k = 0; k < ARRAY_LEN(v->bad) && v->bad[k]; k++)
            if (accepts(s, v->bad[k]))
                fail_msg("%s accepts %s", v->rule, v->bad[k]);
        validator_free(s);
    }
}

/* What is no schema, and a part of what is said of it. */
static const struct {
    const char *rule, *why;
} refusals[] = {
    { "1", "must be an object" },
    { "{\"type\":\"text\"}", "'text' is no type" },
    { "{\"type\":[\"null\",\"null\"]}", "twice" },
    { "{\"type\":[]}", "no type" },
    { "{\"type\":1}", "must be of type string" },
    { "{\"title\":1}", "'title'" },
    { "{\"enum\":1}", "'enum'" },
    { "{\"allOf\":[]}", "at least one" },
    { "{\"anyOf\":{}}", "array" },
    { "{\"oneOf\":[1]}", "objects" },
    { "{\"not\":true}", "objects" },
    { "{\"definitions\":{\"a\":1}}", "objects" },
    { "{\"multipleOf\":0}", "greater than 0" },
    { "{\"multipleOf\":\"a\"}", "number" },
    { "{\"minimum\":\"1\"}", "number" },
    { "{\"exclusiveMinimum\":true}", "needs 'minimum'" },
    { "{\"exclusiveMaximum\":5,\"maximum\":6}", "bool" },
    { "{\"minLength\":-1}", "whole number" },
    { "{\"maxLength\":1.5}", "whole number" },
    { "{\"pattern\":\"(\"}", "'pattern'" },
    { "{\"format\":1}", "'format'" },
    { "{\"items\":1}", "objects" },
    { "{\"additionalItems\":1}", "objects" },
    { "{\"maxItems\":\"1\"}", "whole number" },
    { "{\"uniqueItems\":1}", "bool" },
    { "{\"required\":[]}", "at least one" },
    { "{\"required\":[1]}", "string" },
    { "{\"required\":[\"a\",\"a\"]}", "twice" },
    { "{\"required\":true}", "array" },
    { "{\"properties\":[]}", "object" },
    { "{\"properties\":{\"a\":true}}", "#" },
    { "{\"properties\":{\"a\":{\"properties\":{\"b\":{\"type\":7}}}}}",
      "#/properties/a/properties/b" },
    { "{\"patternProperties\":{\"[\":{}}}", "patternProperties" },
    { "{\"additionalProperties\":\"no\"}", "objects" },
    { "{\"dependencies\":{\"a\":[]}}", "at least one" },
    { "{\"dependencies\":{\"a\":1}}", "objects" },
    { "{\"$ref\":\"#\"}", "leads to itself" },
    { "{\"$ref\":\"http://example.org/schema\"}", "must begin with #" },
    { "{\"items\":{\"$ref\":\"#/nowhere\"}}", "leads nowhere" },
    { "{\"items\":{\"$ref\":\"#name\"}}", "form #/a/b" },
    { "{\"items\":{\"$ref\":1}}", "must begin with #" },
    { "{\"definitions\":{\"a\":{\"$ref\":\"#/definitions/b\"},\"b\":{\"$ref\":\"#/definitions/"
      "a\"}}}",
      "leads to itself" },
    { "{\"allOf\":[{\"$ref\":\"#\"}]}", "in circles" },
    { "{\"definitions\":{\"a\":{\"not\":{\"$ref\":\"#/definitions/b\"}},"
      "\"b\":{\"anyOf\":[{},{\"$ref\":\"#/definitions/a\"}]}}}",
      "in circles" },
    { "{\"dependencies\":{\"a\":{\"$ref\":\"#\"}}}", "in circles" },
};

static void what_is_no_schema_is_refused_with_its_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        struct error err = { 0 };
        struct validator *s = NULL;
        if (validator_new(&s, parsed(arena, refusals[i].rule), &err) == OK)
            fail_msg("%s was accepted", refusals[i].rule);
        assert_int_equal(error_num(&err), 1621);
        assert_int_equal(error_http(&err), 400);
        if (!strstr(err.text, refusals[i].why))
            fail_msg("%s: %s", refusals[i].rule, err.text);
        assert_null(s);
    }
}

/* The part so many times with commas between; @ is its number, & the next one. */
static const char *repeated(const char *head, const char *part, const char *tail, int count)
{
    struct buf text;

    buf_init(&text, 0);
    buf_add_str(&text, head);
    for (int i = 0; i < count; i++) {
        for (const char *c = part; *c; c++) {
            if (*c == '@' || *c == '&')
                buf_printf(&text, "%d", *c == '@' ? i : i + 1);
            else
                buf_add_char(&text, *c);
        }
        buf_add_str(&text, i + 1 < count ? "," : "");
    }
    buf_add_str(&text, tail);
    const char *out = arena_printf(arena, "%s", buf_cstr(&text));
    buf_release(&text);
    return out;
}

static void refuse_size(const char *rule, const char *why)
{
    struct error err = { 0 };
    struct validator *s;

    assert_int_equal(validator_new(&s, parsed(arena, rule), &err), ERR_INVALID);
    assert_int_equal(error_num(&err), 1621);
    if (!strstr(err.text, why))
        fail_msg("%s", err.text);
}

static void a_schema_has_limits(void **state)
{
    (void)state;
    refuse_size(repeated("{\"properties\":{", "\"p@\":{}", "}}", VALIDATOR_NODES_MAX),
                "more than 10000");
    refuse_size(repeated("{\"patternProperties\":{", "\"p@\":{}", "}}", VALIDATOR_PATTERNS_MAX + 1),
                "regular expressions");
    refuse_size(repeated("{\"title\":\"", "0123456789012345678901234567890123456789", "\"}",
                         VALIDATOR_BYTES_MAX / 40),
                "larger than");
    validator_free(made(repeated("{\"properties\":{", "\"p@\":{}", "}}", VALIDATOR_NODES_MAX - 1)));
}

/* d0 is d1 is d2 ... */
static const char *chain(int links)
{
    return repeated("{\"definitions\":{", "\"d@\":{\"allOf\":[{\"$ref\":\"#/definitions/d&\"}]}",
                    arena_printf(arena, ",\"d%d\":{}}}", links), links);
}

static void chains_of_schemas_for_one_value_are_short(void **state)
{
    (void)state;
    validator_free(made(chain(VALIDATOR_CHAIN_MAX - 1)));
    refuse_size(chain(VALIDATOR_CHAIN_MAX), "more than 100 schemas for one value");
    refuse_size(chain(5000), "more than 100 schemas for one value");
}

/* A value that many levels deep, each an object with the member a. */
static const char *nested(int levels)
{
    struct buf text;

    buf_init(&text, 0);
    for (int i = 0; i < levels; i++)
        buf_add_str(&text, "{\"a\":");
    buf_add_str(&text, "1");
    for (int i = 0; i < levels; i++)
        buf_add_char(&text, '}');
    const char *out = arena_printf(arena, "%s", buf_cstr(&text));
    buf_release(&text);
    return out;
}

/* Each level is checked twice, by two patterns: 2^depth checks. */
static void work_without_end_is_refused(void **state)
{
    struct validator *s =
        made("{\"patternProperties\":{\"a\":{\"$ref\":\"#\"},\"^a\":{\"$ref\":\"#\"}}}");
    struct error err = { 0 };
    bool is_valid = true;

    (void)state;
    assert_true(accepts(s, nested(10)));
    assert_int_equal(validator_check(s, parsed(arena, nested(100)), &is_valid, &err), ERR_INVALID);
    assert_int_equal(error_num(&err), 1620);
    assert_false(is_valid);
    validator_free(s);
}

static void depth_without_end_is_refused(void **state)
{
    struct buf rule;
    struct error err = { 0 };
    bool is_valid;

    (void)state;
    buf_init(&rule, 0); /* each level of the value goes through fifty schemas */
    for (int i = 0; i < 49; i++)
        buf_add_str(&rule, "{\"allOf\":[");
    buf_add_str(&rule, "{\"properties\":{\"a\":{\"$ref\":\"#\"}}}");
    for (int i = 0; i < 49; i++)
        buf_add_str(&rule, "]}");
    struct validator *s = made(buf_cstr(&rule));
    assert_true(accepts(s, nested(20)));
    assert_int_equal(validator_check(s, parsed(arena, nested(150)), &is_valid, &err), ERR_INVALID);
    assert_int_equal(error_num(&err), 1620);
    validator_free(s);
    buf_release(&rule);
}

static void a_pattern_that_takes_too_long_is_refused(void **state)
{
    struct validator *s = made("{\"pattern\":\"^(a+)+$\"}");
    struct error err = { 0 };
    bool is_valid;

    (void)state;
    assert_true(accepts(s, "\"aaaa\""));
    struct val text =
        parsed(arena, "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"");
    assert_int_equal(validator_check(s, text, &is_valid, &err), ERR_INVALID);
    assert_int_equal(error_num(&err), 1620);
    validator_free(s);
}

/* Longer than the stack that compiled expressions have. */
static void a_long_text_meets_a_pattern(void **state)
{
    struct validator *s = made("{\"pattern\":\"^(?:a|b)*$\"}");
    struct buf text;

    (void)state;
    buf_init(&text, 0);
    buf_add_char(&text, '"');
    for (int i = 0; i < 50000; i++)
        buf_add_char(&text, i % 3 ? 'a' : 'b');
    buf_add_char(&text, '"');
    assert_true(accepts(s, buf_cstr(&text)));
    buf_release(&text);
    validator_free(s);
}

static void many_items_are_unique_or_not(void **state)
{
    struct validator *s = made("{\"uniqueItems\":true}");

    (void)state;
    assert_true(accepts(s, repeated("[", "@", "]", 20000)));
    assert_true(accepts(s, repeated("[", "[@,null]", "]", 2000)));
    assert_false(accepts(s, repeated("[", "@", ",77]", 20000)));
    validator_free(s);
}

static void a_definition_is_read_and_shown(void **state)
{
    static const char *const bad[] = {
        "1",
        "{}",
        "{\"rule\":1}",
        "{\"rule\":{},\"level\":\"hard\"}",
        "{\"rule\":{},\"level\":1}",
        "{\"rule\":{},\"message\":1}",
        "{\"rule\":{},\"type\":\"bool\"}",
        "{\"rule\":{},\"levels\":1}",
    };
    struct validator_def def;
    struct error err = { 0 };

    (void)state;
    assert_int_equal(
        validator_def_read(&def, parsed(arena, "{\"rule\":{\"type\":\"object\"}}"), &err), OK);
    assert_int_equal(def.level, VALIDATOR_STRICT);
    assert_string_equal(
        printed(arena, validator_def_show(&def, arena)),
        "{\"message\":\"\",\"level\":\"strict\",\"type\":\"json\",\"rule\":{\"type\":\"object\"}}");
    assert_int_equal(validator_def_read(&def, validator_def_show(&def, arena), &err), OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(validator_def_read(&def, parsed(arena, bad[i]), &err), ERR_INVALID);
        assert_int_equal(error_num(&err), 1621);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemas_say_what_the_standard_says),
        cmocka_unit_test(what_is_no_schema_is_refused_with_its_reason),
        cmocka_unit_test(a_schema_has_limits),
        cmocka_unit_test(chains_of_schemas_for_one_value_are_short),
        cmocka_unit_test(work_without_end_is_refused),
        cmocka_unit_test(depth_without_end_is_refused),
        cmocka_unit_test(a_pattern_that_takes_too_long_is_refused),
        cmocka_unit_test(a_long_text_meets_a_pattern),
        cmocka_unit_test(many_items_are_unique_or_not),
        cmocka_unit_test(a_definition_is_read_and_shown),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
