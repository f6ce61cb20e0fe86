/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route -- which shard answers a request: the one rule of the adaptive router
 * as a pure function over what is known of each shard at this moment.
 *
 * With a domain, tier by tier (accuracy above 0.8, 0.6, 0.4):
 *
 *   candidates   nothing bars them, they have announced the domain above the tier,
 *                and a request would wait there for at most 2 s
 *   score        accuracy - 0.1 a second of expected wait + at most 0.05 for the
 *                part of the prompt whose state they hold
 *   winner       of two drawn at random from those within 0.02 of the best, the
 *                one with fewer requests
 *
 * None in any tier: the owner of the request's slot. Without a domain: of two
 * drawn at random, the one with fewer requests.
 *
 * Expected wait = max(0, requests - slots + 1) * mean service time / slots. It is
 * computed from what shards report and what was sent since, not measured: a
 * shard that is avoided would send no new measurement, and its bad one would
 * stay (the rule of the paper, kept as ROUTE_RULE_PAPER for comparison).
 */
#ifndef CLUSTER_ROUTE_H
#define CLUSTER_ROUTE_H

#include "base/base.h"
#include "base/env.h"

enum {
    ROUTE_TIERS = 3,
    ROUTE_SHARDS_MAX = 1024,
    ROUTE_COMPARE_ALL = 3, /* without a domain, so few shards are all compared */
};

/* The setting `routing`. */
enum route_rule {
    ROUTE_RULE_ADAPTIVE,     /* above */
    ROUTE_RULE_PAPER,        /* the announced latency in place of the wait, no wait limit, prefix
                                bonus or random choice; without a domain the owner of the slot */
    ROUTE_RULE_LEAST_LOADED, /* as without a domain, always */
    ROUTE_RULE_HASH,         /* the owner of the slot, always */
};
/* "adaptive", "paper", "least-loaded", "hash". */
const char *route_rule_name(enum route_rule rule);
MUST_CHECK bool route_rule_from_name(struct slice name, enum route_rule *out);

struct route_settings {
    enum route_rule rule;
    double tiers[ROUTE_TIERS];    /* falling; accuracy must be above, not equal */
    double gamma_per_s;           /* accuracy that a second of waiting costs */
    double wait_max_ms;           /* longest expected wait of a candidate */
    double near_score;            /* scores that count as equal to the best */
    double prefix_bonus_max;      /* for a prompt whose state is held as a whole */
    uint64_t announcement_ttl_ms; /* an older announcement is no announcement */
    uint64_t load_ttl_ms;         /* an older report of load is none: the shard counts as full */
};
/* As in the specification: 0.8 0.6 0.4, 0.1/s, 2 s, 0.02, 0.05, 7,200 s, 10 s. */
struct route_settings route_defaults(void);

/* Why a shard gets nothing now; several may hold. */
enum {
    ROUTE_BAR_UNHEALTHY = 1 << 0,    /* suspected, dead, or not known yet */
    ROUTE_BAR_BREAKER = 1 << 1,      /* its circuit breaker is open */
    ROUTE_BAR_DRAINING = 1 << 2,     /* it is about to leave */
    ROUTE_BAR_INCOMPATIBLE = 1 << 3, /* another model, or none */
    ROUTE_BAR_TRIED = 1 << 4,        /* it has just failed this very request */
};

/* What is known of one shard, for one request. */
struct route_shard {
    uint16_t id;   /* node number */
    unsigned bars; /* ROUTE_BAR_*; 0 = may be chosen */
    bool has_load; /* the following four are known */
    uint32_t load_age_ms;
    uint32_t pending;   /* requests there, running or waiting, as it reported */
    uint32_t slots;     /* requests that it runs at once */
    double service_ms;  /* mean time of one request without its waiting */
    uint32_t own_sends; /* requests sent there by this node since that report */
    bool has_domain;    /* it has announced an adapter for the request's domain: */
    double accuracy;    /* accuracy_delta, -1 to 1 */
    double latency_ms;  /* performance_delta_p99_ms; used by the paper's rule only */
    uint64_t domain_age_ms;
    uint32_t prefix_tokens; /* tokens of the prompt's beginning whose state it holds */
};

struct route_request {
    struct slice domain; /* for the text of the decision; has_domain says whether it counts */
    bool has_domain;
    uint16_t slot;          /* of the request's placement key */
    uint16_t owner;         /* node number of the slot's owner */
    uint32_t prompt_tokens; /* 0 = not known: no prefix bonus */
};

enum route_reason {
    ROUTE_BY_DOMAIN,       /* the score decided */
    ROUTE_BY_LOAD,         /* fewest requests */
    ROUTE_BY_SLOT,         /* the owner of the slot */
    ROUTE_BY_SLOT_INSTEAD, /* the owner is barred: the one that the hash names in its place */
    ROUTE_NOWHERE,         /* every shard is barred */
};
const char *route_reason_name(enum route_reason reason); /* for headers: "domain", "load", ... */

struct route_decision {
    enum route_reason reason;
    int index;        /* into the shards given; -1 = nowhere */
    bool is_fallback; /* a domain was asked for and none was good: counts in
                          domain_routing_fallback_total */
    int tier;         /* of ROUTE_BY_DOMAIN: 0, 1, 2; else -1 */
    unsigned near;    /* shards between which chance or load decided; at least 1 */
    double score;     /* of ROUTE_BY_DOMAIN */
    double wait_ms;   /* expected there; negative = not known */
    double accuracy;  /* of the domain there; NAN when it has not announced it */
    unsigned bars;    /* of all shards together: why ROUTE_NOWHERE, or what was left out */
    char text[160];   /* a sentence for traces and explain */
};

/*
 * Decides. count is at most ROUTE_SHARDS_MAX; the order of the shards does not
 * matter except that equals are taken in it. Borrows everything; env is asked
 * for chance only.
 */
struct route_decision route_choose(const struct route_settings *settings,
                                   const struct route_request *req,
                                   const struct route_shard *shards, size_t count,
                                   const struct env *env);

/* Expected wait of one more request in ms; negative when the load is not known or too old. */
double route_wait_ms(const struct route_settings *settings, const struct route_shard *s);

/* "unhealthy, draining" for the bits of bars. Returns out. */
const char *route_bars_text(unsigned bars, char *out, size_t len);

#endif
