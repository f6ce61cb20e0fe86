/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http1 -- HTTP/1.x as a pure object: bytes in, exchanges out, replies to
 * bytes. No sockets inside. Hides llhttp.
 */
#ifndef NET_HTTP1_H
#define NET_HTTP1_H

#include "net/exchange.h"

struct http1;

/* What the object asks of its connection. */
struct http1_events {
    struct exchange *(*begin)(void *ctx);               /* a request starts */
    void (*headers)(void *ctx, struct exchange *x);     /* decide about the body */
    bool (*piece)(void *ctx, struct exchange *x, struct slice bytes); /* false: pause */
    bool (*complete)(void *ctx, struct exchange *x);    /* false: pause */
    size_t header_bytes;
    void *ctx;
};

struct http1 *http1_new(const struct http1_events *events);
void http1_free(struct http1 *h);

struct http1_error {
    int status; /* 0 = none */
    const char *text;
};

/*
 * Takes bytes; *used says how many. Fewer than given: it was paused (feed the
 * rest later) or failed. After an error nothing more is taken.
 */
struct http1_error http1_feed(struct http1 *h, struct slice bytes, size_t *used);

/* Somewhere inside a request? */
bool http1_is_idle(const struct http1 *h);
bool http1_in_body(const struct http1 *h);

/* A reply as bytes. */
void http1_put_head(const struct exchange *x, const char *server_name, bool closes, size_t length,
                    struct buf *out);
void http1_put_piece(const struct exchange *x, struct slice piece, struct buf *out);
void http1_put_end(const struct exchange *x, struct buf *out);

#endif
