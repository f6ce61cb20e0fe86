/* SPDX-License-Identifier: Apache-2.0 */
/*
 * themis restore: a data directory from a backup folder and those that it goes on from, after every
 * file of them was checked. Needs no server; commits behind the full backup are put there by the
 * themisd beside this program. The directory appears whole or not at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/val_text.h"
#include "cli/restore_chain.h"

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

/* ---- commits behind the copy ---- */

static const char *program_beside(struct arena *arena, struct error *err)
{
    char self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

    if (len < 0) {
        fail(err, ERR_IO, "cannot find this program: %s", strerror(errno));
        return NULL;
    }
    self[len] = 0;
    return arena_printf(arena, "%.*sthemisd", (int)(strrchr(self, '/') + 1 - self), self);
}

/* Its standard error is ours; its standard output is one line of JSON, into out. */
static enum errc run_program(const char *const *argv, struct buf *out, struct error *err)
{
    int fds[2], status;
    char piece[1024];
    ssize_t n;

    if (pipe(fds))
        return fail_os(err, "make", "a pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        execv(argv[0], (char *const *)argv);
        fprintf(stderr, "themis: cannot run %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    close(fds[1]);
    while (pid > 0 && (n = read(fds[0], piece, sizeof piece)) > 0)
        buf_add(out, piece, (size_t)n);
    close(fds[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return fail_os(err, "run", argv[0]);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return fail(err, ERR_CORRUPT, "the backups could not be restored to that point");
    return OK;
}

static enum errc replay(struct cli *c, const struct chain *chain, const struct restore_point *point,
                        const char *part, uint64_t *last, struct error *err)
{
    struct val about = chain->links[chain->count - 1].manifest.about, done;
    const char **argv = arena_alloc(c->arena, (2 * chain->count + 12) * sizeof *argv);
    size_t n = 0;
    struct buf out;
    enum errc rc = OK;

    argv[n++] = program_beside(c->arena, err);
    if (!argv[0])
        return ERR_IO;
    argv[n++] = "--data";
    argv[n++] = part;
    for (size_t i = 1; i < chain->count; i++) {
        argv[n++] = "--replay";
        argv[n++] = arena_printf(c->arena, "%s/log", chain->links[i].dir);
    }
    if (chain->count > 1) {
        argv[n++] = "--ids";
        argv[n++] = arena_printf(c->arena, "%lld,%lld",
                                 (long long)val_int(val_get(about, slice_str("nextId"))),
                                 (long long)val_int(val_get(about, slice_str("nextClock"))));
    }
    if (point->seq) {
        argv[n++] = "--until";
        argv[n++] = arena_printf(c->arena, "%llu", (unsigned long long)point->seq);
    } else if (point->time_us) {
        argv[n++] = "--until-us";
        argv[n++] = arena_printf(c->arena, "%llu", (unsigned long long)point->time_us);
    }
    argv[n] = NULL;
    buf_init(&out, 64 * KIB);
    TRY(run_program(argv, &out, err));
    TRY(val_parse(buf_slice(&out), c->arena, &done, err));
    *last = (uint64_t)val_int(val_get(done, slice_str("lastCommit")));
out:
    buf_release(&out);
    return rc;
}

/* ---- all of it ---- */

struct restored {
    uint64_t last; /* commit */
    size_t files;
    uint64_t bytes;
    struct val about; /* the backup that was named */
};

/* Of a later time nobody knows what had been committed. */
static enum errc check_point(const struct chain *chain, const struct restore_point *point,
                             struct error *err)
{
    const struct chain_link *newest = &chain->links[chain->count - 1];
    struct val made = val_get(newest->manifest.about, slice_str("createdUs"));

    if (!point->time_us || (val_is_int(made) && point->time_us <= (uint64_t)val_int(made)))
        return OK;
    return fail(err, ERR_INVALID, "%s was made at %.*s, before that time: take a newer one",
                newest->dir,
                SLICE_ARG(val_string(val_get(newest->manifest.about, slice_str("created")))));
}

static enum errc fill(struct cli *c, const struct chain *chain, const struct restore_point *point,
                      const char *part, struct restored *out, struct error *err)
{
    enum errc rc = OK;
    const struct manifest *full = &chain->links[0].manifest;
    const struct manifest *newest = &chain->links[chain->count - 1].manifest;

    *out = (struct restored){ .last = (uint64_t)val_int(
                                  val_get(newest->about, slice_str("lastCommit"))),
                              .about = newest->about };
    for (size_t i = 0; i < chain->count; i++) {
        out->files += chain->links[i].manifest.count;
        out->bytes += chain->links[i].manifest.bytes;
    }
    TRY(copy_data(c, chain->links[0].dir, full, part, err));
    if (chain->count > 1 || point->seq || point->time_us)
        rc = replay(c, chain, point, part, &out->last, err);
out:
    return rc;
}

static enum errc restore(struct cli *c, const char *backup, const struct restore_point *point,
                         const char *target, struct restored *out, struct error *err)
{
    struct error ignored;
    struct chain chain;
    const char *part = arena_printf(c->arena, "%s.part", target);
    enum errc rc = OK;

    TRY(chain_read(&chain, backup, c->arena, err));
    TRY(check_point(&chain, point, err));
    TRY(check_target(target, err));
    rc = folder_remove(part, err); /* of a try that was cut off */
    if (rc != OK && rc != ERR_NOT_FOUND)
        return rc;
    rc = fill(c, &chain, point, part, out, err);
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

static void print(struct cli *c, const struct restored *r, const char *target)
{
    struct slice name = slice_str("restoredCommit");
    struct val last = val_new_int(c->arena, (int64_t)r->last);

    if (c->is_json)
        cli_print_val(val_merge(c->arena, r->about, val_new_object(c->arena, &name, &last, 1)),
                      true);
    else
        printf("%s: %zu files, %.1f MB, up to commit %llu\n"
               "start it with: themisd --data %s\n",
               target, r->files, (double)r->bytes / 1e6, (unsigned long long)r->last, target);
}

static int run(struct cli *c, int argc, char **argv)
{
    struct error err = { 0 };
    struct restored restored;
    struct restore_point point = { 0 };
    const char *until = cli_option(&argc, argv, "--until");

    cli_no_options(argc, argv);
    if (argc != 2)
        return cli_misuse_of(&command_restore);
    if (until && !restore_point_parse(until, &point))
        return cli_misuse("--until takes the number of a commit or a time like "
                          "2026-01-31T09:30:00Z (got '%s')",
                          until);
    const char *backup = without_slash(c, argv[0]), *target = without_slash(c, argv[1]);
    if (restore(c, backup, &point, target, &restored, &err) != OK)
        return cli_fail("%s", err.text);
    print(c, &restored, target);
    return EXIT_DONE;
}

static const struct command_option options[] = {
    { "--until", "COMMIT|TIME", "The last commit, by its number or as 2026-01-31T09:30:00Z." },
    { NULL, NULL, NULL },
};

const struct command command_restore = {
    .name = "restore",
    .arguments = "BACKUP DATA",
    .help = "Makes a data directory from checked backups.",
    .run = run,
    .options = options,
    .about =
        "BACKUP is the folder of a backup, DATA must not exist. Backups that an incremental one "
        "goes on from are beside it. Files are compared with the digests that the backups have "
        "of them.",
};
