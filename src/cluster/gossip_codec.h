/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gossip_codec -- what nodes tell each other about themselves, as bytes
 * (docs/formats.md), and back with every length and range checked.
 *
 * The unit is an item: one kind of news of one shard, made by that shard only and
 * passed on unchanged, with its seal. A message carries items, claims that a
 * shard is silent, and a digest of the versions that its sender has.
 *
 * Pure. Bytes of one thread.
 */
#ifndef CLUSTER_GOSSIP_CODEC_H
#define CLUSTER_GOSSIP_CODEC_H

#include "base/buf.h"

enum gossip_kind {
    GOSSIP_STATE,  /* models, adapters, whether it drains or leaves: spread at once */
    GOSSIP_LOAD,   /* how busy it is; also its heartbeat, new in each round */
    GOSSIP_PREFIX, /* prompt beginnings whose state it holds */
};

enum {
    GOSSIP_KINDS = 3,
    GOSSIP_MEMBERS_MAX = 1024,
    GOSSIP_MODELS_MAX = 16,
    GOSSIP_ADAPTERS_MAX = 32,
    GOSSIP_DOMAIN_BYTES = 64,
    GOSSIP_CHAINS_MAX = 16,
    GOSSIP_SEAL_BYTES = 512,
    GOSSIP_ITEM_BYTES = 8 * KIB,
    GOSSIP_MESSAGE_BYTES = 64 * KIB,
};

/* What a shard announces about one adapter: the message `adapter_capability` of the paper. */
struct gossip_adapter {
    char domain[GOSSIP_DOMAIN_BYTES + 1]; /* as slice_is_file_name */
    uint64_t model;                       /* fingerprint of the base model that it belongs to */
    double accuracy;                      /* accuracy_delta on held-out data, -1 to 1 */
    double latency_ms;                    /* performance_delta_p99_ms, within an hour either way */
    uint32_t samples;                     /* n_samples */
    uint32_t round;                       /* of federated training */
    uint64_t announced_ms;                /* announced_at: the shard's wall clock, since 1970 */
};

struct gossip_state {
    bool is_draining; /* finishes what it has, takes nothing new */
    bool is_leaving;  /* gone on purpose; its silence is no failure */
    unsigned model_count;
    uint64_t models[GOSSIP_MODELS_MAX]; /* fingerprints: name, weights, quantisation */
    unsigned adapter_count;
    struct gossip_adapter *adapters; /* as the function that takes or gives it says */
};

struct gossip_load {
    uint32_t pending;         /* pending_llm_requests: running and waiting */
    uint32_t slots;           /* requests that it runs at once; 0 = no model is loaded */
    uint32_t queue_ms;        /* avg_llm_queue_ms: mean wait of recent requests */
    uint32_t service_ms;      /* mean time of one request without its wait */
    uint32_t active_adapters; /* active_lora_adapters */
    uint32_t free_pages;      /* of the KV cache */
};

struct gossip_chain {
    uint64_t key;    /* of the last block: hash over everything before it */
    uint32_t tokens; /* from the prompt's beginning */
};

/* One item on its way. Slices borrow the message that it was read from. */
struct gossip_item {
    uint16_t shard;
    uint64_t boot; /* of the shard's process; a later start has a larger one */
    enum gossip_kind kind;
    uint32_t version; /* within the boot, from 1 */
    struct slice payload;
    struct slice sealed; /* the bytes that the seal is over: all of the above */
    struct slice seal;   /* empty without one */
    struct slice bytes;  /* all of it, to be passed on */
};

/* "I have not heard of it since this heartbeat." */
struct gossip_claim {
    uint16_t shard;
    uint64_t boot;
    uint32_t beat; /* version of GOSSIP_LOAD */
};

/* What its sender has of one shard; version 0 = nothing. */
struct gossip_digest {
    uint16_t shard;
    uint64_t boot;
    uint32_t versions[GOSSIP_KINDS];
};

enum gossip_type {
    GOSSIP_NEWS = 1, /* items and claims; no answer is expected */
    GOSSIP_SYN = 2,  /* with the digest of everything: answered by ACK when there is a difference */
    GOSSIP_ACK = 3,  /* with a digest of what its sender lacks: answered by NEWS */
};

/* ---- payloads ---- */

/* Appends; what is out of range is a bug of the caller, who checks by the functions below. */
void gossip_state_encode(const struct gossip_state *state, struct buf *out);
void gossip_load_encode(const struct gossip_load *load, struct buf *out);
void gossip_chains_encode(const struct gossip_chain *chains, unsigned count, struct buf *out);

/*
 * ERR_CORRUPT when the bytes are not exactly one such payload, ERR_INVALID when a
 * value is out of its range. state->adapters is memory of the caller's for
 * GOSSIP_ADAPTERS_MAX of them, chains for GOSSIP_CHAINS_MAX.
 */
MUST_CHECK enum errc gossip_state_decode(struct slice bytes, struct gossip_state *state,
                                         struct error *err);
MUST_CHECK enum errc gossip_load_decode(struct slice bytes, struct gossip_load *load,
                                        struct error *err);
MUST_CHECK enum errc gossip_chains_decode(struct slice bytes, struct gossip_chain *chains,
                                          unsigned *count, struct error *err);

/* ERR_INVALID that names the value and the range. */
MUST_CHECK enum errc gossip_state_check(const struct gossip_state *state, struct error *err);
MUST_CHECK enum errc gossip_load_check(const struct gossip_load *load, struct error *err);

/* ---- messages ---- */

/*
 * Appends the sealed part of an item. The caller computes a seal over what was
 * appended and finishes with gossip_item_close; from is out->len before.
 */
void gossip_item_open(struct buf *out, const struct gossip_item *head);
void gossip_item_close(struct buf *out, size_t from, struct slice seal);

/*
 * A message under construction: sections in this order, each at most once, all of
 * them optional. Nothing is added beyond GOSSIP_MESSAGE_BYTES: the adders say so.
 */
struct gossip_writer {
    struct buf *out; /* borrowed; emptied by gossip_write_begin */
    size_t count_at; /* of the open section's count */
    unsigned section, count, total;
};
void gossip_write_begin(struct gossip_writer *w, struct buf *out, enum gossip_type type);
MUST_CHECK bool gossip_write_item(struct gossip_writer *w, struct slice item_bytes);
MUST_CHECK bool gossip_write_claim(struct gossip_writer *w, const struct gossip_claim *claim);
MUST_CHECK bool gossip_write_digest(struct gossip_writer *w, const struct gossip_digest *digest);
/* Closes the message. False: it says nothing. */
bool gossip_write_end(struct gossip_writer *w);

/* A message that was read: sections as bytes that are known to be well-formed. */
struct gossip_message {
    enum gossip_type type;
    unsigned item_count, claim_count, digest_count;
    struct slice items, claims, digests;
};
/* ERR_CORRUPT unless all of it is well-formed; payloads of items are not looked at. Borrows bytes. */
MUST_CHECK enum errc gossip_message_decode(struct slice bytes, struct gossip_message *out,
                                           struct error *err);
/* Take the next of a section of a decoded message; false at its end. */
bool gossip_next_item(struct slice *items, struct gossip_item *out);
bool gossip_next_claim(struct slice *claims, struct gossip_claim *out);
bool gossip_next_digest(struct slice *digests, struct gossip_digest *out);

#endif
