/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_text -- turns the pieces of tokens into text that may be shown: whole
 * UTF-8 characters, nothing that might still become a stop text, and nothing
 * from a stop text on.
 */
#ifndef MODEL_ANSWER_TEXT_H
#define MODEL_ANSWER_TEXT_H

#include "base/base.h"
#include "base/buf.h"

struct answer_text {
    struct buf held;  /* not shown yet */
    struct buf ready; /* what the last call released */
    char **stops;     /* owned */
    size_t *stop_lens;
    size_t stop_count;
    uint64_t shown; /* bytes of pieces that were released so far */
    bool is_stopped;
};

/* Copies the stop texts; empty ones are ignored. */
void answer_text_init(struct answer_text *t, const struct slice *stops, size_t stop_count);
void answer_text_release(struct answer_text *t);

/*
 * Adds bytes. *out (valid until the next call) is what may be shown now.
 * Returns true when a stop text was reached: nothing more is to be added.
 */
bool answer_text_add(struct answer_text *t, struct slice piece, struct slice *out);

/* The rest at the end of an answer; a broken character at the end becomes U+FFFD. */
struct slice answer_text_finish(struct answer_text *t);

#endif
