/* SPDX-License-Identifier: Apache-2.0 */
/* What a node reads and sets; the one place that knows all its expressions. */
#include "query/fn.h"
#include "query/planner.h"

static void each(struct expr **list, uint32_t count, expr_visitor visit, void *ctx)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i])
            visit(&list[i], ctx);
}

static void each_of_access(struct access *a, expr_visitor visit, void *ctx)
{
    each(a->equal, a->equal_count, visit, ctx);
    each(&a->in, 1, visit, ctx);
    each(&a->lower, 1, visit, ctx);
    each(&a->upper, 1, visit, ctx);
}

static void each_of_aggregates(struct aggregate *a, uint32_t count, expr_visitor visit, void *ctx)
{
    for (uint32_t i = 0; i < count; i++)
        each(&a[i].expr, 1, visit, ctx);
}

void node_each_expr(struct node *n, expr_visitor visit, void *ctx)
{
    each(&n->expr, 1, visit, ctx);
    each(n->exprs, n->expr_count, visit, ctx);
    for (uint32_t i = 0; n->scan && i < n->scan->access_count; i++)
        each_of_access(&n->scan->accesses[i], visit, ctx);
    if (n->scan)
        each(n->scan->filters, n->scan->filter_count, visit, ctx);
    if (n->walk)
        each(&n->walk->prune, 1, visit, ctx);
    if (n->collect) {
        each(&n->collect->into_expr, 1, visit, ctx);
        each_of_aggregates(n->collect->aggregates, n->collect->aggregate_count, visit, ctx);
    }
    if (n->window) {
        each(&n->window->lower, 1, visit, ctx);
        each(&n->window->upper, 1, visit, ctx);
        each_of_aggregates(n->window->aggregates, n->window->aggregate_count, visit, ctx);
    }
}

void node_each_reg(const struct node *n, reg_visitor visit, void *ctx)
{
    if (n->reg != NO_REG)
        visit(n->reg, ctx);
    if (n->reg2 != NO_REG)
        visit(n->reg2, ctx);
    for (uint32_t i = 0; n->scan && i < n->scan->projection_count; i++)
        visit(n->scan->projections[i].reg, ctx);
    if (n->walk && n->walk->path_reg != NO_REG)
        visit(n->walk->path_reg, ctx);
    if (n->walk && n->walk->prune_reg != NO_REG)
        visit(n->walk->prune_reg, ctx);
    for (uint32_t i = 0; n->window && i < n->window->aggregate_count; i++)
        visit(n->window->aggregates[i].reg, ctx);
    if (!n->collect)
        return;
    for (uint32_t i = 0; i < n->expr_count; i++)
        visit(n->collect->regs[i], ctx);
    for (uint32_t i = 0; i < n->collect->aggregate_count; i++)
        visit(n->collect->aggregates[i].reg, ctx);
    if (n->collect->count_reg != NO_REG)
        visit(n->collect->count_reg, ctx);
    if (n->collect->into_reg != NO_REG)
        visit(n->collect->into_reg, ctx);
}

void node_each_kept(const struct node *n, reg_visitor visit, void *ctx)
{
    for (uint32_t i = 0; n->collect && i < n->collect->keep_count; i++)
        visit(n->collect->keep_regs[i], ctx);
}

struct search {
    uint32_t reg;
    bool is_found;
};

static void search_expr(struct expr **e, void *ctx)
{
    struct search *s = ctx;

    s->is_found = s->is_found || plan_uses_reg(*e, s->reg);
}

static void search_reg(uint32_t reg, void *ctx)
{
    struct search *s = ctx;

    s->is_found = s->is_found || s->reg == reg;
}

bool node_uses_reg(struct node *n, uint32_t reg)
{
    struct search s = { reg, false };

    node_each_expr(n, search_expr, &s);
    node_each_kept(n, search_reg, &s);
    for (struct node *inner = n->sub; inner && !s.is_found; inner = inner->input)
        s.is_found = node_uses_reg(inner, reg);
    return s.is_found;
}

struct tally {
    uint32_t reg, count;
};

static void tally_uses(const struct expr *e, struct tally *t)
{
    t->count += e->kind == EXPR_REG && e->reg == t->reg;
    for (uint32_t i = 0; i < e->count; i++)
        if (e->kids[i])
            tally_uses(e->kids[i], t);
}

static void tally_expr(struct expr **e, void *ctx)
{
    tally_uses(*e, ctx);
}

static void tally_reg(uint32_t reg, void *ctx)
{
    struct tally *t = ctx;

    t->count += reg == t->reg;
}

