/* SPDX-License-Identifier: Apache-2.0 */
/*
 * themis restore: a data directory from a backup folder, after every file of it
 * was checked. Needs no server. The directory appears whole or not at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/manifest.h"
#include "cli/cli.h"

enum { PIECE_BYTES = 1 << 20 };

static enum errc copy_bytes(int from, int to, const char *path, char *piece, struct error *err)
{
    ssize_t n, done;

    while ((n = read(from, piece, PIECE_BYTES)) > 0)
        for (ssize_t at = 0; at < n; at += done)
            if ((done = write(to, piece + at, (size_t)(n - at))) < 0)
                return fail_os(err, "write", path);
    if (n < 0)
        return fail_os(err, "read", path);
    return fsync(to) ? fail_os(err, "sync", path) : OK;
}

static enum errc copy_file(const char *source, const char *target, char *piece, struct error *err)
{
    int from = open(source, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int to = from < 0 ? -1 : open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    enum errc rc = from < 0 ? fail_os(err, "open", source)
                   : to < 0 ? fail_os(err, "make", target)
                            : copy_bytes(from, to, target, piece, err);

    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return rc;
}

/* The folders above the file, within dir. */
static enum errc make_parents(const char *dir, const char *within, struct arena *arena,
                              struct error *err)
{
    for (const char *slash = strchr(within, '/'); slash; slash = strchr(slash + 1, '/')) {
        const char *path = arena_printf(arena, "%s/%.*s", dir, (int)(slash - within), within);
        if (mkdir(path, 0750) && errno != EEXIST)
            return fail_os(err, "make", path);
    }
    return OK;
}

/* Folders of a copied file, so that its entry survives a power cut. */
static enum errc sync_parents(const char *dir, const char *within, struct arena *arena,
                              struct error *err)
{
    const char *slash = strrchr(within, '/');

    return folder_sync(
        slash ? arena_printf(arena, "%s/%.*s", dir, (int)(slash - within), within) : dir, err);
}

/* Files of the backup under data/. */
static enum errc copy_data(struct cli *c, const char *backup, const struct manifest *m,
                           const char *part, struct error *err)
{
    static const char data[] = "data/";
    enum errc rc = OK;
    char *piece = arena_alloc(c->arena, PIECE_BYTES);

    if (mkdir(part, 0750))
        return fail_os(err, "make", part);
    for (size_t i = 0; rc == OK && i < m->count; i++) {
        const char *path = m->files[i].path;
        if (strncmp(path, data, strlen(data)))
            return fail(err, ERR_CORRUPT, "%s is no backup: it holds %s", backup, path);
        const char *within = path + strlen(data);
        rc = make_parents(part, within, c->arena, err);
        if (rc == OK)
            rc = copy_file(arena_printf(c->arena, "%s/%s", backup, path),
                           arena_printf(c->arena, "%s/%s", part, within), piece, err);
        if (rc == OK)
            rc = sync_parents(part, within, c->arena, err);
    }
    return rc == OK ? folder_sync(part, err) : rc;
}

static enum errc check_target(const char *target, struct error *err)
{
    struct stat st;

    if (lstat(target, &st) && errno == ENOENT)
        return OK;
    if (rmdir(target) == 0) /* an empty one */
        return OK;
    return fail(err, ERR_EXISTS, "%s exists and is not an empty directory: name a new one", target);
}

static enum errc restore(struct cli *c, const char *backup, const char *target, struct manifest *m,
                         struct error *err)
{
    struct error ignored;
    const char *part = arena_printf(c->arena, "%s.part", target);
    enum errc rc = OK;

    TRY(manifest_read(backup, c->arena, m, err));
    TRY(manifest_check(backup, m, err));
    TRY(check_target(target, err));
    rc = folder_remove(part, err); /* of a try that was cut off */
    if (rc != OK && rc != ERR_NOT_FOUND)
        return rc;
    rc = copy_data(c, backup, m, part, err);
    if (rc == OK && rename(part, target))
        rc = fail_os(err, "make", target);
    if (rc != OK && folder_remove(part, &ignored) != OK)
        fprintf(stderr, "themis: a part is left: %s\n", ignored.text);
out:
    return rc;
}

/* "a/b/" is "a/b". */
static const char *without_slash(struct cli *c, const char *path)
{
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    return arena_printf(c->arena, "%.*s", (int)len, path);
}

static int run(struct cli *c, int argc, char **argv)
{
    struct error err = { 0 };
    struct manifest m;

    cli_no_options(argc, argv);
    if (argc != 2)
        return cli_misuse_of(&command_restore);
    const char *backup = without_slash(c, argv[0]), *target = without_slash(c, argv[1]);
    if (restore(c, backup, target, &m, &err) != OK)
        return cli_fail("%s", err.text);
    if (c->is_json)
        cli_print_val(m.about, true);
    else
        printf("%s: %zu files, %.1f MB, up to commit %lld\n"
               "start it with: themisd --data %s\n",
               target, m.count, (double)m.bytes / 1e6,
               (long long)val_int(val_get(m.about, slice_str("lastCommit"))), target);
    return EXIT_DONE;
}

const struct command command_restore = {
    .name = "restore",
    .arguments = "BACKUP DATA",
    .help = "Makes a data directory from a checked backup.",
    .run = run,
    .about = "BACKUP is the folder of a backup, DATA must not exist. Files are compared with the "
             "digests that "
             "the backup has of them.",
};
