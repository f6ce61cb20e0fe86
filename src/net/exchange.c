/* SPDX-License-Identifier: Apache-2.0 */
#include "net/exchange.h"
#include "base/metrics.h"
#include "base/val_text.h"
#include "net/conn.h"
#include <stdio.h>
#include <strings.h>

enum { UNSENT_MAX = 256 * MIB };

static struct metric cancelled_total =
    METRIC_COUNTER("themis_http_cancelled_total", "Requests whose client left before the reply.");

struct exchange *exchange_new(struct loop *loop, struct conn *conn)
{
    struct exchange *x = mem_zalloc(sizeof *x);

    x->refs = 1;
    x->loop = loop;
    x->conn = conn;
    pthread_mutex_init(&x->lock, NULL);
    return x;
}

struct exchange *exchange_ref(struct exchange *x)
{
    atomic_fetch_add(&x->refs, 1);
    return x;
}

void exchange_unref(struct exchange *x)
{
    if (!x || atomic_fetch_sub(&x->refs, 1) != 1)
        return;
    pthread_mutex_destroy(&x->lock);
    buf_release(&x->head);
    buf_release(&x->body);
    buf_release(&x->extra);
    buf_release(&x->pending);
    mem_free(x->content_type);
    mem_free(x);
}

void exchange_cancel(struct exchange *x)
{
    void (*fn)(void *ctx) = x->on_cancel;

    x->conn = NULL;
    x->on_cancel = NULL;
    if (atomic_exchange(&x->is_cancelled, true))
        return;
    metric_add(&cancelled_total, 1);
    if (fn)
        fn(x->cancel_ctx);
}

/* ---- the request ---- */

enum http_method exchange_method(const struct exchange *x)
{
    return x->method;
}

struct slice exchange_path(const struct exchange *x)
{
    return slice_of(x->head.ptr, x->path_len);
}

struct slice exchange_query(const struct exchange *x)
{
    if (x->path_len >= x->target_len)
        return slice_of("", 0);
    return slice_of(x->head.ptr + x->path_len + 1, x->target_len - x->path_len - 1);
}

struct slice exchange_header(const struct exchange *x, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < x->header_count; i++) {
        const struct header *h = &x->headers[i];
        if (h->name_len == len && !strncasecmp(x->head.ptr + h->name, name, len))
            return slice_of(x->head.ptr + h->value, h->value_len);
    }
    return slice_of("", 0);
}

struct slice exchange_body(const struct exchange *x)
{
    return buf_slice(&x->body);
}

struct slice exchange_peer(const struct exchange *x)
{
    return slice_str(x->peer);
}

bool exchange_is_loopback(const struct exchange *x)
{
    return x->is_loopback;
}

const atomic_bool *exchange_cancel_flag(const struct exchange *x)
{
    return &x->is_cancelled;
}

void exchange_on_cancel(struct exchange *x, void (*fn)(void *ctx), void *ctx)
{
    x->on_cancel = fn;
    x->cancel_ctx = ctx;
}

void exchange_set_user(struct exchange *x, void *user)
{
    x->user = user;
}

void *exchange_user(const struct exchange *x)
{
    return x->user;
}

void exchange_want_body(struct exchange *x, size_t max_bytes)
{
    x->mode = BODY_COLLECT;
    x->body_max = max_bytes;
}

void exchange_want_stream(struct exchange *x, exchange_piece_fn fn, void *ctx)
{
    x->mode = BODY_STREAM;
    x->on_piece = fn;
    x->piece_ctx = ctx;
}

/* ---- the reply ---- */

static void on_task(struct loop_task *task)
{
    struct exchange *x = CONTAINER_OF(task, struct exchange, task);

    pthread_mutex_lock(&x->lock);
    x->is_posted = false;
    bool resumes = x->is_resuming;
    x->is_resuming = false;
    pthread_mutex_unlock(&x->lock);
    if (x->conn && resumes)
        conn_resume(x->conn, x);
    if (x->conn)
        conn_touch(x->conn);
    exchange_unref(x);
}

/* Lock held: the loop will look at this exchange. */
static void post(struct exchange *x)
{
    if (x->is_posted)
        return;
    if (!x->is_resuming && loop_is_running_here(x->loop)) {
        if (x->conn)
            conn_touch(x->conn);
        return;
    }
    x->is_posted = true;
    exchange_ref(x);
    x->task.run = on_task;
    loop_post(x->loop, &x->task);
}

void exchange_resume(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->is_resuming = true;
    post(x);
    pthread_mutex_unlock(&x->lock);
}

