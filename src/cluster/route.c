/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything is one pass over the shards: first who may be chosen at all, then
 * per tier the best score, then who is near it. At 1,024 shards that is some
 * tens of microseconds; no state is kept between two decisions.
 *
 * Load that is not known counts as full: such a shard is nobody's candidate for
 * a domain and loses each comparison by load, but it may still be chosen when
 * all others are barred.
 */
#include "cluster/route.h"
#include "base/hash.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

struct route_settings route_defaults(void)
{
    return (struct route_settings){
        .rule = ROUTE_RULE_ADAPTIVE,
        .tiers = { 0.8, 0.6, 0.4 },
        .gamma_per_s = 0.1,
        .wait_max_ms = 2000,
        .near_score = 0.02,
        .prefix_bonus_max = 0.05,
        .announcement_ttl_ms = 7200 * 1000ull,
        .load_ttl_ms = 10 * 1000ull,
    };
}

static const char *const rule_names[] = { "adaptive", "paper", "least-loaded", "hash" };

const char *route_rule_name(enum route_rule rule)
{
    return rule_names[rule];
}

bool route_rule_from_name(struct slice name, enum route_rule *out)
{
    for (size_t i = 0; i < ARRAY_LEN(rule_names); i++) {
        if (slice_is(name, rule_names[i])) {
            *out = (enum route_rule)i;
            return true;
        }
    }
    return false;
}

const char *route_reason_name(enum route_reason reason)
{
    switch (reason) {
    case ROUTE_BY_DOMAIN:
        return "domain";
    case ROUTE_BY_LOAD:
        return "load";
    case ROUTE_BY_SLOT:
        return "slot";
    case ROUTE_BY_SLOT_INSTEAD:
        return "slot-instead";
    case ROUTE_NOWHERE:
        return "nowhere";
    }
    return "?";
}

const char *route_bars_text(unsigned bars, char *out, size_t len)
{
    static const char *const names[] = { "unhealthy", "breaker open", "draining", "other model",
                                         "tried" };
    size_t used = 0;

    if (len)
        out[0] = 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!(bars >> i & 1) || used >= len)
            continue;
        int n = snprintf(out + used, len - used, "%s%s", used ? ", " : "", names[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return out;
}

/* ---- load ---- */

static bool load_is_known(const struct route_settings *set, const struct route_shard *s)
{
    return s->has_load && s->load_age_ms <= set->load_ttl_ms && s->slots > 0;
}

double route_wait_ms(const struct route_settings *set, const struct route_shard *s)
{
    if (!load_is_known(set, s))
        return -1;
    double ahead = (double)s->pending + s->own_sends - s->slots + 1;
    return ahead > 0 ? ahead * s->service_ms / s->slots : 0;
}

/* Requests there per slot, so that shards of different sizes compare. */
static double fullness(const struct route_settings *set, const struct route_shard *s)
{
    return load_is_known(set, s) ? ((double)s->pending + s->own_sends) / s->slots : INFINITY;
}

/* ---- choosing among equals ---- */

struct pick {
    const struct route_settings *set;
    const struct route_shard *shards;
    const struct env *env;
    uint16_t near[ROUTE_SHARDS_MAX]; /* indexes */
    unsigned count;
};

/* The less loaded of two; the first when they are equal. */
static uint16_t less_loaded(const struct pick *p, uint16_t a, uint16_t b)
{
    return fullness(p->set, &p->shards[b]) < fullness(p->set, &p->shards[a]) ? b : a;
}

/* Below bound, without the bias of a remainder (bounds are small beside 2^32). */
static unsigned random_below(const struct env *env, unsigned bound)
{
    return (unsigned)((env_random_u64(env) >> 32) * bound >> 32);
}

static uint16_t two_choices(const struct pick *p)
{
    if (p->count == 1)
        return p->near[0];
    unsigned i = random_below(p->env, p->count);
    unsigned j = random_below(p->env, p->count - 1);
    return less_loaded(p, p->near[i], p->near[j + (j >= i)]);
}

static uint16_t fewest(const struct pick *p)
{
    if (p->count > ROUTE_COMPARE_ALL)
        return two_choices(p);
    uint16_t best = p->near[0];
    for (unsigned i = 1; i < p->count; i++)
        best = less_loaded(p, best, p->near[i]);
    return best;
}

/* ---- by domain ---- */

static double prefix_bonus(const struct route_settings *set, const struct route_request *req,
                           const struct route_shard *s)
{
    if (!req->prompt_tokens)
        return 0;
    double share = (double)s->prefix_tokens / req->prompt_tokens;
    return set->prefix_bonus_max * (share < 1 ? share : 1);
}

/* The score of a shard in a tier, or NAN when it is no candidate. */
static double score_of(const struct route_settings *set, const struct route_request *req,
                       const struct route_shard *s, double tier)
{
    bool is_paper = set->rule == ROUTE_RULE_PAPER;

    if (s->bars || !s->has_domain || s->domain_age_ms > set->announcement_ttl_ms ||
        !(s->accuracy > tier))
        return NAN;
    if (is_paper)
        return s->accuracy - set->gamma_per_s * s->latency_ms / 1000;
    double wait_ms = route_wait_ms(set, s);
    if (wait_ms < 0 || wait_ms > set->wait_max_ms)
        return NAN;
    return s->accuracy - set->gamma_per_s * wait_ms / 1000 + prefix_bonus(set, req, s);
}

/* Fills near with the candidates near the best score; false: there is none in this tier. */
static bool find_near(struct pick *p, const struct route_request *req, size_t count, double tier)
{
    double best = -INFINITY;
    int first = -1;

    for (size_t i = 0; i < count; i++) {
        double score = score_of(p->set, req, &p->shards[i], tier);
        if (score > best) { /* never for NAN */
            best = score;
            first = (int)i;
        }
    }
    if (first < 0)
        return false;
    p->count = 0;
    if (p->set->rule == ROUTE_RULE_PAPER) {
        p->near[p->count++] = (uint16_t)first;
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        if (score_of(p->set, req, &p->shards[i], tier) >= best - p->set->near_score)
            p->near[p->count++] = (uint16_t)i;
    }
    return true;
}

static bool by_domain(struct pick *p, const struct route_request *req, size_t count,
                      struct route_decision *d)
{
    for (int tier = 0; tier < ROUTE_TIERS; tier++) {
        double theta = p->set->tiers[tier];
        if (!find_near(p, req, count, theta))
            continue;
        d->reason = ROUTE_BY_DOMAIN;
        d->index = two_choices(p);
        d->tier = tier;
        d->near = p->count;
        d->score = score_of(p->set, req, &p->shards[d->index], theta);
        return true;
    }
    return false;
}

/* ---- without a domain ---- */

static void by_load(struct pick *p, size_t count, struct route_decision *d)
{
    p->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!p->shards[i].bars)
            p->near[p->count++] = (uint16_t)i;
    }
    if (!p->count)
        return;
    d->reason = ROUTE_BY_LOAD;
    d->index = fewest(p);
    d->near = p->count;
}

