/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cite -- which sentence of which source supports a sentence of an answer.
 *
 * Pure and lexical: a small model's own citations cannot be trusted, and a
 * sentence that shares its rare words and all its numbers with a source is
 * good evidence. A sentence without such a source gets no citation.
 */
#ifndef RETRIEVE_CITE_H
#define RETRIEVE_CITE_H

#include "base/arena.h"
#include "retrieve/corpus.h"

/* One citation at most for each sentence of the answer; in its order. Lives in the arena. */
struct rag_citation *cite_answer(struct slice answer, struct slice question,
                                 const struct corpus_hit *hits, size_t hit_count,
                                 struct arena *arena, size_t *count);

/* True when the answer says that it does not know. */
bool cite_says_unknown(struct slice answer);

#endif
