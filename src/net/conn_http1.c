/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1: requests one after the other, read ahead up to a limit, and answered
 * in their order: only the first exchange is asked for its reply. The parser is
 * not fed between requests once enough are read ahead or the connection ends,
 * and not inside a body that its handler has paused.
 */
#include "net/conn_private.h"
#include "net/http1.h"

static bool is_between_requests(const struct conn *c)
{
    return !http1_current(c->http1);
}

static bool takes_bytes(const struct conn *c)
{
    if (c->is_stream_paused)
        return false;
    return !is_between_requests(c) || (!c->is_ended && c->exchanges < conn_limits(c)->pipeline);
}

/* ---- bytes to exchanges ---- */

static struct exchange *begin(void *arg)
{
    struct conn *c = arg;

    c->request_ms = conn_now_ms(c);
    return conn_begin(c);
}

static void on_headers(void *arg, struct exchange *x)
{
    struct conn *c = arg;

    if (server_is_draining(c->server))
        x->keep_alive = false;
    conn_headers(c, x);
}

static bool on_piece(void *arg, struct exchange *x, struct slice bytes)
{
    struct conn *c = arg;

    switch (conn_piece(c, x, bytes)) {
    case PIECE_TAKEN:
        return true;
    case PIECE_PAUSED:
        c->is_stream_paused = true;
        return false;
    case PIECE_TOO_MUCH:
        x->keep_alive = false;
        if (x->conn)
            return true;
        conn_set_state(c, CONN_FLUSHING); /* answered long ago */
        conn_touch(c);
        return false;
    }
    return true;
}

static bool on_complete(void *arg, struct exchange *x)
{
    struct conn *c = arg;

    conn_complete(c, x);
    if (!x->keep_alive)
        c->is_ended = true;
    return conn_takes_bytes(c);
}

void conn_speak_http1(struct conn *c)
{
    struct protocol_events events = {
        .begin = begin,
        .headers = on_headers,
        .piece = on_piece,
        .complete = on_complete,
        .ctx = c,
        .header_bytes = conn_limits(c)->header_bytes,
        .server_name = server_opt(c->server)->server_name,
    };

    c->protocol = &conn_http1;
    c->http1 = http1_new(&events);
}

void conn_fail_request(struct conn *c, int status, const char *text)
{
    struct exchange *x = http1_current(c->http1);

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

static void feed_some(struct conn *c, struct slice bytes, size_t *used)
{
    struct protocol_error e = http1_feed(c->http1, bytes, used);

    if (e.status)
        conn_fail_request(c, e.status, e.text);
}

/* The parser goes on with the bytes that came while it was paused, if any. */
static void feed_rest(struct conn *c)
{
    bool has_more = true;

    while (has_more && conn_takes_bytes(c)) {
        size_t used;
        struct slice rest = buf_slice(&c->in); /* NULL when nothing came */
        if (rest.len)
            rest = slice_of(rest.ptr + c->in_used, rest.len - c->in_used);
        feed_some(c, rest, &used);
        c->in_used += used;
        if (c->in_used == c->in.len) {
            c->in_used = 0;
            buf_release(&c->in);
            has_more = false;
        }
    }
}

static void feed(struct conn *c, struct slice bytes)
{
    size_t used = 0;

    feed_some(c, bytes, &used);
    if (!c->is_failed && used < bytes.len)
        buf_add(&c->in, bytes.ptr + used, bytes.len - used);
}

static void resume(struct conn *c, struct exchange *x)
{
    (void)x;
    c->is_stream_paused = false;
    feed_rest(c);
}

/* ---- exchanges to bytes ---- */

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
        c->owed += x->rep.pending.len;
        http1_put_reply(c->http1, x, !x->keep_alive, &c->out, &c->big);
        if (x->rep.is_finished)
            result = TAKE_DONE;
    }
    pthread_mutex_unlock(&x->lock);
    return result;
}

static void send_continue(struct conn *c, struct exchange *x)
{
    if (!x->req.is_expecting || x->is_whole || x->is_head_written ||
        (x->mode != BODY_COLLECT && x->mode != BODY_STREAM) || exchange_has_started(x))
        return;
    x->req.is_expecting = false;
    http1_put_continue(&c->out);
}

/* A client that is still busy with a reply need not go on with its next request. */
static void excuse(struct conn *c)
{
    if (!is_between_requests(c))
        http1_current(c->http1)->read_ms = conn_now_ms(c);
}

/* The first exchange has been answered; the next one's turn. */
static void finish_first(struct conn *c)
{
    struct exchange *x = c->first;
    bool closes = !x->keep_alive;

    if (!x->is_whole)
        x->mode = BODY_DISCARD;
    if (x->is_paused)
        c->is_stream_paused = false;
    c->owed = 0;
    conn_note_end(c, x);
    conn_drop(c, x);
    excuse(c);
    if (closes)
        conn_set_state(c, CONN_FLUSHING);
    else
        feed_rest(c);
}

/* The client has ended its side: only a reply that is complete is still sent. */
static void end_of_file(struct conn *c)
{
    if (c->is_eof && c->state == CONN_OPEN && !(c->first && exchange_is_over(c->first)))
        conn_set_state(c, CONN_FLUSHING);
}

static bool pump(struct conn *c)
{
    bool is_full = false, goes_on = true;

    while (goes_on && c->state == CONN_OPEN && c->first) {
        is_full = conn_unsent(c) >= CONN_OUT_HIGH || c->big.len;
        if (is_full)
            break;
        send_continue(c, c->first);
        switch (take_reply(c, c->first)) {
        case TAKE_ABORTED:
            conn_close(c);
            return false;
        case TAKE_MORE:
            goes_on = false;
            break;
        case TAKE_DONE:
            finish_first(c);
            break;
        }
    }
    end_of_file(c);
    return is_full;
}

/* The first exchange is asked at the end of each turn. */
static void ready(struct conn *c, struct exchange *x)
{
    (void)c, (void)x;
}

/* ---- time and end ---- */

static void sweep_reading(struct conn *c, uint64_t now)
{
    if (!http1_in_body(c->http1)) {
        if (now - c->request_ms > conn_limits(c)->header_ms)
            conn_fail_request(c, 408, "the headers did not arrive in time");
    } else if (now - http1_current(c->http1)->read_ms > conn_limits(c)->body_ms) {
        conn_fail_request(c, 408, "the body did not arrive in time");
    }
}

static void sweep(struct conn *c, uint64_t now)
{
    if (conn_unsent(c)) {
        excuse(c);
    } else if (!is_between_requests(c)) {
        if (conn_takes_bytes(c))
            sweep_reading(c, now);
    } else if (!c->first && now - c->idle_ms > conn_limits(c)->idle_ms) {
        conn_close(c);
    }
}

static void end(struct conn *c)
{
    for (struct exchange *x = c->first; x; x = x->next)
        if (!x->next)
            x->keep_alive = false; /* those before it are answered first */
}

static bool is_over(const struct conn *c)
{
    return !c->first && c->is_ended && is_between_requests(c);
}

static bool is_idle(const struct conn *c)
{
    return is_between_requests(c) && !c->in.len;
}

static void free_it(struct conn *c)
{
    http1_free(c->http1);
}

const struct conn_protocol conn_http1 = {
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
