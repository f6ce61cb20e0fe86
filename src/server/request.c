/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate decides who runs a request that waits. RUNNING: a worker is in it.
 * WOKEN: a worker is in it and must run the step again. PARKED: nobody is; the
 * next wake posts it. So a wake that comes before the park is never lost, and
 * two workers are never in one request.
 */
#include "server/request.h"
#include "base/log.h"
#include "base/val_text.h"
#include "server/audit.h"
#include "server/cluster_gate.h"
#include "server/key_meter.h"
#include "server/server_access.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { GATE_RUNNING, GATE_WOKEN, GATE_PARKED };

/* ---- reading ---- */

bool request_param(struct request *r, const char *name, struct slice *out)
{
    struct buf value;
    bool found;

    buf_init(&value, 64 * KIB);
    found = url_query_get(exchange_query(r->x), name, &value);
    if (found)
        *out = arena_copy(r->arena, buf_slice(&value));
    buf_release(&value);
    return found;
}

bool request_word(struct request *r, const char *name, struct slice *out)
{
    return request_param(r, name, out) && !slice_is(*out, "undefined");
}

static bool slice_in(struct slice s, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slice_is(s, words[i]))
            return true;
    return false;
}

enum errc request_flag(struct request *r, const char *name, bool def, bool *out, struct error *err)
{
    static const char *const yes[] = { "true", "True", "1", "on", "yes" };
    static const char *const no[] = { "false", "False", "0", "off", "no" };
    struct slice text;

    *out = def;
    if (!request_word(r, name, &text))
        return OK;
    *out = slice_in(text, yes, ARRAY_LEN(yes));
    if (*out || slice_in(text, no, ARRAY_LEN(no)))
        return OK;
    return fail(err, ERR_INVALID, "parameter %s must be true or false (got '%.*s')", name,
                SLICE_ARG(text));
}

struct slice request_body(const struct request *r)
{
    return r->body.len ? buf_slice(&r->body) : exchange_body(r->x);
}

enum errc request_json(struct request *r, struct val *out, struct error *err)
{
    struct slice body = request_body(r);

    *out = val_null;
    return body.len ? val_parse(body, r->arena, out, err) : OK;
}

enum errc request_object(struct request *r, struct val *out, struct error *err)
{
    enum errc rc = request_json(r, out, err);

    if (rc == OK && val_type(*out) != VAL_OBJECT)
        rc = fail_num(err, 600, "the body must be a JSON object, not %s",
                      request_body(r).len ? val_type_name(val_type(*out)) : "empty");
    return rc;
}

enum errc request_database(struct request *r, const struct catalog *c, const struct database **out,
                           struct error *err)
{
    *out = catalog_database(c, r->db_name);
    if (*out)
        return OK;
    return fail_num(err, 1228, "database '%.*s' not found", SLICE_ARG(r->db_name));
}

enum errc request_collection(struct request *r, struct txn *t, struct slice name,
                             const struct collection **out, struct error *err)
{
    const struct database *db;
    enum errc rc = request_database(r, txn_catalog(t), &db, err);

    if (rc != OK)
        return rc;
    *out = catalog_collection(txn_catalog(t), db->id, name);
    if (*out)
        return request_may_use(r, (*out)->name, ACCESS_READ, err);
    return fail_num(err, 1203, "collection or view not found: %.*s", SLICE_ARG(name));
}

enum errc request_database_id(struct request *r, uint64_t *out, struct error *err)
{
    struct txn_options opt = { .is_read_only = true };
    const struct database *db;
    struct txn *t = NULL;
    enum errc rc = txn_begin(&t, r->ctx->store, &opt, err);

    if (rc == OK)
        rc = request_database(r, txn_catalog(t), &db, err);
    *out = rc == OK ? db->id : 0;
    txn_end(t);
    return rc;
}

enum errc request_owner(struct request *r, struct stream_owner *out, struct error *err)
{
    out->user = r->user;
    return request_database_id(r, &out->db_id, err);
}

enum errc request_begin(struct request *r, const struct txn_options *opt, struct txn **out,
                        struct error *err)
{
    struct stream_owner who;
    struct txn_options own = *opt;

