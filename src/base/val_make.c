/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making values. A builder writes members one behind the other; when a
 * container is closed its header is put in front by one move. Offsets are
 * relative to their own container, so finished inner values move as they are.
 */
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

struct lookup {
    struct slice name;
    uint32_t hash;
    uint32_t position;
};

static int compare_lookup(const void *a, const void *b)
{
    const struct lookup *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return slice_cmp(x->name, y->name);
}

static void fill_lookup(uint8_t *at, unsigned w, size_t count)
{
    struct val v = { at };
    uint8_t *hashes = at + 1 + 2 * w + count * w, *positions = hashes + count * 4;
    struct lookup small[OBJECT_LINEAR], *rows = small;

    if (count > OBJECT_LINEAR)
        rows = mem_alloc(count * sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        rows[i].name = val_name_at(v, i);
        rows[i].hash = val_name_hash(rows[i].name);
        rows[i].position = (uint32_t)i;
    }
    if (count > OBJECT_LINEAR)
        qsort(rows, count, sizeof *rows, compare_lookup);
    for (size_t i = 0; i < count; i++) {
        memcpy(hashes + i * 4, &rows[i].hash, 4);
        if (count > OBJECT_LINEAR)
            store_width(positions + i * w, w, rows[i].position);
    }
    if (rows != small)
        mem_free(rows);
}

void container_fill(uint8_t *at, unsigned w, size_t count, size_t payload, bool is_object,
                    const size_t *starts)
{
    size_t header = container_header(w, count, is_object);

    at[0] = (uint8_t)((is_object ? TAG_OBJECT : TAG_ARRAY) + (w == 4 ? 3 : w));
    store_width(at + 1, w, header + payload);
    store_width(at + 1 + w, w, count);
    for (size_t i = 0; i < count; i++)
        store_width(at + 1 + 2 * w + i * w, w, header + starts[i]);
    if (is_object)
        fill_lookup(at, w, count);
}

/* ---- builder ---- */

struct frame {
    size_t start; /* of its first member, in bytes */
    size_t first; /* of its members, in starts */
    bool is_object;
};

struct val_builder {
    struct buf bytes;
    struct frame stack[LIMIT_NESTING];
    size_t depth;
    size_t *starts; /* byte position of each member of the open containers */
    size_t count, cap;
    bool is_name_next_value; /* a name was written: the next value belongs to it */
    struct error err;
};

struct val_builder *val_builder_new(size_t max_bytes)
{
    struct val_builder *b = mem_zalloc(sizeof *b);

    buf_init(&b->bytes, max_bytes);
    return b;
}

void val_builder_free(struct val_builder *b)
{
    if (!b)
        return;
    buf_release(&b->bytes);
    mem_free(b->starts);
    mem_free(b);
}

void val_builder_reset(struct val_builder *b)
{
    buf_clear(&b->bytes);
    b->depth = b->count = 0;
    b->is_name_next_value = false;
    b->err = (struct error){ 0 };
}

static void start_add(struct val_builder *b)
{
    if (b->count == b->cap) {
        b->cap = b->cap ? b->cap * 2 : 32;
        b->starts = mem_realloc(b->starts, b->cap * sizeof *b->starts);
    }
    b->starts[b->count++] = b->bytes.len;
}

static void value_begin(struct val_builder *b)
{
    if (!b->depth)
        return;
    if (b->is_name_next_value)
        b->is_name_next_value = false;
    else if (b->stack[b->depth - 1].is_object)
        BUG("a value without a name in an object");
    else
        start_add(b);
}

static void put_bytes(struct val_builder *b, const void *bytes, size_t len)
{
    value_begin(b);
    buf_add(&b->bytes, bytes, len);
}

void val_put_null(struct val_builder *b)
{
    put_bytes(b, val_null.at, 1);
}

void val_put_bool(struct val_builder *b, bool is_true)
{
    put_bytes(b, is_true ? val_true.at : val_false.at, 1);
}

void val_put_int(struct val_builder *b, int64_t i)
{
    uint8_t out[9];

    put_bytes(b, out, val_encode_int(out, i));
}

void val_put_double(struct val_builder *b, double d)
{
    uint8_t out[9];

    put_bytes(b, out, val_encode_double(out, d));
}

static void add_string(struct val_builder *b, struct slice text)
{
    uint8_t head[5];

    if (text.len > UINT32_MAX / 2) {
        b->bytes.is_overfull = true;
        return;
    }
    buf_add(&b->bytes, head, val_encode_string_head(head, text.len));
    buf_add_slice(&b->bytes, text);
}

void val_put_string(struct val_builder *b, struct slice text)
{
    value_begin(b);
    add_string(b, text);
}

void val_put(struct val_builder *b, struct val v)
{
    struct slice bytes = val_bytes(v);

    put_bytes(b, bytes.ptr, bytes.len);
}

/* Head of an array of equal elements. */
static void equal_head(uint8_t out[EQUAL_HEADER], size_t stride, size_t count)
{
    uint32_t n = (uint32_t)count;

    out[0] = TAG_ARRAY_EQUAL;
    out[1] = (uint8_t)stride;
    memcpy(out + 2, &n, sizeof n);
}

