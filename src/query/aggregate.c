/* SPDX-License-Identifier: Apache-2.0 */
#include "query/aggregate.h"
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
    STDDEV_SAMPLE,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
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
    { "BIT_AND", BIT_AND },
    { "BIT_OR", BIT_OR },
    { "BIT_XOR", BIT_XOR },
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

bool aggregate_takes_nothing(int kind)
{
    return rows[kind].kind == COUNT;
}

/* ---- adding ---- */

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
    s->items[s->item_count++] = val_copy(arena, v);
}

static void distinct_add(struct aggregate_state *s, struct val v, struct arena *arena)
{
    bool is_new;

    s->values.arena = arena;
    s->values.key_count = 1;
    s->values.group_bytes = sizeof(struct group);
    groups_add(&s->values, &v, &is_new);
}

/* Whole numbers are added exactly as long as they fit 64 bits. */
static void sum_add(struct aggregate_state *s, struct val v)
{
    int64_t whole;

    s->count++;
    if (!s->is_double && val_is_int(v) && !__builtin_add_overflow(s->whole, val_int(v), &whole)) {
        s->whole = whole;
        return;
    }
    if (!s->is_double)
        s->sum = (double)s->whole;
    s->is_double = true;
    s->sum += val_double(v);
}

static void variance_add(struct aggregate_state *s, double v)
{
    s->count++;
    double delta = v - s->mean;
    s->mean += delta / (double)s->count;
    s->m2 += delta * (v - s->mean);
}

static void bits_add(enum kind kind, struct aggregate_state *s, struct val v)
{
    double d = val_double(v);

    if (d < 0 || d > UINT32_MAX || d != floor(d)) {
        s->is_spoiled = true;
        return;
    }
    int64_t bits = val_int(v);
    if (!s->count++)
        s->whole = bits;
    else if (kind == BIT_AND)
        s->whole &= bits;
    else if (kind == BIT_OR)
        s->whole |= bits;
    else
        s->whole ^= bits;
}

/* Numbers only; null is skipped; anything else makes the result null, as in ArangoDB. */
static void number_add(enum kind kind, struct aggregate_state *s, struct val v)
{
    if (val_is_null(v))
        return;
    if (val_type(v) != VAL_NUMBER)
        s->is_spoiled = true;
    else if (kind == SUM || kind == AVERAGE)
        sum_add(s, v);
    else if (kind >= BIT_AND)
        bits_add(kind, s, v);
    else
        variance_add(s, val_double(v));
}

static void extreme_add(struct aggregate_state *s, struct val v, int sign, struct arena *arena,
                        const struct expr_env *env)
{
    if (!val_is_null(v) && (!s->count++ || val_compare(v, s->extreme, env->collator) * sign > 0))
        s->extreme = val_copy(arena, v);
}

void aggregate_add(int kind, struct aggregate_state *s, struct val v, struct arena *arena,
                   const struct expr_env *env)
{
    switch (rows[kind].kind) {
    case COUNT:
        s->count++;
        return;
    case MIN:
        extreme_add(s, v, -1, arena, env);
        return;
    case MAX:
        extreme_add(s, v, 1, arena, env);
        return;
    case UNIQUE:
    case SORTED_UNIQUE:
    case COUNT_DISTINCT:
        distinct_add(s, v, arena);
        return;
    case PUSH:
        item_add(s, v, arena);
        return;
    case SUM:
    case AVERAGE:
    case VARIANCE_POPULATION:
    case VARIANCE_SAMPLE:
    case STDDEV_POPULATION:
    case STDDEV_SAMPLE:
    case BIT_AND:
    case BIT_OR:
    case BIT_XOR:
        number_add(rows[kind].kind, s, v);
        return;
    }
}

/* ---- results ---- */

static struct val sum(const struct aggregate_state *s, struct arena *arena)
{
    if (!s->is_double)
        return val_new_int(arena, s->whole);
    return isfinite(s->sum) ? val_new_double(arena, s->sum) : val_null;
}

static struct val average(const struct aggregate_state *s, struct arena *arena)
{
    if (!s->count)
        return val_null;
    double all = s->is_double ? s->sum : (double)s->whole;

    return val_new_double(arena, all / (double)s->count);
}

static struct val variance(enum kind kind, const struct aggregate_state *s, struct arena *arena)
{
    bool is_sample = kind == VARIANCE_SAMPLE || kind == STDDEV_SAMPLE;
    bool is_root = kind == STDDEV_POPULATION || kind == STDDEV_SAMPLE;

    if (s->count < (is_sample ? 2u : 1u))
        return val_null;
    double v = s->m2 / (double)(s->count - is_sample);
    return val_new_double(arena, is_root ? sqrt(v) : v);
}

static int compare_collated(const void *a, const void *b, void *collator)
{
    return val_compare(*(const struct val *)a, *(const struct val *)b, collator);
}

static struct val distinct(const struct aggregate_state *s, bool is_sorted, struct arena *arena,
                           const struct expr_env *env)
{
    struct val *items = arena_alloc(arena, (s->values.count + 1) * sizeof *items);
    size_t n = 0;

    for (const struct group *g = s->values.first; g; g = g->next)
        items[n++] = g->keys[0];
    if (is_sorted && n)
        qsort_r(items, n, sizeof *items, compare_collated, (void *)env->collator);
    return val_new_array(arena, items, n);
}

struct val aggregate_result(int kind, const struct aggregate_state *s, struct arena *arena,
                            const struct expr_env *env)
{
    if (s->is_spoiled)
        return val_null;
    switch (rows[kind].kind) {
    case COUNT:
        return val_new_int(arena, (int64_t)s->count);
    case SUM:
        return sum(s, arena);
    case AVERAGE:
        return average(s, arena);
    case MIN:
    case MAX:
        return s->extreme;
    case PUSH:
        return val_new_array(arena, s->items, s->item_count);
    case UNIQUE:
        return distinct(s, false, arena, env);
    case SORTED_UNIQUE:
        return distinct(s, true, arena, env);
    case COUNT_DISTINCT:
        return val_new_int(arena, (int64_t)s->values.count);
    case VARIANCE_POPULATION:
    case VARIANCE_SAMPLE:
    case STDDEV_POPULATION:
    case STDDEV_SAMPLE:
        return variance(rows[kind].kind, s, arena);
    case BIT_AND:
    case BIT_OR:
    case BIT_XOR:
        return s->count ? val_new_int(arena, s->whole) : val_null;
    }
    BUG("aggregate %d", kind);
}
