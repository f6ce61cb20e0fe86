/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/rpc.h"
#include "base/arena.h"
#include "base/env.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/val_text.h"
#include "net/channel.h"
#include <pthread.h>
#include <stdio.h>

enum {
    SWEEP_MS = 50,
    COLLECT_MAX = 64 * MIB,
    REPORT_US = 1000000, /* lines about refused connections are at least so far apart */
    DEADLINE_MAX_MS = 7 * 86400000,
};

static const struct rpc_row rows[] = {
#define RPC(name, request, request_max, reply, deadline_ms, may_repeat, help)                      \
    { #name, "/rpc/" #name, request_max, deadline_ms, may_repeat },
#include "cluster/rpc_methods.def"
#undef RPC
};

static struct metric served_total =
    METRIC_COUNTER("themis_cluster_rpc_served_total", "Calls of other nodes that were begun.");
static struct metric refused_total =
    METRIC_COUNTER("themis_cluster_refused_total",
                   "Connections and calls of the cluster's port that were refused.");
static struct metric calls_total =
    METRIC_COUNTER("themis_cluster_rpc_calls_total", "Calls to other nodes.");
static struct metric lost_total =
    METRIC_COUNTER("themis_cluster_rpc_lost_total",
                   "Calls whose node was not there, or went before it had answered.");

const struct rpc_row *rpc_row(enum rpc_method method)
{
    return &rows[method];
}

/* ---- answering ---- */

void rpc_note_refused(const char *peer, const char *why)
{
    static _Atomic uint64_t told_us, untold;
    uint64_t now_us = env_mono_us(env_system()), last_us = atomic_load(&told_us);

    metric_add(&refused_total, 1);
    if (last_us && now_us - last_us < REPORT_US) {
        atomic_fetch_add(&untold, 1);
        return;
    }
    atomic_store(&told_us, now_us);
    uint64_t before = atomic_exchange(&untold, 0);
    if (before)
        log_warn("cluster", "refused %s: %s (and %llu more before)", peer, why,
                 (unsigned long long)before);
    else
        log_warn("cluster", "refused %s: %s", peer, why);
}

void rpc_request_free(struct rpc_request *r)
{
    exchange_unref(r->x);
    mem_free(r);
}

void rpc_reply(struct rpc_request *r, struct slice body)
{
    exchange_reply(r->x, 200, "application/octet-stream", NULL, 0, body);
    rpc_request_free(r);
}

void rpc_fail(struct rpc_request *r, const struct error *err)
{
    struct buf body;

    buf_init(&body, 0);
    buf_printf(&body, "{\"error\":true,\"name\":\"%s\",\"errorNum\":%d,\"errorMessage\":",
               errc_name(err->code), error_num(err));
    val_print_string(utf8_check(slice_str(err->text), NULL) ? slice_str(err->text)
                                                            : slice_str(errc_text(err->code)),
                     &body);
    buf_add_char(&body, '}');
    exchange_reply(r->x, error_http(err), "application/json; charset=utf-8", NULL, 0,
                   buf_slice(&body));
    buf_release(&body);
    rpc_request_free(r);
}

static enum errc find_method(const struct exchange *x, enum rpc_method *out, struct error *err)
{
    struct slice path = exchange_path(x);

    for (size_t i = 0; i < RPC_METHODS; i++) {
        if (!slice_is(path, rows[i].path))
            continue;
        *out = (enum rpc_method)i;
        if (exchange_method(x) != METHOD_POST)
            return fail(err, ERR_METHOD, "calls are made with POST");
        return OK;
    }
    return fail(err, ERR_NOT_FOUND, "no method is named '%.*s'", SLICE_ARG(path));
}

static enum errc check_caller(const struct rpc_server_options *opt, const struct exchange *x,
                              struct error *err)
{
    const char *name = exchange_peer_name(x);
    struct slice cluster = exchange_header(x, RPC_CLUSTER);

    if (!name)
        return fail(err, ERR_FORBIDDEN, "its certificate names no node");
    if (!slice_is(cluster, opt->cluster))
        return fail(err, ERR_FORBIDDEN, "%s calls the cluster '%.*s', and this is '%s'", name,
                    SLICE_ARG(cluster), opt->cluster);
    if (!opt->knows(opt->ctx, name))
        return fail(err, ERR_FORBIDDEN, "no node '%s' is in the topology", name);
    return OK;
}

static uint64_t read_deadline(const struct exchange *x, const struct rpc_row *row)
{
    uint64_t ms;

    if (!slice_to_u64(exchange_header(x, RPC_DEADLINE), &ms) || ms > DEADLINE_MAX_MS)
        return row->deadline_ms;
    return ms ? ms : 1;
}

/* The body did not come to its end: nobody else frees it. */
static void on_gone(void *ctx)
{
    rpc_request_free(ctx);
}

static void on_headers(void *ctx, struct exchange *x)
{
    struct rpc_server_options *opt = ctx;
    struct rpc_request *r = mem_zalloc(sizeof *r);
    struct error err = { 0 };
    enum errc rc = check_caller(opt, x, &err);

    r->ctx = opt->ctx;
    r->x = exchange_ref(x);
    if (rc != OK)
        rpc_note_refused(exchange_peer(x).ptr, err.text);
    if (rc == OK)
        rc = find_method(x, &r->method, &err);
    if (rc != OK) {
        rpc_fail(r, &err);
        return;
    }
    r->deadline_ms = read_deadline(x, &rows[r->method]);
    exchange_set_user(x, r);
    exchange_on_cancel(x, on_gone, r);
    exchange_want_body(x, rows[r->method].request_max);
}

static void run_handler(struct job *job)
{
    struct rpc_request *r = CONTAINER_OF(job, struct rpc_request, job);

    r->run(r);
}

static void on_request(void *ctx, struct exchange *x)
{
    struct rpc_server_options *opt = ctx;
    struct rpc_request *r = exchange_user(x);
    const struct rpc_handler *h = &opt->handlers[r->method];
    struct error err = { 0 };

    metric_add(&served_total, 1);
    exchange_on_cancel(x, NULL, NULL); /* from here on the handler ends it */
    if (h->is_quick) {
        h->run(r);
        return;
    }
    r->run = h->run;
    r->job.run = run_handler;
    if (pool_post(opt->pool, &r->job, &err) != OK)
        rpc_fail(r, &err);
}

struct http_handler rpc_http_handler(struct rpc_server_options *opt)
{
    metric_register(&refused_total);
    return (struct http_handler){ .on_headers = on_headers, .on_request = on_request, .ctx = opt };
}

/* ---- asking ---- */

/*
 * queued -> running -> gone. While it is queued, the lock protects it; from then
 * on it is the loop's.
 */
struct running {
    struct rpc_client *client;
    struct rpc_call call; /* node and body are copies */
    char node[64];
    struct buf body, answer;
    struct running *next, **prev;
    struct channel *channel;
    struct http2_call *http; /* NULL: it has not begun */
    int status;
    uint64_t until_ms;
    bool is_too_large;
};

struct rpc_client {
    struct rpc_client_options opt;
    pthread_mutex_t lock;
    struct running *queued, **queued_last;
    bool is_posted, is_stopped;
    struct running *first;
    struct loop_timer *sweep;
    struct loop_task task;
};

static void finish(struct running *r, const struct rpc_outcome *outcome)
{
    if (r->prev) {
        *r->prev = r->next;
        if (r->next)
            r->next->prev = r->prev;
    }
    if (outcome->is_lost)
        metric_add(&lost_total, 1);
    r->call.on_done(r->call.ctx, outcome);
    buf_release(&r->body);
    buf_release(&r->answer);
    mem_free(r);
}

static void lose(struct running *r, const char *why)
{
    struct error err = { 0 };

    (void)fail(&err, ERR_IO, "node %s %s", r->node, why);
    finish(r, &(struct rpc_outcome){ .err = &err, .is_lost = true });
}

/* We do not wait any longer; the node is told. */
static void give_up(struct running *r, enum errc code, const char *why)
{
    struct error err = { 0 };

    channel_cancel(r->channel, r->http);
    (void)fail(&err, code, "node %s %s", r->node, why);
    finish(r, &(struct rpc_outcome){ .err = &err, .is_lost = code == ERR_TIMEOUT });
}

/* ---- what comes ---- */

static void on_head(void *ctx, int status)
{
    struct running *r = ctx;

    r->status = status;
}

static bool on_piece(void *ctx, struct slice bytes)
{
    struct running *r = ctx;

    if (r->status == 200 && r->call.on_piece)
        r->call.on_piece(r->call.ctx, bytes);
    else
        buf_add_slice(&r->answer, bytes);
    return true;
}

static enum errc code_named(struct slice name)
{
    static const struct {
        const char *name;
        enum errc code;
    } codes[] = {
#define ERROR(name, http, num, retryable, text) { #name, name },
#include "base/error.def"
#undef ERROR
    };

    for (size_t i = 1; i < ARRAY_LEN(codes); i++)
        if (slice_is(name, codes[i].name))
            return codes[i].code;
    return OK;
}

/* What the node says went wrong; by the status alone when it says nothing that we know. */
static void read_failure(const struct running *r, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct val v = VAL_NONE;
    enum errc code = OK;

    if (val_parse(buf_slice(&r->answer), arena, &v, NULL) == OK)
        code = code_named(val_string(val_get(v, slice_str("name"))));
    if (code == OK)
        code = r->status == 503 ? ERR_BUSY : r->status < 500 ? ERR_INVALID : ERR_INTERNAL;
    struct slice text = val_string(val_get(v, slice_str("errorMessage")));
    if (text.len)
        (void)fail(err, code, "%.*s", SLICE_ARG(text));
    else
        (void)fail(err, code, "node %s answered %d", r->node, r->status);
    err->num = (int)val_int(val_get(v, slice_str("errorNum")));
    arena_free(arena);
}

static void on_end(void *ctx, bool is_whole)
{
    struct running *r = ctx;
    struct error err = { 0 };

    r->http = NULL;
    if (!is_whole) {
        lose(r, r->status ? "was lost before its answer was complete" : "was lost");
    } else if (r->answer.is_overfull) {
        (void)fail(&err, ERR_TOO_LARGE, "the answer of node %s is too large", r->node);
        finish(r, &(struct rpc_outcome){ .err = &err });
    } else if (r->status == 200) {
        finish(r, &(struct rpc_outcome){ .body = buf_slice(&r->answer) });
    } else {
        read_failure(r, &err);
        finish(r, &(struct rpc_outcome){ .err = &err });
    }
}

/* ---- what goes ---- */

static void begin(struct running *r)
{
    struct rpc_client *c = r->client;
    uint64_t now_ms = loop_now_ms(c->opt.loop);
    uint64_t left_ms = r->until_ms > now_ms ? r->until_ms - now_ms : 1;
    char deadline[24];
    struct http_header headers[] = { { RPC_CLUSTER, c->opt.cluster }, { RPC_DEADLINE, deadline } };
    struct http2_ask ask = { .authority = r->node,
                             .path = rows[r->call.method].path,
                             .headers = headers,
                             .header_count = ARRAY_LEN(headers),
                             .body = buf_slice(&r->body) };
    struct http2_call_events events = {
        .on_head = on_head, .on_piece = on_piece, .on_end = on_end, .ctx = r
    };

    snprintf(deadline, sizeof deadline, "%llu", (unsigned long long)left_ms);
    metric_add(&calls_total, 1);
    r->next = c->first;
    r->prev = &c->first;
    if (r->next)
        r->next->prev = &r->next;
    c->first = r;
    r->channel = c->opt.channel_of(c->opt.ctx, r->node);
    r->http = r->channel ? channel_ask(r->channel, &ask, &events) : NULL;
    buf_release(&r->body);
    buf_init(&r->body, 0);
    if (!r->http)
        lose(r, "is not connected");
}

static struct running *take_queued(struct rpc_client *c)
{
    pthread_mutex_lock(&c->lock);
    struct running *list = c->queued;
    c->queued = NULL;
    c->queued_last = &c->queued;
    c->is_posted = false;
    pthread_mutex_unlock(&c->lock);
    return list;
}

static void on_task(struct loop_task *task)
{
    struct rpc_client *c = CONTAINER_OF(task, struct rpc_client, task);
    struct running *list = take_queued(c), *next;

    for (; list; list = next) {
        next = list->next;
        list->next = NULL;
        begin(list);
    }
}

static void on_sweep(void *arg)
{
    struct rpc_client *c = arg;
    uint64_t now_ms = loop_now_ms(c->opt.loop);
    struct running *next;

    for (struct running *r = c->first; r; r = next) {
        next = r->next;
        if (r->call.is_unwanted && r->call.is_unwanted(r->call.ctx))
            give_up(r, ERR_GONE, "was told that its answer is not wanted");
        else if (now_ms >= r->until_ms)
            give_up(r, ERR_TIMEOUT, "did not answer within the deadline");
    }
}

enum errc rpc_call(struct rpc_client *c, const struct rpc_call *call, struct error *err)
{
    struct running *r = mem_zalloc(sizeof *r);
    uint64_t ms = call->deadline_ms ? call->deadline_ms : rows[call->method].deadline_ms;

    r->client = c;
    r->call = *call;
    snprintf(r->node, sizeof r->node, "%s", call->node);
    buf_init(&r->body, 0);
    buf_init(&r->answer, COLLECT_MAX);
    buf_add_slice(&r->body, call->body);
    r->until_ms = env_mono_ms(env_system()) + (ms < DEADLINE_MAX_MS ? ms : DEADLINE_MAX_MS);
    pthread_mutex_lock(&c->lock);
    bool is_stopped = c->is_stopped, is_first = !c->is_posted;
    if (!is_stopped) {
        *c->queued_last = r;
        c->queued_last = &r->next;
        c->is_posted = true;
    }
    pthread_mutex_unlock(&c->lock);
    if (is_stopped) {
        buf_release(&r->body);
        mem_free(r);
        return fail(err, ERR_BUSY, "the server is shutting down");
    }
    if (is_first)
        loop_post(c->opt.loop, &c->task);
    return OK;
}

/* ---- life ---- */

struct rpc_client *rpc_client_new(const struct rpc_client_options *opt)
{
    struct rpc_client *c = mem_zalloc(sizeof *c);

    c->opt = *opt;
    c->queued_last = &c->queued;
    c->task.run = on_task;
    pthread_mutex_init(&c->lock, NULL);
    c->sweep = loop_timer_new(opt->loop, on_sweep, c);
    loop_timer_start(c->sweep, SWEEP_MS, SWEEP_MS);
    return c;
}

void rpc_client_stop(struct rpc_client *c)
{
    pthread_mutex_lock(&c->lock);
    c->is_stopped = true;
    pthread_mutex_unlock(&c->lock);
    for (struct running *list = take_queued(c), *next; list; list = next) {
        next = list->next;
        list->next = NULL;
        lose(list, "is not called any more");
    }
    while (c->first) {
        channel_cancel(c->first->channel, c->first->http);
        lose(c->first, "is not called any more");
    }
    loop_timer_free(c->sweep);
    c->sweep = NULL;
}

void rpc_client_free(struct rpc_client *c)
{
    if (!c)
        return;
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}
