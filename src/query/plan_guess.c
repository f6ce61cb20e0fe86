/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that the query gives are looked for; for others the index's average counts.
 * What only running the query tells is assumed: lists of 10, a quarter in a range.
 */
#include "query/plan_guess.h"
#include "store/doc.h"
#include "store/index.h"

enum { LIST_ASSUMED = 10, LIST_ASKED_MAX = 4 };
static const double range_assumed = 0.25;

static bool is_known(const struct expr *e)
{
    return !e || e->kind == EXPR_CONST;
}

bool plan_access_is_known(const struct access *a)
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
    double rows = plan_access_is_known(a) ? guess_known(t, index, a, all) : all;
    if (!plan_access_is_known(a) && fields)
        rows = index_guess_equal(t, index, fields, all) * (a->in ? list_length(a->in) : 1);
    if (!plan_access_is_known(a) && (a->lower || a->upper))
        rows *= range_assumed;
    return rows < all ? rows : all;
}

/* ---- nodes ---- */

/* Documents that the node finds for one row, before its filters. */
static double found_rows(struct txn *t, const struct node *n)
{
    const struct collection *c = catalog_collection_by_id(txn_catalog(t), n->collection);
    uint64_t count = 0;
    double rows = 0;

    if (n->kind == NODE_VECTOR)
        return (double)n->limit;
    if (!c || doc_count(t, c, &count, NULL) != OK)
        return 1;
    if (n->kind != NODE_INDEX)
        return (double)count;
    for (uint32_t i = 0; i < n->scan->access_count; i++)
        rows += plan_guess(t, c, &n->scan->accesses[i], (double)count);
    return rows < (double)count ? rows : (double)count;
}

/* Of a lookup the filters mostly repeat what was looked up; of a full scan half is assumed. */
static double scan_rows(struct txn *t, const struct node *n)
{
    double found = found_rows(t, n), skip = (double)n->scan->skip;
    double rows = found > skip ? found - skip : 0;

    if (n->kind == NODE_HASH_JOIN)
        return rows > 10 ? rows / 10 : 1;
    return n->kind == NODE_ENUM_COLLECTION && n->scan->filter_count ? rows / 2 : rows;
}

double plan_guess_out(struct txn *t, const struct node *n, double in)
{
    switch ((enum node_kind)n->kind) {
    case NODE_ENUM_LIST:
        return in * 100;
    case NODE_ENUM_COLLECTION:
    case NODE_INDEX:
    case NODE_HASH_JOIN:
    case NODE_VECTOR:
        return in * scan_rows(t, n);
    case NODE_TRAVERSE:
        return in * (n->walk->max < 8 ? 1u << (2 * n->walk->max) : 65536);
    case NODE_PATHS:
        return in * 4;
    case NODE_FILTER:
        return in / 2;
    case NODE_LIMIT:
        return n->limit >= 0 && (double)n->limit < in ? (double)n->limit : in;
    case NODE_COLLECT:
        return n->expr_count ? in * 0.8 : 1;
    default:
        return in;
    }
}

double plan_guess_in(struct txn *t, const struct node *n)
{
    return n->input ? plan_guess_out(t, n->input, plan_guess_in(t, n->input)) : 1;
}
