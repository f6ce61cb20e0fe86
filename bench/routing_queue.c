/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router's own code in a queueing model under virtual time: four shards of
 * eight slots, each the expert for two of eight domains; domains by Zipf 1, so that
 * one shard is wanted by 44 % of all requests. Experts and others differ by a tier
 * (accuracy 0.9 and 0.5) or are in the same (0.95 and 0.85). Four entry nodes choose by reports of load that are up to a second
 * old and by what they have sent since. Service times are lognormal, mean 1.37 s.
 *
 * Rules: plain hashing, least-loaded, the paper's with the latency announced
 * once and with the p99 of a shard's last 64 answers, and ours. A rule has
 * collapsed when its p99 is more than five times that of hashing.
 */
#include "../test/sim/vtime.h"
#include "cluster/route.h"
#include "routing.h"

enum { SHARDS = 4, SLOTS = 8, ENTRIES = 4, DOMAINS = 8, REQUESTS = 40000, RECENT = 64 };

#define MEDIAN_S 1.04
#define SIGMA 0.742

enum latency { LATENCY_FIXED, LATENCY_MEASURED };

struct policy {
    const char *name;
    enum route_rule rule;
    enum latency latency; /* what the paper's rule is told */
};

struct skill {
    const char *name;
    double expert, other;
};

struct queue_shard {
    double free_s[SLOTS];
    unsigned pending;
    double service_sum_s;
    unsigned served;
    double recent_ms[RECENT]; /* times of the last answers */
    unsigned recent_count;
    unsigned chosen;
};

struct entry {
    struct route_shard view[SHARDS];
};

struct model {
    struct vtime time;
    const struct policy *policy;
    const struct skill *skill;
    struct route_settings settings;
    struct queue_shard shards[SHARDS];
    struct entry entries[ENTRIES];
    double arrivals_per_s, domain_share[DOMAINS];
    unsigned begun, fallbacks;
    double *times_s;
    unsigned ended;
    double accuracy;
};

struct answer {
    struct queue_shard *shard;
    double begun_s, service_s;
};

static double now_s(const struct model *m)
{
    return (double)vtime_now(&m->time) / 1e6;
}

static uint64_t to_us(double seconds)
{
    return (uint64_t)(seconds * 1e6);
}

static double accuracy_of(const struct model *m, unsigned shard, unsigned domain)
{
    return domain % SHARDS == shard ? m->skill->expert : m->skill->other;
}

static void end(void *ctx, void *arg)
{
    struct model *m = ctx;
    struct answer *a = arg;
    struct queue_shard *s = a->shard;
    double took_s = now_s(m) - a->begun_s;

    s->pending--;
    s->served++;
    s->service_sum_s += a->service_s;
    s->recent_ms[s->recent_count++ % RECENT] = took_s * 1000;
    m->times_s[m->ended++] = took_s;
    mem_free(a);
}

static void serve(struct model *m, struct queue_shard *s)
{
    double *slot = &s->free_s[0], now = now_s(m);
    struct answer *a = mem_alloc(sizeof *a);

    for (unsigned i = 1; i < SLOTS; i++)
        slot = s->free_s[i] < *slot ? &s->free_s[i] : slot;
    *a = (struct answer){ s, now, MEDIAN_S * exp(SIGMA * vtime_normal(&m->time)) };
    *slot = (*slot > now ? *slot : now) + a->service_s;
    s->pending++;
    s->chosen++;
    vtime_at(&m->time, to_us(*slot), end, m, a);
}

static unsigned draw_domain(struct model *m)
{
    double x = vtime_chance(&m->time);
    unsigned d = 0;

    while (d + 1 < DOMAINS && x >= m->domain_share[d])
        x -= m->domain_share[d++];
    return d;
}

static void begin(void *ctx, void *arg)
{
    struct model *m = ctx;
    unsigned domain = draw_domain(m);
    struct entry *e = &m->entries[vtime_below(&m->time, ENTRIES)];
    const struct route_request req = { .domain = slice_str("domain"),
                                       .has_domain = true,
                                       .slot = (uint16_t)vtime_below(&m->time, 4096),
                                       .owner = (uint16_t)(1 + vtime_below(&m->time, SHARDS)) };
    for (unsigned i = 0; i < SHARDS; i++)
        e->view[i].accuracy = accuracy_of(m, i, domain);
    struct route_decision d = route_choose(&m->settings, &req, e->view, SHARDS, &m->time.clock.env);
    m->accuracy += accuracy_of(m, (unsigned)d.index, domain);
    m->fallbacks += d.is_fallback;
    e->view[d.index].own_sends++;
    serve(m, &m->shards[d.index]);
    if (++m->begun < REQUESTS)
        vtime_at(&m->time,
                 vtime_now(&m->time) + to_us(-log(1 - vtime_chance(&m->time)) / m->arrivals_per_s),
                 begin, m, NULL);
    mem_free(arg);
}

static double p99_ms(const struct queue_shard *s)
{
    double sorted[RECENT];
    unsigned n = s->recent_count < RECENT ? s->recent_count : RECENT;

    memcpy(sorted, s->recent_ms, n * sizeof *sorted);
    return n ? bench_quantile(sorted, n, 0.99) : 0;
}

