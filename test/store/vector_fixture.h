/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector_fixture -- what the tests of vector indexes share: documents with
 * random vectors in collection "c", and the truth by walking all documents.
 */
#ifndef TEST_STORE_VECTOR_FIXTURE_H
#define TEST_STORE_VECTOR_FIXTURE_H

#include "fixture.h"

#include "store/vector.h"

enum { DIMENSION = 8, HITS_MAX = 64 };

static uint64_t random_state = 1;

UNUSED static uint32_t random_u32(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

UNUSED static void random_vector(float *out)
{
    for (int i = 0; i < DIMENSION; i++)
        out[i] = (float)random_u32() / (float)(1u << 31) - 1;
}

/* {_key, tag, v} */
UNUSED static struct val vector_doc(struct arena *arena, const char *key, int64_t tag,
                                    const float *vector)
{
    struct val doc = VAL_NONE;
    struct error err;
    struct val_builder *b = val_builder_new(0);
    val_open_object(b);
    val_put_name(b, slice_str("_key"));
    val_put_string(b, slice_str(key));
    val_put_name(b, slice_str("tag"));
    val_put_int(b, tag);
    val_put_name(b, slice_str("v"));
    val_put_floats(b, vector, DIMENSION);
    val_close(b);
    OK_OR_FAIL(val_finish_in(b, arena, &doc, &err), &err);
    val_builder_free(b);
    return doc;
}

/* Inserts or replaces document `number` with a random vector and tag = number. */
UNUSED static enum errc put_random(struct fixture *f, struct txn *t, unsigned number)
{
    char key[16];
    float vector[DIMENSION];
    struct doc_change change;
    struct doc_options over = { .overwrite = OVERWRITE_REPLACE };
    snprintf(key, sizeof key, "%u", number);
    random_vector(vector);
    return doc_insert(t, in(f, t, "c"), vector_doc(f->arena, key, (int64_t)number, vector), &over,
                      f->arena, &change, &f->err);
}

/* Documents from..to-1 in transactions of 500. */
UNUSED static void put_many(struct fixture *f, unsigned from, unsigned to)
{
    while (from < to) {
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        for (unsigned i = 0; i < 500 && from < to; i++)
            OK_OR_FAIL(put_random(f, t, from++), &f->err);
        OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
        txn_end(t);
    }
}

UNUSED static uint64_t make_vector_index(struct fixture *f, uint64_t collection, const char *metric)
{
    char def[200];
    snprintf(
        def, sizeof def,
        "{\"type\":\"vector\",\"fields\":[\"v\"],\"sparse\":true,\"params\":{\"metric\":\"%s\","
        "\"dimension\":%d,\"nLists\":10,\"factory\":\"HNSW16\"}}",
        metric, DIMENSION);
    return make_index(f, collection, def);
}

/* The vector index of "c". */
UNUSED static const struct index_def *vector_index_of(struct fixture *f, struct txn *t)
{
    const struct collection *c = in(f, t, "c");
    for (size_t i = 0; i < c->index_count; i++)
        if (c->indexes[i].kind == INDEX_VECTOR)
            return &c->indexes[i];
    fail_msg("no vector index");
    return NULL;
}

UNUSED static struct vector_figures figures_of(struct fixture *f)
{
    struct vector_figures figures;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    vector_figures(f->store, vector_index_of(f, t), &figures);
    txn_end(t);
    return figures;
}

/* ---- questions ---- */

typedef bool (*tag_filter)(int64_t tag); /* NULL = all */

struct asked {
    struct fixture *f;
    struct txn *txn;
    tag_filter filter;
    struct doc_iter *selected; /* all that pass, as another index would know them */
};

static unsigned filter_calls;

UNUSED static bool filter_by_tag(void *ctx, struct slice key)
{
    struct asked *a = ctx;
    struct val doc;
    struct error err;
    struct arena *arena = arena_new(0);
    filter_calls++;
    OK_OR_FAIL(doc_get(a->txn, in(a->f, a->txn, "c"), key, arena, &doc, &err), &err);
    bool passes = a->filter(val_int(val_get(doc, slice_str("tag"))));
    arena_free(arena);
    return passes;
}

UNUSED static enum errc select_by_tag(void *ctx, struct slice *key, bool *has, struct error *err)
{
    struct asked *a = ctx;
    struct val doc;
    while ((*has = doc_iter_next(a->selected, &doc)))
        if (a->filter(val_int(val_get(doc, slice_str("tag"))))) {
            *key = val_string(val_get(doc, slice_str("_key")));
            return OK;
        }
    return doc_iter_check(a->selected, err);
}

/* Filtered questions take turns with one to the documents of the filter. */
static bool selects;

struct found {
    size_t count;
    unsigned numbers[HITS_MAX];
    float scores[HITS_MAX];
};

UNUSED static struct found ask(struct fixture *f, struct txn *t, const float *query, size_t k,
                               tag_filter filter)
{
    struct found found = { 0 };
    struct vector_hit hits[HITS_MAX];
    struct asked asked = { f, t, filter, NULL };
    struct vector_request request = { .vector = query,
                                      .dimension = DIMENSION,
                                      .k = k,
                                      .filter = filter ? filter_by_tag : NULL,
                                      .ctx = &asked };
    assert_true(k <= HITS_MAX);
    selects = !selects;
    if (filter && selects) {
        OK_OR_FAIL(doc_iter_new(&asked.selected, t, in(f, t, "c"), &f->err), &f->err);
        request.next = select_by_tag;
    }
    OK_OR_FAIL(vector_search(t, in(f, t, "c"), vector_index_of(f, t), &request, f->arena, hits,
                             &found.count, &f->err),
               &f->err);
    doc_iter_free(asked.selected);
    for (size_t i = 0; i < found.count; i++) {
        found.numbers[i] = (unsigned)atoi(arena_copy(f->arena, hits[i].key).ptr);
        found.scores[i] = hits[i].score;
    }
    return found;
}

/* The truth for metric l2: walks the documents of the transaction. */
UNUSED static struct found truth(struct fixture *f, struct txn *t, const float *query, size_t k,
                                 tag_filter filter)
{
    struct found best = { 0 };
    struct doc_iter *it = NULL;
    struct val doc;
    OK_OR_FAIL(doc_iter_new(&it, t, in(f, t, "c"), &f->err), &f->err);
    while (doc_iter_next(it, &doc)) {
        float vector[DIMENSION];
        int64_t tag = val_int(val_get(doc, slice_str("tag")));
        if (filter && !filter(tag))
            continue;
        assert_int_equal(val_floats(val_get(doc, slice_str("v")), vector, DIMENSION), DIMENSION);
        float score = vector_l2_squared(query, vector, DIMENSION);
        size_t at = best.count < k ? best.count++ : k;
        while (at > 0 && (at == k || best.scores[at - 1] > score)) {
            if (at < k) {
                best.scores[at] = best.scores[at - 1];
                best.numbers[at] = best.numbers[at - 1];
            } else if (best.scores[k - 1] <= score) {
                break;
            }
            at--;
        }
        if (at < k && (at == 0 || best.scores[at - 1] <= score)) {
            best.scores[at] = score;
            best.numbers[at] = (unsigned)tag;
        }
    }
    OK_OR_FAIL(doc_iter_check(it, &f->err), &f->err);
    doc_iter_free(it);
    return best;
}

/*
 * k hits if k exist, in order, each with its true score and none twice. Returns
 * how many are among the true k nearest.
 */
UNUSED static size_t check_answer(struct fixture *f, struct txn *t, const float *query, size_t k,
                                  tag_filter filter)
{
    struct found mine = ask(f, t, query, k, filter), best = truth(f, t, query, k, filter);
    size_t hits = 0;
    assert_int_equal(mine.count, best.count);
    for (size_t i = 0; i < mine.count; i++) {
        char key[16];
        float vector[DIMENSION];
        struct val doc;
        snprintf(key, sizeof key, "%u", mine.numbers[i]);
        OK_OR_FAIL(doc_get(t, in(f, t, "c"), slice_str(key), f->arena, &doc, &f->err), &f->err);
        assert_int_equal(val_floats(val_get(doc, slice_str("v")), vector, DIMENSION), DIMENSION);
        float squared = vector_l2_squared(query, vector, DIMENSION);
        float off = mine.scores[i] * mine.scores[i] - squared;
        assert_true(off < 1e-4f && off > -1e-4f);
        if (i)
            assert_true(mine.scores[i] >= mine.scores[i - 1]);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(mine.numbers[i], mine.numbers[j]);
        if (filter)
            assert_true(filter(val_int(val_get(doc, slice_str("tag")))));
        hits += squared <= best.scores[best.count - 1] + 1e-5f;
    }
    return hits;
}

UNUSED static void must_be_exact(struct fixture *f, struct txn *t, tag_filter filter)
{
    float query[DIMENSION];
    size_t k = 1 + random_u32() % 12;
    random_vector(query);
    size_t hits = check_answer(f, t, query, k, filter);
    struct found best = truth(f, t, query, k, filter);
    assert_int_equal(hits, best.count);
}

/* Percent of the true k nearest, over some questions. */
UNUSED static size_t recall_of(struct fixture *f, struct txn *t, int questions, size_t k,
                               tag_filter filter)
{
    size_t hits = 0;
    for (int i = 0; i < questions; i++) {
        float query[DIMENSION];
        random_vector(query);
        hits += check_answer(f, t, query, k, filter);
    }
    return hits * 100 / ((size_t)questions * k);
}

#endif
