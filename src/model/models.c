/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of models. One enters it LOADING, when its memory fits into what the
 * others leave, is READY when a token or vector has come out, and LEAVING from
 * the moment that it is unloaded: nobody finds it any more, and it is freed when
 * its requests have ended and nobody holds it.
 *
 *   take_place -> LOADING -> model_start -> READY -> LEAVING -> drain -> freed
 *                    `--- failed ---------------------------------------^
 *
 * A call of the generator holds its model while it runs (model_ref), a request
 * does not: the threads of a model are joined before it is freed.
 */
#include "base/env.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/manifest.h"
#include "base/metrics.h"
#include "model/model_private.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { DRAIN_LOOK_MS = 10, LIST_BYTES = 120 };

static struct metric memory_now = METRIC_GAUGE(
    "themis_model_memory_bytes", "What the loaded models take at most, by their footprints.");
static struct metric memory_max =
    METRIC_GAUGE("themis_model_memory_limit_bytes", "What they may take: model_memory_mb.");
static struct metric unloads =
    METRIC_COUNTER("themis_model_unloads_total", "Models that were unloaded while it ran.");

enum errc models_new(struct models **out, const struct models_options *opt, struct error *err)
{
    (void)err;
    struct models *m = mem_zalloc(sizeof *m);
    m->settings = *opt->settings;
    m->on_progress = opt->on_progress;
    m->ctx = opt->ctx;
    m->grammars = grammar_cache_new();
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    metric_register(&memory_now);
    metric_register(&memory_max);
    metric_register(&unloads);
    metric_set(&memory_max, (int64_t)model_budget_of(opt->settings));
    generator_local_init(m);
    *out = m;
    return OK;
}

struct generator *models_generator(struct models *m)
{
    return &m->generator;
}

/* ---- the list; with the lock held ---- */

static uint64_t used_memory(const struct models *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->count; i++)
        sum += footprint_sum(&m->list[i]->footprint);
    return sum;
}

static struct model *find_name(const struct models *m, struct slice name)
{
    for (size_t i = 0; i < m->count; i++)
        if (slice_is(name, m->list[i]->name))
            return m->list[i];
    return NULL;
}

static void list_changed(struct models *m)
{
    metric_set(&memory_now, (int64_t)used_memory(m));
    pthread_cond_broadcast(&m->changed);
}

static void remove_model(struct models *m, const struct model *model)
{
    size_t i = 0;
    while (m->list[i] != model)
        i++;
    m->count--;
    memmove(&m->list[i], &m->list[i + 1], (m->count - i) * sizeof m->list[0]);
    list_changed(m);
}

static const char *state_name(enum model_state state)
{
    switch (state) {
    case MODEL_LOADING:
        return "being loaded";
    case MODEL_READY:
        return "loaded";
    case MODEL_LEAVING:
        return "being unloaded";
    }
    BUG("state %d", (int)state);
}

/* "chat 812 MiB, embed 60 MiB" */
static void list_sizes(const struct models *m, char out[LIST_BYTES])
{
    size_t len = 0;
    snprintf(out, LIST_BYTES, "%s", "nothing");
    for (size_t i = 0; i < m->count && len < LIST_BYTES; i++)
        len += (size_t)snprintf(out + len, LIST_BYTES - len, "%s%s %llu MiB", i ? ", " : "",
                                m->list[i]->name,
                                (unsigned long long)(footprint_sum(&m->list[i]->footprint) / MIB));
}

/* Rounded up: what is free is rounded down. */
static unsigned long long mib(uint64_t bytes)
{
    return (bytes + MIB - 1) / MIB;
}

static enum errc check_memory(const struct models *m, const struct model *model, struct error *err)
{
    const struct footprint *f = &model->footprint;
    uint64_t budget = model_budget_of(&m->settings), used = used_memory(m);
    uint64_t free_bytes = used < budget ? budget - used : 0;
    char list[LIST_BYTES];
    if (footprint_sum(f) <= free_bytes)
        return OK;
    list_sizes(m, list);
    (void)fail(err, ERR_LIMIT,
               "it needs %llu MiB (weights %llu, KV %llu, buffers %llu); %llu of %llu MiB "
               "(model_memory_mb) are free; loaded: %s",
               mib(footprint_sum(f)), mib(f->weights), mib(f->kv), mib(f->buffers),
               (unsigned long long)(free_bytes / MIB), (unsigned long long)(budget / MIB), list);
    if (err)
        err->http = 507;
    return ERR_LIMIT;
}

static enum errc check_place(const struct models *m, const struct model *model, struct error *err)
{
    const struct model *same = find_name(m, slice_str(model->name));
    if (m->is_stopping)
        return fail(err, ERR_BUSY, "the server is shutting down");
    if (same)
        return fail(err, ERR_EXISTS, "a model named %s is %s already", model->name,
                    state_name(same->state));
    if (m->count == MODELS_MAX)
        return fail(err, ERR_LIMIT, "%d models are loaded already", MODELS_MAX);
    return check_memory(m, model, err);
}

/* ---- holding ---- */

static enum errc no_model(const struct models *m, const struct model_wish *wish, struct error *err)
{
    const char *kind = model_kind_name(wish->kind);
    char list[LIST_BYTES] = "none";
    size_t len = 0;
    for (size_t i = 0; i < m->count && len < sizeof list; i++)
        if (m->list[i]->state == MODEL_READY)
            len +=
                (size_t)snprintf(list + len, sizeof list - len, "%s%s (%s)", len ? ", " : "",
                                 m->list[i]->name, model_kind_name(m->list[i]->engine->info.kind));
    if (wish->name.len == 0)
        return fail(err, ERR_NOT_FOUND, "no %s model is loaded; loaded: %s", kind, list);
    return fail(err, ERR_NOT_FOUND, "no %s model is named %.*s; loaded: %s", kind,
                (int)(wish->name.len < 64 ? wish->name.len : 64), wish->name.ptr, list);
}

static bool is_wished(const struct model *model, const struct model_wish *wish)
{
    if (model->state != MODEL_READY)
        return false;
    bool is_kind = model->engine->info.kind == wish->kind || (wish->is_any && wish->name.len > 0);
    return is_kind && (wish->name.len == 0 || slice_is(wish->name, model->name));
}

enum errc model_ref(struct models *m, const struct model_wish *wish, struct model **out,
                    struct error *err)
{
    struct model_wish w = *wish;
    enum errc rc = OK;
    if (w.name.len == 0)
        w.name =
            slice_str(w.kind == MODEL_CHAT ? m->settings.chat_model : m->settings.embedding_model);
    *out = NULL;
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->count && !*out; i++)
        if (is_wished(m->list[i], &w))
            *out = m->list[i];
    if (*out)
        (*out)->users++;
    else
        rc = no_model(m, &w, err);
    pthread_mutex_unlock(&m->lock);
    return rc;
}

void model_unref(struct model *model)
{
    struct models *m = model->models;
    pthread_mutex_lock(&m->lock);
    assert(model->users > 0);
    if (--model->users == 0 && model->state == MODEL_LEAVING)
        pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

/* All ready ones, held. */
static size_t ref_all(struct models *m, struct model **out)
{
    size_t n = 0;
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->count; i++) {
        if (m->list[i]->state != MODEL_READY)
            continue;
        m->list[i]->users++;
        out[n++] = m->list[i];
    }
    pthread_mutex_unlock(&m->lock);
    return n;
}

/* ---- loading ---- */

static enum errc read_shape(const char *path, struct model_shape *out, struct error *err)
{
    return strncmp(path, "sim:", 4) == 0 ? engine_sim_shape(path + 4, out, err)
                                         : gguf_check(path, out, err);
}

static enum errc take_place(struct models *m, struct model *model, struct error *err)
{
    pthread_mutex_lock(&m->lock);
    enum errc rc = check_place(m, model, err);
    if (rc == OK) {
        m->list[m->count++] = model;
        list_changed(m);
    }
    pthread_mutex_unlock(&m->lock);
    return rc;
}

static enum errc become_ready(struct models *m, struct model *model, struct error *err)
{
    enum errc rc = OK;
    pthread_mutex_lock(&m->lock);
    if (m->is_stopping)
        rc = fail(err, ERR_BUSY, "the server is shutting down");
    else
        model->state = MODEL_READY;
    pthread_mutex_unlock(&m->lock);
    return rc;
}

static enum errc check_digest(struct model *model, const struct model_source *src,
                              struct error *err)
{
    if (strncmp(src->path, "sim:", 4) == 0)
        return OK;
    struct manifest_file file;
    int fd = open(src->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_os(err, "open", src->path);
    enum errc rc = manifest_hash(fd, src->path, &file, err);
    close(fd);
    snprintf(model->sha256, sizeof model->sha256, "%s", rc == OK ? file.sha256 : "");
    if (rc == OK && src->sha256 && src->sha256[0] && strcmp(src->sha256, model->sha256) != 0)
        return fail(err, ERR_CORRUPT,
                    "%s was changed: its SHA-256 is %s, not %s as when it was added", src->path,
                    model->sha256, src->sha256);
    return rc;
}

enum errc models_load_source(struct models *m, const struct model_source *src, struct error *err)
{
    struct model *model = NULL;
    struct model_shape shape;
    uint64_t begin = env_mono_ms(env_system());
    bool has_place = false;
    enum errc rc = OK;

    if (!src->name[0] || strlen(src->name) >= sizeof model->name) {
        rc = fail(err, ERR_INVALID, "a model's name has 1 to %zu bytes", sizeof model->name - 1);
        goto out;
    }
    TRY(read_shape(src->path, &shape, err));
    model = mem_zalloc(sizeof *model);
    model->models = m;
    model->footprint = footprint_of(&m->settings, &shape);
    snprintf(model->name, sizeof model->name, "%s", src->name);
    TRY(take_place(m, model, err)); /* before the work */
    has_place = true;
    TRY(check_digest(model, src, err));
    TRY(model_start(model, src->path, err));
    model->created_s = env_wall_us(env_system()) / 1000000;
    TRY(become_ready(m, model, err));
    log_info("model", "%s is ready after %llu ms, takes up to %llu MiB: %s", src->name,
             (unsigned long long)(env_mono_ms(env_system()) - begin),
             mib(footprint_sum(&model->footprint)), model->engine->info.description);
    return OK;
out:
    if (has_place) {
        pthread_mutex_lock(&m->lock);
        remove_model(m, model);
        pthread_mutex_unlock(&m->lock);
    }
    if (model)
        model_release(model);
    mem_free(model);
    wrap(err, "model %.64s", src->name);
    return rc;
}

enum errc models_load(struct models *m, const char *name, const char *path, struct error *err)
{
    return models_load_source(m, &(struct model_source){ .name = name, .path = path }, err);
}

/* ---- unloading ---- */

static void add_stats(struct model *model, struct models_stats *out)
{
    for (uint32_t k = 0; k < model->lane_count; k++) {
        struct lane_stats ls;
        lane_stats(model->lanes[k], &ls);
        out->prompt_tokens += ls.prompt_tokens;
        out->completion_tokens += ls.completion_tokens;
        out->cached_tokens += ls.cached_tokens;
    }
}

static enum errc begin_leaving(struct models *m, struct slice name, struct model **out,
                               struct error *err)
{
    enum errc rc = OK;
    pthread_mutex_lock(&m->lock);
    struct model *model = find_name(m, name);
    if (!model)
        rc = no_model(m, &(struct model_wish){ .name = name, .kind = MODEL_CHAT, .is_any = true },
                      err);
    else if (model->state != MODEL_READY)
        rc = fail(err, ERR_CONFLICT, "the model %s is %s", model->name, state_name(model->state));
    else if (m->is_stopping)
        rc = fail(err, ERR_BUSY, "the server is shutting down");
    else
        model->state = MODEL_LEAVING;
    *out = rc == OK ? model : NULL;
    pthread_mutex_unlock(&m->lock);
    return rc;
}

/* Until its requests have ended, the time is over or the server stops. */
static void drain(struct models *m, struct model *model, uint64_t drain_ms)
{
    uint64_t end = env_mono_ms(env_system()) + drain_ms;
    bool is_stopping = false;
    while (model_pending(model) > 0 && !is_stopping && env_mono_ms(env_system()) < end) {
        nanosleep(&(struct timespec){ .tv_nsec = DRAIN_LOOK_MS * 1000000L }, NULL);
        pthread_mutex_lock(&m->lock);
        is_stopping = m->is_stopping;
        pthread_mutex_unlock(&m->lock);
    }
}

enum errc models_unload(struct models *m, struct slice name, uint64_t drain_ms,
                        struct model_unloaded *out, struct error *err)
{
    struct model *model = NULL;
    enum errc rc = begin_leaving(m, name, &model, err);
    if (rc != OK)
        return rc;
    uint64_t before = process_memory_bytes();
    model_close(model);
    drain(m, model, drain_ms);
    *out = (struct model_unloaded){ .cancelled = model_pending(model),
                                    .footprint_bytes = footprint_sum(&model->footprint) };
    model_stop(model, "the model was unloaded before this request was finished");
    pthread_mutex_lock(&m->lock);
    while (model->users > 0)
        pthread_cond_wait(&m->changed, &m->lock);
    add_stats(model, &m->ended);
    pthread_mutex_unlock(&m->lock);
    model_release(model);
    process_memory_give_back();
    uint64_t after = process_memory_bytes();
    out->returned_bytes = after < before ? before - after : 0;
    pthread_mutex_lock(&m->lock);
    remove_model(m, model); /* now others may have its memory */
    pthread_mutex_unlock(&m->lock);
    metric_add(&unloads, 1);
    log_info("model", "%s is unloaded, %llu MiB were given back, %u requests were broken off",
             model->name, (unsigned long long)(out->returned_bytes / MIB), out->cancelled);
    mem_free(model);
    return OK;
}

/* ---- all of them ---- */

/* Those that are loaded or unloaded at this moment end by themselves, soon. */
void models_stop(struct models *m)
{
    struct model *list[MODELS_MAX];
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->is_stopping = true;
    pthread_mutex_unlock(&m->lock);
    size_t n = ref_all(m, list);
    for (size_t i = 0; i < n; i++) { /* all stop at once, then are waited for */
        if (list[i]->sched)
            sched_stop(list[i]->sched, NULL);
    }
    for (size_t i = 0; i < n; i++) {
        model_stop(list[i], NULL);
        model_unref(list[i]);
    }
    pthread_mutex_lock(&m->lock);
    while (m->count > n)
        pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

/* Two passes: the last callback of one model's work may ask for another model. */
void models_free(struct models *m)
{
    if (!m)
        return;
    models_stop(m);
    for (size_t i = 0; i < m->count; i++) {
        model_release(m->list[i]);
        mem_free(m->list[i]);
    }
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    grammar_cache_free(m->grammars);
    mem_free(m);
}

void models_stats(struct models *m, struct models_stats *out)
{
    struct model *list[MODELS_MAX];
    size_t n = ref_all(m, list);
    pthread_mutex_lock(&m->lock);
    *out = m->ended;
    out->memory_bytes = used_memory(m);
    pthread_mutex_unlock(&m->lock);
    out->memory_limit_bytes = model_budget_of(&m->settings);
    for (size_t i = 0; i < n; i++) {
        uint32_t waiting = 0, running = 0;
        if (list[i]->sched)
            sched_counts(list[i]->sched, &waiting, &running);
        out->waiting += waiting;
        out->running += running;
        add_stats(list[i], out);
        model_unref(list[i]);
    }
}
