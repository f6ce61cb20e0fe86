/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every schema becomes a rule sN, written after the rules of the schemas in it. A schema that is
 * referred to gets its number before it is written, so it may contain itself.
 */
#include "model/schema_private.h"

#include "base/val_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* What values are made of, for every grammar. */
static const char common_rules[] =
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n"
    "hex ::= [0-9a-fA-F]\n"
    "char ::= [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt/] | "
    "\"u\" ([0-9a-cA-CefEF] hex hex hex | [dD] [0-7] hex hex))\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "digits ::= \"0\" | [1-9] [0-9]{0,14}\n"
    "fraction ::= \".\" [0-9]{1,16}\n"
    "integer ::= \"-\"? digits\n"
    "number ::= \"-\"? digits fraction? ([eE] [-+]? [0-9]{1,2})?\n"
    "boolean ::= \"true\" | \"false\"\n"
    "null ::= \"null\"\n"
    "member ::= string ws \":\" ws value\n"
    "object ::= \"{\" ws (member ws (\",\" ws member ws)*)? \"}\"\n"
    "array ::= \"[\" ws (value ws (\",\" ws value ws)*)? \"]\"\n"
    "value ::= object | array | string | number | boolean | null\n"
    "day ::= [0-9]{4} \"-\" (\"0\" [1-9] | \"1\" [0-2]) \"-\" "
    "(\"0\" [1-9] | [12] [0-9] | \"3\" [01])\n"
    "time ::= ([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9] \":\" [0-5] [0-9] "
    "(\".\" [0-9]{1,6})? (\"Z\" | [-+] ([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9])\n"
    "uuid ::= hex{8} \"-\" hex{4} \"-\" hex{4} \"-\" hex{4} \"-\" hex{12}\n";

void schema_any_object(struct buf *out)
{
    buf_add_str(out, "root ::= object\n");
    buf_add_str(out, common_rules);
}

enum errc schema_refuse(struct schema_writer *w, const char *fmt, ...)
{
    char what[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    size_t n = w->path.len < 64 ? w->path.len : 64;
    return fail(w->err, ERR_INVALID, "the schema at %.*s%s: %s", (int)n, w->path.ptr,
                n < w->path.len ? "..." : "", what);
}

void schema_literal(struct slice text, struct buf *out)
{
    buf_add_char(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            buf_printf(out, "\\x%02X", c);
        else
            buf_add_char(out, (char)c);
    }
    buf_add_char(out, '"');
}

/* The value as compact JSON, as a literal. */
void schema_put_value(struct schema_writer *w, struct val v)
{
    struct buf json;
    buf_init(&json, 0);
    val_print(v, &json);
    schema_literal(buf_slice(&json), w->out);
    buf_release(&json);
}

/* ---- keywords ---- */

static bool is_among(struct slice name, const char *const *list)
{
    for (; *list; list++) {
        if (slice_is(name, *list))
            return true;
    }
    return false;
}

static const char *const annotations[] = { "title",      "description", "default",  "examples",
                                           "example",    "$comment",    "$schema",  "$id",
                                           "$defs",      "definitions", "readOnly", "writeOnly",
                                           "deprecated", NULL };

/* Every keyword must be an annotation or one of those that are used. */
static enum errc check_keywords(struct schema_writer *w, struct val s, const char *const *used)
{
    for (size_t i = 0; i < val_count(s) && !w->is_lenient; i++) {
        struct slice name = val_name_at(s, i);
        if (!is_among(name, annotations) && !is_among(name, used))
            return schema_refuse(w, "the keyword '%.*s' is not supported%s",
                                 (int)(name.len < 40 ? name.len : 40), name.ptr,
                                 used[0] && !used[1] ? " beside this one" : " here");
    }
    return OK;
}

struct val schema_get(struct val s, const char *name)
{
    return val_get(s, slice_str(name));
}

bool schema_has(struct val s, const char *name)
{
    struct val v;
    return val_find(s, slice_str(name), &v);
}

enum errc schema_size(struct schema_writer *w, struct val s, const char *name, uint32_t def,
                      uint32_t *out)
{
    struct val v = schema_get(s, name);
    *out = def;
    if (!schema_has(s, name))
        return OK;
    double d = val_double(v);
    if (val_type(v) != VAL_NUMBER || d < 0 || d != floor(d))
        return schema_refuse(w, "'%s' must be a whole number, not below 0", name);
    if (d > REPEATS_MAX)
        return schema_refuse(w, "'%s' may be %d at most", name, REPEATS_MAX);
    *out = (uint32_t)d;
    return OK;
}

/* ---- schemas in schemas ---- */

static enum errc write_schema(struct schema_writer *w, struct val s, uint32_t *rule);

/* The schema at path/step (step may be NULL) /name. */
enum errc schema_inner(struct schema_writer *w, const char *step, struct slice name, struct val s,
                       uint32_t *rule)
{
    size_t before = w->path.len;
    if (step)
        buf_printf(&w->path, "/%s", step);
    buf_printf(&w->path, "/%.*s", (int)(name.len < 40 ? name.len : 40), name.ptr);
    enum errc rc = write_schema(w, s, rule);
    w->path.len = before;
    return rc;
}

enum errc schema_item(struct schema_writer *w, const char *step, size_t i, struct val s,
                      uint32_t *rule)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", i);
    return schema_inner(w, step, slice_str(number), s, rule);
}

