/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_flow -- a query on its way through a request: run, wait for a model,
 * run again. How the rows look is the caller's (cursor, tool call).
 */
#ifndef SERVER_QUERY_FLOW_H
#define SERVER_QUERY_FLOW_H

#include "server/request.h"

/* Called on a worker; exactly one of them, once. */
struct query_shape {
    void (*done)(void *ctx, struct query *q); /* keeps the query */
    void (*failed)(void *ctx, const struct error *err);
};

/*
 * What every query of a request gets: the database of the URL, the rights of the user, the limits
 * of the node, cancelling and waking. Blocks on the store.
 */
MUST_CHECK enum errc query_flow_options(struct request *r, struct query_options *out,
                                        struct error *err);

/* Keeps the query, which was made with these options; shape and ctx outlive the request. */
void query_flow_start(struct request *r, struct query *q, const struct query_shape *shape,
                      void *ctx);

#endif
