/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each step packs whole texts up to STEP_TOKENS; a longer one gets a step of its
 * own. The first half is for the request with the least left to do, so short ones
 * overtake; every second time for the one whose turn it is, so long ones go on.
 * The others fill up in turn.
 */
#include "model/embed.h"

#include "base/env.h"
#include "base/fault.h"
#include "base/metrics.h"
#include "model/prompt.h"

#include <math.h>
#include <pthread.h>

enum { STEP_TOKENS = 256, STEP_TEXTS = 32, TEXTS_MAX = 100000 };

static struct metric text_count =
    METRIC_COUNTER("themis_embedded_texts_total", "Texts turned into vectors.");
static struct metric token_count =
    METRIC_COUNTER("themis_embedded_tokens_total", "Tokens of embedded texts.");
static struct metric truncated_count = METRIC_COUNTER(
    "themis_truncated_texts_total", "Texts longer than the embedding model's window.");
static struct metric queue_now =
    METRIC_GAUGE("themis_pending_embedding_requests", "Embedding requests that are not finished.");
static struct metric request_seconds = METRIC_HISTOGRAM(
    "themis_embedding_seconds", "From arrival of an embedding request to its vectors.");

struct embed_job {
    struct embed_job *next;
    int32_t *tokens; /* owned; all texts one after the other */
    size_t *starts;  /* owned; count + 1 */
    bool *truncated; /* owned */
    float *vectors;  /* owned */
    size_t count, done;
    struct gen_payer *payer; /* may be NULL */
    const atomic_bool *cancel;
    void (*on_done)(void *ctx, const struct embed_result *result);
    void *ctx;
    uint64_t submitted_us;
};

/* What one step computes: text `text` of job as sequence number of its place here. */
struct picked {
    struct embed_job *job;
    size_t text;
};

struct embedder {
    struct embedder_options opt;
    struct engine_lane *lane; /* owned */
    uint32_t steps;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool is_started;
    atomic_bool is_stopping;
    bool is_closed;
    const char *why;        /* it stopped */
    struct embed_job *jobs; /* owned; in order of their turn */
    uint32_t job_count;
    uint64_t texts, tokens, truncated;
    struct engine_token *batch; /* owned; the thread's, as picked */
    struct picked picked[STEP_TEXTS];
};

static void job_free(struct embed_job *job)
{
    if (!job)
        return;
    mem_free(job->tokens);
    mem_free(job->starts);
    mem_free(job->truncated);
    mem_free(job->vectors);
    mem_free(job);
}

/* Cuts a text to the window but keeps its last token, which closes it for most models. */
static bool cut_to_window(int32_t *tokens, size_t *count, size_t window)
{
    if (*count <= window)
        return false;
    tokens[window - 1] = tokens[*count - 1];
    *count = window;
    return true;
}

static struct embed_job *job_new(struct embedder *e, const struct embed_request *req)
{
    struct embed_job *job = mem_zalloc(sizeof *job);
    size_t total = 0;
    job->count = req->count;
    job->starts = mem_zalloc((req->count + 1) * sizeof *job->starts);
    job->truncated = mem_zalloc(req->count * sizeof *job->truncated);
    job->payer = req->payer;
    job->cancel = req->cancel;
    job->on_done = req->on_done;
    job->ctx = req->ctx;
    job->submitted_us = env_mono_us(env_system());
    for (size_t i = 0; i < req->count; i++) {
        size_t end = total;
        tokens_append(e->opt.engine, req->texts[i], true, false, &job->tokens, &end);
        size_t n = end - total;
        job->truncated[i] = cut_to_window(job->tokens + total, &n, e->opt.window);
        total += n;
        job->starts[i + 1] = total;
    }
    job->vectors = mem_zalloc(req->count * e->opt.engine->info.dimension * sizeof(float));
    return job;
}

enum errc embedder_add(struct embedder *e, const struct embed_request *req, struct error *err)
{
    enum errc rc = OK;
    if (req->count == 0 || req->count > TEXTS_MAX)
        return fail(err, ERR_INVALID, "1 to %d texts can be embedded at once, not %zu", TEXTS_MAX,
                    req->count);
    pthread_mutex_lock(&e->lock);
    if (e->is_closed)
        rc = fail(err, ERR_NOT_FOUND, "the model is being unloaded");
    else if (e->is_stopping)
        rc = fail(err, ERR_BUSY, "the server is shutting down");
    else if (e->job_count >= e->opt.queue_max)
        rc = fail(err, ERR_BUSY, "%u embedding requests are waiting already", e->job_count);
    else
        e->job_count++; /* a place, before the work of tokenising */
    pthread_mutex_unlock(&e->lock);
    if (rc != OK)
        return rc;

    struct embed_job *job = job_new(e, req);
    metric_add(&queue_now, 1);
    pthread_mutex_lock(&e->lock);
    struct embed_job **end = &e->jobs;
    while (*end)
        end = &(*end)->next;
    *end = job;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
    return OK;
}

