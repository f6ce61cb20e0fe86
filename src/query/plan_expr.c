/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions: names become registers, bind parameters constants. */
#include "query/call.h"
#include "query/fn.h"
#include "query/planner.h"
#include "store/txn.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { SORTED_IN_FROM = 16 };

enum errc plan_fail(struct planner *p, const struct ast *at, int num, const char *fmt, ...)
{
    char text[200];
    va_list args;
    struct ast_position pos = ast_position(p->text, at->pos);

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return fail_num(p->err, num, "%s at position %u:%u", text, pos.line, pos.column);
}

enum errc plan_not_implemented(struct planner *p, const struct ast *at, const char *what)
{
    return plan_fail(p, at, 9, "not implemented: %s", what);
}

uint32_t plan_reg(struct planner *p)
{
    return p->plan->reg_count++;
}

struct expr *plan_new_expr(struct planner *p, enum expr_kind kind, uint32_t count)
{
    struct expr *e = ARENA_NEW(p->arena, struct expr);

    e->kind = (uint8_t)kind;
    e->count = count;
    e->reg = e->reg2 = NO_REG;
    e->quantifier = NO_QUANTIFIER;
    e->val = val_null;
    if (count)
        e->kids = arena_zalloc(p->arena, count * sizeof(*e->kids));
    return e;
}

struct expr *plan_reg_expr(struct planner *p, uint32_t reg)
{
    struct expr *e = plan_new_expr(p, EXPR_REG, 0);

    e->reg = reg;
    return e;
}

struct expr *plan_const_expr(struct planner *p, struct val v)
{
    struct expr *e = plan_new_expr(p, EXPR_CONST, 0);

    e->val = v;
    return e;
}

struct expr *plan_attr_expr(struct planner *p, struct expr *object, struct slice name)
{
    struct expr *e = plan_new_expr(p, EXPR_ATTR, 1);

    e->kids[0] = object;
    e->name = name;
    e->hash = val_name_hash(name);
    return e;
}

struct expr *plan_binary_expr(struct planner *p, enum ast_op op, struct expr *a, struct expr *b)
{
    struct expr *e = plan_new_expr(p, EXPR_BINARY, 2);

    e->op = (uint8_t)op;
    e->kids[0] = a;
    e->kids[1] = b;
    return e;
}

struct expr *plan_not_expr(struct planner *p, struct expr *e)
{
    struct expr *not_e = plan_new_expr(p, EXPR_UNARY, 1);

    not_e->op = AST_OP_NOT;
    not_e->kids[0] = e;
    return not_e;
}

struct expr *plan_call_expr(struct planner *p, const char *fn, struct expr *arg)
{
    struct expr *e = plan_new_expr(p, EXPR_CALL, 1);

    e->fn = fn_find(slice_str(fn));
    if (!e->fn)
        BUG("no function %s", fn);
    e->name = slice_str(e->fn->name);
    e->kids[0] = arg;
    return e;
}

bool plan_uses_reg(const struct expr *e, uint32_t reg)
{
    if (!e)
        return false;
    if (e->kind == EXPR_REG && e->reg == reg)
        return true;
    for (uint32_t i = 0; i < e->count; i++)
        if (plan_uses_reg(e->kids[i], reg))
            return true;
    return false;
}

/* ---- names ---- */

static bool find_bind(struct planner *p, struct slice name, struct val *out)
{
    for (size_t i = 0; i < val_count(p->bind); i++) {
        if (slice_eq(val_name_at(p->bind, i), name)) {
            p->bind_used[i] = true;
            *out = val_at(p->bind, i);
            return true;
        }
    }
    return false;
}

enum errc plan_bind_value(struct planner *p, const struct ast *n, struct val *out)
{
    if (find_bind(p, n->name, out))
        return OK;
    return plan_fail(p, n, 1551, "no value specified for declared bind parameter '%.*s'",
                     SLICE_ARG(n->name));
}

enum errc plan_collection(struct planner *p, const struct ast *n, const struct collection **out)
{
    struct slice name = n->name;

