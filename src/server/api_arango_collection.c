/* SPDX-License-Identifier: Apache-2.0 */
/* /_api/collection */
#include "base/hash.h"
#include "server/reply.h"
#include "server/router.h"
#include <stdio.h>

/* Extra properties that are accepted, kept and shown; they act in a cluster. */
static const char *const kept[] = { "numberOfShards",      "replicationFactor", "writeConcern",
                                    "shardKeys",           "shardingStrategy",  "schema",
                                    "cacheEnabled",        "computedValues",    "isVolatile",
                                    "distributeShardsLike" };

static void put_basic(struct reply *a, const struct collection *c)
{
    char guid[64];

    reply_id(a, "id", c->id);
    reply_text(a, "name", c->name);
    reply_int(a, "status", 3);
    reply_int(a, "type", c->type);
    reply_bool(a, "isSystem", c->is_system);
    snprintf(guid, sizeof guid, "h%llx/%llu", (unsigned long long)c->db_id,
             (unsigned long long)c->id);
    reply_str(a, "globallyUniqueId", guid);
}

static void put_properties(struct reply *a, const struct collection *c)
{
    reply_bool(a, "waitForSync", c->wait_for_sync);
    reply_str(a, "statusString", "loaded");
    reply_bool(a, "cacheEnabled", false);
    reply_val(a, "schema", val_null);
    reply_open(a, "keyOptions");
    reply_bool(a, "allowUserKeys", c->allow_user_keys);
    reply_str(a, "type", c->keys_increment ? "autoincrement" : "traditional");
    reply_close(a);
    for (size_t i = 0; i < val_count(c->extra); i++) {
        struct slice name = val_name_at(c->extra, i);
        if (slice_is(name, "schema") || slice_is(name, "cacheEnabled"))
            continue;
        char text[LIMIT_NAME_BYTES];
        snprintf(text, sizeof text, "%.*s", SLICE_ARG(name));
        reply_val(a, text, val_at(c->extra, i));
    }
}

