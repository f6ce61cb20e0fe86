/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gossip -- what every shard knows of every other: its models and adapters, its
 * load, the prompt beginnings that it holds, and whether it is alive.
 *
 * State is forwarded at once on first receipt, by each node once, to `fanout`
 * others; rounds of push-pull each `interval` repair what was lost and carry what
 * changes all the time. A shard that is not heard of becomes suspect, which is
 * told to all; a newer heartbeat of it refutes that; else it is dead.
 *
 * Pure state machine: time and chance come from env, messages go out by `send`
 * and come in by gossip_receive. Call gossip_run when gossip_next_us has come.
 * One thread at a time. The functions of the options are called inside of these
 * calls and must not call back.
 */
#ifndef CLUSTER_GOSSIP_H
#define CLUSTER_GOSSIP_H

#include "base/env.h"
#include "base/error.h"
#include "cluster/gossip_codec.h"

struct gossip;
struct gossip_member;

enum gossip_event {
    GOSSIP_EVENT_STATE, /* new state: models, adapters, draining */
    GOSSIP_EVENT_LOAD,  /* a new report of load */
    GOSSIP_EVENT_PREFIX,
    GOSSIP_EVENT_RESTART, /* a new process: what was known of the old one is gone */
    GOSSIP_EVENT_STATUS,  /* member->status has changed */
};

enum gossip_status {
    GOSSIP_UNKNOWN, /* a member that was never heard of */
    GOSSIP_ALIVE,
    GOSSIP_SUSPECT, /* silent, or somebody says so; not yet dead */
    GOSSIP_DEAD,
    GOSSIP_LEFT, /* said that it leaves */
};

struct gossip_settings {
    unsigned fanout;      /* default 4, at most 16 */
    uint64_t interval_us; /* of rounds; default 1 s */
    uint64_t suspect_us;  /* silence until suspicion; 0 = 3 intervals + half of one per doubling of
                               the number of members */
    uint64_t dead_us;     /* from suspicion to death; default 3 s */
    uint64_t adapter_ttl_ms; /* default 7,200 s; own ones are announced again in a quarter of it */
    uint64_t skew_ms;        /* how far another node's wall clock may be ahead; default 300 s */
    unsigned sends_per_s;    /* messages of this node, rounds included; more are dropped and left
                               to the next rounds; default 128 */
    unsigned receives_per_interval; /* messages of one peer that are looked at; default 64 */
};
struct gossip_settings gossip_defaults(void);

/*
 * Proves that an item was made by its shard, whoever passed it on. Without it
 * (both NULL) authenticated members are trusted to pass items on unchanged; what a
 * peer says of itself needs no proof but its identity.
 */
struct gossip_seal {
    /* Writes at most GOSSIP_SEAL_BYTES; returns how many. */
    size_t (*sign)(void *ctx, struct slice sealed, uint8_t *out);
    bool (*verify)(void *ctx, uint16_t shard, struct slice sealed, struct slice seal);
    void *ctx; /* borrowed */
};

struct gossip_options {
    uint16_t self;         /* node number */
    uint64_t boot;         /* of this process: larger than of all before it on this node number */
    const struct env *env; /* borrowed, longer than the gossip */
    struct gossip_settings settings;
    struct gossip_seal seal;
    void (*send)(void *ctx, uint16_t to, struct slice bytes); /* borrows bytes; may lose them */
    void (*on_event)(void *ctx, const struct gossip_member *m,
                     enum gossip_event event); /* or NULL */
    void *ctx;                                 /* borrowed */
};

/* Totals since gossip_new. */
struct gossip_stats {
    uint64_t rounds;
    uint64_t sent, sent_bytes;
    uint64_t over_budget; /* messages not sent */
    uint64_t received;    /* all that came: taken + refused ones below */
    uint64_t taken;       /* messages that were looked at */
    uint64_t from_stranger, flooded, damaged;
    uint64_t items; /* in messages taken: accepted + stale + refused + strange */
    uint64_t accepted;
    uint64_t stale;     /* known already, or of an older process: replays end here */
    uint64_t refused;   /* wrong seal, out of range, not decodable */
    uint64_t strange;   /* about a shard that is no member */
    uint64_t forwarded; /* items passed on at once */
    uint64_t claims_made, claims_taken, refutations;
    uint64_t evicted; /* adapters whose announcement was too old */
    uint64_t restarts_seen;
};

