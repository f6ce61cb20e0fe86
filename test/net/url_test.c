/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "net/http.h"

static void escapes_are_decoded(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 0);
    assert_true(url_decode(slice_str("a%20b%2Fc+d%c3%A4"), false, &out));
    assert_string_equal(buf_cstr(&out), "a b/c+d\xc3\xa4");
    buf_clear(&out);
    assert_true(url_decode(slice_str("a+b"), true, &out));
    assert_string_equal(buf_cstr(&out), "a b");
    buf_release(&out);
}

static void broken_escapes_are_refused(void **state)
{
    static const char *const bad[] = { "%", "%1", "%zz", "a%2", "%00", "x%g1" };
    struct buf out;

    (void)state;
    buf_init(&out, 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(url_decode(slice_str(bad[i]), false, &out));
    assert_false(url_decode(slice_of("a\0b", 3), false, &out));
    buf_release(&out);
}

static void encoding_and_decoding_are_inverse(void **state)
{
    struct buf out, back;
    char all[255];

    (void)state;
    buf_init(&out, 0);
    buf_init(&back, 0);
    for (int i = 0; i < 255; i++)
        all[i] = (char)(i + 1);
    url_encode(slice_of(all, sizeof all), &out);
    assert_null(strpbrk(buf_cstr(&out), " /?#&+"));
    assert_true(url_decode(buf_slice(&out), true, &back));
    assert_true(slice_eq(buf_slice(&back), slice_of(all, sizeof all)));
    buf_release(&out);
    buf_release(&back);
}

static void parameters_are_found_by_name(void **state)
{
    struct slice query = slice_str("a=1&bb=x%26y&c&d=&a=2&=e&&f=1=2");
    static const struct {
        const char *name, *value;
    } rows[] = { { "a", "1" }, { "bb", "x&y" }, { "c", "" }, { "d", "" }, { "f", "1=2" } };
    struct buf out;

    (void)state;
    buf_init(&out, 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        buf_clear(&out);
        assert_true(url_query_get(query, rows[i].name, &out));
        assert_string_equal(buf_cstr(&out), rows[i].value);
    }
    assert_false(url_query_get(query, "b", &out));
    assert_false(url_query_get(query, "e", &out));
    assert_false(url_query_get(slice_str(""), "a", &out));
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_are_decoded),
        cmocka_unit_test(broken_escapes_are_refused),
        cmocka_unit_test(encoding_and_decoding_are_inverse),
        cmocka_unit_test(parameters_are_found_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
