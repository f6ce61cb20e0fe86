/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments of 4,096 entries and their key bytes, found through a ring. Entries
 * and bytes of a published position never change, so checking needs no lock
 * against appending; the lock keeps segments from being freed under a reader.
 *
 * Read keys are kept as 64-bit hashes: a collision can only refuse a good
 * commit. Ranges are kept with their bytes, sorted and joined.
 */
#include "store/trail.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/key.h"

enum { SEGMENT_ENTRIES = 4096, SEGMENTS_MAX = 1 << 16, CHUNK_BYTES = 64 * KIB };

struct entry {
    uint64_t hash;
    const char *key; /* family byte first */
    size_t len;
};

struct chunk {
    struct chunk *next;
    size_t used, size;
    char bytes[];
};

struct segment {
    struct entry entries[SEGMENT_ENTRIES];
    struct chunk *chunks;
    size_t bytes;
};

struct trail {
    struct segment *ring[SEGMENTS_MAX]; /* segment i at ring[i % SEGMENTS_MAX] */
    pthread_rwlock_t lock;              /* held for writing to free segments */
    uint64_t first;                     /* position, under the lock */
    _Atomic uint64_t end;
    _Atomic size_t bytes;
};

struct range {
    struct slice from, to; /* family byte first */
};

struct read_set {
    uint64_t *slots;
    size_t mask, count;
    struct range *ranges;
    size_t range_count, range_cap;
    struct chunk *chunks;
    size_t bytes;
};

/* ---- bytes ---- */

/* Family byte and key, in one piece. Returns the bytes newly taken from the allocator. */
static size_t chunk_add(struct chunk **chunks, enum kv_family f, struct slice key,
                        struct slice *out)
{
    struct chunk *c = *chunks;
    size_t len = key.len + 1, taken = 0;
    if (!c || c->used + len > c->size) {
        size_t size = c ? CHUNK_BYTES : 512;
        if (size < len)
            size = len;
        c = mem_alloc(sizeof *c + size);
        c->next = *chunks;
        c->used = 0;
        c->size = size;
        *chunks = c;
        taken = sizeof *c + size;
    }
    char *p = c->bytes + c->used;
    p[0] = (char)f;
    if (key.len)
        memcpy(p + 1, key.ptr, key.len);
    c->used += len;
    *out = slice_of(p, len);
    return taken;
}

static void chunks_free(struct chunk *c)
{
    while (c) {
        struct chunk *next = c->next;
        mem_free(c);
        c = next;
    }
}

static uint64_t hash_key(enum kv_family f, struct slice key)
{
    uint64_t h = hash_xxh3(key.ptr, key.len) + (uint64_t)f * 0x9e3779b97f4a7c15u;
    return h ? h : 1; /* 0 marks an empty slot */
}

/* ---- read set ---- */

struct read_set *read_set_new(void)
{
    struct read_set *r = mem_zalloc(sizeof *r);
    r->mask = 15;
    r->slots = mem_zalloc((r->mask + 1) * sizeof *r->slots);
    return r;
}

void read_set_free(struct read_set *r)
{
    if (!r)
        return;
    chunks_free(r->chunks);
    mem_free(r->slots);
    mem_free(r->ranges);
    mem_free(r);
}

static uint64_t *slot_for(const struct read_set *r, uint64_t h)
{
    size_t i = h & r->mask;
    while (r->slots[i] && r->slots[i] != h)
        i = (i + 1) & r->mask;
    return &r->slots[i];
}

static void grow(struct read_set *r)
{
    uint64_t *old = r->slots;
    size_t old_mask = r->mask;
    r->mask = r->mask * 2 + 1;
    r->slots = mem_zalloc((r->mask + 1) * sizeof *r->slots);
    for (size_t i = 0; i <= old_mask; i++)
        if (old[i])
            *slot_for(r, old[i]) = old[i];
    mem_free(old);
}

static void add_hash(struct read_set *r, uint64_t h)
{
    uint64_t *slot = slot_for(r, h);
    if (*slot)
        return;
    *slot = h;
    if (++r->count * 10 > r->mask * 7)
        grow(r);
}

