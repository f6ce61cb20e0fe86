/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exact scan of all rows of the index in the transaction's view, with a heap
 * of the k nearest. Rows are little-endian float32, as in memory.
 */
#include <math.h>

#include "base/key.h"
#include "store/faiss_shim.h"
#include "store/index_private.h"

enum { SEARCH_K_MAX = 100000 };

/* ---- rows ---- */

static void normalise(float *v, size_t n)
{
    float norm = sqrtf(vector_dot(v, v, n));
    if (norm > 0)
        for (size_t i = 0; i < n; i++)
            v[i] /= norm;
}

enum errc vector_row(const struct index_def *index, struct val v, struct arena *arena,
                     struct slice *row, struct error *err)
{
    size_t n = index->dimension;
    *row = slice_str("");
    if (val_is_null(v) && index->is_sparse)
        return OK;
    if (val_type(v) != VAL_ARRAY)
        return fail(err, ERR_INVALID, "vector index '%.*s': '%.*s' must be an array of %zu numbers",
                    SLICE_ARG(index->name), SLICE_ARG(index->fields[0].text), n);
    if (val_count(v) != n)
        return fail(err, ERR_INVALID,
                    "vector index '%.*s' has dimension %zu, the document's vector has %zu",
                    SLICE_ARG(index->name), n, val_count(v));
    float *out = arena_alloc(arena, n * sizeof *out);
    if (val_floats(v, out, n) != (long)n)
        return fail(err, ERR_INVALID, "vector index '%.*s': '%.*s' must hold only numbers",
                    SLICE_ARG(index->name), SLICE_ARG(index->fields[0].text));
    if (index->metric == VECTOR_COSINE)
        normalise(out, n);
    *row = slice_of(out, n * sizeof *out);
    return OK;
}

/* ---- search ---- */

struct search {
    const struct index_def *index;
    const float *query; /* normalised for cosine */
    float *aligned;     /* room for one row */
    vector_filter filter;
    void *filter_ctx;
    struct arena *arena;
    struct vector_hit *heap; /* distance in score, farthest first */
    size_t k, count;
};

/* Low is near. */
static float distance(struct search *s, struct slice row)
{
    const float *v = (const float *)(const void *)row.ptr;
    size_t n = s->index->dimension;
    if ((uintptr_t)row.ptr % sizeof(float)) {
        memcpy(s->aligned, row.ptr, row.len);
        v = s->aligned;
    }
    switch (s->index->metric) {
    case VECTOR_L2:
        return vector_l2_squared(s->query, v, n);
    case VECTOR_COSINE:
    case VECTOR_INNER_PRODUCT:
        break;
    }
    return -vector_dot(s->query, v, n);
}

/* Equal distances are ordered by key, so that answers repeat. */
static bool is_farther(const struct vector_hit *a, const struct vector_hit *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    return slice_cmp(a->key, b->key) > 0;
}

static void swap(struct vector_hit *a, struct vector_hit *b)
{
    struct vector_hit t = *a;
    *a = *b;
    *b = t;
}

static void sift_down(struct vector_hit *heap, size_t count, size_t i)
{
    for (;;) {
        size_t top = i, left = 2 * i + 1;
        for (size_t child = left; child < left + 2 && child < count; child++)
            if (is_farther(&heap[child], &heap[top]))
                top = child;
        if (top == i)
            return;
        swap(&heap[top], &heap[i]);
        i = top;
    }
}

