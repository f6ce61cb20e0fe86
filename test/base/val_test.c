/* SPDX-License-Identifier: Apache-2.0 */
#include "base/val.h"
#include "base/val_text.h"
#include "random_val.h"
#include <float.h>
#include <math.h>

enum { ROUNDS = 20000 };

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

static struct val parse(const char *text)
{
    return parsed(arena, text);
}

static const char *print(struct val v)
{
    return printed(arena, v);
}

/* ---- reading ---- */

static void none_reads_as_null(void **state)
{
    struct val none = VAL_NONE, out;
    float f;

    (void)state;
    assert_int_equal(val_type(none), VAL_NULL);
    assert_true(val_is_null(none));
    assert_false(val_bool(none) || val_is_int(none) || val_truth(none));
    assert_int_equal(val_int(none), 0);
    assert_true(val_double(none) == 0);
    assert_int_equal(val_string(none).len, 0);
    assert_int_equal(val_count(none), 0);
    assert_true(val_is_null(val_at(none, 0)));
    assert_false(val_find(none, slice_str("a"), &out));
    assert_int_equal(val_floats(none, &f, 1), -1);
    assert_int_equal(val_size(none), 1);
    assert_true(val_equal(none, val_null));
    assert_true(val_hash(none) == val_hash(val_null));
    assert_string_equal(print(none), "null");
    assert_string_equal(print(val_new_array(arena, &none, 1)), "[null]");
    assert_int_equal(val_validate(val_bytes(none), &out, NULL), OK);
}

static void wrong_types_read_as_nothing(void **state)
{
    struct val text = parse("\"12\""), number = parse("7"), list = parse("[1,2]"), out;

    (void)state;
    assert_int_equal(val_int(text), 0);
    assert_true(val_double(list) == 0);
    assert_int_equal(val_string(number).len, 0);
    assert_int_equal(val_count(text), 0);
    assert_false(val_bool(number));
    assert_false(val_find(list, slice_str("a"), &out));
    assert_true(val_is_null(val_get(text, slice_str("a"))));
    assert_int_equal(val_name_at(list, 0).len, 0);
    assert_true(val_is_null(val_at(list, 2)));
}

static void truth_is_that_of_aql(void **state)
{
    static const char *const no[] = { "null", "false", "0", "0.0", "-0.0", "\"\"" };
    static const char *const yes[] = { "true", "1", "-0.5", "\" \"", "[]", "{}", "[0]" };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        assert_false(val_truth(parse(no[i])));
    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        assert_true(val_truth(parse(yes[i])));
}

static void numbers_convert_without_overflow(void **state)
{
    (void)state;
    assert_int_equal(val_int(parse("1e300")), INT64_MAX);
    assert_int_equal(val_int(parse("-1e300")), INT64_MIN);
    assert_int_equal(val_int(parse("-2.9")), -2);
    assert_true(val_double(parse("9007199254740993")) == 9007199254740992.0);
    for (int bits = 0; bits < 63; bits++) {
        int64_t i = (int64_t)1 << bits;
        assert_true(val_int(val_new_int(arena, i)) == i);
        assert_true(val_int(val_new_int(arena, -i)) == -i);
        assert_true(val_int(val_new_int(arena, i - 1)) == i - 1);
        assert_true(val_int(val_new_int(arena, -i - 1)) == -i - 1);
    }
}

static void small_values_take_few_bytes(void **state)
{
    static const struct {
        const char *text;
        size_t size;
    } rows[] = { { "null", 1 },  { "true", 1 }, { "15", 1 },        { "16", 2 }, { "-1", 2 },
                 { "1000", 3 },  { "\"\"", 1 }, { "\"hello\"", 6 }, { "[]", 1 }, { "{}", 1 },
                 { "[1,2]", 7 }, { "0.5", 9 },  { "{\"a\":1}", 11 } };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(val_size(parse(rows[i].text)), rows[i].size);
}

static void paths_lead_into_objects(void **state)
{
    struct val v = parse("{\"a\":{\"b\":{\"c\":5}}}");
    struct slice path[] = { slice_str("a"), slice_str("b"), slice_str("c"), slice_str("d") };

    (void)state;
    assert_int_equal(val_int(val_path(v, path, 3)), 5);
    assert_true(val_is_null(val_path(v, path, 4)));
    assert_true(val_equal(val_path(v, path, 0), v));
}

static const char *name_of(int i)
{
    return arena_printf(arena, "name%d", i);
}

