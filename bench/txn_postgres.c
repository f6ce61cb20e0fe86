/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One document a transaction, durable when answered, on the same disk. The opponent
 * is pgbench with a prepared INSERT of the same JSON as jsonb, over a unix socket;
 * ours is the store by as many threads of this process (no way to a server and
 * back), then themisd over as many HTTP connections.
 */
#include <stdio.h>

#include "base/val_text.h"
#include "bench_commit.h"
#include "bench_postgres.h"
#include "bench_server.h"
#include "bench_store.h"
#include "txn.h"

struct servers {
    struct bench_store store;
    struct bench_server ours;
    struct bench_postgres theirs;
    struct buf request, script;
    unsigned clients;
};

static double insert_here(void *ctx, double seconds)
{
    struct servers *s = ctx;
    return bench_commit_ours(&s->store, s->clients, seconds);
}

static double insert_by_http(void *ctx, double seconds)
{
    struct servers *s = ctx;
    struct slice request = buf_slice(&s->request);
    struct bench_http_result got;
    bench_http_run(&(struct bench_http_load){ .port = s->ours.port,
                                              .connections = s->clients,
                                              .requests = &request,
                                              .request_count = 1,
                                              .seconds = seconds },
                   &got);
    return got.per_second;
}

static double insert_theirs(void *ctx, double seconds)
{
    struct servers *s = ctx;
    return bench_postgres_run(&s->theirs,
                              &(struct bench_postgres_load){ .clients = s->clients,
                                                             .seconds = seconds,
                                                             .script = buf_cstr(&s->script) });
}

/* pgbench takes a word behind a colon for a variable. */
static void add_spaced(struct buf *out, struct slice json)
{
    for (size_t i = 0; i < json.len; i++) {
        buf_add_char(out, json.ptr[i]);
        if (json.ptr[i] == ':')
            buf_add_char(out, ' ');
    }
}

static void make_work(struct servers *s)
{
    struct arena *arena = arena_new(0);
    struct buf json;
    buf_init(&json, 0);
    buf_init(&s->request, 0);
    buf_init(&s->script, 0);
    val_print(bench_document(1, false, arena), &json);
    bench_http_post(&s->request, "/_api/document/d?waitForSync=true", buf_cstr(&json));
    buf_add_str(&s->script, "INSERT INTO d (doc) VALUES ('");
    add_spaced(&s->script, buf_slice(&json));
    buf_add_str(&s->script, "'::jsonb);");
    buf_release(&json);
    arena_free(arena);
}

static void compare(struct servers *s)
{
    char facts[400], opponent[1024];
    bench_postgres_command(&s->theirs,
                           &(struct bench_postgres_load){ .clients = s->clients, .seconds = 1 },
                           opponent, sizeof opponent);
    snprintf(facts, sizeof facts, "clients=%u %s", s->clients, s->theirs.settings);
    struct bench_pair pair = { .name = "txn",
                               .what = "postgres",
                               .facts = facts,
                               .unit = "commits/s",
                               .opponent = opponent,
                               .target = 1,
                               .seconds = 2,
                               .ours = insert_here,
                               .theirs = insert_theirs,
                               .ctx = s };
    bench_compare(&pair);
    pair.what = "postgres_http";
    pair.ours = insert_by_http;
    bench_compare(&pair);
}

void txn_postgres(void)
{
    static const unsigned clients[] = { 1, 8, 64 };
    static struct servers s;
    struct bench_store served;
    make_work(&s);
    bench_store_open(&served, "postgres-served");
    bench_store_close(&served);
    bench_store_open(&s.store, "postgres-here");
    bench_server_start(&s.ours, served.path, NULL);
    bench_postgres_start(&s.theirs,
                         "CREATE TABLE d (key bigserial PRIMARY KEY, doc jsonb NOT NULL)");
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        s.clients = clients[i];
        compare(&s);
    }
    bench_postgres_stop(&s.theirs);
    bench_server_stop(&s.ours);
    bench_store_close(&s.store);
    buf_release(&s.request);
    buf_release(&s.script);
}
