/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_private -- what the loader and the local generator share.
 */
#ifndef MODEL_MODEL_PRIVATE_H
#define MODEL_MODEL_PRIVATE_H

#include "model/embed.h"
#include "model/lane.h"
#include "model/model.h"

#include <pthread.h>

enum { MODELS_MAX = 32 };

struct model {
    struct models *models;
    char name[128];
    struct engine *engine;         /* owned */
    struct sched *sched;           /* owned; chat only */
    struct shelf *shelf;           /* owned; chat only */
    struct pace pace;              /* of the lanes; chat only */
    struct lane *lanes[LANES_MAX]; /* owned; chat only */
    uint32_t lane_count;
    struct embedder *embedder; /* owned; embedding only */
    uint32_t context;          /* tokens of one request */
    uint64_t created_s;
    bool is_ready;
};

struct models {
    struct generator generator;
    struct settings settings;
    bool (*on_progress)(void *ctx, const char *name, double done);
    void *ctx;
    pthread_mutex_t lock;           /* over the following */
    struct model *list[MODELS_MAX]; /* owned */
    size_t count;
    bool is_stopping;
};

void generator_local_init(struct models *m);

/* Tokenises, checks and queues. deadline_ms must be set. */
MUST_CHECK enum errc model_submit(struct model *model, const struct gen_request *req,
                                  struct error *err);

#endif