/* One step of a JSON pointer, its escapes undone. */
static struct slice next_step(struct schema_writer *w, struct slice *rest)
{
    const char *end = memchr(rest->ptr, '/', rest->len);
    struct slice raw = slice_of(rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len);
    char *out = arena_alloc(w->arena, raw.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < raw.len; i++) {
        bool is_escape = raw.ptr[i] == '~' && i + 1 < raw.len;
        out[n++] = is_escape ? (raw.ptr[i + 1] == '1' ? '/' : '~') : raw.ptr[i];
        i += is_escape;
    }
    *rest = end ? slice_of(end + 1, rest->len - raw.len - 1) : slice_of("", 0);
    return slice_of(out, n);
}

static enum errc find_target(struct schema_writer *w, struct slice ref, struct val *out)
{
    struct slice rest = ref;
    *out = w->root;
    if (slice_is(ref, "#"))
        return OK;
    if (!slice_starts(ref, "#/"))
        return schema_refuse(w, "'$ref' must begin with #/ (a place in this schema)");
    rest = slice_of(ref.ptr + 2, ref.len - 2);
    do {
        struct slice step = next_step(w, &rest);
        uint64_t i = 0;
        struct val next = val_null;
        if (val_type(*out) == VAL_OBJECT && val_find(*out, step, &next))
            *out = next;
        else if (val_type(*out) == VAL_ARRAY && slice_to_u64(step, &i) && i < val_count(*out))
            *out = val_at(*out, i);
        else
            return schema_refuse(w, "'$ref' %.*s leads nowhere", (int)(ref.len < 60 ? ref.len : 60),
                                 ref.ptr);
    } while (rest.len > 0);
    return OK;
}

static enum errc write_ref(struct schema_writer *w, struct val s, uint32_t *rule)
{
    static const char *const used[] = { "$ref", NULL };
    struct val target;
    enum errc rc = OK;
    TRY(check_keywords(w, s, used));
    if (val_type(schema_get(s, "$ref")) != VAL_STRING)
        TRY(schema_refuse(w, "'$ref' must be a text"));
    TRY(find_target(w, val_string(schema_get(s, "$ref")), &target));
    for (size_t i = 0; i < w->ref_count; i++) {
        if (w->refs[i].target == target.at) {
            *rule = w->refs[i].rule;
            return OK;
        }
    }
    if (w->ref_count == REFS_MAX)
        TRY(schema_refuse(w, "more than %d references", REFS_MAX));
    uint32_t inner, own = w->rules++;
    w->refs[w->ref_count++] = (struct ref){ target.at, own };
    TRY(write_schema(w, target, &inner));
    buf_printf(w->out, "s%u ::= s%u\n", own, inner);
    *rule = own;
out:
    return rc;
}

