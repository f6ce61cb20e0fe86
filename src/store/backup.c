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
#include "base/log.h"
#include "store/store_private.h"

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

static enum errc describe(struct store *s, uint64_t last_commit, const char *id,
                          const char *program, struct arena *arena, struct val *out,
                          struct error *err)
{
    struct val_builder *b = val_builder_new(0);
    val_open_object(b);
    val_put_name(b, slice_str("id"));
    val_put_string(b, slice_str(id));
    val_put_name(b, slice_str("created"));
    val_put_string(b, slice_str(time_text(env_wall_us(s->env), arena)));
    val_put_name(b, slice_str("program"));
    val_put_string(b, slice_str(program));
    val_put_name(b, slice_str("storeFormat"));
    val_put_int(b, FORMAT_VERSION);
    val_put_name(b, slice_str("lastCommit"));
    val_put_int(b, (int64_t)last_commit);
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

static enum errc fill(struct store *s, const char *part, const char *id, const char *program,
                      struct arena *arena, struct manifest *out, struct error *err)
{
    enum errc rc = OK;
    struct commit_stats stats;
    struct val about;
    const char *data = arena_printf(arena, "%s/data", part);
    TRY(make_dir(data, err));
    committer_stats(s->committer, &stats); /* before the copy, which then holds this commit */
    TRY(kv_checkpoint(s->kv, arena_printf(arena, "%s/rocks", data), err));
    TRY(disk_put_mark(data, stats.last_seq, err));
    TRY(folder_sync(data, err));
    TRY(describe(s, stats.last_seq, id, program, arena, &about, err));
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

enum errc store_backup(struct store *s, const char *dir, const char *id, const char *program,
                       struct arena *arena, struct manifest *out, struct error *err)
{
    struct error ignored;
    struct stat st;
    const char *part = arena_printf(arena, "%s.part", dir);
    if (lstat(dir, &st) == 0)
        return fail(err, ERR_EXISTS, "the backup %s exists already", dir);
    enum errc rc = store_backup_forget(part, err);
    if (rc == OK)
        rc = make_dir(part, err);
    if (rc != OK)
        return rc;
    int held = hold(part);
    rc = fill(s, part, id, program, arena, out, err);
    if (rc == OK)
        rc = publish(part, dir, arena, err);
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
