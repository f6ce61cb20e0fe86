/* SPDX-License-Identifier: Apache-2.0 */
/* /_api/index */
#include "server/reply.h"
#include "server/router.h"
#include "store/vector.h"
#include <stdio.h>

static struct slice index_handle(struct request *r, const struct collection *c,
                                 const struct index_def *i)
{
    return slice_str(
        arena_printf(r->arena, "%.*s/%llu", SLICE_ARG(c->name), (unsigned long long)i->id));
}

static void put_paths(struct reply *a, const char *name, const struct field_path *f, size_t n)
{
    reply_list(a, name);
    for (size_t k = 0; k < n; k++)
        reply_text(a, NULL, f[k].text);
    reply_close(a);
}

/* What is in memory of the index, and how far it is behind its texts. */
static void put_vector_figures(struct reply *a, const struct index_def *i)
{
    struct vector_figures f;

    vector_figures(a->r->ctx->store, i, &f);
    reply_open(a, "figures");
    reply_str(a, "state", f.state);
    reply_int(a, "segments", (int64_t)f.segments);
    reply_int(a, "segmentRows", (int64_t)f.segment_rows);
    reply_int(a, "deadRows", (int64_t)f.dead_rows);
    reply_int(a, "headRows", (int64_t)f.head_rows);
    reply_int(a, "memory", (int64_t)f.bytes);
    reply_bool(a, "isBuilding", f.is_building);
    if (i->source_count) {
        reply_int(a, "pendingTexts", (int64_t)f.pending);
        reply_int(a, "lagMilliseconds", (int64_t)f.lag_ms);
        reply_str(a, "embeddingError", f.embed_error);
    }
    reply_close(a);
}

static void put_index(struct reply *a, const struct collection *c, const struct index_def *i)
{
    reply_text(a, "id", index_handle(a->r, c, i));
    reply_str(a, "type", i->type);
    reply_text(a, "name", i->name);
    put_paths(a, "fields", i->fields, i->field_count);
    reply_bool(a, "unique", i->is_unique);
    reply_bool(a, "sparse", i->is_sparse);
    if (i->kind == INDEX_PERSISTENT) {
        reply_bool(a, "deduplicate", i->deduplicate);
        reply_bool(a, "estimates", false);
        if (i->stored_count)
            put_paths(a, "storedValues", i->stored, i->stored_count);
    }
    if (i->kind == INDEX_PRIMARY || (i->is_unique && !i->is_sparse))
        reply_int(a, "selectivityEstimate", 1);
    if (i->expires)
        reply_val(a, "expireAfter", val_get(i->def, slice_str("expireAfter")));
    if (i->kind == INDEX_GEO)
        reply_bool(a, "geoJson", i->is_geo_json);
    if (i->kind == INDEX_FULLTEXT)
        reply_int(a, "minLength", i->min_length);
    if (i->kind == INDEX_VECTOR) {
        reply_val(a, "params", val_get(i->def, slice_str("params")));
        put_vector_figures(a, i);
    }
    reply_bool(a, "inBackground", false);
    if (!i->is_ready)
        reply_bool(a, "isBuilding", true);
}

static bool needs_collection(struct request *r, struct slice *name)
{
    struct error err = { 0 };

    if (request_param(r, "collection", name) && name->len)
        return true;
    fail_num(&err, 1204, "the parameter collection is required");
    request_fail(r, &err);
    return false;
}

static void list_indexes(struct request *r)
{
    struct slice name;
    struct txn *t;
    const struct collection *c;
    struct reply a;

    if (!needs_collection(r, &name) || !request_read_collection(r, name, &t, &c))
        return;
    reply_begin(&a, r);
    reply_list(&a, "indexes");
    for (size_t i = 0; i < c->index_count; i++) {
        reply_open(&a, NULL);
        put_index(&a, c, &c->indexes[i]);
        reply_close(&a);
    }
    reply_close(&a);
    reply_open(&a, "identifiers");
    for (size_t i = 0; i < c->index_count; i++) {
        char handle[LIMIT_NAME_BYTES + 32];
        snprintf(handle, sizeof handle, "%.*s", SLICE_ARG(index_handle(r, c, &c->indexes[i])));
        reply_open(&a, handle);
        put_index(&a, c, &c->indexes[i]);
        reply_close(&a);
    }
    reply_close(&a);
    txn_end(t);
    reply_send(&a, 200);
}

