/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of bits in numbers from 0 to 2^32 - 1, which every client can hold exactly. */
#include "query/fn_support.h"
#include <math.h>

enum { BITS = 32 };

/* A whole number from 0 to max; false: warned, null. */
static bool read_number(struct fn_call *call, int i, struct val v, double max, uint32_t *out)
{
    double d = val_double(v);

    if (val_type(v) != VAL_NUMBER || !(d >= 0 && d <= max) || d != floor(d)) {
        fn_bad_arg(call, i,
                   max == BITS       ? "a whole number from 0 to 32"
                   : max == BITS - 1 ? "a whole number from 0 to 31"
                                     : "a whole number from 0 to 4294967295");
        return false;
    }
    *out = (uint32_t)d;
    return true;
}

static bool read_bits(struct fn_call *call, int i, uint32_t *out)
{
    return read_number(call, i, fn_arg(call, i), UINT32_MAX, out);
}

static uint32_t low_bits(uint64_t number, uint32_t bits)
{
    return (uint32_t)(number & ((UINT64_C(1) << bits) - 1));
}

/* ---- combining ---- */

static uint32_t combine(char op, uint32_t a, uint32_t b)
{
    return op == '&' ? a & b : op == '|' ? a | b : a ^ b;
}

static enum errc combine_array(struct fn_call *call, char op)
{
    uint32_t result = 0, n;
    bool any = false;

    if (!fn_is(call, 0, VAL_ARRAY))
        return fn_bad_arg(call, 0, "an array of numbers");
    for (size_t i = 0; i < val_count(call->args[0]); i++) {
        struct val v = val_at(call->args[0], i);
        if (val_is_null(v))
            continue;
        if (!read_number(call, 0, v, UINT32_MAX, &n))
            return OK;
        result = any ? combine(op, result, n) : n;
        any = true;
    }
    return any ? fn_return_int(call, result) : fn_return(call, val_null);
}

static enum errc combined(struct fn_call *call, char op)
{
    uint32_t a, b;

    if (call->count == 1)
        return combine_array(call, op);
    if (!read_bits(call, 0, &a) || !read_bits(call, 1, &b))
        return OK;
    return fn_return_int(call, combine(op, a, b));
}

static enum errc fn_bit_and(struct fn_call *call)
{
    return combined(call, '&');
}

static enum errc fn_bit_or(struct fn_call *call)
{
    return combined(call, '|');
}

static enum errc fn_bit_xor(struct fn_call *call)
{
    return combined(call, '^');
}

/* ---- one number ---- */

static enum errc fn_bit_negate(struct fn_call *call)
{
    uint32_t n, bits;

    if (!read_bits(call, 0, &n) || !read_number(call, 1, fn_arg(call, 1), BITS, &bits))
        return OK;
    return fn_return_int(call, low_bits(~(uint64_t)n, bits));
}

static enum errc shifted(struct fn_call *call, bool is_left)
{
    uint32_t n, shift, bits;

    if (!read_bits(call, 0, &n) || !read_number(call, 1, fn_arg(call, 1), BITS, &shift) ||
        !read_number(call, 2, fn_arg(call, 2), BITS, &bits))
        return OK;
    return fn_return_int(call,
                         low_bits(is_left ? (uint64_t)n << shift : (uint64_t)n >> shift, bits));
}

static enum errc fn_bit_shift_left(struct fn_call *call)
{
    return shifted(call, true);
}

static enum errc fn_bit_shift_right(struct fn_call *call)
{
    return shifted(call, false);
}

static enum errc fn_bit_test(struct fn_call *call)
{
    uint32_t n, at;

    if (!read_bits(call, 0, &n) || !read_number(call, 1, fn_arg(call, 1), BITS - 1, &at))
        return OK;
    return fn_return_bool(call, n >> at & 1);
}

static enum errc fn_bit_popcount(struct fn_call *call)
{
    uint32_t n;

    return read_bits(call, 0, &n) ? fn_return_int(call, __builtin_popcount(n)) : OK;
}

/* ---- places and texts ---- */

static enum errc fn_bit_construct(struct fn_call *call)
{
    uint32_t result = 0, at;

    for (size_t i = 0; i < val_count(call->args[0]); i++) {
        if (!read_number(call, 0, val_at(call->args[0], i), BITS - 1, &at))
            return OK;
        result |= UINT32_C(1) << at;
    }
    return fn_return_int(call, result);
}

static enum errc fn_bit_deconstruct(struct fn_call *call)
{
    struct val *items = fn_room(call, BITS);
    size_t count = 0;
    uint32_t n;

    if (!read_bits(call, 0, &n))
        return OK;
    for (int i = 0; i < BITS; i++)
        if (n >> i & 1)
            items[count++] = val_new_int(call->arena, i);
    return fn_return(call, val_new_array(call->arena, items, count));
}

static enum errc fn_bit_to_string(struct fn_call *call)
{
    uint32_t n, bits = BITS;
    char text[BITS];

    if (!read_bits(call, 0, &n) ||
        (call->count > 1 && !read_number(call, 1, fn_arg(call, 1), BITS, &bits)))
        return OK;
    for (uint32_t i = 0; i < bits; i++)
        text[i] = (char)('0' + (n >> (bits - 1 - i) & 1));
    return fn_return_text(call, slice_of(text, bits));
}

static enum errc fn_bit_from_string(struct fn_call *call)
{
    struct slice s = val_string(call->args[0]);
    uint32_t n = 0;

    for (size_t i = 0; i < s.len; i++) {
        if (s.len > BITS || (s.ptr[i] != '0' && s.ptr[i] != '1'))
            return fn_bad_arg(call, 0, "at most 32 digits 0 and 1");
        n = n << 1 | (uint32_t)(s.ptr[i] - '0');
    }
    return s.len ? fn_return_int(call, n) : fn_bad_arg(call, 0, "at most 32 digits 0 and 1");
}

const struct fn fn_bit[] = {
    { "BIT_AND", 1, 2, "", FN_PURE, fn_bit_and, "Bits that all numbers have: an array, or two." },
    { "BIT_OR", 1, 2, "", FN_PURE, fn_bit_or, "Bits that one of them has." },
    { "BIT_XOR", 1, 2, "", FN_PURE, fn_bit_xor, "Bits that an odd number of them has." },
    { "BIT_NEGATE", 2, 2, "", FN_PURE, fn_bit_negate, "The other bits, of so many." },
    { "BIT_SHIFT_LEFT", 3, 3, "", FN_PURE, fn_bit_shift_left, "Moved up, so many bits kept." },
    { "BIT_SHIFT_RIGHT", 3, 3, "", FN_PURE, fn_bit_shift_right, "Moved down, so many bits kept." },
    { "BIT_TEST", 2, 2, "", FN_PURE, fn_bit_test, "Is the bit at a place set?" },
    { "BIT_POPCOUNT", 1, 1, "", FN_PURE, fn_bit_popcount, "Number of set bits." },
    { "BIT_CONSTRUCT", 1, 1, "a", FN_PURE, fn_bit_construct, "The number with bits at places." },
    { "BIT_DECONSTRUCT", 1, 1, "", FN_PURE, fn_bit_deconstruct, "Places of its set bits." },
    { "BIT_TO_STRING", 1, 2, "", FN_PURE, fn_bit_to_string, "As digits 0 and 1." },
    { "BIT_FROM_STRING", 1, 1, "s", FN_PURE, fn_bit_from_string, "The number of such digits." },
    { 0 },
};
