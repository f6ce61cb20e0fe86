/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user who writes "<|im_end|>" must not end his turn. Almost always no such
 * text occurs and the rendered prompt is tokenised as a whole. Else each such
 * text is replaced by a placeholder before the template runs, and the prompt is
 * tokenised in pieces: the template's with control tokens, the replaced texts
 * without.
 */
#include "model/prompt.h"

#include "base/val_text.h"
#include "model/tools.h"

#include <inttypes.h>

enum {
    MESSAGES_MAX = 4096,
    PLACEHOLDERS_MAX = 1000,
    STOP_BYTES = 1024,
    CALLS_MAX = 128, /* of one message */
    BYTES_PER_TOKEN = ENGINE_PIECE_BYTES,
};

/* U+10FF02 and U+10FF03 (private use) around a number. */
#define MARK_BEGIN "\xf4\x8f\xbc\x82"
#define MARK_END "\xf4\x8f\xbc\x83"

struct guard {
    struct engine *engine;
    struct arena *arena;
    struct slice hidden[PLACEHOLDERS_MAX];
    size_t hidden_count;
    size_t bytes, bytes_max;
};

void tokens_append(struct engine *e, struct slice text, bool add_special, bool parse_special,
                   int32_t **out, size_t *count)
{
    size_t room = text.len / 3 + 16;
    *out = mem_realloc(*out, (*count + room) * sizeof **out);
    size_t n = e->ops->tokenise(e, text, add_special, parse_special, *out + *count, room);
    if (n > room) {
        *out = mem_realloc(*out, (*count + n) * sizeof **out);
        n = e->ops->tokenise(e, text, add_special, parse_special, *out + *count, n);
    }
    *count += n;
}

static enum errc too_long(uint64_t tokens, uint32_t context, const char *at_least,
                          struct error *err)
{
    return fail_num(err, ERRNUM_CONTEXT_LENGTH,
                    "the prompt has %s%" PRIu64 " tokens; the model's context holds %" PRIu32
                    ", one of them for the answer",
                    at_least, tokens, context);
}

/* Text with every control token's text replaced by a placeholder. */
static enum errc hide_controls(struct guard *g, struct slice text, struct slice *out,
                               struct error *err)
{
    size_t at = 0, len = 0, from = 0;
    *out = text;
    if (!g->engine->ops->find_control(g->engine, text, 0, &at, &len))
        return OK;
    struct buf b;
    buf_init(&b, 0);
    do {
        if (g->hidden_count == PLACEHOLDERS_MAX) {
            buf_release(&b);
            return fail(err, ERR_INVALID, "the messages spell more than %d control tokens",
                        PLACEHOLDERS_MAX);
        }
        buf_add(&b, text.ptr + from, at - from);
        buf_printf(&b, MARK_BEGIN "%zu" MARK_END, g->hidden_count);
        g->hidden[g->hidden_count++] = slice_of(text.ptr + at, len);
        from = at + len;
    } while (g->engine->ops->find_control(g->engine, text, from, &at, &len));
    buf_add(&b, text.ptr + from, text.len - from);
    *out = arena_copy(g->arena, buf_slice(&b));
    buf_release(&b);
    return OK;
}

/* Someone who writes our marks himself loses them. */
static struct slice strip_marks(struct arena *arena, struct slice text)
{
    if (text.len < 4 || !memmem(text.ptr, text.len, "\xf4\x8f\xbc", 3))
        return text;
    char *copy = arena_alloc(arena, text.len);
    size_t n = 0;
    for (size_t i = 0; i < text.len;) {
        bool is_mark = text.len - i >= 4 && (memcmp(text.ptr + i, MARK_BEGIN, 4) == 0 ||
                                             memcmp(text.ptr + i, MARK_END, 4) == 0);
        if (is_mark)
            i += 4;
        else
            copy[n++] = text.ptr[i++];
    }
    return slice_of(copy, n);
}

