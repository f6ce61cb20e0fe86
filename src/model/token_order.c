/* SPDX-License-Identifier: Apache-2.0 */
#include "model/token_order.h"

#include <stdlib.h>

struct entry {
    int32_t id;
    struct slice bytes;
};

static int by_bytes(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = slice_cmp(x->bytes, y->bytes);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static size_t shared_bytes(struct slice a, struct slice b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && n < UINT8_MAX && a.ptr[n] == b.ptr[n])
        n++;
    return n;
}

static void fill(struct token_order *o, const struct entry *list)
{
    uint32_t at = 0;
    for (size_t i = 0; i < o->count; i++) {
        o->ids[i] = list[i].id;
        o->begin[i] = at;
        o->shared[i] = i ? (uint8_t)shared_bytes(list[i - 1].bytes, list[i].bytes) : 0;
        memcpy(o->bytes + at, list[i].bytes.ptr, list[i].bytes.len);
        at += (uint32_t)list[i].bytes.len;
    }
    o->begin[o->count] = at;
}

static void add_end(struct token_order *o, int32_t id)
{
    o->ends = mem_realloc(o->ends, (o->end_count + 1) * sizeof *o->ends);
    o->ends[o->end_count++] = id;
}

struct token_order *token_order_new(struct engine *e)
{
    struct token_order *o = mem_zalloc(sizeof *o);
    uint32_t vocab = e->info.vocab_size;
    struct entry *list = mem_alloc((vocab + 1) * sizeof *list);
    size_t *lens = mem_alloc((vocab + 1) * sizeof *lens);
    struct buf bytes;
    buf_init(&bytes, 0);
    for (uint32_t id = 0; id < vocab; id++) {
        char piece[ENGINE_PIECE_BYTES];
        bool is_end = e->ops->is_end(e, (int32_t)id);
        lens[id] = is_end ? 0 : e->ops->piece(e, (int32_t)id, piece);
        if (is_end)
            add_end(o, (int32_t)id);
        buf_add(&bytes, piece, lens[id]);
    }
    size_t at = 0;
    for (uint32_t id = 0; id < vocab; id++) { /* now that the bytes do not move any more */
        if (lens[id] > 0)
            list[o->count++] = (struct entry){ (int32_t)id, slice_of(bytes.ptr + at, lens[id]) };
        at += lens[id];
    }
    qsort(list, o->count, sizeof *list, by_bytes);
    o->ids = mem_alloc((o->count + 1) * sizeof *o->ids);
    o->begin = mem_alloc((o->count + 1) * sizeof *o->begin);
    o->shared = mem_alloc(o->count + 1);
    o->bytes = mem_alloc(bytes.len + 1);
    fill(o, list);
    mem_free(list);
    mem_free(lens);
    buf_release(&bytes);
    return o;
}

void token_order_free(struct token_order *order)
{
    if (!order)
        return;
    mem_free(order->ids);
    mem_free(order->begin);
    mem_free(order->shared);
    mem_free(order->bytes);
    mem_free(order->ends);
    mem_free(order);
}
