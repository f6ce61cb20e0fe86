/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a scan finds its rows: by key, by an index, or all. The conditions stay
 * as filters, so a choice can make a query faster but never change its result.
 * A search by vector keeps its own index and learns from another one which
 * documents can pass.
 */
#include "query/planner.h"
#include "store/txn.h"

enum { TERMS_MAX = 64, DEPTH_MAX = 8 };

/* path OP value, value without the scan's own row. */
struct term {
    struct slice path[DEPTH_MAX];
    size_t depth;
    enum ast_op op;
    struct expr *value;
};

struct terms {
    struct term items[TERMS_MAX];
    size_t count;
};

/* Attribute path on the scan's register; names from the outside in. */
static bool read_path(const struct expr *e, uint32_t reg, struct term *t)
{
    size_t n = 0;
    const struct expr *at = e;

    for (; at->kind == EXPR_ATTR; at = at->kids[0])
        if (++n > DEPTH_MAX)
            return false;
    if (!n || at->kind != EXPR_REG || at->reg != reg)
        return false;
    t->depth = n;
    for (at = e; at->kind == EXPR_ATTR; at = at->kids[0])
        t->path[--n] = at->name;
    return true;
}

static enum ast_op mirrored(enum ast_op op)
{
    switch (op) {
    case AST_OP_LT:
        return AST_OP_GT;
    case AST_OP_LE:
        return AST_OP_GE;
    case AST_OP_GT:
        return AST_OP_LT;
    case AST_OP_GE:
        return AST_OP_LE;
    default:
        return op;
    }
}

static void add_terms(const struct expr *e, uint32_t reg, struct terms *terms)
{
    if (e->kind != EXPR_BINARY || terms->count == TERMS_MAX)
        return;
    if (e->op == AST_OP_AND) {
        add_terms(e->kids[0], reg, terms);
        add_terms(e->kids[1], reg, terms);
        return;
    }
    struct term *t = &terms->items[terms->count];
    t->op = (enum ast_op)e->op;
    bool is_comparison = e->op == AST_OP_EQ || (e->op >= AST_OP_LT && e->op <= AST_OP_GE);
    if ((is_comparison || e->op == AST_OP_IN) && read_path(e->kids[0], reg, t) &&
        !plan_uses_reg(e->kids[1], reg)) {
        t->value = e->kids[1];
        terms->count++;
    } else if (is_comparison && read_path(e->kids[1], reg, t) && !plan_uses_reg(e->kids[0], reg)) {
        t->op = mirrored(t->op);
        t->value = e->kids[0];
        terms->count++;
    }
}

static bool path_is(const struct term *t, const struct field_path *f)
{
    if (f->is_expanded || f->count != t->depth)
        return false;
    for (size_t i = 0; i < t->depth; i++)
        if (!slice_eq(f->names[i], t->path[i]))
            return false;
    return true;
}

/* First term on the field with one of two operators. */
static const struct term *find_term(const struct terms *terms, const struct field_path *f,
                                    enum ast_op a, enum ast_op b)
{
    for (size_t i = 0; i < terms->count; i++)
        if ((terms->items[i].op == a || terms->items[i].op == b) && path_is(&terms->items[i], f))
            return &terms->items[i];
    return NULL;
}

static const struct term *find_equal(const struct terms *terms, const struct field_path *f)
{
    return find_term(terms, f, AST_OP_EQ, AST_OP_EQ);
}

/* A sparse index lacks documents with null, one over elements those with an empty array. */
static bool is_complete(const struct index_def *index)
{
    if (index->kind != INDEX_PERSISTENT || !index->is_ready || index->is_sparse)
        return false;
    for (size_t i = 0; i < index->field_count; i++)
        if (index->fields[i].is_expanded)
            return false;
    return true;
}

/* Fields bound by equality or IN, doubled, plus one for a range behind them. */
static unsigned score_index(const struct index_def *index, const struct terms *terms)
{
    size_t equal = 0;

    if (!is_complete(index))
        return 0;
    while (equal < index->field_count && find_equal(terms, &index->fields[equal]))
        equal++;
    if (equal == index->field_count)
        return (unsigned)(equal * 2);
    const struct field_path *next = &index->fields[equal];
    if (find_term(terms, next, AST_OP_IN, AST_OP_IN))
        return (unsigned)(equal * 2 + 2);
    bool has_range = find_term(terms, next, AST_OP_GT, AST_OP_GE) ||
                     find_term(terms, next, AST_OP_LT, AST_OP_LE);
    return (unsigned)(equal * 2 + has_range);
}

static struct access *new_access(struct planner *p, struct node *scan, uint64_t index)
{
    struct access *a = ARENA_NEW(p->arena, struct access);

    scan->kind = NODE_INDEX;
    scan->scan->accesses = a;
    scan->scan->access_count = 1;
    a->index = index;
    return a;
}

