/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embeddings of small models blur names and numbers: "ward C3" and "ward A2" are
 * one direction to them. Rarity is judged among the hits themselves, so that a
 * word which all of them have decides nothing and no statistics of the
 * collection have to be kept.
 */
#include "retrieve/rank.h"

#include "retrieve/terms.h"
#include <stdlib.h>

static const double word_weight = 0.1; /* of all rare words shared, against a cosine of 1 */

static int rank_order(const void *a, const void *b)
{
    double x = ((const struct corpus_hit *)a)->rank, y = ((const struct corpus_hit *)b)->rank;
    return (x < y) - (x > y);
}

void rank_hits(struct slice question, struct corpus_hit *hits, size_t count, struct arena *arena)
{
    struct terms words = terms_of(question, arena);
    struct terms *texts = arena_alloc(arena, (count + 1) * sizeof *texts);
    struct term_weights weights = { .texts = texts, .count = count };

    for (size_t i = 0; i < count; i++)
        texts[i] = terms_of(corpus_hit_text(&hits[i], arena), arena);
    for (size_t i = 0; i < count; i++)
        hits[i].rank =
            (double)hits[i].hit.score + word_weight * terms_overlap(&weights, &words, &texts[i]);
    if (count > 0)
        qsort(hits, count, sizeof *hits, rank_order);
}