void read_set_add_key(struct read_set *r, enum kv_family f, struct slice key)
{
    add_hash(r, hash_key(f, key));
}

void read_set_add_range(struct read_set *r, enum kv_family f, struct slice from, struct slice to)
{
    struct range g;
    if (r->range_count == r->range_cap) {
        r->range_cap = r->range_cap ? r->range_cap * 2 : 8;
        r->ranges = mem_realloc(r->ranges, r->range_cap * sizeof *r->ranges);
    }
    r->bytes += chunk_add(&r->chunks, f, from, &g.from);
    if (to.len)
        r->bytes += chunk_add(&r->chunks, f, to, &g.to);
    else
        r->bytes += chunk_add(&r->chunks, (enum kv_family)(f + 1), to, &g.to);
    r->ranges[r->range_count++] = g;
}

static int range_compare(const void *a, const void *b)
{
    return slice_cmp(((const struct range *)a)->from, ((const struct range *)b)->from);
}

void read_set_seal(struct read_set *r)
{
    size_t kept = 0;
    if (r->range_count < 2)
        return;
    qsort(r->ranges, r->range_count, sizeof *r->ranges, range_compare);
    for (size_t i = 1; i < r->range_count; i++) {
        struct range *last = &r->ranges[kept], *next = &r->ranges[i];
        if (slice_cmp(next->from, last->to) > 0)
            r->ranges[++kept] = *next;
        else if (slice_cmp(next->to, last->to) > 0)
            last->to = next->to;
    }
    r->range_count = kept + 1;
}

static bool ranges_hold(const struct read_set *r, struct slice key)
{
    size_t low = 0, high = r->range_count; /* first range that starts behind the key */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slice_cmp(r->ranges[middle].from, key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && slice_cmp(key, r->ranges[low - 1].to) < 0;
}

size_t read_set_bytes(const struct read_set *r)
{
    return r->bytes + (r->mask + 1) * sizeof *r->slots + r->range_cap * sizeof *r->ranges;
}

bool read_set_holds(const struct read_set *r, enum kv_family f, struct slice key)
{
    struct chunk *copy = NULL;
    struct slice full;
    if (*slot_for(r, hash_key(f, key)))
        return true;
    if (!r->range_count)
        return false;
    chunk_add(&copy, f, key, &full);
    bool holds = ranges_hold(r, full);
    chunks_free(copy);
    return holds;
}

static void encode_slice(struct buf *out, struct slice s)
{
    key_add_u64(out, s.len);
    buf_add_slice(out, s);
}

void read_set_encode(const struct read_set *r, struct buf *out)
{
    key_add_u64(out, r->count);
    for (size_t i = 0; i <= r->mask; i++)
        if (r->slots[i])
            key_add_u64(out, r->slots[i]);
    key_add_u64(out, r->range_count);
    for (size_t i = 0; i < r->range_count; i++) {
        encode_slice(out, r->ranges[i].from);
        encode_slice(out, r->ranges[i].to);
    }
}

/* Bound of a range: family byte first, which is one beyond the last for an open end. */
static bool decode_bound(struct slice *in, enum kv_family *f, struct slice *key)
{
    uint64_t len;
    struct slice bound;
    if (!key_take_u64(in, &len) || !key_take_bytes(in, len, &bound) || !len ||
        (uint8_t)bound.ptr[0] > KV_FAMILY_COUNT)
        return false;
    *f = (enum kv_family)(uint8_t)bound.ptr[0];
    *key = slice_of(bound.ptr + 1, bound.len - 1);
    return true;
}

static bool decode_range(struct read_set *r, struct slice *in)
{
    enum kv_family f, end;
    struct slice from, to;
    if (!decode_bound(in, &f, &from) || !decode_bound(in, &end, &to))
        return false;
    if (end == f ? !to.len : end != f + 1 || to.len)
        return false;
    read_set_add_range(r, f, from, to);
    return true;
}

static bool decode_set(struct read_set *r, struct slice *in)
{
    uint64_t count, h;
    if (!key_take_u64(in, &count) || count > in->len / 8)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (!key_take_u64(in, &h) || !h)
            return false;
        add_hash(r, h);
    }
    if (!key_take_u64(in, &count) || count > in->len / 16)
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (!decode_range(r, in))
            return false;
    read_set_seal(r);
    return true;
}

