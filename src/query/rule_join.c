/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins without an index, or by one that would be asked too often: the inner collection
 * is read once into a table by the values that must be equal, instead of once for each
 * row that asks. What else the scan tests must not depend on that row; what does is
 * tested behind the join.
 */
#include "query/fn.h"
#include "query/plan_guess.h"
#include "query/planner.h"
#include "store/doc.h"

enum { KEYS_MAX = 8 };

/* Costs, in documents of a full scan: estimates. */
enum {
    INDEX_COST = 12,   /* a place in an index */
    DOCUMENT_COST = 6, /* a document by its key */
    TABLE_COST = 2,    /* one more in a table */
    TABLE_MAX = 200000,
    ROWS_MIN = 1000
};

struct keys {
    struct expr *build[KEYS_MAX], *probe[KEYS_MAX];
    uint32_t count;
    struct expr *own[64], *behind[64]; /* conditions: on the document alone, on more */
    size_t own_count, behind_count;
};

static bool uses_only(const struct expr *e, uint32_t reg)
{
    if (!e)
        return true;
    if (e->kind == EXPR_REG && e->reg != reg)
        return false;
    if (e->kind == EXPR_EXPAND || e->kind == EXPR_ARRAY_TEST)
        return false; /* registers of its own: not told apart here */
    for (uint32_t i = 0; i < e->count; i++)
        if (!uses_only(e->kids[i], reg))
            return false;
    return true;
}

static bool uses_any(const struct expr *e)
{
    if (!e)
        return false;
    if (e->kind == EXPR_REG)
        return true;
    for (uint32_t i = 0; i < e->count; i++)
        if (uses_any(e->kids[i]))
            return true;
    return false;
}

static bool is_side(const struct expr *e, uint32_t reg)
{
    return plan_uses_reg(e, reg) && uses_only(e, reg) && plan_is_steady(e);
}

static bool is_other_side(const struct expr *e, uint32_t reg)
{
    return uses_any(e) && !plan_uses_reg(e, reg) && plan_is_steady(e);
}

static bool read_equality(const struct expr *e, uint32_t reg, struct keys *k)
{
    if (e->kind != EXPR_BINARY || e->op != AST_OP_EQ || k->count == KEYS_MAX)
        return false;
    for (int side = 0; side < 2; side++) {
        if (!is_side(e->kids[side], reg) || !is_other_side(e->kids[1 - side], reg))
            continue;
        k->build[k->count] = e->kids[side];
        k->probe[k->count++] = e->kids[1 - side];
        return true;
    }
    return false;
}

/* False: too many conditions. */
static bool read_conditions(struct expr *e, uint32_t reg, struct keys *k)
{
    if (e->kind == EXPR_BINARY && e->op == AST_OP_AND)
        return read_conditions(e->kids[0], reg, k) && read_conditions(e->kids[1], reg, k);
    if (read_equality(e, reg, k))
        return true;
    if (k->own_count == ARRAY_LEN(k->own) || k->behind_count == ARRAY_LEN(k->behind))
        return false;
    if (uses_only(e, reg) && plan_is_steady(e))
        k->own[k->own_count++] = e;
    else
        k->behind[k->behind_count++] = e;
    return true;
}

/* Conditions are tested in another order than they are written. */
static bool are_steady(const struct keys *k)
{
    for (size_t i = 0; i < k->behind_count; i++)
        if (!plan_is_steady(k->behind[i]))
            return false;
    return true;
}

static struct expr **copied(struct planner *p, struct expr *const *list, size_t count)
{
    struct expr **copy = plan_expr_list(p, (uint32_t)count);

    if (count)
        memcpy(copy, list, count * sizeof(*copy));
    return copy;
}

static void make_join(struct planner *p, struct node *n, const struct keys *k)
{
    n->kind = NODE_HASH_JOIN;
    n->scan->access_count = 0;
    n->expr_count = k->count * 2;
    n->exprs = plan_expr_list(p, n->expr_count);
    for (uint32_t i = 0; i < k->count; i++) {
        n->exprs[i] = k->build[i];
        n->exprs[k->count + i] = k->probe[i];
    }
    n->scan->filters = copied(p, k->own, k->own_count);
    n->scan->filter_count = (uint32_t)k->own_count;
}

/* Whether the pipeline that ends at *wanted runs once for each of several rows. */
static bool find_pipeline(struct node **last, bool is_repeated, struct node **wanted, bool *out)
{
    if (last == wanted) {
        *out = is_repeated;
        return true;
    }
    for (struct node *n = *last; n; n = n->input) {
        bool is_once = n->kind == NODE_SUBQUERY && plan_has_one_row(n);
        if (n->sub && find_pipeline(&n->sub, is_repeated || !is_once, wanted, out))
            return true;
    }
    return false;
}

static bool is_repeated(const struct planner *p, struct node **last)
{
    bool out = false;

    return find_pipeline(&p->plan->root, false, last, &out) && out;
}

/* Rows that are not wanted may never be asked for. */
static bool is_cut(const struct node *last, const struct node *n)
{
    for (; last != n; last = last->input)
        if (last->kind == NODE_LIMIT)
            return true;
    return false;
}

/* An index that many rows would ask, of a collection that takes less to read whole. */
static bool is_asked_too_often(struct planner *p, const struct node *n)
{
    struct txn *txn = p->env->txn;
    const struct collection *c = catalog_collection_by_id(txn_catalog(txn), n->collection);
    const struct access *a = n->scan->accesses;
    const struct scan_hint *hint = plan_hint(p, n);
    uint64_t all;

    if (n->kind != NODE_INDEX || n->scan->access_count != 1 || a->geo || plan_has_one_row(n) ||
        val_count(hint->indexes) || !c || doc_count(txn, c, &all, NULL) != OK || all > TABLE_MAX)
        return false;
    double rows = plan_guess_in(txn, n), found = plan_guess(txn, c, a, (double)all);
    double ask = (a->index ? INDEX_COST : 0) + found * DOCUMENT_COST;
    return rows >= ROWS_MIN && (double)all * TABLE_COST + rows < rows * ask;
}

static bool may_join(struct planner *p, const struct node *last, const struct node *n,
                     bool is_inner)
{
    if (!n->scan || n->scan->sees_writes)
        return false;
    if (n->kind == NODE_ENUM_COLLECTION)
        return is_inner || !plan_has_one_row(n);
    return !is_cut(last, n) && is_asked_too_often(p, n);
}

static enum errc hash_joins(struct planner *p, struct node **last, bool *changed)
{
    bool is_inner = is_repeated(p, last);

    for (struct node **at = last; *at; at = &(*at)->input) {
        struct node *n = *at;
        struct keys k = { .count = 0 };
        bool fits = may_join(p, *last, n, is_inner);
        for (uint32_t i = 0; fits && i < n->scan->filter_count; i++)
            fits = read_conditions(n->scan->filters[i], n->reg, &k);
        if (!fits || !k.count || !are_steady(&k))
            continue;
        make_join(p, n, &k);
        for (size_t i = k.behind_count; i-- > 0;) {
            struct node *filter = plan_loose_node(p, NODE_FILTER);
            filter->expr = k.behind[i];
            filter->input = *at;
            *at = filter;
            at = &filter->input;
        }
        *changed = true;
    }
    return OK;
}

const struct rule rules_join[] = {
    { "hash-join", hash_joins,
      "A collection that is joined by equality, without an index or small beside the rows that "
      "ask, is read once, into a table." },
    { 0 },
};
