/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape -- what the answer of one request must look like: which tokens may come next under its
 * grammar, from the first token on or from the text on that begins a constrained part.
 *
 * One thread at a time. Whatever the grammar is, a call ends: a request whose grammar cannot be
 * followed any further fails alone.
 */
#ifndef MODEL_SHAPE_H
#define MODEL_SHAPE_H

#include "model/grammar.h"
#include "model/token_order.h"

enum { SHAPE_TRIGGERS_MAX = 8, SHAPE_TRIGGER_BYTES = 128, SHAPE_SPELLED_MAX = 64 };

struct shape_options {
    struct engine *engine;           /* borrowed until shape_free */
    const struct token_order *order; /* borrowed until shape_free */
    struct grammar *grammar;         /* a reference is taken */
    struct slice begun;              /* text of the grammar that is in the prompt already */
    const struct slice *triggers;    /* texts that begin the constrained part; it has them */
    size_t trigger_count;            /* 0 = all of the answer is constrained */
    const int32_t *spelled;          /* control tokens that count with their spelling */
    size_t spelled_count;
};

struct shape;

/* ERR_INVALID: too many triggers or tokens, or the grammar does not go with begun. */
MUST_CHECK enum errc shape_new(struct shape **out, const struct shape_options *opt,
                               struct error *err);
void shape_free(struct shape *s); /* NULL is allowed */

/* May this token come next? */
bool shape_allows(struct shape *s, int32_t id);
/* A bit for each token of the vocabulary: words of 64, the lowest bit first. */
size_t shape_mask_words(uint32_t vocab_size);
void shape_mask(struct shape *s, uint64_t *mask);
/* The token was taken. ERR_INVALID: it does not go with the grammar. */
MUST_CHECK enum errc shape_take(struct shape *s, int32_t id, struct error *err);
/* Nothing can follow: the answer is complete. */
bool shape_is_done(const struct shape *s);
/* Bytes of the token in the answer's text. */
size_t shape_piece(const struct shape *s, int32_t id, char out[ENGINE_PIECE_BYTES]);
/* ERR_INVALID and why no token was allowed. */
enum errc shape_why(const struct shape *s, struct error *err);

#endif
