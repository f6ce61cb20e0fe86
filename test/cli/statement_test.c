/* SPDX-License-Identifier: Apache-2.0 */
/* Where a statement ends. */
#include "cli/statement.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void expect(const char *text, enum statement_state state, size_t len, size_t used)
{
    struct statement s = statement_first(slice_str(text));

    if (s.state != state || s.len != len || s.used != used)
        fail_msg("'%s': state %d, %zu of %zu bytes; expected %d, %zu of %zu", text, s.state, s.len,
                 s.used, state, len, used);
}

static void more(const char *text)
{
    expect(text, STATEMENT_MORE, strlen(text), strlen(text));
}

static void is_open(const char *text)
{
    expect(text, STATEMENT_OPEN, strlen(text), strlen(text));
}

static void ends_at_the_first_semicolon(void **state)
{
    (void)state;
    expect("RETURN 1;", STATEMENT_WHOLE, 8, 9);
    expect("RETURN 1; RETURN 2;", STATEMENT_WHOLE, 8, 9);
    expect("\n RETURN 1\n ; ", STATEMENT_WHOLE, 12, 13);
    more("RETURN 1");
    more("FOR x IN 1..3\n");
}

static void a_semicolon_in_a_string_name_or_comment_ends_nothing(void **state)
{
    (void)state;
    more("RETURN ';'");
    more("RETURN \"a\\\";b\"");
    more("RETURN '\\';'");
    more("RETURN d.`;`");
    more("RETURN d.\xC2\xB4;\xC2\xB4");
    more("RETURN 1 // ; end");
    more("RETURN /* ; */ 1");
    expect("RETURN ';';", STATEMENT_WHOLE, 10, 11);
    expect("RETURN 1 // ;\n;", STATEMENT_WHOLE, 14, 15);
    expect("RETURN '\\\\';", STATEMENT_WHOLE, 11, 12);
}

static void what_breaks_off_inside_is_open(void **state)
{
    (void)state;
    is_open("RETURN 'a;");
    is_open("RETURN \"a;\\\"");
    is_open("RETURN d.`a;");
    is_open("RETURN d.\xC2\xB4"
            "a;");
    is_open("RETURN 1 /* ;");
    is_open("/*");
    is_open("RETURN 'a\\");
}

static void blanks_and_comments_are_no_statement(void **state)
{
    (void)state;
    expect("", STATEMENT_EMPTY, 0, 0);
    expect(" \t\r\n", STATEMENT_EMPTY, 4, 4);
    expect("// nothing; at all", STATEMENT_EMPTY, 18, 18);
    expect("/* ; */ ;", STATEMENT_EMPTY, 8, 9);
    expect(";;", STATEMENT_EMPTY, 0, 1);
}

static void knows_of_a_comment_to_the_end_of_the_line(void **state)
{
    (void)state;
    assert_true(statement_first(slice_str("RETURN 1 // one\n;")).has_line_comment);
    assert_false(statement_first(slice_str("RETURN '//' /* // */;")).has_line_comment);
}

static void bytes_of_any_kind_end(void **state)
{
    char text[3];

    (void)state;
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            memcpy(text, (char[]){ (char)a, (char)b, ';' }, 3);
            struct statement s = statement_first(slice_of(text, 3));
            assert_true(s.len <= s.used && s.used <= 3);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_at_the_first_semicolon),
        cmocka_unit_test(a_semicolon_in_a_string_name_or_comment_ends_nothing),
        cmocka_unit_test(what_breaks_off_inside_is_open),
        cmocka_unit_test(blanks_and_comments_are_no_statement),
        cmocka_unit_test(knows_of_a_comment_to_the_end_of_the_line),
        cmocka_unit_test(bytes_of_any_kind_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
