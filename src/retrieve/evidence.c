/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk's vector is the mean of many things; one sentence of it may be what was
 * asked for. So each hit is ranked by its own score and half the cosine of its best
 * sentence.
 *
 * Relevance is judged by sentences too, and with the question's subject left out,
 * since a document about the subject is near to every question about it.
 */
#include "retrieve/evidence.h"

#include "retrieve/subject.h"
#include "store/index.h"
#include <stdlib.h>

enum {
    HIT_PASSAGES = 8,  /* on average, of the hits whose sentences are looked at */
    RELEVANT_HITS = 3, /* that may answer */
};

static const double sentence_weight = 0.5; /* of a hit's best sentence, against its cosine of 1 */
static const double subject_weight = 1.0 / 3; /* of the whole question in the relevance */

void evidence_collect(struct evidence *e, struct slice question, const struct corpus_hit *hits,
                      size_t hit_count, size_t most, struct arena *arena)
{
    *e = (struct evidence){ .hit_count = hit_count < most ? hit_count : most };
    e->passages = passages_of(hits, e->hit_count, e->hit_count * HIT_PASSAGES, arena);
    if (e->passages.count == 0)
        return;
    e->inputs = arena_alloc(arena, (e->passages.count + 1) * sizeof *e->inputs);
    for (size_t i = 0; i < e->passages.count; i++) {
        const struct passage *p = &e->passages.items[i];
        /* the title is common to all and would only lift those that stand right below it */
        bool has_label = p->label.len > 0 && !slice_eq(p->label, hits[p->hit].hit.title);
        e->inputs[e->input_count++] =
            slice_str(arena_printf(arena, "%.*s%s%.*s %.*s", has_label ? (int)p->label.len : 0,
                                   has_label ? p->label.ptr : "", has_label ? ": " : "",
                                   SLICE_ARG(p->header), SLICE_ARG(p->text)));
    }
    e->inputs[e->input_count++] = subject_leave_out(question, hits, hit_count, arena);
}

struct weighed {
    size_t hit;
    double score;
};

static int weighed_order(const void *a, const void *b)
{
    double x = ((const struct weighed *)a)->score, y = ((const struct weighed *)b)->score;
    return (x < y) - (x > y);
}

/* Puts the hits that were collected into their new order, and the passages' numbers of them. */
static void order_hits(struct evidence *e, struct corpus_hit *hits, struct arena *arena)
{
    struct weighed *order = arena_alloc(arena, e->hit_count * sizeof *order);
    struct corpus_hit *old = arena_alloc(arena, e->hit_count * sizeof *old);
    double *best = arena_zalloc(arena, e->hit_count * sizeof *best);
    size_t *places = arena_alloc(arena, e->hit_count * sizeof *places);

    for (size_t i = 0; i < e->passages.count; i++)
        if (e->scores[i] > best[e->passages.items[i].hit])
            best[e->passages.items[i].hit] = e->scores[i];
    for (size_t i = 0; i < e->hit_count; i++) {
        order[i] = (struct weighed){ i, hits[i].rank + sentence_weight * best[i] };
        old[i] = hits[i];
    }
    qsort(order, e->hit_count, sizeof *order, weighed_order);
    for (size_t i = 0; i < e->hit_count; i++) {
        hits[i] = old[order[i].hit];
        hits[i].rank = order[i].score;
        places[order[i].hit] = i;
    }
    for (size_t i = 0; i < e->passages.count; i++)
        e->passages.items[i].hit = places[e->passages.items[i].hit];
}

double evidence_weigh(struct evidence *e, const float *question_vector, const float *vectors,
                      uint32_t dimension, struct corpus_hit *hits, struct arena *arena)
{
    size_t count = e->passages.count;
    const float *rest = vectors + count * dimension; /* of the question without its subject */
    double relevance = -1;

    if (count == 0)
        return relevance;
    e->scores = arena_alloc(arena, count * sizeof *e->scores);
    for (size_t i = 0; i < count; i++)
        e->scores[i] = (double)vector_dot(vectors + i * dimension, question_vector, dimension);
    order_hits(e, hits, arena);
    for (size_t i = 0; i < count; i++) {
        double own = (double)vector_dot(vectors + i * dimension, rest, dimension);
        double score = subject_weight * e->scores[i] + (1 - subject_weight) * own;
        if (e->passages.items[i].hit < RELEVANT_HITS && score > relevance)
            relevance = score;
    }
    return relevance;
}
