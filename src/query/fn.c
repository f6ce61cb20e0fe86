/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: a sorted list of all rows, built at first use. */
#include "query/fn.h"
#include "query/fn_support.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { FNS_MAX = 512, NAME_BYTES = 64 };

static const struct fn *const tables[] = { fn_array,     fn_text, fn_encode, fn_similar,
                                           fn_number,    fn_bit,  fn_object, fn_date,
                                           fn_date_zone, fn_type, fn_misc,   fn_dynamic,
                                           fn_vector,    fn_geo,  fn_index,  fn_schema,
                                           fn_minhash };
static const struct fn *sorted[FNS_MAX];
static size_t sorted_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int compare(const void *a, const void *b)
{
    return strcmp((*(const struct fn *const *)a)->name, (*(const struct fn *const *)b)->name);
}

static void build(void)
{
    for (size_t t = 0; t < ARRAY_LEN(tables); t++) {
        for (const struct fn *row = tables[t]; row->name; row++) {
            if (sorted_count == FNS_MAX)
                BUG("too many functions");
            sorted[sorted_count++] = row;
        }
    }
    qsort(sorted, sorted_count, sizeof(*sorted), compare);
}

const struct fn *fn_find(struct slice name)
{
    char upper[NAME_BYTES];
    size_t low = 0, high;

    pthread_once(&once, build);
    if (name.len >= sizeof upper)
        return NULL;
    for (size_t i = 0; i < name.len; i++)
        upper[i] =
            (char)(name.ptr[i] >= 'a' && name.ptr[i] <= 'z' ? name.ptr[i] - 32 : name.ptr[i]);
    upper[name.len] = 0;
    for (high = sorted_count; low < high;) {
        size_t middle = (low + high) / 2;
        int c = strcmp(sorted[middle]->name, upper);
        if (!c)
            return sorted[middle];
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct fn *fn_at(size_t i)
{
    pthread_once(&once, build);
    return i < sorted_count ? sorted[i] : NULL;
}

enum errc fn_bad_arg(struct fn_call *call, int i, const char *expected)
{
    char text[160];

    snprintf(text, sizeof text, "invalid argument type: argument %d must be %s, not %s", i + 1,
             expected, val_type_name(val_type(fn_arg(call, i))));
    fn_warn(call, 1542, text);
    return fn_return(call, val_null);
}

/* What argument i must be, or NULL. */
static const char *expected(const struct fn_call *call, int i, char letter, bool *is_quiet)
{
    bool is_null = val_is_null(call->args[i]);

    switch (letter) {
    case '.':
        return NULL;
    case 'a':
        return fn_is(call, i, VAL_ARRAY) ? NULL : "an array";
    case 'A':
        return is_null || fn_is(call, i, VAL_ARRAY) ? NULL : "an array";
    case 'n':
        *is_quiet = is_null;
        return fn_is(call, i, VAL_ARRAY) ? NULL : "an array";
    case 'o':
        return fn_is(call, i, VAL_OBJECT) ? NULL : "an object";
    case 's':
        return fn_is(call, i, VAL_STRING) ? NULL : "a string";
    default:
        BUG("no type is called %c", letter);
    }
}

enum errc fn_eval(const struct fn *fn, struct fn_call *call)
{
    const char *type = fn->types;

    for (int i = 0; *type && i < call->count; i++) {
        bool is_quiet = false;
        const char *what = expected(call, i, *type, &is_quiet);
        if (what)
            return is_quiet ? fn_return(call, val_null) : fn_bad_arg(call, i, what);
        type += type[1] != 0;
    }
    return fn->eval(call);
}

static int compare_values(const void *a, const void *b, void *collator)
{
    return val_compare(*(const struct val *)a, *(const struct val *)b, collator);
}

void fn_sort(struct fn_call *call, struct val *items, size_t count)
{
    if (count)
        qsort_r(items, count, sizeof *items, compare_values, (void *)call->collator);
}

size_t fn_unique_sorted(struct val *items, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (!kept || !val_equal(items[kept - 1], items[i]))
            items[kept++] = items[i];
    return kept;
}
