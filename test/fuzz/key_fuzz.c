/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says what the rest is. 0 and 1: an ascending or descending
 * key, which is refused or read as a valid value whose own key reads back
 * equal. Others: two JSON texts with a zero byte between, whose keys have the
 * order of the values, with and without a collator, in both directions.
 */
#include "base/collate.h"
#include "base/key.h"
#include "base/val_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_bytes(struct slice bytes, bool is_descending, struct arena *arena)
{
    struct buf key;
    struct error err;
    struct val v, again;

    if (key_read_val(&bytes, is_descending, arena, &v, &err) != OK)
        return;
    if (val_validate(val_bytes(v), &again, &err) != OK)
        BUG("%s", err.text);
    buf_init(&key, 0);
    key_add_val(&key, v, NULL, is_descending);
    struct slice own = buf_slice(&key);
    if (key_read_val(&own, is_descending, arena, &again, &err) != OK || own.len)
        BUG("a key of our own is refused");
    if (!val_equal(v, again))
        BUG("a key reads back as another value");
    buf_release(&key);
}

static int sign(int c)
{
    return (c > 0) - (c < 0);
}

static void check_pair(struct val a, struct val b, const struct collator *c, bool is_descending)
{
    struct buf x, y;

    buf_init(&x, 0);
    buf_init(&y, 0);
    key_add_val(&x, a, c, is_descending);
    key_add_val(&y, b, c, is_descending);
    int order = sign(val_compare(a, b, c)) * (is_descending ? -1 : 1);
    if (sign(slice_cmp(buf_slice(&x), buf_slice(&y))) != order)
        BUG("keys and values differ in order");
    buf_release(&x);
    buf_release(&y);
}

static void check_texts(struct slice texts, struct arena *arena)
{
    static struct collator *root;
    const char *zero = texts.len ? memchr(texts.ptr, 0, texts.len) : NULL;
    struct val a, b;

    if (!zero)
        return;
    struct slice first = slice_of(texts.ptr, (size_t)(zero - texts.ptr));
    struct slice second = slice_of(zero + 1, texts.len - first.len - 1);
    if (val_parse(first, arena, &a, NULL) != OK || val_parse(second, arena, &b, NULL) != OK)
        return;
    if (!root && collator_open(&root, "und", NULL) != OK)
        BUG("no collator");
    for (int i = 0; i < 4; i++)
        check_pair(a, b, i & 1 ? root : NULL, i & 2);
    if (val_equal(a, b) && val_hash(a) != val_hash(b))
        BUG("equal values hash differently");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *arena = arena_new(64 * MIB);

    if (size && data[0] < 2)
        check_bytes(slice_of(data + 1, size - 1), data[0], arena);
    else if (size)
        check_texts(slice_of(data + 1, size - 1), arena);
    arena_free(arena);
    return 0;
}
