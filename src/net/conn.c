/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading feeds the protocol, which makes exchanges; replies of the first
 * exchange go to the out buffer; one flush at the end of a turn.
 *
 *   OPEN -> FLUSHING -> LINGERING -> CLOSED      (or straight to CLOSED)
 *
 * A connection that must close after a reply sends it, shuts its side down and
 * reads what is still coming for a while, so that the reply is not lost in a
 * reset. End of file from the client cancels what runs; what is ready is sent.
 *
 * The struct outlives conn_close until libuv has let go of the handle and no
 * turn-end task points to it.
 */
#include "net/conn.h"
#include "base/metrics.h"
#include "net/protocol.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum {
    OUT_HIGH = 256 * KIB,    /* no more replies are taken above */
    OUT_KEEP = 64 * KIB,     /* memory kept for the next reply */
    SENT_PER_TURN = 2 * MIB, /* then others get their turn */
    READS_PER_TURN = 8,
    DISCARD_MAX = 4 * MIB, /* unread body that is worth a kept connection */
    LINGER_MS = 2000,      /* silence of a client that was told to go */
    LINGER_ALL_MS = 15000,
};

enum conn_state { CONN_OPEN, CONN_FLUSHING, CONN_LINGERING, CONN_CLOSED };

struct conn {
    uv_poll_t poll;
    int fd, events;
    const struct conn_filter *filter;
    struct http_server *server;
    struct conn_link link;
    char peer[64];
    bool is_loopback;

    enum conn_state state;
    struct protocol *protocol;
    struct exchange *first, **last; /* one reference each */
    size_t pipelined;
    bool is_ended;         /* no further request is taken */
    bool is_failed;        /* no further byte is taken */
    bool is_eof;           /* the client has ended its side */
    bool is_stream_paused; /* by the handler of the current request */

    struct buf in; /* bytes that a paused protocol has not taken, from in_used on */
    size_t in_used;
    struct buf out, big; /* out goes first */
    size_t out_sent, big_sent;
    int queued;  /* bytes in the kernel's queue when last asked */
    size_t owed; /* of them, bytes of the first exchange that its writer was not told about */

    uint64_t request_ms, read_ms, write_ms, idle_ms, state_ms; /* of the last progress */
    bool is_touched, is_handle_closed;
    struct loop_task turn_end;
};

static struct metric bytes_in = METRIC_COUNTER("themis_http_received_bytes_total", "Bytes read.");
static struct metric bytes_out = METRIC_COUNTER("themis_http_sent_bytes_total", "Bytes written.");
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

static const struct http_limits *limits(const struct conn *c)
{
    return &server_opt(c->server)->limits;
}

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
    if (n == 0)
        return IO_EOF;
    return errno == EAGAIN || errno == EINTR ? IO_AGAIN : IO_GONE;
}

static ssize_t plain_write(struct conn *c, const void *bytes, size_t len)
{
    ssize_t n = send(c->fd, bytes, len, MSG_NOSIGNAL);

    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EINTR ? IO_AGAIN : IO_GONE;
}

static int plain_want(struct conn *c, int events)
{
    (void)c;
    return events;
}

static void plain_close(struct conn *c)
{
    (void)c;
}

static const struct conn_filter plain = { plain_read, plain_write, plain_want, plain_close };

/* ---- requests ---- */

static bool is_between_requests(const struct conn *c)
{
    return !c->protocol->ops->current(c->protocol);
}

/* May the protocol be fed? */
static bool takes_bytes(const struct conn *c)
{
    if (c->state != CONN_OPEN || c->is_failed || c->is_stream_paused)
        return false;
    return !is_between_requests(c) || (!c->is_ended && c->pipelined < limits(c)->pipeline);
}

static struct exchange *begin(void *arg)
{
    struct conn *c = arg;
    struct exchange *x = exchange_new(server_loop(c->server), c);

    memcpy(x->req.peer, c->peer, sizeof x->req.peer);
    x->req.is_loopback = c->is_loopback;
    *c->last = exchange_ref(x); /* one for the list, one for the protocol */
    c->last = &x->next;
    c->pipelined++;
    c->request_ms = now_ms(c);
    server_add_active(c->server, 1);
    return x;
}

