/* SPDX-License-Identifier: Apache-2.0 */
/* gossip_private -- shared by the files of gossip: what is known, and what is sent. */
#ifndef CLUSTER_GOSSIP_PRIVATE_H
#define CLUSTER_GOSSIP_PRIVATE_H

#include "cluster/gossip.h"

enum { GOSSIP_CLAIMS_MAX = 32 /* of one message that wait to be passed on */ };

/* What is to be passed on at once, gathered during one call. */
struct gossip_batch {
    struct gossip_item_ref {
        uint16_t shard;
        enum gossip_kind kind;
    } items[GOSSIP_MEMBERS_MAX];
    unsigned item_count;
    struct gossip_claim claims[GOSSIP_CLAIMS_MAX];
    unsigned claim_count;
    uint16_t missed[GOSSIP_CLAIMS_MAX]; /* shards whose newer heartbeat the sender lacks */
    unsigned missed_count;
};

struct gossip {
    struct gossip_options opt;
    struct gossip_member self; /* id, boot, versions, bytes, state, load, chains of this node */
    struct gossip_member **members; /* owned, sorted by id, without self */
    size_t count;
    uint16_t *order; /* scratch for drawing members */
    uint64_t next_round_us;
    uint64_t spread_us; /* when own state was last spread at once */
    bool is_state_due;  /* own state has changed and was not spread */
    bool is_prefix_due;
    uint64_t tokens, tokens_us; /* budget of sends, in thousandths of one; when refilled */
    struct gossip_batch batch;
    struct buf out; /* message under construction */
    struct gossip_adapter scratch[GOSSIP_ADAPTERS_MAX];
    struct gossip_stats stats;
};

uint64_t gossip_now_us(const struct gossip *g);
struct gossip_member *gossip_member(struct gossip *g, uint16_t shard); /* NULL, also for self */
void gossip_move(struct gossip *g, struct gossip_member *m, enum gossip_status to);
void gossip_tell(struct gossip *g, const struct gossip_member *m, enum gossip_event event);

/* Makes the next version of one of this node's own items. */
void gossip_renew(struct gossip *g, enum gossip_kind kind);

/* Puts an item into the batch that is spread at the end of the call. */
void gossip_pass_on(struct gossip *g, uint16_t shard, enum gossip_kind kind);
/* Sends the batch to `fanout` members but the one, and empties it. */
void gossip_spread(struct gossip *g, int but);
/* Sends a member, who claimed the contrary, the heartbeats that it lacks. */
void gossip_correct(struct gossip *g, uint16_t to);
/* What the digest of a peer lacks, and, to a SYN, what we lack. */
void gossip_answer(struct gossip *g, uint16_t to, const struct gossip_message *msg);
void gossip_round(struct gossip *g);

#endif
