/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /v1: chat/completions, completions, embeddings.
 *
 * Tokens arrive on a lane's thread, which only copies them and wakes the
 * request; JSON is made on a worker.
 */
#include "base/hash.h"
#include "base/val_text.h"
#include "model/logprob.h"
#include "server/answer_shape.h"
#include "server/body.h"
#include "server/chat_retrieval.h"
#include "server/cluster_gate.h"
#include "server/reply.h"
#include "server/router.h"
#include "server/server.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>

enum { STOPS_MAX = 4, TEXTS_MAX = 2048 };

/* ---- fields of a request ---- */

struct field_rule {
    const char *name;
    bool is_supported; /* else 501 unless it has the value that means "off" */
};

static const struct field_rule generation_fields[] = {
    { "model", true },
    { "messages", true },
    { "prompt", true },
    { "stream", true },
    { "stream_options", true },
    { "temperature", true },
    { "top_p", true },
    { "top_k", true },
    { "min_p", true },
    { "repeat_penalty", true },
    { "max_tokens", true },
    { "max_completion_tokens", true },
    { "stop", true },
    { "seed", true },
    { "presence_penalty", true },
    { "frequency_penalty", true },
    { "n", true },
    { "user", true },
    { "metadata", true },
    { "store", true },
    { "domain", true },
    { "response_format", true },
    { "json_schema", true },
    { "grammar", true },
    { "adapter", false },
    { "tools", true },
    { "tool_choice", true },
    { "parallel_tool_calls", true },
    { "functions", false },
    { "function_call", false },
    { "logprobs", true },
    { "top_logprobs", true },
    { "logit_bias", true },
    { "best_of", false },
    { "echo", false },
    { "suffix", false },
    { "retrieval", true },
    { "modalities", false },
    { "audio", false },
    { "prediction", false },
    { "reasoning_effort", false },
    { "service_tier", false },
    { "web_search_options", false },
};

static bool means_off(struct val v)
{
    return val_is_null(v) || (val_type(v) == VAL_BOOL && !val_bool(v)) ||
           (val_type(v) >= VAL_ARRAY && !val_count(v)) ||
           (val_type(v) == VAL_NUMBER && val_double(v) == 0);
}

static enum errc check_fields(struct val body, const struct field_rule *rules, size_t count,
                              struct error *err)
{
    for (size_t i = 0; i < val_count(body); i++) {
        struct slice name = val_name_at(body, i);
        const struct field_rule *rule = NULL;
        for (size_t k = 0; k < count && !rule; k++)
            if (slice_is(name, rules[k].name))
                rule = &rules[k];
        if (!rule)
            return fail(err, ERR_INVALID, "unknown field '%.*s'", SLICE_ARG(name));
        if (!rule->is_supported && !means_off(val_at(body, i)))
            return fail(err, ERR_NOT_IMPLEMENTED, "not implemented: '%.*s'", SLICE_ARG(name));
    }
    return OK;
}

static enum errc read_sampling(struct val body, struct gen_sampling *s, struct error *err)
{
    enum errc rc = OK;
    double d;
    struct val seed = val_get(body, slice_str("seed"));

    *s = gen_sampling_default();
    TRY(body_number(body, "temperature", 0, 2, s->temperature, &s->temperature, err));
    TRY(body_number(body, "top_p", 0, 1, s->top_p, &s->top_p, err));
    TRY(body_number(body, "min_p", 0, 1, s->min_p, &s->min_p, err));
    TRY(body_number(body, "top_k", 0, 1000000, s->top_k, &d, err));
    s->top_k = (int)d;
    TRY(body_number(body, "repeat_penalty", 0.1, 10, s->repeat_penalty, &s->repeat_penalty, err));
    TRY(body_number(body, "presence_penalty", -2, 2, 0, &s->presence_penalty, err));
    TRY(body_number(body, "frequency_penalty", -2, 2, 0, &s->frequency_penalty, err));
    if (val_is_null(seed))
        return OK;
    if (!val_is_int(seed))
        return fail(err, ERR_INVALID, "'seed' must be a whole number");
    s->has_seed = true;
    s->seed = (uint64_t)val_int(seed);
out:
    return rc;
}

/* {"token id": bias}, as OpenAI has it. */
static enum errc read_bias(struct arena *arena, struct val body, struct gen_sampling *s,
                           struct error *err)
{
    struct val v = val_get(body, slice_str("logit_bias"));
    size_t count = val_count(v);

