/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subject -- which words of a question only name what the documents are about,
 * and what it asks beyond them. Pure.
 */
#ifndef RETRIEVE_SUBJECT_H
#define RETRIEVE_SUBJECT_H

#include "base/arena.h"
#include "retrieve/corpus.h"

/*
 * The question without the words that name the subject of the best hit's document, or the
 * question itself when no other words are in it. Hits stand best first; lives in the arena.
 */
struct slice subject_leave_out(struct slice question, const struct corpus_hit *hits, size_t count,
                               struct arena *arena);

#endif
