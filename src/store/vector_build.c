/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making segments. A graph cannot lose rows, so a new segment is made from the
 * living rows of old ones, and of the heads, as of one commit; what ends while
 * it is made is noted and ended in it before it is published.
 *
 * Which segments are taken: the smaller ones first, as long as the next is at
 * most MERGE_RATIO times as large as what has been taken, so that each row is
 * added a few times only; and those of which too many rows are dead. The graph
 * of the largest is copied instead of built, if few of its rows are dead.
 *
 * The thread that adds rows to the graph and writes the file runs at idle
 * priority and touches nothing that others wait for. When many rows wait, since
 * the machine has no idle time, it runs at a low priority instead: every search
 * compares those rows, which costs more than making the segment.
 */
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/faiss_shim.h"
#include "store/vector_file.h"
#include "store/vector_private.h"

enum {
    MERGE_RATIO = 4,
    DEAD_PART = 5, /* one fifth */
    BUILD_EFFORT = 100,
    ADD_ROWS = 256, /* between two looks at the cancel flag */
    HEAD_CAPACITY = 1 << 22,
    BEHIND = 8, /* times the rows that a segment is made of */
    NICE_BEHIND = 5,
    NICE_IDLE = 19,
    ROW_OVERHEAD = 150, /* bytes of a row beside its vector and links */
};

static struct metric builds_total =
    METRIC_COUNTER("themis_vector_builds_total", "Segments made, merges included.");
static struct metric build_failures =
    METRIC_COUNTER("themis_vector_build_failures_total", "Segments that could not be made.");
static struct metric build_seconds =
    METRIC_HISTOGRAM("themis_vector_build_seconds", "Making one segment.");

struct vector_pick {
    struct vector_rows *rows;
    uint32_t row;
};

/* ---- what to take ---- */

static bool is_stale(const struct vector_rows *rows)
{
    size_t dead = atomic_load_explicit(&rows->dead, memory_order_relaxed);
    return dead * DEAD_PART > vector_rows_count(rows);
}

static size_t living(const struct vector_rows *rows)
{
    return vector_rows_count(rows) - atomic_load_explicit(&rows->dead, memory_order_relaxed);
}

static bool has_rows_for_merge(const struct vector_version *version)
{
    size_t in_heads = 0;
    for (size_t i = 0; i < version->head_count; i++)
        in_heads += vector_rows_count(version->heads[i]);
    return in_heads || version->segment_count > 1 ||
           (version->segment_count == 1 && atomic_load(&version->segments[0]->dead));
}

bool vector_build_is_due(const struct vectors *v, const struct vector_index *x)
{
    const struct vector_version *version = x->current;
    size_t in_heads = 0;
    if (!version)
        return false;
    if (x->wants_merge && has_rows_for_merge(version))
        return true;
    for (size_t i = 0; i < version->head_count; i++)
        in_heads += vector_rows_count(version->heads[i]);
    if (in_heads >= v->head_rows)
        return true;
    for (size_t i = 0; i < version->segment_count; i++)
        if (is_stale(version->segments[i]))
            return true;
    return false;
}

/* The smallest segment that is not taken yet, or the count. */
static size_t find_smallest(const struct vector_version *version, const bool *takes)
{
    size_t best = version->segment_count;
    for (size_t i = 0; i < version->segment_count; i++)
        if (!takes[i] &&
            (best == version->segment_count ||
             vector_rows_count(version->segments[i]) < vector_rows_count(version->segments[best])))
            best = i;
    return best;
}

static void choose_segments(struct vector_build *b, bool takes_all)
{
    const struct vector_version *version = b->source;
    size_t rows = 0;
    for (size_t i = 0; i < b->head_count; i++)
        rows += living(version->heads[i]);
    for (size_t i = 0; i < version->segment_count; i++) {
        b->takes[i] = takes_all || is_stale(version->segments[i]);
        rows += b->takes[i] ? living(version->segments[i]) : 0;
    }
    for (;;) {
        size_t i = find_smallest(version, b->takes);
        if (i == version->segment_count || living(version->segments[i]) > rows * MERGE_RATIO)
            return;
        b->takes[i] = true;
        rows += living(version->segments[i]);
    }
}

static void choose_base(struct vector_build *b)
{
    const struct vector_version *version = b->source;
    for (size_t i = 0; i < version->segment_count; i++) {
        struct vector_rows *rows = version->segments[i];
        if (b->takes[i] && !is_stale(rows) &&
            (!b->base || vector_rows_count(rows) > vector_rows_count(b->base)))
            b->base = rows;
    }
}

