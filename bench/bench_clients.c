/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_clients.h"

#include <stdatomic.h>

struct bench_clients {
    void (*body)(struct bench_client *c);
    atomic_bool is_over;
    pthread_barrier_t start;
};

void bench_client_ready(struct bench_client *c)
{
    pthread_barrier_wait(&c->all->start);
}

bool bench_client_goes_on(const struct bench_client *c)
{
    return !atomic_load_explicit(&c->all->is_over, memory_order_relaxed);
}

uint64_t bench_client_random(struct bench_client *c)
{
    c->seed ^= c->seed << 13;
    c->seed ^= c->seed >> 7;
    c->seed ^= c->seed << 17;
    return c->seed;
}

static void *client_main(void *arg)
{
    struct bench_client *c = arg;
    c->all->body(c);
    return NULL;
}

double bench_clients_run(struct bench_client *clients, unsigned count, double seconds,
                         void (*body)(struct bench_client *c), void *ctx)
{
    static uint64_t runs;
    struct bench_clients all = { .body = body };
    uint64_t done = 0;
    assert(count > 0 && count <= BENCH_CLIENTS_MAX);
    pthread_barrier_init(&all.start, NULL, count + 1);
    for (unsigned i = 0; i < count; i++) {
        uint64_t seed = ++runs * 0x9e3779b97f4a7c15 | 1;
        clients[i] = (struct bench_client){ .all = &all, .ctx = ctx, .number = i, .seed = seed };
        if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]))
            bench_fail("cannot start %u threads", count);
    }
    pthread_barrier_wait(&all.start);
    double begin = bench_seconds();
    bench_sleep(seconds);
    atomic_store(&all.is_over, true);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(clients[i].thread, NULL);
        done += clients[i].done;
    }
    double took = bench_seconds() - begin;
    pthread_barrier_destroy(&all.start);
    return (double)done / took;
}
