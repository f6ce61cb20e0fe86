/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mostly everything is decided on the loop when the headers are there:
 *
 *   admit_headers -> check_* -> exchange_want_body -> admit_request -> worker
 *
 * A password that was not seen before takes a worker tens of milliseconds.
 * Until then the body is a stream that pauses at its first piece:
 *
 *   admit_headers -> hold -> (worker) prove_run -> (loop) on_proven -> resume,
 *   on_piece collects what comes -> dispatch -> worker
 */
#include "server/admit.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/val_text.h"
#include "server/cluster_gate.h"
#include "server/key_meter.h"
#include "server/request.h"
#include "server/router.h"
#include "server/server_access.h"

/* Of a password that a worker compares. */
struct proof {
    struct identity who;
    struct error err; /* why it was refused */
};

/* What a request needs until its handler runs; loop thread, except prove_run. */
struct admission {
    struct request *r;
    struct proof *proof; /* in the arena; few have one, and it is large */
    struct loop_task task;
    bool is_held;           /* its password waits or is compared */
    bool is_gone;           /* the client left meanwhile */
    struct admission *next; /* in the queue of passwords */
    bool has_last;
    exchange_piece_fn on_piece; /* of an ON_HEADERS handler; NULL: the body is collected */
    void (*on_gone)(void *ctx);
    void *piece_ctx;
};

/* At once, so that others find workers; waiting, so that a flood finds an end. */
enum { PROOFS_RUNNING = 2, PROOFS_WAITING = 1024 };

static struct metric requests_refused =
    METRIC_COUNTER("themis_requests_refused_total", "Requests refused before a handler.");

static struct request *request_new(struct server_ctx *ctx, struct exchange *x)
{
    struct arena *arena = arena_new((size_t)REQUEST_ARENA_MB * MIB);
    struct request *r = ARENA_NEW(arena, struct request);

    r->ctx = ctx;
    r->x = exchange_ref(x);
    r->arena = arena;
    r->db_name = slice_str("_system");
    r->scopes = SCOPE_ALL;
    r->refs = 1;
    return r;
}

static void refuse(struct request *r, const struct error *err)
{
    metric_add(&requests_refused, 1);
    request_fail(r, err);
}

/* ---- route and parameters ---- */

static bool decode_in(struct request *r, struct slice in, struct slice *out)
{
    struct buf text;
    bool is_ok;

    buf_init(&text, 64 * KIB);
    is_ok = url_decode(in, false, &text) && !text.is_overfull && utf8_check(buf_slice(&text), NULL);
    if (is_ok)
        *out = arena_copy(r->arena, buf_slice(&text));
    buf_release(&text);
    return is_ok;
}

static enum errc find_route(struct request *r, struct slice *path, struct error *err)
{
    struct route_match m;
    struct slice db, whole = exchange_path(r->x);
    char allowed[64];

    if (!router_split_db(whole, &db, path) || (db.len && !decode_in(r, db, &r->db_name)))
        return fail(err, ERR_INVALID, "the path names no database after /_db/");
    r->style = slice_starts(*path, "/v1/") ? API_OPENAI : API_ARANGO;
    router_find(*path, exchange_method(r->x), &m);
    if (!m.allowed)
        return fail(err, ERR_NOT_FOUND, "unknown path '%.*s'", SLICE_ARG(whole));
    if (!m.route) {
        router_allow_text(m.allowed, allowed, sizeof allowed);
        r->allow = arena_copy(r->arena, slice_str(allowed)).ptr;
        return fail(err, ERR_METHOD, "this path takes %s", allowed);
    }
    for (size_t i = 0; i < REQUEST_PARAMS && m.params[i].len; i++)
        if (!decode_in(r, m.params[i], &r->params[i]))
            return fail(err, ERR_INVALID, "the path has a broken %%-escape or is not UTF-8");
    r->route = m.route;
    return OK;
}

static enum errc check_param(const struct request *r, struct slice one, struct error *err)
{
    const char *equals = memchr(one.ptr, '=', one.len);
    struct slice name = slice_of(one.ptr, equals ? (size_t)(equals - one.ptr) : one.len);
    struct buf value;
    bool is_ok = true;

    if (!router_takes_param(r->route, name))
        return fail(err, ERR_INVALID, "unknown parameter '%.*s'", SLICE_ARG(name));
    if (equals) {
        buf_init(&value, 64 * KIB);
        is_ok = url_decode(slice_of(equals + 1, one.len - name.len - 1), true, &value);
        buf_release(&value);
    }
    return is_ok
               ? OK
               : fail(err, ERR_INVALID, "parameter '%.*s' has a broken %%-escape", SLICE_ARG(name));
}

