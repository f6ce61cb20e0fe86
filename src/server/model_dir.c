/* SPDX-License-Identifier: Apache-2.0 */
#include "server/model_dir.h"
#include "base/log.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char model_end[] = ".gguf", part_end[] = ".part";

/* True when nobody writes it, and nobody will before fd is closed. */
static bool lock_part(int fd)
{
    struct stat st;

    return !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && st.st_nlink > 0;
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
    p->fd = open(p->part, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
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
    return fsync(p->fd) ? fail_os(err, "sync", p->part) : OK;
}

enum errc model_part_keep(struct model_part *p, struct error *err)
{
    if (rename(p->part, p->path))
        return fail_os(err, "name", p->path);
    p->is_kept = true;
    int dir = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum errc rc = dir < 0 || fsync(dir) ? fail_os(err, "sync", p->dir) : OK;
    if (dir >= 0)
        close(dir);
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
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    if (lock_part(fd) && !unlink(path))
        log_info("server", "removed %s, an upload that a crash broke off", path);
    close(fd);
}

static void remove_left_parts(const char *dir)
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

    remove_left_parts(dir);
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
