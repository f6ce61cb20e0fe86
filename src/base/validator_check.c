/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value against the nodes, in place. Members are looked up by the hashes that the value has
 * anyway; the members of an object are walked only where a schema speaks of names that it does not
 * list, and a closed object is one in which as many were found as there are.
 *
 * Steps and depth are counted, since $ref and patternProperties can ask for more than any memory or
 * patience has. A check that is over says false until everybody has left.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/val_bytes.h"
#include "base/val_text.h"
#include "base/validator_private.h"

enum { PATTERN_STEPS = 20, UNIQUE_STEPS = 20, FEW_ITEMS = 8 };

struct check {
    size_t steps;
    unsigned depth;
    bool is_over;
};

static bool holds(struct check *c, const struct validator_node *n, struct val v);

static const uint8_t types_by_tag[256] = {
    [TAG_NULL] = VALIDATOR_TYPE_NULL,
    [TAG_FALSE] = VALIDATOR_TYPE_BOOLEAN,
    [TAG_TRUE] = VALIDATOR_TYPE_BOOLEAN,
    [TAG_DOUBLE] = VALIDATOR_TYPE_NUMBER,
    [TAG_FLOAT] = VALIDATOR_TYPE_NUMBER,
    [TAG_INT... TAG_STRING - 1] = VALIDATOR_TYPE_NUMBER | VALIDATOR_TYPE_INTEGER,
    [TAG_STRING] = VALIDATOR_TYPE_STRING,
    [TAG_SHORT... TAG_SHORT_LAST] = VALIDATOR_TYPE_STRING,
    [TAG_ARRAY_EMPTY... TAG_ARRAY_EQUAL] = VALIDATOR_TYPE_ARRAY,
    [TAG_OBJECT_EMPTY... TAG_OBJECT + 3] = VALIDATOR_TYPE_OBJECT,
};

static inline unsigned types_of(struct val v)
{
    return v.at ? types_by_tag[*v.at] : VALIDATOR_TYPE_NULL;
}

/* holds, without a call where only the type is asked for. */
static inline bool may_pass(struct check *c, const struct validator_node *n, struct val v)
{
    unsigned types = types_of(v);

    if (n->types && !(n->types & types))
        return false;
    return !(n->looks_at & types) || holds(c, n, v);
}

static bool spend(struct check *c, size_t steps)
{
    c->is_over |= c->steps < steps;
    c->steps -= c->is_over ? 0 : steps;
    return !c->is_over;
}

/* ---- names and values ---- */

static const char *const passed_names[] = { "_key", "_id", "_rev", "_from", "_to" };

bool validator_passes_over(struct slice name)
{
    if (name.len < 3 || name.ptr[0] != '_')
        return false;
    for (size_t i = 0; i < ARRAY_LEN(passed_names); i++)
        if (slice_is(name, passed_names[i]))
            return true;
    return false;
}

bool validator_same(struct val a, struct val b)
{
    struct val other;

    if (val_type(a) != val_type(b))
        return false;
    switch (val_type(a)) {
    case VAL_NULL:
        return true;
    case VAL_BOOL:
        return val_bool(a) == val_bool(b);
    case VAL_NUMBER:
        return val_compare(a, b, NULL) == 0;
    case VAL_STRING:
        return slice_eq(val_string(a), val_string(b));
    case VAL_ARRAY:
    case VAL_OBJECT:
        break;
    }
    size_t count = val_count(a);
    if (count != val_count(b))
        return false;
    for (size_t i = 0; i < count; i++) {
        other = val_type(a) == VAL_ARRAY ? val_at(b, i) : VAL_NONE;
        if (val_type(a) == VAL_OBJECT && !val_find(b, val_name_at(a, i), &other))
            return false;
        if (!validator_same(val_at(a, i), other))
            return false;
    }
    return true;
}

