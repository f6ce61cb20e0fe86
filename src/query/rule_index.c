/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a scan finds its rows: by key, by an index, by several lookups for the sides of
 * an OR, or all. Of several ways the one with fewest documents is taken, or none where
 * it finds a large part of the collection. The conditions stay as filters, so a choice can make a query faster but never change
 * its result. A search by vector keeps its own index and learns from another one
 * which documents can pass.
 */
#include "query/plan_guess.h"
#include "query/plan_terms.h"
#include "store/doc.h"
#include "store/txn.h"

enum {
    SIDES_MAX = 32,
    LOOKUP_COST = 6,  /* a document by its index, in documents of a full scan */
    SMALL_SCAN = 1000 /* with fewer documents it makes no difference */
};

struct chooser {
    struct planner *p;
    struct node *scan;
    const struct node *last; /* of its pipeline */
    const struct collection *c;
    double all; /* documents; -1: not asked yet */
};

/* Lookups that together find all documents that can pass. */
struct way {
    struct access *accesses;
    uint32_t count;
    double rows;
};

static double guess(struct chooser *ch, const struct access *a)
{
    uint64_t count = 0;

    if (ch->all < 0)
        ch->all = doc_count(ch->p->env->txn, ch->c, &count, NULL) == OK ? (double)count : 0;
    return plan_guess(ch->p->env->txn, ch->c, a, ch->all);
}

/* ---- one lookup ---- */

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
        if (index && (*is_primary || terms_score(terms, index)))
            return index;
    }
    return NULL;
}

/* The index whose lookup gives fewest documents; of equals the one with most fields bound. */
static bool best_index(struct chooser *ch, const struct terms *terms, struct access *out)
{
    const struct collection *c = ch->c;
    unsigned best_score = 0;
    double best_rows = -1;

    for (size_t i = 0; i < c->index_count; i++) {
        unsigned score = terms_score(terms, &c->indexes[i]);
        struct access a;
        if (!score)
            continue;
        terms_access(terms, ch->p, &c->indexes[i], &a);
        if (best_score && best_rows < 0)
            best_rows = guess(ch, out);
        double rows = best_score ? guess(ch, &a) : -1;
        if (best_score && (rows > best_rows || (rows == best_rows && score <= best_score)))
            continue;
        *out = a;
        best_score = score;
        best_rows = rows;
    }
    return best_score > 0;
}

static bool any_access(struct chooser *ch, const struct terms *terms, struct access *out)
{
    return terms_primary(terms, ch->p, out) || best_index(ch, terms, out);
}

/* ---- OR ---- */

static bool is_or(const struct expr *e)
{
    return e->kind == EXPR_BINARY && e->op == AST_OP_OR;
}

/* Each side with what holds beside the OR; false: one of them would need all documents. */
static bool add_sides(struct chooser *ch, const struct terms *beside, const struct expr *e,
                      struct way *way)
{
    struct terms terms = *beside;

    if (is_or(e))
        return add_sides(ch, beside, e->kids[0], way) && add_sides(ch, beside, e->kids[1], way);
    terms_add(&terms, e, ch->scan->reg);
    if (way->count == SIDES_MAX || terms.count == beside->count ||
        !any_access(ch, &terms, &way->accesses[way->count]))
        return false;
    way->count++;
    return true;
}

static void try_or(struct chooser *ch, const struct terms *beside, const struct expr *e,
                   struct way *best)
{
    struct way way = { .accesses = arena_alloc(ch->p->arena, SIDES_MAX * sizeof *way.accesses) };

    if (!add_sides(ch, beside, e, &way))
        return;
    for (uint32_t i = 0; i < way.count; i++)
        way.rows += guess(ch, &way.accesses[i]);
    if (!best->count || way.rows < best->rows)
        *best = way;
}

