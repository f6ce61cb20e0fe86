/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing an index into memory.
 *
 * 1. Commits are followed from here on: they fill a new head, and what they end
 *    is noted.
 * 2. A view is taken that holds everything before. The segments are read from
 *    their files, all rows dead, and the rows of the view are walked: a row that
 *    a segment holds with the same vector comes to life there, others go into a
 *    second head. So a segment may be of any age, and a lost one costs time only.
 * 3. What was ended meanwhile is ended in the sets, rows of the first head that
 *    the view had are hidden, and the version is published.
 *
 * A file that is missing or damaged is forgotten here; its rows are in the
 * second head, which becomes a segment again in the background.
 */
#include "base/key.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/index_private.h"
#include "store/vector_file.h"
#include "store/vector_private.h"

enum { HEAD_CAPACITY = 1 << 22, ROW_KEY_BYTES = 8 };

static struct metric lost_total = METRIC_COUNTER(
    "themis_vector_lost_segments_total", "Segments whose file was missing or damaged at a start.");

static struct vector_rows *new_head(struct vectors *v, const struct vector_index *x)
{
    return vector_rows_new(x->dimension, HEAD_CAPACITY, true, &v->bytes);
}

/* ---- files ---- */

static enum errc forget_file(struct vectors *v, struct vector_index *x, const struct vector_file *f,
                             const struct error *why, struct error *err)
{
    enum errc rc = vector_refs_change(v, f->object_id, &f->number, 1, 0, err);
    log_warn("store", "vector index %s is built again in part: %s", x->name, why->text);
    metric_add(&lost_total, 1);
    x->rebuilds++;
    vector_file_remove(f);
    return rc;
}

static enum errc read_files(struct vectors *v, struct vector_index *x,
                            struct vector_version *version, struct error *err)
{
    enum errc rc = OK;
    struct arena *arena = arena_new(0);
    struct vector_rows *rows = NULL;
    uint64_t *pairs;
    size_t count;
    struct vector_file f = { v->dir, x->object_id, 0, (uint32_t)x->metric, x->dimension };
    if (!v->dir)
        goto out;
    TRY(vector_refs_list(v, arena, &pairs, &count, err));
    for (size_t i = 0; i < count; i++) {
        struct error why;
        if (pairs[2 * i] != x->object_id || version->segment_count == VECTOR_SEGMENTS_MAX)
            continue;
        f.number = pairs[2 * i + 1];
        enum errc read =
            vector_file_read(&f, v->budget_bytes - atomic_load(&v->bytes), &v->bytes, &rows, &why);
        if (read == OK) {
            vector_version_add_segment(version, rows);
            vector_rows_unref(rows);
        } else if (read == ERR_LIMIT) { /* intact, for a node with more memory */
            rc = ERR_LIMIT;
            *err = why;
            goto out;
        } else {
            TRY(forget_file(v, x, &f, &why, err));
        }
    }
out:
    arena_free(arena);
    return rc;
}

/* ---- rows ---- */

static void hide_all(struct vector_rows *rows)
{
    size_t count = vector_rows_count(rows);
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&vector_rows_entry(rows, i)->death, 0, memory_order_relaxed);
    atomic_store_explicit(&rows->dead, count, memory_order_relaxed);
}

static bool revive(struct vector_version *version, struct slice id, struct slice vector)
{
    for (size_t i = 0; i < version->segment_count; i++) {
        struct vector_rows *rows = version->segments[i];
        size_t row = vector_rows_find(rows, id);
        if (row == SIZE_MAX || memcmp(vector_rows_vector(rows, row), vector.ptr, vector.len) != 0)
            continue;
        struct vector_entry *e = vector_rows_entry(rows, row);
        if (atomic_load_explicit(&e->death, memory_order_relaxed) == VECTOR_ALIVE)
            return true;
        atomic_store_explicit(&e->death, VECTOR_ALIVE, memory_order_relaxed);
        atomic_fetch_sub_explicit(&rows->dead, 1, memory_order_relaxed);
        return true;
    }
    return false;
}