static size_t body_max(const struct conn *c, const struct exchange *x)
{
    size_t hard = limits(c)->body_bytes;

    return x->body_max && x->body_max < hard ? x->body_max : hard;
}

static void refuse_body(struct conn *c, struct exchange *x)
{
    char text[128];

    snprintf(text, sizeof text, "the body is larger than the limit of %zu bytes", body_max(c, x));
    exchange_refuse(x, 413, text);
    conn_touch(c);
}

static void on_headers(void *arg, struct exchange *x)
{
    struct conn *c = arg;
    const struct http_handler *h = &server_opt(c->server)->handler;

    if (server_is_draining(c->server))
        x->keep_alive = false;
    h->on_headers(h->ctx, x);
    if (x->mode == BODY_UNDECIDED)
        x->mode = BODY_DISCARD;
    if (x->mode == BODY_COLLECT && x->req.has_content_length &&
        x->req.content_length > body_max(c, x))
        refuse_body(c, x);
    conn_touch(c);
}

static void set_state(struct conn *c, enum conn_state state);

static bool on_piece(void *arg, struct exchange *x, struct slice bytes)
{
    struct conn *c = arg;

    switch (x->mode) {
    case BODY_COLLECT:
        if (bytes.len > body_max(c, x) || x->body.len > body_max(c, x) - bytes.len)
            refuse_body(c, x);
        else
            buf_add_slice(&x->body, bytes);
        return true;
    case BODY_STREAM:
        c->is_stream_paused = x->is_paused = !x->on_piece(x->piece_ctx, x, bytes, false);
        return !x->is_paused;
    case BODY_UNDECIDED:
    case BODY_DISCARD:
        x->discarded += bytes.len;
        if (x->discarded > DISCARD_MAX) {
            x->keep_alive = false;
            if (!x->conn) { /* answered long ago */
                set_state(c, CONN_FLUSHING);
                conn_touch(c);
                return false;
            }
        }
        return true;
    }
    return true;
}

static bool on_complete(void *arg, struct exchange *x)
{
    struct conn *c = arg;
    const struct http_handler *h = &server_opt(c->server)->handler;

    x->is_whole = true;
    if (x->mode == BODY_COLLECT)
        h->on_request(h->ctx, x);
    else if (x->mode == BODY_STREAM)
        x->on_piece(x->piece_ctx, x, slice_of(NULL, 0), true);
    if (!x->keep_alive)
        c->is_ended = true;
    conn_touch(c);
    return takes_bytes(c);
}

/* The first exchange leaves the connection. */
static void pop_first(struct conn *c)
{
    struct exchange *x = c->first;

    c->first = x->next;
    if (!c->first)
        c->last = &c->first;
    c->pipelined--;
    c->owed = 0;
    if (x->is_paused)
        c->is_stream_paused = false;
    server_add_active(c->server, -1);
    x->conn = NULL;
    exchange_unref(x);
}

static void cancel_all(struct conn *c)
{
    while (c->first) {
        exchange_cancel(c->first);
        pop_first(c);
    }
}

/* Answers a request that cannot be read, behind those before it. */
static void fail_request(struct conn *c, int status, const char *text)
{
    struct exchange *x = c->protocol->ops->current(c->protocol);

    c->is_failed = true;
    if (!x) {
        x = begin(c);
        exchange_unref(x); /* the list has its own */
    }
    x->is_whole = true;
    x->keep_alive = false;
    if (!x->req.method)
        x->req.method = METHOD_GET;
    if (!x->conn)
        set_state(c, CONN_FLUSHING); /* answered before */
    else if (!exchange_refuse(x, status, text) && x->mode == BODY_STREAM)
        conn_close(c); /* its handler would wait for ever */
    conn_touch(c);
}

static void feed(struct conn *c, struct slice bytes, size_t *used)
{
    struct protocol_error e = c->protocol->ops->feed(c->protocol, bytes, used);

    if (e.status)
        fail_request(c, e.status, e.text);
}

