/* SPDX-License-Identifier: Apache-2.0 */
#include "store/counter.h"

#include "base/key.h"

struct counter {
    enum counter_kind kind;
    uint64_t id;
    int64_t value;
    bool is_used, is_changed; /* changed: since the last flush */
};

/* Open addressing; the number of collections is small. */
struct counter_table {
    struct kv *kv;
    struct counter *slots;
    size_t mask, count;
    struct counter_id {
        enum counter_kind kind;
        uint64_t id;
    } * changed; /* owned */
    size_t changed_count, changed_cap;
};

static const char *const prefixes[] = {
    [COUNTER_DOCUMENTS] = "count/",
    [COUNTER_INCREMENT] = "increment/",
};

void counter_key(struct buf *out, enum counter_kind kind, uint64_t id)
{
    buf_add_str(out, prefixes[kind]);
    key_add_u64(out, id);
}

enum errc counter_read(struct kv *kv, const struct kv_snapshot *snapshot, enum counter_kind kind,
                       uint64_t id, int64_t *out, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct slice value = { NULL, 0 };
    struct buf key;
    buf_init(&key, 0);
    counter_key(&key, kind, id);
    enum errc rc = kv_get(kv, snapshot, KV_META, buf_slice(&key), arena, &value, err);
    *out = 0;
    if (rc == ERR_NOT_FOUND)
        rc = OK;
    else if (rc == OK && value.len != 8)
        rc = fail(err, ERR_CORRUPT, "a counter has %zu bytes instead of 8", value.len);
    else if (rc == OK)
        *out = (int64_t)key_read_u64(value.ptr);
    buf_release(&key);
    arena_free(arena);
    return rc;
}

struct counter_table *counter_table_new(struct kv *kv)
{
    struct counter_table *t = mem_zalloc(sizeof *t);
    t->kv = kv;
    t->mask = 63;
    t->slots = mem_zalloc((t->mask + 1) * sizeof *t->slots);
    return t;
}

void counter_table_free(struct counter_table *t)
{
    if (!t)
        return;
    mem_free(t->slots);
    mem_free(t->changed);
    mem_free(t);
}

static struct counter *slot_for(const struct counter_table *t, enum counter_kind kind, uint64_t id)
{
    size_t i = (size_t)((id * 2 + (uint64_t)kind) * 0x9e3779b97f4a7c15u >> 20) & t->mask;
    while (t->slots[i].is_used && (t->slots[i].id != id || t->slots[i].kind != kind))
        i = (i + 1) & t->mask;
    return &t->slots[i];
}

static void grow(struct counter_table *t)
{
    struct counter *old = t->slots;
    size_t old_mask = t->mask;
    t->mask = t->mask * 2 + 1;
    t->slots = mem_zalloc((t->mask + 1) * sizeof *t->slots);
    for (size_t i = 0; i <= old_mask; i++)
        if (old[i].is_used)
            *slot_for(t, old[i].kind, old[i].id) = old[i];
    mem_free(old);
}

enum errc counter_table_load(struct counter_table *t, const struct counter_change *changes,
                             size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct counter_change *c = &changes[i];
        int64_t value;
        if (slot_for(t, c->kind, c->id)->is_used)
            continue;
        enum errc rc = counter_read(t->kv, NULL, c->kind, c->id, &value, err);
        if (rc != OK)
            return rc;
        if ((t->count + 1) * 10 > t->mask * 7)
            grow(t);
        *slot_for(t, c->kind, c->id) =
            (struct counter){ .kind = c->kind, .id = c->id, .value = value, .is_used = true };
        t->count++;
    }
    return OK;
}

static void write_counter(const struct counter *s, struct kv_batch *batch)
{
    struct buf key, value;
    buf_init(&key, 0);
    buf_init(&value, 0);
    counter_key(&key, s->kind, s->id);
    key_add_u64(&value, (uint64_t)s->value);
    kv_batch_add(batch, &(struct kv_record){ .op = KV_PUT,
                                             .family = KV_META,
                                             .key = buf_slice(&key),
                                             .value = buf_slice(&value) });
    buf_release(&key);
    buf_release(&value);
}

static void note_changed(struct counter_table *t, struct counter *s)
{
    if (s->is_changed)
        return;
    s->is_changed = true;
    if (t->changed_count == t->changed_cap) {
        t->changed_cap = t->changed_cap ? t->changed_cap * 2 : 16;
        t->changed = mem_realloc(t->changed, t->changed_cap * sizeof *t->changed);
    }
    t->changed[t->changed_count++] = (struct counter_id){ s->kind, s->id };
}

void counter_table_apply(struct counter_table *t, const struct counter_change *changes,
                         size_t count, struct kv_batch *batch)
{
    for (size_t i = 0; i < count; i++) {
        struct counter *s = slot_for(t, changes[i].kind, changes[i].id);
        assert(s->is_used);
        int64_t before = s->value;
        switch (changes[i].kind) {
        case COUNTER_DOCUMENTS:
            s->value += changes[i].value;
            break;
        case COUNTER_INCREMENT:
            if (changes[i].value > s->value)
                s->value = changes[i].value;
            break;
        }
        if (s->value == before)
            continue;
        note_changed(t, s);
        write_counter(s, batch);
    }
}

void counter_table_flush(struct counter_table *t, struct kv_batch *batch)
{
    for (size_t i = 0; i < t->changed_count; i++) {
        struct counter *s = slot_for(t, t->changed[i].kind, t->changed[i].id);
        write_counter(s, batch);
        s->is_changed = false;
    }
    t->changed_count = 0;
}

void counter_table_forget(struct counter_table *t)
{
    memset(t->slots, 0, (t->mask + 1) * sizeof *t->slots);
    t->count = t->changed_count = 0;
}
