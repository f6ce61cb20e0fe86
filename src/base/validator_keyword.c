/* SPDX-License-Identifier: Apache-2.0 */
/* The keywords of a schema: one row and one function each. */
#include <stdio.h>
#include <stdlib.h>

#include "base/validator_make.h"

static enum errc nodes_for(struct maker *m, const char *keyword, struct val rules,
                           struct validator_list *out)
{
    size_t count = val_count(rules);
    char index[24];

    out->items = arena_alloc(m->schema->arena, (count + 1) * sizeof(*out->items));
    for (size_t i = 0; i < count; i++) {
        snprintf(index, sizeof index, "%zu", i);
        enum errc rc =
            validator_node_for(m, keyword, slice_str(index), val_at(rules, i), &out->items[i]);
        if (rc != OK)
            return rc;
    }
    out->count = (uint32_t)count;
    return OK;
}

static enum errc want(struct maker *m, const char *keyword, struct val v, enum val_type type)
{
    if (val_type(v) == type)
        return OK;
    return validator_refuse(m, "'%s' must be of type %s, not %s", keyword, val_type_name(type),
                            val_type_name(val_type(v)));
}

static enum errc take_text(struct maker *m, const char *keyword, struct val v)
{
    return want(m, keyword, v, VAL_STRING);
}

static enum errc add_type(struct maker *m, struct val v)
{
    static const char *const names[] = { "null",   "boolean", "integer", "number",
                                         "string", "array",   "object" };
    enum errc rc = want(m, "type", v, VAL_STRING);

    if (rc != OK)
        return rc;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!slice_is(val_string(v), names[i]))
            continue;
        if (m->now->node.types & (1U << i))
            return validator_refuse(m, "'type' names %s twice", names[i]);
        m->now->node.types |= (uint8_t)(1U << i);
        return OK;
    }
    return validator_refuse(m, "'%.*s' is no type", SLICE_ARG(val_string(v)));
}

static enum errc take_type(struct maker *m, const char *keyword, struct val v)
{
    enum errc rc = OK;

    if (val_type(v) != VAL_ARRAY)
        return add_type(m, v);
    if (!val_count(v))
        return validator_refuse(m, "'%s' names no type", keyword);
    for (size_t i = 0; rc == OK && i < val_count(v); i++)
        rc = add_type(m, val_at(v, i));
    return rc;
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = ((const struct validator_value *)a)->hash,
             y = ((const struct validator_value *)b)->hash;

    return (x > y) - (x < y);
}

static enum errc take_enum(struct maker *m, const char *keyword, struct val v)
{
    size_t count = val_count(v);
    enum errc rc = want(m, keyword, v, VAL_ARRAY);

    if (rc != OK)
        return rc;
    struct validator_value *values = arena_alloc(m->schema->arena, (count + 1) * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (struct validator_value){ val_hash(val_at(v, i)), val_at(v, i) };
    qsort(values, count, sizeof *values, by_hash);
    m->now->node.enums = values;
    m->now->node.enum_count = (uint32_t)count;
    return OK;
}

static enum errc take_several(struct maker *m, const char *keyword, struct val v,
                              struct validator_list *out)
{
    enum errc rc = want(m, keyword, v, VAL_ARRAY);

    if (rc == OK && !val_count(v))
        return validator_refuse(m, "'%s' must have at least one schema", keyword);
    return rc == OK ? nodes_for(m, keyword, v, out) : rc;
}

static enum errc take_all_of(struct maker *m, const char *keyword, struct val v)
{
    return take_several(m, keyword, v, &m->now->node.all_of);
}

static enum errc take_any_of(struct maker *m, const char *keyword, struct val v)
{
    return take_several(m, keyword, v, &m->now->node.any_of);
}

static enum errc take_one_of(struct maker *m, const char *keyword, struct val v)
{
    return take_several(m, keyword, v, &m->now->node.one_of);
}

static enum errc take_not(struct maker *m, const char *keyword, struct val v)
{
    return validator_node_for(m, keyword, slice_of(NULL, 0), v, &m->now->node.not_this);
}

static enum errc take_definitions(struct maker *m, const char *keyword, struct val v)
{
    const struct validator_node *unused;
    enum errc rc = want(m, keyword, v, VAL_OBJECT);

    for (size_t i = 0; rc == OK && i < val_count(v); i++)
        rc = validator_node_for(m, keyword, val_name_at(v, i), val_at(v, i), &unused);
    return rc;
}

/* ---- of numbers and strings ---- */

static enum errc take_multiple_of(struct maker *m, const char *keyword, struct val v)
{
    enum errc rc = want(m, keyword, v, VAL_NUMBER);