/* A string, or OpenAI's list of text parts, which are joined. */
static enum errc content_of(struct arena *arena, struct val v, size_t i, struct slice *out,
                            struct error *err)
{
    if (val_type(v) == VAL_STRING) {
        *out = val_string(v);
        return OK;
    }
    if (val_type(v) != VAL_ARRAY || val_count(v) == 0)
        return fail(err, ERR_INVALID,
                    "messages[%zu].content must be a string or an array of text parts", i);
    struct buf b;
    buf_init(&b, 0);
    for (size_t k = 0; k < val_count(v); k++) {
        struct val part = val_at(v, k);
        struct val text = val_get(part, slice_str("text"));
        if (!slice_is(val_string(val_get(part, slice_str("type"))), "text") ||
            val_type(text) != VAL_STRING) {
            buf_release(&b);
            return fail(err, ERR_INVALID,
                        "messages[%zu].content[%zu] must be {\"type\": \"text\", \"text\": ...}; "
                        "other parts are not supported",
                        i, k);
        }
        buf_add_slice(&b, val_string(text));
    }
    *out = arena_copy(arena, buf_slice(&b));
    buf_release(&b);
    return OK;
}

static bool is_role(struct slice role)
{
    static const char *const roles[] = { "system", "user", "assistant", "developer", "tool" };
    for (size_t i = 0; i < ARRAY_LEN(roles); i++) {
        if (slice_is(role, roles[i]))
            return true;
    }
    return false;
}

/* A text of the user, guarded, whose length counts. ERR_LIMIT is turned into a sentence later. */
static enum errc take_text(struct guard *g, struct slice text, struct slice *out, struct error *err)
{
    g->bytes += text.len;
    if (g->bytes > g->bytes_max)
        return ERR_LIMIT;
    return hide_controls(g, strip_marks(g->arena, text), out, err);
}

/* A text that may be absent. */
static enum errc take_member(struct guard *g, struct val v, const char *name, size_t i,
                             struct slice *out, struct error *err)
{
    struct val text = val_get(v, slice_str(name));
    if (!val_is_null(text) && val_type(text) != VAL_STRING)
        return fail(err, ERR_INVALID, "messages[%zu].%s must be a text", i, name);
    return take_text(g, val_string(text), out, err);
}

static enum errc read_call(struct guard *g, struct val v, size_t i, size_t k, struct chat_call *out,
                           struct error *err)
{
    struct val f = val_get(v, slice_str("function"));
    struct val name = val_get(f, slice_str("name")), arguments = val_get(f, slice_str("arguments"));
    struct val id = val_get(v, slice_str("id"));
    enum errc rc = OK;
    if (val_type(f) != VAL_OBJECT || val_type(name) != VAL_STRING ||
        val_type(arguments) != VAL_STRING || (!val_is_null(id) && val_type(id) != VAL_STRING))
        TRY(fail(err, ERR_INVALID,
                 "messages[%zu].tool_calls[%zu] must be {id, type: \"function\", function: {name, "
                 "arguments}} with arguments as a text",
                 i, k));
    TRY(take_text(g, val_string(name), &out->name, err));
    TRY(take_text(g, val_string(arguments), &out->arguments, err));
    rc = take_text(g, val_string(id), &out->id, err);
out:
    return rc;
}

static enum errc read_calls(struct guard *g, struct val v, size_t i, struct chat_message *out,
                            struct error *err)
{
    struct val list = val_get(v, slice_str("tool_calls"));
    size_t n = val_count(list);
    enum errc rc = OK;
    if (val_is_null(list))
        return OK;
    if (val_type(list) != VAL_ARRAY || n > CALLS_MAX || !slice_is(out->role, "assistant"))
        return fail(err, ERR_INVALID,
                    "messages[%zu].tool_calls must be an array of at most %d calls of an assistant",
                    i, CALLS_MAX);
    struct chat_call *calls = arena_zalloc(g->arena, (n + 1) * sizeof *calls);
    for (size_t k = 0; k < n; k++)
        TRY(read_call(g, val_at(list, k), i, k, &calls[k], err));
    out->calls = calls;
    out->call_count = n;
out:
    return rc;
}

static enum errc read_message(struct guard *g, struct val v, size_t i, struct chat_message *out,
                              struct error *err)
{
    enum errc rc = OK;
    struct slice text = { NULL, 0 };
    if (val_type(v) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "messages[%zu] must be an object", i);
    out->role = val_string(val_get(v, slice_str("role")));
    if (!is_role(out->role))
        return fail(err, ERR_INVALID,
                    "messages[%zu].role must be system, user, assistant, developer or tool", i);
    TRY(read_calls(g, v, i, out, err));
    if (out->call_count == 0 || !val_is_null(val_get(v, slice_str("content"))))
        TRY(content_of(g->arena, val_get(v, slice_str("content")), i, &text, err));
    TRY(take_text(g, text, &out->content, err));
    TRY(take_member(g, v, "reasoning_content", i, &out->reasoning, err));
    TRY(take_member(g, v, "name", i, &out->name, err));
    rc = take_member(g, v, "tool_call_id", i, &out->call_id, err);
out:
    return rc;
}

