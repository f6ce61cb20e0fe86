/* SPDX-License-Identifier: Apache-2.0 */
/* Stop texts over token boundaries, whole characters only. */
#include "model/answer_text.h"

#include "base/val_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Feeds pieces; returns what was shown in all, and whether a stop was reached. */
static bool feed(const char *const *stops, size_t stop_count, struct slice text, size_t piece,
                 struct buf *shown)
{
    struct slice list[8];
    struct answer_text t;
    struct slice out;
    bool is_stopped = false;
    for (size_t i = 0; i < stop_count; i++)
        list[i] = slice_str(stops[i]);
    answer_text_init(&t, list, stop_count);
    for (size_t i = 0; i < text.len && !is_stopped; i += piece) {
        size_t n = text.len - i < piece ? text.len - i : piece;
        is_stopped = answer_text_add(&t, slice_of(text.ptr + i, n), &out);
        assert_true(utf8_check(out, NULL));
        buf_add_slice(shown, out);
    }
    out = answer_text_finish(&t);
    assert_true(utf8_check(out, NULL));
    buf_add_slice(shown, out);
    answer_text_release(&t);
    return is_stopped;
}

static void expect(const char *const *stops, size_t stop_count, const char *text, const char *shown,
                   bool is_stopped)
{
    struct slice in = slice_str(text);
    for (size_t piece = 1; piece <= in.len; piece++) {
        struct buf out;
        buf_init(&out, 0);
        assert_int_equal(feed(stops, stop_count, in, piece, &out), is_stopped);
        assert_string_equal(buf_cstr(&out), shown);
        buf_release(&out);
    }
}

static void text_without_stops_passes(void **state)
{
    (void)state;
    expect(NULL, 0, "plain text, h\xc3\xa9llo \xe2\x82\xac \xf0\x9f\x98\x80!",
           "plain text, h\xc3\xa9llo \xe2\x82\xac \xf0\x9f\x98\x80!", false);
}

static void stops_are_found_over_any_boundary(void **state)
{
    (void)state;
    static const char *const stops[] = { "STOP", "\n\nUser:", "" };
    expect(stops, 3, "hello STOP world", "hello ", true);
    expect(stops, 3, "hello STO world", "hello STO world", false);
    expect(stops, 3, "SSTSTOP", "SST", true);
    expect(stops, 3, "answer\n\nUser: next", "answer", true);
    expect(stops, 3, "answer\n\n\nUser: next", "answer\n", true);
    expect(stops, 3, "ends with STO", "ends with STO", false);
    expect(stops, 3, "STOP", "", true);
}

static void the_earliest_of_several_stops_counts(void **state)
{
    (void)state;
    static const char *const stops[] = { "b", "abc" };
    struct buf out;
    buf_init(&out, 0);
    assert_true(feed(stops, 2, slice_str("xabcx"), 5, &out));
    assert_string_equal(buf_cstr(&out), "x");
    buf_release(&out);
}

static void stops_may_be_characters_of_several_bytes(void **state)
{
    (void)state;
    static const char *const stops[] = { "\xe2\x82\xac" };
    expect(stops, 1, "5 \xe2\x82\xac or 6", "5 ", true);
    expect(stops, 1, "5 \xe2\x82\xad or 6", "5 \xe2\x82\xad or 6", false);
}

static void nothing_is_held_longer_than_needed(void **state)
{
    (void)state;
    struct answer_text t;
    struct slice stop = slice_str("###"), out;
    answer_text_init(&t, &stop, 1);
    assert_false(answer_text_add(&t, slice_str("abc#"), &out));
    assert_true(slice_is(out, "abc"));
    assert_false(answer_text_add(&t, slice_str("#d"), &out));
    assert_true(slice_is(out, "##d"));
    assert_false(answer_text_add(&t, slice_str("\xe2\x82"), &out));
    assert_int_equal(out.len, 0);
    assert_false(answer_text_add(&t, slice_str("\xac"), &out));
    assert_true(slice_is(out, "\xe2\x82\xac"));
    answer_text_release(&t);
}

static void broken_bytes_become_replacement_characters(void **state)
{
    (void)state;
    expect(NULL, 0,
           "a\xff"
           "b",
           "a\xef\xbf\xbd"
           "b",
           false);
    expect(NULL, 0, "a\xe2\x82", "a\xef\xbf\xbd", false);
    expect(NULL, 0, "\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd", false);
    expect(NULL, 0, "\xed\xa0\x80x", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx", false);
}

static void random_bytes_always_give_valid_text(void **state)
{
    (void)state;
    static const char *const stops[] = { "\xe2\x82\xac", "ab" };
    srand(3);
    for (int round = 0; round < 2000; round++) {
        char bytes[24];
        struct buf out;
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)(rand() % 3 ? "ab\xe2\x82\xac\xf0\x9f"[rand() % 7] : rand());
        buf_init(&out, 0);
        feed(stops, 2, slice_of(bytes, sizeof bytes), 1 + (size_t)rand() % 4, &out);
        assert_null(strstr(buf_cstr(&out), "ab"));
        buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_without_stops_passes),
        cmocka_unit_test(stops_are_found_over_any_boundary),
        cmocka_unit_test(the_earliest_of_several_stops_counts),
        cmocka_unit_test(stops_may_be_characters_of_several_bytes),
        cmocka_unit_test(nothing_is_held_longer_than_needed),
        cmocka_unit_test(broken_bytes_become_replacement_characters),
        cmocka_unit_test(random_bytes_always_give_valid_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