static void sift_up(struct vector_hit *heap, size_t i)
{
    while (i && is_farther(&heap[i], &heap[(i - 1) / 2])) {
        swap(&heap[i], &heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

/* Room for a key in the place of the one that leaves the heap. */
static struct slice keep_key(struct search *s, struct slice key, char *room)
{
    if (!room)
        room = arena_alloc(s->arena, LIMIT_KEY_BYTES + 1);
    memcpy(room, key.ptr, key.len);
    room[key.len] = 0;
    return slice_of(room, key.len);
}

static void offer(struct search *s, struct slice key, struct slice row)
{
    struct vector_hit hit = { key, distance(s, row) };
    bool is_full = s->count == s->k;
    if (is_full && !is_farther(&s->heap[0], &hit))
        return;
    if (s->filter && !s->filter(s->filter_ctx, key))
        return;
    if (is_full) {
        hit.key = keep_key(s, key, (char *)s->heap[0].key.ptr);
        s->heap[0] = hit;
        sift_down(s->heap, s->count, 0);
    } else {
        hit.key = keep_key(s, key, NULL);
        s->heap[s->count] = hit;
        sift_up(s->heap, s->count++);
    }
}

/* Heap to best first; distances to scores. */
static void finish(struct search *s)
{
    for (size_t n = s->count; n > 1; n--) {
        swap(&s->heap[0], &s->heap[n - 1]);
        sift_down(s->heap, n - 1, 0);
    }
    for (size_t i = 0; i < s->count; i++) {
        float *score = &s->heap[i].score;
        *score = s->index->metric == VECTOR_L2 ? sqrtf(*score) : -*score;
    }
}

static enum errc scan(struct search *s, struct txn *t, struct error *err)
{
    enum { HEAD = 10 }; /* index, slot */
    struct buf from, to;
    struct txn_iter *it = NULL;
    enum errc rc = OK;
    buf_init(&from, 0);
    buf_init(&to, 0);
    key_add_u64(&from, s->index->object_id);
    key_add_u64(&to, s->index->object_id + 1);
    TRY(txn_iter_new(&it, t, KV_INDEX,
                     &(struct kv_scan){ .from = buf_slice(&from), .to = buf_slice(&to) }, err));
    for (; txn_iter_valid(it); txn_iter_next(it)) {
        struct slice key = txn_iter_key(it), row = txn_iter_value(it);
        if (key.len <= HEAD || key.len > HEAD + LIMIT_KEY_BYTES ||
            row.len != s->index->dimension * sizeof(float)) {
            rc = fail(err, ERR_CORRUPT, "vector index '%.*s' holds a damaged entry",
                      SLICE_ARG(s->index->name));
            goto out;
        }
        offer(s, slice_of(key.ptr + HEAD, key.len - HEAD), row);
    }
    rc = txn_iter_check(it, err);
out:
    txn_iter_free(it);
    buf_release(&from);
    buf_release(&to);
    return rc;
}

enum errc vector_search(struct txn *t, const struct collection *c, const struct index_def *index,
                        const float *query, uint32_t dimension, size_t k, vector_filter filter,
                        void *ctx, struct arena *arena, struct vector_hit *hits, size_t *count,
                        struct error *err)
{
    struct search s = {
        .index = index, .filter = filter, .filter_ctx = ctx, .arena = arena, .heap = hits, .k = k
    };
    *count = 0;
    enum errc rc = txn_open_read(t, c, err);
    if (rc != OK)
        return rc;
    if (index->kind != INDEX_VECTOR || !index->is_ready)
        return fail_num(err, 1554, "index '%.*s' of '%.*s' cannot be searched by vector",
                        SLICE_ARG(index->name), SLICE_ARG(c->name));
    if (dimension != index->dimension)
        return fail(err, ERR_INVALID, "vector index '%.*s' has dimension %u, the query has %u",
                    SLICE_ARG(index->name), index->dimension, dimension);
    if (k == 0)
        return OK;
    if (k > SEARCH_K_MAX)
        return fail(err, ERR_LIMIT, "a vector search returns at most %d documents", SEARCH_K_MAX);
    float *copy = arena_alloc(arena, dimension * sizeof *copy);
    memcpy(copy, query, dimension * sizeof *copy);
    if (index->metric == VECTOR_COSINE)
        normalise(copy, dimension);
    s.query = copy;
    s.aligned = arena_alloc(arena, dimension * sizeof *copy);
    rc = scan(&s, t, err);
    if (rc == OK) {
        finish(&s);
        *count = s.count;
    }
    return rc;
}

const char *vector_engine(void)
{
    return hnsw_version();
}
