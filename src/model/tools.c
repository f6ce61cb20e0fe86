/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tools.h"

#include "base/val_text.h"
#include "model/schema.h"

#include <stdio.h>

#define TOOL_CALL_END "</tool_call>"

/* ---- reading ---- */

static bool is_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-'))
            return false;
    }
    return name.len > 0 && name.len <= TOOL_NAME_BYTES;
}

static enum errc check_members(struct val v, size_t i, const char *what, const char *const *known,
                               size_t count, struct error *err)
{
    for (size_t k = 0; k < val_count(v); k++) {
        struct slice name = val_name_at(v, k);
        bool is_known = false;
        for (size_t j = 0; j < count; j++)
            is_known |= slice_is(name, known[j]);
        if (!is_known)
            return fail(err, ERR_INVALID, "tools[%zu]%s has an unknown member '%.*s'", i, what,
                        (int)(name.len < 40 ? name.len : 40), name.ptr);
    }
    return OK;
}

static enum errc read_parameters(struct val v, size_t i, struct tool *out, struct arena *arena,
                                 struct error *err)
{
    if (val_is_null(v) || (val_type(v) == VAL_OBJECT && val_count(v) == 0)) {
        struct slice names[] = { slice_str("type"), slice_str("properties") };
        struct val values[] = { val_new_string(arena, slice_str("object")), val_empty_object };
        v = val_new_object(arena, names, values, ARRAY_LEN(names));
    }
    if (val_type(v) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "tools[%zu].function.parameters must be a JSON schema", i);
    struct val type = val_get(v, slice_str("type"));
    if (!val_is_null(type) && !slice_is(val_string(type), "object"))
        return fail(err, ERR_INVALID, "tools[%zu].function.parameters must have the type 'object'",
                    i);
    out->parameters = v;
    return OK;
}

static enum errc read_tool(struct val v, size_t i, struct arena *arena, struct tool *out,
                           struct error *err)
{
    static const char *const outer[] = { "type", "function" };
    static const char *const inner[] = { "name", "description", "parameters", "strict" };
    struct val f = val_get(v, slice_str("function"));
    enum errc rc = OK;
    if (!slice_is(val_string(val_get(v, slice_str("type"))), "function") ||
        val_type(f) != VAL_OBJECT)
        TRY(fail(err, ERR_INVALID,
                 "tools[%zu] must be {\"type\": \"function\", \"function\": {...}}", i));
    TRY(check_members(v, i, "", outer, ARRAY_LEN(outer), err));
    TRY(check_members(f, i, ".function", inner, ARRAY_LEN(inner), err));
    out->name = val_string(val_get(f, slice_str("name")));
    if (!is_name(out->name))
        TRY(fail(err, ERR_INVALID, "tools[%zu].function.name must be 1 to %d of A-Z a-z 0-9 _ -", i,
                 TOOL_NAME_BYTES));
    struct val description = val_get(f, slice_str("description"));
    struct val strict = val_get(f, slice_str("strict"));
    if (!val_is_null(description) && val_type(description) != VAL_STRING)
        TRY(fail(err, ERR_INVALID, "tools[%zu].function.description must be a text", i));
    if (!val_is_null(strict) && val_type(strict) != VAL_BOOL)
        TRY(fail(err, ERR_INVALID, "tools[%zu].function.strict must be true or false", i));
    out->description = val_string(description);
    out->is_strict = val_bool(strict);
    rc = read_parameters(val_get(f, slice_str("parameters")), i, out, arena, err);
out:
    return rc;
}

static enum errc check_names_differ(const struct toolset *tools, struct error *err)
{
    for (size_t i = 0; i < tools->count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (slice_eq(tools->list[i].name, tools->list[k].name))
                return fail(err, ERR_INVALID, "two tools have the name '%.*s'",
                            SLICE_ARG(tools->list[i].name));
        }
    }
    return OK;
}

static enum errc keep_only(struct toolset *tools, struct slice name, struct error *err)
{
    for (size_t i = 0; i < tools->count; i++) {
        if (slice_eq(tools->list[i].name, name)) {
            tools->list[0] = tools->list[i];
            tools->count = 1;
            return OK;
        }
    }
    return fail(err, ERR_INVALID, "'tool_choice' names '%.*s', which is not among the tools",
                (int)(name.len < 64 ? name.len : 64), name.ptr);
}

