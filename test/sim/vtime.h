/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vtime -- virtual time: events in the order of their moments, a clock that jumps
 * from one to the next, and chance from a seed. The same seed gives the same run.
 */
#ifndef TEST_SIM_VTIME_H
#define TEST_SIM_VTIME_H

#include "base/env.h"
#include <math.h>

/* Called with what vtime_at was given. */
typedef void (*vtime_fn)(void *ctx, void *arg);

struct vtime_event {
    uint64_t at_us, order; /* equal moments: first come, first served */
    vtime_fn fn;
    void *ctx;
    void *arg; /* owned: one block, or NULL */
};

struct vtime {
    struct env_test clock; /* its env is everybody's time and chance */
    struct vtime_event *heap;
    size_t count, cap;
    uint64_t orders;
};

static inline void vtime_init(struct vtime *v, uint64_t seed)
{
    *v = (struct vtime){ 0 };
    env_test_init(&v->clock, seed);
}

static inline void vtime_release(struct vtime *v)
{
    for (size_t i = 0; i < v->count; i++)
        mem_free(v->heap[i].arg);
    mem_free(v->heap);
}

static inline uint64_t vtime_now(const struct vtime *v)
{
    return v->clock.now_us;
}

/* 0 <= x < 1 */
static inline double vtime_chance(struct vtime *v)
{
    return (double)(env_random_u64(&v->clock.env) >> 11) * 0x1p-53;
}

static inline unsigned vtime_below(struct vtime *v, unsigned bound)
{
    return (unsigned)(vtime_chance(v) * bound);
}

static inline double vtime_normal(struct vtime *v)
{
    double u = 1 - vtime_chance(v), w = vtime_chance(v);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * w);
}

static inline bool vtime_before(const struct vtime_event *a, const struct vtime_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static inline void vtime_swap(struct vtime *v, size_t i, size_t j)
{
    struct vtime_event e = v->heap[i];

    v->heap[i] = v->heap[j];
    v->heap[j] = e;
}

/* Keeps arg (a block of mem_alloc, or NULL): fn gets it and frees it. */
static inline void vtime_at(struct vtime *v, uint64_t at_us, vtime_fn fn, void *ctx, void *arg)
{
    if (v->count == v->cap) {
        v->cap = v->cap ? v->cap * 2 : 256;
        v->heap = mem_realloc(v->heap, v->cap * sizeof *v->heap);
    }
    size_t i = v->count++;
    v->heap[i] = (struct vtime_event){ at_us, v->orders++, fn, ctx, arg };
    for (; i && vtime_before(&v->heap[i], &v->heap[(i - 1) / 2]); i = (i - 1) / 2)
        vtime_swap(v, i, (i - 1) / 2);
}

static inline struct vtime_event vtime_pop(struct vtime *v)
{
    struct vtime_event first = v->heap[0];

    v->heap[0] = v->heap[--v->count];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < v->count; k++)
            least = vtime_before(&v->heap[k], &v->heap[least]) ? k : least;
        if (least == i)
            return first;
        vtime_swap(v, i, least);
        i = least;
    }
}

/* Runs one event, if one is due until then; else the clock is at until. */
static inline bool vtime_step(struct vtime *v, uint64_t until_us)
{
    if (!v->count || v->heap[0].at_us > until_us) {
        v->clock.now_us = until_us > v->clock.now_us ? until_us : v->clock.now_us;
        return false;
    }
    struct vtime_event e = vtime_pop(v);
    if (e.at_us > v->clock.now_us)
        v->clock.now_us = e.at_us;
    e.fn(e.ctx, e.arg);
    return true;
}

static inline void vtime_run(struct vtime *v, uint64_t until_us)
{
    while (vtime_step(v, until_us)) {
    }
}

#endif
