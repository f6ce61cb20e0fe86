/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INSERT, UPDATE, REPLACE, REMOVE, UPSERT. A collection is written by one
 * operation of a query and not read behind it.
 */
#include "query/planner.h"
#include "store/doc.h"

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

enum errc plan_options(struct planner *p, const struct ast *options, const char *const *allowed,
                       size_t count, struct val *out)
{
    enum errc rc = OK;

    *out = val_empty_object;
    if (!options)
        return OK;
    TRY(plan_constant(p, options, out));
    if (val_type(*out) != VAL_OBJECT)
        return plan_fail(p, options, 1575, "OPTIONS must be an object");
    for (size_t i = 0; i < val_count(*out); i++) {
        bool is_known = false;
        for (size_t k = 0; k < count; k++)
            is_known |= slice_is(val_name_at(*out, i), allowed[k]);
        if (!is_known)
            return plan_fail(p, options, 9, "not implemented: the option %.*s",
                             SLICE_ARG(val_name_at(*out, i)));
    }
out:
    return rc;
}

static enum errc write_options(struct planner *p, const struct ast *options, bool is_insert,
                               struct write_options *out)
{
    static const char *const known[] = { "keepNull",      "mergeObjects", "ignoreRevs",
                                         "ignoreErrors",  "waitForSync",  "overwrite",
                                         "overwriteMode", "exclusive",    "refillIndexCaches",
                                         "readOwnWrites" };
    struct val o, v;
    enum errc rc = plan_options(p, options, known, ARRAY_LEN(known), &o);

    *out = (struct write_options){ 0 };
    if (rc != OK)
        return rc;
    out->drop_nulls = val_find(o, slice_str("keepNull"), &v) && !val_truth(v);
    out->replace_objects = val_find(o, slice_str("mergeObjects"), &v) && !val_truth(v);
    out->check_rev = val_find(o, slice_str("ignoreRevs"), &v) && !val_truth(v);
    out->ignore_errors = val_truth(val_get(o, slice_str("ignoreErrors")));
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

/* A loop around this pipeline would meet what it writes. */
static bool is_read_outside(const struct planner *p, const struct collection *c)
{
    for (const struct outer *o = p->outer; o; o = o->up)
        for (const struct node *n = o->last; n; n = n->input)
            if (n->collection == c->id &&
                (plan_is_scan(n) || n->kind == NODE_INDEX || n->kind == NODE_PRIMARY))
                return true;
    return false;
}

static enum errc target_collection(struct planner *p, const struct ast *n,
                                   const struct collection **c)
{
    enum errc rc = OK;

    TRY(plan_collection(p, n, c));
    TRY(plan_check_access(p, n, *c));
    if (is_read_outside(p, *c))
        return plan_not_implemented(p, n, "writing a collection that a loop around it reads");
    if (p->written_count == PLAN_COLLECTIONS_MAX)
        return plan_fail(p, n, 1522, "too many collections are written");
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
    struct expr **exprs = arena_zalloc(p->arena, values * sizeof(*exprs));
    struct write_options write;
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

static struct expr *equals(struct planner *p, struct expr *a, struct expr *b)
{
    struct expr *e = ARENA_NEW(p->arena, struct expr);

    e->kind = EXPR_BINARY;
    e->op = AST_OP_EQ;
    e->quantifier = NO_QUANTIFIER;
    e->reg = e->reg2 = NO_REG;
    e->count = 2;
    e->kids = arena_alloc(p->arena, 2 * sizeof(*e->kids));
    e->kids[0] = a;
    e->kids[1] = b;
    return e;
}

/* {a: 1, b: {c: 2}} asks for a == 1 and b.c == 2. */
static enum errc example_filters(struct planner *p, const struct ast *at, struct node *scan,
                                 struct expr *object, const struct expr *example)
{
    for (uint32_t i = 0; i < example->count; i += 2) {
        struct expr *name = example->kids[i], *value = example->kids[i + 1];
        if (name->kind != EXPR_CONST || val_type(name->val) != VAL_STRING)
            return plan_not_implemented(p, at, "UPSERT by computed names");
        struct expr *member = plan_attr_expr(p, object, val_string(name->val));
        if (value->kind == EXPR_OBJECT && value->count) {
            enum errc rc = example_filters(p, at, scan, member, value);
            if (rc != OK)
                return rc;
        } else {
            plan_add_filter(p, scan, equals(p, member, value));
        }
    }
    return OK;
}

static enum errc find_filters(struct planner *p, const struct ast *n, struct node *scan,
                              const struct expr *example)
{
    uint32_t current = p->current_reg;
    struct expr *condition;

    if (!(n->flags & AST_IS_FILTER))
        return example_filters(p, n->kids[0], scan, plan_reg_expr(p, scan->reg), example);
    p->current_reg = scan->reg;
    p->in_inline = true;
    enum errc rc = plan_expr(p, n->kids[0], &condition);
    p->in_inline = false;
    p->current_reg = current;
    if (rc == OK)
        plan_add_filter(p, scan, condition);
    return rc;
}

/* The pipeline that finds the document: FOR, FILTER, LIMIT 1, RETURN. */
static enum errc plan_find(struct planner *p, const struct ast *n, const struct collection *c,
                           const struct expr *example, struct node **out)
{
    struct node *outer = p->last;

    p->last = NULL;
    plan_node(p, NODE_SINGLETON);
    struct node *scan = plan_node(p, NODE_ENUM_COLLECTION);
    scan->collection = c->id;
    scan->reg = plan_reg(p);
    enum errc rc = find_filters(p, n, scan, example);
    if (rc == OK) {
        plan_choose_access(p, scan);
        plan_node(p, NODE_LIMIT)->limit = 1;
        plan_node(p, NODE_RETURN)->expr = plan_reg_expr(p, scan->reg);
    }
    *out = p->last;
    p->last = outer;
    return rc;
}

/* The update sees OLD, which is not known before the node: nothing is lifted out of it. */
static enum errc plan_change(struct planner *p, const struct ast *n, uint32_t old,
                             struct expr **out)
{
    plan_declare_as(p, slice_str("OLD"), old);
    p->in_inline = true;
    enum errc rc = plan_expr(p, n, out);
    p->in_inline = false;
    return rc;
}

static enum errc plan_upsert(struct planner *p, const struct ast *n)
{
    const struct collection *c;
    struct expr **exprs = arena_zalloc(p->arena, 2 * sizeof(*exprs)), *example = NULL;
    struct write_options write;
    struct node *find;
    uint32_t old = plan_reg(p);
    enum errc rc = OK;

    if (!(n->flags & AST_IS_FILTER))
        TRY(plan_expr(p, n->kids[0], &example));
    if (example && (example->kind != EXPR_OBJECT || !example->count))
        return plan_not_implemented(p, n->kids[0], "UPSERT by what is no object literal");
    TRY(plan_expr(p, n->kids[1], &exprs[0]));
    TRY(target_collection(p, n->kids[3], &c));
    TRY(write_options(p, n->kids[4], false, &write));
    TRY(plan_find(p, n, c, example, &find));
    TRY(plan_change(p, n->kids[2], old, &exprs[1]));
    struct node *node = write_node(p, NODE_UPSERT, c, exprs, 2);
    node->write = write;
    node->write.is_replace = n->op == AST_REPLACE;
    node->sub = find;
    node->reg = old;
    node->reg2 = plan_reg(p);
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
