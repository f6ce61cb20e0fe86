/* SPDX-License-Identifier: Apache-2.0 */
#include "model/chat_template.h"

#include "model/tools.h"

static struct chat_shim_text shim_text(struct slice s)
{
    return (struct chat_shim_text){ s.len ? s.ptr : "", s.len };
}

static void add_to_buf(void *ctx, const char *text, size_t len)
{
    buf_add(ctx, text, len);
}

static void copy_message(struct arena *arena, const struct chat_message *m,
                         struct chat_shim_message *out)
{
    struct chat_shim_call *calls = arena_alloc(arena, (m->call_count + 1) * sizeof *calls);
    for (size_t i = 0; i < m->call_count; i++)
        calls[i] = (struct chat_shim_call){ shim_text(m->calls[i].id), shim_text(m->calls[i].name),
                                            shim_text(m->calls[i].arguments) };
    *out = (struct chat_shim_message){
        .role = shim_text(m->role),
        .content = shim_text(m->content),
        .reasoning = shim_text(m->reasoning),
        .name = shim_text(m->name),
        .call_id = shim_text(m->call_id),
        .calls = calls,
        .call_count = m->call_count,
    };
}

enum errc chat_render(struct chat_shim *shim, const struct chat_message *messages, size_t count,
                      struct slice tools, struct buf *out, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct chat_shim_message *list = arena_alloc(arena, (count + 1) * sizeof *list);
    char why[160];
    for (size_t i = 0; i < count; i++)
        copy_message(arena, &messages[i], &list[i]);
    int failed =
        chat_shim_render(shim, list, count, shim_text(tools), add_to_buf, out, why, sizeof why);
    arena_free(arena);
    if (failed)
        return fail(err, ERR_INVALID, "the model's chat template refuses these messages: %s", why);
    return buf_check(out, "prompt", err);
}

/* ---- formats ---- */

struct template_format {
    struct answer_format base;
    struct chat_shim_format *format; /* owned */
};

struct reading {
    struct arena *arena;
    struct answer_parts *out;
    size_t cap;
};

static void take_part(void *ctx, enum chat_shim_part part, const char *text, size_t len)
{
    struct reading *r = ctx;
    struct answer_parts *out = r->out;
    struct slice copy = arena_copy(r->arena, slice_of(text, len));
    if (part == CHAT_SHIM_CONTENT)
        out->content = copy;
    if (part == CHAT_SHIM_REASONING)
        out->reasoning = copy;
    if (part == CHAT_SHIM_ARGUMENTS)
        out->calls[out->call_count - 1].arguments = copy;
    if (part != CHAT_SHIM_NAME)
        return;
    if (out->call_count == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 4;
        struct answer_call *calls = arena_zalloc(r->arena, cap * sizeof *calls);
        if (out->call_count > 0)
            memcpy(calls, out->calls, out->call_count * sizeof *calls);
        out->calls = calls;
        r->cap = cap;
    }
    out->calls[out->call_count++] = (struct answer_call){ copy, slice_of("", 0) };
}

static enum errc read_answer(const struct answer_format *base, struct slice text, bool is_partial,
                             struct arena *arena, struct answer_parts *out, struct error *err)
{
    const struct template_format *f = CONTAINER_OF(base, struct template_format, base);
    struct reading r = { arena, out, 0 };
    char why[160];
    memset(out, 0, sizeof *out);
    if (chat_shim_read(f->format, shim_text(text), is_partial, take_part, &r, why, sizeof why))
        return fail(err, ERR_INTERNAL, "the answer cannot be read: %s", why);
    while (out->call_count > 0 && out->calls[out->call_count - 1].name.len == 0)
        out->call_count--; /* its name is not there yet */
    return OK;
}

static void free_format(struct answer_format *base)
{
    struct template_format *f = CONTAINER_OF(base, struct template_format, base);
    chat_shim_format_free(f->format);
    mem_free(f);
}

struct collecting {
    struct engine *engine;
    struct chat_format *out;
    bool is_overfull;
};

static void add_mark(struct collecting *c, struct slice *list, size_t *count, struct slice text)
{
    if (*count == CHAT_MARKS_MAX)
        c->is_overfull = true;
    else
        list[(*count)++] = arena_copy(c->out->arena, text);
}

