/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows lie in blocks that never move, so readers follow the writer without a
 * lock: a row is written first and counted afterwards.
 */
#include "store/vector_rows.h"

#include "base/arena.h"
#include "base/hash.h"
#include "store/faiss_shim.h"

enum { BLOCK_ROWS = VECTOR_BLOCK_ROWS, TABLE_MIN = 64 };

static void charge(struct vector_rows *r, int64_t bytes)
{
    r->bytes += bytes;
    atomic_fetch_add_explicit(r->charge, bytes, memory_order_relaxed);
}

struct vector_rows *vector_rows_new(uint32_t dimension, size_t capacity, bool has_vectors,
                                    _Atomic int64_t *charged)
{
    struct vector_rows *r = mem_zalloc(sizeof *r);
    size_t blocks = (capacity + BLOCK_ROWS - 1) / BLOCK_ROWS;
    r->refs = 1;
    r->dimension = dimension;
    r->has_vectors = has_vectors;
    r->capacity = capacity;
    r->charge = charged;
    r->blocks = mem_zalloc((blocks + 1) * sizeof *r->blocks);
    r->ids = arena_new(0);
    r->mask = TABLE_MIN - 1;
    r->table = mem_zalloc(TABLE_MIN * sizeof *r->table);
    charge(r, (int64_t)(blocks * sizeof *r->blocks));
    return r;
}

struct vector_rows *vector_rows_ref(struct vector_rows *r)
{
    atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

void vector_rows_unref(struct vector_rows *r)
{
    if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; r->blocks[i]; i++)
        mem_free(r->blocks[i]);
    charge(r, -r->bytes);
    hnsw_free(r->graph);
    arena_free(r->ids);
    mem_free(r->blocks);
    mem_free(r->table);
    mem_free(r);
}

/* ---- finding ---- */

static uint32_t hash_of(struct slice id)
{
    return (uint32_t)hash_xxh3(id.ptr, id.len);
}

/* The place of the id in the table: of its newest row, or empty. */
static size_t place_of(const struct vector_rows *r, struct slice id, uint32_t hash)
{
    size_t at = hash & r->mask;
    for (; r->table[at]; at = (at + 1) & r->mask) {
        const struct vector_entry *e = vector_rows_entry(r, r->table[at] - 1);
        if (e->hash == hash && slice_eq(vector_entry_id(e), id))
            break;
    }
    return at;
}

static void grow_table(struct vector_rows *r)
{
    size_t old = r->mask + 1;
    uint32_t *before = r->table;
    r->mask = old * 2 - 1;
    r->table = mem_zalloc(old * 2 * sizeof *r->table);
    for (size_t i = 0; i < old; i++) {
        if (!before[i])
            continue;
        size_t at = vector_rows_entry(r, before[i] - 1)->hash & r->mask;
        while (r->table[at])
            at = (at + 1) & r->mask;
        r->table[at] = before[i];
    }
    mem_free(before);
    charge(r, (int64_t)(old * sizeof *before));
}

size_t vector_rows_find(const struct vector_rows *r, struct slice id)
{
    uint32_t row = r->table[place_of(r, id, hash_of(id))];
    return row ? row - 1 : SIZE_MAX;
}

/* ---- writing ---- */

static void add_block(struct vector_rows *r, size_t block)
{
    size_t floats = r->has_vectors ? (size_t)BLOCK_ROWS * r->dimension : 0;
    size_t bytes = sizeof(struct vector_block) + floats * sizeof(float);
    r->blocks[block] = mem_alloc(bytes);
    charge(r, (int64_t)bytes);
}

bool vector_rows_add(struct vector_rows *r, struct slice id, uint64_t birth, uint64_t death,
                     const void *vector)
{
    size_t row = atomic_load_explicit(&r->count, memory_order_relaxed);
    uint32_t hash = hash_of(id);
    if (row == r->capacity)
        return false;
    if (row % BLOCK_ROWS == 0)
        add_block(r, row / BLOCK_ROWS);
    struct vector_block *block = r->blocks[row / BLOCK_ROWS];
    struct vector_entry *e = &block->entries[row % BLOCK_ROWS];
    size_t place = place_of(r, id, hash);
    e->id = arena_copy(r->ids, id).ptr;
    e->id_len = (uint32_t)id.len;
    e->hash = hash;
    e->birth = birth;
    atomic_init(&e->death, death);
    if (death != VECTOR_ALIVE)
        atomic_fetch_add_explicit(&r->dead, 1, memory_order_relaxed);
    if (r->has_vectors)
        memcpy(block->vectors + row % BLOCK_ROWS * r->dimension, vector,
               r->dimension * sizeof(float));
    charge(r, (int64_t)id.len + 16);
    r->table[place] = (uint32_t)row + 1;
    atomic_store_explicit(&r->count, row + 1, memory_order_release);
    if ((row + 1) * 4 > r->mask * 3)
        grow_table(r);
    return true;
}

bool vector_rows_kill(struct vector_rows *r, struct slice id, uint64_t seq)
{
    size_t row = vector_rows_find(r, id);
    if (row == SIZE_MAX)
        return false;
    struct vector_entry *e = vector_rows_entry(r, row);
    if (atomic_load_explicit(&e->death, memory_order_relaxed) != VECTOR_ALIVE)
        return false;
    atomic_store_explicit(&e->death, seq, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->dead, 1, memory_order_relaxed);
    return true;
}

void vector_rows_set_graph(struct vector_rows *r, struct hnsw *graph)
{
    r->graph = graph;
    r->graph_rows = hnsw_row(graph, 0);
    charge(r, (int64_t)hnsw_bytes(graph));
}