void val_put_floats(struct val_builder *b, const float *f, size_t count)
{
    uint8_t head[EQUAL_HEADER], one[5] = { TAG_FLOAT };

    value_begin(b);
    if (!count) {
        buf_add(&b->bytes, val_empty_array.at, 1);
        return;
    }
    equal_head(head, sizeof one, count);
    buf_add(&b->bytes, head, sizeof head);
    for (size_t i = 0; i < count; i++) {
        float clean = isfinite(f[i]) && f[i] != 0 ? f[i] : 0;
        memcpy(one + 1, &clean, sizeof clean);
        buf_add(&b->bytes, one, sizeof one);
    }
}

static void open_container(struct val_builder *b, bool is_object)
{
    value_begin(b);
    if (b->depth == LIMIT_NESTING) {
        if (b->err.code == OK)
            fail_num(&b->err, 600, "nesting deeper than %d levels", LIMIT_NESTING);
        b->depth++; /* counted, so that close matches */
        return;
    }
    if (b->depth > LIMIT_NESTING) {
        b->depth++;
        return;
    }
    b->stack[b->depth++] = (struct frame){ b->bytes.len, b->count, is_object };
}

void val_open_array(struct val_builder *b)
{
    open_container(b, false);
}

void val_open_object(struct val_builder *b)
{
    open_container(b, true);
}

void val_put_name(struct val_builder *b, struct slice name)
{
    if (b->err.code != OK)
        return;
    if (!b->depth || !b->stack[b->depth - 1].is_object || b->is_name_next_value)
        BUG("a name outside of an object");
    start_add(b);
    add_string(b, name);
    b->is_name_next_value = true;
}

/*
 * A name given twice: the last value moves to the first position. Rare, so it
 * rebuilds the members.
 */
struct member {
    struct slice name;
    struct slice bytes; /* of name and value */
    size_t order;
    bool is_dead;
};

static int compare_member(const void *a, const void *b)
{
    const struct member *x = *(struct member *const *)a, *y = *(struct member *const *)b;
    int c = slice_cmp(x->name, y->name);

    return c ? c : x->order < y->order ? -1 : 1;
}

static bool mark_duplicates(struct member *m, size_t count)
{
    struct member **sorted = mem_alloc(count * sizeof(*sorted));
    bool any = false;

    for (size_t i = 0; i < count; i++)
        sorted[i] = &m[i];
    qsort(sorted, count, sizeof(*sorted), compare_member);
    for (size_t i = 0; i < count;) {
        size_t last = i;
        while (last + 1 < count && slice_eq(sorted[last + 1]->name, sorted[i]->name))
            last++;
        if (last > i) {
            any = true;
            sorted[i]->bytes = sorted[last]->bytes;
            for (size_t k = i + 1; k <= last; k++)
                sorted[k]->is_dead = true;
        }
        i = last + 1;
    }
    mem_free(sorted);
    return any;
}

static void drop_duplicates(struct val_builder *b, struct frame *f)
{
    size_t count = b->count - f->first, kept = 0;
    struct member *m = mem_alloc((count + 1) * sizeof *m);
    struct buf again;

    for (size_t i = 0; i < count; i++) {
        size_t from = b->starts[f->first + i];
        size_t to = i + 1 < count ? b->starts[f->first + i + 1] : b->bytes.len;
        struct val name = { (const uint8_t *)b->bytes.ptr + from };
        m[i] = (struct member){ val_string(name), slice_of(b->bytes.ptr + from, to - from), i,
                                false };
    }
    if (mark_duplicates(m, count)) {
        buf_init(&again, 0);
        for (size_t i = 0; i < count; i++) {
            if (m[i].is_dead)
                continue;
            b->starts[f->first + kept++] = f->start + again.len;
            buf_add_slice(&again, m[i].bytes);
        }
        memcpy(b->bytes.ptr + f->start, again.ptr, again.len);
        b->bytes.len = f->start + again.len;
        b->count = f->first + kept;
        buf_release(&again);
    }
    mem_free(m);
}

/* All elements doubles: *is_float when each is exactly a float32. */
static bool all_doubles(const struct val_builder *b, const struct frame *f, bool *is_float)
{
    *is_float = true;
    for (size_t i = f->first; i < b->count; i++) {
        const uint8_t *at = (const uint8_t *)b->bytes.ptr + b->starts[i];
        double d;
        if (*at != TAG_DOUBLE)
            return false;
        memcpy(&d, at + 1, sizeof d);
        *is_float &= fabs(d) <= 3e38 && (double)(float)d == d;
    }
    return true;
}

