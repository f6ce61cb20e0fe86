/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subqueries and calls that answer later are lifted out of expressions into
 * nodes in front, so that an expression never waits.
 *
 * What stands in a branch of ?: or behind AND or OR keeps its meaning: the
 * condition is computed first, into a register, and guards the lifted node,
 * which gives null for the rows that do not come there.
 *
 * array[* FILTER f LIMIT o, n RETURN p] with something to lift in it becomes the
 * subquery (FOR CURRENT IN array FILTER f LIMIT o, n RETURN p).
 */
#include "query/call.h"
#include "query/fn.h"
#include "query/planner.h"

const struct batch_call *plan_find_call(const struct planner *p, struct slice name)
{
    for (size_t i = 0; p->env->calls && p->env->calls[i]; i++)
        if (slice_is(name, p->env->calls[i]->name))
            return p->env->calls[i];
    return NULL;
}

bool plan_lifts(const struct planner *p, const struct ast *n)
{
    if (!n)
        return false;
    if (n->kind == AST_SUBQUERY || (n->kind == AST_CALL && plan_find_call(p, n->name)))
        return true;
    for (uint32_t i = 0; i < n->count; i++)
        if (plan_lifts(p, n->kids[i]))
            return true;
    return false;
}

/* ---- subqueries ---- */

static struct expr *subquery_node(struct planner *p, struct node *inner)
{
    struct node *node = plan_node(p, NODE_SUBQUERY);

    node->expr = p->guard;
    node->sub = inner;
    node->reg = plan_reg(p);
    return plan_reg_expr(p, node->reg);
}

enum errc plan_lift_subquery(struct planner *p, const struct ast *n, struct expr **out)
{
    struct inner in;

    plan_enter(p, &in);
    enum errc rc = plan_operations(p, n);
    struct node *inner = plan_leave(p, &in);
    if (rc == OK)
        *out = subquery_node(p, inner);
    return rc;
}

enum errc plan_lift_collection(struct planner *p, const struct ast *n, struct expr **out)
{
    const struct collection *c;
    struct inner in;
    enum errc rc = plan_collection(p, n, &c);

    if (rc == OK)
        rc = plan_check_access(p, n, c);
    if (rc != OK)
        return rc;
    plan_enter(p, &in);
    plan_node(p, NODE_SINGLETON);
    struct node *scan = plan_scan(p, NODE_ENUM_COLLECTION, c);
    plan_node(p, NODE_RETURN)->expr = plan_reg_expr(p, scan->reg);
    *out = subquery_node(p, plan_leave(p, &in));
    return OK;
}

/* ---- calls ---- */

enum errc plan_lift_call(struct planner *p, const struct ast *n, const struct batch_call *call,
                         struct expr **out)
{
    struct expr **args = plan_expr_list(p, n->count);

    if ((int)n->count < call->min_args || (int)n->count > call->max_args)
        return plan_fail(p, n, 1541, "%s takes %d to %d arguments, not %u", call->name,
                         call->min_args, call->max_args, n->count);
    for (uint32_t i = 0; i < n->count; i++) {
        enum errc rc = plan_expr(p, n->kids[i], &args[i]);
        if (rc != OK)
            return rc;
    }
    struct node *node = plan_node(p, NODE_CALL);
    node->expr = p->guard;
    node->call = slice_str(call->name);
    node->exprs = args;
    node->expr_count = n->count;
    node->reg = plan_reg(p);
    p->plan->has_calls = true;
    *out = plan_reg_expr(p, node->reg);
    return OK;
}

/* ---- branches ---- */

/* The condition's value in a register; not computed for rows that do not come here either. */
static struct expr *in_register(struct planner *p, struct expr *condition)
{
    struct node *n = plan_node(p, NODE_CALC);

    n->expr = p->guard ? plan_binary_expr(p, AST_OP_AND, p->guard, condition) : condition;
    n->reg = plan_reg(p);
    return plan_reg_expr(p, n->reg);
}

static enum errc branch(struct planner *p, const struct ast *n, struct expr *condition, bool wants,
                        struct expr **out)
{
    struct expr *before = p->guard;

    if (!n)
        return OK;
    if (!wants)
        condition = plan_not_expr(p, condition);
    p->guard = before ? plan_binary_expr(p, AST_OP_AND, before, condition) : condition;
    enum errc rc = plan_expr(p, n, out);
    p->guard = before;
    return rc;
}

enum errc plan_lift_ternary(struct planner *p, const struct ast *n, struct expr **out)
{
    struct expr *e = plan_new_expr(p, EXPR_TERNARY, 3);
    enum errc rc = plan_expr(p, n->kids[0], &e->kids[0]);

    *out = e;
    if (rc != OK)
        return rc;
    e->kids[0] = in_register(p, e->kids[0]);
    rc = branch(p, n->kids[1], e->kids[0], true, &e->kids[1]);
    return rc == OK ? branch(p, n->kids[2], e->kids[0], false, &e->kids[2]) : rc;
}

enum errc plan_lift_logic(struct planner *p, const struct ast *n, struct expr **out)
{
    struct expr *left, *right;
    enum errc rc = plan_expr(p, n->kids[0], &left);

    if (rc != OK)
        return rc;
    left = in_register(p, left);
    rc = branch(p, n->kids[1], left, n->op == AST_OP_AND, &right);
    *out = plan_binary_expr(p, (enum ast_op)n->op, left, rc == OK ? right : left);
    return rc;
}

/* ---- [* ...] and [? ...] ---- */

static struct expr *calc_node(struct planner *p, struct expr *value)
{
    struct node *calc = plan_node(p, NODE_CALC);

