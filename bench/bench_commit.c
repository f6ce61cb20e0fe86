/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_commit.h"

#include <stdio.h>

#include "bench_clients.h"
#include "bench_store.h"

enum { ROW_KEY_BYTES = 18 };

struct commits {
    struct bench_store store;
    struct bench_raw raw;
    rocksdb_writeoptions_t *synced;
    char value[1024]; /* a document as the store keeps it */
    size_t value_len;
    unsigned clients;
};

/* ---- ours ---- */

/* doc has no _key: the store makes one. */
static void commit_ours(struct bench_store *s, struct val doc, struct arena *arena)
{
    struct error err;
    struct doc_change change;
    struct txn *t;
    bench_must(
        txn_begin(&t, s->store, &(struct txn_options){ .isolation = ISOLATION_SNAPSHOT }, &err),
        &err, "beginning");
    const struct collection *d = catalog_collection(txn_catalog(t), s->db_id, slice_str("d"));
    bench_must(doc_insert(t, d, doc, NULL, arena, &change, &err), &err, "inserting");
    bench_must(txn_commit(t, &err), &err, "committing");
    txn_end(t);
}

static void run_ours(struct bench_client *c)
{
    struct arena *arena = arena_new(0);
    struct val doc = bench_document(c->seed, false, arena);
    struct arena_mark mark = arena_mark(arena);
    bench_client_ready(c);
    while (bench_client_goes_on(c)) {
        commit_ours(c->ctx, doc, arena);
        arena_rewind(arena, mark);
        c->done++;
    }
    arena_free(arena);
}

double bench_commit_ours(struct bench_store *s, unsigned clients, double seconds)
{
    struct bench_client all[BENCH_CLIENTS_MAX];
    return bench_clients_run(all, clients, seconds, run_ours, s);
}

/* ---- theirs ---- */

static void run_theirs(struct bench_client *c)
{
    struct commits *all = c->ctx;
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    char key[ROW_KEY_BYTES] = "collectio";
    bench_client_ready(c);
    while (bench_client_goes_on(c)) {
        char *message = NULL;
        uint64_t number = bench_client_random(c);
        memcpy(key + ROW_KEY_BYTES - sizeof number, &number, sizeof number);
        rocksdb_writebatch_clear(batch);
        rocksdb_writebatch_put_cf(batch, all->raw.doc, key, sizeof key, all->value, all->value_len);
        rocksdb_write(all->raw.db, all->synced, batch, &message);
        bench_raw_must(message, "writing");
        c->done++;
    }
    rocksdb_writebatch_destroy(batch);
}

/* ---- both ---- */

static double ours(void *ctx, double seconds)
{
    struct commits *all = ctx;
    return bench_commit_ours(&all->store, all->clients, seconds);
}

static double theirs(void *ctx, double seconds)
{
    struct commits *all = ctx;
    struct bench_client clients[BENCH_CLIENTS_MAX];
    return bench_clients_run(clients, all->clients, seconds, run_theirs, all);
}

/* RocksDB starts from the files of a store that is empty but for its collection. */
static void open_both(struct commits *all)
{
    struct bench_store first;
    bench_store_open(&first, "commit-raw");
    bench_store_close(&first);
    bench_raw_open(&all->raw, first.path);
    all->synced = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(all->synced, 1);
    bench_store_open(&all->store, "commit");
    bench_store_fill(&all->store, 1);
    all->value_len = bench_stored_document(&all->store, all->value, sizeof all->value);
}

void bench_commit(const char *name)
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
        bench_compare(&(struct bench_pair){ .name = name,
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
    bench_raw_close(&all.raw);
    bench_store_close(&all.store);
}
