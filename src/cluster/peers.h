/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers -- the nodes of the topology as this one sees them: a warm connection
 * to each, whether it answers, and what it says of itself.
 *
 * Loop thread, but for peers_view.
 */
#ifndef CLUSTER_PEERS_H
#define CLUSTER_PEERS_H

#include "base/val.h"
#include "cluster/breaker.h"
#include "cluster/member.h"
#include "cluster/rpc.h"
#include "model/generator.h"

struct peers;
struct tls_config;

enum { PEER_MODELS_MAX = MODELS_MAX };

/* A model that a node serves. */
struct peer_model {
    char name[128];
    enum model_kind kind;
    uint32_t context_tokens, dimension;
};

/*
 * What a node says of itself: once a second, to each other node. Times are not in it: clocks differ.
 */
struct hello {
    char cluster[NODE_ID_BYTES], node[NODE_ID_BYTES], boot[BOOT_BYTES];
    uint64_t epoch;
    bool is_draining;
    uint32_t running, waiting; /* generations */
    uint32_t model_count;
    struct peer_model models[PEER_MODELS_MAX];
};

/* UNKNOWN: it has not answered yet, and not failed either. */
enum peer_state { PEER_SELF, PEER_UNKNOWN, PEER_UP, PEER_DRAINING, PEER_DOWN };
const char *peer_state_name(enum peer_state s);

/* One node of the topology, seen from here. */
struct peer_view {
    struct topology_node node;
    enum peer_state state;
    uint64_t since_us; /* wall clock: it is in this state */
    uint64_t rtt_us;   /* 0 = not measured */
    enum breaker_state breaker;
    bool is_barred;     /* its breaker lets no call through now */
    char why[160];      /* DOWN: the last failure */
    struct hello hello; /* the last one; zeroes before */
};

struct peers_options {
    struct loop *loop;
    const char *cluster, *self;
    const struct tls_config *tls; /* borrowed during peers_new */
    uint64_t connect_ms, ping_ms;
    unsigned ping_misses;
    struct breaker_settings breaker;
    /* This node's own; any thread. */
    void (*say)(void *ctx, struct hello *out);
    void *ctx;
};

/* The options' strings are borrowed until peers_free. Returns it to the caller. */
struct peers *peers_new(const struct peers_options *opt);
/* Closes the connections. Then no call but peers_view and peers_free. */
void peers_stop(struct peers *p);
void peers_free(struct peers *p); /* NULL is allowed */

void peers_set_topology(struct peers *p, struct topology *t); /* borrows */
void peers_set_tls(struct peers *p, const struct tls_config *tls);
bool peers_knows(const struct peers *p, const char *id); /* self included */
struct rpc_client *peers_rpc(struct peers *p);
/* The answer to a hello. */
void peers_answer_hello(struct peers *p, struct rpc_request *r);

/* Any thread: all nodes in the order of the topology, in arena; and the topology, to be unref'd. */
size_t peers_view(struct peers *p, struct arena *arena, struct peer_view **out,
                  struct topology **topology);

/*
 * Around a call that is work (a hello is none): may it leave, and how did it end? Any thread. Every
 * one that may is ended once. A node that has gone from the topology has no breaker.
 */
MUST_CHECK bool peers_begin(struct peers *p, const char *id, struct breaker_ticket *ticket);
void peers_end(struct peers *p, const char *id, struct breaker_ticket ticket,
               enum breaker_outcome outcome);

/* ---- the value of a hello ---- */

void hello_print(const struct hello *h, struct val_builder *b);
MUST_CHECK enum errc hello_read(struct val v, struct hello *out, struct error *err);

#endif
