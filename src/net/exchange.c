/* SPDX-License-Identifier: Apache-2.0 */
#include "net/exchange.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/val_text.h"
#include "net/blocks.h"
#include "net/conn.h"
#include "net/gzip.h"
#include <stdio.h>
#include <strings.h>
#include <time.h>

/* A writer waits above WAIT_HIGH until the client has taken all but WAIT_LOW. */
enum { HEAD_FIRST = 255 };
enum { WAIT_HIGH = 4 * MIB, WAIT_LOW = 1 * MIB, UNSENT_MAX = 256 * MIB };

static struct metric cancelled_total =
    METRIC_COUNTER("themis_http_cancelled_total", "Requests whose client left before the reply.");
#define REPLIES(class)                                                                             \
    {                                                                                              \
        .name = "themis_http_responses_total", .help = "Replies by class.", .labels = class        \
    }
static struct metric replies[] = {
    REPLIES("class=\"2xx\""),
    REPLIES("class=\"3xx\""),
    REPLIES("class=\"4xx\""),
    REPLIES("class=\"5xx\""),
};

struct exchange *exchange_new(struct loop *loop, struct conn *conn)
{
    struct exchange *x = blocks_get(sizeof *x);
    static const pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    pthread_condattr_t monotonic;

    memset(x, 0, offsetof(struct exchange, few_headers));
    x->req.headers = x->few_headers;
    x->req.header_cap = HEADERS_FIRST;
    buf_reserve(&x->req.head, HEAD_FIRST); /* growing it step by step costs more */
    buf_clear(&x->req.head);
    x->refs = 1;
    x->loop = loop;
    x->conn = conn;
    x->lock = recursive;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&x->room, &monotonic);
    return x;
}

struct header *exchange_add_header(struct exchange *x)
{
    struct exchange_request *req = &x->req;

    assert(req->header_count < HEADERS_MAX);
    if (req->header_count == req->header_cap) {
        struct header *few = req->headers == x->few_headers ? req->headers : NULL;
        req->header_cap *= 2;
        req->headers = mem_realloc(few ? NULL : req->headers, req->header_cap * sizeof *few);
        if (few)
            memcpy(req->headers, few, sizeof x->few_headers);
    }
    return &req->headers[req->header_count++];
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
    pthread_cond_destroy(&x->room);
    buf_release(&x->req.head);
    if (x->req.headers != x->few_headers)
        mem_free(x->req.headers);
    mem_free(x->req.peer_name);
    buf_release(&x->body);
    buf_release(&x->rep.lines);
    buf_release(&x->rep.pending);
    blocks_put(x);
}

static bool is_over(const struct exchange *x)
{
    return x->rep.is_finished || x->rep.is_aborted;
}

bool exchange_is_over(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool result = is_over(x);
    pthread_mutex_unlock(&x->lock);
    return result;
}

/*
 * Lock held. A handler may free what on_cancel looks at as soon as it has
 * replied; it cannot reply while the lock is held.
 */
static void tell_handler(struct exchange *x)
{
    void (*fn)(void *ctx) = x->on_cancel;

    x->on_cancel = NULL;
    atomic_store(&x->is_cancelled, true);
    atomic_store(&x->is_stopped, true);
    pthread_cond_broadcast(&x->room);
    if (fn)
        fn(x->cancel_ctx);
}

void exchange_cancel(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->conn = NULL;
    if (!is_over(x) && !atomic_load(&x->is_cancelled)) {
        metric_add(&cancelled_total, 1);
        tell_handler(x);
    }
    pthread_mutex_unlock(&x->lock);
}

/* ---- the request ---- */

enum http_method exchange_method(const struct exchange *x)
{
    return x->req.method;
}

struct slice exchange_path(const struct exchange *x)
{
    return slice_of(x->req.head.ptr + x->req.target, x->req.path_len);
}

struct slice exchange_query(const struct exchange *x)
{
    if (x->req.path_len >= x->req.target_len)
        return slice_of("", 0);
    return slice_of(x->req.head.ptr + x->req.target + x->req.path_len + 1,
                    x->req.target_len - x->req.path_len - 1);
}

struct slice exchange_header(const struct exchange *x, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < x->req.header_count; i++) {
        const struct header *h = &x->req.headers[i];
        if (h->name_len == len && !strncasecmp(x->req.head.ptr + h->name, name, len))
            return slice_of(x->req.head.ptr + h->value, h->value_len);
    }
    return slice_of("", 0);
}

struct slice exchange_body(const struct exchange *x)
{
    return buf_slice(&x->body);
}

