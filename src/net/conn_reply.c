/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges to bytes. Only the first exchange is asked, so answers keep the
 * order of the requests; it is told what has left, so that its writer can wait.
 */
#include "base/env.h"
#include "base/metrics.h"
#include "net/conn_private.h"
#include <sys/socket.h>

enum {
    OUT_HIGH = 256 * KIB, /* no more replies are taken above */
    OUT_KEEP = 64 * KIB,  /* memory kept for the next reply */
};

static struct metric bytes_out = METRIC_COUNTER("themis_http_sent_bytes_total", "Bytes written.");
static struct metric request_seconds =
    METRIC_HISTOGRAM("themis_http_request_duration_seconds",
                     "From the first byte of a request to the last byte of its reply.");
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

static void count_reply(int status)
{
    size_t i = (size_t)status / 100;

    for (size_t j = 0; j < ARRAY_LEN(replies); j++) /* rows of zero are shown, too */
        metric_register(&replies[j]);
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

size_t conn_unsent(const struct conn *c)
{
    return c->out.len - c->out_sent + c->big.len - c->big_sent;
}

static void send_continue(struct conn *c, struct exchange *x)
{
    if (!x->req.is_expecting || x->is_whole || x->is_head_written ||
        (x->mode != BODY_COLLECT && x->mode != BODY_STREAM) || exchange_has_started(x))
        return;
    x->req.is_expecting = false;
    c->protocol->ops->put_continue(c->protocol, &c->out);
}

bool conn_pump(struct conn *c)
{
    while (c->state == CONN_OPEN && c->first) {
        struct exchange *x = c->first;
        if (conn_unsent(c) >= OUT_HIGH || c->big.len)
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
        buf_add(&c->ended, &x->begun_us, sizeof x->begun_us);
        if (!x->is_whole)
            x->mode = BODY_DISCARD;
        conn_pop_first(c);
        c->idle_ms = c->read_ms = conn_now_ms(c);
        if (closes)
            conn_set_state(c, CONN_FLUSHING);
        else
            conn_feed_rest(c);
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
        c->write_ms = conn_now_ms(c);
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
    size_t left = conn_unsent(c);

    if (!c->first || c->owed <= left)
        return;
    exchange_sent(c->first, c->owed - left);
    c->owed = left;
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
    if (!conn_unsent(c))
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
