/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fleet -- sends requests to shards: joins what gossip knows of them, their
 * circuit breakers and what was sent since their last report into the router's
 * picture, and holds the one retry loop.
 *
 * An errand is one request on its way to an answer, in one call or several. Each
 * call goes to a shard that has not failed this errand before; nothing is tried
 * again once a token of the answer has left for the client, or when the answer is
 * the client's fault (4xx). A call ends once: what comes later is said to be
 * late, and the errand does not see it.
 *
 * Pure: time and chance come from env, and the caller makes the calls. One
 * thread at a time, the same as of the gossip.
 */
#ifndef CLUSTER_FLEET_H
#define CLUSTER_FLEET_H

#include "base/error.h"
#include "cluster/breaker.h"
#include "cluster/gossip.h"
#include "cluster/route.h"

struct fleet;

enum { FLEET_CALLS_MAX = 8 };

struct fleet_settings {
    struct route_settings route;
    struct breaker_settings breaker;
    unsigned retries_max; /* after the first call; default 3, at most FLEET_CALLS_MAX - 1 */
    uint64_t call_us;     /* longest call; default 30 s */
};
struct fleet_settings fleet_defaults(void);

struct fleet_options {
    struct gossip *gossip; /* borrowed, longer than the fleet */
    const struct env *env; /* borrowed */
    struct fleet_settings settings;
    /* A breaker of a peer has changed; may be NULL. */
    void (*on_breaker)(void *ctx, uint16_t shard, const struct breaker *b, enum breaker_state from);
    void *ctx; /* borrowed */
};

/* Totals. errands = done + failed + unfinished; calls = ended + unfinished; late ones are extra. */
struct fleet_stats {
    uint64_t errands, done, failed;
    uint64_t calls, ended, late;
    uint64_t retries;
    uint64_t domain_fallbacks; /* domain_routing_fallback_total */
    uint64_t nowhere;          /* decisions that found no shard */
};

/* Returned to the caller, who must fleet_free() it. */
struct fleet *fleet_new(const struct fleet_options *options);
void fleet_free(struct fleet *f);

/*
 * This node's own load, as gossip_set_load: as often as it changes, it costs nothing.
 * Requests that were sent to this node before are taken to be in it.
 */
MUST_CHECK enum errc fleet_set_load(struct fleet *f, const struct gossip_load *load,
                                    struct error *err);

/* Hand every event of the gossip on to this. */
void fleet_on_gossip(struct fleet *f, const struct gossip_member *m, enum gossip_event event);

/* The transport has lost the peer: pings were missed or its connection broke. */
void fleet_peer_lost(struct fleet *f, uint16_t shard);

struct fleet_request {
    uint64_t model;                    /* fingerprint; 0 = any */
    struct slice domain;               /* empty = none; borrowed as long as the errand */
    uint16_t slot, owner;              /* of its placement key, by the topology */
    uint32_t prompt_tokens;            /* with chains: for the prefix bonus; 0 = not known */
    const struct gossip_chain *chains; /* of the prompt's own beginnings; borrowed as long */
    unsigned chain_count;
    uint64_t deadline_us; /* no call begins after it */
};

struct fleet_call {
    uint32_t number; /* of the errand's calls, from 1; 0 = none */
    uint16_t shard;
    bool is_local;
    uint64_t until_us; /* the caller ends the call by then, with status 0 */
    struct breaker_ticket ticket;
};

/* The caller's memory. Fields are for reading. */
struct errand {
    struct fleet_request req;
    struct fleet_call call; /* under way; number 0 = none */
    uint32_t calls;         /* begun so far */
    uint16_t tried[FLEET_CALLS_MAX];
    unsigned tried_count;
    bool has_begun; /* part of the answer has left */
    bool is_over;
    struct route_decision decision; /* the last one: for headers, traces, explain */
};

void errand_init(struct fleet *f, struct errand *e, const struct fleet_request *req);
/* A first part of the answer goes to the client: no retry from now on. */
void errand_begun(struct errand *e);

/*
 * Chooses a shard and begins a call. ERR_BUSY: no shard can answer (the decision says
 * why); ERR_TIMEOUT: the deadline has passed. Both end the errand.
 */
MUST_CHECK enum errc fleet_call(struct fleet *f, struct errand *e, struct error *err);

enum fleet_verdict {
    FLEET_DONE,   /* hand the answer to the client; it may be a 4xx */
    FLEET_RETRY,  /* fleet_call again */
    FLEET_FAILED, /* the errand is over: tell the client of this last failure */
    FLEET_LATE,   /* not the call that the errand waits for: drop it */
};
/*
 * Call `number` has ended with an HTTP status; 0 = no answer (not connected, reset,
 * silent until until_us). Every call that was begun is ended once.
 */
enum fleet_verdict fleet_end(struct fleet *f, struct errand *e, uint32_t number, int http_status);

/* The client has left: a running call is ended without a judgement of the peer. */
void fleet_abandon(struct fleet *f, struct errand *e);

/*
 * Calls outside of an errand (groups of a batch): whether one may leave, and its
 * end. They count as sends to the shard while they run.
 */
MUST_CHECK bool fleet_begin_at(struct fleet *f, uint16_t shard, unsigned rows,
                               struct breaker_ticket *ticket);
void fleet_end_at(struct fleet *f, uint16_t shard, struct breaker_ticket ticket, int http_status);

/*
 * The router's picture for a request at this moment, this node included: at most
 * GOSSIP_MEMBERS_MAX shards, by number. Borrowed until the next call of the fleet.
 */
const struct route_shard *fleet_picture(struct fleet *f, const struct fleet_request *req,
                                        size_t *count);
/* The decision for it without sending anything: for explain. */
struct route_decision fleet_explain(struct fleet *f, const struct fleet_request *req);

const struct breaker *fleet_breaker(const struct fleet *f, uint16_t shard); /* NULL: never called */
uint32_t fleet_in_flight(const struct fleet *f, uint16_t shard); /* own calls under way */
const struct fleet_stats *fleet_stats(const struct fleet *f);

#endif