/* The protocol goes on with the bytes that came while it was paused, if any. */
static void feed_rest(struct conn *c)
{
    bool has_more = true;

    while (has_more && takes_bytes(c)) {
        size_t used;
        feed(c, slice_of(c->in.ptr + c->in_used, c->in.len - c->in_used), &used);
        c->in_used += used;
        if (c->in_used == c->in.len) {
            c->in_used = 0;
            buf_release(&c->in);
            has_more = false;
        }
    }
}

/* ---- replies ---- */

static void count_reply(int status)
{
    size_t i = (size_t)status / 100;

    if (i >= 2 && i <= 5)
        metric_add(&replies[i - 2], 1);
}

enum take { TAKE_MORE, TAKE_DONE, TAKE_ABORTED };

/* Moves what an exchange, the first, has ready to out and big. */
static enum take take_reply(struct conn *c, struct exchange *x)
{
    enum take result = TAKE_MORE;

    pthread_mutex_lock(&x->lock);
    if (x->rep.is_aborted || x->rep.is_stalled) {
        result = TAKE_ABORTED;
    } else if (x->rep.is_started) {
        /* A client that waits for 100 Continue may leave its body out: what follows is unclear. */
        if (x->req.is_expecting && !x->is_whole)
            x->keep_alive = false;
        if (x->req.is_http10 && !x->rep.has_length)
            x->keep_alive = false;
        if (!x->is_head_written)
            count_reply(x->rep.status);
        c->owed += x->rep.pending.len;
        c->protocol->ops->put_reply(c->protocol, x, !x->keep_alive, &c->out, &c->big);
        if (x->rep.is_finished)
            result = TAKE_DONE;
    }
    pthread_mutex_unlock(&x->lock);
    return result;
}

static size_t unsent(const struct conn *c)
{
    return c->out.len - c->out_sent + c->big.len - c->big_sent;
}

static void set_state(struct conn *c, enum conn_state state)
{
    if (c->state >= state)
        return;
    c->state = state;
    c->state_ms = now_ms(c);
}

static void send_continue(struct conn *c, struct exchange *x)
{
    if (!x->req.is_expecting || x->is_whole || x->is_head_written ||
        (x->mode != BODY_COLLECT && x->mode != BODY_STREAM) || exchange_has_started(x))
        return;
    x->req.is_expecting = false;
    c->protocol->ops->put_continue(c->protocol, &c->out);
}

/* True: it stopped because enough is waiting to be sent. */
static bool pump(struct conn *c)
{
    while (c->state == CONN_OPEN && c->first) {
        struct exchange *x = c->first;
        if (unsent(c) >= OUT_HIGH || c->big.len)
            return true;
        send_continue(c, x);
        switch (take_reply(c, x)) {
        case TAKE_ABORTED:
            conn_close(c);
            return false;
        case TAKE_MORE:
            return false;
        case TAKE_DONE:
            break;
        }
        bool closes = !x->keep_alive;
        if (!x->is_whole)
            x->mode = BODY_DISCARD;
        pop_first(c);
        c->idle_ms = c->read_ms = now_ms(c);
        if (closes)
            set_state(c, CONN_FLUSHING);
        else
            feed_rest(c);
    }
    return false;
}

static bool send_buf(struct conn *c, struct buf *buf, size_t *sent, size_t *budget)
{
    while (*sent < buf->len && *budget) {
        size_t len = buf->len - *sent < *budget ? buf->len - *sent : *budget;
        ssize_t n = c->filter->write(c, buf->ptr + *sent, len);
        if (n < 0)
            conn_close(c);
        if (n <= 0)
            return false;
        *sent += (size_t)n;
        *budget -= (size_t)n;
        c->write_ms = now_ms(c);
        metric_add(&bytes_out, n);
    }
    if (*sent < buf->len)
        return false;
    *sent = 0;
    if (buf->cap > OUT_KEEP)
        buf_release(buf);
    else
        buf_clear(buf);
    return true;
}

/* Tells the writer of the first exchange what has left. */
static void settle(struct conn *c)
{
    size_t left = unsent(c);

    if (!c->first || c->owed <= left)
        return;
    exchange_sent(c->first, c->owed - left);
    c->owed = left;
}

