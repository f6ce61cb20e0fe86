/* SPDX-License-Identifier: Apache-2.0 */
/* The plan in ArangoDB's shape, and what a text needs without running it. */
#include "query/query_private.h"
#include "store/doc.h"
#include <stdio.h>

struct explain {
    struct val_builder *b;
    const struct query *q;
    const struct catalog *catalog;
};

static void name(struct explain *e, const char *text)
{
    val_put_name(e->b, slice_str(text));
}

static void text(struct explain *e, const char *member, struct slice value)
{
    name(e, member);
    val_put_string(e->b, value);
}

static void number(struct explain *e, const char *member, int64_t value)
{
    name(e, member);
    val_put_int(e->b, value);
}

static struct slice variable_name(const struct query *q, uint32_t reg, char *room, size_t size)
{
    const struct plan *p = query_plan(q);

    for (uint32_t i = 0; i < p->variable_count; i++)
        if (p->variables[i].reg == reg)
            return p->variables[i].name;
    snprintf(room, size, "%u", reg);
    return slice_str(room);
}

static void variable(struct explain *e, const char *member, uint32_t reg)
{
    char room[16];

    if (reg == NO_REG)
        return;
    name(e, member);
    val_open_object(e->b);
    number(e, "id", reg);
    text(e, "name", variable_name(e->q, reg, room, sizeof room));
    val_close(e->b);
}

/* A guess from the size of the collection, for people to compare plans by. */
static double scan_rows(const struct explain *e, const struct node *n)
{
    const struct collection *c = catalog_collection_by_id(e->catalog, n->collection);
    uint64_t count = 0;

    if (!c || doc_count(query_txn(e->q), c, &count, NULL) != OK)
        return 1;
    if (n->kind == NODE_PRIMARY)
        return count ? 1 : 0;
    if (n->kind == NODE_VECTOR)
        return (double)n->limit;
    return n->kind == NODE_INDEX ? (double)count / 10 + 1 : (double)count;
}

/* Rows that leave the node when so many enter it. */
static double rows_out(const struct explain *e, const struct node *n, double in)
{
    switch ((enum node_kind)n->kind) {
    case NODE_ENUM_LIST:
        return in * 100;
    case NODE_ENUM_COLLECTION:
    case NODE_INDEX:
    case NODE_PRIMARY:
    case NODE_VECTOR:
        return in * scan_rows(e, n);
    case NODE_FILTER:
        return in / 2;
    case NODE_LIMIT:
        return n->limit >= 0 && (double)n->limit < in ? (double)n->limit : in;
    case NODE_COLLECT:
        return n->expr_count ? in * 0.8 : 1;
    default:
        return in;
    }
}

static void put_collection(struct explain *e, const struct node *n)
{
    const struct collection *c = catalog_collection_by_id(e->catalog, n->collection);

    if (!n->collection || !c)
        return;
    text(e, "collection", c->name);
    const struct index_def *index = NULL;
    if (n->kind == NODE_INDEX || n->kind == NODE_VECTOR)
        index = collection_index(c, n->index);
    else if (n->kind == NODE_PRIMARY)
        index = &c->indexes[0];
    if (!index)
        return;
    name(e, "indexes");
    val_open_array(e->b);
    val_open_object(e->b);
    number(e, "id", (int64_t)index->id);
    text(e, "type", slice_str(index->type));
    text(e, "name", index->name);
    name(e, "fields");
    val_open_array(e->b);
    for (size_t i = 0; i < index->field_count; i++)
        val_put_string(e->b, index->fields[i].text);
    val_close(e->b);
    name(e, "unique");
    val_put_bool(e->b, index->is_unique);
    val_close(e->b);
    val_close(e->b);
}

struct estimate {
    double rows, cost;
};

static struct estimate put_nodes(struct explain *e, const struct node *last);

static void put_node(struct explain *e, const struct node *n, struct estimate so_far)
{
    val_open_object(e->b);
    text(e, "type", slice_str(node_kind_name((enum node_kind)n->kind)));
    name(e, "dependencies");
    val_open_array(e->b);
    if (n->input)
        val_put_int(e->b, n->input->id);
    val_close(e->b);
    number(e, "id", n->id);
    name(e, "estimatedCost");
    val_put_double(e->b, so_far.cost);
    name(e, "estimatedNrItems");
    val_put_double(e->b, so_far.rows);
    put_collection(e, n);
    variable(e, "outVariable", n->reg);
    if (n->kind == NODE_LIMIT) {
        number(e, "offset", n->offset);
        number(e, "limit", n->limit);
    }
    if (n->filter_count)
        number(e, "filters", n->filter_count);
    if (n->projects) {
        name(e, "projections");
        val_open_array(e->b);
        for (uint32_t i = 0; i < n->projection_count; i++)
            val_put_string(e->b, n->projection[i].name);
        val_close(e->b);
    }
    if (n->call.len)
        text(e, "call", n->call);
    if (n->sub) {
        name(e, "subquery");
        val_open_object(e->b);
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
        so_far.rows = rows_out(e, nodes[i], so_far.rows);
        so_far.cost += so_far.rows;
        put_node(e, nodes[i], so_far);
    }
    val_close(e->b);
    mem_free(nodes);
    return so_far;
}

