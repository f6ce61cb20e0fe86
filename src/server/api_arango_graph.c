/* SPDX-License-Identifier: Apache-2.0 */
/* /_api/gharial: named graphs and what belongs to them. Their documents are in a file of its own. */
#include "server/graph_call.h"
#include "server/router.h"

/* ---- answers ---- */

static void answer_graph(struct graph_call *c, int status)
{
    struct reply a;

    reply_begin(&a, c->r);
    reply_val(&a, "graph", graph_call_shape(c, &c->g));
    reply_send(&a, status);
}

static void answer_names(struct graph_call *c, const struct slice *names, size_t count)
{
    struct reply a;

    reply_begin(&a, c->r);
    reply_list(&a, "collections");
    for (size_t i = 0; i < count; i++)
        val_put_string(a.b, names[i]);
    reply_close(&a);
    reply_send(&a, 200);
}

/* 201 when the client asked for waitForSync, else 202. Every change is synced. */
static enum errc read_status(struct request *r, int synced, int *out, struct error *err)
{
    bool is_synced;
    enum errc rc = request_flag(r, "waitForSync", false, &is_synced, err);

    *out = is_synced ? synced : 202;
    return rc;
}

/* ---- graphs ---- */

static void list_graphs(struct request *r)
{
    struct graph_call c = { .r = r };
    struct error err = { 0 };
    struct reply a;
    enum errc rc = graph_call_begin(&c, true, &err);

    graph_call_end(&c);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_list(&a, "graphs");
    for (size_t i = 0; i < c.all_count; i++)
        val_put(a.b, graph_call_shape(&c, &c.all[i]));
    reply_close(&a);
    reply_send(&a, 200);
}

/* A graph tells of a collection's documents: its user must be allowed to read them. */
static enum errc may_name(struct graph_call *c, const struct slice *names, size_t count,
                          struct error *err)
{
    enum errc rc = OK;

    for (size_t i = 0; rc == OK && i < count; i++)
        if (catalog_collection(txn_catalog(c->t), c->db_id, names[i]))
            rc = request_may_use(c->r, names[i], ACCESS_READ, err);
    return rc;
}

static enum errc may_name_edges(struct graph_call *c, const struct graph_edges *e,
                                struct error *err)
{
    enum errc rc = may_name(c, &e->collection, 1, err);

    if (rc == OK)
        rc = may_name(c, e->from, e->from_count, err);
    return rc == OK ? may_name(c, e->to, e->to_count, err) : rc;
}

static enum errc edit_new(struct graph_call *c, struct error *err)
{
    struct val options = val_get(c->body, slice_str("options"));
    static const char *const kinds[] = { "isSmart", "isDisjoint" };

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (val_bool(val_get(c->body, slice_str(kinds[i]))) ||
            val_bool(val_get(options, slice_str(kinds[i]))))
            return fail_num(err, 9, "not implemented: a graph with %s", kinds[i]);
    enum errc rc = graph_parse(c->body, c->r->arena, &c->g, err);
    if (rc != OK)
        return rc;
    for (size_t i = 0; i < c->all_count; i++)
        if (slice_eq(c->all[i].name, c->g.name))
            return fail_num(err, 1925, "graph '%.*s' exists already", SLICE_ARG(c->g.name));
    for (size_t i = 0; rc == OK && i < c->g.edge_count; i++)
        rc = may_name_edges(c, &c->g.edges[i], err);
    return rc == OK ? may_name(c, c->g.orphans, c->g.orphan_count, err) : rc;
}

static void post_graph(struct request *r)
{
    struct graph_call c = { .r = r };
    struct error err = { 0 };
    int status = 201;
    enum errc rc = request_object(r, &c.body, &err);

    if (rc == OK)
        rc = read_status(r, 201, &status, &err);
    if (rc == OK)
        rc = graph_call_change(&c, true, edit_new, &err);
    if (rc == OK)
        answer_graph(&c, status);
    else
        request_fail(r, &err);
}

/* Reads one graph; false: the request has been answered. The transaction is over. */
static bool read_graph(struct request *r, struct graph_call *c)
{
    struct error err = { 0 };

    *c = (struct graph_call){ .r = r, .name = r->params[0] };
    enum errc rc = graph_call_begin(c, true, &err);
    if (rc == OK)
        rc = graph_call_find(c, &err);
    graph_call_end(c);
    if (rc != OK)
        request_fail(r, &err);
    return rc == OK;
}

