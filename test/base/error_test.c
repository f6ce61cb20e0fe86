/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "base/error.h"
#include "base/val_text.h"
#include <stdio.h>

static void an_error_knows_its_code_number_and_status(void **state)
{
    struct error err = { 0 };

    (void)state;
    assert_int_equal(fail(&err, ERR_BUSY, "the %s is full", "queue"), ERR_BUSY);
    assert_string_equal(err.text, "the queue is full");
    assert_int_equal(error_http(&err), 503);
    assert_int_equal(error_num(&err), 503);
    assert_int_equal(fail_num(&err, 1202, "no document '%s'", "a/1"), ERR_NOT_FOUND);
    assert_int_equal(error_http(&err), 404);
    assert_int_equal(error_num(&err), 1202);
    assert_int_equal(fail_num(&err, 1210, "clash"), ERR_EXISTS);
    assert_int_equal(fail(&err, ERR_INVALID, "again"), ERR_INVALID);
    assert_int_equal(error_num(&err), 10);
    assert_int_equal(error_http(&err), 400);
    assert_int_equal(fail(NULL, ERR_IO, "nobody listens"), ERR_IO);
    assert_int_equal(fail_num(NULL, 1202, "nobody listens"), ERR_NOT_FOUND);
}

static void every_code_has_a_name_a_text_and_a_status(void **state)
{
    static const enum errc all[] = {
#define ERROR(name, http, num, retryable, text) name,
#include "base/error.def"
#undef ERROR
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct error err = { .code = all[i] };
        assert_true(strlen(errc_name(all[i])) > 0 && strlen(errc_text(all[i])) > 0);
        assert_in_range(error_http(&err), 200, 503);
        assert_int_not_equal(error_num(&err), 0);
    }
    assert_string_equal(errc_name(ERR_BUSY), "ERR_BUSY");
    assert_true(errc_is_retryable(ERR_CONFLICT) && !errc_is_retryable(ERR_INVALID));
    assert_string_equal(errnum_text(1200), "conflict");
    assert_null(errnum_text(77777));
}

static void context_is_put_in_front(void **state)
{
    struct error err = { 0 };

    (void)state;
    (void)fail_num(&err, 1203, "no collection 'x'");
    assert_int_equal(wrap(&err, "import of %s", "a.csv"), ERR_NOT_FOUND);
    assert_string_equal(err.text, "import of a.csv: no collection 'x'");
    assert_int_equal(error_num(&err), 1203);
}

/* Texts of every length around the limit, made of characters of every length. */
static void long_texts_are_cut_between_characters(void **state)
{
    static const char *const characters[] = { "x", "\xC3\xA4", "\xE6\x97\xA5", "\xF0\x9F\x98\x80" };
    struct error err;
    char text[400];

    (void)state;
    for (size_t c = 0; c < ARRAY_LEN(characters); c++) {
        for (size_t shift = 0; shift < 5; shift++) {
            size_t len = shift;
            memset(text, '-', shift);
            for (; len < 300; len += strlen(characters[c]))
                memcpy(text + len, characters[c], strlen(characters[c]));
            text[len] = 0;
            (void)fail(&err, ERR_INVALID, "%s", text);
            assert_true(utf8_check(slice_str(err.text), NULL));
            assert_true(strlen(err.text) > sizeof err.text - 5);
            (void)wrap(&err, "w%s", characters[c]);
            assert_true(utf8_check(slice_str(err.text), NULL));
            (void)wrap(&err, "%s", text);
            assert_true(utf8_check(slice_str(err.text), NULL));
            assert_true(strlen(err.text) < sizeof err.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_knows_its_code_number_and_status),
        cmocka_unit_test(every_code_has_a_name_a_text_and_a_status),
        cmocka_unit_test(context_is_put_in_front),
        cmocka_unit_test(long_texts_are_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
