/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A passage scores its own cosine, a little for the question's rare words, and
 * loses what its chunk lies behind the best chunk: the chunk sees what a
 * pronoun in the sentence stands for.
 */
#include "retrieve/focus.h"

#include "retrieve/terms.h"
#include "store/index.h"
#include <stdlib.h>

enum { HITS_MAX = 3, PASSAGES_MAX = 32, KEEP_MAX = 2 };

static const double word_weight = 0.15;

/* How far behind the best passage the next may lie: the more context they share, the further. */
static const double margin_paragraph = 0.35;
static const double margin_chunk = 0.2;
static const double margin_other = 0.1;

void focus_collect(struct focus *f, const struct corpus_hit *hits, size_t hit_count,
                   struct arena *arena)
{
    f->hit_count = hit_count < HITS_MAX ? hit_count : HITS_MAX;
    f->passages = passages_of(hits, f->hit_count, PASSAGES_MAX, arena);
    f->inputs = arena_alloc(arena, (f->passages.count + 1) * sizeof *f->inputs);
    for (size_t i = 0; i < f->passages.count; i++) {
        const struct passage *p = &f->passages.items[i];
        /* the title is common to all and would only lift those that stand right below it */
        bool has_label = p->label.len > 0 && !slice_eq(p->label, hits[p->hit].hit.title);
        f->inputs[i] =
            slice_str(arena_printf(arena, "%.*s%s%.*s %.*s", has_label ? (int)p->label.len : 0,
                                   has_label ? p->label.ptr : "", has_label ? ": " : "",
                                   SLICE_ARG(p->header), SLICE_ARG(p->text)));
    }
}

struct scored {
    struct passage passage;
    double score;
};

static double margin_of(const struct passage *best, const struct passage *p)
{
    if (p->hit != best->hit)
        return margin_other;
    return p->paragraph == best->paragraph ? margin_paragraph : margin_chunk;
}

static int scored_order(const void *a, const void *b)
{
    double x = ((const struct scored *)a)->score, y = ((const struct scored *)b)->score;
    return (x < y) - (x > y);
}

void focus_choose(struct focus *f, struct slice question, const float *question_vector,
                  const float *vectors, uint32_t dimension, const struct corpus_hit *hits,
                  struct arena *arena)
{
    size_t n = f->passages.count, kept = 0;
    struct scored *scored = arena_alloc(arena, (n + 1) * sizeof *scored);
    struct terms *texts = arena_alloc(arena, (n + 1) * sizeof *texts);
    struct terms words = terms_of(question, arena);
    struct term_weights weights = { .texts = texts, .count = n };

    for (size_t i = 0; i < n; i++)
        texts[i] = terms_of(f->inputs[i], arena);
    for (size_t i = 0; i < n; i++) {
        const struct passage *p = &f->passages.items[i];
        double cosine = (double)vector_dot(vectors + i * dimension, question_vector, dimension);
        double behind = (double)(hits[0].hit.score - hits[p->hit].hit.score);
        scored[i] = (struct scored){
            .passage = *p,
            .score = cosine + word_weight * terms_overlap(&weights, &words, &texts[i]) -
                     (behind > 0 ? behind : 0),
        };
    }
    qsort(scored, n, sizeof *scored, scored_order);
    for (size_t i = 0; i < n && kept < KEEP_MAX; i++)
        if (scored[i].score >= scored[0].score - margin_of(&scored[0].passage, &scored[i].passage))
            f->passages.items[kept++] = scored[i].passage;
    f->passages.count = kept;
}