    if (rc == OK && !(val_double(v) > 0))
        return validator_refuse(m, "'%s' must be greater than 0", keyword);
    m->now->node.multiple_of = v;
    return rc;
}

static enum errc take_minimum(struct maker *m, const char *keyword, struct val v)
{
    m->now->node.minimum = v;
    m->has_minimum = true;
    return want(m, keyword, v, VAL_NUMBER);
}

static enum errc take_maximum(struct maker *m, const char *keyword, struct val v)
{
    m->now->node.maximum = v;
    m->has_maximum = true;
    return want(m, keyword, v, VAL_NUMBER);
}

static enum errc take_exclusive_minimum(struct maker *m, const char *keyword, struct val v)
{
    m->now->node.excludes_minimum = val_bool(v);
    m->asks_minimum = true;
    return want(m, keyword, v, VAL_BOOL);
}

static enum errc take_exclusive_maximum(struct maker *m, const char *keyword, struct val v)
{
    m->now->node.excludes_maximum = val_bool(v);
    m->asks_maximum = true;
    return want(m, keyword, v, VAL_BOOL);
}

static enum errc take_count(struct maker *m, const char *keyword, struct val v, uint64_t *out)
{
    if (val_type(v) != VAL_NUMBER || !val_is_int(v) || val_int(v) < 0)
        return validator_refuse(m, "'%s' must be a whole number from 0", keyword);
    *out = (uint64_t)val_int(v);
    return OK;
}

static enum errc take_min_length(struct maker *m, const char *keyword, struct val v)
{
    m->now->node.has_length_limits = true;
    return take_count(m, keyword, v, &m->now->node.min_length);
}

static enum errc take_max_length(struct maker *m, const char *keyword, struct val v)
{
    m->now->node.has_length_limits = true;
    return take_count(m, keyword, v, &m->now->node.max_length);
}

static enum errc make_pattern(struct maker *m, const char *keyword, struct slice text,
                              struct pattern **out)
{
    struct validator *s = m->schema;
    struct error why = { 0 };

    if (s->pattern_count == VALIDATOR_PATTERNS_MAX)
        return validator_refuse(m, "more than %d regular expressions", VALIDATOR_PATTERNS_MAX);
    if (s->pattern_count == m->pattern_cap) {
        m->pattern_cap = m->pattern_cap ? m->pattern_cap * 2 : 8;
        struct pattern **more = arena_alloc(s->arena, m->pattern_cap * sizeof(*more));
        if (s->pattern_count)
            memcpy(more, s->patterns, s->pattern_count * sizeof(*more));
        s->patterns = more;
    }
    if (pattern_new(out, text, &why) != OK)
        return validator_refuse(m, "'%s': %s", keyword, why.text);
    s->patterns[s->pattern_count++] = *out;
    return OK;
}

static enum errc take_pattern(struct maker *m, const char *keyword, struct val v)
{
    enum errc rc = want(m, keyword, v, VAL_STRING);

    return rc == OK ? make_pattern(m, keyword, val_string(v), &m->now->node.pattern) : rc;
}

static enum errc take_format(struct maker *m, const char *keyword, struct val v)
{
    m->now->node.format = (uint8_t)validator_format_named(val_string(v));
    return want(m, keyword, v, VAL_STRING);
}

/* ---- of arrays ---- */

static enum errc take_items(struct maker *m, const char *keyword, struct val v)
{
    if (val_type(v) == VAL_ARRAY)
        return nodes_for(m, keyword, v, &m->now->node.items);
    return validator_node_for(m, keyword, slice_of(NULL, 0), v, &m->now->node.each_item);
}

/* A schema for the rest, or whether there may be one. */
static enum errc take_rest(struct maker *m, const char *keyword, struct val v,
                           const struct validator_node **node, bool *is_closed)
{
    if (val_type(v) != VAL_BOOL)
        return validator_node_for(m, keyword, slice_of(NULL, 0), v, node);
    *is_closed = !val_bool(v);
    return OK;
}

static enum errc take_more_items(struct maker *m, const char *keyword, struct val v)
{
    return take_rest(m, keyword, v, &m->now->node.more_items, &m->now->node.is_closed_array);
}

static enum errc take_min_items(struct maker *m, const char *keyword, struct val v)
{
    m->now->node.has_item_limits = true;
    return take_count(m, keyword, v, &m->now->node.min_items);
}

static enum errc take_max_items(struct maker *m, const char *keyword, struct val v)
{
    m->now->node.has_item_limits = true;
    return take_count(m, keyword, v, &m->now->node.max_items);
}

static enum errc take_unique_items(struct maker *m, const char *keyword, struct val v)
{
    m->now->node.has_unique_items = val_bool(v);
    return want(m, keyword, v, VAL_BOOL);
}

/* ---- of objects ---- */

static enum errc take_min_members(struct maker *m, const char *keyword, struct val v)
{
    m->now->node.has_member_limits = true;
    return take_count(m, keyword, v, &m->now->node.min_members);
}

static enum errc take_max_members(struct maker *m, const char *keyword, struct val v)
{
    m->now->node.has_member_limits = true;
    return take_count(m, keyword, v, &m->now->node.max_members);
}

static enum errc take_properties(struct maker *m, const char *keyword, struct val v)
{
    m->properties = v;
    return want(m, keyword, v, VAL_OBJECT);
}

/* An array of different strings, not empty. */
static enum errc check_names(struct maker *m, const char *keyword, struct val v)
{
    enum errc rc = want(m, keyword, v, VAL_ARRAY);