    if (val_is_null(v))
        return OK;
    if (val_type(v) != VAL_OBJECT || count > GEN_BIAS_MAX)
        return fail(err, ERR_INVALID, "'logit_bias' must be an object of at most %d token ids",
                    GEN_BIAS_MAX);
    struct gen_bias *list = arena_alloc(arena, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        struct slice name = val_name_at(v, i);
        struct val bias = val_at(v, i);
        uint64_t id = 0;
        if (!slice_to_u64(name, &id) || id > INT32_MAX)
            return fail(err, ERR_INVALID, "'logit_bias': '%.*s' is not a token id",
                        (int)(name.len < 32 ? name.len : 32), name.ptr);
        if (val_type(bias) != VAL_NUMBER)
            return fail(err, ERR_INVALID, "'logit_bias' of token %.*s must be a number",
                        SLICE_ARG(name));
        list[i] = (struct gen_bias){ (int32_t)id, (float)val_double(bias) };
    }
    s->bias = list;
    s->bias_count = count;
    return OK;
}

static enum errc read_stops(struct val body, struct slice *stops, size_t *count, struct error *err)
{
    struct val v = val_get(body, slice_str("stop"));

    *count = 0;
    if (val_is_null(v))
        return OK;
    size_t n = val_type(v) == VAL_ARRAY ? val_count(v) : 1;
    if (n > STOPS_MAX)
        return fail(err, ERR_INVALID, "'stop' takes at most %d texts", STOPS_MAX);
    for (size_t i = 0; i < n; i++) {
        struct val one = val_type(v) == VAL_ARRAY ? val_at(v, i) : v;
        stops[(*count)++] = val_string(one);
        if (val_type(one) != VAL_STRING || !val_string(one).len)
            return fail(err, ERR_INVALID, "'stop' must be a text or an array of texts");
    }
    return OK;
}

/* A switch and a number for chats, a number for completions. */
static enum errc read_logprobs(struct val body, bool is_chat, struct gen_request *req,
                               struct error *err)
{
    struct val top = val_get(body, slice_str("top_logprobs"));
    enum errc rc = OK;
    double count = 0;

    if (!is_chat) {
        if (!val_is_null(top))
            return fail(err, ERR_INVALID, "'top_logprobs' is for chats; 'logprobs' is the number");
        req->wants_logprobs = !val_is_null(val_get(body, slice_str("logprobs")));
        TRY(body_number(body, "logprobs", 0, 5, 0, &count, err));
    } else {
        TRY(body_bool(body, "logprobs", &req->wants_logprobs, err));
        TRY(body_number(body, "top_logprobs", 0, LOGPROBS_TOP_MAX, 0, &count, err));
        if (!req->wants_logprobs && !val_is_null(top))
            return fail(err, ERR_INVALID, "'top_logprobs' needs 'logprobs': true");
    }
    req->top_logprobs = (unsigned)count;
    if (count != req->top_logprobs)
        return fail(err, ERR_INVALID, "'%s' must be a whole number",
                    is_chat ? "top_logprobs" : "logprobs");
out:
    return rc;
}

/* ---- a generation ---- */

struct generation {
    struct completion c;
    struct buf whole, whole_tokens; /* without streaming; of the text, also when it has parts */
    struct answer_format *format;   /* owned; NULL = all text is content */
    pthread_mutex_t lock;
    struct buf fresh, fresh_tokens; /* what the lane has delivered */
    struct gen_event last;
    struct error err;
    bool is_last, is_tagged;
    char node[64], reason[16]; /* who answers, and why; empty without a cluster */
};

static void on_event(void *ctx, const struct gen_event *e)
{
    struct generation *g = ctx;
    struct request *r = g->c.r;
    bool is_last = e->is_last;

    pthread_mutex_lock(&g->lock);
    buf_add_slice(&g->fresh, e->text);
    buf_add_slice(&g->fresh_tokens, e->tokens);
    if (e->place && !g->node[0]) {
        snprintf(g->node, sizeof g->node, "%s", e->place->node);
        snprintf(g->reason, sizeof g->reason, "%s", e->place->reason);
    }
    if (is_last) {
        g->last = *e;
        g->last.place = NULL;
        g->last.text = g->last.tokens = slice_of(NULL, 0);
        if (e->err)
            g->err = *e->err;
        g->last.err = NULL;
        g->is_last = true;
    }
    pthread_mutex_unlock(&g->lock);
    request_wake(r);
    if (is_last)
        request_unref(r);
}

