/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes to exchanges. The protocol is fed while it may read: not between
 * requests once the pipeline is full or the connection ends, and not inside a
 * body that its handler has paused.
 */
#include "base/env.h"
#include "net/conn_private.h"
#include <stdio.h>

enum { DISCARD_MAX = 4 * MIB }; /* unread body that is worth a kept connection */

bool conn_is_between_requests(const struct conn *c)
{
    return !c->protocol->ops->current(c->protocol);
}

bool conn_takes_bytes(const struct conn *c)
{
    if (c->state != CONN_OPEN || c->is_failed || c->is_stream_paused)
        return false;
    return !conn_is_between_requests(c) ||
           (!c->is_ended && c->pipelined < conn_limits(c)->pipeline);
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
    c->request_ms = conn_now_ms(c);
    x->begun_us = env_mono_us(env_system());
    server_add_active(c->server, 1);
    return x;
}

static size_t body_max(const struct conn *c, const struct exchange *x)
{
    size_t hard = conn_limits(c)->body_bytes;

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
                conn_set_state(c, CONN_FLUSHING);
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
    return conn_takes_bytes(c);
}

void conn_pop_first(struct conn *c)
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

void conn_cancel_all(struct conn *c)
{
    while (c->first) {
        exchange_cancel(c->first);
        conn_pop_first(c);
    }
}

void conn_fail_request(struct conn *c, int status, const char *text)
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
        conn_set_state(c, CONN_FLUSHING); /* answered before */
    else if (!exchange_refuse(x, status, text) && x->mode == BODY_STREAM)
        conn_close(c); /* its handler would wait for ever */
    conn_touch(c);
}

static void feed(struct conn *c, struct slice bytes, size_t *used)
{
    struct protocol_error e = c->protocol->ops->feed(c->protocol, bytes, used);

    if (e.status)
        conn_fail_request(c, e.status, e.text);
}

void conn_feed_rest(struct conn *c)
{
    bool has_more = true;

    while (has_more && conn_takes_bytes(c)) {
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

void conn_feed(struct conn *c, struct slice bytes)
{
    size_t used = 0;

    feed(c, bytes, &used);
    if (!c->is_failed && used < bytes.len)
        buf_add(&c->in, bytes.ptr + used, bytes.len - used);
}

struct protocol_events conn_events(struct conn *c)
{
    return (struct protocol_events){
        .begin = begin,
        .headers = on_headers,
        .piece = on_piece,
        .complete = on_complete,
        .ctx = c,
        .header_bytes = conn_limits(c)->header_bytes,
        .server_name = server_opt(c->server)->server_name,
    };
}
