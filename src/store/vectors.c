/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits reach the heads in the committer's turn, before they are published:
 * so whoever has a view finds everything of it in the current version. What
 * takes longer than some memory writes is left to the background thread.
 */
#include "store/vectors.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/key.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/memory_plan.h"
#include "base/metrics.h"
#include "store/index_private.h"
#include "store/vector_private.h"

enum {
    KEY_HEAD = 8,           /* object id before the id of a row */
    KILLS_UNDER_LOCK = 500, /* so many are replayed while the committer waits */
    RETRY_US = 10 * 1000 * 1000,
    WAIT_S = 1,
    HEAD_ROWS_DEFAULT = 4096,
};

static struct metric memory_bytes =
    METRIC_GAUGE("themis_vector_bytes", "Memory of vector indexes: segments, graphs, heads.");
static struct metric segments_now = METRIC_GAUGE("themis_vector_segments", "Segments in memory.");
static struct metric segment_rows =
    METRIC_GAUGE("themis_vector_segment_rows", "Rows in segments, dead ones included.");
static struct metric dead_rows =
    METRIC_GAUGE("themis_vector_dead_rows", "Rows in segments that no new view sees.");
static struct metric head_rows =
    METRIC_GAUGE("themis_vector_head_rows", "Rows that are scanned because no segment has them.");
static struct metric cold_indexes =
    METRIC_GAUGE("themis_vector_cold_indexes", "Vector indexes whose rows are scanned on disk.");

/* ---- versions ---- */

struct vector_version *vector_version_new(uint64_t min_seq)
{
    struct vector_version *version = mem_zalloc(sizeof *version);
    version->refs = 1;
    version->min_seq = min_seq;
    return version;
}

