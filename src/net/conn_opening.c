/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that has not said yet what it speaks. */
#include "net/conn_private.h"
#include "net/tls.h"

static bool takes_bytes(const struct conn *c)
{
    return !c->is_ended;
}

static void feed(struct conn *c, struct slice bytes)
{
    conn_speak_http1(c);
    c->protocol->feed(c, bytes);
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

/* A handshake is not idle. */
static void sweep(struct conn *c, uint64_t now)
{
    bool is_shaking = c->tls && !tls_is_up(c->tls);

    if (now - c->idle_ms > (is_shaking ? conn_limits(c)->header_ms : conn_limits(c)->idle_ms))
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
    .free = end,
};