    if (n->kind == AST_BIND_COLLECTION || n->kind == AST_BIND) {
        struct val v;
        enum errc rc = plan_bind_value(p, n, &v);
        if (rc != OK)
            return rc;
        if (val_type(v) != VAL_STRING)
            return plan_fail(p, n, 1553, "bind parameter '%.*s' must be a collection's name",
                             SLICE_ARG(n->name));
        name = val_string(v);
    }
    *out = catalog_collection(txn_catalog(p->env->txn), p->env->db_id, name);
    if (*out)
        return OK;
    return plan_fail(p, n, 1203, "collection or view not found: %.*s", SLICE_ARG(name));
}

struct slice plan_reg_name(const struct planner *p, uint32_t reg)
{
    for (uint32_t i = p->plan->variable_count; i-- > 0;)
        if (p->plan->variables[i].reg == reg)
            return p->plan->variables[i].name;
    return slice_str(arena_printf(p->arena, "#%u", reg));
}

const struct variable *plan_variable(const struct planner *p, struct slice name)
{
    for (size_t i = p->variable_count; i-- > 0;)
        if (slice_eq(p->variables[i].name, name))
            return &p->variables[i];
    return NULL;
}

void plan_name_reg(struct planner *p, struct slice name, uint32_t reg)
{
    struct plan *plan = p->plan;

    if (plan->variable_count == p->known_cap) {
        size_t cap = p->known_cap ? p->known_cap * 2 : 16;
        struct plan_variable *more = arena_alloc(p->arena, cap * sizeof *more);
        if (plan->variable_count)
            memcpy(more, plan->variables, plan->variable_count * sizeof *more);
        plan->variables = more;
        p->known_cap = cap;
    }
    plan->variables[plan->variable_count++] = (struct plan_variable){ reg, name };
}

void plan_declare_as(struct planner *p, struct slice name, uint32_t reg)
{
    if (p->variable_count == p->variable_cap) {
        size_t cap = p->variable_cap ? p->variable_cap * 2 : 16;
        struct variable *more = arena_alloc(p->arena, cap * sizeof *more);
        if (p->variable_count)
            memcpy(more, p->variables, p->variable_count * sizeof *more);
        p->variables = more;
        p->variable_cap = cap;
    }
    p->variables[p->variable_count++] = (struct variable){ name, reg };
    plan_name_reg(p, name, reg);
}

enum errc plan_declare_new(struct planner *p, const struct ast *var, uint32_t reg)
{
    if (plan_variable(p, var->name))
        return plan_fail(p, var, 1511, "variable '%.*s' is assigned multiple times",
                         SLICE_ARG(var->name));
    plan_declare_as(p, var->name, reg);
    return OK;
}

enum errc plan_declare(struct planner *p, const struct ast *var, uint32_t *reg)
{
    *reg = plan_reg(p);
    return plan_declare_new(p, var, *reg);
}

static enum errc name_expr(struct planner *p, const struct ast *n, struct expr **out)
{
    const struct variable *v = plan_variable(p, n->name);

    if (v) {
        *out = plan_reg_expr(p, v->reg);
        return OK;
    }
    if (slice_is(n->name, "CURRENT") && p->current_reg != NO_REG) {
        *out = plan_reg_expr(p, p->current_reg);
        return OK;
    }
    if (catalog_collection(txn_catalog(p->env->txn), p->env->db_id, n->name))
        return plan_lift_collection(p, n, out);
    return plan_fail(p, n, 1512, "unknown variable '%.*s'", SLICE_ARG(n->name));
}

enum errc plan_attr_binds(struct planner *p, const struct ast *n, struct expr **out)
{
    struct val v;
    enum errc rc = plan_bind_value(p, n, &v);

    if (rc == OK)
        rc = plan_expr(p, n->kids[0], out);
    if (rc != OK)
        return rc;
    size_t count = val_type(v) == VAL_ARRAY ? val_count(v) : 1;
    for (size_t i = 0; i < count; i++) {
        struct val name = val_type(v) == VAL_ARRAY ? val_at(v, i) : v;
        if (val_type(name) != VAL_STRING)
            return plan_fail(p, n, 1553, "bind parameter '%.*s' must be an attribute name",
                             SLICE_ARG(n->name));
        *out = plan_attr_expr(p, *out, val_string(name));
    }
    return OK;
}

