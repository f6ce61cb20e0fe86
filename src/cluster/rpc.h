/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc -- calls from node to node: what can be called (rpc_methods.def), how a
 * call is answered, and how it fails. POST /rpc/NAME over HTTP/2 and mutual TLS.
 *
 * A call goes to one node and is not repeated here: whether another node is
 * asked is decided where there are other nodes to choose from, once.
 */
#ifndef CLUSTER_RPC_H
#define CLUSTER_RPC_H

#include "base/error.h"
#include "base/pool.h"
#include "net/http.h"

enum rpc_method {
#define RPC(name, request, request_max, reply, deadline_ms, may_repeat, help) RPC_##name,
#include "cluster/rpc_methods.def"
#undef RPC
    RPC_METHODS
};

struct rpc_row {
    const char *name, *path;
    size_t request_max;
    uint64_t deadline_ms;
    bool may_repeat;
};
const struct rpc_row *rpc_row(enum rpc_method method);

/* Headers of a call. */
#define RPC_CLUSTER "themis-cluster"
#define RPC_DEADLINE "themis-deadline-ms"

/* ---- answering ---- */

/* One call that is answered; whoever answers frees it with rpc_request_free. */
struct rpc_request {
    struct job job;
    void *ctx; /* of the server's options */
    struct exchange *x;
    enum rpc_method method;
    uint64_t deadline_ms;              /* that is left */
    void (*run)(struct rpc_request *); /* the server's */
};

/* The rights and the method have been checked, the body is whole. */
struct rpc_handler {
    void (*run)(struct rpc_request *r);
    bool is_quick; /* on the loop: does not wait, and works for microseconds */
};

struct rpc_server_options {
    const char *cluster; /* calls of other clusters are refused */
    struct pool *pool;
    struct rpc_handler handlers[RPC_METHODS];
    /* Is a node of that name in the topology? Loop thread. */
    bool (*knows)(void *ctx, const char *node);
    void *ctx;
};

/* For the listener of the cluster; opt is borrowed as long as it listens. */
struct http_handler rpc_http_handler(struct rpc_server_options *opt);
/* A connection that did not get as far as a call: counted, and told in the log now and then. */
void rpc_note_refused(const char *peer, const char *why);

/* The failure as the answer; frees the request. */
void rpc_fail(struct rpc_request *r, const struct error *err);
/* A whole answer; frees the request. */
void rpc_reply(struct rpc_request *r, struct slice body);
void rpc_request_free(struct rpc_request *r);

/* ---- asking ---- */

struct channel;
struct rpc_client;

struct rpc_outcome {
    const struct error *err; /* NULL: it was answered */
    bool is_lost;            /* the node has gone or never was there: what it did is not known */
    struct slice body;       /* the answer, unless on_piece took it */
};

struct rpc_call {
    enum rpc_method method;
    const char *node;
    struct slice body;
    uint64_t deadline_ms; /* 0 = that of the method */
    /* Asked again and again, on the loop thread; true: it ends with ERR_GONE. NULL = never. */
    bool (*is_unwanted)(void *ctx);
    /* The answer as it comes; loop thread. NULL: collected, up to a limit. */
    void (*on_piece)(void *ctx, struct slice bytes);
    /* Once, on the loop thread. Borrowed. */
    void (*on_done)(void *ctx, const struct rpc_outcome *outcome);
    void *ctx;
};

struct rpc_client_options {
    struct loop *loop;
    const char *cluster;
    /* The connection to a node, or NULL; loop thread. */
    struct channel *(*channel_of)(void *ctx, const char *node);
    void *ctx;
};

/* Returns it to the caller. Loop thread. */
struct rpc_client *rpc_client_new(const struct rpc_client_options *opt);
/* Ends all calls, as lost; further ones are refused. Loop thread, or after it. */
void rpc_client_stop(struct rpc_client *c);
void rpc_client_free(struct rpc_client *c); /* after the loop was freed; NULL is allowed */

/* Any thread; strings and the body are copied. ERR_BUSY: it has stopped, and on_done is not called. */
MUST_CHECK enum errc rpc_call(struct rpc_client *c, const struct rpc_call *call, struct error *err);

#endif
