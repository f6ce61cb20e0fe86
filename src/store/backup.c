/* SPDX-License-Identifier: Apache-2.0 */
#include "store/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/key.h"
#include "base/log.h"
#include "store/backup_log.h"
#include "store/change_private.h"

enum { DURABLE_WAITS = 200, DURABLE_WAIT_MS = 10 };

/* "2026-01-31T09:30:00Z" */
static const char *time_text(uint64_t wall_us, struct arena *arena)
{
    struct tm tm;
    time_t seconds = (time_t)(wall_us / 1000000);
    char *out = arena_alloc(arena, 32);
    gmtime_r(&seconds, &tm);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return out;
}

/* What a backup holds. */
struct extent {
    uint64_t after, last; /* commits; after is 0 in a full one */
    uint64_t time_us;     /* when it was asked for */
    uint64_t ids[2];
};

static void put_text(struct val_builder *b, const char *name, const char *text)
{
    val_put_name(b, slice_str(name));
    val_put_string(b, slice_str(text));
}

static void put_int(struct val_builder *b, const char *name, uint64_t n)
{
    val_put_name(b, slice_str(name));
    val_put_int(b, (int64_t)n);
}

static enum errc describe(struct store *s, const struct backup_options *opt, const struct extent *x,
                          struct arena *arena, struct val *out, struct error *err)
{
    struct val_builder *b = val_builder_new(0);
    val_open_object(b);
    put_text(b, "id", opt->id);
    put_text(b, "created", time_text(x->time_us, arena));
    put_text(b, "program", opt->program);
    put_int(b, "storeFormat", FORMAT_VERSION);
    put_text(b, "history", change_history(s));
    put_int(b, "createdUs", x->time_us);
    if (opt->parent) {
        put_text(b, "parent", opt->parent->id);
        put_text(b, "parentDigest", opt->parent->digest);
        put_int(b, "afterCommit", x->after);
        put_int(b, "nextId", x->ids[0]);
        put_int(b, "nextClock", x->ids[1]);
    }
    put_int(b, "lastCommit", x->last);
    val_close(b);
    enum errc rc = val_finish_in(b, arena, out, err);
    val_builder_free(b);
    return rc;
}

static enum errc make_dir(const char *path, struct error *err)
{
    if (!fault_errno("store.backup", EIO) && mkdir(path, 0750) == 0)
        return OK;
    return fail_os(err, "make", path);
}