    *out = NULL;
    own.access = request_access(r);
    if (!r->stream_id)
        return txn_begin(out, r->ctx->store, &own, err);
    enum errc rc = request_owner(r, &who, err);
    if (rc == OK)
        rc = stream_take(r->ctx->streams, &who, r->stream_id, &r->stream, err);
    if (rc == OK)
        *out = stream_inside(r->stream);
    r->is_kept = false;
    return rc;
}

enum errc request_commit(struct request *r, struct txn *t, struct error *err)
{
    if (!r->stream)
        return txn_commit(t, err);
    r->is_kept = true;
    return OK;
}

void request_end(struct request *r, struct txn *t)
{
    if (!r->stream) {
        txn_end(t);
        return;
    }
    stream_give(r->ctx->streams, r->stream, r->is_kept);
    r->stream = NULL;
}

bool request_read_collection(struct request *r, struct slice name, struct txn **t,
                             const struct collection **c)
{
    struct error err = { 0 };
    struct txn_options opt = { .is_read_only = true };

    enum errc rc = request_begin(r, &opt, t, &err);
    if (rc == OK)
        rc = request_collection(r, *t, name, c, &err);
    if (rc == OK)
        return true;
    request_end(r, *t);
    request_fail(r, &err);
    return false;
}

/* ---- what the user may do ---- */

struct access_rights *request_access(const struct request *r)
{
    struct access_rights *gate = gate_access(r);

    if (gate)
        return gate;
    if (r->bounded)
        return r->bounded;
    return r->account ? user_access(r->account) : server_access_root();
}

enum access_level request_level(const struct request *r, struct slice collection)
{
    if (!(r->scopes & SCOPE_ADMIN) && server_owns(collection))
        return ACCESS_NONE;
    return r->account ? user_collection_level(r->account, r->db_name, collection) : ACCESS_WRITE;
}

enum errc request_may_change(const struct request *r, struct error *err)
{
    if (!r->account || user_database_level(r->account, r->db_name) == ACCESS_WRITE)
        return OK;
    return fail(err, ERR_FORBIDDEN, "user '%.*s' may not change database '%.*s'",
                SLICE_ARG(r->user), SLICE_ARG(r->db_name));
}

enum errc request_may_use(const struct request *r, struct slice collection, enum access_level need,
                          struct error *err)
{
    if (request_level(r, collection) >= need)
        return OK;
    return fail(err, ERR_FORBIDDEN, "user '%.*s' may not %s collection '%.*s'", SLICE_ARG(r->user),
                need == ACCESS_WRITE ? "write to" : "read", SLICE_ARG(collection));
}

enum errc request_may_scope(const struct request *r, enum scope scope, struct error *err)
{
    const char *name = scope == SCOPE_INFER ? "infer" : scope == SCOPE_DATA ? "data" : "admin";

    if (r->scopes & scope)
        return OK;
    return fail(err, ERR_FORBIDDEN, "this access token has no scope '%s'", name);
}

struct gen_payer *request_payer(const struct request *r)
{
    return r->meter ? key_meter_payer(r->meter) : NULL;
}

bool request_is_admin(const struct request *r)
{
    if (!(r->scopes & SCOPE_ADMIN))
        return false;
    return !r->account || user_database_level(r->account, slice_str("_system")) == ACCESS_WRITE;
}

/* ---- answering ---- */

struct val text_clean(struct arena *arena, struct slice text)
{
    struct buf clean;
    size_t bad;

    buf_init(&clean, 0);
    while (!utf8_check(text, &bad)) {
        buf_add(&clean, text.ptr, bad);
        buf_add_str(&clean, "\xEF\xBF\xBD");
        text = slice_of(text.ptr + bad + 1, text.len - bad - 1);
    }
    buf_add_slice(&clean, text);
    struct val out = val_new_string(arena, buf_slice(&clean));
    buf_release(&clean);
    return out;
}

/* Messages quote the request and are cut at any byte. */
static struct val error_text(struct arena *arena, const struct error *err)
{
    return text_clean(arena, slice_str(err->text));
}

struct val error_body(struct arena *arena, enum api_style style, const struct error *err)
{
    int http = error_http(err);