static void generation_release(struct generation *g)
{
    answer_format_free(g->format);
    buf_release(&g->whole);
    buf_release(&g->whole_tokens);
    buf_release(&g->fresh);
    buf_release(&g->fresh_tokens);
    pthread_mutex_destroy(&g->lock);
}

static void finish_generation(struct request *r, struct generation *g)
{
    struct completion_whole whole = { buf_slice(&g->whole), buf_slice(&g->whole_tokens), NULL };
    struct answer_parts parts;

    request_ref(r); /* the buffers are freed after the reply is made */
    if (g->format && g->err.code == OK) {
        if (answer_format_read(g->format, whole.text, false, r->arena, &parts, &g->err) == OK)
            whole.parts = &parts;
        if (whole.parts && g->c.is_streaming)
            completion_parts(&g->c, &parts, slice_of(NULL, 0));
    }
    if (g->err.code == OK && g->last.finish == GEN_CANCELLED && !g->c.is_streaming)
        (void)fail(&g->err, ERR_GONE, "the request was cancelled");
    if (g->err.code != OK)
        completion_fail(&g->c, &g->err);
    else
        completion_end(&g->c, &whole, &g->last, NULL);
    generation_release(g);
    request_unref(r);
}

/* A part that cannot be read yet is sent with a later one. */
static void send_fresh(struct request *r, struct generation *g, struct slice text,
                       struct slice tokens)
{
    struct arena_mark mark = arena_mark(r->arena);
    struct answer_parts parts;
    struct error err;

    if (!g->format)
        completion_text(&g->c, text, tokens);
    else if (answer_format_read(g->format, buf_slice(&g->whole), true, r->arena, &parts, &err) ==
             OK)
        completion_parts(&g->c, &parts, tokens);
    arena_rewind(r->arena, mark);
}

/* Lock held. Before the answer begins, and then no more. */
static void tag_place(struct request *r, struct generation *g)
{
    if (!g->node[0] || g->is_tagged)
        return;
    g->is_tagged = true;
    exchange_tag(r->x, "x-themis-shard", g->node);
    exchange_tag(r->x, "x-themis-route", g->reason);
}

static void step_generation(struct request *r)
{
    struct generation *g = r->state;
    struct buf fresh, tokens;

    pthread_mutex_lock(&g->lock);
    fresh = g->fresh;
    tokens = g->fresh_tokens;
    buf_init(&g->fresh, 0);
    buf_init(&g->fresh_tokens, 0);
    bool is_last = g->is_last;
    tag_place(r, g);
    pthread_mutex_unlock(&g->lock);
    if (!g->c.is_streaming || g->format)
        buf_add_slice(&g->whole, buf_slice(&fresh));
    if (!g->c.is_streaming)
        buf_add_slice(&g->whole_tokens, buf_slice(&tokens));
    if (g->c.is_streaming && (fresh.len || tokens.len))
        send_fresh(r, g, buf_slice(&fresh), buf_slice(&tokens));
    buf_release(&fresh);
    buf_release(&tokens);
    if (is_last)
        finish_generation(r, g);
    else
        request_park(r, step_generation);
}

static enum errc read_generation(struct request *r, struct val body, struct gen_request *req,
                                 struct generation *g, struct slice *stops, struct error *err)
{
    enum errc rc = OK;
    double n, max_tokens, max_completion;
    struct val options = val_get(body, slice_str("stream_options"));

    TRY(check_fields(body, generation_fields, ARRAY_LEN(generation_fields), err));
    TRY(read_sampling(body, &req->sampling, err));
    TRY(read_bias(r->arena, body, &req->sampling, err));
    TRY(read_logprobs(body, g->c.is_chat, req, err));
    g->c.wants_logprobs = req->wants_logprobs;
    TRY(read_stops(body, stops, &req->stop_count, err));
    req->stops = stops;
    TRY(body_number(body, "n", 1, 128, 1, &n, err));
    if (n != 1)
        return fail(err, ERR_NOT_IMPLEMENTED, "not implemented: n greater than 1");
    TRY(body_number(body, "max_tokens", 1, 1e6, 0, &max_tokens, err));
    TRY(body_number(body, "max_completion_tokens", 1, 1e6, max_tokens, &max_completion, err));
    req->max_tokens = (uint32_t)max_completion;
    TRY(body_bool(body, "stream", &g->c.is_streaming, err));
    if (!val_is_null(options) && val_type(options) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "'stream_options' must be an object");
    TRY(body_bool(options, "include_usage", &g->c.wants_usage, err));
    TRY(body_text(body, "model", &req->model, err));
    TRY(body_text(body, "domain", &req->domain, err));
    TRY(answer_shape_read(body, &req->shape, err));
    if (g->c.is_chat) {
        TRY(answer_tools_read(body, &req->tools, err));
        req->format = &g->format;
    } else if (!val_is_null(val_get(body, slice_str("tools")))) {
        return fail(err, ERR_INVALID, "'tools' are for chats");
    }
out:
    return rc;
}

