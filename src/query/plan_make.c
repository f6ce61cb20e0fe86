/* SPDX-License-Identifier: Apache-2.0 */
/* Operations in their order become a pipeline of nodes. */
#include "query/call.h"
#include "query/plan_sealed.h"
#include "query/planner.h"
#include "store/txn.h"
#include <strings.h>

struct node *plan_loose_node(struct planner *p, enum node_kind kind)
{
    struct node *n = ARENA_NEW(p->arena, struct node);

    n->kind = (uint8_t)kind;
    n->id = ++p->plan->node_count;
    n->reg = n->reg2 = NO_REG;
    n->limit = -1;
    return n;
}

struct node *plan_node(struct planner *p, enum node_kind kind)
{
    struct node *n = plan_loose_node(p, kind);

    n->input = p->last;
    p->last = n;
    return n;
}

struct expr **plan_expr_list(struct planner *p, uint32_t count)
{
    return arena_zalloc(p->arena, (count ? count : 1) * sizeof(struct expr *));
}

/* ---- patterns ---- */

/* IS_ARRAY(value) ? value[i] : null, since an object may have an attribute "0". */
static struct expr *element_expr(struct planner *p, struct expr *value, uint32_t i)
{
    struct expr *item = plan_new_expr(p, EXPR_INDEX, 2);
    struct expr *either = plan_new_expr(p, EXPR_TERNARY, 3);

    item->kids[0] = value;
    item->kids[1] = plan_const_expr(p, val_new_int(p->arena, i));
    either->kids[0] = plan_call_expr(p, "IS_ARRAY", value);
    either->kids[1] = item;
    either->kids[2] = plan_const_expr(p, val_null);
    return either;
}

static enum errc bind_pattern(struct planner *p, const struct ast *pattern, struct expr *value)
{
    enum errc rc = OK;

    if (!pattern)
        return OK;
    switch ((enum ast_kind)pattern->kind) {
    case AST_VAR: {
        struct node *n = plan_node(p, NODE_CALC);
        n->expr = value;
        return plan_declare(p, pattern, &n->reg);
    }
    case AST_ARRAY_PATTERN:
        for (uint32_t i = 0; rc == OK && i < pattern->count; i++) {
            if (pattern->kids[i])
                rc = bind_pattern(p, pattern->kids[i], element_expr(p, value, i));
        }
        return rc;
    case AST_OBJECT_PATTERN:
        for (uint32_t i = 0; rc == OK && i < pattern->count; i++)
            rc = bind_pattern(p, pattern->kids[i]->kids[0],
                              plan_attr_expr(p, value, pattern->kids[i]->name));
        return rc;
    default:
        BUG("%s is not a pattern", ast_kind_name((enum ast_kind)pattern->kind));
    }
}

/* ---- scans ---- */

bool plan_is_scan(const struct node *n)
{
    return n->scan != NULL;
}

struct node *plan_scan(struct planner *p, enum node_kind kind, const struct collection *c)
{
    struct node *scan = plan_node(p, kind);

    scan->collection = c->id;
    scan->scan = ARENA_NEW(p->arena, struct scan);
    scan->reg = plan_reg(p);
    return scan;
}

void plan_add_filter(struct planner *p, struct node *n, struct expr *e)
{
    struct scan *scan = n->scan;
    struct expr **more = plan_expr_list(p, scan->filter_count + 1);

    if (scan->filter_count)
        memcpy(more, scan->filters, scan->filter_count * sizeof(*more));
    more[scan->filter_count++] = e;
    scan->filters = more;
}

void plan_set_hint(struct planner *p, const struct node *scan, const struct scan_hint *hint)
{
    if (scan->reg >= p->hint_cap) {
        size_t cap = (size_t)scan->reg * 2 + 16;
        const struct scan_hint **more = arena_zalloc(p->arena, cap * sizeof(*more));
        if (p->hint_cap)
            memcpy(more, p->hints, p->hint_cap * sizeof(*more));
        p->hints = more;
        p->hint_cap = cap;
    }
    p->hints[scan->reg] = hint;
}

const struct scan_hint *plan_hint(const struct planner *p, const struct node *scan)
{
    static const struct scan_hint none;

    if (scan->reg >= p->hint_cap || !p->hints[scan->reg])
        return &none;
    return p->hints[scan->reg];
}

/* ---- FOR ---- */

bool plan_names_collection(const struct planner *p, const struct ast *n)
{
    return n->kind == AST_BIND_COLLECTION ||
           (n->kind == AST_NAME && !plan_variable(p, n->name) &&
            !(p->current_reg != NO_REG && slice_is(n->name, "CURRENT")) &&
            catalog_collection(txn_catalog(p->env->txn), p->env->db_id, n->name));
}

