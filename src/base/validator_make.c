/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rule becomes nodes without recursion: a schema that another one points at waits in a queue, and
 * is found again by its place in the rule, so that $ref in circles ends. What must not be a circle
 * are schemas for one and the same value (allOf, anyOf, oneOf, not, dependencies): that is looked
 * for at the end.
 */
#include "base/validator_make.h"

#include <stdarg.h>
#include <stdio.h>

enum { REF_HOPS_MAX = 100, PATH_BYTES = 80, NAME_BYTES = 40, TABLE_FIRST = 64 };

enum errc validator_refuse(struct maker *m, const char *fmt, ...)
{
    char text[160];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return fail_num(m->err, 1621, "the schema at '%s' is invalid: %s", m->now->path, text);
}

/* ---- nodes ---- */

static struct made **slot_of(struct maker *m, const uint8_t *at)
{
    size_t i = ((size_t)at * 0x9E3779B97F4A7C15ULL) >> 20;

    for (;; i++) {
        struct made **slot = &m->table[i & (m->table_size - 1)];
        if (!*slot || (*slot)->node.rule.at == at)
            return slot;
    }
}

static void grow_table(struct maker *m)
{
    m->table_size = m->table_size ? m->table_size * 2 : TABLE_FIRST;
    m->table = arena_zalloc(m->schema->arena, m->table_size * sizeof(*m->table));
    for (struct made *n = m->first; n; n = n->next)
        *slot_of(m, n->node.rule.at) = n;
}

static struct made *add_node(struct maker *m, struct val rule, const char *path)
{
    struct made *made = ARENA_NEW(m->schema->arena, struct made);

    made->node = (struct validator_node){ .rule = rule,
                                          .minimum = VAL_NONE,
                                          .maximum = VAL_NONE,
                                          .multiple_of = VAL_NONE,
                                          .max_length = UINT64_MAX,
                                          .max_items = UINT64_MAX,
                                          .max_members = UINT64_MAX };
    made->path = path;
    if (m->last)
        m->last->next = made;
    else
        m->first = made;
    m->last = made;
    if (++m->count * 2 > m->table_size)
        grow_table(m);
    else
        *slot_of(m, rule.at) = made;
    return made;
}

/* ---- $ref ---- */

static int hex(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

/* One token of a JSON pointer in a URI: %41, then ~1 and ~0. */
static struct slice pointer_token(struct arena *arena, struct slice raw)
{
    char *out = arena_alloc(arena, raw.len + 1);
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < raw.len; i++) {
        int high = raw.ptr[i] == '%' && i + 2 < raw.len ? hex(raw.ptr[i + 1]) : -1;
        int low = high >= 0 ? hex(raw.ptr[i + 2]) : -1;
        out[n++] = low >= 0 ? (char)(high * 16 + low) : raw.ptr[i];
        i += low >= 0 ? 2 : 0;
    }
    for (size_t i = 0; i < n; i++) {
        bool is_escape = out[i] == '~' && i + 1 < n && (out[i + 1] == '0' || out[i + 1] == '1');
        out[kept++] = !is_escape ? out[i] : out[i + 1] == '0' ? '~' : '/';
        i += is_escape;
    }
    return slice_of(out, kept);
}

static bool step_to(struct val *at, struct slice token)
{
    uint64_t i;

    if (val_type(*at) == VAL_OBJECT)
        return val_find(*at, token, at);
    if (val_type(*at) != VAL_ARRAY || !slice_to_u64(token, &i) || i >= val_count(*at))
        return false;
    *at = val_at(*at, (size_t)i);
    return true;
}

static enum errc resolve(struct maker *m, struct slice ref, struct val *out)
{
    struct slice rest = slice_of(ref.ptr + 1, ref.len - 1);

    *out = m->schema->rule;
    if (rest.len && rest.ptr[0] != '/')
        return validator_refuse(m, "$ref '%.*s' is not of the form #/a/b", SLICE_ARG(ref));
    while (rest.len) {
        const char *end = memchr(rest.ptr + 1, '/', rest.len - 1);
        size_t len = end ? (size_t)(end - rest.ptr) : rest.len;
        struct slice raw = slice_of(rest.ptr + 1, len - 1);
        if (!step_to(out, pointer_token(m->schema->arena, raw)))
            return validator_refuse(m, "$ref '%.*s' leads nowhere", SLICE_ARG(ref));
        rest = slice_of(rest.ptr + len, rest.len - len);
    }
    return OK;
}

