/* SPDX-License-Identifier: Apache-2.0 */
#include "base/val_text.h"
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

static void expect(const char *in, const char *out)
{
    assert_string_equal(printed(arena, parsed(arena, in)), out);
}

static void json_comes_back_as_it_went_in(void **state)
{
    static const char *const same[] = {
        "null",
        "true",
        "false",
        "0",
        "15",
        "16",
        "-1",
        "127",
        "128",
        "-129",
        "9223372036854775807",
        "-9223372036854775808",
        "0.1",
        "-2.5",
        "1e300",
        "5e-324",
        "\"\"",
        "\"a\\\"\\\\\\n\\u0001\"",
        "\"\xC3\xA4\xF0\x9F\x98\x80\"",
        "[]",
        "{}",
        "[1,2,3]",
        "[1.5,2.5,3.5,4.5]",
        "[0.1,0.2,0.3,0.4,0.5]",
        "{\"b\":1,\"a\":[{\"c\":null}],\"\":2}",
        "[[[[[1]]]],{\"x\":{\"y\":{\"z\":[]}}}]",
        "\"\x7F/\"",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        expect(same[i], same[i]);
    expect(" [ 1 , 2.0 , 1E2, -0.0 ]\n", "[1,2,100,0]");
    expect("\"\\u00e4\\/\\ud83d\\ude00\"", "\"\xC3\xA4/\xF0\x9F\x98\x80\"");
}

static void numbers_beyond_int64_become_doubles(void **state)
{
    (void)state;
    expect("9223372036854775808", "9223372036854776000");
    assert_false(val_is_int(parsed(arena, "9223372036854775808")));
    expect("18446744073709551616", "18446744073709552000");
    expect("-9223372036854775809", "-9223372036854775808");
    assert_true(val_double(parsed(arena, "123456789012345678901234567890")) ==
                1.2345678901234568e29);
    expect("1152921504606846976.0", "1152921504606846976");
}

static void every_double_reads_back_equal(void **state)
{
    (void)state;
    rnd_start();
    for (int i = 0; i < 50000; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct val v = val_new_double(arena, random_double());
        const char *text = printed(arena, v);
        if (!val_equal(parsed(arena, text), v) || strlen(text) > 25)
            fail_msg("%.17g printed as %s", val_double(v), text);
        arena_rewind(arena, mark);
    }
}

static void every_value_reads_back_equal(void **state)
{
    (void)state;
    rnd_start();
    for (int i = 0; i < 20000; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct val v = random_val(arena);
        const char *text = printed(arena, v);
        if (val_compare(parsed(arena, text), v, NULL))
            fail_msg("%s", text);
        assert_string_equal(printed(arena, parsed(arena, text)), text);
        arena_rewind(arena, mark);
    }
}

static void refused(const char *text, const char *says)
{
    struct error err = { 0 };
    struct val v;

    assert_int_equal(val_parse(slice_str(text), arena, &v, &err), ERR_INVALID);
    assert_int_equal(error_num(&err), 600);
    assert_int_equal(error_http(&err), 400);
    if (!strstr(err.text, says))
        fail_msg("'%s' does not say '%s'", err.text, says);
}

static void bad_json_is_refused_with_its_place(void **state)
{
    static const char *const bad[] = {
        "[1,2",
        "nul",
        "[NaN]",
        "Infinity",
        "-Infinity",
        "1e999",
        "{\"a\":1} x",
        "[1,]",
        "{\"a\"}",
        "{a:1}",
        "'a'",
        "01",
        "+1",
        ".5",
        "1.",
        "\"\t\"",
        "\"\\x\"",
        "\"\\ud800\"",
        "/**/1",
        "\"a",
        "\xEF\xBB\xBF"
        "1",
        "[1 2]",
        "{\"a\":1,}",
        "tru",
        "-",
    };

    (void)state;
    refused("", "empty");
    refused("   ", "invalid JSON");
    refused("{\"a\":1,\n\"b\":}", "at byte 12 (line 2, column 5)");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        refused(bad[i], "invalid JSON");
    struct val v;
    assert_int_equal(val_parse(slice_of("\"a\0b\"", 5), arena, &v, NULL), ERR_INVALID);
}

static void text_that_is_not_utf8_is_refused(void **state)
{
    static const char *const bad[] = {
        "\xC3",
        "\xC0\xAF",
        "\xE0\x80\xAF",
        "\xED\xA0\x80",
        "\xF4\x90\x80\x80",
        "\xF8\x88\x80\x80\x80",
        "\x80",
        "\xFF",
        "a\xE6\x97",
        "\xF0\x8F\xBF\xBF",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(utf8_check(slice_str(bad[i]), NULL));
        refused(arena_printf(arena, "\"%s\"", bad[i]), "invalid JSON");
        refused(arena_printf(arena, "\"0123456789abcdef%s\"", bad[i]), "invalid JSON");
        refused(arena_printf(arena, "{\"%s\":1}", bad[i]), "invalid JSON");
    }
}

static char *nested(size_t levels)
{
    char *text = arena_alloc(arena, levels * 2 + 1);

    memset(text, '[', levels);
    memset(text + levels, ']', levels);
    text[levels * 2] = 0;
    return text;
}

static void two_hundred_levels_are_the_limit(void **state)
{
    (void)state;
    expect(nested(LIMIT_NESTING), nested(LIMIT_NESTING));
    refused(nested(LIMIT_NESTING + 1), "nesting deeper than 200 levels");
    refused(nested(10000), "nesting deeper than 200 levels");
    refused(nested(1000000), "nesting deeper than 200 levels");
}

static void the_result_must_fit_the_arena(void **state)
{
    struct arena *small = arena_new(1000);
    struct error err = { 0 };
    struct val v;
    char text[5000];

    (void)state;
    memset(text, 'x', sizeof text);
    text[0] = text[sizeof text - 1] = '"';
    assert_int_equal(val_parse(slice_of(text, sizeof text), small, &v, &err), ERR_LIMIT);
    assert_int_equal(error_num(&err), 32);
    arena_free(small);
}

static void texts_of_many_megabytes_are_read(void **state)
{
    enum { ROWS = 300000 };
    struct arena *own = arena_new(0);
    struct buf text;
    struct val v;

    (void)state;
    buf_init(&text, 0);
    buf_add_char(&text, '[');
    for (int i = 0; i < ROWS; i++)
        buf_printf(&text, "%s{\"id\":%d,\"name\":\"row number %d\",\"tags\":[1,2,3]}", i ? "," : "",
                   i, i);
    buf_add_char(&text, ']');
    assert_true(text.len > 14 * MIB);
    assert_int_equal(val_parse(buf_slice(&text), own, &v, NULL), OK);
    assert_int_equal(val_count(v), ROWS);
    assert_int_equal(val_int(val_get(val_at(v, ROWS - 1), slice_str("id"))), ROWS - 1);
    struct buf again;
    buf_init(&again, 0);
    val_print(v, &again);
    assert_true(slice_eq(buf_slice(&text), buf_slice(&again)));
    buf_release(&again);
    buf_release(&text);
    arena_free(own);
}

static void strings_are_escaped_wherever_it_is_needed(void **state)
{
    struct buf out;
    char in[40];

    (void)state;
    buf_init(&out, 0);
    for (int c = 0; c < 128; c++) {
        for (size_t at = 0; at < 20; at++) {
            memset(in, 'y', sizeof in);
            in[at] = (char)c;
            buf_clear(&out);
            val_print_string(slice_of(in, 20), &out);
            struct val v;
            assert_int_equal(val_parse(buf_slice(&out), arena, &v, NULL), OK);
            assert_true(slice_eq(val_string(v), slice_of(in, 20)));
            assert_true((out.len == 22) == (c >= 0x20 && c != '"' && c != '\\'));
        }
    }
    buf_clear(&out);
    val_print_string(slice_of("\b\f\n\r\t\x1f", 6), &out);
    assert_string_equal(buf_cstr(&out), "\"\\b\\f\\n\\r\\t\\u001f\"");
    buf_release(&out);
}

static void pretty_text_is_indented(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 0);
    val_print_pretty(parsed(arena, "{\"a\":[1,{}],\"b\":{\"c\":[]}}"), &out);
    assert_string_equal(buf_cstr(&out), "{\n  \"a\": [\n    1,\n    {}\n  ],\n"
                                        "  \"b\": {\n    \"c\": []\n  }\n}");
    buf_release(&out);
}

