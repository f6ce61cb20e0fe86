/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "base/settings.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void refused(const char *pair, const char *says)
{
    struct settings s;
    struct error err = { 0 };

    settings_init(&s);
    assert_int_equal(settings_set_pair(&s, pair, &err), ERR_INVALID);
    assert_string_equal(err.text, says);
}

static void defaults_are_those_of_the_table(void **state)
{
    struct settings s;

    (void)state;
    settings_init(&s);
    assert_string_equal(s.log_level, "info");
    assert_int_equal(s.max_batch_size, 256);
    assert_true(s.sync_writes && !s.auth);
    assert_true(s.retrieve_min_score == 0.35);
    assert_string_equal(s.chat_model, "");
}

static void values_of_every_type_are_set(void **state)
{
    struct settings s;

    (void)state;
    settings_init(&s);
    assert_int_equal(settings_set_pair(&s, "workers=12", NULL), OK);
    assert_int_equal(settings_set_pair(&s, "retrieve_min_score=-0.5", NULL), OK);
    assert_int_equal(settings_set_pair(&s, "auth=on", NULL), OK);
    assert_int_equal(settings_set_pair(&s, "sync_writes=false", NULL), OK);
    assert_int_equal(settings_set_pair(&s, "chat_model=a=b", NULL), OK);
    assert_int_equal(s.workers, 12);
    assert_true(s.retrieve_min_score == -0.5);
    assert_true(s.auth && !s.sync_writes);
    assert_string_equal(s.chat_model, "a=b");
    assert_int_equal(settings_set_pair(&s, "chat_model=", NULL), OK);
    assert_string_equal(s.chat_model, "");
    assert_int_equal(settings_set(&s, slice_of("workersX", 7), slice_of("34", 1), NULL), OK);
    assert_int_equal(s.workers, 3);
}

static void a_wrong_setting_is_told_what_is_allowed(void **state)
{
    char longest[SETTING_STRING_BYTES + 20] = "models_dir=";

    (void)state;
    refused("foo=1", "unknown setting 'foo'; see themisd --help-settings");
    refused("max_batch_size=300", "max_batch_size must be 1..256 (got 300)");
    refused("max_batch_size=0", "max_batch_size must be 1..256 (got 0)");
    refused("workers=abc", "workers must be 0..256 (got abc)");
    refused("workers=", "workers must be 0..256 (got )");
    refused("workers=1.5", "workers must be 0..256 (got 1.5)");
    refused("workers=99999999999999999999", "workers must be 0..256 (got 99999999999999999999)");
    refused("retrieve_min_score=nan", "retrieve_min_score must be -1..1 (got nan)");
    refused("retrieve_min_score=2", "retrieve_min_score must be -1..1 (got 2)");
    refused("auth=maybe", "auth must be on or off (got maybe)");
    refused("auth", "a setting is given as name=value (got 'auth')");
    memset(longest + 11, 'x', SETTING_STRING_BYTES);
    refused(longest, "models_dir is longer than 511 bytes");
}

static char path[] = "/tmp/settings_test_XXXXXX";

static enum errc load(const char *text, struct settings *s, struct error *err)
{
    FILE *f = fopen(path, "w");

    fputs(text, f);
    fclose(f);
    settings_init(s);
    return settings_load(s, path, err);
}

static void a_file_is_read(void **state)
{
    struct settings s;

    (void)state;
    assert_int_equal(load("# comment\n[server]\nworkers = 3\n  auth = on # why not\n\n"
                          "log_level=debug\n\tmodels_dir = /srv/my models\n; end",
                          &s, NULL),
                     OK);
    assert_int_equal(s.workers, 3);
    assert_true(s.auth);
    assert_string_equal(s.log_level, "debug");
    assert_string_equal(s.models_dir, "/srv/my models");
    assert_int_equal(load("", &s, NULL), OK);
}

static void a_bad_file_is_told_the_line(void **state)
{
    struct settings s;
    struct error err = { 0 };
    char text[400] = "workers = 3\nmodels_dir = ";

    (void)state;
    assert_int_equal(load("\n\nworkers = 300\nauth = on\n", &s, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, " line 3: workers must be 0..256 (got 300)"));
    assert_int_equal(load("workers = 3\nnonsense\n", &s, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, " line 2 is not \"name = value\""));
    memset(text + strlen(text), 'x', 250);
    assert_int_equal(load(text, &s, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, " line 2 is too long"));
    assert_int_equal(settings_load(&s, "/nowhere/themis.conf", &err), ERR_INVALID);
    assert_string_equal(err.text, "cannot read the settings file /nowhere/themis.conf: "
                                  "No such file or directory");
}

static void the_help_lists_every_setting(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 0);
    settings_print_help(&out);
    assert_non_null(strstr(buf_cstr(&out), "max_body_bytes (whole number, 1024..1073741824 bytes, "
                                           "default 67108864)\n    Largest request body"));
    assert_non_null(strstr(buf_cstr(&out), "sync_writes (on or off, default on)"));
    assert_non_null(strstr(buf_cstr(&out), "models_dir (text, default empty)"));
    buf_release(&out);
}

static int setup(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(values_of_every_type_are_set),
        cmocka_unit_test(a_wrong_setting_is_told_what_is_allowed),
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(a_bad_file_is_told_the_line),
        cmocka_unit_test(the_help_lists_every_setting),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
