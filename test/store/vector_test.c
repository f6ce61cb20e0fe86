/* SPDX-License-Identifier: Apache-2.0 */
#include "vector_fixture.h"

#include <pthread.h>

#include "base/fault.h"
#include "store/vector_rows.h"

enum { SMALL_HEAD = 64 };

static void open_with(struct fixture *f, bool on_disk, int head_rows)
{
    fixture_init(f, on_disk);
    store_close(f->store);
    f->settings.vector_head_rows = head_rows;
    fixture_open(f);
    random_state = 7;
}

static int setup(void **out)
{
    struct fixture *f = calloc(1, sizeof *f);
    open_with(f, true, SMALL_HEAD);
    *out = f;
    return 0;
}

static int teardown(void **out)
{
    fault_disarm();
    fixture_release(*out);
    free(*out);
    return 0;
}

/* ---- row versions ---- */

static void a_row_version_lives_from_birth_to_death(void **out)
{
    _Atomic int64_t charge = 0;
    const float vector[2] = { 3, 4 };
    (void)out;
    struct vector_rows *r = vector_rows_new(2, 3, true, &charge);
    assert_true(vector_rows_add(r, slice_str("..a"), 5, VECTOR_ALIVE, vector));
    assert_true(vector_rows_kill(r, slice_str("..a"), 8));
    assert_false(vector_rows_kill(r, slice_str("..a"), 9)); /* dead already */
    assert_false(vector_rows_kill(r, slice_str("..b"), 9));
    assert_true(vector_rows_add(r, slice_str("..a"), 8, VECTOR_ALIVE, vector));
    assert_int_equal(vector_rows_find(r, slice_str("..a")), 1);
    const struct vector_entry *first = vector_rows_entry(r, 0), *second = vector_rows_entry(r, 1);
    for (uint64_t seq = 0; seq < 12; seq++) {
        assert_int_equal(vector_entry_visible(first, seq), seq >= 5 && seq < 8);
        assert_int_equal(vector_entry_visible(second, seq), seq >= 8);
    }
    assert_true(vector_rows_add(r, slice_str("..c"), 9, VECTOR_ALIVE, vector));
    assert_false(vector_rows_add(r, slice_str("..d"), 9, VECTOR_ALIVE, vector)); /* full */
    assert_memory_equal(vector_rows_vector(r, 2), vector, sizeof vector);
    assert_int_equal(atomic_load(&r->dead), 1);
    assert_true(charge > 0);
    vector_rows_unref(r);
    assert_int_equal(charge, 0);
}

static void many_rows_are_found_by_id(void **out)
{
    enum { MANY = 5000 };
    _Atomic int64_t charge = 0;
    char id[16];
    (void)out;
    struct vector_rows *r = vector_rows_new(1, MANY, true, &charge);
    for (int i = 0; i < MANY; i++) {
        float value = (float)i;
        snprintf(id, sizeof id, "..%d", i);
        assert_true(vector_rows_add(r, slice_str(id), 1, VECTOR_ALIVE, &value));
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(id, sizeof id, "..%d", i);
        assert_int_equal(vector_rows_find(r, slice_str(id)), i);
        assert_true(*vector_rows_vector(r, (size_t)i) == (float)i);
    }
    assert_int_equal(vector_rows_find(r, slice_str("..x")), SIZE_MAX);
    vector_rows_unref(r);
}

/* ---- the index follows its documents ---- */

static bool is_odd(int64_t tag)
{
    return tag % 2 == 1;
}

enum { KEYS = 400 };

/* One random transaction; sometimes it is undone in part, or whole. */
static void change_something(struct fixture *f)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    size_t mark = 0;
    unsigned steps = 1 + random_u32() % 20;
    for (unsigned i = 0; i < steps; i++) {
        unsigned number = random_u32() % KEYS;
        if (random_u32() % 3) {
            OK_OR_FAIL(put_random(f, t, number), &f->err);
        } else {
            char key[16];
            struct doc_change change;
            snprintf(key, sizeof key, "%u", number);
            enum errc rc =
                doc_remove(t, in(f, t, "c"), slice_str(key), NULL, f->arena, &change, &f->err);
            assert_true(rc == OK || rc == ERR_NOT_FOUND);
        }
        if (i == steps / 2)
            mark = txn_mark(t);
    }
    must_be_exact(f, t, NULL); /* own writes */
    if (random_u32() % 4 == 0) {
        txn_rewind(t, mark);
        must_be_exact(f, t, is_odd);
    }
    if (random_u32() % 5)
        OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
}

