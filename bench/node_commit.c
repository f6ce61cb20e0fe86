/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durable inserts by several clients: each a transaction with one document
 * through the committer, against a synced rocksdb_write of the same bytes. Both
 * begin with an empty database with the same options.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "node.h"
#include "node_store.h"

enum { CLIENTS_MAX = 64, ROW_KEY_BYTES = 18 };

struct commits {
    struct node_store store;
    struct node_raw raw;
    rocksdb_writeoptions_t *synced;
    char value[1024]; /* a document as the store keeps it */
    size_t value_len;
    unsigned clients;
    atomic_bool is_over;
    pthread_barrier_t start;
};

struct client {
    pthread_t thread;
    struct commits *all;
    uint64_t seed, done;
};

static void client_init(struct client *c, struct commits *all, unsigned number)
{
    static atomic_uint_fast64_t runs;
    *c = (struct client){ .all = all,
                          .seed = (atomic_fetch_add(&runs, 1) + number) * 0x9e3779b97f4a7c15 + 1 };
}

static uint64_t next_random(struct client *c)
{
    c->seed ^= c->seed << 13;
    c->seed ^= c->seed >> 7;
    c->seed ^= c->seed << 17;
    return c->seed;
}

/* ---- ours ---- */

/* doc has no _key: the store makes one. */
static void commit_ours(struct client *c, struct val doc, struct arena *arena)
{
    struct error err;
    struct doc_change change;
    struct txn *t;
    struct store *s = c->all->store.store;
    bench_must(txn_begin(&t, s, &(struct txn_options){ .isolation = ISOLATION_SNAPSHOT }, &err),
               &err, "beginning");
    const struct collection *d =
        catalog_collection(txn_catalog(t), c->all->store.db_id, slice_str("d"));
    bench_must(doc_insert(t, d, doc, NULL, arena, &change, &err), &err, "inserting");
    bench_must(txn_commit(t, &err), &err, "committing");
    txn_end(t);
}

static void *run_ours(void *arg)
{
    struct client *c = arg;
    struct arena *arena = arena_new(0);
    struct val doc = node_document(c->seed, false, arena);
    struct arena_mark mark = arena_mark(arena);
    pthread_barrier_wait(&c->all->start);
    while (!atomic_load_explicit(&c->all->is_over, memory_order_relaxed)) {
        commit_ours(c, doc, arena);
        arena_rewind(arena, mark);
        c->done++;
    }
    arena_free(arena);
    return NULL;
}

/* ---- theirs ---- */

static void *run_theirs(void *arg)
{
    struct client *c = arg;
    struct commits *all = c->all;
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    char key[ROW_KEY_BYTES] = "collectio";
    pthread_barrier_wait(&all->start);
    while (!atomic_load_explicit(&all->is_over, memory_order_relaxed)) {
        char *message = NULL;
        uint64_t number = next_random(c);
        memcpy(key + ROW_KEY_BYTES - sizeof number, &number, sizeof number);
        rocksdb_writebatch_clear(batch);
        rocksdb_writebatch_put_cf(batch, all->raw.doc, key, sizeof key, all->value, all->value_len);
        rocksdb_write(all->raw.db, all->synced, batch, &message);
        node_raw_must(message, "writing");
        c->done++;
    }
    rocksdb_writebatch_destroy(batch);
    return NULL;
}

/* ---- both ---- */

static double run(struct commits *all, double seconds, void *(*client_main)(void *))
{
    struct client clients[CLIENTS_MAX];
    uint64_t done = 0;
    atomic_store(&all->is_over, false);
    pthread_barrier_init(&all->start, NULL, all->clients + 1);
    for (unsigned i = 0; i < all->clients; i++) {
        client_init(&clients[i], all, i);
        if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]))
            bench_fail("cannot start %u threads", all->clients);
    }
    pthread_barrier_wait(&all->start);
    double begin = bench_seconds();
    bench_sleep(seconds);
    atomic_store(&all->is_over, true);
    for (unsigned i = 0; i < all->clients; i++) {
        pthread_join(clients[i].thread, NULL);
        done += clients[i].done;
    }
    pthread_barrier_destroy(&all->start);
    return (double)done / (bench_seconds() - begin);
}

static double ours(void *ctx, double seconds)
{
    return run(ctx, seconds, run_ours);
}

static double theirs(void *ctx, double seconds)
{
    return run(ctx, seconds, run_theirs);
}

/* RocksDB starts from the files of a store that is empty but for its collection. */
static void open_both(struct commits *all)
{
    struct node_store first;
    node_store_open(&first, "commit-raw");
    node_store_close(&first);
    node_raw_open(&all->raw, first.path);
    all->synced = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(all->synced, 1);
    node_store_open(&all->store, "commit");
    node_store_fill(&all->store, 1);
    all->value_len = node_stored_document(&all->store, all->value, sizeof all->value);
}

void node_commit(void)
{
    static const struct {
        unsigned clients;
        double target;
    } cases[] = { { 1, 0.9 }, { 8, 1.1 }, { 64, 1.2 } };
    struct commits all = { .clients = 0 };
    open_both(&all);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char facts[64];
        all.clients = cases[i].clients;
        snprintf(facts, sizeof facts, "clients=%u bytes=%zu", all.clients, all.value_len);
        bench_compare(&(struct bench_pair){ .name = "node",
                                            .what = "commit",
                                            .facts = facts,
                                            .unit = "commits/s",
                                            .opponent = "rocksdb_write, sync=1, same bytes",
                                            .target = cases[i].target,
                                            .ours = ours,
                                            .theirs = theirs,
                                            .ctx = &all });
    }
    rocksdb_writeoptions_destroy(all.synced);
    node_raw_close(&all.raw);
    node_store_close(&all.store);
}
