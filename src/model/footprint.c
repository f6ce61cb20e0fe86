/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What llama.cpp allocates, term by term. A step of a chat lane works on at most
 * UBATCH tokens at once, and without flash attention it holds the scores of all of
 * them against all cells, for each head. The outputs of a step are one row of
 * the vocabulary for each sequence. Pages that no step has touched yet take no
 * memory, so a model starts below its footprint and grows towards it.
 */
#include "model/footprint.h"

#include "base/machine.h"
#include "base/memory_plan.h"

#include <unistd.h>

enum {
    LANES_DEFAULT_MAX = 16,
    UBATCH = 512,
    CELL_PAD = 256,
    WINDOW_MIN = 16,
    WINDOW_MAX = 2048,
    EMBED_STEP = 256,
    TOKEN_BYTES = 24, /* of each token, in the order of tokens */
    ACTIVATIONS = 8,  /* rows of the model's width that a step holds per token */
};

static uint32_t least(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

static uint32_t lane_count(const struct settings *s)
{
    if (s->lanes > 0)
        return (uint32_t)s->lanes;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > LANES_DEFAULT_MAX ? LANES_DEFAULT_MAX : (uint32_t)cores;
}

struct lane_plan lane_plan_of(const struct settings *s, uint32_t context)
{
    struct lane_plan p = { .lanes = lane_count(s) };
    p.cells = least((uint64_t)s->context_tokens, context ? context : UINT32_MAX);
    p.batch_tokens = least((uint64_t)s->max_tokens_per_batch, p.cells);
    p.places = ((uint32_t)s->max_concurrent_requests + p.lanes - 1) / p.lanes;
    p.places = least(p.places, least((uint64_t)s->max_batch_size, ENGINE_SEQ_MAX));
    p.places = least(p.places, p.batch_tokens / 2);
    return p;
}

uint32_t embed_window_of(uint32_t context)
{
    return context < WINDOW_MIN ? WINDOW_MIN : least(context, WINDOW_MAX);
}

/* The numbers of a file are not trusted: a sum that no machine has is one that is refused. */
static uint64_t bytes_of(double bytes)
{
    return bytes < 1e18 ? (uint64_t)bytes : (uint64_t)1e18;
}

static double step_bytes(const struct model_shape *shape, double tokens, double cells)
{
    double scores = tokens * cells * shape->heads;
    double rows = tokens * (ACTIVATIONS * (double)shape->width + 3 * (double)shape->feed_forward);
    return (scores + rows) * sizeof(float);
}

static struct footprint of_chat(const struct settings *s, const struct model_shape *shape)
{
    struct lane_plan p = lane_plan_of(s, shape->context_tokens);
    double cells = (p.cells + CELL_PAD - 1) / CELL_PAD * CELL_PAD;
    double outputs = 2.0 * p.places * shape->vocab_size * sizeof(float);
    double ubatch = least(p.batch_tokens, UBATCH);
    bool has_kv = shape->kv_values > 0;
    return (struct footprint){
        .weights = shape->file_bytes,
        .kv = bytes_of(p.lanes * cells * (double)shape->kv_values * 2 +
                       (has_kv ? (double)s->prefix_cache_mb * MIB : 0)),
        .buffers = bytes_of(p.lanes * (step_bytes(shape, ubatch, cells) + outputs) +
                            TOKEN_BYTES * (double)shape->vocab_size),
    };
}

static struct footprint of_embedding(const struct model_shape *shape)
{
    uint32_t window = embed_window_of(shape->context_tokens);
    double tokens = window > EMBED_STEP ? window : EMBED_STEP;
    return (struct footprint){
        .weights = shape->file_bytes,
        .buffers = bytes_of(step_bytes(shape, tokens, tokens)),
    };
}

struct footprint footprint_of(const struct settings *s, const struct model_shape *shape)
{
    return shape->kind == MODEL_CHAT ? of_chat(s, shape) : of_embedding(shape);
}

uint64_t footprint_sum(const struct footprint *f)
{
    return f->weights + f->kv + f->buffers;
}

uint64_t model_budget_of(const struct settings *s)
{
    struct memory_plan plan;

    memory_plan_make(&plan, s, machine_memory_bytes());
    return plan.models;
}
