/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A passage scores its own cosine, a little for the question's rare words, and
 * loses what its chunk lies behind the best chunk: the chunk sees what a
 * pronoun in the sentence stands for.
 */
#include "retrieve/focus.h"

#include "retrieve/terms.h"
#include <stdlib.h>

enum { HITS_MAX = 3, KEEP_MAX = 2 };

static const double word_weight = 0.15;

/* How far behind the best passage the next may lie: the more context they share, the further. */
static const double margin_paragraph = 0.35;
static const double margin_chunk = 0.2;
static const double margin_other = 0.1;

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

/* The passages of f's hits with their scores, words not counted. Returns how many. */
static size_t score_passages(const struct focus *f, const struct evidence *e,
                             const struct corpus_hit *hits, struct scored *scored,
                             struct terms *texts, struct arena *arena)
{
    size_t n = 0;

    for (size_t i = 0; i < e->passages.count; i++) {
        const struct passage *p = &e->passages.items[i];
        double behind;
        if (p->hit >= f->hit_count)
            continue;
        behind = (double)(hits[0].hit.score - hits[p->hit].hit.score);
        texts[n] = terms_of(e->inputs[i], arena);
        scored[n++] = (struct scored){ *p, e->scores[i] - (behind > 0 ? behind : 0) };
    }
    return n;
}

void focus_choose(struct focus *f, struct slice question, const struct evidence *e,
                  const struct corpus_hit *hits, size_t hit_count, struct arena *arena)
{
    struct scored *scored = arena_alloc(arena, (e->passages.count + 1) * sizeof *scored);
    struct terms *texts = arena_alloc(arena, (e->passages.count + 1) * sizeof *texts);
    struct terms words = terms_of(question, arena);
    struct term_weights weights = { .texts = texts };
    size_t n;

    f->hit_count = hit_count < HITS_MAX ? hit_count : HITS_MAX;
    f->passages = (struct passages){ arena_alloc(arena, KEEP_MAX * sizeof(struct passage)), 0 };
    n = weights.count = score_passages(f, e, hits, scored, texts, arena);
    for (size_t i = 0; i < n; i++)
        scored[i].score += word_weight * terms_overlap(&weights, &words, &texts[i]);
    if (n > 0)
        qsort(scored, n, sizeof *scored, scored_order);
    for (size_t i = 0; i < n && f->passages.count < KEEP_MAX; i++)
        if (scored[i].score >= scored[0].score - margin_of(&scored[0].passage, &scored[i].passage))
            f->passages.items[f->passages.count++] = scored[i].passage;
}