static enum errc walk_rows(struct vectors *v, const struct vector_index *x, const struct view *view,
                           struct vector_version *version, struct vector_rows *head,
                           struct error *err)
{
    enum errc rc = OK;
    struct kv_iter *it = NULL;
    struct buf from, to;
    buf_init(&from, 0);
    buf_init(&to, 0);
    key_add_u64(&from, x->object_id);
    vector_scan_end(&to, x->object_id);
    TRY(kv_iter_new(
        &it, v->store->kv, view->snapshot, KV_INDEX,
        &(struct kv_scan){ .from = buf_slice(&from), .to = buf_slice(&to), .is_large = true },
        err));
    for (; kv_iter_valid(it); kv_iter_next(it)) {
        struct slice key = kv_iter_key(it), vector = kv_iter_value(it);
        struct slice id = slice_of(key.ptr + ROW_KEY_BYTES, key.len - ROW_KEY_BYTES);
        if (vector.len != x->dimension * sizeof(float)) {
            rc = fail(err, ERR_CORRUPT, "it holds a damaged entry");
            goto out;
        }
        if (revive(version, id, vector))
            continue;
        if (!vector_rows_add(head, id, 0, VECTOR_ALIVE, vector.ptr) ||
            atomic_load(&v->bytes) > v->budget_bytes) {
            rc = fail(err, ERR_LIMIT, "it needs more than vector_memory_mb (%lld MiB)",
                      (long long)(v->budget_bytes / MIB));
            goto out;
        }
    }
    rc = kv_iter_check(it, err);
out:
    kv_iter_free(it);
    buf_release(&from);
    buf_release(&to);
    return rc;
}

/* ---- the whole ---- */

/* Lock held. Rows that the view had are in the other sets too. */
static void hide_before(struct vector_rows *active, uint64_t seq)
{
    size_t count = vector_rows_count(active);
    for (size_t i = 0; i < count; i++) {
        struct vector_entry *e = vector_rows_entry(active, i);
        if (e->birth > seq)
            return;
        if (atomic_exchange_explicit(&e->death, 0, memory_order_relaxed) == VECTOR_ALIVE)
            atomic_fetch_add_explicit(&active->dead, 1, memory_order_relaxed);
    }
}

static uint64_t begin(struct vectors *v, struct vector_index *x)
{
    struct vector_rows *head = new_head(v, x);
    pthread_mutex_lock(&v->lock);
    x->active = head;
    x->is_logging = true;
    x->state = VECTOR_OPENING;
    uint64_t staged = v->staged_seq;
    pthread_mutex_unlock(&v->lock);
    return staged;
}

static enum errc finish(struct vectors *v, struct vector_index *x, struct vector_version *version,
                        struct error *err)
{
    enum errc rc = OK;
    vector_index_catch_up(v, x, version, version->min_seq);
    if (x->state != VECTOR_OPENING) {
        rc = fail(err, ERR_LIMIT, "it grew beyond vector_memory_mb while it was read");
    } else {
        hide_before(x->active, version->min_seq);
        vector_version_add_head(version, x->active);
        (void)vector_index_publish(x, version);
        x->is_logging = false;
        x->state = VECTOR_WARM;
    }
    pthread_mutex_unlock(&v->lock);
    return rc;
}

enum errc vector_open(struct vectors *v, struct vector_index *x, struct error *err)
{
    enum errc rc = OK;
    struct vector_version *version = NULL;
    struct vector_rows *head = NULL;
    metric_register(&lost_total);
    struct view *view = vectors_wait_view(v, begin(v, x));
    if (!view)
        return fail(err, ERR_GONE, "the store closes");
    version = vector_version_new(view->seq);
    head = new_head(v, x);
    TRY(read_files(v, x, version, err));
    for (size_t i = 0; i < version->segment_count; i++)
        hide_all(version->segments[i]);
    TRY(walk_rows(v, x, view, version, head, err));
    if (vector_rows_count(head))
        vector_version_add_head(version, head);
    rc = finish(v, x, version, err);
out:
    if (rc != OK)
        vector_version_unref(version);
    vector_rows_unref(head);
    committer_release(v->store->committer, view);
    return rc;
}
