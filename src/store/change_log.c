/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records stand in the log family under the commit's number, catalogs in the meta family under
 * "catalog@" and the number of the commit that made them.
 *
 * What is old is found without reading: the log is cut into about eight steps by bytes and, where
 * age counts, by time; a step that is too old as a whole is deleted.
 */
#include "store/change_log.h"

#include "base/key.h"
#include "store/store_private.h"

enum { STEPS_MAX = 64, STEPS_AIM = 8, RECORD_HEAD = 9, ROW_BYTES = 16 };
enum { RECORD_EMPTY = 0xF0, RECORD_WHOLE = 0xF1 }; /* no batch begins so */
#define KEEP_BYTES_OFF ((uint64_t)MIB)

static const char catalog_prefix[] = "catalog@";

/* The log up to seq, written until time_us, is `bytes` long, counted from when it was opened. */
struct step {
    uint64_t seq, bytes, time_us;
};

struct change_log {
    struct change_log_options opt;
    struct step end; /* all of it */
    struct step steps[STEPS_MAX];
    size_t step_count;
    uint64_t *catalogs; /* owned; the commits that have one, rising */
    size_t catalog_count, catalog_cap;
    struct buf value, key;
};

/* ---- records ---- */

bool change_record_decode(struct slice key, struct slice value, struct change_record *out)
{
    uint8_t kind = value.len ? (uint8_t)value.ptr[0] : 0;
    bool is_new = kind == RECORD_EMPTY || kind == RECORD_WHOLE;
    if (key.len != 8 || (is_new && value.len < RECORD_HEAD))
        return false;
    *out = (struct change_record){ .seq = key_read_u64(key.ptr), .batch = value };
    if (is_new) {
        out->time_us = key_read_u64(value.ptr + 1);
        out->batch = slice_of(value.ptr + RECORD_HEAD, value.len - RECORD_HEAD);
        out->is_empty = kind == RECORD_EMPTY;
    }
    return true;
}

static void encode(struct change_log *log, uint64_t time_us, struct slice batch)
{
    buf_clear(&log->value);
    key_add_u8(&log->value, log->opt.is_off ? RECORD_EMPTY : RECORD_WHOLE);
    key_add_u64(&log->value, time_us);
    if (!log->opt.is_off)
        buf_add_slice(&log->value, batch);
}

/* The number of the first record or of the last; 0 = there is none. */
static enum errc read_bound(struct kv *kv, const struct kv_scan *from, uint64_t *out,
                            struct error *err)
{
    struct kv_iter *it = NULL;
    enum errc rc = kv_iter_new(&it, kv, NULL, KV_LOG, from, err);
    *out = 0;
    if (rc != OK)
        return rc;
    if (kv_iter_valid(it) && kv_iter_key(it).len == 8)
        *out = key_read_u64(kv_iter_key(it).ptr);
    rc = kv_iter_check(it, err);
    kv_iter_free(it);
    return rc;
}

enum errc change_log_first(struct kv *kv, uint64_t *out, struct error *err)
{
    return read_bound(kv, &(struct kv_scan){ .is_large = true }, out, err);
}

enum errc change_log_last(struct kv *kv, uint64_t *out, struct error *err)
{
    return read_bound(kv, &(struct kv_scan){ .is_reverse = true }, out, err);
}

/* ---- catalogs ---- */

void change_log_catalog_key(struct buf *out, uint64_t seq)
{
    buf_clear(out);
    buf_add_str(out, catalog_prefix);
    key_add_u64(out, seq);
}

enum errc change_log_catalog(struct kv *kv, uint64_t seq, struct arena *arena, struct slice *out,
                             struct error *err)
{
    struct buf from, to;
    struct kv_iter *it = NULL;
    buf_init(&from, 0);
    buf_init(&to, 0);
    change_log_catalog_key(&from, 0);
    change_log_catalog_key(&to, seq + 1);
    enum errc rc = kv_iter_new(
        &it, kv, NULL, KV_META,
        &(struct kv_scan){ .from = buf_slice(&from), .to = buf_slice(&to), .is_reverse = true },
        err);
    bool is_there = rc == OK && kv_iter_valid(it);
    if (is_there)
        *out = arena_copy(arena, kv_iter_value(it));
    if (rc == OK)
        rc = kv_iter_check(it, err);
    kv_iter_free(it);
    buf_release(&from);
    buf_release(&to);
    return rc == OK && !is_there ? ERR_NOT_FOUND : rc;
}

static void note_catalog(struct change_log *log, uint64_t seq)
{
    if (log->catalog_count == log->catalog_cap) {
        log->catalog_cap = log->catalog_cap ? log->catalog_cap * 2 : 64;
        log->catalogs = mem_realloc(log->catalogs, log->catalog_cap * sizeof *log->catalogs);
    }
    log->catalogs[log->catalog_count++] = seq;
}