static enum errc write_choices(struct schema_writer *w, struct val s, const char *keyword,
                               uint32_t rule)
{
    const char *const used[] = { keyword, NULL };
    struct val list = schema_get(s, keyword);
    size_t n = val_count(list);
    enum errc rc = OK;
    TRY(check_keywords(w, s, used));
    if (val_type(list) != VAL_ARRAY || n == 0)
        TRY(schema_refuse(w, "'%s' must be an array of schemas", keyword));
    if (strcmp(keyword, "allOf") == 0 && n > 1)
        TRY(schema_refuse(w, "'allOf' of more than one schema is not supported"));
    uint32_t *rules = arena_alloc(w->arena, n * sizeof *rules);
    for (size_t i = 0; i < n; i++)
        TRY(schema_item(w, keyword, i, val_at(list, i), &rules[i]));
    buf_printf(w->out, "s%u ::= ", rule);
    for (size_t i = 0; i < n; i++)
        buf_printf(w->out, "%ss%u", i ? " | " : "", rules[i]);
    buf_add_char(w->out, '\n');
out:
    return rc;
}

/* ---- values given one by one ---- */

static bool is_of_type(struct val v, struct slice type)
{
    switch (val_type(v)) {
    case VAL_NULL:
        return slice_is(type, "null");
    case VAL_BOOL:
        return slice_is(type, "boolean");
    case VAL_NUMBER:
        return slice_is(type, "number") ||
               (slice_is(type, "integer") && val_double(v) == floor(val_double(v)));
    case VAL_STRING:
        return slice_is(type, "string");
    case VAL_ARRAY:
        return slice_is(type, "array");
    case VAL_OBJECT:
        return slice_is(type, "object");
    }
    BUG("type %d", (int)val_type(v));
}

static bool is_of_types(struct val v, struct val type)
{
    if (val_type(type) != VAL_ARRAY)
        return val_is_null(type) || is_of_type(v, val_string(type));
    for (size_t i = 0; i < val_count(type); i++) {
        if (is_of_type(v, val_string(val_at(type, i))))
            return true;
    }
    return false;
}

static enum errc write_enum(struct schema_writer *w, struct val s, uint32_t rule)
{
    static const char *const used_enum[] = { "enum", "type", NULL };
    static const char *const used_const[] = { "const", "type", NULL };
    bool is_const = schema_has(s, "const");
    struct val list = schema_get(s, is_const ? "const" : "enum");
    size_t n = is_const ? 1 : val_count(list), written = 0;
    enum errc rc = OK;
    TRY(check_keywords(w, s, is_const ? used_const : used_enum));
    if (!is_const && (val_type(list) != VAL_ARRAY || n == 0 || n > SCHEMA_VALUES_MAX))
        TRY(schema_refuse(w, "'enum' must be an array of 1 to %d values", SCHEMA_VALUES_MAX));
    buf_printf(w->out, "s%u ::= ", rule);
    for (size_t i = 0; i < n; i++) {
        struct val v = is_const ? list : val_at(list, i);
        if (!is_of_types(v, schema_get(s, "type")))
            continue;
        buf_add_str(w->out, written++ ? " | " : "");
        schema_put_value(w, v);
    }
    buf_add_char(w->out, '\n');
    if (written == 0)
        rc = schema_refuse(w, "no value of '%s' has the 'type'", is_const ? "const" : "enum");
out:
    return rc;
}

/* ---- a schema ---- */

