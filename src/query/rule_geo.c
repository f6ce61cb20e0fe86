/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans that a geo index narrows. Conditions and sorts stay: the index gives a superset of
 * what passes, or of the first rows of a sort.
 */
#include "query/fn.h"
#include "query/planner.h"
#include "store/txn.h"

/* Geometry that does not depend on the scan's row, and the index on the other argument. */
struct place {
    struct expr *value;
    const struct index_def *index;
};

static bool is_call(const struct expr *e, const char *name)
{
    return e->kind == EXPR_CALL && strcmp(e->fn->name, name) == 0;
}

/* Is e the attribute of the scan's row that the field names? */
static bool is_field(const struct expr *e, uint32_t reg, const struct field_path *f)
{
    size_t n = f->count;

    for (; e->kind == EXPR_ATTR && n; e = e->kids[0])
        if (!slice_eq(e->name, f->names[--n]))
            return false;
    return !n && e->kind == EXPR_REG && e->reg == reg;
}

static const struct index_def *find_index(const struct collection *c, const struct expr *e,
                                          uint32_t reg)
{
    for (size_t i = 0; i < c->index_count; i++) {
        const struct index_def *index = &c->indexes[i];
        if (index->kind == INDEX_GEO && index->is_ready && index->is_geo_json &&
            is_field(e, reg, &index->fields[0]))
            return index;
    }
    return NULL;
}

/* One of the first two arguments is the field; of GEO_CONTAINS the second one. */
static bool find_place(const struct expr *call, const struct collection *c, uint32_t reg,
                       bool is_ordered, struct place *out)
{
    for (uint32_t i = is_ordered; i < 2; i++) {
        out->index = find_index(c, call->kids[i], reg);
        out->value = call->kids[1 - i];
        if (out->index && !plan_uses_reg(out->value, reg))
            return true;
    }
    return false;
}

static void use(struct planner *p, struct node *scan, const struct place *place,
                enum access_geo geo, struct expr *limit)
{
    struct access *a = ARENA_NEW(p->arena, struct access);

    a->index = place->index->id;
    a->geo = (uint8_t)geo;
    a->equal = plan_expr_list(p, 1);
    a->equal[a->equal_count++] = place->value;
    a->upper = limit;
    scan->kind = NODE_INDEX;
    scan->scan->accesses = a;
    scan->scan->access_count = 1;
}

/* GEO_DISTANCE(...) on one side, the limit above it on the other. */
static bool read_limit(const struct expr *e, uint32_t reg, const struct expr **call,
                       struct expr **limit)
{
    bool is_below = e->op == AST_OP_LT || e->op == AST_OP_LE;

    if (!is_below && e->op != AST_OP_GT && e->op != AST_OP_GE)
        return false;
    *call = e->kids[is_below ? 0 : 1];
    *limit = e->kids[is_below ? 1 : 0];
    return is_call(*call, "GEO_DISTANCE") && (*call)->count == 2 && !plan_uses_reg(*limit, reg);
}

static bool use_condition(struct planner *p, struct node *scan, const struct collection *c,
                          const struct expr *e)
{
    const struct expr *call;
    struct expr *limit;
    struct place place;

    if (e->kind == EXPR_BINARY && e->op == AST_OP_AND)
        return use_condition(p, scan, c, e->kids[0]) || use_condition(p, scan, c, e->kids[1]);
    if (e->kind == EXPR_BINARY && read_limit(e, scan->reg, &call, &limit) &&
        find_place(call, c, scan->reg, false, &place)) {
        use(p, scan, &place, ACCESS_WITHIN, limit);
        return true;
    }
    if (is_call(e, "GEO_IN_RANGE") && !plan_uses_reg(e->kids[3], scan->reg) &&
        find_place(e, c, scan->reg, false, &place)) {
        use(p, scan, &place, ACCESS_WITHIN, e->kids[3]);
        return true;
    }
    if ((is_call(e, "GEO_CONTAINS") && find_place(e, c, scan->reg, true, &place)) ||
        (is_call(e, "GEO_INTERSECTS") && find_place(e, c, scan->reg, false, &place))) {
        use(p, scan, &place, ACCESS_MEETS, NULL);
        return true;
    }
    return false;
}

static bool use_conditions(struct planner *p, struct node *scan)
{
    const struct collection *c =
        catalog_collection_by_id(txn_catalog(p->env->txn), scan->collection);

    if (!c || plan_hint(p, scan)->is_disabled)
        return false;
    for (uint32_t i = 0; i < scan->scan->filter_count; i++)
        if (use_condition(p, scan, c, scan->scan->filters[i]))
            return true;
    return false;
}

/* What a sort is by: its expression, or that of a LET between it and the scan. */
static const struct expr *sort_key(const struct node *sort, const struct node **scan)
{
    const struct expr *key = sort->exprs[0];
    const struct node *n = sort->input;

    for (; n && n->kind == NODE_CALC; n = n->input)
        if (key->kind == EXPR_REG && key->reg == n->reg)
            key = n->expr;
    *scan = n;
    return key;
}

static bool use_sort(struct planner *p, const struct node *sort)
{
    const struct node *found;
    const struct expr *key = sort_key(sort, &found);
    struct node *scan = (struct node *)found;
    struct place place;

    if (sort->limit < 0 || sort->expr_count != 1 || sort->descending[0] || !scan ||
        scan->kind != NODE_ENUM_COLLECTION || plan_hint(p, scan)->is_disabled)
        return false;
    const struct collection *c =
        catalog_collection_by_id(txn_catalog(p->env->txn), scan->collection);
    if (!c || !is_call(key, "GEO_DISTANCE") || key->count != 2 ||
        !find_place(key, c, scan->reg, false, &place))
        return false;
    use(p, scan, &place, ACCESS_NEAR, NULL);
    scan->scan->accesses[0].near = (uint64_t)sort->limit;
    return true;
}

/* A sort comes before its scan is met: the nodes are walked from the last to the first. */
static enum errc use_geo(struct planner *p, struct node **last, bool *changed)
{
    for (struct node *n = *last; n; n = n->input) {
        bool is_used = n->kind == NODE_SORT              ? use_sort(p, n)
                       : n->kind == NODE_ENUM_COLLECTION ? use_conditions(p, n)
                                                         : false;
        *changed = *changed || is_used;
    }
    return OK;
}

const struct rule rules_geo[] = {
    { "use-geo-indexes", use_geo, "Documents are found by where they are." },
    { 0 },
};
