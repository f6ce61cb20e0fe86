/* SPDX-License-Identifier: Apache-2.0 */
/* /_api/collection */
#include "server/body.h"
#include "server/collection_reply.h"
#include "server/router.h"
#include "server/server_access.h"
#include <stdio.h>

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
        if ((no_system && db->collections[i].is_system) ||
            request_level(r, db->collections[i].name) == ACCESS_NONE)
            continue;
        reply_open(&a, NULL);
        collection_put_basic(&a, &db->collections[i]);
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
    collection_put_basic(&a, c);
    if (with_properties)
        collection_put_properties(&a, c);
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

/* ---- creating ---- */

/* What may be said about a collection, and what of it is not done yet unless it says nothing. */
static const char *const body_names[] = {
    "name",         "type",           "waitForSync",          "isSystem",
    "keyOptions",   "schema",         "computedValues",       "cacheEnabled",
    "writeConcern", "numberOfShards", "replicationFactor",    "shardingStrategy",
    "shardKeys",    "isVolatile",     "distributeShardsLike", "smartJoinAttribute",
    "isSmart",      "syncByRevision", "encryptedFields",
};

static enum errc check_absent(struct val body, const char *name, struct error *err)
{
    struct val v = val_get(body, slice_str(name));
    bool says_nothing = val_is_null(v) || (val_type(v) == VAL_BOOL && !val_bool(v)) ||
                        (val_type(v) >= VAL_ARRAY && !val_count(v));

    return says_nothing ? OK : fail(err, ERR_NOT_IMPLEMENTED, "not implemented: '%s'", name);
}

static enum errc check_unsupported(struct val body, struct error *err)
{
    static const char *const names[] = { "isVolatile", "isSmart" };
    enum errc rc = OK;

    for (size_t i = 0; rc == OK && i < ARRAY_LEN(names); i++)
        rc = check_absent(body, names[i], err);
    return rc;
}

static enum errc read_options(struct request *r, struct val body, struct collection_options *opt,
                              struct error *err)
{
    enum errc rc = OK;
    struct val type = val_get(body, slice_str("type"));
    struct val keys = val_get(body, slice_str("keyOptions"));
    struct val user_keys = val_get(keys, slice_str("allowUserKeys"));
    struct slice name = val_string(val_get(body, slice_str("name")));
    bool waits, is_system;

    TRY(body_check_names(body, body_names, ARRAY_LEN(body_names), err));
    TRY(body_bool(body, "waitForSync", &waits, err));
    TRY(body_bool(body, "isSystem", &is_system, err));
    TRY(check_unsupported(body, err));
    if (!name.len)
        return fail_num(err, 1208, "the collection needs a name");
    if (is_system != (name.ptr[0] == '_'))
        return fail_num(err, 1208, "names of system collections, and only those, begin with _");
    if (!val_is_null(type) && val_int(type) != 2 && val_int(type) != 3)
        return fail_num(err, 1218, "type must be 2 (documents) or 3 (edges)");
    *opt = (struct collection_options){
        .name = name,
        .type = val_int(type) == 3 ? COLLECTION_EDGE : COLLECTION_DOCUMENT,
        .wait_for_sync = waits,
        .allow_user_keys = val_is_null(user_keys) || val_bool(user_keys),
        .key_options = keys,
        .extra = collection_kept(r, body),
        .schema = val_get(body, slice_str("schema")),
        .computed = val_get(body, slice_str("computedValues")),
        .encrypted_fields = val_get(body, slice_str("encryptedFields")),
    };
out:
    return rc;
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
        rc = request_may_change(r, &err);
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

enum right { RIGHT_READ, RIGHT_WRITE, RIGHT_CHANGE };

static enum errc check_right(struct request *r, const struct collection *c, enum right right,
                             struct error *err)
{
    enum errc rc = OK;