static enum errc write_type(struct schema_writer *w, struct val s, struct slice type, uint32_t rule)
{
    if (slice_is(type, "object"))
        return schema_write_object(w, s, rule);
    if (slice_is(type, "array"))
        return schema_write_array(w, s, rule);
    if (slice_is(type, "string"))
        return schema_write_string(w, s, rule);
    if (slice_is(type, "integer") || slice_is(type, "number"))
        return schema_write_number(w, s, slice_is(type, "integer"), rule);
    if (slice_is(type, "boolean") || slice_is(type, "null")) {
        buf_printf(w->out, "s%u ::= %.*s\n", rule, SLICE_ARG(type));
        return OK;
    }
    return schema_refuse(w, "the 'type' %.*s is unknown", (int)(type.len < 40 ? type.len : 40),
                         type.ptr);
}

static const char *const of_types[] = {
    "type",    "properties",  "required",         "additionalProperties",
    "items",   "prefixItems", "minItems",         "maxItems",
    "pattern", "format",      "minLength",        "maxLength",
    "minimum", "maximum",     "exclusiveMinimum", "exclusiveMaximum",
    NULL
};

/* The type that a keyword is about. */
static const char *type_of_keyword(struct slice name)
{
    static const struct {
        const char *keyword, *type;
    } rows[] = { { "properties", "object" },
                 { "required", "object" },
                 { "additionalProperties", "object" },
                 { "items", "array" },
                 { "prefixItems", "array" },
                 { "minItems", "array" },
                 { "maxItems", "array" },
                 { "pattern", "string" },
                 { "format", "string" },
                 { "minLength", "string" },
                 { "maxLength", "string" },
                 { "minimum", "number" },
                 { "maximum", "number" },
                 { "exclusiveMinimum", "number" },
                 { "exclusiveMaximum", "number" } };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (slice_is(name, rows[i].keyword))
            return rows[i].type;
    }
    return NULL;
}

/* A keyword about another type says nothing: a mistake. Without a type, the keywords tell it. */
static enum errc check_types(struct schema_writer *w, struct val s, struct val types,
                             const char **implied)
{
    *implied = NULL;
    for (size_t i = 0; i < val_count(s); i++) {
        const char *type = type_of_keyword(val_name_at(s, i));
        bool is_met = val_is_null(types);
        if (!type)
            continue;
        for (size_t k = 0; k < val_count(types); k++) {
            struct slice t = val_string(val_at(types, k));
            is_met |= slice_is(t, type) || (strcmp(type, "number") == 0 && slice_is(t, "integer"));
        }
        if (!is_met || (val_is_null(types) && *implied && strcmp(*implied, type) != 0))
            return schema_refuse(w, "the keyword '%.*s' does not belong to the 'type'",
                                 SLICE_ARG(val_name_at(s, i)));
        *implied = type;
    }
    return OK;
}

static enum errc write_typed(struct schema_writer *w, struct val s, uint32_t rule)
{
    struct val types = schema_get(s, "type");
    const char *implied;
    enum errc rc = OK;
    TRY(check_keywords(w, s, of_types));
    if (val_type(types) == VAL_STRING)
        types = val_new_array(w->arena, &types, 1);
    else if (schema_has(s, "type") && (val_type(types) != VAL_ARRAY || val_count(types) == 0))
        TRY(schema_refuse(w, "'type' must be a text or an array of texts"));
    TRY(check_types(w, s, types, &implied));
    if (val_is_null(types) && implied)
        return write_type(w, s, slice_str(implied), rule);
    if (val_is_null(types)) {
        buf_printf(w->out, "s%u ::= value\n", rule);
        return OK;
    }
    size_t n = val_count(types);
    if (n > 7)
        TRY(schema_refuse(w, "'type' has too many types"));
    uint32_t rules[7];
    for (size_t i = 0; i < n; i++) {
        rules[i] = n == 1 ? rule : w->rules++;
        TRY(write_type(w, s, val_string(val_at(types, i)), rules[i]));
    }
    if (n > 1) {
        buf_printf(w->out, "s%u ::= ", rule);
        for (size_t i = 0; i < n; i++)
            buf_printf(w->out, "%ss%u", i ? " | " : "", rules[i]);
        buf_add_char(w->out, '\n');
    }
out:
    return rc;
}