/* A parameter that nobody reads would be a wish silently ignored. */
static enum errc check_params(const struct request *r, struct error *err)
{
    struct slice query = exchange_query(r->x);
    enum errc rc = OK;

    while (rc == OK && query.len) {
        const char *amp = memchr(query.ptr, '&', query.len);
        struct slice one = slice_of(query.ptr, amp ? (size_t)(amp - query.ptr) : query.len);
        if (one.len)
            rc = check_param(r, one, err);
        size_t skip = amp ? one.len + 1 : one.len;
        query = slice_of(query.ptr + skip, query.len - skip);
    }
    return rc;
}

/* x-arango-trx-id: taken by rows that work inside; reading the catalog is not bound by it. */
static enum errc read_stream_id(struct request *r, struct error *err)
{
    struct slice text = exchange_header(r->x, "x-arango-trx-id");
    bool is_inside = r->route->runs_on == ON_POOL_TRX;
    bool reads = exchange_method(r->x) & (METHOD_GET | METHOD_HEAD);

    if (!text.len || (reads && !is_inside))
        return OK;
    if (!slice_to_u64(text, &r->stream_id) || !r->stream_id)
        return fail(err, ERR_INVALID, "x-arango-trx-id must be the id of a transaction, not '%.*s'",
                    SLICE_ARG(text));
    if (!is_inside)
        return fail_num(err, 1653, "'%s' cannot be part of a transaction", r->route->path);
    return OK;
}

/* The answer would be kept until it is asked for. */
static enum errc check_async(const struct request *r, struct error *err)
{
    struct slice wish = exchange_header(r->x, "x-arango-async");

    if (!wish.len || slice_is(wish, "false"))
        return OK;
    return fail(err, ERR_NOT_IMPLEMENTED, "not implemented: x-arango-async");
}

/* ---- rights ---- */

/*
 * What an access token must be good for. Models that a data route asks (INFER, answers from
 * documents) are refused where they are asked.
 */
static unsigned needed_scope(const struct route *route)
{
    struct slice path = slice_str(route->path);

    if (route->role == ROLE_ADMIN || slice_starts(path, "/_api/user") ||
        slice_starts(path, "/_api/token") || slice_starts(path, "/_open/"))
        return SCOPE_ADMIN;
    if (slice_starts(path, "/v1/ask") || slice_starts(path, "/v1/search") ||
        slice_starts(path, "/v1/import"))
        return SCOPE_DATA;
    if (slice_starts(path, "/v1/models"))
        return SCOPE_ALL; /* any of them */
    return slice_starts(path, "/v1/") ? SCOPE_INFER : SCOPE_DATA;
}

/* By which limits could be lifted. */
static bool changes_accounts(const struct request *r)
{
    struct slice path = slice_str(r->route->path);

    return !(exchange_method(r->x) & (METHOD_GET | METHOD_HEAD)) &&
           (slice_starts(path, "/_api/user") || slice_starts(path, "/_api/token"));
}

static enum errc check_token(struct request *r, const struct token_facts *token, struct error *err)
{
    enum errc rc = OK;
    unsigned needed = needed_scope(r->route);

    if (token_is_whole(token))
        return OK;
    r->scopes = token->scopes;
    r->meter = key_meter_get(r->ctx->meters, r->user, token);
    if (needed == SCOPE_ALL)
        needed &= r->scopes;
    if (!(token->scopes & SCOPE_ADMIN))
        r->bounded = server_access_without(r->account ? user_access(r->account) : NULL);
    TRY(request_may_scope(r, needed, err));
    if (changes_accounts(r) && token_has_limits(token))
        TRY(fail(err, ERR_FORBIDDEN,
                 "an access token with limits changes no accounts and makes no tokens"));
    rc = key_meter_take(r->meter, err);
out:
    return rc;
}

/* Takes the account over from the identity. */
static enum errc check_rights(struct request *r, struct identity *who, struct error *err)
{
    const struct route *route = r->route;