/* Who makes the folder holds it; a crash lets go. -1: somebody else does, or it is not there. */
static int hold(const char *part)
{
    int fd = open(part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void let_go(int fd)
{
    if (fd >= 0)
        close(fd);
}

static enum errc fill_full(struct store *s, const char *part, const struct extent *x,
                           struct arena *arena, struct error *err)
{
    enum errc rc = OK;
    const char *data = arena_printf(arena, "%s/data", part);
    TRY(make_dir(data, err));
    TRY(kv_checkpoint(s->kv, arena_printf(arena, "%s/rocks", data), err));
    TRY(disk_put_mark(data, x->last, err));
    rc = folder_sync(data, err);
out:
    return rc;
}

/* ---- incremental ---- */

static enum errc check_parent(struct store *s, const struct backup_parent *parent, struct extent *x,
                              struct error *err)
{
    struct slice history = val_string(val_get(parent->about, slice_str("history")));
    x->after = (uint64_t)val_int(val_get(parent->about, slice_str("lastCommit")));
    if (!change_log_is_on(s->log))
        return fail(err, ERR_INVALID,
                    "the change log is off (setting change_log): only full "
                    "backups can be made");
    if (!history.len)
        return fail(err, ERR_INVALID,
                    "backup '%s' was made by an older program: make a full one first", parent->id);
    if (!slice_is(history, change_history(s)) || x->after > x->last)
        return fail(err, ERR_INVALID,
                    "backup '%s' is of another history than this store, which was restored or "
                    "lost commits since: make a full one first",
                    parent->id);
    return OK;
}

static enum errc read_ids(struct store *s, struct extent *x, struct arena *arena, struct error *err)
{
    struct slice value = { NULL, 0 };
    enum errc rc = kv_get(s->kv, NULL, KV_META, slice_str("ids"), arena, &value, err);
    if (rc != OK && rc != ERR_NOT_FOUND)
        return rc;
    if (value.len != 16)
        return fail(err, ERR_CORRUPT, "the store has no record of ids");
    x->ids[0] = key_read_u64(value.ptr);
    x->ids[1] = key_read_u64(value.ptr + 8);
    return OK;
}

static enum errc fill_increment(struct store *s, const char *part, struct extent *x,
                                struct arena *arena, struct error *err)
{
    enum errc rc = OK;
    const char *log = arena_printf(arena, "%s/log", part);
    TRY(make_dir(log, err));
    TRY(backup_log_write(s->kv, log, x->after, x->last, err));
    rc = read_ids(s, x, arena, err); /* after the commits: as high as any in them */
out:
    return rc;
}

/* ---- both ---- */

/* What was acknowledged without sync is durable shortly: a backup is never ahead of its store. */
static void wait_until_durable(struct store *s, uint64_t seq)
{
    for (int i = 0; i < DURABLE_WAITS && change_limit(s) < seq; i++)
        nanosleep(&(struct timespec){ .tv_nsec = DURABLE_WAIT_MS * 1000000L }, NULL);
}

static enum errc fill(struct store *s, const struct backup_options *opt, const char *part,
                      struct arena *arena, struct manifest *out, struct error *err)
{
    enum errc rc = OK;
    struct commit_stats stats;
    struct extent x = { .time_us = env_wall_us(s->env) };
    struct val about;
    committer_stats(s->committer, &stats); /* before the copy, which then holds this commit */
    wait_until_durable(s, stats.last_seq);
    x.last = opt->parent ? change_limit(s) : stats.last_seq;
    if (opt->parent) {
        TRY(check_parent(s, opt->parent, &x, err));
        TRY(fill_increment(s, part, &x, arena, err));
    } else {
        TRY(fill_full(s, part, &x, arena, err));
    }
    TRY(describe(s, opt, &x, arena, &about, err));
    rc = manifest_make(part, about, arena, out, err);
out:
    return rc;
}

/* Also the entry in the parent. */
static enum errc publish(const char *part, const char *dir, struct arena *arena, struct error *err)
{
    const char *slash = strrchr(dir, '/');
    const char *parent =
        slash ? arena_printf(arena, "%.*s", (int)(slash - dir + 1), dir) : "."; /* "/" stays */
    if (fault_errno("store.backup", EIO) || rename(part, dir))
        return fail(err, errno == ENOTEMPTY || errno == EEXIST ? ERR_EXISTS : ERR_IO,
                    "cannot make %s: %s", dir, strerror(errno));
    enum errc rc = folder_sync(parent, err);
    if (rc != OK && rename(dir, part)) /* it must not be found after an error */
        log_warn("store", "a backup that failed stays in %s: %s", dir, strerror(errno));
    return rc;
}

enum errc store_backup(struct store *s, const struct backup_options *opt, struct arena *arena,
                       struct manifest *out, struct error *err)
{
    struct error ignored;
    struct stat st;
    const char *part = arena_printf(arena, "%s.part", opt->dir);
    if (lstat(opt->dir, &st) == 0)
        return fail(err, ERR_EXISTS, "the backup %s exists already", opt->dir);
    enum errc rc = store_backup_forget(part, err);
    if (rc == OK)
        rc = make_dir(part, err);
    if (rc != OK)
        return rc;
    int held = hold(part);
    rc = fill(s, opt, part, arena, out, err);
    if (rc == OK)
        rc = publish(part, opt->dir, arena, err);
    if (rc != OK && folder_remove(part, &ignored) != OK)
        log_warn("store", "a part of a backup is left: %s", ignored.text);
    let_go(held);
    return rc;
}

enum errc store_backup_forget(const char *part, struct error *err)
{
    struct stat st;
    if (lstat(part, &st) && errno == ENOENT)
        return OK;
    int held = hold(part);
    if (held < 0)
        return fail(err, ERR_BUSY, "%s is in use", part);
    enum errc rc = folder_remove(part, err);
    let_go(held);
    return rc == ERR_NOT_FOUND ? OK : rc;
}
