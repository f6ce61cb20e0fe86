/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch -- a generator over all nodes of the cluster: chooses who answers,
 * passes the request on, and hands the events back as if they were local.
 *
 * The one retry loop is here: a node that is lost, busy or without the model
 * before its first event is left out and another is asked. After the first
 * event the answer ends with an error that says so. Events of other nodes come
 * on the loop thread.
 */
#ifndef CLUSTER_DISPATCH_H
#define CLUSTER_DISPATCH_H

#include "cluster/peers.h"

struct dispatch;

struct dispatch_options {
    struct generator *local;
    struct peers *peers;
    struct pool *pool;
    const char *self;
    unsigned retries;
    uint64_t request_ms; /* deadline of a request that names none */
};

/* Returns it to the caller. */
struct dispatch *dispatch_new(const struct dispatch_options *opt);
void dispatch_free(struct dispatch *d); /* after the last event; NULL is allowed */

/* submit and model know all nodes; the rest is this node's own. */
struct generator *dispatch_generator(struct dispatch *d);

/* Answers RPC_generate with the generator of this node; on a worker. */
void dispatch_answer(struct generator *local, struct rpc_request *r);

#endif
