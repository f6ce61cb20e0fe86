/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that makes the vectors which writes left notes for. A round takes
 * some notes of one index, has their texts embedded, reads the documents again
 * and keeps the vectors of texts that are still there.
 *
 * Its commits are derived: their keys refuse nobody, so a client never loses
 * against them; they themselves are refused when a document changed. A failure
 * (no such model, a full queue) is repeated after a growing pause.
 */
#include <math.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/key.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/index_private.h"
#include "store/vector_private.h"
#include "store/vector_source.h"

enum {
    ROUND_TEXTS = 32,
    NOTES_COUNTED = 100000, /* more are not counted */
    PAUSE_FIRST_US = 250 * 1000,
    PAUSE_MAX_US = 30 * 1000 * 1000,
    COMMIT_TRIES = 3,
};

static struct metric pending_texts =
    METRIC_GAUGE("themis_vector_pending_texts", "Texts of documents that wait for their vector.");
static struct metric lag_ms = METRIC_GAUGE("themis_vector_lag_milliseconds",
                                           "Age of the oldest text that waits for its vector.");
static struct metric embedded_total =
    METRIC_COUNTER("themis_vector_embedded_texts_total", "Vectors made from texts of documents.");
static struct metric failures_total = METRIC_COUNTER("themis_vector_embedding_failures_total",
                                                     "Rounds of texts that got no vectors.");

struct note {
    struct slice key; /* in the round's arena */
    uint16_t slot;
    uint64_t hash;
    struct slice text;
};

struct round {
    struct vectors *vectors;
    uint64_t collection_id, index_id;
    struct arena *arena;
    struct note notes[ROUND_TEXTS];
    size_t count;
    struct vector_lag lag;
    uint32_t dimension;
    enum vector_metric metric;
    struct slice model;
    float *rows; /* in the arena */
};

/* ---- notes ---- */

static enum errc walk_notes(struct txn *t, const struct index_def *index, struct vector_lag *lag,
                            struct round *r, struct error *err)
{
    enum errc rc = OK;
    struct buf from, to;
    struct txn_iter *it = NULL;
    uint64_t oldest = UINT64_MAX, now = env_wall_us(t->store->env) / 1000;
    *lag = (struct vector_lag){ 0, 0 };
    buf_init(&from, 0);
    buf_init(&to, 0);
    vector_note_range(index, &from, &to);
    TRY(txn_iter_new(&it, t, KV_INDEX,
                     &(struct kv_scan){ .from = buf_slice(&from), .to = buf_slice(&to) }, err));
    for (; txn_iter_valid(it) && lag->pending < NOTES_COUNTED; txn_iter_next(it)) {
        struct vector_note note;
        if (!vector_note_read(txn_iter_key(it), txn_iter_value(it), &note))
            continue;
        lag->pending++;
        oldest = note.wall_ms < oldest ? note.wall_ms : oldest;
        if (r && r->count < ROUND_TEXTS)
            r->notes[r->count++] = (struct note){ .key = arena_copy(r->arena, note.key),
                                                  .slot = note.slot,
                                                  .hash = note.hash };
    }
    lag->age_ms = oldest < now ? now - oldest : 0;
    rc = txn_iter_check(it, err);
out:
    txn_iter_free(it);
    buf_release(&from);
    buf_release(&to);
    return rc;
}

void vector_lag_of(struct txn *t, const struct index_def *index, struct vector_lag *out)
{
    struct error err;
    if (walk_notes(t, index, out, NULL, &err) != OK)
        *out = (struct vector_lag){ 0, 0 };
}

/* The document's text as it is in t; empty when there is none any more. */
static enum errc read_text(struct txn *t, const struct collection *c, const struct index_def *index,
                           const struct note *note, struct arena *arena, struct slice *text,
                           struct error *err)
{
    struct slice value;
    struct buf key, out;
    buf_init(&key, 0);
    buf_init(&out, 0);
    row_key(&key, c, note->slot, note->key);
    *text = slice_str("");
    txn_watch(t, KV_DOC, buf_slice(&key));
    enum errc rc = txn_get(t, KV_DOC, buf_slice(&key), arena, &value, err);
    if (rc == OK && vector_source_text(index, (struct val){ (const uint8_t *)value.ptr }, &out))
        *text = arena_copy(arena, buf_slice(&out));
    buf_release(&key);
    buf_release(&out);
    return rc == ERR_NOT_FOUND ? OK : rc;
}

/* ---- a round ---- */

static const struct index_def *find_index(const struct round *r, struct txn *t,
                                          const struct collection **c)
{
    *c = catalog_collection_by_id(txn_catalog(t), r->collection_id);
    const struct index_def *index = *c ? collection_index(*c, r->index_id) : NULL;
    return index && index->is_ready && index->source_count ? index : NULL;
}

