/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What serializable isolation costs: noting a key that was read, and looking up
 * at commit what others committed meanwhile. Without sync, so that the disk does
 * not hide it; one thread.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench_store.h"
#include "txn.h"

enum { DOCUMENTS = 20000, ROUNDS = 15, READS_MIN = 2000 };

struct check {
    struct bench_store store;
    struct arena *arena;
    unsigned reads;
    uint64_t next_key; /* of documents that others insert */
};

static struct txn *begin(struct check *k, enum isolation isolation)
{
    struct error err;
    struct txn *t;
    bench_must(txn_begin(&t, k->store.store,
                         &(struct txn_options){ .isolation = isolation, .no_sync = true }, &err),
               &err, "beginning");
    return t;
}

static const struct collection *in(struct check *k, struct txn *t)
{
    return catalog_collection(txn_catalog(t), k->store.db_id, slice_str("d"));
}

/* Seconds of reading. */
static double read_keys(struct check *k, struct txn *t)
{
    struct error err;
    struct val doc;
    char key[BENCH_KEY_BYTES + 1];
    struct arena_mark mark = arena_mark(k->arena);
    const struct collection *d = in(k, t);
    double begun = bench_seconds();
    for (unsigned i = 0; i < k->reads; i++) {
        bench_key(key, (uint64_t)i * 7919 % DOCUMENTS);
        bench_must(doc_get(t, d, slice_of(key, BENCH_KEY_BYTES), k->arena, &doc, &err), &err,
                   "reading");
        arena_rewind(k->arena, mark);
    }
    return bench_seconds() - begun;
}

static void insert(struct check *k, struct txn *t, unsigned count)
{
    struct error err;
    struct doc_change change;
    struct arena_mark mark = arena_mark(k->arena);
    for (unsigned i = 0; i < count; i++) {
        bench_must(doc_insert(t, in(k, t),
                              bench_document(DOCUMENTS + k->next_key++, true, k->arena), NULL,
                              k->arena, &change, &err),
                   &err, "inserting");
        arena_rewind(k->arena, mark);
    }
}

static double commit(struct txn *t)
{
    struct error err;
    double begun = bench_seconds();
    bench_must(txn_commit(t, &err), &err, "committing");
    double took = bench_seconds() - begun;
    txn_end(t);
    return took;
}

/* A transaction that read so much and writes one document, while others committed so many. */
static double commit_after(struct check *k, unsigned others)
{
    struct txn *t = begin(k, ISOLATION_SERIALIZABLE);
    (void)read_keys(k, t);
    insert(k, t, 1);
    for (unsigned done = 0; done < others; done += 500) {
        struct txn *other = begin(k, ISOLATION_SNAPSHOT);
        insert(k, other, 500);
        (void)commit(other);
    }
    return commit(t);
}

/* Seconds for each key, in transactions of so many. */
static double read_seconds(struct check *k, enum isolation isolation)
{
    unsigned repeats = k->reads < READS_MIN ? READS_MIN / k->reads : 1;
    double seconds = 0;
    for (unsigned i = 0; i < repeats; i++) {
        struct txn *t = begin(k, isolation);
        seconds += read_keys(k, t);
        txn_end(t);
    }
    return seconds / repeats / k->reads;
}

/* What a round measures; which one goes first changes from round to round. */
struct figures {
    double read[ROUNDS], note[ROUNDS], commit[ROUNDS], check[ROUNDS];
};

static void measure_round(struct check *k, unsigned others, struct figures *f, int i)
{
    double noted = 0, after = 0;
    for (int step = 0; step < 2; step++) {
        if ((i + step) % 2) {
            noted = read_seconds(k, ISOLATION_SERIALIZABLE);
            after = commit_after(k, others);
        } else {
            f->read[i] = read_seconds(k, ISOLATION_SNAPSHOT);
            f->commit[i] = commit_after(k, 0);
        }
    }
    f->note[i] = noted - f->read[i];
    f->check[i] = (after - f->commit[i]) / others;
}

static void measure(struct check *k, unsigned others)
{
    static struct figures f;
    struct bench_line line;
    (void)read_seconds(k, ISOLATION_SERIALIZABLE); /* caches */
    struct bench_load_mark begun = bench_load_begin();
    for (int i = 0; i < ROUNDS; i++)
        measure_round(k, others, &f, i);
    struct bench_load load = bench_load_end(&begun);
    bench_begin(&line, "txn", "check");
    bench_number(&line, "reads", k->reads);
    bench_number(&line, "committed_meanwhile", others);
    bench_number(&line, "read_ns", bench_quantile(f.read, ROUNDS, 0.5) * 1e9);
    bench_number(&line, "note_ns_per_read", bench_quantile(f.note, ROUNDS, 0.5) * 1e9);
    bench_number(&line, "commit_us", bench_quantile(f.commit, ROUNDS, 0.5) * 1e6);
    bench_number(&line, "check_ns_per_committed_key", bench_quantile(f.check, ROUNDS, 0.5) * 1e9);
    bench_number(&line, "rounds", ROUNDS);
    bench_end(&line, &load);
}

void txn_check(void)
{
    static const unsigned reads[] = { 1, 10, 100, 1000, 10000 };
    struct check k = { .arena = arena_new(0) };
    bench_store_open(&k.store, "check");
    bench_store_fill(&k.store, DOCUMENTS);
    for (size_t i = 0; i < ARRAY_LEN(reads); i++) {
        k.reads = reads[i];
        measure(&k, 10000);
    }
    bench_store_close(&k.store);
    arena_free(k.arena);
}
