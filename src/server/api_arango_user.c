/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /_api/user, /_api/token: accounts, grants and access tokens. Administrators
 * change everything; others read themselves, change their own password and
 * extra, and make tokens for themselves.
 */
#include "base/env.h"
#include "base/val_text.h"
#include "server/body.h"
#include "server/key_meter.h"
#include "server/reply.h"
#include "server/router.h"

static struct users *users_of(struct request *r)
{
    return r->ctx->users;
}

static bool is_self(const struct request *r)
{
    return slice_eq(r->user, r->params[0]);
}

static enum errc check_self(struct request *r, struct error *err)
{
    if (request_is_admin(r) || is_self(r))
        return OK;
    return fail(err, ERR_FORBIDDEN, "user '%.*s' may not see or change user '%.*s'",
                SLICE_ARG(r->user), SLICE_ARG(r->params[0]));
}

/* The account of the path, with a reference; NULL: the request was answered. */
static struct user *find_user(struct request *r)
{
    struct error err = { 0 };
    struct user *u = NULL;
    enum errc rc = check_self(r, &err);

    if (rc == OK) {
        u = users_find(users_of(r), r->params[0]);
        if (!u)
            fail_num(&err, 1703, "user '%.*s' not found", SLICE_ARG(r->params[0]));
    }
    if (!u)
        request_fail(r, &err);
    return u;
}

/* ---- accounts ---- */

static void put_user(struct reply *a, const struct user *u)
{
    reply_text(a, "user", user_name(u));
    reply_bool(a, "active", user_is_active(u));
    reply_val(a, "extra", user_extra(u));
}

static void list_users(struct request *r)
{
    size_t count;
    struct user **all = users_all(users_of(r), &count);
    struct reply a;

    reply_begin(&a, r);
    reply_list(&a, "result");
    for (size_t i = 0; i < count; i++) {
        reply_open(&a, NULL);
        put_user(&a, all[i]);
        reply_close(&a);
        user_unref(all[i]);
    }
    mem_free(all);
    reply_close(&a);
    reply_send(&a, 200);
}

static void answer_user(struct request *r, int status)
{
    struct user *u = find_user(r);
    struct reply a;

    if (!u)
        return;
    reply_begin(&a, r);
    put_user(&a, u);
    user_unref(u);
    reply_send(&a, status);
}

static void get_user(struct request *r)
{
    answer_user(r, 200);
}

struct user_body {
    struct user_change change;
    struct slice name, password;
    bool is_active;
};

static enum errc read_user(struct val body, struct user_body *out, struct error *err)
{
    static const char *const names[] = { "user", "passwd", "active", "extra" };
    enum errc rc = OK;

    *out = (struct user_body){ 0 };
    TRY(body_check_names(body, names, ARRAY_LEN(names), err));
    TRY(body_text(body, "user", &out->name, err));
    TRY(body_text(body, "passwd", &out->password, err));
    TRY(body_bool(body, "active", &out->is_active, err));
    if (!val_is_null(val_get(body, slice_str("passwd"))))
        out->change.password = &out->password;
    if (!val_is_null(val_get(body, slice_str("active"))))
        out->change.is_active = &out->is_active;
    if (!val_is_null(val_get(body, slice_str("extra"))))
        out->change.extra = val_get(body, slice_str("extra"));
out:
    return rc;
}

