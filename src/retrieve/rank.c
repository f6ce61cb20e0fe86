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

static const double word_weight = 0.15; /* of all rare words shared, against a cosine of 1 */

struct ranked {
    struct corpus_hit hit;
    double sum;
};

static int ranked_order(const void *a, const void *b)
{
    double x = ((const struct ranked *)a)->sum, y = ((const struct ranked *)b)->sum;
    return (x < y) - (x > y);
}

double rank_hits(struct slice question, struct corpus_hit *hits, size_t count, struct arena *arena)
{
    struct terms words = terms_of(question, arena);
    struct terms *texts = arena_alloc(arena, (count + 1) * sizeof *texts);
    struct ranked *ranked = arena_alloc(arena, (count + 1) * sizeof *ranked);
    struct term_weights weights = { .texts = texts, .count = count };

    for (size_t i = 0; i < count; i++)
        texts[i] = terms_of(slice_str(arena_printf(arena, "%.*s\n%.*s", SLICE_ARG(hits[i].heading),
                                                   SLICE_ARG(hits[i].hit.text))),
                            arena);
    for (size_t i = 0; i < count; i++)
        ranked[i] = (struct ranked){
            .hit = hits[i],
            .sum = (double)hits[i].hit.score +
                   word_weight * terms_overlap(&weights, &words, &texts[i]),
        };
    qsort(ranked, count, sizeof *ranked, ranked_order);
    for (size_t i = 0; i < count; i++)
        hits[i] = ranked[i].hit;
    return count > 0 ? ranked[0].sum : -1;
}