struct slice exchange_peer(const struct exchange *x)
{
    return slice_str(x->req.peer);
}

bool exchange_is_loopback(const struct exchange *x)
{
    return x->req.is_loopback;
}

const char *exchange_peer_name(const struct exchange *x)
{
    return x->req.peer_name;
}

const atomic_bool *exchange_cancel_flag(const struct exchange *x)
{
    return &x->is_stopped;
}

void exchange_stop_work(struct exchange *x)
{
    atomic_store(&x->is_stopped, true);
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
        conn_ready(x->conn, x);
    exchange_unref(x);
}

/* Lock held: the loop will look at this exchange. */
static void post(struct exchange *x)
{
    if (x->is_posted || !x->loop)
        return;
    if (loop_is_running_here(x->loop) && !x->is_resuming) {
        if (x->conn)
            conn_ready(x->conn, x);
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

static void add_header(struct exchange *x, const struct http_header *h)
{
    if (strpbrk(h->name, "\r\n:") || strpbrk(h->value, "\r\n")) {
        log_error("net", "a header with a line end was left out of a reply to %.*s",
                  SLICE_ARG(exchange_path(x)));
        return;
    }
    size_t name = strlen(h->name), value = strlen(h->value), len = name + value + 4;
    char *at = x->few_lines + x->rep.few_len;
    if (x->rep.lines.len || len > sizeof x->few_lines - x->rep.few_len)
        at = buf_reserve(&x->rep.lines, len);
    else
        x->rep.few_len += len;
    memcpy(at, h->name, name);
    memcpy(at + name, ": ", 2);
    memcpy(at + name + 2, h->value, value);
    memcpy(at + len - 2, "\r\n", 2);
}

void exchange_tag(struct exchange *x, const char *name, const char *value)
{
    pthread_mutex_lock(&x->lock);
    if (!x->rep.is_started)
        add_header(x, &(struct http_header){ name, value });
    pthread_mutex_unlock(&x->lock);
}

static void count_reply(int status)
{
    size_t i = (size_t)status / 100;

    for (size_t j = 0; j < ARRAY_LEN(replies); j++) /* rows of zero are shown, too */
        metric_register(&replies[j]);
    if (i >= 2 && i <= 5)
        metric_add(&replies[i - 2], 1);
}

/* Lock held. */
static void start(struct exchange *x, int status, const char *content_type,
                  const struct http_header *headers, size_t count)
{
    if (x->rep.is_started)
        BUG("a second reply to %.*s", SLICE_ARG(exchange_path(x)));
    count_reply(status);
    x->rep.is_started = true;
    x->rep.status = status;
    if (content_type)
        add_header(x, &(struct http_header){ "Content-Type", content_type });
    for (size_t i = 0; i < count; i++)
        add_header(x, &headers[i]);
}

/* Lock held. */
static void whole_reply(struct exchange *x, int status, const char *content_type,
                        const struct http_header *headers, size_t count, struct slice body)
{
    start(x, status, content_type, headers, count);
    x->rep.has_length = true;
    x->rep.is_finished = true;
    buf_add_slice(&x->rep.pending, body);
    x->rep.unsent += body.len;
    post(x);
}

static const struct http_header varies = { "Vary", "Accept-Encoding" };
static const struct http_header gzipped = { "Content-Encoding", "gzip" };

/* On the thread that replies, without the lock: it takes 6 ms for each MB. */
static bool pack(const struct exchange *x, struct slice body, struct buf *out)
{
    return body.len >= x->req.gzip_bytes &&
           gzip_is_welcome(exchange_header(x, "accept-encoding")) && gzip_pack(body, out);
}

static bool may_be_packed(const struct exchange *x, const char *content_type,
                          const struct http_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcasecmp(headers[i].name, gzipped.name))
            return false;
    return x->req.gzip_bytes && content_type && gzip_suits(content_type);
}

void exchange_reply(struct exchange *x, int status, const char *content_type,
                    const struct http_header *headers, size_t header_count, struct slice body)
{
    struct buf packed;
    bool varies_here = may_be_packed(x, content_type, headers, header_count);

    buf_init(&packed, 0);
    bool is_packed = varies_here && pack(x, body, &packed);
    pthread_mutex_lock(&x->lock);
    if (!atomic_load(&x->is_cancelled)) {
        if (varies_here)
            add_header(x, &varies);
        if (is_packed)
            add_header(x, &gzipped);
        whole_reply(x, status, content_type, headers, header_count,
                    is_packed ? buf_slice(&packed) : body);
    }
    pthread_mutex_unlock(&x->lock);
    buf_release(&packed);
}

void exchange_start(struct exchange *x, int status, const char *content_type,
                    const struct http_header *headers, size_t header_count)
{
    pthread_mutex_lock(&x->lock);
    if (!atomic_load(&x->is_cancelled)) {
        start(x, status, content_type, headers, header_count);
        post(x);
    }
    pthread_mutex_unlock(&x->lock);
}

/*
 * Lock held. Whether the client takes anything is for the connection to judge,
 * which cancels; only a loop that has ended cannot.
 */
static void wait_for_room(struct exchange *x)
{
    x->rep.is_waiting = true;
    while (x->rep.unsent > WAIT_LOW && !atomic_load(&x->is_cancelled) && loop_is_running(x->loop)) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&x->room, &x->lock, &until);
    }
    x->rep.is_waiting = false;
}

