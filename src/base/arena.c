/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks in a list, newest first; each is at least twice the one before up to
 * a megabyte. A rewind keeps the largest block made after the mark as a spare,
 * so that a loop that marks and rewinds settles at no allocation.
 *
 * With the address sanitizer, bytes that are not handed out are poisoned, with
 * a gap behind each allocation.
 */
#include "base/arena.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
enum { GAP = 16 };
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
enum { GAP = 0 };
#endif

/* With its head the first is 1 KiB: up to there malloc keeps freed blocks at hand for each thread. */
enum { BLOCK_FIRST = 992, BLOCK_MAX = MIB, ALIGN = 16 };

struct block {
    struct block *before;
    size_t used, size;
    _Alignas(ALIGN) char bytes[];
};

struct arena {
    struct block *top;
    struct block *spare; /* empty, or NULL */
    struct arena *root;  /* whose limit counts; itself without a parent */
    size_t limit, total, peak;
    size_t children;             /* of the root: bytes of all blocks of its children */
    struct arena_budget *budget; /* borrowed; of the root; NULL = none */
};

struct arena *arena_new(size_t limit_bytes)
{
    struct arena *a = mem_zalloc(sizeof *a);

    a->limit = limit_bytes;
    a->root = a;
    return a;
}

struct arena *arena_child(struct arena *parent)
{
    struct arena *a = arena_new(0);

    a->root = parent->root;
    return a;
}

void arena_charge(struct arena *a, struct arena_budget *budget)
{
    assert(a->root == a && !a->top && !a->spare && !a->children);
    a->budget = budget;
}

static void note_peak(struct arena *a)
{
    if (a->total + a->children > a->peak)
        a->peak = a->total + a->children;
}

static void block_free(struct arena *a, struct block *b)
{
    if (!b)
        return;
    ASAN_UNPOISON_MEMORY_REGION(b->bytes, b->size);
    if (a->root != a)
        a->root->children -= b->size;
    if (a->root->budget)
        atomic_fetch_sub_explicit(&a->root->budget->used_bytes, b->size, memory_order_relaxed);
    mem_free(b);
}

void arena_free(struct arena *a)
{
    if (!a)
        return;
    for (struct block *b = a->top, *before; b; b = before) {
        before = b->before;
        block_free(a, b);
    }
    block_free(a, a->spare);
    mem_free(a);
}

static struct block *block_new(struct arena *a, size_t bytes)
{
    size_t size = a->top ? a->top->size * 2 : BLOCK_FIRST;

    if (size > BLOCK_MAX)
        size = BLOCK_MAX;
    if (size < bytes)
        size = bytes;
    struct block *b = mem_alloc(sizeof *b + size);
    b->size = size;
    ASAN_POISON_MEMORY_REGION(b->bytes, b->size);
    if (a->root != a) {
        a->root->children += size;
        note_peak(a->root);
    }
    if (a->root->budget)
        atomic_fetch_add_explicit(&a->root->budget->used_bytes, size, memory_order_relaxed);
    return b;
}

static void block_push(struct arena *a, size_t bytes)
{
    struct block *b = a->spare;

    if (b && b->size >= bytes)
        a->spare = NULL;
    else
        b = block_new(a, bytes);
    b->before = a->top;
    b->used = 0;
    a->top = b;
}

static void block_pop(struct arena *a)
{
    struct block *b = a->top;

    a->top = b->before;
    if (!a->spare || a->spare->size < b->size) {
        struct block *small = a->spare;
        a->spare = b;
        b = small;
    }
    block_free(a, b);
    if (a->spare)
        ASAN_POISON_MEMORY_REGION(a->spare->bytes, a->spare->size);
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    size_t need = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);

    if (need < bytes)
        BUG("allocation of %zu bytes", bytes);
    if (!a->top || a->top->size - a->top->used < need + GAP)
        block_push(a, need + GAP);
    void *ptr = a->top->bytes + a->top->used;
    a->top->used += need + GAP;
    ASAN_UNPOISON_MEMORY_REGION(ptr, bytes);
    a->total += need;
    note_peak(a);
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

static bool is_over_budget(const struct arena *r, size_t more)
{
    const struct arena_budget *b = r->budget;

    if (!b || !b->limit_bytes || r->total + r->children + more <= ARENA_BUDGET_FREE)
        return false;
    size_t used = atomic_load_explicit(&b->used_bytes, memory_order_relaxed);
    return more > b->limit_bytes || used > b->limit_bytes - more;
}

static enum errc over_budget(const struct arena *r, struct error *err)
{
    return fail_num(err, 32,
                    "more memory is needed than %s allows all queries together: %zu MiB, of which "
                    "this one holds %zu",
                    r->budget->name, r->budget->limit_bytes / MIB, (r->total + r->children) / MIB);
}

enum errc arena_try(struct arena *a, size_t bytes, void **out, struct error *err)
{
    const struct arena *r = a->root;

    if (r->limit && (bytes > r->limit || r->total + r->children > r->limit - bytes))
        return over_limit(r, err);
    if (is_over_budget(r, bytes))
        return over_budget(r, err);
    *out = arena_alloc(a, bytes);
    return OK;
}

enum errc arena_check(const struct arena *a, struct error *err)
{
    const struct arena *r = a->root;

    if (r->limit && r->total + r->children > r->limit)
        return over_limit(r, err);
    return is_over_budget(r, 0) ? over_budget(r, err) : OK;
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
    while (a->top != mark.block)
        block_pop(a);
    if (a->top) {
        a->top->used = mark.used;
        ASAN_POISON_MEMORY_REGION(a->top->bytes + mark.used, a->top->size - mark.used);
    }
    a->total = mark.total;
}

void arena_reset(struct arena *a)
{
    if (a)
        arena_rewind(a, (struct arena_mark){ NULL, 0, 0 });
}