enum errc tools_read(const struct gen_tools *in, struct arena *arena, struct toolset *out,
                     struct error *err)
{
    size_t n = val_count(in->list);
    enum errc rc = OK;
    *out = (struct toolset){ .is_required = in->choice == GEN_TOOLS_REQUIRED,
                             .is_parallel = in->is_parallel };
    if (!val_is_null(in->list) && val_type(in->list) != VAL_ARRAY)
        TRY(fail(err, ERR_INVALID, "'tools' must be an array"));
    if (n > TOOLS_MAX)
        TRY(fail(err, ERR_INVALID, "at most %d tools, not %zu", TOOLS_MAX, n));
    out->list = arena_zalloc(arena, (n + 1) * sizeof *out->list);
    for (size_t i = 0; i < n; i++)
        TRY(read_tool(val_at(in->list, i), i, arena, &out->list[i], err));
    out->count = n;
    TRY(check_names_differ(out, err));
    if (n == 0 && (out->is_required || in->only.len > 0))
        TRY(fail(err, ERR_INVALID, "'tool_choice' wants a call, but there are no tools"));
    if (in->only.len > 0)
        TRY(keep_only(out, in->only, err));
    if (in->choice == GEN_TOOLS_NONE)
        out->count = 0;
out:
    return rc;
}

/* ---- telling the model ---- */

static void print_tool(const struct tool *t, struct buf *out)
{
    buf_add_str(out, "{\"type\":\"function\",\"function\":{\"name\":");
    val_print_string(t->name, out);
    buf_add_str(out, ",\"description\":");
    val_print_string(t->description, out);
    buf_add_str(out, ",\"parameters\":");
    val_print(t->parameters, out);
    buf_add_str(out, "}}");
}

void tools_print(const struct toolset *tools, struct buf *out)
{
    buf_add_char(out, '[');
    for (size_t i = 0; i < tools->count; i++) {
        buf_add_str(out, i ? "," : "");
        print_tool(&tools->list[i], out);
    }
    buf_add_char(out, ']');
}

void tools_describe(const struct toolset *tools, struct buf *out)
{
    buf_add_str(out, "You may call these functions to help with the user's request:\n<tools>\n");
    for (size_t i = 0; i < tools->count; i++) {
        print_tool(&tools->list[i], out);
        buf_add_char(out, '\n');
    }
    buf_add_str(out, "</tools>\nTo call a function, answer with its name and arguments as JSON:\n"
                     "<tool_call>\n{\"name\": <name>, \"arguments\": <object>}\n</tool_call>");
}

void tools_write_call(const struct chat_call *call, struct buf *out)
{
    buf_add_str(out, "<tool_call>\n{\"name\": ");
    val_print_string(call->name, out);
    buf_add_str(out, ", \"arguments\": ");
    buf_add_slice(out, call->arguments.len ? call->arguments : slice_str("{}"));
    buf_add_str(out, "}\n</tool_call>");
}

enum errc tools_grammar(const struct toolset *tools, struct buf *out, struct error *err)
{
    struct schema_writer *w = schema_writer_new(out);
    char arguments[SCHEMA_RULE_BYTES];
    enum errc rc = OK;
    buf_printf(out, "root ::= call%s\ncall ::= \"<tool_call>\" ws (",
               tools->is_parallel ? " (ws call)*" : "");
    for (size_t i = 0; i < tools->count; i++)
        buf_printf(out, "%scall%zu", i ? " | " : "", i);
    buf_add_str(out, ") ws \"</tool_call>\"\n");
    for (size_t i = 0; i < tools->count; i++) {
        const struct tool *t = &tools->list[i];
        if (schema_write(w, t->parameters, !t->is_strict, arguments, err) != OK) {
            rc = wrap(err, "tool '%.*s'", SLICE_ARG(t->name));
            goto out;
        }
        buf_printf(out,
                   "call%zu ::= \"{\" ws \"\\\"name\\\"\" ws \":\" ws \"\\\"%.*s\\\"\" ws \",\" ws "
                   "\"\\\"arguments\\\"\" ws \":\" ws %s ws \"}\"\n",
                   i, SLICE_ARG(t->name), arguments);
    }
    schema_writer_end(w);
    rc = buf_check(out, "the grammar of the tools", err);
out:
    schema_writer_free(w);
    return rc;
}