/* ---- the thread ---- */

static size_t left(const struct embed_job *job)
{
    return job->starts[job->count] - job->starts[job->done];
}

/* Adds texts of a job from `from` on while they fit. Returns the first not added. */
static size_t pick_from(struct embedder *e, struct embed_job *job, size_t from, size_t budget,
                        size_t *used, size_t *n)
{
    while (from < job->count && *n < STEP_TEXTS) {
        size_t tokens = job->starts[from + 1] - job->starts[from];
        if (*n > 0 && *used + tokens > budget)
            break;
        e->picked[(*n)++] = (struct picked){ job, from++ };
        *used += tokens;
    }
    return from;
}

static size_t pick(struct embedder *e)
{
    struct embed_job *first = e->jobs;
    size_t used = 0, n = 0;
    bool is_turn = e->steps++ % 2 != 0; /* else long texts might never be the first */
    for (struct embed_job *j = e->jobs; j && !is_turn; j = j->next) {
        if (left(j) < left(first))
            first = j;
    }
    size_t from = pick_from(e, first, first->done, STEP_TOKENS / 2, &used, &n);
    for (struct embed_job *j = e->jobs; j; j = j->next) {
        if (j != first)
            pick_from(e, j, j->done, STEP_TOKENS, &used, &n);
    }
    pick_from(e, first, from, STEP_TOKENS, &used, &n);
    return n;
}

static size_t fill_batch(struct embedder *e, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const struct embed_job *job = e->picked[i].job;
        size_t begin = job->starts[e->picked[i].text], end = job->starts[e->picked[i].text + 1];
        for (size_t k = begin; k < end; k++)
            e->batch[count++] =
                (struct engine_token){ job->tokens[k], (uint32_t)(k - begin), (uint16_t)i, true };
    }
    return count;
}

static void normalise(const float *in, float *out, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)in[i] * in[i];
    double scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (uint32_t i = 0; i < n; i++)
        out[i] = (float)(in[i] * scale);
}

static enum errc compute(struct embedder *e, size_t n, struct error *err)
{
    uint32_t dim = e->opt.engine->info.dimension;
    size_t count = fill_batch(e, n);
    enum errc rc = OK;
    if (fault_hit("model.embed"))
        rc = fail(err, ERR_INTERNAL, "injected failure of a step");
    else if (count > 0)
        rc = e->lane->ops->decode(e->lane, e->batch, count, err);
    for (size_t i = 0; i < n && rc == OK; i++) {
        struct embed_job *job = e->picked[i].job;
        size_t text = e->picked[i].text;
        if (job->starts[text] == job->starts[text + 1])
            continue; /* an empty text of a model without special tokens: zero */
        const float *v = e->lane->ops->embedding(e->lane, (uint16_t)i);
        if (!v) {
            rc = fail(err, ERR_INTERNAL, "the model gave no vector");
            break;
        }
        normalise(v, job->vectors + text * dim, dim);
    }
    for (size_t i = 0; i < n; i++)
        e->lane->ops->seq_cut(e->lane, (uint16_t)i, 0);
    return rc;
}

static void finish(struct embedder *e, struct embed_job *job, const struct error *err)
{
    struct embed_result r = { .err = err };
    if (!err) {
        r.vectors = job->vectors;
        r.count = job->count;
        r.dimension = e->opt.engine->info.dimension;
        r.tokens = (uint32_t)job->starts[job->count];
        r.truncated = job->truncated;
        metric_add(&text_count, (int64_t)job->count);
        metric_add(&token_count, r.tokens);
        for (size_t i = 0; i < job->count; i++)
            metric_add(&truncated_count, job->truncated[i]);
        metric_observe_us(&request_seconds, env_mono_us(env_system()) - job->submitted_us);
    }
    metric_add(&queue_now, -1);
    if (job->payer && r.tokens)
        job->payer->charge(job->payer, r.tokens);
    job->on_done(job->ctx, &r);
    job_free(job);
}

static bool is_unwanted(struct embedder *e, const struct embed_job *job)
{
    return e->is_stopping ||
           (job->cancel && atomic_load_explicit(job->cancel, memory_order_acquire));
}

/* Moves what is complete or unwanted into a list of its own. Under the lock. */
static struct embed_job *unlink_ended(struct embedder *e)
{
    struct embed_job *ended = NULL, **out = &ended;
    struct embed_job **link = &e->jobs;
    while (*link) {
        struct embed_job *job = *link;
        if (job->done < job->count && !is_unwanted(e, job)) {
            link = &job->next;
            continue;
        }
        *link = job->next;
        job->next = NULL;
        *out = job;
        out = &job->next;
        e->job_count--;
        if (job->done == job->count) {
            e->texts += job->count;
            e->tokens += job->starts[job->count];
            for (size_t i = 0; i < job->count; i++)
                e->truncated += job->truncated[i];
        }
    }
    return ended;
}

