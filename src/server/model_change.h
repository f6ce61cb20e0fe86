/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_change -- loading and unloading, which takes seconds and waits for
 * others, on a thread of its own: one change after the other, so that no worker
 * waits and the memory that one gives back is there for the next.
 */
#ifndef SERVER_MODEL_CHANGE_H
#define SERVER_MODEL_CHANGE_H

#include "server/request.h"

/* In the request's arena. */
struct model_change {
    struct request *r;
    struct job job;
    enum errc (*run)(struct model_change *c, struct error *err);
    enum errc rc; /* of run, with its error; when it is done */
    struct error err;
    atomic_bool is_done;
};

/*
 * Queues run and parks the request; after is its next step. ERR_BUSY: too many wait already. A
 * change that was begun is finished, also when its client leaves.
 */
MUST_CHECK enum errc model_change_start(struct model_change *c, struct request *r,
                                        enum errc (*run)(struct model_change *c, struct error *err),
                                        request_fn after, struct error *err);
/* For after: false when something else has woken the request, which is parked again. */
bool model_change_is_done(struct model_change *c, request_fn after);

/*
 * Loads a file that the node knows, by the digest that is kept beside it; the first time that
 * digest is taken and kept. Texts that waited for the model are embedded. Blocks.
 */
MUST_CHECK enum errc model_load_file(struct server_ctx *ctx, const char *name, const char *path,
                                     struct error *err);

#endif
