/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame: u32 bytes that follow; then u8 flags, u8 finish, u16 zero, u32 prompt,
 * cached and completion tokens, u64 queue, prefill and decode microseconds, u32
 * bytes of text and of tokens, the text, the tokens, and after a failure u32
 * code, i32 errorNum, i32 status and the sentence. Little-endian.
 */
#include "cluster/gen_code.h"
#include "base/val_text.h"

enum { HEAD_BYTES = 48, FRAME_MAX = 64 * MIB, FLAG_LAST = 1, STOPS_MAX = 64 };

/* ---- requests ---- */

static void put_text(struct val_builder *b, const char *name, struct slice text)
{
    if (!text.len)
        return;
    val_put_name(b, slice_str(name));
    val_put_string(b, text);
}

static void put_int(struct val_builder *b, const char *name, int64_t n)
{
    val_put_name(b, slice_str(name));
    val_put_int(b, n);
}

static void put_double(struct val_builder *b, const char *name, double d)
{
    val_put_name(b, slice_str(name));
    val_put_double(b, d);
}

static void put_bool(struct val_builder *b, const char *name, bool is_true)
{
    val_put_name(b, slice_str(name));
    val_put_bool(b, is_true);
}

static void put_sampling(struct val_builder *b, const struct gen_sampling *s)
{
    val_put_name(b, slice_str("sampling"));
    val_open_object(b);
    put_double(b, "temperature", s->temperature);
    put_double(b, "top_p", s->top_p);
    put_double(b, "min_p", s->min_p);
    put_int(b, "top_k", s->top_k);
    put_double(b, "repeat", s->repeat_penalty);
    put_double(b, "presence", s->presence_penalty);
    put_double(b, "frequency", s->frequency_penalty);
    if (s->has_seed)
        put_int(b, "seed", (int64_t)s->seed);
    if (s->bias_count) {
        val_put_name(b, slice_str("bias"));
        val_open_array(b);
        for (size_t i = 0; i < s->bias_count; i++) {
            val_put_int(b, s->bias[i].id);
            val_put_double(b, (double)s->bias[i].bias);
        }
        val_close(b);
    }
    val_close(b);
}

static void put_prompt(struct val_builder *b, const struct gen_request *req)
{
    if (req->token_count) {
        val_put_name(b, slice_str("tokens"));
        val_open_array(b);
        for (size_t i = 0; i < req->token_count; i++)
            val_put_int(b, req->tokens[i]);
        val_close(b);
    } else if (!val_is_null(req->messages)) {
        val_put_name(b, slice_str("messages"));
        val_put(b, req->messages);
    } else {
        put_text(b, "prompt", req->prompt);
    }
}

enum errc gen_request_encode(const struct gen_request *req, struct buf *out, struct error *err)
{
    struct val_builder *b = val_builder_new(0);
    struct val v;

    val_open_object(b);
    put_text(b, "model", req->model);
    put_text(b, "domain", req->domain);
    put_text(b, "adapter", req->adapter);
    put_text(b, "tenant", req->tenant);
    put_prompt(b, req);
    put_sampling(b, &req->sampling);
    put_int(b, "max", req->max_tokens);
    put_bool(b, "ignores_end", req->ignores_end);
    put_bool(b, "logprobs", req->wants_logprobs);
    put_int(b, "top_logprobs", req->top_logprobs);
    val_put_name(b, slice_str("stops"));
    val_open_array(b);
    for (size_t i = 0; i < req->stop_count; i++)
        val_put_string(b, req->stops[i]);
    val_close(b);
    val_close(b);
    enum errc rc = val_finish(b, &v, err);
    if (rc == OK)
        buf_add_slice(out, val_bytes(v));
    val_builder_free(b);
    return rc;
}

static struct val get(struct val object, const char *name)
{
    return val_get(object, slice_str(name));
}

/* Within what the type of the field takes. */
static bool read_int(struct val object, const char *name, int64_t max, int64_t *out)
{
    struct val v = get(object, name);

    *out = val_int(v);
    return val_is_null(v) || (val_is_int(v) && *out >= -max && *out <= max);
}

