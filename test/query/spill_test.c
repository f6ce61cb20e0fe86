/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"
#include "query/spill.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../check.h"

enum { ROWS = 3000, KINDS = 200 };

struct world {
    struct spill_space space;
    struct arena *arena;
};

static const bool directions[] = { false, true };
static const struct spill_order order = { .keys = 2, .values = 1, .descending = directions };

static int setup(void **state)
{
    struct world *w = mem_zalloc(sizeof *w);
    char dir[] = "/tmp/themis-spill-XXXXXX";
    struct error err = { 0 };

    assert_non_null(mkdtemp(dir));
    assert_int_equal(spill_space_open(&w->space, dir, &err), OK);
    w->space.memory_bytes = 8 * KIB;
    w->space.max_bytes = 16 * MIB;
    w->arena = arena_new(0);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    assert_int_equal(atomic_load(&w->space.used_bytes), 0);
    assert_int_equal(rmdir(w->space.dir), 0); /* nothing is left in it */
    arena_free(w->arena);
    mem_free(w);
    return 0;
}

/* The i-th row: two keys of few values, and its number. */
static void make_row(struct arena *arena, int i, struct val row[3])
{
    row[0] = val_new_int(arena, i * 7919 % KINDS / 20);
    row[1] = val_new_string(arena, slice_str(arena_printf(arena, "k%02d", i * 7919 % KINDS % 20)));
    row[2] = val_new_int(arena, i);
}

static enum errc add_rows(struct spill *s, struct arena *arena, struct error *err)
{
    struct val row[3];
    enum errc rc = OK;

    for (int i = 0; rc == OK && i < ROWS; i++) {
        make_row(arena, i, row);
        rc = spill_add(s, row, row + 2, err);
    }
    return rc == OK ? spill_finish(s, err) : rc;
}

/* Reads all rows and checks that each comes behind the one before. */
static enum errc read_rows(struct spill *s, size_t *count, struct error *err)
{
    int64_t first = -1, number = -1;
    char second[8] = "~";
    struct val *row;
    enum errc rc = OK;

    for (*count = 0; (rc = spill_next(s, &row, err)) == OK && row; ++*count) {
        struct slice key = val_string(row[1]);
        char text[8];
        snprintf(text, sizeof text, "%.*s", SLICE_ARG(key));
        int order_of_second = strcmp(second, text);
        assert_true(val_int(row[0]) >= first);
        if (val_int(row[0]) == first) {
            assert_true(order_of_second >= 0);
            assert_true(order_of_second > 0 || val_int(row[2]) > number);
        }
        first = val_int(row[0]);
        number = val_int(row[2]);
        memcpy(second, text, sizeof second);
    }
    return rc;
}

static void rows_come_sorted_and_equal_ones_in_their_order(void **state)
{
    struct world *w = *state;
    struct error err = { 0 };
    size_t count;

    for (int on_disk = 0; on_disk < 2; on_disk++) {
        w->space.memory_bytes = on_disk ? 8 * KIB : 64 * MIB;
        struct spill *s = spill_new(&w->space, &order, w->arena);
        assert_int_equal(add_rows(s, w->arena, &err), OK);
        assert_int_equal(atomic_load(&w->space.used_bytes) > 0, on_disk);
        assert_int_equal(read_rows(s, &count, &err), OK);
        assert_int_equal(count, ROWS);
        spill_free(s);
    }
}

static void a_row_may_be_larger_than_a_block(void **state)
{
    struct world *w = *state;
    struct error err = { 0 };
    char *text = mem_zalloc(300 * KIB + 1);
    struct val row[3], *out;
    struct spill *s = spill_new(&w->space, &order, w->arena);

    memset(text, 'x', 300 * KIB);
    for (int i = 0; i < 4; i++) {
        make_row(w->arena, 3 - i, row);
        row[2] = val_new_string(w->arena, slice_str(text));
        assert_int_equal(spill_add(s, row, row + 2, &err), OK);
    }
    assert_int_equal(spill_finish(s, &err), OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(spill_next(s, &out, &err), OK);
        assert_non_null(out);
        assert_int_equal(val_string(out[2]).len, 300 * KIB);
    }
    assert_int_equal(spill_next(s, &out, &err), OK);
    assert_null(out);
    spill_free(s);
    mem_free(text);
}

static void files_have_a_limit(void **state)
{
    struct world *w = *state;
    struct error err = { 0 };
    struct spill *s = spill_new(&w->space, &order, w->arena);

    w->space.max_bytes = 20 * KIB;
    assert_int_equal(add_rows(s, w->arena, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, "spill_max_mb"));
    spill_free(s);
}

static void a_failing_disk_is_reported(void **state)
{
    static const struct {
        const char *point;
        enum errc rc;
    } cases[] = { { "spill.open", ERR_IO },
                  { "spill.write", ERR_LIMIT },
                  { "spill.read", ERR_IO } };
    struct world *w = *state;
    size_t count;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error err = { 0 };
        struct spill *s = spill_new(&w->space, &order, w->arena);
        fault_arm(cases[i].point, 1);
        enum errc rc = add_rows(s, w->arena, &err);
        if (rc == OK)
            rc = read_rows(s, &count, &err);
        fault_arm("", 0);
        assert_int_equal(rc, cases[i].rc);
        assert_int_equal(err.code, cases[i].rc);
        spill_free(s);
        assert_int_equal(atomic_load(&w->space.used_bytes), 0);
    }
}

static void what_a_crash_left_is_removed(void **state)
{
    struct world *w = *state;
    struct error err = { 0 };
    char path[200];

    snprintf(path, sizeof path, "%.150s/spill.abc", w->space.dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    char dir[200];
    snprintf(dir, sizeof dir, "%.150s", w->space.dir);
    assert_int_equal(spill_space_open(&w->space, dir, &err), OK);
    assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_come_sorted_and_equal_ones_in_their_order, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_row_may_be_larger_than_a_block, setup, teardown),
        cmocka_unit_test_setup_teardown(files_have_a_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failing_disk_is_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_crash_left_is_removed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
