/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_server -- the real themisd as a child, and requests to it over many
 * connections at once from one thread.
 */
#ifndef BENCH_BENCH_SERVER_H
#define BENCH_BENCH_SERVER_H

#include "bench.h"

struct bench_server {
    pid_t pid;
    uint16_t port;
};
/*
 * Starts build/release/src/themisd on loopback with these further arguments (at
 * most 16, ended by NULL) and waits until it listens; its log is data + ".log".
 * It ends with this program at the latest. Its CPU time counts as ours.
 */
void bench_server_start(struct bench_server *s, const char *data, const char *const *arguments);
/* Ends it by SIGTERM; a status other than 0 ends the program. */
void bench_server_stop(struct bench_server *s);

/* One request on a connection of its own; the whole answer with its head is added to out. */
void bench_http_fetch(uint16_t port, struct slice request, struct buf *out);

/* A GET of the path; appended to out. */
void bench_http_get(struct buf *out, const char *path);
/* A POST of a JSON text. */
void bench_http_post(struct buf *out, const char *path, const char *json);

/* Each connection sends a request, waits for the whole answer, sends the next. */
struct bench_http_load {
    uint16_t port;
    unsigned connections;
    const struct slice *requests; /* ready bytes; taken in turn by whoever is free */
    size_t request_count;
    double seconds;
};
struct bench_http_result {
    double per_second;
    double p50_us, p99_us, worst_us;
};
/* Any answer but 2xx ends the program with what it said. */
void bench_http_run(const struct bench_http_load *load, struct bench_http_result *out);

/* Connections that each sent one request and do not wait for the answer. */
struct bench_http_waiting;
struct bench_http_waiting *bench_http_begin(uint16_t port, unsigned connections,
                                            struct slice request);
/* How many have an answer, or the beginning of one. */
unsigned bench_http_answered(struct bench_http_waiting *w);
void bench_http_leave(struct bench_http_waiting *w); /* closes them */

#endif