static void flush(struct conn *c, size_t *budget)
{
    if (unsent(c) && send_buf(c, &c->out, &c->out_sent, budget) &&
        send_buf(c, &c->big, &c->big_sent, budget))
        c->write_ms = now_ms(c);
    if (c->state == CONN_CLOSED)
        return;
    settle(c);
    if (c->state == CONN_FLUSHING && !unsent(c)) {
        if (c->is_eof) {
            conn_close(c);
        } else {
            shutdown(c->fd, SHUT_WR);
            c->read_ms = now_ms(c);
            set_state(c, CONN_LINGERING);
        }
    }
}

static void conn_free(struct conn *c)
{
    c->protocol->ops->free(c->protocol);
    buf_release(&c->in);
    buf_release(&c->out);
    buf_release(&c->big);
    mem_free(c);
}

static void watch(struct conn *c);

/* The client has ended its side: what still runs is cancelled. */
static void end_of_file(struct conn *c)
{
    if (!c->is_eof || c->state != CONN_OPEN || (c->first && exchange_is_over(c->first)))
        return;
    cancel_all(c);
    set_state(c, CONN_FLUSHING);
}

static void on_turn_end(struct loop_task *task)
{
    struct conn *c = CONTAINER_OF(task, struct conn, turn_end);
    size_t budget = SENT_PER_TURN;
    bool is_full = true;

    if (c->state != CONN_CLOSED && !unsent(c))
        c->write_ms = now_ms(c);
    while (is_full && budget && c->state != CONN_CLOSED) {
        is_full = pump(c);
        end_of_file(c);
        if (c->state != CONN_OPEN)
            cancel_all(c);
        if (c->state != CONN_CLOSED)
            flush(c, &budget);
        is_full = is_full && c->state == CONN_OPEN && !unsent(c);
    }
    c->is_touched = false;
    if (c->state == CONN_CLOSED) {
        if (c->is_handle_closed)
            conn_free(c);
        return;
    }
    if (c->state == CONN_OPEN && !c->first && c->is_ended && is_between_requests(c) && !unsent(c))
        conn_close(c);
    else
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

static void take_bytes(struct conn *c, struct slice bytes)
{
    size_t used = 0;

    feed(c, bytes, &used);
    if (!c->is_failed && used < bytes.len)
        buf_add(&c->in, bytes.ptr + used, bytes.len - used);
}

static void read_some(struct conn *c)
{
    size_t size;
    char *bytes = server_read_buffer(c->server, &size);

    for (int i = 0; i < READS_PER_TURN; i++) {
        if (c->state != CONN_LINGERING && (!takes_bytes(c) || c->in.len))
            return;
        ssize_t n = c->filter->read(c, bytes, size);
        if (n == IO_AGAIN)
            return;
        if (n == IO_EOF && c->state == CONN_OPEN) {
            c->is_eof = c->is_failed = true;
            return;
        }
        if (n < 0) {
            conn_close(c);
            return;
        }
        c->read_ms = now_ms(c);
        metric_add(&bytes_in, n);
        if (c->state == CONN_OPEN)
            take_bytes(c, slice_of(bytes, (size_t)n));
        if ((size_t)n < size) /* the rest, if any, wakes us again */
            return;
    }
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct conn *c = handle->data;

    if (status < 0) {
        conn_close(c);
        return;
    }
    if (events & (UV_READABLE | UV_DISCONNECT))
        read_some(c);
    if (events & UV_DISCONNECT && c->state == CONN_OPEN && !takes_bytes(c))
        c->is_eof = c->is_failed = true; /* what it sent meanwhile is of no use */
    conn_touch(c);
}

/* Asks for what can be used: a paused connection still hears of the client's end. */
static void watch(struct conn *c)
{
    int events = unsent(c) ? UV_WRITABLE : 0;

    if (c->state == CONN_LINGERING || takes_bytes(c))
        events |= UV_READABLE;
    else if (c->state == CONN_OPEN && !c->is_eof)
        events |= UV_DISCONNECT;
    events = c->filter->want(c, events);
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
    x->is_paused = c->is_stream_paused = false;
    c->read_ms = now_ms(c);
    feed_rest(c);
    conn_touch(c);
}

/* ---- life ---- */

static void read_peer(struct conn *c)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;
    char text[INET6_ADDRSTRLEN] = "?";

    if (getpeername(c->fd, (struct sockaddr *)&addr, &len))
        return;
    if (addr.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&addr;
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
        snprintf(c->peer, sizeof c->peer, "%s:%u", text, ntohs(in->sin_port));
        c->is_loopback = ntohl(in->sin_addr.s_addr) >> 24 == 127;
    } else if (addr.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&addr;
        inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text);
        snprintf(c->peer, sizeof c->peer, "[%s]:%u", text, ntohs(in->sin6_port));
        c->is_loopback = IN6_IS_ADDR_LOOPBACK(&in->sin6_addr) ||
                         (IN6_IS_ADDR_V4MAPPED(&in->sin6_addr) && in->sin6_addr.s6_addr[12] == 127);
    }
}