    if (style == API_OPENAI) {
        const char *type = http == 401   ? "authentication_error"
                           : http == 403 ? "permission_error"
                           : http == 404 ? "not_found_error"
                           : http == 429 ? "rate_limit_error"
                           : http < 500  ? "invalid_request_error"
                                         : "server_error";
        const char *code = error_num(err) == ERRNUM_CONTEXT_LENGTH ? "context_length_exceeded"
                           : http == 404                           ? "not_found"
                                                                   : NULL;
        struct slice names[] = { slice_str("message"), slice_str("type"), slice_str("param"),
                                 slice_str("code") };
        struct val values[] = {
            error_text(arena, err),
            val_new_string(arena, slice_str(type)),
            val_null,
            code ? val_new_string(arena, slice_str(code)) : val_null,
        };
        struct slice outer = slice_str("error");
        struct val inner = val_new_object(arena, names, values, ARRAY_LEN(names));
        return val_new_object(arena, &outer, &inner, 1);
    }
    struct slice names[] = { slice_str("error"), slice_str("code"), slice_str("errorNum"),
                             slice_str("errorMessage") };
    struct val values[] = { val_true, val_new_int(arena, http), val_new_int(arena, error_num(err)),
                            error_text(arena, err) };
    return val_new_object(arena, names, values, ARRAY_LEN(names));
}

void request_reply_text(struct request *r, int status, const char *type, struct slice body)
{
    exchange_reply(r->x, status, type, NULL, 0, body);
    request_done(r);
}

void request_reply_headers(struct request *r, int status, struct val body,
                           const struct http_header *headers, size_t count)
{
    struct buf text;

    buf_init(&text, 0);
    val_print(body, &text);
    exchange_reply(r->x, status, "application/json; charset=utf-8", headers, count,
                   buf_slice(&text));
    buf_release(&text);
    request_done(r);
}

void request_reply(struct request *r, int status, struct val body)
{
    request_reply_headers(r, status, body, NULL, 0);
}

void request_fail(struct request *r, const struct error *err)
{
    struct http_header headers[3];
    size_t count = 0;
    char wait[16];
    int http = error_http(err);

    snprintf(wait, sizeof wait, "%u", r->meter && http == 429 ? key_meter_wait_s(r->meter) : 1);
    if (http == 503 || http == 429)
        headers[count++] = (struct http_header){ "Retry-After", wait };
    if (http == 405 && r->allow)
        headers[count++] = (struct http_header){ "Allow", r->allow };
    if (http == 401)
        headers[count++] = (struct http_header){ "WWW-Authenticate", "Basic realm=\"themis\"" };
    if (http >= 500 && http != 503 && http != 501)
        log_warn("server", "%.*s answered %d: %s", SLICE_ARG(exchange_path(r->x)), http, err->text);
    request_reply_headers(r, http, error_body(r->arena, r->style, err), headers, count);
}

void request_done(struct request *r)
{
    request_unref(r);
}

void request_ref(struct request *r)
{
    atomic_fetch_add(&r->refs, 1);
}

void request_unref(struct request *r)
{
    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    audit_request(r->ctx->audit, r);
    exchange_unref(r->x);
    if (r->bounded)
        r->bounded->unref(r->bounded);
    key_meter_unref(r->meter);
    user_unref(r->account);
    buf_release(&r->body);
    arena_free(r->arena); /* and r with it */
}

/* ---- waiting ---- */

static void run_step(struct job *job)
{
    struct request *r = CONTAINER_OF(job, struct request, job);

    r->step(r);
}

void request_park(struct request *r, request_fn step)
{
    int running = GATE_RUNNING;

    r->step = step;
    r->job.run = run_step;
    if (atomic_compare_exchange_strong(&r->gate, &running, GATE_PARKED))
        return;
    atomic_store(&r->gate, GATE_RUNNING); /* woken meanwhile: again, behind the others */
    pool_resume(r->ctx->pool, &r->job);
}

void request_wake(struct request *r)
{
    int seen = atomic_load(&r->gate);

    for (;;) {
        if (seen == GATE_WOKEN)
            return;
        if (atomic_compare_exchange_weak(&r->gate, &seen,
                                         seen == GATE_PARKED ? GATE_RUNNING : GATE_WOKEN))
            break;
    }
    if (seen == GATE_PARKED)
        pool_resume(r->ctx->pool, &r->job);
}
