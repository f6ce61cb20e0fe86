/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /mcp: the Model Context Protocol over streamable HTTP, revisions 2025-03-26
 * and 2025-06-18. Stateless: no session id is given, each POST stands alone and
 * is answered with JSON, never with a stream; so GET and DELETE are 405, and a
 * client cancels a call by closing its connection.
 *
 * A batch (2025-03-26 only) is worked off in order. A tool may end its call at
 * once or later on another worker; either way what ends it goes on with the
 * next message:
 *
 *   post_mcp -> run -> take -> tool ... call_done -> run -> ... -> finish
 */
#include "base/metrics.h"
#include "base/val_text.h"
#include "server/mcp.h"
#include "server/reply.h"
#include "server/router.h"
#include "server/server.h"
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#define MCP_OLD "2025-03-26"
#define MCP_NEW "2025-06-18"

/* A batch may nest its calls on one stack, so it is short. */
enum { MCP_BODY_MAX = 4 * MIB, BATCH_MAX = 20, SENTENCE_MAX = 400 };

enum rpc_code {
    RPC_PARSE = -32700,
    RPC_REQUEST = -32600,
    RPC_METHOD = -32601,
    RPC_PARAMS = -32602
};

static struct metric calls = METRIC_COUNTER("themis_mcp_calls_total", "Tool calls over /mcp.");
static struct metric failures =
    METRIC_COUNTER("themis_mcp_failures_total", "Tool calls over /mcp that ended with an error.");

/* The messages of one POST. */
struct talk {
    struct mcp_call call; /* the one that runs */
    struct request *r;
    bool is_batch;
    struct val messages[BATCH_MAX];
    size_t count, next;
    struct val id; /* of the message in hand */
    struct val answers[BATCH_MAX];
    size_t answer_count;
    int status;
};

/* ---- answers ---- */

static void add_answer(struct talk *t, const char *member, struct val value)
{
    struct reply a;

    reply_begin(&a, t->r);
    reply_str(&a, "jsonrpc", "2.0");
    reply_val(&a, "id", t->id);
    reply_val(&a, member, value);
    t->answers[t->answer_count++] = reply_finish(&a);
}

