/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about order: an index gives rows sorted by its fields, behind those that are
 * bound to one value. Rows that are equal in all keys may come in another order than
 * a sort would leave them in.
 */
#include "query/plan_terms.h"
#include "store/txn.h"

/* ---- what an index gives in order ---- */

/* A key that is a variable stands for what the variable was set to. */
static const struct expr *resolved(const struct node *from, const struct expr *key)
{
    if (key->kind != EXPR_REG)
        return key;
    for (const struct node *n = from; n; n = n->input)
        if (n->kind == NODE_CALC && n->reg == key->reg)
            return n->expr;
    return key;
}

/* Rows pass on in their order, each any number of times. */
static bool keeps_order(const struct node *n)
{
    return n->kind == NODE_FILTER || n->kind == NODE_CALC || n->kind == NODE_SUBQUERY ||
           n->kind == NODE_CALL || n->kind == NODE_ENUM_LIST || n->kind == NODE_TRAVERSE ||
           n->kind == NODE_PATHS || n->scan;
}

/* The scan that decides the order of the rows that reach the node, or NULL. */
static struct node *ordering_scan(const struct node *behind)
{
    struct node *n = behind->input;

    while (n && keeps_order(n) && !(n->scan && plan_has_one_row(n)))
        n = n->input;
    bool is_scan = n && n->scan && (n->kind == NODE_ENUM_COLLECTION || n->kind == NODE_INDEX);
    return is_scan && n->scan->access_count <= 1 ? n : NULL;
}

struct order {
    const struct node *behind; /* SORT or COLLECT */
    uint32_t reg;              /* of the scan */
    bool is_grouping;          /* keys ascend */
};

static bool is_bound(const struct attr_path *path, const struct index_def *index, size_t bound)
{
    for (size_t i = 0; i < bound; i++)
        if (attr_path_is(path, &index->fields[i]))
            return true;
    return false;
}

/* Keys are the fields behind the first bound ones, all in one direction. */
static bool is_ordered(const struct order *o, const struct index_def *index, size_t bound,
                       bool *is_reverse)
{
    const struct node *n = o->behind;
    size_t field = bound;
    struct attr_path path;

    *is_reverse = false;
    for (uint32_t i = 0; i < n->expr_count; i++) {
        if (!attr_path_read(resolved(n->input, n->exprs[i]), o->reg, &path))
            return false;
        if (is_bound(&path, index, bound))
            continue;
        bool is_descending = !o->is_grouping && n->descending[i];
        if (field == index->field_count || !attr_path_is(&path, &index->fields[field]) ||
            (field > bound && is_descending != *is_reverse))
            return false;
        *is_reverse = is_descending;
        field++;
    }
    return true;
}

static const struct collection *collection_of(const struct planner *p, const struct node *n)
{
    return catalog_collection_by_id(txn_catalog(p->env->txn), n->collection);
}

/* The lookup that the scan makes gives the order already. */
static bool gives_order(const struct planner *p, const struct order *o, const struct node *scan,
                        bool *is_reverse)
{
    const struct collection *c = collection_of(p, scan);
    const struct access *a = scan->scan->accesses;

    if (scan->kind != NODE_INDEX || !c || a->in)
        return false;
    const struct index_def *index = collection_index(c, a->index);
    return index && index_is_plain(index) && is_ordered(o, index, a->equal_count, is_reverse);
}

/* A full scan becomes one through the index, where that is no detour. */
static bool take_order(struct planner *p, const struct order *o, struct node *scan, bool is_short,
                       bool *is_reverse)
{
    const struct collection *c = collection_of(p, scan);
    const struct scan_hint *hint = plan_hint(p, scan);
    struct terms terms; /* large: not cleared */

    if (scan->kind != NODE_ENUM_COLLECTION || !c || hint->is_disabled || hint->is_forced)
        return false;
    terms.count = 0;
    for (uint32_t i = 0; i < scan->scan->filter_count; i++)
        terms_add(&terms, scan->scan->filters[i], scan->reg);
    for (size_t i = 0; i < c->index_count; i++) {
        const struct index_def *index = &c->indexes[i];
        if (!index_is_plain(index) || !terms_reach(&terms, index) ||
            !is_ordered(o, index, 0, is_reverse) || !(is_short || plan_covers(p, scan, index)))
            continue;
        scan->kind = NODE_INDEX;
        scan->scan->accesses = ARENA_NEW(p->arena, struct access);
        scan->scan->access_count = 1;
        scan->scan->accesses->index = index->id;
        return true;
    }
    return false;
}

/* ---- the rules ---- */

static bool is_limited(const struct node *limit)
{
    return limit && limit->kind == NODE_LIMIT && limit->limit >= 0 && !limit->counts_full;
}

static enum errc index_for_sort(struct planner *p, struct node **last, bool *changed)
{
    const struct node *above = NULL;

    for (struct node **at = last; *at;) {
        struct node *n = *at, *scan = n->kind == NODE_SORT ? ordering_scan(n) : NULL;
        struct order o = { .behind = n, .reg = scan ? scan->reg : NO_REG };
        bool is_reverse = false;
        if (scan && n->expr_count &&
            (gives_order(p, &o, scan, &is_reverse) ||
             take_order(p, &o, scan, is_limited(above), &is_reverse))) {
            scan->scan->is_reverse = is_reverse;
            *at = n->input;
            *changed = true;
            continue;
        }
        above = n;
        at = &n->input;
    }
    return OK;
}

/* Groups that come one after the other need no table. */
static enum errc index_for_collect(struct planner *p, struct node **last, bool *changed)
{
    for (struct node *n = *last; n; n = n->input) {
        struct node *scan = n->kind == NODE_COLLECT && n->expr_count ? ordering_scan(n) : NULL;
        struct order o = { .behind = n, .reg = scan ? scan->reg : NO_REG, .is_grouping = true };
        bool is_reverse;
        if (!scan || n->collect->is_hash || scan->scan->is_reverse ||
            !(gives_order(p, &o, scan, &is_reverse) || take_order(p, &o, scan, false, &is_reverse)))
            continue;
        n->collect->is_sorted = true;
        *changed = true;
    }
    return OK;
}

/* A sort under a LIMIT keeps only the rows that can come through. */
static enum errc sort_limit(struct planner *p, struct node **last, bool *changed)
{
    (void)p;
    for (struct node *n = *last; n; n = n->input) {
        if (!is_limited(n) || n->input->kind != NODE_SORT)
            continue;
        n->input->limit = n->offset + n->limit;
        *changed = true;
    }
    return OK;
}

const struct rule rules_sort[] = {
    { "use-index-for-sort", index_for_sort, "Rows come from an index in the order of the SORT." },
    { "use-index-for-collect", index_for_collect,
      "Rows come from an index group by group, so that COLLECT keeps one group at a time." },
    { "sort-limit", sort_limit,
      "Under a LIMIT only the first rows of a SORT are kept, in a heap." },
    { 0 },
};
