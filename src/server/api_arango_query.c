/* SPDX-License-Identifier: Apache-2.0 */
/* What runs: listing queries, ending them, what is kept of slow ones; the planner's rules. */
#include "server/query_list.h"
#include "server/router.h"
#include <stdlib.h>

/* The database of the URL, or all with ?all for administrators, who also see all users'. */
static enum errc read_scope(struct request *r, struct query_scope *out, struct error *err)
{
    bool is_all;
    enum errc rc = request_flag(r, "all", false, &is_all, err);

    if (rc != OK)
        return rc;
    *out = (struct query_scope){ .user = r->user, .is_any_user = request_is_admin(r) };
    if (is_all && !out->is_any_user)
        return fail(err, ERR_FORBIDDEN, "the queries of all databases are for administrators");
    return is_all ? OK : request_database_id(r, &out->db_id, err);
}

static void list_queries(struct request *r, bool is_slow)
{
    struct error err = { 0 };
    struct query_scope scope;
    struct reply a;

    if (read_scope(r, &scope, &err) != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin_list(&a, r);
    query_list_put(r->ctx->queries, &scope, is_slow, &a);
    reply_send_bare(&a, 200);
}

static void get_current(struct request *r)
{
    list_queries(r, false);
}

static void get_slow(struct request *r)
{
    list_queries(r, true);
}

static void delete_slow(struct request *r)
{
    struct error err = { 0 };
    struct query_scope scope;
    struct reply a;

    if (read_scope(r, &scope, &err) != OK) {
        request_fail(r, &err);
        return;
    }
    query_list_clear_slow(r->ctx->queries, &scope);
    reply_begin(&a, r);
    reply_send(&a, 200);
}

static void delete_query(struct request *r)
{
    struct error err = { 0 };
    struct query_scope scope;
    struct reply a;
    enum errc rc = read_scope(r, &scope, &err);

    if (rc == OK)
        rc = query_list_kill(r->ctx->queries, &scope, strtoull(r->params[0].ptr, NULL, 10), &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_send(&a, 200);
}

/* ---- properties ---- */

static void answer_properties(struct request *r)
{
    struct query_tracking t;
    struct reply a;

    query_list_tracking(r->ctx->queries, &t);
    reply_begin(&a, r);
    reply_bool(&a, "enabled", t.is_enabled);
    reply_bool(&a, "trackSlowQueries", t.tracks_slow);
    reply_bool(&a, "trackBindVars", t.tracks_bind);
    reply_int(&a, "maxSlowQueries", t.slow_max);
    reply_double(&a, "slowQueryThreshold", t.slow_s);
    reply_double(&a, "slowStreamingQueryThreshold", t.slow_s);
    reply_int(&a, "maxQueryStringLength", t.text_bytes_max);
    reply_send(&a, 200);
}

static enum errc read_bool(struct val body, const char *name, bool *out, struct error *err)
{
    struct val v = val_get(body, slice_str(name));

    if (val_is_null(v))
        return OK;
    if (val_type(v) != VAL_BOOL)
        return fail(err, ERR_INVALID, "%s must be true or false", name);
    *out = val_bool(v);
    return OK;
}

static enum errc read_number(struct val body, const char *name, double *out, struct error *err)
{
    struct val v = val_get(body, slice_str(name));

    if (val_is_null(v))
        return OK;
    if (val_type(v) != VAL_NUMBER)
        return fail(err, ERR_INVALID, "%s must be a number", name);
    *out = val_double(v);
    return OK;
}

static void put_properties(struct request *r)
{
    struct error err = { 0 };
    struct query_tracking t;
    struct val body;
    enum errc rc = OK;
    double slow_max, text_max;

    TRY(request_object(r, &body, &err));
    query_list_tracking(r->ctx->queries, &t);
    slow_max = (double)t.slow_max;
    text_max = (double)t.text_bytes_max;
    TRY(read_bool(body, "enabled", &t.is_enabled, &err));
    TRY(read_bool(body, "trackSlowQueries", &t.tracks_slow, &err));
    TRY(read_bool(body, "trackBindVars", &t.tracks_bind, &err));
    TRY(read_number(body, "maxSlowQueries", &slow_max, &err));
    TRY(read_number(body, "slowQueryThreshold", &t.slow_s, &err));
    TRY(read_number(body, "maxQueryStringLength", &text_max, &err));
    t.slow_max = slow_max >= 0 && slow_max < 1e9 ? (int64_t)slow_max : -1;
    t.text_bytes_max = text_max >= 0 && text_max < 1e9 ? (int64_t)text_max : -1;
    rc = query_list_track(r->ctx->queries, &t, &err);
out:
    if (rc == OK)
        answer_properties(r);
    else
        request_fail(r, &err);
}

static void get_properties(struct request *r)
{
    answer_properties(r);
}

/* ---- rules ---- */

static void get_rules(struct request *r)
{
    struct reply a;
    const char *help, *name;

    reply_begin_list(&a, r);
    for (size_t i = 0; (name = query_rule(i, &help)); i++) {
        reply_open(&a, NULL);
        reply_str(&a, "name", name);
        reply_str(&a, "description", help);
        reply_open(&a, "flags");
        reply_bool(&a, "hidden", false);
        reply_bool(&a, "clusterOnly", false);
        reply_bool(&a, "canBeDisabled", true);
        reply_bool(&a, "canCreateAdditionalPlans", false);
        reply_bool(&a, "disabledByDefault", false);
        reply_bool(&a, "enterpriseOnly", false);
        reply_close(&a);
        reply_close(&a);
    }
    reply_send_bare(&a, 200);
}

const struct route api_arango_query_routes[] = {
    { METHOD_GET, "/_api/query/current?all", ROLE_USER, ON_POOL, 0, get_current,
      "Queries that run." },
    { METHOD_GET, "/_api/query/slow?all", ROLE_USER, ON_POOL, 0, get_slow,
      "Queries that ran longer than slowQueryThreshold." },
    { METHOD_DELETE, "/_api/query/slow?all", ROLE_USER, ON_POOL, 0, delete_slow, "Forgets them." },
    { METHOD_GET, "/_api/query/properties", ROLE_USER, ON_POOL, 0, get_properties,
      "What is kept of queries." },
    { METHOD_PUT, "/_api/query/properties", ROLE_ADMIN, ON_POOL, 64 * KIB, put_properties,
      "Changes that, until the next start." },
    { METHOD_GET, "/_api/query/rules", ROLE_USER, ON_POOL, 0, get_rules, "Rules of the planner." },
    { METHOD_DELETE, "/_api/query/{id}?all", ROLE_USER, ON_POOL, 0, delete_query,
      "Ends a query, which answers 1500." },
    { 0 },
};
