/* SPDX-License-Identifier: Apache-2.0 */
#include "server/key_meter.h"

#include "../check.h"
#include "base/fault.h"
#include "base/log.h"

struct fixture {
    struct settings settings;
    struct store *store;
    struct env_test env;
    struct key_meters *all;
    struct error err;
};

#define MUST(f, call)                                                                              \
    do {                                                                                           \
        if ((call) != OK)                                                                          \
            fail_msg("%s", (f)->err.text);                                                         \
    } while (0)

static const uint64_t SECOND = 1000000;

static int setup(void **out)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    log_set_level(LOG_ERROR);
    settings_init(&f->settings);
    env_test_init(&f->env, 1);
    MUST(f, store_open(&f->store, &(struct store_options){ .settings = &f->settings }, &f->err));
    MUST(f, key_meters_open(&f->all, f->store, &f->env.env, &f->err));
    *out = f;
    return 0;
}

static int teardown(void **out)
{
    struct fixture *f = *out;
    key_meters_close(f->all);
    store_close(f->store);
    mem_free(f);
    return 0;
}

static struct key_meter *meter(struct fixture *f, const char *user, int64_t id,
                               struct token_limits limits)
{
    struct token_facts facts = { .id = id, .scopes = SCOPE_ALL, .limits = limits };
    return key_meter_get(f->all, slice_str(user), &facts);
}

static enum errc ask(struct key_meter *m, uint64_t tokens)
{
    struct gen_payer *p = key_meter_payer(m);
    struct error err;
    enum errc rc = p->admit(p, &err);
    if (rc == OK)
        p->charge(p, tokens);
    return rc;
}

static void requests_come_back_with_time(void **out)
{
    struct fixture *f = *out;
    struct key_meter *m = meter(f, "ann", 1, (struct token_limits){ .requests_per_minute = 6 });
    for (int i = 0; i < 6; i++)
        MUST(f, key_meter_take(m, &f->err));
    assert_int_equal(key_meter_take(m, &f->err), ERR_TOO_MANY);
    assert_int_equal(error_http(&f->err), 429);
    assert_non_null(strstr(f->err.text, "6 requests a minute"));
    assert_int_equal(key_meter_wait_s(m), 10);
    env_test_advance(&f->env, 9 * SECOND);
    assert_int_equal(key_meter_take(m, &f->err), ERR_TOO_MANY);
    assert_int_equal(key_meter_wait_s(m), 1);
    env_test_advance(&f->env, 1 * SECOND);
    MUST(f, key_meter_take(m, &f->err));
    env_test_advance(&f->env, 3600 * SECOND); /* never more than a minute's worth */
    for (int i = 0; i < 6; i++)
        MUST(f, key_meter_take(m, &f->err));
    assert_int_equal(key_meter_take(m, &f->err), ERR_TOO_MANY);
    key_meter_unref(m);
}

static void a_debt_of_tokens_is_paid_off(void **out)
{
    struct fixture *f = *out;
    struct key_meter *m = meter(f, "ann", 1, (struct token_limits){ .tokens_per_minute = 60 });
    struct key_meter *other = meter(f, "ann", 2, (struct token_limits){ .tokens_per_minute = 60 });
    assert_int_equal(ask(m, 90), OK); /* is known only afterwards */
    assert_int_equal(ask(m, 1), ERR_TOO_MANY);
    assert_int_equal(key_meter_wait_s(m), 31);
    assert_int_equal(ask(other, 1), OK);
    env_test_advance(&f->env, 30 * SECOND);
    assert_int_equal(ask(m, 1), ERR_TOO_MANY);
    env_test_advance(&f->env, 1 * SECOND);
    assert_int_equal(ask(m, 1), OK);
    key_meter_unref(m);
    key_meter_unref(other);
}

static void reopen(struct fixture *f)
{
    MUST(f, key_meters_save(f->all, &f->err));
    key_meters_close(f->all);
    MUST(f, key_meters_open(&f->all, f->store, &f->env.env, &f->err));
}

