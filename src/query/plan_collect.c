/* SPDX-License-Identifier: Apache-2.0 */
/*
 * COLLECT: behind it only its own variables exist (and those of an outer
 * query).
 */
#include "query/aggregate.h"
#include "query/planner.h"

static enum errc read_method(struct planner *p, const struct ast *options, bool *is_hash)
{
    static const char *const known[] = { "method", "disableIndex" };
    struct val v;
    enum errc rc = plan_options(p, options, known, ARRAY_LEN(known), &v);

    if (rc != OK)
        return rc;
    struct slice method = val_string(val_get(v, slice_str("method")));
    if (method.len && !slice_is(method, "hash") && !slice_is(method, "sorted"))
        return plan_fail(p, options, 1575, "method must be hash or sorted");
    *is_hash = slice_is(method, "hash") || val_truth(val_get(v, slice_str("disableIndex")));
    return OK;
}

enum errc plan_aggregates(struct planner *p, const struct ast *list, struct aggregate **out)
{
    struct aggregate *all = arena_zalloc(p->arena, (list->count + 1) * sizeof *all);
    enum errc rc = OK;

    *out = all;
    for (uint32_t i = 0; rc == OK && i < list->count; i++) {
        const struct ast *call = list->kids[i]->kids[1];
        int kind = call->kind == AST_CALL ? aggregate_find(call->name) : -1;
        if (kind < 0)
            return plan_fail(p, call, 1574, "invalid aggregate expression");
        if (call->count != 1 && !(call->count == 0 && aggregate_takes_nothing(kind)))
            return plan_fail(p, call, 1541, "%s takes 1 argument here", aggregate_name(kind));
        all[i].kind = (uint8_t)kind;
        all[i].expr = plan_const_expr(p, val_null);
        if (call->count)
            rc = plan_expr(p, call->kids[0], &all[i].expr);
    }
    return rc;
}

static bool is_kept(const struct ast *keep, struct slice name)
{
    for (uint32_t i = 0; keep && i < keep->count; i++)
        if (slice_eq(keep->kids[i]->name, name))
            return true;
    return !keep;
}

/* Variables from before the first loop are not part of the groups. */
static enum errc plan_into(struct planner *p, const struct ast *into, const struct ast *keep,
                           struct collect *c)
{
    if (into->count > 1 && into->kids[1])
        return plan_expr(p, into->kids[1], &c->into_expr);
    for (uint32_t i = 0; keep && i < keep->count; i++)
        if (!plan_variable(p, keep->kids[i]->name))
            return plan_fail(p, keep->kids[i], 1512, "unknown variable '%.*s'",
                             SLICE_ARG(keep->kids[i]->name));
    size_t first = keep || p->loop_start == SIZE_MAX ? p->scope_start : p->loop_start;
    size_t count = p->variable_count - first;
    c->keep_names = arena_alloc(p->arena, (count + 1) * sizeof *c->keep_names);
    c->keep_regs = arena_alloc(p->arena, (count + 1) * sizeof *c->keep_regs);
    for (size_t i = first; i < p->variable_count; i++) {
        if (!is_kept(keep, p->variables[i].name))
            continue;
        c->keep_names[c->keep_count] = p->variables[i].name;
        c->keep_regs[c->keep_count++] = p->variables[i].reg;
    }
    return OK;
}

enum errc plan_collect(struct planner *p, const struct ast *n)
{
    const struct ast *keys = n->kids[0], *aggregates = n->kids[1], *into = n->kids[2];
    const struct ast *keep = n->kids[3], *count = n->kids[4];
    struct collect *c = ARENA_NEW(p->arena, struct collect);
    struct expr **exprs = plan_expr_list(p, keys->count);
    enum errc rc = OK;

    c->count_reg = c->into_reg = NO_REG;
    c->regs = arena_alloc(p->arena, (keys->count + 1) * sizeof *c->regs);
    TRY(read_method(p, n->count > 5 ? n->kids[5] : NULL, &c->is_hash));
    for (uint32_t i = 0; i < keys->count; i++)
        TRY(plan_expr(p, keys->kids[i]->kids[1], &exprs[i]));
    TRY(plan_aggregates(p, aggregates, &c->aggregates));
    c->aggregate_count = aggregates->count;
    if (into)
        TRY(plan_into(p, into, keep, c));
    struct node *node = plan_node(p, NODE_COLLECT);
    node->exprs = exprs;
    node->expr_count = keys->count;
    node->collect = c;
    p->variable_count = p->scope_start;
    p->score_count = 0;
    if (p->loop_start != SIZE_MAX)
        p->loop_start = p->scope_start;
    for (uint32_t i = 0; i < keys->count; i++)
        TRY(plan_declare(p, keys->kids[i]->kids[0], &c->regs[i]));
    for (uint32_t i = 0; i < aggregates->count; i++)
        TRY(plan_declare(p, aggregates->kids[i]->kids[0], &c->aggregates[i].reg));
    if (into)
        TRY(plan_declare(p, into->kids[0], &c->into_reg));
    if (count)
        TRY(plan_declare(p, count, &c->count_reg));
out:
    return rc;
}
