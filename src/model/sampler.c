/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order, as in OpenAI's and vLLM's servers: repeat penalty (last 64 tokens,
 * prompt included), presence and frequency penalties (generated tokens only), the
 * bias of the request, then temperature, top-k, top-p, min-p, and a draw from what is left.
 * Temperature 0 is the largest logit, the lowest id among equals.
 *
 * Candidates are sorted only as far as a filter needs it: a bounded heap keeps
 * the k best in one pass over the vocabulary.
 */
#include "model/sampler.h"

#include <math.h>
#include <stdlib.h>

enum {
    REPEAT_LAST = 64,
    HEAP_FIRST = 256, /* top-p looks at so many first; nearly always enough */
};

struct seen {
    int32_t id;
    uint32_t count;
};

struct candidate {
    int32_t id;
    float logit;
    double p;
};

struct sampler {
    struct gen_sampling conf; /* its bias is ours */
    uint64_t rng;
    int32_t last[REPEAT_LAST];
    uint64_t last_count;
    struct seen *seen; /* generated tokens */
    size_t seen_count, seen_cap;
    float *adjusted; /* logits with penalties */
    uint32_t adjusted_cap;
    struct candidate *cand;
    size_t cand_cap;
};

struct gen_sampling gen_sampling_default(void)
{
    return (struct gen_sampling){ .temperature = 1, .top_p = 1, .repeat_penalty = 1 };
}

static enum errc range(const char *name, double v, double min, double max, struct error *err)
{
    if (v >= min && v <= max) /* false for NaN */
        return OK;
    return fail(err, ERR_INVALID, "%s must be between %g and %g, not %g", name, min, max, v);
}

static enum errc check_bias(const struct gen_sampling *s, uint32_t vocab_size, struct error *err)
{
    if (s->bias_count > GEN_BIAS_MAX)
        return fail(err, ERR_INVALID, "logit_bias takes at most %d tokens, not %zu", GEN_BIAS_MAX,
                    s->bias_count);
    for (size_t i = 0; i < s->bias_count; i++) {
        int32_t id = s->bias[i].id;
        if (id < 0 || (uint32_t)id >= vocab_size)
            return fail(err, ERR_INVALID, "logit_bias: token %d is not one of the model's %u", id,
                        vocab_size);
        if (!(s->bias[i].bias >= -100 && s->bias[i].bias <= 100))
            return fail(err, ERR_INVALID, "logit_bias of token %d must be between -100 and 100",
                        id);
    }
    return OK;
}

enum errc sampling_check(const struct gen_sampling *s, uint32_t vocab_size, struct error *err)
{
    enum errc rc = OK;
    TRY(range("temperature", s->temperature, 0, 100, err));
    TRY(range("top_p", s->top_p, 0, 1, err));
    TRY(range("min_p", s->min_p, 0, 1, err));
    TRY(range("top_k", s->top_k, 0, 1e9, err));
    TRY(range("repeat_penalty", s->repeat_penalty, 0.01, 100, err));
    TRY(range("presence_penalty", s->presence_penalty, -100, 100, err));
    TRY(range("frequency_penalty", s->frequency_penalty, -100, 100, err));
    rc = check_bias(s, vocab_size, err);
out:
    return rc;
}

struct sampler *sampler_new(const struct gen_sampling *sampling, uint64_t seed)
{
    struct sampler *s = mem_zalloc(sizeof *s);
    s->conf = *sampling;
    size_t bias_bytes = sampling->bias_count * sizeof *sampling->bias;
    struct gen_bias *bias = mem_alloc(bias_bytes + 1);
    if (bias_bytes)
        memcpy(bias, sampling->bias, bias_bytes);
    s->conf.bias = bias;
    s->rng = sampling->has_seed ? sampling->seed : seed;
    return s;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    mem_free((void *)(uintptr_t)s->conf.bias);
    mem_free(s->seen);
    mem_free(s->adjusted);
    mem_free(s->cand);
    mem_free(s);
}

