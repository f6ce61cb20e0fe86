/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words -- words of a text as they are looked up: lower case, composed, at most
 * WORD_CHARS_MAX characters. Hides ICU. Any thread.
 */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include "base/base.h"
#include "base/buf.h"

enum { WORD_CHARS_MAX = 40 }; /* longer ones are cut */

/* Calls fn for each word of at least min characters, in the text's order. */
void words_each(struct slice text, size_t min, void (*fn)(void *ctx, struct slice word), void *ctx);

/* The text as one such word, appended; returns its characters. */
size_t words_fold(struct slice text, struct buf *out);

/* Is the text in normal form C? */
bool text_is_composed(struct slice text);

/* Changes when words may have changed: store it beside what was built with them. */
const char *words_version(void);

#endif
