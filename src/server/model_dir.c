/* SPDX-License-Identifier: Apache-2.0 */
#include "server/model_dir.h"
#include "base/log.h"
#include "base/manifest.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char model_end[] = ".gguf", part_end[] = ".part", digest_end[] = ".sha256";

/* True when nobody writes it, and nobody will before fd is closed. */
static bool lock_part(int fd)
{
    struct stat st;

    return !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && st.st_nlink > 0;
}

/* What a crash left may be read-only already. */
static int open_part(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);

    if (fd < 0 && errno == EACCES && !chmod(path, 0640))
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
    return fd;
}

enum errc model_part_open(struct model_part *p, const char *dir, const char *name,
                          struct error *err)
{
    *p = (struct model_part){ 0 };
    if (mkdir(dir, 0750) && errno != EEXIST)
        return fail_os(err, "make", dir);
    snprintf(p->dir, sizeof p->dir, "%s", dir);
    snprintf(p->path, sizeof p->path, "%s/%s%s", dir, name, model_end);
    snprintf(p->part, sizeof p->part, "%s/.%s%s", dir, name, part_end);
    p->fd = open_part(p->part);
    if (p->fd < 0)
        return fail_os(err, "write", p->part);
    if (!lock_part(p->fd)) {
        close(p->fd);
        return fail(err, ERR_BUSY, "another upload of %s is under way", name);
    }
    p->is_open = true;
    if (ftruncate(p->fd, 0)) /* what a crash left */
        return fail_os(err, "empty", p->part);
    return OK;
}

/* A name that no model has, since ~ is not among its characters. */
enum errc model_part_derive(struct model_part *out, const struct model_part *p, struct error *err)
{
    const char *slash = strrchr(p->path, '/');
    char name[MODEL_NAME_BYTES + 32];
    size_t len = strlen(slash + 1) - strlen(model_end);

    snprintf(name, sizeof name, "%.*s~made", (int)len, slash + 1);
    return model_part_open(out, p->dir, name, err);
}

void model_part_swap(struct model_part *p, struct model_part *derived)
{
    char path[MODEL_PATH_BYTES];

    snprintf(path, sizeof path, "%s", p->path);
    model_part_close(p);
    *p = *derived;
    snprintf(p->path, sizeof p->path, "%s", path);
    derived->is_open = false;
}

enum errc model_part_write(struct model_part *p, struct slice bytes, struct error *err)
{
    while (bytes.len) {
        ssize_t n = write(p->fd, bytes.ptr, bytes.len);
        if (n < 0 && errno != EINTR)
            return fail_os(err, "write", p->part);
        if (n > 0)
            bytes = slice_of(bytes.ptr + n, bytes.len - (size_t)n);
    }
    return OK;
}

enum errc model_part_sync(struct model_part *p, struct error *err)
{
    return fchmod(p->fd, 0440) || fsync(p->fd) ? fail_os(err, "sync", p->part) : OK;
}

/*
 * Without a digest a file counts as not yet looked at, with another file's as damaged. So the old
 * digest goes first and the new one comes last.
 */
enum errc model_part_keep(struct model_part *p, const char *sha256, struct error *err)
{
    char digest[MODEL_PATH_BYTES + sizeof digest_end];
    enum errc rc = OK;

    snprintf(digest, sizeof digest, "%s%s", p->path, digest_end);
    if (unlink(digest) && errno != ENOENT)
        return fail_os(err, "remove", digest);
    TRY(folder_sync(p->dir, err));
    if (rename(p->part, p->path))
        return fail_os(err, "name", p->path);
    p->is_kept = true;
    TRY(folder_sync(p->dir, err));
    rc = model_digest_write(p->path, sha256, err);
out:
    return rc;
}

void model_part_close(struct model_part *p)
{
    if (!p->is_open)
        return;
    if (!p->is_kept)
        unlink(p->part);
    close(p->fd);
    p->is_open = false;
}

/* ---- digests ---- */

enum { DIGEST_CHARS = 64 };

static bool is_digest(const char *text)
{
    return strspn(text, "0123456789abcdef") == DIGEST_CHARS;
}

enum errc model_digest_read(const char *path, char sha256[65], struct error *err)
{
    char file[MODEL_PATH_BYTES + sizeof digest_end], text[DIGEST_CHARS + 2] = "";

    sha256[0] = 0;
    snprintf(file, sizeof file, "%s%s", path, digest_end);
    FILE *f = fopen(file, "re");
    if (!f)
        return errno == ENOENT ? OK : fail_os(err, "read", file);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    if (!is_digest(text))
        return fail(err, ERR_CORRUPT,
                    "%s does not begin with a SHA-256; without it the file counts "
                    "as new",
                    file);
    memcpy(sha256, text, DIGEST_CHARS);
    sha256[DIGEST_CHARS] = 0;
    return OK;
}

