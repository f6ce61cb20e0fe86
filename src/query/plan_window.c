/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WINDOW: by rows as they come, or by the distance of a value, for which the rows
 * are sorted by it. Bounds are known when the query is planned.
 */
#include "query/fn.h"
#include "query/planner.h"

static enum errc bad_bounds(struct planner *p, const struct ast *n, const char *what)
{
    return plan_fail(p, n, 10, "WINDOW bounds are invalid: %s", what);
}

/* ---- by rows ---- */

static bool read_rows(struct val v, int64_t *out)
{
    bool is_all = val_type(v) == VAL_STRING &&
                  (slice_is(val_string(v), "unbounded") || slice_is(val_string(v), "inf"));

    *out = is_all ? WINDOW_ALL : val_int(v);
    return is_all || !v.at || (val_type(v) == VAL_NUMBER && val_double(v) >= 0);
}

static enum errc bound_by_rows(struct planner *p, const struct ast *n, struct val preceding,
                               struct val following, struct window *w)
{
    if (read_rows(preceding, &w->preceding) && read_rows(following, &w->following))
        return OK;
    return bad_bounds(p, n, "numbers of rows are whole numbers from 0, or \"unbounded\"");
}

/* ---- by range ---- */

static struct expr *shift_number(struct planner *p, struct expr *value, enum ast_op op,
                                 struct val by)
{
    return by.at ? plan_binary_expr(p, op, value, plan_const_expr(p, by)) : value;
}

/* The function that moves a date by a duration gives milliseconds again. */
static struct expr *shift_date(struct planner *p, struct expr *value, const char *fn, struct val by)
{
    if (!by.at)
        return value;
    struct expr *shifted = plan_new_expr(p, EXPR_CALL, 2);
    shifted->fn = fn_find(slice_str(fn));
    shifted->name = slice_str(shifted->fn->name);
    shifted->kids[0] = value;
    shifted->kids[1] = plan_const_expr(p, by);
    return plan_call_expr(p, "DATE_TIMESTAMP", shifted);
}

static bool is_duration(struct planner *p, struct val v)
{
    struct expr_env env = { .collator = p->env->collator, .env = p->env->env };
    struct expr *e = shift_date(p, plan_const_expr(p, val_zero), "DATE_ADD", v);
    struct val out;

    return !v.at || (expr_eval(e, NULL, p->arena, &env, &out, p->err) == OK && !val_is_null(out));
}

static enum errc bound_by_range(struct planner *p, const struct ast *n, struct val preceding,
                                struct val following, struct expr *value, struct window *w)
{
    bool has_text = val_type(preceding) == VAL_STRING || val_type(following) == VAL_STRING;
    enum val_type want = has_text ? VAL_STRING : VAL_NUMBER;

    if ((preceding.at && val_type(preceding) != want) ||
        (following.at && val_type(following) != want))
        return bad_bounds(p, n, "a range is given by numbers, or by ISO 8601 durations");
    if (has_text && (!is_duration(p, preceding) || !is_duration(p, following)))
        return bad_bounds(p, n, "this is no ISO 8601 duration");
    w->is_date = has_text;
    w->lower = has_text ? shift_date(p, value, "DATE_SUBTRACT", preceding)
                        : shift_number(p, value, AST_OP_SUB, preceding);
    w->upper = has_text ? shift_date(p, value, "DATE_ADD", following)
                        : shift_number(p, value, AST_OP_ADD, following);
    return OK;
}

/* The rows come sorted by the value, in a register. */
static struct expr *sort_by(struct planner *p, struct expr *value)
{
    struct node *calc = plan_node(p, NODE_CALC);

    calc->expr = value;
    calc->reg = plan_reg(p);
    struct node *sort = plan_node(p, NODE_SORT);
    sort->exprs = plan_expr_list(p, 1);
    sort->exprs[0] = plan_reg_expr(p, calc->reg);
    sort->expr_count = 1;
    sort->descending = arena_zalloc(p->arena, 1);
    return plan_reg_expr(p, calc->reg);
}

static struct val bound(struct val bounds, const char *name)
{
    struct val v;

    return val_find(bounds, slice_str(name), &v) ? v : VAL_NONE;
}

static bool has_written(const struct planner *p)
{
    for (const struct node *n = p->last; n; n = n->input)
        if (n->write)
            return true;
    return false;
}

enum errc plan_window(struct planner *p, const struct ast *n)
{
    struct window *w = ARENA_NEW(p->arena, struct window);
    struct expr *value = NULL;
    struct val bounds;
    uint32_t reg = NO_REG;
    enum errc rc = OK;

    if (has_written(p))
        return plan_fail(p, n, 1595, "WINDOW cannot stand behind a write");
    TRY(plan_constant(p, n->kids[1], &bounds));
    struct val preceding = bound(bounds, "preceding"), following = bound(bounds, "following");
    if (n->kids[0]) {
        TRY(plan_expr(p, n->kids[0], &value));
        value = sort_by(p, value);
        reg = plan_reg(p);
        TRY(bound_by_range(p, n->kids[1], preceding, following, plan_reg_expr(p, reg), w));
    } else {
        TRY(bound_by_rows(p, n->kids[1], preceding, following, w));
    }
    TRY(plan_aggregates(p, n->kids[2], &w->aggregates));
    w->aggregate_count = n->kids[2]->count;
    struct node *node = plan_node(p, NODE_WINDOW);
    node->window = w;
    node->expr = value;
    node->reg = reg;
    for (uint32_t i = 0; i < w->aggregate_count; i++)
        TRY(plan_declare(p, n->kids[2]->kids[i]->kids[0], &w->aggregates[i].reg));
out:
    return rc;
}