/* splitmix64: every seed is good, also 0 and 1. */
static uint64_t rng_next(struct sampler *s)
{
    uint64_t z = (s->rng += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double rng_unit(struct sampler *s)
{
    return (double)(rng_next(s) >> 11) * 0x1p-53;
}

static void remember_last(struct sampler *s, int32_t id)
{
    s->last[s->last_count++ % REPEAT_LAST] = id;
}

void sampler_see_prompt(struct sampler *s, const int32_t *tokens, size_t count)
{
    for (size_t i = count > REPEAT_LAST ? count - REPEAT_LAST : 0; i < count; i++)
        remember_last(s, tokens[i]);
}

static void remember(struct sampler *s, int32_t id)
{
    remember_last(s, id);
    if (s->conf.presence_penalty == 0 && s->conf.frequency_penalty == 0)
        return;
    for (size_t i = 0; i < s->seen_count; i++) {
        if (s->seen[i].id == id) {
            s->seen[i].count++;
            return;
        }
    }
    if (s->seen_count == s->seen_cap) {
        s->seen_cap = s->seen_cap ? s->seen_cap * 2 : 64;
        s->seen = mem_realloc(s->seen, s->seen_cap * sizeof *s->seen);
    }
    s->seen[s->seen_count++] = (struct seen){ id, 1 };
}

static void punish_repeats(struct sampler *s, float *l, uint32_t n)
{
    size_t count = s->last_count < REPEAT_LAST ? s->last_count : REPEAT_LAST;
    for (size_t i = 0; i < count; i++) {
        int32_t id = s->last[i];
        bool is_first = id >= 0 && (uint32_t)id < n;
        for (size_t j = 0; j < i && is_first; j++)
            is_first = s->last[j] != id;
        if (is_first)
            l[id] = (float)(l[id] > 0 ? l[id] / s->conf.repeat_penalty
                                      : l[id] * s->conf.repeat_penalty);
    }
}

static void forbid(float *l, uint32_t n, const uint64_t *allowed)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!(allowed[i / 64] >> (i % 64) & 1))
            l[i] = -INFINITY;
    }
}

static const float *punish(struct sampler *s, const float *logits, uint32_t n,
                           const uint64_t *allowed)
{
    const struct gen_sampling *c = &s->conf;
    bool has_seen = s->seen_count > 0; /* filled only when a penalty is set */
    if (c->repeat_penalty == 1 && !has_seen && !c->bias_count && !allowed)
        return logits;
    if (s->adjusted_cap < n) {
        s->adjusted = mem_realloc(s->adjusted, n * sizeof *s->adjusted);
        s->adjusted_cap = n;
    }
    memcpy(s->adjusted, logits, n * sizeof *logits);
    if (c->repeat_penalty != 1)
        punish_repeats(s, s->adjusted, n);
    for (size_t i = 0; i < s->seen_count; i++) {
        if ((uint32_t)s->seen[i].id < n)
            s->adjusted[s->seen[i].id] -=
                (float)(c->presence_penalty + c->frequency_penalty * s->seen[i].count);
    }
    for (size_t i = 0; i < c->bias_count; i++)
        if ((uint32_t)c->bias[i].id < n)
            s->adjusted[c->bias[i].id] += c->bias[i].bias <= -100 ? -INFINITY : c->bias[i].bias;
    if (allowed)
        forbid(s->adjusted, n, allowed);
    return s->adjusted;
}

static int32_t largest(const float *l, uint32_t n)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < n; i++) {
        if (l[i] > -INFINITY && (best < 0 || l[i] > l[best])) /* false for NaN */
            best = (int32_t)i;
    }
    return best;
}

/* a ranks behind b: smaller logit, or equal and higher id. */
static bool is_behind(const struct candidate *a, const struct candidate *b)
{
    return a->logit < b->logit || (a->logit == b->logit && a->id > b->id);
}

static void sift_down(struct candidate *c, size_t n, size_t i)
{
    for (;;) {
        size_t k = 2 * i + 1;
        if (k >= n)
            return;
        if (k + 1 < n && is_behind(&c[k + 1], &c[k]))
            k++;
        if (!is_behind(&c[k], &c[i]))
            return;
        struct candidate t = c[i];
        c[i] = c[k];
        c[k] = t;
        i = k;
    }
}

static int by_rank(const void *a, const void *b)
{
    return is_behind(a, b) ? 1 : is_behind(b, a) ? -1 : 0;
}

static void want_room(struct sampler *s, size_t n)
{
    if (s->cand_cap < n) {
        s->cand = mem_realloc(s->cand, n * sizeof *s->cand);
        s->cand_cap = n;
    }
}

