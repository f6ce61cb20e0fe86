/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that the query gives are looked for; for others the index's average counts.
 * What only running the query tells is assumed: lists of 10, a quarter in a range.
 */
#include "query/plan_guess.h"
#include "store/index.h"

enum { LIST_ASSUMED = 10, LIST_ASKED_MAX = 4 };
static const double range_assumed = 0.25;

static bool is_known(const struct expr *e)
{
    return !e || e->kind == EXPR_CONST;
}

static bool are_known(const struct access *a)
{
    for (uint32_t i = 0; i < a->equal_count; i++)
        if (!is_known(a->equal[i]))
            return false;
    return is_known(a->in) && is_known(a->lower) && is_known(a->upper);
}

static double list_length(const struct expr *e)
{
    return e->kind == EXPR_CONST ? (double)val_count(e->val) : LIST_ASSUMED;
}

static double guess_primary(const struct access *a, double all)
{
    double keys = a->in ? list_length(a->in) : 1;

    return keys < all ? keys : all;
}

/* The first values of the list stand for the others. */
static double guess_list(struct txn *t, const struct index_def *index, struct index_range *range,
                         struct val *equal, struct val list, double all)
{
    size_t count = val_count(list), asked = count < LIST_ASKED_MAX ? count : LIST_ASKED_MAX;
    double rows = 0;

    for (size_t i = 0; i < asked; i++) {
        equal[range->equal_count - 1] = val_at(list, i);
        rows += index_guess_range(t, index, range, all);
    }
    return asked ? rows * (double)count / (double)asked : 0;
}

static double guess_known(struct txn *t, const struct index_def *index, const struct access *a,
                          double all)
{
    struct val equal[LIMIT_INDEX_FIELDS + 1];
    struct index_range range = { .equal = equal,
                                 .equal_count = a->equal_count,
                                 .lower_included = a->lower_included,
                                 .upper_included = a->upper_included };

    for (uint32_t i = 0; i < a->equal_count; i++)
        equal[i] = a->equal[i]->val;
    if (a->in) {
        range.equal_count++;
        return guess_list(t, index, &range, equal, a->in->val, all);
    }
    if (a->lower)
        range.lower = a->lower->val;
    if (a->upper)
        range.upper = a->upper->val;
    return index_guess_range(t, index, &range, all);
}

double plan_guess(struct txn *t, const struct collection *c, const struct access *a, double all)
{
    const struct index_def *index = collection_index(c, a->index);
    size_t fields = a->equal_count + (a->in != NULL);

    if (!index || fields + (a->lower || a->upper) > index->field_count)
        return all;
    if (index->kind == INDEX_PRIMARY)
        return guess_primary(a, all);
    if (!fields && !a->lower && !a->upper)
        return all;
    double rows = are_known(a) ? guess_known(t, index, a, all) : all;
    if (!are_known(a) && fields)
        rows = index_guess_equal(t, index, fields, all) * (a->in ? list_length(a->in) : 1);
    if (!are_known(a) && (a->lower || a->upper))
        rows *= range_assumed;
    return rows < all ? rows : all;
}
