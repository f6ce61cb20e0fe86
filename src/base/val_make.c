/* SPDX-License-Identifier: Apache-2.0 */
/* Making values: scalars, the tables of containers, and whole values in an arena. */
#include "base/val_bytes.h"
#include <math.h>
#include <stdlib.h>

/* ---- scalars and headers ---- */

size_t val_encode_int(uint8_t *out, int64_t i)
{
    unsigned n = 1;

    if (i >= 0 && i < 16) {
        out[0] = (uint8_t)(TAG_SMALL + i);
        return 1;
    }
    while (n < 8 && (i < -((int64_t)1 << (8 * n - 1)) || i >= (int64_t)1 << (8 * n - 1)))
        n++;
    out[0] = (uint8_t)(TAG_INT + n - 1);
    memcpy(out + 1, &i, n);
    return 1 + n;
}

size_t val_encode_double(uint8_t *out, double d)
{
    if (!isfinite(d)) {
        out[0] = TAG_NULL;
        return 1;
    }
    if (d == 0)
        d = 0; /* no negative zero */
    out[0] = TAG_DOUBLE;
    memcpy(out + 1, &d, sizeof d);
    return 9;
}

size_t val_encode_string_head(uint8_t *out, size_t len)
{
    uint32_t n = (uint32_t)len;

    if (len <= TAG_SHORT_LAST - TAG_SHORT) {
        out[0] = (uint8_t)(TAG_SHORT + len);
        return 1;
    }
    out[0] = TAG_STRING;
    memcpy(out + 1, &n, sizeof n);
    return 5;
}

unsigned container_width(size_t count, size_t payload, bool is_object)
{
    static const unsigned widths[] = { 1, 2, 4 };

    for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
        unsigned w = widths[i];
        uint64_t size = (uint64_t)container_header(w, count, is_object) + payload;
        if (size < (uint64_t)1 << (8 * w))
            return w;
    }
    return 0;
}

static int compare_lookup(const void *a, const void *b)
{
    const struct lookup *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    int order = slice_cmp(x->name, y->name);
    return order ? order : (x->position > y->position) - (x->position < y->position);
}

void lookup_sort(struct lookup *rows, size_t count)
{
    if (count > 32) {
        qsort(rows, count, sizeof *rows, compare_lookup);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        struct lookup row = rows[i];
        size_t k = i;
        for (; k && compare_lookup(&rows[k - 1], &row) > 0; k--)
            rows[k] = rows[k - 1];
        rows[k] = row;
    }
}

void lookup_make(struct lookup *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rows[i].hash = val_name_hash(rows[i].name);
        rows[i].position = (uint32_t)i;
    }
    if (count > OBJECT_LINEAR)
        lookup_sort(rows, count);
}

static bool are_twins(const struct lookup *a, const struct lookup *b)
{
    return a->hash == b->hash && slice_eq(a->name, b->name);
}

