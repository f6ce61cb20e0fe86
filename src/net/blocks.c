/* SPDX-License-Identifier: Apache-2.0 */
/* In front of each block stands its class: its size in STEPs, 0 when it is too large for the lists. */
#include "net/blocks.h"

enum { STEP = 64, CLASSES = 33 }; /* up to 2 KiB */

struct head {
    _Alignas(16) size_t class;
    struct head *next; /* while it waits */
};

struct blocks {
    size_t keep_bytes, kept_bytes;
    struct head *waiting[CLASSES];
};

#if defined(__SANITIZE_ADDRESS__)
enum { KEEPS = false };
#else
enum { KEEPS = true };
#endif

static _Thread_local struct blocks *here;

struct blocks *blocks_new(size_t keep_bytes)
{
    struct blocks *b = mem_zalloc(sizeof *b);

    b->keep_bytes = keep_bytes;
    return b;
}

void blocks_free(struct blocks *b)
{
    for (size_t i = 0; b && i < CLASSES; i++) {
        for (struct head *h = b->waiting[i], *next; h; h = next) {
            next = h->next;
            mem_free(h);
        }
    }
    mem_free(b);
}

void blocks_use(struct blocks *b)
{
    here = b;
}

static size_t class_of(size_t bytes)
{
    size_t class = bytes ? (bytes + STEP - 1) / STEP : 1;

    return class < CLASSES ? class : 0;
}

static struct head *head_of(void *ptr)
{
    return (struct head *)ptr - 1;
}

void *blocks_get(size_t bytes)
{
    size_t class = class_of(bytes);
    struct head *h = here ? here->waiting[class] : NULL;

    if (h) {
        here->waiting[class] = h->next;
        here->kept_bytes -= class * STEP;
        return h + 1;
    }
    h = mem_alloc(sizeof *h + (class ? class * STEP : bytes));
    h->class = class;
    return h + 1;
}

void blocks_put(void *ptr)
{
    if (!ptr)
        return;
    struct head *h = head_of(ptr);
    if (!KEEPS || !here || !h->class || here->kept_bytes >= here->keep_bytes) {
        mem_free(h);
        return;
    }
    here->kept_bytes += h->class * STEP;
    h->next = here->waiting[h->class];
    here->waiting[h->class] = h;
}

void *blocks_resize(void *ptr, size_t bytes)
{
    size_t class = class_of(bytes);

    if (!ptr)
        return blocks_get(bytes);
    struct head *h = head_of(ptr);
    if (!class && !h->class) {
        h = mem_realloc(h, sizeof *h + bytes);
        return h + 1;
    }
    size_t old_bytes = h->class * STEP;
    if (class && class <= h->class)
        return ptr;
    void *moved = blocks_get(bytes);
    memcpy(moved, ptr, h->class && old_bytes < bytes ? old_bytes : bytes);
    blocks_put(ptr);
    return moved;
}