/* ---- composite ---- */

static enum errc kids_into(struct planner *p, const struct ast *n, struct expr *e, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!n->kids[i])
            continue;
        enum errc rc = plan_expr(p, n->kids[i], &e->kids[i]);
        if (rc != OK)
            return rc;
    }
    return OK;
}

static enum errc plain(struct planner *p, const struct ast *n, enum expr_kind kind,
                       struct expr **out)
{
    struct expr *e = plan_new_expr(p, kind, n->count);

    e->op = n->op;
    *out = e;
    return kids_into(p, n, e, n->count);
}

static enum errc quantifier_into(struct planner *p, const struct ast *q, struct expr *e,
                                 uint32_t kid)
{
    if (!q)
        return OK;
    e->quantifier = q->op;
    return q->count && q->kids[0] ? plan_expr(p, q->kids[0], &e->kids[kid]) : OK;
}

static enum errc object_expr(struct planner *p, const struct ast *n, struct expr **out)
{
    struct expr *e = plan_new_expr(p, EXPR_OBJECT, n->count * 2);
    enum errc rc = OK;

    for (uint32_t i = 0; i < n->count; i++) {
        const struct ast *f = n->kids[i];
        struct expr **name = &e->kids[2 * i];
        struct val v;
        if (f->kind == AST_FIELD_COMPUTED) {
            TRY(plan_expr(p, f->kids[0], name));
        } else if (f->kind == AST_FIELD_BIND) {
            TRY(plan_bind_value(p, f, &v));
            if (val_type(v) != VAL_STRING)
                return plan_fail(p, f, 1553, "bind parameter '%.*s' must be an attribute name",
                                 SLICE_ARG(f->name));
            *name = plan_const_expr(p, v);
        } else {
            *name = plan_const_expr(p, val_new_string(p->arena, f->name));
        }
        TRY(plan_expr(p, f->kids[f->count - 1], &e->kids[2 * i + 1]));
    }
    *out = e;
out:
    return rc;
}

/* What sees CURRENT, or the element of a tail. */
static enum errc inline_expr(struct planner *p, const struct ast *n, uint32_t current,
                             uint32_t element, struct expr **out)
{
    uint32_t outer_current = p->current_reg, outer_element = p->element_reg;

    if (!n)
        return OK;
    p->current_reg = current;
    p->element_reg = element;
    enum errc rc = plan_expr(p, n, out);
    p->current_reg = outer_current;
    p->element_reg = outer_element;
    return rc;
}

static enum errc expand_expr(struct planner *p, const struct ast *n, struct expr **out)
{
    struct expr *e = plan_new_expr(p, EXPR_EXPAND, 6);
    enum errc rc = OK;

    for (int i = 1; i < 6; i++)
        if (plan_lifts(p, n->kids[i]))
            return plan_lift_expand(p, n, out);
    e->op = n->op;
    e->reg = plan_reg(p);
    e->reg2 = plan_reg(p);
    *out = e;
    TRY(plan_expr(p, n->kids[0], &e->kids[0]));
    TRY(inline_expr(p, n->kids[1], e->reg, p->element_reg, &e->kids[1]));
    if (n->kids[2])
        TRY(plan_expr(p, n->kids[2], &e->kids[2]));
    if (n->kids[3])
        TRY(plan_expr(p, n->kids[3], &e->kids[3]));
    TRY(inline_expr(p, n->kids[4], e->reg, p->element_reg, &e->kids[4]));
    TRY(inline_expr(p, n->kids[5], p->current_reg, e->reg2, &e->kids[5]));
out:
    return rc;
}

static enum errc array_test_expr(struct planner *p, const struct ast *n, struct expr **out)
{
    struct expr *e = plan_new_expr(p, EXPR_ARRAY_TEST, 3);
    enum errc rc = OK;

    if (plan_lifts(p, n->kids[2]))
        return plan_lift_array_test(p, n, out);
    e->op = n->op;
    e->reg = plan_reg(p);
    *out = e;
    TRY(plan_expr(p, n->kids[0], &e->kids[0]));
    TRY(inline_expr(p, n->kids[2], e->reg, p->element_reg, &e->kids[1]));
    TRY(quantifier_into(p, n->kids[1], e, 2));
out:
    return rc;
}

