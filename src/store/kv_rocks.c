/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv over RocksDB. One database, four column families; "meta" is RocksDB's
 * "default", which must exist.
 *
 * The log is recovered in the mode that tolerates a torn tail and refuses
 * damage in the middle: RocksDB's own default would open without a word and
 * drop acknowledged writes behind the damage.
 */
#include <errno.h>
#include <fcntl.h>
#include <rocksdb/c.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/files.h"
#include "base/log.h"
#include "store/kv_backend.h"
#include "store/kv_shim.h"

enum {
    BLOCK_BYTES = 16 * KIB,
    BLOOM_BITS = 10,
    READ_AHEAD_BYTES = 2 * MIB,
    MEMTABLE_BYTES_MIN = 2 * MIB,
    MEMTABLE_BYTES_MAX = 32 * MIB,
    SPARE_BYTES_MAX = MIB,
};

static const char *const family_names[KV_FAMILY_COUNT] = { "default", "doc", "index", "log" };

struct kv_rocks {
    struct kv base;
    rocksdb_t *db;
    rocksdb_column_family_handle_t *family[KV_FAMILY_COUNT];
    rocksdb_cache_t *cache;
    rocksdb_writeoptions_t *synced, *unsynced;
    rocksdb_readoptions_t *newest;
    rocksdb_writebatch_t *_Atomic spare; /* owned; the last write's, for its memory; may be NULL */
    int lock_fd;                         /* read only: keeps writers out; else -1 */
};

struct kv_snapshot {
    const rocksdb_snapshot_t *handle;
    rocksdb_readoptions_t *read; /* for point reads at it */
};

struct rocks_iter {
    struct kv_iter base;
    rocksdb_iterator_t *it;
    rocksdb_readoptions_t *read;
    char *from, *to; /* the bounds, which RocksDB borrows */
    bool is_reverse;
};

#ifdef __SANITIZE_THREAD__
/* RocksDB is not instrumented: what its threads hand to each other looks like a race. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:librocksdb.so\nrace:liblz4.so\nrace:libstdc++.so\n";
}
#endif

static struct kv_rocks *rocks_of(const struct kv *kv)
{
    return (struct kv_rocks *)kv;
}

/* ---- errors ---- */

/* Turns RocksDB's message into ours and frees it. */
static enum errc fail_with(struct error *err, char *message, const char *what)
{
    enum errc code = ERR_IO;
    const char *hint = "";
    if (strstr(message, "No space left")) {
        code = ERR_LIMIT;
        hint = "the disk is full: ";
    } else if (strstr(message, "Corruption")) {
        code = ERR_CORRUPT;
    }
    fail(err, code, "%s: %s%s", what, hint, message);
    rocksdb_free(message);
    return code;
}

/*
 * RocksDB appends a batch to its log, syncs the log if that is asked for, and then shows the batch.
 * An append that met a full disk leaves a torn record, which no start takes; after a table that
 * found no room nothing is appended at all. Only what failed behind the append, such as the sync,
 * may have left a whole record.
 */
static bool is_nothing_written(const char *message)
{
    return strstr(message, "While appending to file") || strstr(message, ".sst: No space left");
}

static enum errc fail_write(struct error *err, char *message)
{
    if (strstr(message, "No space left") && !is_nothing_written(message)) {
        fail(err, ERR_IO, "cannot write to the log: %s", message);
        rocksdb_free(message);
        return ERR_IO;
    }
    return fail_with(err, message, "cannot write to the log");
}

static enum errc fail_open(struct error *err, char *message, const char *path)
{
    if (strstr(message, "While lock file") || strstr(message, "lock hold by")) {
        rocksdb_free(message);
        return fail(err, ERR_BUSY, "the store in %s is in use by another process", path);
    }
    return fail_with(err, message, "cannot open the store");
}

static void text_log(enum kv_shim_level level, const char *text)
{
    switch (level) {
    case KV_SHIM_DEBUG:
        log_debug("rocksdb", "%s", text);
        break;
    case KV_SHIM_INFO:
        log_info("rocksdb", "%s", text);
        break;
    case KV_SHIM_WARN:
        log_warn("rocksdb", "%s", text);
        break;
    case KV_SHIM_ERROR:
        log_error("rocksdb", "%s", text);
        break;
    }
}

/* ---- opening ---- */

static void set_table(rocksdb_options_t *o, rocksdb_cache_t *cache, enum kv_family f)
{
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(table, cache);
    rocksdb_block_based_options_set_block_size(table, BLOCK_BYTES);
    rocksdb_block_based_options_set_format_version(table, 5);
    if (f != KV_LOG)
        rocksdb_block_based_options_set_filter_policy(
            table, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS));
    rocksdb_options_set_block_based_table_factory(o, table);
    rocksdb_block_based_options_destroy(table);
}