static void add_catalog(struct change_log *log, uint64_t seq, struct slice batch,
                        struct kv_batch *group)
{
    struct kv_record record;
    for (size_t at = 0; kv_batch_next(batch, &at, &record);) {
        if (record.op != KV_PUT || record.family != KV_META || !slice_is(record.key, "catalog"))
            continue;
        change_log_catalog_key(&log->key, seq);
        record.key = buf_slice(&log->key);
        kv_batch_add(group, &record);
        note_catalog(log, seq);
    }
}

/* Those before the one that is in force behind last_seq. */
static void delete_catalogs(struct change_log *log, uint64_t last_seq, struct kv_batch *group)
{
    struct buf from;
    size_t old = 0;
    while (old + 1 < log->catalog_count && log->catalogs[old + 1] <= last_seq)
        old++;
    if (!old)
        return;
    buf_init(&from, 0);
    change_log_catalog_key(&from, 0);
    change_log_catalog_key(&log->key, log->catalogs[old]);
    kv_batch_add(group, &(struct kv_record){ .op = KV_DELETE_RANGE,
                                             .family = KV_META,
                                             .key = buf_slice(&from),
                                             .value = buf_slice(&log->key) });
    buf_release(&from);
    log->catalog_count -= old;
    memmove(log->catalogs, log->catalogs + old, log->catalog_count * sizeof *log->catalogs);
}

/* ---- what is kept ---- */

static void delete_records(uint64_t last_seq, struct kv_batch *group)
{
    struct buf from, to;
    buf_init(&from, 0);
    buf_init(&to, 0);
    key_add_u64(&from, 0);
    key_add_u64(&to, last_seq + 1);
    kv_batch_add(group, &(struct kv_record){ .op = KV_DELETE_RANGE,
                                             .family = KV_LOG,
                                             .key = buf_slice(&from),
                                             .value = buf_slice(&to) });
    buf_release(&from);
    buf_release(&to);
}

static bool is_old(const struct change_log *log, const struct step *s, uint64_t now_us)
{
    return log->end.bytes - s->bytes >= log->opt.keep_bytes ||
           (log->opt.keep_us && now_us - s->time_us >= log->opt.keep_us);
}

static bool is_step_due(const struct change_log *log, uint64_t now_us)
{
    const struct step none = { 0, 0, 0 };
    const struct step *last = log->step_count ? &log->steps[log->step_count - 1] : &none;
    if (log->end.seq == last->seq)
        return false;
    return log->end.bytes - last->bytes >= log->opt.keep_bytes / STEPS_AIM ||
           (log->opt.keep_us && now_us - last->time_us >= log->opt.keep_us / STEPS_AIM);
}

/*
 * Before a record is added to the group: what is there may all go. The newest record is never
 * deleted by this, since it tells where the store ends.
 */
static void trim(struct change_log *log, uint64_t now_us, struct kv_batch *group)
{
    size_t old = 0;
    if (is_step_due(log, now_us) && log->step_count < STEPS_MAX)
        log->steps[log->step_count++] = log->end;
    while (old < log->step_count && is_old(log, &log->steps[old], now_us))
        old++;
    if (!old)
        return;
    uint64_t last = log->steps[old - 1].seq;
    delete_records(last, group);
    delete_catalogs(log, last, group);
    log->step_count -= old;
    memmove(log->steps, log->steps + old, log->step_count * sizeof *log->steps);
}

static uint64_t now_us(const struct change_log *log)
{
    uint64_t now_us = env_wall_us(log->opt.env);
    return now_us > log->end.time_us ? now_us : log->end.time_us;
}

void change_log_add(struct change_log *log, uint64_t seq, struct slice batch, bool has_catalog,
                    struct kv_batch *group)
{
    struct buf number;
    uint64_t time_us = now_us(log);
    trim(log, time_us, group);
    encode(log, time_us, batch);
    buf_init(&number, 0);
    key_add_u64(&number, seq);
    kv_batch_add(group, &(struct kv_record){ .op = KV_PUT,
                                             .family = KV_LOG,
                                             .key = buf_slice(&number),
                                             .value = buf_slice(&log->value) });
    buf_release(&number);
    if (has_catalog && !log->opt.is_off)
        add_catalog(log, seq, batch, group);
    log->end = (struct step){ seq, log->end.bytes + log->value.len + ROW_BYTES, time_us };
    if (log->value.cap > MIB) { /* of a large transaction */
        buf_release(&log->value);
        buf_init(&log->value, 0);
    }
}

void change_log_rewind(struct change_log *log, uint64_t seq)
{
    while (log->catalog_count && log->catalogs[log->catalog_count - 1] > seq)
        log->catalog_count--;
    while (log->step_count && log->steps[log->step_count - 1].seq > seq)
        log->step_count--;
    log->end.seq = seq;
}

