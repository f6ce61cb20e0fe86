/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as a value: nodes and expressions are arrays of fixed places. */
#include "query/aggregate.h"
#include "query/plan.h"

struct out {
    struct arena *arena;
};

static struct val num(struct out *o, int64_t i)
{
    return val_new_int(o->arena, i);
}

static struct val reg(struct out *o, uint32_t r)
{
    return r == NO_REG ? val_null : num(o, r);
}

static struct val encode_expr(struct out *o, const struct expr *e);

static struct val encode_exprs(struct out *o, struct expr **e, size_t count)
{
    struct val *items = arena_alloc(o->arena, (count + 1) * sizeof *items);

    for (size_t i = 0; i < count; i++)
        items[i] = encode_expr(o, e[i]);
    return val_new_array(o->arena, items, count);
}

static size_t count_exprs(const struct expr *e)
{
    size_t n = 1;

    for (uint32_t i = 0; e && i < e->count; i++)
        n += count_exprs(e->kids[i]);
    return n;
}

/* [kind, op, quantifier, reg, reg2, name, constant, number of kids], then the kids. */
static void add_expr(struct out *o, const struct expr *e, struct val *rows, size_t *at)
{
    if (!e) {
        rows[(*at)++] = val_null;
        return;
    }
    struct val items[] = {
        num(o, e->kind), num(o, e->op),    num(o, e->quantifier),
        reg(o, e->reg),  reg(o, e->reg2),  val_new_string(o->arena, e->name),
        e->val,          num(o, e->count),
    };
    rows[(*at)++] = val_new_array(o->arena, items, ARRAY_LEN(items));
    for (uint32_t i = 0; i < e->count; i++)
        add_expr(o, e->kids[i], rows, at);
}

/* Flat, because expressions nest deeper than values may. */
static struct val encode_expr(struct out *o, const struct expr *e)
{
    if (!e)
        return val_null;
    struct val *rows = arena_alloc(o->arena, count_exprs(e) * sizeof *rows);
    size_t count = 0;
    add_expr(o, e, rows, &count);
    return val_new_array(o->arena, rows, count);
}

static struct val list(struct out *o, const struct val *items, size_t count)
{
    return val_new_array(o->arena, items, count);
}

static struct val encode_write(struct out *o, const struct write_options *w)
{
    if (!w)
        return val_null;
    struct val items[] = { num(o, w->overwrite),
                           val_new_bool(w->drop_nulls),
                           val_new_bool(w->replace_objects),
                           val_new_bool(w->check_rev),
                           val_new_bool(w->ignore_errors),
                           val_new_bool(w->is_replace),
                           val_new_bool(w->needs_old),
                           val_new_bool(w->needs_new),
                           val_new_bool(w->waits_for_sync),
                           val_new_bool(w->is_exclusive),
                           val_new_bool(w->reads_start),
                           val_new_string(o->arena, w->version_attribute) };

    return list(o, items, ARRAY_LEN(items));
}

static struct val encode_flags(struct out *o, const bool *flags, size_t count)
{
    struct val *items = arena_alloc(o->arena, (count + 1) * sizeof *items);

    for (size_t i = 0; i < count; i++)
        items[i] = val_new_bool(flags && flags[i]);
    return list(o, items, count);
}

static struct val encode_regs(struct out *o, const uint32_t *regs, size_t count)
{
    struct val *items = arena_alloc(o->arena, (count + 1) * sizeof *items);

    for (size_t i = 0; i < count; i++)
        items[i] = num(o, regs[i]);
    return list(o, items, count);
}

static struct val encode_names(struct out *o, const struct slice *names, size_t count)
{
    struct val *items = arena_alloc(o->arena, (count + 1) * sizeof *items);

    for (size_t i = 0; i < count; i++)
        items[i] = val_new_string(o->arena, names[i]);
    return list(o, items, count);
}

static struct val encode_aggregates(struct out *o, const struct aggregate *a, size_t count)
{
    struct val *items = arena_alloc(o->arena, (count + 1) * sizeof *items);

    for (size_t i = 0; i < count; i++) {
        struct val row[] = { val_new_string(o->arena, slice_str(aggregate_name(a[i].kind))),
                             num(o, a[i].reg), encode_expr(o, a[i].expr) };
        items[i] = list(o, row, ARRAY_LEN(row));
    }
    return list(o, items, count);
}

static struct val encode_collect(struct out *o, const struct node *n)
{
    const struct collect *c = n->collect;

    if (!c)
        return val_null;
    struct val items[] = { encode_regs(o, c->regs, n->expr_count),
                           encode_aggregates(o, c->aggregates, c->aggregate_count),
                           reg(o, c->count_reg),
                           reg(o, c->into_reg),
                           encode_expr(o, c->into_expr),
                           encode_names(o, c->keep_names, c->keep_count),
                           encode_regs(o, c->keep_regs, c->keep_count),
                           val_new_bool(c->is_sorted) };
    return list(o, items, ARRAY_LEN(items));
}

static struct val encode_window(struct out *o, const struct window *w)
{
    if (!w)
        return val_null;
    struct val items[] = {
        num(o, w->preceding),     num(o, w->following),
        encode_expr(o, w->lower), encode_expr(o, w->upper),
        val_new_bool(w->is_date), encode_aggregates(o, w->aggregates, w->aggregate_count)
    };
    return list(o, items, ARRAY_LEN(items));
}