static rocksdb_options_t *options_new(const struct kv_rocks *r, const struct kv_options *opt,
                                      enum kv_family f)
{
    uint64_t all = opt->memtable_bytes ? opt->memtable_bytes : 256 * (uint64_t)MIB;
    uint64_t one = all / 8;
    if (one < MEMTABLE_BYTES_MIN)
        one = MEMTABLE_BYTES_MIN;
    if (one > MEMTABLE_BYTES_MAX) /* also the free space at which "disk full" ends */
        one = MEMTABLE_BYTES_MAX;
    rocksdb_options_t *o = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(o, 1);
    rocksdb_options_set_create_missing_column_families(o, 1);
    rocksdb_options_set_wal_recovery_mode(
        o, opt->cuts_log ? rocksdb_point_in_time_recovery
                         : rocksdb_tolerate_corrupted_tail_records_recovery);
    rocksdb_options_set_db_write_buffer_size(o, all);
    rocksdb_options_set_write_buffer_size(o, one);
    rocksdb_options_set_max_total_wal_size(o, 2 * all);
    rocksdb_options_set_max_background_jobs(o, 2);
    rocksdb_options_set_max_open_files(o, (int)files_for_store());
    rocksdb_options_set_compression(o, rocksdb_lz4_compression);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(o, 1);
    if (f != KV_LOG) { /* most inserts ask for a key that is not there */
        rocksdb_options_set_memtable_prefix_bloom_size_ratio(o, 0.02);
        rocksdb_options_set_memtable_whole_key_filtering(o, 1);
    }
    set_table(o, r->cache, f);
    return o;
}

static enum errc make_one(const char *path, mode_t mode, struct error *err)
{
    if (!fault_errno("kv.mkdir", EACCES) && (!mkdir(path, mode) || errno == EEXIST))
        return OK;
    return fail(err, ERR_IO, "cannot create %s: %s", path, strerror(errno));
}

/* With what is above it. */
static enum errc make_directory(const char *path, struct error *err)
{
    char *copy = mem_strdup(path);
    enum errc rc = OK;
    for (char *p = copy + 1; rc == OK && *p; p++) {
        if (*p != '/')
            continue;
        *p = 0;
        rc = make_one(copy, 0755, err);
        *p = '/';
    }
    if (rc == OK)
        rc = make_one(copy, 0700, err);
    mem_free(copy);
    return rc;
}

static rocksdb_t *open_db(const struct kv_options *opt, const rocksdb_options_t *const *options,
                          rocksdb_column_family_handle_t **family, char **message)
{
    if (opt->is_read_only)
        return rocksdb_open_for_read_only_column_families(
            options[0], opt->path, KV_FAMILY_COUNT, family_names, options, family, 0, message);
    return rocksdb_open_column_families(options[0], opt->path, KV_FAMILY_COUNT, family_names,
                                        options, family, message);
}

static bool has_store(const char *path)
{
    struct buf file;
    buf_init(&file, 0);
    buf_printf(&file, "%s/CURRENT", path);
    bool is_there = access(buf_cstr(&file), F_OK) == 0;
    buf_release(&file);
    return is_there;
}

/*
 * RocksDB locks only what it writes to; a reader shares its lock with other readers. A store that
 * was restored and not opened yet has no file to lock.
 */
static enum errc lock_for_reading(struct kv_rocks *r, const char *path, struct error *err)
{
    struct flock shared = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    struct buf file;
    enum errc rc = OK;
    buf_init(&file, 0);
    buf_printf(&file, "%s/LOCK", path);
    r->lock_fd = open(buf_cstr(&file), O_RDONLY | O_CLOEXEC);
    if (r->lock_fd < 0 && errno == ENOENT && has_store(path))
        rc = OK;
    else if (r->lock_fd < 0)
        rc = errno == ENOENT
                 ? fail(err, ERR_NOT_FOUND, "there is no store in %s", path)
                 : fail(err, ERR_IO, "cannot open %s: %s", buf_cstr(&file), strerror(errno));
    else if (fcntl(r->lock_fd, F_SETLK, &shared))
        rc = fail(err, ERR_BUSY, "the store in %s is in use by another process", path);
    buf_release(&file);
    return rc;
}

