/* SPDX-License-Identifier: Apache-2.0 */
/* A request and its handler, the same for every protocol. */
#include "net/conn_private.h"
#include "net/tls.h"
#include <stdio.h>
#include <strings.h>

enum { DISCARD_MAX = 4 * MIB }; /* unread body that is worth a kept connection */

/* Once: the certificate of a connection does not change. */
static void read_name(struct conn *c)
{
    char name[256];

    c->is_named = true;
    if (c->tls && tls_peer_name(c->tls, name, sizeof name))
        c->peer_name = mem_strdup(name);
}

struct exchange *conn_begin(struct conn *c)
{
    struct exchange *x = exchange_new(server_loop(c->server), c);

    memcpy(x->req.peer, c->peer, sizeof x->req.peer);
    x->req.is_loopback = c->is_loopback;
    if (!c->is_named)
        read_name(c);
    x->req.peer_name = c->peer_name ? mem_strdup(c->peer_name) : NULL;
    x->req.gzip_bytes = conn_limits(c)->gzip_bytes;
    x->prev = c->last;
    *c->last = exchange_ref(x); /* one for the list, one for the protocol */
    c->last = &x->next;
    c->exchanges++;
    x->begun_us = c->read_us;
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

static bool is_encoded(const struct exchange *x)
{
    struct slice coding = exchange_header(x, "content-encoding");

    return coding.len && (coding.len != 8 || strncasecmp(coding.ptr, "identity", 8) != 0);
}

/* A body that unpacks to anything is not worth what it saves. */
static void ask_handler(struct conn *c, struct exchange *x)
{
    const struct http_handler *h = &server_opt(c->server)->handler;

    if (is_encoded(x))
        exchange_refuse(x, 415,
                        "compressed request bodies are not taken: send it without "
                        "Content-Encoding");
    else
        h->on_headers(h->ctx, x);
}

void conn_headers(struct conn *c, struct exchange *x)
{
    x->read_ms = conn_now_ms(c);
    ask_handler(c, x);
    if (x->mode == BODY_UNDECIDED)
        x->mode = BODY_DISCARD;
    if (x->mode == BODY_COLLECT && x->req.has_content_length &&
        x->req.content_length > body_max(c, x))
        refuse_body(c, x);
    conn_touch(c);
}

enum conn_piece conn_piece(struct conn *c, struct exchange *x, struct slice bytes)
{
    x->read_ms = conn_credit(c, x->read_ms, bytes.len * MS_PER_BYTE);
    switch (x->mode) {
    case BODY_COLLECT:
        if (bytes.len > body_max(c, x) || x->body.len > body_max(c, x) - bytes.len)
            refuse_body(c, x);
        else
            buf_add_slice(&x->body, bytes);
        return PIECE_TAKEN;
    case BODY_STREAM:
        x->is_paused = !x->on_piece(x->piece_ctx, x, bytes, false);
        x->paused_ms = conn_now_ms(c);
        return x->is_paused ? PIECE_PAUSED : PIECE_TAKEN;
    case BODY_UNDECIDED:
    case BODY_DISCARD:
        x->discarded += bytes.len;
        return x->discarded > DISCARD_MAX ? PIECE_TOO_MUCH : PIECE_TAKEN;
    }
    return PIECE_TAKEN;
}

void conn_complete(struct conn *c, struct exchange *x)
{
    const struct http_handler *h = &server_opt(c->server)->handler;

    x->is_whole = true;
    if (x->mode == BODY_COLLECT)
        h->on_request(h->ctx, x);
    else if (x->mode == BODY_STREAM)
        x->on_piece(x->piece_ctx, x, slice_of(NULL, 0), true);
    conn_touch(c);
}

void conn_drop(struct conn *c, struct exchange *x)
{
    *x->prev = x->next;
    if (x->next)
        x->next->prev = x->prev;
    else
        c->last = x->prev;
    c->exchanges--;
    server_add_active(c->server, -1);
    x->conn = NULL;
    c->idle_ms = conn_now_ms(c);
    exchange_unref(x);
}

void conn_cancel_all(struct conn *c)
{
    while (c->first) {
        struct exchange *x = c->first;
        exchange_cancel(x);
        conn_drop(c, x);
    }
}
