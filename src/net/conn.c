/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket and the turns: read and feed the protocol, and at the end of the
 * turn take replies and flush once.
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
#include "base/env.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/metrics.h"
#include "net/conn_private.h"
#include "net/tls.h"
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
    SENT_PER_TURN = 2 * MIB, /* then others get their turn */
    READS_PER_TURN = 8,
    LINGER_MS = 2000, /* silence of a client that was told to go */
    LINGER_ALL_MS = 15000,
};

static struct metric bytes_in = METRIC_COUNTER("themis_http_received_bytes_total", "Bytes read.");

const struct http_limits *conn_limits(const struct conn *c)
{
    return &server_opt(c->server)->limits;
}

uint64_t conn_now_ms(const struct conn *c)
{
    return loop_now_ms(server_loop(c->server));
}

uint64_t conn_credit(const struct conn *c, uint64_t since_ms, uint64_t earned_ms)
{
    uint64_t now = conn_now_ms(c);

    return earned_ms < now - since_ms ? since_ms + earned_ms : now;
}

void conn_set_state(struct conn *c, enum conn_state state)
{
    if (c->state >= state)
        return;
    c->state = state;
    c->state_ms = conn_now_ms(c);
}

/* ---- turns ---- */

bool conn_takes_bytes(const struct conn *c)
{
    return c->state == CONN_OPEN && !c->is_failed && c->protocol->takes_bytes(c);
}

static void conn_free(struct conn *c)
{
    tls_free(c->tls);
    mem_free(c->peer_name);
    c->protocol->free(c);
    buf_release(&c->in);
    buf_release(&c->out);
    buf_release(&c->big);
    buf_release(&c->ended);
    mem_free(c);
}

static void watch(struct conn *c);

/* The server's sweeps leave it out while it is idle. */
static void note_idle(struct conn *c)
{
    bool is_idle = c->state == CONN_OPEN && !c->first && !c->is_ended && !c->is_failed &&
                   !conn_unsent(c) && c->protocol->is_idle(c);

    if (is_idle == c->is_idle)
        return;
    c->is_idle = is_idle;
    c->idle_ms = conn_now_ms(c);
    server_rest(c->server, c, is_idle);
}

static void on_turn_end(struct loop_task *task)
{
    struct conn *c = CONTAINER_OF(task, struct conn, turn_end);
    size_t budget = SENT_PER_TURN;
    bool is_full = true;

    if (c->state != CONN_CLOSED && !conn_unsent(c))
        c->write_ms = conn_now_ms(c);
    while (is_full && budget && c->state != CONN_CLOSED) {
        is_full = c->protocol->pump(c);
        if (c->state != CONN_OPEN)
            conn_cancel_all(c);
        if (c->state != CONN_CLOSED)
            conn_flush(c, &budget);
        is_full = is_full && c->state == CONN_OPEN && !conn_unsent(c);
    }
    c->is_touched = false;
    if (c->state == CONN_CLOSED) {
        if (c->is_handle_closed)
            conn_free(c);
        return;
    }
    if (c->state == CONN_OPEN && !conn_unsent(c) && c->protocol->is_over(c))
        conn_close(c);
    else
        watch(c);
    if (c->state != CONN_CLOSED)
        note_idle(c);
}

