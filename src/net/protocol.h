/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol -- what the objects of HTTP/1 and HTTP/2 ask of their connection.
 * They turn bytes into exchanges and replies into bytes; without sockets and
 * without a clock, so that they can be tested and fuzzed alone.
 */
#ifndef NET_PROTOCOL_H
#define NET_PROTOCOL_H

#include "net/exchange.h"

/* All while bytes are taken, in this order for each request. */
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

/* A request that cannot be read, and how it is answered. */
struct protocol_error {
    int status; /* 0 = none */
    const char *text;
};

#endif
