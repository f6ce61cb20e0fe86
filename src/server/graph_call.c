/* SPDX-License-Identifier: Apache-2.0 */
#include "server/graph_call.h"
#include "server/collection_reply.h"
#include "server/server_access.h"

enum { TRIES = 8 };

enum errc graph_call_begin(struct graph_call *c, bool is_read_only, struct error *err)
{
    struct txn_options opt = { .isolation = ISOLATION_SERIALIZABLE,
                               .access = request_access(c->r),
                               .is_read_only = is_read_only };
    const struct database *db;
    enum errc rc = txn_begin(&c->t, c->r->ctx->store, &opt, err);

    if (rc == OK)
        rc = request_database(c->r, txn_catalog(c->t), &db, err);
    if (rc != OK)
        return rc;
    c->db_id = db->id;
    return graph_list(c->t, c->db_id, c->r->arena, &c->all, &c->all_count, err);
}

void graph_call_end(struct graph_call *c)
{
    txn_end(c->t);
    c->t = NULL;
}

enum errc graph_call_find(struct graph_call *c, struct error *err)
{
    for (size_t i = 0; i < c->all_count; i++) {
        if (slice_eq(c->all[i].name, c->name)) {
            c->g = c->all[i];
            return OK;
        }
    }
    return fail_num(err, 1924, "graph '%.*s' not found", SLICE_ARG(c->name));
}

/* ---- collections ---- */

static const struct collection *collection(struct graph_call *c, struct slice name)
{
    return catalog_collection(txn_catalog(c->t), c->db_id, name);
}

/* An edge collection means the same in every graph. */
static enum errc check_others(struct graph_call *c, const struct graph_edges *e, struct error *err)
{
    for (size_t i = 0; i < c->all_count; i++) {
        const struct graph_edges *other = graph_find_edges(&c->all[i], e->collection);
        if (other && !slice_eq(c->all[i].name, c->g.name) && !graph_edges_equal(other, e))
            return fail_num(err, 1921,
                            "edge collection '%.*s' is defined otherwise in graph '%.*s'",
                            SLICE_ARG(e->collection), SLICE_ARG(c->all[i].name));
    }
    return OK;
}

static enum errc check_collections(struct graph_call *c, struct error *err)
{
    size_t count;
    const struct slice *names = graph_vertices(&c->g, c->r->arena, &count);

    for (size_t i = 0; i < c->g.edge_count; i++) {
        const struct collection *e = collection(c, c->g.edges[i].collection);
        if (e && e->type != COLLECTION_EDGE)
            return fail_num(err, 1944, "'%.*s' is a document collection, not one of edges",
                            SLICE_ARG(e->name));
        enum errc rc = check_others(c, &c->g.edges[i], err);
        if (rc != OK)
            return rc;
    }
    for (size_t i = 0; i < count; i++) {
        const struct collection *v = collection(c, names[i]);
        if (v && v->type == COLLECTION_EDGE)
            return fail_num(err, 1927, "'%.*s' is a collection of edges, not of vertices",
                            SLICE_ARG(v->name));
    }
    return OK;
}

static enum errc create(struct graph_call *c, struct slice name, enum collection_type type,
                        struct error *err)
{
    struct val options = val_get(c->body, slice_str("options"));
    struct collection_options opt = {
        .name = name, .type = type, .allow_user_keys = true, .extra = collection_kept(c->r, options)
    };
    struct error own = { 0 };
    uint64_t id;
    enum errc rc = store_create_collection(c->r->ctx->store, c->db_id, &opt, &id, &own);

    if (rc != OK && rc != ERR_EXISTS) /* somebody else may have made it meanwhile */
        *err = own;
    return rc == ERR_EXISTS ? OK : rc;
}

/* Those of c->g that the catalog of the transaction lacks. */
static enum errc create_missing(struct graph_call *c, struct error *err)
{
    size_t count;
    const struct slice *names = graph_vertices(&c->g, c->r->arena, &count);
    enum errc rc = OK;

    for (size_t i = 0; rc == OK && i < c->g.edge_count; i++)
        if (!collection(c, c->g.edges[i].collection))
            rc = create(c, c->g.edges[i].collection, COLLECTION_EDGE, err);
    for (size_t i = 0; rc == OK && i < count; i++)
        if (!collection(c, names[i]))
            rc = create(c, names[i], COLLECTION_DOCUMENT, err);
    return rc;
}

static bool is_used(const struct graph_call *c, struct slice name)
{
    for (size_t i = 0; i < c->all_count; i++)
        if (graph_find_edges(&c->all[i], name) || graph_has_vertices(&c->all[i], name))
            return true;
    return false;
}

enum errc graph_call_drop(struct graph_call *c, const struct slice *names, size_t count,
                          struct error *err)
{
    enum errc rc = OK;

    for (size_t i = 0; rc == OK && i < count; i++) {
        const struct collection *gone = collection(c, names[i]);
        if (!gone || is_used(c, names[i]))
            continue;
        rc = request_may_change(c->r, err);
        if (rc == OK)
            rc = server_access_check(gone->name, ACCESS_WRITE, err);
        if (rc == OK)
            rc = request_may_use(c->r, gone->name, ACCESS_WRITE, err);
        if (rc == OK)
            rc = store_drop_collection(c->r->ctx->store, c->db_id, gone->id, err);
        if (rc == ERR_NOT_FOUND)
            rc = OK;
    }
    return rc;
}

/* ---- changing ---- */

static enum errc edited(struct graph_call *c, bool is_new, bool is_read_only, graph_edit edit,
                        struct error *err)
{
    enum errc rc = OK;

    c->saves = !is_read_only;
    TRY(graph_call_begin(c, is_read_only, err));
    if (!is_new)
        TRY(graph_call_find(c, err));
    TRY(edit(c, err));
    rc = check_collections(c, err);
out:
    return rc;
}

static enum errc change_once(struct graph_call *c, bool is_new, graph_edit edit, struct error *err)
{
    enum errc rc = OK;

    TRY(edited(c, is_new, true, edit, err));
    TRY(create_missing(c, err));
    graph_call_end(c);
    TRY(edited(c, is_new, false, edit, err));
    TRY(graph_save(c->t, c->db_id, &c->g, is_new, c->r->arena, err));
    rc = txn_commit(c->t, err);
out:
    graph_call_end(c);
    return rc;
}

enum errc graph_call_change(struct graph_call *c, bool is_new, graph_edit edit, struct error *err)
{
    struct error own = { 0 };
    uint64_t db_id;
    enum errc rc = request_may_change(c->r, err);

    if (rc == OK)
        rc = request_database_id(c->r, &db_id, err);
    if (rc == OK)
        rc = graph_prepare(c->r->ctx->store, db_id, err);
    if (rc != OK)
        return rc;
    for (int i = 0; i < TRIES; i++) {
        own = (struct error){ 0 };
        rc = change_once(c, is_new, edit, &own);
        if (rc != ERR_CONFLICT)
            break;
    }
    if (rc != OK)
        *err = own;
    return rc;
}

struct val graph_call_shape(struct graph_call *c, const struct graph *g)
{
    struct slice name = slice_str("name");
    struct val value = val_new_string(c->r->arena, g->name);

    return val_merge(c->r->arena, g->doc, val_new_object(c->r->arena, &name, &value, 1));
}