/* Small sets are compared row by row, so the answers must be the truth itself. */
static void answers_are_exact_in_every_view_while_segments_come_and_go(void **out)
{
    enum { OLD = 6, ROUNDS = 250 };
    struct fixture *f = *out;
    struct txn *old[OLD] = { NULL };
    make_vector_index(f, make_collection(f, "c", COLLECTION_DOCUMENT), "l2");
    for (int round = 0; round < ROUNDS; round++) {
        change_something(f);
        size_t at = random_u32() % OLD;
        if (round % 7 == 0) {
            txn_end(old[at]);
            old[at] = begin(f, ISOLATION_SNAPSHOT);
        }
        if (round % 40 == 0) {
            struct txn *t = begin(f, ISOLATION_SNAPSHOT);
            vector_merge(f->store, vector_index_of(f, t));
            txn_end(t);
        }
        if (round % 25 == 0)
            vector_settle(f->store);
        if (old[at])
            must_be_exact(f, old[at], round % 2 ? is_odd : NULL);
        struct txn *now = begin(f, ISOLATION_SNAPSHOT);
        must_be_exact(f, now, round % 3 ? NULL : is_odd);
        txn_end(now);
    }
    struct vector_figures figures = figures_of(f);
    assert_string_equal(figures.state, "warm");
    assert_true(figures.builds > 3);
    for (size_t i = 0; i < OLD; i++) {
        if (old[i])
            must_be_exact(f, old[i], NULL);
        txn_end(old[i]);
    }
}

static void a_reopened_index_is_exact_again(void **out)
{
    struct fixture *f = *out;
    make_vector_index(f, make_collection(f, "c", COLLECTION_DOCUMENT), "l2");
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 12; i++)
            change_something(f);
        if (round % 3 == 1)
            vector_settle(f->store);
        fixture_reopen(f);
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        must_be_exact(f, t, NULL); /* cold or opening */
        vector_settle(f->store);
        must_be_exact(f, t, NULL);
        must_be_exact(f, t, is_odd);
        txn_end(t);
    }
    struct vector_figures figures = figures_of(f);
    assert_string_equal(figures.state, "warm");
    assert_int_equal(figures.rebuilds, 0);
    assert_true(figures.segment_rows > 0);
}

/* ---- graphs ---- */

enum { MANY = 6000 };

static bool is_one_in_2(int64_t tag)
{
    return tag % 2 == 0;
}
static bool is_one_in_10(int64_t tag)
{
    return tag % 10 == 3;
}
static bool is_one_in_100(int64_t tag)
{
    return tag % 100 == 7;
}
static bool is_one_in_1000(int64_t tag)
{
    return tag % 1000 == 1;
}
static bool is_none(int64_t tag)
{
    return tag < 0;
}

static void fill_one_segment(struct fixture *f)
{
    make_vector_index(f, make_collection(f, "c", COLLECTION_DOCUMENT), "l2");
    put_many(f, 0, MANY);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    vector_settle(f->store);
    vector_merge(f->store, vector_index_of(f, t));
    vector_settle(f->store);
    txn_end(t);
    struct vector_figures figures = figures_of(f);
    assert_int_equal(figures.segments, 1);
    assert_int_equal(figures.segment_rows, MANY);
    assert_int_equal(figures.head_rows, 0);
}

/* LIMIT k is k rows under any filter, and nearly always the true ones. */
static void k_rows_come_under_any_filter(void **out)
{
    static const tag_filter filters[] = { NULL,          is_one_in_2,    is_one_in_10,
                                          is_one_in_100, is_one_in_1000, is_none };
    struct fixture *f = *out;
    fill_one_segment(f);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        size_t k = filters[i] == is_one_in_1000 ? 6 : 10;
        size_t percent = recall_of(f, t, filters[i] == is_none ? 1 : 20, k, filters[i]);
        assert_true(filters[i] == is_none ? percent == 0 : percent >= 95);
    }
    txn_end(t);
}

