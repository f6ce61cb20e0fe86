/* SPDX-License-Identifier: Apache-2.0 */
#include "server/completion.h"

#include "base/env.h"
#include "base/val_text.h"
#include "model/logprob.h"
#include "server/ask_flow.h"
#include <stdio.h>

void completion_begin(struct completion *c, struct request *r, const char *model)
{
    c->r = r;
    snprintf(c->model, sizeof c->model, "%s", model);
    snprintf(c->id, sizeof c->id, "%s-%016llx", c->is_chat ? "chatcmpl" : "cmpl",
             (unsigned long long)env_random_u64(env_system()));
    c->created = (int64_t)(env_wall_us(env_system()) / 1000000);
}

static void put_usage(struct reply *a, const struct gen_event *e)
{
    reply_open(a, "usage");
    reply_int(a, "prompt_tokens", e->prompt_tokens);
    reply_int(a, "completion_tokens", e->completion_tokens);
    reply_int(a, "total_tokens", (int64_t)e->prompt_tokens + e->completion_tokens);
    reply_open(a, "prompt_tokens_details");
    reply_int(a, "cached_tokens", e->cached_tokens);
    reply_close(a);
    reply_close(a);
}

static void put_head(struct reply *a, const struct completion *c, const char *object)
{
    reply_begin(a, c->r);
    reply_str(a, "id", c->id);
    reply_str(a, "object", object);
    reply_int(a, "created", c->created);
    reply_str(a, "model", c->model);
}

static void put_retrieval(struct reply *a, const struct rag_answer *answer)
{
    if (!answer)
        return;
    reply_open(a, "retrieval");
    reply_bool(a, "answered", answer->is_answered);
    reply_double(a, "relevance", answer->relevance);
    ask_put_sources(a, answer);
    ask_put_citations(a, answer);
    reply_close(a);
}

static void send_event(struct completion *c, struct val v)
{
    struct buf text;

    buf_init(&text, 0);
    val_print(v, &text);
    exchange_event(c->r->x, buf_slice(&text));
    buf_release(&text);
}

/* ---- logprobs ---- */

/* Clients expect a number also for what cannot be. */
static double shown_logprob(const struct gen_token *t)
{
    return t->logprob > -9999 ? t->logprob : -9999;
}

static void put_chat_token(struct reply *a, const struct gen_token *t)
{
    reply_val(a, "token", text_clean(a->r->arena, t->bytes));
    reply_double(a, "logprob", shown_logprob(t));
    reply_list(a, "bytes");
    for (size_t i = 0; i < t->bytes.len; i++)
        val_put_int(a->b, (unsigned char)t->bytes.ptr[i]);
    reply_close(a);
}

static void put_chat_logprobs(struct reply *a, struct slice tokens)
{
    struct gen_token t, other;

    reply_list(a, "content");
    while (gen_token_next(&tokens, &t)) {
        reply_open(a, NULL);
        put_chat_token(a, &t);
        reply_list(a, "top_logprobs");
        for (uint32_t i = 0; i < t.alternatives && gen_token_next(&tokens, &other); i++) {
            reply_open(a, NULL);
            put_chat_token(a, &other);
            reply_close(a);
        }
        reply_close(a);
        reply_close(a);
    }
    reply_close(a);
    reply_null(a, "refusal");
}

static void skip_alternatives(struct slice *tokens, const struct gen_token *t)
{
    struct gen_token other;

    for (uint32_t i = 0; i < t->alternatives && gen_token_next(tokens, &other); i++)
        ;
}

static int64_t characters(struct slice text)
{
    int64_t n = 0;

    for (size_t i = 0; i < text.len; i++)
        n += ((unsigned char)text.ptr[i] & 0xc0) != 0x80;
    return n;
}

/* Names of an object differ; of two parts of characters that look the same the better one stays. */
static void put_alternatives(struct reply *a, struct slice *tokens, const struct gen_token *t)
{
    struct slice seen[LOGPROBS_TOP_MAX];
    struct gen_token other;
    size_t count = 0;

    reply_open(a, NULL);
    for (uint32_t i = 0; i < t->alternatives && gen_token_next(tokens, &other); i++) {
        struct slice name = val_string(text_clean(a->r->arena, other.bytes));
        bool is_new = count < ARRAY_LEN(seen);
        for (size_t k = 0; k < count; k++)
            is_new &= !slice_eq(seen[k], name);
        if (!is_new)
            continue;
        seen[count++] = name;
        val_put_name(a->b, name);
        val_put_double(a->b, shown_logprob(&other));
    }
    reply_close(a);
}

/* The older form: lists side by side. */
static void put_text_logprobs(struct reply *a, struct completion *c, struct slice tokens)
{
    struct slice rest = tokens;
    struct gen_token t;

    reply_list(a, "tokens");
    while (gen_token_next(&rest, &t)) {
        val_put(a->b, text_clean(a->r->arena, t.bytes));
        skip_alternatives(&rest, &t);
    }
    reply_close(a);
    rest = tokens;
    reply_list(a, "token_logprobs");
    while (gen_token_next(&rest, &t)) {
        val_put_double(a->b, shown_logprob(&t));
        skip_alternatives(&rest, &t);
    }
    reply_close(a);
    rest = tokens;
    reply_list(a, "top_logprobs");
    while (gen_token_next(&rest, &t))
        put_alternatives(a, &rest, &t);
    reply_close(a);
    rest = tokens;
    reply_list(a, "text_offset");
    while (gen_token_next(&rest, &t)) {
        val_put_int(a->b, c->text_offset);
        c->text_offset += characters(t.bytes);
        skip_alternatives(&rest, &t);
    }
    reply_close(a);
}

