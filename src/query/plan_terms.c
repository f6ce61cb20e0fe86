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
    out->is_expanded = false;
    for (at = e; at->kind == EXPR_ATTR; at = at->kids[0])
        out->names[--n] = at->name;
    return true;
}

bool attr_path_is(const struct attr_path *path, const struct field_path *field)
{
    if (field->is_expanded != path->is_expanded || field->count != path->depth)
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

/* path[*] and nothing more, or just the path when the star may be left out. */
static bool element_path_read(const struct expr *e, uint32_t reg, bool needs_star,
                              struct attr_path *out)
{
    const struct expr *array = e;

    if (e->kind == EXPR_EXPAND) {
        for (uint32_t i = 1; i < e->count; i++)
            if (e->kids[i])
                return false;
        if (e->op != 1)
            return false;
        array = e->kids[0];
    }
    if ((needs_star && array == e) || !attr_path_read(array, reg, out))
        return false;
    out->is_expanded = true;
    return true;
}

/* value IN path[*], path ANY == value, path ANY IN values. */
static bool read_element(const struct expr *e, uint32_t reg, struct term *t)
{
    bool is_any = e->kind == EXPR_QUANTIFIED && e->quantifier == AST_Q_ANY &&
                  (e->op == AST_OP_EQ || e->op == AST_OP_IN);
    bool is_in = e->kind == EXPR_BINARY && e->op == AST_OP_IN;

    if (!is_any && !is_in)
        return false;
    t->op = is_in ? AST_OP_EQ : (enum ast_op)e->op;
    t->value = e->kids[is_in ? 0 : 1];
    return element_path_read(e->kids[is_in ? 1 : 0], reg, is_in, &t->path) &&
           !plan_uses_reg(t->value, reg);
}

static bool is_null_constant(const struct expr *e)
{
    return e->kind == EXPR_CONST && val_is_null(e->val);
}

static bool read_comparison(const struct expr *e, uint32_t reg, struct term *t)
{
    if (e->kind != EXPR_BINARY)
        return false;
    bool is_comparison =
        e->op == AST_OP_EQ || (e->op >= AST_OP_LT && e->op <= AST_OP_GE) ||
        (e->op == AST_OP_NE && (is_null_constant(e->kids[0]) || is_null_constant(e->kids[1])));
    for (int side = 0; side < (is_comparison ? 2 : 1); side++) {
        if ((!is_comparison && e->op != AST_OP_IN) ||
            !attr_path_read(e->kids[side], reg, &t->path) || plan_uses_reg(e->kids[1 - side], reg))
            continue;
        t->op = side ? mirrored((enum ast_op)e->op) : (enum ast_op)e->op;
        t->value = e->kids[1 - side];
        return true;
    }
    return false;
}

static bool read_term(const struct expr *e, uint32_t reg, struct term *t)
{
    return read_comparison(e, reg, t) || read_element(e, reg, t);
}

void terms_add(struct terms *terms, const struct expr *e, uint32_t reg)
{
    if (terms->count == TERMS_MAX)
        return;
    if (e->kind == EXPR_BINARY && e->op == AST_OP_AND) {
        terms_add(terms, e->kids[0], reg);
        terms_add(terms, e->kids[1], reg);
        return;
    }
    terms->count += read_term(e, reg, &terms->items[terms->count]);
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

/* The field with [*], or field_count. */
static size_t expanded_field(const struct index_def *index)
{
    size_t i = 0;

    while (i < index->field_count && !index->fields[i].is_expanded)
        i++;
    return i;
}

bool index_is_plain(const struct index_def *index)
{
    return index->kind == INDEX_PERSISTENT && index->is_ready &&
           expanded_field(index) == index->field_count;
}

/* It holds for nothing whose attribute is null, which is less than anything else. */
static bool excludes_null(const struct term *t)
{
    if (t->op == AST_OP_GT || t->op == AST_OP_NE)
        return true;
    if (t->value->kind != EXPR_CONST || t->op == AST_OP_LT || t->op == AST_OP_LE)
        return false;
    if (t->op != AST_OP_IN)
        return !val_is_null(t->value->val);
    for (size_t i = 0; i < val_count(t->value->val); i++)
        if (val_is_null(val_at(t->value->val, i)))
            return false;
    return true;
}

static bool is_never_null(const struct terms *terms, const struct field_path *f)
{
    for (size_t i = 0; i < terms->count; i++)
        if (attr_path_is(&terms->items[i].path, f) && excludes_null(&terms->items[i]))
            return true;
    return false;
}

bool terms_reach(const struct terms *terms, const struct index_def *index)
{
    for (size_t i = 0; index->is_sparse && i < index->field_count; i++)
        if (!is_never_null(terms, &index->fields[i]))
            return false;
    return true;
}

/* How far the terms bind the fields of an index that reaches all documents in question. */
static unsigned score(const struct terms *terms, const struct index_def *index)
{
    size_t equal = 0;

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

/* An index over elements lacks documents without any: it must be asked for one. */
unsigned terms_score(const struct terms *terms, const struct index_def *index)
{
    size_t expanded = expanded_field(index);

    if (index->kind != INDEX_PERSISTENT || !index->is_ready || !terms_reach(terms, index))
        return 0;
    unsigned bound = score(terms, index);
    return expanded < index->field_count && bound / 2 <= expanded ? 0 : bound;
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

/* One of the values that the access is made of. */
static bool is_looked_up(const struct access *a, const struct index_def *index,
                         const struct term *t)
{
    const struct field_path *next = &index->fields[a->equal_count];

    for (uint32_t i = 0; t->op == AST_OP_EQ && i < a->equal_count; i++)
        if (a->equal[i] == t->value && attr_path_is(&t->path, &index->fields[i]))
            return true;
    if (a->equal_count == index->field_count || !attr_path_is(&t->path, next))
        return false;
    switch (t->op) {
    case AST_OP_IN:
        return a->in == t->value;
    case AST_OP_GT:
    case AST_OP_GE:
        return a->lower == t->value && a->lower_included == (t->op == AST_OP_GE);
    case AST_OP_LT:
    case AST_OP_LE:
        return a->upper == t->value && a->upper_included == (t->op == AST_OP_LE);
    default:
        return false;
    }
}

bool access_implies(const struct access *a, const struct index_def *index, const struct expr *e,
                    uint32_t reg)
{
    struct term t;

    if (e->kind == EXPR_BINARY && e->op == AST_OP_AND)
        return access_implies(a, index, e->kids[0], reg) &&
               access_implies(a, index, e->kids[1], reg);
    return read_term(e, reg, &t) && is_looked_up(a, index, &t);
}
