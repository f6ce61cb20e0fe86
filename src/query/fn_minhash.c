/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MinHash: a set is represented by the smallest of its elements' hashes. Two sets share about as
 * many of these as the Jaccard similarity of the sets says, with an error of 1 / sqrt(how many).
 * Equal elements have equal hashes, whichever type of number they are.
 */
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "query/fn_support.h"

enum { HASH_BYTES = 8 };

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* 11 characters: base64 of the bytes, the lowest first, without padding. */
static struct val encoded(struct arena *arena, uint64_t hash)
{
    char bytes[HASH_BYTES];
    struct buf text;

    for (int i = 0; i < HASH_BYTES; i++)
        bytes[i] = (char)(hash >> (8 * i));
    buf_init(&text, 0);
    base64_encode(slice_of(bytes, HASH_BYTES), false, &text);
    while (text.len && text.ptr[text.len - 1] == '=')
        text.len--;
    struct val v = val_new_string(arena, buf_slice(&text));
    buf_release(&text);
    return v;
}

static enum errc fn_minhash_of(struct fn_call *call)
{
    struct val values = fn_arg(call, 0);
    size_t count = val_count(values), kept = 0;
    double wanted = floor(val_double(fn_arg(call, 1)));

    if (!fn_is(call, 1, VAL_NUMBER) || wanted < 1)
        return fn_bad_arg(call, 1, "a number from 1");
    uint64_t *hashes = arena_alloc(call->arena, (count + 1) * sizeof *hashes);
    struct val *items = fn_room(call, count);
    for (size_t i = 0; i < count; i++)
        hashes[i] = val_hash(val_at(values, i));
    qsort(hashes, count, sizeof *hashes, compare);
    for (size_t i = 0; i < count && (double)kept < wanted; i++)
        if (!i || hashes[i] != hashes[i - 1])
            items[kept++] = encoded(call->arena, hashes[i]);
    return fn_return(call, val_new_array(call->arena, items, kept));
}

/* A count that is whole but for rounding is that count. */
static enum errc fn_minhash_count(struct fn_call *call)
{
    double error = val_double(fn_arg(call, 0));

    if (!fn_is(call, 0, VAL_NUMBER) || !(error > 0) || error >= 1)
        return fn_bad_arg(call, 0, "a number above 0 and below 1");
    double count = 1 / (error * error);
    count = fabs(count - rint(count)) < count * 1e-12 ? rint(count) : ceil(count);
    return count < 9e15 ? fn_return_int(call, (int64_t)count) : fn_return_double(call, count);
}

static enum errc fn_minhash_error(struct fn_call *call)
{
    double count = val_double(fn_arg(call, 0));

    if (!fn_is(call, 0, VAL_NUMBER) || count < 1)
        return fn_bad_arg(call, 0, "a number from 1");
    return fn_return_double(call, 1 / sqrt(count));
}

const struct fn fn_minhash[] = {
    { "MINHASH", 2, 2, "a.", FN_PURE, fn_minhash_of,
      "The smallest hashes of a set's elements; JACCARD of two is near that of the sets." },
    { "MINHASH_COUNT", 1, 1, "", FN_PURE, fn_minhash_count, "Hashes needed for an error." },
    { "MINHASH_ERROR", 1, 1, "", FN_PURE, fn_minhash_error, "Error of so many hashes." },
    { 0 },
};
