/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point reads over HTTP while 64 queries wait on INFER, and without them, turn
 * by turn: once with a real model, whose lanes want all cores, once with the
 * scripted engine, which sleeps like an accelerator elsewhere would let us.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench_server.h"
#include "bench_store.h"
#include "net/client.h"
#include "node.h"

enum { DOCUMENTS = 20000, REQUESTS = 1000, WAITING = 64, READERS = 4, ROUNDS = 7, SETTLE_S = 60 };

static const char query[] = "{\"query\":\"RETURN INFER 'chat' 'Write a long story about the sea.' "
                            "OPTIONS {max_tokens: 1000, temperature: 1}\"}";

struct reads {
    struct bench_server server;
    struct http_client *client; /* for figures of the server */
    struct buf bytes;
    struct slice requests[REQUESTS], query;
    double p50[2][ROUNDS], p99[2][ROUNDS], rate[2][ROUNDS]; /* alone, beside */
};

static void make_requests(struct reads *r)
{
    size_t ends[REQUESTS];
    char path[128], key[BENCH_KEY_BYTES + 1];
    for (size_t i = 0; i < REQUESTS; i++) {
        bench_key(key, i * 7919 % DOCUMENTS);
        snprintf(path, sizeof path, "/_api/document/d/%s", key);
        bench_http_get(&r->bytes, path);
        ends[i] = r->bytes.len;
    }
    bench_http_post(&r->bytes, "/_api/cursor", query);
    for (size_t i = 0; i < REQUESTS; i++) {
        size_t from = i ? ends[i - 1] : 0;
        r->requests[i] = slice_of(r->bytes.ptr + from, ends[i] - from);
    }
    r->query = slice_of(r->bytes.ptr + ends[REQUESTS - 1], r->bytes.len - ends[REQUESTS - 1]);
}

/* How many generations the node runs and keeps waiting. */
static unsigned generations(struct reads *r)
{
    struct error err;
    struct http_reply reply = { .status = 0 };
    struct http_call call = { .method = "GET", .path = "/_admin/status" };
    bench_must(http_client_call(r->client, &call, &reply, &err), &err, "asking for the status");
    const char *text = buf_cstr(&reply.body);
    const char *running = strstr(text, "\"running\":"), *waiting = strstr(text, "\"waiting\":");
    if (!running || !waiting)
        bench_fail("/_admin/status has no figures of inference: %s", text);
    unsigned n = (unsigned)(strtoul(running + 10, NULL, 10) + strtoul(waiting + 10, NULL, 10));
    http_reply_release(&reply);
    return n;
}

static void wait_for_generations(struct reads *r, unsigned wanted)
{
    for (double end = bench_seconds() + SETTLE_S; generations(r) != wanted;) {
        if (bench_seconds() > end)
            bench_fail("the node did not come to %u generations in %d s", wanted, SETTLE_S);
        bench_sleep(0.05);
    }
}

static void read_some(struct reads *r, size_t kind, size_t round)
{
    struct bench_http_result got;
    struct bench_http_load load = { .port = r->server.port,
                                    .connections = READERS,
                                    .requests = r->requests,
                                    .request_count = REQUESTS,
                                    .seconds = 1 };
    bench_http_run(&load, &got);
    r->p50[kind][round] = got.p50_us;
    r->p99[kind][round] = got.p99_us;
    r->rate[kind][round] = got.per_second;
}

static void run_round(struct reads *r, size_t round)
{
    read_some(r, 0, round);
    struct bench_http_waiting *w = bench_http_begin(r->server.port, WAITING, r->query);
    wait_for_generations(r, WAITING);
    read_some(r, 1, round);
    unsigned answered = bench_http_answered(w);
    bench_http_leave(w);
    if (answered > WAITING / 4)
        bench_fail("%u of %d queries had ended before the reads did", answered, WAITING);
    wait_for_generations(r, 0);
}

static void print(struct reads *r, const char *model, const struct bench_load *load)
{
    static const char *const keys[2][3] = { { "alone_p50_us", "alone_p99_us", "alone_per_s" },
                                            { "p50_us", "p99_us", "per_s" } };
    struct bench_line line;
    char facts[128];
    snprintf(facts, sizeof facts, "model=%s waiting=%d connections=%d", model, WAITING, READERS);
    bench_begin(&line, "node", "read_beside_infer");
    bench_facts(&line, facts);
    for (int kind = 1; kind >= 0; kind--) {
        bench_number(&line, keys[kind][0], bench_quantile(r->p50[kind], ROUNDS, 0.5));
        bench_number(&line, keys[kind][1], bench_quantile(r->p99[kind], ROUNDS, 0.5));
        if (kind)
            bench_number(&line, "p99_worst_round_us", r->p99[kind][ROUNDS - 1]); /* sorted now */
        bench_number(&line, keys[kind][2], bench_quantile(r->rate[kind], ROUNDS, 0.5));
    }
    bench_number(&line, "rounds", ROUNDS);
    bench_end(&line, load);
}

static void measure(struct reads *r, const char *store_path, const char *name, const char *model)
{
    struct error err;
    char url[64], argument[256];
    snprintf(argument, sizeof argument, "chat=%s", model);
    const char *const arguments[] = { "--model", argument, NULL };
    bench_server_start(&r->server, store_path, arguments);
    snprintf(url, sizeof url, "http://127.0.0.1:%u", r->server.port);
    bench_must(http_client_new(&r->client, &(struct http_client_options){ .url = url }, &err), &err,
               "connecting");
    wait_for_generations(r, 0);
    struct bench_load_mark begin = bench_load_begin();
    for (size_t i = 0; i < ROUNDS; i++)
        run_round(r, i);
    struct bench_load load = bench_load_end(&begin);
    print(r, name, &load);
    http_client_free(r->client);
    bench_server_stop(&r->server);
}

void node_infer(void)
{
    static struct reads r;
    struct bench_store store;
    buf_init(&r.bytes, 0);
    make_requests(&r);
    bench_store_open(&store, "infer");
    bench_store_fill(&store, DOCUMENTS);
    bench_store_close(&store);
    measure(&r, store.path, "real", "build/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    measure(&r, store.path, "sim", "sim:chat,prefill=4000,decode=20,ctx=4096");
    buf_release(&r.bytes);
}
