/* SPDX-License-Identifier: Apache-2.0 */
/* /_admin/encryption: keys of encrypted attributes, what uses them, and writing with the new one. */
#include "server/body.h"
#include "server/reply.h"
#include "server/router.h"
#include "store/encryption.h"
#include "store/txn.h"

enum { LIMIT_DEFAULT = 100000, LIMIT_MAX = 100000000 };

static bool should_stop(void *ctx)
{
    struct request *r = ctx;

    return atomic_load(exchange_cancel_flag(r->x)) || atomic_load(&r->ctx->is_draining);
}

static bool concerns(const struct collection *c)
{
    return c->sealed_count > 0;
}

/* ---- state ---- */

static void put_fields(struct reply *a, const char *name, const struct field_path *fields,
                       size_t count)
{
    reply_list(a, name);
    for (size_t i = 0; i < count; i++)
        reply_text(a, NULL, fields[i].text);
    reply_close(a);
}

static void put_usage(struct reply *a, const struct encryption_usage *u)
{
    reply_int(a, "documents", (int64_t)u->documents);
    reply_int(a, "staleDocuments", (int64_t)u->stale);
    reply_int(a, "clearValues", (int64_t)u->clear);
    reply_open(a, "valuesByKey");
    for (size_t i = 0; i < u->key_count; i++)
        reply_int(a, u->keys[i].key_id, (int64_t)u->keys[i].values);
    reply_close(a);
    if (u->others)
        reply_int(a, "valuesOfOtherKeys", (int64_t)u->others);
}

static enum errc put_collection(struct reply *a, const struct database *db,
                                const struct collection *c, bool counts,
                                struct encryption_usage *all, struct error *err)
{
    struct request *r = a->r;
    struct encryption_watch watch = { should_stop, r };
    struct encryption_usage own = { 0 };
    enum errc rc = OK;

    if (counts)
        rc = encryption_count(r->ctx->store, c->id, &watch, &own, err);
    reply_open(a, NULL);
    reply_text(a, "database", db->name);
    reply_text(a, "name", c->name);
    put_fields(a, "encryptedFields", c->sealed, c->encrypted_count);
    put_fields(a, "formerFields", c->sealed + c->encrypted_count,
               c->sealed_count - c->encrypted_count);
    if (counts)
        put_usage(a, &own);
    reply_close(a);
    for (size_t i = 0; i < own.key_count; i++)
        for (size_t j = 0; j < all->key_count; j++)
            if (!strcmp(own.keys[i].key_id, all->keys[j].key_id))
                all->keys[j].values += own.keys[i].values;
    return rc;
}

/* In the order of the key file. */
static void put_keys(struct reply *a, const struct keyring *keys,
                     const struct encryption_usage *all, bool counts)
{
    const struct keyring_key *writer = keyring_writer(keys);

    reply_list(a, "keys");
    for (size_t i = 0; i < all->key_count; i++) {
        reply_open(a, NULL);
        reply_str(a, "id", all->keys[i].key_id);
        reply_bool(a, "encrypts", writer && !strcmp(writer->id, all->keys[i].key_id));
        if (counts)
            reply_int(a, "values", (int64_t)all->keys[i].values);
        reply_close(a);
    }
    reply_close(a);
}

