/* SPDX-License-Identifier: Apache-2.0 */
#include "server/ask_flow.h"
#include "server/body.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

struct ask_flow {
    struct request *r;
    struct rag_ask *ask;
    const struct ask_shape *shape;
    void *ctx;
    atomic_bool is_due;   /* the operation asked for its next step */
    pthread_mutex_t lock; /* of text, which comes from a lane */
    struct buf text;      /* of the answer, not sent yet */
};

/* Called by the lane, which has no time for JSON. */
static void on_text(void *ctx, struct slice text)
{
    struct ask_flow *k = ctx;

    pthread_mutex_lock(&k->lock);
    buf_add_slice(&k->text, text);
    pthread_mutex_unlock(&k->lock);
    request_wake(k->r);
}

/* All the text that has come since the last time. */
static void flush_text(struct ask_flow *k)
{
    struct buf text;

    if (!k->shape->text)
        return;
    pthread_mutex_lock(&k->lock);
    text = k->text;
    buf_init(&k->text, 0);
    pthread_mutex_unlock(&k->lock);
    if (text.len)
        k->shape->text(k->ctx, buf_slice(&text));
    buf_release(&text);
}

static void release(struct ask_flow *k)
{
    rag_ask_free(k->ask);
    buf_release(&k->text);
    pthread_mutex_destroy(&k->lock);
}

/* The answer lives in k until it was printed, and k in the request. */
static void finish(struct ask_flow *k, const struct rag_answer *answer)
{
    struct request *r = k->r;

    request_ref(r);
    flush_text(k);
    k->shape->done(k->ctx, answer);
    release(k);
    request_unref(r);
}

static void give_up(struct ask_flow *k, const struct error *err)
{
    struct request *r = k->r;

    request_ref(r);
    k->shape->failed(k->ctx, err);
    release(k);
    request_unref(r);
}

/* Holds a reference: a worker that text has woken may finish as soon as it sees is_due. */
static void wake(void *ctx)
{
    struct ask_flow *k = ctx;
    struct request *r = k->r;

    atomic_store(&k->is_due, true);
    request_wake(r);
    request_unref(r);
}

/* Woken by text or by the operation: only the latter means a step. */
static void step(struct request *r)
{
    struct ask_flow *k = r->state;
    struct error err = { 0 };
    struct rag_answer answer;
    enum rag_state state = RAG_WAIT;
    enum errc rc = OK;

    if (atomic_exchange(&k->is_due, false)) {
        request_ref(r); /* of wake */
        rc = rag_ask_step(k->ask, &state, &answer, &err);
        if (rc != OK || state == RAG_DONE)
            request_unref(r);
    }
    if (rc != OK) {
        give_up(k, &err);
    } else if (state == RAG_DONE) {
        finish(k, &answer);
    } else {
        flush_text(k);
        request_park(r, step);
    }
}

void ask_flow_start(struct request *r, const struct rag_ask_options *opt,
                    const struct ask_shape *shape, void *ctx)
{
    struct ask_flow *k = ARENA_NEW(r->arena, struct ask_flow);
    struct rag_ask_options mine = *opt;
    struct rag_wake waker = { wake, k, exchange_cancel_flag(r->x) };
    struct error err = { 0 };
    enum errc rc = OK;

    k->r = r;
    k->shape = shape;
    k->ctx = ctx;
    atomic_store(&k->is_due, true);
    pthread_mutex_init(&k->lock, NULL);
    mine.ctx = k;
    mine.on_text = shape->text ? on_text : NULL;
    mine.tenant = r->user;
    mine.payer = request_payer(r);
    r->state = k;
    TRY(request_may_use(r, opt->chunks.len ? opt->chunks : slice_str("chunks"), ACCESS_READ, &err));
    TRY(rag_ask_start(&k->ask, &r->ctx->rag, &mine, waker, &err));
    step(r);
    return;
out:
    give_up(k, &err);
}

/* ---- members of a question ---- */

