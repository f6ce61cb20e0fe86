/* SPDX-License-Identifier: Apache-2.0 */
/* FOR ... SORT APPROX_NEAR_x() ... LIMIT: one node that asks the vector index. */
#include "query/planner.h"

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
    struct expr **exprs = plan_expr_list(p, 2), *filter;
    enum errc rc = OK;

    TRY(plan_limit_values(p, q->limit, &offset, &count));
    if (count < 0)
        return no_vector(p, q, "LIMIT must say how many");
    TRY(plan_expr(p, value, &exprs[0]));
    if (q->call->count == 3)
        TRY(plan_expr(p, q->call->kids[2], &exprs[1]));
    struct node *n = plan_scan(p, NODE_VECTOR, c);
    n->index = index->id;
    n->exprs = exprs;
    n->expr_count = q->call->count == 3 ? 2 : 1;
    n->limit = offset + count;
    if (p->loop_start == SIZE_MAX)
        p->loop_start = p->variable_count;
    TRY(plan_declare(p, q->loop->kids[0], &n->reg));
    n->reg2 = plan_reg(p);
    for (size_t i = 0; i < q->filters; i++) {
        TRY(plan_expr(p, query->kids[at + 1 + i]->kids[0], &filter));
        plan_add_filter(p, n, filter);
    }
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