/* What another index selects is compared alone when it is little: the filter is asked no more. */
static void few_selected_rows_are_compared_alone(void **out)
{
    struct fixture *f = *out;
    float query[DIMENSION] = { 0.5f };
    fill_one_segment(f);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    selects = false; /* the next question selects */
    filter_calls = 0;
    assert_int_equal(ask(f, t, query, 10, is_one_in_100).count, 10);
    assert_true(filter_calls >= 10 && filter_calls <= MANY / 100);
    filter_calls = 0;
    assert_int_equal(ask(f, t, query, 10, is_one_in_100).count, 10);
    assert_true(filter_calls > MANY / 100);
    OK_OR_FAIL(put_random(f, t, 7), &f->err); /* own writes count, in both ways */
    must_be_exact(f, t, is_one_in_100);
    must_be_exact(f, t, is_one_in_100);
    txn_end(t);
}

/* A graph keeps its dead rows; whoever asks for the middle of them still gets k. */
static void dead_rows_do_not_take_the_place_of_living_ones(void **out)
{
    enum { GONE = MANY / 6 };
    struct fixture *f = *out;
    float query[DIMENSION] = { 0 };
    fill_one_segment(f);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    for (int i = 0; i < GONE; i++) { /* the nearest ones */
        char key[16];
        struct doc_change change;
        struct found one = ask(f, t, query, 1, NULL);
        snprintf(key, sizeof key, "%u", one.numbers[0]);
        OK_OR_FAIL(doc_remove(t, in(f, t, "c"), slice_str(key), NULL, f->arena, &change, &f->err),
                   &f->err);
    }
    assert_int_equal(check_answer(f, t, query, 10, NULL), 10); /* hidden by own writes */
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    t = begin(f, ISOLATION_SNAPSHOT);
    assert_int_equal(figures_of(f).dead_rows, GONE);
    assert_int_equal(check_answer(f, t, query, 10, NULL), 10);
    assert_int_equal(check_answer(f, t, query, 10, is_one_in_10), 10);
    assert_true(recall_of(f, t, 20, 10, NULL) >= 95);
    txn_end(t);
    put_many(f, MANY, MANY + GONE); /* more than a fifth is dead then: no copy of the graph */
    t = begin(f, ISOLATION_SNAPSHOT);
    vector_merge(f->store, vector_index_of(f, t));
    vector_settle(f->store);
    assert_int_equal(check_answer(f, t, query, 10, NULL), 10);
    txn_end(t);
}

static void the_other_metrics_use_graphs_too(void **out)
{
    static const char *const metrics[] = { "cosine", "innerProduct" };
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    put_many(f, 0, 3000);
    for (size_t m = 0; m < ARRAY_LEN(metrics); m++) {
        struct vector_hit by_graph[10], by_scan[10];
        size_t count, hits = 0;
        uint64_t id = make_vector_index(f, c, metrics[m]);
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        const struct collection *col = in(f, t, "c");
        const struct index_def *index = collection_index(col, id);
        for (int round = 0; round < 20; round++) {
            float query[DIMENSION];
            random_vector(query);
            struct vector_request request = { .vector = query, .dimension = DIMENSION, .k = 10 };
            OK_OR_FAIL(vector_search(t, col, index, &request, f->arena, by_graph, &count, &f->err),
                       &f->err);
            assert_int_equal(count, 10);
            assert_true(by_graph[0].score >= by_graph[9].score);
            if (round < 10) {
                vector_settle(f->store);
                continue;
            }
            /* rows on disk: a view older than the version */
            struct txn *before = begin(f, ISOLATION_SNAPSHOT);
            must_put(f, "c", "{\"_key\":\"far\",\"v\":[1,1,1,1,1,1,1,1]}");
            assert_int_equal(take(f, "c", "far"), OK);
            vector_merge(f->store, index);
            vector_settle(f->store);
            OK_OR_FAIL(
                vector_search(before, col, index, &request, f->arena, by_scan, &count, &f->err),
                &f->err);
            txn_end(before);
            for (size_t i = 0; i < 10; i++)
                for (size_t j = 0; j < 10; j++)
                    hits += slice_eq(by_graph[i].key, by_scan[j].key);
        }
        assert_true(hits >= 95);
        txn_end(t);
        OK_OR_FAIL(store_drop_index(f->store, c, id, &f->err), &f->err);
    }
}

/* ---- life of an index ---- */

static int files_of(const struct fixture *f)
{
    char command[120];
    int files = -1;
    snprintf(command, sizeof command, "ls %s/vectors | wc -l", f->path);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    assert_int_equal(fscanf(p, "%d", &files), 1);
    pclose(p);
    return files;
}

