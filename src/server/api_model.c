/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /v1/models: what is loaded; loading, unloading, adding and removing.
 *
 * PUT /v1/models/NAME: the bytes of a GGUF file become a model of this node, and
 * are loaded again at the next start. The body is taken piece by piece: the
 * loop hands one over and pauses, a worker writes it and resumes.
 */
#include "base/manifest.h"
#include "model/quantise.h"
#include "server/model_change.h"
#include "server/model_dir.h"
#include "server/model_quantise.h"
#include "server/reply.h"
#include "server/router.h"
#include "server/server.h"
#include "store/vector.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DRAIN_MAX_MS = 3600000 };

/* ---- what is loaded ---- */

static const char *state_name(enum model_state state)
{
    switch (state) {
    case MODEL_LOADING:
        return "loading";
    case MODEL_READY:
        return "loaded";
    case MODEL_LEAVING:
        return "unloading";
    }
    BUG("state %d", (int)state);
}

static void put_info(struct reply *a, const struct model_info *m)
{
    reply_str(a, "id", m->name);
    reply_str(a, "object", "model");
    reply_int(a, "created", (int64_t)m->created_s);
    reply_str(a, "owned_by", "themis");
    reply_str(a, "status", state_name(m->state));
    reply_int(a, "memory_bytes", (int64_t)m->memory_bytes);
    if (m->state != MODEL_READY)
        return;
    reply_str(a, "kind", model_kind_name(m->kind));
    reply_str(a, "description", m->description);
    reply_int(a, "parameters", (int64_t)m->parameters);
    reply_int(a, "file_bytes", (int64_t)m->file_bytes);
    if (m->sha256[0])
        reply_str(a, "sha256", m->sha256);
    reply_int(a, "context_tokens", m->context_tokens);
    if (m->kind == MODEL_EMBEDDING)
        reply_int(a, "dimension", m->dimension);
}

/* Of any kind. */
static enum errc find_ready(struct generator *g, struct slice name, struct model_info *out,
                            struct error *err)
{
    enum errc rc = g->model(g, name, MODEL_CHAT, out, NULL);

    return rc == OK ? OK : g->model(g, name, MODEL_EMBEDDING, out, err);
}

struct listing {
    struct reply a;
    struct model_info infos[MODELS_MAX];
    size_t count;
};

/* A file of models_dir that is not loaded. */
static enum errc put_file(void *ctx, const char *name, const char *path, struct error *err)
{
    struct listing *l = ctx;
    struct stat st;
    char sha256[65];

    (void)err;
    for (size_t i = 0; i < l->count; i++)
        if (!strcmp(l->infos[i].name, name))
            return OK;
    if (stat(path, &st))
        return OK; /* removed meanwhile */
    reply_open(&l->a, NULL);
    reply_str(&l->a, "id", name);
    reply_str(&l->a, "object", "model");
    reply_int(&l->a, "created", st.st_mtime);
    reply_str(&l->a, "owned_by", "themis");
    reply_str(&l->a, "status", "unloaded");
    reply_int(&l->a, "file_bytes", st.st_size);
    if (model_digest_read(path, sha256, NULL) == OK && sha256[0])
        reply_str(&l->a, "sha256", sha256);
    reply_close(&l->a);
    return OK;
}

/* With all=true also what is not ready: OpenAI's clients expect to find what they can use. */
static void list_models(struct request *r)
{
    struct error err = { 0 };
    struct listing *l = ARENA_NEW(r->arena, struct listing);
    struct generator *g = r->ctx->generator;
    bool wants_all = false;

    if (request_flag(r, "all", false, &wants_all, &err) != OK) {
        request_fail(r, &err);
        return;
    }
    l->count = g->models(g, l->infos, ARRAY_LEN(l->infos));
    reply_begin(&l->a, r);
    reply_str(&l->a, "object", "list");
    reply_list(&l->a, "data");
    for (size_t i = 0; i < l->count; i++) {
        if (l->infos[i].state != MODEL_READY && !wants_all)
            continue;
        reply_open(&l->a, NULL);
        put_info(&l->a, &l->infos[i]);
        reply_close(&l->a);
    }
    if (wants_all && model_dir_walk(r->ctx->models_dir, put_file, l, &err) != OK) {
        reply_drop(&l->a);
        request_fail(r, &err);
        return;
    }
    reply_close(&l->a);
    reply_send_bare(&l->a, 200);
}

