/* SPDX-License-Identifier: Apache-2.0 */
#include "model/shelf.h"

#include "base/metrics.h"
#include "model/prefix.h"

#include <pthread.h>

enum { ITEMS_MAX = 256 };

struct shelf_item {
    int32_t *tokens; /* owned */
    uint32_t count;
    uint64_t salt;
    char *state; /* owned */
    size_t state_bytes;
    uint64_t used_at; /* order of last use */
    uint32_t holders; /* the list is one */
};

struct shelf {
    pthread_mutex_t lock;
    struct shelf_item *items[ITEMS_MAX]; /* each held once */
    size_t count, bytes, bytes_max;
    uint64_t clock;
};

static struct metric shelf_bytes = METRIC_GAUGE(
    "themis_prefix_cache_bytes", "KV states of prompt beginnings kept in main memory.");

struct shelf *shelf_new(size_t max_bytes)
{
    struct shelf *s = mem_zalloc(sizeof *s);
    s->bytes_max = max_bytes;
    pthread_mutex_init(&s->lock, NULL);
    metric_register(&shelf_bytes);
    return s;
}

static size_t cost(const struct shelf_item *item)
{
    return item->state_bytes + item->count * sizeof *item->tokens;
}

void shelf_item_free(struct shelf_item *item)
{
    mem_free(item->tokens);
    mem_free(item->state);
    mem_free(item);
}

/* Lock held. Whoever still reads it frees it. */
static void take_off(struct shelf *s, size_t i)
{
    struct shelf_item *item = s->items[i];
    s->items[i] = s->items[--s->count];
    s->bytes -= cost(item);
    metric_add(&shelf_bytes, -(int64_t)cost(item));
    if (--item->holders == 0)
        shelf_item_free(item);
}

void shelf_free(struct shelf *s)
{
    if (!s)
        return;
    while (s->count > 0)
        take_off(s, s->count - 1);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

static uint32_t common(const struct shelf_item *item, const int32_t *tokens, uint32_t max)
{
    uint32_t n = 0;
    max = item->count < max ? item->count : max;
    while (n < max && item->tokens[n] == tokens[n])
        n++;
    return n;
}

/* Lock held. */
static struct shelf_item *longest(struct shelf *s, uint64_t salt, const int32_t *tokens,
                                  uint32_t max, uint32_t *len)
{
    struct shelf_item *best = NULL;
    *len = 0;
    for (size_t i = 0; i < s->count; i++) {
        uint32_t n = s->items[i]->salt == salt ? common(s->items[i], tokens, max) : 0;
        if (n > *len) {
            best = s->items[i];
            *len = n;
        }
    }
    return best;
}

const struct shelf_item *shelf_find(struct shelf *s, uint64_t salt, const int32_t *tokens,
                                    uint32_t max, uint32_t *len)
{
    pthread_mutex_lock(&s->lock);
    struct shelf_item *item = longest(s, salt, tokens, max, len);
    if (item && *len < PREFIX_MIN)
        item = NULL;
    if (item) {
        item->used_at = ++s->clock;
        item->holders++;
    } else {
        *len = 0;
    }
    pthread_mutex_unlock(&s->lock);
    return item;
}

struct slice shelf_state(const struct shelf_item *item)
{
    return slice_of(item->state, item->state_bytes);
}

void shelf_release(struct shelf *s, const struct shelf_item *held)
{
    struct shelf_item *item = (struct shelf_item *)held;
    pthread_mutex_lock(&s->lock);
    bool is_last = --item->holders == 0;
    pthread_mutex_unlock(&s->lock);
    if (is_last)
        shelf_item_free(item);
}

bool shelf_wants(struct shelf *s, uint64_t salt, const int32_t *tokens, uint32_t count,
                 size_t state_bytes)
{
    uint32_t len;
    if (count < PREFIX_MIN || state_bytes + count * sizeof *tokens > s->bytes_max)
        return false;
    pthread_mutex_lock(&s->lock);
    const struct shelf_item *item = longest(s, salt, tokens, count, &len);
    bool is_branch = item && len < item->count;
    bool is_wanted = is_branch ? count - len > len : count > len;
    pthread_mutex_unlock(&s->lock);
    return is_wanted;
}

struct shelf_item *shelf_item_new(uint64_t salt, const int32_t *tokens, uint32_t count,
                                  size_t state_bytes)
{
    struct shelf_item *item = mem_zalloc(sizeof *item);
    item->tokens = mem_alloc(count * sizeof *tokens);
    memcpy(item->tokens, tokens, count * sizeof *tokens);
    item->count = count;
    item->salt = salt;
    item->state = mem_alloc(state_bytes);
    item->state_bytes = state_bytes;
    return item;
}

void *shelf_room(struct shelf_item *item)
{
    return item->state;
}

static size_t least_used(const struct shelf *s)
{
    size_t oldest = 0;
    for (size_t i = 1; i < s->count; i++)
        if (s->items[i]->used_at < s->items[oldest]->used_at)
            oldest = i;
    return oldest;
}

void shelf_put(struct shelf *s, struct shelf_item *item)
{
    assert(cost(item) <= s->bytes_max);
    pthread_mutex_lock(&s->lock);
    for (size_t i = s->count; i-- > 0;) {
        const struct shelf_item *old = s->items[i];
        if (old->salt == item->salt && common(old, item->tokens, item->count) == old->count)
            take_off(s, i);
    }
    while (s->count == ITEMS_MAX || s->bytes + cost(item) > s->bytes_max)
        take_off(s, least_used(s));
    item->holders = 1;
    item->used_at = ++s->clock;
    s->items[s->count++] = item;
    s->bytes += cost(item);
    metric_add(&shelf_bytes, (int64_t)cost(item));
    pthread_mutex_unlock(&s->lock);
}
