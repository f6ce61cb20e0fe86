/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about conditions. */
#include "query/planner.h"

enum { PARTS_MAX = 64 };

/* ---- what may move ---- */

struct setter {
    const struct expr *e;
    bool is_read;
};

static void check_reg(uint32_t reg, void *ctx)
{
    struct setter *s = ctx;

    s->is_read = s->is_read || plan_uses_reg(s->e, reg);
}

static void check_steady(struct expr **e, void *ctx)
{
    bool *steady = ctx;

    *steady = *steady && plan_is_steady(*e);
}

/* Rows that fail the condition may be dropped before the node as well as behind it. */
static bool may_pass(struct node *n, const struct expr *e)
{
    struct setter s = { e, false };
    bool steady = true;

    switch ((enum node_kind)n->kind) {
    case NODE_ENUM_LIST:
    case NODE_ENUM_COLLECTION:
    case NODE_INDEX:
    case NODE_TRAVERSE:
    case NODE_PATHS:
    case NODE_FILTER:
    case NODE_CALC:
    case NODE_CALL:
    case NODE_SORT:
        break;
    case NODE_SUBQUERY:
        if (plan_writes(n->sub))
            return false;
        break;
    case NODE_SINGLETON:
    case NODE_VECTOR: /* its rows are the nearest of all, not of those that pass */
    case NODE_HASH_JOIN:
    case NODE_LIMIT:
    case NODE_COLLECT:
    case NODE_WINDOW:
    case NODE_DISTINCT:
    case NODE_INSERT:
    case NODE_UPDATE:
    case NODE_REPLACE:
    case NODE_REMOVE:
    case NODE_UPSERT:
    case NODE_RETURN:
        return false;
    }
    node_each_reg(n, check_reg, &s);
    node_each_expr(n, check_steady, &steady);
    return !s.is_read && steady;
}

/* ---- moving ---- */

/* Where the condition can stand earliest, or NULL: where it is. */
static struct node **earliest(struct node *filter, const struct expr *e)
{
    struct node **best = NULL;

    if (!plan_is_steady(e))
        return NULL;
    for (struct node **at = &filter->input; may_pass(*at, e); at = &(*at)->input)
        if ((*at)->kind != NODE_FILTER)
            best = &(*at)->input;
    return best;
}

/* The operands of AND; false: too many. */
static bool split(struct expr *e, struct expr **parts, size_t *count)
{
    if (e->kind == EXPR_BINARY && e->op == AST_OP_AND)
        return split(e->kids[0], parts, count) && split(e->kids[1], parts, count);
    if (*count == PARTS_MAX)
        return false;
    parts[(*count)++] = e;
    return true;
}

static void insert_filter(struct planner *p, struct node **at, struct expr *e)
{
    struct node *n = plan_loose_node(p, NODE_FILTER);

    n->expr = e;
    n->input = *at;
    *at = n;
}

/* Moves the parts that can; what remains of the condition, or NULL. */
static struct expr *move_parts(struct planner *p, struct node *filter, bool *changed)
{
    struct expr *parts[PARTS_MAX], *rest = NULL;
    size_t count = 0;

    if (!split(filter->expr, parts, &count))
        return filter->expr;
    for (size_t i = 0; i < count; i++) {
        struct node **at = earliest(filter, parts[i]);
        if (at) {
            insert_filter(p, at, parts[i]);
            *changed = true;
        } else {
            rest = rest ? plan_binary_expr(p, AST_OP_AND, rest, parts[i]) : parts[i];
        }
    }
    return rest;
}

static enum errc move_up(struct planner *p, struct node **last, bool *changed)
{
    for (struct node **at = last; *at;) {
        struct node *n = *at;
        bool has_moved = false;
        struct expr *rest = n->kind == NODE_FILTER ? move_parts(p, n, &has_moved) : NULL;
        *changed |= has_moved;
        if (has_moved && rest)
            n->expr = rest;
        if (has_moved && !rest)
            *at = n->input;
        else
            at = &n->input;
    }
    return OK;
}

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
    { "move-filters-up", move_up, "Conditions are tested as soon as their values are known." },
    { "move-filters-into-enumerate", into_enumerate,
      "Conditions on a document are tested where it is read." },
    { 0 },
};
