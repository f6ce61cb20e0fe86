/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offset of a LIMIT goes to the scan under it, which passes over so many entries
 * of its index without reading their documents. That counts right only where the index
 * decides alone which documents come: what the lookup does not say is no filter there.
 */
#include "query/plan_terms.h"
#include "store/txn.h"

/* Every document that the scan finds passes its filters. */
static bool finds_what_passes(struct planner *p, const struct node *n)
{
    const struct scan *s = n->scan;
    const struct collection *c = catalog_collection_by_id(txn_catalog(p->env->txn), n->collection);

    if (n->kind == NODE_ENUM_COLLECTION)
        return !s->filter_count;
    if (n->kind != NODE_INDEX || s->access_count != 1 || !c)
        return false;
    const struct index_def *index = collection_index(c, s->accesses->index);
    if (!index || index->kind != INDEX_PERSISTENT)
        return false; /* a listed key may be missing, a place too far */
    for (uint32_t i = 0; i < s->filter_count; i++)
        if (!access_implies(s->accesses, index, s->filters[i], n->reg))
            return false;
    return true;
}

/* The scan whose rows, one for each document, are those that the LIMIT counts; or NULL. */
static struct node *cut_scan(struct planner *p, const struct node *limit)
{
    struct node *n = limit->input;

    while (n->kind == NODE_CALC && plan_is_steady(n->expr))
        n = n->input;
    return n->scan && plan_has_one_row(n) && finds_what_passes(p, n) ? n : NULL;
}

static enum errc skip_offset(struct planner *p, struct node **last, bool *changed)
{
    for (struct node *n = *last; n; n = n->input) {
        bool has_offset = n->kind == NODE_LIMIT && n->offset > 0 && !n->counts_full;
        struct node *scan = has_offset ? cut_scan(p, n) : NULL;
        if (!scan)
            continue;
        scan->scan->skip = (uint64_t)n->offset;
        n->offset = 0;
        *changed = true;
    }
    return OK;
}

const struct rule rules_limit[] = {
    { "push-limit-into-scan", skip_offset,
      "The documents in front of a LIMIT's offset are passed over in the index, unread." },
    { 0 },
};
