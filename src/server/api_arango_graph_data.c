/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vertices and edges of a named graph (/_api/gharial/GRAPH/vertex, edge), which
 * keep to its definition, and the edges of one vertex (/_api/edges).
 *
 * The definition is read in a transaction of its own, so that a stream
 * transaction need not name _graphs.
 */
#include "server/doc_call.h"
#include "server/graph_call.h"
#include "server/router.h"
#include "store/index.h"

struct graph_doc {
    struct graph_call call;
    struct doc_call d;
    bool is_edge;
    struct val body;
};

/* ---- the graph ---- */

/* The parameters of the path become those of a document, without the graph. */
static enum errc open_graph(struct graph_doc *x, struct request *r, struct error *err)
{
    enum errc rc;

    x->call = (struct graph_call){ .r = r, .name = r->params[0] };
    rc = graph_call_begin(&x->call, true, err);
    if (rc == OK)
        rc = graph_call_find(&x->call, err);
    graph_call_end(&x->call);
    r->params[0] = r->params[1];
    r->params[1] = r->params[2];
    if (rc != OK)
        return rc;
    struct slice name = r->params[0];
    if (x->is_edge && !graph_find_edges(&x->call.g, name))
        return fail_num(err, 1939, "edge collection '%.*s' is not part of the graph",
                        SLICE_ARG(name));
    if (!x->is_edge && !graph_has_vertices(&x->call.g, name))
        return fail_num(err, 1926, "vertex collection '%.*s' is not part of the graph",
                        SLICE_ARG(name));
    return OK;
}

static bool is_listed(const struct slice *names, size_t count, struct slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(names[i], name))
            return true;
    return false;
}

/* One end of an edge: its collection is the definition's, and the vertex is there. */
static enum errc check_end(struct graph_doc *x, const char *member, struct error *err)
{
    const struct graph_edges *e = graph_find_edges(&x->call.g, x->d.c->name);
    bool is_from = member[1] == 'f';
    struct val v;
    struct slice name, key;

    if (!val_find(x->body, slice_str(member), &v))
        return OK; /* an insertion without it is refused by the store */
    if (val_type(v) != VAL_STRING || !doc_split_id(val_string(v), &name, &key))
        return fail_num(err, 1233, "%s must be the _id of a vertex", member);
    if (!graph_has_vertices(&x->call.g, name))
        return fail_num(err, 1947, "vertex collection '%.*s' is not part of the graph",
                        SLICE_ARG(name));
    if (!is_listed(is_from ? e->from : e->to, is_from ? e->from_count : e->to_count, name))
        return fail_num(err, 1906, "edges of '%.*s' have no %s in '%.*s'", SLICE_ARG(x->d.c->name),
                        member, SLICE_ARG(name));
    const struct collection *c = catalog_collection(txn_catalog(x->d.t), x->call.db_id, name);
    struct val doc;
    if (!c)
        return fail_num(err, 1203, "collection '%.*s' not found", SLICE_ARG(name));
    return doc_get(x->d.t, c, key, x->d.r->arena, &doc, err);
}

/* ---- removal ---- */

struct edge_list {
    struct slice *keys;
    size_t count, cap;
};

/* Edges at a vertex of one collection, copied: removing them changes the index. */
static enum errc list_edges(struct graph_doc *x, const struct collection *c, struct slice vertex,
                            enum edge_direction direction, struct edge_list *out, struct error *err)
{
    struct arena *arena = x->d.r->arena;
    struct index_iter *it = NULL;
    struct slice key;
    enum errc rc = index_scan_edges(&it, x->d.t, c, vertex, direction, err);

    *out = (struct edge_list){ 0 };
    while (rc == OK && index_iter_next(it, &key)) {
        if (out->count == out->cap) {
            size_t cap = out->cap ? out->cap * 2 : 16;
            struct slice *keys = arena_alloc(arena, cap * sizeof *keys);
            if (out->count)
                memcpy(keys, out->keys, out->count * sizeof *keys);
            out->keys = keys;
            out->cap = cap;
        }
        out->keys[out->count++] = arena_copy(arena, key);
        rc = arena_check(arena, err);
    }
    if (rc == OK)
        rc = index_iter_check(it, err);
    index_iter_free(it);
    return rc;
}

