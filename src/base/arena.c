/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks in a list, newest first; each is at least twice the one before up to
 * a megabyte. A rewind frees the blocks made after the mark.
 */
#include "base/arena.h"
#include <stdarg.h>
#include <stdio.h>

enum { BLOCK_FIRST = 4096, BLOCK_MAX = MIB, ALIGN = 16 };

struct block {
    struct block *before;
    size_t used, size;
    _Alignas(ALIGN) char bytes[];
};

struct arena {
    struct block *top;
    size_t limit, total, peak;
};

struct arena *arena_new(size_t limit_bytes)
{
    struct arena *a = mem_zalloc(sizeof *a);

    a->limit = limit_bytes;
    return a;
}

void arena_free(struct arena *a)
{
    if (!a)
        return;
    for (struct block *b = a->top, *before; b; b = before) {
        before = b->before;
        mem_free(b);
    }
    mem_free(a);
}

static void block_push(struct arena *a, size_t bytes)
{
    size_t size = a->top ? a->top->size * 2 : BLOCK_FIRST;

    if (size > BLOCK_MAX)
        size = BLOCK_MAX;
    if (size < bytes)
        size = bytes;
    struct block *b = mem_alloc(sizeof *b + size);
    *b = (struct block){ .before = a->top, .size = size };
    a->top = b;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    size_t need = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);

    if (need < bytes)
        BUG("allocation of %zu bytes", bytes);
    if (!a->top || a->top->size - a->top->used < need)
        block_push(a, need);
    void *ptr = a->top->bytes + a->top->used;
    a->top->used += need;
    a->total += need;
    if (a->total > a->peak)
        a->peak = a->total;
    return ptr;
}

void *arena_zalloc(struct arena *a, size_t bytes)
{
    return memset(arena_alloc(a, bytes), 0, bytes);
}

static enum errc over_limit(const struct arena *a, struct error *err)
{
    return fail_num(err, 32, "more memory is needed than the limit of %zu bytes", a->limit);
}

enum errc arena_try(struct arena *a, size_t bytes, void **out, struct error *err)
{
    if (a->limit && (bytes > a->limit || a->total > a->limit - bytes))
        return over_limit(a, err);
    *out = arena_alloc(a, bytes);
    return OK;
}

enum errc arena_check(const struct arena *a, struct error *err)
{
    return a->limit && a->total > a->limit ? over_limit(a, err) : OK;
}

struct slice arena_copy(struct arena *a, struct slice bytes)
{
    char *copy = arena_alloc(a, bytes.len + 1);

    if (bytes.len)
        memcpy(copy, bytes.ptr, bytes.len);
    copy[bytes.len] = 0;
    return slice_of(copy, bytes.len);
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list args, again;

    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = arena_alloc(a, n < 0 ? 1 : (size_t)n + 1);
    text[0] = 0;
    if (n > 0)
        vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    return text;
}

size_t arena_used(const struct arena *a)
{
    return a->total;
}

size_t arena_peak(const struct arena *a)
{
    return a->peak;
}

struct arena_mark arena_mark(const struct arena *a)
{
    return (struct arena_mark){ a->top, a->top ? a->top->used : 0, a->total };
}

void arena_rewind(struct arena *a, struct arena_mark mark)
{
    while (a->top != mark.block && a->top->before) {
        struct block *before = a->top->before;
        mem_free(a->top);
        a->top = before;
    }
    if (a->top) /* a mark of an empty arena keeps its first block */
        a->top->used = mark.block ? mark.used : 0;
    a->total = mark.total;
}