static enum errc quantified_expr(struct planner *p, const struct ast *n, struct expr **out)
{
    struct expr *e = plan_new_expr(p, EXPR_QUANTIFIED, 3);
    enum errc rc = kids_into(p, n, e, 2);

    e->op = n->op;
    *out = e;
    return rc == OK ? quantifier_into(p, n->kids[2], e, 2) : rc;
}

/* ---- calls ---- */

/* LENGTH and COUNT of a collection: counted, not read. */
static enum errc count_collection(struct planner *p, const struct ast *n, struct expr **out,
                                  bool *is_one)
{
    const struct collection *c;

    *is_one = (slice_is(n->name, "LENGTH") || slice_is(n->name, "COUNT")) && n->count == 1 &&
              plan_names_collection(p, n->kids[0]);
    if (!*is_one)
        return OK;
    enum errc rc = plan_collection(p, n->kids[0], &c);
    if (rc == OK)
        rc = plan_check_access(p, n, c);
    if (rc == OK)
        *out = plan_call_expr(p, "COLLECTION_COUNT",
                              plan_const_expr(p, val_new_string(p->arena, c->name)));
    return rc;
}

static enum errc call_expr(struct planner *p, const struct ast *n, struct expr **out)
{
    const struct batch_call *call = plan_find_call(p, n->name);
    bool is_count;
    enum errc rc;

    for (size_t i = 0; i < p->score_count; i++) {
        if (ast_equal(p->scores[i].call, n)) {
            *out = plan_reg_expr(p, p->scores[i].reg);
            return OK;
        }
    }
    if (call)
        return plan_lift_call(p, n, call, out);
    rc = count_collection(p, n, out, &is_count);
    if (rc != OK || is_count)
        return rc;
    const struct fn *fn = fn_find(n->name);
    if (!fn && (slice_is(n->name, "INFER") || slice_is(n->name, "EMBED")))
        return plan_fail(p, n, 9, "not implemented: %.*s without a model layer",
                         SLICE_ARG(n->name));
    if (!fn)
        return plan_fail(p, n, 1540, "unknown function '%.*s()'", SLICE_ARG(n->name));
    if ((int)n->count < fn->min_args || (fn->max_args >= 0 && (int)n->count > fn->max_args))
        return plan_fail(p, n, 1541,
                         "invalid number of arguments for function '%s()', expected "
                         "number of arguments: minimum: %d, maximum: %d",
                         fn->name, fn->min_args, fn->max_args < 0 ? 65536 : fn->max_args);
    struct expr *e = plan_new_expr(p, EXPR_CALL, n->count);
    e->fn = fn;
    e->name = slice_str(fn->name);
    *out = e;
    if (!(fn->flags & FN_NAMES) || !n->count || !plan_names_collection(p, n->kids[0]))
        return kids_into(p, n, e, n->count);
    const struct collection *c = NULL;
    rc = plan_collection(p, n->kids[0], &c);
    if (rc != OK || !c)
        return rc;
    e->kids[0] = plan_const_expr(p, val_new_string(p->arena, c->name));
    for (uint32_t i = 1; rc == OK && i < n->count; i++)
        rc = plan_expr(p, n->kids[i], &e->kids[i]);
    return rc;
}

/* ---- operators ---- */

static enum errc ternary_expr(struct planner *p, const struct ast *n, struct expr **out)
{
    struct expr *e = plan_new_expr(p, EXPR_TERNARY, 3);

    if (plan_lifts(p, n->kids[1]) || plan_lifts(p, n->kids[2]))
        return plan_lift_ternary(p, n, out);
    *out = e;
    return kids_into(p, n, e, 3);
}

static int compare_bytes(const void *a, const void *b)
{
    return val_compare(*(const struct val *)a, *(const struct val *)b, NULL);
}

