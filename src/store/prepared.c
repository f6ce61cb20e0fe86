/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries in a list: a node coordinates or takes part in few at a time. The
 * count is read without the lock, so that nothing is paid while it is zero.
 *
 * The keys to be written are kept sorted, family byte first: readers look a key
 * or a range up in them; writers are checked against the guard.
 */
#include "store/prepared.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/key.h"
#include "base/metrics.h"

enum { RECORD_VERSION = 1, COUNTER_BYTES = 17 };

static const char prefix[] = "prepared/";

struct prepared {
    struct slice name;      /* owned */
    struct read_set *guard; /* owned */
    struct slice *keys;     /* owned, sorted, into bytes */
    struct buf bytes;       /* owned */
    size_t key_count;
    uint64_t seq, end_seq; /* commits that prepare and end it; end_seq 0 = undecided */
    uint64_t wall_us;
    unsigned waiting;
    bool is_committed, is_over; /* over: out of the list, freed by the last who waits */
    struct prepared *next;
};

struct prepared_table {
    pthread_mutex_t lock; /* of everything but count */
    pthread_cond_t settled;
    struct prepared *first;
    _Atomic size_t count;
    size_t bytes;
    struct prepared_limits limits;
    const struct env *env;
};

static struct metric prepared_now = METRIC_GAUGE(
    "themis_prepared_transactions", "Transactions that are prepared and wait for the decision.");

/* ---- records ---- */

void prepared_key(struct buf *out, struct slice name)
{
    buf_add_str(out, prefix);
    buf_add_slice(out, name);
}

void prepared_encode(struct buf *out, uint64_t wall_us, const struct read_set *guard,
                     const struct counter_change *counters, size_t counter_count,
                     struct slice writes)
{
    key_add_u8(out, RECORD_VERSION);
    key_add_u64(out, wall_us);
    read_set_encode(guard, out);
    key_add_u64(out, counter_count);
    for (size_t i = 0; i < counter_count; i++) {
        key_add_u8(out, (uint8_t)counters[i].kind);
        key_add_u64(out, counters[i].id);
        key_add_u64(out, (uint64_t)counters[i].value);
    }
    buf_add_slice(out, writes);
}

static bool batch_is_whole(struct slice batch)
{
    struct kv_record record;
    size_t at = 0;
    while (kv_batch_next(batch, &at, &record))
        ;
    return at == batch.len;
}

enum errc prepared_decode(struct prepared_record *out, struct slice bytes, struct error *err)
{
    struct slice version;
    uint64_t count;
    *out = (struct prepared_record){ 0 };
    bool is_good = key_take_bytes(&bytes, 1, &version) && version.ptr[0] == RECORD_VERSION &&
                   key_take_u64(&bytes, &out->wall_us) && read_set_decode(&out->guard, &bytes) &&
                   key_take_u64(&bytes, &count) && count <= bytes.len / COUNTER_BYTES &&
                   key_take_bytes(&bytes, count * COUNTER_BYTES, &out->counters) &&
                   batch_is_whole(bytes);
    if (!is_good) {
        prepared_record_release(out);
        return fail(err, ERR_CORRUPT, "the record of a prepared transaction is damaged");
    }
    out->writes = bytes;
    return OK;
}

void prepared_record_release(struct prepared_record *r)
{
    read_set_free(r->guard);
    r->guard = NULL;
}

enum errc prepared_counters(const struct prepared_record *r, struct arena *arena,
                            struct counter_change **out, size_t *count, struct error *err)
{
    *count = r->counters.len / COUNTER_BYTES;
    *out = arena_alloc(arena, *count * sizeof **out);
    for (size_t i = 0; i < *count; i++) {
        const char *at = r->counters.ptr + i * COUNTER_BYTES;
        if ((uint8_t)at[0] > COUNTER_INCREMENT)
            return fail(err, ERR_CORRUPT, "a prepared transaction has a counter of kind %d", at[0]);
        (*out)[i] = (struct counter_change){ .kind = (enum counter_kind)at[0],
                                             .id = key_read_u64(at + 1),
                                             .value = (int64_t)key_read_u64(at + 9) };
    }
    return OK;
}

/* ---- entries ---- */

