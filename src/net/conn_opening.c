/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that has not said yet what it speaks. */
#include "net/conn_private.h"
#include "net/tls.h"

static bool takes_bytes(const struct conn *c)
{
    return !c->is_ended;
}

/*
 * TLS says what will be spoken. Without it (or when the client leaves it open)
 * HTTP/2 begins with a preface that looks like a request of the method PRI.
 */
static void choose(struct conn *c)
{
    if ((c->tls && tls_is_http2(c->tls)) || !memcmp(c->lead, "PRI", sizeof c->lead))
        conn_speak_http2(c);
    else
        conn_speak_http1(c);
    c->protocol->feed(c, slice_of(c->lead, c->lead_len));
}

static void feed(struct conn *c, struct slice bytes)
{
    size_t n = 0;

    while (n < bytes.len && c->lead_len < sizeof c->lead)
        c->lead[c->lead_len++] = bytes.ptr[n++];
    if (c->lead_len < sizeof c->lead && !memcmp(c->lead, "PRI", c->lead_len))
        return;
    choose(c);
    if (n < bytes.len)
        c->protocol->feed(c, slice_of(bytes.ptr + n, bytes.len - n));
}

static void nothing(struct conn *c, struct exchange *x)
{
    (void)c, (void)x;
}

static bool pump(struct conn *c)
{
    if (c->is_eof)
        conn_set_state(c, CONN_FLUSHING);
    return false;
}

/* A handshake is not idle, and neither is the beginning of a request. */
static bool is_idle(const struct conn *c)
{
    return !c->lead_len && (!c->tls || tls_is_up(c->tls));
}

static void sweep(struct conn *c, uint64_t now)
{
    if (now - c->idle_ms > (is_idle(c) ? conn_limits(c)->idle_ms : conn_limits(c)->header_ms))
        conn_close(c);
}

static void end(struct conn *c)
{
    (void)c;
}

static bool is_over(const struct conn *c)
{
    return c->is_ended;
}

const struct conn_protocol conn_opening = {
    .takes_bytes = takes_bytes,
    .feed = feed,
    .ready = nothing,
    .resume = nothing,
    .pump = pump,
    .sweep = sweep,
    .end = end,
    .is_over = is_over,
    .is_idle = is_idle,
    .free = end,
};