/* The node that shall answer, by a header: only a cluster has a choice. */
static enum errc read_node(struct request *r, struct gen_request *req, struct error *err)
{
    req->node = exchange_header(r->x, "x-themis-shard");
    if (req->node.len && !r->ctx->cluster)
        return fail(err, ERR_INVALID,
                    "x-themis-shard names a node of a cluster, and this one is alone");
    return OK;
}

/* The whole way of both endpoints. */
static void generate(struct request *r, bool is_chat)
{
    struct error err = { 0 };
    struct generation *g = ARENA_NEW(r->arena, struct generation);
    struct slice stops[STOPS_MAX];
    struct gen_request req = { .cancel = exchange_cancel_flag(r->x),
                               .on_event = on_event,
                               .ctx = g,
                               .tenant = r->user,
                               .payer = request_payer(r) };
    struct model_info info;
    struct generator *gen = r->ctx->chat;
    struct val body;
    enum errc rc = OK;

    g->c.r = r;
    g->c.is_chat = is_chat;
    pthread_mutex_init(&g->lock, NULL);
    TRY(request_object(r, &body, &err));
    TRY(read_generation(r, body, &req, g, stops, &err));
    if (is_chat) {
        req.messages = val_get(body, slice_str("messages"));
        if (val_type(req.messages) != VAL_ARRAY || !val_count(req.messages))
            TRY(fail(&err, ERR_INVALID, "'messages' must be an array with at least one message"));
    } else {
        struct val prompt = val_get(body, slice_str("prompt"));
        if (val_type(prompt) == VAL_ARRAY && val_count(prompt) == 1)
            prompt = val_at(prompt, 0);
        if (val_type(prompt) != VAL_STRING || !val_string(prompt).len)
            TRY(fail(&err, ERR_INVALID, "'prompt' must be a text that is not empty"));
        req.prompt = val_string(prompt);
    }
    TRY(read_node(r, &req, &err));
    TRY(gen->model(gen, req.model, MODEL_CHAT, &info, &err));
    req.model = slice_str(info.name); /* other nodes may have another default */
    completion_begin(&g->c, r, info.name);
    if (is_chat && chat_wants_retrieval(body) && req.wants_logprobs)
        TRY(fail(&err, ERR_NOT_IMPLEMENTED, "not implemented: 'logprobs' with 'retrieval'"));
    if (is_chat && chat_wants_retrieval(body) &&
        (req.shape.kind != GEN_FREE || val_count(req.tools.list)))
        TRY(fail(&err, ERR_NOT_IMPLEMENTED,
                 "not implemented: tools or a shape of the answer with 'retrieval'"));
    if (is_chat && chat_wants_retrieval(body)) {
        TRY(request_may_scope(r, SCOPE_DATA, &err));
        TRY(gate_data(r, &err));
        generation_release(g);
        chat_retrieval_start(&g->c, body, &req);
        return;
    }
    r->state = g;
    request_ref(r); /* until the last event */
    rc = gen->submit(gen, &req, &err);
    if (rc != OK)
        request_unref(r);
out:
    if (rc == OK) {
        request_park(r, step_generation);
        return;
    }
    generation_release(g);
    request_fail(r, &err);
}

static void post_chat(struct request *r)
{
    generate(r, true);
}

static void post_completion(struct request *r)
{
    generate(r, false);
}

/* ---- embeddings ---- */

struct embedding {
    struct request *r;
    char model[128];
    float *vectors;
    size_t count;
    uint32_t dimension, tokens;
    bool wants_base64;
    struct error err;
};

static void on_embedded(void *ctx, const struct embed_result *result)
{
    struct embedding *e = ctx;
    struct request *r = e->r;

    if (result->err) {
        e->err = *result->err;
    } else {
        size_t n = result->count * result->dimension;
        e->vectors = mem_alloc(n * sizeof *e->vectors);
        memcpy(e->vectors, result->vectors, n * sizeof *e->vectors);
        e->count = result->count;
        e->dimension = result->dimension;
        e->tokens = result->tokens;
    }
    request_wake(r);
    request_unref(r);
}