static void try_ors(struct chooser *ch, const struct terms *beside, const struct expr *e,
                    struct way *best)
{
    if (e->kind == EXPR_BINARY && e->op == AST_OP_AND) {
        try_ors(ch, beside, e->kids[0], best);
        try_ors(ch, beside, e->kids[1], best);
    } else if (is_or(e)) {
        if (best->count == 1 && best->rows < 0)
            best->rows = guess(ch, best->accesses);
        try_or(ch, beside, e, best);
    }
}

/* ---- choosing ---- */

static enum errc unusable_hint(struct planner *p, const struct collection *c)
{
    return fail_num(p->err, 1577, "could not use forced index hint in collection '%.*s'",
                    SLICE_ARG(c->name));
}

/* Nothing above the scan can profit from the order of an index. */
static bool order_is_free(const struct node *last, const struct node *scan)
{
    for (const struct node *n = last; n != scan; n = n->input)
        if (n->kind == NODE_SORT || n->kind == NODE_LIMIT || n->kind == NODE_COLLECT)
            return false;
    return true;
}

static bool finds_by_known_values(const struct way *way)
{
    for (uint32_t i = 0; i < way->count; i++)
        if (!plan_access_is_known(&way->accesses[i]))
            return false;
    return true;
}

/* So many documents pass that reading all in their order costs less than looking these up. */
static bool is_detour(struct chooser *ch, struct way *way)
{
    const struct index_def *index = collection_index(ch->c, way->accesses[0].index);

    if (ch->scan->kind != NODE_ENUM_COLLECTION || !plan_has_one_row(ch->scan) ||
        !order_is_free(ch->last, ch->scan) || !finds_by_known_values(way))
        return false;
    if (way->rows < 0)
        way->rows = guess(ch, way->accesses);
    if (ch->all < SMALL_SCAN || way->rows * LOOKUP_COST < ch->all)
        return false;
    return way->count > 1 || !index || !plan_covers(ch->p, ch->scan, index);
}

static void take(struct node *scan, const struct way *way)
{
    scan->kind = NODE_INDEX;
    scan->scan->accesses = way->accesses;
    scan->scan->access_count = way->count;
}

static enum errc choose(struct chooser *ch)
{
    struct planner *p = ch->p;
    struct node *scan = ch->scan;
    const struct scan_hint *hint = plan_hint(p, scan);
    struct way way = { .accesses = ARENA_NEW(p->arena, struct access), .rows = -1 };
    struct terms terms; /* large: not cleared */
    bool is_primary;

    if (hint->is_disabled)
        return OK;
    terms.count = 0;
    for (uint32_t i = 0; i < scan->scan->filter_count; i++)
        terms_add(&terms, scan->scan->filters[i], scan->reg);
    const struct index_def *index = hinted_index(ch->c, hint, &terms, &is_primary);
    if (index && is_primary)
        way.count = terms_primary(&terms, p, way.accesses);
    else if (index)
        terms_access(&terms, p, index, way.accesses), way.count = 1;
    if (hint->is_forced && !way.count)
        return unusable_hint(p, ch->c);
    bool is_hinted = way.count > 0;
    if (!is_hinted)
        way.count = any_access(ch, &terms, way.accesses);
    bool may_join =
        !is_hinted && scan->kind != NODE_VECTOR && !(way.count && way.accesses[0].index == 0);
    for (uint32_t i = 0; may_join && i < scan->scan->filter_count; i++)
        try_ors(ch, &terms, scan->scan->filters[i], &way);
    if (way.count && !is_hinted && is_detour(ch, &way))
        way.count = 0;
    if (way.count)
        take(scan, &way);
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
        struct chooser ch = { .p = p, .scan = n, .last = *last, .all = -1 };
        ch.c = catalog_collection_by_id(txn_catalog(p->env->txn), n->collection);
        enum errc rc = ch.c ? choose(&ch) : OK;
        if (rc != OK)
            return rc;
        if (is_near)
            keep_near(n);
        *changed = *changed || n->kind == NODE_INDEX || (is_near && n->scan->access_count);
    }
    return OK;
}

const struct rule rules_index[] = {
    { "use-indexes", use_indexes, "Documents are found by indexes instead of a full scan." },
    { 0 },
};
