/* SPDX-License-Identifier: Apache-2.0 */
#include "store/vector_heap.h"

#include "store/vector_search.h"

enum { ID_BYTES_MAX = 2 + LIMIT_KEY_BYTES };

static bool is_farther(const struct vector_near *a, const struct vector_near *b)
{
    if (a->distance != b->distance)
        return a->distance > b->distance;
    return slice_cmp(vector_id_key(a->id), vector_id_key(b->id)) > 0;
}

static void swap(struct vector_near *a, struct vector_near *b)
{
    struct vector_near t = *a;
    *a = *b;
    *b = t;
}

static void sift_down(struct vector_near *at, size_t count, size_t i)
{
    for (;;) {
        size_t top = i, left = 2 * i + 1;
        for (size_t child = left; child < left + 2 && child < count; child++)
            if (is_farther(&at[child], &at[top]))
                top = child;
        if (top == i)
            return;
        swap(&at[top], &at[i]);
        i = top;
    }
}

static void sift_up(struct vector_near *at, size_t i)
{
    while (i && is_farther(&at[i], &at[(i - 1) / 2])) {
        swap(&at[i], &at[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

bool vector_heap_wants(const struct vector_heap *h, struct vector_near near)
{
    return h->count < h->k || (h->k && is_farther(&h->at[0], &near));
}

/* In the place of the one that leaves the heap, if there is one. */
static struct slice copy_id(struct vector_heap *h, struct slice id, char *room)
{
    if (!room)
        room = arena_alloc(h->copies, ID_BYTES_MAX);
    memcpy(room, id.ptr, id.len);
    return slice_of(room, id.len);
}

void vector_heap_add(struct vector_heap *h, struct vector_near near)
{
    bool is_full = h->count == h->k;
    if (h->copies)
        near.id = copy_id(h, near.id, is_full ? (char *)h->at[0].id.ptr : NULL);
    if (is_full) {
        h->at[0] = near;
        sift_down(h->at, h->count, 0);
    } else {
        h->at[h->count] = near;
        sift_up(h->at, h->count++);
    }
}

void vector_heap_sort(struct vector_heap *h)
{
    for (size_t n = h->count; n > 1; n--) {
        swap(&h->at[0], &h->at[n - 1]);
        sift_down(h->at, n - 1, 0);
    }
}