static void post_user(struct request *r)
{
    struct error err = { 0 };
    struct user_body u;
    struct val body;
    enum errc rc = request_object(r, &body, &err);

    if (rc == OK)
        rc = read_user(body, &u, &err);
    if (rc == OK)
        rc = users_create(users_of(r), u.name, &u.change, &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    r->params[0] = u.name;
    answer_user(r, 201);
}

static enum errc check_change(struct request *r, const struct user_body *u, struct error *err)
{
    bool is_root = slice_is(r->params[0], "root");

    if (u->change.is_active && !request_is_admin(r))
        return fail(err, ERR_FORBIDDEN, "only administrators activate and deactivate users");
    if (is_root && u->change.is_active && !u->is_active)
        return fail(err, ERR_FORBIDDEN, "root cannot be deactivated");
    if (is_root && (u->change.password || u->change.replaces) && auth_root_is_fixed(r->ctx->auth))
        return fail(err, ERR_FORBIDDEN,
                    "the password of root comes from root_password_file or THEMIS_ROOT_PASSWORD");
    return OK;
}

static void change_user(struct request *r, bool replaces)
{
    struct error err = { 0 };
    struct user_body u;
    struct val body;
    enum errc rc = check_self(r, &err);

    if (rc == OK)
        rc = request_object(r, &body, &err);
    if (rc == OK)
        rc = read_user(body, &u, &err);
    if (rc == OK) {
        u.change.replaces = replaces;
        rc = check_change(r, &u, &err);
    }
    if (rc == OK)
        rc = users_change(users_of(r), r->params[0], &u.change, &err);
    if (rc == OK)
        answer_user(r, 200);
    else
        request_fail(r, &err);
}

static void patch_user(struct request *r)
{
    change_user(r, false);
}

static void put_user_route(struct request *r)
{
    change_user(r, true);
}

static void done(struct request *r, enum errc rc, const struct error *err, int status)
{
    struct reply a;

    if (rc != OK) {
        request_fail(r, err);
        return;
    }
    reply_begin(&a, r);
    reply_send(&a, status);
}

static void delete_user(struct request *r)
{
    struct error err = { 0 };

    done(r, users_remove(users_of(r), r->params[0], &err), &err, 202);
}

/* ---- grants ---- */

/* "*" or one that exists: 1228, 1203. */
static enum errc check_target(struct request *r, struct slice db_name, struct slice collection,
                              struct error *err)
{
    struct txn_options opt = { .is_read_only = true };
    struct txn *t = NULL;
    enum errc rc;

    if (slice_is(db_name, "*"))
        return OK;
    rc = txn_begin(&t, r->ctx->store, &opt, err);
    if (rc != OK)
        return rc;
    const struct database *db = catalog_database(txn_catalog(t), db_name);
    if (!db)
        rc = fail_num(err, 1228, "database '%.*s' not found", SLICE_ARG(db_name));
    else if (collection.len && !slice_is(collection, "*") &&
             !catalog_collection(txn_catalog(t), db->id, collection))
        rc = fail_num(err, 1203, "collection or view not found: %.*s", SLICE_ARG(collection));
    txn_end(t);
    return rc;
}

static void put_grant(struct request *r)
{
    static const char *const names[] = { "grant" };
    struct error err = { 0 };
    struct val body;
    struct slice text;
    struct reply a;
    enum access_level level = ACCESS_NONE;
    struct slice db = r->params[1], collection = r->params[2];
    enum errc rc = OK;

    TRY(request_object(r, &body, &err));
    TRY(body_check_names(body, names, ARRAY_LEN(names), &err));
    TRY(body_text(body, "grant", &text, &err));
    if (!access_level_parse(text, &level))
        TRY(fail(&err, ERR_INVALID, "'grant' must be rw, ro or none"));
    TRY(check_target(r, db, collection, &err));
    TRY(users_grant(users_of(r), r->params[0], db, collection, &level, &err));
out:
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_str(&a,
              collection.len
                  ? arena_printf(r->arena, "%.*s/%.*s", SLICE_ARG(db), SLICE_ARG(collection))
                  : arena_printf(r->arena, "%.*s", SLICE_ARG(db)),
              access_level_name(level));
    reply_send(&a, 200);
}

static void delete_grant(struct request *r)
{
    struct error err = { 0 };

    done(r, users_grant(users_of(r), r->params[0], r->params[1], r->params[2], NULL, &err), &err,
         202);
}

static void answer_level(struct request *r,
                         enum access_level (*level)(struct request *, const struct user *))
{
    struct user *u = find_user(r);
    struct reply a;

    if (!u)
        return;
    reply_begin(&a, r);
    reply_str(&a, "result", access_level_name(level(r, u)));
    user_unref(u);
    reply_send(&a, 200);
}

static enum access_level database_level(struct request *r, const struct user *u)
{
    return user_database_level(u, r->params[1]);
}

static enum access_level collection_level(struct request *r, const struct user *u)
{
    return user_collection_level(u, r->params[1], r->params[2]);
}

static void get_database_level(struct request *r)
{
    answer_level(r, database_level);
}

static void get_collection_level(struct request *r)
{
    answer_level(r, collection_level);
}

/* What is granted by itself is shown, the rest is "undefined" and follows "*". */
static void put_collections(struct reply *a, const struct user *u, const struct database *db)
{
    struct val given = val_get(val_get(user_grants(u), db->name), slice_str("collections"));
    struct slice level;

    reply_open(a, "collections");
    for (size_t i = 0; i < db->collection_count; i++) {
        level = val_string(val_get(given, db->collections[i].name));
        reply_text(a, arena_printf(a->r->arena, "%.*s", SLICE_ARG(db->collections[i].name)),
                   level.len ? level : slice_str("undefined"));
    }
    level = val_string(val_get(given, slice_str("*")));
    reply_text(a, "*", level.len ? level : slice_str("undefined"));
    reply_close(a);
}

static void put_database(struct reply *a, const struct user *u, const struct database *db,
                         bool is_full)
{
    enum access_level level = user_database_level(u, db->name);
    const char *name = arena_printf(a->r->arena, "%.*s", SLICE_ARG(db->name));

    if (!is_full) {
        if (level != ACCESS_NONE)
            reply_str(a, name, access_level_name(level));
        return;
    }
    reply_open(a, name);
    reply_str(a, "permission", access_level_name(level));
    put_collections(a, u, db);
    reply_close(a);
}

static void list_grants(struct request *r)
{
    struct error err = { 0 };
    struct txn_options opt = { .is_read_only = true };
    struct txn *t = NULL;
    bool is_full;
    struct reply a;
    enum errc rc = request_flag(r, "full", false, &is_full, &err);

    if (rc == OK)
        rc = txn_begin(&t, r->ctx->store, &opt, &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    struct user *u = find_user(r);
    if (!u) {
        txn_end(t);
        return;
    }
    const struct catalog *c = txn_catalog(t);
    struct slice any = val_string(
        val_path(user_grants(u), (struct slice[]){ slice_str("*"), slice_str("access") }, 2));
    reply_begin(&a, r);
    reply_open(&a, "result");
    for (size_t i = 0; i < catalog_database_count(c); i++)
        put_database(&a, u, catalog_database_at(c, i), is_full);
    if (is_full || any.len)
        reply_text(&a, "*", any.len ? any : slice_str("none"));
    reply_close(&a);
    user_unref(u);
    txn_end(t);
    reply_send(&a, 200);
}

/* ---- access tokens ---- */

static const int64_t LIMIT_MAX = 1000000000000;

static void put_token(struct reply *a, struct val row)
{
    static const char *const shown[] = { "id",          "name",   "created_at", "valid_until",
                                         "fingerprint", "scopes", "limits" };
    int64_t now_s = (int64_t)(env_wall_us(env_system()) / 1000000);

    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        if (i < 5 || !val_is_null(val_get(row, slice_str(shown[i]))))
            reply_val(a, shown[i], val_get(row, slice_str(shown[i])));
    reply_bool(a, "active", val_int(val_get(row, slice_str("valid_until"))) > now_s);
}

static void list_tokens(struct request *r)
{
    struct user *u = find_user(r);
    struct reply a;

    if (!u)
        return;
    reply_begin(&a, r);
    reply_list(&a, "tokens");
    for (size_t i = 0; i < val_count(user_tokens(u)); i++) {
        reply_open(&a, NULL);
        struct val row = val_at(user_tokens(u), i);
        int64_t id = val_int(val_get(row, slice_str("id")));
        put_token(&a, row);
        reply_int(&a, "model_tokens_today",
                  (int64_t)key_meter_today(r->ctx->meters, user_name(u), id));
        reply_close(&a);
    }
    reply_close(&a);
    user_unref(u);
    reply_send(&a, 200);
}

static enum errc check_limits(struct val limits, struct error *err)
{
    static const char *const names[] = { "requests_per_minute", "tokens_per_minute",
                                         "tokens_per_day" };

    if (val_is_null(limits))
        return OK;
    if (val_type(limits) != VAL_OBJECT)
        return fail(err, ERR_INVALID, "'limits' must be an object");
    enum errc rc = body_check_names(limits, names, ARRAY_LEN(names), err);
    for (size_t i = 0; rc == OK && i < ARRAY_LEN(names); i++) {
        struct val v = val_get(limits, slice_str(names[i]));
        bool is_ok = val_is_null(v) || (val_is_int(v) && val_int(v) > 0 && val_int(v) <= LIMIT_MAX);
        if (!is_ok)
            rc = fail(err, ERR_INVALID, "limits.%s must be an integer from 1 to %lld", names[i],
                      (long long)LIMIT_MAX);
    }
    return rc;
}

static enum errc read_wish(struct val body, struct token_wish *out, struct error *err)
{
    static const char *const names[] = { "name", "valid_until", "scopes", "limits" };
    double until, now_s = (double)(env_wall_us(env_system()) / 1000000);
    unsigned scopes;
    enum errc rc = OK;

    TRY(body_check_names(body, names, ARRAY_LEN(names), err));
    TRY(body_text(body, "name", &out->name, err));
    TRY(body_number(body, "valid_until", now_s, 1e11, now_s + 86400, &until, err));
    if (!out->name.len || out->name.len > LIMIT_NAME_BYTES)
        TRY(fail(err, ERR_INVALID, "'name' must be 1 to %d bytes", LIMIT_NAME_BYTES));
    out->valid_until_s = (uint64_t)until;
    out->scopes = val_get(body, slice_str("scopes"));
    out->limits = val_get(body, slice_str("limits"));
    if (!scopes_parse(out->scopes, &scopes))
        TRY(fail(err, ERR_INVALID, "'scopes' must be a list of 'infer', 'data' and 'admin'"));
    rc = check_limits(out->limits, err);
out:
    return rc;
}

static void post_token(struct request *r)
{
    struct error err = { 0 };
    struct val body, row;
    struct buf text;
    struct token_wish wish;
    struct reply a;
    enum errc rc = OK;

    buf_init(&text, 0);
    TRY(check_self(r, &err));
    TRY(request_object(r, &body, &err));
    TRY(read_wish(body, &wish, &err));
    TRY(users_add_token(users_of(r), r->params[0], &wish, r->arena, &row, &text, &err));
    reply_begin(&a, r);
    put_token(&a, row);
    reply_text(&a, "token", buf_slice(&text));
    reply_send_bare(&a, 200);
out:
    buf_release(&text);
    if (rc != OK)
        request_fail(r, &err);
}

static void delete_token(struct request *r)
{
    struct error err = { 0 };
    struct val id;
    enum errc rc = check_self(r, &err);

    if (rc == OK && (val_parse(r->params[1], r->arena, &id, NULL) != OK || !val_is_int(id)))
        rc = fail(&err, ERR_INVALID, "the id of a token is a number");
    if (rc == OK)
        rc = users_remove_token(users_of(r), r->params[0], val_int(id), &err);
    done(r, rc, &err, 200);
}

const struct route api_arango_user_routes[] = {
    { METHOD_GET, "/_api/user", ROLE_ADMIN, ON_POOL, 0, list_users, "All users." },
    { METHOD_POST, "/_api/user", ROLE_ADMIN, ON_POOL, MIB, post_user, "Creates one." },
    { METHOD_GET, "/_api/user/{user}", ROLE_USER, ON_POOL, 0, get_user, "One." },
    { METHOD_PATCH, "/_api/user/{user}", ROLE_USER, ON_POOL, MIB, patch_user, "Changes some." },
    { METHOD_PUT, "/_api/user/{user}", ROLE_USER, ON_POOL, MIB, put_user_route, "Changes all." },
    { METHOD_DELETE, "/_api/user/{user}", ROLE_ADMIN, ON_POOL, 0, delete_user, "Removes." },
    { METHOD_GET, "/_api/user/{user}/database?full", ROLE_USER, ON_POOL, 0, list_grants,
      "Databases that the user may use." },
    { METHOD_GET, "/_api/user/{user}/database/{database}", ROLE_USER, ON_POOL, 0,
      get_database_level, "What the user may do in a database." },
    { METHOD_PUT, "/_api/user/{user}/database/{database}", ROLE_ADMIN, ON_POOL, MIB, put_grant,
      "Grants rw, ro or none." },
    { METHOD_DELETE, "/_api/user/{user}/database/{database}", ROLE_ADMIN, ON_POOL, 0, delete_grant,
      "Takes a grant back." },
    { METHOD_GET, "/_api/user/{user}/database/{database}/{collection}", ROLE_USER, ON_POOL, 0,
      get_collection_level, "What the user may do with a collection." },
    { METHOD_PUT, "/_api/user/{user}/database/{database}/{collection}", ROLE_ADMIN, ON_POOL, MIB,
      put_grant, "Grants rw, ro or none." },
    { METHOD_DELETE, "/_api/user/{user}/database/{database}/{collection}", ROLE_ADMIN, ON_POOL, 0,
      delete_grant, "Takes a grant back." },
    { METHOD_GET, "/_api/token/{user}", ROLE_USER, ON_POOL, 0, list_tokens, "Access tokens." },
    { METHOD_POST, "/_api/token/{user}", ROLE_USER, ON_POOL, MIB, post_token, "Makes one." },
    { METHOD_DELETE, "/_api/token/{user}/{id}", ROLE_USER, ON_POOL, 0, delete_token,
      "Removes one." },
    { 0 },
};