static void reply_model(struct request *r, struct slice name, int status)
{
    struct error err = { 0 };
    struct model_info info;
    struct reply a;

    if (find_ready(r->ctx->generator, name, &info, &err) != OK) {
        request_fail(r, &err);
        return;
    }
    reply_begin(&a, r);
    put_info(&a, &info);
    reply_send_bare(&a, status);
}

static void get_model(struct request *r)
{
    reply_model(r, r->params[0], 200);
}

/* ---- loading and unloading ---- */

struct switching {
    struct model_change change;
    char path[MODEL_PATH_BYTES];
    uint64_t drain_ms;
    struct model_unloaded unloaded;
};

/* The file of the command line, or one of models_dir. */
static enum errc find_file(struct request *r, struct slice name, char path[MODEL_PATH_BYTES],
                           struct error *err)
{
    for (size_t i = 0; i < r->ctx->named_count; i++) {
        if (!slice_is(name, r->ctx->named[i].name))
            continue;
        snprintf(path, MODEL_PATH_BYTES, "%s", r->ctx->named[i].path);
        return OK;
    }
    return model_dir_find(r->ctx->models_dir, name, path, err);
}

static enum errc run_load(struct model_change *c, struct error *err)
{
    struct switching *s = CONTAINER_OF(c, struct switching, change);

    return model_load_file(c->r->ctx, c->r->params[0].ptr, s->path, err);
}

/* The change is over and went well; else `again` will be called, or the reply is sent. */
static bool has_switched(struct request *r, void (*again)(struct request *r))
{
    struct switching *s = r->state;

    if (!model_change_is_done(&s->change, again))
        return false;
    if (s->change.rc == OK)
        return true;
    request_fail(r, &s->change.err); /* r and s are gone from here on */
    return false;
}

static void after_load(struct request *r)
{
    if (has_switched(r, after_load))
        reply_model(r, r->params[0], 200);
}

static void post_load(struct request *r)
{
    struct error err = { 0 };
    struct switching *s = ARENA_NEW(r->arena, struct switching);
    enum errc rc = find_file(r, r->params[0], s->path, &err);

    r->state = s;
    if (rc == OK)
        rc = model_change_start(&s->change, r, run_load, after_load, &err);
    if (rc != OK)
        request_fail(r, &err);
}

static enum errc run_unload(struct model_change *c, struct error *err)
{
    struct switching *s = CONTAINER_OF(c, struct switching, change);

    return models_unload(c->r->ctx->models, c->r->params[0], s->drain_ms, &s->unloaded, err);
}

static void after_unload(struct request *r)
{
    struct switching *s = r->state;
    struct reply a;

    if (!has_switched(r, after_unload))
        return;
    reply_begin(&a, r);
    reply_text(&a, "id", r->params[0]);
    reply_str(&a, "object", "model");
    reply_str(&a, "status", "unloaded");
    reply_int(&a, "cancelled", s->unloaded.cancelled);
    reply_int(&a, "memory_bytes", (int64_t)s->unloaded.footprint_bytes);
    reply_int(&a, "returned_bytes", (int64_t)s->unloaded.returned_bytes);
    reply_send_bare(&a, 200);
}

static enum errc read_drain(struct request *r, uint64_t *out, struct error *err)
{
    struct slice text;

    *out = (uint64_t)r->ctx->settings->model_drain_ms;
    if (!request_param(r, "drain_ms", &text))
        return OK;
    if (!slice_to_u64(text, out) || *out > DRAIN_MAX_MS)
        return fail(err, ERR_INVALID, "'drain_ms' must be a whole number of 0 to %d", DRAIN_MAX_MS);
    return OK;
}