static enum errc write_line(const char *path, const char *line, struct error *err)
{
    size_t len = strlen(line);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

    if (fd < 0)
        return fail_os(err, "write", path);
    bool is_written = write(fd, line, len) == (ssize_t)len && !fsync(fd);
    enum errc rc = is_written ? OK : fail_os(err, "write", path);
    close(fd);
    return rc;
}

enum errc model_digest_write(const char *path, const char *sha256, struct error *err)
{
    char file[MODEL_PATH_BYTES + sizeof digest_end], part[MODEL_PATH_BYTES + 32];
    char dir[MODEL_PATH_BYTES], line[MODEL_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    int n = (int)(slash - path);
    enum errc rc = OK;

    snprintf(dir, sizeof dir, "%.*s", n, path);
    snprintf(file, sizeof file, "%s%s", path, digest_end);
    snprintf(part, sizeof part, "%s/.%s%s%s", dir, slash + 1, digest_end, part_end);
    snprintf(line, sizeof line, "%s  %s\n", sha256, slash + 1);
    TRY(write_line(part, line, err));
    if (rename(part, file))
        return fail_os(err, "name", file);
    rc = folder_sync(dir, err);
out:
    if (rc != OK)
        unlink(part);
    return rc;
}

/* ---- what requests name ---- */

static bool is_within(const char *dir, const char *path)
{
    char *real_dir = realpath(dir, NULL), *real = realpath(path, NULL);
    size_t n = real_dir ? strlen(real_dir) : 0;
    bool is_in = real_dir && real && !strncmp(real, real_dir, n) && real[n] == '/';

    free(real_dir);
    free(real);
    return is_in;
}

enum errc model_dir_find(const char *dir, struct slice name, char path[MODEL_PATH_BYTES],
                         struct error *err)
{
    struct stat st;

    if (!slice_is_file_name(name, MODEL_NAME_BYTES))
        return fail(err, ERR_INVALID, "a model's name is 1 to %d of A-Z a-z 0-9 . _ -",
                    MODEL_NAME_BYTES);
    snprintf(path, MODEL_PATH_BYTES, "%s/%.*s%s", dir, SLICE_ARG(name), model_end);
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return fail(err, ERR_NOT_FOUND, "models_dir has no file %.*s%s", SLICE_ARG(name),
                    model_end);
    if (!is_within(dir, path))
        return fail(err, ERR_FORBIDDEN, "%.*s%s is a link that leads out of models_dir",
                    SLICE_ARG(name), model_end);
    return OK;
}

enum errc model_dir_remove(const char *dir, const char *path, struct error *err)
{
    char digest[MODEL_PATH_BYTES + sizeof digest_end];

    snprintf(digest, sizeof digest, "%s%s", path, digest_end);
    if (unlink(path))
        return fail_os(err, "remove", path);
    if (unlink(digest) && errno != ENOENT)
        return fail_os(err, "remove", digest);
    return folder_sync(dir, err);
}

/* ---- walking ---- */

static bool ends(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n > m && !strcmp(name + n - m, end);
}

static int is_part(const struct dirent *d)
{
    return d->d_name[0] == '.' && ends(d->d_name, part_end);
}

static int is_model(const struct dirent *d)
{
    return d->d_name[0] != '.' && ends(d->d_name, model_end);
}

static void remove_left_part(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    if (lock_part(fd) && !unlink(path))
        log_info("server", "removed %s, an upload that a crash broke off", path);
    close(fd);
}

void model_dir_clean(const char *dir)
{
    struct dirent **list;
    char path[MODEL_PATH_BYTES];
    int n = scandir(dir, &list, is_part, alphasort);

    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);
        remove_left_part(path);
        free(list[i]);
    }
    if (n >= 0)
        free(list);
}

enum errc model_dir_walk(const char *dir,
                         enum errc (*fn)(void *ctx, const char *name, const char *path,
                                         struct error *err),
                         void *ctx, struct error *err)
{
    struct dirent **list;
    char path[MODEL_PATH_BYTES];
    enum errc rc = OK;

    int n = scandir(dir, &list, is_model, alphasort);
    for (int i = 0; i < n; i++) {
        char *file = list[i]->d_name;
        snprintf(path, sizeof path, "%s/%s", dir, file);
        file[strlen(file) - strlen(model_end)] = 0;
        if (rc == OK)
            rc = fn(ctx, file, path, err);
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    return rc;
}