static enum errc read_hint(struct planner *p, const struct ast *options, struct scan_hint **out)
{
    static const char *const known[] = { "indexHint", "forceIndexHint", "disableIndex",
                                         "useCache",  "maxProjections", "lookahead" };
    struct scan_hint *hint = ARENA_NEW(p->arena, struct scan_hint);
    struct val o, v;
    enum errc rc = plan_options(p, options, known, ARRAY_LEN(known), &o);

    *out = hint;
    if (rc != OK)
        return rc;
    hint->indexes = val_get(o, slice_str("indexHint"));
    if (val_type(hint->indexes) == VAL_STRING)
        hint->indexes = val_new_array(p->arena, &hint->indexes, 1);
    hint->is_forced = val_truth(val_get(o, slice_str("forceIndexHint")));
    hint->is_disabled = val_truth(val_get(o, slice_str("disableIndex")));
    v = val_get(o, slice_str("maxProjections"));
    if (val_type(v) == VAL_NUMBER && val_double(v) >= 0)
        hint->max_projections = (uint32_t)val_int(v) + 1;
    return OK;
}

static enum errc declare_loop(struct planner *p, const struct ast *pattern, uint32_t reg)
{
    if (p->loop_start == SIZE_MAX)
        p->loop_start = p->variable_count;
    if (pattern->kind != AST_VAR)
        return bind_pattern(p, pattern, plan_reg_expr(p, reg));
    return plan_declare_new(p, pattern, reg);
}

static enum errc plan_for(struct planner *p, const struct ast *n)
{
    const struct ast *pattern = n->kids[0], *source = n->kids[1];
    const struct collection *c;
    struct scan_hint *hint;
    struct expr *list;
    enum errc rc = OK;

    if (n->count > 2 && n->kids[2])
        return plan_not_implemented(p, n->kids[2], "SEARCH (views)");
    TRY(read_hint(p, n->count > 3 ? n->kids[3] : NULL, &hint));
    if (plan_names_collection(p, source)) {
        TRY(plan_collection(p, source, &c));
        TRY(plan_check_access(p, source, c));
        struct node *scan = plan_scan(p, NODE_ENUM_COLLECTION, c);
        plan_set_hint(p, scan, hint);
        return declare_loop(p, pattern, scan->reg);
    }
    bool is_current = p->current_reg != NO_REG && slice_is(source->name, "CURRENT");
    if (source->kind == AST_NAME && !plan_variable(p, source->name) && !is_current)
        return plan_collection(p, source, &c); /* says what is unknown */
    TRY(plan_expr(p, source, &list));
    struct node *loop = plan_node(p, NODE_ENUM_LIST);
    loop->expr = list;
    loop->reg = plan_reg(p);
    rc = declare_loop(p, pattern, loop->reg);
out:
    return rc;
}

/* ---- FILTER, SORT, LIMIT, LET ---- */

static enum errc plan_filter(struct planner *p, const struct ast *condition)
{
    struct expr *e;
    enum errc rc = plan_expr(p, condition, &e);

    if (rc == OK)
        plan_node(p, NODE_FILTER)->expr = e;
    return rc;
}

static enum errc plan_sort(struct planner *p, const struct ast *n)
{
    struct expr **keys = plan_expr_list(p, n->count);
    bool *descending = arena_zalloc(p->arena, n->count + 1);
    struct val direction;
    enum errc rc = OK;

    for (uint32_t i = 0; i < n->count; i++) {
        const struct ast *key = n->kids[i];
        TRY(plan_expr(p, key->kids[0], &keys[i]));
        descending[i] = key->op == AST_DESC;
        if (key->count > 1 && key->kids[1]) {
            TRY(plan_constant(p, key->kids[1], &direction));
            struct slice text = val_string(direction);
            if (val_type(direction) == VAL_STRING && text.len == 4 &&
                !strncasecmp(text.ptr, "DESC", 4))
                descending[i] = true;
            else if (val_type(direction) == VAL_BOOL)
                descending[i] = !val_bool(direction);
            else if (!(text.len == 3 && !strncasecmp(text.ptr, "ASC", 3)))
                return plan_fail(p, key, 1553, "a sort direction must be \"ASC\" or \"DESC\"");
        }
    }
    struct node *sort = plan_node(p, NODE_SORT);
    sort->exprs = keys;
    sort->expr_count = n->count;
    sort->descending = descending;
out:
    return rc;
}

