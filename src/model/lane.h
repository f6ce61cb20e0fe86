/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lane -- one thread that runs generations of one model: continuous batching
 * over one engine lane.
 */
#ifndef MODEL_LANE_H
#define MODEL_LANE_H

#include "model/engine.h"
#include "model/pace.h"
#include "model/sched.h"
#include "model/shelf.h"

struct lane;

struct lane_options {
    struct engine *engine; /* borrowed until lane_free */
    struct sched *sched;   /* borrowed until lane_free */
    struct shelf *shelf;   /* borrowed until lane_free */
    struct pace *pace;     /* borrowed until lane_free */
    uint32_t index;
    uint32_t cells, seq_max, places;
    uint32_t batch_tokens;
    uint32_t chunk;       /* prompt tokens of one step, at most */
    unsigned threads_max; /* of one step, as the pace knows it */
};

/* Opens the context; lane_start starts the thread. */
MUST_CHECK enum errc lane_new(struct lane **out, const struct lane_options *opt, struct error *err);

/*
 * Measures prefill and chooses chunk sizes by it, so that a step stays short
 * enough for streams beside it. Before lane_start.
 */
struct lane_chunks {
    uint32_t alone;  /* while nothing decodes */
    uint32_t beside; /* while something does */
};
MUST_CHECK enum errc lane_probe(struct lane *lane, struct lane_chunks *out, struct error *err);
MUST_CHECK enum errc lane_start(struct lane *lane, const struct lane_chunks *chunks,
                                struct error *err);

/* After sched_stop: joins the thread, so no callback comes any more. */
void lane_stop(struct lane *lane);
/* Stops and closes the context. NULL is allowed. */
void lane_free(struct lane *lane);

struct lane_stats {
    uint64_t prompt_tokens, completion_tokens, cached_tokens;
};
void lane_stats(struct lane *lane, struct lane_stats *out);

#endif