static struct val encode_access(struct out *o, const struct access *a)
{
    struct val items[] = {
        num(o, (int64_t)a->index),       encode_exprs(o, a->equal, a->equal_count),
        encode_expr(o, a->in),           encode_expr(o, a->lower),
        encode_expr(o, a->upper),        val_new_bool(a->lower_included),
        val_new_bool(a->upper_included), num(o, a->geo),
        num(o, (int64_t)a->near)
    };

    return list(o, items, ARRAY_LEN(items));
}

static struct val encode_projection(struct out *o, const struct projection *p)
{
    struct val items[] = { num(o, p->reg), encode_names(o, p->names, p->count), num(o, p->source),
                           num(o, p->source_skip) };

    return list(o, items, ARRAY_LEN(items));
}

static struct val encode_scan(struct out *o, const struct scan *s)
{
    if (!s)
        return val_null;
    struct val *accesses = arena_alloc(o->arena, (s->access_count + 1) * sizeof *accesses);
    struct val *projections =
        arena_alloc(o->arena, (s->projection_count + 1) * sizeof *projections);
    for (uint32_t i = 0; i < s->access_count; i++)
        accesses[i] = encode_access(o, &s->accesses[i]);
    for (uint32_t i = 0; i < s->projection_count; i++)
        projections[i] = encode_projection(o, &s->projections[i]);
    struct val items[] = { list(o, accesses, s->access_count),
                           val_new_bool(s->is_reverse),
                           encode_exprs(o, s->filters, s->filter_count),
                           val_new_bool(s->projects),
                           val_new_bool(s->is_covering),
                           list(o, projections, s->projection_count),
                           num(o, (int64_t)s->skip) };
    return list(o, items, ARRAY_LEN(items));
}

static struct val encode_walk(struct out *o, const struct walk *w)
{
    if (!w)
        return val_null;
    struct val *edges = arena_alloc(o->arena, (w->edge_count + 1) * sizeof *edges);
    for (uint32_t i = 0; i < w->edge_count; i++) {
        struct val row[] = { num(o, (int64_t)w->edges[i].collection),
                             num(o, w->edges[i].direction) };
        edges[i] = list(o, row, ARRAY_LEN(row));
    }
    struct val items[] = {
        /* 0 */ num(o, w->kind),
        num(o, w->order),
        num(o, w->unique_vertices),
        val_new_bool(w->has_unique_edges),
        val_new_bool(w->is_weighted),
        /* 5 */ num(o, w->min),
        num(o, w->max),
        list(o, edges, w->edge_count),
        encode_names(o, w->vertex_collections, w->vertex_collection_count),
        val_new_string(o->arena, w->weight_attribute),
        /* 10 */ val_new_double(o->arena, w->default_weight),
        encode_expr(o, w->prune),
        reg(o, w->prune_reg),
        reg(o, w->path_reg),
    };
    return list(o, items, ARRAY_LEN(items));
}

static struct val encode_pipeline(struct out *o, const struct node *last);

static struct val encode_node(struct out *o, const struct node *n)
{
    struct val items[] = {
        /* 0 */ num(o, n->kind),
        num(o, n->id),
        reg(o, n->reg),
        reg(o, n->reg2),
        encode_expr(o, n->expr),
        /* 5 */ encode_exprs(o, n->exprs, n->expr_count),
        num(o, (int64_t)n->collection),
        num(o, (int64_t)n->index),
        num(o, n->offset),
        num(o, n->limit),
        /* 10 */ val_new_bool(n->counts_full),
        encode_flags(o, n->descending, n->descending ? n->expr_count : 0),
        n->sub ? encode_pipeline(o, n->sub) : val_null,
        val_new_string(o->arena, n->call),
        encode_regs(o, n->live, n->live_count),
        /* 15 */ encode_scan(o, n->scan),
        encode_collect(o, n),
        encode_write(o, n->write),
        encode_walk(o, n->walk),
        encode_window(o, n->window),
    };
    return list(o, items, ARRAY_LEN(items));
}

/* First node first. */
static struct val encode_pipeline(struct out *o, const struct node *last)
{
    size_t count = 0;

    for (const struct node *n = last; n; n = n->input)
        count++;
    struct val *items = arena_alloc(o->arena, (count + 1) * sizeof *items);
    size_t i = count;
    for (const struct node *n = last; n; n = n->input)
        items[--i] = encode_node(o, n);
    return list(o, items, count);
}

static struct val encode_variables(struct out *o, const struct plan *p)
{
    struct val *items = arena_alloc(o->arena, (p->variable_count + 1) * sizeof *items);

    for (uint32_t i = 0; i < p->variable_count; i++) {
        struct val row[] = { num(o, p->variables[i].reg),
                             val_new_string(o->arena, p->variables[i].name) };
        items[i] = list(o, row, ARRAY_LEN(row));
    }
    return list(o, items, p->variable_count);
}

enum errc plan_encode(const struct plan *p, struct arena *arena, struct val *out, struct error *err)
{
    struct out o = { arena };
    struct slice names[] = { slice_str("registers"), slice_str("nodes"), slice_str("isWrite"),
                             slice_str("hasCalls"),  slice_str("root"),  slice_str("variables"),
                             slice_str("rules") };
    struct val values[] = { num(&o, p->reg_count),        num(&o, p->node_count),
                            val_new_bool(p->is_write),    val_new_bool(p->has_calls),
                            encode_pipeline(&o, p->root), encode_variables(&o, p),
                            num(&o, (int64_t)p->rules) };

    *out = val_new_object(arena, names, values, ARRAY_LEN(names));
    return arena_check(arena, err);
}
