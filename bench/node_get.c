/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point reads of documents at random, everything cached: through the store as
 * a request does it (view, catalog, document copied out) against
 * rocksdb_get_pinned_cf on a copy of the same files. Per second of CPU time,
 * since nothing here waits: others on the machine do not blur it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench_store.h"
#include "node.h"

enum { DOCUMENTS = 200000, GETS_PER_LOOK = 64, ROW_KEY_BYTES = 10 + BENCH_KEY_BYTES };

struct gets {
    struct bench_store store;
    struct bench_raw raw;
    rocksdb_readoptions_t *read;
    /* RocksDB's key of each document, in a random order that both sides follow: its end is ours. */
    char (*keys)[ROW_KEY_BYTES];
    size_t next;
    struct arena *arena;
    size_t seen; /* keeps the compiler from dropping the reads */
};

static void get_ours(struct gets *g, const char *row)
{
    struct error err;
    struct txn *t;
    struct val doc;
    struct slice key = slice_of(row + ROW_KEY_BYTES - BENCH_KEY_BYTES, BENCH_KEY_BYTES);
    struct arena_mark mark = arena_mark(g->arena);
    bench_must(txn_begin(&t, g->store.store, &(struct txn_options){ .is_read_only = true }, &err),
               &err, "beginning");
    const struct database *db = catalog_database(txn_catalog(t), slice_str("_system"));
    const struct collection *c = catalog_collection(txn_catalog(t), db->id, slice_str("d"));
    bench_must(doc_get(t, c, key, g->arena, &doc, &err), &err, "get");
    g->seen += val_size(doc);
    txn_end(t);
    arena_rewind(g->arena, mark);
}

static void get_theirs(struct gets *g, const char *row)
{
    char *message = NULL;
    size_t len = 0;
    rocksdb_pinnableslice_t *value =
        rocksdb_get_pinned_cf(g->raw.db, g->read, g->raw.doc, row, ROW_KEY_BYTES, &message);
    bench_raw_must(message, "get");
    g->seen += (size_t)rocksdb_pinnableslice_value(value, &len)[0];
    g->seen += len;
    rocksdb_pinnableslice_destroy(value);
}

static const char *next_key(struct gets *g)
{
    g->next = g->next + 1 < DOCUMENTS ? g->next + 1 : 0;
    return g->keys[g->next];
}

static double run(struct gets *g, double seconds, void (*get)(struct gets *, const char *))
{
    double begin = bench_thread_seconds(), now = begin;
    uint64_t done = 0;
    for (; now - begin < seconds; now = bench_thread_seconds()) {
        for (int i = 0; i < GETS_PER_LOOK; i++)
            get(g, next_key(g));
        done += GETS_PER_LOOK;
    }
    return (double)done / (now - begin);
}

static double ours(void *ctx, double seconds)
{
    return run(ctx, seconds, get_ours);
}

static double theirs(void *ctx, double seconds)
{
    return run(ctx, seconds, get_theirs);
}

static void shuffle(struct gets *g)
{
    uint64_t seed = 88172645463325252u;
    for (size_t i = DOCUMENTS - 1; i > 0; i--) {
        char held[ROW_KEY_BYTES];
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        size_t other = seed % (i + 1);
        memcpy(held, g->keys[i], sizeof held);
        memcpy(g->keys[i], g->keys[other], sizeof held);
        memcpy(g->keys[other], held, sizeof held);
    }
}

static void read_keys(struct gets *g)
{
    size_t len = 0, count = 0;
    rocksdb_iterator_t *it = rocksdb_create_iterator_cf(g->raw.db, g->read, g->raw.doc);
    g->keys = mem_alloc(DOCUMENTS * sizeof *g->keys);
    for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
        const char *key = rocksdb_iter_key(it, &len);
        if (len != ROW_KEY_BYTES || count == DOCUMENTS)
            bench_fail("RocksDB has other rows than the %d documents", DOCUMENTS);
        memcpy(g->keys[count++], key, len);
    }
    rocksdb_iter_destroy(it);
    if (count != DOCUMENTS)
        bench_fail("RocksDB has %zu documents instead of %d", count, DOCUMENTS);
    shuffle(g);
}

/* Fills the store, brings its files into their final shape and copies them. */
static void prepare(struct gets *g, const char *copy)
{
    char command[1200];
    bench_store_open(&g->store, "get");
    bench_store_fill(&g->store, DOCUMENTS);
    bench_store_close(&g->store);
    bench_raw_open(&g->raw, g->store.path);
    rocksdb_compact_range_cf(g->raw.db, g->raw.doc, NULL, 0, NULL, 0);
    bench_raw_close(&g->raw);
    snprintf(command, sizeof command, "cp -r '%s' '%s'", g->store.path, copy);
    if (system(command) != 0)
        bench_fail("'%s' failed", command);
    bench_store_open(&g->store, "get");
    bench_raw_open(&g->raw, copy);
}

static void warm(struct gets *g)
{
    for (size_t i = 0; i < DOCUMENTS; i++) {
        get_ours(g, g->keys[i]);
        get_theirs(g, g->keys[i]);
    }
}

void node_get(void)
{
    struct gets g = { .next = 0 };
    char copy[600], facts[128];
    snprintf(copy, sizeof copy, "%s/get-raw", bench_dir());
    g.arena = arena_new(0);
    g.read = rocksdb_readoptions_create();
    prepare(&g, copy);
    read_keys(&g);
    warm(&g);
    snprintf(facts, sizeof facts, "threads=1 documents=%d bytes=%zu cache_mb=%d", DOCUMENTS,
             g.seen / DOCUMENTS / 2, BENCH_CACHE_MB);
    bench_compare(&(struct bench_pair){ .name = "node",
                                        .what = "get",
                                        .facts = facts,
                                        .unit = "gets/cpu_s",
                                        .opponent = "rocksdb_get_pinned_cf, same files and options",
                                        .target = 0.6,
                                        .seconds = 0.5,
                                        .ours = ours,
                                        .theirs = theirs,
                                        .ctx = &g });
    rocksdb_readoptions_destroy(g.read);
    bench_raw_close(&g.raw);
    bench_store_close(&g.store);
    arena_free(g.arena);
    mem_free(g.keys);
}
