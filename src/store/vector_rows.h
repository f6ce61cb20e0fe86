/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector_rows -- a numbered set of row versions of one vector index, each valid
 * for the views from its birth to its death (commit numbers). It is a head, to
 * which one writer appends while others read, or a segment, which is complete
 * and has a graph over its rows. For the files of store.
 *
 * The writer holds the lock of the vector indexes, or is the only one that
 * knows the set. Reference counted; what is read stays until the last unref.
 */
#ifndef STORE_VECTOR_ROWS_H
#define STORE_VECTOR_ROWS_H

#include <stdatomic.h>

#include "base/base.h"

struct hnsw;

#define VECTOR_ALIVE UINT64_MAX
enum { VECTOR_ROWS_MAX = 1 << 30 };

/* One row version. The id is the key of the index row behind the object id: slot, document key. */
struct vector_entry {
    const char *id;
    uint32_t id_len, hash;
    uint64_t birth;
    _Atomic uint64_t death; /* VECTOR_ALIVE until it is known */
};

enum { VECTOR_BLOCK_ROWS = 512 };
struct vector_block {
    struct vector_entry entries[VECTOR_BLOCK_ROWS];
    float vectors[]; /* of a head */
};

struct vector_rows {
    _Atomic unsigned refs;
    uint32_t dimension;
    bool has_vectors; /* in the blocks: a head */
    size_t capacity;
    _Atomic size_t count; /* rows that may be read */
    _Atomic size_t dead;  /* rows with a death */
    struct vector_block **blocks;
    struct hnsw *graph;      /* owned; NULL: a head */
    const float *graph_rows; /* the vectors in it */
    uint64_t file_number;    /* of the file that holds the segment; 0 = none */
    _Atomic int64_t *charge; /* bytes of all sets; borrowed */
    int64_t bytes;

    /* the writer's */
    struct arena *ids;
    uint32_t *table; /* row + 1 by hash of the id; the newest of an id */
    size_t mask;
};

/* With one reference. has_vectors: a head. */
struct vector_rows *vector_rows_new(uint32_t dimension, size_t capacity, bool has_vectors,
                                    _Atomic int64_t *charge);
struct vector_rows *vector_rows_ref(struct vector_rows *r);
void vector_rows_unref(struct vector_rows *r); /* NULL is allowed */

/* Writer. Copies id and vector (NULL in a segment). false: full. */
bool vector_rows_add(struct vector_rows *r, struct slice id, uint64_t birth, uint64_t death,
                     const void *vector);
/* Writer. Ends the living version of the id; false when there is none. */
bool vector_rows_kill(struct vector_rows *r, struct slice id, uint64_t seq);
/* Writer, or anybody once the set is complete. The newest version of the id, or SIZE_MAX. */
size_t vector_rows_find(const struct vector_rows *r, struct slice id);
/* Writer. Keeps the graph, whose rows are those of the set. */
void vector_rows_set_graph(struct vector_rows *r, struct hnsw *graph);

static inline size_t vector_rows_count(const struct vector_rows *r)
{
    return atomic_load_explicit(&r->count, memory_order_acquire);
}

static inline struct vector_entry *vector_rows_entry(const struct vector_rows *r, size_t row)
{
    return &r->blocks[row / VECTOR_BLOCK_ROWS]->entries[row % VECTOR_BLOCK_ROWS];
}

static inline const float *vector_rows_vector(const struct vector_rows *r, size_t row)
{
    if (r->graph)
        return r->graph_rows + row * r->dimension;
    return r->blocks[row / VECTOR_BLOCK_ROWS]->vectors + row % VECTOR_BLOCK_ROWS * r->dimension;
}

static inline struct slice vector_entry_id(const struct vector_entry *e)
{
    return slice_of(e->id, e->id_len);
}

static inline bool vector_entry_visible(const struct vector_entry *e, uint64_t seq)
{
    return e->birth <= seq && atomic_load_explicit(&e->death, memory_order_relaxed) > seq;
}

#endif
