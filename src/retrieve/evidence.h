/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evidence -- the sentences of the first hits, weighed against the question:
 * which hit is the best, and does one of them answer at all. Pure; vectors come
 * from outside.
 *
 * Use: evidence_collect, embed the inputs, evidence_weigh.
 */
#ifndef RETRIEVE_EVIDENCE_H
#define RETRIEVE_EVIDENCE_H

#include "retrieve/passage.h"

struct evidence {
    struct passages passages;
    double *scores; /* of each passage: its cosine with the question */
    /* To be embedded: each passage with its heading in front, last the question without its
     * subject. */
    struct slice *inputs;
    size_t input_count;
    size_t hit_count; /* hits that the passages come from: the first ones */
};

/*
 * Takes the sentences of the first most hits; the others still tell what the subject is. Of no
 * hits there is nothing to embed (input_count 0).
 */
void evidence_collect(struct evidence *e, struct slice question, const struct corpus_hit *hits,
                      size_t hit_count, size_t most, struct arena *arena);

/*
 * Orders the hits that were collected by what their best passage adds, and fills scores.
 * Returns the relevance of the best hits, a cosine: how near a sentence comes to what the
 * question asks beyond its subject. -1 without passages.
 */
double evidence_weigh(struct evidence *e, const float *question_vector, const float *vectors,
                      uint32_t dimension, struct corpus_hit *hits, struct arena *arena);

#endif