    if (rc == OK && !val_count(v))
        return validator_refuse(m, "'%s' must have at least one element", keyword);
    for (size_t i = 0; rc == OK && i < val_count(v); i++)
        rc = want(m, keyword, val_at(v, i), VAL_STRING);
    return rc;
}

static enum errc take_required(struct maker *m, const char *keyword, struct val v)
{
    m->required = v;
    return check_names(m, keyword, v);
}

static enum errc take_pattern_properties(struct maker *m, const char *keyword, struct val v)
{
    enum errc rc = want(m, keyword, v, VAL_OBJECT);
    size_t count = val_count(v);
    struct validator_pattern *list = arena_zalloc(m->schema->arena, (count + 1) * sizeof *list);

    for (size_t i = 0; rc == OK && i < count; i++) {
        rc = make_pattern(m, keyword, val_name_at(v, i), &list[i].pattern);
        if (rc == OK)
            rc = validator_node_for(m, keyword, val_name_at(v, i), val_at(v, i), &list[i].node);
    }
    m->now->node.patterns = list;
    m->now->node.pattern_count = (uint32_t)count;
    return rc;
}

static enum errc take_more_members(struct maker *m, const char *keyword, struct val v)
{
    return take_rest(m, keyword, v, &m->now->node.more_members, &m->now->node.is_closed_object);
}

static enum errc make_dependency(struct maker *m, const char *keyword, struct slice name,
                                 struct val v, struct validator_dependency *out)
{
    *out = (struct validator_dependency){ .name = name };
    if (val_type(v) != VAL_ARRAY)
        return validator_node_for(m, keyword, name, v, &out->node);
    enum errc rc = check_names(m, keyword, v);
    if (rc != OK)
        return rc;
    struct slice *names = arena_alloc(m->schema->arena, val_count(v) * sizeof *names);
    for (size_t i = 0; i < val_count(v); i++)
        names[i] = val_string(val_at(v, i));
    out->names = names;
    out->name_count = (uint32_t)val_count(v);
    return OK;
}

static enum errc take_dependencies(struct maker *m, const char *keyword, struct val v)
{
    enum errc rc = want(m, keyword, v, VAL_OBJECT);
    size_t count = val_count(v);
    struct validator_dependency *list = arena_zalloc(m->schema->arena, (count + 1) * sizeof *list);

    for (size_t i = 0; rc == OK && i < count; i++)
        rc = make_dependency(m, keyword, val_name_at(v, i), val_at(v, i), &list[i]);
    m->now->node.dependencies = list;
    m->now->node.dependency_count = (uint32_t)count;
    return rc;
}

/* Others say nothing, as in ArangoDB. */
static const struct keyword {
    const char *name;
    enum errc (*take)(struct maker *m, const char *keyword, struct val v);
} keywords[] = {
    { "title", take_text },
    { "description", take_text },
    { "type", take_type },
    { "enum", take_enum },
    { "allOf", take_all_of },
    { "anyOf", take_any_of },
    { "oneOf", take_one_of },
    { "not", take_not },
    { "definitions", take_definitions },
    { "multipleOf", take_multiple_of },
    { "minimum", take_minimum },
    { "maximum", take_maximum },
    { "exclusiveMinimum", take_exclusive_minimum },
    { "exclusiveMaximum", take_exclusive_maximum },
    { "minLength", take_min_length },
    { "maxLength", take_max_length },
    { "pattern", take_pattern },
    { "format", take_format },
    { "items", take_items },
    { "additionalItems", take_more_items },
    { "minItems", take_min_items },
    { "maxItems", take_max_items },
    { "uniqueItems", take_unique_items },
    { "minProperties", take_min_members },
    { "maxProperties", take_max_members },
    { "required", take_required },
    { "properties", take_properties },
    { "patternProperties", take_pattern_properties },
    { "additionalProperties", take_more_members },
    { "dependencies", take_dependencies },
};

/* ---- one schema ---- */

static int by_member(const void *a, const void *b)
{
    const struct validator_member *x = a, *y = b;

    return x->hash != y->hash ? (x->hash > y->hash ? 1 : -1) : slice_cmp(x->name, y->name);
}

/* What properties and required say of one name becomes one row. */
static enum errc join_members(struct maker *m, struct validator_member *list, size_t count)
{
    struct validator_node *n = &m->now->node;
    size_t kept = 0;

