/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embedder -- one thread that turns texts into vectors with one engine lane.
 *
 * Small steps, shared in turn by all requests, so that one short query never
 * waits for a long import.
 */
#ifndef MODEL_EMBED_H
#define MODEL_EMBED_H

#include "model/engine.h"

struct embedder;

struct embedder_options {
    struct engine *engine; /* borrowed until embedder_free */
    uint32_t window;       /* tokens of one text */
    uint32_t queue_max;    /* requests */
};
MUST_CHECK enum errc embedder_new(struct embedder **out, const struct embedder_options *opt,
                                  struct error *err);
void embedder_close(struct embedder *e); /* new requests are refused, those that are in go on */
/*
 * Ends what waits with ERR_GONE and joins the thread: no callback comes any more, new requests are
 * refused. why: the text (a literal) of that error; NULL: cancelled. NULL e is allowed.
 */
void embedder_stop(struct embedder *e, const char *why);
/* Stops, then frees. NULL is allowed. */
void embedder_free(struct embedder *e);

/*
 * Tokenises here, on the caller's thread. ERR_BUSY: the queue is full or the embedder stops;
 * ERR_NOT_FOUND: it was closed.
 */
MUST_CHECK enum errc embedder_add(struct embedder *e, const struct embed_request *req,
                                  struct error *err);

struct embedder_stats {
    uint32_t waiting;
    uint64_t texts, tokens, truncated;
};
void embedder_stats(struct embedder *e, struct embedder_stats *out);

#endif
