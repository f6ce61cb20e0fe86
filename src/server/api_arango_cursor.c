/* SPDX-License-Identifier: Apache-2.0 */
/* /_api/cursor, /_api/explain, /_api/query. */
#include "server/cluster_gate.h"
#include "server/query_flow.h"
#include "server/reply.h"
#include "server/router.h"
#include <stdlib.h>

enum { RULES_MAX = 200 };

struct cursor_job {
    struct request *r;
    struct cursor_options opt;
};

static uint64_t now_ms(void)
{
    return env_mono_ms(env_system());
}

/* The query is done with the stream transaction, if the request named one. */
static void leave(struct request *r, bool is_kept)
{
    r->is_kept = is_kept;
    request_end(r, NULL);
}

static enum errc number_in(struct val object, const char *name, int64_t min, int64_t max,
                           int64_t def, int64_t *out, struct error *err)
{
    struct val v = val_get(object, slice_str(name));

    *out = def;
    if (val_is_null(v))
        return OK;
    if (val_type(v) == VAL_NUMBER && val_double(v) >= (double)min && val_double(v) <= (double)max) {
        *out = val_int(v);
        return OK;
    }
    return fail(err, ERR_INVALID, "%s must be a number from %lld to %lld", name, (long long)min,
                (long long)max);
}

/* Names of rules; one that is not known is warned of by the planner. */
static enum errc read_rules(struct val options, struct val *out, struct error *err)
{
    struct val optimizer = val_get(options, slice_str("optimizer"));

    *out = val_get(optimizer, slice_str("rules"));
    bool is_right = val_is_null(optimizer) || val_type(optimizer) == VAL_OBJECT;
    is_right = is_right && (val_is_null(*out) || val_type(*out) == VAL_ARRAY);
    if (val_count(*out) > RULES_MAX)
        return fail(err, ERR_INVALID, "options.optimizer.rules has more than %d names", RULES_MAX);
    for (size_t i = 0; is_right && i < val_count(*out); i++)
        is_right = val_type(val_at(*out, i)) == VAL_STRING;
    return is_right ? OK
                    : fail(err, ERR_INVALID,
                           "options.optimizer must be {\"rules\": [names]}, a name with + or - "
                           "before it");
}

static enum errc read_query(struct request *r, struct val body, struct query_options *q,
                            struct error *err)
{
    enum errc rc = OK;
    struct val options = val_get(body, slice_str("options"));
    struct val runtime = val_get(options, slice_str("maxRuntime"));
    struct val profile = val_get(options, slice_str("profile"));
    int64_t memory, warnings, profiled;

    TRY(query_flow_options(r, q, err));
    TRY(number_in(body, "memoryLimit", 0, INT64_MAX, 0, &memory, err));
    TRY(number_in(options, "maxWarningCount", 0, 10000, 10, &warnings, err));
    TRY(read_rules(options, &q->rules, err));
    if (val_type(profile) == VAL_BOOL)
        profiled = val_bool(profile);
    else
        TRY(number_in(options, "profile", 0, 2, 0, &profiled, err));
    q->profile = (int)profiled;
    if (memory > 0 && (uint64_t)memory < q->memory_limit)
        q->memory_limit = (uint64_t)memory;
    q->full_count = val_bool(val_get(options, slice_str("fullCount")));
    q->fail_on_warning = val_bool(val_get(options, slice_str("failOnWarning")));
    q->max_warnings = (size_t)warnings;
    if (val_type(runtime) == VAL_NUMBER && val_double(runtime) > 0 && val_double(runtime) < 1e9) {
        uint64_t ms = (uint64_t)(val_double(runtime) * 1000);
        if (!q->max_runtime_ms || ms < q->max_runtime_ms)
            q->max_runtime_ms = ms ? ms : 1;
    }
out:
    return rc;
}

/* The text and its bind values; arangojs and python-arango send them alike. */
static enum errc open_query(struct request *r, struct val *body, struct query **out,
                            struct query_options *q, struct error *err)
{
    enum errc rc = request_object(r, body, err);

    if (rc == OK)
        rc = read_query(r, *body, q, err);
    if (rc != OK)
        return rc;
    struct val text = val_get(*body, slice_str("query"));
    if (val_type(text) != VAL_STRING)
        return fail_num(err, 1502, "the body needs the query as a string");
    rc = gate_query(r, val_string(text), err);
    if (rc == OK && r->stream_id) /* a query without one begins its own */
        rc = request_begin(r, &(struct txn_options){ 0 }, &q->txn, err);
    if (rc != OK)
        return rc;
    return query_new(out, &r->ctx->query, val_string(text), val_get(*body, slice_str("bindVars")),
                     q, err);
}

static void send_rows(void *ctx, struct query *q)
{
    struct cursor_job *job = ctx;
    struct request *r = job->r;
    struct error err = { 0 };
    size_t rows = query_row_count(q);
    struct val body;
    uint64_t id;

    leave(r, true);
    if (rows <= job->opt.batch_size) {
        body = query_answer(q, r->arena, 0, rows, &job->opt, 0, 0, false);
        request_ref(r);
        request_reply(r, 201, body);
        query_free(q);
        request_unref(r);
        return;
    }
    job->opt.now_ms = now_ms();
    enum errc rc = cursors_add(r->ctx->cursors, q, &job->opt, &id, &err);
    if (rc == OK)
        rc = cursors_next(r->ctx->cursors, &(struct cursor_name){ id, job->opt.db_id, r->user }, 0,
                          job->opt.now_ms, r->arena, &body, &err);
    if (rc == OK)
        request_reply(r, 201, body);
    else
        request_fail(r, &err);
}

