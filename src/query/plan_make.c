/* SPDX-License-Identifier: Apache-2.0 */
/* Operations in their order become a pipeline of nodes. */
#include "query/call.h"
#include "query/planner.h"

struct node *plan_node(struct planner *p, enum node_kind kind)
{
    struct node *n = ARENA_NEW(p->arena, struct node);

    n->kind = (uint8_t)kind;
    n->id = ++p->plan->node_count;
    n->input = p->last;
    n->reg = n->reg2 = n->into_reg = NO_REG;
    n->limit = -1;
    p->last = n;
    return n;
}

static struct expr **expr_list(struct planner *p, uint32_t count)
{
    return arena_zalloc(p->arena, (count ? count : 1) * sizeof(struct expr *));
}

/* ---- patterns ---- */

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
            struct expr *item = ARENA_NEW(p->arena, struct expr);
            item->kind = EXPR_INDEX;
            item->count = 2;
            item->kids = expr_list(p, 2);
            item->kids[0] = value;
            item->kids[1] = plan_const_expr(p, val_new_int(p->arena, i));
            rc = bind_pattern(p, pattern->kids[i], item);
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

/* The register of a plain variable, or one whose parts are bound behind the node. */
static enum errc declare_pattern(struct planner *p, const struct ast *pattern, uint32_t *reg)
{
    if (pattern->kind == AST_VAR)
        return plan_declare(p, pattern, reg);
    *reg = plan_reg(p);
    return OK;
}

static enum errc finish_pattern(struct planner *p, const struct ast *pattern, uint32_t reg)
{
    return pattern->kind == AST_VAR ? OK : bind_pattern(p, pattern, plan_reg_expr(p, reg));
}

/* ---- FOR ---- */

static bool names_collection(struct planner *p, const struct ast *n)
{
    return n->kind == AST_BIND_COLLECTION ||
           (n->kind == AST_NAME && !plan_variable(p, n->name) &&
            !(p->current_reg != NO_REG && slice_is(n->name, "CURRENT")));
}

static enum errc plan_for(struct planner *p, const struct ast *n)
{
    static const char *const hints[] = { "indexHint", "forceIndexHint", "disableIndex",
                                         "useCache",  "maxProjections", "lookahead" };
    const struct ast *pattern = n->kids[0], *source = n->kids[1];
    const struct collection *c;
    struct val options;
    enum errc rc = OK;

    if (n->count > 2 && n->kids[2])
        return plan_not_implemented(p, n->kids[2], "SEARCH (views)");
    TRY(plan_options(p, n->count > 3 ? n->kids[3] : NULL, hints, ARRAY_LEN(hints), &options));
    if (val_truth(val_get(options, slice_str("forceIndexHint"))))
        return plan_not_implemented(p, n, "forceIndexHint");
    if (names_collection(p, source)) {
        TRY(plan_collection(p, source, &c));
        TRY(plan_check_access(p, source, c));
        struct node *scan = plan_node(p, NODE_ENUM_COLLECTION);
        scan->collection = c->id;
        scan->index = val_truth(val_get(options, slice_str("disableIndex"))) ? 1 : 0;
        TRY(declare_pattern(p, pattern, &scan->reg));
        TRY(finish_pattern(p, pattern, scan->reg));
        return OK;
    }
    struct expr *list;
    TRY(plan_expr(p, source, &list));
    struct node *loop = plan_node(p, NODE_ENUM_LIST);
    loop->expr = list;
    TRY(declare_pattern(p, pattern, &loop->reg));
    TRY(finish_pattern(p, pattern, loop->reg));
out:
    return rc;
}

/* ---- FILTER, SORT, LIMIT, LET ---- */

bool plan_is_scan(const struct node *n)
{
    return n->kind == NODE_ENUM_COLLECTION || n->kind == NODE_VECTOR;
}

void plan_add_filter(struct planner *p, struct node *scan, struct expr *e)
{
    struct expr **more = expr_list(p, scan->filter_count + 1);

    if (scan->filter_count)
        memcpy(more, scan->filters, scan->filter_count * sizeof(*more));
    more[scan->filter_count++] = e;
    scan->filters = more;
}

enum errc plan_filter(struct planner *p, const struct ast *condition)
{
    struct node *before = p->last;
    struct expr *e;
    enum errc rc = plan_expr(p, condition, &e);

