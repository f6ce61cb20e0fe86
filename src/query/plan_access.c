/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a scan finds its rows: by key, by an index, or all. The conditions stay
 * as filters, so a choice can make a query faster but never change its result.
 */
#include "query/fn.h"
#include "query/planner.h"
#include "store/txn.h"
#include <strings.h>

enum { TERMS_MAX = 64 };

/* path OP value, value without the scan's own row. */
struct term {
    struct slice path[8];
    size_t depth;
    enum ast_op op;
    struct expr *value;
};

/* Attribute path on the scan's register; names from the outside in. */
static bool read_path(const struct expr *e, uint32_t reg, struct term *t)
{
    size_t n = 0;
    const struct expr *at = e;

    for (; at->kind == EXPR_ATTR; at = at->kids[0])
        if (++n > ARRAY_LEN(t->path))
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

static void add_terms(const struct expr *e, uint32_t reg, struct term *terms, size_t *count)
{
    if (e->kind != EXPR_BINARY || *count == TERMS_MAX)
        return;
    if (e->op == AST_OP_AND) {
        add_terms(e->kids[0], reg, terms, count);
        add_terms(e->kids[1], reg, terms, count);
        return;
    }
    struct term *t = &terms[*count];
    t->op = (enum ast_op)e->op;
    bool is_comparison = e->op == AST_OP_EQ || (e->op >= AST_OP_LT && e->op <= AST_OP_GE);
    if ((is_comparison || e->op == AST_OP_IN) && read_path(e->kids[0], reg, t) &&
        !plan_uses_reg(e->kids[1], reg)) {
        t->value = e->kids[1];
        (*count)++;
    } else if (is_comparison && read_path(e->kids[1], reg, t) && !plan_uses_reg(e->kids[0], reg)) {
        t->op = mirrored(t->op);
        t->value = e->kids[0];
        (*count)++;
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

static bool use_primary(struct planner *p, struct node *scan, const struct term *terms,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct term *t = &terms[i];
        if (t->depth != 1 || (t->op != AST_OP_EQ && t->op != AST_OP_IN))
            continue;
        if (!slice_is(t->path[0], "_key") && !slice_is(t->path[0], "_id"))
            continue;
        scan->kind = NODE_PRIMARY;
        scan->exprs = arena_alloc(p->arena, sizeof(*scan->exprs));
        scan->exprs[0] = t->value;
        scan->expr_count = 1;
        return true;
    }
    return false;
}

/* First term on the field with one of two operators. */
static const struct term *find_term(const struct term *terms, size_t count,
                                    const struct field_path *f, enum ast_op a, enum ast_op b)
{
    for (size_t i = 0; i < count; i++)
        if ((terms[i].op == a || terms[i].op == b) && path_is(&terms[i], f))
            return &terms[i];
    return NULL;
}

static const struct term *find_equal(const struct term *terms, size_t count,
                                     const struct field_path *f)
{
    return find_term(terms, count, f, AST_OP_EQ, AST_OP_EQ);
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
static unsigned score_index(const struct index_def *index, const struct term *terms, size_t count)
{
    size_t equal = 0;

    if (!is_complete(index))
        return 0;
    while (equal < index->field_count && find_equal(terms, count, &index->fields[equal]))
        equal++;
    if (equal == index->field_count)
        return (unsigned)(equal * 2);
    const struct field_path *next = &index->fields[equal];
    if (find_term(terms, count, next, AST_OP_IN, AST_OP_IN))
        return (unsigned)(equal * 2 + 2);
    bool has_range = find_term(terms, count, next, AST_OP_GT, AST_OP_GE) ||
                     find_term(terms, count, next, AST_OP_LT, AST_OP_LE);
    return (unsigned)(equal * 2 + has_range);
}

static void use_index(struct planner *p, struct node *scan, const struct index_def *index,
                      const struct term *terms, size_t count)
{
    const struct term *t;

    scan->kind = NODE_INDEX;
    scan->index = index->id;
    scan->exprs = arena_zalloc(p->arena, index->field_count * sizeof(*scan->exprs));
    scan->expr_count = 0;
    while (scan->expr_count < index->field_count &&
           (t = find_equal(terms, count, &index->fields[scan->expr_count])))
        scan->exprs[scan->expr_count++] = t->value;
    if (scan->expr_count == index->field_count)
        return;
    const struct field_path *next = &index->fields[scan->expr_count];
    if ((t = find_term(terms, count, next, AST_OP_IN, AST_OP_IN))) {
        scan->expr = t->value;
        return;
    }
    if ((t = find_term(terms, count, next, AST_OP_GT, AST_OP_GE))) {
        scan->lower = t->value;
        scan->lower_included = t->op == AST_OP_GE;
    }
    if ((t = find_term(terms, count, next, AST_OP_LT, AST_OP_LE))) {
        scan->upper = t->value;
        scan->upper_included = t->op == AST_OP_LE;
    }
}

void plan_choose_access(struct planner *p, struct node *scan)
{
    struct term terms[TERMS_MAX];
    size_t count = 0;
    const struct collection *c =
        catalog_collection_by_id(txn_catalog(p->env->txn), scan->collection);
    const struct index_def *best = NULL;
    unsigned best_score = 0;
    bool is_disabled = scan->index == 1;

    scan->index = 0;
    for (uint32_t i = 0; i < scan->filter_count; i++)
        add_terms(scan->filters[i], scan->reg, terms, &count);
    if (!c || is_disabled || !count || use_primary(p, scan, terms, count))
        return;
    for (size_t i = 0; i < c->index_count; i++) {
        unsigned score = score_index(&c->indexes[i], terms, count);
        if (score > best_score) {
            best_score = score;
            best = &c->indexes[i];
        }
    }
    if (best)
        use_index(p, scan, best, terms, count);
}

/* ---- vectors ---- */

static const struct {
    const char *fn;
    enum vector_metric metric;
    enum ast_order order;
} near_fns[] = {
    { "APPROX_NEAR_COSINE", VECTOR_COSINE, AST_DESC },
    { "APPROX_NEAR_L2", VECTOR_L2, AST_ASC },
    { "APPROX_NEAR_INNER_PRODUCT", VECTOR_INNER_PRODUCT, AST_DESC },
};

static int near_row(const struct ast *n)
{
    for (size_t i = 0; n && n->kind == AST_CALL && i < ARRAY_LEN(near_fns); i++)
        if (slice_is(n->name, near_fns[i].fn))
            return (int)i;
    return -1;
}

/* The dotted path of an attribute of the variable, or false. */
static bool field_of(const struct ast *n, struct slice variable, struct buf *out)
{
    if (n->kind != AST_ATTR)
        return false;
    if (n->kids[0]->kind == AST_NAME && slice_eq(n->kids[0]->name, variable)) {
        buf_add_slice(out, n->name);
        return true;
    }
    if (!field_of(n->kids[0], variable, out))
        return false;
    buf_add_char(out, '.');
    buf_add_slice(out, n->name);
    return true;
}

struct near_query {
    const struct ast *loop, *call, *sort, *limit;
    size_t filters, used; /* operations after the FOR */
    int row;
};

/* FOR, FILTER..., [LET s = NEAR(...)], SORT NEAR(...) or s, LIMIT */
static bool find_near(const struct ast *query, size_t at, struct near_query *q)
{
    size_t i = at + 1;
    const struct ast *let = NULL;

    q->loop = query->kids[at];
    while (i < query->count && query->kids[i]->kind == AST_FILTER)
        i++;
    q->filters = i - at - 1;
    if (i < query->count && query->kids[i]->kind == AST_LET &&
        near_row(query->kids[i]->kids[1]) >= 0)
        let = query->kids[i++];
    if (i >= query->count || query->kids[i]->kind != AST_SORT || query->kids[i]->count != 1)
        return false;
    q->sort = query->kids[i]->kids[0];
    const struct ast *key = q->sort->kids[0];
    if (let && key->kind == AST_NAME && let->kids[0]->kind == AST_VAR &&
        slice_eq(key->name, let->kids[0]->name))
        key = let->kids[1];
    q->call = key;
    q->row = near_row(key);
    q->limit =
        i + 1 < query->count && query->kids[i + 1]->kind == AST_LIMIT ? query->kids[i + 1] : NULL;
    q->used = 1 + q->filters;
    return q->row >= 0 && q->loop->kids[0]->kind == AST_VAR;
}

static const struct index_def *vector_index(const struct collection *c, struct slice field,
                                            enum vector_metric metric)
{
    for (size_t i = 0; i < c->index_count; i++) {
        const struct index_def *index = &c->indexes[i];
        if (index->kind == INDEX_VECTOR && index->is_ready && index->metric == metric &&
            slice_eq(index->fields[0].text, field))
            return index;
    }
    return NULL;
}

static enum errc no_vector(struct planner *p, const struct near_query *q, const char *why)
{
    return plan_fail(p, q->call, 1554, "failed vector search: %s", why);
}

static enum errc make_near(struct planner *p, const struct ast *query, size_t at,
                           const struct near_query *q, const struct collection *c,
                           const struct index_def *index, const struct ast *value)
{
    int64_t offset, count;
    struct expr **exprs = arena_zalloc(p->arena, sizeof(*exprs));
    enum errc rc = OK;

    TRY(plan_limit_values(p, q->limit, &offset, &count));
    if (count < 0)
        return no_vector(p, q, "LIMIT must say how many");
    TRY(plan_expr(p, value, &exprs[0]));
    struct node *n = plan_node(p, NODE_VECTOR);
    n->collection = c->id;
    n->index = index->id;
    n->exprs = exprs;
    n->expr_count = 1;
    n->limit = offset + count;
    TRY(plan_declare(p, q->loop->kids[0], &n->reg));
    n->reg2 = plan_reg(p);
    for (size_t i = 0; i < q->filters; i++)
        TRY(plan_filter(p, query->kids[at + 1 + i]->kids[0]));
    if (p->last != n)
        return no_vector(p, q, "its FILTER must be a plain condition");
    if (p->score_count < ARRAY_LEN(p->scores))
        p->scores[p->score_count++] = (struct known_score){ q->call, n->reg2 };
out:
    return rc;
}

enum errc plan_vector(struct planner *p, const struct ast *query, size_t at, size_t *used,
                      bool *is_one)
{
    struct near_query q;
    const struct collection *c;
    struct buf field;
    const struct ast *value = NULL;

    *is_one = false;
    if (!find_near(query, at, &q))
        return OK;
    *is_one = true;
    *used = q.used;
    const struct ast *source = q.loop->kids[1];
    if (source->kind != AST_BIND_COLLECTION && source->kind != AST_NAME)
        return no_vector(p, &q, "it must run over a collection");
    enum errc rc = plan_collection(p, source, &c);
    if (rc != OK)
        return rc;
    if (!q.limit)
        return no_vector(p, &q, "SORT must be followed by LIMIT");
    if (q.sort->op != near_fns[q.row].order)
        return no_vector(p, &q, q.sort->op == AST_ASC ? "SORT must be DESC" : "SORT must be ASC");
    if (q.call->count < 2 || q.call->count > 3)
        return plan_fail(p, q.call, 1541, "%s takes 2 or 3 arguments", near_fns[q.row].fn);
    buf_init(&field, LIMIT_NAME_BYTES * 8);
    if (field_of(q.call->kids[0], q.loop->kids[0]->name, &field))
        value = q.call->kids[1];
    else if (field_of(q.call->kids[1], q.loop->kids[0]->name, &field))
        value = q.call->kids[0];
    const struct index_def *index =
        value ? vector_index(c, buf_slice(&field), near_fns[q.row].metric) : NULL;
    buf_release(&field);
    if (!index)
        return no_vector(p, &q, "no vector index on that attribute has this metric");
    return make_near(p, query, at, &q, c, index, value);
}