static enum errc limit_number(struct planner *p, const struct ast *n, int64_t absent, int64_t *out)
{
    struct val v;

    *out = absent;
    if (!n)
        return OK;
    enum errc rc = plan_constant(p, n, &v);
    if (rc != OK || val_is_null(v))
        return rc;
    if (val_type(v) != VAL_NUMBER || val_double(v) < 0 || val_double(v) > 9e15)
        return plan_fail(p, n, 1504, "LIMIT takes numbers from 0");
    *out = val_int(v);
    return OK;
}

enum errc plan_limit_values(struct planner *p, const struct ast *n, int64_t *offset, int64_t *count)
{
    enum errc rc = limit_number(p, n->kids[0], 0, offset);

    return rc == OK ? limit_number(p, n->kids[1], -1, count) : rc;
}

static enum errc plan_limit(struct planner *p, const struct ast *n)
{
    int64_t offset, count;
    enum errc rc = plan_limit_values(p, n, &offset, &count);

    if (rc != OK)
        return rc;
    struct node *limit = plan_node(p, NODE_LIMIT);
    limit->offset = offset;
    limit->limit = count;
    return OK;
}

/* The value is what the last node has just made, which has no name yet. */
static bool is_last_result(const struct planner *p, const struct expr *value)
{
    const struct node *n = p->last;

    return value->kind == EXPR_REG && (n->kind == NODE_SUBQUERY || n->kind == NODE_CALL) &&
           n->reg == value->reg;
}

static enum errc plan_let(struct planner *p, const struct ast *n)
{
    const struct node *before = p->last;
    struct expr *value;
    enum errc rc = plan_expr(p, n->kids[1], &value);

    if (rc != OK)
        return rc;
    if (n->kids[0]->kind == AST_VAR && p->last != before && is_last_result(p, value))
        return plan_declare_new(p, n->kids[0], value->reg);
    if (n->kids[0]->kind == AST_VAR)
        return bind_pattern(p, n->kids[0], value);
    struct node *calc = plan_node(p, NODE_CALC);
    calc->expr = value;
    calc->reg = plan_reg(p);
    return bind_pattern(p, n->kids[0], plan_reg_expr(p, calc->reg));
}

static enum errc plan_return(struct planner *p, const struct ast *n)
{
    struct expr *value;
    enum errc rc = plan_expr(p, n->kids[0], &value);

    if (rc != OK)
        return rc;
    if (n->flags & AST_IS_DISTINCT) {
        struct node *distinct = plan_node(p, NODE_DISTINCT);
        distinct->expr = value;
        distinct->reg = plan_reg(p);
        value = plan_reg_expr(p, distinct->reg);
    }
    plan_node(p, NODE_RETURN)->expr = value;
    return OK;
}

/* ---- pipelines ---- */

static enum errc plan_with(struct planner *p, const struct ast *n)
{
    const struct collection *c;
    enum errc rc = OK;

    for (uint32_t i = 0; rc == OK && i < n->count; i++)
        rc = plan_collection(p, n->kids[i], &c);
    return rc;
}

static enum errc plan_operation(struct planner *p, const struct ast *n)
{
    switch ((enum ast_kind)n->kind) {
    case AST_WITH:
        return plan_with(p, n);
    case AST_FOR:
        return plan_for(p, n);
    case AST_FILTER:
        return plan_filter(p, n->kids[0]);
    case AST_SORT:
        return plan_sort(p, n);
    case AST_LIMIT:
        return plan_limit(p, n);
    case AST_LET:
        return plan_let(p, n);
    case AST_RETURN:
        return plan_return(p, n);
    case AST_COLLECT:
        return plan_collect(p, n);
    case AST_INSERT:
    case AST_UPDATE:
    case AST_REPLACE:
    case AST_REMOVE:
    case AST_UPSERT:
        return plan_write(p, n);
    case AST_TRAVERSE:
    case AST_SHORTEST_PATH:
    case AST_ALL_SHORTEST_PATHS:
    case AST_K_SHORTEST_PATHS:
    case AST_K_PATHS:
        return plan_graph(p, n);
    case AST_WINDOW:
        return plan_window(p, n);
    default:
        BUG("%s is not an operation", ast_kind_name((enum ast_kind)n->kind));
    }
}

