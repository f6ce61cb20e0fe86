/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object is written as two chains over its properties: fN-i, "nothing was written yet, from
 * property i on", and rN-i, "something was". So any subset of the optional ones is possible, with
 * commas where they belong and rules linear in their number. Further members have names that are
 * none of the listed ones: a tree over these, with a way out at each character.
 */
#include "model/schema_private.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME_BYTES = 128 };

static size_t char_len(const char *p)
{
    unsigned char c = (unsigned char)*p;
    return c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
}

static void put_class_char(struct buf *out, const char *p)
{
    bool is_special = *p == '-' || *p == ']' || *p == '[' || *p == '\\';
    if (*p == '^') {
        buf_add_str(out, "\\x5E");
        return;
    }
    buf_printf(out, "%s%.*s", is_special ? "\\" : "", (int)char_len(p), p);
}

static int by_bytes(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

/* Names other than these, which are sorted and agree in their first at bytes. */
static void write_other_names(struct schema_writer *w, const struct slice *names, size_t n,
                              size_t at, uint32_t rule)
{
    struct buf line;
    bool may_end = true;
    buf_init(&line, 0);
    buf_printf(&line, "n%u ::= ", rule);
    struct buf not_here;
    buf_init(&not_here, 0);
    for (size_t i = 0, j; i < n; i = j) {
        j = i + 1;
        if (names[i].len == at) {
            may_end = false;
            continue;
        }
        const char *c = names[i].ptr + at;
        size_t len = char_len(c);
        while (j < n && names[j].len >= at + len && memcmp(names[j].ptr + at, c, len) == 0)
            j++;
        if ((unsigned char)*c < 0x20 || *c == '"' || *c == '\\' || *c == 0x7f)
            continue; /* cannot be written without an escape, and there are none here */
        uint32_t inner = w->rules++;
        write_other_names(w, names + i, j - i, at + len, inner);
        buf_add_char(&line, '[');
        put_class_char(&line, c);
        buf_printf(&line, "] n%u | ", inner);
        put_class_char(&not_here, c);
    }
    buf_printf(&line, "[^\"\\\\\\x7F\\x00-\\x1F%.*s] [^\"\\\\\\x7F\\x00-\\x1F]*%s\n",
               (int)not_here.len, not_here.len ? not_here.ptr : "", may_end ? " | \"\"" : "");
    buf_add_slice(w->out, buf_slice(&line));
    buf_release(&line);
    buf_release(&not_here);
}

static enum errc write_more(struct schema_writer *w, struct val s, struct val properties,
                            uint32_t rule, bool *has_more)
{
    struct val more = schema_get(s, "additionalProperties");
    size_t n = val_count(properties);
    uint32_t inner, names_rule;
    char value[24] = "value";
    enum errc rc = OK;
    *has_more = schema_has(s, "additionalProperties") ? !val_equal(more, val_false)
                                                      : !schema_has(s, "properties");
    if (!*has_more)
        return OK;
    if (schema_has(s, "additionalProperties") && !val_equal(more, val_true)) {
        TRY(schema_inner(w, NULL, slice_str("additionalProperties"), more, &inner));
        snprintf(value, sizeof value, "s%u", inner);
    }
    if (n == 0) {
        buf_printf(w->out, "m%u-more ::= string ws \":\" ws %s\n", rule, value);
        return OK;
    }
    struct slice *names = arena_alloc(w->arena, n * sizeof *names);
    for (size_t i = 0; i < n; i++) {
        names[i] = val_name_at(properties, i);
        if (names[i].len > NAME_BYTES)
            TRY(schema_refuse(w,
                              "a property's name beside 'additionalProperties' may have %d bytes",
                              NAME_BYTES));
    }
    qsort(names, n, sizeof *names, by_bytes);
    names_rule = w->rules++;
    write_other_names(w, names, n, 0, names_rule);
    buf_printf(w->out, "m%u-more ::= \"\\\"\" n%u \"\\\"\" ws \":\" ws %s\n", rule, names_rule,
               value);
out:
    return rc;
}

static enum errc read_required(struct schema_writer *w, struct val s, struct val properties,
                               bool *required)
{
    struct val list = schema_get(s, "required");
    if (schema_has(s, "required") && val_type(list) != VAL_ARRAY)
        return schema_refuse(w, "'required' must be an array of names");
    for (size_t k = 0; k < val_count(list); k++) {
        struct slice name = val_string(val_at(list, k));
        struct val found;
        if (!val_find(properties, name, &found))
            return schema_refuse(w, "'required' names '%.*s', which is not among the 'properties'",
                                 (int)(name.len < 40 ? name.len : 40), name.ptr);
        for (size_t i = 0; i < val_count(properties); i++)
            required[i] |= slice_eq(name, val_name_at(properties, i));
    }
    return OK;
}

enum errc schema_write_object(struct schema_writer *w, struct val s, uint32_t rule)
{
    struct val properties = schema_get(s, "properties");
    size_t n = val_count(properties);
    bool has_more = false;
    enum errc rc = OK;
    if (schema_has(s, "properties") && val_type(properties) != VAL_OBJECT)
        TRY(schema_refuse(w, "'properties' must be an object"));
    bool *required = arena_zalloc(w->arena, n + 1);
    TRY(read_required(w, s, properties, required));
    for (size_t i = 0; i < n; i++) {
        uint32_t inner;
        TRY(schema_inner(w, "properties", val_name_at(properties, i), val_at(properties, i),
                         &inner));
        buf_printf(w->out, "m%u-%zu ::= ", rule, i);
        schema_put_value(w, val_new_string(w->arena, val_name_at(properties, i)));
        buf_printf(w->out, " ws \":\" ws s%u\n", inner);
    }
    TRY(write_more(w, s, properties, rule, &has_more));
    for (size_t i = 0; i < n; i++) {
        const char *skip_first = required[i] ? "" : " | f";
        buf_printf(w->out, "f%u-%zu ::= m%u-%zu ws r%u-%zu", rule, i, rule, i, rule, i + 1);
        if (*skip_first)
            buf_printf(w->out, " | f%u-%zu", rule, i + 1);
        buf_printf(w->out, "\nr%u-%zu ::= \",\" ws m%u-%zu ws r%u-%zu", rule, i, rule, i, rule,
                   i + 1);
        if (!required[i])
            buf_printf(w->out, " | r%u-%zu", rule, i + 1);
        buf_add_char(w->out, '\n');
    }
    if (has_more)
        buf_printf(w->out,
                   "f%u-%zu ::= (m%u-more ws (\",\" ws m%u-more ws)*)?\n"
                   "r%u-%zu ::= (\",\" ws m%u-more ws)*\n",
                   rule, n, rule, rule, rule, n, rule);
    else
        buf_printf(w->out, "f%u-%zu ::= \"\"\nr%u-%zu ::= \"\"\n", rule, n, rule, n);
    buf_printf(w->out, "s%u ::= \"{\" ws f%u-0 \"}\"\n", rule, rule);
out:
    return rc;
}
