/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model is an engine with its lanes (chat) or its embedder. Models are only
 * added while the server runs, so a pointer found under the lock stays good.
 */
#include "model/model.h"

#include "base/cpu.h"
#include "base/env.h"
#include "base/log.h"
#include "model/embed.h"
#include "model/lane.h"
#include "model/model_private.h"
#include "model/prompt.h"

#include <stdio.h>
#include <unistd.h>

enum { WINDOW_MIN = 16, WINDOW_MAX = 2048, LANES_DEFAULT_MAX = 16 };

enum errc models_new(struct models **out, const struct models_options *opt, struct error *err)
{
    (void)err;
    struct models *m = mem_zalloc(sizeof *m);
    m->settings = *opt->settings;
    m->on_progress = opt->on_progress;
    m->ctx = opt->ctx;
    pthread_mutex_init(&m->lock, NULL);
    generator_local_init(m);
    *out = m;
    return OK;
}

struct generator *models_generator(struct models *m)
{
    return &m->generator;
}

static void model_stop(struct model *model)
{
    if (model->sched)
        sched_stop(model->sched);
    for (uint32_t i = 0; i < model->lane_count; i++)
        lane_stop(model->lanes[i]);
    embedder_stop(model->embedder);
}

static void model_free(struct model *model)
{
    if (!model)
        return;
    model_stop(model);
    for (uint32_t i = 0; i < model->lane_count; i++)
        lane_free(model->lanes[i]);
    sched_free(model->sched);
    shelf_free(model->shelf);
    if (model->pace.threads_max)
        pace_release(&model->pace);
    embedder_free(model->embedder);
    engine_free(model->engine);
    mem_free(model);
}

static uint32_t lane_count(const struct settings *s)
{
    if (s->lanes > 0)
        return (uint32_t)s->lanes;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > LANES_DEFAULT_MAX ? LANES_DEFAULT_MAX : (uint32_t)cores;
}

