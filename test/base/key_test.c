/* SPDX-License-Identifier: Apache-2.0 */
#include "base/collate.h"
#include "base/key.h"
#include "random_val.h"

enum { PAIRS = 20000 };

static struct arena *arena;
static struct collator *collator;

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    return collator_open(&collator, "und", NULL) == OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    collator_close(collator);
    arena_free(arena);
    return 0;
}

static struct slice key_of(struct val v, const struct collator *c, bool is_descending)
{
    struct buf key;

    buf_init(&key, 0);
    key_add_val(&key, v, c, is_descending);
    assert_false(key.is_overfull);
    struct slice copy = arena_copy(arena, buf_slice(&key));
    buf_release(&key);
    return copy;
}

static int key_order(struct val a, struct val b, const struct collator *c, bool is_descending)
{
    struct slice x = key_of(a, c, is_descending), y = key_of(b, c, is_descending);
    size_t shorter = x.len < y.len ? x.len : y.len;

    if (x.len != y.len && memcmp(x.ptr, y.ptr, shorter) == 0)
        fail_msg("a key is a prefix of another: %s %s", printed(arena, a), printed(arena, b));
    return sign_of(slice_cmp(x, y));
}

static void check_pair(struct val a, struct val b, const struct collator *c)
{
    int order = sign_of(val_compare(a, b, c));

    assert_int_equal(sign_of(val_compare(b, a, c)), -order);
    if (key_order(a, b, c, false) != order || key_order(a, b, c, true) != -order)
        fail_msg("order of %s and %s (collator %d)", printed(arena, a), printed(arena, b),
                 c != NULL);
}

static void keys_sort_as_values_do(void **state)
{
    (void)state;
    rnd_start();
    for (int i = 0; i < PAIRS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct val a = random_val(arena), b = random_val(arena);
        check_pair(a, b, NULL);
        check_pair(a, b, collator);
        if (val_equal(a, b))
            assert_true(slice_eq(key_of(a, NULL, false), key_of(b, NULL, false)));
        arena_rewind(arena, mark);
    }
}

static struct val random_string(void)
{
    char text[64];

    return val_new_string(arena, slice_of(text, random_text(text)));
}

static void keys_of_strings_sort_as_the_collator_does(void **state)
{
    (void)state;
    rnd_start();
    for (int i = 0; i < PAIRS; i++) {
        struct arena_mark mark = arena_mark(arena);
        check_pair(random_string(), random_string(), collator);
        arena_rewind(arena, mark);
    }
}

/* An x87 long double holds every int64 and every double. */
static long double random_number(struct val *out)
{
    int64_t i = random_int();
    double d = random_double();

    if (rnd(2)) {
        *out = val_new_int(arena, i);
        return (long double)i;
    }
    if (!rnd(3))
        d = (double)i;
    *out = val_new_double(arena, d);
    return (long double)d;
}

static void numbers_have_one_order_without_rounding(void **state)
{
    (void)state;
    rnd_start();
    for (int i = 0; i < PAIRS * 5; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct val a, b;
        long double x = random_number(&a), y = random_number(&b);
        int want = (x > y) - (x < y);
        if (val_compare(a, b, NULL) != want || key_order(a, b, NULL, false) != want)
            fail_msg("%.20Lg and %.20Lg", x, y);
        if (!want)
            assert_true(val_hash(a) == val_hash(b));
        arena_rewind(arena, mark);
    }
}

static void fields_follow_each_other_without_separators(void **state)
{
    (void)state;
    rnd_start();
    for (int i = 0; i < PAIRS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct val a[2] = { random_val(arena), random_val(arena) }, b[2];
        bool is_descending = rnd(2);
        struct buf x, y;
        b[0] = rnd(2) ? a[0] : random_val(arena);
        b[1] = random_val(arena);
        buf_init(&x, 0);
        buf_init(&y, 0);
        key_add_val(&x, a[0], collator, false);
        key_add_val(&y, b[0], collator, false);
        key_add_val(&x, a[1], collator, is_descending);
        key_add_val(&y, b[1], collator, is_descending);
        int want = sign_of(val_compare(a[0], b[0], collator));
        if (!want)
            want = sign_of(val_compare(a[1], b[1], collator)) * (is_descending ? -1 : 1);
        assert_int_equal(sign_of(slice_cmp(buf_slice(&x), buf_slice(&y))), want);
        buf_release(&x);
        buf_release(&y);
        arena_rewind(arena, mark);
    }
}

