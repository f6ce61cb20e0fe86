/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "base/arena.h"
#include "base/buf.h"
#include <stdlib.h>

static void slices_compare_bytewise_and_shorter_first(void **state)
{
    (void)state;
    assert_true(slice_cmp(slice_str("a"), slice_str("ab")) < 0);
    assert_true(slice_cmp(slice_str("b"), slice_str("ab")) > 0);
    assert_true(slice_cmp(slice_of("\xFF", 1), slice_str("a")) > 0);
    assert_int_equal(slice_cmp(slice_of(NULL, 0), slice_str("")), 0);
    assert_true(slice_eq(slice_of(NULL, 0), slice_str("")));
    assert_true(slice_starts(slice_str("abc"), "ab") && !slice_starts(slice_str("a"), "ab"));
    char *copy = mem_strndup(slice_of("abc", 2));
    assert_string_equal(copy, "ab");
    mem_free(copy);
    copy = mem_strndup(slice_of(NULL, 0));
    assert_string_equal(copy, "");
    mem_free(copy);
    copy = mem_zalloc(0);
    assert_non_null(copy);
    mem_free(copy);
    mem_free(NULL);
}

static void arena_memory_is_aligned_and_counted(void **state)
{
    struct arena *a = arena_new(0);

    (void)state;
    size_t sum = 0;
    for (size_t i = 1; i < 3000; i += 7) {
        char *at = arena_alloc(a, i);
        assert_int_equal((uintptr_t)at % 16, 0);
        memset(at, 0xAA, i);
        sum += i;
    }
    assert_true(arena_used(a) >= sum);
    char *zero = arena_zalloc(a, 5000);
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(zero[i], 0);
    assert_string_equal(arena_printf(a, "%d-%s", 5, "x"), "5-x");
    struct slice s = arena_copy(a, slice_str("copy"));
    assert_string_equal(s.ptr, "copy");
    assert_string_equal(arena_copy(a, slice_of(NULL, 0)).ptr, "");
    struct point {
        int x, y;
    } *p = ARENA_NEW(a, struct point);
    assert_int_equal(p->x + p->y, 0);
    arena_free(a);
    arena_free(NULL);
}

static void arenas_share_a_budget(void **state)
{
    struct arena_budget budget = { .limit_bytes = 8 * MIB, .name = "query_total_mb" };
    struct arena *a = arena_new(0), *b = arena_new(0), *small = arena_new(0);
    struct error err = { 0 };
    void *out;
    (void)state;
    arena_charge(a, &budget);
    arena_charge(b, &budget);
    arena_charge(small, &budget);
    struct arena *kid = arena_child(a);
    arena_alloc(kid, 5 * MIB);
    arena_alloc(small, 1000);
    assert_in_range(budget.used_bytes, 5 * MIB, 5 * MIB + 16 * KIB);
    assert_int_equal(arena_check(a, &err), OK);
    assert_int_equal(arena_try(b, 2 * MIB, &out, &err), OK);
    assert_int_equal(arena_try(b, 2 * MIB, &out, &err), ERR_LIMIT);
    assert_int_equal(error_num(&err), 32);
    assert_non_null(strstr(err.text, "query_total_mb"));
    assert_int_equal(arena_check(b, &err), OK); /* it stayed below */
    arena_alloc(b, 2 * MIB);
    assert_int_equal(arena_check(b, &err), ERR_LIMIT);
    assert_int_equal(arena_check(kid, &err), ERR_LIMIT);
    assert_int_equal(arena_check(small, &err), OK); /* what holds next to nothing goes on */
    assert_int_equal(arena_try(small, 100 * KIB, &out, &err), OK);
    arena_free(kid);
    assert_int_equal(arena_check(b, &err), OK);
    arena_free(a);
    arena_free(b);
    arena_free(small);
    assert_int_equal(budget.used_bytes, 0);
}

static void an_arena_refuses_what_passes_its_limit(void **state)
{
    struct arena *a = arena_new(1000);
    struct error err = { 0 };
    void *out;

    (void)state;
    assert_int_equal(arena_try(a, 900, &out, &err), OK);
    assert_int_equal(arena_try(a, 200, &out, &err), ERR_LIMIT);
    assert_int_equal(error_num(&err), 32);
    assert_int_equal(arena_try(a, SIZE_MAX, &out, &err), ERR_LIMIT);
    assert_int_equal(arena_check(a, &err), OK);
    (void)arena_alloc(a, 500);
    assert_int_equal(arena_check(a, &err), ERR_LIMIT);
    arena_free(a);
}

