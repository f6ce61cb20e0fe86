/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /v1/tokenize and /v1/detokenize, by the names of llama-server (content,
 * add_special, parse_special, with_pieces) and of vLLM (prompt or messages,
 * add_special_tokens; count, max_model_len). Both sets may be mixed; what one
 * does not say is as in the other.
 *
 * A spelling of a control token in a text is text, as in a generation, unless
 * parse_special says otherwise.
 */
#include "base/hash.h"
#include "base/val_text.h"
#include "model/tokens.h"
#include "server/body.h"
#include "server/reply.h"
#include "server/router.h"
#include <stdio.h>

enum { TEXT_MAX = MIB, BODY_BYTES = 8 * MIB, IDS_MAX = 1 << 18 };

/* Exactly one of the members; *which is its index. */
static enum errc one_of(struct val body, const char *const *names, size_t count, size_t *which,
                        struct error *err)
{
    size_t given = 0;

    for (size_t i = 0; i < count; i++) {
        if (val_is_null(val_get(body, slice_str(names[i]))))
            continue;
        given++;
        *which = i;
    }
    return given == 1
               ? OK
               : fail(err, ERR_INVALID,
                      "give one of 'content', 'prompt' (a text) and 'messages', not %zu", given);
}

static enum errc check_length(struct slice text, const char *name, struct error *err)
{
    if (text.len <= TEXT_MAX)
        return OK;
    return fail(err, ERR_TOO_LARGE, "'%s' may have %zu bytes, not %zu", name, (size_t)TEXT_MAX,
                text.len);
}

static enum errc read_request(struct val body, struct tokenise_request *q, bool *wants_pieces,
                              struct error *err)
{
    static const char *const known[] = { "model",         "content",     "prompt",
                                         "messages",      "add_special", "add_special_tokens",
                                         "parse_special", "with_pieces" };
    static const char *const inputs[] = { "content", "prompt", "messages" };
    bool is_vllm = !val_is_null(val_get(body, slice_str("add_special_tokens")));
    bool is_llama = !val_is_null(val_get(body, slice_str("add_special")));
    enum errc rc = OK;
    size_t input = 0;

    TRY(body_check_names(body, known, ARRAY_LEN(known), err));
    TRY(one_of(body, inputs, ARRAY_LEN(inputs), &input, err));
    TRY(body_text(body, "model", &q->model, err));
    TRY(body_bool(body, "parse_special", &q->parse_special, err));
    TRY(body_bool(body, "with_pieces", wants_pieces, err));
    TRY(body_bool(body, is_vllm ? "add_special_tokens" : "add_special", &q->add_special, err));
    if (is_vllm && is_llama)
        return fail(err, ERR_INVALID, "give one of 'add_special' and 'add_special_tokens'");
    if (!is_vllm && !is_llama)
        q->add_special = input == 1;
    if (input == 2) {
        q->messages = val_get(body, slice_str("messages"));
        if (is_vllm || is_llama || q->parse_special)
            return fail(err, ERR_INVALID,
                        "the chat template decides about special tokens of "
                        "'messages'");
        return OK;
    }
    TRY(body_text(body, inputs[input], &q->text, err));
    rc = check_length(q->text, inputs[input], err);
out:
    return rc;
}

/* A text, or its bytes when they are not one. */
static void put_piece(struct reply *a, int32_t id, struct slice piece)
{
    reply_open(a, NULL);
    reply_int(a, "id", id);
    if (utf8_check(piece, NULL)) {
        reply_text(a, "piece", piece);
    } else {
        reply_list(a, "piece");
        for (size_t i = 0; i < piece.len; i++)
            val_put_int(a->b, (unsigned char)piece.ptr[i]);
        reply_close(a);
    }
    reply_close(a);
}

static void put_tokens(struct reply *a, const struct token_list *t, bool wants_pieces)
{
    reply_list(a, "tokens");
    for (size_t i = 0; i < t->count; i++) {
        size_t begin = i ? t->ends[i - 1] : 0;
        if (wants_pieces)
            put_piece(a, t->ids[i], slice_of(t->pieces.ptr + begin, t->ends[i] - begin));
        else
            val_put_int(a->b, t->ids[i]);
    }
    reply_close(a);
}

static void post_tokenize(struct request *r)
{
    struct error err = { 0 };
    struct tokenise_request q = { 0 };
    struct token_list t = { 0 };
    bool wants_pieces = false;
    struct val body;
    struct reply a;
    enum errc rc = OK;

    TRY(request_object(r, &body, &err));
    TRY(read_request(body, &q, &wants_pieces, &err));
    TRY(models_tokenise(r->ctx->models, &q, &t, &err));
    reply_begin(&a, r);
    reply_str(&a, "model", t.model);
    reply_int(&a, "count", (int64_t)t.count);
    reply_int(&a, "max_model_len", t.context_tokens);
    put_tokens(&a, &t, wants_pieces);
out:
    token_list_release(&t);
    if (rc == OK)
        reply_send_bare(&a, 200);
    else
        request_fail(r, &err);
}

/* ---- and back ---- */

static enum errc read_ids(struct val list, struct token_list *t, struct error *err)
{
    if (val_type(list) != VAL_ARRAY || val_count(list) > IDS_MAX)
        return fail(err, ERR_INVALID, "'tokens' must be an array of at most %d token ids", IDS_MAX);
    t->count = val_count(list);
    t->ids = mem_alloc((t->count + 1) * sizeof *t->ids);
    for (size_t i = 0; i < t->count; i++) {
        struct val v = val_at(list, i);
        if (!val_is_int(v) || val_int(v) < 0 || val_int(v) > INT32_MAX)
            return fail(err, ERR_INVALID, "tokens[%zu] is not a token id", i);
        t->ids[i] = (int32_t)val_int(v);
    }
    return OK;
}

static void reply_detokenized(struct request *r, const struct token_list *t)
{
    struct slice bytes = buf_slice(&t->pieces);
    struct val text = text_clean(r->arena, bytes);
    struct reply a;

    reply_begin(&a, r);
    reply_str(&a, "model", t->model);
    reply_val(&a, "content", text);
    reply_val(&a, "prompt", text);
    if (!utf8_check(bytes, NULL)) {
        struct buf exact;
        buf_init(&exact, 0);
        base64_encode(bytes, false, &exact);
        reply_text(&a, "bytes", buf_slice(&exact));
        buf_release(&exact);
    }
    reply_send_bare(&a, 200);
}

static void post_detokenize(struct request *r)
{
    static const char *const known[] = { "model", "tokens" };
    struct error err = { 0 };
    struct token_list t = { 0 };
    struct slice model;
    struct val body;
    enum errc rc = OK;

    TRY(request_object(r, &body, &err));
    TRY(body_check_names(body, known, ARRAY_LEN(known), &err));
    TRY(body_text(body, "model", &model, &err));
    TRY(read_ids(val_get(body, slice_str("tokens")), &t, &err));
    TRY(models_spell(r->ctx->models, model, &t, &err));
out:
    if (rc == OK)
        reply_detokenized(r, &t);
    else
        request_fail(r, &err);
    token_list_release(&t);
}

const struct route api_token_routes[] = {
    { METHOD_POST, "/v1/tokenize", ROLE_USER, ON_POOL, BODY_BYTES, post_tokenize,
      "Tokens of a text or conversation." },
    { METHOD_POST, "/v1/detokenize", ROLE_USER, ON_POOL, BODY_BYTES, post_detokenize,
      "Text of tokens." },
    { 0 },
};
