/* SPDX-License-Identifier: Apache-2.0 */
#include "server/completion.h"

#include "base/env.h"
#include "base/val_text.h"
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

/* One chunk; finish NULL while it goes on. */
static void send_chunk(struct completion *c, struct slice text, const char *role,
                       const char *finish, const struct rag_answer *answer)
{
    struct arena_mark mark = arena_mark(c->r->arena);
    struct reply a;

    put_head(&a, c, c->is_chat ? "chat.completion.chunk" : "text_completion");
    reply_list(&a, "choices");
    reply_open(&a, NULL);
    reply_int(&a, "index", 0);
    if (c->is_chat) {
        reply_open(&a, "delta");
        if (role)
            reply_str(&a, "role", role);
        if (text.len || role)
            reply_text(&a, "content", text);
        reply_close(&a);
    } else {
        reply_text(&a, "text", text);
    }
    reply_null(&a, "logprobs");
    if (finish)
        reply_str(&a, "finish_reason", finish);
    else
        reply_null(&a, "finish_reason");
    reply_close(&a);
    reply_close(&a);
    put_retrieval(&a, answer);
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
        send_chunk(c, slice_of("", 0), "assistant", NULL, NULL);
}

void completion_text(struct completion *c, struct slice text)
{
    begin_stream(c);
    send_chunk(c, text, NULL, NULL, NULL);
}

static void end_stream(struct completion *c)
{
    exchange_event(c->r->x, slice_str("[DONE]"));
    exchange_finish(c->r->x);
    request_done(c->r);
}

static void send_whole(struct completion *c, struct slice whole, const struct gen_event *last,
                       const struct rag_answer *answer)
{
    struct reply a;

    put_head(&a, c, c->is_chat ? "chat.completion" : "text_completion");
    reply_list(&a, "choices");
    reply_open(&a, NULL);
    reply_int(&a, "index", 0);
    if (c->is_chat) {
        reply_open(&a, "message");
        reply_str(&a, "role", "assistant");
        reply_text(&a, "content", whole);
        reply_null(&a, "refusal");
        reply_close(&a);
    } else {
        reply_text(&a, "text", whole);
    }
    reply_null(&a, "logprobs");
    reply_str(&a, "finish_reason", gen_finish_name(last->finish));
    reply_close(&a);
    reply_close(&a);
    put_usage(&a, last);
    put_retrieval(&a, answer);
    reply_send_bare(&a, 200);
}

void completion_end(struct completion *c, struct slice whole, const struct gen_event *last,
                    const struct rag_answer *answer)
{
    struct reply a;

    if (!c->is_streaming) {
        send_whole(c, whole, last, answer);
        return;
    }
    begin_stream(c);
    send_chunk(c, slice_of("", 0), NULL, gen_finish_name(last->finish), answer);
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