static void a_rewound_arena_uses_its_memory_again(void **state)
{
    struct arena *a = arena_new(0);

    (void)state;
    struct arena_mark empty = arena_mark(a);
    char *kept = arena_printf(a, "kept");
    struct arena_mark mark = arena_mark(a);
    size_t used = arena_used(a);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 200; i++)
            memset(arena_alloc(a, 1000), round, 1000);
        arena_rewind(a, mark);
        assert_int_equal(arena_used(a), used);
        assert_string_equal(kept, "kept");
    }
    assert_true(arena_peak(a) >= 200000);
    arena_rewind(a, empty);
    assert_int_equal(arena_used(a), 0);
    memset(arena_alloc(a, 100000), 1, 100000);
    arena_free(a);
}

static void children_count_against_the_limit_of_their_parent(void **state)
{
    struct arena *parent = arena_new(100000), *a = arena_child(parent), *b = arena_child(a);
    struct error err = { 0 };
    void *out;

    (void)state;
    memset(arena_alloc(a, 60000), 1, 60000);
    assert_int_equal(arena_check(b, &err), OK);
    assert_int_equal(arena_try(parent, 50000, &out, &err), ERR_LIMIT);
    memset(arena_alloc(b, 60000), 1, 60000);
    assert_int_equal(arena_check(parent, &err), ERR_LIMIT);
    assert_int_equal(arena_check(a, &err), ERR_LIMIT);
    assert_int_equal(arena_try(b, 1, &out, &err), ERR_LIMIT);
    assert_true(arena_peak(parent) >= 120000);
    arena_free(b);
    assert_int_equal(arena_check(parent, &err), OK);
    for (int i = 0; i < 50; i++) {
        arena_reset(a);
        memset(arena_alloc(a, 60000), 1, 60000);
        assert_int_equal(arena_check(a, &err), OK);
    }
    arena_free(a);
    assert_int_equal(arena_try(parent, 90000, &out, &err), OK);
    arena_free(parent);
    arena_reset(NULL);
}

static void a_buffer_grows_and_keeps_its_content(void **state)
{
    struct buf b;

    (void)state;
    buf_init(&b, 0);
    assert_string_equal(buf_cstr(&b), "");
    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "%d,", i);
    assert_true(slice_starts(buf_slice(&b), "0,1,2,"));
    buf_drop(&b, 2);
    assert_true(slice_starts(buf_slice(&b), "1,2,"));
    buf_clear(&b);
    buf_add_str(&b, "ab");
    buf_add_char(&b, 'c');
    buf_add_slice(&b, slice_str("de"));
    buf_add(&b, NULL, 0);
    memcpy(buf_reserve(&b, 2), "fg", 2);
    assert_string_equal(buf_cstr(&b), "abcdefg");
    buf_drop(&b, 100);
    assert_int_equal(b.len, 0);
    assert_int_equal(buf_check(&b, "x", NULL), OK);
    buf_release(&b);
    buf_release(NULL);
}

static void a_buffer_that_is_full_says_so_once_and_for_all(void **state)
{
    struct buf b;
    struct error err = { 0 };

    (void)state;
    buf_init(&b, 10);
    buf_add_str(&b, "0123456789");
    assert_int_equal(buf_check(&b, "the body", &err), OK);
    buf_add_char(&b, 'x');
    assert_int_equal(b.len, 10);
    buf_drop(&b, 5);
    buf_add_str(&b, "yy");
    buf_printf(&b, "%s", "zz");
    assert_null(buf_reserve(&b, 1));
    assert_int_equal(b.len, 5);
    assert_int_equal(buf_check(&b, "the body", &err), ERR_TOO_LARGE);
    assert_string_equal(err.text, "the body is larger than the limit of 10 bytes");
    buf_clear(&b);
    buf_add_str(&b, "ok");
    assert_int_equal(buf_check(&b, "the body", &err), OK);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_compare_bytewise_and_shorter_first),
        cmocka_unit_test(arena_memory_is_aligned_and_counted),
        cmocka_unit_test(an_arena_refuses_what_passes_its_limit),
        cmocka_unit_test(a_rewound_arena_uses_its_memory_again),
        cmocka_unit_test(arenas_share_a_budget),
        cmocka_unit_test(children_count_against_the_limit_of_their_parent),
        cmocka_unit_test(a_buffer_grows_and_keeps_its_content),
        cmocka_unit_test(a_buffer_that_is_full_says_so_once_and_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
