/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PUT /v1/models/NAME: the bytes of a GGUF file become a model of this node, and
 * are loaded again at the next start. The body is taken piece by piece: the
 * loop hands one over and pauses, a worker writes it and resumes.
 */
#include "base/log.h"
#include "server/reply.h"
#include "server/router.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 64, PATH_BYTES = 1200 };

struct upload {
    struct request *r;
    pthread_mutex_t lock; /* the loop writes what follows, a worker takes it */
    struct buf piece;
    bool is_last, is_gone;
    int fd;
    char name[NAME_MAX_BYTES + 1], part[PATH_BYTES], path[PATH_BYTES];
};

static bool on_piece(void *ctx, struct exchange *x, struct slice piece, bool is_last)
{
    struct upload *u = ctx;

    (void)x;
    pthread_mutex_lock(&u->lock);
    buf_add_slice(&u->piece, piece);
    u->is_last |= is_last;
    pthread_mutex_unlock(&u->lock);
    request_wake(u->r);
    return is_last; /* else the worker resumes when it has written */
}

static void on_gone(void *ctx)
{
    struct upload *u = ctx;

    pthread_mutex_lock(&u->lock);
    u->is_gone = true;
    pthread_mutex_unlock(&u->lock);
    request_wake(u->r);
}

static bool name_is_legal(struct slice name)
{
    if (!name.len || name.len > NAME_MAX_BYTES || name.ptr[0] == '.')
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
        if (!is_plain)
            return false;
    }
    return true;
}

static enum errc check_name(struct request *r, struct error *err)
{
    struct generator *g = r->ctx->generator;
    struct model_info info;

    if (!name_is_legal(r->params[0]))
        return fail(err, ERR_INVALID, "a model's name is 1 to %d of A-Z a-z 0-9 . _ -",
                    NAME_MAX_BYTES);
    if (g->model(g, r->params[0], MODEL_CHAT, &info, NULL) == OK ||
        g->model(g, r->params[0], MODEL_EMBEDDING, &info, NULL) == OK)
        return fail(err, ERR_EXISTS, "a model named %.*s is loaded already",
                    SLICE_ARG(r->params[0]));
    return OK;
}

static enum errc os_error(struct error *err, const char *what, const char *path)
{
    return fail(err, errno == ENOSPC ? ERR_LIMIT : ERR_IO, "cannot %s %s: %s", what, path,
                strerror(errno));
}

static enum errc open_part(struct upload *u, struct error *err)
{
    const char *dir = u->r->ctx->models_dir;

    if (mkdir(dir, 0750) && errno != EEXIST)
        return os_error(err, "make", dir);
    snprintf(u->path, sizeof u->path, "%s/%s.gguf", dir, u->name);
    snprintf(u->part, sizeof u->part, "%s/.%s.part", dir, u->name);
    u->fd = open(u->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (u->fd >= 0)
        return OK;
    if (errno == EEXIST)
        return fail(err, ERR_BUSY, "another upload of %s is under way", u->name);
    return os_error(err, "write", u->part);
}

static enum errc write_piece(struct upload *u, struct slice piece, struct error *err)
{
    enum errc rc = u->fd < 0 ? open_part(u, err) : OK;

    while (rc == OK && piece.len) {
        ssize_t n = write(u->fd, piece.ptr, piece.len);
        if (n < 0 && errno != EINTR)
            rc = os_error(err, "write", u->part);
        if (n > 0)
            piece = slice_of(piece.ptr + n, piece.len - (size_t)n);
    }
    return rc;
}

static void finish(struct upload *u, enum errc rc, struct error *err)
{
    struct request *r = u->r;
    struct reply a;

    if (u->fd >= 0) {
        close(u->fd);
        unlink(u->part);
    }
    request_ref(r); /* on_gone may look at u until the reply is made */
    if (rc != OK) {
        request_fail(r, err);
    } else {
        reply_begin(&a, r);
        reply_str(&a, "id", u->name);
        reply_str(&a, "object", "model");
        reply_bool(&a, "loaded", true);
        reply_send_bare(&a, 201);
    }
    buf_release(&u->piece);
    pthread_mutex_destroy(&u->lock);
    request_unref(r);
}

/* The whole file is here: keep it if it can be loaded. */
static enum errc install(struct upload *u, struct error *err)
{
    enum errc rc = OK;

    if (u->fd < 0)
        return fail(err, ERR_INVALID, "the body is empty: send the bytes of a GGUF file");
    if (fsync(u->fd))
        return os_error(err, "sync", u->part);
    if (link(u->part, u->path))
        return errno == EEXIST ? fail(err, ERR_EXISTS, "%s exists already", u->path)
                               : os_error(err, "name", u->path);
    rc = models_load(u->r->ctx->models, u->name, u->path, err);
    if (rc != OK)
        unlink(u->path);
    if (rc == ERR_CORRUPT || rc == ERR_IO)
        err->http = 400; /* the file is the client's */
    return rc;
}

static void step(struct request *r)
{
    struct upload *u = r->state;
    struct error err = { 0 };
    struct buf piece;

    pthread_mutex_lock(&u->lock);
    piece = u->piece;
    buf_init(&u->piece, 0);
    bool is_last = u->is_last, is_gone = u->is_gone && !u->is_last;
    pthread_mutex_unlock(&u->lock);
    enum errc rc = is_gone ? fail(&err, ERR_GONE, "the upload was broken off")
                           : write_piece(u, buf_slice(&piece), &err);
    bool has_piece = piece.len > 0;
    buf_release(&piece);
    if (rc == OK && is_last)
        rc = install(u, &err);
    if (rc != OK || is_last) {
        finish(u, rc, &err);
        return;
    }
    if (has_piece)
        exchange_resume(r->x);
    request_park(r, step);
}

static void put_model(struct request *r)
{
    struct error err = { 0 };
    struct upload *u = ARENA_NEW(r->arena, struct upload);

    if (check_name(r, &err) != OK) {
        request_fail(r, &err);
        return;
    }
    u->r = r;
    u->fd = -1;
    pthread_mutex_init(&u->lock, NULL);
    snprintf(u->name, sizeof u->name, "%.*s", SLICE_ARG(r->params[0]));
    r->state = u;
    exchange_on_cancel(r->x, on_gone, u);
    exchange_want_stream(r->x, on_piece, u);
    request_park(r, step);
}

const struct route api_model_routes[] = {
    { METHOD_PUT, "/v1/models/{name}", ROLE_ADMIN, ON_HEADERS, 0, put_model,
      "Adds a GGUF file to the node and loads it." },
    { 0 },
};
