/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "store/faiss_shim.h"

/* FAISS forgets what it has read when the reading fails; its callers check the bytes before. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
    return "leak:faiss::read_index";
}

enum { ROWS = 3000, DIMENSION = 24, QUERIES = 50, K = 10 };

static float rows[ROWS * DIMENSION], queries[QUERIES * DIMENSION];

static float random_float(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(*seed >> 40) / (1 << 23) - 1.0);
}

static int make_rows(void **out)
{
    uint64_t seed = 3;
    (void)out;
    for (size_t i = 0; i < ROWS * DIMENSION; i++)
        rows[i] = random_float(&seed);
    for (size_t i = 0; i < QUERIES * DIMENSION; i++)
        queries[i] = random_float(&seed);
    return 0;
}

static struct hnsw *make(bool is_inner_product, size_t count)
{
    struct error err;
    struct hnsw *h = NULL;
    struct hnsw_options opt = { .dimension = DIMENSION,
                                .is_inner_product = is_inner_product,
                                .links = 16,
                                .build_effort = 60 };
    OK_OR_FAIL(hnsw_new(&h, &opt, &err), &err);
    for (size_t i = 0; i < count; i += 500) /* in parts, as the builder does */
        OK_OR_FAIL(hnsw_add(h, rows + i * DIMENSION, 500, &err), &err);
    return h;
}

static float near_by(bool is_inner_product, const float *a, const float *b)
{
    return is_inner_product ? -vector_dot(a, b, DIMENSION) : vector_l2_squared(a, b, DIMENSION);
}

/* How many of the rows found are among the true K nearest; distances must be true. */
static size_t hits_of(const struct hnsw *h, bool is_inner_product, const float *query,
                      size_t effort)
{
    struct error err;
    int64_t found[K];
    float distances[K];
    size_t count, hits = 0;
    struct hnsw_query q = { .vector = query, .k = K, .effort = effort };
    OK_OR_FAIL(hnsw_search(h, &q, found, distances, &count, &err), &err);
    assert_int_equal(count, K);
    for (size_t i = 0; i < K; i++) {
        float mine = near_by(is_inner_product, query, hnsw_row(h, (size_t)found[i]));
        float theirs = is_inner_product ? -distances[i] : distances[i];
        size_t nearer = 0;
        assert_true(mine - theirs < 1e-3f && theirs - mine < 1e-3f);
        for (size_t j = 0; j < hnsw_count(h); j++)
            nearer += near_by(is_inner_product, query, rows + j * DIMENSION) < mine - 1e-5f;
        hits += nearer < K;
    }
    return hits;
}

static size_t hits_of_all(const struct hnsw *h, bool is_inner_product, size_t effort)
{
    size_t hits = 0;
    for (size_t i = 0; i < QUERIES; i++)
        hits += hits_of(h, is_inner_product, queries + i * DIMENSION, effort);
    return hits;
}

static void a_graph_finds_what_is_near_in_both_metrics(void **out)
{
    (void)out;
    for (int is_inner_product = 0; is_inner_product < 2; is_inner_product++) {
        struct hnsw *h = make(is_inner_product, ROWS);
        assert_int_equal(hnsw_count(h), ROWS);
        assert_int_equal(hnsw_dimension(h), DIMENSION);
        assert_memory_equal(hnsw_row(h, 1234), rows + 1234 * DIMENSION, DIMENSION * sizeof(float));
        assert_true(hnsw_bytes(h) > sizeof rows);
        assert_true(hits_of_all(h, is_inner_product, 200) > QUERIES * K * 95 / 100);
        hnsw_free(h);
    }
}

/* FAISS 1.7.3 cuts a query's effort at the index's own, which is 16 unless it is raised. */
static void more_effort_finds_more(void **out)
{
    (void)out;
    struct hnsw *h = make(false, ROWS);
    size_t little = hits_of_all(h, false, 16), much = hits_of_all(h, false, 256);
    assert_true(little < much);
    assert_true(hnsw_effort_max() >= 256);
    hnsw_free(h);
}

/* ---- bytes ---- */

struct bytes {
    struct buf buf;
    size_t at, limit; /* limit: the bytes that pass before a failure */
};

