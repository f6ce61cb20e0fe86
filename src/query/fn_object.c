/* SPDX-License-Identifier: Apache-2.0 */
/* Functions on objects. */
#include "query/fn_support.h"
#include <stdlib.h>

struct members {
    struct slice *names;
    struct val *values;
    size_t count;
};

static struct members room_for(struct fn_call *call, size_t count)
{
    return (struct members){ arena_alloc(call->arena, (count + 1) * sizeof(struct slice)),
                             fn_room(call, count), 0 };
}

static enum errc finish(struct fn_call *call, const struct members *m)
{
    return fn_return(call, val_new_object(call->arena, m->names, m->values, m->count));
}

static int compare_names(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

static bool is_skipped(struct fn_call *call, struct slice name)
{
    return val_truth(fn_arg(call, 1)) && name.len && name.ptr[0] == '_';
}

static enum errc fn_attributes(struct fn_call *call)
{
    struct val v = fn_arg(call, 0);
    size_t n = 0;

    struct slice *names = arena_alloc(call->arena, (val_count(v) + 1) * sizeof *names);
    for (size_t i = 0; i < val_count(v); i++)
        if (!is_skipped(call, val_name_at(v, i)))
            names[n++] = val_name_at(v, i);
    if (val_truth(fn_arg(call, 2)))
        qsort(names, n, sizeof *names, compare_names);
    struct val *items = fn_room(call, n);
    for (size_t i = 0; i < n; i++)
        items[i] = val_new_string(call->arena, names[i]);
    return fn_return(call, val_new_array(call->arena, items, n));
}

static enum errc fn_values(struct fn_call *call)
{
    struct val v = fn_arg(call, 0);
    size_t n = 0;

    struct val *items = fn_room(call, val_count(v));
    for (size_t i = 0; i < val_count(v); i++)
        if (!is_skipped(call, val_name_at(v, i)))
            items[n++] = val_at(v, i);
    return fn_return(call, val_new_array(call->arena, items, n));
}

static enum errc fn_has(struct fn_call *call)
{
    struct val out;

    return fn_return_bool(call, val_find(fn_arg(call, 0), fn_text_arg(call, 1), &out));
}

static struct val merge_deep(struct arena *arena, struct val under, struct val over)
{
    size_t count = val_count(over);
    struct slice *names = arena_alloc(arena, (count + 1) * sizeof *names);
    struct val *values = arena_alloc(arena, (count + 1) * sizeof *values), old;

    for (size_t i = 0; i < count; i++) {
        names[i] = val_name_at(over, i);
        values[i] = val_at(over, i);
        if (val_type(values[i]) == VAL_OBJECT && val_find(under, names[i], &old) &&
            val_type(old) == VAL_OBJECT)
            values[i] = merge_deep(arena, old, values[i]);
    }
    return val_merge(arena, under, val_new_object(arena, names, values, count));
}

static enum errc merge(struct fn_call *call, bool is_deep)
{
    bool is_list = call->count == 1 && fn_is(call, 0, VAL_ARRAY);
    size_t count = is_list ? val_count(call->args[0]) : (size_t)call->count;
    struct val result = val_empty_object;

    for (size_t i = 0; i < count; i++) {
        struct val v = is_list ? val_at(call->args[0], i) : call->args[i];
        if (val_type(v) != VAL_OBJECT)
            return fn_bad_arg(call, is_list ? 0 : (int)i, "an object");
        result = is_deep ? merge_deep(call->arena, result, v) : val_merge(call->arena, result, v);
    }
    return fn_return(call, result);
}

static enum errc fn_merge(struct fn_call *call)
{
    return merge(call, false);
}

static enum errc fn_merge_recursive(struct fn_call *call)
{
    return merge(call, true);
}

/* Is the name among the arguments, plain or in arrays? */
static bool names_hold(struct fn_call *call, struct slice name)
{
    for (int i = 1; i < call->count; i++) {
        struct val v = call->args[i];
        if (val_type(v) == VAL_STRING && slice_eq(val_string(v), name))
            return true;
        for (size_t k = 0; val_type(v) == VAL_ARRAY && k < val_count(v); k++)
            if (slice_eq(val_string(val_at(v, k)), name))
                return true;
    }
    return false;
}

static enum errc pick(struct fn_call *call, bool keeps)
{
    struct val v = fn_arg(call, 0);

    struct members m = room_for(call, val_count(v));
    for (size_t i = 0; i < val_count(v); i++) {
        if (names_hold(call, val_name_at(v, i)) != keeps)
            continue;
        m.names[m.count] = val_name_at(v, i);
        m.values[m.count++] = val_at(v, i);
    }
    return finish(call, &m);
}

static enum errc fn_keep(struct fn_call *call)
{
    return pick(call, true);
}

static enum errc fn_unset(struct fn_call *call)
{
    return pick(call, false);
}

/* Inside objects too; arrays stay as they are. */
static struct val pick_deep(struct fn_call *call, struct val v, bool keeps)
{
    if (val_type(v) != VAL_OBJECT)
        return v;
    struct members m = room_for(call, val_count(v));
    for (size_t i = 0; i < val_count(v); i++) {
        if (names_hold(call, val_name_at(v, i)) != keeps)
            continue;
        m.names[m.count] = val_name_at(v, i);
        m.values[m.count++] = pick_deep(call, val_at(v, i), keeps);
    }
    return val_new_object(call->arena, m.names, m.values, m.count);
}

static enum errc fn_keep_recursive(struct fn_call *call)
{
    return fn_return(call, pick_deep(call, call->args[0], true));
}

static enum errc fn_unset_recursive(struct fn_call *call)
{
    return fn_return(call, pick_deep(call, call->args[0], false));
}

static enum errc fn_translate(struct fn_call *call)
{
    struct val found;

    if (!fn_is(call, 1, VAL_OBJECT))
        return fn_bad_arg(call, 1, "an object");
    if (val_find(call->args[1], fn_text_arg(call, 0), &found))
        return fn_return(call, found);
    return fn_return(call, call->count > 2 ? call->args[2] : call->args[0]);
}

static enum errc fn_zip(struct fn_call *call)
{
    struct val keys = fn_arg(call, 0), values = fn_arg(call, 1);

    if (val_type(keys) != VAL_ARRAY || val_type(values) != VAL_ARRAY ||
        val_count(keys) != val_count(values))
        return fn_bad_arg(call, 1, "an array as long as the first");
    struct val_builder *b = val_builder_new(0);
    val_open_object(b);
    for (size_t i = 0; i < val_count(keys); i++) {
        struct slice name = val_string(cast_string(call->arena, val_at(keys, i)));
        val_put_name(b, name);
        val_put(b, val_at(values, i));
    }
    val_close(b);
    enum errc rc = val_finish_in(b, call->arena, &call->result, call->err);
    val_builder_free(b);
    return rc;
}

static enum errc fn_entries(struct fn_call *call)
{
    struct val v = fn_arg(call, 0);

    struct val *items = fn_room(call, val_count(v));
    for (size_t i = 0; i < val_count(v); i++) {
        struct val pair[] = { val_new_string(call->arena, val_name_at(v, i)), val_at(v, i) };
        items[i] = val_new_array(call->arena, pair, 2);
    }
    return fn_return(call, val_new_array(call->arena, items, val_count(v)));
}

static enum errc fn_value(struct fn_call *call)
{
    struct val v = fn_arg(call, 0), path = fn_arg(call, 1);

    for (size_t i = 0; i < val_count(path); i++) {
        struct val step = val_at(path, i);
        v = val_type(step) == VAL_NUMBER && val_double(step) >= 0 ? val_at(v, (size_t)val_int(step))
                                                                  : val_get(v, val_string(step));
    }
    return fn_return(call, v);
}

static bool matches(struct val v, struct val example)
{
    for (size_t i = 0; i < val_count(example); i++)
        if (!val_equal(val_get(v, val_name_at(example, i)), val_at(example, i)))
            return false;
    return true;
}

static enum errc fn_matches(struct fn_call *call)
{
    struct val v = fn_arg(call, 0), examples = fn_arg(call, 1);
    bool wants_place = val_truth(fn_arg(call, 2));

    if (val_type(examples) == VAL_OBJECT)
        examples = val_new_array(call->arena, &examples, 1);
    for (size_t i = 0; val_type(v) == VAL_OBJECT && i < val_count(examples); i++)
        if (matches(v, val_at(examples, i)))
            return wants_place ? fn_return_int(call, (int64_t)i) : fn_return_bool(call, true);
    return wants_place ? fn_return_int(call, -1) : fn_return_bool(call, false);
}

const struct fn fn_object[] = {
    { "ATTRIBUTES", 1, 3, "o.", FN_PURE, fn_attributes, "Names of the members." },
    { "KEYS", 1, 3, "o.", FN_PURE, fn_attributes, "As ATTRIBUTES." },
    { "VALUES", 1, 2, "o.", FN_PURE, fn_values, "Values of the members." },
    { "HAS", 2, 2, "", FN_PURE, fn_has, "Is there a member of that name?" },
    { "MERGE", 1, -1, "", FN_PURE, fn_merge, "Members of several objects; the last wins." },
    { "MERGE_RECURSIVE", 1, -1, "", FN_PURE, fn_merge_recursive, "The same, inside objects too." },
    { "KEEP", 2, -1, "o.", FN_PURE, fn_keep, "Only the named members." },
    { "UNSET", 2, -1, "o.", FN_PURE, fn_unset, "Without the named members." },
    { "KEEP_RECURSIVE", 2, -1, "o.", FN_PURE, fn_keep_recursive,
      "Only the named members, inside too." },
    { "UNSET_RECURSIVE", 2, -1, "o.", FN_PURE, fn_unset_recursive,
      "Without the named members, inside too." },
    { "TRANSLATE", 2, 3, "", FN_PURE, fn_translate,
      "What a table has for a value; else a default, else the value." },
    { "ZIP", 2, 2, "", FN_PURE, fn_zip, "An object of names and values." },
    { "ENTRIES", 1, 1, "o.", FN_PURE, fn_entries, "Pairs of name and value." },
    { "VALUE", 2, 2, "", FN_PURE, fn_value, "The value at a path." },
    { "MATCHES", 2, 3, "", FN_PURE, fn_matches, "Does the object equal an example?" },
    { 0 },
};