static struct val object_of(int n)
{
    struct val_builder *b = val_builder_new(0);
    struct val v;

    val_open_object(b);
    for (int i = 0; i < n; i++) {
        val_put_name(b, slice_str(name_of(i)));
        val_put_int(b, i * 1000);
    }
    val_close(b);
    assert_int_equal(val_finish_in(b, arena, &v, NULL), OK);
    val_builder_free(b);
    return v;
}

static void members_are_found_in_objects_of_every_size(void **state)
{
    (void)state;
    for (int n = 1; n < 20000; n = n < 12 ? n + 1 : n * 3) {
        struct val v = object_of(n), out;
        assert_int_equal(val_count(v), n);
        for (int i = 0; i < n; i++) {
            struct slice name = slice_str(name_of(i));
            assert_true(val_find_hashed(v, name, val_name_hash(name), &out));
            assert_int_equal(val_int(out), i * 1000);
            assert_true(slice_eq(val_name_at(v, (size_t)i), name));
            assert_int_equal(val_int(val_at(v, (size_t)i)), i * 1000);
        }
        assert_false(val_find(v, slice_str("other"), &out));
        assert_false(val_find(v, slice_str(""), &out));
        assert_int_equal(val_validate(val_bytes(v), &out, NULL), OK);
    }
}

static void names_of_one_hash_are_told_apart_by_their_bytes(void **state)
{
    struct val v = object_of(6), out;
    struct slice name = slice_str("name2");

    (void)state;
    assert_false(val_find_hashed(v, slice_str("name9"), val_name_hash(name), &out));
    v = object_of(600);
    assert_false(val_find_hashed(v, slice_str("name999"), val_name_hash(name), &out));
    assert_true(val_find_hashed(v, name, val_name_hash(name), &out));
}

static void long_and_empty_names_are_found(void **state)
{
    (void)state;
    for (int extra = 0; extra < 12; extra += 11) {
        struct slice names[16] = { slice_of(NULL, 0) };
        struct val values[16] = { val_true }, out;
        size_t count = 1;
        for (size_t len = 126; len < 130; len++) {
            char *name = arena_alloc(arena, len);
            memset(name, 'n', len);
            names[count] = slice_of(name, len);
            values[count++] = val_new_int(arena, (int64_t)len);
        }
        for (int i = 0; i < extra; i++) {
            names[count] = slice_str(name_of(i));
            values[count++] = val_null;
        }
        struct val v = val_new_object(arena, names, values, count);
        assert_int_equal(val_validate(val_bytes(v), &out, NULL), OK);
        assert_true(val_bool(val_get(v, slice_of(NULL, 0))));
        for (size_t i = 1; i < 5; i++)
            assert_int_equal(val_int(val_get(v, names[i])), names[i].len);
        assert_false(val_find(v, slice_of(names[4].ptr, 100), &out));
    }
}

/* ---- making ---- */

static void a_name_given_twice_keeps_its_last_value(void **state)
{
    struct val_builder *b = val_builder_new(0);
    struct val v;

    (void)state;
    assert_string_equal(print(parse("{\"a\":1,\"b\":2,\"a\":3}")), "{\"a\":3,\"b\":2}");
    assert_string_equal(print(parse("{\"a\":1,\"a\":{\"x\":[1,2]},\"c\":4,\"a\":null}")),
                        "{\"a\":null,\"c\":4}");
    assert_string_equal(print(parse("[{\"a\":{\"b\":1,\"b\":2},\"a\":{\"c\":1,\"c\":[7]}},1]")),
                        "[{\"a\":{\"c\":[7]}},1]");
    val_open_object(b);
    for (int i = 0; i < 1000; i++) {
        val_put_name(b, slice_str(name_of(i % 100)));
        val_put_int(b, i);
    }
    val_close(b);
    assert_int_equal(val_finish(b, &v, NULL), OK);
    assert_int_equal(val_count(v), 100);
    for (int i = 0; i < 100; i++) {
        assert_true(slice_is(val_name_at(v, (size_t)i), name_of(i)));
        assert_int_equal(val_int(val_get(v, slice_str(name_of(i)))), 900 + i);
    }
    assert_int_equal(val_validate(val_bytes(v), &v, NULL), OK);
    val_builder_free(b);
}