static void list_collections(struct request *r)
{
    struct error err = { 0 };
    struct txn_options opt = { .is_read_only = true };
    struct txn *t = NULL;
    const struct database *db;
    bool no_system;
    struct reply a;
    enum errc rc = request_flag(r, "excludeSystem", false, &no_system, &err);

    if (rc == OK)
        rc = txn_begin(&t, r->ctx->store, &opt, &err);
    if (rc == OK)
        rc = request_database(r, txn_catalog(t), &db, &err);
    if (rc != OK) {
        txn_end(t);
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_list(&a, "result");
    for (size_t i = 0; i < db->collection_count; i++) {
        if (no_system && db->collections[i].is_system)
            continue;
        reply_open(&a, NULL);
        put_basic(&a, &db->collections[i]);
        reply_close(&a);
    }
    reply_close(&a);
    txn_end(t);
    reply_send(&a, 200);
}

static void answer_collection(struct request *r, bool with_properties)
{
    struct txn *t;
    const struct collection *c;
    struct reply a;

    if (!request_read_collection(r, r->params[0], &t, &c))
        return;
    reply_begin(&a, r);
    put_basic(&a, c);
    if (with_properties)
        put_properties(&a, c);
    txn_end(t);
    reply_send(&a, 200);
}

static void get_collection(struct request *r)
{
    answer_collection(r, false);
}

static void get_properties(struct request *r)
{
    answer_collection(r, true);
}

/* count, figures: properties and a number. */
static void answer_count(struct request *r, bool with_figures)
{
    struct error err = { 0 };
    struct txn *t;
    const struct collection *c;
    struct reply a;
    uint64_t count;

    if (!request_read_collection(r, r->params[0], &t, &c))
        return;
    if (doc_count(t, c, &count, &err) != OK) {
        txn_end(t);
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    put_basic(&a, c);
    put_properties(&a, c);
    reply_int(&a, "count", (int64_t)count);
    if (with_figures) {
        reply_open(&a, "figures");
        reply_open(&a, "indexes");
        reply_int(&a, "count", (int64_t)c->index_count);
        reply_close(&a);
        reply_close(&a);
    }
    txn_end(t);
    reply_send(&a, 200);
}

static void get_count(struct request *r)
{
    answer_count(r, false);
}

static void get_figures(struct request *r)
{
    answer_count(r, true);
}

/* Sum over the documents of a hash: independent of their order. */
static enum errc checksum(struct txn *t, const struct collection *c, bool with_rev, uint64_t *out,
                          struct error *err)
{
    struct doc_iter *it = NULL;
    struct val doc;
    enum errc rc = doc_iter_new(&it, t, c, err);

    *out = 0;
    while (rc == OK && doc_iter_next(it, &doc)) {
        struct slice key = val_string(val_get(doc, slice_str("_key")));
        struct slice rev = val_string(val_get(doc, slice_str("_rev")));
        *out += hash_xxh3(key.ptr, key.len) ^ (with_rev ? hash_xxh3(rev.ptr, rev.len) * 31 : 0);
    }
    if (rc == OK)
        rc = doc_iter_check(it, err);
    doc_iter_free(it);
    return rc;
}

static void answer_checksum(struct request *r, const char *member, bool with_rev)
{
    struct error err = { 0 };
    struct txn *t;
    const struct collection *c;
    struct reply a;
    uint64_t sum;

    if (!request_read_collection(r, r->params[0], &t, &c))
        return;
    if (checksum(t, c, with_rev, &sum, &err) != OK) {
        txn_end(t);
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    put_basic(&a, c);
    reply_id(&a, member, sum);
    if (!strcmp(member, "checksum"))
        reply_id(&a, "revision", sum);
    txn_end(t);
    reply_send(&a, 200);
}

static void get_revision(struct request *r)
{
    answer_checksum(r, "revision", true);
}

static void get_checksum(struct request *r)
{
    answer_checksum(r, "checksum", false);
}

static struct val kept_extra(struct request *r, struct val body)
{
    struct slice names[ARRAY_LEN(kept)];
    struct val values[ARRAY_LEN(kept)];
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (val_find(body, slice_str(kept[i]), &values[n]))
            names[n++] = slice_str(kept[i]);
    return val_new_object(r->arena, names, values, n);
}

static enum errc read_options(struct request *r, struct val body, struct collection_options *opt,
                              struct error *err)
{
    struct val type = val_get(body, slice_str("type"));
    struct val keys = val_get(body, slice_str("keyOptions"));
    struct val user_keys = val_get(keys, slice_str("allowUserKeys"));

    if (val_type(val_get(body, slice_str("name"))) != VAL_STRING)
        return fail_num(err, 1208, "the collection needs a name");
    if (!val_is_null(type) && val_int(type) != 2 && val_int(type) != 3)
        return fail_num(err, 1218, "type must be 2 (documents) or 3 (edges)");
    if (val_type(val_get(body, slice_str("schema"))) == VAL_OBJECT)
        return fail(err, ERR_NOT_IMPLEMENTED, "not implemented: schema validation");
    if (val_count(val_get(body, slice_str("computedValues"))))
        return fail(err, ERR_NOT_IMPLEMENTED, "not implemented: computedValues");
    *opt = (struct collection_options){
        .name = val_string(val_get(body, slice_str("name"))),
        .type = val_int(type) == 3 ? COLLECTION_EDGE : COLLECTION_DOCUMENT,
        .wait_for_sync = val_bool(val_get(body, slice_str("waitForSync"))),
        .allow_user_keys = val_is_null(user_keys) || val_bool(user_keys),
        .key_options = keys,
        .extra = kept_extra(r, body),
    };
    return OK;
}

static void post_collection(struct request *r)
{
    struct error err = { 0 };
    struct collection_options opt;
    struct val body;
    uint64_t id, db_id;
    enum errc rc = request_object(r, &body, &err);

    if (rc == OK)
        rc = read_options(r, body, &opt, &err);
    if (rc == OK)
        rc = request_database_id(r, &db_id, &err);
    if (rc == OK)
        rc = store_create_collection(r->ctx->store, db_id, &opt, &id, &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    r->params[0] = opt.name;
    get_properties(r);
}

/* Finds the captured collection, then changes it outside the transaction. */
static void change(struct request *r,
                   enum errc (*fn)(struct request *, const struct collection *, struct error *),
                   bool shows_properties)
{
    struct error err = { 0 };
    struct txn *t;
    const struct collection *c;
    struct reply a;

    if (!request_read_collection(r, r->params[0], &t, &c))
        return;
    enum errc rc = fn(r, c, &err);
    if (rc != OK) {
        txn_end(t);
        request_fail(r, &err);
        return;
    }
    if (shows_properties) {
        txn_end(t);
        get_properties(r);
        return;
    }
    reply_begin(&a, r);
    put_basic(&a, c);
    txn_end(t);
    reply_send(&a, 200);
}

static enum errc drop(struct request *r, const struct collection *c, struct error *err)
{
    bool is_system;
    enum errc rc = request_flag(r, "isSystem", false, &is_system, err);

    if (rc == OK && c->is_system && !is_system)
        rc = fail(err, ERR_FORBIDDEN, "'%.*s' is a system collection: pass isSystem=true",
                  SLICE_ARG(c->name));
    return rc == OK ? store_drop_collection(r->ctx->store, c->db_id, c->id, err) : rc;
}

static enum errc truncate_rows(struct request *r, const struct collection *c, struct error *err)
{
    return store_truncate_collection(r->ctx->store, c->id, err);
}

static enum errc set_properties(struct request *r, const struct collection *c, struct error *err)
{
    struct val body, sync;
    enum errc rc = request_object(r, &body, err);

    if (rc != OK)
        return rc;
    for (size_t i = 0; i < val_count(body); i++)
        if (!slice_is(val_name_at(body, i), "waitForSync"))
            return fail(err, ERR_NOT_IMPLEMENTED,
                        "not implemented: changing %.*s (only waitForSync can be changed)",
                        SLICE_ARG(val_name_at(body, i)));
    if (!val_find(body, slice_str("waitForSync"), &sync))
        return OK;
    return store_set_collection(r->ctx->store, c->id, val_truth(sync), err);
}

static enum errc nothing(struct request *r, const struct collection *c, struct error *err)
{
    (void)r, (void)c, (void)err;
    return OK;
}

static void delete_collection(struct request *r)
{
    change(r, drop, false);
}

static void put_truncate(struct request *r)
{
    change(r, truncate_rows, false);
}

static void put_properties_route(struct request *r)
{
    change(r, set_properties, true);
}

/* Collections are always loaded and compacted in the background. */
static void put_load(struct request *r)
{
    change(r, nothing, false);
}

static void put_rename(struct request *r)
{
    struct error err = { 0 };

    fail(&err, ERR_NOT_IMPLEMENTED, "not implemented: renaming a collection");
    request_fail(r, &err);
}

const struct route api_arango_collection_routes[] = {
    { METHOD_GET, "/_api/collection", ROLE_USER, ON_POOL, 0, list_collections, "All collections." },
    { METHOD_POST, "/_api/collection", ROLE_USER, ON_POOL, MIB, post_collection, "Creates one." },
    { METHOD_GET, "/_api/collection/{name}", ROLE_USER, ON_POOL, 0, get_collection, "One." },
    { METHOD_DELETE, "/_api/collection/{name}", ROLE_USER, ON_POOL, 0, delete_collection,
      "Drops." },
    { METHOD_GET, "/_api/collection/{name}/properties", ROLE_USER, ON_POOL, 0, get_properties,
      "Its properties." },
    { METHOD_PUT, "/_api/collection/{name}/properties", ROLE_USER, ON_POOL, MIB,
      put_properties_route, "Changes waitForSync." },
    { METHOD_GET, "/_api/collection/{name}/count", ROLE_USER, ON_POOL, 0, get_count, "Documents." },
    { METHOD_GET, "/_api/collection/{name}/figures", ROLE_USER, ON_POOL, 0, get_figures,
      "Figures." },
    { METHOD_GET, "/_api/collection/{name}/revision", ROLE_USER, ON_POOL, 0, get_revision,
      "Changes when a document does." },
    { METHOD_GET, "/_api/collection/{name}/checksum", ROLE_USER, ON_POOL, 0, get_checksum,
      "Checksum over the keys." },
    { METHOD_PUT, "/_api/collection/{name}/truncate", ROLE_USER, ON_POOL, MIB, put_truncate,
      "Removes all documents." },
    { METHOD_PUT, "/_api/collection/{name}/load", ROLE_USER, ON_POOL, MIB, put_load,
      "Does nothing." },
    { METHOD_PUT, "/_api/collection/{name}/unload", ROLE_USER, ON_POOL, MIB, put_load,
      "Does nothing." },
    { METHOD_PUT, "/_api/collection/{name}/compact", ROLE_USER, ON_POOL, MIB, put_load,
      "Does nothing." },
    { METHOD_PUT, "/_api/collection/{name}/rename", ROLE_USER, ON_POOL, MIB, put_rename,
      "Renames." },
    { 0 },
};
