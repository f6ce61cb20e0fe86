/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank -- the order of search hits: cosine plus a small weight times the share of
 * the question's rare words that a chunk has. Pure.
 */
#ifndef RETRIEVE_RANK_H
#define RETRIEVE_RANK_H

#include "base/arena.h"
#include "retrieve/corpus.h"

/* Fills the ranks of the hits and sorts them, best first. Their scores stay cosines. */
void rank_hits(struct slice question, struct corpus_hit *hits, size_t count, struct arena *arena);

#endif
