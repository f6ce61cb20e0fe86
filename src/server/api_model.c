/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PUT /v1/models/NAME: the bytes of a GGUF file become a model of this node, and
 * are loaded again at the next start. The body is taken piece by piece: the
 * loop hands one over and pauses, a worker writes it and resumes.
 */
#include "server/model_dir.h"
#include "server/reply.h"
#include "server/router.h"
#include <pthread.h>
#include <stdio.h>

enum { NAME_MAX_BYTES = 64 };

struct upload {
    struct request *r;
    pthread_mutex_t lock; /* the loop writes what follows, a worker takes it */
    struct buf piece;
    bool is_last, is_gone;
    char name[NAME_MAX_BYTES + 1];
    struct model_part part;
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

static enum errc check_name(struct request *r, struct error *err)
{
    struct generator *g = r->ctx->generator;
    struct model_info info;

    if (!slice_is_file_name(r->params[0], NAME_MAX_BYTES))
        return fail(err, ERR_INVALID, "a model's name is 1 to %d of A-Z a-z 0-9 . _ -",
                    NAME_MAX_BYTES);
    if (g->model(g, r->params[0], MODEL_CHAT, &info, NULL) == OK ||
        g->model(g, r->params[0], MODEL_EMBEDDING, &info, NULL) == OK)
        return fail(err, ERR_EXISTS, "a model named %.*s is loaded already",
                    SLICE_ARG(r->params[0]));
    return OK;
}

static enum errc write_piece(struct upload *u, struct slice piece, struct error *err)
{
    enum errc rc = OK;

    if (!u->part.is_open && piece.len)
        rc = model_part_open(&u->part, u->r->ctx->models_dir, u->name, err);
    return rc == OK ? model_part_write(&u->part, piece, err) : rc;
}

static void finish(struct upload *u, enum errc rc, struct error *err)
{
    struct request *r = u->r;
    struct reply a;

    model_part_close(&u->part);
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

    if (!u->part.is_open)
        return fail(err, ERR_INVALID, "the body is empty: send the bytes of a GGUF file");
    TRY(model_part_sync(&u->part, err));
    rc = models_load(u->r->ctx->models, u->name, u->part.part, err);
    if (rc == ERR_CORRUPT || rc == ERR_IO)
        err->http = 400; /* the file is the client's */
    TRY(rc);
    rc = model_part_keep(&u->part, err);
    if (rc != OK)
        wrap(err, "%s is loaded until the next start, but cannot be kept", u->name);
out:
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
    pthread_mutex_init(&u->lock, NULL);
    snprintf(u->name, sizeof u->name, "%.*s", SLICE_ARG(r->params[0]));
    r->state = u;
    request_take_stream(r, on_piece, on_gone, u);
    request_park(r, step);
}

const struct route api_model_routes[] = {
    { METHOD_PUT, "/v1/models/{name}", ROLE_ADMIN, ON_HEADERS, 0, put_model,
      "Adds a GGUF file to the node and loads it." },
    { 0 },
};
