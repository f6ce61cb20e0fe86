/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everybody adds one to the same document: how many get through, how many try in
 * vain, and whether all get their share. Ours tries again until it wins;
 * PostgreSQL's clients queue at the row's lock. Ours runs in this process,
 * theirs behind a socket, so the shares are what compares.
 */
#include <stdio.h>

#include "base/val_text.h"
#include "bench_clients.h"
#include "bench_postgres.h"
#include "bench_store.h"
#include "txn.h"

struct hot {
    struct bench_store store;
    struct bench_postgres postgres;
    unsigned clients;
    uint64_t ours[BENCH_CLIENTS_MAX], theirs[BENCH_CLIENTS_MAX]; /* in all rounds */
    uint64_t refused;
};

static const char hot_key[] = "hot";

/* ---- ours ---- */

static enum errc add_one(struct hot *h, struct arena *arena)
{
    struct error err;
    struct doc_change change;
    struct txn *t;
    struct val doc, next;
    bench_must(txn_begin(&t, h->store.store,
                         &(struct txn_options){ .isolation = ISOLATION_SNAPSHOT }, &err),
               &err, "beginning");
    const struct collection *d = catalog_collection(txn_catalog(t), h->store.db_id, slice_str("d"));
    bench_must(doc_get(t, d, slice_str(hot_key), arena, &doc, &err), &err, "reading");
    long long n = (long long)val_int(val_get(doc, slice_str("n")));
    bench_must(val_parse(slice_str(arena_printf(arena, "{\"n\":%lld}", n + 1)), arena, &next, &err),
               &err, "making a document");
    bench_must(doc_replace(t, d, slice_str(hot_key), next, NULL, arena, &change, &err), &err,
               "replacing");
    enum errc rc = txn_commit(t, &err);
    if (rc != ERR_CONFLICT)
        bench_must(rc, &err, "committing");
    txn_end(t);
    return rc;
}

static void run_ours(struct bench_client *c)
{
    struct hot *h = c->ctx;
    struct arena *arena = arena_new(0);
    struct arena_mark mark = arena_mark(arena);
    bench_client_ready(c);
    while (bench_client_goes_on(c)) {
        bool is_done = add_one(h, arena) == OK;
        arena_rewind(arena, mark);
        c->done += is_done;
        c->refused += !is_done;
    }
    arena_free(arena);
}

static double ours(void *ctx, double seconds)
{
    struct hot *h = ctx;
    struct bench_client clients[BENCH_CLIENTS_MAX];
    double rate = bench_clients_run(clients, h->clients, seconds, run_ours, h);
    for (unsigned i = 0; i < h->clients; i++) {
        h->ours[i] += clients[i].done;
        h->refused += clients[i].refused;
    }
    return rate;
}

/* ---- theirs ---- */

static double theirs(void *ctx, double seconds)
{
    struct hot *h = ctx;
    uint64_t done[BENCH_CLIENTS_MAX];
    double rate = bench_postgres_run(
        &h->postgres,
        &(struct bench_postgres_load){ .clients = h->clients,
                                       .seconds = seconds,
                                       .script = "UPDATE hot SET n = n + 1 WHERE key = 1;",
                                       .done_per_client = done });
    for (unsigned i = 0; i < h->clients; i++)
        h->theirs[i] += done[i];
    return rate;
}

/* ---- both ---- */

/* The least and the largest share, 1 = as much as everybody would have if all had the same. */
static void add_shares(struct bench_line *line, const char *least_key, const char *most_key,
                       const uint64_t *done, unsigned clients)
{
    uint64_t least = UINT64_MAX, most = 0, sum = 0;
    for (unsigned i = 0; i < clients; i++) {
        least = done[i] < least ? done[i] : least;
        most = done[i] > most ? done[i] : most;
        sum += done[i];
    }
    double even = (double)sum / clients;
    bench_number(line, least_key, (double)least / even);
    bench_number(line, most_key, (double)most / even);
}

static void print_shares(const struct hot *h, const struct bench_load *load)
{
    char facts[64];
    uint64_t done = 0;
    struct bench_line line;
    for (unsigned i = 0; i < h->clients; i++)
        done += h->ours[i];
    snprintf(facts, sizeof facts, "clients=%u", h->clients);
    bench_begin(&line, "txn", "hot_shares");
    bench_facts(&line, facts);
    bench_number(&line, "abort_rate", (double)h->refused / (double)(done + h->refused));
    add_shares(&line, "ours_least", "ours_most", h->ours, h->clients);
    add_shares(&line, "theirs_least", "theirs_most", h->theirs, h->clients);
    bench_end(&line, load);
}

static void compare(struct hot *h)
{
    char facts[400];
    memset(h->ours, 0, sizeof h->ours);
    memset(h->theirs, 0, sizeof h->theirs);
    h->refused = 0;
    snprintf(facts, sizeof facts, "clients=%u %s", h->clients, h->postgres.settings);
    struct bench_load_mark begin = bench_load_begin();
    bench_compare(&(struct bench_pair){ .name = "txn",
                                        .what = "hot",
                                        .facts = facts,
                                        .unit = "commits/s",
                                        .opponent = "pgbench: UPDATE hot SET n = n + 1",
                                        .seconds = 2,
                                        .rounds = 5,
                                        .ours = ours,
                                        .theirs = theirs,
                                        .ctx = h });
    struct bench_load load = bench_load_end(&begin);
    print_shares(h, &load);
}

static void insert_hot(struct bench_store *s)
{
    struct error err;
    struct doc_change change;
    struct txn *t;
    struct val doc;
    struct arena *arena = arena_new(0);
    bench_must(val_parse(slice_str("{\"_key\":\"hot\",\"n\":0}"), arena, &doc, &err), &err,
               "making a document");
    bench_must(
        txn_begin(&t, s->store, &(struct txn_options){ .isolation = ISOLATION_SNAPSHOT }, &err),
        &err, "beginning");
    const struct collection *d = catalog_collection(txn_catalog(t), s->db_id, slice_str("d"));
    bench_must(doc_insert(t, d, doc, NULL, arena, &change, &err), &err, "inserting");
    bench_must(txn_commit(t, &err), &err, "committing");
    txn_end(t);
    arena_free(arena);
}

void txn_hot(void)
{
    static const unsigned clients[] = { 8, 64 };
    static struct hot h;
    bench_store_open(&h.store, "hot-ours");
    insert_hot(&h.store);
    bench_postgres_start(&h.postgres, "CREATE TABLE hot (key int PRIMARY KEY, n bigint); "
                                      "INSERT INTO hot VALUES (1, 0)");
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        h.clients = clients[i];
        compare(&h);
    }
    bench_postgres_stop(&h.postgres);
    bench_store_close(&h.store);
}
