/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv -- ordered byte strings with snapshots, atomic batches and iterators;
 * hides the storage engine (kv_rocks on disk, kv_mem in memory for tests and
 * simulation; both pass one test file).
 *
 * Calls block on I/O: never from the loop. All functions may be called from
 * several threads at once, except that a batch or an iterator belongs to one.
 */
#ifndef STORE_KV_H
#define STORE_KV_H

#include "base/arena.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

enum kv_family { KV_META, KV_DOC, KV_INDEX, KV_LOG, KV_FAMILY_COUNT };

struct kv;
struct kv_snapshot;
struct kv_iter;

struct kv_options {
    const char *path;        /* directory, created if missing; NULL = kv_mem */
    uint64_t cache_bytes;    /* block cache */
    uint64_t memtable_bytes; /* all memtables together */
    /* Changes nothing on disk; what must be there already. Others cannot open it meanwhile. */
    bool is_read_only;
    bool cuts_log; /* a damaged log is read up to the damage instead of refused (ERR_CORRUPT) */
};

MUST_CHECK enum errc kv_open(struct kv **out, const struct kv_options *opt, struct error *err);
void kv_close(struct kv *kv); /* all snapshots and iterators are gone; NULL is allowed */

/*
 * A batch is records in our own encoding (docs/formats.md), so that the log,
 * a replica and recovery read the same bytes.
 */
struct kv_batch {
    struct buf bytes;
    uint32_t count;
};
enum kv_op { KV_PUT, KV_DELETE, KV_DELETE_RANGE };
struct kv_record {
    enum kv_op op;
    enum kv_family family;
    struct slice key;
    struct slice value; /* KV_DELETE_RANGE: end of the range, not included */
};
void kv_batch_init(struct kv_batch *b);
void kv_batch_release(struct kv_batch *b);
void kv_batch_clear(struct kv_batch *b);
void kv_batch_add(struct kv_batch *b, const struct kv_record *r);
void kv_batch_append(struct kv_batch *b, struct slice encoded); /* records of another batch */
/* Walks encoded records: *at starts at 0; false at the end or on bad bytes (*at < len then). */
bool kv_batch_next(struct slice encoded, size_t *at, struct kv_record *out);

/*
 * All or nothing. is_synced: durable when it returns. ERR_LIMIT: the disk is full, and nothing of the
 * batch is there or comes back. After ERR_IO the next start shows whether it is there.
 */
MUST_CHECK enum errc kv_write(struct kv *kv, const struct kv_batch *batch, bool is_synced,
                              struct error *err);

struct kv_snapshot *kv_snapshot_new(struct kv *kv);
void kv_snapshot_free(struct kv *kv, struct kv_snapshot *snapshot);

/* snapshot NULL = newest. Missing: ERR_NOT_FOUND, err untouched. *value lives in arena. */
MUST_CHECK enum errc kv_get(struct kv *kv, const struct kv_snapshot *snapshot, enum kv_family f,
                            struct slice key, struct arena *arena, struct slice *value,
                            struct error *err);

struct kv_scan {
    struct slice from; /* included */
    struct slice to;   /* not included; empty = end of the family */
    bool is_reverse;   /* starts at the last key before to */
    bool is_large;     /* larger than the cache: read ahead, do not fill the cache */
};
/* Borrows nothing of scan after return. Positioned on the first key. */
MUST_CHECK enum errc kv_iter_new(struct kv_iter **out, struct kv *kv,
                                 const struct kv_snapshot *snapshot, enum kv_family f,
                                 const struct kv_scan *scan, struct error *err);
bool kv_iter_valid(const struct kv_iter *it);
struct slice kv_iter_key(const struct kv_iter *it);   /* until the next step */
struct slice kv_iter_value(const struct kv_iter *it); /* until the next step */
void kv_iter_next(struct kv_iter *it);
void kv_iter_seek(struct kv_iter *it, struct slice key);
/* After the end: was it the end or an error? */
MUST_CHECK enum errc kv_iter_check(const struct kv_iter *it, struct error *err);
void kv_iter_free(struct kv_iter *it);

/* Estimated bytes of a range on disk, for the planner and figures. */
uint64_t kv_range_bytes(struct kv *kv, enum kv_family f, struct slice from, struct slice to);

/*
 * Gives the space of whole files inside a range back at once. Snapshots lose these
 * rows too: only for ranges that nobody can see any more, after KV_DELETE_RANGE.
 */
void kv_drop_files(struct kv *kv, enum kv_family f, struct slice from, struct slice to);

/*
 * Rewrites the files of a range, so that what was overwritten or deleted is in none of them, as far as
 * no snapshot sees it. Takes as long as reading and writing the range. Failing costs nothing but that.
 */
void kv_compact(struct kv *kv, enum kv_family f, struct slice from, struct slice to);

/*
 * Makes a copy that can be opened, with everything written before the call; by hard links where
 * path is on the same file system. path must not exist. kv_mem cannot: ERR_INVALID.
 */
MUST_CHECK enum errc kv_checkpoint(struct kv *kv, const char *path, struct error *err);

/*
 * Reads every block of every file against its checksum, without the cache. report gets each damaged
 * file; *files counts all. Takes as long as reading the whole store.
 */
MUST_CHECK enum errc kv_check_files(struct kv *kv,
                                    void (*report)(void *ctx, const char *file, const char *what),
                                    void *ctx, size_t *files, struct error *err);

/* kv_mem only: what a power cut would leave (drops unsynced writes). */
void kv_mem_crash(struct kv *kv);

#endif