static enum errc write_kind(struct schema_writer *w, struct val s, uint32_t *rule)
{
    if (val_equal(s, val_true)) {
        *rule = w->rules++;
        buf_printf(w->out, "s%u ::= value\n", *rule);
        return OK;
    }
    if (val_type(s) != VAL_OBJECT)
        return schema_refuse(w, "a schema must be an object");
    if (schema_has(s, "$ref"))
        return write_ref(w, s, rule);
    *rule = w->rules++;
    if (schema_has(s, "anyOf"))
        return write_choices(w, s, "anyOf", *rule);
    if (schema_has(s, "allOf"))
        return write_choices(w, s, "allOf", *rule);
    if (schema_has(s, "oneOf"))
        return schema_refuse(w, "the keyword 'oneOf' is not supported; use 'anyOf'");
    if (schema_has(s, "const") || schema_has(s, "enum"))
        return write_enum(w, s, *rule);
    return write_typed(w, s, *rule);
}

static enum errc too_large(struct schema_writer *w, const char *what, int limit)
{
    w->is_too_large = true;
    return schema_refuse(w, "%s %d", what, limit);
}

static enum errc write_schema(struct schema_writer *w, struct val s, uint32_t *rule)
{
    size_t len = w->out->len, ref_count = w->ref_count;
    if (w->depth == SCHEMA_DEPTH_MAX)
        return too_large(w, "schemas are nested deeper than", SCHEMA_DEPTH_MAX);
    if (++w->nodes > SCHEMA_NODES_MAX)
        return too_large(w, "the schemas in it are more than", SCHEMA_NODES_MAX);
    if (w->out->is_overfull)
        return too_large(w, "the bytes of its grammar are more than", (int)w->out->max);
    w->depth++;
    enum errc rc = write_kind(w, s, rule);
    w->depth--;
    if (rc != OK && w->is_lenient && !w->is_too_large) { /* any value, then */
        w->out->len = len;
        w->ref_count = ref_count;
        *rule = w->rules++;
        buf_printf(w->out, "s%u ::= %s\n", *rule, w->depth == 0 ? "object" : "value");
        rc = OK;
    }
    return rc;
}

struct schema_writer *schema_writer_new(struct buf *out)
{
    struct schema_writer *w = mem_zalloc(sizeof *w);
    w->out = out;
    w->arena = arena_new(0);
    buf_init(&w->path, 0);
    return w;
}

void schema_writer_free(struct schema_writer *w)
{
    buf_release(&w->path);
    arena_free(w->arena);
    mem_free(w);
}

enum errc schema_write(struct schema_writer *w, struct val schema, bool is_lenient,
                       char rule[SCHEMA_RULE_BYTES], struct error *err)
{
    uint32_t number = 0;
    w->root = schema;
    w->ref_count = 0;
    w->is_lenient = is_lenient;
    w->err = err;
    buf_clear(&w->path);
    buf_add_char(&w->path, '#');
    if (val_size(schema) > SCHEMA_BYTES_MAX)
        return too_large(w, "the bytes of it are more than", SCHEMA_BYTES_MAX);
    enum errc rc = write_schema(w, schema, &number);
    if (rc == OK && w->out->is_overfull)
        rc = too_large(w, "the bytes of its grammar are more than", (int)w->out->max);
    snprintf(rule, SCHEMA_RULE_BYTES, "s%u", number);
    return rc;
}

void schema_writer_end(struct schema_writer *w)
{
    buf_add_str(w->out, common_rules);
}

enum errc schema_grammar(struct val schema, struct buf *out, struct error *err)
{
    struct schema_writer *w = schema_writer_new(out);
    char rule[SCHEMA_RULE_BYTES];
    enum errc rc = schema_write(w, schema, false, rule, err);
    if (rc == OK) {
        buf_printf(out, "root ::= %s\n", rule);
        schema_writer_end(w);
        rc = buf_check(out, "the grammar of the schema", err);
    }
    schema_writer_free(w);
    return rc;
}
