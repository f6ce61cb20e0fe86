/* SPDX-License-Identifier: Apache-2.0 */
/*
 * passage -- the sentences of search hits, each with the heading it stands
 * under. Pure.
 */
#ifndef RETRIEVE_PASSAGE_H
#define RETRIEVE_PASSAGE_H

#include "base/arena.h"
#include "retrieve/corpus.h"
#include "retrieve/sentence.h"

struct passage {
    size_t hit;          /* its index */
    struct span at;      /* bytes of the hit's text */
    struct slice text;   /* the same */
    struct slice label;  /* nearest heading; may be empty */
    struct slice header; /* first row of its table, when it is a later row */
    bool has_next;       /* the passage after it goes on in the same block */
    size_t paragraph;    /* equal for passages of one block */
};

struct passages {
    struct passage *items;
    size_t count;
};

/* At most max of them, in order. Headings and rules of tables are none. Lives in the arena. */
struct passages passages_of(const struct corpus_hit *hits, size_t hit_count, size_t max,
                            struct arena *arena);

#endif
