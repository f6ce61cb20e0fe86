/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan in ArangoDB's shape. Expressions are given as text, each node also as a
 * line for people.
 */
#include "query/aggregate.h"
#include "query/plan_guess.h"
#include "query/plan_print.h"
#include "query/planner.h"
#include "query/query_private.h"
#include "store/doc.h"

struct explain {
    struct val_builder *b;
    const struct query *q;
    const struct catalog *catalog;
    struct plan_printer printer;
};

/* ---- members ---- */

static void name(struct explain *e, const char *text)
{
    val_put_name(e->b, slice_str(text));
}

static void put_text(struct explain *e, const char *member, struct slice value)
{
    name(e, member);
    val_put_string(e->b, value);
}

static void put_number(struct explain *e, const char *member, int64_t value)
{
    name(e, member);
    val_put_int(e->b, value);
}

static void put_double(struct explain *e, const char *member, double value)
{
    name(e, member);
    val_put_double(e->b, value);
}

static void put_flag(struct explain *e, const char *member, bool value)
{
    name(e, member);
    val_put_bool(e->b, value);
}

static void open_list(struct explain *e, const char *member)
{
    name(e, member);
    val_open_array(e->b);
}

static void open_object(struct explain *e, const char *member)
{
    name(e, member);
    val_open_object(e->b);
}

static void put_expr(struct explain *e, const char *member, const struct expr *expr)
{
    struct buf text;

    if (!expr)
        return;
    buf_init(&text, 0);
    plan_print_expr(&e->printer, expr, &text);
    put_text(e, member, buf_slice(&text));
    buf_release(&text);
}

static void put_variable(struct explain *e, const char *member, uint32_t reg)
{
    struct buf text;

    if (reg == NO_REG)
        return;
    buf_init(&text, 0);
    plan_print_reg(&e->printer, reg, &text);
    open_object(e, member);
    put_number(e, "id", reg);
    put_text(e, "name", buf_slice(&text));
    val_close(e->b);
    buf_release(&text);
}

static void put_line(struct explain *e, const struct node *n)
{
    struct buf text;

    buf_init(&text, 0);
    plan_print_node(&e->printer, n, &text);
    put_text(e, "text", buf_slice(&text));
    buf_release(&text);
}

/* ---- nodes ---- */

static const char *const geo_words[] = { [ACCESS_PLAIN] = "",
                                         [ACCESS_WITHIN] = "within",
                                         [ACCESS_MEETS] = "meets",
                                         [ACCESS_NEAR] = "nearest" };

static void put_index(struct explain *e, const struct collection *c, const struct index_def *index,
                      const struct access *a)
{
    val_open_object(e->b);
    put_number(e, "id", (int64_t)index->id);
    put_text(e, "type", slice_str(index->type));
    put_text(e, "name", index->name);
    put_text(e, "collection", c->name);
    open_list(e, "fields");
    for (size_t i = 0; i < index->field_count; i++)
        val_put_string(e->b, index->fields[i].text);
    val_close(e->b);
    if (index->stored_count) {
        open_list(e, "storedValues");
        for (size_t i = 0; i < index->stored_count; i++)
            val_put_string(e->b, index->stored[i].text);
        val_close(e->b);
    }
    put_flag(e, "unique", index->is_unique);
    put_flag(e, "sparse", index->is_sparse);
    open_list(e, "equal");
    for (uint32_t i = 0; a && i < a->equal_count; i++) {
        struct buf text;
        buf_init(&text, 0);
        plan_print_expr(&e->printer, a->equal[i], &text);
        val_put_string(e->b, buf_slice(&text));
        buf_release(&text);
    }
    val_close(e->b);
    if (a) {
        put_expr(e, "in", a->in);
        put_expr(e, a->lower_included ? "from" : "above", a->lower);
        put_expr(e, a->upper_included ? "to" : "below", a->upper);
        if (a->geo)
            put_text(e, "geo", slice_str(geo_words[a->geo]));
    }
    val_close(e->b);
}

static void put_indexes(struct explain *e, const struct node *n, const struct collection *c)
{
    const struct index_def *index;

    if (n->kind == NODE_ENUM_COLLECTION || n->kind == NODE_HASH_JOIN)
        return;
    open_list(e, "indexes");
    if (n->kind == NODE_VECTOR && (index = collection_index(c, n->index)))
        put_index(e, c, index, NULL);
    for (uint32_t i = 0; i < n->scan->access_count; i++)
        if ((index = collection_index(c, n->scan->accesses[i].index)))
            put_index(e, c, index, &n->scan->accesses[i]);
    val_close(e->b);
    if (n->kind == NODE_INDEX)
        put_flag(e, "reverse", n->scan->is_reverse);
}

