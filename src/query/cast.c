/* SPDX-License-Identifier: Apache-2.0 */
#include "query/cast.h"
#include "base/val_text.h"
#include <errno.h>
#include <stdlib.h>

static struct val number_of_text(struct arena *arena, struct slice text)
{
    char room[64], *copy = room, *end;
    struct val out = val_zero;

    while (text.len && strchr(" \t\r\n\f\v", text.ptr[0]))
        text = slice_of(text.ptr + 1, text.len - 1);
    while (text.len && strchr(" \t\r\n\f\v", text.ptr[text.len - 1]))
        text.len--;
    if (!text.len || text.len > 400 || text.ptr[text.len - 1] == 0)
        return val_zero;
    for (size_t i = 0; i < text.len; i++) /* no hexadecimal, no "inf" */
        if (!strchr("0123456789+-.eE", text.ptr[i]))
            return val_zero;
    if (text.len >= sizeof room)
        copy = mem_alloc(text.len + 1);
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    errno = 0;
    long long i = strtoll(copy, &end, 10);
    if (!*end && !errno) {
        out = val_new_int(arena, i);
    } else {
        double d = strtod(copy, &end);
        if (!*end)
            out = val_new_double(arena, d);
    }
    if (copy != room)
        mem_free(copy);
    return out;
}

struct val cast_number(struct arena *arena, struct val v)
{
    while (val_type(v) == VAL_ARRAY && val_count(v) == 1)
        v = val_at(v, 0);
    switch (val_type(v)) {
    case VAL_NUMBER:
        return v;
    case VAL_BOOL:
        return val_new_int(arena, val_bool(v));
    case VAL_STRING:
        return number_of_text(arena, val_string(v));
    case VAL_NULL:
    case VAL_ARRAY:
    case VAL_OBJECT:
        return val_zero;
    }
    return val_zero;
}

struct val cast_string(struct arena *arena, struct val v)
{
    struct buf text;

    if (val_type(v) == VAL_STRING)
        return v;
    if (val_is_null(v))
        return val_empty_string;
    buf_init(&text, 0);
    val_print(v, &text);
    v = val_new_string(arena, buf_slice(&text));
    buf_release(&text);
    return v;
}

struct val cast_array(struct arena *arena, struct val v)
{
    if (val_type(v) == VAL_ARRAY)
        return v;
    if (val_is_null(v))
        return val_empty_array;
    if (val_type(v) != VAL_OBJECT)
        return val_new_array(arena, &v, 1);
    size_t count = val_count(v);
    struct val *items = arena_alloc(arena, (count + 1) * sizeof *items);
    for (size_t i = 0; i < count; i++)
        items[i] = val_at(v, i);
    return val_new_array(arena, items, count);
}
