/* SPDX-License-Identifier: Apache-2.0 */
/* /_api/database: only _system lists, creates and drops. */
#include "server/body.h"
#include "server/reply.h"
#include "server/router.h"

static enum errc read_txn(struct request *r, struct txn **out, struct error *err)
{
    struct txn_options opt = { .is_read_only = true };

    return txn_begin(out, r->ctx->store, &opt, err);
}

static enum errc only_system(struct request *r, struct error *err)
{
    if (slice_is(r->db_name, "_system"))
        return OK;
    return fail_num(err, 1230, "databases are created and dropped in _system only");
}

/* All, or those that the user may use. */
static void answer_list(struct request *r, bool is_mine)
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
    for (size_t i = 0; i < catalog_database_count(c); i++) {
        struct slice name = catalog_database_at(c, i)->name;
        if (!is_mine || !r->account || user_database_level(r->account, name) != ACCESS_NONE)
            reply_text(&a, NULL, name);
    }
    reply_close(&a);
    txn_end(t);
    reply_send(&a, 200);
}

static void list_databases(struct request *r)
{
    struct error err = { 0 };

    if (only_system(r, &err) == OK)
        answer_list(r, false);
    else
        request_fail(r, &err);
}

static void list_mine(struct request *r)
{
    answer_list(r, true);
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

/* ---- creating, with users who may write to it ---- */

struct new_user {
    struct user_change change;
    struct slice name, password;
    bool is_active;
};

static enum errc read_user(struct val body, struct new_user *out, struct error *err)
{
    static const char *const names[] = { "username", "user", "passwd", "active", "extra" };
    enum errc rc = OK;
    struct slice other;

    *out = (struct new_user){ 0 };
    TRY(body_check_names(body, names, ARRAY_LEN(names), err));
    TRY(body_text(body, "username", &out->name, err));
    TRY(body_text(body, "user", &other, err));
    TRY(body_text(body, "passwd", &out->password, err));
    TRY(body_bool(body, "active", &out->is_active, err));
    if (!out->name.len)
        out->name = other;
    if (!out->name.len)
        TRY(fail_num(err, 1700, "an element of 'users' has no username"));
    out->change.password = &out->password;
    if (!val_is_null(val_get(body, slice_str("active"))))
        out->change.is_active = &out->is_active;
    if (!val_is_null(val_get(body, slice_str("extra"))))
        out->change.extra = val_get(body, slice_str("extra"));
out:
    return rc;
}

/* An account that exists keeps its password. */
static enum errc add_user(struct request *r, const struct new_user *u, struct slice db,
                          struct error *err)
{
    enum access_level level = ACCESS_WRITE;
    struct users *users = r->ctx->users;
    struct error why = { 0 };
    enum errc rc = users_create(users, u->name, &u->change, &why);

    if (rc != OK && error_num(&why) != 1702) {
        *err = why;
        return rc;
    }
    rc = users_grant(users, u->name, db, slice_of(NULL, 0), &level, err);
    return rc == OK ? users_grant(users, u->name, db, slice_str("*"), &level, err) : rc;
}

/* They act in a cluster; here they are checked and change nothing. */
static enum errc check_options(struct val options, struct error *err)
{
    static const char *const names[] = { "sharding", "replicationFactor", "writeConcern" };

    if (!val_is_null(options) && val_type(options) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "'options' must be an object");
    return body_check_names(options, names, ARRAY_LEN(names), err);
}

static enum errc create_database(struct request *r, struct val body, struct error *err)
{
    static const char *const names[] = { "name", "options", "users", "id" };
    enum errc rc = OK;
    struct slice name;
    struct val users = val_get(body, slice_str("users"));
    struct new_user u;

    TRY(body_check_names(body, names, ARRAY_LEN(names), err));
    TRY(body_text(body, "name", &name, err));
    TRY(check_options(val_get(body, slice_str("options")), err));
    for (size_t i = 0; i < val_count(users); i++)
        TRY(read_user(val_at(users, i), &u, err));
    TRY(store_create_database(r->ctx->store, name, err));
    for (size_t i = 0; rc == OK && i < val_count(users); i++) {
        rc = read_user(val_at(users, i), &u, err);
        if (rc == OK)
            rc = add_user(r, &u, name, err);
    }
    if (rc != OK && store_drop_database(r->ctx->store, name, NULL) != OK)
        wrap(err, "the database was created, but not all its users");
out:
    return rc;
}

static void post_database(struct request *r)
{
    struct error err = { 0 };
    struct val body;
    enum errc rc = only_system(r, &err);

    if (rc == OK && !request_is_admin(r))
        rc = fail(&err, ERR_FORBIDDEN, "only administrators create databases");
    if (rc == OK)
        rc = request_object(r, &body, &err);
    if (rc == OK)
        rc = create_database(r, body, &err);
    finish(r, rc, 201, &err);
}

static void delete_database(struct request *r)
{
    struct error err = { 0 };
    enum errc rc = only_system(r, &err);

    if (rc == OK && !request_is_admin(r))
        rc = fail(&err, ERR_FORBIDDEN, "only administrators drop databases");
    if (rc == OK && slice_is(r->params[0], "_system"))
        rc = fail(&err, ERR_FORBIDDEN, "the database _system cannot be dropped");
    if (rc == OK)
        rc = store_drop_database(r->ctx->store, r->params[0], &err);
    finish(r, rc, 200, &err);
}

const struct route api_arango_database_routes[] = {
    { METHOD_GET, "/_api/database", ROLE_ADMIN, ON_POOL, 0, list_databases, "All databases." },
    { METHOD_GET, "/_api/database/user", ROLE_USER, ON_POOL, 0, list_mine,
      "Databases of the user." },
    { METHOD_GET, "/_api/database/current", ROLE_USER, ON_POOL, 0, get_current, "This database." },
    { METHOD_POST, "/_api/database", ROLE_USER, ON_POOL, MIB, post_database, "Creates one." },
    { METHOD_DELETE, "/_api/database/{name}", ROLE_USER, ON_POOL, 0, delete_database,
      "Drops one." },
    { 0 },
};