static enum errc take_notes(struct round *r, struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    const struct collection *c;
    TRY(txn_begin(&t, r->vectors->store, &(struct txn_options){ .is_read_only = true }, err));
    const struct index_def *index = find_index(r, t, &c);
    if (!index)
        goto out;
    r->dimension = index->dimension;
    r->metric = index->metric;
    r->model = arena_copy(r->arena, index->model);
    TRY(walk_notes(t, index, &r->lag, r, err));
    for (size_t i = 0; i < r->count; i++)
        TRY(read_text(t, c, index, &r->notes[i], r->arena, &r->notes[i].text, err));
out:
    txn_end(t);
    return rc;
}

static enum errc check_rows(struct round *r, struct error *err)
{
    for (size_t i = 0; i < r->count * r->dimension; i++)
        if (!isfinite(r->rows[i]))
            return fail(err, ERR_INTERNAL, "model '%.*s' made a vector that is not finite",
                        SLICE_ARG(r->model));
    for (size_t i = 0; r->metric == VECTOR_COSINE && i < r->count; i++)
        vector_normalise(r->rows + i * r->dimension, r->dimension);
    return OK;
}

static enum errc embed_texts(struct round *r, const struct vector_embedder *e, struct error *err)
{
    struct slice texts[ROUND_TEXTS];
    for (size_t i = 0; i < r->count; i++)
        texts[i] = r->notes[i].text;
    r->rows = arena_alloc(r->arena, r->count * r->dimension * sizeof *r->rows);
    struct vector_texts request = { .model = r->model,
                                    .texts = texts,
                                    .count = r->count,
                                    .dimension = r->dimension,
                                    .cancel = &r->vectors->is_embed_cancelled };
    enum errc rc = e->embed(e->ctx, &request, r->rows, err);
    return rc == OK ? check_rows(r, err) : rc;
}

/* A note whose text is still the document's gives a row; one whose text is gone just goes. */
static enum errc write_one(struct round *r, struct txn *t, const struct collection *c,
                           const struct index_def *index, size_t i, struct error *err)
{
    enum errc rc = OK;
    struct slice text, found = { NULL, 0 };
    const struct note *note = &r->notes[i];
    struct vector_note now;
    struct buf row, key;
    buf_init(&row, 0);
    buf_init(&key, 0);
    vector_row_key(&row, index, note->slot, note->key);
    vector_note_key(&key, index, note->slot, note->key);
    rc = txn_get(t, KV_INDEX, buf_slice(&key), r->arena, &found, err);
    if (rc != OK || !vector_note_read(buf_slice(&key), found, &now)) {
        rc = rc == ERR_NOT_FOUND ? OK : rc; /* somebody removed the document */
        goto out;
    }
    TRY(read_text(t, c, index, note, r->arena, &text, err));
    bool is_same = text.len && vector_source_hash(text) == vector_source_hash(note->text);
    if (is_same)
        TRY(txn_put(t, KV_INDEX, buf_slice(&row),
                    slice_of(r->rows + i * r->dimension, r->dimension * sizeof *r->rows), err));
    if (is_same || !text.len)
        rc = txn_delete(t, KV_INDEX, buf_slice(&key), err);
out:
    buf_release(&row);
    buf_release(&key);
    return rc;
}

static enum errc write_rows(struct round *r, struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    const struct collection *c;
    TRY(txn_begin(&t, r->vectors->store, &(struct txn_options){ .no_sync = true }, err));
    const struct index_def *index = find_index(r, t, &c);
    if (!index || index->dimension != r->dimension)
        goto out;
    t->is_derived = true;
    TRY(txn_open_write(t, c, err));
    for (size_t i = 0; i < r->count; i++)
        TRY(write_one(r, t, c, index, i, err));
    rc = txn_commit(t, err);
out:
    txn_end(t);
    return rc;
}

/* false: nothing was done, for now. */
static bool make_round(struct round *r, const struct vector_embedder *e, struct error *err,
                       enum errc *rc)
{
    *rc = take_notes(r, err);
    if (*rc != OK || !r->count)
        return false;
    *rc = embed_texts(r, e, err);
    for (int i = 0; *rc == OK && i < COMMIT_TRIES; i++) {
        *rc = write_rows(r, err);
        if (*rc != ERR_CONFLICT)
            break;
        if (i + 1 < COMMIT_TRIES)
            *rc = OK; /* a document changed meanwhile: its new text has a note of its own */
    }
    if (*rc == OK)
        metric_add(&embedded_total, (int64_t)r->count);
    return *rc == OK;
}

/* ---- the thread ---- */