/* All entry nodes get every shard's report, once a second, each shard in its own phase. */
static void report(void *ctx, void *arg)
{
    struct model *m = ctx;
    unsigned i = *(unsigned *)arg;
    const struct queue_shard *s = &m->shards[i];

    for (unsigned k = 0; k < ENTRIES; k++) {
        struct route_shard *v = &m->entries[k].view[i];
        v->has_load = v->has_domain = true;
        v->pending = s->pending;
        v->service_ms = s->served ? s->service_sum_s / s->served * 1000 : 1000;
        v->own_sends = 0;
        v->latency_ms = m->policy->latency == LATENCY_MEASURED ? p99_ms(s) : 0;
    }
    if (m->ended < REQUESTS)
        vtime_at(&m->time, vtime_now(&m->time) + 1000000, report, m, arg);
    else
        mem_free(arg);
}

static void prepare(struct model *m, const struct policy *policy, const struct skill *skill,
                    double load)
{
    double sum = 0;

    memset(m, 0, sizeof *m);
    vtime_init(&m->time, 1);
    m->policy = policy;
    m->skill = skill;
    m->settings = route_defaults();
    m->settings.rule = policy->rule;
    m->times_s = mem_zalloc(REQUESTS * sizeof *m->times_s);
    m->arrivals_per_s = load * SHARDS * SLOTS / (MEDIAN_S * exp(SIGMA * SIGMA / 2));
    for (unsigned d = 0; d < DOMAINS; d++)
        sum += 1.0 / (d + 1);
    for (unsigned d = 0; d < DOMAINS; d++)
        m->domain_share[d] = 1.0 / (d + 1) / sum;
    for (unsigned i = 0; i < SHARDS; i++) {
        unsigned *arg = mem_alloc(sizeof *arg);
        *arg = i;
        for (unsigned k = 0; k < ENTRIES; k++)
            m->entries[k].view[i] = (struct route_shard){ .id = (uint16_t)(i + 1), .slots = SLOTS };
        vtime_at(&m->time, to_us(vtime_chance(&m->time)), report, m, arg);
    }
    vtime_at(&m->time, 1000001, begin, m, NULL); /* when all have reported */
}

/* Returns the p99. */
static double run(const struct policy *policy, const struct skill *skill, double load,
                  double hash_p99)
{
    static struct model m;
    struct bench_load_mark mark = bench_load_begin();
    struct bench_line line;
    unsigned busiest = 0;

    prepare(&m, policy, skill, load);
    vtime_run(&m.time, UINT64_MAX / 2);
    for (unsigned i = 0; i < SHARDS; i++)
        busiest = m.shards[i].chosen > busiest ? m.shards[i].chosen : busiest;
    double p99 = bench_quantile(m.times_s, REQUESTS, 0.99);
    bench_begin(&line, "routing", "queue");
    bench_text(&line, "skill", skill->name);
    bench_number(&line, "load", load);
    bench_text(&line, "rule", policy->name);
    bench_number(&line, "p50_s", bench_quantile(m.times_s, REQUESTS, 0.5));
    bench_number(&line, "p99_s", p99);
    bench_number(&line, "accuracy", m.accuracy / REQUESTS);
    bench_number(&line, "busiest_share", (double)busiest / REQUESTS);
    bench_number(&line, "fallbacks", m.fallbacks);
    if (hash_p99 > 0)
        bench_text(&line, "collapsed", p99 > 5 * hash_p99 ? "yes" : "no");
    if (policy->rule == ROUTE_RULE_ADAPTIVE) {
        bench_text(&line, "target", "p99 at most 1.5 times that of hashing");
        bench_text(&line, "met", p99 <= 1.5 * hash_p99 ? "yes" : "no");
    }
    struct bench_load used = bench_load_end(&mark);
    bench_end(&line, &used);
    vtime_release(&m.time);
    mem_free(m.times_s);
    return p99;
}

void routing_queue(void)
{
    static const double loads[] = { 0.5, 0.7, 0.85 };
    static const struct skill skills[] = { { "0.9 and 0.5", 0.9, 0.5 },
                                           { "0.95 and 0.85", 0.95, 0.85 } };
    static const struct policy hash = { "hash", ROUTE_RULE_HASH, LATENCY_FIXED };
    static const struct policy others[] = {
        { "least-loaded", ROUTE_RULE_LEAST_LOADED, LATENCY_FIXED },
        { "paper, latency announced once", ROUTE_RULE_PAPER, LATENCY_FIXED },
        { "paper, latency measured", ROUTE_RULE_PAPER, LATENCY_MEASURED },
        { "adaptive", ROUTE_RULE_ADAPTIVE, LATENCY_FIXED },
    };

    for (size_t n = 0; n < ARRAY_LEN(skills); n++) {
        for (size_t i = 0; i < ARRAY_LEN(loads); i++) {
            double hash_p99 = run(&hash, &skills[n], loads[i], 0);
            for (size_t k = 0; k < ARRAY_LEN(others); k++)
                (void)run(&others[k], &skills[n], loads[i], hash_p99);
        }
    }
}