static enum errc remove_edges_in(struct graph_doc *x, struct slice collection, struct slice id,
                                 struct error *err)
{
    const struct collection *c = catalog_collection(txn_catalog(x->d.t), x->call.db_id, collection);
    struct doc_options opt = { .overwrite = OVERWRITE_CONFLICT };
    struct doc_change change;
    struct edge_list edges;
    enum errc rc = c ? list_edges(x, c, id, EDGE_ANY, &edges, err) : OK;

    for (size_t i = 0; c && rc == OK && i < edges.count; i++)
        rc = doc_remove(x->d.t, c, edges.keys[i], &opt, x->d.r->arena, &change, err);
    return rc;
}

/* What is removed leaves no edge behind, in whatever graph that is. */
static enum errc remove_edges(struct graph_doc *x, struct slice id, struct error *err)
{
    const struct graph_call *c = &x->call;
    enum errc rc = OK;

    for (size_t i = 0; i < c->all_count; i++)
        for (size_t k = 0; rc == OK && k < c->all[i].edge_count; k++)
            rc = remove_edges_in(x, c->all[i].edges[k].collection, id, err);
    return rc;
}

/* ---- writing ---- */

static enum errc apply(struct graph_doc *x, struct slice key, struct doc_change *change,
                       struct error *err)
{
    enum errc rc = OK;

    if (x->is_edge && x->d.op != DOC_REMOVE) {
        TRY(check_end(x, "_from", err));
        TRY(check_end(x, "_to", err));
    }
    TRY(doc_call_apply(&x->d, key, x->body, change, err));
    if (x->d.op == DOC_REMOVE)
        rc = remove_edges(x, change->id, err);
out:
    return rc;
}

static int status_of(const struct graph_doc *x)
{
    int status = doc_call_status(&x->d);

    return status == 201 && x->d.op != DOC_INSERT ? 200 : status;
}

/* {vertex: {_id, _key, _rev, _oldRev}, old, new}, or {removed, old}. */
static void answer(struct graph_doc *x, const struct doc_change *change)
{
    struct val body = doc_call_body(&x->d, change);
    int status = status_of(x);
    struct reply a;

    doc_call_end(&x->d);
    reply_begin(&a, x->d.r);
    if (x->d.op == DOC_REMOVE) {
        reply_bool(&a, "removed", true);
    } else {
        reply_open(&a, x->is_edge ? "edge" : "vertex");
        for (size_t i = 0; i < val_count(body); i++) {
            struct slice name = val_name_at(body, i);
            if (!slice_starts(name, "_"))
                continue;
            val_put_name(a.b, name);
            val_put(a.b, val_at(body, i));
        }
        reply_close(&a);
    }
    if (x->d.p.return_old && !val_is_null(change->old_doc))
        reply_val(&a, "old", change->old_doc);
    if (x->d.p.return_new && x->d.op != DOC_REMOVE)
        reply_val(&a, "new", change->new_doc);
    reply_send(&a, status);
}

static void write_tries(struct graph_doc *x)
{
    struct error err;
    struct doc_change change;

    for (int tries = 0;; tries++) {
        bool is_conflict = false;
        err = (struct error){ 0 };
        enum errc rc = doc_call_begin(&x->d, &err);
        if (rc == OK)
            rc = apply(x, x->d.r->params[1], &change, &err);
        if (rc == OK) {
            rc = request_commit(x->d.r, x->d.t, &err);
            is_conflict = rc == ERR_CONFLICT;
        }
        if (rc == OK) {
            answer(x, &change);
            return;
        }
        doc_call_end(&x->d);
        if (!is_conflict || tries == DOC_COMMIT_TRIES)
            break;
    }
    request_fail(x->d.r, &err);
}

