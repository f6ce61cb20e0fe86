/* SPDX-License-Identifier: Apache-2.0 */
#include "store/kv.h"

#include "base/fault.h"
#include "store/kv_backend.h"

enum errc kv_open(struct kv **out, const struct kv_options *opt, struct error *err)
{
    *out = NULL;
    return opt->path ? kv_rocks_open(out, opt, err) : kv_mem_open(out, err);
}

void kv_close(struct kv *kv)
{
    if (kv)
        kv->ops->close(kv);
}

enum errc kv_write(struct kv *kv, const struct kv_batch *batch, bool is_synced, struct error *err)
{
    if (fault_hit("kv.write"))
        return fail(err, ERR_IO, "cannot write to the log: injected fault");
    if (fault_hit("kv.full"))
        return fail(err, ERR_LIMIT, "cannot write to the log: the disk is full: injected fault");
    enum errc rc = kv->ops->write(kv, batch, is_synced, err);
    if (rc == OK && is_synced && fault_hit("kv.sync"))
        return fail(err, ERR_IO, "cannot sync the log: injected fault");
    return rc;
}

struct kv_snapshot *kv_snapshot_new(struct kv *kv)
{
    return kv->ops->snapshot_new(kv);
}

void kv_snapshot_free(struct kv *kv, struct kv_snapshot *snapshot)
{
    if (snapshot)
        kv->ops->snapshot_free(kv, snapshot);
}

enum errc kv_get(struct kv *kv, const struct kv_snapshot *snapshot, enum kv_family f,
                 struct slice key, struct arena *arena, struct slice *value, struct error *err)
{
    if (fault_hit("kv.get"))
        return fail(err, ERR_IO, "cannot read a key: injected fault");
    return kv->ops->get(kv, snapshot, f, key, arena, value, err);
}

enum errc kv_iter_new(struct kv_iter **out, struct kv *kv, const struct kv_snapshot *snapshot,
                      enum kv_family f, const struct kv_scan *scan, struct error *err)
{
    *out = NULL;
    if (fault_hit("kv.iter"))
        return fail(err, ERR_IO, "cannot read a range: injected fault");
    return kv->ops->iter_new(out, kv, snapshot, f, scan, err);
}

bool kv_iter_valid(const struct kv_iter *it)
{
    return !it->is_failed && it->ops->valid(it);
}

struct slice kv_iter_key(const struct kv_iter *it)
{
    return it->ops->key(it);
}

struct slice kv_iter_value(const struct kv_iter *it)
{
    return it->ops->value(it);
}

void kv_iter_next(struct kv_iter *it)
{
    if (fault_hit("kv.iter"))
        it->is_failed = true;
    else
        it->ops->next(it);
}

void kv_iter_seek(struct kv_iter *it, struct slice key)
{
    if (!it->is_failed)
        it->ops->seek(it, key);
}

enum errc kv_iter_check(const struct kv_iter *it, struct error *err)
{
    if (it->is_failed)
        return fail(err, ERR_IO, "cannot read a range: injected fault");
    return it->ops->check(it, err);
}

void kv_iter_free(struct kv_iter *it)
{
    if (it)
        it->ops->free(it);
}

uint64_t kv_range_bytes(struct kv *kv, enum kv_family f, struct slice from, struct slice to)
{
    return kv->ops->range_bytes(kv, f, from, to);
}

enum errc kv_check_files(struct kv *kv,
                         void (*report)(void *ctx, const char *file, const char *what), void *ctx,
                         size_t *files, struct error *err)
{
    return kv->ops->check_files(kv, report, ctx, files, err);
}

void kv_drop_files(struct kv *kv, enum kv_family f, struct slice from, struct slice to)
{
    kv->ops->drop_files(kv, f, from, to);
}

void kv_compact(struct kv *kv, enum kv_family f, struct slice from, struct slice to)
{
    kv->ops->compact(kv, f, from, to);
}

enum errc kv_checkpoint(struct kv *kv, const char *path, struct error *err)
{
    if (fault_hit("kv.checkpoint"))
        return fail(err, ERR_IO, "cannot make the checkpoint %s: injected fault", path);
    if (!kv->ops->checkpoint)
        return fail(err, ERR_INVALID, "a store in memory has no files to copy");
    return kv->ops->checkpoint(kv, path, err);
}
