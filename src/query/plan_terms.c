/* SPDX-License-Identifier: Apache-2.0 */
#include "query/plan_terms.h"

bool attr_path_read(const struct expr *e, uint32_t reg, struct attr_path *out)
{
    size_t n = 0;
    const struct expr *at = e;

    for (; at->kind == EXPR_ATTR; at = at->kids[0])
        if (++n > TERM_DEPTH_MAX)
            return false;
    if (!n || at->kind != EXPR_REG || at->reg != reg)
        return false;
    out->depth = n;
    for (at = e; at->kind == EXPR_ATTR; at = at->kids[0])
        out->names[--n] = at->name;
    return true;
}

bool attr_path_is(const struct attr_path *path, const struct field_path *field)
{
    if (field->is_expanded || field->count != path->depth)
        return false;
    for (size_t i = 0; i < path->depth; i++)
        if (!slice_eq(field->names[i], path->names[i]))
            return false;
    return true;
}

/* ---- reading ---- */

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

void terms_add(struct terms *terms, const struct expr *e, uint32_t reg)
{
    if (e->kind != EXPR_BINARY || terms->count == TERMS_MAX)
        return;
    if (e->op == AST_OP_AND) {
        terms_add(terms, e->kids[0], reg);
        terms_add(terms, e->kids[1], reg);
        return;
    }
    struct term *t = &terms->items[terms->count];
    t->op = (enum ast_op)e->op;
    bool is_comparison = e->op == AST_OP_EQ || (e->op >= AST_OP_LT && e->op <= AST_OP_GE);
    if ((is_comparison || e->op == AST_OP_IN) && attr_path_read(e->kids[0], reg, &t->path) &&
        !plan_uses_reg(e->kids[1], reg)) {
        t->value = e->kids[1];
        terms->count++;
    } else if (is_comparison && attr_path_read(e->kids[1], reg, &t->path) &&
               !plan_uses_reg(e->kids[0], reg)) {
        t->op = mirrored(t->op);
        t->value = e->kids[0];
        terms->count++;
    }
}

/* First term on the field with one of two operators. */
static const struct term *find_term(const struct terms *terms, const struct field_path *f,
                                    enum ast_op a, enum ast_op b)
{
    for (size_t i = 0; i < terms->count; i++)
        if ((terms->items[i].op == a || terms->items[i].op == b) &&
            attr_path_is(&terms->items[i].path, f))
            return &terms->items[i];
    return NULL;
}

static const struct term *find_equal(const struct terms *terms, const struct field_path *f)
{
    return find_term(terms, f, AST_OP_EQ, AST_OP_EQ);
}

/* ---- indexes ---- */

/* A sparse index lacks documents with null, one over elements those with an empty array. */
bool index_is_complete(const struct index_def *index)
{
    if (index->kind != INDEX_PERSISTENT || !index->is_ready || index->is_sparse)
        return false;
    for (size_t i = 0; i < index->field_count; i++)
        if (index->fields[i].is_expanded)
            return false;
    return true;
}

unsigned terms_score(const struct terms *terms, const struct index_def *index)
{
    size_t equal = 0;

    if (!index_is_complete(index))
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

void terms_access(const struct terms *terms, struct planner *p, const struct index_def *index,
                  struct access *a)
{
    const struct term *t;

    *a = (struct access){ .index = index->id };
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

bool terms_primary(const struct terms *terms, struct planner *p, struct access *a)
{
    for (size_t i = 0; i < terms->count; i++) {
        const struct term *t = &terms->items[i];
        if (t->path.depth != 1 || (t->op != AST_OP_EQ && t->op != AST_OP_IN))
            continue;
        if (!slice_is(t->path.names[0], "_key") && !slice_is(t->path.names[0], "_id"))
            continue;
        *a = (struct access){ .index = 0 };
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
