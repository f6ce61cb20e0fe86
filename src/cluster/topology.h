/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology -- which nodes a cluster has and who owns which slot, as one
 * immutable value with an epoch. Pure; reference counted, shared between
 * threads. A change makes a new value.
 */
#ifndef CLUSTER_TOPOLOGY_H
#define CLUSTER_TOPOLOGY_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include <stdatomic.h>

enum { TOPOLOGY_NODES_MAX = 1024, NODE_ID_BYTES = 64, NODE_ADDRESS_BYTES = 256 };

struct topology_node {
    char id[NODE_ID_BYTES];
    uint16_t number;                     /* 1 and up, never given twice while its node is known */
    char cluster[NODE_ADDRESS_BYTES];    /* HOST:PORT for the other nodes */
    char public_url[NODE_ADDRESS_BYTES]; /* for clients */
};

struct topology {
    _Atomic int refs;
    uint64_t epoch;
    size_t node_count;
    struct topology_node *nodes; /* owned; in the order of their numbers */
    uint16_t owners[SLOT_COUNT]; /* index of the node that owns the slot */
};

struct topology *topology_ref(struct topology *t);
void topology_unref(struct topology *t); /* NULL is allowed */

/* 1 to 63 of a-z 0-9 and -, not beginning or ending with -: it stands in certificates. */
bool node_id_is_valid(struct slice id);

/* Its index, or -1. */
long topology_find(const struct topology *t, struct slice id);
size_t topology_slots(const struct topology *t, size_t node); /* that it owns */

/*
 * The next value: with a node more (its number is chosen here), which gets its share of the slots
 * from those who have most, or with new addresses of one that is known. NULL: nothing would change.
 * t NULL: the first. Returns it to the caller.
 */
struct topology *topology_with(const struct topology *t, const struct topology_node *node,
                               struct error *err);

/* The text in etcd (docs/formats.md). */
void topology_print(const struct topology *t, struct buf *out);
/* Returns it to the caller; ERR_CORRUPT says what is wrong. */
MUST_CHECK enum errc topology_parse(struct slice text, struct topology **out, struct error *err);

#endif