/* ---- tools of a template that knows none ---- */

static struct slice join(struct arena *arena, struct slice a, const char *between, struct slice b)
{
    struct buf text;
    buf_init(&text, 0);
    buf_add_slice(&text, a);
    if (a.len > 0 && b.len > 0)
        buf_add_str(&text, between);
    buf_add_slice(&text, b);
    struct slice out = arena_copy(arena, buf_slice(&text));
    buf_release(&text);
    return out;
}

static struct slice write_calls(struct arena *arena, const struct chat_message *m)
{
    struct slice text = m->content;
    for (size_t i = 0; i < m->call_count; i++) {
        struct buf call;
        buf_init(&call, 0);
        tools_write_call(&m->calls[i], &call);
        text = join(arena, text, "\n", buf_slice(&call));
        buf_release(&call);
    }
    return text;
}

/* Answers of tools come from the user then, several in one message. */
static struct slice write_response(struct arena *arena, struct slice content)
{
    return slice_str(
        arena_printf(arena, "<tool_response>\n%.*s\n</tool_response>", SLICE_ARG(content)));
}

/* Calls and their answers become texts, and the tools a part of the first message. */
static void write_tools_as_text(struct arena *arena, struct slice tools, struct chat_message **list,
                                size_t *count)
{
    struct chat_message *out = arena_zalloc(arena, (*count + 1) * sizeof *out);
    bool has_system = *count > 0 && (slice_is((*list)[0].role, "system") ||
                                     slice_is((*list)[0].role, "developer"));
    size_t n = 0;
    bool was_response = false;
    if (tools.len > 0 && !has_system)
        out[n++] = (struct chat_message){ .role = slice_str("system"), .content = tools };
    for (size_t i = 0; i < *count; i++) {
        struct chat_message m = (*list)[i];
        bool is_response = slice_is(m.role, "tool");
        if (is_response)
            m = (struct chat_message){ .role = slice_str("user"),
                                       .content = write_response(arena, m.content) };
        m.content = write_calls(arena, &m);
        m.call_count = 0;
        if (i == 0 && has_system)
            m.content = join(arena, m.content, "\n\n", tools);
        if (is_response && was_response)
            out[n - 1].content = join(arena, out[n - 1].content, "\n", m.content);
        else
            out[n++] = m;
        was_response = is_response;
    }
    *list = out;
    *count = n;
}

/* The rendered prompt is text, mark, number, mark, text, ... */
static void tokenise_pieces(struct guard *g, struct slice text, int32_t **tokens, size_t *count)
{
    bool is_first = true;
    while (g->hidden_count > 0) {
        const char *begin = memmem(text.ptr, text.len, MARK_BEGIN, 4);
        const char *end =
            begin ? memmem(begin, text.len - (size_t)(begin - text.ptr), MARK_END, 4) : NULL;
        if (!end)
            break;
        size_t n = 0;
        for (const char *p = begin + 4; p < end && n < PLACEHOLDERS_MAX; p++)
            n = n * 10 + (size_t)(*p - '0');
        size_t before = (size_t)(begin - text.ptr);
        if (before > 0 || is_first)
            tokens_append(g->engine, slice_of(text.ptr, before), is_first, true, tokens, count);
        is_first = false;
        if (n < g->hidden_count)
            tokens_append(g->engine, g->hidden[n], false, false, tokens, count);
        size_t used = (size_t)(end + 4 - text.ptr);
        text = slice_of(text.ptr + used, text.len - used);
    }
    tokens_append(g->engine, text, is_first, true, tokens, count);
}

/* Guarded, since descriptions are texts of users. Empty when there are none. */
static enum errc print_tools(struct guard *g, const struct toolset *tools, struct slice *out,
                             struct error *err)
{
    struct buf text;
    *out = slice_of("", 0);
    if (!tools || tools->count == 0)
        return OK;
    buf_init(&text, 0);
    if (g->engine->info.has_tools)
        tools_print(tools, &text);
    else
        tools_describe(tools, &text);
    enum errc rc = take_text(g, arena_copy(g->arena, buf_slice(&text)), out, err);
    buf_release(&text);
    return rc;
}

