/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading feeds the protocol, which makes exchanges; replies of the first
 * exchange go to the out buffer; one flush at the end of a turn. A connection
 * that must close after an error first says so, then shuts its side down and
 * reads what is still coming for a while, so that the reply is not lost in a
 * reset.
 */
#include "net/conn.h"
#include "base/log.h"
#include "base/metrics.h"
#include "net/http1.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum { OUT_HIGH = 256 * KIB, DISCARD_MAX = 4 * MIB, LINGER_MS = 2000, READS_PER_TURN = 16 };

enum conn_state { CONN_OPEN, CONN_FLUSH_CLOSE, CONN_LINGER, CONN_CLOSED };

struct conn {
    uv_poll_t poll;
    int fd, events;
    const struct conn_filter *filter;
    struct http_server *server;
    struct conn_link link;
    enum conn_state state;
    struct http1 *http1;
    struct exchange *first, **last;
    size_t pipelined;
    struct buf in; /* bytes that a paused protocol has not taken */
    struct buf out;
    size_t out_sent;
    uint64_t request_ms, read_ms, write_ms, state_ms; /* of the last progress */
    bool is_paused, is_touched, is_feeding;
    struct loop_task turn_end;
};

static struct metric bytes_in = METRIC_COUNTER("themis_http_received_bytes_total", "Bytes read.");
static struct metric bytes_out = METRIC_COUNTER("themis_http_sent_bytes_total", "Bytes written.");
static struct metric replies[] = {
    { .name = "themis_http_responses_total", .help = "Replies by class.", .labels = "class=\"2xx\"" },
    { .name = "themis_http_responses_total", .help = "Replies by class.", .labels = "class=\"3xx\"" },
    { .name = "themis_http_responses_total", .help = "Replies by class.", .labels = "class=\"4xx\"" },
    { .name = "themis_http_responses_total", .help = "Replies by class.", .labels = "class=\"5xx\"" },
};

static uint64_t now_ms(const struct conn *c)
{
    return loop_now_ms(server_loop(c->server));
}

/* ---- the plain filter ---- */

static ssize_t plain_read(struct conn *c, void *bytes, size_t len)
{
    ssize_t n = recv(c->fd, bytes, len, 0);

    if (n > 0)
        return n;
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static ssize_t plain_write(struct conn *c, const void *bytes, size_t len)
{
    ssize_t n = send(c->fd, bytes, len, MSG_NOSIGNAL);

    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static void plain_close(struct conn *c)
{
    (void)c;
}

static const struct conn_filter plain = { plain_read, plain_write, plain_close };

/* ---- exchanges ---- */

static void set_peer(struct conn *c, struct exchange *x)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;
    char text[INET6_ADDRSTRLEN] = "?";
    uint16_t port = 0;

    if (getpeername(c->fd, (struct sockaddr *)&addr, &len))
        return;
    if (addr.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&addr;
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
        port = ntohs(in->sin_port);
        x->is_loopback = ntohl(in->sin_addr.s_addr) >> 24 == 127;
    } else if (addr.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&addr;
        inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text);
        port = ntohs(in->sin6_port);
        x->is_loopback = IN6_IS_ADDR_LOOPBACK(&in->sin6_addr);
    }
    snprintf(x->peer, sizeof x->peer, "%s:%u", text, port);
}

static struct exchange *begin(void *arg)
{
    struct conn *c = arg;
    struct exchange *x = exchange_new(server_loop(c->server), c);

    set_peer(c, x);
    *c->last = exchange_ref(x); /* one for the list, one for the protocol */
    c->last = &x->next;
    c->pipelined++;
    c->request_ms = now_ms(c);
    server_add_active(c->server, 1);
    return x;
}

