/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model -- the models of this node: loads them, runs their lanes and fills a
 * generator. Hides engines, scheduling and samplers.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "base/settings.h"
#include "model/generator.h"

struct models;

struct models_options {
    const struct settings *settings;
    /*
     * Called by the thread that loads a model: done in [0, 1]. False ends the loading with
     * ERR_GONE. May be NULL.
     */
    bool (*on_progress)(void *ctx, const char *name, double done);
    void *ctx;
};

MUST_CHECK enum errc models_new(struct models **out, const struct models_options *opt,
                                struct error *err);

/*
 * Loads a model under a name. path is a GGUF file (size, magic and shapes are
 * checked before llama.cpp sees it) or "sim:..." for engine_sim, e.g.
 * "sim:chat,prefill=4000,decode=100,ctx=4096,slots=64" and "sim:embed,dim=384".
 * Kind follows from the file (pooling type).
 */
MUST_CHECK enum errc models_load(struct models *m, const char *name, const char *path,
                                 struct error *err);

/* Lives as long as m. */
struct generator *models_generator(struct models *m);

/* True when every loaded model has produced a token or a vector (a probe runs after loading). */
bool models_are_ready(struct models *m);

/*
 * Cancels what runs and joins all threads: on return every request has had its last callback, and
 * new requests and models are refused with ERR_BUSY. Finding models and counting tokens still
 * work, so other threads may be at it meanwhile. NULL is allowed.
 */
void models_stop(struct models *m);
/* Stops, then frees all: nobody may use m or its generator any more. NULL is allowed. */
void models_free(struct models *m);

struct models_stats {
    uint32_t running, waiting;
    uint64_t prompt_tokens, completion_tokens, cached_tokens;
};
void models_stats(struct models *m, struct models_stats *out);

#endif