static uint32_t least(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

static enum errc start_chat(struct model *model, const struct settings *s, struct error *err)
{
    const struct engine_info *info = &model->engine->info;
    uint32_t lanes = lane_count(s);
    uint32_t cells = least((uint64_t)s->context_tokens,
                           info->context_tokens ? info->context_tokens : UINT32_MAX);
    uint32_t ids = least((uint64_t)s->max_batch_size, ENGINE_SEQ_MAX);
    uint32_t places = ((uint32_t)s->max_concurrent_requests + lanes - 1) / lanes;
    uint32_t batch = least((uint64_t)s->max_tokens_per_batch, cells);
    unsigned threads = s->step_threads ? (unsigned)s->step_threads : cpu_cores();
    struct lane_chunks chunks = { 0, 0 };
    enum errc rc = OK;
    places = least(places, ids);
    places = least(places, batch / 2);
    model->context = cells;
    model->sched = sched_new(&(struct sched_options){
        .lanes = lanes, .places = places, .queue_max = (uint32_t)s->max_queued_requests });
    pace_init(&model->pace, threads);
    model->shelf = shelf_new((size_t)s->prefix_cache_mb * MIB);
    for (uint32_t i = 0; i < lanes; i++) {
        TRY(lane_new(&model->lanes[i],
                     &(struct lane_options){ .engine = model->engine,
                                             .sched = model->sched,
                                             .shelf = model->shelf,
                                             .pace = &model->pace,
                                             .index = i,
                                             .cells = cells,
                                             .seq_max = places,
                                             .places = places,
                                             .batch_tokens = batch,
                                             .chunk = (uint32_t)s->chunked_prefill_size,
                                             .threads_max = threads },
                     err));
        model->lane_count++;
    }
    TRY(lane_probe(model->lanes[0], &chunks, err));
    for (uint32_t i = 0; i < lanes; i++)
        TRY(lane_start(model->lanes[i], &chunks, err));
    log_info("model", "%s: %u lanes of %u cells, %u places each, prompt chunks of %u and %u tokens",
             model->name, lanes, cells, places, chunks.alone, chunks.beside);
out:
    return rc;
}

static enum errc start_embedding(struct model *model, const struct settings *s, struct error *err)
{
    uint32_t window = model->engine->info.context_tokens;
    model->context = window < WINDOW_MIN ? WINDOW_MIN : least(window, WINDOW_MAX);
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

/* ---- loading ---- */

struct load_progress {
    struct models *models;
    const char *name;
};

static bool on_progress(void *ctx, double done)
{
    struct load_progress *p = ctx;
    return !p->models->on_progress || p->models->on_progress(p->models->ctx, p->name, done);
}

/* Lock held. */
static enum errc check_place(const struct models *m, const char *name, struct error *err)
{
    size_t len = strlen(name);
    if (len == 0 || len >= sizeof m->list[0]->name)
        return fail(err, ERR_INVALID, "a model's name has 1 to %zu bytes",
                    sizeof m->list[0]->name - 1);
    if (m->is_stopping)
        return fail(err, ERR_BUSY, "the server is shutting down");
    if (m->count == MODELS_MAX)
        return fail(err, ERR_LIMIT, "%d models are loaded already", MODELS_MAX);
    for (size_t i = 0; i < m->count; i++) {
        if (strcmp(m->list[i]->name, name) == 0)
            return fail(err, ERR_EXISTS, "a model named %s is loaded already", name);
    }
    return OK;
}

/* Tells whether model, named so, may join the list. It does unless it is NULL. */
static enum errc take_place(struct models *m, const char *name, struct model *model,
                            struct error *err)
{
    pthread_mutex_lock(&m->lock);
    enum errc rc = check_place(m, name, err);
    if (rc == OK && model)
        m->list[m->count++] = model;
    pthread_mutex_unlock(&m->lock);
    return rc;
}

enum errc models_load(struct models *m, const char *name, const char *path, struct error *err)
{
    struct load_progress progress = { m, name };
    struct model *model = NULL;
    uint64_t begin = env_mono_ms(env_system());
    enum errc rc = OK;

    TRY(take_place(m, name, NULL, err)); /* before the work */
    model = mem_zalloc(sizeof *model);
    model->models = m;
    snprintf(model->name, sizeof model->name, "%s", name);
    if (strncmp(path, "sim:", 4) == 0)
        TRY(engine_sim_open(&model->engine, path + 4, err));
    else
        TRY(engine_llama_open(&model->engine, path, on_progress, &progress, err));
    if (model->engine->info.kind == MODEL_EMBEDDING)
        TRY(start_embedding(model, &m->settings, err));
    else
        TRY(start_chat(model, &m->settings, err));
    TRY(probe(model, err));
    model->is_ready = true;
    model->created_s = env_wall_us(env_system()) / 1000000;
    TRY(take_place(m, name, model, err)); /* two may have loaded the same name at once */
    log_info("model", "%s is ready after %llu ms: %s", name,
             (unsigned long long)(env_mono_ms(env_system()) - begin),
             model->engine->info.description);
    model = NULL;
out:
    model_free(model);
    if (rc != OK)
        wrap(err, "model %s", name);
    return rc;
}

bool models_are_ready(struct models *m)
{
    pthread_mutex_lock(&m->lock);
    bool is_ready = true; /* only ready ones are in the list */
    for (size_t i = 0; i < m->count; i++)
        is_ready = is_ready && m->list[i]->is_ready;
    pthread_mutex_unlock(&m->lock);
    return is_ready;
}

/* The list only grows and its entries stay, so a copy may be walked without the lock. */
static size_t copy_list(struct models *m, struct model **out)
{
    pthread_mutex_lock(&m->lock);
    size_t n = m->count;
    memcpy(out, m->list, n * sizeof *out);
    pthread_mutex_unlock(&m->lock);
    return n;
}

void models_stop(struct models *m)
{
    struct model *list[MODELS_MAX];
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->is_stopping = true;
    pthread_mutex_unlock(&m->lock);
    size_t n = copy_list(m, list);
    for (size_t i = 0; i < n; i++) { /* all stop at once, then are waited for */
        if (list[i]->sched)
            sched_stop(list[i]->sched);
    }
    for (size_t i = 0; i < n; i++)
        model_stop(list[i]);
}

/* Two passes: the last callback of one model's work may ask for another model. */
void models_free(struct models *m)
{
    if (!m)
        return;
    models_stop(m);
    for (size_t i = 0; i < m->count; i++)
        model_free(m->list[i]);
    pthread_mutex_destroy(&m->lock);
    mem_free(m);
}

void models_stats(struct models *m, struct models_stats *out)
{
    struct model *list[MODELS_MAX];
    memset(out, 0, sizeof *out);
    for (size_t i = copy_list(m, list); i-- > 0;) {
        uint32_t waiting = 0, running = 0;
        if (list[i]->sched)
            sched_counts(list[i]->sched, &waiting, &running);
        out->waiting += waiting;
        out->running += running;
        for (uint32_t k = 0; k < list[i]->lane_count; k++) {
            struct lane_stats ls;
            lane_stats(list[i]->lanes[k], &ls);
            out->prompt_tokens += ls.prompt_tokens;
            out->completion_tokens += ls.completion_tokens;
            out->cached_tokens += ls.cached_tokens;
        }
    }
}