static bool read_sampling(struct val v, struct arena *arena, struct gen_sampling *s)
{
    struct val bias = get(v, "bias");
    size_t count = val_count(bias) / 2;
    int64_t top_k;

    if (val_type(v) != VAL_OBJECT || count > GEN_BIAS_MAX ||
        !read_int(v, "top_k", INT32_MAX, &top_k))
        return false;
    struct gen_bias *list = arena_alloc(arena, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++)
        list[i] = (struct gen_bias){ (int32_t)val_int(val_at(bias, 2 * i)),
                                     (float)val_double(val_at(bias, 2 * i + 1)) };
    *s = (struct gen_sampling){ .temperature = val_double(get(v, "temperature")),
                                .top_p = val_double(get(v, "top_p")),
                                .min_p = val_double(get(v, "min_p")),
                                .top_k = (int)top_k,
                                .repeat_penalty = val_double(get(v, "repeat")),
                                .presence_penalty = val_double(get(v, "presence")),
                                .frequency_penalty = val_double(get(v, "frequency")),
                                .has_seed = val_is_int(get(v, "seed")),
                                .seed = (uint64_t)val_int(get(v, "seed")),
                                .bias = list,
                                .bias_count = count };
    return true;
}

static bool read_tokens(struct val v, struct arena *arena, struct gen_request *out)
{
    int32_t *tokens = arena_alloc(arena, (val_count(v) + 1) * sizeof *tokens);

    for (size_t i = 0; i < val_count(v); i++) {
        int64_t id = val_int(val_at(v, i));
        if (id < 0 || id > INT32_MAX)
            return false;
        tokens[i] = (int32_t)id;
    }
    out->tokens = tokens;
    out->token_count = val_count(v);
    return true;
}

static bool read_stops(struct val v, struct arena *arena, struct gen_request *out)
{
    size_t count = val_count(v);

    if (count > STOPS_MAX)
        return false;
    struct slice *stops = arena_alloc(arena, (count + 1) * sizeof *stops);
    for (size_t i = 0; i < count; i++)
        stops[i] = val_string(val_at(v, i));
    out->stops = stops;
    out->stop_count = count;
    return true;
}

enum errc gen_request_decode(struct slice bytes, struct arena *arena, struct gen_request *out,
                             struct error *err)
{
    struct val v;
    int64_t max, top;

    *out = (struct gen_request){ 0 };
    if (val_validate(bytes, &v, NULL) != OK || val_type(v) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "the request is not a value");
    out->model = val_string(get(v, "model"));
    out->domain = val_string(get(v, "domain"));
    out->adapter = val_string(get(v, "adapter"));
    out->tenant = val_string(get(v, "tenant"));
    out->messages = get(v, "messages");
    out->prompt = val_string(get(v, "prompt"));
    out->ignores_end = val_bool(get(v, "ignores_end"));
    out->wants_logprobs = val_bool(get(v, "logprobs"));
    if (!read_int(v, "max", UINT32_MAX, &max) || max < 0 ||
        !read_int(v, "top_logprobs", 1000, &top) || top < 0 ||
        !read_sampling(get(v, "sampling"), arena, &out->sampling) ||
        !read_tokens(get(v, "tokens"), arena, out) || !read_stops(get(v, "stops"), arena, out))
        return fail(err, ERR_INVALID, "the request has a member that cannot be read");
    out->max_tokens = (uint32_t)max;
    out->top_logprobs = (unsigned)top;
    return OK;
}

/* ---- events ---- */

static void put(uint8_t *at, uint64_t n, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(n >> (8 * i));
}

static uint64_t take(const uint8_t *at, size_t bytes)
{
    uint64_t n = 0;

    for (size_t i = bytes; i-- > 0;)
        n = n << 8 | at[i];
    return n;
}

enum { ERROR_BYTES = 12 };

