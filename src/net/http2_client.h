/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http2_client -- HTTP/2 (RFC 9113) of a client: requests to bytes, bytes to
 * answers, many at once on one connection; without sockets and without a clock.
 * Hides nghttp2.
 *
 * An answer's window opens as its pieces are taken, so a receiver that pauses
 * holds the sender back.
 */
#ifndef NET_HTTP2_CLIENT_H
#define NET_HTTP2_CLIENT_H

#include "base/buf.h"
#include "net/http.h"

struct http2_client;
struct http2_call;

/* All while bytes are fed or put, in this order. */
struct http2_call_events {
    void (*on_head)(void *ctx, int status);
    /* Borrowed. False: nothing more comes until http2_call_resume. */
    bool (*on_piece)(void *ctx, struct slice bytes);
    /* Once, and last: the call is gone. is_whole: the answer has come to its end. */
    void (*on_end)(void *ctx, bool is_whole);
    void *ctx;
};

/* Everything is copied. A POST; content-length is added. */
struct http2_ask {
    const char *authority, *path;
    const struct http_header *headers; /* names in lower case */
    size_t header_count;
    struct slice body;
};

/* on_pong: an answer to http2_client_ping. Returns it to the caller. */
struct http2_client *http2_client_new(void (*on_pong)(void *ctx), void *ctx);
/* Ends the calls that are left, without their answers. NULL is allowed. */
void http2_client_free(struct http2_client *c);

/* May another request begin? Not after the server has said that it goes. */
bool http2_client_is_open(const struct http2_client *c);
/* NULL: it may not. Valid until on_end. */
struct http2_call *http2_client_ask(struct http2_client *c, const struct http2_ask *ask,
                                    const struct http2_call_events *events);
/* The receiver takes pieces again. */
void http2_call_resume(struct http2_call *call);
/* The answer is not wanted: the server is told, and on_end is not called. */
void http2_call_cancel(struct http2_call *call);

/* Takes all. False: what came is not HTTP/2, or the server has ended the connection. */
MUST_CHECK bool http2_client_feed(struct http2_client *c, struct slice bytes);
/* Adds what is to be sent to out, until about max bytes are in it. */
void http2_client_put(struct http2_client *c, struct buf *out, size_t max);
void http2_client_ping(struct http2_client *c);

#endif
