/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about traversals and path searches. */
#include "query/planner.h"

/* By what stands behind the node, or by its own PRUNE. */
static bool is_used(struct node *last, const struct node *n, uint32_t reg)
{
    if (plan_uses_reg(n->walk->prune, reg))
        return true;
    for (struct node *at = n->sub; at; at = at->input)
        if (node_uses_reg(at, reg))
            return true;
    for (struct node *at = last; at != n; at = at->input)
        if (node_uses_reg(at, reg))
            return true;
    return false;
}

static bool drop_unused(struct node *last, const struct node *n, uint32_t *reg)
{
    if (*reg == NO_REG || is_used(last, n, *reg))
        return false;
    *reg = NO_REG;
    return true;
}

/* Documents are not read and paths not made for variables that nobody looks at. */
static enum errc optimize_traversals(struct planner *p, struct node **last, bool *changed)
{
    (void)p;
    for (struct node *n = *last; n; n = n->input) {
        if (!n->walk)
            continue;
        *changed |= drop_unused(*last, n, &n->reg);
        *changed |= drop_unused(*last, n, &n->reg2);
        *changed |= drop_unused(*last, n, &n->walk->path_reg);
        *changed |= drop_unused(*last, n, &n->walk->prune_reg);
    }
    return OK;
}

const struct rule rules_graph[] = {
    { "optimize-traversals", optimize_traversals,
      "A traversal reads documents and makes paths only where they are used." },
    { 0 },
};