void vector_version_unref(struct vector_version *version)
{
    if (!version || atomic_fetch_sub_explicit(&version->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < version->segment_count; i++)
        vector_rows_unref(version->segments[i]);
    for (size_t i = 0; i < version->head_count; i++)
        vector_rows_unref(version->heads[i]);
    mem_free(version);
}

void vector_version_add_segment(struct vector_version *version, struct vector_rows *rows)
{
    assert(version->segment_count < VECTOR_SEGMENTS_MAX);
    version->segments[version->segment_count++] = vector_rows_ref(rows);
}

void vector_version_add_head(struct vector_version *version, struct vector_rows *rows)
{
    assert(version->head_count < VECTOR_HEADS_MAX);
    version->heads[version->head_count++] = vector_rows_ref(rows);
}

void vector_version_kill(struct vector_version *version, struct slice id, uint64_t seq)
{
    for (size_t i = version->head_count; i-- > 0;)
        if (vector_rows_kill(version->heads[i], id, seq))
            return;
    for (size_t i = 0; i < version->segment_count; i++)
        if (vector_rows_kill(version->segments[i], id, seq))
            return;
}

/* ---- the table ---- */

static size_t lower_bound(const struct vectors *v, uint64_t object_id)
{
    size_t low = 0, high = v->index_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (v->indexes[middle]->object_id < object_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct vector_index *vectors_find(struct vectors *v, uint64_t object_id)
{
    size_t at = lower_bound(v, object_id);
    bool is_there = at < v->index_count && v->indexes[at]->object_id == object_id;
    return is_there ? v->indexes[at] : NULL;
}

void vectors_add(struct vectors *v, struct vector_index *x)
{
    size_t at = lower_bound(v, x->object_id);
    v->indexes = mem_realloc(v->indexes, (v->index_count + 1) * sizeof *v->indexes);
    memmove(v->indexes + at + 1, v->indexes + at, (v->index_count - at) * sizeof *v->indexes);
    v->indexes[at] = x;
    v->index_count++;
}

void vectors_remove(struct vectors *v, const struct vector_index *x)
{
    size_t at = lower_bound(v, x->object_id);
    v->index_count--;
    memmove(v->indexes + at, v->indexes + at + 1, (v->index_count - at) * sizeof *v->indexes);
}

static void kills_release(struct vector_kills *k)
{
    mem_free(k->at);
    arena_free(k->ids);
    *k = (struct vector_kills){ 0 };
}

void vector_index_free(struct vector_index *x)
{
    vector_version_unref(x->current);
    vector_rows_unref(x->active);
    kills_release(&x->kills);
    mem_free(x->name);
    mem_free(x);
}

struct vector_version *vector_index_publish(struct vector_index *x, struct vector_version *next)
{
    struct vector_version *before = x->current;
    x->current = next;
    return before;
}

void vector_give_up(struct vectors *v, struct vector_index *x)
{
    struct vector_version *version = x->current ? x->current : vector_version_new(0);
    if (!x->current && x->active)
        vector_version_add_head(version, x->active);
    vector_rows_unref(x->active); /* the version has it */
    v->trash = mem_realloc(v->trash, (v->trash_count + 1) * sizeof *v->trash);
    v->trash[v->trash_count++] = version;
    kills_release(&x->kills);
    x->current = NULL;
    x->active = NULL;
    x->is_logging = false;
    x->state = VECTOR_COLD;
    x->retry_at_us = env_mono_us(env_system()) + RETRY_US;
    pthread_cond_signal(&v->work);
}

struct vector_version *vectors_acquire(struct vectors *v, uint64_t object_id, uint64_t view_seq)
{
    struct vector_version *version = NULL;
    pthread_mutex_lock(&v->lock);
    struct vector_index *x = vectors_find(v, object_id);
    if (x && x->current && view_seq >= x->current->min_seq) {
        version = x->current;
        atomic_fetch_add_explicit(&version->refs, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&v->lock);
    return version;
}

/* ---- commits ---- */

static void note_kill(struct vector_kills *k, struct slice id, uint64_t seq)
{
    if (k->count == k->cap) {
        k->cap = k->cap ? k->cap * 2 : 64;
        k->at = mem_realloc(k->at, k->cap * sizeof *k->at);
    }
    if (!k->ids)
        k->ids = arena_new(0);
    k->at[k->count++] = (struct vector_kill){ arena_copy(k->ids, id), seq };
}

/* Lock held. */
static void apply(struct vectors *v, struct vector_index *x, const struct kv_record *r,
                  uint64_t seq)
{
    struct slice id = slice_of(r->key.ptr + KEY_HEAD, r->key.len - KEY_HEAD);
    bool is_put = r->op == KV_PUT, is_fit = true;
    if (x->state == VECTOR_COLD)
        return;
    if (x->is_logging)
        note_kill(&x->kills, id, seq);
    if (x->current)
        vector_version_kill(x->current, id, seq);
    else
        (void)vector_rows_kill(x->active, id, seq);
    if (is_put)
        is_fit = r->value.len == x->dimension * sizeof(float) &&
                 vector_rows_add(x->active, id, seq, VECTOR_ALIVE, r->value.ptr);
    if (!is_fit || atomic_load(&v->bytes) > v->budget_bytes)
        vector_give_up(v, x);
    else if (is_put && vector_rows_count(x->active) == v->head_rows)
        pthread_cond_signal(&v->work);
}

static enum errc stage(void *ctx, uint64_t seq, struct slice batch, struct error *err)
{
    struct vectors *v = ctx;
    struct kv_record r;
    (void)err;
    pthread_mutex_lock(&v->lock);
    for (size_t at = 0; kv_batch_next(batch, &at, &r);) {
        if (r.family == KV_META && slice_is(r.key, "catalog"))
            v->is_catalog_new = true;
        if (!v->index_count || r.family != KV_INDEX)
            continue;
        v->is_note_staged |= r.op == KV_PUT && vector_key_is_note(r.key);
        if (!vector_key_is_row(r.key))
            continue;
        struct vector_index *x = vectors_find(v, key_read_u64(r.key.ptr));
        if (x)
            apply(v, x, &r, seq);
    }
    v->staged_seq = seq;
    pthread_mutex_unlock(&v->lock);
    return OK;
}

static void published(void *ctx, uint64_t seq)
{
    struct vectors *v = ctx;
    (void)seq;
    pthread_mutex_lock(&v->lock);
    if (v->is_catalog_new)
        pthread_cond_signal(&v->work);
    if (v->is_note_staged && v->is_embedding) {
        v->has_notes = true;
        pthread_cond_signal(&v->notes);
    }
    v->is_note_staged = false;
    pthread_mutex_unlock(&v->lock);
}

static void replay(struct vector_version *version, const struct vector_kills *k, uint64_t seq)
{
    for (size_t i = 0; i < k->count; i++)
        if (k->at[i].seq > seq)
            vector_version_kill(version, k->at[i].id, k->at[i].seq);
}

void vector_index_catch_up(struct vectors *v, struct vector_index *x,
                           struct vector_version *version, uint64_t seq)
{
    for (;;) {
        pthread_mutex_lock(&v->lock);
        struct vector_kills k = x->kills;
        x->kills = (struct vector_kills){ 0 };
        bool is_last = k.count <= KILLS_UNDER_LOCK;
        if (!is_last)
            pthread_mutex_unlock(&v->lock);
        replay(version, &k, seq);
        kills_release(&k);
        if (is_last)
            return;
    }
}

struct view *vectors_wait_view(struct vectors *v, uint64_t staged_seq)
{
    for (;;) {
        struct view *view = committer_view(v->store->committer);
        if (view->seq >= staged_seq)
            return view;
        committer_release(v->store->committer, view);
        pthread_mutex_lock(&v->lock);
        bool is_stopping = v->is_stopping;
        pthread_mutex_unlock(&v->lock);
        if (is_stopping)
            return NULL;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

/* ---- the thread ---- */

/* Lock held. */
static void show_gauges(struct vectors *v)
{
    int64_t segments = 0, rows = 0, dead = 0, heads = 0, cold = 0;
    for (size_t i = 0; i < v->index_count; i++) {
        const struct vector_version *version = v->indexes[i]->current;
        cold += !version;
        for (size_t j = 0; version && j < version->segment_count; j++) {
            segments++;
            rows += (int64_t)vector_rows_count(version->segments[j]);
            dead += (int64_t)atomic_load(&version->segments[j]->dead);
        }
        for (size_t j = 0; version && j < version->head_count; j++)
            heads += (int64_t)vector_rows_count(version->heads[j]);
    }
    metric_set(&segments_now, segments);
    metric_set(&segment_rows, rows);
    metric_set(&dead_rows, dead);
    metric_set(&head_rows, heads);
    metric_set(&cold_indexes, cold);
    metric_set(&memory_bytes, atomic_load(&v->bytes));
}

/* Lock held. */
static struct vector_index *find_cold(struct vectors *v)
{
    uint64_t now = env_mono_us(env_system());
    for (size_t i = 0; i < v->index_count; i++)
        if (v->indexes[i]->state == VECTOR_COLD && v->indexes[i]->retry_at_us <= now)
            return v->indexes[i];
    return NULL;
}

/* Lock held. */
static struct vector_index *find_due(struct vectors *v)
{
    uint64_t now = env_mono_us(env_system());
    for (size_t i = 0; i < v->index_count; i++)
        if (v->indexes[i]->retry_at_us <= now && vector_build_is_due(v, v->indexes[i]))
            return v->indexes[i];
    return NULL;
}

static void warn_once(struct vector_index *x, const char *what, const struct error *err)
{
    if (!x->is_warned)
        log_warn("store", "vector index %s %s: %s", x->name, what, err->text);
    x->is_warned = true;
}

static void open_one(struct vectors *v, struct vector_index *x)
{
    struct error err;
    if (vector_open(v, x, &err) == OK) {
        x->is_warned = false;
        return;
    }
    warn_once(x, "is not in memory, its rows are scanned", &err);
    pthread_mutex_lock(&v->lock);
    if (x->state != VECTOR_COLD)
        vector_give_up(v, x);
    pthread_mutex_unlock(&v->lock);
}

static void build_one(struct vectors *v, struct vector_index *x)
{
    struct error err;
    if (vector_build_start(v, x, &err) == OK)
        return;
    warn_once(x, "gets no new segment", &err);
    pthread_mutex_lock(&v->lock);
    x->retry_at_us = env_mono_us(env_system()) + RETRY_US;
    x->wants_merge = false;
    pthread_mutex_unlock(&v->lock);
}

static void empty_trash(struct vectors *v)
{
    pthread_mutex_lock(&v->lock);
    struct vector_version **trash = v->trash;
    size_t count = v->trash_count;
    v->trash = NULL;
    v->trash_count = 0;
    pthread_mutex_unlock(&v->lock);
    for (size_t i = 0; i < count; i++)
        vector_version_unref(trash[i]);
    mem_free(trash);
}

/* What is due, most urgent first. */
struct turn {
    bool follows_catalog, finishes_build;
    struct vector_index *cold, *due;
};

/* Lock held; false when nothing is due. */
static bool choose_turn(struct vectors *v, struct turn *turn)
{
    *turn = (struct turn){ .follows_catalog = v->is_catalog_new,
                           .finishes_build = v->build && atomic_load(&v->build->is_done) };
    if (turn->follows_catalog || turn->finishes_build)
        return true;
    turn->cold = find_cold(v);
    turn->due = turn->cold || v->build ? NULL : find_due(v);
    return turn->cold || turn->due;
}

static void take_turn(struct vectors *v, const struct turn *turn)
{
    if (turn->follows_catalog)
        vectors_follow_catalog(v);
    else if (turn->finishes_build)
        vector_build_finish(v);
    else if (turn->cold)
        open_one(v, turn->cold);
    else
        build_one(v, turn->due);
}

/* Lock held. */
static void wait_for_work(struct vectors *v)
{
    struct timespec end;
    v->is_settled = !v->build;
    if (v->is_settled)
        pthread_cond_broadcast(&v->settled);
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += WAIT_S;
    pthread_cond_timedwait(&v->work, &v->lock, &end);
}

static void *thread_main(void *arg)
{
    struct vectors *v = arg;
    struct turn turn;
    prctl(PR_SET_NAME, "vectors");
    pthread_mutex_lock(&v->lock);
    while (!v->is_stopping) {
        bool is_due = choose_turn(v, &turn);
        show_gauges(v);
        if (!is_due)
            wait_for_work(v);
        pthread_mutex_unlock(&v->lock);
        if (is_due)
            take_turn(v, &turn);
        empty_trash(v);
        pthread_mutex_lock(&v->lock);
    }
    v->is_settled = true;
    pthread_cond_broadcast(&v->settled);
    pthread_mutex_unlock(&v->lock);
    return NULL;
}

/* ---- life ---- */

static int64_t budget(const struct settings *s)
{
    struct memory_plan plan;
    memory_plan_make(&plan, s, machine_memory_bytes());
    return (int64_t)plan.vectors;
}

static void register_metrics(void)
{
    metric_register(&memory_bytes);
    metric_register(&segments_now);
    metric_register(&segment_rows);
    metric_register(&dead_rows);
    metric_register(&head_rows);
    metric_register(&cold_indexes);
}

struct vectors *vectors_new(struct store *s)
{
    struct vectors *v = mem_zalloc(sizeof *v);
    pthread_condattr_t monotonic;
    register_metrics();
    v->store = s;
    v->budget_bytes = budget(s->settings);
    v->head_rows = s->settings ? (size_t)s->settings->vector_head_rows : HEAD_ROWS_DEFAULT;
    v->is_catalog_new = true;
    pthread_mutex_init(&v->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&v->work, &monotonic);
    pthread_cond_init(&v->settled, &monotonic);
    pthread_cond_init(&v->notes, &monotonic);
    pthread_condattr_destroy(&monotonic);
    v->sink = (struct commit_sink){ .stage = stage, .published = published, .ctx = v };
    store_add_sink(s, &v->sink);
    return v;
}

enum errc vectors_start(struct vectors *v, struct error *err)
{
    struct buf dir;
    if (v->store->path) {
        buf_init(&dir, 0);
        buf_printf(&dir, "%s/vectors", v->store->path);
        v->dir = mem_strdup(buf_cstr(&dir));
        buf_release(&dir);
        if (mkdir(v->dir, 0700) && access(v->dir, W_OK))
            log_warn("store", "cannot use %s: segments of vectors are not kept", v->dir);
    }
    if (pthread_create(&v->thread, NULL, thread_main, v)) {
        v->thread = 0;
        return fail(err, ERR_LIMIT, "cannot start the thread of the vector indexes");
    }
    return OK;
}

void vectors_stop(struct vectors *v)
{
    if (!v || !v->thread)
        return;
    store_stop_embedding(v->store);
    pthread_mutex_lock(&v->lock);
    v->is_stopping = true;
    pthread_cond_signal(&v->work);
    pthread_mutex_unlock(&v->lock);
    pthread_join(v->thread, NULL);
    v->thread = 0;
    if (v->build) {
        atomic_store(&v->build->is_cancelled, true);
        vector_build_finish(v);
    }
}

void vectors_free(struct vectors *v)
{
    if (!v)
        return;
    empty_trash(v);
    for (size_t i = 0; i < v->index_count; i++)
        vector_index_free(v->indexes[i]);
    assert(atomic_load(&v->bytes) == 0);
    mem_free(v->indexes);
    mem_free(v->dir);
    pthread_cond_destroy(&v->work);
    pthread_cond_destroy(&v->settled);
    pthread_cond_destroy(&v->notes);
    pthread_mutex_destroy(&v->lock);
    mem_free(v);
}

/* ---- figures ---- */

void vector_settle(struct store *s)
{
    struct vectors *v = s->vectors;
    pthread_mutex_lock(&v->lock);
    v->is_settled = false;
    while (!v->is_settled && !v->is_stopping) {
        pthread_cond_signal(&v->work);
        pthread_cond_wait(&v->settled, &v->lock);
    }
    pthread_mutex_unlock(&v->lock);
}

void vector_merge(struct store *s, const struct index_def *index)
{
    struct vectors *v = s->vectors;
    pthread_mutex_lock(&v->lock);
    struct vector_index *x = vectors_find(v, index->object_id);
    if (x) {
        x->wants_merge = true;
        x->retry_at_us = 0;
        pthread_cond_signal(&v->work);
    }
    pthread_mutex_unlock(&v->lock);
}

static void count_texts(struct store *s, const struct index_def *index, struct vector_figures *out)
{
    struct txn *t = NULL;
    struct vector_lag lag = { 0, 0 };
    if (txn_begin(&t, s, &(struct txn_options){ .is_read_only = true }, NULL) == OK)
        vector_lag_of(t, index, &lag);
    txn_end(t);
    out->pending = lag.pending;
    out->lag_ms = lag.age_ms;
}

void vector_figures(struct store *s, const struct index_def *index, struct vector_figures *out)
{
    static const char *const states[] = { "cold", "opening", "warm" };
    struct vectors *v = s->vectors;
    *out = (struct vector_figures){ .state = "cold" };
    if (index->source_count)
        count_texts(s, index, out);
    pthread_mutex_lock(&v->lock);
    const struct vector_index *x = vectors_find(v, index->object_id);
    const struct vector_version *version = x ? x->current : NULL;
    if (x) {
        out->state = states[x->state];
        out->builds = x->builds;
        out->rebuilds = x->rebuilds;
        out->is_building = v->build && v->build->index == x;
        memcpy(out->embed_error, x->embed_error, sizeof out->embed_error);
    }
    for (size_t i = 0; version && i < version->segment_count; i++) {
        out->segments++;
        out->segment_rows += vector_rows_count(version->segments[i]);
        out->dead_rows += atomic_load(&version->segments[i]->dead);
        out->bytes += (uint64_t)version->segments[i]->bytes;
    }
    for (size_t i = 0; version && i < version->head_count; i++) {
        out->head_rows += vector_rows_count(version->heads[i]);
        out->bytes += (uint64_t)version->heads[i]->bytes;
    }
    pthread_mutex_unlock(&v->lock);
}