struct conn *conn_new(struct http_server *s, int fd)
{
    struct conn *c = mem_zalloc(sizeof *c);
    int one = 1;
    struct protocol_events events = {
        .begin = begin,
        .headers = on_headers,
        .piece = on_piece,
        .complete = on_complete,
        .ctx = c,
        .header_bytes = server_opt(s)->limits.header_bytes,
        .server_name = server_opt(s)->server_name,
    };

    for (size_t i = 0; i < ARRAY_LEN(replies); i++)
        metric_register(&replies[i]);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    c->server = s;
    c->filter = &plain;
    c->last = &c->first;
    c->protocol = http1_new(&events);
    read_peer(c);
    uv_poll_init((uv_loop_t *)loop_uv(server_loop(s)), &c->poll, fd);
    c->poll.data = c;
    c->request_ms = c->read_ms = c->write_ms = c->idle_ms = c->state_ms = now_ms(c);
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

    c->is_handle_closed = true;
    if (!c->is_touched)
        conn_free(c);
}

void conn_close(struct conn *c)
{
    if (c->state == CONN_CLOSED)
        return;
    set_state(c, CONN_CLOSED);
    cancel_all(c);
    *c->link.prev = c->link.next;
    if (c->link.next)
        conn_link(c->link.next)->prev = c->link.prev;
    c->filter->close(c);
    uv_close((uv_handle_t *)&c->poll,
             on_closed); /* leaves epoll at once, before the number is free */
    close(c->fd);
    server_conn_closed(c->server);
}

void conn_drain(struct conn *c)
{
    c->is_ended = true;
    for (struct exchange *x = c->first; x; x = x->next)
        if (!x->next)
            x->keep_alive = false; /* those before it are answered first */
    conn_touch(c);
}

static void sweep_reading(struct conn *c, uint64_t now)
{
    if (!c->protocol->ops->in_body(c->protocol)) {
        if (now - c->request_ms > limits(c)->header_ms)
            fail_request(c, 408, "the headers did not arrive in time");
    } else if (now - c->read_ms > limits(c)->body_ms) {
        fail_request(c, 408, "the body did not arrive in time");
    }
}

/* The client does not read. What leaves the kernel's queue counts, too. */
static bool is_stalled(struct conn *c, uint64_t now)
{
    int queued = 0;

    if (now - c->write_ms <= limits(c)->body_ms / 4)
        return false;
    if (!ioctl(c->fd, SIOCOUTQ, &queued) && queued < c->queued)
        c->write_ms = now;
    c->queued = queued;
    return now - c->write_ms > limits(c)->body_ms;
}

void conn_sweep(struct conn *c, uint64_t now)
{
    switch (c->state) {
    case CONN_LINGERING:
        if (now - c->read_ms > LINGER_MS || now - c->state_ms > LINGER_ALL_MS)
            conn_close(c);
        return;
    case CONN_OPEN:
    case CONN_FLUSHING:
        if (unsent(c)) {
            if (is_stalled(c, now))
                conn_close(c);
        } else if (!is_between_requests(c)) {
            if (takes_bytes(c))
                sweep_reading(c, now);
        } else if (!c->first && now - c->idle_ms > limits(c)->idle_ms) {
            conn_close(c);
        }
        return;
    case CONN_CLOSED:
        return;
    }
}