static int compare_slices(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

/* Copies the keys of the batch. */
static void take_keys(struct prepared *p, struct slice writes)
{
    struct kv_record record;
    size_t total = 0, n = 0;
    for (size_t at = 0; kv_batch_next(writes, &at, &record); p->key_count++)
        total += record.key.len + 1;
    p->keys = mem_alloc((p->key_count + 1) * sizeof *p->keys);
    char *to = buf_reserve(&p->bytes, total + 1);
    for (size_t at = 0; kv_batch_next(writes, &at, &record); n++) {
        p->keys[n] = slice_of(to, record.key.len + 1);
        *to++ = (char)record.family;
        if (record.key.len)
            memcpy(to, record.key.ptr, record.key.len);
        to += record.key.len;
    }
    qsort(p->keys, p->key_count, sizeof *p->keys, compare_slices);
}

enum errc prepared_new(struct prepared **out, struct slice name, struct slice record,
                       struct error *err)
{
    struct prepared_record r;
    *out = NULL;
    enum errc rc = prepared_decode(&r, record, err);
    if (rc != OK)
        return rc;
    struct prepared *p = mem_zalloc(sizeof *p);
    p->name = slice_of(mem_strndup(name), name.len);
    p->wall_us = r.wall_us;
    p->guard = r.guard;
    buf_init(&p->bytes, 0);
    take_keys(p, r.writes);
    *out = p;
    return OK;
}

void prepared_free(struct prepared *p)
{
    if (!p)
        return;
    mem_free((char *)p->name.ptr);
    read_set_free(p->guard);
    mem_free(p->keys);
    buf_release(&p->bytes);
    mem_free(p);
}

static size_t entry_bytes(const struct prepared *p)
{
    return sizeof *p + read_set_bytes(p->guard) + p->bytes.cap + p->key_count * sizeof *p->keys;
}

/* First key that is not below the given one. */
static size_t lower_bound(const struct prepared *p, struct slice key)
{
    size_t low = 0, high = p->key_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slice_cmp(p->keys[middle], key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- table ---- */

static struct prepared **find(struct prepared_table *t, struct slice name)
{
    struct prepared **p = &t->first;
    while (*p && !slice_eq((*p)->name, name))
        p = &(*p)->next;
    return p;
}

/* One that the committer knows to be there. */
static struct prepared **must_find(struct prepared_table *t, struct slice name)
{
    struct prepared **at = find(t, name);
    if (!*at)
        BUG("a prepared transaction is not in the table");
    return at;
}

static void link_entry(struct prepared_table *t, struct prepared *p)
{
    p->next = t->first;
    t->first = p;
    t->bytes += entry_bytes(p);
    metric_set(&prepared_now, (int64_t)(atomic_fetch_add(&t->count, 1) + 1));
}

/* Lock held. */
static void unlink_entry(struct prepared_table *t, struct prepared **at)
{
    struct prepared *p = *at;
    *at = p->next;
    t->bytes -= entry_bytes(p);
    metric_set(&prepared_now, (int64_t)(atomic_fetch_sub(&t->count, 1) - 1));
    p->is_over = true;
    if (!p->waiting)
        prepared_free(p);
}

static enum errc load(struct prepared_table *t, struct kv *kv, struct error *err)
{
    struct kv_iter *it = NULL;
    struct kv_scan all = { .from = slice_str("prepared/"), .to = slice_str("prepared0") };
    enum errc rc = kv_iter_new(&it, kv, NULL, KV_META, &all, err);
    for (; rc == OK && kv_iter_valid(it); kv_iter_next(it)) {
        struct slice key = kv_iter_key(it);
        struct slice name = slice_of(key.ptr + strlen(prefix), key.len - strlen(prefix));
        struct prepared *p;
        rc = prepared_new(&p, name, kv_iter_value(it), err);
        if (rc == OK)
            link_entry(t, p);
        else
            wrap(err, "prepared transaction '%.*s'", SLICE_ARG(name));
    }
    if (rc == OK)
        rc = kv_iter_check(it, err);
    kv_iter_free(it);
    return rc;
}

enum errc prepared_table_open(struct prepared_table **out, struct kv *kv, const struct env *env,
                              const struct prepared_limits *limits, struct error *err)
{
    struct prepared_table *t = mem_zalloc(sizeof *t);
    pthread_condattr_t monotonic;
    metric_register(&prepared_now);
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->settled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    t->limits = *limits;
    t->env = env;
    enum errc rc = load(t, kv, err);
    if (rc != OK) {
        prepared_table_free(t);
        t = NULL;
    }
    *out = t;
    return rc;
}

void prepared_table_free(struct prepared_table *t)
{
    if (!t)
        return;
    while (t->first)
        unlink_entry(t, &t->first);
    pthread_cond_destroy(&t->settled);
    pthread_mutex_destroy(&t->lock);
    mem_free(t);
}

/* ---- committer ---- */

enum errc prepared_may_add(struct prepared_table *t, const struct prepared *p, struct error *err)
{
    enum errc rc = OK;
    pthread_mutex_lock(&t->lock);
    if (*find(t, p->name))
        rc = fail(err, ERR_EXISTS, "a transaction is prepared under the name '%.*s' already",
                  SLICE_ARG(p->name));
    else if (atomic_load(&t->count) >= PREPARED_MAX)
        rc = fail(err, ERR_LIMIT, "%d transactions are prepared already, which is the limit",
                  PREPARED_MAX);
    else if (t->bytes + entry_bytes(p) > t->limits.max_bytes)
        rc = fail(err, ERR_LIMIT,
                  "prepared transactions would hold more than their %zu bytes (setting window_mb)",
                  t->limits.max_bytes);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

void prepared_add(struct prepared_table *t, struct prepared *p, uint64_t seq)
{
    pthread_mutex_lock(&t->lock);
    p->seq = seq;
    link_entry(t, p);
    pthread_mutex_unlock(&t->lock);
}

void prepared_take_back(struct prepared_table *t, struct slice name)
{
    pthread_mutex_lock(&t->lock);
    unlink_entry(t, must_find(t, name));
    pthread_mutex_unlock(&t->lock);
}

enum errc prepared_end(struct prepared_table *t, struct slice name, uint64_t seq, bool is_commit,
                       struct error *err)
{
    enum errc rc = OK;
    pthread_mutex_lock(&t->lock);
    struct prepared *p = *find(t, name);
    if (p && !p->end_seq) {
        p->end_seq = seq;
        p->is_committed = is_commit;
    } else {
        rc = fail(err, ERR_NOT_FOUND, "no transaction is prepared under the name '%.*s'",
                  SLICE_ARG(name));
    }
    pthread_mutex_unlock(&t->lock);
    return rc;
}

void prepared_settle(struct prepared_table *t, struct slice name, bool is_written)
{
    pthread_mutex_lock(&t->lock);
    struct prepared **at = must_find(t, name);
    if (is_written) {
        unlink_entry(t, at);
        pthread_cond_broadcast(&t->settled);
    } else {
        (*at)->end_seq = 0;
    }
    pthread_mutex_unlock(&t->lock);
}

/* A key of the batch that the entry guards, or a key it will write that was read. */
static bool clashes(const struct prepared *p, struct slice batch, const struct read_set *reads,
                    struct buf *conflict)
{
    struct kv_record r;
    for (size_t at = 0; kv_batch_next(batch, &at, &r);) {
        if (read_set_holds(p->guard, r.family, r.key)) {
            buf_clear(conflict);
            buf_add_char(conflict, (char)r.family);
            buf_add_slice(conflict, r.key);
            return true;
        }
    }
    for (size_t i = 0; reads && i < p->key_count; i++) {
        struct slice key = p->keys[i];
        if (read_set_holds(reads, (enum kv_family)(uint8_t)key.ptr[0],
                           slice_of(key.ptr + 1, key.len - 1))) {
            buf_clear(conflict);
            buf_add_slice(conflict, key);
            return true;
        }
    }
    return false;
}

enum errc prepared_check(struct prepared_table *t, struct slice batch, const struct read_set *reads,
                         struct buf *conflict, struct error *err)
{
    enum errc rc = OK;
    if (!atomic_load_explicit(&t->count, memory_order_relaxed)) /* only this turn adds */
        return OK;
    pthread_mutex_lock(&t->lock);
    for (const struct prepared *p = t->first; rc == OK && p; p = p->next)
        if (!p->end_seq && clashes(p, batch, reads, conflict))
            rc = fail(err, ERR_CONFLICT, "held by the prepared transaction '%.*s'",
                      SLICE_ARG(p->name));
    pthread_mutex_unlock(&t->lock);
    return rc;
}

/* ---- readers ---- */

/* An entry whose outcome the view needs. Lock held. */
static struct prepared *in_the_way(const struct prepared_table *t, uint64_t view_seq,
                                   struct slice from, struct slice to)
{
    for (struct prepared *p = t->first; p; p = p->next) {
        if (view_seq < p->seq || (p->end_seq && view_seq >= p->end_seq))
            continue; /* from before it was prepared, or from after the end */
        size_t i = lower_bound(p, from);
        if (i < p->key_count && slice_cmp(p->keys[i], to) < 0)
            return p;
    }
    return NULL;
}

static enum errc wait_for(struct prepared_table *t, struct prepared *p, const struct timespec *end,
                          struct error *err)
{
    enum errc rc = OK;
    p->waiting++;
    while (!p->is_over && pthread_cond_timedwait(&t->settled, &t->lock, end) == 0)
        ;
    p->waiting--;
    if (!p->is_over)
        rc = fail(err, ERR_CONFLICT,
                  "the prepared transaction '%.*s' is undecided for more than %" PRIu64
                  " ms; try again",
                  SLICE_ARG(p->name), t->limits.wait_ms);
    else if (p->is_committed)
        rc = fail(err, ERR_CONFLICT,
                  "the prepared transaction '%.*s' has changed what was to be read; try again",
                  SLICE_ARG(p->name));
    if (p->is_over && !p->waiting)
        prepared_free(p);
    return rc;
}

static struct timespec deadline(uint64_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t ns = (uint64_t)t.tv_nsec + ms % 1000 * 1000000;
    return (struct timespec){ .tv_sec = t.tv_sec + (time_t)(ms / 1000 + ns / 1000000000),
                              .tv_nsec = (long)(ns % 1000000000) };
}

/* Bounds with the family byte. */
static enum errc wait_bounds(struct prepared_table *t, uint64_t view_seq, struct slice from,
                             struct slice to, struct error *err)
{
    enum errc rc = OK;
    struct prepared *p;
    struct timespec end = deadline(t->limits.wait_ms);
    pthread_mutex_lock(&t->lock);
    while (rc == OK && (p = in_the_way(t, view_seq, from, to)) != NULL)
        rc = wait_for(t, p, &end, err);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

enum errc prepared_wait_range(struct prepared_table *t, uint64_t view_seq, enum kv_family f,
                              struct slice from, struct slice to, struct error *err)
{
    struct buf low, high;
    if (!atomic_load_explicit(&t->count, memory_order_acquire))
        return OK;
    buf_init(&low, 0);
    buf_init(&high, 0);
    buf_add_char(&low, (char)f);
    buf_add_slice(&low, from);
    buf_add_char(&high, (char)(to.len ? f : f + 1));
    buf_add_slice(&high, to);
    enum errc rc = wait_bounds(t, view_seq, buf_slice(&low), buf_slice(&high), err);
    buf_release(&low);
    buf_release(&high);
    return rc;
}

enum errc prepared_wait_key(struct prepared_table *t, uint64_t view_seq, enum kv_family f,
                            struct slice key, struct error *err)
{
    struct buf next;
    if (!atomic_load_explicit(&t->count, memory_order_acquire))
        return OK;
    buf_init(&next, 0);
    buf_add_slice(&next, key);
    buf_add_char(&next, 0);
    enum errc rc = prepared_wait_range(t, view_seq, f, key, buf_slice(&next), err);
    buf_release(&next);
    return rc;
}

size_t prepared_list(struct prepared_table *t, struct prepared_info *out, size_t max)
{
    size_t n = 0;
    uint64_t now = env_wall_us(t->env);
    pthread_mutex_lock(&t->lock);
    for (const struct prepared *p = t->first; p; p = p->next, n++) {
        if (n >= max)
            continue;
        memcpy(out[n].name, p->name.ptr, p->name.len);
        out[n].name_len = p->name.len;
        out[n].age_ms = now > p->wall_us ? (now - p->wall_us) / 1000 : 0;
    }
    pthread_mutex_unlock(&t->lock);
    return n;
}
