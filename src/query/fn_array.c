/* SPDX-License-Identifier: Apache-2.0 */
/* Functions on arrays. */
#include "base/val_text.h"
#include "query/fn_support.h"
#include <math.h>

static struct val array_of(struct fn_call *call, struct val *items, size_t count)
{
    return val_new_array(call->arena, items, count);
}

static size_t copy_items(struct val array, struct val *to)
{
    size_t count = val_count(array);

    for (size_t i = 0; i < count; i++)
        to[i] = val_at(array, i);
    return count;
}

static bool holds(const struct val *items, size_t count, struct val v)
{
    for (size_t i = 0; i < count; i++)
        if (val_equal(items[i], v))
            return true;
    return false;
}

static enum errc fn_length(struct fn_call *call)
{
    struct val v = fn_arg(call, 0);

    switch (val_type(v)) {
    case VAL_NULL:
        return fn_return_int(call, 0);
    case VAL_BOOL:
        return fn_return_int(call, val_bool(v));
    case VAL_NUMBER:
        return fn_return_int(call, (int64_t)utf8_count(fn_text_arg(call, 0)));
    case VAL_STRING:
        return fn_return_int(call, (int64_t)utf8_count(val_string(v)));
    case VAL_ARRAY:
    case VAL_OBJECT:
        return fn_return_int(call, (int64_t)val_count(v));
    }
    return OK;
}

static enum errc fn_count_distinct(struct fn_call *call)
{
    struct val *items = fn_room(call, val_count(call->args[0]));
    size_t count = copy_items(call->args[0], items);
    fn_sort(call, items, count);
    return fn_return_int(call, (int64_t)fn_unique_sorted(items, count));
}

static enum errc fn_first(struct fn_call *call)
{
    return fn_return(call, val_at(call->args[0], 0));
}

static enum errc fn_last(struct fn_call *call)
{
    size_t count = val_count(fn_arg(call, 0));

    return fn_return(call, count ? val_at(call->args[0], count - 1) : val_null);
}

static enum errc fn_nth(struct fn_call *call)
{
    double at = floor(fn_number_arg(call, 1));
    if (at < 0 || at >= (double)val_count(call->args[0]))
        return fn_return(call, val_null);
    return fn_return(call, val_at(call->args[0], (size_t)at));
}

static enum errc fn_push(struct fn_call *call)
{
    struct val array = fn_arg(call, 0);
    struct val *items = fn_room(call, val_count(array) + 1);
    size_t count = copy_items(array, items);
    if (!val_truth(fn_arg(call, 2)) || !holds(items, count, call->args[1]))
        items[count++] = call->args[1];
    return fn_return(call, array_of(call, items, count));
}

static enum errc fn_unshift(struct fn_call *call)
{
    struct val array = fn_arg(call, 0);
    struct val *items = fn_room(call, val_count(array) + 1);
    size_t count = copy_items(array, items + 1);
    items[0] = call->args[1];
    if (val_truth(fn_arg(call, 2)) && holds(items + 1, count, items[0]))
        return fn_return(call, array);
    return fn_return(call, array_of(call, items, count + 1));
}

static enum errc without_end(struct fn_call *call, bool is_first)
{
    size_t count = val_count(fn_arg(call, 0));

    struct val *items = fn_room(call, count);
    copy_items(call->args[0], items);
    return fn_return(call, array_of(call, items + (is_first && count), count ? count - 1 : 0));
}

static enum errc fn_pop(struct fn_call *call)
{
    return without_end(call, false);
}

static enum errc fn_shift(struct fn_call *call)
{
    return without_end(call, true);
}

static enum errc fn_append(struct fn_call *call)
{
    struct val a = fn_arg(call, 0), b = cast_array(call->arena, fn_arg(call, 1));
    bool is_unique = val_truth(fn_arg(call, 2));
    struct val *items = fn_room(call, val_count(a) + val_count(b));
    size_t count = 0;
    for (size_t i = 0; i < val_count(a) + val_count(b); i++) {
        struct val v = i < val_count(a) ? val_at(a, i) : val_at(b, i - val_count(a));
        if (!is_unique || !holds(items, count, v))
            items[count++] = v;
    }
    return fn_return(call, array_of(call, items, count));
}

/* First occurrence of each value, by hashing. */
static size_t unique_in_order(struct fn_call *call, struct val *items, size_t count)
{
    size_t slots = 16, kept = 0;

    while (slots < count * 2)
        slots *= 2;
    uint32_t *table = arena_zalloc(call->arena, slots * sizeof *table); /* place + 1 */
    for (size_t i = 0; i < count; i++) {
        size_t at = val_hash(items[i]) & (slots - 1);
        while (table[at] && !val_equal(items[table[at] - 1], items[i]))
            at = (at + 1) & (slots - 1);
        if (table[at])
            continue;
        items[kept++] = items[i];
        table[at] = (uint32_t)kept;
    }
    return kept;
}

