/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member -- this node's place in the cluster: its lease in etcd, the topology,
 * and which nodes are registered. Hides etcd.
 *
 * Two threads: one keeps the lease, one follows the changes. While etcd does
 * not answer, the last topology stays in force and nothing is decided anew.
 */
#ifndef CLUSTER_MEMBER_H
#define CLUSTER_MEMBER_H

#include "cluster/topology.h"

struct member;

enum { BOOT_BYTES = 17 }; /* 16 hexadecimal digits, made anew at each start */

struct member_options {
    const char *cluster, *id;                 /* names */
    const char *cluster_address, *public_url; /* of this node */
    const char *boot;
    const char *etcd_urls, *etcd_certs; /* see etcd.h; certs may be NULL */
    bool is_insecure;                   /* plain HTTP to etcd on other machines is wanted */
    uint64_t lease_s, join_ms;
    /* A newer topology; any thread. Borrowed. */
    void (*on_topology)(void *ctx, struct topology *t);
    void *ctx;
};

/* Everything in the options is borrowed until member_close. Returns it to the caller. */
MUST_CHECK enum errc member_open(struct member **out, const struct member_options *opt,
                                 struct error *err);
/*
 * Registers this node and starts to follow. Blocks, at most join_ms, while etcd does not answer.
 * ERR_EXISTS: a node of this id is there already, at another address. ERR_GONE: should_stop said so.
 */
MUST_CHECK enum errc member_join(struct member *m, bool (*should_stop)(void *ctx), void *ctx,
                                 struct error *err);
/* Begins to take the registration back; does not wait. */
void member_leave(struct member *m);
/* Leaves and waits for the threads; what is known can still be asked for. NULL is allowed. */
void member_stop(struct member *m);
void member_close(struct member *m); /* stops, then frees; NULL is allowed */

/* etcd answered the last time that it was asked. Any thread. */
bool member_has_etcd(const struct member *m);
/* Its boot id, if a node of that id is registered. Any thread. */
bool member_boot_of(struct member *m, struct slice id, char boot[BOOT_BYTES]);

#endif
