/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each register: which attribute of which collection it holds, as far as the plan tells. A
 * document is the attribute with an empty path. What is made of an encrypted attribute by operators
 * and functions counts as that attribute; what only holds it (an object, an array, a subquery) does
 * not: its members are looked at where they are named.
 */
#include "query/plan_sealed.h"
#include "query/planner.h"
#include "store/txn.h"

enum { NAMES_MAX = 16 };

struct origin {
    const struct collection *collection; /* NULL: not known */
    struct slice names[NAMES_MAX];
    uint32_t count;
    struct slice made_of; /* the encrypted attribute */
};

struct check {
    struct planner *p;
    struct origin *regs;
};

/* ---- paths ---- */

/* The name of a step from an object to its member, if it is known. */
static bool step_name(const struct expr *e, struct slice *name)
{
    bool is_index = e->kind == EXPR_INDEX && e->kids[1] && e->kids[1]->kind == EXPR_CONST &&
                    val_type(e->kids[1]->val) == VAL_STRING;

    *name = is_index ? val_string(e->kids[1]->val) : e->name;
    return is_index || e->kind == EXPR_ATTR;
}

/* Names from the register at the root inwards; false: it is no path. */
static bool read_path(const struct expr *e, uint32_t *reg, struct slice *names, uint32_t *count)
{
    struct slice name;
    uint32_t n = 0;

    for (const struct expr *at = e; step_name(at, &name); at = at->kids[0])
        n++;
    if (n > NAMES_MAX)
        return false;
    *count = n;
    while (step_name(e, &name)) {
        names[--n] = name;
        e = e->kids[0];
    }
    *reg = e->reg;
    return e->kind == EXPR_REG;
}

static bool begins(const struct slice *names, size_t count, const struct field_path *path)
{
    if (path->count > count)
        return false;
    for (size_t i = 0; i < path->count; i++)
        if (!slice_eq(names[i], path->names[i]))
            return false;
    return true;
}

/* The encrypted attribute that the path is, or leads into. */
static bool is_encrypted(const struct collection *c, const struct slice *names, size_t count,
                         struct slice *text)
{
    for (size_t i = 0; i < c->encrypted_count; i++) {
        if (begins(names, count, &c->sealed[i])) {
            *text = c->sealed[i].text;
            return true;
        }
    }
    return false;
}

/* What an expression holds, when it is nothing but a path. */
static bool origin_of(const struct check *k, const struct expr *e, struct origin *out)
{
    struct slice names[NAMES_MAX];
    uint32_t reg, count;

    if (!read_path(e, &reg, names, &count))
        return false;
    *out = k->regs[reg];
    if (out->made_of.len)
        return true;
    if (!out->collection || out->count + count > NAMES_MAX)
        return false;
    for (uint32_t i = 0; i < count; i++)
        out->names[out->count++] = names[i];
    return true;
}

/* The first encrypted attribute that the expression names. */
static bool names_sealed(const struct check *k, const struct expr *e, struct slice *text)
{
    struct origin o;

    if (!e)
        return false;
    if (origin_of(k, e, &o)) {
        *text = o.made_of;
        return o.made_of.len || is_encrypted(o.collection, o.names, o.count, text);
    }
    for (uint32_t i = 0; i < e->count; i++)
        if (names_sealed(k, e->kids[i], text))
            return true;
    return false;
}

/* ---- nodes ---- */

static enum errc refuse(const struct check *k, const char *what, const struct expr *e)
{
    struct slice text;

    if (!names_sealed(k, e, &text))
        return OK;
    return fail_num(k->p->err, 10,
                    "%s by the encrypted attribute '%.*s' is not possible: every document would "
                    "have to be decrypted; find documents by other attributes",
                    what, SLICE_ARG(text));
}

static enum errc refuse_all(const struct check *k, const char *what, struct expr *const *list,
                            uint32_t count)
{
    enum errc rc = OK;

    for (uint32_t i = 0; rc == OK && i < count; i++)
        rc = refuse(k, what, list[i]);
    return rc;
}

static enum errc refuse_aggregates(const struct check *k, const struct aggregate *list,
                                   uint32_t count)
{
    enum errc rc = OK;

    for (uint32_t i = 0; rc == OK && i < count; i++)
        rc = refuse(k, "AGGREGATE", list[i].expr);
    return rc;
}

static enum errc check_node(const struct check *k, const struct node *n)
{
    enum errc rc = OK;