static bool close_equal(struct val_builder *b, const struct frame *f)
{
    size_t count = b->count - f->first;
    bool is_float;
    uint8_t *at;

    if (count < EQUAL_MIN || count > UINT32_MAX || !all_doubles(b, f, &is_float))
        return false;
    if (is_float) {
        at = (uint8_t *)b->bytes.ptr + f->start;
        for (size_t i = 0; i < count; i++) {
            double d;
            memcpy(&d, at + i * 9 + 1, sizeof d);
            float one = (float)d;
            at[i * 5] = TAG_FLOAT;
            memcpy(at + i * 5 + 1, &one, sizeof one);
        }
        b->bytes.len = f->start + count * 5;
    }
    size_t payload = b->bytes.len - f->start;
    if (!buf_reserve(&b->bytes, EQUAL_HEADER))
        return true;
    at = (uint8_t *)b->bytes.ptr + f->start;
    memmove(at + EQUAL_HEADER, at, payload);
    equal_head(at, is_float ? 5 : 9, count);
    return true;
}

static void close_tables(struct val_builder *b, const struct frame *f)
{
    size_t count = b->count - f->first, payload = b->bytes.len - f->start;
    unsigned w = container_width(count, payload, f->is_object);
    size_t header = w ? container_header(w, count, f->is_object) : 0;

    if (!w) {
        b->bytes.is_overfull = true;
        return;
    }
    if (!buf_reserve(&b->bytes, header))
        return;
    uint8_t *at = (uint8_t *)b->bytes.ptr + f->start;
    memmove(at + header, at, payload);
    for (size_t i = f->first; i < b->count; i++)
        b->starts[i] -= f->start;
    container_fill(at, w, count, payload, f->is_object, b->starts + f->first);
}

void val_close(struct val_builder *b)
{
    if (!b->depth)
        BUG("nothing is open");
    if (b->depth > LIMIT_NESTING) {
        b->depth--;
        return;
    }
    struct frame *f = &b->stack[--b->depth];
    if (b->bytes.is_overfull || b->err.code != OK) {
        b->count = f->first;
        return;
    }
    if (f->is_object)
        drop_duplicates(b, f);
    if (b->count == f->first)
        buf_add(&b->bytes, f->is_object ? val_empty_object.at : val_empty_array.at, 1);
    else if (f->is_object || !close_equal(b, f))
        close_tables(b, f);
    b->count = f->first;
}

enum errc val_finish(struct val_builder *b, struct val *out, struct error *err)
{
    if (b->err.code != OK) {
        if (err)
            *err = b->err;
        return b->err.code;
    }
    if (b->bytes.is_overfull)
        return fail_num(err, 1216, "the value is larger than %zu bytes",
                        b->bytes.max ? b->bytes.max : (size_t)UINT32_MAX);
    if (b->depth || !b->bytes.len)
        BUG("the value is not complete");
    *out = (struct val){ (const uint8_t *)b->bytes.ptr };
    return OK;
}

enum errc val_finish_in(struct val_builder *b, struct arena *arena, struct val *out,
                        struct error *err)
{
    struct val v;
    void *copy;
    enum errc rc = val_finish(b, &v, err);

    if (rc == OK)
        rc = arena_try(arena, b->bytes.len, &copy, err);
    if (rc == OK) {
        memcpy(copy, v.at, b->bytes.len);
        out->at = copy;
    }
    val_builder_reset(b);
    return rc;
}

/* ---- single values ---- */

static struct val copy_bytes(struct arena *arena, const void *bytes, size_t len)
{
    uint8_t *at = arena_alloc(arena, len);

    memcpy(at, bytes, len);
    return (struct val){ at };
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
    uint8_t head[5];
    size_t n = val_encode_string_head(head, text.len);
    uint8_t *at = arena_alloc(arena, n + text.len);

    memcpy(at, head, n);
    if (text.len)
        memcpy(at + n, text.ptr, text.len);
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

static size_t string_size(size_t len)
{
    return len + (len <= TAG_SHORT_LAST - TAG_SHORT ? 1 : 5);
}

static struct val new_container(struct arena *arena, const struct slice *names,
                                const struct val *items, size_t count)
{
    bool is_object = names != NULL;
    size_t payload = 0;
    size_t *starts = mem_alloc((count + 1) * sizeof *starts);

    for (size_t i = 0; i < count; i++) {
        starts[i] = payload;
        payload += val_bytes(items[i]).len + (is_object ? string_size(names[i].len) : 0);
    }
    unsigned w = container_width(count, payload, is_object);
    if (!w)
        BUG("a value of more than 4 GiB");
    size_t header = container_header(w, count, is_object);
    uint8_t *at = arena_alloc(arena, header + payload), *to = at + header;
    for (size_t i = 0; i < count; i++) {
        struct slice bytes = val_bytes(items[i]);
        if (is_object) {
            to += val_encode_string_head(to, names[i].len);
            if (names[i].len)
                memcpy(to, names[i].ptr, names[i].len);
            to += names[i].len;
        }
        memcpy(to, bytes.ptr, bytes.len);
        to += bytes.len;
    }
    container_fill(at, w, count, payload, is_object, starts);
    mem_free(starts);
    return (struct val){ at };
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
    size_t nu = val_count(under), no = val_count(over), n = 0;
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