/* What is known of one shard. Borrowed by callers until the next call of gossip. */
struct gossip_member {
    uint16_t id;
    enum gossip_status status;
    uint64_t boot;    /* 0 = never heard of */
    uint64_t beat_us; /* when its heartbeat last was a new one (own monotonic clock) */
    uint64_t suspect_since_us;
    bool has_state, has_load;
    struct gossip_state state; /* adapters are the member's; too old ones are gone */
    struct gossip_load load;   /* as of beat_us */
    unsigned chain_count;
    struct gossip_chain *chains;
    uint64_t state_us;               /* when state was accepted */
    uint32_t versions[GOSSIP_KINDS]; /* 0 = none */
    struct buf bytes[GOSSIP_KINDS];  /* the items as they came, to be passed on */
    unsigned received;               /* messages in this interval */
};

/* Borrows the functions' contexts. Returned to the caller, who must gossip_free() it. */
struct gossip *gossip_new(const struct gossip_options *options);
void gossip_free(struct gossip *g);

/*
 * The members of the cluster by the topology, in any order, at most
 * GOSSIP_MEMBERS_MAX; self may be among them. Others are forgotten.
 */
MUST_CHECK enum errc gossip_set_members(struct gossip *g, const uint16_t *ids, size_t count,
                                        struct error *err);

/*
 * What this node says of itself; copied. State is spread at once when it differs
 * (not oftener than ten times in an interval, the rest waits for the round),
 * load and prefixes go with the next round. announced_ms is set by gossip.
 * ERR_INVALID, and nothing changed, when a value is out of range.
 */
MUST_CHECK enum errc gossip_set_state(struct gossip *g, const struct gossip_state *state,
                                      struct error *err);
MUST_CHECK enum errc gossip_set_load(struct gossip *g, const struct gossip_load *load,
                                     struct error *err);
/* The longest or most used ones first; more than GOSSIP_CHAINS_MAX are cut off. */
void gossip_set_prefixes(struct gossip *g, const struct gossip_chain *chains, size_t count);

/* When gossip_run is due, by the monotonic clock of env. */
uint64_t gossip_next_us(const struct gossip *g);
/* One round, if it is due: heartbeat, push-pull, suspicion, eviction. */
void gossip_run(struct gossip *g);

/*
 * A message of the peer whose certificate says that it is `from`. Damaged bytes
 * (ERR_CORRUPT), strangers (ERR_FORBIDDEN) and floods (ERR_BUSY) are refused as a
 * whole; items that are not acceptable are passed over and counted.
 */
MUST_CHECK enum errc gossip_receive(struct gossip *g, uint16_t from, struct slice bytes,
                                    struct error *err);

/* Members by number, without this node. NULL: no member. */
const struct gossip_member *gossip_find(const struct gossip *g, uint16_t shard);
size_t gossip_count(const struct gossip *g);
const struct gossip_member *gossip_at(const struct gossip *g, size_t i); /* i < gossip_count */

/* A member's valid announcement of a domain for a model, or NULL. *age_ms by the later clock. */
const struct gossip_adapter *gossip_adapter(const struct gossip *g, const struct gossip_member *m,
                                            struct slice domain, uint64_t model, uint64_t *age_ms);

/* This node as it shows itself to others: its status is ALIVE, its load what was last set. */
const struct gossip_member *gossip_self(const struct gossip *g);
uint64_t gossip_boot(const struct gossip *g); /* of this node */
const struct gossip_stats *gossip_stats(const struct gossip *g);
const char *gossip_status_name(enum gossip_status status);

#endif