static enum errc open_families(struct kv_rocks *r, const struct kv_options *opt, struct error *err)
{
    rocksdb_options_t *options[KV_FAMILY_COUNT] = { NULL };
    char *message = NULL;
    enum errc rc = OK;
    for (int f = 0; f < KV_FAMILY_COUNT; f++)
        options[f] = options_new(r, opt, (enum kv_family)f);
    if (fault_hit("kv.shim") || kv_shim_redirect(options[0], text_log))
        rc = fail(err, ERR_INTERNAL, "cannot set up the storage engine");
    else if (fault_hit("kv.open"))
        rc = fail(err, ERR_IO, "cannot open the store: injected fault");
    else
        r->db = open_db(opt, (const rocksdb_options_t *const *)options, r->family, &message);
    for (int f = 0; f < KV_FAMILY_COUNT; f++)
        rocksdb_options_destroy(options[f]);
    return message ? fail_open(err, message, opt->path) : rc;
}

static void rocks_close(struct kv *kv)
{
    struct kv_rocks *r = rocks_of(kv);
    for (int f = 0; r->db && f < KV_FAMILY_COUNT; f++)
        rocksdb_column_family_handle_destroy(r->family[f]);
    if (r->db)
        rocksdb_close(r->db);
    rocksdb_cache_destroy(r->cache);
    if (r->spare)
        rocksdb_writebatch_destroy(r->spare);
    rocksdb_writeoptions_destroy(r->synced);
    rocksdb_writeoptions_destroy(r->unsynced);
    rocksdb_readoptions_destroy(r->newest);
    if (r->lock_fd >= 0)
        close(r->lock_fd);
    mem_free(r);
}

/* ---- writing ---- */

static void add_record(const struct kv_rocks *r, rocksdb_writebatch_t *batch,
                       const struct kv_record *record)
{
    rocksdb_column_family_handle_t *family = r->family[record->family];
    struct slice k = record->key, v = record->value;
    switch (record->op) {
    case KV_PUT:
        rocksdb_writebatch_put_cf(batch, family, k.ptr, k.len, v.ptr, v.len);
        break;
    case KV_DELETE:
        rocksdb_writebatch_delete_cf(batch, family, k.ptr, k.len);
        break;
    case KV_DELETE_RANGE:
        if (slice_cmp(k, v) < 0)
            rocksdb_writebatch_delete_range_cf(batch, family, k.ptr, k.len, v.ptr, v.len);
        break;
    }
}

/* Groups of commits are tens of kilobytes: growing a new batch to that costs more than filling it. */
static rocksdb_writebatch_t *take_batch(struct kv_rocks *r)
{
    rocksdb_writebatch_t *b = atomic_exchange(&r->spare, NULL);
    return b ? b : rocksdb_writebatch_create();
}

static void give_batch(struct kv_rocks *r, rocksdb_writebatch_t *b)
{
    size_t len;
    rocksdb_writebatch_data(b, &len);
    if (len <= SPARE_BYTES_MAX) {
        rocksdb_writebatch_clear(b);
        b = atomic_exchange(&r->spare, b);
    }
    if (b)
        rocksdb_writebatch_destroy(b);
}

static enum errc rocks_write(struct kv *kv, const struct kv_batch *batch, bool is_synced,
                             struct error *err)
{
    struct kv_rocks *r = rocks_of(kv);
    struct slice bytes = buf_slice(&batch->bytes);
    struct kv_record record;
    size_t at = 0;
    char *message = NULL;
    enum errc rc = OK;
    rocksdb_writebatch_t *b = take_batch(r);
    while (kv_batch_next(bytes, &at, &record))
        add_record(r, b, &record);
    if (at != bytes.len)
        rc = fail(err, ERR_CORRUPT, "a batch is damaged at byte %zu", at);
    else
        rocksdb_write(r->db, is_synced ? r->synced : r->unsynced, b, &message);
    give_batch(r, b);
    return message ? fail_write(err, message) : rc;
}

/* ---- reading ---- */

static struct kv_snapshot *rocks_snapshot_new(struct kv *kv)
{
    struct kv_snapshot *s = mem_zalloc(sizeof *s);
    s->handle = rocksdb_create_snapshot(rocks_of(kv)->db);
    s->read = rocksdb_readoptions_create();
    rocksdb_readoptions_set_snapshot(s->read, s->handle);
    return s;
}

static void rocks_snapshot_free(struct kv *kv, struct kv_snapshot *snapshot)
{
    rocksdb_readoptions_destroy(snapshot->read);
    rocksdb_release_snapshot(rocks_of(kv)->db, snapshot->handle);
    mem_free(snapshot);
}

