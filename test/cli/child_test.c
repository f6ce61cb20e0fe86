/* SPDX-License-Identifier: Apache-2.0 */
/* What a child process may do, and how its end is told. Shell scripts play the programs. */
#include "cli/child.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#undef fail /* ours is a function */

static const struct child_limits limits = {
    .cpu_s = 1, .wall_s = 20, .memory_bytes = (size_t)256 * MIB, .output_bytes = 1000
};

static struct buf out;
static struct error err;

static int set_up(void **state)
{
    (void)state;
    buf_init(&out, 0);
    err = (struct error){ 0 };
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_release(&out);
    return 0;
}

static enum errc run_with(const struct child_limits *with, const char *const *argv)
{
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    enum errc rc;

    assert_true(input >= 0);
    rc = child_run(argv, input, with, &out, &err);
    close(input);
    return rc;
}

static enum errc run(const char *script)
{
    return run_with(&limits, (const char *const[]){ "sh", "-c", script, NULL });
}

static void the_output_comes_back(void **state)
{
    (void)state;
    assert_int_equal(run_with(&limits, (const char *const[]){ "echo", "a; $HOME", NULL }), OK);
    assert_int_equal(run("echo b"), OK);
    assert_true(slice_is(buf_slice(&out), "a; $HOME\nb\n"));
}

static void a_failure_gives_its_first_line(void **state)
{
    (void)state;
    assert_int_equal(run("echo half; echo; echo no good >&2; echo more >&2; exit 3"), ERR_INVALID);
    assert_string_equal(err.text, "no good");
    assert_int_equal(run("exit 3"), ERR_INVALID);
    assert_string_equal(err.text, "sh ended with status 3");
}

static void a_missing_program_is_named(void **state)
{
    (void)state;
    assert_int_equal(run_with(&limits, (const char *const[]){ "no-such-program", NULL }),
                     ERR_INVALID);
    assert_string_equal(err.text, "no-such-program is not installed");
}

static void a_crash_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(run("kill -SEGV $$"), ERR_INVALID);
    assert_string_equal(err.text, "sh crashed (signal 11)");
}

static void an_endless_loop_ends(void **state)
{
    (void)state;
    assert_int_equal(run("while :; do :; done"), ERR_LIMIT);
    assert_string_equal(err.text, "sh took more than 1 s of computing");
}

static void waiting_ends(void **state)
{
    struct child_limits hasty = limits;

    (void)state;
    hasty.wall_s = 1;
    assert_int_equal(run_with(&hasty, (const char *const[]){ "sleep", "1000", NULL }), ERR_LIMIT);
    assert_string_equal(err.text, "sleep took more than 1 s");
}

static void closing_the_output_does_not_help(void **state)
{
    struct child_limits hasty = limits;
    static const char *const argv[] = { "sh", "-c", "exec sleep 1000 >&- 2>&-", NULL };

    (void)state;
    hasty.wall_s = 1;
    assert_int_equal(run_with(&hasty, argv), ERR_LIMIT);
}

static void too_much_output_is_refused(void **state)
{
    (void)state;
    assert_int_equal(run("printf %01000d 0"), OK);
    assert_int_equal(out.len, 1000);
    assert_int_equal(run("while :; do echo x; done"), ERR_LIMIT);
    assert_non_null(strstr(err.text, "1000 bytes"));
}

static void files_cannot_be_written(void **state)
{
    char path[] = "/tmp/themis-child-XXXXXX", script[200];
    int file = mkstemp(path);

    (void)state;
    assert_true(file >= 0);
    snprintf(script, sizeof script, "trap '' XFSZ; echo x 2>/dev/null > %s || true", path);
    assert_int_equal(run(script), OK);
    assert_int_equal(lseek(file, 0, SEEK_END), 0);
    close(file);
    unlink(path);
}

static void open_files_are_not_inherited(void **state)
{
    int file = dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 9);

    (void)state;
    assert_int_equal(file, 9);
    assert_int_equal(run("(: <&9) 2>/dev/null && echo open || echo closed"), OK);
    assert_true(slice_is(buf_slice(&out), "closed\n"));
    close(file);
}

static void memory_has_a_limit(void **state)
{
    (void)state;
#ifdef THEMIS_SANITIZED
    skip(); /* address space is not limited there */
#endif
    assert_int_equal(run("ulimit -v"), OK);
    assert_true(slice_is(buf_slice(&out), "262144\n"));
}

static void a_program_has_no_environment(void **state)
{
    (void)state;
    setenv("THEMIS_PASSWORD", "secret", 1);
    assert_int_equal(run_with(&limits, (const char *const[]){ "env", NULL }), OK);
    assert_null(strstr(buf_cstr(&out), "secret"));
    assert_non_null(strstr(buf_cstr(&out), "PATH="));
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_output_comes_back),
        TEST(a_failure_gives_its_first_line),
        TEST(a_missing_program_is_named),
        TEST(a_crash_is_an_error),
        TEST(an_endless_loop_ends),
        TEST(waiting_ends),
        TEST(closing_the_output_does_not_help),
        TEST(too_much_output_is_refused),
        TEST(files_cannot_be_written),
        TEST(open_files_are_not_inherited),
        TEST(memory_has_a_limit),
        TEST(a_program_has_no_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