bool plan_sort_in(struct planner *p, struct expr *e)
{
    bool is_in = e->kind == EXPR_BINARY && (e->op == AST_OP_IN || e->op == AST_OP_NOT_IN);

    if (!is_in || e->quantifier == SORTED_IN || e->kids[1]->kind != EXPR_CONST ||
        val_type(e->kids[1]->val) != VAL_ARRAY || val_count(e->kids[1]->val) < SORTED_IN_FROM)
        return false;
    size_t count = val_count(e->kids[1]->val);
    struct val *items = arena_alloc(p->arena, count * sizeof *items);
    for (size_t i = 0; i < count; i++)
        items[i] = val_at(e->kids[1]->val, i);
    qsort(items, count, sizeof *items, compare_bytes);
    e->kids[1]->val = val_new_array(p->arena, items, count);
    e->quantifier = SORTED_IN;
    return true;
}

static enum errc binary_expr(struct planner *p, const struct ast *n, struct expr **out)
{
    bool is_logic = n->op == AST_OP_AND || n->op == AST_OP_OR;

    if (is_logic && plan_lifts(p, n->kids[1]))
        return plan_lift_logic(p, n, out);
    enum errc rc = plain(p, n, EXPR_BINARY, out);
    if (rc == OK)
        plan_sort_in(p, *out);
    return rc;
}

enum errc plan_expr(struct planner *p, const struct ast *n, struct expr **out)
{
    struct val v;
    enum errc rc;

    switch ((enum ast_kind)n->kind) {
    case AST_VALUE:
        *out = plan_const_expr(p, n->val);
        return OK;
    case AST_NAME:
        return name_expr(p, n, out);
    case AST_BIND:
        rc = plan_bind_value(p, n, &v);
        if (rc == OK)
            *out = plan_const_expr(p, v);
        return rc;
    case AST_BIND_COLLECTION:
        return plan_lift_collection(p, n, out);
    case AST_ATTR:
        rc = plan_expr(p, n->kids[0], out);
        if (rc == OK)
            *out = plan_attr_expr(p, *out, n->name);
        return rc;
    case AST_ATTR_BIND:
        return plan_attr_binds(p, n, out);
    case AST_INDEX:
        return plain(p, n, EXPR_INDEX, out);
    case AST_EXPAND:
        return expand_expr(p, n, out);
    case AST_ELEMENT:
        *out = plan_reg_expr(p, p->element_reg);
        return OK;
    case AST_ARRAY_TEST:
        return array_test_expr(p, n, out);
    case AST_CALL:
        return call_expr(p, n, out);
    case AST_UNARY:
        return plain(p, n, EXPR_UNARY, out);
    case AST_BINARY:
        return binary_expr(p, n, out);
    case AST_QUANTIFIED:
        return quantified_expr(p, n, out);
    case AST_TERNARY:
        return ternary_expr(p, n, out);
    case AST_RANGE:
        return plain(p, n, EXPR_RANGE, out);
    case AST_ARRAY:
        return plain(p, n, EXPR_ARRAY, out);
    case AST_OBJECT:
        return object_expr(p, n, out);
    case AST_SUBQUERY:
        return plan_lift_subquery(p, n, out);
    default:
        BUG("%s is not an expression", ast_kind_name((enum ast_kind)n->kind));
    }
}

bool plan_is_constant(const struct expr *e)
{
    if (e->kind == EXPR_REG || e->kind == EXPR_EXPAND || e->kind == EXPR_ARRAY_TEST ||
        (e->kind == EXPR_CALL && !(e->fn->flags & FN_PURE)))
        return false;
    for (uint32_t i = 0; i < e->count; i++)
        if (e->kids[i] && !plan_is_constant(e->kids[i]))
            return false;
    return true;
}

enum errc plan_constant(struct planner *p, const struct ast *n, struct val *out)
{
    struct expr *e;
    struct expr_env env = { .collator = p->env->collator, .env = p->env->env };
    struct node *last = p->last;
    enum errc rc = plan_expr(p, n, &e);

    if (rc != OK)
        return rc;
    if (p->last != last || !plan_is_constant(e))
        return plan_fail(p, n, 1575, "this value must be known when the query is planned");
    return expr_eval(e, NULL, p->arena, &env, out, p->err);
}