void gen_event_encode(const struct gen_event *e, struct buf *out)
{
    bool has_error = e->is_last && e->finish == GEN_FAILED && e->err;
    size_t error_len = has_error ? ERROR_BYTES + strlen(e->err->text) : 0;
    uint8_t head[4 + HEAD_BYTES] = { 0 }, error[ERROR_BYTES];

    put(head, HEAD_BYTES + e->text.len + e->tokens.len + error_len, 4);
    head[4] = e->is_last ? FLAG_LAST : 0;
    head[5] = e->is_last ? (uint8_t)e->finish : 0;
    put(head + 8, e->prompt_tokens, 4);
    put(head + 12, e->cached_tokens, 4);
    put(head + 16, e->completion_tokens, 4);
    put(head + 20, e->queue_us, 8);
    put(head + 28, e->prefill_us, 8);
    put(head + 36, e->decode_us, 8);
    put(head + 44, e->text.len, 4);
    put(head + 48, e->tokens.len, 4);
    buf_add(out, head, sizeof head);
    buf_add_slice(out, e->text);
    buf_add_slice(out, e->tokens);
    if (!has_error)
        return;
    put(error, (uint64_t)e->err->code, 4);
    put(error + 4, (uint32_t)e->err->num, 4);
    put(error + 8, (uint32_t)e->err->http, 4);
    buf_add(out, error, sizeof error);
    buf_add_str(out, e->err->text);
}

static bool code_is_known(uint64_t code)
{
    static const bool known[] = {
#define ERROR(name, http, num, retryable, text) [name] = true,
#include "base/error.def"
#undef ERROR
    };

    return code && code < ARRAY_LEN(known) && known[code];
}

/* What is behind text and tokens. */
static bool read_error(struct slice bytes, struct gen_event_frame *out)
{
    const uint8_t *at = (const uint8_t *)bytes.ptr;

    if (bytes.len < ERROR_BYTES || !code_is_known(take(at, 4)))
        return false;
    (void)fail(&out->err, (enum errc)take(at, 4), "%.*s", (int)(bytes.len - ERROR_BYTES),
               bytes.ptr + ERROR_BYTES);
    out->err.num = (int)(int32_t)take(at + 4, 4);
    out->err.http = (int)(int32_t)take(at + 8, 4);
    out->event.err = &out->err;
    return true;
}

enum gen_frame gen_event_decode(struct slice *bytes, struct gen_event_frame *out)
{
    const uint8_t *at = (const uint8_t *)bytes->ptr;
    uint64_t len = bytes->len >= 4 ? take(at, 4) : HEAD_BYTES;

    if (len < HEAD_BYTES || len > FRAME_MAX)
        return FRAME_BROKEN;
    if (bytes->len < 4 + len)
        return FRAME_PARTIAL;
    uint64_t text_len = take(at + 44, 4), tokens_len = take(at + 48, 4);
    if (text_len + tokens_len > len - HEAD_BYTES || at[5] > GEN_FAILED)
        return FRAME_BROKEN;
    const char *body = bytes->ptr + 4 + HEAD_BYTES;
    memset(out, 0, sizeof *out);
    out->event = (struct gen_event){ .text = slice_of(body, text_len),
                                     .tokens = slice_of(body + text_len, tokens_len),
                                     .is_last = at[4] & FLAG_LAST,
                                     .finish = (enum gen_finish)at[5],
                                     .prompt_tokens = (uint32_t)take(at + 8, 4),
                                     .cached_tokens = (uint32_t)take(at + 12, 4),
                                     .completion_tokens = (uint32_t)take(at + 16, 4),
                                     .queue_us = take(at + 20, 8),
                                     .prefill_us = take(at + 28, 8),
                                     .decode_us = take(at + 36, 8) };
    struct slice rest =
        slice_of(body + text_len + tokens_len, len - HEAD_BYTES - text_len - tokens_len);
    if (!utf8_check(out->event.text, NULL) || !gen_tokens_are_whole(out->event.tokens) ||
        (out->event.is_last && out->event.finish == GEN_FAILED && !read_error(rest, out)))
        return FRAME_BROKEN;
    *bytes = slice_of(bytes->ptr + 4 + len, bytes->len - 4 - len);
    return FRAME_WHOLE;
}
