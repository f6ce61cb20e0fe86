/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grammar_cache -- grammars of the last requests, found by what they were made from. Any thread.
 */
#ifndef MODEL_GRAMMAR_CACHE_H
#define MODEL_GRAMMAR_CACHE_H

#include "model/generator.h"
#include "model/grammar.h"

struct grammar_cache;

enum { GRAMMAR_CACHE_COUNT = 64, GRAMMAR_CACHE_BYTES = 32 * MIB };

struct grammar_cache *grammar_cache_new(void);
void grammar_cache_free(struct grammar_cache *cache); /* NULL is allowed */

/*
 * The grammar of a shape that is not free; a reference is the caller's. ERR_INVALID: what the
 * reading of schemas and grammars refuses.
 */
MUST_CHECK enum errc grammar_cache_get(struct grammar_cache *cache, const struct gen_shape *shape,
                                       struct grammar **out, struct error *err);

#endif