static void write_route(struct request *r, bool is_edge, enum doc_op op)
{
    struct graph_doc x = { .is_edge = is_edge, .d = { .r = r, .op = op }, .body = val_null };
    struct error err = { 0 };
    enum errc rc = open_graph(&x, r, &err);

    if (rc == OK)
        rc = doc_call_read(&x.d, &err);
    if (rc == OK && op != DOC_REMOVE)
        rc = request_object(r, &x.body, &err);
    if (rc == OK)
        write_tries(&x);
    else
        request_fail(r, &err);
}

static void post_vertex(struct request *r)
{
    write_route(r, false, DOC_INSERT);
}

static void patch_vertex(struct request *r)
{
    write_route(r, false, DOC_UPDATE);
}

static void put_vertex(struct request *r)
{
    write_route(r, false, DOC_REPLACE);
}

static void delete_vertex(struct request *r)
{
    write_route(r, false, DOC_REMOVE);
}

static void post_edge(struct request *r)
{
    write_route(r, true, DOC_INSERT);
}

static void patch_edge(struct request *r)
{
    write_route(r, true, DOC_UPDATE);
}

static void put_edge(struct request *r)
{
    write_route(r, true, DOC_REPLACE);
}

static void delete_edge(struct request *r)
{
    write_route(r, true, DOC_REMOVE);
}

/* ---- reading ---- */

static void answer_doc(struct request *r, bool is_edge, struct val doc)
{
    struct slice rev = val_string(val_get(doc, slice_str("_rev")));
    struct slice match = doc_header_rev(r, "if-match"), none = doc_header_rev(r, "if-none-match");
    struct http_header header = { "ETag", arena_printf(r->arena, "\"%.*s\"", SLICE_ARG(rev)) };
    struct error err = { 0 };
    struct reply a;

    if (match.len && !slice_eq(match, rev)) {
        fail(&err, ERR_PRECONDITION, "the revision is %.*s, not %.*s", SLICE_ARG(rev),
             SLICE_ARG(match));
        request_fail(r, &err);
        return;
    }
    if (none.len && slice_eq(none, rev)) {
        exchange_reply(r->x, 304, NULL, &header, 1, slice_of(NULL, 0));
        request_done(r);
        return;
    }
    reply_begin(&a, r);
    reply_bool(&a, "error", false);
    reply_int(&a, "code", 200);
    reply_val(&a, is_edge ? "edge" : "vertex", doc);
    request_reply_headers(r, 200, reply_finish(&a), &header, 1);
}

static void get_route(struct request *r, bool is_edge)
{
    struct graph_doc x = { .is_edge = is_edge, .d = { .r = r } };
    struct error err = { 0 };
    struct val doc = val_null;
    enum errc rc = open_graph(&x, r, &err);

    if (rc == OK)
        rc = doc_call_begin(&x.d, &err);
    if (rc == OK)
        rc = doc_get(x.d.t, x.d.c, r->params[1], r->arena, &doc, &err);
    doc_call_end(&x.d);
    if (rc == OK)
        answer_doc(r, is_edge, doc);
    else
        request_fail(r, &err);
}

static void get_vertex(struct request *r)
{
    get_route(r, false);
}

static void get_edge(struct request *r)
{
    get_route(r, true);
}

/* ---- edges of a vertex ---- */

static enum errc read_direction(struct request *r, enum edge_direction *out, struct error *err)
{
    struct slice text = slice_str("any");

    request_param(r, "direction", &text);
    if (slice_is(text, "in"))
        *out = EDGE_INBOUND;
    else if (slice_is(text, "out"))
        *out = EDGE_OUTBOUND;
    else if (slice_is(text, "any"))
        *out = EDGE_ANY;
    else
        return fail(err, ERR_INVALID, "direction must be in, out or any");
    return OK;
}

static enum errc put_edges(struct graph_doc *x, const struct edge_list *edges, struct reply *a,
                           struct error *err)
{
    enum errc rc = OK;
    struct val doc;