static void a_builder_beyond_its_maximum_says_so(void **state)
{
    struct val_builder *b = val_builder_new(100);
    struct error err = { 0 };
    struct val v;

    (void)state;
    val_open_array(b);
    for (int i = 0; i < 100; i++) {
        val_open_object(b);
        val_put_name(b, slice_str("name"));
        val_put_string(b, slice_str("0123456789"));
        val_close(b);
    }
    val_close(b);
    assert_int_equal(val_finish(b, &v, &err), ERR_TOO_LARGE);
    assert_int_equal(error_num(&err), 1216);
    val_builder_reset(b);
    val_put_int(b, 5);
    assert_int_equal(val_finish(b, &v, &err), OK);
    assert_int_equal(val_int(v), 5);
    val_builder_free(b);
}

static void a_builder_nested_too_deep_says_so(void **state)
{
    struct val_builder *b = val_builder_new(0);
    struct error err = { 0 };
    struct val v;

    (void)state;
    for (int i = 0; i < LIMIT_NESTING + 50; i++) {
        val_open_object(b);
        val_put_name(b, slice_str("a"));
    }
    val_put_int(b, 1);
    val_put_floats(b, (float[]){ 1 }, 1);
    for (int i = 0; i < LIMIT_NESTING + 50; i++)
        val_close(b);
    assert_int_equal(val_finish(b, &v, &err), ERR_INVALID);
    assert_string_equal(err.text, "nesting deeper than 200 levels");
    val_builder_free(b);
}

static struct val wrapped(struct val v, int levels)
{
    for (int i = 0; i < levels; i++)
        v = val_new_array(arena, &v, 1);
    return v;
}

static void a_copied_value_counts_as_deep_as_it_is(void **state)
{
    struct val_builder *b = val_builder_new(0);
    struct val deep = wrapped(val_true, LIMIT_NESTING - 1), v;

    (void)state;
    val_open_array(b);
    val_put(b, deep);
    val_close(b);
    assert_int_equal(val_finish(b, &v, NULL), OK);
    assert_int_equal(val_validate(val_bytes(v), &v, NULL), OK);
    val_builder_reset(b);
    val_open_array(b);
    val_put(b, wrapped(deep, 1));
    val_close(b);
    assert_int_equal(val_finish(b, &v, NULL), ERR_INVALID);
    val_builder_free(b);
}

static void depth_is_measured(void **state)
{
    (void)state;
    assert_true(val_is_within(parse("5"), 0));
    assert_false(val_is_within(parse("[]"), 0));
    assert_true(val_is_within(parse("[]"), 1));
    assert_true(val_is_within(parse("{\"a\":[1,{\"b\":[0.5,0.5,0.5,0.5]}]}"), 4));
    assert_false(val_is_within(parse("{\"a\":[1,{\"b\":[0.5,0.5,0.5,0.5]}]}"), 3));
    assert_true(val_is_within(wrapped(val_null, 200), 200));
    assert_false(val_is_within(wrapped(val_null, 201), 200));
    assert_false(val_is_within(wrapped(val_null, 3000), 200));
}

static void values_deeper_than_any_stack_are_handled(void **state)
{
    struct val a = wrapped(val_true, 5000), b = wrapped(val_false, 5000);

    (void)state;
    assert_int_equal(val_compare(a, a, NULL), 0);
    assert_int_equal(val_compare(a, b, NULL), -val_compare(b, a, NULL));
    assert_int_not_equal(val_compare(a, b, NULL), 0);
    (void)val_hash(a);
    assert_int_equal(strlen(print(a)), 10004);
    assert_int_not_equal(val_validate(val_bytes(a), &a, NULL), OK);
}

static void whole_values_are_made_in_an_arena(void **state)
{
    struct slice names[100];
    struct val values[100], out;

    (void)state;
    for (int i = 0; i < 100; i++) {
        names[i] = slice_str(name_of(i));
        values[i] = val_new_int(arena, i);
    }
    for (size_t n = 0; n <= 100; n += 1 + n / 8) {
        struct val object = val_new_object(arena, names, values, n);
        struct val array = val_new_array(arena, values, n);
        assert_int_equal(val_validate(val_bytes(object), &out, NULL), OK);
        assert_int_equal(val_validate(val_bytes(array), &out, NULL), OK);
        assert_int_equal(val_count(object), n);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(val_int(val_get(object, names[i])), i);
        assert_true(val_equal(val_copy(arena, object), object));
    }
    assert_string_equal(print(val_new_bool(true)), "true");
    assert_string_equal(print(val_new_double(arena, NAN)), "null");
    char *big = arena_alloc(arena, 70000);
    memset(big, 'x', 70000);
    struct val text = val_new_string(arena, slice_of(big, 70000));
    struct val both[] = { text, val_true };
    struct val v = val_new_array(arena, both, 2);
    assert_int_equal(val_validate(val_bytes(v), &out, NULL), OK);
    assert_int_equal(val_string(val_at(v, 0)).len, 70000);
}

