/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk over the tree. Depth is bounded by LIMIT_AQL_NESTING, which the parser
 * enforces, so recursion is safe on a worker's stack.
 */
#include "query/expr.h"
#include "base/collate.h"
#include "base/text_match.h"
#include "query/cast.h"
#include "query/fn.h"
#include <math.h>

enum { RANGE_MAX = 10000000 };

struct eval {
    struct val *row;
    struct arena *arena;
    const struct expr_env *env;
    struct error *err;
};

static enum errc eval(struct eval *c, const struct expr *e, struct val *out);

static enum errc eval_attr(struct eval *c, const struct expr *e, struct val *out);
static enum errc eval_binary(struct eval *c, const struct expr *e, struct val *out);

static inline struct val member(struct val object, const struct expr *e)
{
    struct val out;

    return val_find_hashed(object, e->name, e->hash, &out) ? out : val_null;
}

/* Most operands are of kinds that need no call, or one less. */
static inline enum errc operand(struct eval *c, const struct expr *e, struct val *out)
{
    switch (e->kind) {
    case EXPR_REG:
        *out = c->row[e->reg];
        return OK;
    case EXPR_CONST:
        *out = e->val;
        return OK;
    case EXPR_ATTR:
        if (e->kids[0]->kind != EXPR_REG)
            return eval_attr(c, e, out);
        *out = member(c->row[e->kids[0]->reg], e);
        return OK;
    case EXPR_BINARY:
        return eval_binary(c, e, out);
    default:
        return eval(c, e, out);
    }
}

/* What comparisons give is one of two values. */
static inline struct val truth_value(bool holds)
{
    return holds ? val_true : val_false;
}

static inline bool is_true(struct val v)
{
    return v.at == val_true.at || (v.at != val_false.at && val_truth(v));
}

static void warn(const struct expr_env *env, int num, const char *text)
{
    if (env->warn)
        env->warn(env->warn_ctx, num, text);
}

/* ---- arithmetic ---- */

static struct val number(struct arena *arena, double d)
{
    return isfinite(d) ? val_new_double(arena, d) : val_null;
}

static struct val add_ints(struct arena *arena, enum ast_op op, int64_t a, int64_t b)
{
    int64_t r;
    bool overflows = op == AST_OP_ADD   ? __builtin_add_overflow(a, b, &r)
                     : op == AST_OP_SUB ? __builtin_sub_overflow(a, b, &r)
                                        : __builtin_mul_overflow(a, b, &r);
    if (!overflows)
        return val_new_int(arena, r);
    double x = (double)a, y = (double)b;
    return number(arena, op == AST_OP_ADD ? x + y : op == AST_OP_SUB ? x - y : x * y);
}

static struct val divide(struct arena *arena, enum ast_op op, struct val a, struct val b,
                         const struct expr_env *env)
{
    double x = val_double(a), y = val_double(b);

    if (y == 0) {
        warn(env, 1562, "division by zero");
        return val_null;
    }
    if (op == AST_OP_DIV) {
        if (val_is_int(a) && val_is_int(b) && val_int(b) != -1 && val_int(a) % val_int(b) == 0)
            return val_new_int(arena, val_int(a) / val_int(b));
        return number(arena, x / y);
    }
    if (val_is_int(a) && val_is_int(b))
        return val_new_int(arena, val_int(b) == -1 ? 0 : val_int(a) % val_int(b));
    return number(arena, fmod(x, y));
}

static struct val arithmetic(enum ast_op op, struct val a, struct val b, struct arena *arena,
                             const struct expr_env *env)
{
    a = cast_number(arena, a);
    b = cast_number(arena, b);
    if (op == AST_OP_DIV || op == AST_OP_MOD)
        return divide(arena, op, a, b, env);
    if (val_is_int(a) && val_is_int(b))
        return add_ints(arena, op, val_int(a), val_int(b));
    double x = val_double(a), y = val_double(b);
    return number(arena, op == AST_OP_ADD ? x + y : op == AST_OP_SUB ? x - y : x * y);
}

