/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_backend -- what a storage engine implements; kv.h in front of it adds the
 * fault points and picks the engine. For the kv files only.
 */
#ifndef STORE_KV_BACKEND_H
#define STORE_KV_BACKEND_H

#include "store/kv.h"

struct kv_ops {
    void (*close)(struct kv *kv);
    enum errc (*write)(struct kv *kv, const struct kv_batch *batch, bool is_synced,
                       struct error *err);
    struct kv_snapshot *(*snapshot_new)(struct kv *kv);
    void (*snapshot_free)(struct kv *kv, struct kv_snapshot *snapshot);
    enum errc (*get)(struct kv *kv, const struct kv_snapshot *snapshot, enum kv_family f,
                     struct slice key, struct arena *arena, struct slice *value, struct error *err);
    enum errc (*iter_new)(struct kv_iter **out, struct kv *kv, const struct kv_snapshot *snapshot,
                          enum kv_family f, const struct kv_scan *scan, struct error *err);
    uint64_t (*range_bytes)(struct kv *kv, enum kv_family f, struct slice from, struct slice to);
    void (*drop_files)(struct kv *kv, enum kv_family f, struct slice from, struct slice to);
    void (*compact)(struct kv *kv, enum kv_family f, struct slice from, struct slice to);
    enum errc (*checkpoint)(struct kv *kv, const char *path, struct error *err); /* NULL = cannot */
    enum errc (*check_files)(struct kv *kv,
                             void (*report)(void *ctx, const char *file, const char *what),
                             void *ctx, size_t *files, struct error *err);
};

/* First member of each engine's own struct. */
struct kv {
    const struct kv_ops *ops;
};

struct kv_iter_ops {
    bool (*valid)(const struct kv_iter *it);
    struct slice (*key)(const struct kv_iter *it);
    struct slice (*value)(const struct kv_iter *it);
    void (*next)(struct kv_iter *it);
    void (*seek)(struct kv_iter *it, struct slice key);
    enum errc (*check)(const struct kv_iter *it, struct error *err);
    void (*free)(struct kv_iter *it);
};

/* First member of each engine's own iterator. */
struct kv_iter {
    const struct kv_iter_ops *ops;
    bool is_failed; /* a fault point hit it */
};

MUST_CHECK enum errc kv_mem_open(struct kv **out, struct error *err);
MUST_CHECK enum errc kv_rocks_open(struct kv **out, const struct kv_options *opt,
                                   struct error *err);

#endif
