/* SPDX-License-Identifier: Apache-2.0 */
/* /_api/database: only _system lists, creates and drops. */
#include "server/reply.h"
#include "server/router.h"

static enum errc read_txn(struct request *r, struct txn **out, struct error *err)
{
    struct txn_options opt = { .is_read_only = true };

    return txn_begin(out, r->ctx->store, &opt, err);
}

static void list_databases(struct request *r)
{
    struct error err = { 0 };
    struct txn *t = NULL;
    struct reply a;

    if (read_txn(r, &t, &err) != OK) {
        request_fail(r, &err);
        return;
    }
    const struct catalog *c = txn_catalog(t);
    reply_begin(&a, r);
    reply_list(&a, "result");
    for (size_t i = 0; i < catalog_database_count(c); i++)
        reply_text(&a, NULL, catalog_database_at(c, i)->name);
    reply_close(&a);
    txn_end(t);
    reply_send(&a, 200);
}

static void get_current(struct request *r)
{
    struct error err = { 0 };
    struct txn *t = NULL;
    const struct database *db;
    struct reply a;
    enum errc rc = read_txn(r, &t, &err);

    if (rc == OK)
        rc = request_database(r, txn_catalog(t), &db, &err);
    if (rc != OK) {
        txn_end(t);
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_open(&a, "result");
    reply_text(&a, "name", db->name);
    reply_id(&a, "id", db->id);
    reply_str(&a, "path", "");
    reply_bool(&a, "isSystem", slice_is(db->name, "_system"));
    reply_close(&a);
    txn_end(t);
    reply_send(&a, 200);
}

static enum errc only_system(struct request *r, struct error *err)
{
    if (slice_is(r->db_name, "_system"))
        return OK;
    return fail_num(err, 1230, "databases are created and dropped in _system only");
}

static void finish(struct request *r, enum errc rc, int status, const struct error *err)
{
    struct reply a;

    if (rc != OK) {
        request_fail(r, err);
        return;
    }
    reply_begin(&a, r);
    reply_bool(&a, "result", true);
    reply_send(&a, status);
}

static void post_database(struct request *r)
{
    struct error err = { 0 };
    struct val body;
    enum errc rc = only_system(r, &err);

    if (rc == OK)
        rc = request_object(r, &body, &err);
    if (rc == OK && val_count(val_get(body, slice_str("users"))))
        rc = fail(&err, ERR_NOT_IMPLEMENTED,
                  "not implemented: creating users together with a database");
    if (rc == OK)
        rc = store_create_database(r->ctx->store, val_string(val_get(body, slice_str("name"))),
                                   &err);
    finish(r, rc, 201, &err);
}

static void delete_database(struct request *r)
{
    struct error err = { 0 };
    enum errc rc = only_system(r, &err);

    if (rc == OK && slice_is(r->params[0], "_system"))
        rc = fail(&err, ERR_FORBIDDEN, "the database _system cannot be dropped");
    if (rc == OK)
        rc = store_drop_database(r->ctx->store, r->params[0], &err);
    finish(r, rc, 200, &err);
}

const struct route api_arango_database_routes[] = {
    { METHOD_GET, "/_api/database", ROLE_ADMIN, ON_POOL, 0, list_databases, "All databases." },
    { METHOD_GET, "/_api/database/user", ROLE_USER, ON_POOL, 0, list_databases,
      "Databases of the user." },
    { METHOD_GET, "/_api/database/current", ROLE_USER, ON_POOL, 0, get_current, "This database." },
    { METHOD_POST, "/_api/database", ROLE_ADMIN, ON_POOL, MIB, post_database, "Creates one." },
    { METHOD_DELETE, "/_api/database/{name}", ROLE_ADMIN, ON_POOL, 0, delete_database,
      "Drops one." },
    { 0 },
};