    calc->expr = value;
    calc->reg = plan_reg(p);
    return plan_reg_expr(p, calc->reg);
}

/* The elements of the array, flattened; what is no array has none. */
static enum errc elements(struct planner *p, const struct ast *n, struct expr **out)
{
    struct expr *e = plan_new_expr(p, EXPR_EXPAND, 6);

    e->op = n->op;
    e->reg = plan_reg(p);
    e->reg2 = plan_reg(p);
    *out = e;
    return plan_expr(p, n->kids[0], &e->kids[0]);
}

/* A pipeline over the elements begins; CURRENT is its loop's register. */
static void enter_elements(struct planner *p, struct inner *in, struct expr *array)
{
    plan_enter(p, in);
    plan_node(p, NODE_SINGLETON);
    struct node *loop = plan_node(p, NODE_ENUM_LIST);
    loop->expr = array;
    loop->reg = plan_reg(p);
    p->current_reg = loop->reg;
}

static enum errc inline_filter(struct planner *p, const struct ast *n)
{
    struct expr *e;

    if (!n)
        return OK;
    enum errc rc = plan_expr(p, n, &e);
    if (rc == OK)
        plan_node(p, NODE_FILTER)->expr = e;
    return rc;
}

/* Its numbers need not be constant here: the elements are sliced. */
static enum errc inline_limit(struct planner *p, const struct ast *n, struct expr **array)
{
    struct expr *cut = plan_new_expr(p, EXPR_EXPAND, 6);
    enum errc rc = OK;

    if (!n->kids[2] && !n->kids[3])
        return OK;
    cut->op = 1;
    cut->reg = plan_reg(p);
    cut->reg2 = plan_reg(p);
    cut->kids[0] = *array;
    for (int i = 2; rc == OK && i < 4; i++)
        if (n->kids[i])
            rc = plan_expr(p, n->kids[i], &cut->kids[i]);
    *array = cut;
    return rc;
}

/* The elements that pass the filter, then the part that LIMIT leaves of them. */
static enum errc filtered(struct planner *p, const struct ast *n, struct expr **out)
{
    struct inner in;
    uint32_t current = p->current_reg;
    enum errc rc = elements(p, n, out);

    if (rc != OK || !n->kids[1])
        return rc == OK ? inline_limit(p, n, out) : rc;
    enter_elements(p, &in, *out);
    uint32_t reg = p->current_reg;
    rc = inline_filter(p, n->kids[1]);
    plan_node(p, NODE_RETURN)->expr = plan_reg_expr(p, reg);
    struct node *inner = plan_leave(p, &in);
    p->current_reg = current;
    *out = subquery_node(p, inner);
    return rc == OK ? inline_limit(p, n, out) : rc;
}

/* What RETURN and the access behind the bracket make of one element. */
static enum errc projected(struct planner *p, const struct ast *n, struct expr **out)
{
    uint32_t element = p->element_reg;
    enum errc rc = OK;

    *out = plan_reg_expr(p, p->current_reg);
    if (n->kids[4])
        rc = plan_expr(p, n->kids[4], out);
    if (rc != OK || !n->kids[5])
        return rc;
    p->element_reg = calc_node(p, *out)->reg;
    rc = plan_expr(p, n->kids[5], out);
    p->element_reg = element;
    return rc;
}

enum errc plan_lift_expand(struct planner *p, const struct ast *n, struct expr **out)
{
    struct inner in;
    uint32_t current = p->current_reg;
    struct expr *array, *value;
    enum errc rc = filtered(p, n, &array);

    if (rc != OK)
        return rc;
    enter_elements(p, &in, array);
    rc = projected(p, n, &value);
    if (rc == OK)
        plan_node(p, NODE_RETURN)->expr = value;
    struct node *inner = plan_leave(p, &in);
    p->current_reg = current;
    *out = subquery_node(p, inner);
    return rc;
}

/* An array of what the filter says of each element. */
static enum errc tested(struct planner *p, const struct ast *n, struct expr *array,
                        struct expr **out)
{
    struct expr *flat = plan_new_expr(p, EXPR_EXPAND, 6), *value = NULL;
    uint32_t current = p->current_reg;
    struct inner in;

    flat->op = n->op;
    flat->reg = plan_reg(p);
    flat->reg2 = plan_reg(p);
    flat->kids[0] = array;
    enter_elements(p, &in, flat);
    enum errc rc = plan_expr(p, n->kids[2], &value);
    plan_node(p, NODE_RETURN)->expr = value;
    struct node *inner = plan_leave(p, &in);
    p->current_reg = current;
    *out = subquery_node(p, inner);
    return rc;
}

enum errc plan_lift_array_test(struct planner *p, const struct ast *n, struct expr **out)
{
    struct expr *e = plan_new_expr(p, EXPR_ARRAY_TEST, 3), *array;
    const struct ast *q = n->kids[1];
    enum errc rc = plan_expr(p, n->kids[0], &array);

    if (rc != OK)
        return rc;
    array = calc_node(p, array);
    rc = tested(p, n, array, &e->kids[0]);
    if (rc != OK)
        return rc;
    e->op = 1;
    e->reg = plan_reg(p);
    e->kids[1] = plan_reg_expr(p, e->reg);
    if (q)
        e->quantifier = q->op;
    if (q && q->count && q->kids[0])
        rc = plan_expr(p, q->kids[0], &e->kids[2]);
    *out = plan_binary_expr(p, AST_OP_AND, plan_call_expr(p, "IS_ARRAY", array), e);
    return rc;
}
