/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One model: an engine with its lanes (chat) or its embedder.
 */
#include "base/cpu.h"
#include "base/log.h"
#include "model/model_private.h"

#include <stdio.h>

void model_close(struct model *model)
{
    if (model->sched)
        sched_close(model->sched);
    if (model->embedder)
        embedder_close(model->embedder);
}

uint32_t model_pending(struct model *model)
{
    uint32_t waiting = 0, running = 0;
    struct embedder_stats stats;
    if (model->sched) {
        sched_counts(model->sched, &waiting, &running);
        return waiting + running;
    }
    embedder_stats(model->embedder, &stats);
    return stats.waiting;
}

void model_stop(struct model *model, const char *why)
{
    if (model->sched)
        sched_stop(model->sched, why);
    for (uint32_t i = 0; i < model->lane_count; i++)
        lane_stop(model->lanes[i]);
    embedder_stop(model->embedder, why);
}

void model_release(struct model *model)
{
    model_stop(model, NULL);
    for (uint32_t i = 0; i < model->lane_count; i++)
        lane_free(model->lanes[i]);
    sched_free(model->sched);
    shelf_free(model->shelf);
    if (model->pace.threads_max)
        pace_release(&model->pace);
    embedder_free(model->embedder);
    token_order_free(model->order);
    model->order = NULL;
    engine_free(model->engine);
    model->engine = NULL;
}

static enum errc start_chat(struct model *model, const struct settings *s, struct error *err)
{
    struct lane_plan p = lane_plan_of(s, model->engine->info.context_tokens);
    unsigned threads = s->step_threads ? (unsigned)s->step_threads : cpu_cores();
    struct lane_chunks chunks = { 0, 0 };
    enum errc rc = OK;
    model->context = p.cells;
    model->order = token_order_new(model->engine);
    model->sched = sched_new(&(struct sched_options){
        .lanes = p.lanes, .places = p.places, .queue_max = (uint32_t)s->max_queued_requests });
    pace_init(&model->pace, threads);
    model->shelf = shelf_new((size_t)s->prefix_cache_mb * MIB);
    for (uint32_t i = 0; i < p.lanes; i++) {
        TRY(lane_new(&model->lanes[i],
                     &(struct lane_options){ .engine = model->engine,
                                             .sched = model->sched,
                                             .shelf = model->shelf,
                                             .pace = &model->pace,
                                             .index = i,
                                             .cells = p.cells,
                                             .seq_max = p.places,
                                             .places = p.places,
                                             .batch_tokens = p.batch_tokens,
                                             .chunk = (uint32_t)s->chunked_prefill_size,
                                             .threads_max = threads },
                     err));
        model->lane_count++;
    }
    TRY(lane_probe(model->lanes[0], &chunks, err));
    for (uint32_t i = 0; i < p.lanes; i++)
        TRY(lane_start(model->lanes[i], &chunks, err));
    log_info("model", "%s: %u lanes of %u cells, %u places each, prompt chunks of %u and %u tokens",
             model->name, p.lanes, p.cells, p.places, chunks.alone, chunks.beside);
out:
    return rc;
}

static enum errc start_embedding(struct model *model, const struct settings *s, struct error *err)
{
    model->context = embed_window_of(model->engine->info.context_tokens);
    return embedder_new(&model->embedder,
                        &(struct embedder_options){ .engine = model->engine,
                                                    .window = model->context,
                                                    .queue_max = (uint32_t)s->max_queued_requests },
                        err);
}

/* ---- the probe: ready means that a token or a vector came out ---- */

struct probe {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_done;
    enum errc rc;
    struct error *err;
};

static void probe_end(struct probe *p, const struct error *why)
{
    pthread_mutex_lock(&p->lock);
    p->is_done = true;
    if (why) {
        p->rc = why->code;
        *p->err = *why;
    }
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static void probe_event(void *ctx, const struct gen_event *e)
{
    struct error stopped;
    if (!e->is_last)
        return;
    if (e->finish == GEN_CANCELLED)
        fail(&stopped, ERR_GONE, "the model was stopped while it was tried");
    probe_end(ctx, e->finish == GEN_CANCELLED ? &stopped : e->err);
}

static void probe_vector(void *ctx, const struct embed_result *r)
{
    probe_end(ctx, r->err);
}

static enum errc probe_submit(struct model *model, struct probe *p, struct error *err)
{
    if (model->embedder) {
        struct slice text = slice_str("ready");
        return embedder_add(model->embedder,
                            &(struct embed_request){
                                .texts = &text, .count = 1, .on_done = probe_vector, .ctx = p },
                            err);
    }
    struct gen_request req = { .prompt = slice_str("ready"),
                               .sampling = gen_sampling_default(),
                               .max_tokens = 1,
                               .deadline_ms = 600000,
                               .on_event = probe_event,
                               .ctx = p };
    req.sampling.temperature = 0;
    return model_submit(model, &req, err);
}

static enum errc probe(struct model *model, struct error *err)
{
    struct probe p = { .err = err };
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.wake, NULL);
    enum errc rc = probe_submit(model, &p, err);
    if (rc == OK) {
        pthread_mutex_lock(&p.lock);
        while (!p.is_done)
            pthread_cond_wait(&p.wake, &p.lock);
        pthread_mutex_unlock(&p.lock);
        rc = p.rc;
    }
    pthread_cond_destroy(&p.wake);
    pthread_mutex_destroy(&p.lock);
    return rc;
}

/* ---- starting ---- */

static bool on_progress(void *ctx, double done)
{
    struct model *model = ctx;
    struct models *m = model->models;
    return !m->on_progress || m->on_progress(m->ctx, model->name, done);
}

enum errc model_start(struct model *model, const char *path, struct error *err)
{
    const struct settings *s = &model->models->settings;
    enum errc rc = OK;
    if (strncmp(path, "sim:", 4) == 0)
        TRY(engine_sim_open(&model->engine, path + 4, err));
    else
        TRY(engine_llama_open(&model->engine, path, on_progress, model, err));
    if (model->engine->info.kind == MODEL_EMBEDDING)
        TRY(start_embedding(model, s, err));
    else
        TRY(start_chat(model, s, err));
    rc = probe(model, err);
out:
    return rc;
}