static void put_projections(struct explain *e, const struct scan *s)
{
    open_list(e, "projections");
    for (uint32_t i = 0; i < s->projection_count; i++) {
        const struct projection *p = &s->projections[i];
        val_open_object(e->b);
        open_list(e, "path");
        for (uint32_t k = 0; k < p->count; k++)
            val_put_string(e->b, p->names[k]);
        val_close(e->b);
        put_variable(e, "variable", p->reg);
        val_close(e->b);
    }
    val_close(e->b);
    put_flag(e, "indexCoversProjections", s->is_covering);
    put_flag(e, "producesResult", !s->projects || s->projection_count);
}

static void put_scan(struct explain *e, const struct node *n)
{
    const struct collection *c = catalog_collection_by_id(e->catalog, n->collection);

    if (c)
        put_indexes(e, n, c);
    put_projections(e, n->scan);
    if (n->scan->skip)
        put_number(e, "skip", (int64_t)n->scan->skip);
    put_number(e, "filters", n->scan->filter_count);
    if (n->scan->filter_count != 1)
        return;
    put_expr(e, "filter", n->scan->filters[0]);
}

static void put_walk(struct explain *e, const struct node *n)
{
    static const char *const directions[] = {
        [AST_OUTBOUND] = "outbound", [AST_INBOUND] = "inbound", [AST_ANY] = "any"
    };
    static const char *const orders[] = {
        [WALK_DFS] = "dfs", [WALK_BFS] = "bfs", [WALK_WEIGHTED] = "weighted"
    };
    const struct walk *w = n->walk;

    open_list(e, "edgeCollections");
    for (uint32_t i = 0; i < w->edge_count; i++) {
        const struct collection *c = catalog_collection_by_id(e->catalog, w->edges[i].collection);
        val_open_object(e->b);
        put_text(e, "collection", c ? c->name : slice_str(""));
        put_text(e, "direction", slice_str(directions[w->edges[i].direction]));
        val_close(e->b);
    }
    val_close(e->b);
    put_expr(e, "start", n->exprs[0]);
    if (n->expr_count > 1)
        put_expr(e, "target", n->exprs[1]);
    put_variable(e, "edgeOutVariable", n->reg2);
    put_variable(e, "pathOutVariable", w->path_reg);
    open_object(e, "options");
    put_number(e, "minDepth", w->min);
    put_number(e, "maxDepth", w->max);
    put_text(e, "order", slice_str(orders[w->order]));
    put_text(e, "weightAttribute", w->weight_attribute);
    put_double(e, "defaultWeight", w->default_weight);
    val_close(e->b);
    put_expr(e, "prune", w->prune);
}

static void put_sort(struct explain *e, const struct node *n)
{
    open_list(e, "elements");
    for (uint32_t i = 0; i < n->expr_count; i++) {
        val_open_object(e->b);
        put_expr(e, "expression", n->exprs[i]);
        put_flag(e, "ascending", !n->descending[i]);
        val_close(e->b);
    }
    val_close(e->b);
    put_flag(e, "stable", true);
    put_text(e, "strategy", slice_str(n->limit >= 0 ? "constrained-heap" : "standard"));
    if (n->limit >= 0)
        put_number(e, "limit", n->limit);
}

static void put_aggregates(struct explain *e, const struct aggregate *list, uint32_t count)
{
    open_list(e, "aggregates");
    for (uint32_t i = 0; i < count; i++) {
        val_open_object(e->b);
        put_variable(e, "outVariable", list[i].reg);
        put_text(e, "type", slice_str(aggregate_name(list[i].kind)));
        put_expr(e, "expression", list[i].expr);
        val_close(e->b);
    }
    val_close(e->b);
}

static void put_rows_bound(struct explain *e, const char *member, int64_t rows)
{
    if (rows == WINDOW_ALL)
        put_text(e, member, slice_str("unbounded"));
    else
        put_number(e, member, rows);
}

static void put_window(struct explain *e, const struct node *n)
{
    const struct window *w = n->window;

    put_aggregates(e, w->aggregates, w->aggregate_count);
    if (n->expr) {
        put_variable(e, "rangeVariable", n->reg);
        put_expr(e, "from", w->lower);
        put_expr(e, "to", w->upper);
        return;
    }
    put_rows_bound(e, "preceding", w->preceding);
    put_rows_bound(e, "following", w->following);
}

static void put_collect(struct explain *e, const struct node *n)
{
    const struct collect *c = n->collect;

    open_list(e, "groups");
    for (uint32_t i = 0; i < n->expr_count; i++) {
        val_open_object(e->b);
        put_variable(e, "outVariable", c->regs[i]);
        put_expr(e, "expression", n->exprs[i]);
        val_close(e->b);
    }
    val_close(e->b);
    put_aggregates(e, c->aggregates, c->aggregate_count);
    put_variable(e, "outVariable", c->into_reg != NO_REG ? c->into_reg : c->count_reg);
    open_object(e, "collectOptions");
    put_text(e, "method", slice_str(c->is_sorted ? "sorted" : "hash"));
    val_close(e->b);
}

struct estimate {
    double rows, cost;
};

static struct estimate put_nodes(struct explain *e, const struct node *last);

