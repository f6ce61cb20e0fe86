/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http2 -- HTTP/2 (RFC 9113) of a server: bytes to requests, replies to bytes,
 * many at once on one connection. Hides nghttp2.
 *
 * Flow control follows the handlers: a body's window opens as its bytes are
 * taken, and a reply is read from its exchange only as the client's window
 * allows. Peers that only make work are told to calm down and dropped.
 */
#ifndef NET_HTTP2_H
#define NET_HTTP2_H

#include "net/protocol.h"

struct http2;

struct http2_options {
    struct protocol_events events; /* a piece that answers false is followed by http2_resume */
    /* Bytes of the reply have been taken from the exchange. */
    void (*sent)(void *ctx, struct exchange *x, size_t bytes);
    /* The whole reply has; the request may still be arriving. */
    void (*answered)(void *ctx, struct exchange *x);
    /* The stream has ended, answered or not. */
    void (*gone)(void *ctx, struct exchange *x);
    uint32_t streams; /* at once; further ones are refused */
};

/* Returns it to the caller. */
struct http2 *http2_new(const struct http2_options *opt);
void http2_free(struct http2 *h); /* NULL is allowed */

/* Takes all. False: nothing more is taken; what http2_put still gives is the last. */
bool http2_feed(struct http2 *h, struct slice bytes);
/* Adds frames to out until max bytes are in it. True: there may be more. */
bool http2_put(struct http2 *h, struct buf *out, size_t max);
/* The reply has something new: its head, bytes, its end, or it is broken. */
void http2_ready(struct http2 *h, struct exchange *x);
/* The handler takes bytes again. */
void http2_resume(struct http2 *h, struct exchange *x);
/* Ends the stream of x at once; gone is called while frames are put. */
void http2_cancel(struct http2 *h, struct exchange *x);
/* While the stream lasts: its headers have all been read; its whole reply has been taken. */
bool http2_has_head(const struct exchange *x);
bool http2_is_answered(const struct exchange *x);

/* No further requests: those that have begun go on. */
void http2_end(struct http2 *h);
/* Ends the connection: it waits for something that does not come. */
void http2_give_up(struct http2 *h);
/* Neither takes nor has anything. */
bool http2_is_over(const struct http2 *h);

/* So many tenths of a second: what a peer may do without asking for anything comes back slowly. */
void http2_relax(struct http2 *h, uint64_t tenths);

#endif