enum errc plan_operations(struct planner *p, const struct ast *query)
{
    plan_node(p, NODE_SINGLETON);
    for (size_t i = 0; i < query->count; i++) {
        bool is_one = false;
        size_t used;
        enum errc rc = OK;
        if (query->kids[i]->kind == AST_FOR)
            rc = plan_vector(p, query, i, &used, &is_one);
        if (rc == OK && is_one)
            i += used - 1;
        else if (rc == OK)
            rc = plan_operation(p, query->kids[i]);
        if (rc == OK && p->plan->node_count > PLAN_NODES_MAX)
            rc = plan_fail(p, query->kids[i], 1524, "the plan has more than %d nodes",
                           PLAN_NODES_MAX);
        if (rc == OK && p->plan->reg_count > PLAN_REGS_MAX)
            rc = plan_fail(p, query->kids[i], 1524, "the query has more than %d variables",
                           PLAN_REGS_MAX);
        if (rc != OK)
            return rc;
    }
    return OK;
}

void plan_enter(struct planner *p, struct inner *in)
{
    *in = (struct inner){ .last = p->last,
                          .outer = { p->last, p->outer },
                          .guard = p->guard,
                          .scope = p->variable_count,
                          .scores = p->score_count,
                          .scope_start = p->scope_start,
                          .loop_start = p->loop_start };
    p->last = NULL;
    p->outer = &in->outer;
    p->guard = NULL; /* the whole pipeline is behind it */
    p->scope_start = p->variable_count;
    p->loop_start = SIZE_MAX;
}

struct node *plan_leave(struct planner *p, const struct inner *in)
{
    struct node *inner = p->last;

    p->last = in->last;
    p->outer = in->outer.up;
    p->guard = in->guard;
    p->variable_count = in->scope;
    p->score_count = in->scores;
    p->scope_start = in->scope_start;
    p->loop_start = in->loop_start;
    return inner;
}

static enum errc check_binds(struct planner *p)
{
    for (size_t i = 0; i < val_count(p->bind); i++)
        if (!p->bind_used[i])
            return fail_num(p->err, 1552, "bind parameter '%.*s' was not declared in the query",
                            SLICE_ARG(val_name_at(p->bind, i)));
    return OK;
}

static void count_full(struct node *last)
{
    while (last && last->kind != NODE_LIMIT)
        last = last->input;
    if (last)
        last->counts_full = true;
}

enum errc plan_make(const struct ast *query, struct slice text, struct val bind,
                    const struct planner_env *env, struct arena *arena, struct plan **out,
                    struct error *err)
{
    struct planner p = { .arena = arena,
                         .text = text,
                         .bind = bind,
                         .env = env,
                         .err = err,
                         .plan = ARENA_NEW(arena, struct plan),
                         .loop_start = SIZE_MAX,
                         .current_reg = NO_REG,
                         .element_reg = NO_REG };

    if (!val_is_null(bind) && val_type(bind) != VAL_OBJECT)
        return fail_num(err, 1553, "bind values must be an object, not %s",
                        val_type_name(val_type(bind)));
    p.bind_used = arena_zalloc(arena, val_count(bind) + 1);
    enum errc rc = plan_operations(&p, query);
    if (rc == OK)
        rc = check_binds(&p);
    if (rc != OK)
        return rc;
    p.plan->root = p.last;
    if (env->full_count)
        count_full(p.plan->root);
    rc = plan_check_sealed(&p);
    if (rc == OK)
        rc = plan_apply_rules(&p);
    plan_find_live(&p);
    *out = p.plan;
    return rc;
}

const char *node_kind_name(enum node_kind kind)
{
    static const char *const names[] = {
        [NODE_SINGLETON] = "SingletonNode",
        [NODE_ENUM_LIST] = "EnumerateListNode",
        [NODE_ENUM_COLLECTION] = "EnumerateCollectionNode",
        [NODE_INDEX] = "IndexNode",
        [NODE_HASH_JOIN] = "JoinNode",
        [NODE_VECTOR] = "EnumerateNearVectorNode",
        [NODE_TRAVERSE] = "TraversalNode",
        [NODE_PATHS] = "ShortestPathNode",
        [NODE_FILTER] = "FilterNode",
        [NODE_CALC] = "CalculationNode",
        [NODE_SUBQUERY] = "SubqueryNode",
        [NODE_CALL] = "ModelCallNode",
        [NODE_SORT] = "SortNode",
        [NODE_LIMIT] = "LimitNode",
        [NODE_COLLECT] = "CollectNode",
        [NODE_WINDOW] = "WindowNode",
        [NODE_DISTINCT] = "CollectNode",
        [NODE_INSERT] = "InsertNode",
        [NODE_UPDATE] = "UpdateNode",
        [NODE_REPLACE] = "ReplaceNode",
        [NODE_REMOVE] = "RemoveNode",
        [NODE_UPSERT] = "UpsertNode",
        [NODE_RETURN] = "ReturnNode",
    };

    return names[kind];
}
