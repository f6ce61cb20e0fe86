/* SPDX-License-Identifier: Apache-2.0 */
#include "server/answer_message.h"

#include "base/env.h"
#include "server/body.h"
#include <stdio.h>

/* ---- reading ---- */

/* {"type": "function", "function": {"name": ...}} */
static enum errc read_named_choice(struct val v, struct gen_tools *out, struct error *err)
{
    struct val name = val_path(v, (struct slice[]){ slice_str("function"), slice_str("name") }, 2);

    if (!slice_is(val_string(val_get(v, slice_str("type"))), "function") ||
        val_type(name) != VAL_STRING || val_string(name).len == 0)
        return fail(err, ERR_INVALID,
                    "'tool_choice' must be none, auto, required or {\"type\": \"function\", "
                    "\"function\": {\"name\": ...}}");
    out->choice = GEN_TOOLS_REQUIRED;
    out->only = val_string(name);
    return OK;
}

enum errc answer_tools_read(struct val body, struct gen_tools *out, struct error *err)
{
    struct val choice = val_get(body, slice_str("tool_choice"));
    struct val parallel = val_get(body, slice_str("parallel_tool_calls"));
    struct slice word = val_string(choice);
    enum errc rc = OK;

    *out = (struct gen_tools){ .list = val_get(body, slice_str("tools")) };
    TRY(body_bool(body, "parallel_tool_calls", &out->is_parallel, err));
    if (val_is_null(parallel))
        out->is_parallel = true; /* as OpenAI has it */
    if (slice_is(word, "none"))
        out->choice = GEN_TOOLS_NONE;
    else if (slice_is(word, "required"))
        out->choice = GEN_TOOLS_REQUIRED;
    else if (!val_is_null(choice) && !slice_is(word, "auto"))
        rc = read_named_choice(choice, out, err);
out:
    return rc;
}

/* ---- answering ---- */

static void put_id(struct reply *a)
{
    char id[32];

    snprintf(id, sizeof id, "call_%016llx", (unsigned long long)env_random_u64(env_system()));
    reply_str(a, "id", id);
    reply_str(a, "type", "function");
}

static void put_function(struct reply *a, const struct answer_call *call, struct slice arguments)
{
    reply_open(a, "function");
    if (call)
        reply_text(a, "name", call->name);
    reply_text(a, "arguments", arguments);
    reply_close(a);
}

void answer_message_put(struct reply *a, const struct answer_parts *parts)
{
    if (parts->content.len || !parts->call_count)
        reply_text(a, "content", parts->content);
    else
        reply_null(a, "content");
    if (parts->reasoning.len)
        reply_text(a, "reasoning_content", parts->reasoning);
    if (!parts->call_count)
        return;
    reply_list(a, "tool_calls");
    for (size_t i = 0; i < parts->call_count; i++) {
        reply_open(a, NULL);
        put_id(a);
        put_function(a, &parts->calls[i], parts->calls[i].arguments);
        reply_close(a);
    }
    reply_close(a);
}

bool answer_delta_has(const struct answer_parts *parts, const struct answer_sent *sent)
{
    return parts->content.len > sent->content || parts->reasoning.len > sent->reasoning ||
           parts->call_count > sent->calls ||
           (sent->calls > 0 && parts->call_count >= sent->calls &&
            parts->calls[sent->calls - 1].arguments.len > sent->arguments);
}

static struct slice behind(struct slice text, size_t sent)
{
    return sent < text.len ? slice_of(text.ptr + sent, text.len - sent) : slice_of("", 0);
}

static void put_calls(struct reply *a, const struct answer_parts *parts, struct answer_sent *sent)
{
    for (size_t i = sent->calls ? sent->calls - 1 : 0; i < parts->call_count; i++) {
        bool is_new = i >= sent->calls;
        struct slice arguments = behind(parts->calls[i].arguments, is_new ? 0 : sent->arguments);
        if (!is_new && !arguments.len)
            continue;
        reply_open(a, NULL);
        reply_int(a, "index", (int64_t)i);
        if (is_new)
            put_id(a);
        put_function(a, is_new ? &parts->calls[i] : NULL, arguments);
        reply_close(a);
        sent->calls = i + 1;
        sent->arguments = parts->calls[i].arguments.len;
    }
}

void answer_delta_put(struct reply *a, const struct answer_parts *parts, struct answer_sent *sent)
{
    struct slice content = behind(parts->content, sent->content);
    struct slice reasoning = behind(parts->reasoning, sent->reasoning);

    if (reasoning.len)
        reply_text(a, "reasoning_content", reasoning);
    if (content.len)
        reply_text(a, "content", content);
    sent->content += content.len;
    sent->reasoning += reasoning.len;
    if (parts->call_count < sent->calls || !parts->call_count)
        return;
    reply_list(a, "tool_calls");
    put_calls(a, parts, sent);
    reply_close(a);
}