static void post_unload(struct request *r)
{
    struct error err = { 0 };
    struct switching *s = ARENA_NEW(r->arena, struct switching);
    enum errc rc = read_drain(r, &s->drain_ms, &err);

    r->state = s;
    if (rc == OK)
        rc = model_change_start(&s->change, r, run_unload, after_unload, &err);
    if (rc != OK)
        request_fail(r, &err);
}

/* ---- removing ---- */

static bool is_in_use(struct generator *g, struct slice name)
{
    struct model_info infos[MODELS_MAX];
    size_t n = g->models(g, infos, ARRAY_LEN(infos));

    for (size_t i = 0; i < n; i++)
        if (slice_is(name, infos[i].name))
            return true;
    return false;
}

static enum errc run_remove(struct model_change *c, struct error *err)
{
    struct server_ctx *ctx = c->r->ctx;
    struct switching *s = CONTAINER_OF(c, struct switching, change);

    if (is_in_use(ctx->generator, c->r->params[0]))
        return fail(err, ERR_CONFLICT, "the model %.*s is loaded: unload it first",
                    SLICE_ARG(c->r->params[0]));
    return model_dir_remove(ctx->models_dir, s->path, err);
}

static void after_remove(struct request *r)
{
    struct reply a;

    if (!has_switched(r, after_remove))
        return;
    reply_begin(&a, r);
    reply_text(&a, "id", r->params[0]);
    reply_str(&a, "object", "model");
    reply_bool(&a, "deleted", true);
    reply_send_bare(&a, 200);
}

static void delete_model(struct request *r)
{
    struct error err = { 0 };
    struct switching *s = ARENA_NEW(r->arena, struct switching);
    enum errc rc = model_dir_find(r->ctx->models_dir, r->params[0], s->path, &err);

    r->state = s;
    if (rc == OK)
        rc = model_change_start(&s->change, r, run_remove, after_remove, &err);
    if (rc != OK)
        request_fail(r, &err);
}

/* ---- adding ---- */

struct upload {
    struct request *r;
    struct model_change change;
    pthread_mutex_t lock; /* the loop writes what follows, a worker takes it */
    struct buf piece;
    bool is_last, is_gone;
    char name[MODEL_NAME_BYTES + 1];
    char sha256[65];   /* that the client gave; empty: none */
    char quantise[16]; /* to this type; empty: as it is */
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
    struct model_info info;

    if (!slice_is_file_name(r->params[0], MODEL_NAME_BYTES))
        return fail(err, ERR_INVALID, "a model's name is 1 to %d of A-Z a-z 0-9 . _ -",
                    MODEL_NAME_BYTES);
    if (find_ready(r->ctx->generator, r->params[0], &info, NULL) == OK)
        return fail(err, ERR_EXISTS, "a model named %.*s is loaded already",
                    SLICE_ARG(r->params[0]));
    return OK;
}

static enum errc read_digest(struct request *r, char out[65], struct error *err)
{
    struct slice text;

    if (!request_param(r, "sha256", &text))
        return OK;
    memcpy(out, text.ptr, text.len < 64 ? text.len : 64);
    if (text.len != 64 || strspn(out, "0123456789abcdef") != 64)
        return fail(err, ERR_INVALID, "'sha256' must be 64 hexadecimal digits, small letters");
    return OK;
}

static enum errc read_type(struct request *r, char out[16], struct error *err)
{
    struct slice text;
    enum errc rc = OK;

    if (!request_param(r, "quantize", &text))
        return OK;
    TRY(quantise_check_type(text, err));
    snprintf(out, 16, "%.*s", SLICE_ARG(text));
out:
    return rc;
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

    model_part_close(&u->part);
    request_ref(r); /* on_gone may look at u until the reply is made */
    if (rc != OK) {
        request_fail(r, err);
    } else {
        reply_model(r, slice_str(u->name), 201);
    }
    buf_release(&u->piece);
    pthread_mutex_destroy(&u->lock);
    request_unref(r);
}

static bool is_unwanted(void *ctx)
{
    struct upload *u = ctx;

    pthread_mutex_lock(&u->lock);
    bool is_gone = u->is_gone; /* also when the server stops */
    pthread_mutex_unlock(&u->lock);
    return is_gone;
}

