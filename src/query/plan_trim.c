/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the finished plan does not need: a document of which only a few
 * attributes are used behind its scan is not copied whole, and a sort under a
 * LIMIT keeps only the rows that can come through.
 *
 * Registers belong to one variable each, so one walk over all expressions says
 * how every register is used.
 */
#include "query/planner.h"

struct use {
    bool is_whole;
    uint32_t count;
    struct attribute names[PROJECTION_MAX];
};

struct trim {
    struct use *uses; /* by register */
};

static void use_name(struct use *u, const struct expr *attr)
{
    for (uint32_t i = 0; i < u->count; i++)
        if (slice_eq(u->names[i].name, attr->name))
            return;
    if (u->count == PROJECTION_MAX)
        u->is_whole = true;
    else
        u->names[u->count++] = (struct attribute){ attr->name, attr->hash };
}

static void use_expr(struct trim *t, const struct expr *e, uint32_t except)
{
    if (!e)
        return;
    if (e->kind == EXPR_REG && e->reg != except)
        t->uses[e->reg].is_whole = true;
    if (e->kind == EXPR_ATTR && e->kids[0]->kind == EXPR_REG) {
        if (e->kids[0]->reg != except)
            use_name(&t->uses[e->kids[0]->reg], e);
        return;
    }
    for (uint32_t i = 0; i < e->count; i++)
        use_expr(t, e->kids[i], except);
}

static void use_exprs(struct trim *t, struct expr *const *e, uint32_t count, uint32_t except)
{
    for (uint32_t i = 0; i < count; i++)
        use_expr(t, e[i], except);
}

static void use_pipeline(struct trim *t, const struct node *n)
{
    for (; n; n = n->input) {
        use_expr(t, n->expr, NO_REG);
        use_exprs(t, n->exprs, n->expr_count, NO_REG);
        use_expr(t, n->lower, NO_REG);
        use_expr(t, n->upper, NO_REG);
        use_exprs(t, n->filters, n->filter_count, n->reg); /* they see the stored document */
        use_expr(t, n->into_expr, NO_REG);
        for (uint32_t i = 0; i < n->aggregate_count; i++)
            use_expr(t, n->aggregates[i].expr, NO_REG);
        for (uint32_t i = 0; i < n->keep_count; i++)
            t->uses[n->keep_regs[i]].is_whole = true;
        if (n->sub)
            use_pipeline(t, n->sub);
    }
}

static bool is_source(const struct node *n)
{
    return plan_is_scan(n) || n->kind == NODE_INDEX || n->kind == NODE_PRIMARY;
}

static void project(struct planner *p, struct node *n, const struct use *u)
{
    n->projects = !u->is_whole;
    if (!n->projects)
        return;
    n->projection_count = u->count;
    n->projection = arena_alloc(p->arena, (u->count + 1) * sizeof *n->projection);
    for (uint32_t i = 0; i < u->count; i++)
        n->projection[i] = u->names[i];
}

static void trim_pipeline(struct planner *p, const struct trim *t, struct node *last)
{
    for (struct node *n = last; n; n = n->input) {
        if (is_source(n))
            project(p, n, &t->uses[n->reg]);
        if (n->kind == NODE_LIMIT && n->limit >= 0 && !n->counts_full &&
            n->input->kind == NODE_SORT)
            n->input->limit = n->offset + n->limit;
        if (n->sub)
            trim_pipeline(p, t, n->sub);
    }
}

void plan_trim(struct planner *p)
{
    struct trim t = { arena_zalloc(p->arena, (p->plan->reg_count + 1) * sizeof *t.uses) };

    use_pipeline(&t, p->plan->root);
    trim_pipeline(p, &t, p->plan->root);
}
