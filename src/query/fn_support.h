/* SPDX-License-Identifier: Apache-2.0 */
/* fn_support -- small helpers of the fn_*.c files. */
#ifndef QUERY_FN_SUPPORT_H
#define QUERY_FN_SUPPORT_H

#include "query/cast.h"
#include "query/fn.h"

static inline struct val fn_arg(const struct fn_call *call, int i)
{
    return i < call->count ? call->args[i] : val_null;
}

static inline enum errc fn_return(struct fn_call *call, struct val v)
{
    call->result = v;
    return OK;
}

static inline enum errc fn_return_int(struct fn_call *call, int64_t i)
{
    return fn_return(call, val_new_int(call->arena, i));
}

static inline enum errc fn_return_double(struct fn_call *call, double d)
{
    return fn_return(call, val_new_double(call->arena, d));
}

static inline enum errc fn_return_bool(struct fn_call *call, bool b)
{
    return fn_return(call, val_new_bool(b));
}

static inline enum errc fn_return_text(struct fn_call *call, struct slice s)
{
    return fn_return(call, val_new_string(call->arena, s));
}

/* Takes the text over; too long is an error. */
static inline enum errc fn_return_buf(struct fn_call *call, struct buf *text)
{
    enum errc rc = buf_check(text, "the result", call->err);

    if (rc == OK)
        rc = fn_return_text(call, buf_slice(text));
    buf_release(text);
    return rc;
}

static inline struct slice fn_text_arg(struct fn_call *call, int i)
{
    return val_string(cast_string(call->arena, fn_arg(call, i)));
}

static inline double fn_number_arg(struct fn_call *call, int i)
{
    return val_double(cast_number(call->arena, fn_arg(call, i)));
}

static inline int64_t fn_int_arg(struct fn_call *call, int i)
{
    return val_int(cast_number(call->arena, fn_arg(call, i)));
}

static inline bool fn_is(const struct fn_call *call, int i, enum val_type type)
{
    return val_type(fn_arg(call, i)) == type;
}

/* Room for count values; never NULL. */
static inline struct val *fn_room(struct fn_call *call, size_t count)
{
    return arena_alloc(call->arena, (count + 1) * sizeof(struct val));
}

static inline void fn_warn(struct fn_call *call, int num, const char *text)
{
    if (call->warn)
        call->warn(call->warn_ctx, num, text);
}

/* Byte offset of the nth character; the end when there are fewer. */
static inline size_t fn_byte_of(struct slice s, int64_t n)
{
    size_t i = 0;

    for (; i < s.len && n > 0; n--) {
        i++;
        while (i < s.len && ((uint8_t)s.ptr[i] & 0xC0) == 0x80)
            i++;
    }
    return i;
}

/* Sorted by AQL's order with the query's collation. */
void fn_sort(struct fn_call *call, struct val *items, size_t count);
/* Equal neighbours removed. */
size_t fn_unique_sorted(struct val *items, size_t count);

#endif