    if (rc != OK)
        return rc;
    if (before == p->last && plan_is_scan(before)) {
        plan_add_filter(p, before, e); /* runs inside the scan, on the stored bytes */
        return OK;
    }
    plan_node(p, NODE_FILTER)->expr = e;
    return OK;
}

static enum errc plan_sort(struct planner *p, const struct ast *n)
{
    struct expr **keys = expr_list(p, n->count);
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

static enum errc plan_let(struct planner *p, const struct ast *n)
{
    struct expr *value;
    enum errc rc = plan_expr(p, n->kids[1], &value);

    if (rc != OK)
        return rc;
    struct node *calc = plan_node(p, NODE_CALC);
    calc->expr = value;
    rc = declare_pattern(p, n->kids[0], &calc->reg);
    return rc == OK ? finish_pattern(p, n->kids[0], calc->reg) : rc;
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
        return plan_not_implemented(p, n, "graph traversal");
    case AST_SHORTEST_PATH:
    case AST_ALL_SHORTEST_PATHS:
    case AST_K_SHORTEST_PATHS:
    case AST_K_PATHS:
        return plan_not_implemented(p, n, "path search");
    case AST_WINDOW:
        return plan_not_implemented(p, n, "WINDOW");
    default:
        BUG("%s is not an operation", ast_kind_name((enum ast_kind)n->kind));
    }
}

/* Scans choose their access when everything that filters them is known. */
static void settle(struct planner *p)
{
    for (struct node *n = p->last; n; n = n->input)
        if (n->kind == NODE_ENUM_COLLECTION)
            plan_choose_access(p, n);
}

static enum errc plan_operations(struct planner *p, const struct ast *query)
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
    settle(p);
    return OK;
}

enum errc plan_subquery(struct planner *p, const struct ast *query, struct node **out)
{
    struct node *outer = p->last;
    struct expr *guard = p->guard;
    struct outer outers = { p->last, p->outer };
    size_t scope = p->variable_count, scores = p->score_count, start = p->scope_start;

    p->last = NULL;
    p->outer = &outers;
    p->guard = NULL; /* the whole pipeline is behind it */
    p->scope_start = scope;
    enum errc rc = plan_operations(p, query);
    *out = p->last;
    p->last = outer;
    p->outer = outers.up;
    p->guard = guard;
    p->variable_count = scope;
    p->score_count = scores;
    p->scope_start = start;
    return rc;
}

static enum errc check_binds(struct planner *p)
{
    for (size_t i = 0; i < val_count(p->bind); i++)
        if (!p->bind_used[i])
            return fail_num(p->err, 1552, "bind parameter '%.*s' was not declared in the query",
                            SLICE_ARG(val_name_at(p->bind, i)));
    return OK;
}

static struct node *last_limit(struct node *n)
{
    while (n && n->kind != NODE_LIMIT)
        n = n->input;
    return n;
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
    p.plan->variables = arena_alloc(arena, (p.variable_count + 1) * sizeof *p.plan->variables);
    for (size_t i = 0; i < p.variable_count; i++)
        p.plan->variables[i] = (struct plan_variable){ p.variables[i].reg, p.variables[i].name };
    p.plan->variable_count = (uint32_t)p.variable_count;
    struct node *limit = last_limit(p.last);
    if (env->full_count && limit)
        limit->counts_full = true;
    plan_trim(&p);
    *out = p.plan;
    return OK;
}

const char *node_kind_name(enum node_kind kind)
{
    static const char *const names[] = {
        [NODE_SINGLETON] = "SingletonNode",
        [NODE_ENUM_LIST] = "EnumerateListNode",
        [NODE_ENUM_COLLECTION] = "EnumerateCollectionNode",
        [NODE_INDEX] = "IndexNode",
        [NODE_PRIMARY] = "IndexNode",
        [NODE_VECTOR] = "EnumerateNearVectorNode",
        [NODE_FILTER] = "FilterNode",
        [NODE_CALC] = "CalculationNode",
        [NODE_SUBQUERY] = "SubqueryNode",
        [NODE_CALL] = "ModelCallNode",
        [NODE_SORT] = "SortNode",
        [NODE_LIMIT] = "LimitNode",
        [NODE_COLLECT] = "CollectNode",
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
