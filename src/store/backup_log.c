/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file is a head and frames; a frame is the number of a commit, its record as the log family has it,
 * and a sum over both. Replaying writes what the commits wrote, in groups.
 *
 * The copy that a backup begins from may hold commits that came while it was made: replaying them again
 * would change nothing, so those are passed over.
 */
#include "store/backup_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/key.h"
#include "base/manifest.h"
#include "store/change_log.h"
#include "store/change_private.h"

enum { FILE_BYTES = 64 * MIB, GROUP_BYTES = 4 * MIB, FRAME_HEAD = 24, FILE_HEAD = 16 };
enum { FORMAT = 1, RECORD_MAX = 1024 * MIB };

static const char magic[] = "themisCL";

static uint64_t sum_of(uint64_t seq, struct slice record)
{
    return hash_xxh3(record.ptr, record.len) ^ seq * 0x9e3779b97f4a7c15u;
}

/* ---- writing ---- */

struct writer {
    const char *dir;
    struct buf path, out;
    int fd;
    uint64_t bytes;
};

static enum errc write_out(struct writer *w, struct error *err)
{
    struct slice left = buf_slice(&w->out);
    while (left.len) {
        ssize_t n = fault_errno("store.backup_log", EIO) ? -1 : write(w->fd, left.ptr, left.len);
        if (n < 0 && errno != EINTR)
            return fail_os(err, "write", buf_cstr(&w->path));
        if (n > 0)
            left = slice_of(left.ptr + n, left.len - (size_t)n);
    }
    buf_clear(&w->out);
    return OK;
}

static enum errc end_file(struct writer *w, struct error *err)
{
    if (w->fd < 0)
        return OK;
    enum errc rc = write_out(w, err);
    if (rc == OK && (fault_errno("store.backup_log", EIO) || fsync(w->fd)))
        rc = fail_os(err, "sync", buf_cstr(&w->path));
    close(w->fd);
    w->fd = -1;
    return rc;
}