    if (n->scan)
        TRY(refuse_all(k, "FILTER", n->scan->filters, n->scan->filter_count));
    if (n->walk)
        TRY(refuse(k, "PRUNE", n->walk->prune));
    if (n->kind == NODE_FILTER)
        TRY(refuse(k, "FILTER", n->expr));
    if (n->kind == NODE_DISTINCT)
        TRY(refuse(k, "DISTINCT", n->expr));
    if (n->kind == NODE_SORT)
        TRY(refuse_all(k, "SORT", n->exprs, n->expr_count));
    if (n->collect) {
        TRY(refuse_all(k, "COLLECT", n->exprs, n->expr_count));
        TRY(refuse_aggregates(k, n->collect->aggregates, n->collect->aggregate_count));
    }
    if (n->window) {
        TRY(refuse(k, "WINDOW", n->expr));
        TRY(refuse_aggregates(k, n->window->aggregates, n->window->aggregate_count));
    }
out:
    return rc;
}

/* What the node's registers hold from here on. */
static void note(struct check *k, const struct node *n)
{
    struct origin o = { 0 };
    bool holds = n->expr && (n->expr->kind == EXPR_OBJECT || n->expr->kind == EXPR_ARRAY);

    if (n->scan || n->write) {
        o.collection = catalog_collection_by_id(txn_catalog(k->p->env->txn), n->collection);
        if (n->write && n->reg2 != NO_REG)
            k->regs[n->reg2] = o;
    } else if (n->kind == NODE_CALC && !origin_of(k, n->expr, &o)) {
        o = (struct origin){ 0 };
        if (!holds)
            (void)names_sealed(k, n->expr, &o.made_of);
    } else if (n->kind == NODE_ENUM_LIST) {
        if (!names_sealed(k, n->expr, &o.made_of) || holds)
            o.made_of = slice_of(NULL, 0);
    }
    if (n->reg != NO_REG)
        k->regs[n->reg] = o;
}

static enum errc check_pipeline(struct check *k, const struct node *last)
{
    enum errc rc = OK;
    uint32_t count = 0;

    for (const struct node *n = last; n; n = n->input)
        count++;
    const struct node **nodes = arena_alloc(k->p->arena, (count + 1) * sizeof(*nodes));
    for (const struct node *n = last; n; n = n->input)
        nodes[--count] = n;
    for (const struct node **at = nodes; rc == OK; at++) {
        const struct node *n = *at;
        if (n->sub)
            TRY(check_pipeline(k, n->sub));
        if (n->scan) /* its filters look at its document */
            note(k, n);
        TRY(check_node(k, n));
        if (!n->scan)
            note(k, n);
        if (n == last)
            break;
    }
out:
    return rc;
}

/* Some collection of the plan has encrypted attributes. */
static bool concerns(const struct planner *p, const struct node *last)
{
    for (const struct node *n = last; n; n = n->input) {
        const struct collection *c =
            n->collection ? catalog_collection_by_id(txn_catalog(p->env->txn), n->collection)
                          : NULL;
        if ((c && c->encrypted_count) || (n->sub && concerns(p, n->sub)))
            return true;
    }
    return false;
}

enum errc plan_check_sealed(struct planner *p)
{
    struct check k = { .p = p };

    if (!concerns(p, p->plan->root))
        return OK;
    k.regs = arena_zalloc(p->arena, (p->plan->reg_count + 1) * sizeof *k.regs);
    return check_pipeline(&k, p->plan->root);
}

/* ---- scans ---- */

static bool is_related(const struct slice *names, size_t count, const struct field_path *path)
{
    size_t n = count < path->count ? count : path->count;

    for (size_t i = 0; i < n; i++)
        if (!slice_eq(names[i], path->names[i]))
            return false;
    return true;
}

static bool touches(const struct collection *c, const struct slice *names, size_t count)
{
    for (size_t i = 0; i < c->sealed_count; i++)
        if (is_related(names, count, &c->sealed[i]))
            return true;
    return false;
}

static bool uses_sealed(const struct expr *e, uint32_t doc, const struct collection *c)
{
    struct slice names[NAMES_MAX];
    uint32_t reg, count;

    if (!e)
        return false;
    if (read_path(e, &reg, names, &count))
        return reg == doc && touches(c, names, count);
    for (uint32_t i = 0; i < e->count; i++)
        if (uses_sealed(e->kids[i], doc, c))
            return true;
    return false;
}

bool plan_leaves_sealed(const struct node *n, const struct collection *c)
{
    const struct scan *scan = n->scan;

    if (!scan->projects)
        return false;
    for (uint32_t i = 0; i < scan->projection_count; i++)
        if (touches(c, scan->projections[i].names, scan->projections[i].count))
            return false;
    for (uint32_t i = 0; i < scan->filter_count; i++)
        if (uses_sealed(scan->filters[i], n->reg, c))
            return false;
    for (uint32_t i = 0; i < n->expr_count; i++)
        if (uses_sealed(n->exprs[i], n->reg, c))
            return false;
    return true;
}