static enum errc write_bytes(void *ctx, const void *bytes, size_t len, struct error *err)
{
    struct bytes *b = ctx;
    if (b->buf.len + len > b->limit)
        return (fail)(err, ERR_IO, "full");
    buf_add_slice(&b->buf, slice_of(bytes, len));
    return OK;
}

static enum errc read_bytes(void *ctx, void *bytes, size_t len, struct error *err)
{
    struct bytes *b = ctx;
    if (b->at + len > b->limit)
        return (fail)(err, ERR_CORRUPT, "short");
    memcpy(bytes, b->buf.ptr + b->at, len);
    b->at += len;
    return OK;
}

static struct hnsw *save_and_load(const struct hnsw *h)
{
    struct error err;
    struct bytes b = { .limit = SIZE_MAX };
    struct hnsw *back = NULL;
    buf_init(&b.buf, 0);
    OK_OR_FAIL(hnsw_save(h, write_bytes, &b, &err), &err);
    b.limit = b.buf.len;
    OK_OR_FAIL(hnsw_load(&back, read_bytes, &b, &err), &err);
    assert_int_equal(b.at, b.buf.len);
    assert_int_equal(hnsw_count(back), hnsw_count(h));
    buf_release(&b.buf);
    return back;
}

static void a_copy_grows_alone(void **out)
{
    struct error err;
    struct hnsw *copy = NULL;
    (void)out;
    struct hnsw *h = make(false, 1000);
    OK_OR_FAIL(hnsw_copy(&copy, h, &err), &err);
    for (size_t i = 1000; i < ROWS; i += 500)
        OK_OR_FAIL(hnsw_add(copy, rows + i * DIMENSION, 500, &err), &err);
    assert_int_equal(hnsw_count(h), 1000);
    assert_int_equal(hnsw_count(copy), ROWS);
    hnsw_free(h);
    assert_true(hits_of_all(copy, false, 200) > QUERIES * K * 95 / 100);
    h = save_and_load(copy);
    assert_true(hits_of_all(h, false, 200) > QUERIES * K * 95 / 100);
    hnsw_free(copy);
    hnsw_free(h);
}

static void a_graph_survives_its_bytes(void **out)
{
    struct error err;
    (void)out;
    struct hnsw *h = make(true, 1500), *back = save_and_load(h);
    for (size_t i = 0; i < QUERIES; i++) {
        int64_t one[K], two[K];
        float distances[K];
        size_t count;
        struct hnsw_query q = { .vector = queries + i * DIMENSION, .k = K, .effort = 150 };
        OK_OR_FAIL(hnsw_search(h, &q, one, distances, &count, &err), &err);
        OK_OR_FAIL(hnsw_search(back, &q, two, distances, &count, &err), &err);
        assert_memory_equal(one, two, sizeof one);
    }
    hnsw_free(back);
    hnsw_free(h);
}

static void failures_come_back_as_errors(void **out)
{
    struct error err;
    struct bytes b = { .limit = 5000 };
    struct hnsw *back = NULL;
    (void)out;
    buf_init(&b.buf, 0);
    struct hnsw *h = make(true, 500);
    assert_int_equal(hnsw_save(h, write_bytes, &b, &err), ERR_IO);
    assert_string_equal(err.text, "full");
    b.limit = b.buf.len; /* the file ends in the middle */
    assert_int_equal(hnsw_load(&back, read_bytes, &b, &err), ERR_CORRUPT);
    assert_string_equal(err.text, "short");
    assert_null(back);
    memset(b.buf.ptr, 'x', b.buf.len); /* an exception of FAISS */
    b.at = 0;
    assert_int_equal(hnsw_load(&back, read_bytes, &b, &err), ERR_INTERNAL);
    assert_true(strncmp(err.text, "FAISS: ", 7) == 0);
    assert_null(back);
    hnsw_free(h);
    buf_release(&b.buf);
}

static void the_version_names_the_build(void **out)
{
    (void)out;
    assert_true(strncmp(hnsw_version(), "FAISS 1.", 8) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_finds_what_is_near_in_both_metrics),
        cmocka_unit_test(more_effort_finds_more),
        cmocka_unit_test(a_copy_grows_alone),
        cmocka_unit_test(a_graph_survives_its_bytes),
        cmocka_unit_test(failures_come_back_as_errors),
        cmocka_unit_test(the_version_names_the_build),
    };
    return cmocka_run_group_tests_name("vector_shim", tests, make_rows, NULL);
}