uint32_t plan_reg_uses(struct node *last, uint32_t reg)
{
    struct tally t = { reg, 0 };

    for (struct node *n = last; n; n = n->input) {
        node_each_expr(n, tally_expr, &t);
        node_each_kept(n, tally_reg, &t);
        t.count += plan_reg_uses(n->sub, reg);
    }
    return t.count;
}

struct renaming {
    uint32_t from, to;
};

static void rename_in(struct expr *e, const struct renaming *r)
{
    if (e->kind == EXPR_REG && e->reg == r->from)
        e->reg = r->to;
    for (uint32_t i = 0; i < e->count; i++)
        if (e->kids[i])
            rename_in(e->kids[i], r);
}

static void rename_expr(struct expr **e, void *ctx)
{
    rename_in(*e, ctx);
}

void plan_rename_reg(struct node *last, const struct node *end, uint32_t from, uint32_t to)
{
    struct renaming r = { from, to };

    for (struct node *n = last; n != end; n = n->input) {
        node_each_expr(n, rename_expr, &r);
        for (uint32_t i = 0; n->collect && i < n->collect->keep_count; i++)
            if (n->collect->keep_regs[i] == from)
                n->collect->keep_regs[i] = to;
        if (n->sub)
            plan_rename_reg(n->sub, NULL, from, to);
    }
}

/* ---- what nodes and expressions are like ---- */

bool plan_is_steady(const struct expr *e)
{
    if (!e)
        return true;
    if (e->kind == EXPR_RANGE ||
        (e->kind == EXPR_CALL && !(e->fn->flags & (FN_PURE | FN_STABLE | FN_READS))))
        return false;
    for (uint32_t i = 0; i < e->count; i++)
        if (!plan_is_steady(e->kids[i]))
            return false;
    return true;
}

bool plan_writes(const struct node *last)
{
    for (const struct node *n = last; n; n = n->input)
        if (n->write || plan_writes(n->sub))
            return true;
    return false;
}

bool plan_has_one_row(const struct node *n)
{
    for (n = n->input; n; n = n->input)
        if (n->kind != NODE_SINGLETON && n->kind != NODE_CALC && n->kind != NODE_SUBQUERY &&
            n->kind != NODE_CALL)
            return false;
    return true;
}

/* ---- what must be kept ---- */

struct live {
    struct planner *p;
    bool *used; /* by register */
};

static void use_expr(const struct expr *e, bool *used)
{
    if (!e)
        return;
    if (e->kind == EXPR_REG)
        used[e->reg] = true;
    for (uint32_t i = 0; i < e->count; i++)
        use_expr(e->kids[i], used);
}

static void mark_expr(struct expr **e, void *ctx)
{
    use_expr(*e, ((struct live *)ctx)->used);
}

static void mark_reg(uint32_t reg, void *ctx)
{
    ((struct live *)ctx)->used[reg] = true;
}

static void mark_node(struct live *l, struct node *n)
{
    node_each_expr(n, mark_expr, l);
    node_each_kept(n, mark_reg, l);
    for (struct node *inner = n->sub; inner; inner = inner->input)
        mark_node(l, inner);
}

struct list {
    const struct live *live;
    struct node *n;
};

static void list_reg(uint32_t reg, void *ctx)
{
    const struct list *l = ctx;

    if (l->live->used[reg])
        l->n->live[l->n->live_count++] = reg;
}

static bool keeps_rows(const struct node *n)
{
    return n->kind == NODE_SORT || n->kind == NODE_WINDOW || n->write;
}

/* Those set below the node and used by what is marked so far. */
static void list_live(struct live *l, struct node *n)
{
    struct list list = { l, n };

    n->live = arena_alloc(l->p->arena, (l->p->plan->reg_count + 1) * sizeof *n->live);
    n->live_count = 0;
    for (const struct node *below = n->input; below; below = below->input)
        node_each_reg(below, list_reg, &list);
}

static void find_live(struct live *l, struct node *last)
{
    bool *outer = l->used;

    l->used = arena_zalloc(l->p->arena, l->p->plan->reg_count + 1);
    for (struct node *n = last; n; n = n->input) {
        if (n->write) {
            n->write->needs_old = l->used[n->reg];
            n->write->needs_new = l->used[n->reg2];
            mark_node(l, n); /* it works on the rows that it kept */
        }
        if (keeps_rows(n))
            list_live(l, n);
        mark_node(l, n);
        if (n->sub)
            find_live(l, n->sub);
    }
    l->used = outer;
}

void plan_find_live(struct planner *p)
{
    struct live l = { p, NULL };

    if (p->plan->root)
        find_live(&l, p->plan->root);
}
