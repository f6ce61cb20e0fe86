/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a document costs over HTTP beyond the way there and back: GET of a
 * document against a route that goes to a worker and has nothing to do
 * (/_admin/server/availability asks two flags), and that route against /livez,
 * which is answered on the loop.
 */
#include <stdio.h>

#include "bench_server.h"
#include "bench_store.h"
#include "node.h"

enum { DOCUMENTS = 20000, REQUESTS = 1000 };

static const char empty_path[] = "/_admin/server/availability";

struct https {
    struct bench_server server;
    struct buf bytes;
    struct slice documents[REQUESTS], empty, live;
    unsigned connections;
};

static double run(struct https *h, const struct slice *requests, size_t count, double seconds)
{
    struct bench_http_result got;
    bench_http_run(&(struct bench_http_load){ .port = h->server.port,
                                              .connections = h->connections,
                                              .requests = requests,
                                              .request_count = count,
                                              .seconds = seconds },
                   &got);
    return got.per_second;
}

static double get_document(void *ctx, double seconds)
{
    struct https *h = ctx;
    return run(h, h->documents, REQUESTS, seconds);
}

static double get_empty(void *ctx, double seconds)
{
    struct https *h = ctx;
    return run(h, &h->empty, 1, seconds);
}

static double get_live(void *ctx, double seconds)
{
    struct https *h = ctx;
    return run(h, &h->live, 1, seconds);
}

static void make_requests(struct https *h)
{
    size_t ends[REQUESTS + 2];
    char path[128], key[BENCH_KEY_BYTES + 1];
    for (size_t i = 0; i < REQUESTS; i++) {
        bench_key(key, i * 7919 % DOCUMENTS);
        snprintf(path, sizeof path, "/_api/document/d/%s", key);
        bench_http_get(&h->bytes, path);
        ends[i] = h->bytes.len;
    }
    bench_http_get(&h->bytes, empty_path);
    ends[REQUESTS] = h->bytes.len;
    bench_http_get(&h->bytes, "/livez");
    ends[REQUESTS + 1] = h->bytes.len;
    for (size_t i = 0; i < REQUESTS + 2; i++) { /* now that the bytes do not move any more */
        size_t from = i ? ends[i - 1] : 0;
        struct slice request = slice_of(h->bytes.ptr + from, ends[i] - from);
        *(i < REQUESTS ? &h->documents[i] : i == REQUESTS ? &h->empty : &h->live) = request;
    }
}

void node_http(void)
{
    static const unsigned connections[] = { 1, 16 };
    static struct https h;
    struct bench_store store;
    buf_init(&h.bytes, 0);
    make_requests(&h);
    bench_store_open(&store, "http");
    bench_store_fill(&store, DOCUMENTS);
    bench_store_close(&store);
    bench_server_start(&h.server, store.path, NULL);
    for (size_t i = 0; i < ARRAY_LEN(connections); i++) {
        char facts[64];
        h.connections = connections[i];
        snprintf(facts, sizeof facts, "connections=%u", h.connections);
        struct bench_pair pair = { .name = "node",
                                   .what = "http_get",
                                   .facts = facts,
                                   .unit = "requests/s",
                                   .opponent = "GET /_admin/server/availability",
                                   .target = 0.4,
                                   .ours = get_document,
                                   .theirs = get_empty,
                                   .ctx = &h };
        bench_compare(&pair);
        pair.what = "http_worker";
        pair.opponent = "GET /livez, answered on the loop";
        pair.target = 0;
        pair.ours = get_empty;
        pair.theirs = get_live;
        bench_compare(&pair);
    }
    bench_server_stop(&h.server);
    buf_release(&h.bytes);
}