bool lookup_has_twins(const struct lookup *rows, size_t count)
{
    if (count > OBJECT_LINEAR) {
        for (size_t i = 1; i < count; i++)
            if (are_twins(&rows[i - 1], &rows[i]))
                return true;
        return false;
    }
    for (size_t i = 1; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (are_twins(&rows[k], &rows[i]))
                return true;
    return false;
}

void container_fill(uint8_t *at, unsigned w, size_t count, size_t payload, const uint32_t *starts,
                    const struct lookup *rows)
{
    size_t header = container_header(w, count, rows != NULL);
    uint8_t *offsets = at + 1 + 2 * w, *hashes = offsets + count * w;
    uint8_t *positions = hashes + count * 4;

    at[0] = (uint8_t)((rows ? TAG_OBJECT : TAG_ARRAY) + (w == 4 ? 3 : w));
    store_width(at + 1, w, header + payload);
    store_width(at + 1 + w, w, count);
    for (size_t i = 0; i < count; i++)
        store_width(offsets + i * w, w, header + starts[i]);
    for (size_t i = 0; rows && i < count; i++) {
        memcpy(hashes + i * 4, &rows[i].hash, 4);
        if (count > OBJECT_LINEAR)
            store_width(positions + i * w, w, rows[i].position);
    }
}

/* ---- single values ---- */

static struct val copy_bytes(struct arena *arena, const void *bytes, size_t len)
{
    uint8_t *at = arena_alloc(arena, len);

    memcpy(at, bytes, len);
    return (struct val){ at };
}

static size_t string_size(size_t len)
{
    return len + (len <= TAG_SHORT_LAST - TAG_SHORT ? 1 : 5);
}

static uint8_t *put_string(uint8_t *to, struct slice text)
{
    to += val_encode_string_head(to, text.len);
    if (text.len)
        memcpy(to, text.ptr, text.len);
    return to + text.len;
}

struct val val_new_int(struct arena *arena, int64_t i)
{
    uint8_t out[9];

    return copy_bytes(arena, out, val_encode_int(out, i));
}

struct val val_new_double(struct arena *arena, double d)
{
    uint8_t out[9];

    return copy_bytes(arena, out, val_encode_double(out, d));
}

struct val val_new_string(struct arena *arena, struct slice text)
{
    uint8_t *at = arena_alloc(arena, string_size(text.len));

    put_string(at, text);
    return (struct val){ at };
}

struct val val_new_sealed(struct arena *arena, size_t len, uint8_t **bytes)
{
    uint32_t n = (uint32_t)len;
    uint8_t *at = arena_alloc(arena, SEALED_HEADER + len);

    at[0] = TAG_SEALED;
    memcpy(at + 1, &n, sizeof n);
    *bytes = at + SEALED_HEADER;
    return (struct val){ at };
}

struct val val_new_bool(bool is_true)
{
    return is_true ? val_true : val_false;
}

struct val val_copy(struct arena *arena, struct val v)
{
    struct slice bytes = val_bytes(v);

    return copy_bytes(arena, bytes.ptr, bytes.len);
}

/* starts and rows are scratch for count members; rows NULL: an array. */
static struct val fill_container(struct arena *arena, uint32_t *starts, struct lookup *rows,
                                 const struct val *items, size_t count)
{
    size_t payload = 0;

    for (size_t i = 0; i < count; i++) {
        starts[i] = (uint32_t)payload;
        payload += val_bytes(items[i]).len + (rows ? string_size(rows[i].name.len) : 0);
    }
    unsigned w = container_width(count, payload, rows != NULL);
    if (!w)
        BUG("a value of more than 4 GiB");
    size_t header = container_header(w, count, rows != NULL);
    uint8_t *at = arena_alloc(arena, header + payload), *to = at + header;
    for (size_t i = 0; i < count; i++) {
        struct slice bytes = val_bytes(items[i]);
        if (rows)
            to = put_string(to, rows[i].name);
        memcpy(to, bytes.ptr, bytes.len);
        to += bytes.len;
    }
    if (rows)
        lookup_make(rows, count);
    container_fill(at, w, count, payload, starts, rows);
    return (struct val){ at };
}

enum { SCRATCH = 32 }; /* members that need no allocation */

static struct val new_container(struct arena *arena, const struct slice *names,
                                const struct val *items, size_t count)
{
    uint32_t few_starts[SCRATCH], *starts = few_starts;
    struct lookup few_rows[SCRATCH], *rows = names ? few_rows : NULL;

    if (count > SCRATCH) {
        starts = mem_alloc(count * sizeof *starts);
        rows = names ? mem_alloc(count * sizeof *rows) : NULL;
    }
    for (size_t i = 0; names && i < count; i++)
        rows[i].name = names[i];
    struct val v = fill_container(arena, starts, rows, items, count);
    if (count > SCRATCH) {
        mem_free(starts);
        mem_free(rows);
    }
    return v;
}

struct val val_new_array(struct arena *arena, const struct val *items, size_t count)
{
    return count ? new_container(arena, NULL, items, count) : val_empty_array;
}

struct val val_new_object(struct arena *arena, const struct slice *names, const struct val *values,
                          size_t count)
{
    return count ? new_container(arena, names, values, count) : val_empty_object;
}

struct val val_merge(struct arena *arena, struct val under, struct val over)
{
    size_t nu = val_type(under) == VAL_OBJECT ? val_count(under) : 0;
    size_t no = val_type(over) == VAL_OBJECT ? val_count(over) : 0, n = 0;
    struct slice *names = mem_alloc((nu + no + 1) * sizeof *names);
    struct val *values = mem_alloc((nu + no + 1) * sizeof *values), other;

    for (size_t i = 0; i < nu; i++) {
        names[n] = val_name_at(under, i);
        values[n] = val_find(over, names[n], &other) ? other : val_at(under, i);
        n++;
    }
    for (size_t i = 0; i < no; i++) {
        if (val_find(under, val_name_at(over, i), &other))
            continue;
        names[n] = val_name_at(over, i);
        values[n++] = val_at(over, i);
    }
    struct val out = val_new_object(arena, names, values, n);
    mem_free(names);
    mem_free(values);
    return out;
}