static void printing_stops_at_the_maximum(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 10);
    val_print(parsed(arena, "[1,2,3,4,5,6,7,8,9]"), &out);
    assert_true(out.is_overfull && out.len <= 10);
    assert_int_equal(buf_check(&out, "the reply", NULL), ERR_TOO_LARGE);
    buf_release(&out);
}

static void characters_are_counted(void **state)
{
    size_t at;

    (void)state;
    assert_int_equal(utf8_count(slice_str("a\xC3\xA4\xE6\x97\xA5\xF0\x9F\x98\x80")), 4);
    assert_true(utf8_check(slice_str("a\xC3\xA4\xE6\x97\xA5\xF0\x9F\x98\x80"), &at));
    assert_false(utf8_check(slice_str("0123456789\xC3"), &at));
    assert_int_equal(at, 10);
    assert_true(utf8_check(slice_of(NULL, 0), NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_comes_back_as_it_went_in),
        cmocka_unit_test(numbers_beyond_int64_become_doubles),
        cmocka_unit_test(every_double_reads_back_equal),
        cmocka_unit_test(every_value_reads_back_equal),
        cmocka_unit_test(bad_json_is_refused_with_its_place),
        cmocka_unit_test(text_that_is_not_utf8_is_refused),
        cmocka_unit_test(two_hundred_levels_are_the_limit),
        cmocka_unit_test(the_result_must_fit_the_arena),
        cmocka_unit_test(texts_of_many_megabytes_are_read),
        cmocka_unit_test(strings_are_escaped_wherever_it_is_needed),
        cmocka_unit_test(pretty_text_is_indented),
        cmocka_unit_test(printing_stops_at_the_maximum),
        cmocka_unit_test(characters_are_counted),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