static void put_vector(struct reply *a, const struct embedding *e, size_t i)
{
    const float *row = e->vectors + i * e->dimension;
    struct buf text;

    if (!e->wants_base64) {
        val_put_name(a->b, slice_str("embedding"));
        val_put_floats(a->b, row, e->dimension);
        return;
    }
    buf_init(&text, 0);
    base64_encode(slice_of(row, e->dimension * sizeof *row), false, &text);
    reply_text(a, "embedding", buf_slice(&text));
    buf_release(&text);
}

static void step_embeddings(struct request *r)
{
    struct embedding *e = r->state;
    struct reply a;

    if (e->err.code != OK) {
        request_fail(r, &e->err);
        return;
    }
    reply_begin(&a, r);
    reply_str(&a, "object", "list");
    reply_list(&a, "data");
    for (size_t i = 0; i < e->count; i++) {
        reply_open(&a, NULL);
        reply_str(&a, "object", "embedding");
        reply_int(&a, "index", (int64_t)i);
        put_vector(&a, e, i);
        reply_close(&a);
    }
    reply_close(&a);
    reply_str(&a, "model", e->model);
    reply_open(&a, "usage");
    reply_int(&a, "prompt_tokens", e->tokens);
    reply_int(&a, "total_tokens", e->tokens);
    reply_close(&a);
    mem_free(e->vectors);
    reply_send_bare(&a, 200);
}

static enum errc read_inputs(struct request *r, struct val body, struct slice **texts,
                             size_t *count, struct error *err)
{
    struct val input = val_get(body, slice_str("input"));

    *count = val_type(input) == VAL_ARRAY ? val_count(input) : 1;
    if (!*count || *count > TEXTS_MAX)
        return fail(err, ERR_INVALID, "'input' takes 1 to %d texts", TEXTS_MAX);
    *texts = arena_alloc(r->arena, *count * sizeof(**texts));
    for (size_t i = 0; i < *count; i++) {
        struct val v = val_type(input) == VAL_ARRAY ? val_at(input, i) : input;
        if (val_type(v) != VAL_STRING || !val_string(v).len)
            return fail(err, ERR_INVALID,
                        "'input' must be a text or an array of texts, none empty");
        (*texts)[i] = val_string(v);
    }
    return OK;
}

static void post_embeddings(struct request *r)
{
    static const struct field_rule fields[] = { { "model", true },
                                                { "input", true },
                                                { "encoding_format", true },
                                                { "user", true },
                                                { "dimensions", false } };
    struct error err = { 0 };
    struct embedding *e = ARENA_NEW(r->arena, struct embedding);
    struct embed_request req = { .payer = request_payer(r),
                                 .cancel = exchange_cancel_flag(r->x),
                                 .on_done = on_embedded,
                                 .ctx = e };
    struct generator *gen = r->ctx->generator;
    struct model_info info;
    struct slice *texts = NULL, format;
    struct val body;
    enum errc rc = OK;

    e->r = r;
    TRY(request_object(r, &body, &err));
    TRY(check_fields(body, fields, ARRAY_LEN(fields), &err));
    TRY(body_text(body, "model", &req.model, &err));
    TRY(body_text(body, "encoding_format", &format, &err));
    if (format.len && !slice_is(format, "float") && !slice_is(format, "base64"))
        TRY(fail(&err, ERR_INVALID, "'encoding_format' must be float or base64"));
    e->wants_base64 = slice_is(format, "base64");
    TRY(read_inputs(r, body, &texts, &req.count, &err));
    req.texts = texts;
    TRY(gen->model(gen, req.model, MODEL_EMBEDDING, &info, &err));
    snprintf(e->model, sizeof e->model, "%s", info.name);
    r->state = e;
    request_ref(r);
    rc = gen->embed(gen, &req, &err);
    if (rc != OK)
        request_unref(r);
out:
    if (rc == OK)
        request_park(r, step_embeddings);
    else
        request_fail(r, &err);
}

const struct route api_openai_routes[] = {
    { METHOD_POST, "/v1/chat/completions", ROLE_USER, ON_POOL, BODY_MAX, post_chat,
      "Answers a conversation." },
    { METHOD_POST, "/v1/completions", ROLE_USER, ON_POOL, BODY_MAX, post_completion,
      "Continues a text." },
    { METHOD_POST, "/v1/embeddings", ROLE_USER, ON_POOL, BODY_MAX, post_embeddings,
      "Vectors of texts." },
    { 0 },
};
