/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_clients -- threads that begin together and do the same for a while,
 * each counting what it did.
 */
#ifndef BENCH_BENCH_CLIENTS_H
#define BENCH_BENCH_CLIENTS_H

#include <pthread.h>

#include "bench.h"

enum { BENCH_CLIENTS_MAX = 64 };

struct bench_clients;
struct bench_client {
    struct bench_clients *all;
    void *ctx; /* the caller's, the same for all */
    unsigned number;
    uint64_t seed;          /* different for each and for each run */
    uint64_t done, refused; /* the body counts */
    pthread_t thread;
};

/* The body prepares, waits here for the others, and works while the second is true. */
void bench_client_ready(struct bench_client *c);
bool bench_client_goes_on(const struct bench_client *c);
uint64_t bench_client_random(struct bench_client *c);

/*
 * Runs body on `count` threads for so many seconds. clients: room for them, filled
 * for the caller to read afterwards. Returns what all did together per second.
 */
double bench_clients_run(struct bench_client *clients, unsigned count, double seconds,
                         void (*body)(struct bench_client *c), void *ctx);

#endif