/* ---- comparison ---- */

static bool contains(struct val array, struct val v)
{
    size_t count = val_count(array);

    for (size_t i = 0; i < count; i++)
        if (val_equal(val_at(array, i), v))
            return true;
    return false;
}

static inline bool compare(enum ast_op op, struct val a, struct val b, const struct expr_env *env)
{
    if (op == AST_OP_EQ)
        return val_equal(a, b);
    if (op == AST_OP_NE)
        return !val_equal(a, b);
    int order = val_compare(a, b, env->collator);
    switch (op) {
    case AST_OP_LT:
        return order < 0;
    case AST_OP_LE:
        return order <= 0;
    case AST_OP_GT:
        return order > 0;
    default:
        return order >= 0;
    }
}

/* What is not an array answers false to IN and to NOT IN, as in ArangoDB. */
static bool is_in(struct val v, struct val array, bool wants)
{
    return val_type(array) == VAL_ARRAY && contains(array, v) == wants;
}

static bool is_in_sorted(struct val v, struct val array)
{
    for (size_t low = 0, high = val_count(array); low < high;) {
        size_t middle = low + (high - low) / 2;
        int c = val_compare(val_at(array, middle), v, NULL);
        if (!c)
            return true;
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static enum errc match(enum ast_op op, struct val a, struct val b, struct arena *arena,
                       const struct expr_env *env, struct val *out, struct error *err)
{
    struct slice text = val_string(cast_string(arena, a));
    struct slice pattern = val_string(cast_string(arena, b));
    bool is_match = false;
    bool is_like = op == AST_OP_LIKE || op == AST_OP_NOT_LIKE;
    bool wants = op == AST_OP_LIKE || op == AST_OP_MATCH;

    if (is_like) {
        is_match = text_like(text, pattern, false);
    } else if (regex_test(pattern, text, false, &is_match, err) != OK) {
        warn(env, 1543, "invalid regex value");
        *out = val_null;
        return OK;
    }
    *out = val_new_bool(is_match == wants);
    return OK;
}

enum errc expr_binary(enum ast_op op, struct val a, struct val b, struct arena *arena,
                      const struct expr_env *env, struct val *out, struct error *err)
{
    switch (op) {
    case AST_OP_EQ:
    case AST_OP_NE:
    case AST_OP_LT:
    case AST_OP_LE:
    case AST_OP_GT:
    case AST_OP_GE:
        *out = val_new_bool(compare(op, a, b, env));
        return OK;
    case AST_OP_IN:
        *out = val_new_bool(is_in(a, b, true));
        return OK;
    case AST_OP_NOT_IN:
        *out = val_new_bool(is_in(a, b, false));
        return OK;
    case AST_OP_LIKE:
    case AST_OP_NOT_LIKE:
    case AST_OP_MATCH:
    case AST_OP_NOT_MATCH:
        return match(op, a, b, arena, env, out, err);
    case AST_OP_ADD:
    case AST_OP_SUB:
    case AST_OP_MUL:
    case AST_OP_DIV:
    case AST_OP_MOD:
        *out = arithmetic(op, a, b, arena, env);
        return OK;
    case AST_OP_OR:
        *out = val_truth(a) ? a : b;
        return OK;
    case AST_OP_AND:
        *out = val_truth(a) ? b : a;
        return OK;
    case AST_OP_NOT:
    case AST_OP_PLUS:
    case AST_OP_MINUS:
        break;
    }
    BUG("operator %d is not binary", op);
}

static enum errc eval_binary(struct eval *c, const struct expr *e, struct val *out)
{
    struct val a, b;
    enum errc rc = operand(c, e->kids[0], &a);

    if (rc != OK)
        return rc;
    if (e->op <= AST_OP_AND && is_true(a) == (e->op == AST_OP_OR)) {
        *out = a;
        return OK;
    }
    rc = operand(c, e->kids[1], &b);
    if (rc != OK)
        return rc;
    if (e->op <= AST_OP_AND) {
        *out = b;
        return OK;
    }
    if (e->op <= AST_OP_GE) {
        *out = truth_value(compare((enum ast_op)e->op, a, b, c->env));
        return OK;
    }
    if (e->quantifier == SORTED_IN) {
        *out = val_new_bool(is_in_sorted(a, b) == (e->op == AST_OP_IN));
        return OK;
    }
    return expr_binary((enum ast_op)e->op, a, b, c->arena, c->env, out, c->err);
}

static enum errc eval_unary(struct eval *c, const struct expr *e, struct val *out)
{
    struct val v;
    enum errc rc = eval(c, e->kids[0], &v);

    if (rc != OK)
        return rc;
    if (e->op == AST_OP_NOT) {
        *out = val_new_bool(!val_truth(v));
        return OK;
    }
    v = cast_number(c->arena, v);
    if (e->op == AST_OP_MINUS) {
        if (val_is_int(v) && val_int(v) != INT64_MIN)
            v = val_new_int(c->arena, -val_int(v));
        else
            v = val_new_double(c->arena, -val_double(v));
    }
    *out = v;
    return OK;
}

/* How many of the elements must pass. */
static bool quantifier_holds(enum ast_quantifier q, size_t passed, size_t count, struct val number)
{
    switch (q) {
    case AST_Q_ALL:
        return passed == count;
    case AST_Q_ANY:
        return passed > 0;
    case AST_Q_NONE:
        return passed == 0;
    case AST_Q_AT_LEAST:
        return (double)passed >= val_double(number);
    case AST_Q_COUNT:
        if (val_type(number) == VAL_ARRAY) {
            size_t n = val_count(number);
            return n && (double)passed >= val_double(val_at(number, 0)) &&
                   (double)passed <= val_double(val_at(number, n - 1));
        }
        return (double)passed == val_double(number);
    }
    return false;
}

static enum errc eval_quantified(struct eval *c, const struct expr *e, struct val *out)
{
    struct val array, right, number = val_null, one;
    size_t passed = 0;
    enum errc rc = eval(c, e->kids[0], &array);

    if (rc == OK)
        rc = eval(c, e->kids[1], &right);
    if (rc == OK && e->kids[2])
        rc = eval(c, e->kids[2], &number);
    if (rc != OK)
        return rc;
    if (val_type(array) != VAL_ARRAY) {
        *out = val_false;
        return OK;
    }
    size_t count = val_count(array);
    for (size_t i = 0; i < count; i++) {
        rc = expr_binary((enum ast_op)e->op, val_at(array, i), right, c->arena, c->env, &one,
                         c->err);
        if (rc != OK)
            return rc;
        passed += val_truth(one);
    }
    *out =
        val_new_bool(quantifier_holds((enum ast_quantifier)e->quantifier, passed, count, number));
    return OK;
}

/* ---- access ---- */

static struct val index_array(struct val array, struct val index)
{
    double at = floor(val_double(index));
    size_t count = val_count(array);

    if (at < 0)
        at += (double)count;
    return at >= 0 && at < (double)count ? val_at(array, (size_t)at) : val_null;
}

static enum errc eval_index(struct eval *c, const struct expr *e, struct val *out)
{
    struct val object, index;
    enum errc rc = eval(c, e->kids[0], &object);

    if (rc == OK)
        rc = eval(c, e->kids[1], &index);
    if (rc != OK)
        return rc;
    if (val_type(object) == VAL_OBJECT)
        *out = val_get(object, val_string(cast_string(c->arena, index)));
    else if (val_type(object) == VAL_ARRAY)
        *out = index_array(object, cast_number(c->arena, index));
    else
        *out = val_null;
    return OK;
}

static enum errc eval_range(struct eval *c, const struct expr *e, struct val *out)
{
    struct val from, to;
    enum errc rc = eval(c, e->kids[0], &from);

    if (rc == OK)
        rc = eval(c, e->kids[1], &to);
    if (rc != OK)
        return rc;
    int64_t a = val_int(cast_number(c->arena, from)), b = val_int(cast_number(c->arena, to));
    double size = fabs((double)b - (double)a) + 1;
    if (size > RANGE_MAX)
        return fail_num(c->err, 1504, "a range of %.0f numbers is larger than the limit of %d",
                        size, RANGE_MAX);
    void *room;
    rc = arena_try(c->arena, (size_t)size * (sizeof(struct val) + 16), &room, c->err);
    if (rc != OK)
        return rc;
    struct val_builder *builder = val_builder_new(0);
    val_open_array(builder);
    for (int64_t i = a;; i += a <= b ? 1 : -1) {
        val_put_int(builder, i);
        if (i == b)
            break;
    }
    val_close(builder);
    rc = val_finish_in(builder, c->arena, out, c->err);
    val_builder_free(builder);
    return rc;
}

static enum errc eval_array(struct eval *c, const struct expr *e, struct val *out)
{
    struct val *items = arena_alloc(c->arena, (e->count + 1) * sizeof *items);

    for (size_t i = 0; i < e->count; i++) {
        enum errc rc = eval(c, e->kids[i], &items[i]);
        if (rc != OK)
            return rc;
    }
    *out = val_new_array(c->arena, items, e->count);
    return OK;
}

static bool has_name(const struct slice *names, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(names[i], name))
            return true;
    return false;
}

/* Of a name given twice the first counts, as in ArangoDB's literals. */
static enum errc eval_object(struct eval *c, const struct expr *e, struct val *out)
{
    size_t n = 0, count = e->count / 2;
    struct slice *names = arena_alloc(c->arena, (count + 1) * sizeof *names);
    struct val *values = arena_alloc(c->arena, (count + 1) * sizeof *values), name;

    for (size_t i = 0; i < count; i++) {
        enum errc rc = eval(c, e->kids[2 * i], &name);
        if (rc == OK)
            rc = eval(c, e->kids[2 * i + 1], &values[n]);
        if (rc != OK)
            return rc;
        names[n] = val_string(cast_string(c->arena, name));
        n += !has_name(names, n, names[n]);
    }
    *out = val_new_object(c->arena, names, values, n);
    return OK;
}

/* ---- [*] ---- */

struct list {
    struct val *items;
    size_t count, cap;
};

static void list_add(struct eval *c, struct list *l, struct val v)
{
    if (l->count == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 16;
        struct val *items = arena_alloc(c->arena, cap * sizeof *items);
        if (l->count)
            memcpy(items, l->items, l->count * sizeof *items);
        l->items = items;
        l->cap = cap;
    }
    l->items[l->count++] = v;
}

static void flatten(struct eval *c, struct list *l, struct val array, unsigned levels)
{
    for (size_t i = 0; i < val_count(array); i++) {
        struct val v = val_at(array, i);
        if (levels > 1 && val_type(v) == VAL_ARRAY)
            flatten(c, l, v, levels - 1);
        else
            list_add(c, l, v);
    }
}

static enum errc eval_number(struct eval *c, const struct expr *e, double def, double *out)
{
    struct val v;
    enum errc rc;

    *out = def;
    if (!e)
        return OK;
    rc = eval(c, e, &v);
    if (rc == OK && !val_is_null(v))
        *out = val_double(cast_number(c->arena, v));
    return rc;
}

static enum errc expand_one(struct eval *c, const struct expr *e, struct val v, struct val *out,
                            bool *passes)
{
    struct val test;
    enum errc rc = OK;

    *passes = true;
    c->row[e->reg] = v;
    if (e->kids[1]) {
        rc = eval(c, e->kids[1], &test);
        *passes = rc == OK && val_truth(test);
    }
    *out = v;
    return rc;
}

static enum errc expand_result(struct eval *c, const struct expr *e, struct val *v)
{
    enum errc rc = OK;

    if (e->kids[4]) {
        c->row[e->reg] = *v;
        rc = eval(c, e->kids[4], v);
    }
    if (rc == OK && e->kids[5]) {
        c->row[e->reg2] = *v;
        rc = eval(c, e->kids[5], v);
    }
    return rc;
}

static enum errc eval_expand(struct eval *c, const struct expr *e, struct val *out)
{
    struct val array, v;
    struct list in = { 0 }, result = { 0 };
    double offset, limit, seen = 0;
    bool passes;
    enum errc rc = eval(c, e->kids[0], &array);

    if (rc == OK)
        rc = eval_number(c, e->kids[2], 0, &offset);
    if (rc == OK)
        rc = eval_number(c, e->kids[3], INFINITY, &limit);
    if (rc != OK)
        return rc;
    if (val_type(array) == VAL_ARRAY)
        flatten(c, &in, array, e->op);
    for (size_t i = 0; i < in.count && (double)result.count < limit; i++) {
        rc = expand_one(c, e, in.items[i], &v, &passes);
        if (rc == OK && passes && seen++ >= offset) {
            rc = expand_result(c, e, &v);
            list_add(c, &result, v);
        }
        if (rc != OK)
            return rc;
    }
    *out = val_new_array(c->arena, result.items, result.count);
    return arena_check(c->arena, c->err);
}

static enum errc eval_array_test(struct eval *c, const struct expr *e, struct val *out)
{
    struct val array, test, number = val_null;
    struct list in = { 0 };
    size_t passed = 0;
    enum errc rc = eval(c, e->kids[0], &array);

    if (rc == OK && e->kids[2])
        rc = eval(c, e->kids[2], &number);
    if (rc != OK)
        return rc;
    if (val_type(array) != VAL_ARRAY) {
        *out = val_false;
        return OK;
    }
    flatten(c, &in, array, e->op);
    if (!e->kids[1]) {
        *out = val_new_bool(
            e->quantifier == NO_QUANTIFIER
                ? in.count > 0
                : quantifier_holds((enum ast_quantifier)e->quantifier, in.count, in.count, number));
        return OK;
    }
    for (size_t i = 0; i < in.count; i++) {
        c->row[e->reg] = in.items[i];
        rc = eval(c, e->kids[1], &test);
        if (rc != OK)
            return rc;
        passed += val_truth(test);
    }
    enum ast_quantifier q =
        e->quantifier == NO_QUANTIFIER ? AST_Q_ANY : (enum ast_quantifier)e->quantifier;
    *out = val_new_bool(quantifier_holds(q, passed, in.count, number));
    return OK;
}

/* ---- calls ---- */

static enum errc eval_call(struct eval *c, const struct expr *e, struct val *out)
{
    struct val *args = arena_alloc(c->arena, (e->count + 1) * sizeof *args);
    struct fn_call call = {
        .args = args,
        .count = (int)e->count,
        .arena = c->arena,
        .collator = c->env->collator,
        .env = c->env->env,
        .txn = c->env->txn,
        .db_id = c->env->db_id,
        .user = c->env->user,
        .now_us = c->env->now_us,
        .validator = c->env->validator,
        .result = val_null,
        .err = c->err,
        .warn = c->env->warn,
        .warn_ctx = c->env->warn_ctx,
    };

    for (size_t i = 0; i < e->count; i++) {
        enum errc rc = eval(c, e->kids[i], &args[i]);
        if (rc != OK)
            return rc;
    }
    enum errc rc = fn_eval(e->fn, &call);
    *out = call.result;
    return rc == OK ? arena_check(c->arena, c->err) : rc;
}

static enum errc eval_ternary(struct eval *c, const struct expr *e, struct val *out)
{
    struct val v;
    enum errc rc = eval(c, e->kids[0], &v);

    if (rc != OK)
        return rc;
    if (!val_truth(v))
        return eval(c, e->kids[2], out);
    if (e->kids[1])
        return eval(c, e->kids[1], out);
    *out = v;
    return OK;
}

static enum errc eval_attr(struct eval *c, const struct expr *e, struct val *out)
{
    struct val object;
    enum errc rc = operand(c, e->kids[0], &object);

    if (rc == OK)
        *out = member(object, e);
    return rc;
}

static enum errc eval(struct eval *c, const struct expr *e, struct val *out)
{
    switch ((enum expr_kind)e->kind) {
    case EXPR_CONST:
        *out = e->val;
        return OK;
    case EXPR_REG:
        *out = c->row[e->reg];
        return OK;
    case EXPR_ATTR:
        return eval_attr(c, e, out);
    case EXPR_INDEX:
        return eval_index(c, e, out);
    case EXPR_UNARY:
        return eval_unary(c, e, out);
    case EXPR_BINARY:
        return eval_binary(c, e, out);
    case EXPR_QUANTIFIED:
        return eval_quantified(c, e, out);
    case EXPR_TERNARY:
        return eval_ternary(c, e, out);
    case EXPR_RANGE:
        return eval_range(c, e, out);
    case EXPR_ARRAY:
        return eval_array(c, e, out);
    case EXPR_OBJECT:
        return eval_object(c, e, out);
    case EXPR_EXPAND:
        return eval_expand(c, e, out);
    case EXPR_ARRAY_TEST:
        return eval_array_test(c, e, out);
    case EXPR_CALL:
        return eval_call(c, e, out);
    }
    BUG("expression kind %d", e->kind);
}

/* ---- conditions ---- */

/* A constant, or a path of one or two names from a register: most operands, and none can fail. */
static inline bool read_operand(const struct eval *c, const struct expr *e, struct val *out)
{
    const struct expr *object = e->kind == EXPR_ATTR ? e->kids[0] : e;

    if (e->kind == EXPR_CONST)
        *out = e->val;
    else if (e->kind == EXPR_REG)
        *out = c->row[e->reg];
    else if (e->kind != EXPR_ATTR)
        return false;
    else if (object->kind == EXPR_REG)
        *out = member(c->row[object->reg], e);
    else if (object->kind == EXPR_ATTR && object->kids[0]->kind == EXPR_REG)
        *out = member(member(c->row[object->kids[0]->reg], object), e);
    else
        return false;
    return true;
}

static enum errc test_slowly(struct eval *c, const struct expr *e, bool *out)
{
    struct val a, b;
    enum errc rc = operand(c, e->kids[0], &a);

    if (rc == OK)
        rc = operand(c, e->kids[1], &b);
    if (rc == OK)
        *out = compare((enum ast_op)e->op, a, b, c->env);
    return rc;
}

static enum errc test_value(struct eval *c, const struct expr *e, bool *out)
{
    struct val v;
    enum errc rc = eval(c, e, &v);

    *out = rc == OK && val_truth(v);
    return rc;
}

/* What conditions are made of is true or false, and needs no value of its own. */
static enum errc test(struct eval *c, const struct expr *e, bool *out)
{
    struct val a, b;
    enum errc rc;

    if (e->kind == EXPR_BINARY && e->op <= AST_OP_AND) {
        rc = test(c, e->kids[0], out);
        return rc != OK || *out == (e->op == AST_OP_OR) ? rc : test(c, e->kids[1], out);
    }
    if (e->kind == EXPR_BINARY && e->op <= AST_OP_GE) {
        if (!read_operand(c, e->kids[0], &a) || !read_operand(c, e->kids[1], &b))
            return test_slowly(c, e, out);
        *out = compare((enum ast_op)e->op, a, b, c->env);
        return OK;
    }
    if (e->kind == EXPR_UNARY && e->op == AST_OP_NOT) {
        rc = test(c, e->kids[0], out);
        *out = !*out;
        return rc;
    }
    return test_value(c, e, out);
}

enum errc expr_test(const struct expr *e, struct val *row, struct arena *arena,
                    const struct expr_env *env, bool *out, struct error *err)
{
    struct eval c = { row, arena, env, err };

    *out = false;
    return test(&c, e, out);
}

enum errc expr_eval(const struct expr *e, struct val *row, struct arena *arena,
                    const struct expr_env *env, struct val *out, struct error *err)
{
    struct eval c = { row, arena, env, err };

    return read_operand(&c, e, out) ? OK : eval(&c, e, out);
}