/* ---- collecting ---- */

static bool lives_at(const struct vector_entry *e, uint64_t seq)
{
    return atomic_load_explicit(&e->death, memory_order_relaxed) > seq;
}

/* All rows of the base keep their numbers; dead ones stay dead. */
static void copy_base(struct vector_build *b)
{
    size_t count = vector_rows_count(b->base);
    for (size_t i = 0; i < count; i++) {
        const struct vector_entry *e = vector_rows_entry(b->base, i);
        (void)vector_rows_add(b->out, vector_entry_id(e), 0, lives_at(e, b->seq) ? VECTOR_ALIVE : 0,
                              NULL);
    }
}

static void pick_rows(struct vector_build *b, struct vector_rows *rows)
{
    size_t count = vector_rows_count(rows);
    for (size_t i = 0; i < count; i++) {
        const struct vector_entry *e = vector_rows_entry(rows, i);
        if (!lives_at(e, b->seq))
            continue;
        (void)vector_rows_add(b->out, vector_entry_id(e), 0, VECTOR_ALIVE, NULL);
        b->picks[b->pick_count++] = (struct vector_pick){ rows, (uint32_t)i };
    }
}

static enum errc check_budget(const struct vectors *v, const struct vector_index *x, size_t rows,
                              struct error *err)
{
    int64_t each = (int64_t)x->dimension * 4 + (int64_t)x->links * 9 + ROW_OVERHEAD;
    int64_t need = (int64_t)rows * each, left = v->budget_bytes - atomic_load(&v->bytes);
    if (need <= left)
        return OK;
    return fail(err, ERR_LIMIT,
                "a segment of %zu rows needs %lld MiB, %lld of vector_memory_mb "
                "are left",
                rows, (long long)(need / MIB), (long long)(left / MIB));
}

static enum errc collect(struct vector_build *b, struct error *err)
{
    struct vectors *v = b->vectors;
    size_t rows = 0;
    for (size_t i = 0; i < b->head_count; i++)
        rows += vector_rows_count(b->source->heads[i]);
    for (size_t i = 0; i < b->source->segment_count; i++)
        rows += b->takes[i] ? vector_rows_count(b->source->segments[i]) : 0;
    enum errc rc = check_budget(v, b->index, rows, err);
    if (rc != OK)
        return rc;
    b->out = vector_rows_new(b->index->dimension, rows, false, &v->bytes);
    b->picks = mem_alloc((rows + 1) * sizeof *b->picks);
    if (b->base)
        copy_base(b);
    for (size_t i = 0; i < b->source->segment_count; i++)
        if (b->takes[i] && b->source->segments[i] != b->base)
            pick_rows(b, b->source->segments[i]);
    for (size_t i = 0; i < b->head_count; i++)
        pick_rows(b, b->source->heads[i]);
    return OK;
}

/* ---- the thread at idle priority ---- */

static void step_back(const struct vector_build *b)
{
    struct sched_param none = { 0 };
    bool is_behind = b->pick_count > b->vectors->head_rows * BEHIND;
    prctl(PR_SET_NAME, "vector-build");
    if (!is_behind)
        (void)sched_setscheduler(0, SCHED_IDLE, &none);
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), is_behind ? NICE_BEHIND : NICE_IDLE);
}

static enum errc new_graph(struct vector_build *b, struct hnsw **out, struct error *err)
{
    const struct vector_index *x = b->index;
    struct hnsw_options opt = { .dimension = x->dimension,
                                .is_inner_product = x->metric != VECTOR_L2,
                                .links = x->links,
                                .build_effort = BUILD_EFFORT };
    return b->base ? hnsw_copy(out, b->base->graph, err) : hnsw_new(out, &opt, err);
}

static enum errc add_picks(struct vector_build *b, struct hnsw *graph, struct error *err)
{
    enum errc rc = OK;
    size_t dimension = b->index->dimension;
    float *rows = mem_alloc(ADD_ROWS * dimension * sizeof *rows);
    for (size_t i = 0; i < b->pick_count;) {
        size_t n = 0;
        for (; n < ADD_ROWS && i < b->pick_count; n++, i++)
            memcpy(rows + n * dimension, vector_rows_vector(b->picks[i].rows, b->picks[i].row),
                   dimension * sizeof *rows);
        if (atomic_load(&b->is_cancelled)) {
            rc = fail(err, ERR_GONE, "cancelled");
            break;
        }
        if (fault_hit("vector.add")) {
            rc = fail(err, ERR_LIMIT, "injected");
            break;
        }
        rc = hnsw_add(graph, rows, n, err);
        if (rc != OK)
            break;
    }
    mem_free(rows);
    return rc;
}

