/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2: requests side by side, each answered when it is ready. What takes too
 * long ends its stream only; the connection ends when headers do not come to an
 * end, when the client reads nothing at all, or when nothing has been asked for
 * a while (PING does not count).
 */
#include "net/conn_private.h"
#include "net/http2.h"

enum { TENTH_MS = 100 };

/* ---- what the session asks ---- */

static struct exchange *begin(void *arg)
{
    struct conn *c = arg;
    struct exchange *x = conn_begin(c);

    x->read_ms = x->write_ms = conn_now_ms(c);
    return x;
}

static void on_headers(void *arg, struct exchange *x)
{
    conn_headers(arg, x);
}

static bool on_piece(void *arg, struct exchange *x, struct slice bytes)
{
    struct conn *c = arg;

    switch (conn_piece(c, x, bytes)) {
    case PIECE_TAKEN:
        return true;
    case PIECE_PAUSED:
        return false;
    case PIECE_TOO_MUCH:
        if (http2_is_answered(x))
            http2_cancel(c->http2, x);
        return true;
    }
    return true;
}

static bool on_complete(void *arg, struct exchange *x)
{
    conn_complete(arg, x);
    return true;
}

static void on_sent(void *arg, struct exchange *x, size_t bytes)
{
    x->write_ms = conn_credit(arg, x->write_ms, bytes * MS_PER_BYTE);
}

/* A request that is still arriving is read on for a while, so that its client gets to the reply. */
static void on_answered(void *arg, struct exchange *x)
{
    struct conn *c = arg;

    x->is_paused = false;
    if (!x->conn)
        return;
    conn_note_end(c, x);
    if (x->is_whole) {
        conn_drop(c, x);
        return;
    }
    x->mode = BODY_DISCARD;
    if (c->is_ended)
        http2_cancel(c->http2, x);
}

static void on_stream_gone(void *arg, struct exchange *x)
{
    if (!x->conn)
        return;
    exchange_cancel(x);
    conn_drop(arg, x);
}

void conn_speak_http2(struct conn *c)
{
    struct http2_options opt = {
        .events = { .begin = begin,
                    .headers = on_headers,
                    .piece = on_piece,
                    .complete = on_complete,
                    .ctx = c,
                    .header_bytes = conn_limits(c)->header_bytes,
                    .server_name = server_opt(c->server)->server_name },
        .sent = on_sent,
        .answered = on_answered,
        .gone = on_stream_gone,
        .streams = (uint32_t)conn_limits(c)->streams,
    };

    c->protocol = &conn_http2;
    c->http2 = http2_new(&opt);
}

/* ---- what the connection asks ---- */

static bool takes_bytes(const struct conn *c)
{
    (void)c;
    return true;
}

static void feed(struct conn *c, struct slice bytes)
{
    uint64_t tenths = (conn_now_ms(c) - c->relaxed_ms) / TENTH_MS;

    http2_relax(c->http2, tenths);
    c->relaxed_ms += tenths * TENTH_MS;
    if (!http2_feed(c->http2, bytes))
        c->is_failed = true;
}

static void ready(struct conn *c, struct exchange *x)
{
    http2_ready(c->http2, x);
}

static void resume(struct conn *c, struct exchange *x)
{
    http2_resume(c->http2, x);
}

/* The last words of a connection that ends are sent, too. */
static bool pump(struct conn *c)
{
    size_t unsent = conn_unsent(c);
    bool is_full = unsent >= CONN_OUT_HIGH;

    if (c->state != CONN_OPEN)
        return false;
    if (!is_full)
        is_full = http2_put(c->http2, &c->out, c->out.len + CONN_OUT_HIGH - unsent);
    if (c->is_failed || http2_is_over(c->http2) || (c->is_ended && !c->first && !is_full))
        conn_set_state(c, CONN_FLUSHING);
    return is_full;
}

static void refuse_late(struct conn *c, struct exchange *x)
{
    if (!exchange_refuse(x, 408, "the body did not arrive in time"))
        http2_cancel(c->http2, x);
}

/* A reply that waits for the client's window. While the socket is full, every stream waits. */
static bool is_unread(struct conn *c, struct exchange *x, uint64_t now)
{
    if (conn_unsent(c) || !exchange_unsent(x))
        x->write_ms = now;
    return now - x->write_ms > conn_limits(c)->body_ms;
}

static void sweep_exchange(struct conn *c, struct exchange *x, uint64_t now)
{
    if (!http2_has_head(x)) {
        if (now - x->read_ms > conn_limits(c)->header_ms)
            http2_give_up(c->http2);
    } else if (!x->is_whole && !x->is_paused && now - x->read_ms > conn_limits(c)->body_ms) {
        x->read_ms = now;
        refuse_late(c, x);
    } else if (is_unread(c, x, now)) {
        http2_cancel(c->http2, x);
    } else {
        return;
    }
    conn_touch(c);
}

static void end(struct conn *c)
{
    http2_end(c->http2);
    for (struct exchange *x = c->first; x; x = x->next)
        if (http2_is_answered(x))
            http2_cancel(c->http2, x);
}

static void sweep(struct conn *c, uint64_t now)
{
    struct exchange *x = c->first;

    while (x) {
        struct exchange *next = x->next;
        sweep_exchange(c, x, now);
        x = next;
    }
    if (!c->first && !c->is_ended && now - c->idle_ms > conn_limits(c)->idle_ms)
        conn_drain(c);
}

/* The pump ends it, so that its client may read what was said last. */
static bool is_over(const struct conn *c)
{
    (void)c;
    return false;
}

static bool is_idle(const struct conn *c)
{
    return !c->first;
}

static void free_it(struct conn *c)
{
    http2_free(c->http2);
}

const struct conn_protocol conn_http2 = {
    .takes_bytes = takes_bytes,
    .feed = feed,
    .ready = ready,
    .resume = resume,
    .pump = pump,
    .sweep = sweep,
    .end = end,
    .is_over = is_over,
    .is_idle = is_idle,
    .free = free_it,
};
