/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd -- leases, keys with revisions and a watch, by etcd's v3 JSON gateway
 * (3.4 and later). Hides HTTP, base64 and the gateway's ways with numbers.
 *
 * One thread at a time; calls block. A call that one server does not answer
 * goes to the next: all of what is here may be repeated.
 */
#ifndef CLUSTER_ETCD_H
#define CLUSTER_ETCD_H

#include "base/arena.h"
#include "base/error.h"
#include <stdatomic.h>

struct etcd;

enum { ETCD_SERVERS_MAX = 8 };

struct etcd_options {
    const char *urls;  /* "http://H:P,https://H:P"; checked by etcd_open */
    const char *certs; /* https: directory with ca.crt, node.crt, node.key; NULL = none */
    uint64_t timeout_ms;
    const atomic_bool *cancel; /* set: a running call ends soon, with ERR_GONE */
};

/* Connects to nobody yet; ERR_INVALID names the URL that is wrong. Returns it to the caller. */
MUST_CHECK enum errc etcd_open(struct etcd **out, const struct etcd_options *opt,
                               struct error *err);
void etcd_close(struct etcd *e); /* NULL is allowed */

/* An http:// server that is not on this machine, or NULL. */
const char *etcd_exposed(const struct etcd *e);

MUST_CHECK enum errc etcd_grant(struct etcd *e, uint64_t ttl_s, int64_t *lease, struct error *err);
/* *is_alive: it still held, and holds on. */
MUST_CHECK enum errc etcd_keep_alive(struct etcd *e, int64_t lease, bool *is_alive,
                                     struct error *err);
MUST_CHECK enum errc etcd_revoke(struct etcd *e, int64_t lease, struct error *err);

struct etcd_entry {
    struct slice key, value;
    int64_t revision; /* of its last change */
};

struct etcd_range {
    struct etcd_entry *entries;
    size_t count;
    int64_t revision; /* of all */
};

/* All keys with that prefix, in arena. */
MUST_CHECK enum errc etcd_read(struct etcd *e, struct slice prefix, struct arena *arena,
                               struct etcd_range *out, struct error *err);

/*
 * Writes if the key was last changed at that revision (0: if there is none). *is_written false:
 * somebody else was there first. lease 0 = none.
 */
MUST_CHECK enum errc etcd_write(struct etcd *e, const struct etcd_entry *entry, int64_t lease,
                                bool *is_written, struct error *err);

struct etcd_watcher {
    /* value.ptr NULL: the key is gone. Borrowed. False ends the watch. */
    bool (*on_change)(void *ctx, const struct etcd_entry *entry);
    void *ctx;
};

/*
 * Follows the keys with that prefix from *revision on, and keeps *revision where another watch must
 * begin. Blocks until the stream ends, which is always an error: ERR_GONE with *is_compacted when
 * the changes from there on are no longer kept, or etcd was emptied (read all keys again).
 */
MUST_CHECK enum errc etcd_watch(struct etcd *e, struct slice prefix, int64_t *revision,
                                const struct etcd_watcher *w, bool *is_compacted,
                                struct error *err);

#endif