/* Rendezvous: each slot has its own order of the shards, the same on every node. */
static uint64_t weight(uint16_t slot, uint16_t shard)
{
    const uint8_t bytes[4] = { (uint8_t)(slot >> 8), (uint8_t)slot, (uint8_t)(shard >> 8),
                               (uint8_t)shard };
    return hash_xxh3(bytes, sizeof bytes);
}

static void by_slot(const struct pick *p, const struct route_request *req, size_t count,
                    struct route_decision *d)
{
    uint64_t best = 0;

    for (size_t i = 0; i < count; i++) {
        const struct route_shard *s = &p->shards[i];
        if (s->bars)
            continue;
        if (s->id == req->owner) {
            d->index = (int)i;
            d->reason = ROUTE_BY_SLOT;
            break;
        }
        uint64_t w = weight(req->slot, s->id);
        if (d->index < 0 || w > best) {
            best = w;
            d->index = (int)i;
            d->reason = ROUTE_BY_SLOT_INSTEAD;
        }
    }
    d->near = d->index >= 0;
}

/* ---- the decision ---- */

/* snprintf behind what is there. */
static void say(struct route_decision *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void say(struct route_decision *d, const char *fmt, ...)
{
    size_t used = strlen(d->text);
    va_list args;

    va_start(args, fmt);
    vsnprintf(d->text + used, sizeof d->text - used, fmt, args);
    va_end(args);
}

static void describe_shard(struct route_decision *d, const struct route_shard *s)
{
    say(d, "shard %u", s->id);
    switch (d->reason) {
    case ROUTE_BY_DOMAIN:
        say(d, ": accuracy %.2f, wait %.0f ms, score %.3f, the best of %u in tier %d", s->accuracy,
            d->wait_ms < 0 ? 0 : d->wait_ms, d->score, d->near, d->tier + 1);
        return;
    case ROUTE_BY_LOAD:
        say(d, ": the fewest requests of those compared, %u could answer", d->near);
        return;
    case ROUTE_BY_SLOT:
        say(d, " owns the slot");
        return;
    case ROUTE_BY_SLOT_INSTEAD:
        say(d, " in place of the slot's owner");
        return;
    case ROUTE_NOWHERE:
        return;
    }
}

static void describe(struct route_decision *d, const struct route_request *req,
                     const struct route_shard *shards)
{
    char bars[64];

    if (req->has_domain) /* a long name must leave room for the rest */
        say(d, "domain %.*s: ", req->domain.len < 64 ? (int)req->domain.len : 64,
            req->domain.len ? req->domain.ptr : "");
    if (d->is_fallback)
        say(d, "no good shard; ");
    if (d->index >= 0)
        describe_shard(d, &shards[d->index]);
    else
        say(d, "no shard can answer (%s)", route_bars_text(d->bars, bars, sizeof bars));
}

struct route_decision route_choose(const struct route_settings *settings,
                                   const struct route_request *req,
                                   const struct route_shard *shards, size_t count,
                                   const struct env *env)
{
    struct route_decision d = {
        .reason = ROUTE_NOWHERE, .index = -1, .tier = -1, .wait_ms = -1, .accuracy = NAN
    };
    struct pick p = { .set = settings, .shards = shards, .env = env };

    assert(count <= ROUTE_SHARDS_MAX);
    for (size_t i = 0; i < count; i++)
        d.bars |= shards[i].bars;

    bool is_scored = settings->rule == ROUTE_RULE_ADAPTIVE || settings->rule == ROUTE_RULE_PAPER;
    bool wants_domain = is_scored && req->has_domain;
    bool wants_load = settings->rule == ROUTE_RULE_LEAST_LOADED ||
                      (settings->rule == ROUTE_RULE_ADAPTIVE && !req->has_domain);
    if (wants_load) {
        by_load(&p, count, &d);
    } else if (!wants_domain || !by_domain(&p, req, count, &d)) {
        d.is_fallback = wants_domain;
        by_slot(&p, req, count, &d);
    }
    if (d.index >= 0) {
        d.wait_ms = route_wait_ms(settings, &shards[d.index]);
        if (shards[d.index].has_domain)
            d.accuracy = shards[d.index].accuracy;
    }
    describe(&d, req, shards);
    return d;
}
