/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coordinator's own code over four engines of virtual time: 64 rows of 200
 * tokens, or of lognormal lengths with that mean, in four domains. An engine
 * computes a step of b rows in t0 + k * b milliseconds; rows join and leave
 * between steps. Prefill is left out, a call takes 1 ms.
 *
 * Beside one engine that has all rows at once (the opponent) and one that takes
 * one row after the other (the paper's baseline). With equal lengths and a
 * perfect split the speed-up over the first is (t0 + N k) / (t0 + N k / 4).
 */
#include "../test/sim/vtime.h"
#include "batch.h"
#include "cluster/scatter.h"
#include <stdio.h>

enum { ROWS = 64, SHARDS = 4, TOKENS = 200, DOMAINS = 4, TRIALS = 41 };

struct engine {
    const char *name;
    double t0_ms, k_ms;
};

struct job {
    uint32_t call, row;
    unsigned tokens; /* left */
};

struct run;

struct shard {
    struct run *run;
    struct job jobs[ROWS];
    unsigned count;
    bool is_stepping;
    unsigned served;
};

struct run {
    struct vtime time;
    struct engine engine;
    struct scatter *scatter;
    unsigned tokens[ROWS];
    struct shard shards[SHARDS];
};

static double step_us(const struct engine *e, unsigned rows)
{
    return (e->t0_ms + e->k_ms * rows) * 1000;
}

static void pump(struct run *r);

static void step(void *ctx, void *arg)
{
    struct shard *s = ctx;
    unsigned kept = 0;

    (void)arg;
    for (unsigned i = 0; i < s->count; i++) {
        struct job j = s->jobs[i];
        if (--j.tokens) {
            s->jobs[kept++] = j;
            continue;
        }
        if (!scatter_answer(s->run->scatter, j.call, j.row))
            BUG("a row has two answers");
        s->served++;
    }
    s->count = kept;
    s->is_stepping = false;
    pump(s->run);
}

static void arrive(void *ctx, void *arg)
{
    struct shard *s = ctx;
    struct scatter_chunk *c = arg;

    for (unsigned i = 0; i < c->count; i++)
        s->jobs[s->count++] = (struct job){ c->call, c->rows[i], s->run->tokens[c->rows[i]] };
    mem_free(c);
    pump(s->run);
}

static void pump(struct run *r)
{
    uint64_t now = vtime_now(&r->time);

    for (unsigned i = 0; i < SHARDS; i++) {
        struct shard *s = &r->shards[i];
        struct scatter_chunk c;
        while (scatter_pull(r->scatter, i, &c)) {
            struct scatter_chunk *copy = mem_alloc(sizeof *copy);
            *copy = c;
            vtime_at(&r->time, now + 1000, arrive, s, copy);
        }
        if (!s->is_stepping && s->count) {
            s->is_stepping = true;
            vtime_at(&r->time, now + (uint64_t)step_us(&r->engine, s->count), step, s, NULL);
        }
    }
}

/* Microseconds of one engine with all rows at once. */
static double one_shard_us(const struct run *r)
{
    unsigned longest = 0;
    double us = 0;

    for (unsigned i = 0; i < ROWS; i++)
        longest = r->tokens[i] > longest ? r->tokens[i] : longest;
    for (unsigned t = 0; t < longest; t++) {
        unsigned active = 0;
        for (unsigned i = 0; i < ROWS; i++)
            active += r->tokens[i] > t;
        us += step_us(&r->engine, active);
    }
    return us;
}

static double serial_us(const struct run *r)
{
    double us = 0;

    for (unsigned i = 0; i < ROWS; i++)
        us += r->tokens[i] * step_us(&r->engine, 1);
    return us;
}

/* No split is faster: its work over four engines, and its longest row alone. */
static double least_us(const struct run *r)
{
    double work = 0, longest = 0, even = 0;

    for (unsigned i = 0; i < ROWS; i++) {
        work += r->tokens[i];
        longest = r->tokens[i] > longest ? r->tokens[i] : longest;
    }
    /* Each engine computes at most ROWS / SHARDS rows a step if all are to end together. */
    even = work / ROWS * step_us(&r->engine, ROWS / SHARDS);
    double alone = longest * step_us(&r->engine, 1);
    return even > alone ? even : alone;
}

static void draw_rows(struct run *r, double zipf, bool is_random, uint16_t *groups)
{
    double share[DOMAINS], sum = 0;

    for (unsigned d = 0; d < DOMAINS; d++)
        sum += share[d] = pow(d + 1, -zipf);
    for (unsigned i = 0; i < ROWS; i++) {
        double x = vtime_chance(&r->time) * sum;
        uint16_t d = 0;
        while (d + 1 < DOMAINS && x >= share[d])
            x -= share[d++];
        groups[i] = d;
        double length = exp(0.6 * vtime_normal(&r->time) - 0.18) * TOKENS;
        r->tokens[i] = is_random ? (unsigned)(length < 1 ? 1 : length) : TOKENS;
    }
}

struct result {
    double speedup[TRIALS], serial[TRIALS], of_bound[TRIALS], jain[TRIALS], accuracy[TRIALS];
};

static void trial(const struct engine *engine, double zipf, bool is_random, double give_up,
                  unsigned n, struct result *out)
{
    static struct run r;
    double accuracy[DOMAINS][SHARDS], sum = 0, squares = 0;
    struct scatter_group groups[DOMAINS];
    uint16_t group_of[ROWS];
    struct error err;

    memset(&r, 0, sizeof r);
    vtime_init(&r.time, n + 1);
    r.engine = *engine;
    draw_rows(&r, zipf, is_random, group_of);
    for (unsigned d = 0; d < DOMAINS; d++) {
        for (unsigned i = 0; i < SHARDS; i++)
            accuracy[d][i] = d == i ? 0.9 : 0.6;
        groups[d] = (struct scatter_group){ .accuracy = accuracy[d], .home = -1 };
    }
    struct scatter_options opt = { .settings = scatter_defaults(),
                                   .row_count = ROWS,
                                   .groups_of_rows = group_of,
                                   .groups = groups,
                                   .group_count = DOMAINS,
                                   .shard_count = SHARDS };
    opt.settings.give_up_mean = give_up;
    opt.settings.deadline_us = UINT64_MAX / 2; /* the question is how long it takes */
    bench_must(scatter_new(&r.scatter, &opt, &err), &err, "scatter");
    for (unsigned i = 0; i < SHARDS; i++)
        r.shards[i].run = &r;
    uint64_t begin = vtime_now(&r.time);
    pump(&r);
    while (!scatter_is_done(r.scatter)) {
        if (!vtime_step(&r.time, UINT64_MAX / 2))
            bench_fail("a batch does not end");
    }
    double took_us = (double)(vtime_now(&r.time) - begin);
    for (unsigned i = 0; i < SHARDS; i++) {
        sum += r.shards[i].served;
        squares += (double)r.shards[i].served * r.shards[i].served;
    }
    out->speedup[n] = one_shard_us(&r) / took_us;
    out->serial[n] = serial_us(&r) / took_us;
    out->of_bound[n] = least_us(&r) / took_us;
    out->jain[n] = sum * sum / (SHARDS * squares);
    out->accuracy[n] = 0.9 - scatter_stats(r.scatter)->given_up / ROWS;
    scatter_free(r.scatter);
    vtime_release(&r.time);
}

static double median(double *values)
{
    return bench_quantile(values, TRIALS, 0.5);
}

static void compare(const struct engine *e, double zipf, bool is_random, double give_up)
{
    static struct result res;
    struct bench_load_mark mark = bench_load_begin();
    struct bench_line line;
    char text[64];
    double bound = (e->t0_ms + e->k_ms * ROWS) / (e->t0_ms + e->k_ms * ROWS / SHARDS);

    for (unsigned n = 0; n < TRIALS; n++)
        trial(e, zipf, is_random, give_up, n, &res);
    double speedup = median(res.speedup), target = bound * 0.9 < 3.5 ? bound * 0.9 : 3.5;
    bench_begin(&line, "batch", "virtual");
    snprintf(text, sizeof text, "%s, %g + %g b ms", e->name, e->t0_ms, e->k_ms);
    bench_text(&line, "engine", text);
    bench_text(&line, "lengths", is_random ? "lognormal" : "equal");
    bench_number(&line, "zipf", zipf);
    bench_number(&line, "give_up_mean", give_up);
    bench_number(&line, "speedup", speedup);
    bench_number(&line, "bound", is_random ? median(res.speedup) / median(res.of_bound) : bound);
    bench_number(&line, "of_bound", median(res.of_bound));
    bench_number(&line, "over_serial", median(res.serial));
    bench_number(&line, "jain", median(res.jain));
    bench_number(&line, "accuracy", median(res.accuracy));
    if (!is_random) {
        bench_number(&line, "target", target);
        bench_text(&line, "met", speedup >= target ? "yes" : "no");
    }
    bench_number(&line, "trials", TRIALS);
    struct bench_load load = bench_load_end(&mark);
    bench_end(&line, &load);
}

void batch_virtual(void)
{
    static const struct engine engines[] = { { "compute-bound", 2, 4 },
                                             { "bandwidth-bound", 15, 0.3 } };
    static const double zipf[] = { 0, 1, 2 }, give_up[] = { 0.15, 0.05 };

    for (size_t e = 0; e < ARRAY_LEN(engines); e++) {
        for (int is_random = 0; is_random < 2; is_random++) {
            for (size_t z = 0; z < ARRAY_LEN(zipf); z++) {
                for (size_t g = 0; g < ARRAY_LEN(give_up); g++)
                    compare(&engines[e], zipf[z], is_random, give_up[g]);
            }
        }
    }
}
