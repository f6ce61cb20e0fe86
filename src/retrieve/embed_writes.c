/* SPDX-License-Identifier: Apache-2.0 */
/* The store's own thread waits here for the embedder's; no worker does. */
#include "retrieve/embed_writes.h"

#include <pthread.h>

struct waiting {
    const struct vector_texts *texts;
    float *rows;
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done;
    enum errc rc;
    struct error err;
};

static enum errc take(struct waiting *w, const struct embed_result *r)
{
    const struct vector_texts *t = w->texts;
    if (r->err) {
        w->err = *r->err;
        return r->err->code;
    }
    if (r->dimension != t->dimension)
        return fail(&w->err, ERR_INVALID,
                    "model '%.*s' makes vectors of %u numbers, the index holds %u",
                    SLICE_ARG(t->model), r->dimension, t->dimension);
    if (r->count != t->count)
        return fail(&w->err, ERR_INTERNAL, "model '%.*s' answered %zu vectors for %zu texts",
                    SLICE_ARG(t->model), r->count, t->count);
    memcpy(w->rows, r->vectors, r->count * r->dimension * sizeof *w->rows);
    return OK;
}

static void on_done(void *ctx, const struct embed_result *r)
{
    struct waiting *w = ctx;
    pthread_mutex_lock(&w->lock);
    w->rc = take(w, r);
    w->is_done = true;
    pthread_cond_signal(&w->done);
    pthread_mutex_unlock(&w->lock);
}

static enum errc embed(void *ctx, const struct vector_texts *t, float *rows, struct error *err)
{
    struct generator *g = ctx;
    struct waiting w = { .texts = t, .rows = rows };
    struct embed_request request = { .model = t->model,
                                     .texts = t->texts,
                                     .count = t->count,
                                     .cancel = t->cancel,
                                     .on_done = on_done,
                                     .ctx = &w };
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.done, NULL);
    enum errc rc = g->embed(g, &request, err);
    if (rc == OK) {
        pthread_mutex_lock(&w.lock);
        while (!w.is_done)
            pthread_cond_wait(&w.done, &w.lock);
        pthread_mutex_unlock(&w.lock);
        rc = w.rc;
        if (rc != OK)
            *err = w.err;
    }
    pthread_cond_destroy(&w.done);
    pthread_mutex_destroy(&w.lock);
    return rc;
}

struct vector_embedder embed_writes(struct generator *g)
{
    return (struct vector_embedder){ .embed = embed, .ctx = g };
}