/* The one whose turn it was goes behind the others. */
static void rotate(struct embedder *e)
{
    struct embed_job *first = e->jobs, **end = &e->jobs;
    if (!first || !first->next)
        return;
    e->jobs = first->next;
    first->next = NULL;
    while (*end)
        end = &(*end)->next;
    *end = first;
}

static void finish_all(struct embedder *e, struct embed_job *list, const char *why)
{
    struct error gone;
    fail(&gone, ERR_GONE, "%s", why ? why : "the embedding was cancelled");
    while (list) {
        struct embed_job *next = list->next;
        finish(e, list, list->done == list->count ? NULL : &gone);
        list = next;
    }
}

/* Takes the jobs of the step out of the list, each once. Under the lock. */
static struct embed_job *unlink_picked(struct embedder *e, size_t n)
{
    struct embed_job *list = NULL, **out = &list;
    for (size_t i = 0; i < n; i++) {
        struct embed_job **link = &e->jobs;
        while (*link && *link != e->picked[i].job)
            link = &(*link)->next;
        if (!*link)
            continue; /* taken with an earlier text of this step */
        *out = *link;
        *link = (*link)->next;
        out = &(*out)->next;
        *out = NULL;
        e->job_count--;
    }
    return list;
}

/*
 * One step failed: everybody in it does, nobody else. All are taken out before the first is freed:
 * a new request may get the memory, and so the address, of one that has ended.
 */
static void fail_picked(struct embedder *e, size_t n, const struct error *err)
{
    pthread_mutex_lock(&e->lock);
    struct embed_job *list = unlink_picked(e, n);
    pthread_mutex_unlock(&e->lock);
    while (list) {
        struct embed_job *next = list->next;
        finish(e, list, err);
        list = next;
    }
}

static void *run(void *arg)
{
    struct embedder *e = arg;
    struct error err;
    for (;;) {
        pthread_mutex_lock(&e->lock);
        while (!e->jobs && !e->is_stopping)
            pthread_cond_wait(&e->wake, &e->lock);
        struct embed_job *ended = unlink_ended(e);
        rotate(e);
        size_t n = e->jobs ? pick(e) : 0;
        /* While tokenising, a request has a place but is not in the list yet. */
        bool is_over = e->is_stopping && e->job_count == 0;
        const char *why = e->why;
        pthread_mutex_unlock(&e->lock);
        finish_all(e, ended, why);
        if (is_over)
            return NULL;
        if (n == 0)
            continue;
        enum errc rc = compute(e, n, &err);
        if (rc == OK) {
            for (size_t i = 0; i < n; i++)
                e->picked[i].job->done++;
        } else if (rc != ERR_GONE) {
            fail_picked(e, n, &err);
        }
    }
}

static bool should_stop(void *ctx)
{
    struct embedder *e = ctx;
    return atomic_load_explicit(&e->is_stopping, memory_order_relaxed);
}

enum errc embedder_new(struct embedder **out, const struct embedder_options *opt, struct error *err)
{
    struct embedder *e = mem_zalloc(sizeof *e);
    enum errc rc = OK;
    e->opt = *opt;
    uint32_t most = opt->window > STEP_TOKENS ? opt->window : STEP_TOKENS;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->wake, NULL);
    e->batch = mem_alloc(most * sizeof *e->batch);
    struct engine_lane_options lo = {
        .cells = most,
        .seq_max = STEP_TEXTS,
        .batch_tokens = most,
        .is_unified = true,
        .should_stop = should_stop,
        .ctx = e,
    };
    TRY(opt->engine->ops->lane_open(opt->engine, &e->lane, &lo, err));
    if (pthread_create(&e->thread, NULL, run, e) != 0) {
        rc = fail(err, ERR_LIMIT, "cannot start a thread");
        goto out;
    }
    e->is_started = true;
    *out = e;
    e = NULL;
out:
    embedder_free(e);
    return rc;
}

void embedder_close(struct embedder *e)
{
    pthread_mutex_lock(&e->lock);
    e->is_closed = true;
    pthread_mutex_unlock(&e->lock);
}

void embedder_stop(struct embedder *e, const char *why)
{
    if (!e || !e->is_started)
        return;
    pthread_mutex_lock(&e->lock);
    e->why = why;
    atomic_store(&e->is_stopping, true);
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    e->is_started = false;
}

void embedder_free(struct embedder *e)
{
    if (!e)
        return;
    embedder_stop(e, NULL);
    engine_lane_close(e->lane);
    pthread_cond_destroy(&e->wake);
    pthread_mutex_destroy(&e->lock);
    mem_free(e->batch);
    mem_free(e);
}

void embedder_stats(struct embedder *e, struct embedder_stats *out)
{
    pthread_mutex_lock(&e->lock);
    *out = (struct embedder_stats){ e->job_count, e->texts, e->tokens, e->truncated };
    pthread_mutex_unlock(&e->lock);
}
