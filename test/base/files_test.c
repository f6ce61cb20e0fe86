/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "base/files.h"
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs body in a process of its own, because a hard limit does not come back. */
static void apart(void (*body)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void set_limit(rlim_t soft, rlim_t hard)
{
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){ soft, hard }))
        _exit(77);
}

static void need(bool claim)
{
    if (!claim)
        _exit(1);
}

static void with_four_thousand(void)
{
    struct error err = { 0 };

    set_limit(512, 4000);
    need(files_raise(&err) == OK);
    need(files_for_store() == 1000);
    need(files_for_connections(100) == 100);
    need(files_for_connections(5000) == 4000 - 1000 - 192);
}

static void with_the_least(void)
{
    struct error err = { 0 };

    set_limit(FILES_MIN, FILES_MIN);
    need(files_raise(&err) == OK);
    need(files_for_store() == 80);
    need(files_for_connections(5000) == FILES_MIN - 80 - 192);
}

static void with_too_few(void)
{
    struct error err = { 0 };

    set_limit(256, 256);
    need(files_raise(&err) == ERR_INVALID);
    need(strstr(err.text, "256") && strstr(err.text, "LimitNOFILE"));
}

static void the_limit_is_raised_and_shared(void **state)
{
    (void)state;
    apart(with_four_thousand);
    apart(with_the_least);
}

static void too_low_a_limit_is_refused(void **state)
{
    (void)state;
    apart(with_too_few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_is_raised_and_shared),
        cmocka_unit_test(too_low_a_limit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
