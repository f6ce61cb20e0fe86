/* SPDX-License-Identifier: Apache-2.0 */
#include "model/prefix.h"
#include "model/shelf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LEN = 400, ROOM = 100000 };

/* A prompt whose first n tokens are those of every prompt, the others its own. */
static void prompt(int32_t out[LEN], uint32_t n, int32_t own)
{
    for (uint32_t i = 0; i < LEN; i++)
        out[i] = i < n ? (int32_t)i : 1000 + own;
}

static void put(struct shelf *s, uint64_t salt, const int32_t *tokens, uint32_t count, size_t bytes,
                char fill)
{
    struct shelf_item *item = shelf_item_new(salt, tokens, count, bytes);
    memset(shelf_room(item), fill, bytes);
    shelf_put(s, item);
}

/* The first byte of what is found, or 0; *len as shelf_find gives it. */
static char found(struct shelf *s, uint64_t salt, const int32_t *tokens, uint32_t max,
                  uint32_t *len)
{
    const struct shelf_item *item = shelf_find(s, salt, tokens, max, len);
    if (!item)
        return 0;
    char fill = shelf_state(item).ptr[0];
    shelf_release(s, item);
    return fill;
}

static void the_longest_common_beginning_is_found(void **state)
{
    (void)state;
    int32_t a[LEN], b[LEN], wanted[LEN];
    uint32_t len;
    struct shelf *s = shelf_new(ROOM);
    prompt(a, 100, 1);
    prompt(b, 200, 2);
    prompt(wanted, 300, 3);
    put(s, 7, a, LEN, 10, 'a');
    put(s, 7, b, LEN, 10, 'b');
    assert_int_equal(found(s, 7, wanted, LEN, &len), 'b');
    assert_int_equal(len, 200);
    assert_int_equal(found(s, 7, a, LEN, &len), 'a');
    assert_int_equal(len, LEN);
    assert_true(found(s, 7, wanted, 150, &len) != 0);
    assert_int_equal(len, 150);
    assert_int_equal(found(s, 7, wanted, PREFIX_MIN - 1, &len), 0);
    assert_int_equal(len, 0);
    assert_int_equal(found(s, 8, wanted, LEN, &len), 0); /* another tenant's */
    shelf_free(s);
}

static void the_least_used_makes_room(void **state)
{
    (void)state;
    int32_t tokens[4][LEN];
    uint32_t len;
    struct shelf *s = shelf_new(3 * (1000 + LEN * sizeof(int32_t)));
    for (int i = 0; i < 4; i++) {
        prompt(tokens[i], 0, i);
        if (i == 3)
            assert_int_equal(found(s, 0, tokens[0], LEN, &len), 'a');
        put(s, 0, tokens[i], LEN, 1000, (char)('a' + i));
    }
    assert_int_equal(found(s, 0, tokens[0], LEN, &len), 'a'); /* used since */
    assert_int_equal(found(s, 0, tokens[1], LEN, &len), 0);
    assert_int_equal(found(s, 0, tokens[2], LEN, &len), 'c');
    assert_int_equal(found(s, 0, tokens[3], LEN, &len), 'd');
    shelf_free(s);
}

static void what_is_held_outlives_its_place(void **state)
{
    (void)state;
    int32_t a[LEN], b[LEN];
    uint32_t len;
    struct shelf *s = shelf_new(1000 + LEN * sizeof(int32_t));
    prompt(a, 0, 1);
    prompt(b, 0, 2);
    put(s, 0, a, LEN, 1000, 'a');
    const struct shelf_item *held = shelf_find(s, 0, a, LEN, &len);
    put(s, 0, b, LEN, 1000, 'b');
    assert_int_equal(found(s, 0, a, LEN, &len), 0);
    assert_int_equal(shelf_state(held).ptr[999], 'a');
    shelf_release(s, held);
    shelf_free(s);
}

static void a_continuation_takes_the_place_of_its_beginning(void **state)
{
    (void)state;
    int32_t a[LEN];
    uint32_t len;
    struct shelf *s = shelf_new(ROOM);
    prompt(a, LEN, 0);
    put(s, 0, a, 100, 10, 'a');
    put(s, 0, a, 300, 10, 'b');
    assert_int_equal(found(s, 0, a, 100, &len), 'b');
    assert_true(shelf_wants(s, 0, a, LEN, 10));
    assert_false(shelf_wants(s, 0, a, 300, 10)); /* all of it is there */
    assert_false(shelf_wants(s, 0, a, 200, 10));
    assert_true(shelf_wants(s, 1, a, 200, 10));
    shelf_free(s);
}

static void short_branches_and_what_does_not_fit_are_not_wanted(void **state)
{
    (void)state;
    int32_t a[LEN], b[LEN];
    struct shelf *s = shelf_new(ROOM);
    prompt(a, LEN, 0);
    put(s, 0, a, LEN, 10, 'a');
    prompt(b, 250, 1);
    assert_false(shelf_wants(s, 0, b, LEN, 10)); /* 250 are there, 150 are new */
    prompt(b, 150, 1);
    assert_true(shelf_wants(s, 0, b, LEN, 10));
    assert_false(shelf_wants(s, 0, b, LEN, ROOM));
    prompt(b, 0, 1);
    assert_false(shelf_wants(s, 0, b, PREFIX_MIN - 1, 10));
    assert_true(shelf_wants(s, 0, b, PREFIX_MIN, 10));
    shelf_free(s);
    s = shelf_new(0);
    assert_false(shelf_wants(s, 0, b, LEN, 10));
    shelf_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_common_beginning_is_found),
        cmocka_unit_test(the_least_used_makes_room),
        cmocka_unit_test(what_is_held_outlives_its_place),
        cmocka_unit_test(a_continuation_takes_the_place_of_its_beginning),
        cmocka_unit_test(short_branches_and_what_does_not_fit_are_not_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
