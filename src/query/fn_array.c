/* SPDX-License-Identifier: Apache-2.0 */
/* Functions on arrays. */
#include "base/val_text.h"
#include "query/fn_support.h"
#include <math.h>

enum { REPLACE_MAX = 10000000 };

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

/* Distinct values, found by hashing. */
struct set {
    struct val *items; /* in order of their first occurrence */
    size_t count;
    uint32_t *table; /* place + 1 */
    size_t mask;
};

static struct set set_room(struct fn_call *call, size_t count)
{
    size_t slots = 16;

    while (slots < count * 2)
        slots *= 2;
    return (struct set){ .items = fn_room(call, count),
                         .table = arena_zalloc(call->arena, slots * sizeof(uint32_t)),
                         .mask = slots - 1 };
}

/* Place of the value, or where it would be: table is 0 there. */
static size_t set_slot(const struct set *s, struct val v)
{
    size_t at = val_hash(v) & s->mask;

    while (s->table[at] && !val_equal(s->items[s->table[at] - 1], v))
        at = (at + 1) & s->mask;
    return at;
}

static bool set_holds(const struct set *s, struct val v)
{
    return s->table[set_slot(s, v)] != 0;
}

/* Place of the value in items. */
static size_t set_add(struct set *s, struct val v)
{
    size_t at = set_slot(s, v);

    if (!s->table[at]) {
        s->items[s->count++] = v;
        s->table[at] = (uint32_t)s->count;
    }
    return s->table[at] - 1;
}

static struct set set_of(struct fn_call *call, struct val array)
{
    struct set s = set_room(call, val_count(array));

    for (size_t i = 0; i < val_count(array); i++)
        set_add(&s, val_at(array, i));
    return s;
}

static enum errc fn_unique(struct fn_call *call)
{
    struct set s = set_of(call, call->args[0]);

    return fn_return(call, array_of(call, s.items, s.count));
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

static enum errc fn_union(struct fn_call *call)
{
    struct val *items = fn_room(call, count_all(call));
    size_t count = 0;

    for (int i = 0; i < call->count; i++)
        count += copy_items(call->args[i], items + count);
    return fn_return(call, array_of(call, items, count));
}

static struct set set_of_all(struct fn_call *call)
{
    struct set s = set_room(call, count_all(call));

    for (int i = 0; i < call->count; i++)
        for (size_t k = 0; k < val_count(call->args[i]); k++)
            set_add(&s, val_at(call->args[i], k));
    return s;
}

static enum errc fn_union_distinct(struct fn_call *call)
{
    struct set s = set_of_all(call);

    return fn_return(call, array_of(call, s.items, s.count));
}

/* Values of the first array that are, or are not, in all others. */
static enum errc select_values(struct fn_call *call, bool wants_in)
{
    struct set left = set_of(call, call->args[0]);

    for (int k = 1; k < call->count; k++) {
        struct set other = set_of(call, call->args[k]);
        size_t kept = 0;
        for (size_t i = 0; i < left.count; i++)
            if (set_holds(&other, left.items[i]) == wants_in)
                left.items[kept++] = left.items[i];
        left.count = kept; /* its table is not asked any more */
    }
    return fn_return(call, array_of(call, left.items, left.count));
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
    struct set s = set_room(call, count_all(call));
    uint32_t *times = arena_zalloc(call->arena, (count_all(call) + 1) * sizeof *times);
    size_t kept = 0;

    for (int i = 0; i < call->count; i++)
        for (size_t k = 0; k < val_count(call->args[i]); k++)
            times[set_add(&s, val_at(call->args[i], k))]++;
    for (size_t i = 0; i < s.count; i++)
        if (times[i] == 1)
            s.items[kept++] = s.items[i];
    return fn_return(call, array_of(call, s.items, kept));
}

static enum errc fn_jaccard(struct fn_call *call)
{
    struct set a = set_of(call, call->args[0]), all = set_of_all(call);
    struct set b = set_of(call, call->args[1]);

    if (!all.count)
        return fn_return_int(call, 1);
    return fn_return_double(call, (double)(a.count + b.count - all.count) / (double)all.count);
}

/* The first elements of all arrays, then the second ones, and so on. */
static enum errc fn_interleave(struct fn_call *call)
{
    size_t total = count_all(call), count = 0;
    struct val *items = fn_room(call, total);

    for (size_t at = 0; count < total; at++)
        for (int i = 0; i < call->count; i++)
            if (at < val_count(call->args[i]))
                items[count++] = val_at(call->args[i], at);
    return fn_return(call, array_of(call, items, count));
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
    struct set gone = set_of(call, call->args[1]);
    for (size_t i = 0; i < val_count(call->args[0]); i++)
        if (!set_holds(&gone, val_at(call->args[0], i)))
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

static enum errc fn_replace_nth(struct fn_call *call)
{
    int64_t count = (int64_t)val_count(call->args[0]), at = fn_int_arg(call, 1);
    void *room;

    if (!fn_is(call, 1, VAL_NUMBER))
        return fn_bad_arg(call, 1, "a place");
    at = at < 0 ? (at + count < 0 ? 0 : at + count) : at;
    if (at > REPLACE_MAX || (at > count && call->count < 4))
        return fn_bad_arg(call, at > REPLACE_MAX ? 1 : 3,
                          at > REPLACE_MAX ? "a place up to 10000000" : "a value for the gap");
    size_t size = (size_t)(at < count ? count : at + 1);
    enum errc rc = arena_try(call->arena, size * sizeof(struct val), &room, call->err);
    if (rc != OK)
        return rc;
    struct val *items = room;
    for (size_t i = copy_items(call->args[0], items); i < size; i++)
        items[i] = fn_arg(call, 3);
    items[at] = call->args[2];
    return fn_return(call, array_of(call, items, size));
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
    { "JACCARD", 2, 2, "a", FN_PURE, fn_jaccard, "Common values as a part of all values." },
    { "INTERLEAVE", 2, -1, "a", FN_PURE, fn_interleave, "Elements of several arrays in turn." },
    { "REPLACE_NTH", 3, 4, "A.", FN_PURE, fn_replace_nth,
      "With another element at a place; a gap is filled with the fourth value." },
    { "REMOVE_VALUE", 2, 3, "A.", FN_PURE, fn_remove_value, "Without a value." },
    { "REMOVE_VALUES", 2, 2, "A.", FN_PURE, fn_remove_values, "Without several values." },
    { "REMOVE_NTH", 2, 2, "a.", FN_PURE, fn_remove_nth, "Without the element at a place." },
    { "POSITION", 2, 3, "a.", FN_PURE, fn_position, "Is the value in the array, or where." },
    { "CONTAINS_ARRAY", 2, 3, "a.", FN_PURE, fn_position, "As POSITION." },
    { 0 },
};
