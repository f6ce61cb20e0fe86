/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logprob -- how probable the tokens of an answer were, held back with their
 * text: what is not shown (the beginning of a stop text) has no entry either.
 *
 * Probabilities are the model's own: before penalties, bias, temperature and filters. One
 * thread at a time.
 */
#ifndef MODEL_LOGPROB_H
#define MODEL_LOGPROB_H

#include "base/buf.h"
#include "model/engine.h"

enum { LOGPROBS_TOP_MAX = 20 };

struct logprob_mark;

struct logprobs {
    bool is_on;
    unsigned top;               /* alternatives of each token, at most LOGPROBS_TOP_MAX */
    struct buf held;            /* encoded; not handed out yet */
    struct buf ready;           /* of the last call */
    struct logprob_mark *marks; /* owned; of each held token */
    size_t mark_count, mark_cap;
    uint64_t text_bytes; /* of all tokens so far */
};

void logprobs_init(struct logprobs *l, bool is_on, unsigned top);
void logprobs_release(struct logprobs *l);

/* The token that was chosen by these logits. */
void logprobs_add(struct logprobs *l, struct engine *e, const float *logits, int32_t id);

/* Those whose text begins within the first shown bytes; for gen_token_next, until the next call. */
struct slice logprobs_take(struct logprobs *l, uint64_t shown);

#endif
