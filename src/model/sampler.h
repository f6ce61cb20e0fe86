/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler -- picks the next token from logits: penalties, bias, temperature, top-k,
 * top-p, min-p, and a seeded choice.
 *
 * Pure: the same seed, history and logits give the same token on every machine
 * with the same floating point. One thread at a time.
 */
#ifndef MODEL_SAMPLER_H
#define MODEL_SAMPLER_H

#include "base/base.h"
#include "base/error.h"
#include "model/generator.h"

struct sampler;

/* Returned to the caller, who must sampler_free() it. seed is used when the sampling has none. */
struct sampler *sampler_new(const struct gen_sampling *sampling, uint64_t seed);
void sampler_free(struct sampler *s);

/* ERR_INVALID when a value is out of its range, with the range. */
MUST_CHECK enum errc sampling_check(const struct gen_sampling *s, uint32_t vocab_size,
                                    struct error *err);

/* Tells a token of the prompt (only the last 64 matter, for repeat_penalty). */
void sampler_see_prompt(struct sampler *s, const int32_t *tokens, size_t count);

/* Picks a token and remembers it. -1 when no logit is a number above minus infinity. */
int32_t sampler_pick(struct sampler *s, const float *logits, uint32_t vocab_size);

/*
 * The two halves of it. allowed: a bit for each token that may be picked, in words of 64 with the
 * lowest bit first; NULL = all.
 */
int32_t sampler_try(struct sampler *s, const float *logits, uint32_t vocab_size,
                    const uint64_t *allowed);
void sampler_take(struct sampler *s, int32_t id);

#endif
