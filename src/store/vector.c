/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of vector indexes: little-endian float32, as in memory. */
#include "store/vector.h"

#include <math.h>

#include "base/hash.h"
#include "base/key.h"
#include "store/faiss_shim.h"
#include "store/index_private.h"
#include "store/vector_search.h"
#include "store/vector_source.h"

enum { SEARCH_K_MAX = 100000, ROW_KEY_HEAD_BYTES = 10, ID_HEAD_BYTES = 2 };
enum { EFFORT_DEFAULT = 64, EFFORT_PER_PROBE = 8 };

/* So that no sum of squares overflows. */
static const float element_max = 1e16f;

/* ---- rows ---- */

void vector_normalise(float *v, size_t n)
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
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(out[i]) <= element_max))
            return fail(err, ERR_INVALID, "vector index '%.*s': '%.*s' holds a number beyond 1e16",
                        SLICE_ARG(index->name), SLICE_ARG(index->fields[0].text));
    if (index->metric == VECTOR_COSINE)
        vector_normalise(out, n);
    *row = slice_of(out, n * sizeof *out);
    return OK;
}

bool vector_key_is_row(struct slice key)
{
    return key.len > ROW_KEY_HEAD_BYTES && key.len <= ROW_KEY_HEAD_BYTES + LIMIT_KEY_BYTES &&
           key_read_u16(key.ptr + sizeof(uint64_t)) < SLOT_COUNT;
}

bool vector_key_is_note(struct slice key)
{
    return key.len > ROW_KEY_HEAD_BYTES &&
           key_read_u16(key.ptr + sizeof(uint64_t)) == VECTOR_SLOT_PENDING;
}

struct slice vector_id_key(struct slice id)
{
    return slice_of(id.ptr + ID_HEAD_BYTES, id.len - ID_HEAD_BYTES);
}

void vector_scan_end(struct buf *out, uint64_t object_id)
{
    key_add_u64(out, object_id);
    key_add_u16(out, SLOT_COUNT);
}

/* ---- search ---- */

static size_t effort_of(const struct store *s, const struct index_def *index, size_t probes)
{
    size_t effort = s->settings ? (size_t)s->settings->vector_effort : EFFORT_DEFAULT;
    size_t asked = (probes ? probes : index->probes) * EFFORT_PER_PROBE;
    return asked > effort ? asked : effort;
}

enum errc vector_search(struct txn *t, const struct collection *c, const struct index_def *index,
                        const struct vector_request *request, struct arena *arena,
                        struct vector_hit *hits, size_t *count, struct error *err)
{
    *count = 0;
    enum errc rc = txn_open_read(t, c, err);
    if (rc != OK)
        return rc;
    if (index->kind != INDEX_VECTOR || !index->is_ready)
        return fail_num(err, 1554, "index '%.*s' of '%.*s' cannot be searched by vector",
                        SLICE_ARG(index->name), SLICE_ARG(c->name));
    if (request->dimension != index->dimension)
        return fail(err, ERR_INVALID, "vector index '%.*s' has dimension %u, the query has %u",
                    SLICE_ARG(index->name), index->dimension, request->dimension);
    if (request->k == 0)
        return OK;
    if (request->k > SEARCH_K_MAX)
        return fail(err, ERR_LIMIT, "a vector search returns at most %d documents", SEARCH_K_MAX);
    float *vector = arena_alloc(arena, index->dimension * sizeof *vector);
    memcpy(vector, request->vector, index->dimension * sizeof *vector);
    if (index->metric == VECTOR_COSINE)
        vector_normalise(vector, index->dimension);
    return vector_answer(
        &(struct vector_question){ .txn = t,
                                   .collection = c,
                                   .index = index,
                                   .vector = vector,
                                   .request = request,
                                   .effort = effort_of(t->store, index, request->probes),
                                   .arena = arena },
        hits, count, err);
}

const char *vector_engine(void)
{
    return hnsw_version();
}
