/* SPDX-License-Identifier: Apache-2.0 */
#include "server/chat_retrieval.h"

#include "server/ask_flow.h"
#include "server/body.h"
#include <math.h>

struct chat_ask {
    struct completion *c;
    bool in_text; /* the citations also stand below the answer, for clients that show only that */
};

/* ---- reading ---- */

bool chat_wants_retrieval(struct val body)
{
    struct val v = val_get(body, slice_str("retrieval"));

    return val_type(v) == VAL_OBJECT ? val_count(v) > 0
                                     : !val_is_null(v) && !val_equal(v, val_false);
}

static enum errc read_options(struct val v, struct rag_ask_options *opt, struct chat_ask *k,
                              struct error *err)
{
    static const char *const known[] = { "collection", "top_k", "min_score", "embedding_model",
                                         "in_text" };
    enum errc rc = OK;
    double top_k;

    if (val_equal(v, val_true))
        return OK;
    if (val_type(v) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "'retrieval' must be true or an object");
    TRY(body_check_names(v, known, ARRAY_LEN(known), err));
    TRY(body_text(v, "collection", &opt->chunks, err));
    TRY(body_text(v, "embedding_model", &opt->embedding_model, err));
    TRY(body_number(v, "top_k", 1, 100, 0, &top_k, err));
    TRY(body_number(v, "min_score", -1, 1, NAN, &opt->min_score, err));
    TRY(body_bool(v, "in_text", &k->in_text, err));
    opt->top_k = (uint32_t)top_k;
out:
    return rc;
}

/* A text, or the texts among its parts, one under the other. */
static struct slice content_text(struct val content, struct arena *arena)
{
    struct buf text;
    struct slice out;

    if (val_type(content) != VAL_ARRAY)
        return val_string(content);
    buf_init(&text, 0);
    for (size_t i = 0; i < val_count(content); i++) {
        struct slice part = val_string(val_get(val_at(content, i), slice_str("text")));
        if (part.len && text.len)
            buf_add_char(&text, '\n');
        buf_add_slice(&text, part);
    }
    out = arena_copy(arena, buf_slice(&text));
    buf_release(&text);
    return out;
}

static enum errc read_question(struct request *r, struct val messages, struct slice *out,
                               struct error *err)
{
    for (size_t i = val_count(messages); i > 0; i--) {
        struct val message = val_at(messages, i - 1);
        if (!slice_is(val_string(val_get(message, slice_str("role"))), "user"))
            continue;
        *out = content_text(val_get(message, slice_str("content")), r->arena);
        if (out->len > 0)
            return OK;
        break;
    }
    return fail(err, ERR_INVALID,
                "'retrieval' answers the last message of the user: there is none with a text");
}

static enum errc check_fields(struct val body, struct error *err)
{
    static const char *const excluded[] = { "stop", "domain" };

    for (size_t i = 0; i < ARRAY_LEN(excluded); i++)
        if (!val_is_null(val_get(body, slice_str(excluded[i]))))
            return fail(err, ERR_NOT_IMPLEMENTED, "not implemented: '%s' with 'retrieval'",
                        excluded[i]);
    return OK;
}

/* ---- answering ---- */

/* "Sources:" and one line for each citation. */
static void write_citations(const struct rag_answer *answer, struct buf *out)
{
    if (answer->citation_count > 0)
        buf_add_str(out, "\n\nSources:");
    for (size_t i = 0; i < answer->citation_count; i++) {
        const struct rag_citation *c = &answer->citations[i];
        const struct rag_source_hit *hit = &answer->hits[c->source - 1];
        buf_printf(out, "\n[%u] %.*s (%.*s, bytes %llu-%llu): \"", c->source, SLICE_ARG(hit->title),
                   SLICE_ARG(hit->path), (unsigned long long)c->from, (unsigned long long)c->to);
        for (size_t j = 0; j < c->quote.len; j++)
            buf_add_char(out, (uint8_t)c->quote.ptr[j] < ' ' ? ' ' : c->quote.ptr[j]);
        buf_add_char(out, '"');
    }
}

static void on_text(void *ctx, struct slice text)
{
    completion_text(((struct chat_ask *)ctx)->c, text, slice_of(NULL, 0));
}

static void on_done(void *ctx, const struct rag_answer *answer)
{
    struct chat_ask *k = ctx;
    struct gen_event last = { .finish = answer->finish,
                              .prompt_tokens = answer->prompt_tokens,
                              .completion_tokens = answer->completion_tokens };
    struct buf text;
    size_t sent;

    buf_init(&text, 0);
    buf_add_slice(&text, answer->text);
    sent = text.len;
    if (k->in_text)
        write_citations(answer, &text);
    if (k->c->is_streaming && text.len > sent)
        completion_text(k->c, slice_of(text.ptr + sent, text.len - sent), slice_of(NULL, 0));
    completion_end(k->c, &(struct completion_whole){ .text = buf_slice(&text) }, &last, answer);
    buf_release(&text);
}

static void on_failed(void *ctx, const struct error *err)
{
    completion_fail(((struct chat_ask *)ctx)->c, err);
}

void chat_retrieval_start(struct completion *c, struct val body, const struct gen_request *req)
{
    static const struct ask_shape whole = { NULL, on_done, on_failed };
    static const struct ask_shape streamed = { on_text, on_done, on_failed };
    struct request *r = c->r;
    struct chat_ask *k = ARENA_NEW(r->arena, struct chat_ask);
    struct gen_sampling sampling = req->sampling;
    struct rag_ask_options opt = { .model = req->model,
                                   .max_tokens = req->max_tokens,
                                   .min_score = (double)NAN,
                                   .temperature = (double)NAN,
                                   .sampling = &sampling };
    struct error err = { 0 };
    enum errc rc = OK;

    k->c = c;
    if (val_is_null(val_get(body, slice_str("temperature"))))
        sampling.temperature = 0; /* facts are asked for */
    TRY(check_fields(body, &err));
    TRY(read_options(val_get(body, slice_str("retrieval")), &opt, k, &err));
    TRY(read_question(r, req->messages, &opt.question, &err));
    TRY(request_database_id(r, &opt.db_id, &err));
    ask_flow_start(r, &opt, c->is_streaming ? &streamed : &whole, k);
    return;
out:
    completion_fail(c, &err);
}
