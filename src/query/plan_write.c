/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INSERT, UPDATE, REPLACE, REMOVE, UPSERT. A collection is written by one
 * operation of a query and not read behind it.
 */
#include "query/planner.h"
#include "store/doc.h"
#include <stdio.h>

static bool is_written(const struct planner *p, uint64_t collection)
{
    for (size_t i = 0; i < p->written_count; i++)
        if (p->written[i] == collection)
            return true;
    return false;
}

enum errc plan_check_access(struct planner *p, const struct ast *at, const struct collection *c)
{
    if (!is_written(p, c->id))
        return OK;
    return plan_fail(p, at, 1579, "access after data-modification by the same query: %.*s",
                     SLICE_ARG(c->name));
}

static enum errc check_names(struct planner *p, struct val options, const char *const *allowed,
                             size_t count)
{
    char text[LIMIT_NAME_BYTES + 64];

    for (size_t i = 0; i < val_count(options); i++) {
        struct slice name = val_name_at(options, i);
        bool is_known = false;
        for (size_t k = 0; k < count; k++)
            is_known |= slice_is(name, allowed[k]);
        if (is_known || !p->env->warn)
            continue;
        snprintf(text, sizeof text, "unknown OPTIONS attribute '%.*s'",
                 (int)(name.len < LIMIT_NAME_BYTES ? name.len : LIMIT_NAME_BYTES), name.ptr);
        p->env->warn(p->env->warn_ctx, 1539, text);
    }
    return OK;
}

enum errc plan_options(struct planner *p, const struct ast *options, const char *const *allowed,
                       size_t count, struct val *out)
{
    *out = val_empty_object;
    if (!options)
        return OK;
    enum errc rc = plan_constant(p, options, out);
    if (rc != OK)
        return rc;
    if (val_type(*out) != VAL_OBJECT)
        return plan_fail(p, options, 1575, "OPTIONS must be an object");
    return check_names(p, *out, allowed, count);
}

static enum errc write_options(struct planner *p, const struct ast *options, bool is_insert,
                               struct write_options **made)
{
    static const char *const known[] = { "keepNull",       "mergeObjects",     "ignoreRevs",
                                         "ignoreErrors",   "waitForSync",      "overwrite",
                                         "overwriteMode",  "exclusive",        "refillIndexCaches",
                                         "readOwnWrites",  "versionAttribute", "indexHint",
                                         "forceIndexHint", "disableIndex" };
    struct val o, v;
    enum errc rc = plan_options(p, options, known, ARRAY_LEN(known), &o);

    struct write_options *out = *made = ARENA_NEW(p->arena, struct write_options);
    if (rc != OK)
        return rc;
    out->drop_nulls = val_find(o, slice_str("keepNull"), &v) && !val_truth(v);
    out->replace_objects = val_find(o, slice_str("mergeObjects"), &v) && !val_truth(v);
    out->check_rev = val_find(o, slice_str("ignoreRevs"), &v) && !val_truth(v);
    out->ignore_errors = val_truth(val_get(o, slice_str("ignoreErrors")));
    out->waits_for_sync = val_truth(val_get(o, slice_str("waitForSync")));
    out->is_exclusive = val_truth(val_get(o, slice_str("exclusive")));
    out->reads_start = val_find(o, slice_str("readOwnWrites"), &v) && !val_truth(v);
    out->version_attribute = val_string(val_get(o, slice_str("versionAttribute")));
    if (!is_insert)
        return OK;
    struct slice mode = val_string(val_get(o, slice_str("overwriteMode")));
    if (val_truth(val_get(o, slice_str("overwrite"))))
        out->overwrite = OVERWRITE_REPLACE;
    if (slice_is(mode, "replace"))
        out->overwrite = OVERWRITE_REPLACE;
    else if (slice_is(mode, "update"))
        out->overwrite = OVERWRITE_UPDATE;
    else if (slice_is(mode, "ignore"))
        out->overwrite = OVERWRITE_IGNORE;
    else if (mode.len && !slice_is(mode, "conflict"))
        return plan_fail(p, options, 1575,
                         "overwriteMode must be ignore, replace, update or "
                         "conflict");
    return OK;
}

