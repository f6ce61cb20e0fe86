/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector -- nearest documents by a vector index, in the view of a transaction.
 */
#ifndef STORE_VECTOR_H
#define STORE_VECTOR_H

#include <stdatomic.h>

#include "store/txn.h"

struct vector_hit {
    struct slice key; /* lives in the arena */
    float score;      /* as APPROX_NEAR_*: cosine and inner product high is near, L2 low is near */
};

struct vector_request {
    const float *vector;
    uint32_t dimension;
    size_t k;
    size_t probes; /* ArangoDB's nProbe: how thorough, at least; 0 = as the index says */
    /* May be NULL: all. Asked for candidates, in the order of distance; false drops the document. */
    bool (*filter)(void *ctx, struct slice key);
    /*
     * May be NULL. The keys of all documents that can pass, as another index knows them: when they
     * are few, only their vectors are compared. Each is asked for once; *has false at the end.
     */
    enum errc (*next)(void *ctx, struct slice *key, bool *has, struct error *err);
    void *ctx;
};

/*
 * The k nearest by the index's metric, best first, in this view with own
 * writes; k whenever k exist and pass. Behind a graph a few of them may be
 * farther than the true ones; scores and visibility are exact. hits has room
 * for k; keys live in the arena.
 */
MUST_CHECK enum errc vector_search(struct txn *t, const struct collection *c,
                                   const struct index_def *index,
                                   const struct vector_request *request, struct arena *arena,
                                   struct vector_hit *hits, size_t *count, struct error *err);

/* Kernels with run-time dispatch (SSE2, AVX2+FMA, AVX-512). */
float vector_dot(const float *a, const float *b, size_t n);
float vector_l2_squared(const float *a, const float *b, size_t n);
/* For tests: "sse2", "avx2", "avx512", NULL = the best; false when the machine lacks it. */
bool vector_use_kernel(const char *name);

struct vector_figures {
    const char *state; /* "warm"; "cold" or "opening": the rows on disk are scanned */
    size_t segments, segment_rows, dead_rows, head_rows;
    uint64_t bytes;            /* of memory */
    uint64_t builds, rebuilds; /* segments made; lost ones found, since the start */
    bool is_building;
    size_t pending;        /* texts that wait for their vector (params.source); at most 100000 */
    uint64_t lag_ms;       /* age of the oldest of them */
    char embed_error[160]; /* why they wait; empty = nothing is wrong */
};
void vector_figures(struct store *s, const struct index_def *index, struct vector_figures *out);
/* Makes one segment of everything, in the background. */
void vector_merge(struct store *s, const struct index_def *index);
/* Waits until nothing is left to do in the background: for tests and benchmarks. */
void vector_settle(struct store *s);

/* ---- vectors of texts: indexes with params.source ---- */

struct vector_texts {
    struct slice model; /* as the index names it; empty = any */
    const struct slice *texts;
    size_t count;
    uint32_t dimension;
    const atomic_bool *cancel; /* true: nobody wants the answer any more */
};
/* Whoever turns texts into vectors; filled by the layers above. */
struct vector_embedder {
    /*
     * rows: count x dimension numbers. Runs on a thread of the store and may
     * wait; a failure (no such model, busy) is tried again later.
     */
    enum errc (*embed)(void *ctx, const struct vector_texts *texts, float *rows, struct error *err);
    void *ctx;
};
/*
 * From here on texts are embedded in the background; without an embedder they
 * wait. Stopping waits for a running call to end. One caller at a time.
 */
MUST_CHECK enum errc store_start_embedding(struct store *s, const struct vector_embedder *e,
                                           struct error *err);
void store_stop_embedding(struct store *s);
/* Texts that wait after a failure are tried again now: a model has come. */
void store_retry_embedding(struct store *s);

/* What graphs of vectors are made with: "FAISS 1.12.0 AVX2". */
const char *vector_engine(void);

#endif
