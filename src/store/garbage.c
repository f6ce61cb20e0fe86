/* SPDX-License-Identifier: Apache-2.0 */
#include "store/garbage.h"

#include <pthread.h>

#include "base/key.h"
#include "base/log.h"
#include "store/counter.h"

static const char prefix[] = "garbage/";

struct dead {
    uint64_t object_id, seq;
};

struct garbage {
    struct kv *kv;
    pthread_mutex_t lock; /* of the list of the dead */
    struct dead *dead;    /* owned */
    size_t count, cap;
};

void garbage_key(struct buf *out, uint64_t object_id)
{
    buf_add_str(out, prefix);
    key_add_u64(out, object_id);
}

void garbage_add(struct garbage *g, uint64_t object_id, uint64_t seq)
{
    pthread_mutex_lock(&g->lock);
    if (g->count == g->cap) {
        g->cap = g->cap ? g->cap * 2 : 16;
        g->dead = mem_realloc(g->dead, g->cap * sizeof *g->dead);
    }
    g->dead[g->count++] = (struct dead){ object_id, seq };
    pthread_mutex_unlock(&g->lock);
}

static enum errc load(struct garbage *g, struct error *err)
{
    struct kv_iter *it = NULL;
    struct buf end;
    buf_init(&end, 0);
    buf_add_str(&end, prefix);
    key_prefix_end(&end);
    enum errc rc =
        kv_iter_new(&it, g->kv, NULL, KV_META,
                    &(struct kv_scan){ .from = slice_str(prefix), .to = buf_slice(&end) }, err);
    for (; rc == OK && kv_iter_valid(it); kv_iter_next(it)) {
        struct slice key = kv_iter_key(it);
        if (key.len == sizeof prefix - 1 + 8)
            garbage_add(g, key_read_u64(key.ptr + sizeof prefix - 1), 0);
    }
    if (rc == OK)
        rc = kv_iter_check(it, err);
    kv_iter_free(it);
    buf_release(&end);
    return rc;
}

enum errc garbage_open(struct garbage **out, struct kv *kv, struct error *err)
{
    struct garbage *g = mem_zalloc(sizeof *g);
    g->kv = kv;
    pthread_mutex_init(&g->lock, NULL);
    enum errc rc = load(g, err);
    if (rc == OK) {
        *out = g;
    } else {
        *out = NULL;
        garbage_close(g);
    }
    return rc;
}

void garbage_close(struct garbage *g)
{
    if (!g)
        return;
    pthread_mutex_destroy(&g->lock);
    mem_free(g->dead);
    mem_free(g);
}

static bool find_ready(const struct garbage *g, uint64_t oldest_seq, size_t *at)
{
    for (size_t i = 0; i < g->count; i++) {
        if (g->dead[i].seq <= oldest_seq) {
            *at = i;
            return true;
        }
    }
    return false;
}

bool garbage_is_ready(struct garbage *g, uint64_t oldest_seq)
{
    size_t at;
    pthread_mutex_lock(&g->lock);
    bool ready = find_ready(g, oldest_seq, &at);
    pthread_mutex_unlock(&g->lock);
    return ready;
}

static void delete_object(struct garbage *g, uint64_t object_id)
{
    struct kv_batch batch;
    struct buf from, to, meta, count;
    struct error err;
    kv_batch_init(&batch);
    buf_init(&from, 0);
    buf_init(&to, 0);
    buf_init(&meta, 0);
    buf_init(&count, 0);
    key_add_u64(&from, object_id);
    key_add_u64(&to, object_id + 1);
    garbage_key(&meta, object_id);
    counter_key(&count, COUNTER_DOCUMENTS, object_id);
    for (int f = KV_DOC; f <= KV_INDEX; f++)
        kv_batch_add(&batch, &(struct kv_record){ .op = KV_DELETE_RANGE,
                                                  .family = (enum kv_family)f,
                                                  .key = buf_slice(&from),
                                                  .value = buf_slice(&to) });
    kv_batch_add(
        &batch, &(struct kv_record){ .op = KV_DELETE, .family = KV_META, .key = buf_slice(&meta) });
    kv_batch_add(&batch, &(struct kv_record){
                             .op = KV_DELETE, .family = KV_META, .key = buf_slice(&count) });
    if (kv_write(g->kv, &batch, false, &err) != OK) {
        log_warn("store", "deleted rows stay until the next start: %s", err.text);
    } else {
        kv_drop_files(g->kv, KV_DOC, buf_slice(&from), buf_slice(&to));
        kv_drop_files(g->kv, KV_INDEX, buf_slice(&from), buf_slice(&to));
    }
    buf_release(&from);
    buf_release(&to);
    buf_release(&meta);
    buf_release(&count);
    kv_batch_release(&batch);
}

void garbage_collect(struct garbage *g, uint64_t oldest_seq)
{
    size_t at;
    pthread_mutex_lock(&g->lock);
    while (find_ready(g, oldest_seq, &at)) {
        uint64_t object_id = g->dead[at].object_id;
        g->dead[at] = g->dead[--g->count];
        pthread_mutex_unlock(&g->lock);
        delete_object(g, object_id);
        pthread_mutex_lock(&g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}
