/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_private -- one model with its threads, and what the list of models and
 * the local generator share.
 */
#ifndef MODEL_MODEL_PRIVATE_H
#define MODEL_MODEL_PRIVATE_H

#include "model/embed.h"
#include "model/footprint.h"
#include "model/grammar_cache.h"
#include "model/lane.h"
#include "model/model.h"

#include <pthread.h>

struct model {
    struct models *models;
    char name[128];
    char sha256[65];
    struct footprint footprint;
    struct engine *engine;         /* owned; NULL while it loads */
    struct token_order *order;     /* owned; chat only */
    struct sched *sched;           /* owned; chat only */
    struct shelf *shelf;           /* owned; chat only */
    struct pace pace;              /* of the lanes; chat only */
    struct lane *lanes[LANES_MAX]; /* owned; chat only */
    uint32_t lane_count;
    struct embedder *embedder; /* owned; embedding only */
    uint32_t context;          /* tokens of one request */
    uint64_t created_s;
    enum model_state state; /* under the lock of models */
    uint32_t users;         /* model_ref; under the same lock */
};

/* Opens the engine, starts its threads and has it make one token or vector. */
MUST_CHECK enum errc model_start(struct model *model, const char *path, struct error *err);

/* New requests are refused with ERR_NOT_FOUND from now on. */
void model_close(struct model *model);
/* Requests that are not finished. */
uint32_t model_pending(struct model *model);
/* Cancels what runs and joins the threads. why: what the requests are told; NULL = cancelled. */
void model_stop(struct model *model, const char *why);
/* Stops, then frees all but the struct itself: name and footprint stay. */
void model_release(struct model *model);

/* Tokenises, checks and queues. deadline_ms must be set. */
MUST_CHECK enum errc model_submit(struct model *model, const struct gen_request *req,
                                  struct error *err);

struct models {
    struct generator generator;
    struct settings settings;
    bool (*on_progress)(void *ctx, const char *name, double done);
    void *ctx;
    struct grammar_cache *grammars; /* owned */
    pthread_mutex_t lock;           /* over the following */
    pthread_cond_t changed;
    struct model *list[MODELS_MAX]; /* owned; in all states */
    size_t count;
    bool is_stopping;
    struct models_stats ended; /* of models that are gone */
};

void generator_local_init(struct models *m);

/*
 * Holds the ready model of that name, until model_unref. Empty name: the setting's, else the first
 * of that kind. is_any: the kind does not matter. ERR_NOT_FOUND lists the ready ones.
 */
struct model_wish {
    struct slice name;
    enum model_kind kind;
    bool is_any;
};
MUST_CHECK enum errc model_ref(struct models *m, const struct model_wish *wish, struct model **out,
                               struct error *err);
void model_unref(struct model *model);

#endif