/* ---- reading answers ---- */

/* Where the JSON value at the beginning of text ends; text.len when it does not end there. */
static size_t value_end(struct slice text)
{
    bool is_string = false;
    int depth = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (is_string) {
            i += c == '\\';
            is_string = c != '"';
        } else if (c == '"') {
            is_string = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            depth--;
        }
        if (depth == 0 && !is_string && (c == '}' || c == ']' || c == '"'))
            return i + 1;
    }
    return text.len;
}

/* What stands behind "name": in text. Empty when it is not there yet. */
static struct slice behind_member(struct slice text, const char *quoted)
{
    const char *at = memmem(text.len ? text.ptr : "", text.len, quoted, strlen(quoted));
    if (!at)
        return slice_of("", 0);
    at += strlen(quoted);
    const char *end = text.ptr + text.len;
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r' || *at == ':'))
        at++;
    return slice_of(at, (size_t)(end - at));
}

/* The name comes first: the grammar has it so. */
static void read_call(struct slice text, struct answer_call *out)
{
    struct slice name = behind_member(text, "\"name\"");
    *out = (struct answer_call){ slice_of("", 0), slice_of("", 0) };
    const char *close =
        name.len > 0 && *name.ptr == '"' ? memchr(name.ptr + 1, '"', name.len - 1) : NULL;
    if (!close)
        return;
    out->name = slice_of(name.ptr + 1, (size_t)(close - name.ptr) - 1);
    struct slice rest = slice_of(close + 1, name.len - (size_t)(close + 1 - name.ptr));
    struct slice arguments = behind_member(rest, "\"arguments\"");
    out->arguments = slice_of(arguments.ptr, value_end(arguments));
}

/* How many of the last bytes of text may begin a call. */
static size_t begun_marker(struct slice text)
{
    size_t most = strlen(TOOL_CALL_BEGIN) - 1;
    for (size_t n = text.len < most ? text.len : most; n > 0; n--) {
        if (memcmp(text.ptr + text.len - n, TOOL_CALL_BEGIN, n) == 0)
            return n;
    }
    return 0;
}

static struct slice trim_end(struct slice text)
{
    while (text.len > 0 && (text.ptr[text.len - 1] == '\n' || text.ptr[text.len - 1] == ' '))
        text.len--;
    return text;
}

void tools_read_answer(struct slice text, bool is_partial, struct arena *arena,
                       struct answer_parts *out)
{
    size_t begin = strlen(TOOL_CALL_BEGIN), count = 0;
    const char *at = memmem(text.len ? text.ptr : "", text.len, TOOL_CALL_BEGIN, begin);
    *out = (struct answer_parts){ .content = text };
    if (!at && is_partial)
        out->content.len -= begun_marker(text);
    if (is_partial || at)
        out->content = trim_end(at ? slice_of(text.ptr, (size_t)(at - text.ptr)) : out->content);
    const char *end = text.ptr + text.len;
    for (const char *p = at; p; p = memmem(p, (size_t)(end - p), TOOL_CALL_BEGIN, begin)) {
        count++;
        p += begin;
    }
    out->calls = arena_zalloc(arena, (count + 1) * sizeof *out->calls);
    while (at) { /* a marker inside of the arguments begins nothing */
        struct slice rest = slice_of(at + begin, (size_t)(end - at) - begin);
        struct slice call = slice_of(rest.ptr, value_end(rest));
        read_call(call, &out->calls[out->call_count]);
        if (out->calls[out->call_count].name.len > 0)
            out->call_count++;
        at = memmem(rest.ptr + call.len, rest.len - call.len, TOOL_CALL_BEGIN, begin);
    }
}

static enum errc read_answer(const struct answer_format *f, struct slice text, bool is_partial,
                             struct arena *arena, struct answer_parts *out, struct error *err)
{
    (void)f;
    (void)err;
    tools_read_answer(text, is_partial, arena, out);
    return OK;
}

struct answer_format tools_answer_format = { NULL, read_answer };
