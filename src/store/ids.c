/* SPDX-License-Identifier: Apache-2.0 */
#include "store/ids.h"

#include <stdatomic.h>

#include "base/key.h"

enum {
    ID_HEADROOM = 1 << 16,
    CLOCK_HEADROOM_MS = 1000,
    CLOCK_COUNT_BITS = 12,
    NODE_BITS = 10,
};

static const char ids_key[] = "ids";
static const char digits[] = "-_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

static void add_limits(struct ids *ids, struct kv_batch *batch)
{
    struct buf value;
    buf_init(&value, 0);
    ids->next_limit = atomic_load(&ids->next) + ID_HEADROOM;
    ids->clock_limit = atomic_load(&ids->clock) + ((uint64_t)CLOCK_HEADROOM_MS << CLOCK_COUNT_BITS);
    key_add_u64(&value, ids->next_limit);
    key_add_u64(&value, ids->clock_limit);
    kv_batch_add(batch, &(struct kv_record){ .op = KV_PUT,
                                             .family = KV_META,
                                             .key = slice_str(ids_key),
                                             .value = buf_slice(&value) });
    buf_release(&value);
}

static enum errc read_limits(struct ids *ids, struct kv *kv, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct slice value = { NULL, 0 };
    enum errc rc = kv_get(kv, NULL, KV_META, slice_str(ids_key), arena, &value, err);
    if (rc == ERR_NOT_FOUND) {
        rc = OK;
    } else if (rc == OK && value.len != 16) {
        rc = fail(err, ERR_CORRUPT, "the record of ids has %zu bytes instead of 16", value.len);
    } else if (rc == OK) {
        ids->next = key_read_u64(value.ptr);
        ids->clock = key_read_u64(value.ptr + 8);
    }
    arena_free(arena);
    return rc;
}

enum errc ids_open(struct ids *ids, struct kv *kv, const struct env *env, uint16_t node,
                   struct error *err)
{
    enum errc rc = OK;
    struct kv_batch batch;
    kv_batch_init(&batch);
    if (node >= NODE_COUNT_MAX) {
        rc = fail(err, ERR_INVALID, "node number %u: the highest is %d", node, NODE_COUNT_MAX - 1);
        goto out;
    }
    *ids = (struct ids){ .env = env, .node = node, .next = 100 };
    TRY(read_limits(ids, kv, err));
    add_limits(ids, &batch);
    TRY(kv_write(kv, &batch, true, err));
out:
    kv_batch_release(&batch);
    return rc;
}

uint64_t ids_new(struct ids *ids)
{
    return (uint64_t)ids->node << 48 | atomic_fetch_add(&ids->next, 1);
}

uint64_t ids_new_rev(struct ids *ids)
{
    uint64_t now = env_wall_us(ids->env) / 1000 << CLOCK_COUNT_BITS;
    uint64_t last = atomic_load(&ids->clock), next;
    do
        next = now > last ? now : last + 1;
    while (!atomic_compare_exchange_weak(&ids->clock, &last, next));
    return next << NODE_BITS | ids->node;
}

void ids_cover(struct ids *ids, struct kv_batch *batch)
{
    if (atomic_load(&ids->next) > ids->next_limit || atomic_load(&ids->clock) > ids->clock_limit)
        add_limits(ids, batch);
}

void ids_uncover(struct ids *ids)
{
    ids->next_limit = ids->clock_limit = 0;
}

size_t rev_encode(uint64_t rev, char out[REV_TEXT_BYTES])
{
    char reversed[REV_TEXT_BYTES];
    size_t n = 0;
    do
        reversed[n++] = digits[rev & 63];
    while (rev >>= 6);
    for (size_t i = 0; i < n; i++)
        out[i] = reversed[n - 1 - i];
    return n;
}

bool rev_decode(struct slice text, uint64_t *out)
{
    uint64_t rev = 0;
    if (text.len == 0 || text.len > 11)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        const char *digit = text.ptr[i] ? strchr(digits, text.ptr[i]) : NULL;
        if (!digit || rev >> 58)
            return false;
        rev = rev << 6 | (uint64_t)(digit - digits);
    }
    *out = rev;
    return true;
}

uint64_t rev_ms(uint64_t rev)
{
    return rev >> (NODE_BITS + CLOCK_COUNT_BITS);
}

unsigned rev_count(uint64_t rev)
{
    return (unsigned)(rev >> NODE_BITS) & ((1U << CLOCK_COUNT_BITS) - 1);
}