    reply_list(a, "edges");
    for (size_t i = 0; rc == OK && i < edges->count; i++) {
        rc = doc_get(x->d.t, x->d.c, edges->keys[i], x->d.r->arena, &doc, err);
        if (rc == OK)
            val_put(a->b, doc);
    }
    reply_close(a);
    reply_open(a, "stats");
    reply_int(a, "scannedIndex", (int64_t)edges->count);
    reply_int(a, "filtered", 0);
    reply_close(a);
    return rc;
}

static void get_edges(struct request *r)
{
    struct graph_doc x = { .d = { .r = r } };
    enum edge_direction direction;
    struct error err = { 0 };
    struct edge_list edges;
    struct slice vertex;
    struct reply a;
    enum errc rc = read_direction(r, &direction, &err);

    if (rc == OK && !request_param(r, "vertex", &vertex))
        rc = fail_num(&err, 1205, "the parameter vertex is missing");
    if (rc == OK)
        rc = doc_call_begin(&x.d, &err);
    if (rc == OK)
        rc = list_edges(&x, x.d.c, vertex, direction, &edges, &err);
    if (rc == OK) {
        reply_begin(&a, r);
        rc = put_edges(&x, &edges, &a, &err);
        if (rc != OK)
            reply_drop(&a);
    }
    doc_call_end(&x.d);
    if (rc == OK)
        reply_send(&a, 200);
    else
        request_fail(r, &err);
}

#define CHANGES "waitForSync&returnOld&returnNew"

const struct route api_arango_graph_data_routes[] = {
    { METHOD_POST, "/_api/gharial/{graph}/vertex/{collection}?waitForSync&returnNew", ROLE_USER,
      ON_POOL_TRX, BODY_MAX, post_vertex, "Adds a vertex." },
    { METHOD_GET, "/_api/gharial/{graph}/vertex/{collection}/{key}", ROLE_USER, ON_POOL_TRX, 0,
      get_vertex, "Reads a vertex." },
    { METHOD_PATCH,
      "/_api/gharial/{graph}/vertex/{collection}/{key}?" CHANGES "&keepNull&overwrite", ROLE_USER,
      ON_POOL_TRX, BODY_MAX, patch_vertex, "Updates a vertex." },
    { METHOD_PUT, "/_api/gharial/{graph}/vertex/{collection}/{key}?" CHANGES "&keepNull", ROLE_USER,
      ON_POOL_TRX, BODY_MAX, put_vertex, "Replaces a vertex." },
    { METHOD_DELETE, "/_api/gharial/{graph}/vertex/{collection}/{key}?waitForSync&returnOld",
      ROLE_USER, ON_POOL_TRX, 0, delete_vertex, "Removes a vertex and its edges." },
    { METHOD_POST, "/_api/gharial/{graph}/edge/{collection}?waitForSync&returnNew", ROLE_USER,
      ON_POOL_TRX, BODY_MAX, post_edge, "Adds an edge." },
    { METHOD_GET, "/_api/gharial/{graph}/edge/{collection}/{key}", ROLE_USER, ON_POOL_TRX, 0,
      get_edge, "Reads an edge." },
    { METHOD_PATCH, "/_api/gharial/{graph}/edge/{collection}/{key}?" CHANGES "&keepNull&overwrite",
      ROLE_USER, ON_POOL_TRX, BODY_MAX, patch_edge, "Updates an edge." },
    { METHOD_PUT, "/_api/gharial/{graph}/edge/{collection}/{key}?" CHANGES "&keepNull", ROLE_USER,
      ON_POOL_TRX, BODY_MAX, put_edge, "Replaces an edge." },
    { METHOD_DELETE, "/_api/gharial/{graph}/edge/{collection}/{key}?waitForSync&returnOld",
      ROLE_USER, ON_POOL_TRX, 0, delete_edge, "Removes an edge." },
    { METHOD_GET, "/_api/edges/{collection}?vertex&direction", ROLE_USER, ON_POOL_TRX, 0, get_edges,
      "Edges of a vertex." },
    { 0 },
};
