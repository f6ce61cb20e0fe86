/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vectors -- the vector indexes of a store in memory: segments with graphs, and
 * heads that follow every commit; kept by one background thread. For the files
 * of store.
 *
 * The rows in the index family are the truth. What is here answers the same
 * question faster, or says that it cannot; then the rows are scanned.
 *
 * Versions: an index has a current version, a list of row sets, which changes
 * by replacement only. A search takes a reference, so what it reads stays. The
 * row versions in the sets say which views see them (vector_rows.h). A version
 * is right for views from its min_seq on: what died before is not in it.
 */
#ifndef STORE_VECTORS_H
#define STORE_VECTORS_H

#include <pthread.h>

#include "store/store_private.h"
#include "store/vector.h"
#include "store/vector_rows.h"

enum { VECTOR_HEADS_MAX = 8, VECTOR_SEGMENTS_MAX = 64 };

struct vector_version {
    _Atomic unsigned refs;
    uint64_t min_seq;
    struct vector_rows *segments[VECTOR_SEGMENTS_MAX]; /* references, as the heads */
    size_t segment_count;
    struct vector_rows *heads[VECTOR_HEADS_MAX]; /* oldest first; the last one grows */
    size_t head_count;
};

struct vectors;

/* Follows commits from here on; before the first one. */
struct vectors *vectors_new(struct store *s);
/* Starts the thread; the catalog is loaded. */
MUST_CHECK enum errc vectors_start(struct vectors *v, struct error *err);
void vectors_stop(struct vectors *v); /* ends the thread; the committer still runs */
void vectors_free(struct vectors *v); /* NULL is allowed; the committer has ended */

/* The version that is right for the view, or NULL: the rows must be scanned. */
struct vector_version *vectors_acquire(struct vectors *v, uint64_t object_id, uint64_t view_seq);
void vector_version_unref(struct vector_version *version);

#endif
