/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which attributes a scan must deliver. Each attribute that is used behind it
 * goes to a register of its own, and the expressions read that register; the
 * document itself is not copied. If an index holds all of them, filters
 * included, its documents are not read at all.
 *
 * Registers belong to one variable each, so one walk over all expressions says
 * how every register is used.
 */
#include "query/planner.h"
#include "store/txn.h"

enum { PROJECTIONS_DEFAULT = 8, PATH_MAX_NAMES = 8 };

/* How one register is used. */
struct use {
    bool is_whole;
    struct expr **paths; /* outermost attributes of it */
    uint32_t count, cap;
};

struct uses {
    struct planner *p;
    struct use *regs;
    uint32_t except; /* this register is not looked at */
};

static void add_path(struct uses *u, struct use *use, struct expr *e)
{
    if (use->count == use->cap) {
        uint32_t cap = use->cap ? use->cap * 2 : 4;
        struct expr **more = plan_expr_list(u->p, cap);
        if (use->count)
            memcpy(more, use->paths, use->count * sizeof(*more));
        use->paths = more;
        use->cap = cap;
    }
    use->paths[use->count++] = e;
}

/* The register under attributes only, or NULL. */
static struct expr *path_root(struct expr *e)
{
    while (e->kind == EXPR_ATTR)
        e = e->kids[0];
    return e->kind == EXPR_REG ? e : NULL;
}

static void use_expr(struct uses *u, struct expr *e)
{
    struct expr *root = e ? path_root(e) : NULL;

    if (!e)
        return;
    if (root && root->reg == u->except)
        return;
    if (root && root == e)
        u->regs[e->reg].is_whole = true;
    else if (root)
        add_path(u, &u->regs[root->reg], e);
    else
        for (uint32_t i = 0; i < e->count; i++)
            use_expr(u, e->kids[i]);
}

static void visit_expr(struct expr **e, void *ctx)
{
    use_expr(ctx, *e);
}

static void visit_kept(uint32_t reg, void *ctx)
{
    ((struct uses *)ctx)->regs[reg].is_whole = true;
}

/* Filters of a scan see the stored document, so they do not count as a use of it. */
static void use_pipeline(struct uses *u, struct node *n, const struct node *end)
{
    for (; n != end; n = n->input) {
        u->except = n->scan ? n->reg : NO_REG;
        node_each_expr(n, visit_expr, u);
        node_each_kept(n, visit_kept, u);
        if (n->sub)
            use_pipeline(u, n->sub, NULL);
    }
}

/* ---- paths ---- */

/* Names from the document inwards; 0 when there are too many. */
static uint32_t path_names(const struct expr *e, struct slice *names)
{
    uint32_t count = 0;

    for (const struct expr *at = e; at->kind == EXPR_ATTR; at = at->kids[0])
        if (++count > PATH_MAX_NAMES)
            return 0;
    uint32_t i = count;
    for (const struct expr *at = e; at->kind == EXPR_ATTR; at = at->kids[0])
        names[--i] = at->name;
    return count;
}

static bool begins_with(const struct slice *names, uint32_t count, const struct projection *p)
{
    if (p->count > count)
        return false;
    for (uint32_t i = 0; i < p->count; i++)
        if (!slice_eq(names[i], p->names[i]))
            return false;
    return true;
}

static void set_path(struct planner *p, struct projection *to, const struct slice *names,
                     uint32_t count)
{
    *to = (struct projection){ .reg = NO_REG, .count = count, .source = SOURCE_NONE };
    to->names = arena_alloc(p->arena, count * sizeof *to->names);
    to->hashes = arena_alloc(p->arena, count * sizeof *to->hashes);
    for (uint32_t i = 0; i < count; i++) {
        to->names[i] = names[i];
        to->hashes[i] = val_name_hash(names[i]);
    }
}

struct choice {
    struct projection *items;
    uint32_t count, max;
};

