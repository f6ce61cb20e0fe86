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
 * A GGUF file (size, magic and shapes are checked before llama.cpp sees it) or "sim:..." for
 * engine_sim, e.g. "sim:chat,prefill=4000,decode=100,ctx=4096" and "sim:embed,dim=384". The kind
 * follows from the file (pooling type). sha256: 64 hex digits that the file must have, or NULL.
 */
struct model_source {
    const char *name, *path, *sha256;
};

/*
 * Loads a model and has it make a token or a vector. ERR_LIMIT, before anything is loaded, when
 * it would not fit into model_memory_mb beside the others: the text has the figures. Blocks for as
 * long as that takes.
 */
MUST_CHECK enum errc models_load_source(struct models *m, const struct model_source *src,
                                        struct error *err);
/* The same without a digest. */
MUST_CHECK enum errc models_load(struct models *m, const char *name, const char *path,
                                 struct error *err);

struct model_unloaded {
    uint32_t cancelled;       /* requests that were not finished within the time */
    uint64_t footprint_bytes; /* free for others now */
    uint64_t returned_bytes;  /* by which the process became smaller */
};
/*
 * From now on new requests get ERR_NOT_FOUND; running ones have drain_ms to end, then they end
 * with ERR_GONE. Blocks until the memory is given back. ERR_NOT_FOUND: no such model; ERR_CONFLICT:
 * it is being loaded or unloaded.
 */
MUST_CHECK enum errc models_unload(struct models *m, struct slice name, uint64_t drain_ms,
                                   struct model_unloaded *out, struct error *err);

/* Lives as long as m. */
struct generator *models_generator(struct models *m);

/*
 * Cancels what runs and joins all threads, and waits for loads and unloads that are under way: on return every request has had its last callback, and
 * new requests and models are refused with ERR_BUSY. Finding models and counting tokens still
 * work, so other threads may be at it meanwhile. NULL is allowed.
 */
void models_stop(struct models *m);
/* Stops, then frees all: nobody may use m or its generator any more. NULL is allowed. */
void models_free(struct models *m);

struct models_stats {
    uint32_t running, waiting;
    uint64_t prompt_tokens, completion_tokens, cached_tokens; /* unloaded ones included */
    uint64_t memory_bytes, memory_limit_bytes;
};
void models_stats(struct models *m, struct models_stats *out);

#endif
