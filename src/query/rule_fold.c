/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about constants. What a constant expression warns of or fails with belongs to
 * the rows that come there: such an expression stays. Large results stay uncomputed.
 */
#include "query/fn.h"
#include "query/planner.h"

enum { FOLDED_BYTES_MAX = 64 * KIB };

struct fold {
    struct planner *p;
    bool has_changed, has_warned;
};

static void note_warning(void *ctx, int num, const char *text)
{
    (void)num, (void)text;
    ((struct fold *)ctx)->has_warned = true;
}

static bool kids_are_constant(const struct expr *e)
{
    for (uint32_t i = 0; i < e->count; i++)
        if (e->kids[i] && e->kids[i]->kind != EXPR_CONST)
            return false;
    return true;
}

static bool may_be_computed(const struct expr *e)
{
    switch ((enum expr_kind)e->kind) {
    case EXPR_CALL:
        return (e->fn->flags & FN_PURE) && kids_are_constant(e);
    case EXPR_ATTR:
    case EXPR_INDEX:
    case EXPR_UNARY:
    case EXPR_BINARY:
    case EXPR_QUANTIFIED:
    case EXPR_ARRAY:
    case EXPR_OBJECT:
        return kids_are_constant(e);
    case EXPR_CONST:
    case EXPR_REG:
    case EXPR_TERNARY: /* chosen below */
    case EXPR_RANGE:   /* a loop counts it, and never builds it */
    case EXPR_EXPAND:
    case EXPR_ARRAY_TEST:
        return false;
    }
    return false;
}

static void compute(struct fold *f, struct expr **at)
{
    struct planner *p = f->p;
    struct expr_env env = {
        .collator = p->env->collator, .env = p->env->env, .warn = note_warning, .warn_ctx = f
    };
    struct arena *scratch = arena_child(p->arena);
    struct error own = { 0 };
    struct val v;

    f->has_warned = false;
    if (expr_eval(*at, NULL, scratch, &env, &v, &own) == OK && !f->has_warned &&
        val_size(v) <= FOLDED_BYTES_MAX) {
        *at = plan_const_expr(p, val_copy(p->arena, v));
        f->has_changed = true;
    }
    arena_free(scratch);
}

/* AND, OR and ?: whose first part is known are one of their parts. */
static struct expr *chosen(const struct expr *e)
{
    bool is_logic = e->kind == EXPR_BINARY && (e->op == AST_OP_AND || e->op == AST_OP_OR);

    if ((!is_logic && e->kind != EXPR_TERNARY) || !e->kids[0] || e->kids[0]->kind != EXPR_CONST)
        return NULL;
    bool holds = val_truth(e->kids[0]->val);
    if (is_logic)
        return e->kids[holds == (e->op == AST_OP_AND)];
    if (!holds)
        return e->kids[2];
    return e->kids[1] ? e->kids[1] : e->kids[0];
}

/* The first part decides which others are looked at. Depth is bounded by LIMIT_AQL_NESTING. */
static void fold(struct fold *f, struct expr **at)
{
    struct expr *e = *at;

    if (e->count && e->kids[0])
        fold(f, &e->kids[0]);
    struct expr *part = chosen(e);
    if (part) {
        *at = part;
        f->has_changed = true;
        fold(f, at);
        return;
    }
    for (uint32_t i = 1; i < e->count; i++)
        if (e->kids[i])
            fold(f, &e->kids[i]);
    if (may_be_computed(e))
        compute(f, at);
    else
        f->has_changed |= plan_sort_in(f->p, e);
}

static void visit(struct expr **e, void *ctx)
{
    fold(ctx, e);
}

static enum errc simplify(struct planner *p, struct node **last, bool *changed)
{
    struct fold f = { .p = p };

    for (struct node *n = *last; n; n = n->input)
        node_each_expr(n, visit, &f);
    *changed = f.has_changed;
    return OK;
}

/* A FILTER that every row passes. */
static enum errc drop_filters(struct planner *p, struct node **last, bool *changed)
{
    (void)p;
    for (struct node **at = last; *at;) {
        struct node *n = *at;
        bool is_idle =
            n->kind == NODE_FILTER && n->expr->kind == EXPR_CONST && val_truth(n->expr->val);
        *changed |= is_idle;
        if (is_idle)
            *at = n->input;
        else
            at = &n->input;
    }
    return OK;
}

const struct rule rules_fold[] = {
    { "simplify-conditions", simplify,
      "What is constant is computed once, before the query runs." },
    { "remove-unnecessary-filters", drop_filters, "A FILTER that every row passes is left out." },
    { 0 },
};