static enum errc fn_unique(struct fn_call *call)
{
    struct val *items = fn_room(call, val_count(call->args[0]));
    size_t count = copy_items(call->args[0], items);
    return fn_return(call, array_of(call, items, unique_in_order(call, items, count)));
}

static enum errc sorted(struct fn_call *call, bool is_unique)
{
    struct val *items = fn_room(call, val_count(call->args[0]));
    size_t count = copy_items(call->args[0], items);
    fn_sort(call, items, count);
    return fn_return(call,
                     array_of(call, items, is_unique ? fn_unique_sorted(items, count) : count));
}

static enum errc fn_sorted(struct fn_call *call)
{
    return sorted(call, false);
}

static enum errc fn_sorted_unique(struct fn_call *call)
{
    return sorted(call, true);
}

static void flatten(struct val array, int64_t depth, struct val *to, size_t *count)
{
    for (size_t i = 0; i < val_count(array); i++) {
        struct val v = val_at(array, i);
        if (val_type(v) == VAL_ARRAY && depth > 0) {
            flatten(v, depth - 1, to, count);
        } else {
            if (to)
                to[*count] = v;
            (*count)++;
        }
    }
}

static enum errc fn_flatten(struct fn_call *call)
{
    int64_t depth = call->count > 1 ? fn_int_arg(call, 1) : 1;
    size_t count = 0;

    if (depth < 1)
        return fn_bad_arg(call, 1, "a depth from 1");
    flatten(call->args[0], depth, NULL, &count);
    struct val *items = fn_room(call, count);
    count = 0;
    flatten(call->args[0], depth, items, &count);
    return fn_return(call, array_of(call, items, count));
}

static enum errc fn_slice(struct fn_call *call)
{
    int64_t count = (int64_t)val_count(call->args[0]), from = fn_int_arg(call, 1), to = count;
    if (from < 0)
        from = from + count < 0 ? 0 : from + count;
    if (from > count)
        from = count;
    if (call->count > 2 && !val_is_null(call->args[2])) {
        int64_t length = fn_int_arg(call, 2);
        to = length < 0 ? count + length : length > count - from ? count : from + length;
    }
    struct val *items = fn_room(call, (size_t)count);
    copy_items(call->args[0], items);
    return fn_return(call, array_of(call, items + from, to > from ? (size_t)(to - from) : 0));
}

static size_t count_all(const struct fn_call *call)
{
    size_t total = 0;

    for (int i = 0; i < call->count; i++)
        total += val_count(call->args[i]);
    return total;
}

static enum errc join(struct fn_call *call, bool is_unique)
{
    size_t count = 0;
    struct val *items = fn_room(call, count_all(call));

    for (int i = 0; i < call->count; i++)
        count += copy_items(call->args[i], items + count);
    return fn_return(
        call, array_of(call, items, is_unique ? unique_in_order(call, items, count) : count));
}

static enum errc fn_union(struct fn_call *call)
{
    return join(call, false);
}

static enum errc fn_union_distinct(struct fn_call *call)
{
    return join(call, true);
}

/* Values of the first array that are, or are not, in all others. */
static enum errc select_values(struct fn_call *call, bool wants_in)
{
    size_t kept = 0;
    struct val *items = fn_room(call, val_count(call->args[0]));
    struct val *other = fn_room(call, count_all(call));
    size_t count = unique_in_order(call, items, copy_items(call->args[0], items));
    for (size_t i = 0; i < count; i++) {
        bool keeps = true;
        for (int k = 1; keeps && k < call->count; k++) {
            size_t n = copy_items(call->args[k], other);
            keeps = holds(other, n, items[i]) == wants_in;
        }
        if (keeps)
            items[kept++] = items[i];
    }
    return fn_return(call, array_of(call, items, kept));
}

static enum errc fn_intersection(struct fn_call *call)
{
    return select_values(call, true);
}

static enum errc fn_minus(struct fn_call *call)
{
    return select_values(call, false);
}

static enum errc fn_outersection(struct fn_call *call)
{
    size_t total = count_all(call), kept = 0, count = 0;
    struct val *all = fn_room(call, total), *items = fn_room(call, total);
    for (int i = 0; i < call->count; i++)
        count += copy_items(call->args[i], all + count);
    for (size_t i = 0; i < count; i++)
        if (!holds(all, i, all[i]) && !holds(all + i + 1, count - i - 1, all[i]))
            items[kept++] = all[i];
    return fn_return(call, array_of(call, items, kept));
}

static enum errc fn_remove_value(struct fn_call *call)
{
    int64_t limit =
        call->count > 2 && !val_is_null(call->args[2]) ? fn_int_arg(call, 2) : INT64_MAX;
    size_t kept = 0;

    struct val *items = fn_room(call, val_count(call->args[0]));
    for (size_t i = 0; i < val_count(call->args[0]); i++) {
        struct val v = val_at(call->args[0], i);
        if (limit > 0 && val_equal(v, call->args[1]))
            limit--;
        else
            items[kept++] = v;
    }
    return fn_return(call, array_of(call, items, kept));
}