bool exchange_write(struct exchange *x, struct slice piece)
{
    pthread_mutex_lock(&x->lock);
    if (x->rep.unsent > WAIT_HIGH && x->loop && !loop_is_running_here(x->loop))
        wait_for_room(x);
    if (x->rep.unsent > UNSENT_MAX || piece.len > UNSENT_MAX - x->rep.unsent)
        x->rep.is_stalled = true;
    bool is_ok = !x->rep.is_stalled && !atomic_load(&x->is_cancelled);
    if (is_ok) {
        buf_add_slice(&x->rep.pending, piece);
        x->rep.unsent += piece.len;
    }
    post(x);
    pthread_mutex_unlock(&x->lock);
    return is_ok;
}

void exchange_on_room(struct exchange *x, void (*fn)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&x->lock);
    x->on_room = fn;
    x->room_ctx = ctx;
    pthread_mutex_unlock(&x->lock);
}

void exchange_sent(struct exchange *x, size_t bytes)
{
    pthread_mutex_lock(&x->lock);
    size_t before = x->rep.unsent;
    x->rep.unsent -= bytes < x->rep.unsent ? bytes : x->rep.unsent;
    if (x->rep.is_waiting && x->rep.unsent <= WAIT_LOW)
        pthread_cond_broadcast(&x->room);
    bool has_room = before > WAIT_LOW && x->rep.unsent <= WAIT_LOW;
    if (has_room && x->on_room && !is_over(x) && !atomic_load(&x->is_cancelled))
        x->on_room(x->room_ctx);
    pthread_mutex_unlock(&x->lock);
}

static pthread_mutex_t *lock_of(const struct exchange *x)
{
    return (pthread_mutex_t *)&x->lock;
}

size_t exchange_unsent(const struct exchange *x)
{
    pthread_mutex_lock(lock_of(x));
    size_t unsent = x->rep.unsent;
    pthread_mutex_unlock(lock_of(x));
    return unsent;
}

void exchange_finish(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    if (!atomic_load(&x->is_cancelled)) {
        x->rep.is_finished = true;
        post(x);
    }
    pthread_mutex_unlock(&x->lock);
}

void exchange_abort(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->rep.is_aborted = true;
    post(x);
    pthread_mutex_unlock(&x->lock);
}

bool exchange_has_started(const struct exchange *x)
{
    return exchange_status(x) != 0;
}

int exchange_status(const struct exchange *x)
{
    pthread_mutex_lock(lock_of(x));
    int status = x->rep.status;
    pthread_mutex_unlock(lock_of(x));
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

/* What the client needs to know besides the status. */
static const struct http_header *hint(int status)
{
    static const struct http_header later = { "Retry-After", "1" };
    static const struct http_header plain = { "Accept-Encoding", "identity" };

    return status == 503 ? &later : status == 415 ? &plain : NULL;
}

bool exchange_refuse(struct exchange *x, int status, const char *text)
{
    const struct http_header *header = hint(status);
    struct buf body;

    pthread_mutex_lock(&x->lock);
    bool is_first = !x->rep.is_started && !is_over(x) && !atomic_load(&x->is_cancelled);
    if (is_first) {
        x->mode = BODY_DISCARD;
        x->keep_alive = false;
        buf_init(&body, 0);
        buf_printf(&body, "{\"error\":true,\"code\":%d,\"errorNum\":%d,\"errorMessage\":", status,
                   status);
        val_print_string(slice_str(text), &body);
        buf_add_char(&body, '}');
        whole_reply(x, status, "application/json; charset=utf-8", header, header != NULL,
                    buf_slice(&body));
        buf_release(&body);
        tell_handler(x); /* what the handler still says is dropped */
    }
    pthread_mutex_unlock(&x->lock);
    return is_first;
}
