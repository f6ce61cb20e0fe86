/* SPDX-License-Identifier: Apache-2.0 */
#include "query/aggregate.h"
#include "query/cast.h"
#include <math.h>
#include <stdlib.h>

enum kind {
    COUNT,
    SUM,
    AVERAGE,
    MIN,
    MAX,
    UNIQUE,
    SORTED_UNIQUE,
    COUNT_DISTINCT,
    PUSH,
    VARIANCE_POPULATION,
    VARIANCE_SAMPLE,
    STDDEV_POPULATION,
    STDDEV_SAMPLE
};

static const struct {
    const char *name;
    enum kind kind;
} rows[] = {
    { "COUNT", COUNT },
    { "LENGTH", COUNT },
    { "SUM", SUM },
    { "AVERAGE", AVERAGE },
    { "AVG", AVERAGE },
    { "MIN", MIN },
    { "MAX", MAX },
    { "UNIQUE", UNIQUE },
    { "SORTED_UNIQUE", SORTED_UNIQUE },
    { "COUNT_DISTINCT", COUNT_DISTINCT },
    { "COUNT_UNIQUE", COUNT_DISTINCT },
    { "PUSH", PUSH },
    { "VARIANCE_POPULATION", VARIANCE_POPULATION },
    { "VARIANCE", VARIANCE_POPULATION },
    { "VARIANCE_SAMPLE", VARIANCE_SAMPLE },
    { "STDDEV_POPULATION", STDDEV_POPULATION },
    { "STDDEV", STDDEV_POPULATION },
    { "STDDEV_SAMPLE", STDDEV_SAMPLE },
};

int aggregate_find(struct slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (slice_is(name, rows[i].name))
            return (int)i;
    return -1;
}

const char *aggregate_name(int kind)
{
    return kind >= 0 && (size_t)kind < ARRAY_LEN(rows) ? rows[kind].name : "?";
}

static void item_add(struct aggregate_state *s, struct val v, struct arena *arena)
{
    if (s->item_count == s->item_cap) {
        size_t cap = s->item_cap ? s->item_cap * 2 : 8;
        struct val *items = arena_alloc(arena, cap * sizeof *items);
        if (s->item_count)
            memcpy(items, s->items, s->item_count * sizeof *items);
        s->items = items;
        s->item_cap = cap;
    }
    s->items[s->item_count++] = v;
}

static void add_variance(struct aggregate_state *s, double v)
{
    s->count++;
    double delta = v - s->mean;
    s->mean += delta / (double)s->count;
    s->m2 += delta * (v - s->mean);
}

/* Numbers only; null is skipped; anything else makes the result null, as in ArangoDB. */
static enum errc add_number(int kind, struct aggregate_state *s, struct val v, struct arena *arena,
                            const struct expr_env *env, struct error *err)
{
    if (val_is_null(v))
        return OK;
    if (val_type(v) != VAL_NUMBER) {
        s->item_cap = SIZE_MAX; /* spoiled */
        return OK;
    }
    if (rows[kind].kind != SUM && rows[kind].kind != AVERAGE) {
        add_variance(s, val_double(v));
        return OK;
    }
    s->count++;
    return expr_binary(AST_OP_ADD, s->value, v, arena, env, &s->value, err);
}

enum errc aggregate_add(int kind, struct aggregate_state *s, struct val v, struct arena *arena,
                        const struct expr_env *env, struct error *err)
{
    switch (rows[kind].kind) {
    case COUNT:
        s->count++;
        return OK;
    case MIN:
        if (!val_is_null(v) && (!s->count++ || val_compare(v, s->value, env->collator) < 0))
            s->value = v;
        return OK;
    case MAX:
        if (!val_is_null(v) && (!s->count++ || val_compare(v, s->value, env->collator) > 0))
            s->value = v;
        return OK;
    case UNIQUE:
    case SORTED_UNIQUE:
    case COUNT_DISTINCT:
    case PUSH:
        item_add(s, v, arena);
        return OK;
    case SUM:
    case AVERAGE:
    case VARIANCE_POPULATION:
    case VARIANCE_SAMPLE:
    case STDDEV_POPULATION:
    case STDDEV_SAMPLE:
        return add_number(kind, s, v, arena, env, err);
    }
    return OK;
}

static int compare_bytes(const void *a, const void *b)
{
    return val_compare(*(const struct val *)a, *(const struct val *)b, NULL);
}

static int compare_collated(const void *a, const void *b, void *collator)
{
    return val_compare(*(const struct val *)a, *(const struct val *)b, collator);
}

static size_t distinct(struct val *items, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (!kept || !val_equal(items[kept - 1], items[i]))
            items[kept++] = items[i];
    return kept;
}

static struct val variance(int kind, const struct aggregate_state *s, struct arena *arena)
{
    bool is_sample = rows[kind].kind == VARIANCE_SAMPLE || rows[kind].kind == STDDEV_SAMPLE;
    bool is_root = rows[kind].kind == STDDEV_POPULATION || rows[kind].kind == STDDEV_SAMPLE;

    if (s->count < (is_sample ? 2u : 1u))
        return val_null;
    double v = s->m2 / (double)(s->count - is_sample);
    return val_new_double(arena, is_root ? sqrt(v) : v);
}

struct val aggregate_result(int kind, const struct aggregate_state *s, struct arena *arena,
                            const struct expr_env *env)
{
    bool is_spoiled = s->item_cap == SIZE_MAX;
    size_t n = is_spoiled ? 0 : s->item_count;
    double d;

    switch (rows[kind].kind) {
    case COUNT:
        return val_new_int(arena, (int64_t)s->count);
    case SUM:
        return is_spoiled ? val_null : val_is_null(s->value) ? val_zero : s->value;
    case AVERAGE:
        d = s->count ? val_double(s->value) / (double)s->count : 0;
        return is_spoiled || !s->count ? val_null : val_new_double(arena, d);
    case MIN:
    case MAX:
        return s->value;
    case PUSH:
        return val_new_array(arena, s->items, n);
    case UNIQUE:
    case COUNT_DISTINCT:
        if (n)
            qsort(s->items, n, sizeof *s->items, compare_bytes);
        n = distinct(s->items, n);
        return rows[kind].kind == UNIQUE ? val_new_array(arena, s->items, n)
                                         : val_new_int(arena, (int64_t)n);
    case SORTED_UNIQUE:
        if (n)
            qsort_r(s->items, n, sizeof *s->items, compare_collated, (void *)env->collator);
        return val_new_array(arena, s->items, distinct(s->items, n));
    case VARIANCE_POPULATION:
    case VARIANCE_SAMPLE:
    case STDDEV_POPULATION:
    case STDDEV_SAMPLE:
        return is_spoiled ? val_null : variance(kind, s, arena);
    }
    return val_null;
}