/* Adds a path; one that leads through it is not needed beside it. False: too many. */
static bool choose_path(struct planner *p, struct choice *c, const struct expr *e)
{
    struct slice names[PATH_MAX_NAMES];
    struct projection one;
    uint32_t count = path_names(e, names), kept = 0;

    if (!count)
        return false;
    for (uint32_t i = 0; i < c->count; i++)
        if (begins_with(names, count, &c->items[i]))
            return true;
    set_path(p, &one, names, count);
    for (uint32_t i = 0; i < c->count; i++)
        if (!begins_with(c->items[i].names, c->items[i].count, &one))
            c->items[kept++] = c->items[i];
    c->count = kept;
    if (c->count == c->max)
        return false;
    c->items[c->count++] = one;
    return true;
}

static bool choose_paths(struct planner *p, struct choice *c, const struct use *use)
{
    for (uint32_t i = 0; i < use->count; i++)
        if (use->paths[i]->kind == EXPR_ATTR && !choose_path(p, c, use->paths[i]))
            return false;
    return true;
}

/* The expression, or the part of it that is the projection, becomes its register. */
static void rewrite(const struct choice *c, struct expr *e)
{
    struct slice names[PATH_MAX_NAMES];
    uint32_t count = path_names(e, names);

    for (uint32_t i = 0; count && i < c->count; i++) {
        if (!begins_with(names, count, &c->items[i]))
            continue;
        for (; count > c->items[i].count; count--)
            e = e->kids[0];
        e->kind = EXPR_REG;
        e->reg = c->items[i].reg;
        e->count = 0;
        e->kids = NULL;
        e->name = (struct slice){ NULL, 0 };
        return;
    }
}

static void rewrite_all(const struct choice *c, const struct use *use)
{
    for (uint32_t i = 0; i < use->count; i++)
        rewrite(c, use->paths[i]);
}

/* ---- covering ---- */

static bool leads_to(const struct projection *p, const struct field_path *f)
{
    if (f->is_expanded || f->count > p->count)
        return false;
    for (uint32_t i = 0; i < f->count; i++)
        if (!slice_eq(p->names[i], f->names[i]))
            return false;
    return true;
}

static bool find_source(const struct index_def *index, struct projection *p)
{
    for (size_t i = 0; i < index->field_count; i++) {
        if (leads_to(p, &index->fields[i])) {
            p->source = (uint8_t)i;
            p->source_skip = (uint8_t)index->fields[i].count;
            return true;
        }
    }
    for (size_t i = 0; i < index->stored_count; i++) {
        if (leads_to(p, &index->stored[i])) {
            p->source = (uint8_t)(SOURCE_STORED + i);
            p->source_skip = (uint8_t)index->stored[i].count;
            return true;
        }
    }
    bool is_key = slice_is(p->names[0], "_key"), is_id = slice_is(p->names[0], "_id");
    p->source = is_key ? SOURCE_KEY : SOURCE_ID;
    p->source_skip = 1;
    return is_key || is_id;
}

/* The one index of the scan, if its entries can stand for documents. */
static const struct index_def *entry_index(struct planner *p, const struct node *n)
{
    const struct collection *c = catalog_collection_by_id(txn_catalog(p->env->txn), n->collection);

    if (n->kind != NODE_INDEX || n->scan->access_count != 1 || !c)
        return NULL;
    const struct index_def *index = collection_index(c, n->scan->accesses[0].index);
    if (!index || index->kind != INDEX_PERSISTENT)
        return NULL;
    for (size_t i = 0; i < index->field_count; i++)
        if (index->fields[i].is_expanded)
            return NULL;
    return index;
}

static void filter_uses(struct planner *p, struct node *n, struct use *out)
{
    struct uses u = { p, arena_zalloc(p->arena, p->plan->reg_count * sizeof *u.regs), NO_REG };

    for (uint32_t i = 0; i < n->scan->filter_count; i++)
        use_expr(&u, n->scan->filters[i]);
    *out = u.regs[n->reg];
}