static enum errc target_collection(struct planner *p, const struct ast *n,
                                   const struct collection **c)
{
    enum errc rc = OK;

    TRY(plan_collection(p, n, c));
    TRY(plan_check_access(p, n, *c));
    if (p->written_count == PLAN_COLLECTIONS_MAX)
        return plan_fail(p, n, 1522, "too many collections are written");
    if (!p->written)
        p->written = arena_alloc(p->arena, PLAN_COLLECTIONS_MAX * sizeof *p->written);
    p->written[p->written_count++] = (*c)->id;
out:
    return rc;
}

static struct node *write_node(struct planner *p, enum node_kind kind, const struct collection *c,
                               struct expr **exprs, uint32_t count)
{
    struct node *node = plan_node(p, kind);

    node->exprs = exprs;
    node->expr_count = count;
    node->collection = c->id;
    p->plan->is_write = true;
    return node;
}

static enum errc simple_write(struct planner *p, const struct ast *n, enum node_kind kind)
{
    uint32_t values = kind == NODE_INSERT || kind == NODE_REMOVE ? 1 : 2;
    const struct collection *c;
    struct expr **exprs = plan_expr_list(p, values);
    struct write_options *write;
    enum errc rc = OK;

    for (uint32_t i = 0; i < values; i++)
        if (n->kids[i])
            TRY(plan_expr(p, n->kids[i], &exprs[i]));
    TRY(target_collection(p, n->kids[values], &c));
    TRY(write_options(p, n->kids[values + 1], kind == NODE_INSERT, &write));
    struct node *node = write_node(p, kind, c, exprs, values);
    node->write = write;
    node->reg = plan_reg(p);
    node->reg2 = plan_reg(p);
    plan_declare_as(p, slice_str("OLD"), node->reg);
    if (kind != NODE_REMOVE)
        plan_declare_as(p, slice_str("NEW"), node->reg2);
out:
    return rc;
}

/* ---- UPSERT ---- */

static struct expr *member_expr(struct planner *p, struct expr *object, struct expr *name)
{
    struct expr *e;

    if (name->kind == EXPR_CONST && val_type(name->val) == VAL_STRING)
        return plan_attr_expr(p, object, val_string(name->val));
    e = plan_new_expr(p, EXPR_INDEX, 2);
    e->kids[0] = object;
    e->kids[1] = name;
    return e;
}

/* {a: 1, b: {c: 2}} asks for a == 1 and b.c == 2. */
static void example_filters(struct planner *p, struct node *scan, struct expr *object,
                            const struct expr *example)
{
    for (uint32_t i = 0; i < example->count; i += 2) {
        struct expr *value = example->kids[i + 1];
        struct expr *member = member_expr(p, object, example->kids[i]);
        if (value->kind == EXPR_OBJECT && value->count)
            example_filters(p, scan, member, value);
        else
            plan_add_filter(p, scan, plan_binary_expr(p, AST_OP_EQ, member, value));
    }
}

/* A constant object as one of expressions. */
static struct expr *open_object(struct planner *p, struct val v)
{
    struct expr *e;

    if (val_type(v) != VAL_OBJECT || !val_count(v))
        return plan_const_expr(p, v);
    e = plan_new_expr(p, EXPR_OBJECT, (uint32_t)val_count(v) * 2);
    for (uint32_t i = 0; i < e->count; i += 2) {
        e->kids[i] = plan_const_expr(p, val_new_string(p->arena, val_name_at(v, i / 2)));
        e->kids[i + 1] = open_object(p, val_at(v, i / 2));
    }
    return e;
}

/* The example as an object expression; one that a bind parameter gives is taken apart. */
static enum errc read_example(struct planner *p, const struct ast *n, struct expr **out)
{
    enum errc rc = plan_expr(p, n, out);

    if (rc != OK)
        return rc;
    if ((*out)->kind == EXPR_CONST)
        *out = open_object(p, (*out)->val);
    if ((*out)->kind != EXPR_OBJECT || !(*out)->count)
        return plan_fail(p, n, 1501, "UPSERT needs an example object with members");
    return OK;
}

static enum errc find_filters(struct planner *p, const struct ast *n, struct node *scan,
                              const struct expr *example)
{
    uint32_t current = p->current_reg;
    struct expr *condition;

    if (example) {
        example_filters(p, scan, plan_reg_expr(p, scan->reg), example);
        return OK;
    }
    p->current_reg = scan->reg;
    enum errc rc = plan_expr(p, n->kids[0], &condition);
    p->current_reg = current;
    if (rc == OK && p->last == scan)
        plan_add_filter(p, scan, condition);
    else if (rc == OK)
        plan_node(p, NODE_FILTER)->expr = condition;
    return rc;
}