/* Equal values have equal hashes, and some others too. */
static bool is_in_enum(struct check *c, const struct validator_node *n, struct val v)
{
    uint64_t hash = val_hash(v);
    size_t low = 0, high = n->enum_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (n->enums[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < n->enum_count && n->enums[low].hash == hash; low++)
        if (spend(c, 1) && validator_same(n->enums[low].val, v))
            return true;
    return false;
}

/* ---- scalars ---- */

static bool is_multiple(struct val v, struct val of)
{
    if (val_is_int(v) && val_is_int(of))
        return val_int(v) % val_int(of) == 0;
    double m = val_double(of), rest = fabs(fmod(val_double(v), m));
    return rest < DBL_EPSILON || fabs(rest - m) < DBL_EPSILON;
}

static bool number_holds(const struct validator_node *n, struct val v)
{
    if (n->multiple_of.at && !is_multiple(v, n->multiple_of))
        return false;
    if (n->minimum.at) {
        int order = val_compare(v, n->minimum, NULL);
        if (order < 0 || (order == 0 && n->excludes_minimum))
            return false;
    }
    if (n->maximum.at) {
        int order = val_compare(v, n->maximum, NULL);
        if (order > 0 || (order == 0 && n->excludes_maximum))
            return false;
    }
    return true;
}

static bool matches(struct check *c, const struct pattern *p, struct slice text)
{
    bool is_found = false;

    if (!spend(c, PATTERN_STEPS + text.len / 16))
        return false;
    c->is_over |= pattern_find(p, text, &is_found, NULL) != OK;
    return is_found && !c->is_over;
}

static bool string_holds(struct check *c, const struct validator_node *n, struct val v)
{
    struct slice text = val_string(v);

    if (n->has_length_limits) {
        size_t length = utf8_count(text);
        if (length < n->min_length || length > n->max_length)
            return false;
    }
    if (n->pattern && !matches(c, n->pattern, text))
        return false;
    return n->format == FORMAT_NONE ||
           validator_format_holds((enum validator_format)n->format, text);
}

/* ---- arrays ---- */

static int by_hash(const void *a, const void *b)
{
    uint64_t x = ((const struct validator_value *)a)->hash,
             y = ((const struct validator_value *)b)->hash;

    return (x > y) - (x < y);
}

/* No two that are the same, in a run of equal hashes. */
static bool run_is_unique(struct check *c, const struct validator_value *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count && items[k].hash == items[i].hash; k++)
            if (!spend(c, 1) || validator_same(items[i].val, items[k].val))
                return false;
    return true;
}

static bool is_unique(struct check *c, struct val v, size_t count)
{
    struct validator_value few[FEW_ITEMS], *items = few;

    if (count < 2)
        return true;
    if (!spend(c, count * UNIQUE_STEPS))
        return false;
    if (count > FEW_ITEMS)
        items = mem_alloc(count * sizeof *items);
    for (size_t i = 0; i < count; i++)
        items[i] = (struct validator_value){ val_hash(val_at(v, i)), val_at(v, i) };
    qsort(items, count, sizeof *items, by_hash);
    bool result = run_is_unique(c, items, count);
    if (items != few)
        mem_free(items);
    return result;
}

static bool array_holds(struct check *c, const struct validator_node *n, struct val v)
{
    size_t count = val_count(v), listed = n->items.items ? n->items.count : 0;

    if (n->has_item_limits && (count < n->min_items || count > n->max_items))
        return false;
    if (n->items.items && n->is_closed_array && count > listed)
        return false;
    if (n->has_unique_items && !is_unique(c, v, count))
        return false;
    for (size_t i = 0; i < listed && i < count; i++)
        if (!holds(c, n->items.items[i], val_at(v, i)))
            return false;
    const struct validator_node *rest = n->items.items ? n->more_items : n->each_item;
    for (size_t i = listed; rest && i < count; i++)
        if (!may_pass(c, rest, val_at(v, i)))
            return false;
    return true;
}

/* ---- objects ---- */

static bool has(struct val object, struct slice name)
{
    struct val unused;

    return !validator_passes_over(name) && val_find(object, name, &unused);
}

/* Members that are not passed over: these begin with _, which few do. */
static size_t visible_count(struct val v)
{
    size_t count = val_count(v), passed = 0;

    if (!count)
        return 0;
    unsigned w = tag_width(*v.at);
    const uint8_t *offsets = v.at + 1 + 2 * w;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *name = v.at + load_width(offsets + i * w, w);
        bool is_candidate = *name == TAG_STRING || name[1] == '_';
        passed += is_candidate && validator_passes_over(val_string((struct val){ name }));
    }
    return count - passed;
}

/* What a schema says of the members that it lists; *declared of them are in properties. */
static bool listed_hold(struct check *c, const struct validator_node *n, struct val v,
                        size_t *declared)
{
    struct val member;

    if (!spend(c, n->member_count))
        return false;
    for (uint32_t i = 0; i < n->member_count; i++) {
        const struct validator_member *m = &n->members[i];
        if (!val_find_hashed(v, m->name, m->hash, &member)) {
            if (m->is_required)
                return false;
            continue;
        }
        *declared += m->is_declared;
        if (m->node && !may_pass(c, m->node, member))
            return false;
    }
    return true;
}

