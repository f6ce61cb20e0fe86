/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terms -- the content words and numbers of a text as hashes, for comparing a
 * question, an answer and sources without a model.
 *
 * Words are lower-cased (ASCII), lightly stemmed for English, and written-out
 * numbers to twelve equal their digits. Function words are left out. Pure.
 */
#ifndef RETRIEVE_TERMS_H
#define RETRIEVE_TERMS_H

#include "base/arena.h"
#include "base/base.h"

struct term {
    uint64_t hash;
    bool is_number; /* has a digit */
};

/* Distinct terms, sorted by hash; live in the arena. */
struct terms {
    struct term *items;
    size_t count;
};

enum { TERMS_MAX = 4096 }; /* distinct terms kept of one text */

/* The next content word or number at or after *at, which moves behind it. false at the end. */
bool terms_next(struct slice text, size_t *at, struct slice *word, struct term *out);

struct terms terms_of(struct slice text, struct arena *arena);
bool terms_have(const struct terms *terms, uint64_t hash);

/*
 * Weights by rarity among a few texts (the candidates of one search):
 * ln(1 + count / texts with the term); numbers weigh half more.
 */
struct term_weights {
    const struct terms *texts;
    size_t count;
};
double terms_weight(const struct term_weights *w, struct term term);

/* Share [0, 1] of the weight of `of` that is also in `in`; 0 when `of` has no terms. */
double terms_overlap(const struct term_weights *w, const struct terms *of, const struct terms *in);

#endif
