/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "RETURN expression" for one document at a time: a tree that is looked through, then the planner's
 * expression with @doc in a register. There is no catalog and no transaction behind it, so nothing
 * that would look for one may be in the tree: the only name is CURRENT, and no function reads.
 */
#include "query/computed.h"

#include "base/env.h"
#include "query/fn.h"
#include "query/planner.h"

enum { TREE_BYTES_MAX = 16 * MIB };

/* @doc by a name that no text can have: a name in the tree is refused unless it is CURRENT. */
static const char doc_name[] = "@doc";

struct program {
    struct arena *arena; /* owned; everything below */
    const struct expr *expr;
    uint32_t reg_count, doc_reg;
};

/* ---- what may be in the tree ---- */

struct look {
    struct error *err;
    bool sees_current;
};

static enum errc look_at(struct look *l, struct ast *n);

static enum errc look_at_kids(struct look *l, const struct ast *n)
{
    enum errc rc = OK;

    for (uint32_t i = 0; rc == OK && i < n->count; i++)
        if (n->kids[i])
            rc = look_at(l, n->kids[i]);
    return rc;
}

static enum errc look_inside(struct look *l, struct ast *n, bool sees_current)
{
    bool outer = l->sees_current;

    if (!n)
        return OK;
    l->sees_current = sees_current;
    enum errc rc = look_at(l, n);
    l->sees_current = outer;
    return rc;
}

/* Filter and projection see CURRENT. */
static enum errc look_at_expansion(struct look *l, const struct ast *n)
{
    enum errc rc = OK;

    for (uint32_t i = 0; rc == OK && i < n->count; i++) {
        bool is_inner = n->kind == AST_EXPAND ? i == 1 || i == 4 : i == 2;
        rc = look_inside(l, n->kids[i], is_inner || l->sees_current);
    }
    return rc;
}

static enum errc look_at_call(struct look *l, const struct ast *n)
{
    const struct fn *fn = fn_find(n->name);

    if (!fn)
        return fail(l->err, ERR_INVALID, "there is no function '%.*s' for computed values",
                    SLICE_ARG(n->name));
    if (fn->flags & (FN_READS | FN_CALLS | FN_SESSION))
        return fail(l->err, ERR_INVALID, "the function '%s' is forbidden in computed values",
                    fn->name);
    return look_at_kids(l, n);
}

static enum errc refuse(struct look *l, const struct ast *n)
{
    return fail(l->err, ERR_INVALID,
                "'%s' is forbidden in computed values: they are one RETURN of an expression",
                ast_kind_name(ast_kind(n)));
}

static enum errc look_at_bind(struct look *l, struct ast *n)
{
    if (n->kind != AST_BIND || !slice_is(n->name, "doc"))
        return fail(l->err, ERR_INVALID,
                    "invalid bind parameter '%.*s': computed values have @doc only",
                    SLICE_ARG(n->name));
    n->kind = AST_NAME;
    n->name = slice_str(doc_name);
    return OK;
}

static enum errc look_at(struct look *l, struct ast *n)
{
    switch (ast_kind(n)) {
    case AST_NAME:
        if ((slice_is(n->name, "CURRENT") && l->sees_current) || n->name.ptr == doc_name)
            return OK;
        return fail(
            l->err, ERR_INVALID,
            "there is no variable '%.*s', and collections cannot be read in computed values",
            SLICE_ARG(n->name));
    case AST_BIND:
    case AST_BIND_COLLECTION:
    case AST_ATTR_BIND:
    case AST_FIELD_BIND:
        return look_at_bind(l, n);
    case AST_EXPAND:
    case AST_ARRAY_TEST:
        return look_at_expansion(l, n);
    case AST_CALL:
        return look_at_call(l, n);
    case AST_VALUE:
    case AST_ATTR:
    case AST_INDEX:
    case AST_ELEMENT:
    case AST_QUANTIFIER:
    case AST_UNARY:
    case AST_BINARY:
    case AST_QUANTIFIED:
    case AST_TERNARY:
    case AST_RANGE:
    case AST_ARRAY:
    case AST_OBJECT:
    case AST_FIELD:
    case AST_FIELD_COMPUTED:
        return look_at_kids(l, n);
    default:
        return refuse(l, n);
    }
}

/* The expression of the only operation. */
static enum errc find_expression(struct ast *query, struct ast **out, struct error *err)
{
    struct look l = { .err = err };
    const struct ast *first = query->kids[0];

    if (first->kind != AST_RETURN)
        return refuse(&l, first);
    if (query->count > 1)
        return refuse(&l, query->kids[1]);
    if (first->flags & AST_IS_DISTINCT)
        return fail(err, ERR_INVALID, "RETURN DISTINCT is forbidden in computed values");
    *out = first->kids[0];
    return look_at(&l, *out);
}

/* ---- compiling ---- */

static enum errc make_expression(struct program *p, const struct ast *n, struct slice text,
                                 const struct planner_env *env, struct error *err)
{
    struct expr *e = NULL;
    struct planner planner = { .arena = p->arena,
                               .text = text,
                               .env = env,
                               .err = err,
                               .plan = ARENA_NEW(p->arena, struct plan),
                               .loop_start = SIZE_MAX,
                               .current_reg = NO_REG,
                               .element_reg = NO_REG };

    p->doc_reg = plan_reg(&planner);
    plan_declare_as(&planner, slice_str(doc_name), p->doc_reg);
    enum errc rc = plan_expr(&planner, n, &e);
    if (rc != OK)
        return rc;
    if (planner.last)
        BUG("an expression of a computed value became an operation");
    if (planner.plan->reg_count > PLAN_REGS_MAX)
        return fail(err, ERR_INVALID, "more than %d expansions", PLAN_REGS_MAX);
    p->expr = e;
    p->reg_count = planner.plan->reg_count;
    return OK;
}

static void release(void *program)
{
    struct program *p = program;

    if (!p)
        return;
    arena_free(p->arena);
    mem_free(p);
}

static enum errc compile(struct slice text, const struct collator *collator, const struct env *env,
                         void **program, struct error *err)
{
    enum errc rc = OK;
    struct program *p = mem_zalloc(sizeof *p);
    struct planner_env planner_env = { .collator = collator, .env = env };
    struct ast *query, *expression = NULL;

    p->arena = arena_new(TREE_BYTES_MAX);
    TRY(aql_parse(text, p->arena, &query, err));
    TRY(find_expression(query, &expression, err));
    TRY(make_expression(p, expression, text, &planner_env, err));
    *program = p;
    p = NULL;
out:
    release(p);
    if (rc != OK && err) { /* whatever it is to a query, here it is a parameter that is no good */
        err->code = ERR_INVALID;
        err->num = err->http = 0;
    }
    return rc == OK ? OK : ERR_INVALID;
}

/* ---- running ---- */

static enum errc run(const void *program, const struct compute_call *call, struct val *out,
                     struct error *err)
{
    const struct program *p = program;
    struct expr_env env = { .collator = call->collator,
                            .env = call->env,
                            .now_us = env_wall_us(call->env),
                            .warn = call->warn,
                            .warn_ctx = call->ctx };
    struct val *row = arena_zalloc(call->arena, p->reg_count * sizeof *row);

    row[p->doc_reg] = call->doc;
    return expr_eval(p->expr, row, call->arena, &env, out, err);
}

const struct compute query_compute = { compile, run, release };