/* True when the index has what filters and the rest of the query use. */
static bool cover(struct planner *p, const struct index_def *index, struct choice *c,
                  const struct use *filters)
{
    if (filters->is_whole || !choose_paths(p, c, filters))
        return false;
    for (uint32_t i = 0; i < c->count; i++)
        if (!find_source(index, &c->items[i]))
            return false;
    return true;
}

/* ---- the rules ---- */

static uint32_t projections_max(const struct planner *p, const struct node *n)
{
    uint32_t asked = plan_hint(p, n)->max_projections;

    if (!asked)
        return PROJECTIONS_DEFAULT;
    return asked - 1 < PROJECTIONS_MAX ? asked - 1 : PROJECTIONS_MAX;
}

static struct choice new_choice(struct planner *p, uint32_t max)
{
    return (struct choice){ arena_alloc(p->arena, (max + 1) * sizeof(struct projection)), 0, max };
}

static void name_projection(struct planner *p, struct slice document, const struct projection *one)
{
    struct buf text;

    buf_init(&text, 0);
    buf_add_slice(&text, document);
    for (uint32_t i = 0; i < one->count; i++)
        buf_printf(&text, ".`%.*s`", SLICE_ARG(one->names[i]));
    plan_name_reg(p, arena_copy(p->arena, buf_slice(&text)), one->reg);
    buf_release(&text);
}

static void set_projections(struct planner *p, struct node *n, struct choice *c,
                            const struct use *use)
{
    struct slice document = plan_reg_name(p, n->reg);

    for (uint32_t i = 0; i < c->count; i++) {
        c->items[i].reg = plan_reg(p);
        name_projection(p, document, &c->items[i]);
    }
    rewrite_all(c, use);
    n->scan->projects = true;
    n->scan->projections = c->items;
    n->scan->projection_count = c->count;
}

static bool try_cover(struct planner *p, struct node *n, const struct use *use)
{
    const struct index_def *index = use->is_whole ? NULL : entry_index(p, n);
    struct use filters;

    if (!index)
        return false;
    struct choice c = new_choice(p, PROJECTIONS_MAX);
    filter_uses(p, n, &filters);
    if (!choose_paths(p, &c, use) || !cover(p, index, &c, &filters))
        return false;
    set_projections(p, n, &c, use);
    rewrite_all(&c, &filters);
    n->scan->is_covering = true;
    return true;
}

static bool try_project(struct planner *p, struct node *n, const struct use *use)
{
    if (use->is_whole)
        return false;
    struct choice c = new_choice(p, projections_max(p, n));
    if (!choose_paths(p, &c, use))
        return false;
    set_projections(p, n, &c, use);
    return true;
}

/* A pipeline sees registers of those around it, so all of the plan is walked. */
static struct uses find_uses(struct planner *p)
{
    struct uses u = { p, arena_zalloc(p->arena, (p->plan->reg_count + 1) * sizeof *u.regs),
                      NO_REG };

    use_pipeline(&u, p->plan->root, NULL);
    return u;
}

/* The index holds what nodes from top down to the scan use of its documents. */
static bool covers_below(struct planner *p, struct node *scan, const struct index_def *index,
                         struct node *top)
{
    struct uses u = { p, arena_zalloc(p->arena, (p->plan->reg_count + 1) * sizeof *u.regs),
                      NO_REG };
    struct choice c = new_choice(p, PROJECTIONS_MAX);
    struct use filters;

    use_pipeline(&u, top, scan);
    if (u.regs[scan->reg].is_whole)
        return false;
    filter_uses(p, scan, &filters);
    return choose_paths(p, &c, &u.regs[scan->reg]) && cover(p, index, &c, &filters);
}

typedef bool (*projector)(struct planner *p, struct node *n, const struct use *use);

bool plan_covers(struct planner *p, struct node *scan, const struct index_def *index)
{
    struct uses u = find_uses(p);
    const struct use *use = &u.regs[scan->reg];
    struct choice c = new_choice(p, PROJECTIONS_MAX);
    struct use filters;

    if (use->is_whole)
        return false;
    filter_uses(p, scan, &filters);
    return choose_paths(p, &c, use) && cover(p, index, &c, &filters);
}

