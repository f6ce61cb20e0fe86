/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster -- a node among others: its listener, its place in etcd, what it
 * knows of the other nodes, and the generator over all of them. Composes the
 * parts of this layer.
 */
#ifndef CLUSTER_CLUSTER_H
#define CLUSTER_CLUSTER_H

#include "base/pool.h"
#include "base/settings.h"
#include "base/val.h"
#include "model/generator.h"

struct cluster;
struct loop;

/* What the command line says; strings are borrowed until cluster_free. */
struct cluster_flags {
    const char *name; /* NULL: a single node, and everything else is NULL, too */
    const char *node_id;
    const char *etcd, *etcd_certs; /* the latter may be NULL */
    const char *listen;            /* HOST:PORT; port 0 = any */
    const char *advertise;         /* HOST:PORT; NULL = where it listens */
    const char *public_url;        /* NULL = where the node listens */
    const char *certs;             /* directory with ca.crt, node.crt, node.key */
};

struct cluster_options {
    struct cluster_flags flags;
    const struct settings *settings;
    bool is_insecure;
    struct loop *loop;
    struct pool *pool;
    struct generator *local;
    /* Generations of this node; any thread. */
    void (*load)(void *ctx, uint32_t *running, uint32_t *waiting);
    void *ctx;
    const char *server_name;
};

/* Are the flags complete and well-formed? ERR_INVALID names the one that is not. Pure. */
MUST_CHECK enum errc cluster_check_flags(const struct cluster_flags *f, struct error *err);

/*
 * Reads the certificates and listens for other nodes; nobody knows of it yet. ERR_INVALID: flags or
 * certificates are wrong. Loop thread, before the loop runs. Returns it to the caller.
 */
MUST_CHECK enum errc cluster_open(struct cluster **out, const struct cluster_options *opt,
                                  struct error *err);
/* Joins, with public_url if the flags name none. Blocks; see member_join. */
MUST_CHECK enum errc cluster_join(struct cluster *c, const char *public_url,
                                  bool (*should_stop)(void *ctx), void *ctx, struct error *err);

/* Over all nodes. */
struct generator *cluster_generator(struct cluster *c);
/* A worker, every second or so: changed certificates are read again. */
void cluster_chores(struct cluster *c);
/* Reads them in any case at the next chores. Any thread. */
void cluster_reload(struct cluster *c);

/* ---- stopping, in this order; NULL is allowed ---- */

/* Leaves, and takes no further calls; those that run go on. Loop thread. */
void cluster_drain(struct cluster *c);
size_t cluster_active(const struct cluster *c); /* calls of other nodes that run */
/* Ends every call, of others and to others. The loop does not run any more. */
void cluster_stop(struct cluster *c);
/* After the loop was freed, and the models. */
void cluster_free(struct cluster *c);

/* ---- what is known; any thread ---- */

const char *cluster_name(const struct cluster *c);
const char *cluster_node(const struct cluster *c);
/* Members of an object that is open: cluster, node, boot, epoch, etcd, nodes. */
void cluster_put_status(struct cluster *c, struct val_builder *b);

#endif