static enum errc make_segment(struct vector_build *b, struct error *err)
{
    enum errc rc = OK;
    struct hnsw *graph = NULL;
    struct vectors *v = b->vectors;
    struct vector_file f = { v->dir, b->index->object_id, ids_new(&v->store->ids),
                             (uint32_t)b->index->metric, b->index->dimension };
    TRY(new_graph(b, &graph, err));
    TRY(add_picks(b, graph, err));
    assert(hnsw_count(graph) == vector_rows_count(b->out));
    vector_rows_set_graph(b->out, graph);
    graph = NULL;
    if (v->dir) {
        TRY(vector_file_write(&f, b->out, err));
        b->out->file_number = f.number;
    }
out:
    hnsw_free(graph);
    return rc;
}

static void *build_main(void *arg)
{
    struct vector_build *b = arg;
    step_back(b);
    b->rc = vector_rows_count(b->out) ? make_segment(b, &b->err) : OK;
    atomic_store(&b->is_done, true);
    pthread_mutex_lock(&b->vectors->lock);
    pthread_cond_signal(&b->vectors->work);
    pthread_mutex_unlock(&b->vectors->lock);
    return NULL;
}

/* ---- start ---- */

/* Lock held. A new head grows from here on; the old ones are complete. */
static struct vector_version *freeze_heads(struct vectors *v, struct vector_index *x)
{
    struct vector_version *before = x->current, *next = vector_version_new(before->min_seq);
    for (size_t i = 0; i < before->segment_count; i++)
        vector_version_add_segment(next, before->segments[i]);
    for (size_t i = 0; i < before->head_count; i++)
        vector_version_add_head(next, before->heads[i]);
    vector_rows_unref(x->active);
    x->active = vector_rows_new(x->dimension, HEAD_CAPACITY, true, &v->bytes);
    vector_version_add_head(next, x->active);
    return vector_index_publish(x, next);
}

static struct vector_build *begin(struct vectors *v, struct vector_index *x)
{
    struct vector_version *before = NULL;
    struct vector_build *b = mem_zalloc(sizeof *b);
    b->vectors = v;
    b->index = x;
    b->started_us = env_mono_us(env_system());
    pthread_mutex_lock(&v->lock);
    if (x->current && x->current->head_count < VECTOR_HEADS_MAX && vector_rows_count(x->active))
        before = freeze_heads(v, x);
    if (x->current) {
        b->source = x->current;
        atomic_fetch_add(&b->source->refs, 1);
        b->head_count = b->source->head_count - 1;
        x->is_logging = true;
    }
    b->seq = v->staged_seq;
    bool takes_all = x->wants_merge;
    pthread_mutex_unlock(&v->lock);
    vector_version_unref(before);
    if (b->source) {
        choose_segments(b, takes_all);
        choose_base(b);
    }
    return b;
}

static void build_free(struct vector_build *b)
{
    vector_version_unref(b->source);
    vector_rows_unref(b->out);
    mem_free(b->picks);
    mem_free(b);
}

static void stop_logging(struct vectors *v, struct vector_index *x)
{
    pthread_mutex_lock(&v->lock);
    x->is_logging = false;
    mem_free(x->kills.at);
    arena_free(x->kills.ids);
    x->kills = (struct vector_kills){ 0 };
    pthread_mutex_unlock(&v->lock);
}

/* Others look at it: figures, and whoever drops its index. */
static void set_build(struct vectors *v, struct vector_build *b)
{
    pthread_mutex_lock(&v->lock);
    v->build = b;
    pthread_mutex_unlock(&v->lock);
}