static void answer_index(struct request *r, const struct collection *c, const struct index_def *i,
                         int status, int is_new)
{
    struct reply a;

    reply_begin(&a, r);
    put_index(&a, c, i);
    if (is_new >= 0)
        reply_bool(&a, "isNewlyCreated", is_new);
    reply_send(&a, status);
}

static void no_index(struct request *r, struct txn *t)
{
    struct error err = { 0 };

    txn_end(t);
    fail_num(&err, 1212, "index '%.*s/%.*s' not found", SLICE_ARG(r->params[0]),
             SLICE_ARG(r->params[1]));
    request_fail(r, &err);
}

static void get_index(struct request *r)
{
    struct txn *t;
    const struct collection *c;

    if (!request_read_collection(r, r->params[0], &t, &c))
        return;
    const struct index_def *i = collection_index_named(c, r->params[1]);
    if (!i) {
        no_index(r, t);
        return;
    }
    answer_index(r, c, i, 200, -1);
    txn_end(t);
}

static void post_index(struct request *r)
{
    struct error err = { 0 };
    struct slice name;
    struct txn *t;
    const struct collection *c;
    struct val body;
    uint64_t id, collection_id;
    bool is_new;

    if (!needs_collection(r, &name))
        return;
    enum errc rc = request_object(r, &body, &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    if (!request_read_collection(r, name, &t, &c))
        return;
    collection_id = c->id;
    rc = request_may_change(r, &err);
    if (rc == OK)
        rc = request_may_use(r, c->name, ACCESS_WRITE, &err);
    txn_end(t);
    if (rc == OK)
        rc = store_create_index(r->ctx->store, collection_id, body, &id, &is_new, &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    if (!request_read_collection(r, name, &t, &c))
        return;
    const struct index_def *i = collection_index(c, id);
    if (i)
        answer_index(r, c, i, is_new ? 201 : 200, is_new);
    else
        no_index(r, t), t = NULL;
    txn_end(t);
}

static void delete_index(struct request *r)
{
    struct error err = { 0 };
    struct txn *t;
    const struct collection *c;
    struct reply a;

    if (!request_read_collection(r, r->params[0], &t, &c))
        return;
    const struct index_def *i = collection_index_named(c, r->params[1]);
    if (!i) {
        no_index(r, t);
        return;
    }
    struct slice handle = index_handle(r, c, i);
    enum errc rc = request_may_change(r, &err);
    if (rc == OK)
        rc = request_may_use(r, c->name, ACCESS_WRITE, &err);
    if (rc == OK && (i->kind == INDEX_PRIMARY || i->kind == INDEX_EDGE))
        rc = fail(&err, ERR_FORBIDDEN, "the %s index cannot be dropped", i->type);
    if (rc == OK)
        rc = store_drop_index(r->ctx->store, c->id, i->id, &err);
    txn_end(t);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_text(&a, "id", handle);
    reply_send(&a, 200);
}

const struct route api_arango_index_routes[] = {
    { METHOD_GET, "/_api/index?collection", ROLE_USER, ON_POOL, 0, list_indexes,
      "Indexes of a collection." },
    { METHOD_POST, "/_api/index?collection", ROLE_USER, ON_POOL, MIB, post_index, "Creates one." },
    { METHOD_GET, "/_api/index/{collection}/{id}", ROLE_USER, ON_POOL, 0, get_index, "One." },
    { METHOD_DELETE, "/_api/index/{collection}/{id}", ROLE_USER, ON_POOL, 0, delete_index,
      "Drops." },
    { 0 },
};
