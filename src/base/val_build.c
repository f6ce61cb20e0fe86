/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The builder writes members one behind the other; when a container is closed
 * its header is put in front by one move. Offsets are relative to their own
 * container, so finished inner values move as they are.
 *
 * After an error nothing is written any more; opening and closing are still
 * counted, so that a caller need not look before val_finish.
 */
#include "base/val_bytes.h"
#include <math.h>

struct frame {
    size_t start; /* of its first member, in bytes */
    size_t first; /* of its members, in starts */
    bool is_object;
};

struct val_builder {
    struct buf bytes;
    size_t depth;
    uint32_t *starts; /* byte position of each member of the open containers */
    size_t count, cap;
    struct lookup *rows; /* scratch of the object that is closed */
    size_t rows_cap;
    bool has_name; /* a name was written: the next value belongs to it */
    struct error err;
    struct frame stack[LIMIT_NESTING]; /* last, as it starts uninitialised */
};

struct val_builder *val_builder_new(size_t max_bytes)
{
    struct val_builder *b = mem_alloc(sizeof *b);

    memset(b, 0, offsetof(struct val_builder, stack));
    buf_init(&b->bytes, max_bytes && max_bytes < UINT32_MAX ? max_bytes : UINT32_MAX);
    return b;
}

void val_builder_free(struct val_builder *b)
{
    if (!b)
        return;
    buf_release(&b->bytes);
    mem_free(b->starts);
    mem_free(b->rows);
    mem_free(b);
}

void val_builder_reset(struct val_builder *b)
{
    buf_clear(&b->bytes);
    b->depth = b->count = 0;
    b->has_name = false;
    b->err = (struct error){ 0 };
}

static bool is_stuck(const struct val_builder *b)
{
    return b->bytes.is_overfull || b->err.code != OK;
}

static void too_deep(struct val_builder *b)
{
    if (b->err.code == OK)
        (void)fail_num(&b->err, 600, "nesting deeper than %d levels", LIMIT_NESTING);
}

static void start_add(struct val_builder *b)
{
    if (b->count == b->cap) {
        b->cap = b->cap ? b->cap * 2 : 32;
        b->starts = mem_realloc(b->starts, b->cap * sizeof *b->starts);
    }
    b->starts[b->count++] = (uint32_t)b->bytes.len;
}

/* Notes where a value begins. False: nothing may be written. */
static bool value_begin(struct val_builder *b)
{
    if (is_stuck(b))
        return false;
    if (!b->depth) {
        if (b->bytes.len)
            BUG("a second value at the top");
        return true;
    }
    if (b->has_name)
        b->has_name = false;
    else if (b->stack[b->depth - 1].is_object)
        BUG("a value without a name in an object");
    else
        start_add(b);
    return true;
}

/* ---- scalars ---- */

static void put_bytes(struct val_builder *b, const void *bytes, size_t len)
{
    if (value_begin(b))
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

    buf_add(&b->bytes, head, val_encode_string_head(head, text.len));
    buf_add_slice(&b->bytes, text);
}

void val_put_string(struct val_builder *b, struct slice text)
{
    if (value_begin(b))
        add_string(b, text);
}

void val_put_name(struct val_builder *b, struct slice name)
{
    if (is_stuck(b))
        return;
    if (!b->depth || !b->stack[b->depth - 1].is_object || b->has_name)
        BUG("a name outside of an object");
    start_add(b);
    add_string(b, name);
    b->has_name = true;
}

void val_put(struct val_builder *b, struct val v)
{
    struct slice bytes = val_bytes(v);

    if (!is_stuck(b) && !val_is_within(v, (unsigned)(LIMIT_NESTING - b->depth)))
        too_deep(b);
    put_bytes(b, bytes.ptr, bytes.len);
}

/* ---- arrays of equal elements ---- */

static void equal_head(uint8_t *out, size_t stride, size_t count)
{
    uint32_t n = (uint32_t)count;

    out[0] = TAG_ARRAY_EQUAL;
    out[1] = (uint8_t)stride;
    memcpy(out + 2, &n, sizeof n);
}

static void put_float(uint8_t *to, float f)
{
    to[0] = TAG_FLOAT;
    memcpy(to + 1, &f, sizeof f);
}

void val_put_floats(struct val_builder *b, const float *f, size_t count)
{
    if (!count) {
        put_bytes(b, val_empty_array.at, 1);
        return;
    }
    if (b->depth == LIMIT_NESTING)
        too_deep(b);
    if (!value_begin(b))
        return;
    uint8_t *to =
        count < UINT32_MAX / 5 ? (uint8_t *)buf_reserve(&b->bytes, EQUAL_HEADER + count * 5) : NULL;
    if (!to) {
        b->bytes.is_overfull = true;
        return;
    }
    equal_head(to, 5, count);
    for (size_t i = 0; i < count; i++) /* NaN, infinities and -0 have no place in a value */
        put_float(to + EQUAL_HEADER + i * 5, isfinite(f[i]) && f[i] != 0 ? f[i] : 0);
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

static void narrow_to_floats(uint8_t *at, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double d;
        memcpy(&d, at + i * 9 + 1, sizeof d);
        put_float(at + i * 5, (float)d);
    }
}