static enum errc rocks_get(struct kv *kv, const struct kv_snapshot *snapshot, enum kv_family f,
                           struct slice key, struct arena *arena, struct slice *value,
                           struct error *err)
{
    const struct kv_rocks *r = rocks_of(kv);
    char *message = NULL;
    size_t len = 0;
    rocksdb_pinnableslice_t *pinned = rocksdb_get_pinned_cf(
        r->db, snapshot ? snapshot->read : r->newest, r->family[f], key.ptr, key.len, &message);
    if (message)
        return fail_with(err, message, "cannot read a key");
    if (!pinned)
        return ERR_NOT_FOUND;
    const char *bytes = rocksdb_pinnableslice_value(pinned, &len);
    *value = arena_copy(arena, slice_of(bytes, len));
    rocksdb_pinnableslice_destroy(pinned);
    return OK;
}

static struct rocks_iter *iter_of(const struct kv_iter *it)
{
    return (struct rocks_iter *)it;
}

static bool rocks_iter_valid(const struct kv_iter *it)
{
    return rocksdb_iter_valid(iter_of(it)->it);
}

static struct slice rocks_iter_key(const struct kv_iter *it)
{
    size_t len = 0;
    const char *key = rocksdb_iter_key(iter_of(it)->it, &len);
    return slice_of(key, len);
}

static struct slice rocks_iter_value(const struct kv_iter *it)
{
    size_t len = 0;
    const char *value = rocksdb_iter_value(iter_of(it)->it, &len);
    return slice_of(value, len);
}

static void rocks_iter_next(struct kv_iter *it)
{
    if (iter_of(it)->is_reverse)
        rocksdb_iter_prev(iter_of(it)->it);
    else
        rocksdb_iter_next(iter_of(it)->it);
}

static void rocks_iter_seek(struct kv_iter *it, struct slice key)
{
    struct rocks_iter *r = iter_of(it);
    if (!r->is_reverse) {
        rocksdb_iter_seek(r->it, key.ptr, key.len); /* RocksDB clips to the lower bound */
        return;
    }
    rocksdb_iter_seek_for_prev(r->it, key.ptr, key.len);
    if (rocksdb_iter_valid(r->it) && slice_eq(rocks_iter_key(it), key))
        rocksdb_iter_prev(r->it);
}

static enum errc rocks_iter_check(const struct kv_iter *it, struct error *err)
{
    char *message = NULL;
    rocksdb_iter_get_error(iter_of(it)->it, &message);
    return message ? fail_with(err, message, "cannot read a range") : OK;
}

static void rocks_iter_free(struct kv_iter *base)
{
    struct rocks_iter *it = iter_of(base);
    rocksdb_iter_destroy(it->it);
    rocksdb_readoptions_destroy(it->read);
    mem_free(it->from);
    mem_free(it->to);
    mem_free(it);
}

static const struct kv_iter_ops rocks_iter_ops = {
    .valid = rocks_iter_valid,
    .key = rocks_iter_key,
    .value = rocks_iter_value,
    .next = rocks_iter_next,
    .seek = rocks_iter_seek,
    .check = rocks_iter_check,
    .free = rocks_iter_free,
};

static enum errc rocks_iter_new(struct kv_iter **out, struct kv *kv,
                                const struct kv_snapshot *snapshot, enum kv_family f,
                                const struct kv_scan *scan, struct error *err)
{
    const struct kv_rocks *r = rocks_of(kv);
    struct rocks_iter *it = mem_zalloc(sizeof *it);
    it->base.ops = &rocks_iter_ops;
    it->is_reverse = scan->is_reverse;
    it->from = mem_strndup(scan->from);
    it->to = mem_strndup(scan->to);
    it->read = rocksdb_readoptions_create();
    if (snapshot)
        rocksdb_readoptions_set_snapshot(it->read, snapshot->handle);
    if (scan->from.len)
        rocksdb_readoptions_set_iterate_lower_bound(it->read, it->from, scan->from.len);
    if (scan->to.len)
        rocksdb_readoptions_set_iterate_upper_bound(it->read, it->to, scan->to.len);
    if (scan->is_large) {
        rocksdb_readoptions_set_fill_cache(it->read, 0);
        rocksdb_readoptions_set_readahead_size(it->read, READ_AHEAD_BYTES);
    }
    it->it = rocksdb_create_iterator_cf(r->db, it->read, r->family[f]);
    if (it->is_reverse)
        rocksdb_iter_seek_to_last(it->it); /* within the upper bound */
    else
        rocksdb_iter_seek(it->it, it->from, scan->from.len);
    *out = &it->base;
    enum errc rc = rocks_iter_check(*out, err);
    if (rc != OK) {
        rocks_iter_free(*out);
        *out = NULL;
    }
    return rc;
}

