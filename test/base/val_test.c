/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "base/collate.h"
#include "base/env.h"
#include "base/key.h"
#include "base/val.h"
#include "base/val_text.h"
#include <stdio.h>
#include <stdlib.h>

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
    struct error err = { 0 };
    struct val v;

    if (val_parse(slice_str(text), arena, &v, &err) != OK)
        fail_msg("%s: %s", text, err.text);
    return v;
}

static const char *print(struct val v)
{
    struct buf out;

    buf_init(&out, 0);
    val_print(v, &out);
    const char *text = arena_copy(arena, buf_slice(&out)).ptr;
    buf_release(&out);
    return text;
}

static void json_comes_back_as_it_went_in(void **state)
{
    static const char *const same[] = {
        "null", "true", "false", "0", "15", "16", "-1", "127", "128", "-129", "9223372036854775807",
        "-9223372036854775808", "0.1", "-2.5", "1e300", "5e-324", "\"\"", "\"a\\\"\\\\\\n\\u0001\"",
        "\"\xC3\xA4\xF0\x9F\x98\x80\"", "[]", "{}", "[1,2,3]", "[1.5,2.5,3.5,4.5]",
        "[0.1,0.2,0.3,0.4,0.5]", "{\"b\":1,\"a\":[{\"c\":null}],\"\":2}",
        "[[[[[1]]]],{\"x\":{\"y\":{\"z\":[]}}}]",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        assert_string_equal(print(parse(same[i])), same[i]);
    assert_string_equal(print(parse(" [ 1 , 2.0 , 1E2 ] ")), "[1,2,100]");
    assert_string_equal(print(parse("18446744073709551616")), "18446744073709552000");
}

static void a_name_given_twice_keeps_its_last_value(void **state)
{
    (void)state;
    assert_string_equal(print(parse("{\"a\":1,\"b\":2,\"a\":3}")), "{\"a\":3,\"b\":2}");
    assert_string_equal(print(parse("{\"a\":1,\"a\":{\"x\":[1,2]},\"c\":4,\"a\":null}")),
                        "{\"a\":null,\"c\":4}");
}

static void refused(const char *text, const char *says)
{
    struct error err = { 0 };
    struct val v;

    assert_int_equal(val_parse(slice_str(text), arena, &v, &err), ERR_INVALID);
    assert_int_equal(error_num(&err), 600);
    if (!strstr(err.text, says))
        fail_msg("'%s' does not say '%s'", err.text, says);
}

static void bad_json_is_refused_with_its_place(void **state)
{
    (void)state;
    refused("", "empty");
    refused("{\"a\":1,\n\"b\":}", "line 2, column 5");
    refused("[1,2", "invalid JSON");
    refused("nul", "invalid JSON");
    refused("[NaN]", "invalid JSON");
    refused("\"\xC3\"", "invalid JSON");
    refused("\"\xED\xA0\x80\"", "invalid JSON");
    refused("{\"a\":1} x", "invalid JSON");
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
    assert_int_equal(val_type(parse(nested(LIMIT_NESTING))), VAL_ARRAY);
    refused(nested(LIMIT_NESTING + 1), "nesting deeper than 200");
    refused(nested(10000), "nesting deeper than 200");
    refused(nested(1000000), "nesting deeper than 200");
}

static void members_are_found_in_small_and_large_objects(void **state)
{
    (void)state;
    for (int n = 1; n < 400; n = n * 2 + 1) {
        struct val_builder *b = val_builder_new(0);
        struct val v;
        val_open_object(b);
        for (int i = 0; i < n; i++) {
            char name[16];
            snprintf(name, sizeof name, "name%d", i);
            val_put_name(b, slice_str(name));
            val_put_int(b, i * 1000);
        }
        val_close(b);
        assert_int_equal(val_finish(b, &v, NULL), OK);
        assert_int_equal(val_count(v), n);
        for (int i = 0; i < n; i++) {
            char name[16];
            snprintf(name, sizeof name, "name%d", i);
            assert_int_equal(val_int(val_get(v, slice_str(name))), i * 1000);
            assert_true(slice_is(val_name_at(v, (size_t)i), name));
        }
        assert_true(val_is_null(val_get(v, slice_str("other"))));
        val_builder_free(b);
    }
}

/* ---- random values: laws ---- */

static uint64_t seed;

static uint32_t rnd(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

static double random_double(void)
{
    static const double odd[] = { 0.5, -0.5, 0x1p53, 0x1p53 + 2, 0x1p63, -0x1p63, 0x1p64, 1e300,
                                  -1e300, 5e-324, 9007199254740991.5, 1.0 / 3, -0.0, 3, -7 };
    return rnd(2) ? odd[rnd(ARRAY_LEN(odd))] : ((double)rnd(2000) - 1000) / 8;
}

static int64_t random_int(void)
{
    static const int64_t odd[] = { 0, 1, -1, 127, 128, 255, 256, -128, -129, INT64_MAX, INT64_MIN,
                                   INT64_MAX - 1, INT64_MIN + 1, (int64_t)1 << 53,
                                   ((int64_t)1 << 53) + 1, ((int64_t)1 << 62) };
    return rnd(2) ? odd[rnd(ARRAY_LEN(odd))] : (int64_t)rnd(1000) - 500;
}

static void random_value(struct val_builder *b, int depth)
{
    static const char *const texts[] = { "", "a", "b", "A", "B", "ab", "\xC3\xA4", "z", "\x01",
                                         "a\x01", "\xE6\x97\xA5", "Zebra", "\xC3\x89tude", "_", "-a" };
    static const char *const names[] = { "a", "b", "c", "", "\xC3\xA4" };
    uint32_t kind = rnd(depth > 3 ? 5 : 7), count;

    switch (kind) {
    case 0:
        val_put_null(b);
        break;
    case 1:
        val_put_bool(b, rnd(2));
        break;
    case 2:
        val_put_int(b, random_int());
        break;
    case 3:
        val_put_double(b, random_double());
        break;
    case 4:
        if (rnd(6))
            val_put_string(b, slice_str(texts[rnd(ARRAY_LEN(texts))]));
        else
            val_put_string(b, slice_of("x\0y", 3));
        break;
    case 5:
        count = rnd(6);
        val_open_array(b);
        for (uint32_t i = 0; i < count; i++)
            random_value(b, depth + 1);
        val_close(b);
        break;
    default:
        count = rnd(5);
        val_open_object(b);
        for (uint32_t i = 0; i < count; i++) {
            val_put_name(b, slice_str(names[rnd(ARRAY_LEN(names))]));
            random_value(b, depth + 1);
        }
        val_close(b);
    }
}

static struct val random_val(void)
{
    struct val_builder *b = val_builder_new(0);
    struct val v;

    random_value(b, 0);
    assert_int_equal(val_finish_in(b, arena, &v, NULL), OK);
    val_builder_free(b);
    return v;
}

static int sign(int c)
{
    return (c > 0) - (c < 0);
}

static int key_order(struct val a, struct val b, const struct collator *c, bool is_descending)
{
    struct buf x, y;

    buf_init(&x, 0);
    buf_init(&y, 0);
    key_add_val(&x, a, c, is_descending);
    key_add_val(&y, b, c, is_descending);
    int order = sign(slice_cmp(buf_slice(&x), buf_slice(&y)));
    size_t shorter = x.len < y.len ? x.len : y.len;
    if (x.len != y.len && memcmp(x.ptr, y.ptr, shorter) == 0)
        fail_msg("a key is a prefix of another: %s %s", print(a), print(b));
    buf_release(&x);
    buf_release(&y);
    return order;
}

static void keys_sort_as_values_do(void **state)
{
    struct collator *c;

    (void)state;
    assert_int_equal(collator_open(&c, "und", NULL), OK);
    seed = env_random_u64(env_system());
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < 30000; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct val a = random_val(), b = random_val();
        for (int with = 0; with < 2; with++) {
            const struct collator *use = with ? c : NULL;
            int order = sign(val_compare(a, b, use));
            if (key_order(a, b, use, false) != order || key_order(a, b, use, true) != -order)
                fail_msg("order of %s and %s (collator %d)", print(a), print(b), with);
        }
        if (val_equal(a, b))
            assert_true(val_hash(a) == val_hash(b));
        arena_rewind(arena, mark);
    }
    collator_close(c);
}

static void keys_can_be_read_back(void **state)
{
    struct collator *c;
    struct val out;
    struct error err = { 0 };

    (void)state;
    assert_int_equal(collator_open(&c, "und", NULL), OK);
    for (int i = 0; i < 10000; i++) {
        struct val v = random_val();
        struct buf key;
        buf_init(&key, 0);
        bool is_descending = rnd(2);
        key_add_val(&key, v, rnd(2) ? c : NULL, is_descending);
        buf_add_str(&key, "rest");
        struct slice at = buf_slice(&key);
        assert_int_equal(key_read_val(&at, is_descending, arena, &out, &err), OK);
        assert_true(slice_is(at, "rest"));
        if (!val_equal(v, out))
            fail_msg("%s came back as %s", print(v), print(out));
        for (size_t cut = 0; cut + 4 < key.len && cut < 40; cut++) { /* never reads outside */
            at = slice_of(key.ptr, cut);
            struct slice copy = slice_of(mem_strndup(at), cut);
            char *owned = (char *)(uintptr_t)copy.ptr;
            assert_int_not_equal(key_read_val(&copy, is_descending, NULL, NULL, NULL), OK);
            mem_free(owned);
        }
        buf_release(&key);
    }
    collator_close(c);
}

static void the_validator_takes_good_and_survives_bad_bytes(void **state)
{
    struct val out;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct slice good = val_bytes(random_val());
        assert_int_equal(val_validate(good, &out, NULL), OK);
        uint8_t *bad = mem_alloc(good.len);
        memcpy(bad, good.ptr, good.len);
        bad[rnd((uint32_t)good.len)] ^= (uint8_t)(1u << rnd(8));
        if (val_validate(slice_of(bad, good.len), &out, NULL) == OK)
            print(out); /* whatever it is now, reading it is safe */
        memcpy(bad, good.ptr, good.len);
        assert_int_not_equal(val_validate(slice_of(bad, good.len - 1), &out, NULL), OK);
        mem_free(bad);
    }
}