static bool is_declared(const struct validator_node *n, struct slice name)
{
    uint32_t hash = val_name_hash(name);
    size_t low = 0, high = n->member_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (n->members[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < n->member_count && n->members[low].hash == hash; low++)
        if (slice_eq(n->members[low].name, name))
            return n->members[low].is_declared;
    return false;
}

static bool other_holds(struct check *c, const struct validator_node *n, struct slice name,
                        struct val v)
{
    bool is_known = is_declared(n, name);

    for (uint32_t i = 0; i < n->pattern_count; i++) {
        if (!matches(c, n->patterns[i].pattern, name)) {
            if (c->is_over)
                return false;
            continue;
        }
        is_known = true;
        if (!holds(c, n->patterns[i].node, v))
            return false;
    }
    if (is_known)
        return true;
    return !n->is_closed_object && (!n->more_members || holds(c, n->more_members, v));
}

static bool others_hold(struct check *c, const struct validator_node *n, struct val v)
{
    size_t count = val_count(v);

    if (!spend(c, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct slice name = val_name_at(v, i);
        if (!validator_passes_over(name) && !other_holds(c, n, name, val_at(v, i)))
            return false;
    }
    return true;
}

static bool dependency_holds(struct check *c, const struct validator_dependency *d, struct val v)
{
    if (!has(v, d->name))
        return true;
    for (uint32_t i = 0; i < d->name_count; i++)
        if (!spend(c, 1) || !has(v, d->names[i]))
            return false;
    return !d->node || holds(c, d->node, v);
}

static bool object_holds(struct check *c, const struct validator_node *n, struct val v)
{
    bool walks = n->pattern_count || n->more_members, counts = n->is_closed_object && !walks;
    size_t declared = 0, visible = 0;

    if (n->refuses_objects)
        return false;
    if (counts || n->has_member_limits)
        visible = visible_count(v);
    if (n->has_member_limits && (visible < n->min_members || visible > n->max_members))
        return false;
    if (!listed_hold(c, n, v, &declared))
        return false;
    if ((counts && declared < visible) || (walks && !others_hold(c, n, v)))
        return false;
    for (uint32_t i = 0; i < n->dependency_count; i++)
        if (!dependency_holds(c, &n->dependencies[i], v))
            return false;
    return true;
}

/* ---- any value ---- */

static bool kind_holds(struct check *c, const struct validator_node *n, struct val v)
{
    switch (val_type(v)) {
    case VAL_NULL:
    case VAL_BOOL:
        return true;
    case VAL_NUMBER:
        return number_holds(n, v);
    case VAL_STRING:
        return string_holds(c, n, v);
    case VAL_ARRAY:
        return array_holds(c, n, v);
    case VAL_OBJECT:
        return object_holds(c, n, v);
    }
    return false;
}

/* How many of them hold, as far as anybody wants to know. */
static uint32_t count_holding(struct check *c, const struct validator_list *list, struct val v,
                              uint32_t enough)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < list->count && count < enough && !c->is_over; i++)
        count += holds(c, list->items[i], v);
    return count;
}

static bool combinations_hold(struct check *c, const struct validator_node *n, struct val v)
{
    for (uint32_t i = 0; i < n->all_of.count; i++)
        if (!holds(c, n->all_of.items[i], v))
            return false;
    if (n->any_of.count && !count_holding(c, &n->any_of, v, 1))
        return false;
    if (n->one_of.count && count_holding(c, &n->one_of, v, 2) != 1)
        return false;
    return !n->not_this || !holds(c, n->not_this, v);
}

static bool holds(struct check *c, const struct validator_node *n, struct val v)
{
    c->is_over |= c->depth == VALIDATOR_DEPTH_MAX;
    if (!spend(c, 1))
        return false;
    c->depth++;
    bool result = (!n->types || (n->types & types_of(v))) && (!n->enums || is_in_enum(c, n, v)) &&
                  kind_holds(c, n, v) && (n->chain == 1 || combinations_hold(c, n, v));
    c->depth--;
    return result && !c->is_over;
}

enum errc validator_check(const struct validator *s, struct val v, bool *is_valid,
                          struct error *err)
{
    struct check c = { .steps = VALIDATOR_STEPS_MAX };

    *is_valid = holds(&c, s->root, v);
    if (!c.is_over)
        return OK;
    *is_valid = false;
    return fail_num(err, 1620,
                    "the value cannot be checked against the schema within %d steps and "
                    "%d levels",
                    VALIDATOR_STEPS_MAX, VALIDATOR_DEPTH_MAX);
}
