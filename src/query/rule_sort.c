/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about SORT. */
#include "query/planner.h"

/* A sort under a LIMIT keeps only the rows that can come through. */
static enum errc sort_limit(struct planner *p, struct node **last, bool *changed)
{
    (void)p;
    for (struct node *n = *last; n; n = n->input) {
        if (n->kind != NODE_LIMIT || n->limit < 0 || n->counts_full || n->input->kind != NODE_SORT)
            continue;
        n->input->limit = n->offset + n->limit;
        *changed = true;
    }
    return OK;
}

const struct rule rules_sort[] = {
    { "sort-limit", sort_limit,
      "Under a LIMIT only the first rows of a SORT are kept, in a heap." },
    { 0 },
};