/* The k best candidates, best first. Returns how many there are. */
static size_t best_k(struct sampler *s, const float *l, uint32_t n, size_t k)
{
    want_room(s, k);
    struct candidate *c = s->cand;
    size_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!(l[i] > -INFINITY))
            continue;
        struct candidate x = { (int32_t)i, l[i], 0 };
        if (count < k) {
            c[count++] = x;
            if (count == k) {
                for (size_t j = k / 2; j-- > 0;)
                    sift_down(c, k, j);
            }
        } else if (is_behind(&c[0], &x)) {
            c[0] = x;
            sift_down(c, k, 0);
        }
    }
    qsort(c, count, sizeof *c, by_rank);
    return count;
}

/* How many of the best are needed to hold top_p of the mass; 0 = not within these. */
static size_t cut_top_p(const struct candidate *c, size_t count, double mass)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += c[i].p;
        if (sum >= mass)
            return i + 1;
    }
    return 0;
}

static void weigh(struct candidate *c, size_t count, double max, double temperature)
{
    for (size_t i = 0; i < count; i++)
        c[i].p = exp(((double)c[i].logit - max) / temperature);
}

static double mass_of_all(const struct sampler *s, const float *l, uint32_t n, double max)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        double x = ((double)l[i] - max) / s->conf.temperature;
        if (x > -60)
            sum += exp(x);
    }
    return sum;
}

static int32_t draw(struct sampler *s, const struct candidate *c, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += c[i].p;
    double u = rng_unit(s) * sum;
    for (size_t i = 0; i + 1 < count; i++) {
        u -= c[i].p;
        if (u < 0)
            return c[i].id;
    }
    return c[count - 1].id;
}

/* Without filters nothing needs an order: one pass for the mass, one to draw. */
static int32_t draw_from_all(struct sampler *s, const float *l, uint32_t n, double max)
{
    double u = rng_unit(s) * mass_of_all(s, l, n, max);
    int32_t last = -1;
    for (uint32_t i = 0; i < n; i++) {
        double x = ((double)l[i] - max) / s->conf.temperature;
        if (!(x > -60))
            continue;
        last = (int32_t)i;
        u -= exp(x);
        if (u < 0)
            break;
    }
    return last;
}

static int32_t draw_filtered(struct sampler *s, const float *l, uint32_t n, double max)
{
    const struct gen_sampling *c = &s->conf;
    size_t k = c->top_k > 0 && (uint32_t)c->top_k < n ? (size_t)c->top_k : n;
    bool is_bounded = k < n;
    size_t count = best_k(s, l, n, is_bounded ? k : HEAP_FIRST);
    weigh(s->cand, count, max, c->temperature);
    if (!is_bounded || c->top_p < 1) {
        double all = 0;
        if (is_bounded) {
            for (size_t i = 0; i < count; i++)
                all += s->cand[i].p;
        } else {
            all = mass_of_all(s, l, n, max);
        }
        size_t kept = cut_top_p(s->cand, count, c->top_p * all);
        bool is_cut_by_min_p = s->cand[count - 1].p < c->min_p;
        if (kept == 0 && !is_bounded && count == HEAP_FIRST && !is_cut_by_min_p) {
            count = best_k(s, l, n, n);
            weigh(s->cand, count, max, c->temperature);
            kept = cut_top_p(s->cand, count, c->top_p * all);
        }
        if (kept > 0)
            count = kept;
    }
    while (count > 1 && s->cand[count - 1].p < c->min_p) /* the best has weight 1 */
        count--;
    return draw(s, s->cand, count);
}

int32_t sampler_try(struct sampler *s, const float *logits, uint32_t n, const uint64_t *allowed)
{
    const struct gen_sampling *c = &s->conf;
    const float *l = punish(s, logits, n, allowed);
    int32_t id = largest(l, n);
    if (id >= 0 && c->temperature > 0) {
        double max = l[id];
        bool has_filter = c->top_k > 0 || c->top_p < 1 || c->min_p > 0;
        id = has_filter ? draw_filtered(s, l, n, max) : draw_from_all(s, l, n, max);
    }
    return id;
}

void sampler_take(struct sampler *s, int32_t id)
{
    remember(s, id);
}

int32_t sampler_pick(struct sampler *s, const float *logits, uint32_t n)
{
    int32_t id = sampler_try(s, logits, n, NULL);
    if (id >= 0)
        remember(s, id);
    return id;
}