    if (route->role == ROLE_NONE)
        return OK;
    if (who->state == AUTH_NOBODY && r->ctx->settings->auth)
        return fail(err, ERR_UNAUTHORIZED, "credentials are required");
    r->user = arena_copy(r->arena, slice_str(who->user[0] ? who->user : "root"));
    r->account = who->account;
    who->account = NULL;
    if (check_token(r, &who->token, err) != OK)
        return err->code;
    if (route->role == ROLE_ADMIN && !request_is_admin(r))
        return fail(err, ERR_FORBIDDEN, "user '%.*s' may not administer the server",
                    SLICE_ARG(r->user));
    bool is_of_database = slice_starts(slice_str(route->path), "/_api/") ||
                          slice_starts(slice_str(route->path), "/_admin/") ||
                          slice_is(slice_str(route->path), "/mcp");
    if (is_of_database && r->account && user_database_level(r->account, r->db_name) == ACCESS_NONE)
        return fail(err, ERR_UNAUTHORIZED, "user '%.*s' has no access to database '%.*s'",
                    SLICE_ARG(r->user), SLICE_ARG(r->db_name));
    return OK;
}

/* ---- the handler ---- */

static void run_handler(struct job *job)
{
    struct request *r = CONTAINER_OF(job, struct request, job);

    r->route->handler(r);
}

/* The request is whole. */
static void dispatch(struct request *r)
{
    struct error err = { 0 };

    if (r->route->runs_on == ON_LOOP) {
        r->route->handler(r);
        return;
    }
    r->job.run = run_handler;
    if (pool_post(r->ctx->pool, &r->job, &err) != OK)
        refuse(r, &err);
}

static size_t body_max(const struct request *r)
{
    size_t max = r->route->body_max == BODY_MAX ? (size_t)r->ctx->settings->max_body_bytes
                                                : r->route->body_max;

    return max ? max : 64 * KIB;
}

/* The client left before its request was whole: nobody else will free it. */
static void on_gone(void *arg)
{
    struct admission *a = arg;
    struct request *r = a->r;

    if (a->on_gone)
        a->on_gone(a->piece_ctx);
    else if (a->is_held)
        a->is_gone = true; /* on_proven frees it */
    else if (!r->is_whole)
        request_unref(r);
}

/* ---- a password that a worker compares ---- */

/* A piece of the body of a request whose password is right. */
static bool take_piece(struct admission *a, struct slice piece, bool is_last)
{
    struct request *r = a->r;
    struct error err = { 0 };

    if (a->on_piece)
        return a->on_piece(a->piece_ctx, r->x, piece, is_last);
    if (r->body.len + piece.len > body_max(r)) {
        fail(&err, ERR_TOO_LARGE, "the body is larger than the limit of %zu bytes", body_max(r));
        r->is_whole = true;
        refuse(r, &err);
        return false; /* paused for good: net discards the rest once the reply is out */
    }
    buf_add_slice(&r->body, piece);
    if (is_last) {
        r->is_whole = true;
        dispatch(r);
    }
    return true;
}

static bool on_piece(void *ctx, struct exchange *x, struct slice piece, bool is_last)
{
    struct admission *a = ctx;

    (void)x;
    if (!a->is_held)
        return take_piece(a, piece, is_last);
    buf_add_slice(&a->r->body, piece);
    a->has_last |= is_last;
    return is_last;
}

/* Hands over what came while the password was compared. */
static void deliver_held(struct admission *a)
{
    struct buf held = a->r->body;
    struct exchange *x = exchange_ref(a->r->x);
    bool has_last = a->has_last, goes_on = true;

    buf_init(&a->r->body, 0);
    if (held.len || has_last)
        goes_on = take_piece(a, buf_slice(&held), has_last); /* a may be gone after it */
    buf_release(&held);
    if (goes_on && !has_last)
        exchange_resume(x);
    exchange_unref(x);
}

static void proof_end(struct admission *a)
{
    struct request *r = a->r;
    struct identity *who = &a->proof->who;
    struct error *err = &a->proof->err;
    enum errc rc = err->code;

    a->is_held = false;
    if (a->is_gone) {
        identity_release(who);
        request_unref(r);
        return;
    }
    if (rc == OK)
        rc = check_rights(r, who, err);
    identity_release(who);
    if (rc != OK) {
        r->is_whole = true;
        refuse(r, err);
    } else if (r->route->runs_on == ON_HEADERS) {
        r->is_whole = true;
        r->route->handler(r);
    } else {
        deliver_held(a);
    }
}

static void prove_run(struct job *job)
{
    struct request *r = CONTAINER_OF(job, struct request, job);
    struct admission *a = r->admission;

    if (auth_prove(r->ctx->auth, &a->proof->who, &a->proof->err) == OK)
        a->proof->err.code = OK;
    loop_post(r->ctx->loop, &a->task);
}