static void add_error(struct talk *t, enum rpc_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void add_error(struct talk *t, enum rpc_code code, const char *fmt, ...)
{
    char sentence[SENTENCE_MAX];
    struct reply a;
    va_list args;

    va_start(args, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, args);
    va_end(args);
    reply_begin(&a, t->r);
    reply_int(&a, "code", code);
    reply_val(&a, "message", text_clean(t->r->arena, slice_str(sentence)));
    if (code == RPC_PARSE || code == RPC_REQUEST)
        t->status = 400; /* a batch with other answers is 200 all the same */
    add_answer(t, "error", reply_finish(&a));
}

static void finish(struct talk *t)
{
    struct request *r = t->r;

    if (!t->answer_count) /* notifications and answers only */
        request_reply_text(r, 202, NULL, slice_of(NULL, 0));
    else if (t->is_batch)
        request_reply(r, 200, val_new_array(r->arena, t->answers, t->answer_count));
    else
        request_reply(r, t->status, t->answers[0]);
}

static void refuse(struct talk *t, int status, enum rpc_code code, const char *text)
{
    add_error(t, code, "%s", text);
    t->status = status;
    t->is_batch = false;
    finish(t);
}

/* ---- initialize, ping, tools/list ---- */

static bool is_version(struct slice s)
{
    return slice_is(s, MCP_OLD) || slice_is(s, MCP_NEW);
}

static void initialize(struct talk *t, struct val params)
{
    struct slice asked = val_string(val_get(params, slice_str("protocolVersion")));
    struct reply a;

    if (t->is_batch) {
        add_error(t, RPC_REQUEST, "initialize must not be part of a batch");
        return;
    }
    if (!asked.len) {
        add_error(t, RPC_PARAMS, "initialize needs protocolVersion, a string");
        return;
    }
    reply_begin(&a, t->r);
    reply_text(&a, "protocolVersion", is_version(asked) ? asked : slice_str(MCP_NEW));
    reply_open(&a, "capabilities");
    reply_open(&a, "tools");
    reply_bool(&a, "listChanged", false);
    reply_close(&a);
    reply_close(&a);
    reply_open(&a, "serverInfo");
    reply_str(&a, "name", "themis");
    reply_str(&a, "version", THEMIS_VERSION);
    reply_close(&a);
    reply_str(&a, "instructions",
              "A database of documents. Questions about what they say: ask, or search for the "
              "passages alone. Counting, filtering and joining: query.");
    add_answer(t, "result", reply_finish(&a));
}

static void ping(struct talk *t, struct val params)
{
    (void)params;
    add_answer(t, "result", val_empty_object);
}

static void put_schema(struct reply *a, const char *member, const char *text)
{
    struct val schema;

    if (val_parse(slice_str(text), a->r->arena, &schema, NULL) != OK)
        BUG("a tool's schema is not JSON: %s", text);
    reply_val(a, member, schema);
}

static void list_tools(struct talk *t, struct val params)
{
    const struct mcp_tool *tool;
    struct reply a;

    if (!val_is_null(val_get(params, slice_str("cursor")))) {
        add_error(t, RPC_PARAMS, "the list of tools has one page: there is no such cursor");
        return;
    }
    reply_begin(&a, t->r);
    reply_list(&a, "tools");
    for (size_t i = 0; (tool = mcp_tool_at(i)); i++) {
        reply_open(&a, NULL);
        reply_str(&a, "name", tool->name);
        reply_str(&a, "title", tool->title);
        reply_str(&a, "description", tool->help);
        put_schema(&a, "inputSchema", tool->input);
        put_schema(&a, "outputSchema", tool->output);
        reply_open(&a, "annotations");
        reply_bool(&a, "readOnlyHint", tool->reads_only);
        reply_bool(&a, "destructiveHint", !tool->reads_only);
        reply_bool(&a, "openWorldHint", false);
        reply_close(&a);
        reply_close(&a);
    }
    reply_close(&a);
    add_answer(t, "result", reply_finish(&a));
}

/* ---- tools/call ---- */

static void run(struct talk *t);

/* text, for models that read no more, and the same as a value unless it is an error. */
static void end_call(struct talk *t, struct slice text, struct val structured)
{
    bool is_error = val_is_null(structured);
    struct reply a;

    metric_add(&calls, 1);
    metric_add(&failures, is_error);
    reply_begin(&a, t->r);
    reply_list(&a, "content");
    reply_open(&a, NULL);
    reply_str(&a, "type", "text");
    reply_text(&a, "text", text);
    reply_close(&a);
    reply_close(&a);
    if (!is_error)
        reply_val(&a, "structuredContent", structured);
    reply_bool(&a, "isError", is_error);
    add_answer(t, "result", reply_finish(&a));
    run(t);
}

static void call_done(struct mcp_call *c, struct val result)
{
    struct talk *t = CONTAINER_OF(c, struct talk, call);
    struct slice copy;
    struct buf text;

    buf_init(&text, 0);
    val_print(result, &text);
    copy = arena_copy(t->r->arena, buf_slice(&text));
    buf_release(&text);
    end_call(t, copy, result);
}

static void call_failed(struct mcp_call *c, const struct error *err)
{
    struct talk *t = CONTAINER_OF(c, struct talk, call);
    struct slice why = val_string(text_clean(t->r->arena, slice_str(err->text)));

    end_call(
        t, slice_str(arena_printf(t->r->arena, "%.*s (error %d)", SLICE_ARG(why), error_num(err))),
        VAL_NONE);
}

static const struct mcp_tool *find_tool(struct slice name)
{
    const struct mcp_tool *tool = NULL;

    for (size_t i = 0; (tool = mcp_tool_at(i)); i++)
        if (slice_is(name, tool->name))
            break;
    return tool;
}

/* False: there is no such call, and the error was added. */
static bool call_tool(struct talk *t, struct val params)
{
    struct slice name = val_string(val_get(params, slice_str("name")));
    struct val arguments = val_get(params, slice_str("arguments"));
    const struct mcp_tool *tool = find_tool(name);

    if (!tool) {
        add_error(t, RPC_PARAMS, "Unknown tool: '%.*s'; tools/list names them", SLICE_ARG(name));
        return false;
    }
    if (val_is_null(arguments))
        arguments = val_empty_object;
    if (val_type(arguments) != VAL_OBJECT) {
        add_error(t, RPC_PARAMS, "arguments must be an object");
        return false;
    }
    t->call = (struct mcp_call){ t->r, call_done, call_failed };
    tool->call(&t->call, arguments);
    return true;
}

/* ---- messages ---- */

static const struct method {
    const char *name;
    void (*answer)(struct talk *t, struct val params);
} methods[] = {
    { "initialize", initialize },
    { "ping", ping },
    { "tools/list", list_tools },
};

static const struct method *find_method(struct slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (slice_is(name, methods[i].name))
            return &methods[i];
    return NULL;
}

/* An id is a string or a whole number. */
static bool is_id(struct val id)
{
    return val_type(id) == VAL_STRING || val_is_int(id);
}

/* False: a tool runs, and goes on with the rest. */
static bool take_request(struct talk *t, struct slice name, struct val params)
{
    const struct method *m = find_method(name);

    if (!val_is_null(params) && val_type(params) != VAL_OBJECT)
        add_error(t, RPC_PARAMS, "params must be an object");
    else if (slice_is(name, "tools/call"))
        return !call_tool(t, params);
    else if (m)
        m->answer(t, params);
    else
        add_error(t, RPC_METHOD, "unknown method '%.*s'", SLICE_ARG(name));
    return true;
}

static bool take(struct talk *t, struct val message)
{
    struct val id, method = val_get(message, slice_str("method"));
    bool has_id = val_find(message, slice_str("id"), &id), ignored = false;
    bool is_answer = val_find(message, slice_str("result"), &(struct val){ NULL }) ||
                     val_find(message, slice_str("error"), &(struct val){ NULL });

    t->id = has_id && is_id(id) ? id : val_null;
    if (val_type(message) != VAL_OBJECT)
        add_error(t, RPC_REQUEST, "a message must be a JSON object");
    else if (!slice_is(val_string(val_get(message, slice_str("jsonrpc"))), "2.0"))
        add_error(t, RPC_REQUEST, "a message needs \"jsonrpc\": \"2.0\"");
    else if (has_id && !is_id(id))
        add_error(t, RPC_REQUEST, "the id of a request must be a string or a whole number");
    else if (val_type(method) == VAL_STRING && has_id)
        return take_request(t, val_string(method), val_get(message, slice_str("params")));
    else
        ignored = true;
    if (ignored && val_type(method) != VAL_STRING && !is_answer)
        add_error(t, RPC_REQUEST, "a message needs a method, a string");
    return true;
}

/* Calls of tools end up here again: nothing of t may be touched after one has begun. */
static void run(struct talk *t)
{
    while (t->next < t->count)
        if (!take(t, t->messages[t->next++]))
            return;
    finish(t);
}

/* ---- a POST ---- */

/* Does the header allow JSON? Without one everything is allowed. */
static bool takes_json(struct slice accept)
{
    static const char *const ranges[] = { "application/json", "application/*", "*/*" };
    bool is_taken = !accept.len;

    while (accept.len) {
        const char *comma = memchr(accept.ptr, ',', accept.len);
        struct slice one = slice_of(accept.ptr, comma ? (size_t)(comma - accept.ptr) : accept.len);
        size_t skip = one.len + (comma != NULL);
        accept = slice_of(accept.ptr + skip, accept.len - skip);
        while (one.len && one.ptr[0] == ' ')
            one = slice_of(one.ptr + 1, one.len - 1);
        size_t end = 0;
        while (end < one.len && one.ptr[end] != ';' && one.ptr[end] != ' ')
            end++;
        for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
            is_taken |= strlen(ranges[i]) == end && !strncasecmp(one.ptr, ranges[i], end);
    }
    return is_taken;
}

/* initialize negotiates the version in its params; a header that came with it says nothing. */
static bool is_initialize(struct val body)
{
    return slice_is(val_string(val_get(body, slice_str("method"))), "initialize");
}

/* Takes a batch apart; false: refused. */
static bool read_messages(struct talk *t, struct val body, struct slice version)
{
    t->count = 1;
    t->messages[0] = body;
    if (val_type(body) != VAL_ARRAY)
        return true;
    t->count = val_count(body);
    if (slice_is(version, MCP_NEW)) {
        refuse(t, 400, RPC_REQUEST, "revision " MCP_NEW " has no batches: send one message");
        return false;
    }
    if (!t->count || t->count > BATCH_MAX) {
        refuse(t, 400, RPC_REQUEST, "a batch has 1 to 20 messages");
        return false;
    }
    t->is_batch = true;
    for (size_t i = 0; i < t->count; i++)
        t->messages[i] = val_at(body, i);
    return true;
}

static void post_mcp(struct request *r)
{
    struct talk *t = ARENA_NEW(r->arena, struct talk);
    struct slice version = exchange_header(r->x, "mcp-protocol-version");
    struct error err = { 0 };
    struct val body;

    *t = (struct talk){ .r = r, .id = val_null, .status = 200 };
    if (!takes_json(exchange_header(r->x, "accept")))
        refuse(t, 406, RPC_REQUEST, "Accept must allow application/json");
    else if (!request_body(r).len)
        refuse(t, 400, RPC_PARSE, "the body must be a JSON-RPC message, not empty");
    else if (request_json(r, &body, &err) != OK)
        refuse(t, 400, RPC_PARSE, err.text);
    else if (version.len && !is_version(version) && !is_initialize(body))
        refuse(t, 400, RPC_REQUEST, "MCP-Protocol-Version must be " MCP_OLD " or " MCP_NEW);
    else if (read_messages(t, body, version))
        run(t);
}

const struct route api_mcp_routes[] = {
    { METHOD_POST, "/mcp", ROLE_USER, ON_POOL, MCP_BODY_MAX, post_mcp,
      "Model Context Protocol: tools query, search and ask." },
    { 0 },
};
