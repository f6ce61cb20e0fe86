/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gossip: seconds until all of N nodes know what one of them announces, at links
 * that lose messages, under virtual time; and what that costs in messages.
 */
#include "../test/sim/gossip_cluster.h"
#include "bench.h"

#define LIMIT_S 20.0
enum { TRIALS_MAX = 400 };

static double times[TRIALS_MAX];

static void run(unsigned nodes, double loss, unsigned trials)
{
    struct gossip_cluster c;
    struct bench_load_mark mark = bench_load_begin();
    struct bench_line line;
    unsigned in_time = 0;

    gossip_cluster_init(&c, nodes, 1);
    c.loss = loss;
    gossip_cluster_start_all(&c);
    gossip_cluster_run(&c, 8);
    uint64_t begin = vtime_now(&c.time), sent = 0, bytes = 0, dropped = 0;
    for (unsigned i = 0; i < nodes; i++) {
        sent -= gossip_stats(c.nodes[i].gossip)->sent; /* wraps around */
        bytes -= gossip_stats(c.nodes[i].gossip)->sent_bytes;
        dropped -= gossip_stats(c.nodes[i].gossip)->over_budget;
    }
    for (unsigned i = 0; i < trials; i++) {
        times[i] = gossip_cluster_converge(&c, LIMIT_S);
        in_time += times[i] <= 2;
        gossip_cluster_run(&c, 0.5 + vtime_chance(&c.time));
    }
    for (unsigned i = 0; i < nodes; i++) {
        sent += gossip_stats(c.nodes[i].gossip)->sent;
        bytes += gossip_stats(c.nodes[i].gossip)->sent_bytes;
        dropped += gossip_stats(c.nodes[i].gossip)->over_budget;
    }
    double seconds = (double)(vtime_now(&c.time) - begin) / 1e6;
    bench_begin(&line, "gossip", "converge");
    bench_number(&line, "nodes", nodes);
    bench_number(&line, "loss", loss);
    bench_number(&line, "trials", trials);
    bench_number(&line, "p50_s", bench_quantile(times, trials, 0.5));
    bench_number(&line, "p99_s", bench_quantile(times, trials, 0.99));
    bench_number(&line, "max_s", bench_quantile(times, trials, 1));
    bench_number(&line, "within_2_s", (double)in_time / trials);
    bench_number(&line, "messages_per_node_s", (double)sent / nodes / seconds);
    bench_number(&line, "bytes_per_node_s", (double)bytes / nodes / seconds);
    bench_number(&line, "over_budget", (double)dropped);
    if (nodes == 16 && loss > 0) {
        bench_number(&line, "target", 0.99);
        bench_text(&line, "met", in_time * 100 >= trials * 99 ? "yes" : "no");
    }
    struct bench_load load = bench_load_end(&mark);
    bench_end(&line, &load);
    gossip_cluster_release(&c);
}

static void converge(void)
{
    static const struct {
        unsigned nodes, trials;
    } sizes[] = { { 4, 400 }, { 16, 400 }, { 64, 200 }, { 256, 30 }, { 1024, 5 } };

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        run(sizes[i].nodes, 0, sizes[i].trials);
        run(sizes[i].nodes, 0.2, sizes[i].trials);
    }
}

static const struct bench_part parts[] = { { "converge", converge } };

int main(int argc, char **argv)
{
    return bench_main(argc, argv, parts, ARRAY_LEN(parts));
}