static enum errc check_sent(const struct upload *u, struct error *err)
{
    struct manifest_file sum;
    enum errc rc = OK;
    int fd = open(u->part.part, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return fail_os(err, "read", u->part.part);
    rc = manifest_hash(fd, u->part.part, &sum, err);
    close(fd);
    if (rc == OK && u->sha256[0] && strcmp(u->sha256, sum.sha256) != 0)
        return fail(err, ERR_CORRUPT, "the SHA-256 of what arrived is %s, not %s", sum.sha256,
                    u->sha256);
    return rc;
}

/* The part becomes what a child makes of it. On an error nothing of that is left. */
static enum errc quantise(struct upload *u, struct error *err)
{
    struct model_part made = { 0 };
    enum errc rc = OK;

    TRY(check_sent(u, err));
    TRY(model_part_derive(&made, &u->part, err));
    TRY(model_quantise(u->part.part, made.part, u->quantise, is_unwanted, u, err));
    model_part_swap(&u->part, &made);
    u->sha256[0] = 0; /* it was that of the bytes that came */
    rc = model_part_sync(&u->part, err);
out:
    model_part_close(&made);
    return rc;
}

/* The whole file is here: keep it if it can be loaded. */
static enum errc install(struct model_change *c, struct error *err)
{
    struct upload *u = CONTAINER_OF(c, struct upload, change);
    struct server_ctx *ctx = u->r->ctx;
    struct model_source src = { .name = u->name, .path = u->part.part, .sha256 = u->sha256 };
    struct model_info info;
    enum errc rc = OK;

    TRY(model_part_sync(&u->part, err));
    rc = u->quantise[0] ? quantise(u, err) : OK;
    if (rc == OK)
        rc = models_load_source(ctx->models, &src, err);
    if (rc == ERR_CORRUPT || rc == ERR_IO)
        err->http = 400; /* the file is the client's */
    TRY(rc);
    TRY(find_ready(ctx->generator, slice_str(u->name), &info, err));
    rc = model_part_keep(&u->part, info.sha256, err);
    if (rc != OK)
        wrap(err, "%s is loaded until the next start, but cannot be kept", u->name);
    store_retry_embedding(ctx->store);
out:
    return rc;
}

static void after_install(struct request *r)
{
    struct upload *u = r->state;

    if (model_change_is_done(&u->change, after_install))
        finish(u, u->change.rc, &u->change.err);
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
    if (rc == OK && is_last && !u->part.is_open)
        rc = fail(&err, ERR_INVALID, "the body is empty: send the bytes of a GGUF file");
    if (rc == OK && is_last)
        rc = model_change_start(&u->change, r, install, after_install, &err);
    if (rc != OK)
        finish(u, rc, &err);
    if (rc != OK || is_last)
        return;
    if (has_piece)
        exchange_resume(r->x);
    request_park(r, step);
}

static void put_model(struct request *r)
{
    struct error err = { 0 };
    struct upload *u = ARENA_NEW(r->arena, struct upload);

    if (check_name(r, &err) != OK || read_digest(r, u->sha256, &err) != OK ||
        read_type(r, u->quantise, &err) != OK) {
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
    { METHOD_GET, "/v1/models?all", ROLE_USER, ON_POOL, 0, list_models,
      "Loaded models; with all=true also files that are not loaded." },
    { METHOD_GET, "/v1/models/{name*}", ROLE_USER, ON_POOL, 0, get_model, "One model." },
    { METHOD_PUT, "/v1/models/{name}?sha256&quantize", ROLE_ADMIN, ON_HEADERS, 0, put_model,
      "Adds a GGUF file to the node and loads it." },
    { METHOD_DELETE, "/v1/models/{name}", ROLE_ADMIN, ON_POOL, 0, delete_model,
      "Removes the file of a model that is not loaded." },
    { METHOD_POST, "/v1/models/{name}/load", ROLE_ADMIN, ON_POOL, 0, post_load,
      "Loads a model of the node." },
    { METHOD_POST, "/v1/models/{name}/unload?drain_ms", ROLE_ADMIN, ON_POOL, 0, post_unload,
      "Unloads a model when its requests have ended, or after that time." },
    { 0 },
};
