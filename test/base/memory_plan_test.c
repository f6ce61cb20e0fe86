/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory_plan.h"

#include "../check.h"

static void without_a_budget_each_part_has_its_own_limit(void **state)
{
    struct memory_plan p;
    struct settings s;
    struct error err = { 0 };
    bool is_over;
    (void)state;
    settings_init(&s);
    memory_plan_make(&p, &s, 16 * GIB);
    assert_int_equal(p.models, 8 * GIB);
    assert_int_equal(p.vectors, 2 * GIB);
    assert_int_equal(p.queries, 2 * GIB);
    assert_int_equal(memory_plan_sum(&p), 12 * GIB + 768 * (uint64_t)MIB);
    assert_int_equal(memory_plan_check(&p, &is_over, &err), OK);
    assert_false(is_over);
    memory_plan_make(&p, NULL, 16 * GIB);
    assert_int_equal(p.models, 8 * GIB);
    memory_plan_make(&p, &s, 2 * GIB); /* half, two eighths and 768 MiB */
    assert_int_equal(memory_plan_check(&p, &is_over, &err), OK);
    assert_true(is_over);
    s.query_total_mb = 20000;
    memory_plan_make(&p, &s, 16 * GIB);
    assert_int_equal(memory_plan_check(&p, &is_over, &err), OK);
    assert_true(is_over);
}

static void a_budget_is_divided_and_never_passed(void **state)
{
    struct memory_plan p;
    struct settings s;
    struct error err = { 0 };
    bool is_over;
    (void)state;
    for (int64_t mib = 1000; mib < 100000; mib = mib * 5 / 4) {
        settings_init(&s);
        s.memory_budget_mb = mib;
        memory_plan_make(&p, &s, 64 * GIB);
        assert_int_equal(memory_plan_check(&p, &is_over, &err), OK);
        assert_in_range(memory_plan_sum(&p), (uint64_t)mib * MIB - 8, (uint64_t)mib * MIB);
        s.vector_memory_mb = 300;
        memory_plan_make(&p, &s, 64 * GIB);
        assert_int_equal(p.vectors, 300 * MIB);
        assert_true(memory_plan_sum(&p) <= (uint64_t)mib * MIB);
        assert_in_range(p.models, 2 * p.queries - 8, 2 * p.queries + 8);
    }
}

static void a_budget_that_is_too_small_is_refused(void **state)
{
    struct memory_plan p;
    struct settings s;
    struct error err = { 0 };
    bool is_over;
    (void)state;
    settings_init(&s);
    s.memory_budget_mb = 500; /* memtables and window take 512 */
    memory_plan_make(&p, &s, 64 * GIB);
    assert_int_equal(memory_plan_check(&p, &is_over, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "memory_budget_mb=500"));
    s.memory_budget_mb = 2000;
    s.model_memory_mb = 1450;
    memory_plan_make(&p, &s, 64 * GIB);
    assert_int_equal(memory_plan_check(&p, &is_over, &err), ERR_INVALID);
    s.block_cache_mb = s.query_total_mb = s.vector_memory_mb = 100;
    s.model_memory_mb = 1200;
    memory_plan_make(&p, &s, 64 * GIB);
    assert_int_equal(memory_plan_check(&p, &is_over, &err), ERR_INVALID);
    s.model_memory_mb = 1000;
    memory_plan_make(&p, &s, 64 * GIB);
    assert_int_equal(memory_plan_check(&p, &is_over, &err), OK);
}

static void the_parts_are_told_with_their_settings(void **state)
{
    struct memory_plan p;
    struct buf text;
    (void)state;
    memory_plan_make(&p, NULL, 16 * GIB);
    buf_init(&text, 0);
    memory_plan_print(&p, &text);
    assert_string_equal(buf_cstr(&text),
                        "models 8192 MiB (model_memory_mb), queries 2048 MiB (query_total_mb), "
                        "vector indexes 2048 MiB (vector_memory_mb), block cache 256 MiB "
                        "(block_cache_mb), memtables 256 MiB (memtables_mb), conflict window 256 "
                        "MiB (window_mb)");
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_budget_each_part_has_its_own_limit),
        cmocka_unit_test(a_budget_is_divided_and_never_passed),
        cmocka_unit_test(a_budget_that_is_too_small_is_refused),
        cmocka_unit_test(the_parts_are_told_with_their_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