static void get_graph(struct request *r)
{
    struct graph_call c;

    if (read_graph(r, &c))
        answer_graph(&c, 200);
}

/* The collections of a graph that is gone. */
static enum errc drop_all(struct graph_call *c, struct error *err)
{
    size_t count;
    const struct slice *names = graph_vertices(&c->g, c->r->arena, &count);
    enum errc rc = graph_call_begin(c, true, err);

    for (size_t i = 0; rc == OK && i < c->g.edge_count; i++)
        rc = graph_call_drop(c, &c->g.edges[i].collection, 1, err);
    if (rc == OK)
        rc = graph_call_drop(c, names, count, err);
    graph_call_end(c);
    return rc;
}

static void delete_graph(struct request *r)
{
    struct graph_call c = { .r = r, .name = r->params[0] };
    struct error err = { 0 };
    struct reply a;
    bool drops = false;
    enum errc rc = request_flag(r, "dropCollections", false, &drops, &err);

    if (rc == OK)
        rc = request_may_change(r, &err);
    if (rc == OK)
        rc = graph_call_begin(&c, false, &err);
    if (rc == OK)
        rc = graph_call_find(&c, &err);
    if (rc == OK)
        rc = graph_remove(c.t, c.db_id, c.name, r->arena, &err);
    if (rc == OK)
        rc = txn_commit(c.t, &err);
    graph_call_end(&c);
    if (rc == OK && drops)
        rc = drop_all(&c, &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_bool(&a, "removed", true);
    reply_send(&a, 202);
}

/* ---- vertex collections ---- */

static void get_vertex_collections(struct request *r)
{
    struct graph_call c;
    size_t count;

    if (!read_graph(r, &c))
        return;
    const struct slice *names = graph_vertices(&c.g, r->arena, &count);
    answer_names(&c, names, count);
}

static enum errc edit_add_orphan(struct graph_call *c, struct error *err)
{
    struct slice name = val_string(val_get(c->body, slice_str("collection")));

    if (!name.len)
        return fail(err, ERR_INVALID, "the body needs the name of a collection");
    enum errc rc = may_name(c, &name, 1, err);
    if (rc != OK)
        return rc;
    return graph_add_orphan(&c->g, name, c->r->arena, err);
}

static enum errc edit_remove_orphan(struct graph_call *c, struct error *err)
{
    return graph_remove_orphan(&c->g, c->r->params[1], c->r->arena, err);
}

static enum errc drop_one(struct graph_call *c, struct slice name, struct error *err)
{
    enum errc rc = graph_call_begin(c, true, err);

    if (rc == OK)
        rc = graph_call_drop(c, &name, 1, err);
    graph_call_end(c);
    return rc;
}

/* A change of a graph that exists; then perhaps a collection goes. */
static void change(struct request *r, bool has_body, graph_edit edit, const char *drop_flag)
{
    struct graph_call c = { .r = r, .name = r->params[0] };
    struct error err = { 0 };
    bool drops = false;
    int status = 202;
    enum errc rc = has_body ? request_object(r, &c.body, &err) : OK;

    if (rc == OK && drop_flag)
        rc = request_flag(r, drop_flag, false, &drops, &err);
    if (rc == OK)
        rc = read_status(r, has_body ? 201 : 200, &status, &err);
    if (rc == OK)
        rc = graph_call_change(&c, false, edit, &err);
    if (rc == OK && drops)
        rc = drop_one(&c, r->params[1], &err);
    if (rc == OK)
        answer_graph(&c, status);
    else
        request_fail(r, &err);
}

static void post_vertex_collection(struct request *r)
{
    change(r, true, edit_add_orphan, NULL);
}

static void delete_vertex_collection(struct request *r)
{
    change(r, false, edit_remove_orphan, "dropCollection");
}

/* ---- edge definitions ---- */

static void get_edge_collections(struct request *r)
{
    struct graph_call c;

    if (!read_graph(r, &c))
        return;
    struct slice *names = arena_alloc(r->arena, (c.g.edge_count + 1) * sizeof *names);
    for (size_t i = 0; i < c.g.edge_count; i++)
        names[i] = c.g.edges[i].collection;
    answer_names(&c, names, c.g.edge_count);
}

static enum errc edit_add_edges(struct graph_call *c, struct error *err)
{
    struct graph_edges e;
    enum errc rc = graph_parse_edges(c->body, c->r->arena, &e, err);

    if (rc == OK)
        rc = may_name_edges(c, &e, err);
    return rc == OK ? graph_add_edges(&c->g, &e, c->r->arena, err) : rc;
}

/* The definition changes in every graph that has it. */
static enum errc edit_replace_edges(struct graph_call *c, struct error *err)
{
    struct graph_edges e;
    enum errc rc = graph_parse_edges(c->body, c->r->arena, &e, err);

    if (rc == OK)
        rc = may_name_edges(c, &e, err);
    if (rc != OK)
        return rc;
    if (!slice_eq(e.collection, c->r->params[1]))
        return fail_num(err, 1930, "the path names edge collection '%.*s', the body '%.*s'",
                        SLICE_ARG(c->r->params[1]), SLICE_ARG(e.collection));
    for (size_t i = 0; rc == OK && i < c->all_count; i++) {
        if (!graph_find_edges(&c->all[i], e.collection) || slice_eq(c->all[i].name, c->g.name))
            continue;
        rc = graph_replace_edges(&c->all[i], &e, c->r->arena, err);
        if (rc == OK && c->saves)
            rc = graph_save(c->t, c->db_id, &c->all[i], false, c->r->arena, err);
    }
    return rc == OK ? graph_replace_edges(&c->g, &e, c->r->arena, err) : rc;
}

static enum errc edit_remove_edges(struct graph_call *c, struct error *err)
{
    return graph_remove_edges(&c->g, c->r->params[1], c->r->arena, err);
}

static void post_edges(struct request *r)
{
    change(r, true, edit_add_edges, NULL);
}

/* The edge collection stays, and vertex collections that the definition loses stay in the graph. */
static void put_edges(struct request *r)
{
    struct error err = { 0 };
    bool drops = false;
    enum errc rc = request_flag(r, "dropCollections", false, &drops, &err);

    if (rc == OK && drops)
        rc = fail_num(&err, 9,
                      "not implemented: dropCollections while an edge definition is replaced");
    if (rc == OK)
        change(r, true, edit_replace_edges, NULL);
    else
        request_fail(r, &err);
}

static void delete_edges(struct request *r)
{
    change(r, false, edit_remove_edges, "dropCollections");
}

const struct route api_arango_graph_routes[] = {
    { METHOD_GET, "/_api/gharial", ROLE_USER, ON_POOL, 0, list_graphs, "Graphs of the database." },
    { METHOD_POST, "/_api/gharial?waitForSync", ROLE_USER, ON_POOL, MIB, post_graph,
      "Creates a graph." },
    { METHOD_GET, "/_api/gharial/{graph}", ROLE_USER, ON_POOL, 0, get_graph, "A graph." },
    { METHOD_DELETE, "/_api/gharial/{graph}?dropCollections", ROLE_USER, ON_POOL, 0, delete_graph,
      "Removes a graph, perhaps with its collections." },
    { METHOD_GET, "/_api/gharial/{graph}/vertex", ROLE_USER, ON_POOL, 0, get_vertex_collections,
      "Vertex collections of a graph." },
    { METHOD_POST, "/_api/gharial/{graph}/vertex?waitForSync", ROLE_USER, ON_POOL, MIB,
      post_vertex_collection, "Adds a vertex collection." },
    { METHOD_DELETE, "/_api/gharial/{graph}/vertex/{collection}?dropCollection&waitForSync",
      ROLE_USER, ON_POOL, 0, delete_vertex_collection, "Takes a vertex collection out." },
    { METHOD_GET, "/_api/gharial/{graph}/edge", ROLE_USER, ON_POOL, 0, get_edge_collections,
      "Edge collections of a graph." },
    { METHOD_POST, "/_api/gharial/{graph}/edge?waitForSync", ROLE_USER, ON_POOL, MIB, post_edges,
      "Adds an edge definition." },
    { METHOD_PUT, "/_api/gharial/{graph}/edge/{collection}?waitForSync&dropCollections", ROLE_USER,
      ON_POOL, MIB, put_edges, "Replaces an edge definition." },
    { METHOD_DELETE, "/_api/gharial/{graph}/edge/{collection}?waitForSync&dropCollections",
      ROLE_USER, ON_POOL, 0, delete_edges, "Takes an edge definition out." },
    { 0 },
};