/* Lock held. Notes how it went; true when more may be done at once. */
static bool note_round(struct vectors *v, const struct round *r, uint64_t object_id, enum errc rc,
                       const struct error *err)
{
    struct vector_index *x = vectors_find(v, object_id);
    if (!x)
        return false;
    x->lag = r->lag;
    if (rc == OK) {
        x->embed_pause_us = 0;
        x->embed_error[0] = 0;
        return r->count > 0;
    }
    if (strcmp(x->embed_error, err->text) != 0)
        log_warn("store", "texts of vector index %s wait: %s", x->name, err->text);
    snprintf(x->embed_error, sizeof x->embed_error, "%s", err->text);
    x->embed_pause_us = x->embed_pause_us ? x->embed_pause_us * 2 : PAUSE_FIRST_US;
    if (x->embed_pause_us > PAUSE_MAX_US)
        x->embed_pause_us = PAUSE_MAX_US;
    x->embed_at_us = env_mono_us(env_system()) + x->embed_pause_us;
    metric_add(&failures_total, 1);
    return false;
}

/* Lock held. An index with a source whose turn it is, behind object_id in the table. */
static struct vector_index *next_source(struct vectors *v, uint64_t object_id)
{
    uint64_t now = env_mono_us(env_system());
    for (size_t i = 0; i < v->index_count; i++) {
        struct vector_index *x = v->indexes[i];
        if (x->object_id > object_id && x->has_source && x->embed_at_us <= now)
            return x;
    }
    return NULL;
}

static void show_lag(struct vectors *v)
{
    int64_t pending = 0, age = 0;
    for (size_t i = 0; i < v->index_count; i++) {
        pending += (int64_t)v->indexes[i]->lag.pending;
        if ((int64_t)v->indexes[i]->lag.age_ms > age)
            age = (int64_t)v->indexes[i]->lag.age_ms;
    }
    metric_set(&pending_texts, pending);
    metric_set(&lag_ms, age);
}

/* Lock held at both ends. A round for each index; true when something was done. */
static bool serve_all(struct vectors *v)
{
    bool has_done = false;
    uint64_t object_id = 0;
    struct vector_index *x;
    while (!v->is_embed_stopping && (x = next_source(v, object_id))) {
        struct error err;
        enum errc rc;
        struct round r = { .vectors = v,
                           .collection_id = x->collection_id,
                           .index_id = x->index_id,
                           .arena = arena_new(0) };
        object_id = x->object_id;
        pthread_mutex_unlock(&v->lock);
        (void)make_round(&r, &v->embedder, &err, &rc);
        pthread_mutex_lock(&v->lock);
        has_done |= note_round(v, &r, object_id, rc, &err);
        arena_free(r.arena);
    }
    show_lag(v);
    return has_done;
}

static void *embed_main(void *arg)
{
    struct vectors *v = arg;
    prctl(PR_SET_NAME, "vector-embed");
    pthread_mutex_lock(&v->lock);
    while (!v->is_embed_stopping) {
        v->has_notes = false;
        if (serve_all(v) || v->has_notes || v->is_embed_stopping)
            continue;
        struct timespec end;
        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_sec += 1;
        pthread_cond_timedwait(&v->notes, &v->lock, &end);
    }
    pthread_mutex_unlock(&v->lock);
    return NULL;
}

/* ---- who embeds ---- */

void store_retry_embedding(struct store *s)
{
    struct vectors *v = s->vectors;
    pthread_mutex_lock(&v->lock);
    for (size_t i = 0; i < v->index_count; i++) {
        v->indexes[i]->embed_at_us = 0;
        v->indexes[i]->embed_pause_us = 0;
    }
    v->has_notes = true;
    pthread_cond_signal(&v->notes);
    pthread_mutex_unlock(&v->lock);
}

void store_stop_embedding(struct store *s)
{
    struct vectors *v = s->vectors;
    pthread_mutex_lock(&v->lock);
    bool is_running = v->is_embedding;
    v->is_embed_stopping = true;
    v->is_embedding = false;
    pthread_cond_signal(&v->notes);
    pthread_mutex_unlock(&v->lock);
    atomic_store(&v->is_embed_cancelled, true);
    if (is_running)
        pthread_join(v->embed_thread, NULL);
}

enum errc store_start_embedding(struct store *s, const struct vector_embedder *e, struct error *err)
{
    struct vectors *v = s->vectors;
    store_stop_embedding(s);
    metric_register(&pending_texts);
    metric_register(&lag_ms);
    metric_register(&embedded_total);
    metric_register(&failures_total);
    v->embedder = *e;
    atomic_store(&v->is_embed_cancelled, false);
    pthread_mutex_lock(&v->lock); /* commits look whether somebody embeds */
    v->is_embed_stopping = false;
    v->is_embedding = pthread_create(&v->embed_thread, NULL, embed_main, v) == 0;
    bool is_running = v->is_embedding;
    pthread_mutex_unlock(&v->lock);
    return is_running ? OK : fail(err, ERR_LIMIT, "cannot start the thread that embeds texts");
}
