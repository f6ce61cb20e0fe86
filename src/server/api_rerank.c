/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /v1/rerank (Cohere's and Jina's form) and /v1/score (vLLM's), with an embedding model: how near
 * texts are to a query, as the cosine of their vectors. Both texts are embedded by themselves, so
 * this is what a vector index ranks by; a model that reads query and text together would be better.
 */
#include "base/env.h"
#include "server/body.h"
#include "server/reply.h"
#include "server/router.h"
#include "server/server.h"
#include <stdio.h>
#include <stdlib.h>

enum { TEXTS_MAX = 2048 };

struct ranked {
    size_t index;
    double score;
};

/* Score k is about texts left(k) and right(k). */
struct scoring {
    struct request *r;
    bool is_rerank, wants_documents;
    char model[128];
    struct slice *texts;
    size_t count;          /* of texts; the first ones are those of the left side */
    size_t left, scores;   /* texts of the left side; number of scores */
    size_t top;            /* of the answer */
    struct ranked *ranked; /* scores of them */
    uint32_t tokens;
    struct error err;
};

static double cosine(const float *a, const float *b, uint32_t dimension)
{
    double sum = 0; /* the vectors are normalised */

    for (uint32_t i = 0; i < dimension; i++)
        sum += (double)a[i] * b[i];
    return sum > 1 ? 1 : sum < -1 ? -1 : sum;
}

static void on_embedded(void *ctx, const struct embed_result *result)
{
    struct scoring *s = ctx;
    struct request *r = s->r;

    if (result->err) {
        s->err = *result->err;
    } else {
        for (size_t k = 0; k < s->scores; k++) {
            size_t a = s->left == 1 ? 0 : k, b = s->left + k;
            s->ranked[k] = (struct ranked){ k, cosine(result->vectors + a * result->dimension,
                                                      result->vectors + b * result->dimension,
                                                      result->dimension) };
        }
        s->tokens = result->tokens;
    }
    request_wake(r);
    request_unref(r);
}

static int by_score(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    return x->score != y->score ? (x->score < y->score ? 1 : -1)
                                : (x->index > y->index) - (x->index < y->index);
}

static void put_document(struct reply *a, const struct scoring *s, size_t index)
{
    reply_open(a, "document");
    reply_text(a, "text", s->texts[s->left + index]);
    reply_close(a);
}

static void put_scores(struct reply *a, const struct scoring *s)
{
    reply_list(a, s->is_rerank ? "results" : "data");
    for (size_t i = 0; i < s->top; i++) {
        reply_open(a, NULL);
        reply_int(a, "index", (int64_t)s->ranked[i].index);
        if (!s->is_rerank)
            reply_str(a, "object", "score");
        reply_double(a, s->is_rerank ? "relevance_score" : "score", s->ranked[i].score);
        if (s->wants_documents)
            put_document(a, s, s->ranked[i].index);
        reply_close(a);
    }
    reply_close(a);
}

static void step_scoring(struct request *r)
{
    struct scoring *s = r->state;
    char id[48];
    struct reply a;

    if (s->err.code != OK) {
        request_fail(r, &s->err);
        return;
    }
    if (s->is_rerank)
        qsort(s->ranked, s->scores, sizeof *s->ranked, by_score);
    snprintf(id, sizeof id, "%s-%016llx", s->is_rerank ? "rerank" : "score",
             (unsigned long long)env_random_u64(env_system()));
    reply_begin(&a, r);
    reply_str(&a, "id", id);
    reply_str(&a, "object", "list");
    reply_str(&a, "model", s->model);
    put_scores(&a, s);
    reply_open(&a, "usage");
    reply_int(&a, "prompt_tokens", s->tokens);
    reply_int(&a, "total_tokens", s->tokens);
    reply_close(&a);
    reply_send_bare(&a, 200);
}

/* ---- reading ---- */

/* A text or an array of texts, none empty; documents may be {"text": ...}. */
static enum errc add_texts(struct scoring *s, struct val v, const char *name, bool is_list,
                           struct error *err)
{
    size_t n = val_type(v) == VAL_ARRAY ? val_count(v) : 1;

    if ((is_list && val_type(v) != VAL_ARRAY) || !n)
        return fail(err, ERR_INVALID, "'%s' must be an array of texts", name);
    if (s->count + n > TEXTS_MAX)
        return fail(err, ERR_INVALID, "at most %d texts in all", TEXTS_MAX);
    for (size_t i = 0; i < n; i++) {
        struct val one = val_type(v) == VAL_ARRAY ? val_at(v, i) : v;
        if (is_list && val_type(one) == VAL_OBJECT)
            one = val_get(one, slice_str("text"));
        if (val_type(one) != VAL_STRING || !val_string(one).len)
            return fail(err, ERR_INVALID, "'%s' must be texts, none empty", name);
        s->texts[s->count++] = val_string(one);
    }
    return OK;
}

static enum errc read_rerank(struct val body, struct scoring *s, struct error *err)
{
    static const char *const known[] = { "model", "query", "documents", "top_n",
                                         "return_documents" };
    struct val query = val_get(body, slice_str("query"));
    enum errc rc = OK;
    double top;

    TRY(body_check_names(body, known, ARRAY_LEN(known), err));
    if (val_type(query) != VAL_STRING)
        TRY(fail(err, ERR_INVALID, "'query' must be a text"));
    TRY(add_texts(s, query, "query", false, err));
    s->left = 1;
    TRY(add_texts(s, val_get(body, slice_str("documents")), "documents", true, err));
    s->scores = s->count - 1;
    TRY(body_number(body, "top_n", 1, 1e9, (double)s->scores, &top, err));
    s->top = top < (double)s->scores ? (size_t)top : s->scores;
    rc = body_bool(body, "return_documents", &s->wants_documents, err);
out:
    return rc;
}

static enum errc read_score(struct val body, struct scoring *s, struct error *err)
{
    static const char *const known[] = { "model", "text_1", "text_2", "encoding_format" };
    struct slice format;
    enum errc rc = OK;

    TRY(body_check_names(body, known, ARRAY_LEN(known), err));
    TRY(body_text(body, "encoding_format", &format, err));
    if (format.len && !slice_is(format, "float"))
        TRY(fail(err, ERR_INVALID, "'encoding_format' must be float"));
    TRY(add_texts(s, val_get(body, slice_str("text_1")), "text_1", false, err));
    s->left = s->count;
    TRY(add_texts(s, val_get(body, slice_str("text_2")), "text_2", false, err));
    s->scores = s->top = s->count - s->left;
    if (s->left > 1 && s->left != s->scores)
        rc = fail(err, ERR_INVALID,
                  "'text_1' must be one text, or as many as 'text_2': %zu, not %zu", s->scores,
                  s->left);
out:
    return rc;
}

static void score(struct request *r, bool is_rerank)
{
    struct error err = { 0 };
    struct scoring *s = ARENA_NEW(r->arena, struct scoring);
    struct embed_request req = { .payer = request_payer(r),
                                 .cancel = exchange_cancel_flag(r->x),
                                 .on_done = on_embedded,
                                 .ctx = s };
    struct generator *gen = r->ctx->generator;
    struct model_info info;
    struct val body;
    enum errc rc = OK;

    s->r = r;
    s->is_rerank = is_rerank;
    s->texts = arena_alloc(r->arena, TEXTS_MAX * sizeof *s->texts);
    TRY(request_object(r, &body, &err));
    TRY(is_rerank ? read_rerank(body, s, &err) : read_score(body, s, &err));
    TRY(body_text(body, "model", &req.model, &err));
    TRY(gen->model(gen, req.model, MODEL_EMBEDDING, &info, &err));
    snprintf(s->model, sizeof s->model, "%s", info.name);
    s->ranked = arena_alloc(r->arena, (s->scores + 1) * sizeof *s->ranked);
    req.texts = s->texts;
    req.count = s->count;
    r->state = s;
    request_ref(r);
    rc = gen->embed(gen, &req, &err);
    if (rc != OK)
        request_unref(r);
out:
    if (rc == OK)
        request_park(r, step_scoring);
    else
        request_fail(r, &err);
}

static void post_rerank(struct request *r)
{
    score(r, true);
}

static void post_score(struct request *r)
{
    score(r, false);
}

const struct route api_rerank_routes[] = {
    { METHOD_POST, "/v1/rerank", ROLE_USER, ON_POOL, BODY_MAX, post_rerank,
      "Orders texts by their nearness to a query." },
    { METHOD_POST, "/v1/score", ROLE_USER, ON_POOL, BODY_MAX, post_score,
      "How near pairs of texts are." },
    { 0 },
};
