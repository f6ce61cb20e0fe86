/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes out, and telling the writer of a reply what has left. */
#include "base/env.h"
#include "base/metrics.h"
#include "net/conn_private.h"
#include <sys/socket.h>

enum {
    OUT_KEEP = 64 * KIB,  /* memory kept for the next reply */
    ENDED_MAX = 64 * KIB, /* durations are taken early above */
};

static struct metric bytes_out = METRIC_COUNTER("themis_http_sent_bytes_total", "Bytes written.");

static struct metric request_seconds =
    METRIC_HISTOGRAM("themis_http_request_duration_seconds",
                     "From the first byte of a request to the last byte of its reply.");

size_t conn_unsent(const struct conn *c)
{
    return c->out.len - c->out_sent + c->big.len - c->big_sent;
}

/* What has been sent does not pile up before a client that is never quite done. */
static void forget_sent(struct buf *buf, size_t *sent)
{
    if (*sent >= OUT_KEEP && *sent >= buf->len / 2) {
        buf_drop(buf, *sent);
        *sent = 0;
    }
}

static bool send_buf(struct conn *c, struct buf *buf, size_t *sent, size_t *budget)
{
    while (*sent < buf->len && *budget) {
        size_t len = buf->len - *sent < *budget ? buf->len - *sent : *budget;
        ssize_t n = c->filter->write(c, buf->ptr + *sent, len);
        if (n < 0)
            conn_close(c);
        if (n <= 0)
            break;
        *sent += (size_t)n;
        *budget -= (size_t)n;
        c->write_ms = conn_credit(c, c->write_ms, (uint64_t)n * MS_PER_BYTE);
        metric_add(&bytes_out, n);
    }
    if (*sent < buf->len) {
        forget_sent(buf, sent);
        return false;
    }
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
    size_t left = conn_unsent(c);

    if (!c->first || c->owed <= left)
        return;
    exchange_sent(c->first, c->owed - left);
    c->owed = left;
}

void conn_note_end(struct conn *c, const struct exchange *x)
{
    buf_add(&c->ended, &x->begun_us, sizeof x->begun_us);
}

/* All that was ready has left. */
static void measure_ended(struct conn *c)
{
    uint64_t now_us = c->ended.len ? env_mono_us(env_system()) : 0, begun_us;

    for (size_t at = 0; at < c->ended.len; at += sizeof begun_us) {
        memcpy(&begun_us, c->ended.ptr + at, sizeof begun_us);
        metric_observe_us(&request_seconds, now_us - begun_us);
    }
    buf_clear(&c->ended);
}

void conn_flush(struct conn *c, size_t *budget)
{
    if (conn_unsent(c) && send_buf(c, &c->out, &c->out_sent, budget) &&
        send_buf(c, &c->big, &c->big_sent, budget))
        c->write_ms = conn_now_ms(c);
    if (c->state == CONN_CLOSED)
        return;
    settle(c);
    if (!conn_unsent(c) || c->ended.len > ENDED_MAX)
        measure_ended(c);
    if (c->state == CONN_FLUSHING && !conn_unsent(c)) {
        if (c->is_eof) {
            conn_close(c);
        } else {
            c->filter->end(c);
            shutdown(c->fd, SHUT_WR);
            c->read_ms = conn_now_ms(c);
            conn_set_state(c, CONN_LINGERING);
        }
    }
}
