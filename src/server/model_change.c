/* SPDX-License-Identifier: Apache-2.0 */
#include "server/model_change.h"

#include "base/log.h"
#include "server/model_dir.h"
#include "store/vector.h"

static void run_change(struct job *job)
{
    struct model_change *c = CONTAINER_OF(job, struct model_change, job);
    struct request *r = c->r;

    c->rc = c->run(c, &c->err);
    atomic_store(&c->is_done, true);
    request_wake(r);
    request_unref(r);
}

enum errc model_change_start(struct model_change *c, struct request *r,
                             enum errc (*run)(struct model_change *c, struct error *err),
                             request_fn after, struct error *err)
{
    enum errc rc;

    c->r = r;
    c->run = run;
    c->job.run = run_change;
    request_ref(r);
    rc = pool_post(r->ctx->model_pool, &c->job, err);
    if (rc == OK)
        request_park(r, after);
    else
        request_unref(r);
    return rc;
}

bool model_change_is_done(struct model_change *c, request_fn after)
{
    if (atomic_load(&c->is_done))
        return true;
    request_park(c->r, after);
    return false;
}

static bool is_of(const struct server_ctx *ctx, const char *path)
{
    size_t n = strlen(ctx->models_dir);

    return !strncmp(path, ctx->models_dir, n) && path[n] == '/';
}

enum errc model_load_file(struct server_ctx *ctx, const char *name, const char *path,
                          struct error *err)
{
    bool is_added = is_of(ctx, path);
    struct generator *g = ctx->generator;
    struct model_info info;
    struct error why;
    char sha256[65] = "";
    enum errc rc = OK;

    if (is_added)
        TRY(model_digest_read(path, sha256, err));
    TRY(models_load_source(
        ctx->models, &(struct model_source){ .name = name, .path = path, .sha256 = sha256 }, err));
    store_retry_embedding(ctx->store);
    if (!is_added || sha256[0])
        return OK;
    if ((g->model(g, slice_str(name), MODEL_CHAT, &info, NULL) != OK &&
         g->model(g, slice_str(name), MODEL_EMBEDDING, &info, NULL) != OK) ||
        model_digest_write(path, info.sha256, &why) != OK)
        log_warn("server", "the digest of %s is not kept", path);
out:
    return rc;
}
