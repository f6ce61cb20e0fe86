/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about conditions. */
#include "query/planner.h"

/* A FILTER right behind its scan runs inside it, on the stored bytes. */
static enum errc into_enumerate(struct planner *p, struct node **last, bool *changed)
{
    for (struct node **at = last; *at;) {
        struct node *n = *at;
        if (n->kind != NODE_FILTER || !plan_is_scan(n->input) || n->input->kind == NODE_VECTOR) {
            at = &n->input;
            continue;
        }
        plan_add_filter(p, n->input, n->expr);
        *at = n->input;
        *changed = true;
        at = last; /* the FILTER above is now behind the scan */
    }
    return OK;
}

const struct rule rules_filter[] = {
    { "move-filters-into-enumerate", into_enumerate,
      "Conditions on a document are tested where it is read." },
    { 0 },
};
