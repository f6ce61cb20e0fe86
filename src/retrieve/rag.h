/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rag -- from documents to cited answers: import (split, embed, store), search
 * and ask. Hides chunking, prompts and citations.
 *
 * Every operation is a small state machine that never blocks a worker on a
 * model: x_start begins it; whenever it has to wait it returns, and wake is
 * called once from any thread when x_step should be called again on a worker.
 * After RAG_WAIT the object belongs to the next step: touch it no more. Never
 * free it while it waits: set *cancel and step until it ends (ERR_GONE).
 *
 * Collections (per database): `documents` {_key, path, title, digest,
 * source_digest, bytes, chunks, imported} and `chunks` {_key "docprefix:n", doc, n, title, path,
 * from, to, text, embedding}, with a vector index on chunks.embedding. A
 * document and its chunks share a slot (key prefix) and are replaced in one
 * transaction.
 */
#ifndef RETRIEVE_RAG_H
#define RETRIEVE_RAG_H

#include "base/settings.h"
#include "model/generator.h"
#include "query/call.h"
#include "store/store.h"

/* What all operations share; outlives them. */
struct rag_env {
    struct store *store;
    struct generator *generator;
    const struct settings *settings;
};

enum rag_state { RAG_DONE, RAG_WAIT };

struct rag_wake {
    void (*fn)(void *ctx);
    void *ctx;
    const atomic_bool *cancel; /* may be NULL */
};

/* ---- import ---- */

enum rag_format { RAG_TEXT, RAG_MARKDOWN };

struct rag_source {
    struct slice path;  /* identity: the same path again replaces the document */
    struct slice title; /* empty: first heading or the file's name */
    struct slice text;  /* UTF-8; copied */
    enum rag_format format;
    struct val attributes;      /* object kept in the document, or null */
    struct slice source_digest; /* of the bytes that text was made from, for rag_known; or empty */
};

struct rag_import_options {
    uint64_t db_id;
    struct slice documents; /* collection names; empty = "documents", "chunks" */
    struct slice chunks;
    struct slice model; /* embedding model; empty = default */
};

struct rag_import_result {
    uint32_t documents; /* written */
    uint32_t unchanged; /* same digest as stored */
    uint32_t chunks;
    uint32_t truncated; /* chunks longer than the model's window */
    uint32_t tokens;
    uint64_t embed_us; /* waited for the model, its queue included */
};

/* Imports a batch of sources (all or each its own transaction: each). Creates the collections. */
struct rag_import;
MUST_CHECK enum errc rag_import_start(struct rag_import **out, const struct rag_env *env,
                                      const struct rag_import_options *opt,
                                      const struct rag_source *sources, size_t count,
                                      struct rag_wake wake, struct error *err);
MUST_CHECK enum errc rag_import_step(struct rag_import *i, enum rag_state *state,
                                     struct rag_import_result *result, struct error *err);
void rag_import_free(struct rag_import *i);

/*
 * known[i]: a document was imported from that path and the same bytes (source_digest), and another
 * import of it would change nothing. Texts are not looked at.
 */
MUST_CHECK enum errc rag_known(const struct rag_env *env, const struct rag_import_options *opt,
                               const struct rag_source *sources, size_t count, bool *known,
                               struct error *err);

/* Removes a document by path with its chunks. ERR_NOT_FOUND. */
MUST_CHECK enum errc rag_forget(const struct rag_env *env, const struct rag_import_options *opt,
                                struct slice path, struct error *err);

/* What a folder still has. Borrowed. */
struct rag_prune_options {
    struct slice prefix;      /* of the paths that are looked at; not empty */
    const struct slice *keep; /* paths */
    size_t keep_count;
    const atomic_bool *cancel; /* may be NULL */
};

/*
 * Removes the documents below the prefix that are not among those to keep, each with its chunks
 * in one transaction. *removed: their paths, in the arena; also after an error.
 */
MUST_CHECK enum errc rag_prune(const struct rag_env *env, const struct rag_import_options *opt,
                               const struct rag_prune_options *prune, struct arena *arena,
                               struct slice **removed, size_t *count, struct error *err);

/* ---- ask and search ---- */

struct rag_source_hit {
    struct slice key; /* of the chunk */
    struct slice title, path, text;
    uint64_t from, to; /* bytes of the chunk in the document */
    float score;
};

struct rag_citation {
    uint32_t source;                 /* number of the hit, from 1 */
    uint64_t answer_from, answer_to; /* bytes of the sentence in the answer */
    uint64_t from, to;               /* bytes of the supporting span in the document */
    struct slice quote;              /* the span */
    float score;
};

struct rag_ask_options {
    uint64_t db_id;
    struct slice question;
    struct slice chunks;                 /* collection; empty = "chunks" */
    struct slice model;                  /* chat model; empty = default */
    struct slice embedding_model;        /* empty = default */
    uint32_t top_k;                      /* 0 = setting */
    double min_score;                    /* NAN = setting */
    uint32_t max_tokens;                 /* 0 = 256 */
    double temperature;                  /* NAN = 0; unless there is sampling */
    const struct gen_sampling *sampling; /* borrowed by rag_ask_start; NULL = greedy */
    struct slice tenant;                 /* who shares prompts' beginnings */
    struct gen_payer *payer;             /* of the answer; NULL = nobody */
    bool search_only;                    /* hits, no answer */
    bool is_quick;                       /* search_only: order and relevance by the chunks alone */
    /* Events from any thread, in order; borrowed. May be NULL. */
    void (*on_sources)(void *ctx, const struct rag_source_hit *hits, size_t count);
    void (*on_text)(void *ctx, struct slice text);
    void *ctx;
};

struct rag_answer {
    struct slice text; /* "" with search_only */
    bool is_answered;  /* false: not in the documents (below the threshold or said so) */
    double relevance;  /* a cosine: what was compared with min_score */
    const struct rag_source_hit *hits;
    size_t hit_count;
    const struct rag_citation *citations;
    size_t citation_count;
    struct slice model, embedding_model;
    enum gen_finish finish; /* GEN_STOP when no model was asked */
    uint32_t prompt_tokens, completion_tokens;
    uint64_t embed_us, search_us, generate_us;
};

struct rag_ask;
MUST_CHECK enum errc rag_ask_start(struct rag_ask **out, const struct rag_env *env,
                                   const struct rag_ask_options *opt, struct rag_wake wake,
                                   struct error *err);
/* On RAG_DONE *answer lives until rag_ask_free. */
MUST_CHECK enum errc rag_ask_step(struct rag_ask *a, enum rag_state *state,
                                  struct rag_answer *answer, struct error *err);
void rag_ask_free(struct rag_ask *a);

/* ---- INFER and EMBED for AQL ---- */

/*
 * Both over one generator, which it borrows: batches that find its queue full wait in one line.
 * Queries that use it must have ended before it is freed.
 */
struct rag_calls;
struct rag_calls *rag_calls_new(struct generator *generator);
void rag_calls_free(struct rag_calls *calls);

/* For query_env; live as long as calls. */
const struct batch_call *rag_calls_infer(const struct rag_calls *calls);
const struct batch_call *rag_calls_embed(const struct rag_calls *calls);

#endif