static enum errc fn_remove_values(struct fn_call *call)
{
    size_t kept = 0;

    if (val_is_null(fn_arg(call, 0)))
        return fn_return(call, val_empty_array);
    if (!fn_is(call, 1, VAL_ARRAY))
        return fn_bad_arg(call, 1, "an array");
    struct val *items = fn_room(call, val_count(call->args[0]));
    struct val *gone = fn_room(call, val_count(call->args[1]));
    size_t n = copy_items(call->args[1], gone);
    for (size_t i = 0; i < val_count(call->args[0]); i++)
        if (!holds(gone, n, val_at(call->args[0], i)))
            items[kept++] = val_at(call->args[0], i);
    return fn_return(call, array_of(call, items, kept));
}

static enum errc fn_remove_nth(struct fn_call *call)
{
    int64_t count = (int64_t)val_count(call->args[0]), at = fn_int_arg(call, 1);
    struct val *items = fn_room(call, (size_t)count);
    copy_items(call->args[0], items);
    at = at < 0 ? at + count : at;
    if (at >= 0 && at < count) {
        memmove(items + at, items + at + 1, (size_t)(count - at - 1) * sizeof *items);
        count--;
    }
    return fn_return(call, array_of(call, items, (size_t)count));
}

static enum errc fn_position(struct fn_call *call)
{
    bool wants_place = val_truth(fn_arg(call, 2));
    for (size_t i = 0; i < val_count(call->args[0]); i++)
        if (val_equal(val_at(call->args[0], i), call->args[1]))
            return wants_place ? fn_return_int(call, (int64_t)i) : fn_return_bool(call, true);
    return wants_place ? fn_return_int(call, -1) : fn_return_bool(call, false);
}

const struct fn fn_array[] = {
    { "LENGTH", 1, 1, "", FN_PURE, fn_length, "Elements of an array, members, or characters." },
    { "COUNT", 1, 1, "", FN_PURE, fn_length, "As LENGTH." },
    { "COUNT_DISTINCT", 1, 1, "a", FN_PURE, fn_count_distinct, "Number of distinct elements." },
    { "COUNT_UNIQUE", 1, 1, "a", FN_PURE, fn_count_distinct, "As COUNT_DISTINCT." },
    { "FIRST", 1, 1, "a", FN_PURE, fn_first, "The first element." },
    { "LAST", 1, 1, "a", FN_PURE, fn_last, "The last element." },
    { "NTH", 2, 2, "a.", FN_PURE, fn_nth, "The element at a place from 0." },
    { "PUSH", 2, 3, "A.", FN_PURE, fn_push, "The array with a value at its end." },
    { "POP", 1, 1, "n", FN_PURE, fn_pop, "The array without its last element." },
    { "SHIFT", 1, 1, "n", FN_PURE, fn_shift, "The array without its first element." },
    { "UNSHIFT", 2, 3, "A.", FN_PURE, fn_unshift, "The array with a value at its start." },
    { "APPEND", 2, 3, "A.", FN_PURE, fn_append, "Two arrays in one." },
    { "UNIQUE", 1, 1, "a", FN_PURE, fn_unique, "Each value once." },
    { "SORTED", 1, 1, "n", FN_PURE, fn_sorted, "The array in AQL's order." },
    { "SORTED_UNIQUE", 1, 1, "n", FN_PURE, fn_sorted_unique, "Each value once, in order." },
    { "FLATTEN", 1, 2, "a.", FN_PURE, fn_flatten, "Inner arrays unpacked, to a depth." },
    { "SLICE", 2, 3, "a.", FN_PURE, fn_slice, "A part of the array." },
    { "UNION", 2, -1, "a", FN_PURE, fn_union, "All elements of several arrays." },
    { "UNION_DISTINCT", 2, -1, "a", FN_PURE, fn_union_distinct, "The same, each value once." },
    { "INTERSECTION", 2, -1, "a", FN_PURE, fn_intersection, "Values that are in all arrays." },
    { "MINUS", 2, -1, "a", FN_PURE, fn_minus, "Values of the first that are in no other." },
    { "OUTERSECTION", 2, -1, "a", FN_PURE, fn_outersection, "Values that occur exactly once." },
    { "REMOVE_VALUE", 2, 3, "A.", FN_PURE, fn_remove_value, "Without a value." },
    { "REMOVE_VALUES", 2, 2, "A.", FN_PURE, fn_remove_values, "Without several values." },
    { "REMOVE_NTH", 2, 2, "a.", FN_PURE, fn_remove_nth, "Without the element at a place." },
    { "POSITION", 2, 3, "a.", FN_PURE, fn_position, "Is the value in the array, or where." },
    { "CONTAINS_ARRAY", 2, 3, "a.", FN_PURE, fn_position, "As POSITION." },
    { 0 },
};