static void put_collections(struct explain *e, const struct node *n)
{
    for (; n; n = n->input) {
        const struct collection *c = catalog_collection_by_id(e->catalog, n->collection);
        if (n->sub)
            put_collections(e, n->sub);
        if (!c || !n->collection)
            continue;
        val_open_object(e->b);
        text(e, "name", c->name);
        text(e, "type",
             slice_str(n->kind >= NODE_INSERT && n->kind <= NODE_UPSERT ? "write" : "read"));
        val_close(e->b);
    }
}

static void put_rules(struct explain *e, const struct node *n)
{
    for (; n; n = n->input) {
        if (n->kind == NODE_INDEX || n->kind == NODE_PRIMARY)
            val_put_string(e->b, slice_str("use-indexes"));
        if (n->kind == NODE_VECTOR)
            val_put_string(e->b, slice_str("use-vector-index"));
        if (n->kind == NODE_CALL)
            val_put_string(e->b, slice_str("lift-model-calls"));
        if (n->filter_count)
            val_put_string(e->b, slice_str("move-filters-into-enumerate"));
        if (n->sub)
            put_rules(e, n->sub);
    }
}

enum errc query_explain(struct query *q, struct arena *arena, struct val *out, struct error *err)
{
    const struct plan *p = query_plan(q);
    struct explain e = { val_builder_new(0), q, txn_catalog(query_txn(q)) };

    val_open_object(e.b);
    name(&e, "nodes");
    struct estimate all = put_nodes(&e, p->root);
    name(&e, "rules");
    val_open_array(e.b);
    put_rules(&e, p->root);
    val_close(e.b);
    name(&e, "collections");
    val_open_array(e.b);
    put_collections(&e, p->root);
    val_close(e.b);
    name(&e, "variables");
    val_open_array(e.b);
    for (uint32_t i = 0; i < p->variable_count; i++) {
        val_open_object(e.b);
        number(&e, "id", p->variables[i].reg);
        text(&e, "name", p->variables[i].name);
        val_close(e.b);
    }
    val_close(e.b);
    name(&e, "estimatedCost");
    val_put_double(e.b, all.cost);
    name(&e, "estimatedNrItems");
    val_put_double(e.b, all.rows);
    name(&e, "isModificationQuery");
    val_put_bool(e.b, p->is_write);
    val_close(e.b);
    enum errc rc = val_finish_in(e.b, arena, out, err);
    val_builder_free(e.b);
    return rc;
}

/* ---- parse only ---- */

struct names {
    struct slice items[256];
    size_t count;
};

static void names_add(struct names *n, struct slice s)
{
    for (size_t i = 0; i < n->count; i++)
        if (slice_eq(n->items[i], s))
            return;
    if (n->count < ARRAY_LEN(n->items))
        n->items[n->count++] = s;
}

static void walk(const struct ast *n, struct names *binds, struct names *collections)
{
    if (!n)
        return;
    switch ((enum ast_kind)n->kind) {
    case AST_BIND:
    case AST_BIND_COLLECTION:
    case AST_ATTR_BIND:
    case AST_FIELD_BIND:
        names_add(binds, n->name);
        break;
    case AST_INSERT:
    case AST_REMOVE:
        if (n->kids[1]->kind == AST_NAME)
            names_add(collections, n->kids[1]->name);
        break;
    case AST_UPDATE:
    case AST_REPLACE:
        if (n->kids[2]->kind == AST_NAME)
            names_add(collections, n->kids[2]->name);
        break;
    case AST_FOR:
        if (n->kids[1]->kind == AST_NAME)
            names_add(collections, n->kids[1]->name);
        break;
    default:
        break;
    }
    for (uint32_t i = 0; i < n->count; i++)
        walk(n->kids[i], binds, collections);
}

static void put_names(struct val_builder *b, const char *member, const struct names *n)
{
    val_put_name(b, slice_str(member));
    val_open_array(b);
    for (size_t i = 0; i < n->count; i++)
        val_put_string(b, n->items[i]);
    val_close(b);
}

enum errc query_parse_only(struct slice query, struct arena *arena, struct val *out,
                           struct error *err)
{
    struct names *names = arena_zalloc(arena, 2 * sizeof *names);
    struct val_builder *b;
    struct buf canonical;
    struct ast *ast;
    enum errc rc = aql_parse(query, arena, &ast, err);

    if (rc != OK)
        return rc;
    walk(ast, &names[0], &names[1]);
    b = val_builder_new(0);
    buf_init(&canonical, 0);
    ast_print(ast, &canonical);
    val_open_object(b);
    put_names(b, "bindVars", &names[0]);
    put_names(b, "collections", &names[1]);
    val_put_name(b, slice_str("canonical"));
    val_put_string(b, buf_slice(&canonical));
    val_close(b);
    rc = val_finish_in(b, arena, out, err);
    buf_release(&canonical);
    val_builder_free(b);
    return rc;
}