static void a_day_is_kept_across_a_restart_and_ends(void **out)
{
    struct fixture *f = *out;
    struct token_limits limits = { .tokens_per_day = 100 };
    struct key_meter *m = meter(f, "\xC3\xA4nn", 7, limits);
    assert_int_equal(ask(m, 60), OK);
    key_meter_unref(m);
    assert_false(key_meters_are_due(f->all)); /* not at once */
    env_test_advance(&f->env, 6 * SECOND);
    assert_true(key_meters_are_due(f->all));
    reopen(f);
    assert_false(key_meters_are_due(f->all));
    m = meter(f, "\xC3\xA4nn", 7, limits);
    assert_int_equal(key_meter_today(f->all, slice_str("\xC3\xA4nn"), 7), 60);
    assert_int_equal(key_meter_today(f->all, slice_str("ann"), 7), 0);
    assert_int_equal(ask(m, 60), OK);
    assert_int_equal(ask(m, 1), ERR_TOO_MANY);
    uint64_t left_us = 86400 * SECOND - env_wall_us(&f->env.env) % (86400 * SECOND);
    assert_int_equal(key_meter_wait_s(m), (left_us + SECOND - 1) / SECOND);
    env_test_advance(&f->env, left_us);
    assert_int_equal(ask(m, 1), OK);
    assert_int_equal(key_meter_today(f->all, slice_str("\xC3\xA4nn"), 7), 1);
    key_meter_unref(m);
    reopen(f);
    assert_int_equal(key_meter_today(f->all, slice_str("\xC3\xA4nn"), 7), 1);
}

/* Ids are given again when the newest token was removed. */
static void another_token_of_the_id_begins_anew(void **out)
{
    struct fixture *f = *out;
    struct token_facts facts = { .id = 1,
                                 .created_s = 1000,
                                 .scopes = SCOPE_ALL,
                                 .limits = { .tokens_per_day = 10, .requests_per_minute = 1 } };
    struct key_meter *m = key_meter_get(f->all, slice_str("ann"), &facts);
    MUST(f, key_meter_take(m, &f->err));
    assert_int_equal(ask(m, 20), OK);
    assert_int_equal(ask(m, 1), ERR_TOO_MANY);
    key_meter_unref(m);
    reopen(f);
    m = key_meter_get(f->all, slice_str("ann"), &facts);
    assert_int_equal(ask(m, 1), ERR_TOO_MANY);
    key_meter_unref(m);
    facts.created_s = 2000;
    m = key_meter_get(f->all, slice_str("ann"), &facts);
    MUST(f, key_meter_take(m, &f->err));
    assert_int_equal(ask(m, 1), OK);
    assert_int_equal(key_meter_today(f->all, slice_str("ann"), 1), 1);
    key_meter_unref(m);
}

static void without_the_scope_no_model_answers(void **out)
{
    struct fixture *f = *out;
    struct token_facts facts = { .id = 3, .scopes = SCOPE_DATA };
    struct key_meter *m = key_meter_get(f->all, slice_str("ann"), &facts);
    assert_int_equal(ask(m, 1), ERR_FORBIDDEN);
    MUST(f, key_meter_take(m, &f->err));
    key_meter_unref(m);
}

/* A million keys made and removed again are not a million meters. */
static void meters_that_tell_nothing_are_dropped(void **out)
{
    struct fixture *f = *out;
    struct token_limits limits = { .requests_per_minute = 10 };
    for (int64_t id = 1; id <= 20000; id++) {
        struct key_meter *m = meter(f, "ann", id, limits);
        MUST(f, key_meter_take(m, &f->err));
        key_meter_unref(m);
        env_test_advance(&f->env, SECOND);
    }
    assert_true(key_meters_count(f->all) < 8300);
    struct key_meter *last = meter(f, "ann", 20000, limits); /* is still known */
    for (int i = 0; i < 9; i++)
        MUST(f, key_meter_take(last, &f->err));
    assert_int_equal(key_meter_take(last, &f->err), ERR_TOO_MANY);
    key_meter_unref(last);
}

static void a_store_that_fails_loses_nothing_of_the_day(void **out)
{
    struct fixture *f = *out;
    struct key_meter *m = meter(f, "ann", 1, (struct token_limits){ .tokens_per_day = 100 });
    assert_int_equal(ask(m, 60), OK);
    key_meter_unref(m);
    fault_arm("kv.full", 1);
    assert_int_not_equal(key_meters_save(f->all, &f->err), OK);
    fault_arm("", 0);
    env_test_advance(&f->env, 6 * SECOND);
    assert_true(key_meters_are_due(f->all));
    reopen(f);
    assert_int_equal(key_meter_today(f->all, slice_str("ann"), 1), 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requests_come_back_with_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_debt_of_tokens_is_paid_off, setup, teardown),
        cmocka_unit_test_setup_teardown(a_day_is_kept_across_a_restart_and_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(another_token_of_the_id_begins_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(without_the_scope_no_model_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(meters_that_tell_nothing_are_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_that_fails_loses_nothing_of_the_day, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
