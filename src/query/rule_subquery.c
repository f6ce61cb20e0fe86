/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about subqueries. What is only looped over need not be built first. */
#include "query/planner.h"

/* Nodes that treat each row alone; with one row before the subquery, those too that see all. */
static bool may_stream(const struct node *last, bool is_single)
{
    for (const struct node *n = last->input; n; n = n->input) {
        switch ((enum node_kind)n->kind) {
        case NODE_SINGLETON:
        case NODE_ENUM_LIST:
        case NODE_ENUM_COLLECTION:
        case NODE_TRAVERSE:
        case NODE_PATHS:
        case NODE_FILTER:
        case NODE_CALC:
        case NODE_SUBQUERY:
        case NODE_CALL:
            break;
        case NODE_SORT:
        case NODE_LIMIT:
        case NODE_WINDOW:
        case NODE_DISTINCT:
        case NODE_VECTOR:
            if (!is_single)
                return false;
            break;
        case NODE_INDEX:
        case NODE_HASH_JOIN:
        case NODE_COLLECT: /* it drops the registers before it */
        case NODE_INSERT:
        case NODE_UPDATE:
        case NODE_REPLACE:
        case NODE_REMOVE:
        case NODE_UPSERT:
        case NODE_RETURN:
            return false;
        }
    }
    return true;
}

/* Right behind the subquery, with nothing but computations between. */
static struct node **source_of(struct node *loop)
{
    struct node **at = &loop->input;

    while (*at && (*at)->kind == NODE_CALC)
        at = &(*at)->input;
    bool is_it = *at && (*at)->kind == NODE_SUBQUERY && !(*at)->expr &&
                 loop->expr->kind == EXPR_REG && loop->expr->reg == (*at)->reg;
    return is_it ? at : NULL;
}

/* The subquery's nodes take the loop's place; what it returns goes to the loop's register. */
static void splice(struct node *loop, struct node **source)
{
    struct node *subquery = *source, *ret = subquery->sub, *first = ret;

    while (first->input->kind != NODE_SINGLETON)
        first = first->input;
    *source = subquery->input;
    struct node *before = loop->input;
    loop->kind = NODE_CALC;
    loop->expr = ret->expr;
    if (first == ret) {
        loop->input = before;
        return;
    }
    first->input = before;
    loop->input = ret->input;
}

static enum errc inline_subqueries(struct planner *p, struct node **last, bool *changed)
{
    for (struct node *n = *last; n; n = n->input) {
        struct node **source = n->kind == NODE_ENUM_LIST ? source_of(n) : NULL;
        if (!source || (*source)->sub->kind != NODE_RETURN || plan_writes((*source)->sub) ||
            plan_reg_uses(p->plan->root, (*source)->reg) != 1 ||
            !may_stream((*source)->sub, plan_has_one_row(*source)))
            continue;
        splice(n, source);
        *changed = true;
    }
    return OK;
}

/* ---- variables that are others ---- */

/* LET x = y: who reads x reads y. A register is set by one node, so both are equal behind it. */
static enum errc drop_aliases(struct planner *p, struct node **last, bool *changed)
{
    for (struct node **at = last; *at;) {
        struct node *n = *at;
        if (n->kind != NODE_CALC || n->expr->kind != EXPR_REG) {
            at = &n->input;
            continue;
        }
        *at = n->input;
        plan_rename_reg(p->plan->root, NULL, n->reg, n->expr->reg);
        *changed = true;
    }
    return OK;
}

const struct rule rules_subquery[] = {
    { "inline-subqueries", inline_subqueries, "A loop over a subquery is a loop over its rows." },
    { "remove-redundant-calculations", drop_aliases,
      "A variable that is another one is not computed." },
    { 0 },
};
