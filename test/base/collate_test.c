/* SPDX-License-Identifier: Apache-2.0 */
#include "base/collate.h"
#include "base/val.h"
#include "random_val.h"

static struct collator *root;

static int setup(void **state)
{
    (void)state;
    return collator_open(&root, "und", NULL) == OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    collator_close(root);
    return 0;
}

static int compare(const char *a, const char *b)
{
    return collator_compare(root, slice_str(a), slice_str(b));
}

static void people_find_words_where_they_expect_them(void **state)
{
    static const char *const ordered[] = {
        "",         "_x",          "-a",    "1",    "10",           "9", "a",     "A",
        "\xC3\xA4", "B",           "co-op", "coop", "\xC3\xA9tude", "f", "Zebra", "\xCE\xB1",
        "\xD0\xB0", "\xE6\x97\xA5"
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ordered); i++)
        for (size_t k = 0; k < ARRAY_LEN(ordered); k++)
            assert_int_equal(sign_of(compare(ordered[i], ordered[k])), (i > k) - (i < k));
    assert_int_equal(collator_compare(root, slice_of(NULL, 0), slice_of(NULL, 0)), 0);
}

static void binary_means_no_collator(void **state)
{
    struct collator *c = root;

    (void)state;
    assert_int_equal(collator_open(&c, "binary", NULL), OK);
    assert_null(c);
    assert_string_equal(collator_version(NULL), "binary");
    collator_close(NULL);
}

static void the_version_names_the_locale_and_stays(void **state)
{
    struct collator *c;

    (void)state;
    assert_int_equal(collator_open(&c, "und", NULL), OK);
    assert_string_equal(collator_version(c), collator_version(root));
    assert_memory_equal(collator_version(c), "und ", 4);
    collator_close(c);
}

static void sort_keys_agree_with_comparing(void **state)
{
    struct buf x, y;
    char a[64], b[64];

    (void)state;
    rnd_start();
    buf_init(&x, 0);
    buf_init(&y, 0);
    for (int i = 0; i < 50000; i++) {
        struct slice s = slice_of(a, random_text(a)), t = slice_of(b, random_text(b));
        buf_clear(&x);
        buf_clear(&y);
        collator_sort_key(root, s, &x);
        collator_sort_key(root, t, &y);
        assert_null(x.len ? memchr(x.ptr, 0, x.len) : NULL);
        if (sign_of(slice_cmp(buf_slice(&x), buf_slice(&y))) != collator_compare(root, s, t))
            fail_msg("'%.*s' and '%.*s'", SLICE_ARG(s), SLICE_ARG(t));
    }
    buf_release(&x);
    buf_release(&y);
}

static void long_texts_have_whole_sort_keys(void **state)
{
    char text[20000];
    struct buf x, y;

    (void)state;
    memset(text, 'b', sizeof text);
    buf_init(&x, 0);
    buf_init(&y, 0);
    for (size_t len = 1; len < sizeof text; len += 1 + len / 7) {
        buf_clear(&x);
        buf_clear(&y);
        text[len - 1] = 'a';
        collator_sort_key(root, slice_of(text, len), &x);
        text[len - 1] = 'b';
        collator_sort_key(root, slice_of(text, len), &y);
        assert_true(slice_cmp(buf_slice(&x), buf_slice(&y)) < 0);
        assert_true(x.len >= len);
    }
    buf_release(&x);
    buf_release(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(people_find_words_where_they_expect_them),
        cmocka_unit_test(binary_means_no_collator),
        cmocka_unit_test(the_version_names_the_locale_and_stays),
        cmocka_unit_test(sort_keys_agree_with_comparing),
        cmocka_unit_test(long_texts_have_whole_sort_keys),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