static void headers(void *arg, struct exchange *x)
{
    struct conn *c = arg;
    const struct http_handler *h = &server_opt(c->server)->handler;
    struct slice expect = exchange_header(x, "expect");

    x->has_headers = true;
    if (server_is_draining(c->server))
        x->keep_alive = false;
    h->on_headers(h->ctx, x);
    if (x->mode == BODY_UNDECIDED)
        x->mode = BODY_DISCARD;
    if (expect.len && x->mode != BODY_DISCARD && x == c->first && !x->is_http10)
        buf_add_str(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    conn_touch(c);
}

static void collect(struct conn *c, struct exchange *x, struct slice bytes)
{
    size_t hard = server_opt(c->server)->limits.body_bytes;
    size_t max = x->body_max && x->body_max < hard ? x->body_max : hard;
    char text[128];

    if (bytes.len <= max && x->body.len <= max - bytes.len) {
        buf_add_slice(&x->body, bytes);
        return;
    }
    snprintf(text, sizeof text, "the body is larger than the limit of %zu bytes", max);
    exchange_refuse(x, 413, text);
}

static bool piece(void *arg, struct exchange *x, struct slice bytes)
{
    struct conn *c = arg;

    switch (x->mode) {
    case BODY_COLLECT:
        collect(c, x, bytes);
        return true;
    case BODY_STREAM:
        if (x->on_piece(x->piece_ctx, x, bytes, false))
            return true;
        x->is_paused = c->is_paused = true;
        return false;
    case BODY_UNDECIDED:
    case BODY_DISCARD:
        x->discarded += bytes.len;
        if (x->discarded > DISCARD_MAX)
            x->keep_alive = false;
        return true;
    }
    return true;
}

static bool complete(void *arg, struct exchange *x)
{
    struct conn *c = arg;
    const struct http_handler *h = &server_opt(c->server)->handler;

    x->is_whole = true;
    if (x->mode == BODY_COLLECT)
        h->on_request(h->ctx, x);
    else if (x->mode == BODY_STREAM)
        x->on_piece(x->piece_ctx, x, slice_of(NULL, 0), true);
    conn_touch(c);
    c->is_paused = !x->keep_alive || c->pipelined >= server_opt(c->server)->limits.pipeline;
    return !c->is_paused;
}

static void pop_first(struct conn *c)
{
    struct exchange *x = c->first;

    c->first = x->next;
    if (!c->first)
        c->last = &c->first;
    c->pipelined--;
    server_add_active(c->server, -1);
    x->conn = NULL;
    x->on_cancel = NULL;
    exchange_unref(x);
}

/* ---- writing ---- */

static void count_reply(int status)
{
    size_t i = (size_t)status / 100;

    if (i >= 2 && i <= 5)
        metric_add(&replies[i - 2], 1);
}

enum take { TAKE_MORE, TAKE_DONE, TAKE_ABORTED };

/* Moves what the first exchange has ready to the out buffer. */
static enum take take_reply(struct conn *c, struct exchange *x)
{
    enum take result = TAKE_MORE;

    pthread_mutex_lock(&x->lock);
    if (x->is_aborted) {
        result = TAKE_ABORTED;
    } else if (x->is_started) {
        bool closes = !x->keep_alive || (x->is_http10 && !x->has_length);
        if (!x->is_head_written) {
            http1_put_head(x, server_opt(c->server)->server_name, closes, x->pending.len, &c->out);
            x->is_head_written = true;
            count_reply(x->status);
        }
        http1_put_piece(x, buf_slice(&x->pending), &c->out);
        atomic_fetch_sub(&x->unsent, x->pending.len);
        buf_release(&x->pending);
        if (x->is_finished) {
            http1_put_end(x, &c->out);
            result = TAKE_DONE;
            x->keep_alive = !closes;
        }
    }
    pthread_mutex_unlock(&x->lock);
    return result;
}

static void set_state(struct conn *c, enum conn_state state)
{
    c->state = state;
    c->state_ms = now_ms(c);
}

static void feed(struct conn *c, struct slice bytes);

static void feed_rest(struct conn *c)
{
    if (c->is_paused || !c->in.len || c->is_feeding)
        return;
    struct buf rest = c->in;
    buf_init(&c->in, 0);
    feed(c, buf_slice(&rest));
    buf_release(&rest);
}

static void pump(struct conn *c)
{
    while (c->state == CONN_OPEN && c->first && c->out.len - c->out_sent < OUT_HIGH) {
        struct exchange *x = c->first;
        enum take got = take_reply(c, x);
        if (got == TAKE_ABORTED) {
            conn_close(c);
            return;
        }
        if (got == TAKE_MORE)
            return;
        bool closes = !x->keep_alive || (!x->is_whole && x->discarded > DISCARD_MAX);
        if (!x->is_whole && !closes)
            x->mode = BODY_DISCARD;
        pop_first(c);
        if (closes) {
            set_state(c, CONN_FLUSH_CLOSE);
            return;
        }
        c->read_ms = now_ms(c);
        c->is_paused = false;
        feed_rest(c);
    }
}

static void watch(struct conn *c);

static void flush(struct conn *c)
{
    while (c->out_sent < c->out.len) {
        ssize_t n = c->filter->write(c, c->out.ptr + c->out_sent, c->out.len - c->out_sent);
        if (n < 0) {
            conn_close(c);
            return;
        }
        if (n == 0)
            break;
        c->out_sent += (size_t)n;
        c->write_ms = now_ms(c);
        metric_add(&bytes_out, n);
    }
    if (c->out_sent == c->out.len) {
        c->out_sent = 0;
        if (c->out.cap > 64 * KIB)
            buf_release(&c->out);
        else
            buf_clear(&c->out);
        if (c->state == CONN_FLUSH_CLOSE) {
            shutdown(c->fd, SHUT_WR);
            set_state(c, CONN_LINGER);
        }
    } else if (c->out_sent > OUT_HIGH) {
        buf_drop(&c->out, c->out_sent);
        c->out_sent = 0;
    }
}

static void on_closed(uv_handle_t *handle);

static void on_turn_end(struct loop_task *task)
{
    struct conn *c = CONTAINER_OF(task, struct conn, turn_end);
    size_t before;

    do { /* what was flushed makes room for more */
        pump(c);
        if (c->state == CONN_CLOSED)
            break;
        before = c->out.len - c->out_sent;
        flush(c);
    } while (c->state == CONN_OPEN && c->first && before >= OUT_HIGH && c->out.len == 0);
    if (c->state == CONN_CLOSED) {
        uv_close((uv_handle_t *)&c->poll, on_closed);
        return;
    }
    c->is_touched = false;
    if (c->state == CONN_OPEN && !c->first && server_is_draining(c->server) && !c->out.len &&
        http1_is_idle(c->http1)) {
        conn_close(c);
        return;
    }
    watch(c);
}

void conn_touch(struct conn *c)
{
    if (c->is_touched || c->state == CONN_CLOSED)
        return;
    c->is_touched = true;
    c->turn_end.run = on_turn_end;
    loop_at_turn_end(server_loop(c->server), &c->turn_end);
}

/* ---- reading ---- */

static void protocol_error(struct conn *c, struct http1_error e)
{
    /* The request that failed is the last of the list, or had not begun. */
    struct exchange *x = c->first;

    while (x && x->next)
        x = x->next;
    if (!x || x->is_whole) {
        exchange_unref(begin(c));
        for (x = c->first; x->next; x = x->next)
            ;
    }
    x->is_whole = true;
    x->keep_alive = false;
    x->method = x->method ? x->method : METHOD_GET;
    if (!exchange_has_started(x))
        exchange_refuse(x, e.status, e.text);
    c->is_paused = true;
    conn_touch(c);
}

static void feed(struct conn *c, struct slice bytes)
{
    size_t used;

    c->is_feeding = true;
    struct http1_error e = http1_feed(c->http1, bytes, &used);
    c->is_feeding = false;
    if (e.status) {
        protocol_error(c, e);
        return;
    }
    if (used < bytes.len)
        buf_add(&c->in, bytes.ptr + used, bytes.len - used);
}

static void read_some(struct conn *c)
{
    size_t size;
    char *bytes = server_read_buffer(c->server, &size);

    for (int i = 0; i < READS_PER_TURN; i++) {
        if (c->state == CONN_OPEN && c->is_paused)
            return;
        ssize_t n = c->filter->read(c, bytes, size);
        if (n == 0)
            return;
        if (n < 0) {
            conn_close(c);
            return;
        }
        c->read_ms = now_ms(c);
        metric_add(&bytes_in, n);
        if (c->state == CONN_OPEN)
            feed(c, slice_of(bytes, (size_t)n));
        if (c->state == CONN_CLOSED)
            return;
    }
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct conn *c = handle->data;

    if (status < 0 || (events & UV_DISCONNECT && c->is_paused)) {
        conn_close(c);
        return;
    }
    if (events & (UV_READABLE | UV_DISCONNECT))
        read_some(c);
    conn_touch(c);
}

static void watch(struct conn *c)
{
    bool reads = c->state == CONN_LINGER || (c->state == CONN_OPEN && !c->is_paused);
    int events = UV_DISCONNECT | (reads ? UV_READABLE : 0) |
                 (c->out_sent < c->out.len ? UV_WRITABLE : 0);

    if (c->state == CONN_LINGER || c->state == CONN_FLUSH_CLOSE)
        events &= ~UV_DISCONNECT;
    if (events == c->events)
        return;
    c->events = events;
    if (events)
        uv_poll_start(&c->poll, events, on_poll);
    else
        uv_poll_stop(&c->poll);
}

void conn_resume(struct conn *c, struct exchange *x)
{
    if (!x->is_paused)
        return;
    x->is_paused = c->is_paused = false;
    c->read_ms = now_ms(c);
    feed_rest(c);
    conn_touch(c);
}

/* ---- life ---- */

struct conn *conn_new(struct http_server *s, int fd)
{
    struct conn *c = mem_zalloc(sizeof *c);
    int one = 1;
    struct http1_events events = { begin, headers, piece, complete,
                                   server_opt(s)->limits.header_bytes, c };

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (size_t i = 0; i < ARRAY_LEN(replies); i++)
        metric_register(&replies[i]);
    c->fd = fd;
    c->server = s;
    c->filter = &plain;
    c->last = &c->first;
    c->http1 = http1_new(&events);
    uv_poll_init((uv_loop_t *)loop_uv(server_loop(s)), &c->poll, fd);
    c->poll.data = c;
    c->read_ms = c->write_ms = c->state_ms = c->request_ms = now_ms(c);
    watch(c);
    return c;
}

struct conn_link *conn_link(struct conn *c)
{
    return &c->link;
}

static void on_closed(uv_handle_t *handle)
{
    struct conn *c = handle->data;

    http1_free(c->http1);
    buf_release(&c->in);
    buf_release(&c->out);
    mem_free(c);
}

void conn_close(struct conn *c)
{
    if (c->state == CONN_CLOSED)
        return;
    c->state = CONN_CLOSED;
    while (c->first) {
        struct exchange *x = c->first;
        exchange_ref(x);
        exchange_cancel(x);
        pop_first(c);
        exchange_unref(x);
    }
    *c->link.prev = c->link.next;
    if (c->link.next)
        conn_link(c->link.next)->prev = c->link.prev;
    uv_poll_stop(&c->poll);
    c->filter->close(c);
    close(c->fd);
    server_conn_closed(c->server);
    /* A turn-end task may still point here: it closes the handle then. */
    if (!c->is_touched)
        uv_close((uv_handle_t *)&c->poll, on_closed);
}

void conn_drain(struct conn *c)
{
    for (struct exchange *x = c->first; x; x = x->next)
        x->keep_alive = false;
    if (!c->first && http1_is_idle(c->http1) && c->state == CONN_OPEN)
        conn_close(c);
}

static void time_out_request(struct conn *c, const char *text)
{
    protocol_error(c, (struct http1_error){ 408, text });
}

void conn_sweep(struct conn *c, uint64_t now)
{
    const struct http_limits *lim = &server_opt(c->server)->limits;
    bool is_reading = !http1_is_idle(c->http1);

    if (c->state == CONN_LINGER) {
        if (now - c->state_ms > LINGER_MS)
            conn_close(c);
    } else if (c->out_sent < c->out.len) {
        if (now - c->write_ms > lim->body_ms && now - c->state_ms > lim->body_ms)
            conn_close(c); /* the client does not read */
    } else if (c->state == CONN_OPEN && is_reading && !c->is_paused) {
        if (!http1_in_body(c->http1) && now - c->request_ms > lim->header_ms)
            time_out_request(c, "the headers did not arrive in time");
        else if (http1_in_body(c->http1) && now - c->read_ms > lim->body_ms)
            time_out_request(c, "the body did not arrive in time");
    } else if (c->state == CONN_OPEN && !c->first && !is_reading && now - c->read_ms > lim->idle_ms) {
        conn_close(c);
    }
}