/* Lock held. A header that could split the reply is a bug of the caller. */
static void start(struct exchange *x, int status, const char *content_type,
                  const struct http_header *headers, size_t count)
{
    if (x->is_started)
        BUG("a second reply to %.*s", SLICE_ARG(exchange_path(x)));
    x->is_started = true;
    x->status = status;
    x->content_type = content_type ? mem_strdup(content_type) : NULL;
    for (size_t i = 0; i < count; i++) {
        if (strpbrk(headers[i].value, "\r\n"))
            BUG("a line end in header %s", headers[i].name);
        buf_printf(&x->extra, "%s: %s\r\n", headers[i].name, headers[i].value);
    }
}

void exchange_reply(struct exchange *x, int status, const char *content_type,
                    const struct http_header *headers, size_t header_count, struct slice body)
{
    pthread_mutex_lock(&x->lock);
    start(x, status, content_type, headers, header_count);
    x->has_length = true;
    x->is_finished = true;
    buf_add_slice(&x->pending, body);
    atomic_fetch_add(&x->unsent, body.len);
    post(x);
    pthread_mutex_unlock(&x->lock);
}

void exchange_start(struct exchange *x, int status, const char *content_type,
                    const struct http_header *headers, size_t header_count)
{
    pthread_mutex_lock(&x->lock);
    start(x, status, content_type, headers, header_count);
    post(x);
    pthread_mutex_unlock(&x->lock);
}

bool exchange_write(struct exchange *x, struct slice piece)
{
    if (atomic_load(&x->is_cancelled))
        return false;
    pthread_mutex_lock(&x->lock);
    bool is_ok = atomic_load(&x->unsent) + piece.len <= UNSENT_MAX;
    if (is_ok) {
        buf_add_slice(&x->pending, piece);
        atomic_fetch_add(&x->unsent, piece.len);
    } else {
        x->is_aborted = true;
    }
    post(x);
    pthread_mutex_unlock(&x->lock);
    return is_ok;
}

size_t exchange_unsent(const struct exchange *x)
{
    return atomic_load(&x->unsent);
}

void exchange_finish(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->is_finished = true;
    post(x);
    pthread_mutex_unlock(&x->lock);
}

void exchange_abort(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->is_aborted = true;
    post(x);
    pthread_mutex_unlock(&x->lock);
}

bool exchange_has_started(const struct exchange *x)
{
    return exchange_status(x) != 0;
}

int exchange_status(const struct exchange *x)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&x->lock;

    pthread_mutex_lock(lock);
    int status = x->status;
    pthread_mutex_unlock(lock);
    return status;
}

void exchange_start_events(struct exchange *x, const struct http_header *headers, size_t count)
{
    struct http_header all[16] = { { "Cache-Control", "no-cache" }, { "X-Accel-Buffering", "no" } };
    size_t n = 2;

    for (size_t i = 0; i < count && n < ARRAY_LEN(all); i++)
        all[n++] = headers[i];
    exchange_start(x, 200, "text/event-stream; charset=utf-8", all, n);
}

bool exchange_event(struct exchange *x, struct slice data)
{
    struct buf event;

    buf_init(&event, 0);
    buf_add_str(&event, "data: ");
    buf_add_slice(&event, data);
    buf_add_str(&event, "\n\n");
    bool is_ok = exchange_write(x, buf_slice(&event));
    buf_release(&event);
    return is_ok;
}

void exchange_refuse(struct exchange *x, int status, const char *text)
{
    struct buf body;
    void (*fn)(void *ctx) = x->on_cancel;

    x->on_cancel = NULL;
    x->mode = BODY_DISCARD;
    x->keep_alive = false;
    buf_init(&body, 0);
    buf_printf(&body, "{\"error\":true,\"code\":%d,\"errorNum\":%d,\"errorMessage\":", status, status);
    val_print_string(slice_str(text), &body);
    buf_add_char(&body, '}');
    exchange_reply(x, status, "application/json; charset=utf-8", NULL, 0, buf_slice(&body));
    buf_release(&body);
    if (fn)
        fn(x->cancel_ctx);
}

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } rows[] = {
        { 100, "Continue" },           { 200, "OK" },
        { 201, "Created" },            { 202, "Accepted" },
        { 204, "No Content" },         { 304, "Not Modified" },
        { 400, "Bad Request" },        { 401, "Unauthorized" },
        { 403, "Forbidden" },          { 404, "Not Found" },
        { 405, "Method Not Allowed" }, { 408, "Request Timeout" },
        { 409, "Conflict" },           { 410, "Gone" },
        { 411, "Length Required" },    { 412, "Precondition Failed" },
        { 413, "Payload Too Large" },  { 415, "Unsupported Media Type" },
        { 417, "Expectation Failed" }, { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" }, { 501, "Not Implemented" },
        { 503, "Service Unavailable" },   { 504, "Gateway Timeout" },
        { 505, "HTTP Version Not Supported" },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].status == status)
            return rows[i].reason;
    return "Status";
}