static void merging_replaces_and_adds_members(void **state)
{
    (void)state;
    assert_string_equal(
        print(val_merge(arena, parse("{\"a\":1,\"b\":{\"x\":1}}"), parse("{\"b\":2,\"c\":3}"))),
        "{\"a\":1,\"b\":2,\"c\":3}");
    assert_string_equal(print(val_merge(arena, parse("[1]"), parse("{\"b\":2}"))), "{\"b\":2}");
    assert_string_equal(print(val_merge(arena, parse("{\"b\":2}"), val_null)), "{\"b\":2}");
}

static void vectors_are_packed_and_read_as_floats(void **state)
{
    struct val v = parse("[0.5,1.5,-2.25,4.125]");
    float f[4], other[4] = { NAN, -0.0f, INFINITY, FLT_MAX };
    struct val_builder *b = val_builder_new(0);

    (void)state;
    assert_int_equal(val_size(v), 6 + 4 * 5);
    assert_int_equal(val_floats(v, f, 4), 4);
    assert_true(f[2] == -2.25f);
    assert_int_equal(val_floats(v, f, 3), -1);
    assert_true(val_double(val_at(v, 3)) == 4.125);
    assert_int_equal(val_size(parse("[0.1,0.2,0.3,0.4]")), 6 + 4 * 9);
    assert_int_equal(val_floats(parse("[1,2.5]"), f, 4), 2);
    assert_true(f[0] == 1 && f[1] == 2.5f);
    assert_int_equal(val_floats(parse("[1,\"a\"]"), f, 4), -1);
    assert_int_equal(val_floats(parse("{\"a\":1}"), f, 4), -1);
    val_put_floats(b, other, 4);
    assert_int_equal(val_finish_in(b, arena, &v, NULL), OK);
    assert_int_equal(val_validate(val_bytes(v), &v, NULL), OK);
    assert_string_equal(print(val_at(v, 0)), "0");
    assert_true(val_double(val_at(v, 3)) == (double)FLT_MAX);
    assert_true(val_equal(parse("[0.5,1,1.5,2.5]"), parse("[0.5,1.0,1.5,2.5]")));
    val_put_floats(b, NULL, 0);
    assert_int_equal(val_finish_in(b, arena, &v, NULL), OK);
    assert_string_equal(print(v), "[]");
    val_builder_free(b);
}

/* ---- comparing ---- */

