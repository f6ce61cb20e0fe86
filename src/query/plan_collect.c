/* SPDX-License-Identifier: Apache-2.0 */
/*
 * COLLECT: behind it only its own variables exist (and those of an outer
 * query).
 */
#include "query/aggregate.h"
#include "query/planner.h"

static enum errc check_method(struct planner *p, const struct ast *options)
{
    struct val v;
    enum errc rc;

    if (!options)
        return OK;
    rc = plan_constant(p, options, &v);
    if (rc != OK)
        return rc;
    for (size_t i = 0; i < val_count(v); i++)
        if (!slice_is(val_name_at(v, i), "method") && !slice_is(val_name_at(v, i), "disableIndex"))
            return plan_fail(p, options, 9, "not implemented: the option %.*s",
                             SLICE_ARG(val_name_at(v, i)));
    struct slice method = val_string(val_get(v, slice_str("method")));
    if (method.len && !slice_is(method, "hash") && !slice_is(method, "sorted"))
        return plan_fail(p, options, 1575, "method must be hash or sorted");
    return OK;
}

static enum errc plan_aggregates(struct planner *p, const struct ast *list, struct node *n)
{
    n->aggregate_count = list->count;
    n->aggregates = arena_zalloc(p->arena, (list->count + 1) * sizeof *n->aggregates);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct ast *call = list->kids[i]->kids[1];
        int kind = call->kind == AST_CALL ? aggregate_find(call->name) : -1;
        if (kind < 0)
            return plan_fail(p, call, 1574, "invalid aggregate expression");
        if (call->count != 1)
            return plan_fail(p, call, 1541, "%s takes 1 argument here", aggregate_name(kind));
        enum errc rc = plan_expr(p, call->kids[0], &n->aggregates[i].expr);
        if (rc != OK)
            return rc;
        n->aggregates[i].kind = (uint8_t)kind;
    }
    return OK;
}

static bool is_kept(const struct ast *keep, struct slice name)
{
    for (uint32_t i = 0; keep && i < keep->count; i++)
        if (slice_eq(keep->kids[i]->name, name))
            return true;
    return !keep;
}

static enum errc plan_into(struct planner *p, const struct ast *into, const struct ast *keep,
                           struct node *n)
{
    if (into->count > 1 && into->kids[1])
        return plan_expr(p, into->kids[1], &n->into_expr);
    for (uint32_t i = 0; keep && i < keep->count; i++)
        if (!plan_variable(p, keep->kids[i]->name))
            return plan_fail(p, keep->kids[i], 1512, "unknown variable '%.*s'",
                             SLICE_ARG(keep->kids[i]->name));
    size_t count = p->variable_count - p->scope_start;
    n->keep_names = arena_alloc(p->arena, (count + 1) * sizeof *n->keep_names);
    n->keep_regs = arena_alloc(p->arena, (count + 1) * sizeof *n->keep_regs);
    for (size_t i = p->scope_start; i < p->variable_count; i++) {
        if (!is_kept(keep, p->variables[i].name))
            continue;
        n->keep_names[n->keep_count] = p->variables[i].name;
        n->keep_regs[n->keep_count++] = p->variables[i].reg;
    }
    return OK;
}

enum errc plan_collect(struct planner *p, const struct ast *n)
{
    const struct ast *keys = n->kids[0], *aggregates = n->kids[1], *into = n->kids[2];
    const struct ast *keep = n->kids[3], *count = n->kids[4];
    struct node made = { 0 };
    struct expr **exprs = arena_zalloc(p->arena, (keys->count + 1) * sizeof(*exprs));
    enum errc rc = OK;

    TRY(check_method(p, n->count > 5 ? n->kids[5] : NULL));
    for (uint32_t i = 0; i < keys->count; i++)
        TRY(plan_expr(p, keys->kids[i]->kids[1], &exprs[i]));
    TRY(plan_aggregates(p, aggregates, &made));
    if (into)
        TRY(plan_into(p, into, keep, &made));
    struct node *node = plan_node(p, NODE_COLLECT);
    node->exprs = exprs;
    node->expr_count = keys->count;
    node->regs = arena_alloc(p->arena, (keys->count + 1) * sizeof *node->regs);
    node->aggregates = made.aggregates;
    node->aggregate_count = made.aggregate_count;
    node->into_expr = made.into_expr;
    node->keep_names = made.keep_names;
    node->keep_regs = made.keep_regs;
    node->keep_count = made.keep_count;
    p->variable_count = p->scope_start;
    p->score_count = 0;
    for (uint32_t i = 0; i < keys->count; i++)
        TRY(plan_declare(p, keys->kids[i]->kids[0], &node->regs[i]));
    for (uint32_t i = 0; i < aggregates->count; i++)
        TRY(plan_declare(p, aggregates->kids[i]->kids[0], &node->aggregates[i].reg));
    if (into)
        TRY(plan_declare(p, into->kids[0], &node->into_reg));
    if (count)
        TRY(plan_declare(p, count, &node->reg)); /* rows of the group */
out:
    return rc;
}
