/* SPDX-License-Identifier: Apache-2.0 */
/*
 * footprint -- how the lanes of a model are laid out, and how much memory it
 * takes with them; from the settings and the head of its file, before anything
 * is loaded. Pure, but for reading that head.
 */
#ifndef MODEL_FOOTPRINT_H
#define MODEL_FOOTPRINT_H

#include "base/settings.h"
#include "model/engine.h"

struct lane_plan {
    uint32_t lanes, cells, places, batch_tokens; /* all but the first: of one lane */
};
/* context: tokens the model was made for; 0 = it does not say. */
struct lane_plan lane_plan_of(const struct settings *s, uint32_t context);

/* Tokens of one text. */
uint32_t embed_window_of(uint32_t context);

/* Bytes, an upper bound. */
struct footprint {
    uint64_t weights;
    uint64_t kv;      /* cells of the lanes, and states kept for later prompts */
    uint64_t buffers; /* of a step */
};
uint64_t footprint_sum(const struct footprint *f);
struct footprint footprint_of(const struct settings *s, const struct model_shape *shape);

/* What models may take together: model_memory_mb, or its default. */
uint64_t model_budget_of(const struct settings *s);

#endif