/* Texts that are one token; others are made of tokens that have their text anyway. */
static void add_spelled(struct collecting *c, struct slice text)
{
    int32_t ids[2];
    struct chat_format *out = c->out;
    size_t n = c->engine->ops->tokenise(c->engine, text, false, true, ids, ARRAY_LEN(ids));
    if (n != 1)
        return;
    if (out->spelled_count == ARRAY_LEN(out->spelled))
        c->is_overfull = true;
    else
        out->spelled[out->spelled_count++] = ids[0];
}

static void take_format(void *ctx, enum chat_shim_part part, const char *text, size_t len)
{
    struct collecting *c = ctx;
    struct slice s = slice_of(text, len);
    switch (part) {
    case CHAT_SHIM_GRAMMAR:
        buf_add_slice(&c->out->grammar, s);
        return;
    case CHAT_SHIM_BEGUN:
        buf_add_slice(&c->out->begun, s);
        return;
    case CHAT_SHIM_TRIGGER:
        add_mark(c, c->out->triggers, &c->out->trigger_count, s);
        return;
    case CHAT_SHIM_STOP:
        add_mark(c, c->out->stops, &c->out->stop_count, s);
        return;
    case CHAT_SHIM_SPELLED:
        add_spelled(c, s);
        return;
    case CHAT_SHIM_CONTENT:
    case CHAT_SHIM_REASONING:
    case CHAT_SHIM_NAME:
    case CHAT_SHIM_ARGUMENTS:
        break;
    }
    BUG("part %d of a format", (int)part);
}

static void forget(struct chat_format *out)
{
    buf_clear(&out->grammar);
    buf_clear(&out->begun);
    out->is_lazy = false;
    out->trigger_count = out->stop_count = out->spelled_count = 0;
}

static enum errc ask_shim(struct chat_shim *shim, struct collecting *c, const struct toolset *tools,
                          bool is_required, struct chat_shim_format **out, struct error *err)
{
    struct buf json;
    char why[160];
    buf_init(&json, 0);
    if (tools->count > 0)
        tools_print(tools, &json);
    struct chat_shim_wish wish = { shim_text(buf_slice(&json)), is_required, tools->is_parallel };
    forget(c->out);
    int failed =
        chat_shim_format_new(shim, &wish, out, &c->out->is_lazy, take_format, c, why, sizeof why);
    buf_release(&json);
    if (failed)
        return fail(err, ERR_INVALID,
                    "the model's chat template cannot be used with these tools: %s", why);
    return OK;
}

/*
 * A required call: many templates allow text before it, which a small model never ends. What may
 * follow a trigger is a call alone, so that is asked for and begins at once; unless the model thinks
 * first, or calls have no marker.
 */
static enum errc ask_for_call(struct chat_shim *shim, struct collecting *c,
                              const struct toolset *tools, struct chat_shim_format **out,
                              struct error *err)
{
    struct chat_format *f = c->out;
    if (tools->is_required && !c->engine->info.has_reasoning) {
        enum errc rc = ask_shim(shim, c, tools, false, out, err);
        if (rc != OK)
            return rc;
        if (f->is_lazy && f->trigger_count > 0 && f->grammar.len > 0) {
            f->is_lazy = false;
            buf_clear(&f->begun);
            return OK;
        }
        chat_shim_format_free(*out);
    }
    return ask_shim(shim, c, tools, tools->is_required, out, err);
}

enum errc chat_format_of(struct chat_shim *shim, struct engine *e, const struct toolset *tools,
                         struct chat_format *out, struct error *err)
{
    struct collecting c = { e, out, false };
    struct chat_shim_format *format = NULL;
    struct template_format *f;
    enum errc rc = ask_for_call(shim, &c, tools, &format, err);
    if (rc != OK)
        return rc;
    if (c.is_overfull) {
        chat_shim_format_free(format);
        return fail(err, ERR_INVALID, "the model's chat template has too many markers");
    }
    f = mem_zalloc(sizeof *f);
    f->base = (struct answer_format){ free_format, read_answer };
    f->format = format;
    out->answer = &f->base;
    return OK;
}
