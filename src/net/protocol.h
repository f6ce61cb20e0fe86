/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol -- what a connection needs of HTTP/1.x (and of HTTP/2 later): bytes
 * in, exchanges out, replies to bytes. No sockets, no clock for decisions:
 * testable and fuzzable alone.
 */
#ifndef NET_PROTOCOL_H
#define NET_PROTOCOL_H

#include "net/exchange.h"

/* What the protocol asks of its connection. All inside feed. */
struct protocol_events {
    /* A request starts: returns a reference that the protocol gives back. */
    struct exchange *(*begin)(void *ctx);
    /* Headers are complete: decide about the body. */
    void (*headers)(void *ctx, struct exchange *x);
    /* Bytes of the body. False: pause. */
    bool (*piece)(void *ctx, struct exchange *x, struct slice bytes);
    /* The request is whole. False: pause. */
    bool (*complete)(void *ctx, struct exchange *x);
    void *ctx;
    size_t header_bytes; /* 431 above */
    const char *server_name;
};

struct protocol_error {
    int status; /* 0 = none */
    const char *text;
};

struct protocol;

struct protocol_ops {
    /*
     * Takes bytes; *used says how many. Fewer than given: paused or failed.
     * After a pause the rest is fed, even when nothing is left: the end of a
     * request may be due. After an error nothing more is taken.
     */
    struct protocol_error (*feed)(struct protocol *p, struct slice bytes, size_t *used);
    /* The request that is being read, or NULL. */
    struct exchange *(*current)(const struct protocol *p);
    /* Its headers have been read. */
    bool (*in_body)(const struct protocol *p);
    void (*put_continue)(struct protocol *p, struct buf *out);
    /*
     * Moves what the reply has ready to out; a large piece goes to big instead,
     * uncopied, to be sent behind out. Lock held; big is empty before.
     */
    void (*put_reply)(struct protocol *p, struct exchange *x, bool closes, struct buf *out,
                      struct buf *big);
    void (*free)(struct protocol *p);
};

struct protocol {
    const struct protocol_ops *ops;
};

/* HTTP/1.0 and 1.1. Returns it to the caller, who frees it through ops. */
struct protocol *http1_new(const struct protocol_events *events);

#endif