bool read_set_decode(struct read_set **out, struct slice *in)
{
    *out = read_set_new();
    if (decode_set(*out, in))
        return true;
    read_set_free(*out);
    *out = NULL;
    return false;
}

/* ---- trail ---- */

struct trail *trail_new(void)
{
    struct trail *t = mem_zalloc(sizeof *t);
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&t->lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    return t;
}

static void segment_free(struct segment *s)
{
    if (!s)
        return;
    chunks_free(s->chunks);
    mem_free(s);
}

void trail_free(struct trail *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < SEGMENTS_MAX; i++)
        segment_free(t->ring[i]);
    pthread_rwlock_destroy(&t->lock);
    mem_free(t);
}

static struct segment **segment_at(struct trail *t, uint64_t position)
{
    return &t->ring[position / SEGMENT_ENTRIES % SEGMENTS_MAX];
}

uint64_t trail_end(const struct trail *t)
{
    return atomic_load_explicit(&((struct trail *)t)->end, memory_order_acquire);
}

size_t trail_bytes(const struct trail *t)
{
    return atomic_load_explicit(&((struct trail *)t)->bytes, memory_order_relaxed);
}

static void forget_first(struct trail *t)
{
    struct segment **s = segment_at(t, t->first);
    pthread_rwlock_wrlock(&t->lock);
    atomic_fetch_sub(&t->bytes, (*s)->bytes);
    segment_free(*s);
    *s = NULL;
    t->first += SEGMENT_ENTRIES;
    pthread_rwlock_unlock(&t->lock);
}

void trail_add(struct trail *t, enum kv_family f, struct slice key)
{
    uint64_t end = trail_end(t);
    if (end - t->first == (uint64_t)SEGMENTS_MAX * SEGMENT_ENTRIES)
        forget_first(t);
    struct segment **s = segment_at(t, end);
    size_t taken = 0;
    if (end % SEGMENT_ENTRIES == 0) {
        *s = mem_zalloc(sizeof **s);
        taken = sizeof **s;
    }
    struct slice copy;
    taken += chunk_add(&(*s)->chunks, f, key, &copy);
    (*s)->bytes += taken;
    atomic_fetch_add(&t->bytes, taken);
    (*s)->entries[end % SEGMENT_ENTRIES] = (struct entry){ hash_key(f, key), copy.ptr, copy.len };
    atomic_store_explicit(&t->end, end + 1, memory_order_release);
}

enum trail_result trail_check(struct trail *t, uint64_t *position, const struct read_set *r,
                              struct buf *key)
{
    enum trail_result result = TRAIL_CLEAR;
    pthread_rwlock_rdlock(&t->lock);
    uint64_t end = trail_end(t), at = *position;
    if (at < t->first)
        result = TRAIL_FORGOTTEN;
    for (; result == TRAIL_CLEAR && at < end; at++) {
        const struct entry *e = &(*segment_at(t, at))->entries[at % SEGMENT_ENTRIES];
        if (*slot_for(r, e->hash) || (r->range_count && ranges_hold(r, slice_of(e->key, e->len)))) {
            buf_clear(key);
            buf_add(key, e->key, e->len);
            result = TRAIL_CONFLICT;
        }
    }
    pthread_rwlock_unlock(&t->lock);
    if (result == TRAIL_CLEAR)
        *position = end;
    return result;
}

void trail_forget(struct trail *t, uint64_t position, size_t max_bytes)
{
    while (trail_end(t) - t->first >= SEGMENT_ENTRIES &&
           (t->first + SEGMENT_ENTRIES <= position || trail_bytes(t) > max_bytes))
        forget_first(t);
}