/* FOR CURRENT IN c FILTER ... LIMIT 1 RETURN CURRENT, as a subquery -> *out. */
static enum errc plan_find(struct planner *p, const struct ast *n, const struct collection *c,
                           const struct expr *example, struct expr **out)
{
    struct inner in;

    plan_enter(p, &in);
    plan_node(p, NODE_SINGLETON);
    struct node *scan = plan_scan(p, NODE_ENUM_COLLECTION, c);
    scan->scan->sees_writes = true;
    enum errc rc = find_filters(p, n, scan, example);
    plan_node(p, NODE_LIMIT)->limit = 1;
    plan_node(p, NODE_RETURN)->expr = plan_reg_expr(p, scan->reg);
    struct node *inner = plan_leave(p, &in);
    struct node *find = plan_node(p, NODE_SUBQUERY);
    find->sub = inner;
    find->reg = plan_reg(p);
    *out = plan_reg_expr(p, find->reg);
    return rc;
}

/* One of two documents, each planned behind the condition that it is needed. */
static enum errc plan_choice(struct planner *p, const struct ast *n, struct expr *old,
                             struct expr **out)
{
    struct expr *either = plan_new_expr(p, EXPR_TERNARY, 3);
    enum errc rc = OK;

    either->kids[0] = old;
    *out = either;
    p->guard = plan_not_expr(p, old);
    TRY(plan_expr(p, n->kids[1], &either->kids[2]));
    p->guard = old;
    plan_declare_as(p, slice_str("OLD"), old->reg);
    rc = plan_expr(p, n->kids[2], &either->kids[1]);
out:
    p->guard = NULL;
    return rc;
}

/* The inner pipeline of the write: what was found, and what to write. */
static enum errc plan_ask(struct planner *p, const struct ast *n, const struct collection *c,
                          const struct expr *example, struct node **out)
{
    struct expr *pair = plan_new_expr(p, EXPR_ARRAY, 2), *found;
    struct inner in;
    enum errc rc = OK;

    plan_enter(p, &in);
    plan_node(p, NODE_SINGLETON);
    TRY(plan_find(p, n, c, example, &found));
    struct node *old = plan_node(p, NODE_CALC);
    old->expr = plan_call_expr(p, "FIRST", found);
    old->reg = plan_reg(p);
    pair->kids[0] = plan_reg_expr(p, old->reg);
    TRY(plan_choice(p, n, pair->kids[0], &pair->kids[1]));
    plan_node(p, NODE_RETURN)->expr = pair;
out:
    *out = plan_leave(p, &in);
    return rc;
}

static enum errc plan_upsert(struct planner *p, const struct ast *n)
{
    const struct collection *c;
    struct expr *example = NULL;
    struct write_options *write;
    struct node *ask;
    enum errc rc = OK;

    if (!(n->flags & AST_IS_FILTER))
        TRY(read_example(p, n->kids[0], &example));
    TRY(target_collection(p, n->kids[3], &c));
    TRY(write_options(p, n->kids[4], false, &write));
    TRY(plan_ask(p, n, c, example, &ask));
    struct node *node = write_node(p, NODE_UPSERT, c, NULL, 0);
    node->write = write;
    write->is_replace = n->op == AST_REPLACE;
    node->sub = ask;
    node->reg = plan_reg(p);
    node->reg2 = plan_reg(p);
    plan_declare_as(p, slice_str("OLD"), node->reg);
    plan_declare_as(p, slice_str("NEW"), node->reg2);
out:
    return rc;
}

enum errc plan_write(struct planner *p, const struct ast *n)
{
    switch ((enum ast_kind)n->kind) {
    case AST_INSERT:
        return simple_write(p, n, NODE_INSERT);
    case AST_UPDATE:
        return simple_write(p, n, NODE_UPDATE);
    case AST_REPLACE:
        return simple_write(p, n, NODE_REPLACE);
    case AST_REMOVE:
        return simple_write(p, n, NODE_REMOVE);
    default:
        return plan_upsert(p, n);
    }
}