/* Follows $ref from one to the next; *ref is the last one, empty when there was none. */
static enum errc follow(struct maker *m, struct val *rule, struct slice *ref)
{
    struct val v;

    *ref = slice_of(NULL, 0);
    for (int hops = 0; val_find(*rule, slice_str("$ref"), &v); hops++) {
        if (val_type(v) != VAL_STRING || !val_string(v).len || val_string(v).ptr[0] != '#')
            return validator_refuse(m, "$ref must begin with #: other schemas are not read");
        if (hops == REF_HOPS_MAX)
            return validator_refuse(m, "$ref leads to itself");
        *ref = val_string(v);
        enum errc rc = resolve(m, *ref, rule);
        if (rc != OK)
            return rc;
    }
    return OK;
}

static const char *path_to(struct maker *m, const char *keyword, struct slice name)
{
    int len = (int)(name.len < NAME_BYTES ? name.len : NAME_BYTES);

    return arena_printf(m->schema->arena, "%.*s/%s%s%.*s", PATH_BYTES, m->now->path, keyword,
                        len ? "/" : "", len, len ? name.ptr : "");
}

enum errc validator_node_for(struct maker *m, const char *keyword, struct slice name,
                             struct val rule, const struct validator_node **out)
{
    struct slice ref;
    enum errc rc = follow(m, &rule, &ref);

    if (rc != OK)
        return rc;
    if (val_type(rule) != VAL_OBJECT)
        return validator_refuse(m, "'%s' needs schemas that are objects", keyword);
    struct made *found = m->table_size ? *slot_of(m, rule.at) : NULL;
    if (!found && m->count == VALIDATOR_NODES_MAX)
        return validator_refuse(m, "more than %d schemas", VALIDATOR_NODES_MAX);
    if (!found)
        found = add_node(
            m, rule, ref.len ? arena_copy(m->schema->arena, ref).ptr : path_to(m, keyword, name));
    *out = &found->node;
    return OK;
}

/* ---- circles ---- */

static enum errc measure(struct maker *m, struct validator_node *n, unsigned depth);

static enum errc measure_one(struct maker *m, struct validator_node *n,
                             const struct validator_node *kid, unsigned depth)
{
    if (!kid)
        return OK;
    enum errc rc = measure(m, (struct validator_node *)kid, depth + 1);
    if (rc == OK && kid->chain >= n->chain)
        n->chain = kid->chain + 1;
    return rc;
}

static enum errc measure_list(struct maker *m, struct validator_node *n,
                              const struct validator_list *l, unsigned depth)
{
    enum errc rc = OK;

    for (uint32_t i = 0; rc == OK && i < l->count; i++)
        rc = measure_one(m, n, l->items[i], depth);
    return rc;
}

/* The longest chain of schemas that one value can have from here on. */
static enum errc measure(struct maker *m, struct validator_node *n, unsigned depth)
{
    enum errc rc = OK;

    if (n->is_on_way) {
        m->now = (struct made *)n;
        return validator_refuse(m, "a value would have to be checked in circles");
    }
    if (n->chain && depth + n->chain <= VALIDATOR_CHAIN_MAX)
        return OK;
    if (depth + n->chain >= VALIDATOR_CHAIN_MAX)
        return validator_refuse(m, "more than %d schemas for one value", VALIDATOR_CHAIN_MAX);
    n->is_on_way = true;
    n->chain = 1;
    TRY(measure_list(m, n, &n->all_of, depth));
    TRY(measure_list(m, n, &n->any_of, depth));
    TRY(measure_list(m, n, &n->one_of, depth));
    TRY(measure_one(m, n, n->not_this, depth));
    for (uint32_t i = 0; i < n->dependency_count; i++)
        TRY(measure_one(m, n, n->dependencies[i].node, depth));
    n->is_on_way = false;
out:
    return rc;
}

/* ---- all of it ---- */

enum errc validator_make(struct maker *m)
{
    struct made start = { .path = "#" };
    struct val rule = m->schema->rule;
    struct slice ref;

    m->now = &start;
    enum errc rc = follow(m, &rule, &ref);
    if (rc != OK)
        return rc;
    if (val_type(rule) != VAL_OBJECT)
        return validator_refuse(m, "a schema must be an object");
    m->schema->root = &add_node(m, rule, "#")->node;
    for (struct made *n = m->first; rc == OK && n; n = n->next) {
        m->now = n;
        rc = validator_take_keywords(m);
    }
    for (struct made *n = m->first; rc == OK && n; n = n->next) {
        m->now = n;
        rc = measure(m, &n->node, 0);
    }
    return rc;
}