enum errc ask_read_options(struct val body, const char *other, struct rag_ask_options *opt,
                           struct error *err)
{
    /* the last two are not everybody's */
    const char *known[] = { "question",  "collection", "model",       "top_k", "embedding_model",
                            "min_score", "max_tokens", "temperature", NULL,    NULL };
    size_t count = ARRAY_LEN(known) - 2;
    double top_k, max_tokens;
    enum errc rc = OK;

    if (other)
        known[count++] = other;
    if (opt->search_only)
        known[count++] = "rerank";
    TRY(body_check_names(body, known, count, err));
    TRY(body_text(body, "question", &opt->question, err));
    if (!opt->question.len)
        return fail(err, ERR_INVALID, "'question' must be a text that is not empty");
    TRY(body_text(body, "collection", &opt->chunks, err));
    TRY(body_text(body, "model", &opt->model, err));
    TRY(body_text(body, "embedding_model", &opt->embedding_model, err));
    TRY(body_number(body, "top_k", 1, 100, 0, &top_k, err));
    TRY(body_number(body, "min_score", -1, 1, NAN, &opt->min_score, err));
    TRY(body_number(body, "max_tokens", 1, 100000, 0, &max_tokens, err));
    TRY(body_number(body, "temperature", 0, 2, NAN, &opt->temperature, err));
    if (!val_is_null(val_get(body, slice_str("rerank")))) {
        TRY(body_bool(body, "rerank", &opt->is_quick, err));
        opt->is_quick = !opt->is_quick;
    }
    opt->top_k = (uint32_t)top_k;
    opt->max_tokens = (uint32_t)max_tokens;
out:
    return rc;
}

/* ---- members of a reply ---- */

void ask_put_sources(struct reply *a, const struct rag_answer *answer)
{
    reply_list(a, "sources");
    for (size_t i = 0; i < answer->hit_count; i++) {
        const struct rag_source_hit *hit = &answer->hits[i];
        reply_open(a, NULL);
        reply_int(a, "number", (int64_t)i + 1);
        reply_text(a, "key", hit->key);
        reply_text(a, "title", hit->title);
        reply_text(a, "path", hit->path);
        reply_int(a, "from", (int64_t)hit->from);
        reply_int(a, "to", (int64_t)hit->to);
        reply_double(a, "score", hit->score);
        reply_text(a, "text", hit->text);
        reply_close(a);
    }
    reply_close(a);
}

void ask_put_citations(struct reply *a, const struct rag_answer *answer)
{
    reply_list(a, "citations");
    for (size_t i = 0; i < answer->citation_count; i++) {
        const struct rag_citation *c = &answer->citations[i];
        const struct rag_source_hit *hit = &answer->hits[c->source - 1];
        reply_open(a, NULL);
        reply_int(a, "source", c->source);
        reply_text(a, "title", hit->title);
        reply_text(a, "path", hit->path);
        reply_int(a, "from", (int64_t)c->from);
        reply_int(a, "to", (int64_t)c->to);
        reply_int(a, "answer_from", (int64_t)c->answer_from);
        reply_int(a, "answer_to", (int64_t)c->answer_to);
        reply_text(a, "quote", c->quote);
        reply_double(a, "score", c->score);
        reply_close(a);
    }
    reply_close(a);
}

void ask_put_answer(struct reply *a, const struct rag_answer *answer, bool is_search)
{
    if (!is_search) {
        reply_text(a, "answer", answer->text);
        reply_bool(a, "answered", answer->is_answered);
    } else {
        reply_bool(a, "relevant", answer->is_answered);
    }
    reply_double(a, "relevance", answer->relevance);
    ask_put_sources(a, answer);
    if (!is_search) {
        ask_put_citations(a, answer);
        reply_text(a, "model", answer->model);
    }
    reply_text(a, "embedding_model", answer->embedding_model);
    reply_open(a, "usage");
    reply_int(a, "prompt_tokens", answer->prompt_tokens);
    reply_int(a, "completion_tokens", answer->completion_tokens);
    reply_close(a);
    reply_open(a, "timings");
    reply_double(a, "embed_ms", (double)answer->embed_us / 1000);
    reply_double(a, "search_ms", (double)answer->search_us / 1000);
    reply_double(a, "generate_ms", (double)answer->generate_us / 1000);
    reply_close(a);
}