bool change_log_is_on(const struct change_log *log)
{
    return !log->opt.is_off;
}

/* ---- opening ---- */

static enum errc read_last_time(struct change_log *log, struct error *err)
{
    struct kv_iter *it = NULL;
    struct change_record record;
    enum errc rc =
        kv_iter_new(&it, log->opt.kv, NULL, KV_LOG, &(struct kv_scan){ .is_reverse = true }, err);
    if (rc != OK)
        return rc;
    if (kv_iter_valid(it) && change_record_decode(kv_iter_key(it), kv_iter_value(it), &record))
        log->end.time_us = record.time_us;
    rc = kv_iter_check(it, err);
    kv_iter_free(it);
    return rc;
}

static enum errc read_catalogs(struct change_log *log, struct error *err)
{
    struct buf from, to;
    struct kv_iter *it = NULL;
    buf_init(&from, 0);
    buf_init(&to, 0);
    buf_add_str(&from, catalog_prefix);
    buf_add_str(&to, catalog_prefix);
    key_prefix_end(&to);
    enum errc rc =
        kv_iter_new(&it, log->opt.kv, NULL, KV_META,
                    &(struct kv_scan){ .from = buf_slice(&from), .to = buf_slice(&to) }, err);
    for (; rc == OK && kv_iter_valid(it); kv_iter_next(it)) {
        struct slice key = kv_iter_key(it);
        if (key.len == sizeof catalog_prefix - 1 + 8)
            note_catalog(log, key_read_u64(key.ptr + sizeof catalog_prefix - 1));
    }
    if (rc == OK)
        rc = kv_iter_check(it, err);
    kv_iter_free(it);
    buf_release(&from);
    buf_release(&to);
    return rc;
}

/*
 * Puts the catalog of now at the last commit, when the history has a gap before it; takes the
 * history away when the log is off.
 */
static enum errc begin_catalogs(struct change_log *log, struct error *err)
{
    enum errc rc = OK;
    struct kv_batch batch;
    struct arena *arena = arena_new(0);
    struct slice catalog = { NULL, 0 };
    struct buf end, version;
    kv_batch_init(&batch);
    buf_init(&end, 0);
    buf_init(&version, 0);
    key_add_u64(&version, FORMAT_VERSION);
    kv_batch_add(&batch, &(struct kv_record){ .op = KV_PUT,
                                              .family = KV_META,
                                              .key = slice_str("format"),
                                              .value = buf_slice(&version) });
    if (log->opt.is_off) {
        buf_add_str(&end, catalog_prefix);
        key_prefix_end(&end);
        kv_batch_add(&batch, &(struct kv_record){ .op = KV_DELETE_RANGE,
                                                  .family = KV_META,
                                                  .key = slice_str(catalog_prefix),
                                                  .value = buf_slice(&end) });
        log->catalog_count = 0;
    } else {
        TRY(kv_get(log->opt.kv, NULL, KV_META, slice_str("catalog"), arena, &catalog, err));
        change_log_catalog_key(&log->key, log->opt.last_seq);
        kv_batch_add(&batch, &(struct kv_record){ .op = KV_PUT,
                                                  .family = KV_META,
                                                  .key = buf_slice(&log->key),
                                                  .value = catalog });
        note_catalog(log, log->opt.last_seq);
    }
    TRY(kv_write(log->opt.kv, &batch, true, err));
out:
    if (rc == ERR_NOT_FOUND)
        rc = fail(err, ERR_CORRUPT, "the store has no catalog");
    kv_batch_release(&batch);
    buf_release(&end);
    buf_release(&version);
    arena_free(arena);
    return rc;
}

enum errc change_log_open(struct change_log **out, const struct change_log_options *opt,
                          struct error *err)
{
    enum errc rc = OK;
    struct slice all = { NULL, 0 };
    struct change_log *log = mem_zalloc(sizeof *log);
    log->opt = *opt;
    if (!log->opt.keep_bytes)
        log->opt.keep_bytes = LOG_KEEP_BYTES;
    if (opt->is_off)
        log->opt.keep_bytes = KEEP_BYTES_OFF;
    buf_init(&log->value, 0);
    buf_init(&log->key, 0);
    TRY(read_last_time(log, err));
    TRY(read_catalogs(log, err));
    if (opt->is_off ? log->catalog_count > 0 || !log->end.time_us : !log->catalog_count)
        TRY(begin_catalogs(log, err));
    log->end.seq = opt->last_seq;
    log->end.bytes = kv_range_bytes(opt->kv, KV_LOG, all, all);
    *out = log;
    log = NULL;
out:
    change_log_close(log);
    return rc;
}

void change_log_close(struct change_log *log)
{
    if (!log)
        return;
    buf_release(&log->value);
    buf_release(&log->key);
    mem_free(log->catalogs);
    mem_free(log);
}
