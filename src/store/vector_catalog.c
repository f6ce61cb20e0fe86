/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which vector indexes there are, as the catalog says, and which files belong
 * to them, as the meta family says: "vector/", object id, number of the file.
 */
#include "base/key.h"
#include "base/log.h"
#include "store/index_private.h"
#include "store/vector_file.h"
#include "store/vector_private.h"

/* ---- references to files ---- */

static const char ref_prefix[] = "vector/";

static void ref_key(struct buf *out, uint64_t object_id, uint64_t number)
{
    buf_clear(out);
    buf_add_str(out, ref_prefix);
    key_add_u64(out, object_id);
    key_add_u64(out, number);
}

enum errc vector_refs_change(struct vectors *v, uint64_t object_id, const uint64_t *removed,
                             size_t removed_count, uint64_t added, struct error *err)
{
    struct kv_batch batch;
    struct buf key;
    kv_batch_init(&batch);
    buf_init(&key, 0);
    for (size_t i = 0; i < removed_count; i++) {
        ref_key(&key, object_id, removed[i]);
        kv_batch_add(&batch, &(struct kv_record){
                                 .op = KV_DELETE, .family = KV_META, .key = buf_slice(&key) });
    }
    if (added) {
        ref_key(&key, object_id, added);
        kv_batch_add(
            &batch, &(struct kv_record){ .op = KV_PUT, .family = KV_META, .key = buf_slice(&key) });
    }
    enum errc rc = batch.count ? kv_write(v->store->kv, &batch, true, err) : OK;
    buf_release(&key);
    kv_batch_release(&batch);
    return rc;
}

enum errc vector_refs_list(struct vectors *v, struct arena *arena, uint64_t **pairs, size_t *count,
                           struct error *err)
{
    enum { KEY_BYTES = sizeof ref_prefix - 1 + 16 };
    struct kv_iter *it = NULL;
    struct buf end;
    size_t cap = 0;
    *pairs = NULL;
    *count = 0;
    buf_init(&end, 0);
    buf_add_str(&end, ref_prefix);
    key_prefix_end(&end);
    enum errc rc =
        kv_iter_new(&it, v->store->kv, NULL, KV_META,
                    &(struct kv_scan){ .from = slice_str(ref_prefix), .to = buf_slice(&end) }, err);
    for (; rc == OK && kv_iter_valid(it); kv_iter_next(it)) {
        struct slice key = kv_iter_key(it);
        if (key.len != KEY_BYTES)
            continue;
        if (*count == cap) {
            uint64_t *more = arena_alloc(arena, (cap * 2 + 8) * 2 * sizeof *more);
            if (cap)
                memcpy(more, *pairs, cap * 2 * sizeof *more);
            *pairs = more;
            cap = cap * 2 + 8;
        }
        (*pairs)[*count * 2] = key_read_u64(key.ptr + KEY_BYTES - 16);
        (*pairs)[*count * 2 + 1] = key_read_u64(key.ptr + KEY_BYTES - 8);
        ++*count;
    }
    if (rc == OK)
        rc = kv_iter_check(it, err);
    kv_iter_free(it);
    buf_release(&end);
    return rc;
}

/* ---- following the catalog ---- */

static struct vector_index *index_new(const struct collection *c, const struct index_def *def)
{
    struct vector_index *x = mem_zalloc(sizeof *x);
    struct buf name;
    buf_init(&name, 0);
    buf_printf(&name, "%.*s/%.*s", SLICE_ARG(c->name), SLICE_ARG(def->name));
    x->object_id = def->object_id;
    x->collection_id = c->id;
    x->index_id = def->id;
    x->name = mem_strdup(buf_cstr(&name));
    x->dimension = def->dimension;
    x->metric = def->metric;
    x->links = def->links;
    x->has_source = def->source_count > 0;
    buf_release(&name);
    return x;
}

static void follow_collection(struct vectors *v, const struct collection *c)
{
    for (size_t i = 0; i < c->index_count; i++) {
        const struct index_def *def = &c->indexes[i];
        if (def->kind != INDEX_VECTOR || !def->is_ready)
            continue;
        pthread_mutex_lock(&v->lock);
        struct vector_index *x = vectors_find(v, def->object_id);
        if (x)
            x->is_dropped = false;
        else
            vectors_add(v, index_new(c, def));
        pthread_mutex_unlock(&v->lock);
    }
}

/* Files that the catalog does not lead to, and references without an index. */
struct refs {
    uint64_t *pairs;
    size_t count;
};

static bool is_referenced(void *ctx, uint64_t object_id, uint64_t number)
{
    const struct refs *refs = ctx;
    for (size_t i = 0; i < refs->count; i++)
        if (refs->pairs[2 * i] == object_id && refs->pairs[2 * i + 1] == number)
            return true;
    return false;
}

static void tidy_files(struct vectors *v)
{
    struct error err;
    struct refs refs = { NULL, 0 };
    struct arena *arena = arena_new(0);
    size_t kept = 0;
    enum errc rc = vector_refs_list(v, arena, &refs.pairs, &refs.count, &err);
    for (size_t i = 0; rc == OK && i < refs.count; i++) {
        pthread_mutex_lock(&v->lock);
        bool is_known = vectors_find(v, refs.pairs[2 * i]) != NULL;
        pthread_mutex_unlock(&v->lock);
        if (!is_known) {
            rc = vector_refs_change(v, refs.pairs[2 * i], &refs.pairs[2 * i + 1], 1, 0, &err);
            continue;
        }
        refs.pairs[2 * kept] = refs.pairs[2 * i];
        refs.pairs[2 * kept + 1] = refs.pairs[2 * i + 1];
        kept++;
    }
    refs.count = kept;
    if (rc == OK)
        vector_files_tidy(v->dir, is_referenced, &refs);
    else
        log_warn("store", "files of vector indexes stay for now: %s", err.text);
    arena_free(arena);
}

/* Takes an index that is no longer in the catalog out of the table, or answers NULL. */
static struct vector_index *take_dropped(struct vectors *v)
{
    struct vector_index *x = NULL;
    pthread_mutex_lock(&v->lock);
    for (size_t i = 0; i < v->index_count && !x; i++)
        if (v->indexes[i]->is_dropped)
            x = v->indexes[i];
    bool is_built = x && v->build && v->build->index == x;
    if (x && !is_built)
        vectors_remove(v, x);
    pthread_mutex_unlock(&v->lock);
    if (is_built) {
        atomic_store(&v->build->is_cancelled, true);
        vector_build_finish(v);
        return take_dropped(v);
    }
    return x;
}

void vectors_follow_catalog(struct vectors *v)
{
    pthread_mutex_lock(&v->lock);
    v->is_catalog_new = false;
    uint64_t staged = v->staged_seq;
    for (size_t i = 0; i < v->index_count; i++)
        v->indexes[i]->is_dropped = true;
    pthread_mutex_unlock(&v->lock);
    struct view *view = vectors_wait_view(v, staged);
    if (!view)
        return;
    const struct catalog *catalog = view->catalog;
    for (size_t i = 0; i < catalog->database_count; i++)
        for (size_t j = 0; j < catalog->databases[i].collection_count; j++)
            follow_collection(v, &catalog->databases[i].collections[j]);
    committer_release(v->store->committer, view);
    bool has_dropped = false;
    for (struct vector_index *x; (x = take_dropped(v));) {
        has_dropped = true;
        vector_index_free(x);
    }
    if (v->dir && (has_dropped || !v->is_started))
        tidy_files(v);
    v->is_started = true;
}
