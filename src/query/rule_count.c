/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about counting: what is only counted is not built, and a whole collection not read. */
#include "query/fn.h"
#include "query/planner.h"
#include "store/txn.h"

/* ---- LENGTH(subquery) ---- */

struct lengths {
    uint32_t reg, count;
};

static bool is_length_of(const struct expr *e, uint32_t reg)
{
    return e->kind == EXPR_CALL && e->count == 1 && e->kids[0]->kind == EXPR_REG &&
           e->kids[0]->reg == reg && (slice_is(e->name, "LENGTH") || slice_is(e->name, "COUNT"));
}

static void count_lengths(const struct expr *e, struct lengths *l)
{
    l->count += is_length_of(e, l->reg);
    for (uint32_t i = 0; i < e->count; i++)
        if (e->kids[i])
            count_lengths(e->kids[i], l);
}

static void count_expr(struct expr **e, void *ctx)
{
    count_lengths(*e, ctx);
}

/* Anywhere in the plan: inner pipelines see the register too. */
static void count_in(struct node *last, struct lengths *l)
{
    for (struct node *n = last; n; n = n->input) {
        node_each_expr(n, count_expr, l);
        count_in(n->sub, l);
    }
}

/* LENGTH(array) becomes its first element: the array of one number. */
static void replace_lengths(struct planner *p, struct expr **at, uint32_t reg)
{
    struct expr *e = *at;

    if (is_length_of(e, reg)) {
        struct expr *first = plan_new_expr(p, EXPR_INDEX, 2);
        first->kids[0] = e->kids[0];
        first->kids[1] = plan_const_expr(p, val_zero);
        *at = first;
        return;
    }
    for (uint32_t i = 0; i < e->count; i++)
        if (e->kids[i])
            replace_lengths(p, &e->kids[i], reg);
}

struct replacing {
    struct planner *p;
    uint32_t reg;
};

static void replace_expr(struct expr **e, void *ctx)
{
    const struct replacing *r = ctx;

    replace_lengths(r->p, e, r->reg);
}

static void replace_in(struct replacing *r, struct node *last)
{
    for (struct node *n = last; n; n = n->input) {
        node_each_expr(n, replace_expr, r);
        replace_in(r, n->sub);
    }
}

static void append_count(struct planner *p, struct node *subquery)
{
    struct node *count = plan_loose_node(p, NODE_COLLECT), *ret = subquery->sub;

    count->collect = ARENA_NEW(p->arena, struct collect);
    count->collect->into_reg = NO_REG;
    count->collect->count_reg = plan_reg(p);
    count->input = ret->input;
    ret->input = count;
    ret->expr = plan_reg_expr(p, count->collect->count_reg);
}

/* A guarded one is null for some rows, whose length is 0. */
static bool is_countable(const struct planner *p, const struct node *n)
{
    struct lengths l = { .reg = n->reg };

    if (n->kind != NODE_SUBQUERY || n->expr || n->sub->kind != NODE_RETURN ||
        !plan_is_steady(n->sub->expr))
        return false;
    count_in(p->plan->root, &l);
    return l.count && l.count == plan_reg_uses(p->plan->root, n->reg);
}

static enum errc count_only(struct planner *p, struct node **last, bool *changed)
{
    for (struct node *n = *last; n; n = n->input) {
        if (!is_countable(p, n))
            continue;
        struct replacing r = { p, n->reg };
        append_count(p, n);
        replace_in(&r, p->plan->root);
        *changed = true;
    }
    return OK;
}

/* ---- COLLECT WITH COUNT of a collection ---- */

static bool counts_only(const struct node *n)
{
    return n->kind == NODE_COLLECT && !n->expr_count && !n->collect->aggregate_count &&
           n->collect->into_reg == NO_REG && n->collect->count_reg != NO_REG;
}

/* The scan of a whole collection, once, whose rows reach the COLLECT; or NULL. */
static const struct node *counted_scan(const struct node *collect)
{
    const struct node *n = collect->input;

    while (n->kind == NODE_CALC && plan_is_steady(n->expr))
        n = n->input;
    bool is_whole = n->kind == NODE_ENUM_COLLECTION && !n->scan->filter_count;
    return is_whole && plan_has_one_row(n) ? n : NULL;
}

static enum errc count_collection(struct planner *p, struct node **last, bool *changed)
{
    for (struct node *n = *last; n; n = n->input) {
        const struct node *scan = counts_only(n) ? counted_scan(n) : NULL;
        const struct collection *c =
            scan ? catalog_collection_by_id(txn_catalog(p->env->txn), scan->collection) : NULL;
        if (!c)
            continue;
        n->kind = NODE_CALC;
        n->reg = n->collect->count_reg;
        n->collect = NULL;
        n->input = scan->input;
        n->expr = plan_call_expr(p, "COLLECTION_COUNT",
                                 plan_const_expr(p, val_new_string(p->arena, c->name)));
        *changed = true;
    }
    return OK;
}

const struct rule rules_count[] = {
    { "optimize-count", count_only,
      "Of a subquery whose LENGTH alone is asked for, rows are counted." },
    { "count-collection", count_collection,
      "The number of documents of a collection is known without reading them." },
    { 0 },
};