static uint64_t rocks_range_bytes(struct kv *kv, enum kv_family f, struct slice from,
                                  struct slice to)
{
    const struct kv_rocks *r = rocks_of(kv);
    static const char last[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
    const char *starts[1] = { from.len ? from.ptr : "" };
    const char *ends[1] = { to.len ? to.ptr : last };
    size_t start_lens[1] = { from.len }, end_lens[1] = { to.len ? to.len : sizeof last - 1 };
    uint64_t size = 0;
    char *message = NULL;
    if (fault_hit("kv.size"))
        return 0;
    rocksdb_approximate_sizes_cf(r->db, r->family[f], 1, starts, start_lens, ends, end_lens, &size,
                                 &message);
    rocksdb_free(message);
    return message ? 0 : size;
}

static void rocks_drop_files(struct kv *kv, enum kv_family f, struct slice from, struct slice to)
{
    const struct kv_rocks *r = rocks_of(kv);
    char *message = NULL;
    if (fault_hit("kv.drop"))
        return;
    rocksdb_delete_file_in_range_cf(r->db, r->family[f], from.ptr, from.len, to.ptr, to.len,
                                    &message);
    if (message)
        log_warn("store", "cannot drop the files of a deleted range: %s", message);
    rocksdb_free(message);
}

/* All files of the range, also those that nothing was written to since they were made. */
static void rocks_compact(struct kv *kv, enum kv_family f, struct slice from, struct slice to)
{
    const struct kv_rocks *r = rocks_of(kv);
    rocksdb_compactoptions_t *opt = rocksdb_compactoptions_create();
    rocksdb_compactoptions_set_exclusive_manual_compaction(opt, 0);
    rocksdb_compactoptions_set_bottommost_level_compaction(opt, 2 /* force */);
    rocksdb_compact_range_cf_opt(r->db, r->family[f], opt, from.ptr, from.len, to.ptr, to.len);
    rocksdb_compactoptions_destroy(opt);
}

/* Memtables are written out first: the copy then needs little of the log. */
static enum errc rocks_checkpoint(struct kv *kv, const char *path, struct error *err)
{
    const struct kv_rocks *r = rocks_of(kv);
    char *message = NULL;
    rocksdb_checkpoint_t *c = rocksdb_checkpoint_object_create(r->db, &message);
    if (c)
        rocksdb_checkpoint_create(c, path, 0, &message);
    if (c)
        rocksdb_checkpoint_object_destroy(c);
    return message ? fail_with(err, message, "cannot make a checkpoint") : OK;
}

struct file_report {
    void (*fn)(void *ctx, const char *file, const char *what);
    void *ctx;
    size_t files;
};

static void report_file(void *ctx, const char *file, const char *what)
{
    struct file_report *r = ctx;
    r->files++;
    if (what)
        r->fn(r->ctx, file, what);
}

static enum errc rocks_check_files(struct kv *kv,
                                   void (*report)(void *ctx, const char *file, const char *what),
                                   void *ctx, size_t *files, struct error *err)
{
    struct file_report r = { report, ctx, 0 };
    if (kv_shim_check_files(rocks_of(kv)->db, report_file, &r))
        return fail(err, ERR_INTERNAL, "the storage engine could not check its files");
    *files = r.files;
    return OK;
}

static const struct kv_ops rocks_ops = {
    .close = rocks_close,
    .write = rocks_write,
    .snapshot_new = rocks_snapshot_new,
    .snapshot_free = rocks_snapshot_free,
    .get = rocks_get,
    .iter_new = rocks_iter_new,
    .range_bytes = rocks_range_bytes,
    .drop_files = rocks_drop_files,
    .compact = rocks_compact,
    .checkpoint = rocks_checkpoint,
    .check_files = rocks_check_files,
};

enum errc kv_rocks_open(struct kv **out, const struct kv_options *opt, struct error *err)
{
    enum errc rc = opt->is_read_only ? OK : make_directory(opt->path, err);
    if (rc != OK)
        return rc;
    struct kv_rocks *r = mem_zalloc(sizeof *r);
    r->base.ops = &rocks_ops;
    r->lock_fd = -1;
    r->cache = rocksdb_cache_create_lru(opt->cache_bytes ? opt->cache_bytes : 64 * (size_t)MIB);
    r->synced = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(r->synced, 1);
    r->unsynced = rocksdb_writeoptions_create();
    r->newest = rocksdb_readoptions_create();
    if (opt->is_read_only)
        rc = lock_for_reading(r, opt->path, err);
    if (rc == OK)
        rc = open_families(r, opt, err);
    if (rc != OK) {
        rocks_close(&r->base);
        return rc;
    }
    *out = &r->base;
    return OK;
}