/* Every prefix is damaged; a copy of exact size lets the sanitizer see a read outside. */
static void cut_keys_are_refused(struct slice key, bool is_descending)
{
    for (size_t cut = 0; cut < key.len && cut < 40; cut++) {
        char *copy = mem_alloc(cut);
        memcpy(copy, key.ptr, cut);
        struct slice at = slice_of(copy, cut);
        assert_int_equal(key_read_val(&at, is_descending, NULL, NULL, NULL), ERR_CORRUPT);
        mem_free(copy);
    }
}

static void keys_can_be_read_back(void **state)
{
    struct error err = { 0 };
    struct val out;

    (void)state;
    rnd_start();
    for (int i = 0; i < PAIRS / 4; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct val v = random_val(arena);
        bool is_descending = rnd(2);
        struct slice key = key_of(v, rnd(2) ? collator : NULL, is_descending);
        const char *joined = arena_printf(arena, "%*s", (int)key.len + 4, "rest");
        memcpy((char *)(uintptr_t)joined, key.ptr, key.len);
        struct slice at = slice_of(joined, key.len + 4), again = at;
        assert_int_equal(key_read_val(&at, is_descending, arena, &out, &err), OK);
        assert_true(slice_is(at, "rest"));
        if (!val_equal(v, out))
            fail_msg("%s came back as %s", printed(arena, v), printed(arena, out));
        assert_int_equal(val_validate(val_bytes(out), &out, NULL), OK);
        assert_int_equal(key_read_val(&again, is_descending, NULL, NULL, NULL), OK);
        assert_true(slice_is(again, "rest"));
        cut_keys_are_refused(key, is_descending);
        arena_rewind(arena, mark);
    }
}

/* Either exactly the value, digits and all, or the word that it is not. */
static void scalars_come_back_exactly_or_not_at_all(void **state)
{
    struct error err = { 0 };
    struct val out;
    bool is_exact;
    size_t exact = 0;

    (void)state;
    rnd_start();
    for (int i = 0; i < PAIRS / 4; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct val v = random_val(arena);
        struct slice key = key_of(v, rnd(2) ? collator : NULL, false);
        const char *joined = arena_printf(arena, "%*s", (int)key.len + 4, "rest");
        memcpy((char *)(uintptr_t)joined, key.ptr, key.len);
        struct slice at = slice_of(joined, key.len + 4);
        assert_int_equal(key_read_scalar(&at, arena, &out, &is_exact, &err), OK);
        assert_true(slice_is(at, "rest"));
        bool is_scalar = val_type(v) < VAL_ARRAY;
        if (val_type(v) == VAL_NULL || val_type(v) == VAL_BOOL || val_type(v) == VAL_STRING)
            assert_true(is_exact);
        if (is_exact)
            assert_string_equal(printed(arena, v), printed(arena, out));
        assert_true(is_scalar || !is_exact);
        exact += is_exact;
        for (size_t cut = 0; cut < key.len && cut < 40; cut++) {
            char *copy = mem_alloc(cut);
            memcpy(copy, key.ptr, cut);
            at = slice_of(copy, cut);
            assert_int_equal(key_read_scalar(&at, arena, &out, &is_exact, NULL), ERR_CORRUPT);
            mem_free(copy);
        }
        arena_rewind(arena, mark);
    }
    assert_true(exact > PAIRS / 20);
}

static void damaged_keys_do_no_harm(void **state)
{
    (void)state;
    rnd_start();
    for (int i = 0; i < PAIRS; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct slice key = key_of(random_val(arena), rnd(2) ? collator : NULL, false);
        char *bad = mem_alloc(key.len);
        memcpy(bad, key.ptr, key.len);
        bad[rnd((uint32_t)key.len)] = (char)rnd(256);
        struct slice at = slice_of(bad, key.len);
        struct val out;
        if (key_read_val(&at, false, arena, &out, NULL) == OK)
            assert_int_equal(val_validate(val_bytes(out), &out, NULL), OK);
        mem_free(bad);
        arena_rewind(arena, mark);
    }
}

static void expect_bytes(struct val v, const char *hex)
{
    struct slice key = key_of(v, NULL, false);
    char text[128] = "";

    for (size_t i = 0; i < key.len; i++)
        snprintf(text + 2 * i, 3, "%02x", (uint8_t)key.ptr[i]);
    assert_string_equal(text, hex);
}