    if (right != RIGHT_READ)
        TRY(server_access_check(c->name, ACCESS_WRITE, err));
    if (right == RIGHT_CHANGE)
        rc = request_may_change(r, err);
    if (rc == OK && right != RIGHT_READ)
        rc = request_may_use(r, c->name, ACCESS_WRITE, err);
out:
    return rc;
}

/* Finds the captured collection, then changes it outside the transaction. */
static void change(struct request *r, enum right right,
                   enum errc (*fn)(struct request *, const struct collection *, struct error *),
                   bool shows_properties)
{
    struct error err = { 0 };
    struct txn *t;
    const struct collection *c;
    struct reply a;

    if (!request_read_collection(r, r->params[0], &t, &c))
        return;
    enum errc rc = check_right(r, c, right, &err);
    if (rc == OK)
        rc = fn(r, c, &err);
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
    collection_put_basic(&a, c);
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

/* Truncation is durable and gives its space back in any case: the parameters change nothing. */
static enum errc truncate_rows(struct request *r, const struct collection *c, struct error *err)
{
    bool waits, compacts;
    enum errc rc = request_flag(r, "waitForSync", false, &waits, err);

    if (rc == OK)
        rc = request_flag(r, "compact", true, &compacts, err);
    if (rc != OK)
        return rc;
    return store_truncate_collection(r->ctx->store, c->id, err);
}

/* ArangoDB takes the unchangeable ones too and leaves them: here they are refused. */
static enum errc set_properties(struct request *r, const struct collection *c, struct error *err)
{
    enum errc rc = OK;
    struct val body, v;
    struct collection_change to = { .schema = VAL_NONE, .computed = VAL_NONE };

    TRY(request_object(r, &body, err));
    TRY(body_bool(body, "waitForSync", &to.wait_for_sync, err));
    for (size_t i = 0; i < val_count(body); i++) {
        struct slice name = val_name_at(body, i);
        if (!slice_is(name, "waitForSync") && !slice_is(name, "schema") &&
            !slice_is(name, "computedValues") && !slice_is(name, "encryptedFields") &&
            !collection_is_kept(name))
            return fail(err, ERR_INVALID, "'%.*s' cannot be changed", SLICE_ARG(name));
    }
    if (!val_find(body, slice_str("waitForSync"), &v))
        to.wait_for_sync = c->wait_for_sync;
    if (!val_find(body, slice_str("schema"), &to.schema))
        to.schema = VAL_NONE;
    if (!val_find(body, slice_str("computedValues"), &to.computed))
        to.computed = VAL_NONE;
    if (val_find(body, slice_str("encryptedFields"), &v))
        TRY(store_set_encrypted_fields(r->ctx->store, c->id, v, err));
    to.extra = collection_kept(r, body);
    rc = store_set_collection(r->ctx->store, c->id, &to, err);
out:
    return rc;
}

static enum errc rename_to(struct request *r, const struct collection *c, struct error *err)
{
    static const char *const names[] = { "name" };
    enum errc rc = OK;
    struct val body;
    struct slice name;

    TRY(request_object(r, &body, err));
    TRY(body_check_names(body, names, ARRAY_LEN(names), err));
    TRY(body_text(body, "name", &name, err));
    if (c->is_system || slice_starts(name, "_"))
        TRY(fail(err, ERR_FORBIDDEN, "system collections keep their names"));
    TRY(store_rename_collection(r->ctx->store, c->db_id, c->id, name, err));
    r->params[0] = name;
out:
    return rc;
}

static enum errc nothing(struct request *r, const struct collection *c, struct error *err)
{
    (void)r, (void)c, (void)err;
    return OK;
}

static void delete_collection(struct request *r)
{
    change(r, RIGHT_CHANGE, drop, false);
}

/* As part of a stream transaction: document by document. */
static void truncate_inside(struct request *r)
{
    struct error err = { 0 };
    struct txn *t;
    const struct collection *c;
    struct reply a;

    if (!request_read_collection(r, r->params[0], &t, &c))
        return;
    enum errc rc = doc_remove_all(t, c, &err);
    if (rc == OK)
        rc = request_commit(r, t, &err);
    if (rc != OK) {
        request_end(r, t);
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    collection_put_basic(&a, c);
    request_end(r, t);
    reply_send(&a, 200);
}

static void put_truncate(struct request *r)
{
    if (r->stream_id)
        truncate_inside(r);
    else
        change(r, RIGHT_WRITE, truncate_rows, false);
}

static void put_properties_route(struct request *r)
{
    change(r, RIGHT_CHANGE, set_properties, true);
}

/* Collections are always loaded and compacted in the background. */
static void put_load(struct request *r)
{
    change(r, RIGHT_READ, nothing, false);
}

/* Documents and indexes are read through the block cache: there is nothing to load. */
static void put_load_indexes(struct request *r)
{
    struct txn *t;
    const struct collection *c;
    struct reply a;

    if (!request_read_collection(r, r->params[0], &t, &c))
        return;
    txn_end(t);
    reply_begin(&a, r);
    reply_bool(&a, "result", true);
    reply_send(&a, 200);
}

static void put_rename(struct request *r)
{
    change(r, RIGHT_CHANGE, rename_to, true);
}

static void get_key_generators(struct request *r)
{
    static const char *const names[] = { "traditional", "autoincrement", "padded", "uuid" };
    struct reply a;

    reply_begin(&a, r);
    reply_list(&a, "keyGenerators");
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        reply_str(&a, NULL, names[i]);
    reply_close(&a);
    reply_send(&a, 200);
}

const struct route api_arango_collection_routes[] = {
    { METHOD_GET, "/_api/collection?excludeSystem", ROLE_USER, ON_POOL, 0, list_collections,
      "All collections." },
    { METHOD_POST, "/_api/collection?waitForSyncReplication&enforceReplicationFactor", ROLE_USER,
      ON_POOL, MIB, post_collection, "Creates one." },
    { METHOD_GET, "/_api/collection/{name}", ROLE_USER, ON_POOL, 0, get_collection, "One." },
    { METHOD_DELETE, "/_api/collection/{name}?isSystem", ROLE_USER, ON_POOL, 0, delete_collection,
      "Drops." },
    { METHOD_GET, "/_api/collection/{name}/properties", ROLE_USER, ON_POOL, 0, get_properties,
      "Its properties." },
    { METHOD_PUT, "/_api/collection/{name}/properties", ROLE_USER, ON_POOL, MIB,
      put_properties_route, "Changes them." },
    { METHOD_PUT, "/_api/collection/{name}/rename", ROLE_USER, ON_POOL, MIB, put_rename,
      "Renames." },
    { METHOD_PUT, "/_api/collection/{name}/truncate?waitForSync&compact", ROLE_USER, ON_POOL_TRX,
      MIB, put_truncate, "Removes all documents." },
    { METHOD_PUT, "/_api/collection/{name}/load", ROLE_USER, ON_POOL, MIB, put_load,
      "Does nothing: collections are always loaded." },
    { METHOD_PUT, "/_api/collection/{name}/unload", ROLE_USER, ON_POOL, MIB, put_load,
      "Does nothing." },
    { METHOD_PUT, "/_api/collection/{name}/compact", ROLE_USER, ON_POOL, MIB, put_load,
      "Does nothing: compaction runs by itself." },
    { METHOD_PUT, "/_api/collection/{name}/loadIndexesIntoMemory", ROLE_USER, ON_POOL, MIB,
      put_load_indexes, "Does nothing: indexes are read through the block cache." },
    { METHOD_GET, "/_api/key-generators", ROLE_USER, ON_LOOP, 0, get_key_generators,
      "Ways to make keys." },
    { 0 },
};