static void get_encryption(struct request *r)
{
    struct error err = { 0 };
    struct txn *t = NULL;
    struct encryption_usage *all = ARENA_NEW(r->arena, struct encryption_usage);
    const struct keyring *keys = encryption_keys(r->ctx->store);
    bool counts;
    struct reply a;
    enum errc rc = request_flag(r, "count", false, &counts, &err);

    if (rc == OK)
        rc = txn_begin(&t, r->ctx->store, &(struct txn_options){ .is_read_only = true }, &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    for (; all->key_count < keyring_count(keys); all->key_count++)
        memcpy(all->keys[all->key_count].key_id, keyring_at(keys, all->key_count)->id,
               sizeof all->keys->key_id);
    reply_begin(&a, r);
    reply_list(&a, "collections");
    for (size_t i = 0; i < catalog_database_count(txn_catalog(t)); i++) {
        const struct database *db = catalog_database_at(txn_catalog(t), i);
        for (size_t j = 0; rc == OK && j < db->collection_count; j++)
            if (concerns(&db->collections[j]))
                rc = put_collection(&a, db, &db->collections[j], counts, all, &err);
    }
    reply_close(&a);
    put_keys(&a, keys, all, counts);
    txn_end(t);
    if (rc == OK) {
        reply_send(&a, 200);
        return;
    }
    reply_drop(&a);
    request_fail(r, &err);
}

/* ---- rewriting ---- */

struct wish {
    struct slice database, collection; /* empty: all */
    double limit;
};

static enum errc read_wish(struct request *r, struct wish *out, struct error *err)
{
    static const char *const names[] = { "database", "collection", "limit" };
    enum errc rc = OK;
    struct val body = val_empty_object;

    *out = (struct wish){ .limit = LIMIT_DEFAULT };
    if (request_body(r).len)
        TRY(request_object(r, &body, err));
    TRY(body_check_names(body, names, ARRAY_LEN(names), err));
    TRY(body_text(body, "database", &out->database, err));
    TRY(body_text(body, "collection", &out->collection, err));
    rc = body_number(body, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT, &out->limit, err);
    if (rc == OK && out->collection.len && !out->database.len)
        out->database = slice_str("_system");
out:
    return rc;
}

/* Ids of what is to be rewritten: the catalog is not held meanwhile. */
static enum errc choose(struct request *r, const struct wish *wish, uint64_t **ids, size_t *count,
                        struct error *err)
{
    struct txn *t;
    bool is_found = false;
    enum errc rc = txn_begin(&t, r->ctx->store, &(struct txn_options){ .is_read_only = true }, err);

    *count = 0;
    if (rc != OK)
        return rc;
    const struct catalog *catalog = txn_catalog(t);
    size_t max = 0;
    for (size_t i = 0; i < catalog_database_count(catalog); i++)
        max += catalog_database_at(catalog, i)->collection_count;
    *ids = arena_alloc(r->arena, (max + 1) * sizeof **ids);
    for (size_t i = 0; i < catalog_database_count(catalog); i++) {
        const struct database *db = catalog_database_at(catalog, i);
        for (size_t j = 0; j < db->collection_count; j++) {
            const struct collection *c = &db->collections[j];
            bool is_asked = (!wish->database.len || slice_eq(db->name, wish->database)) &&
                            (!wish->collection.len || slice_eq(c->name, wish->collection));
            is_found |= is_asked;
            if (is_asked && concerns(c))
                (*ids)[(*count)++] = c->id;
        }
    }
    txn_end(t);
    if (wish->collection.len && !is_found)
        return fail_num(err, 1203, "collection '%.*s' not found in database '%.*s'",
                        SLICE_ARG(wish->collection), SLICE_ARG(wish->database));
    return OK;
}

static void post_rewrite(struct request *r)
{
    struct error err = { 0 };
    struct wish wish;
    struct encryption_watch watch = { should_stop, r };
    struct encryption_progress all = { 0 };
    uint64_t *ids;
    size_t count = 0, done = 0;
    struct reply a;
    enum errc rc = read_wish(r, &wish, &err);

    if (rc == OK)
        rc = choose(r, &wish, &ids, &count, &err);
    for (size_t i = 0; rc == OK && i < count && all.rewritten < (uint64_t)wish.limit; i++) {
        rc = encryption_rewrite(r->ctx->store, ids[i], (uint64_t)wish.limit - all.rewritten, &watch,
                                &all, &err);
        if (rc == ERR_NOT_FOUND) { /* dropped meanwhile */
            rc = OK;
            all.is_done = true;
        }
        done += all.is_done;
    }
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_int(&a, "collections", (int64_t)count);
    reply_int(&a, "scanned", (int64_t)all.scanned);
    reply_int(&a, "rewritten", (int64_t)all.rewritten);
    reply_int(&a, "conflicts", (int64_t)all.conflicts);
    reply_bool(&a, "isDone", done == count);
    reply_send(&a, 200);
}

const struct route api_encryption_routes[] = {
    { METHOD_GET, "/_admin/encryption?count", ROLE_ADMIN, ON_POOL, 0, get_encryption,
      "Keys and encrypted attributes; with count=true, how many values use each key." },
    { METHOD_POST, "/_admin/encryption/rewrite", ROLE_ADMIN, ON_POOL, MIB, post_rewrite,
      "Writes documents again that are not encrypted with the key of today." },
    { 0 },
};