static enum errc begin_file(struct writer *w, uint64_t seq, struct error *err)
{
    enum errc rc = end_file(w, err);
    if (rc != OK)
        return rc;
    buf_clear(&w->path);
    buf_printf(&w->path, "%s/%020" PRIu64 ".log", w->dir, seq);
    w->fd = open(buf_cstr(&w->path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (w->fd < 0)
        return fail_os(err, "make", buf_cstr(&w->path));
    w->bytes = FILE_HEAD;
    buf_add(&w->out, magic, 8);
    key_add_u64(&w->out, FORMAT);
    return OK;
}

static enum errc add_frame(struct writer *w, uint64_t seq, struct slice record, struct error *err)
{
    enum errc rc = OK;
    if (w->fd < 0 || w->bytes >= FILE_BYTES)
        TRY(begin_file(w, seq, err));
    key_add_u64(&w->out, record.len);
    key_add_u64(&w->out, seq);
    key_add_u64(&w->out, sum_of(seq, record));
    buf_add_slice(&w->out, record);
    w->bytes += FRAME_HEAD + record.len;
    if (w->out.len >= MIB)
        rc = write_out(w, err);
out:
    return rc;
}

static enum errc fail_gap(uint64_t seq, struct error *err)
{
    char why[128];
    snprintf(why, sizeof why, "commit %" PRIu64 " is not in the change log any more", seq);
    return fail_num(err, 1415, "%s: make a full backup, and raise change_log_mb", why);
}

static enum errc write_records(struct writer *w, struct kv_iter *it, uint64_t after, uint64_t last,
                               struct error *err)
{
    enum errc rc = OK;
    struct change_record record;
    for (uint64_t seq = after + 1; seq <= last; seq++, kv_iter_next(it)) {
        if (!kv_iter_valid(it))
            TRY(kv_iter_check(it, err));
        if (!kv_iter_valid(it) ||
            !change_record_decode(kv_iter_key(it), kv_iter_value(it), &record) ||
            record.seq != seq || record.is_empty || !record.time_us)
            return fail_gap(seq, err);
        TRY(add_frame(w, seq, kv_iter_value(it), err));
    }
out:
    return rc;
}

enum errc backup_log_write(struct kv *kv, const char *dir, uint64_t after, uint64_t last,
                           struct error *err)
{
    enum errc rc = OK;
    struct error ignored;
    struct kv_iter *it = NULL;
    struct buf from;
    struct writer w = { .dir = dir, .fd = -1 };
    buf_init(&from, 0);
    buf_init(&w.path, 0);
    buf_init(&w.out, 0);
    key_add_u64(&from, after + 1);
    TRY(kv_iter_new(&it, kv, NULL, KV_LOG,
                    &(struct kv_scan){ .from = buf_slice(&from), .is_large = true }, err));
    TRY(write_records(&w, it, after, last, err));
    TRY(end_file(&w, err));
    rc = folder_sync(dir, err);
out:
    if (rc != OK && end_file(&w, &ignored) != OK)
        w.fd = -1; /* the folder is given up anyway */
    kv_iter_free(it);
    buf_release(&from);
    buf_release(&w.path);
    buf_release(&w.out);
    return rc;
}

/* ---- reading ---- */

struct replay {
    const struct replay_options *opt;
    struct replay_result *out;
    struct kv *kv;
    struct kv_batch group;
    struct buf key;
    bool is_there; /* the point was reached */
};

static enum errc read_whole(int fd, const char *path, void *to, size_t len, struct error *err)
{
    for (char *at = to; len;) {
        ssize_t n = read(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_os(err, "read", path);
        if (n == 0)
            return fail(err, ERR_CORRUPT, "%s ends in the middle of a commit", path);
        at += n;
        len -= (size_t)n;
    }
    return OK;
}

static enum errc flush_group(struct replay *p, bool is_synced, struct error *err)
{
    enum errc rc = kv_write(p->kv, &p->group, is_synced, err);
    kv_batch_clear(&p->group);
    return rc;
}

static void add_catalog(struct replay *p, const struct change_record *record)
{
    struct kv_record row;
    for (size_t at = 0; kv_batch_next(record->batch, &at, &row);) {
        if (row.op != KV_PUT || row.family != KV_META || !slice_is(row.key, "catalog"))
            continue;
        change_log_catalog_key(&p->key, record->seq);
        row.key = buf_slice(&p->key);
        kv_batch_add(&p->group, &row);
    }
}

static bool is_batch(struct slice batch)
{
    struct kv_record row;
    size_t at = 0;
    while (kv_batch_next(batch, &at, &row))
        if (row.family >= KV_FAMILY_COUNT)
            return false;
    return at == batch.len;
}

static enum errc take(struct replay *p, const char *path, uint64_t seq, struct slice bytes,
                      struct error *err)
{
    struct change_record record = { 0 };
    buf_clear(&p->key);
    key_add_u64(&p->key, seq);
    if (!change_record_decode(buf_slice(&p->key), bytes, &record) || !is_batch(record.batch))
        return fail(err, ERR_CORRUPT, "commit %" PRIu64 " in %s is damaged", seq, path);
    if (seq <= p->out->last)
        return OK;
    if (seq != p->out->last + 1)
        return fail(err, ERR_CORRUPT,
                    "%s begins behind commit %" PRIu64 ", but commits %" PRIu64 " to %" PRIu64
                    " are missing",
                    path, seq - 1, p->out->last + 1, seq - 1);
    p->is_there = (p->opt->until_seq && seq > p->opt->until_seq) ||
                  (p->opt->until_us && record.time_us > p->opt->until_us);
    if (p->is_there)
        return OK;
    kv_batch_append(&p->group, record.batch);
    kv_batch_add(&p->group,
                 &(struct kv_record){
                     .op = KV_PUT, .family = KV_LOG, .key = buf_slice(&p->key), .value = bytes });
    add_catalog(p, &record);
    p->out->last = seq;
    p->out->last_us = record.time_us;
    return p->group.bytes.len >= GROUP_BYTES ? flush_group(p, false, err) : OK;
}

static enum errc read_frame(struct replay *p, int fd, const char *path, struct buf *bytes,
                            struct error *err)
{
    enum errc rc = OK;
    uint8_t head[FRAME_HEAD];
    TRY(read_whole(fd, path, head, sizeof head, err));
    uint64_t len = key_read_u64(head), seq = key_read_u64(head + 8);
    if (len > RECORD_MAX)
        return fail(err, ERR_CORRUPT, "%s has a commit of %" PRIu64 " bytes", path, len);
    buf_clear(bytes);
    TRY(read_whole(fd, path, buf_reserve(bytes, (size_t)len), (size_t)len, err));
    if (sum_of(seq, buf_slice(bytes)) != key_read_u64(head + 16))
        return fail(err, ERR_CORRUPT, "commit %" PRIu64 " in %s is damaged", seq, path);
    rc = take(p, path, seq, buf_slice(bytes), err);
out:
    return rc;
}

static enum errc read_file(struct replay *p, const char *path, struct error *err)
{
    enum errc rc = OK;
    uint8_t head[FILE_HEAD];
    struct stat st;
    struct buf bytes;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail_os(err, "open", path);
    buf_init(&bytes, 0);
    if (fstat(fd, &st)) {
        rc = fail_os(err, "read", path);
        goto out;
    }
    TRY(read_whole(fd, path, head, sizeof head, err));
    if (memcmp(head, magic, 8) != 0 || key_read_u64(head + 8) != FORMAT)
        TRY(fail(err, ERR_CORRUPT, "%s is no file of commits of format %d", path, FORMAT));
    while (rc == OK && !p->is_there && lseek(fd, 0, SEEK_CUR) < st.st_size)
        rc = read_frame(p, fd, path, &bytes, err);
out:
    buf_release(&bytes);
    close(fd);
    return rc;
}

static int is_log(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');
    return dot && strcmp(dot, ".log") == 0;
}

static enum errc read_dir(struct replay *p, const char *dir, struct error *err)
{
    struct dirent **names = NULL;
    struct buf path;
    enum errc rc = OK;
    int n = scandir(dir, &names, is_log, alphasort);
    if (n < 0)
        return fail_os(err, "read", dir);
    buf_init(&path, 0);
    for (int i = 0; i < n; i++) {
        buf_clear(&path);
        buf_printf(&path, "%s/%s", dir, names[i]->d_name);
        if (rc == OK && !p->is_there)
            rc = read_file(p, buf_cstr(&path), err);
        free(names[i]);
    }
    free(names);
    buf_release(&path);
    return rc;
}

/* ---- replaying ---- */

static enum errc find_begin(struct replay *p, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct slice value = { NULL, 0 };
    struct change_record record = { 0 };
    bool is_new = true;
    enum errc rc = OK;
    TRY(store_check_format(p->kv, arena, &is_new, err));
    if (is_new)
        TRY(fail(err, ERR_CORRUPT, "there is no store in %s", p->opt->path));
    TRY(change_log_last(p->kv, &p->out->before, err));
    key_add_u64(&p->key, p->out->before);
    rc = kv_get(p->kv, NULL, KV_LOG, buf_slice(&p->key), arena, &value, err);
    if (rc == OK && change_record_decode(buf_slice(&p->key), value, &record))
        p->out->last_us = record.time_us;
    p->out->last = p->out->before;
    if (rc == ERR_NOT_FOUND) /* nothing was ever committed */
        rc = OK;
    if (rc == OK && ((p->opt->until_seq && p->opt->until_seq < p->out->before) ||
                     (p->opt->until_us && p->opt->until_us < p->out->last_us)))
        rc = fail(err, ERR_INVALID,
                  "the full backup holds commits up to %" PRIu64
                  " already, which is behind that point: take an older one",
                  p->out->before);
out:
    arena_free(arena);
    return rc;
}

static enum errc finish(struct replay *p, struct error *err)
{
    enum errc rc = OK;
    if (p->opt->until_seq && p->out->last < p->opt->until_seq)
        return fail(err, ERR_INVALID,
                    "the backups end at commit %" PRIu64 ", before %" PRIu64 ": take a newer one",
                    p->out->last, p->opt->until_seq);
    struct buf ids, path;
    buf_init(&ids, 0);
    buf_init(&path, 0);
    key_add_u64(&ids, p->opt->ids[0]);
    key_add_u64(&ids, p->opt->ids[1]);
    if (p->opt->ids[0])
        kv_batch_add(&p->group, &(struct kv_record){ .op = KV_PUT,
                                                     .family = KV_META,
                                                     .key = slice_str("ids"),
                                                     .value = buf_slice(&ids) });
    TRY(flush_group(p, true, err));
    buf_printf(&path, "%s/acknowledged", p->opt->path);
    if (unlink(buf_cstr(&path)) && errno != ENOENT)
        TRY(fail_os(err, "remove", buf_cstr(&path)));
    TRY(disk_put_mark(p->opt->path, p->out->last, err));
    rc = folder_sync(p->opt->path, err);
out:
    buf_release(&ids);
    buf_release(&path);
    return rc;
}

enum errc backup_log_replay(const struct replay_options *opt, struct replay_result *out,
                            struct error *err)
{
    enum errc rc = OK;
    struct replay p = { .opt = opt, .out = out };
    struct buf path;
    *out = (struct replay_result){ 0 };
    buf_init(&path, 0);
    buf_init(&p.key, 0);
    kv_batch_init(&p.group);
    buf_printf(&path, "%s/rocks", opt->path);
    TRY(kv_open(&p.kv, &(struct kv_options){ .path = buf_cstr(&path) }, err));
    TRY(find_begin(&p, err));
    for (size_t i = 0; i < opt->dir_count && !p.is_there; i++)
        TRY(read_dir(&p, opt->dirs[i], err));
    rc = finish(&p, err);
out:
    kv_close(p.kv);
    kv_batch_release(&p.group);
    buf_release(&p.key);
    buf_release(&path);
    return rc;
}
