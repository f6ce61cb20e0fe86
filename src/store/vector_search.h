/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector_search -- answering one question to a vector index: from memory, or
 * by scanning its rows. For the files of store.
 */
#ifndef STORE_VECTOR_SEARCH_H
#define STORE_VECTOR_SEARCH_H

#include "store/txn_private.h"
#include "store/vectors.h"

struct vector_question {
    struct txn *txn;
    const struct collection *collection;
    const struct index_def *index;
    const struct vector_request *request; /* k is not 0 */
    const float *vector;                  /* as the rows are: of length 1 for cosine */
    size_t effort;                        /* candidates that a graph keeps */
    struct arena *arena;                  /* of the answer */
};

MUST_CHECK enum errc vector_answer(const struct vector_question *q, struct vector_hit *hits,
                                   size_t *count, struct error *err);

/* The key of a row in the index family: object id, then an id (slot and document key). */
bool vector_key_is_row(struct slice key);
bool vector_key_is_note(struct slice key); /* of a text that waits (vector_source.h) */
struct slice vector_id_key(struct slice id);
/* The key behind all rows of the index; behind it is what waits to become rows. */
void vector_scan_end(struct buf *out, uint64_t object_id);

#endif
