/* SPDX-License-Identifier: Apache-2.0 */
/* HTML and CSV as text. */
#include "cli/csv.h"
#include "cli/html.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct buf out;

static int set_up(void **state)
{
    (void)state;
    buf_init(&out, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&out);
    return 0;
}

static void assert_html(const char *html, const char *text)
{
    struct error err;

    buf_clear(&out);
    assert_int_equal(html_to_markdown(slice_str(html), &out, &err), OK);
    assert_string_equal(buf_cstr(&out), text);
}

static void a_page_keeps_its_structure(void **state)
{
    (void)state;
    assert_html(
        "<!doctype html><html><head><title> Care\nof plants </title>"
        "<style>p { color: red }</style></head><body><nav>Home</nav>"
        "<h1>Plants</h1><p>Water <b>daily</b>,\n  not\tmore.</p><h2>Light</h2>"
        "<ul><li>sun<li>shade</ul><p>End.<script>alert(1)</script></body></html>",
        "Care of plants\n# Plants\n\nWater daily, not more.\n\n## Light\n\n- sun\n- shade\n\n"
        "End.\n\n");
}

static void rows_and_code_are_kept(void **state)
{
    (void)state;
    assert_html("<table><tr><th>Name</th><th>Age</th></tr><tr><td><p>Ada</p></td><td>36</td></tr>"
                "</table><pre>a  b\n  c\n</pre><p>x<br>y</p>",
                "\n| Name | Age |\n| Ada | 36 |\n\n```\na  b\n  c\n```\n\nx\ny\n\n");
}

static void entities_and_encodings_become_utf8(void **state)
{
    (void)state;
    assert_html("<p>a &amp; b &lt; c &eacute; &#8364;</p>",
                "\na & b < c \xc3\xa9 \xe2\x82\xac\n\n");
    assert_html("<meta charset=iso-8859-1><p>caf\xe9</p>", "\ncaf\xc3\xa9\n\n");
    assert_html("<meta charset=iso-8859-1><p>caf\xc3\xa9</p>", "\ncaf\xc3\xa9\n\n");
}

static void broken_pages_are_read(void **state)
{
    struct buf deep;

    (void)state;
    assert_html("<p>one<p>two</b></div><h2>three", "\none\n\ntwo\n\n## three\n\n");
    assert_html("just text", "\njust text\n\n");
    buf_init(&deep, 0);
    for (int i = 0; i < 100000; i++)
        buf_add_str(&deep, "<div>");
    buf_add_str(&deep, "deep");
    {
        struct error err;
        buf_clear(&out);
        assert_int_equal(html_to_markdown(buf_slice(&deep), &out, &err), OK);
    }
    buf_release(&deep);
}

static void what_is_no_page_is_refused(void **state)
{
    struct error err;

    (void)state;
    assert_int_equal(html_to_markdown(slice_of(NULL, 0), &out, &err), ERR_INVALID);
}

/* Any bytes: no crash, and text or an error comes out. */
static void random_markup_is_survived(void **state)
{
    static const char *const bits[] = { "<p>",   "</p>",    "<table>", "<tr>", "<td>",  "</table>",
                                        "<pre>", "</pre>",  "<li>",    "<h1>", "</h1>", "text ",
                                        "&amp;", "&#0;",    "<!--",    "-->",  "<",     "\xff",
                                        "\n",    "<title>", "<ul>" };
    struct buf html;

    (void)state;
    buf_init(&html, 0);
    srand(3);
    for (int round = 0; round < 300; round++) {
        struct error err;
        buf_clear(&html);
        for (int i = rand() % 200; i > 0; i--)
            buf_add_str(&html, bits[(size_t)rand() % ARRAY_LEN(bits)]);
        buf_clear(&out);
        if (html_to_markdown(buf_slice(&html), &out, &err) == OK)
            assert_non_null(memchr(out.ptr, '\n', out.len));
    }
    buf_release(&html);
}

/* ---- CSV ---- */

static void assert_rows(const char *text, const char *const *expected)
{
    struct arena *arena = arena_new(0);
    struct slice fields[CSV_FIELDS_MAX];
    struct error err;
    struct csv csv;
    size_t count;

    csv_init(&csv, slice_str(text), arena);
    for (;;) {
        assert_int_equal(csv_next(&csv, fields, &count, &err), OK);
        if (count == 0)
            break;
        for (size_t i = 0; i < count; i++, expected++)
            assert_true(*expected && slice_is(fields[i], *expected));
        assert_string_equal(*expected++, "|");
    }
    assert_null(*expected);
    arena_free(arena);
}

static void fields_are_found(void **state)
{
    (void)state;
    assert_rows("a,b\r\n1,\"x, \"\"y\"\"\nz\"\n\n,\n",
                (const char *const[]){ "a", "b", "|", "1", "x, \"y\"\nz", "|", "", "", "|", NULL });
    assert_rows("\xef\xbb\xbf"
                "a;b;c,d\n1;2;3",
                (const char *const[]){ "a", "b", "c,d", "|", "1", "2", "3", "|", NULL });
    assert_rows("a\tb\n\"q\" junk\t2,",
                (const char *const[]){ "a", "b", "|", "q", "2,", "|", NULL });
    assert_rows("a,", (const char *const[]){ "a", "", "|", NULL });
    assert_rows("", (const char *const[]){ NULL });
}

static void broken_tables_say_where(void **state)
{
    struct error err;
    struct buf wide;

    (void)state;
    assert_int_equal(csv_to_markdown(slice_str("a,b\n1,2\n3,\"4\n5"), &out, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "line 3"));
    buf_init(&wide, 0);
    for (int i = 0; i <= CSV_FIELDS_MAX; i++)
        buf_add_str(&wide, "a,");
    assert_int_equal(csv_to_markdown(buf_slice(&wide), &out, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "1000 fields"));
    buf_release(&wide);
}

static void a_row_is_readable_alone(void **state)
{
    struct error err;

    (void)state;
    assert_int_equal(
        csv_to_markdown(slice_str("Name,Age,City\nAda,36,\n ,,\n\"B\nC\",,Rome,more\n"), &out,
                        &err),
        OK);
    assert_string_equal(buf_cstr(&out), "- Name: Ada; Age: 36\n- Name: B C; City: Rome; more\n");
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_page_keeps_its_structure),
        TEST(rows_and_code_are_kept),
        TEST(entities_and_encodings_become_utf8),
        TEST(broken_pages_are_read),
        TEST(what_is_no_page_is_refused),
        TEST(random_markup_is_survived),
        TEST(fields_are_found),
        TEST(broken_tables_say_where),
        TEST(a_row_is_readable_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