/* Packs an array of doubles; false: it is not one. */
static bool close_equal(struct val_builder *b, const struct frame *f)
{
    size_t count = b->count - f->first;
    bool is_float;

    if (count < EQUAL_MIN || !all_doubles(b, f, &is_float))
        return false;
    if (is_float) {
        narrow_to_floats((uint8_t *)b->bytes.ptr + f->start, count);
        b->bytes.len = f->start + count * 5;
    }
    size_t payload = b->bytes.len - f->start;
    if (!buf_reserve(&b->bytes, EQUAL_HEADER))
        return true;
    uint8_t *at = (uint8_t *)b->bytes.ptr + f->start;
    memmove(at + EQUAL_HEADER, at, payload);
    equal_head(at, is_float ? 5 : 9, count);
    return true;
}

/* ---- containers ---- */

static void open_container(struct val_builder *b, bool is_object)
{
    if (b->depth >= LIMIT_NESTING)
        too_deep(b);
    if (value_begin(b))
        b->stack[b->depth] = (struct frame){ b->bytes.len, b->count, is_object };
    b->depth++;
}

void val_open_array(struct val_builder *b)
{
    open_container(b, false);
}

void val_open_object(struct val_builder *b)
{
    open_container(b, true);
}

static void make_rows(struct val_builder *b, const struct frame *f)
{
    size_t count = b->count - f->first;

    if (count > b->rows_cap) {
        b->rows_cap = count * 2;
        mem_free(b->rows);
        b->rows = mem_alloc(b->rows_cap * sizeof *b->rows);
    }
    for (size_t i = 0; i < count; i++)
        b->rows[i].name =
            val_string((struct val){ (uint8_t *)b->bytes.ptr + b->starts[f->first + i] });
    lookup_make(b->rows, count);
}

/* Bytes of the i-th member, name and value. */
static struct slice member_bytes(const struct val_builder *b, const struct frame *f, size_t i)
{
    size_t from = b->starts[f->first + i];
    size_t to = f->first + i + 1 < b->count ? b->starts[f->first + i + 1] : b->bytes.len;

    return slice_of(b->bytes.ptr + from, to - from);
}

/* The first of several members of one name gets the bytes of the last; the others get none. */
static void settle_twins(struct val_builder *b, struct slice *members, size_t count)
{
    lookup_sort(b->rows, count);
    for (size_t i = 0, last; i < count; i = last + 1) {
        last = i;
        while (last + 1 < count && slice_eq(b->rows[last + 1].name, b->rows[i].name))
            last++;
        members[b->rows[i].position] = members[b->rows[last].position];
        for (size_t k = i + 1; k <= last; k++)
            members[b->rows[k].position].len = 0;
    }
}

/* Names given twice are rare: their object is written again. */
static void drop_twins(struct val_builder *b, const struct frame *f)
{
    size_t count = b->count - f->first, kept = 0;
    struct slice *members = mem_alloc(count * sizeof *members);
    struct buf again;

    buf_init(&again, 0);
    for (size_t i = 0; i < count; i++)
        members[i] = member_bytes(b, f, i);
    settle_twins(b, members, count);
    for (size_t i = 0; i < count; i++) {
        if (!members[i].len)
            continue;
        b->starts[f->first + kept++] = (uint32_t)(f->start + again.len);
        buf_add_slice(&again, members[i]);
    }
    memcpy(b->bytes.ptr + f->start, again.ptr, again.len);
    b->bytes.len = f->start + again.len;
    b->count = f->first + kept;
    buf_release(&again);
    mem_free(members);
    make_rows(b, f);
}

static void close_tables(struct val_builder *b, const struct frame *f)
{
    size_t count = b->count - f->first, payload = b->bytes.len - f->start;
    unsigned w = container_width(count, payload, f->is_object);
    size_t header = w ? container_header(w, count, f->is_object) : 0;

    if (!w || !buf_reserve(&b->bytes, header)) {
        b->bytes.is_overfull = true;
        return;
    }
    uint8_t *at = (uint8_t *)b->bytes.ptr + f->start;
    memmove(at + header, at, payload);
    for (size_t i = f->first; i < b->count; i++)
        b->starts[i] -= (uint32_t)f->start;
    container_fill(at, w, count, payload, b->starts + f->first, f->is_object ? b->rows : NULL);
}

static void close_object(struct val_builder *b, const struct frame *f)
{
    make_rows(b, f);
    if (lookup_has_twins(b->rows, b->count - f->first))
        drop_twins(b, f);
    close_tables(b, f);
}

void val_close(struct val_builder *b)
{
    if (!b->depth)
        BUG("nothing is open");
    b->depth--;
    if (is_stuck(b))
        return;
    const struct frame *f = &b->stack[b->depth];
    if (b->has_name)
        BUG("a name without a value");
    if (b->count == f->first)
        buf_add(&b->bytes, f->is_object ? val_empty_object.at : val_empty_array.at, 1);
    else if (f->is_object)
        close_object(b, f);
    else if (!close_equal(b, f))
        close_tables(b, f);
    b->count = f->first;
}

/* ---- the end ---- */

enum errc val_finish(struct val_builder *b, struct val *out, struct error *err)
{
    if (b->err.code != OK) {
        if (err)
            *err = b->err;
        return b->err.code;
    }
    if (b->bytes.is_overfull)
        return fail_num(err, 1216, "the value is larger than %zu bytes", b->bytes.max);
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