static void put_kind(struct explain *e, const struct node *n)
{
    const struct collection *c =
        n->collection ? catalog_collection_by_id(e->catalog, n->collection) : NULL;

    if (c)
        put_text(e, "collection", c->name);
    put_variable(e, n->write ? "outVariableOld" : "outVariable", n->reg);
    if (n->write)
        put_variable(e, "outVariableNew", n->reg2);
    put_expr(e, "expression", n->expr);
    if (n->scan)
        put_scan(e, n);
    if (n->walk)
        put_walk(e, n);
    if (n->kind == NODE_SORT)
        put_sort(e, n);
    if (n->collect)
        put_collect(e, n);
    if (n->window)
        put_window(e, n);
    if (n->call.len)
        put_text(e, "call", n->call);
    if (n->kind != NODE_LIMIT)
        return;
    put_number(e, "offset", n->offset);
    put_number(e, "limit", n->limit);
    put_flag(e, "fullCount", n->counts_full);
}

static void put_node(struct explain *e, const struct node *n, struct estimate so_far)
{
    val_open_object(e->b);
    put_text(e, "type", slice_str(node_kind_name((enum node_kind)n->kind)));
    open_list(e, "dependencies");
    if (n->input)
        val_put_int(e->b, n->input->id);
    val_close(e->b);
    put_number(e, "id", n->id);
    put_double(e, "estimatedCost", so_far.cost);
    put_double(e, "estimatedNrItems", so_far.rows);
    put_kind(e, n);
    put_line(e, n);
    if (n->sub) {
        open_object(e, "subquery");
        name(e, "nodes");
        put_nodes(e, n->sub);
        val_close(e->b);
    }
    val_close(e->b);
}

/* First node first. */
static struct estimate put_nodes(struct explain *e, const struct node *last)
{
    struct estimate so_far = { 1, 0 };
    size_t count = 0, i;

    for (const struct node *n = last; n; n = n->input)
        count++;
    i = count;
    const struct node **nodes = mem_alloc((count + 1) * sizeof(*nodes));
    for (const struct node *n = last; n; n = n->input)
        nodes[--i] = n;
    val_open_array(e->b);
    for (; i < count; i++) {
        so_far.rows = plan_guess_out(query_txn(e->q), nodes[i], so_far.rows);
        so_far.cost += so_far.rows;
        put_node(e, nodes[i], so_far);
    }
    val_close(e->b);
    mem_free(nodes);
    return so_far;
}

/* ---- the whole ---- */

static void put_collections(struct explain *e, const struct node *n)
{
    for (; n; n = n->input) {
        const struct collection *c = catalog_collection_by_id(e->catalog, n->collection);
        if (n->sub)
            put_collections(e, n->sub);
        if (!c || !n->collection)
            continue;
        val_open_object(e->b);
        put_text(e, "name", c->name);
        put_text(e, "type", slice_str(n->write ? "write" : "read"));
        val_close(e->b);
    }
}

static void put_rules(struct explain *e, const struct plan *p)
{
    const struct rule *r;

    open_list(e, "rules");
    for (size_t i = 0; (r = plan_rule(i)); i++)
        if (p->rules >> i & 1)
            val_put_string(e->b, slice_str(r->name));
    val_close(e->b);
}

static void put_variables(struct explain *e, const struct plan *p)
{
    open_list(e, "variables");
    for (uint32_t i = 0; i < p->variable_count; i++) {
        val_open_object(e->b);
        put_number(e, "id", p->variables[i].reg);
        put_text(e, "name", p->variables[i].name);
        val_close(e->b);
    }
    val_close(e->b);
}

/* Rules that changed the plan, and all there are. */
static int64_t rules_run(const struct plan *p)
{
    return __builtin_popcountll(p->rules);
}

static int64_t rules_all(void)
{
    int64_t count = 0;

    while (plan_rule((size_t)count))
        count++;
    return count;
}

enum errc query_explain(struct query *q, struct arena *arena, struct val *out, struct error *err)
{
    const struct plan *p = query_plan(q);
    const struct catalog *catalog = txn_catalog(query_txn(q));
    struct explain e = { val_builder_new(0), q, catalog, { p, catalog } };

    val_open_object(e.b);
    name(&e, "nodes");
    struct estimate all = put_nodes(&e, p->root);
    put_rules(&e, p);
    open_list(&e, "collections");
    put_collections(&e, p->root);
    val_close(e.b);
    put_variables(&e, p);
    put_double(&e, "estimatedCost", all.cost);
    put_double(&e, "estimatedNrItems", all.rows);
    put_flag(&e, "isModificationQuery", p->is_write);
    open_object(&e, "stats");
    put_number(&e, "rulesExecuted", rules_run(p));
    put_number(&e, "rulesSkipped", rules_all() - rules_run(p));
    put_number(&e, "plansCreated", 1);
    put_number(&e, "peakMemoryUsage", (int64_t)query_memory(q));
    put_double(&e, "executionTime", query_plan_s(q));
    val_close(e.b);
    val_close(e.b);
    enum errc rc = val_finish_in(e.b, arena, out, err);
    val_builder_free(e.b);
    return rc;
}