static void comparison_follows_aql(void **state)
{
    static const char *const ordered[] = {
        "null", "false", "true", "-1e300", "-9223372036854775808", "-1", "-0.5", "0", "0.5", "1",
        "9007199254740992", "9007199254740993", "9223372036854775807", "1e19", "\"\"", "\"a\"",
        "\"b\"", "[]", "[0]", "[0,1]", "[1]", "{}", "{\"b\":1}", "{\"a\":1}", "{\"a\":1,\"b\":1}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ordered); i++)
        for (size_t k = 0; k < ARRAY_LEN(ordered); k++)
            assert_int_equal(sign(val_compare(parse(ordered[i]), parse(ordered[k]), NULL)),
                             (i > k) - (i < k));
    assert_true(val_equal(parse("5"), parse("5.0")));
    assert_true(val_equal(parse("[1]"), parse("[1,null]")));
    assert_true(val_equal(parse("{}"), parse("{\"a\":null}")));
    assert_true(val_equal(parse("{\"a\":1,\"b\":2}"), parse("{\"b\":2,\"a\":1}")));
}

static void vectors_are_packed_and_read_as_floats(void **state)
{
    struct val v = parse("[0.5,1.5,-2.25,4.125]");
    float f[4];

    (void)state;
    assert_int_equal(val_size(v), 6 + 4 * 5);
    assert_int_equal(val_floats(v, f, 4), 4);
    assert_true(f[2] == -2.25f);
    assert_int_equal(val_floats(v, f, 3), -1);
    float other[4];
    assert_int_equal(val_floats(parse("[1,\"a\"]"), other, 4), -1);
    assert_true(val_double(val_at(v, 3)) == 4.125);
    struct val_builder *b = val_builder_new(0);
    val_put_floats(b, f, 4);
    assert_int_equal(val_finish_in(b, arena, &v, NULL), OK);
    assert_string_equal(print(v), "[0.5,1.5,-2.25,4.125]");
    val_builder_free(b);
}

static void a_builder_beyond_its_maximum_says_so(void **state)
{
    struct val_builder *b = val_builder_new(100);
    struct error err = { 0 };
    struct val v;

    (void)state;
    val_open_array(b);
    for (int i = 0; i < 100; i++)
        val_put_string(b, slice_str("0123456789"));
    val_close(b);
    assert_int_equal(val_finish(b, &v, &err), ERR_TOO_LARGE);
    assert_int_equal(error_num(&err), 1216);
    val_builder_free(b);
}

static void merging_replaces_and_adds_members(void **state)
{
    (void)state;
    assert_string_equal(print(val_merge(arena, parse("{\"a\":1,\"b\":{\"x\":1}}"),
                                        parse("{\"b\":2,\"c\":3}"))),
                        "{\"a\":1,\"b\":2,\"c\":3}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_comes_back_as_it_went_in),
        cmocka_unit_test(a_name_given_twice_keeps_its_last_value),
        cmocka_unit_test(bad_json_is_refused_with_its_place),
        cmocka_unit_test(two_hundred_levels_are_the_limit),
        cmocka_unit_test(members_are_found_in_small_and_large_objects),
        cmocka_unit_test(keys_sort_as_values_do),
        cmocka_unit_test(keys_can_be_read_back),
        cmocka_unit_test(the_validator_takes_good_and_survives_bad_bytes),
        cmocka_unit_test(comparison_follows_aql),
        cmocka_unit_test(vectors_are_packed_and_read_as_floats),
        cmocka_unit_test(a_builder_beyond_its_maximum_says_so),
        cmocka_unit_test(merging_replaces_and_adds_members),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