static void start_proofs(struct server_ctx *ctx)
{
    struct proof_queue *q = &ctx->proofs;

    while (q->first && q->running < PROOFS_RUNNING) {
        struct admission *a = q->first;
        q->first = a->next;
        q->waiting--;
        if (!a->is_gone && pool_post(ctx->pool, &a->r->job, &a->proof->err) == OK)
            q->running++;
        else
            proof_end(a);
    }
}

static void on_proven(struct loop_task *task)
{
    struct admission *a = CONTAINER_OF(task, struct admission, task);
    struct server_ctx *ctx = a->r->ctx;

    ctx->proofs.running--;
    proof_end(a);
    start_proofs(ctx);
}

/* Takes over what the identity owns. */
static void hold(struct request *r, struct identity *who)
{
    struct admission *a = r->admission;
    struct proof_queue *q = &r->ctx->proofs;
    struct error err = { 0 };

    if (q->waiting == PROOFS_WAITING) {
        fail(&err, ERR_BUSY, "too many passwords wait to be compared");
        identity_release(who);
        refuse(r, &err);
        return;
    }
    a->proof = ARENA_NEW(r->arena, struct proof);
    a->proof->who = *who;
    a->is_held = true;
    a->task.run = on_proven;
    r->job.run = prove_run;
    exchange_on_cancel(r->x, on_gone, a);
    exchange_want_stream(r->x, on_piece, a);
    if (q->first)
        q->last->next = a;
    else
        q->first = a;
    q->last = a;
    q->waiting++;
    start_proofs(r->ctx);
}

/* ---- headers ---- */

void request_take_stream(struct request *r, exchange_piece_fn piece_fn, void (*gone_fn)(void *ctx),
                         void *ctx)
{
    struct admission *a = r->admission;

    a->on_piece = piece_fn;
    a->on_gone = gone_fn;
    a->piece_ctx = ctx;
    if (a->task.run) { /* the password took its time */
        deliver_held(a);
        return;
    }
    exchange_on_cancel(r->x, on_gone, a);
    exchange_want_stream(r->x, on_piece, a);
}

static enum errc check_head(struct request *r, struct identity *who, struct error *err)
{
    struct server_ctx *ctx = r->ctx;
    struct slice path;
    enum errc rc =
        auth_check_host(exchange_header(r->x, "host"), exchange_header(r->x, "origin"), ctx->host,
                        ctx->port, ctx->settings->allowed_hosts, ctx->settings->cors_origins, err);

    if (rc == OK)
        rc = find_route(r, &path, err);
    if (rc != OK || r->route->role == ROLE_NONE)
        return rc;
    rc = auth_check(ctx->auth, exchange_header(r->x, "authorization"), ctx->settings->auth, who,
                    err);
    r->claimed = arena_copy(r->arena, slice_str(who->user));
    if (rc == OK && who->state != AUTH_UNPROVEN)
        rc = check_rights(r, who, err);
    return rc;
}

void admit_headers(void *arg, struct exchange *x)
{
    struct server_ctx *ctx = arg;
    struct request *r = request_new(ctx, x);
    struct identity who = { 0 };
    struct error err = { 0 };

    r->admission = ARENA_NEW(r->arena, struct admission);
    r->admission->r = r;
    atomic_fetch_add(&ctx->requests, 1);
    enum errc rc = check_head(r, &who, &err);
    bool is_unproven = who.state == AUTH_UNPROVEN;
    if (rc == OK)
        rc = check_params(r, &err);
    if (rc == OK)
        rc = gate_route(r, &err);
    if (rc == OK)
        rc = read_stream_id(r, &err);
    if (rc == OK)
        rc = check_async(r, &err);
    if (rc == OK && atomic_load(&ctx->is_draining) && r->route->role != ROLE_NONE)
        rc = fail(&err, ERR_BUSY, "the server is shutting down");
    if (rc != OK || !is_unproven)
        identity_release(&who);
    if (rc != OK) {
        refuse(r, &err);
        return;
    }
    exchange_set_user(x, r);
    if (is_unproven) {
        hold(r, &who);
    } else if (r->route->runs_on == ON_HEADERS) {
        r->is_whole = true;
        r->route->handler(r);
    } else {
        exchange_on_cancel(x, on_gone, r->admission);
        exchange_want_body(x, body_max(r));
    }
}

void admit_request(void *arg, struct exchange *x)
{
    struct request *r = exchange_user(x);

    (void)arg;
    r->is_whole = true;
    dispatch(r);
}