static void each_scan(struct planner *p, struct node *last, const struct uses *u, projector fn,
                      bool *changed)
{
    for (struct node *n = last; n; n = n->input)
        if (n->scan && !n->scan->projects)
            *changed |= fn(p, n, &u->regs[n->reg]);
}

static enum errc use_covering(struct planner *p, struct node **last, bool *changed)
{
    struct uses u = find_uses(p);

    each_scan(p, *last, &u, try_cover, changed);
    return OK;
}

static enum errc project(struct planner *p, struct node **last, bool *changed)
{
    struct uses u = find_uses(p);

    each_scan(p, *last, &u, try_project, changed);
    return OK;
}

/* The scan that a LIMIT with a sort under it cuts, or NULL. */
static struct node *cut_scan(const struct node *limit)
{
    bool has_sort = false;
    struct node *n = limit->input;

    for (; n && (n->kind == NODE_SORT || n->kind == NODE_CALC || n->kind == NODE_FILTER);
         n = n->input)
        has_sort = has_sort || n->kind == NODE_SORT;
    return n && n->kind == NODE_INDEX && has_sort ? n : NULL;
}

/* Behind the LIMIT the document is looked up by its key, and has a register of its own. */
static void look_up_behind(struct planner *p, struct node *last, struct node *limit,
                           struct node *scan)
{
    struct node *look = plan_loose_node(p, NODE_INDEX), *above = last;

    look->collection = scan->collection;
    look->reg = plan_reg(p);
    look->scan = ARENA_NEW(p->arena, struct scan);
    look->scan->access_count = 1;
    look->scan->accesses = ARENA_NEW(p->arena, struct access);
    look->scan->accesses->equal = plan_expr_list(p, 1);
    look->scan->accesses->equal_count = 1;
    look->scan->accesses->equal[0] =
        plan_attr_expr(p, plan_reg_expr(p, scan->reg), slice_str("_key"));
    plan_name_reg(p, plan_reg_name(p, scan->reg), look->reg);
    plan_rename_reg(last, limit, scan->reg, look->reg);
    while (above->input != limit)
        above = above->input;
    look->input = limit;
    above->input = look;
}

/* A sort that an index has the values for needs no documents but those that it leaves. */
static enum errc materialize_late(struct planner *p, struct node **last, bool *changed)
{
    for (struct node *n = *last; n; n = n->input) {
        struct node *scan = n->kind == NODE_LIMIT && n->limit >= 0 ? cut_scan(n) : NULL;
        const struct index_def *index = scan ? entry_index(p, scan) : NULL;
        if (!index || n == *last || plan_covers(p, scan, index) || !covers_below(p, scan, index, n))
            continue;
        look_up_behind(p, *last, n, scan);
        *changed = true;
    }
    return OK;
}

/* What names a document by itself needs its key only. */
static enum errc write_by_key(struct planner *p, struct node **last, bool *changed)
{
    for (struct node *n = *last; n; n = n->input) {
        bool has_name = n->write && n->kind != NODE_INSERT && n->kind != NODE_UPSERT;
        if (!has_name || n->write->check_rev || !n->exprs[0] || n->exprs[0]->kind != EXPR_REG)
            continue;
        for (const struct node *below = n->input; below; below = below->input) {
            if (!below->scan || below->reg != n->exprs[0]->reg)
                continue;
            n->exprs[0] = plan_attr_expr(p, n->exprs[0], slice_str("_key"));
            *changed = true;
            break;
        }
    }
    return OK;
}

const struct rule rules_projection[] = {
    { "write-by-key", write_by_key,
      "Of a document that names itself to a write, its key is read." },
    { "late-document-materialization", materialize_late,
      "Rows are sorted and cut by what the index holds; then their documents are read." },
    { "use-covering-index", use_covering,
      "An index that holds all that is used is read alone, without its documents." },
    { "reduce-extraction-to-projection", project,
      "Of a document only the attributes that are used are copied." },
    { 0 },
};