static void comparison_follows_aql(void **state)
{
    static const char *const ordered[] = {
        "null",
        "false",
        "true",
        "-1e300",
        "-9223372036854775808",
        "-1",
        "-0.5",
        "0",
        "0.5",
        "1",
        "9007199254740992",
        "9007199254740993",
        "9223372036854775807",
        "1e19",
        "\"\"",
        "\"a\"",
        "\"b\"",
        "[]",
        "[0]",
        "[0,1]",
        "[1]",
        "{}",
        "{\"b\":1}",
        "{\"a\":1}",
        "{\"a\":1,\"b\":1}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ordered); i++)
        for (size_t k = 0; k < ARRAY_LEN(ordered); k++)
            assert_int_equal(sign_of(val_compare(parse(ordered[i]), parse(ordered[k]), NULL)),
                             (i > k) - (i < k));
}

static void equal_values_hash_equal(void **state)
{
    static const char *const pairs[][2] = {
        { "5", "5.0" },
        { "[1]", "[1,null]" },
        { "{}", "{\"a\":null}" },
        { "0", "-0.0" },
        { "{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}" },
        { "[[]]", "[[null,null],null]" },
        { "-9223372036854775808", "-9223372036854775808.0" },
        { "[0.5,0.5,0.5,0.5]", "[0.5,0.5,0.5,0.5,null]" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        struct val a = parse(pairs[i][0]), b = parse(pairs[i][1]);
        assert_true(val_equal(a, b));
        assert_true(val_hash(a) == val_hash(b));
    }
    rnd_start();
    for (int i = 0; i < ROUNDS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct val a = random_val(arena), b = random_val(arena);
        if (val_equal(a, b) != (val_hash(a) == val_hash(b)))
            fail_msg("%s and %s", print(a), print(b));
        arena_rewind(arena, mark);
    }
}

static void order_is_transitive(void **state)
{
    (void)state;
    rnd_start();
    for (int i = 0; i < ROUNDS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct val a = random_val(arena), b = random_val(arena), c = random_val(arena);
        if (val_compare(a, b, NULL) <= 0 && val_compare(b, c, NULL) <= 0)
            assert_true(val_compare(a, c, NULL) <= 0);
        arena_rewind(arena, mark);
    }
}

/* ---- validating ---- */

static void the_validator_takes_good_and_survives_bad_bytes(void **state)
{
    struct val out;

    (void)state;
    rnd_start();
    for (int i = 0; i < ROUNDS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct slice good = val_bytes(random_val(arena));
        assert_int_equal(val_validate(good, &out, NULL), OK);
        uint8_t *bad = mem_alloc(good.len);
        memcpy(bad, good.ptr, good.len);
        bad[rnd((uint32_t)good.len)] = (uint8_t)rnd(256);
        if (val_validate(slice_of(bad, good.len), &out, NULL) == OK) {
            print(out); /* whatever it is now, reading it is safe */
            (void)val_hash(out);
        }
        mem_free(bad);
        bad = mem_alloc(good.len - 1);
        memcpy(bad, good.ptr, good.len - 1);
        assert_int_not_equal(val_validate(slice_of(bad, good.len - 1), &out, NULL), OK);
        mem_free(bad);
        arena_rewind(arena, mark);
    }
}

static void refuse(const char *bytes, size_t len)
{
    struct val out;
    struct error err = { 0 };

    assert_int_equal(val_validate(slice_of(bytes, len), &out, &err), ERR_CORRUPT);
}

static void damage_of_every_kind_is_refused(void **state)
{
    (void)state;
    refuse("", 0);
    refuse("\x00", 1);
    refuse("\x01\x01", 2);                                      /* trailing byte */
    refuse("\x04\x00\x00\x00\x00\x00\x00\xF0\x7F", 9);          /* infinity */
    refuse("\x41\xFF", 2);                                      /* not UTF-8 */
    refuse("\x20\x01\x00\x00\x00x", 6);                         /* short string in the long form */
    refuse("\xC1\x05\x01\x04", 4);                              /* array cut */
    refuse("\xC1\x05\x01\x03\x01", 5);                          /* offset into the header */
    refuse("\xC1\x03\x00", 3);                                  /* empty in the long form */
    refuse("\xC4\x07\x01\x00\x00\x00\x05\x00\x00\x00\x00", 11); /* stride */
    refuse("\xC4\x05\xFF\xFF\xFF\xFF\x05\x00\x00\x00\x00", 11); /* count */
    refuse("\xD1\x0B\x01\x08\x00\x00\x00\x00\x41"
           "a\x11",
           11); /* hash of the name */
    refuse("\xC5", 1);
    refuse("\xD4", 1);
    refuse("\xFF", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_reads_as_null),
        cmocka_unit_test(wrong_types_read_as_nothing),
        cmocka_unit_test(truth_is_that_of_aql),
        cmocka_unit_test(numbers_convert_without_overflow),
        cmocka_unit_test(small_values_take_few_bytes),
        cmocka_unit_test(paths_lead_into_objects),
        cmocka_unit_test(members_are_found_in_objects_of_every_size),
        cmocka_unit_test(names_of_one_hash_are_told_apart_by_their_bytes),
        cmocka_unit_test(long_and_empty_names_are_found),
        cmocka_unit_test(a_name_given_twice_keeps_its_last_value),
        cmocka_unit_test(a_builder_beyond_its_maximum_says_so),
        cmocka_unit_test(a_builder_nested_too_deep_says_so),
        cmocka_unit_test(a_copied_value_counts_as_deep_as_it_is),
        cmocka_unit_test(depth_is_measured),
        cmocka_unit_test(values_deeper_than_any_stack_are_handled),
        cmocka_unit_test(whole_values_are_made_in_an_arena),
        cmocka_unit_test(merging_replaces_and_adds_members),
        cmocka_unit_test(vectors_are_packed_and_read_as_floats),
        cmocka_unit_test(comparison_follows_aql),
        cmocka_unit_test(equal_values_hash_equal),
        cmocka_unit_test(order_is_transitive),
        cmocka_unit_test(the_validator_takes_good_and_survives_bad_bytes),
        cmocka_unit_test(damage_of_every_kind_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