static void send_failure(void *ctx, const struct error *err)
{
    struct cursor_job *job = ctx;

    leave(job->r, false);
    request_fail(job->r, err);
}

static enum errc read_cursor(struct request *r, struct val body, struct cursor_job *job,
                             uint64_t db_id, struct error *err)
{
    enum errc rc = OK;
    int64_t batch, ttl;
    struct val options = val_get(body, slice_str("options"));

    TRY(number_in(body, "batchSize", 1, INT32_MAX, 1000, &batch, err));
    TRY(number_in(body, "ttl", 0, 86400, r->ctx->settings->cursor_ttl_s, &ttl, err));
    job->opt = (struct cursor_options){
        .batch_size = (size_t)batch,
        .ttl_ms = (uint64_t)(ttl ? ttl : r->ctx->settings->cursor_ttl_s) * 1000,
        .has_count = val_bool(val_get(body, slice_str("count"))),
        .allow_retry = val_bool(val_get(options, slice_str("allowRetry"))),
        .db_id = db_id,
        .user = r->user,
    };
out:
    return rc;
}

static void post_cursor(struct request *r)
{
    static const struct query_shape shape = { send_rows, send_failure };
    struct error err = { 0 };
    struct cursor_job *job = ARENA_NEW(r->arena, struct cursor_job);
    struct query *query = NULL;
    struct query_options q;
    struct val body;
    enum errc rc = open_query(r, &body, &query, &q, &err);

    job->r = r;
    if (rc == OK)
        rc = read_cursor(r, body, job, q.db_id, &err);
    if (rc == OK && q.profile > 1) /* while its transaction is there */
        rc = query_explain(query, r->arena, &job->opt.plan, &err);
    if (rc == OK) {
        query_flow_start(r, query, &shape, job);
        return;
    }
    query_free(query);
    send_failure(job, &err);
}

static enum errc name_cursor(struct request *r, struct cursor_name *out, struct error *err)
{
    *out = (struct cursor_name){ .id = strtoull(r->params[0].ptr, NULL, 10), .user = r->user };
    return request_database_id(r, &out->db_id, err);
}

static void next_batch(struct request *r, uint64_t batch_id)
{
    struct error err = { 0 };
    struct cursor_name name;
    struct val body;
    enum errc rc = name_cursor(r, &name, &err);

    if (rc == OK)
        rc = cursors_next(r->ctx->cursors, &name, batch_id, now_ms(), r->arena, &body, &err);
    if (rc == OK)
        request_reply(r, 200, body);
    else
        request_fail(r, &err);
}

static void post_next(struct request *r)
{
    next_batch(r, 0);
}

static void post_batch(struct request *r)
{
    next_batch(r, strtoull(r->params[1].ptr, NULL, 10));
}

static void delete_cursor(struct request *r)
{
    struct error err = { 0 };
    struct cursor_name name;
    struct reply a;
    enum errc rc = name_cursor(r, &name, &err);

    if (rc == OK)
        rc = cursors_remove(r->ctx->cursors, &name, &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_text(&a, "id", r->params[0]);
    reply_send(&a, 202);
}

static void post_explain(struct request *r)
{
    struct error err = { 0 };
    struct query *query = NULL;
    struct query_options q;
    struct val body, plan, warnings = val_empty_array;
    struct reply a;
    enum errc rc = open_query(r, &body, &query, &q, &err);

    if (rc == OK)
        rc = query_explain(query, r->arena, &plan, &err);
    if (rc == OK)
        warnings = query_warnings(query, r->arena);
    query_free(query);
    leave(r, false);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    if (val_bool(val_get(val_get(body, slice_str("options")), slice_str("allPlans")))) {
        reply_list(&a, "plans"); /* one is made */
        reply_val(&a, NULL, plan);
        reply_close(&a);
    } else {
        reply_val(&a, "plan", plan);
    }
    reply_val(&a, "stats", val_get(plan, slice_str("stats")));
    reply_bool(&a, "cacheable", false);
    reply_val(&a, "warnings", warnings);
    reply_send(&a, 200);
}

static void post_parse(struct request *r)
{
    struct error err = { 0 };
    struct val body, parsed;
    struct reply a;
    enum errc rc = request_object(r, &body, &err);

    if (rc == OK)
        rc = query_parse_only(val_string(val_get(body, slice_str("query"))), r->arena, &parsed,
                              &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    reply_bool(&a, "parsed", true);
    for (size_t i = 0; i < val_count(parsed); i++)
        reply_val(&a, arena_printf(r->arena, "%.*s", SLICE_ARG(val_name_at(parsed, i))),
                  val_at(parsed, i));
    reply_send(&a, 200);
}

const struct route api_arango_cursor_routes[] = {
    { METHOD_POST, "/_api/cursor", ROLE_USER, ON_POOL_TRX, BODY_MAX, post_cursor, "Runs a query." },
    { METHOD_POST | METHOD_PUT, "/_api/cursor/{id}", ROLE_USER, ON_POOL_TRX, 0, post_next,
      "The next batch." },
    { METHOD_POST, "/_api/cursor/{id}/{batch}", ROLE_USER, ON_POOL_TRX, 0, post_batch,
      "A batch again." },
    { METHOD_DELETE, "/_api/cursor/{id}", ROLE_USER, ON_POOL_TRX, 0, delete_cursor,
      "Ends a cursor." },
    { METHOD_POST, "/_api/explain", ROLE_USER, ON_POOL_TRX, BODY_MAX, post_explain,
      "Shows the plan." },
    { METHOD_POST, "/_api/query", ROLE_USER, ON_POOL_TRX, BODY_MAX, post_parse, "Parses only." },
    { 0 },
};