    qsort(list, count, sizeof *list, by_member);
    for (size_t i = 0; i < count; i++) {
        struct validator_member *last = kept ? &list[kept - 1] : NULL;
        if (!last || by_member(last, &list[i])) {
            list[kept++] = list[i];
            continue;
        }
        if (last->is_required && list[i].is_required)
            return validator_refuse(m, "'required' names '%.*s' twice", SLICE_ARG(last->name));
        last->is_required |= list[i].is_required;
        last->is_declared |= list[i].is_declared;
        last->node = last->node ? last->node : list[i].node;
    }
    n->members = list;
    n->member_count = (uint32_t)kept;
    return OK;
}

static enum errc make_members(struct maker *m)
{
    size_t count = 0, declared = val_count(m->properties), required = val_count(m->required);
    struct validator_member *list =
        arena_zalloc(m->schema->arena, (declared + required + 1) * sizeof *list);

    for (size_t i = 0; i < declared; i++) {
        struct slice name = val_name_at(m->properties, i);
        struct validator_member *one = &list[count];
        *one = (struct validator_member){ .name = name,
                                          .hash = val_name_hash(name),
                                          .is_declared = true };
        enum errc rc =
            validator_node_for(m, "properties", name, val_at(m->properties, i), &one->node);
        if (rc != OK)
            return rc;
        count += !validator_passes_over(name);
    }
    for (size_t i = 0; i < required; i++) {
        struct slice name = val_string(val_at(m->required, i));
        m->now->node.refuses_objects |= validator_passes_over(name);
        if (!validator_passes_over(name))
            list[count++] = (struct validator_member){ .name = name,
                                                       .hash = val_name_hash(name),
                                                       .is_required = true };
    }
    return join_members(m, list, count);
}

/* What there is to do for a value once its type is known. */
static void note_types(struct validator_node *n)
{
    bool has_number = n->minimum.at || n->maximum.at || n->multiple_of.at;
    bool has_string = n->has_length_limits || n->pattern || n->format;
    bool has_array = n->has_item_limits || n->has_unique_items || n->each_item || n->items.items;
    bool has_object = n->has_member_limits || n->member_count || n->pattern_count ||
                      n->more_members || n->is_closed_object || n->refuses_objects ||
                      n->dependency_count;

    n->looks_at = (uint8_t)((has_number ? VALIDATOR_TYPE_NUMBER : 0) |
                            (has_string ? VALIDATOR_TYPE_STRING : 0) |
                            (has_array ? VALIDATOR_TYPE_ARRAY : 0) |
                            (has_object ? VALIDATOR_TYPE_OBJECT : 0));
    if (n->enums || n->all_of.count || n->any_of.count || n->one_of.count || n->not_this)
        n->looks_at = UINT8_MAX;
}

enum errc validator_take_keywords(struct maker *m)
{
    struct val rule = m->now->node.rule, v;
    enum errc rc = OK;

    m->properties = m->required = VAL_NONE;
    m->has_minimum = m->has_maximum = m->asks_minimum = m->asks_maximum = false;
    for (size_t i = 0; rc == OK && i < ARRAY_LEN(keywords); i++)
        if (val_find(rule, slice_str(keywords[i].name), &v))
            rc = keywords[i].take(m, keywords[i].name, v);
    if (rc == OK && m->asks_minimum && !m->has_minimum)
        return validator_refuse(m, "'exclusiveMinimum' needs 'minimum'");
    if (rc == OK && m->asks_maximum && !m->has_maximum)
        return validator_refuse(m, "'exclusiveMaximum' needs 'maximum'");
    if (rc == OK)
        rc = make_members(m);
    note_types(&m->now->node);
    return rc;
}