static void put_logprobs(struct reply *a, struct completion *c, struct slice tokens)
{
    if (!c->wants_logprobs || !tokens.len) {
        reply_null(a, "logprobs");
        return;
    }
    reply_open(a, "logprobs");
    if (c->is_chat)
        put_chat_logprobs(a, tokens);
    else
        put_text_logprobs(a, c, tokens);
    reply_close(a);
}

/* ---- streams and whole answers ---- */

/* One chunk; finish NULL while it goes on. */
struct chunk {
    struct slice text, tokens;
    const struct answer_parts *parts;
    const char *role, *finish;
    const struct rag_answer *answer;
};

static void send_chunk(struct completion *c, const struct chunk *k)
{
    struct arena_mark mark = arena_mark(c->r->arena);
    struct reply a;

    put_head(&a, c, c->is_chat ? "chat.completion.chunk" : "text_completion");
    reply_list(&a, "choices");
    reply_open(&a, NULL);
    reply_int(&a, "index", 0);
    if (c->is_chat) {
        reply_open(&a, "delta");
        if (k->role)
            reply_str(&a, "role", k->role);
        if (k->parts)
            answer_delta_put(&a, k->parts, &c->sent);
        else if (k->text.len || k->role)
            reply_text(&a, "content", k->text);
        reply_close(&a);
    } else {
        reply_text(&a, "text", k->text);
    }
    put_logprobs(&a, c, k->tokens);
    if (k->finish)
        reply_str(&a, "finish_reason", k->finish);
    else
        reply_null(&a, "finish_reason");
    reply_close(&a);
    reply_close(&a);
    put_retrieval(&a, k->answer);
    send_event(c, reply_finish(&a));
    arena_rewind(c->r->arena, mark);
}

static void begin_stream(struct completion *c)
{
    if (c->has_begun)
        return;
    c->has_begun = true;
    exchange_start_events(c->r->x, NULL, 0);
    if (c->is_chat)
        send_chunk(c, &(struct chunk){ .text = slice_of("", 0), .role = "assistant" });
}

void completion_text(struct completion *c, struct slice text, struct slice tokens)
{
    begin_stream(c);
    send_chunk(c, &(struct chunk){ .text = text, .tokens = tokens });
}

void completion_parts(struct completion *c, const struct answer_parts *parts, struct slice tokens)
{
    begin_stream(c);
    if (answer_delta_has(parts, &c->sent) || (c->wants_logprobs && tokens.len))
        send_chunk(c, &(struct chunk){ .parts = parts, .tokens = tokens });
}

/* A call is an answer of its own kind, if it is not cut off. */
static const char *finish_reason(const struct completion_whole *whole, const struct gen_event *last)
{
    bool has_calls = whole->parts && whole->parts->call_count > 0;

    return has_calls && last->finish == GEN_STOP ? "tool_calls" : gen_finish_name(last->finish);
}

static void end_stream(struct completion *c)
{
    exchange_event(c->r->x, slice_str("[DONE]"));
    exchange_finish(c->r->x);
    request_done(c->r);
}

static void send_whole(struct completion *c, const struct completion_whole *whole,
                       const struct gen_event *last, const struct rag_answer *answer)
{
    struct reply a;

    put_head(&a, c, c->is_chat ? "chat.completion" : "text_completion");
    reply_list(&a, "choices");
    reply_open(&a, NULL);
    reply_int(&a, "index", 0);
    if (c->is_chat) {
        reply_open(&a, "message");
        reply_str(&a, "role", "assistant");
        if (whole->parts)
            answer_message_put(&a, whole->parts);
        else
            reply_text(&a, "content", whole->text);
        reply_null(&a, "refusal");
        reply_close(&a);
    } else {
        reply_text(&a, "text", whole->text);
    }
    put_logprobs(&a, c, whole->tokens);
    reply_str(&a, "finish_reason", finish_reason(whole, last));
    reply_close(&a);
    reply_close(&a);
    put_usage(&a, last);
    put_retrieval(&a, answer);
    reply_send_bare(&a, 200);
}

void completion_end(struct completion *c, const struct completion_whole *whole,
                    const struct gen_event *last, const struct rag_answer *answer)
{
    struct reply a;

    if (!c->is_streaming) {
        send_whole(c, whole, last, answer);
        return;
    }
    begin_stream(c);
    send_chunk(c, &(struct chunk){ .text = slice_of("", 0),
                                   .finish = finish_reason(whole, last),
                                   .answer = answer });
    if (c->wants_usage) {
        put_head(&a, c, c->is_chat ? "chat.completion.chunk" : "text_completion");
        reply_list(&a, "choices");
        reply_close(&a);
        put_usage(&a, last);
        send_event(c, reply_finish(&a));
    }
    end_stream(c);
}

void completion_fail(struct completion *c, const struct error *err)
{
    if (!c->has_begun) {
        request_fail(c->r, err);
        return;
    }
    send_event(c, error_body(c->r->arena, API_OPENAI, err));
    end_stream(c);
}
