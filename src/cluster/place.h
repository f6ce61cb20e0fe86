/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place -- which node answers a generation, and why. Pure.
 *
 * The one that the request names; else the owner of its slot; else this node;
 * else the next one that can. Nodes that are down, drain, have an open breaker or
 * do not serve the model are left out, and so are those that were tried before.
 */
#ifndef CLUSTER_PLACE_H
#define CLUSTER_PLACE_H

#include "cluster/peers.h"

struct place_wish {
    struct slice node;  /* named by the request; empty = none */
    struct slice model; /* empty = any chat model */
    uint16_t slot;
    const bool *tried; /* of each node of the view */
};

enum place_reason { PLACE_NAMED, PLACE_SLOT, PLACE_FALLBACK };
const char *place_reason_name(enum place_reason r); /* "named" "slot" "fallback" */

struct place_choice {
    size_t node; /* index in the view */
    enum place_reason reason;
};

/*
 * ERR_NOT_FOUND: the node or the model is not in the cluster. ERR_BUSY: it is, and cannot answer
 * now.
 */
MUST_CHECK enum errc place_choose(const struct peer_view *nodes, size_t count, size_t owner,
                                  const struct place_wish *wish, struct place_choice *out,
                                  struct error *err);

/*
 * The slot of a request: that of its domain; else of the user and the beginning of the
 * conversation, so that the turns of one meet their cached beginning again.
 */
uint16_t place_slot(const struct gen_request *req);

#endif