static void files_go_with_their_index(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "c", COLLECTION_DOCUMENT);
    uint64_t id = make_vector_index(f, c, "l2");
    put_many(f, 0, 300);
    vector_settle(f->store);
    assert_true(files_of(f) > 0);
    assert_int_equal(figures_of(f).segments, files_of(f));
    OK_OR_FAIL(store_truncate_collection(f->store, c, &f->err), &f->err);
    vector_settle(f->store);
    assert_int_equal(files_of(f), 0);
    put_many(f, 0, 200);
    vector_settle(f->store);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    must_be_exact(f, t, NULL);
    txn_end(t);
    assert_true(files_of(f) > 0);
    OK_OR_FAIL(store_drop_index(f->store, c, id, &f->err), &f->err);
    vector_settle(f->store);
    assert_int_equal(files_of(f), 0);
}

/* Commits go on while a segment is made: each one is answered and seen at once. */
static void writers_do_not_wait_for_a_build(void **out)
{
    struct fixture *f = *out;
    unsigned while_building = 0;
    make_vector_index(f, make_collection(f, "c", COLLECTION_DOCUMENT), "l2");
    for (unsigned i = 0; i < 40 && while_building < 20; i++) {
        put_many(f, i * 500, i * 500 + 500);
        struct vector_figures before = figures_of(f);
        put_many(f, 100000 + i, 100001 + i);
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        struct vector_figures after = figures_of(f);
        while_building += before.is_building && after.is_building && before.builds == after.builds;
        txn_end(t);
    }
    assert_true(while_building > 0);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    assert_true(recall_of(f, t, 5, 10, NULL) >= 90);
    txn_end(t);
}

static void an_index_beyond_its_memory_is_scanned(void **out)
{
    struct fixture *f = *out;
    store_close(f->store);
    f->settings.vector_memory_mb = 1;
    fixture_open(f);
    make_vector_index(f, make_collection(f, "c", COLLECTION_DOCUMENT), "l2");
    put_many(f, 0, 20000);
    vector_settle(f->store);
    assert_string_equal(figures_of(f).state, "cold");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    must_be_exact(f, t, NULL);
    must_be_exact(f, t, is_one_in_100);
    txn_end(t);
    store_close(f->store);
    f->settings.vector_memory_mb = 100;
    fixture_open(f);
    vector_settle(f->store);
    assert_string_equal(figures_of(f).state, "warm");
}

static void a_build_that_fails_changes_no_answer(void **out)
{
    static const char *const points[] = { "vector.add", "vector.write", "vector.sync",
                                          "vector.rename" };
    struct fixture *f = *out;
    make_vector_index(f, make_collection(f, "c", COLLECTION_DOCUMENT), "l2");
    for (size_t i = 0; i < ARRAY_LEN(points); i++) {
        vector_settle(f->store);
        uint64_t builds = figures_of(f).builds;
        int files = files_of(f);
        fault_arm(points[i], 1);
        put_many(f, (unsigned)i * 100, (unsigned)i * 100 + 100);
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        vector_merge(f->store, vector_index_of(f, t));
        vector_settle(f->store);
        assert_string_equal(fault_last() ? fault_last() : "", points[i]);
        fault_disarm();
        assert_int_equal(figures_of(f).builds, builds);
        assert_int_equal(files_of(f), files); /* nothing half-made */
        must_be_exact(f, t, NULL);
        put_many(f, 1000, 1001);
        vector_merge(f->store, vector_index_of(f, t)); /* the next one works */
        vector_settle(f->store);
        assert_int_equal(figures_of(f).builds, builds + 1);
        must_be_exact(f, t, NULL);
        txn_end(t);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_version_lives_from_birth_to_death),
        cmocka_unit_test(many_rows_are_found_by_id),
        TEST(answers_are_exact_in_every_view_while_segments_come_and_go),
        TEST(a_reopened_index_is_exact_again),
        TEST(k_rows_come_under_any_filter),
        TEST(few_selected_rows_are_compared_alone),
        TEST(dead_rows_do_not_take_the_place_of_living_ones),
        TEST(the_other_metrics_use_graphs_too),
        TEST(files_go_with_their_index),
        TEST(writers_do_not_wait_for_a_build),
        TEST(an_index_beyond_its_memory_is_scanned),
        TEST(a_build_that_fails_changes_no_answer),
    };
    return cmocka_run_group_tests_name("vector", tests, NULL, NULL);
}