static bool use_primary(struct planner *p, struct node *scan, const struct terms *terms)
{
    for (size_t i = 0; i < terms->count; i++) {
        const struct term *t = &terms->items[i];
        if (t->depth != 1 || (t->op != AST_OP_EQ && t->op != AST_OP_IN))
            continue;
        if (!slice_is(t->path[0], "_key") && !slice_is(t->path[0], "_id"))
            continue;
        struct access *a = new_access(p, scan, 0);
        if (t->op == AST_OP_IN) {
            a->in = t->value;
        } else {
            a->equal = plan_expr_list(p, 1);
            a->equal[a->equal_count++] = t->value;
        }
        return true;
    }
    return false;
}

static void use_index(struct planner *p, struct node *scan, const struct index_def *index,
                      const struct terms *terms)
{
    const struct term *t;
    struct access *a = new_access(p, scan, index->id);

    a->equal = plan_expr_list(p, (uint32_t)index->field_count);
    while (a->equal_count < index->field_count &&
           (t = find_equal(terms, &index->fields[a->equal_count])))
        a->equal[a->equal_count++] = t->value;
    if (a->equal_count == index->field_count)
        return;
    const struct field_path *next = &index->fields[a->equal_count];
    if ((t = find_term(terms, next, AST_OP_IN, AST_OP_IN))) {
        a->in = t->value;
        return;
    }
    if ((t = find_term(terms, next, AST_OP_GT, AST_OP_GE))) {
        a->lower = t->value;
        a->lower_included = t->op == AST_OP_GE;
    }
    if ((t = find_term(terms, next, AST_OP_LT, AST_OP_LE))) {
        a->upper = t->value;
        a->upper_included = t->op == AST_OP_LE;
    }
}

static const struct index_def *best_index(const struct collection *c, const struct terms *terms)
{
    const struct index_def *best = NULL;
    unsigned best_score = 0;

    for (size_t i = 0; i < c->index_count; i++) {
        unsigned score = score_index(&c->indexes[i], terms);
        if (score > best_score) {
            best_score = score;
            best = &c->indexes[i];
        }
    }
    return best;
}

/* The first of the named ones that can be used; *is_primary stands for the primary index. */
static const struct index_def *hinted_index(const struct collection *c,
                                            const struct scan_hint *hint, const struct terms *terms,
                                            bool *is_primary)
{
    *is_primary = false;
    for (size_t i = 0; i < val_count(hint->indexes); i++) {
        const struct index_def *index =
            collection_index_named(c, val_string(val_at(hint->indexes, i)));
        *is_primary = index && index->kind == INDEX_PRIMARY;
        if (index && (*is_primary || score_index(index, terms)))
            return index;
    }
    return NULL;
}

static enum errc unusable_hint(struct planner *p, const struct collection *c)
{
    return fail_num(p->err, 1577, "could not use forced index hint in collection '%.*s'",
                    SLICE_ARG(c->name));
}

static enum errc choose(struct planner *p, struct node *scan, const struct collection *c)
{
    const struct scan_hint *hint = plan_hint(p, scan);
    struct terms terms; /* large: not cleared */
    bool is_primary;

    terms.count = 0;
    for (uint32_t i = 0; i < scan->scan->filter_count; i++)
        add_terms(scan->scan->filters[i], scan->reg, &terms);
    if (hint->is_disabled)
        return OK;
    const struct index_def *index = hinted_index(c, hint, &terms, &is_primary);
    if (index && is_primary && use_primary(p, scan, &terms))
        return OK;
    if (hint->is_forced && (!index || is_primary))
        return unusable_hint(p, c);
    if (!index || is_primary) {
        if (use_primary(p, scan, &terms))
            return OK;
        index = best_index(c, &terms);
    }
    if (index)
        use_index(p, scan, index, &terms);
    return OK;
}

/* The kind stays; keys in the query are left to the filter, which is asked for few of them. */
static void keep_near(struct node *n)
{
    n->kind = NODE_VECTOR;
    if (n->scan->access_count && n->scan->accesses[0].index == 0)
        n->scan->access_count = 0;
}

static enum errc use_indexes(struct planner *p, struct node **last, bool *changed)
{
    for (struct node *n = *last; n; n = n->input) {
        bool is_near = n->kind == NODE_VECTOR;
        if ((n->kind != NODE_ENUM_COLLECTION && !is_near) ||
            (is_near && plan_hint(p, n)->is_forced))
            continue;
        const struct collection *c =
            catalog_collection_by_id(txn_catalog(p->env->txn), n->collection);
        enum errc rc = c ? choose(p, n, c) : OK;
        if (rc != OK)
            return rc;
        if (is_near)
            keep_near(n);
        *changed = *changed || n->kind == NODE_INDEX || (is_near && n->scan->access_count);
    }
    return OK;
}

const struct rule rules_index[] = {
    { "use-indexes", use_indexes, "Documents are found by an index instead of a full scan." },
    { 0 },
};
