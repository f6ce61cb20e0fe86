/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector_heap -- the k nearest of what is offered. Equal distances are ordered
 * by key, so that answers repeat. For the files of store.
 */
#ifndef STORE_VECTOR_HEAP_H
#define STORE_VECTOR_HEAP_H

#include "base/arena.h"

struct vector_near {
    float distance;  /* low is near */
    struct slice id; /* slot and document key */
};

struct vector_heap {
    struct vector_near *at; /* room for k; farthest first */
    size_t k, count;
    struct arena *copies; /* where ids are copied to; NULL: they stay where they are */
};

/* Would it be among the k nearest so far? */
bool vector_heap_wants(const struct vector_heap *h, struct vector_near near);
/* After vector_heap_wants. */
void vector_heap_add(struct vector_heap *h, struct vector_near near);
/* Nearest first; nothing can be added afterwards. */
void vector_heap_sort(struct vector_heap *h);

#endif