enum errc vector_build_start(struct vectors *v, struct vector_index *x, struct error *err)
{
    enum errc rc = OK;
    struct view *view;
    struct vector_build *b = begin(v, x);
    if (!b->source) {
        rc = fail(err, ERR_GONE, "it was given up meanwhile");
        goto out;
    }
    view = vectors_wait_view(v, b->seq);
    if (!view) {
        rc = fail(err, ERR_GONE, "the store closes");
        goto out;
    }
    b->seq = view->seq;
    committer_release(v->store->committer, view);
    TRY(collect(b, err));
    if (pthread_create(&b->thread, NULL, build_main, b)) {
        rc = fail(err, ERR_LIMIT, "cannot start a thread");
        goto out;
    }
    set_build(v, b);
out:
    if (rc != OK) {
        stop_logging(v, x);
        build_free(b);
    }
    return rc;
}

/* ---- finish ---- */

/* The version after the build: its segment instead of what it took. */
static struct vector_version *make_next(const struct vector_build *b,
                                        const struct vector_version *now)
{
    struct vector_version *next = vector_version_new(b->seq);
    for (size_t i = 0; i < now->segment_count; i++)
        if (!b->takes[i])
            vector_version_add_segment(next, now->segments[i]);
    if (vector_rows_count(b->out))
        vector_version_add_segment(next, b->out);
    for (size_t i = b->head_count; i < now->head_count; i++)
        vector_version_add_head(next, now->heads[i]);
    return next;
}

/* Replaces what was taken; the version that was current comes back, or NULL when it was given up. */
static struct vector_version *install(struct vectors *v, struct vector_build *b)
{
    struct vector_index *x = b->index;
    struct vector_version *made = vector_version_new(0), *before = NULL;
    vector_version_add_segment(made, b->out);
    vector_index_catch_up(v, x, made, b->seq);
    if (x->current) {
        before = vector_index_publish(x, make_next(b, x->current));
        x->builds++;
        x->is_logging = false;
        x->wants_merge = false;
        x->is_warned = false;
    }
    pthread_mutex_unlock(&v->lock);
    vector_version_unref(made);
    return before;
}

static void remove_files(struct vectors *v, const struct vector_build *b)
{
    struct vector_file f = { .dir = v->dir, .object_id = b->index->object_id };
    for (size_t i = 0; v->dir && i < b->source->segment_count; i++) {
        f.number = b->source->segments[i]->file_number;
        if (b->takes[i] && f.number)
            vector_file_remove(&f);
    }
}

static enum errc change_refs(struct vectors *v, struct vector_build *b, struct error *err)
{
    uint64_t removed[VECTOR_SEGMENTS_MAX];
    size_t count = 0;
    if (!v->dir)
        return OK;
    for (size_t i = 0; i < b->source->segment_count; i++)
        if (b->takes[i] && b->source->segments[i]->file_number)
            removed[count++] = b->source->segments[i]->file_number;
    return vector_refs_change(v, b->index->object_id, removed, count, b->out->file_number, err);
}

static void give_up_build(struct vectors *v, struct vector_build *b)
{
    struct vector_index *x = b->index;
    struct vector_file f = { .dir = v->dir,
                             .object_id = x->object_id,
                             .number = b->out->file_number };
    if (f.number)
        vector_file_remove(&f);
    stop_logging(v, x);
    if (b->rc == ERR_GONE)
        return;
    metric_add(&build_failures, 1);
    log_warn("store", "a segment of vector index %s could not be made: %s", x->name, b->err.text);
    pthread_mutex_lock(&v->lock);
    x->retry_at_us = env_mono_us(env_system()) + 10 * 1000 * 1000;
    x->wants_merge = false;
    pthread_mutex_unlock(&v->lock);
}

static void tell(const struct vector_build *b, uint64_t took_us)
{
    log_info("store", "vector index %s: a segment of %zu rows (%zu added) in %.1f s",
             b->index->name, vector_rows_count(b->out), b->pick_count, (double)took_us / 1e6);
    metric_add(&builds_total, 1);
    metric_observe_us(&build_seconds, took_us);
}

void vector_build_finish(struct vectors *v)
{
    struct vector_build *b = v->build;
    struct vector_version *before;
    metric_register(&builds_total);
    metric_register(&build_failures);
    metric_register(&build_seconds);
    pthread_join(b->thread, NULL);
    if (b->rc == OK)
        b->rc = change_refs(v, b, &b->err);
    if (b->rc == OK) {
        before = install(v, b); /* NULL: given up; opening it again finds the new file */
        remove_files(v, b);
        vector_version_unref(before);
        tell(b, env_mono_us(env_system()) - b->started_us);
    } else {
        give_up_build(v, b);
    }
    set_build(v, NULL);
    build_free(b);
}
