/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question through its stages:
 *
 *   start -> EMBED (waits) -> search, rank -> WEIGH (waits) -> rank again, threshold
 *                                |                                 |       |
 *                                |  search only, or not relevant   |    GENERATE (waits)
 *                                |                                 v       v
 *                                `------- quick search ----------> done <- cite
 *
 * WEIGH embeds the sentences of the first hits. For small models those near the question
 * take the place of the chunks.
 *
 * Events of the model arrive on its thread while the step waits; between arming
 * the gate and the last event only that thread touches the answer's buffer.
 */
#include "base/env.h"
#include "retrieve/ask_prompt.h"
#include "retrieve/cite.h"
#include "retrieve/corpus.h"
#include "retrieve/focus.h"
#include "retrieve/gate.h"
#include "retrieve/rank.h"

#include <math.h>

enum {
    ANSWER_TOKENS = 256,
    SHORT_ANSWER_TOKENS = 96, /* small models run on; one sentence is asked for */
    ANSWER_BYTES_MAX = 4 * MIB,
    QUESTION_BYTES_MAX = 64 * KIB,
    DIMENSION_MAX = 65536,
    CANDIDATES = 32, /* chunks that are ranked again, at least */
    CANDIDATES_EXTRA = 8,
};

enum ask_stage { ASK_START, ASK_EMBED, ASK_WEIGH, ASK_GENERATE, ASK_DONE };

struct rag_ask {
    const struct rag_env *env;
    struct rag_ask_options opt; /* slices in the arena; without sampling */
    struct gen_sampling sampling;
    struct arena *arena;
    struct corpus corpus;
    enum ask_stage stage;
    bool is_waiting;
    struct model_info chat, embedding;
    struct corpus_hit *hits;
    size_t hit_count, top_k;
    size_t used; /* hits in the prompt */
    struct evidence evidence;
    struct focus focus;
    bool has_focus;
    struct rag_answer answer;
    uint64_t since_us;
    struct gate gate;

    /* Filled by the model's thread, read after the gate. */
    float *vector;
    uint32_t dimension;
    float *evidence_vectors;
    struct buf text;
    enum gen_finish finish;
    struct error failure;
    uint32_t prompt_tokens, completion_tokens;
};

static uint64_t now_us(const struct rag_ask *a)
{
    return env_mono_us(store_env(a->env->store));
}

static enum errc cancelled(struct error *err)
{
    return fail(err, ERR_GONE, "the question was cancelled");
}

static enum errc take_failure(const struct rag_ask *a, struct error *err)
{
    if (a->failure.code != OK && err)
        *err = a->failure;
    return a->failure.code;
}

/* ---- embedding the question ---- */

static void on_embedded(void *ctx, const struct embed_result *r)
{
    struct rag_ask *a = ctx;

    if (r->err) {
        a->failure = *r->err;
    } else if (r->count != 1 || r->dimension == 0 || r->dimension > DIMENSION_MAX) {
        (void)fail(&a->failure, ERR_INTERNAL, "model '%s' answered %zu vectors of %u numbers",
                   a->embedding.name, r->count, r->dimension);
    } else {
        a->dimension = r->dimension;
        a->vector = mem_alloc(r->dimension * sizeof(float));
        memcpy(a->vector, r->vectors, r->dimension * sizeof(float));
    }
    gate_open(&a->gate);
}

static enum errc start_embed(struct rag_ask *a, struct error *err)
{
    enum errc rc = OK;
    struct generator *g = a->env->generator;
    struct embed_request req = { .texts = &a->opt.question,
                                 .count = 1,
                                 .cancel = a->gate.wake.cancel,
                                 .on_done = on_embedded,
                                 .ctx = a };

    TRY(g->model(g, a->opt.embedding_model, MODEL_EMBEDDING, &a->embedding, err));
    a->answer.embedding_model = slice_str(a->embedding.name);
    if (!a->opt.search_only) { /* before work is done for nothing */
        TRY(g->model(g, a->opt.model, MODEL_CHAT, &a->chat, err));
        a->answer.model = slice_str(a->chat.name);
    }
    req.model = a->answer.embedding_model;
    a->since_us = now_us(a);
    gate_arm(&a->gate);
    TRY(g->embed(g, &req, err));
out:
    return rc;
}

/* ---- searching ---- */

static void publish_hits(struct rag_ask *a)
{
    struct rag_source_hit *hits = arena_alloc(a->arena, (a->hit_count + 1) * sizeof *hits);

    for (size_t i = 0; i < a->hit_count; i++)
        hits[i] = a->hits[i].hit;
    a->answer.hits = hits;
    a->answer.hit_count = a->hit_count;
    if (a->opt.on_sources)
        a->opt.on_sources(a->opt.ctx, hits, a->hit_count);
}

/* Copies of a text, say one licence under two names, would only take the place of others. */
static void drop_copies(struct rag_ask *a)
{
    size_t kept = 0;

    for (size_t i = 0; i < a->hit_count; i++) {
        bool is_copy = false;
        for (size_t j = 0; j < kept && !is_copy; j++)
            is_copy = slice_eq(a->hits[i].hit.text, a->hits[j].hit.text);
        if (!is_copy)
            a->hits[kept++] = a->hits[i];
    }
    a->hit_count = kept;
}

/* Finds and ranks hits. */
static enum errc search(struct rag_ask *a, struct error *err)
{
    enum errc rc = OK;
    size_t candidates = a->top_k + CANDIDATES_EXTRA;

    if (candidates < CANDIDATES)
        candidates = CANDIDATES;
    a->since_us = now_us(a);
    TRY(corpus_search(&a->corpus, a->vector, a->dimension, candidates, a->arena, &a->hits,
                      &a->hit_count, err));
    rank_hits(a->opt.question, a->hits, a->hit_count, a->arena);
    drop_copies(a);
out:
    return rc;
}

/* The order is final: keeps the first top_k and tells them. */
static void finish_search(struct rag_ask *a)
{
    if (a->hit_count > a->top_k)
        a->hit_count = a->top_k;
    a->answer.search_us = now_us(a) - a->since_us;
    publish_hits(a);
}

/* ---- weighing ---- */

static void on_weighed(void *ctx, const struct embed_result *r)
{
    struct rag_ask *a = ctx;
    size_t n = a->evidence.input_count;

    if (r->err) {
        a->failure = *r->err;
    } else if (r->count != n || r->dimension != a->dimension) {
        (void)fail(&a->failure, ERR_INTERNAL, "model '%s' answered %zu vectors of %u numbers",
                   a->embedding.name, r->count, r->dimension);
    } else {
        a->evidence_vectors = mem_alloc(n * a->dimension * sizeof(float));
        memcpy(a->evidence_vectors, r->vectors, n * a->dimension * sizeof(float));
    }
    gate_open(&a->gate);
}

static enum errc start_weigh(struct rag_ask *a, struct error *err)
{
    struct generator *g = a->env->generator;
    struct embed_request req = { .model = a->answer.embedding_model,
                                 .texts = a->evidence.inputs,
                                 .count = a->evidence.input_count,
                                 .cancel = a->gate.wake.cancel,
                                 .on_done = on_weighed,
                                 .ctx = a };

    gate_arm(&a->gate);
    return g->embed(g, &req, err);
}

static bool is_relevant(const struct rag_ask *a)
{
    double min = isnan(a->opt.min_score) ? a->env->settings->retrieve_min_score : a->opt.min_score;
    return a->answer.relevance >= min;
}

/* ---- generating ---- */

static void on_event(void *ctx, const struct gen_event *e)
{
    struct rag_ask *a = ctx;

    if (e->text.len > 0) {
        buf_add_slice(&a->text, e->text);
        if (a->opt.on_text)
            a->opt.on_text(a->opt.ctx, e->text);
    }
    if (!e->is_last)
        return;
    a->finish = e->finish;
    a->prompt_tokens = e->prompt_tokens;
    a->completion_tokens = e->completion_tokens;
    if (e->finish == GEN_FAILED && e->err)
        a->failure = *e->err;
    else if (e->finish == GEN_FAILED)
        (void)fail(&a->failure, ERR_INTERNAL, "model '%s' failed", a->chat.name);
    else if (e->finish == GEN_CANCELLED)
        (void)cancelled(&a->failure);
    gate_open(&a->gate);
}

static enum errc start_generate(struct rag_ask *a, struct error *err)
{
    enum errc rc = OK;
    struct generator *g = a->env->generator;
    const struct slice line_end = slice_str("\n");
    uint32_t usual = a->has_focus ? SHORT_ANSWER_TOKENS : ANSWER_TOKENS;
    uint32_t max_tokens = a->opt.max_tokens ? a->opt.max_tokens : usual;
    struct ask_prompt_options prompt = { .question = a->opt.question,
                                         .hits = a->hits,
                                         .hit_count = a->hit_count,
                                         .focus = a->has_focus ? &a->focus : NULL,
                                         .model = &a->chat,
                                         .max_tokens = max_tokens };
    struct gen_request req = { .model = a->answer.model,
                               .sampling = a->sampling,
                               .tenant = a->opt.tenant,
                               .payer = a->opt.payer,
                               .max_tokens = max_tokens,
                               .stops = &line_end,
                               .stop_count = a->has_focus ? 1 : 0,
                               .cancel = a->gate.wake.cancel,
                               .on_event = on_event,
                               .ctx = a };

    TRY(ask_prompt_build(g, &prompt, a->arena, &req.messages, &a->used, err));
    a->since_us = now_us(a);
    gate_arm(&a->gate);
    TRY(g->submit(g, &req, err));
out:
    return rc;
}

static void answer_unknown(struct rag_ask *a)
{
    a->answer.text = slice_str(ask_prompt_unknown);
    a->answer.finish = GEN_STOP;
    a->answer.is_answered = false;
    if (a->opt.on_text)
        a->opt.on_text(a->opt.ctx, a->answer.text);
}

static void finish_answer(struct rag_ask *a)
{
    a->answer.generate_us = now_us(a) - a->since_us;
    a->answer.text = buf_slice(&a->text);
    a->answer.finish = a->finish;
    a->answer.prompt_tokens = a->prompt_tokens;
    a->answer.completion_tokens = a->completion_tokens;
    a->answer.is_answered = !cite_says_unknown(a->answer.text);
    if (a->answer.is_answered)
        a->answer.citations = cite_answer(a->answer.text, a->opt.question, a->hits, a->used,
                                          a->arena, &a->answer.citation_count);
}

/* ---- the machine ---- */

enum errc rag_ask_start(struct rag_ask **out, const struct rag_env *env,
                        const struct rag_ask_options *opt, struct rag_wake wake, struct error *err)
{
    struct rag_ask *a;

    if (opt->question.len == 0)
        return fail(err, ERR_INVALID, "the question is empty");
    if (opt->question.len > QUESTION_BYTES_MAX)
        return fail(err, ERR_TOO_LARGE, "the question has %zu bytes, the limit is %d",
                    opt->question.len, QUESTION_BYTES_MAX);
    if (opt->top_k > 100)
        return fail(err, ERR_INVALID, "top_k is %u, the limit is 100", opt->top_k);
    a = mem_zalloc(sizeof *a);
    a->env = env;
    a->arena = arena_new(0);
    a->opt = *opt;
    a->top_k = opt->top_k ? opt->top_k : (size_t)env->settings->retrieve_top_k;
    a->opt.question = arena_copy(a->arena, opt->question);
    a->opt.model = arena_copy(a->arena, opt->model);
    a->opt.embedding_model = arena_copy(a->arena, opt->embedding_model);
    a->opt.tenant = arena_copy(a->arena, opt->tenant);
    a->opt.sampling = NULL;
    if (opt->sampling) {
        a->sampling = *opt->sampling;
    } else {
        a->sampling = gen_sampling_default();
        a->sampling.temperature = isnan(opt->temperature) ? 0 : opt->temperature;
    }
    a->corpus = corpus_of(env, opt->db_id, slice_of(NULL, 0), arena_copy(a->arena, opt->chunks));
    a->gate.wake = wake;
    buf_init(&a->text, ANSWER_BYTES_MAX);
    *out = a;
    return OK;
}

/* The order of the hits and their relevance are known: answers, refuses, or is done. */
static enum errc after_search(struct rag_ask *a, struct error *err)
{
    enum errc rc = OK;

    finish_search(a);
    a->stage = ASK_DONE;
    if (a->opt.search_only) {
        a->answer.is_answered = is_relevant(a);
    } else if (!is_relevant(a)) {
        answer_unknown(a);
    } else {
        a->has_focus = ask_prompt_wants_focus(&a->chat) && a->evidence.passages.count > 0;
        if (a->has_focus)
            focus_choose(&a->focus, a->opt.question, &a->evidence, a->hits, a->hit_count, a->arena);
        TRY(start_generate(a, err));
        a->stage = ASK_GENERATE;
    }
out:
    return rc;
}

/* The question is embedded. */
static enum errc after_embed(struct rag_ask *a, struct error *err)
{
    enum errc rc = OK;

    a->answer.embed_us = now_us(a) - a->since_us;
    TRY(search(a, err));
    if (!a->opt.is_quick)
        evidence_collect(&a->evidence, a->opt.question, a->hits, a->hit_count,
                         (size_t)a->env->settings->retrieve_rerank_hits, a->arena);
    if (a->evidence.input_count == 0) { /* quick, or hits that are headings only */
        a->answer.relevance = a->hit_count > 0 ? (double)a->hits[0].hit.score : -1;
        return after_search(a, err);
    }
    TRY(start_weigh(a, err));
    a->stage = ASK_WEIGH;
out:
    return rc;
}

/* From one stage to the next; every stage but the last ends with a call under way. */
static enum errc run_stage(struct rag_ask *a, struct error *err)
{
    enum errc rc = OK;

    TRY(take_failure(a, err));
    switch (a->stage) {
    case ASK_START:
        TRY(start_embed(a, err));
        a->stage = ASK_EMBED;
        break;
    case ASK_EMBED:
        TRY(after_embed(a, err));
        break;
    case ASK_WEIGH:
        a->answer.relevance = evidence_weigh(&a->evidence, a->vector, a->evidence_vectors,
                                             a->dimension, a->hits, a->arena);
        TRY(after_search(a, err));
        break;
    case ASK_GENERATE:
        finish_answer(a);
        a->stage = ASK_DONE;
        break;
    case ASK_DONE:
        break;
    }
out:
    return rc;
}

enum errc rag_ask_step(struct rag_ask *a, enum rag_state *state, struct rag_answer *answer,
                       struct error *err)
{
    enum errc rc = OK;

    a->is_waiting = false;
    while (a->stage != ASK_DONE) {
        if (gate_is_cancelled(&a->gate))
            TRY(cancelled(err));
        TRY(run_stage(a, err));
        if (a->stage == ASK_DONE)
            break;
        a->is_waiting = true;
        *state = RAG_WAIT;
        if (gate_wait(&a->gate))
            return OK;
        a->is_waiting = false;
    }
    *state = RAG_DONE;
    *answer = a->answer;
out:
    return rc;
}

void rag_ask_free(struct rag_ask *a)
{
    if (!a)
        return;
    if (a->is_waiting)
        BUG("question freed while it waits");
    mem_free(a->vector);
    mem_free(a->evidence_vectors);
    buf_release(&a->text);
    arena_free(a->arena);
    mem_free(a);
}