static void the_bytes_are_those_of_the_format(void **state)
{
    (void)state;
    expect_bytes(val_null, "10");
    expect_bytes(val_false, "20");
    expect_bytes(val_true, "21");
    expect_bytes(parsed(arena, "0"), "40");
    expect_bytes(parsed(arena, "-0.0"), "40");
    expect_bytes(parsed(arena, "1"), "4102");
    expect_bytes(parsed(arena, "1.0"), "4102");
    expect_bytes(parsed(arena, "-1"), "3ffd");
    expect_bytes(parsed(arena, "30000"), "42ea60");
    expect_bytes(parsed(arena, "0.5"), "41013fe0000000000000");
    expect_bytes(parsed(arena, "-9223372036854775808"), "36bc1fffffffffffff");
    expect_bytes(parsed(arena, "\"a\\u0000\\u0001\""), "50610101010200");
    expect_bytes(parsed(arena, "[1,null]"), "60410200");
    expect_bytes(parsed(arena, "{\"b\":true,\"a\":null}"), "709dff2100");
}

static char *nested(size_t levels)
{
    char *text = arena_alloc(arena, levels * 2 + 2);

    memset(text, '[', levels);
    text[levels] = '7';
    memset(text + levels + 1, ']', levels);
    text[levels * 2 + 1] = 0;
    return text;
}

static void the_deepest_stored_value_has_a_key_and_no_deeper_one(void **state)
{
    struct val deep = parsed(arena, nested(LIMIT_NESTING)), out;
    struct slice key = key_of(deep, NULL, false);
    struct buf buf;

    (void)state;
    assert_int_equal(key_read_val(&key, false, arena, &out, NULL), OK);
    assert_true(val_equal(deep, out));
    for (int i = 0; i < 3000; i++)
        deep = val_new_array(arena, &deep, 1);
    buf_init(&buf, 0);
    key_add_val(&buf, deep, NULL, true);
    assert_true(buf.is_overfull);
    buf_release(&buf);
}

static void fixed_integers_are_big_endian(void **state)
{
    struct buf a;

    (void)state;
    buf_init(&a, 0);
    key_add_u8(&a, 7);
    key_add_u16(&a, 0x1234);
    key_add_u64(&a, 0x0102030405060708u);
    assert_memory_equal(a.ptr, "\x07\x12\x34\x01\x02\x03\x04\x05\x06\x07\x08", 11);
    assert_int_equal(key_read_u16(a.ptr + 1), 0x1234);
    assert_true(key_read_u64(a.ptr + 3) == 0x0102030405060708u);
    buf_release(&a);
}

static void a_prefix_ends_before_the_next_key(void **state)
{
    struct buf key;

    (void)state;
    buf_init(&key, 0);
    buf_add(&key, "a\xff\xff", 3);
    assert_true(key_prefix_end(&key));
    assert_true(slice_is(buf_slice(&key), "b"));
    buf_clear(&key);
    buf_add(&key, "\xff\xff", 2);
    assert_false(key_prefix_end(&key));
    buf_release(&key);
}

static void all_keys_lie_between_the_first_and_the_last(void **state)
{
    (void)state;
    rnd_start();
    for (int i = 0; i < 1000; i++) {
        uint8_t first = (uint8_t)*key_of(random_val(arena), collator, false).ptr;
        assert_in_range(first, KEY_FIRST, KEY_LAST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_sort_as_values_do),
        cmocka_unit_test(keys_of_strings_sort_as_the_collator_does),
        cmocka_unit_test(numbers_have_one_order_without_rounding),
        cmocka_unit_test(fields_follow_each_other_without_separators),
        cmocka_unit_test(keys_can_be_read_back),
        cmocka_unit_test(scalars_come_back_exactly_or_not_at_all),
        cmocka_unit_test(damaged_keys_do_no_harm),
        cmocka_unit_test(the_bytes_are_those_of_the_format),
        cmocka_unit_test(the_deepest_stored_value_has_a_key_and_no_deeper_one),
        cmocka_unit_test(fixed_integers_are_big_endian),
        cmocka_unit_test(a_prefix_ends_before_the_next_key),
        cmocka_unit_test(all_keys_lie_between_the_first_and_the_last),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