static enum errc read_messages(struct guard *g, struct val messages, struct chat_message *list,
                               struct error *err)
{
    enum errc rc = OK;
    for (size_t i = 0; i < val_count(messages) && rc == OK; i++)
        rc = read_message(g, val_at(messages, i), i, &list[i], err);
    return rc;
}

static enum errc from_messages(struct engine *e, const struct gen_request *req,
                               const struct toolset *tools, uint32_t context, int32_t **tokens,
                               size_t *count, struct error *err)
{
    enum errc rc = OK;
    struct val messages = req->messages;
    size_t n = val_count(messages);
    struct arena *arena = NULL;
    struct slice told;
    struct buf text;
    buf_init(&text, 0);
    if (val_type(messages) != VAL_ARRAY || n == 0 || n > MESSAGES_MAX) {
        rc = fail(err, ERR_INVALID, "messages must be an array of 1 to %d messages", MESSAGES_MAX);
        goto out;
    }
    arena = arena_new(0);
    struct guard *g = ARENA_NEW(arena, struct guard);
    struct chat_message *list = arena_zalloc(arena, n * sizeof *list);
    g->engine = e;
    g->arena = arena;
    g->bytes_max = (size_t)context * BYTES_PER_TOKEN;
    rc = read_messages(g, messages, list, err);
    if (rc == OK)
        rc = print_tools(g, tools, &told, err);
    if (rc == ERR_LIMIT)
        rc = too_long(g->bytes / BYTES_PER_TOKEN, context, "more than ", err);
    if (rc != OK)
        goto out;
    if (!e->info.has_tools)
        write_tools_as_text(arena, told, &list, &n);
    TRY(e->ops->render(e, list, n, e->info.has_tools ? told : slice_of("", 0), &text, err));
    tokenise_pieces(g, buf_slice(&text), tokens, count);
out:
    buf_release(&text);
    arena_free(arena);
    return rc;
}

static enum errc from_ids(struct engine *e, const struct gen_request *req, int32_t **tokens,
                          size_t *count, struct error *err)
{
    for (size_t i = 0; i < req->token_count; i++) {
        if (req->tokens[i] < 0 || (uint32_t)req->tokens[i] >= e->info.vocab_size)
            return fail(err, ERR_INVALID, "token %d at %zu is not one of the model's %u",
                        req->tokens[i], i, e->info.vocab_size);
    }
    *tokens = mem_alloc(req->token_count * sizeof **tokens);
    memcpy(*tokens, req->tokens, req->token_count * sizeof **tokens);
    *count = req->token_count;
    return OK;
}

static enum errc check_stops(const struct gen_request *req, struct error *err)
{
    if (req->stop_count > GEN_STOPS_MAX)
        return fail(err, ERR_INVALID, "at most %d stop texts, not %zu", GEN_STOPS_MAX,
                    req->stop_count);
    for (size_t i = 0; i < req->stop_count; i++) {
        if (req->stops[i].len > STOP_BYTES)
            return fail(err, ERR_INVALID, "a stop text may have %d bytes, not %zu", STOP_BYTES,
                        req->stops[i].len);
    }
    return OK;
}

enum errc prompt_tokens(struct engine *e, const struct gen_request *req,
                        const struct toolset *tools, uint32_t context_tokens, int32_t **tokens,
                        uint32_t *count, struct error *err)
{
    enum errc rc = OK;
    int32_t *ids = NULL;
    size_t n = 0;
    *tokens = NULL;
    TRY(check_stops(req, err));
    if (!val_is_null(req->messages)) {
        TRY(from_messages(e, req, tools, context_tokens, &ids, &n, err));
    } else if (req->token_count >= context_tokens) {
        rc = too_long(req->token_count, context_tokens, "", err);
    } else if (req->token_count > 0) {
        TRY(from_ids(e, req, &ids, &n, err));
    } else if (req->prompt.len > (size_t)context_tokens * BYTES_PER_TOKEN) {
        rc = too_long(req->prompt.len / BYTES_PER_TOKEN, context_tokens, "more than ", err);
    } else {
        tokens_append(e, req->prompt, true, true, &ids, &n);
    }
    if (rc == OK && n == 0)
        rc = fail(err, ERR_INVALID, "the prompt is empty");
    if (rc == OK && n + 1 > context_tokens)
        rc = too_long(n, context_tokens, "", err);
out:
    if (rc != OK) {
        mem_free(ids);
        return rc;
    }
    *tokens = ids;
    *count = (uint32_t)n;
    return OK;
}