void conn_ready(struct conn *c, struct exchange *x)
{
    if (c->state == CONN_OPEN)
        c->protocol->ready(c, x);
    conn_touch(c);
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

static void read_some(struct conn *c)
{
    size_t size;
    char *bytes = server_read_buffer(c->server, &size);

    for (int i = 0; i < READS_PER_TURN; i++) {
        if (c->state != CONN_LINGERING && (!conn_takes_bytes(c) || c->in.len))
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
        c->read_ms = conn_now_ms(c);
        c->read_us = env_mono_us(env_system());
        metric_add(&bytes_in, n);
        if (c->state == CONN_OPEN)
            c->protocol->feed(c, slice_of(bytes, (size_t)n));
        if ((size_t)n < size && !c->filter->has_more(c)) /* what comes later wakes us again */
            return;
    }
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct conn *c = handle->data;

    if (status < 0 || fault_hit("conn.event")) {
        conn_close(c);
        return;
    }
    if (events & (UV_READABLE | UV_DISCONNECT) || c->filter->has_more(c))
        read_some(c);
    if (events & UV_DISCONNECT && c->state == CONN_OPEN && !conn_takes_bytes(c))
        c->is_eof = c->is_failed = true; /* what it sent meanwhile is of no use */
    conn_touch(c);
}

/* Asks for what can be used: a paused connection still hears of the client's end. */
static void watch(struct conn *c)
{
    int events = conn_unsent(c) ? UV_WRITABLE : 0;

    if (c->state == CONN_LINGERING || conn_takes_bytes(c))
        events |= UV_READABLE;
    else if (c->state == CONN_OPEN && !c->is_eof)
        events |= UV_DISCONNECT;
    events = c->filter->want(c, events);
    if (events == c->events)
        return;
    c->events = events;
    if (events)
        uv_poll_start(c->poll, events, on_poll);
    else
        uv_poll_stop(c->poll);
}

void conn_resume(struct conn *c, struct exchange *x)
{
    if (!x->is_paused)
        return;
    x->is_paused = false;
    x->read_ms = conn_credit(c, x->read_ms, conn_now_ms(c) - x->paused_ms);
    c->protocol->resume(c, x);
    conn_touch(c);
}

/* ---- life ---- */

static void read_peer(struct conn *c)
{
    struct sockaddr_storage addr = { 0 };
    socklen_t len = sizeof addr;
    char text[INET6_ADDRSTRLEN] = "?";

    if (fault_hit("conn.peer") || getpeername(c->fd, (struct sockaddr *)&addr, &len))
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

static uv_poll_t *watcher_new(struct http_server *s, int fd)
{
    uv_poll_t *poll = mem_zalloc(sizeof *poll);
    int why = fault_hit("conn.poll") ? UV_ENOMEM
                                     : uv_poll_init((uv_loop_t *)loop_uv(server_loop(s)), poll, fd);

    if (!why)
        return poll;
    log_warn("net", "a connection is closed because it cannot be watched: %s", uv_strerror(why));
    mem_free(poll);
    return NULL;
}

static struct conn *make(struct http_server *s, int fd, const struct tls_config *tls)
{
    struct conn *c = mem_zalloc(sizeof *c);
    int one = 1;

    c->poll = watcher_new(s, fd);
    if (!c->poll) {
        close(fd);
        mem_free(c);
        return NULL;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    c->server = s;
    c->filter = tls ? &conn_filter_tls : &conn_filter_plain;
    c->tls = tls ? tls_accept(tls, fd) : NULL;
    c->last = &c->first;
    c->protocol = &conn_opening;
    read_peer(c);
    c->poll->data = c;
    c->request_ms = c->read_ms = c->write_ms = c->idle_ms = c->state_ms = c->relaxed_ms =
        conn_now_ms(c);
    c->read_us = env_mono_us(env_system());
    return c;
}

struct conn *conn_new(struct http_server *s, int fd, const struct tls_config *tls)
{
    struct conn *c = make(s, fd, tls);

    if (c)
        watch(c);
    return c;
}

struct conn *conn_turn_away(struct http_server *s, int fd, struct slice words)
{
    struct conn *c = make(s, fd, NULL);

    if (!c)
        return NULL;
    c->is_turned_away = c->is_ended = true;
    buf_add_slice(&c->out, words);
    conn_set_state(c, CONN_FLUSHING);
    conn_touch(c);
    return c;
}

struct conn_link *conn_link(struct conn *c)
{
    return &c->link;
}

static void on_closed(uv_handle_t *handle)
{
    struct conn *c = handle->data;

    mem_free(handle);
    c->is_handle_closed = true;
    if (!c->is_touched)
        conn_free(c);
}

void conn_close(struct conn *c)
{
    if (c->state == CONN_CLOSED)
        return;
    if (!c->first && !conn_unsent(c))
        c->filter->end(c);
    conn_set_state(c, CONN_CLOSED);
    conn_cancel_all(c);
    uv_close((uv_handle_t *)c->poll,
             on_closed); /* leaves epoll at once, before the number is free */
    close(c->fd);
    server_conn_closed(c->server, c, c->is_turned_away);
}

bool conn_is_sending(const struct conn *c)
{
    return conn_unsent(c) > 0;
}

void conn_drain(struct conn *c)
{
    c->is_ended = true;
    c->protocol->end(c);
    conn_touch(c);
}

/* The client does not read. What leaves the kernel's queue counts, too. */
static bool is_stalled(struct conn *c, uint64_t now)
{
    int queued = 0;

    if (now - c->write_ms <= conn_limits(c)->body_ms / 4)
        return false;
    if (!ioctl(c->fd, SIOCOUTQ, &queued) && queued < c->queued)
        c->write_ms = conn_credit(c, c->write_ms, (uint64_t)(c->queued - queued) * MS_PER_BYTE);
    c->queued = queued;
    return now - c->write_ms > conn_limits(c)->body_ms;
}

void conn_shrink(struct conn *c)
{
    buf_release(&c->out);
    buf_release(&c->ended);
}

uint64_t conn_idle_since(const struct conn *c)
{
    return c->idle_ms;
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
        if (conn_unsent(c) && is_stalled(c, now))
            conn_close(c);
        else
            c->protocol->sweep(c, now);
        return;
    case CONN_CLOSED:
        return;
    }
}
