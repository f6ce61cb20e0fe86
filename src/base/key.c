/* SPDX-License-Identifier: Apache-2.0 */
/*
 * number    0                        -> 40
 *           integer part p, x < 2^63 -> 40+len, then p*2+f in len bytes; f = 1: it has a
 *                                       fraction, the double's 8 bytes follow
 *           x >= 2^63                -> 4A and the double's 8 bytes
 *           negative                 -> 40-len or 36, then as |x| with every byte complemented
 * string    -> 50, bytes with 00 as 01 01 and 01 as 01 02, then 00
 *              51, sort key, 00, then the 50 form
 * array     -> 60, elements without trailing nulls, 00 (a missing element is null to AQL)
 * object    -> 70, members that are not null sorted by name: complemented(name as in a
 *              string), value; then 00. The complement is right: {b:1} < {a:1}, since b
 *              compares "a: null" against "a: 1".
 */
#include "base/key.h"
#include "base/collate.h"
#include "base/val_text.h"
#include <math.h>
#include <stdlib.h>

enum {
    KEY_END = 0x00,
    KEY_NULL = 0x10,
    KEY_FALSE = 0x20,
    KEY_TRUE = 0x21,
    KEY_ZERO = 0x40,
    KEY_HUGE = 0x4A,
    KEY_STRING = 0x50,
    KEY_SORTED = 0x51,
    KEY_ARRAY = 0x60,
    KEY_OBJECT = 0x70
};

static void add_big_endian(struct buf *out, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        buf_add_char(out, (char)(v >> (8 * (n - 1 - i))));
}

static void flip(struct buf *out, size_t from)
{
    for (size_t i = from; i < out->len; i++)
        out->ptr[i] = (char)~out->ptr[i];
}

/* ---- numbers ---- */

/* What follows the tag is complemented below zero. */
static void add_number(struct buf *out, bool is_negative, unsigned len, uint64_t whole,
                       const double *exact)
{
    uint64_t bits;

    buf_add_char(out, (char)(is_negative ? KEY_ZERO - len : KEY_ZERO + len));
    size_t from = out->len;
    if (len <= 8)
        add_big_endian(out, whole, len);
    if (exact) {
        memcpy(&bits, exact, sizeof bits);
        add_big_endian(out, bits, 8);
    }
    if (is_negative)
        flip(out, from);
}

static unsigned byte_len(uint64_t v)
{
    return v ? 8 - (unsigned)__builtin_clzll(v) / 8 : 0;
}

static void add_int(struct buf *out, int64_t i)
{
    uint64_t whole = i < 0 ? -(uint64_t)i << 1 : (uint64_t)i << 1;
    double huge = 0x1p63;

    if (i == INT64_MIN)
        add_number(out, true, KEY_HUGE - KEY_ZERO, 0, &huge);
    else
        add_number(out, i < 0, byte_len(whole), whole, NULL);
}

static void add_double(struct buf *out, double d)
{
    double m = fabs(d);

    if (m >= 0x1p63) {
        add_number(out, d < 0, KEY_HUGE - KEY_ZERO, 0, &m);
        return;
    }
    bool has_fraction = m != (double)(uint64_t)m;
    uint64_t whole = (uint64_t)m << 1 | has_fraction;
    add_number(out, d < 0, byte_len(whole), whole, has_fraction ? &m : NULL);
}

/* ---- the rest ---- */

static void add_escaped(struct buf *out, struct slice s)
{
    size_t from = 0;

    for (size_t i = 0; i < s.len; i++) {
        if ((uint8_t)s.ptr[i] > 1)
            continue;
        buf_add(out, s.ptr + from, i - from);
        buf_add_char(out, 1);
        buf_add_char(out, (char)(s.ptr[i] + 1));
        from = i + 1;
    }
    buf_add(out, s.ptr + from, s.len - from);
    buf_add_char(out, KEY_END);
}

static void add_string(struct buf *out, struct slice s, const struct collator *c)
{
    if (c) {
        buf_add_char(out, KEY_SORTED);
        collator_sort_key(c, s, out);
        buf_add_char(out, KEY_END);
    }
    buf_add_char(out, KEY_STRING);
    add_escaped(out, s);
}

static void add_val(struct buf *out, struct val v, const struct collator *c, unsigned depth);

static void add_array(struct buf *out, struct val v, const struct collator *c, unsigned depth)
{
    size_t count = val_count(v);

    while (count && val_is_null(val_at(v, count - 1)))
        count--;
    buf_add_char(out, KEY_ARRAY);
    for (size_t i = 0; i < count; i++)
        add_val(out, val_at(v, i), c, depth + 1);
    buf_add_char(out, KEY_END);
}

static int compare_names(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

static void add_object(struct buf *out, struct val v, const struct collator *c, unsigned depth)
{
    size_t count = val_count(v);
    struct slice *names = mem_alloc((count + 1) * sizeof *names);

    for (size_t i = 0; i < count; i++)
        names[i] = val_name_at(v, i);
    qsort(names, count, sizeof *names, compare_names);
    buf_add_char(out, KEY_OBJECT);
    for (size_t i = 0; i < count; i++) {
        struct val member = val_get(v, names[i]);
        if (val_is_null(member))
            continue;
        size_t from = out->len;
        add_escaped(out, names[i]);
        flip(out, from);
        add_val(out, member, c, depth + 1);
    }
    buf_add_char(out, KEY_END);
    mem_free(names);
}

/* Deeper than any stored value: no index holds it, and the stack is not ours to spend. */
static void add_container(struct buf *out, struct val v, const struct collator *c, unsigned depth)
{
    if (depth == LIMIT_NESTING)
        out->is_overfull = true;
    else if (val_type(v) == VAL_ARRAY)
        add_array(out, v, c, depth);
    else
        add_object(out, v, c, depth);
}

static void add_val(struct buf *out, struct val v, const struct collator *c, unsigned depth)
{
    switch (val_type(v)) {
    case VAL_NULL:
        buf_add_char(out, KEY_NULL);
        break;
    case VAL_BOOL:
        buf_add_char(out, val_bool(v) ? KEY_TRUE : KEY_FALSE);
        break;
    case VAL_NUMBER:
        if (val_is_int(v))
            add_int(out, val_int(v));
        else
            add_double(out, val_double(v));
        break;
    case VAL_STRING:
        add_string(out, val_string(v), c);
        break;
    case VAL_ARRAY:
    case VAL_OBJECT:
        add_container(out, v, c, depth);
        break;
    }
}

void key_add_val(struct buf *out, struct val v, const struct collator *c, bool is_descending)
{
    size_t from = out->len;

    add_val(out, v, c, 0);
    if (is_descending)
        flip(out, from);
}

void key_add_string(struct buf *out, struct slice text, bool is_descending)
{
    size_t from = out->len;

    add_string(out, text, NULL);
    if (is_descending)
        flip(out, from);
}

void key_add_u8(struct buf *out, uint8_t v)
{
    add_big_endian(out, v, 1);
}

void key_add_u16(struct buf *out, uint16_t v)
{
    add_big_endian(out, v, 2);
}

void key_add_u64(struct buf *out, uint64_t v)
{
    add_big_endian(out, v, 8);
}

uint16_t key_read_u16(const void *at)
{
    const uint8_t *p = at;

    return (uint16_t)(p[0] << 8 | p[1]);
}

uint64_t key_read_u64(const void *at)
{
    const uint8_t *p = at;
    uint64_t v = 0;

    for (int i = 0; i < 8; i++)
        v = v << 8 | p[i];
    return v;
}

bool key_take_bytes(struct slice *in, uint64_t len, struct slice *out)
{
    if (len > in->len)
        return false;
    *out = slice_of(in->ptr, (size_t)len);
    *in = slice_of(in->ptr + len, in->len - (size_t)len);
    return true;
}

bool key_take_u64(struct slice *in, uint64_t *out)
{
    struct slice bytes;
    if (!key_take_bytes(in, 8, &bytes))
        return false;
    *out = key_read_u64(bytes.ptr);
    return true;
}

bool key_prefix_end(struct buf *key)
{
    while (key->len && (uint8_t)key->ptr[key->len - 1] == 0xFF)
        key->len--;
    if (!key->len)
        return false;
    key->ptr[key->len - 1]++;
    return true;
}

/* ---- reading back ---- */

struct reader {
    const uint8_t *at, *end;
    uint8_t mask;          /* FF when descending */
    struct val_builder *b; /* NULL: skip */
};

static bool take(struct reader *r, uint8_t *out)
{
    if (r->at == r->end)
        return false;
    *out = *r->at++ ^ r->mask;
    return true;
}

static bool take_big_endian(struct reader *r, unsigned n, uint8_t extra_mask, uint64_t *out)
{
    uint8_t byte;

    *out = 0;
    for (unsigned i = 0; i < n; i++) {
        if (!take(r, &byte))
            return false;
        *out = *out << 8 | (uint8_t)(byte ^ extra_mask);
    }
    return true;
}

static bool read_number(struct reader *r, uint8_t tag)
{
    bool is_negative = tag < KEY_ZERO;
    uint8_t mask = is_negative ? 0xFF : 0;
    unsigned n = is_negative ? KEY_ZERO - tag : tag - KEY_ZERO;
    bool is_huge = n == KEY_HUGE - KEY_ZERO;
    uint64_t whole, bits;
    double d;

    if ((n > 8 && !is_huge) || !take_big_endian(r, is_huge ? 0 : n, mask, &whole))
        return false;
    if (!is_huge && !(whole & 1)) {
        if (r->b)
            val_put_int(r->b, is_negative ? -(int64_t)(whole >> 1) : (int64_t)(whole >> 1));
        return true;
    }
    if (!take_big_endian(r, 8, mask, &bits))
        return false;
    memcpy(&d, &bits, sizeof d);
    if (r->b && d == 0x1p63 && is_negative)
        val_put_int(r->b, INT64_MIN);
    else if (r->b)
        val_put_double(r->b, is_negative ? -d : d);
    return true;
}

/* Bytes up to the terminator, unescaped into out (NULL: skipped). */
static bool read_escaped(struct reader *r, struct buf *out)
{
    uint8_t byte;

    while (take(r, &byte)) {
        if (byte == KEY_END)
            return true;
        if (byte == 1) {
            if (!take(r, &byte) || byte < 1 || byte > 2)
                return false;
            byte--;
        }
        if (out)
            buf_add_char(out, (char)byte);
    }
    return false;
}

static bool read_string(struct reader *r, uint8_t tag)
{
    struct buf text;
    uint8_t byte;
    bool is_ok = true;

    if (tag == KEY_SORTED) {
        while ((is_ok = take(r, &byte)) && byte != KEY_END)
            ;
        is_ok = is_ok && take(r, &byte) && byte == KEY_STRING;
    }
    buf_init(&text, 0);
    is_ok = is_ok && read_escaped(r, r->b ? &text : NULL);
    is_ok = is_ok && utf8_check(buf_slice(&text), NULL);
    if (is_ok && r->b)
        val_put_string(r->b, buf_slice(&text));
    buf_release(&text);
    return is_ok;
}

static bool read_val(struct reader *r, uint8_t tag, unsigned depth);

static bool read_array(struct reader *r, unsigned depth)
{
    uint8_t tag;

    if (r->b)
        val_open_array(r->b);
    for (;;) {
        if (!take(r, &tag))
            return false;
        if (tag == KEY_END)
            break;
        if (!read_val(r, tag, depth + 1))
            return false;
    }
    if (r->b)
        val_close(r->b);
    return true;
}

static bool read_member(struct reader *r, unsigned depth)
{
    struct buf name;
    uint8_t tag;

    buf_init(&name, 0);
    r->mask ^= 0xFF;
    bool is_ok = read_escaped(r, r->b ? &name : NULL);
    r->mask ^= 0xFF;
    is_ok = is_ok && utf8_check(buf_slice(&name), NULL);
    if (is_ok && r->b)
        val_put_name(r->b, buf_slice(&name));
    buf_release(&name);
    return is_ok && take(r, &tag) && read_val(r, tag, depth + 1);
}

/* A name begins with a complemented byte: FF ends an empty one, 00 cannot begin one. */
static bool read_object(struct reader *r, unsigned depth)
{
    if (r->b)
        val_open_object(r->b);
    for (;;) {
        if (r->at == r->end)
            return false;
        if ((*r->at ^ r->mask) == KEY_END)
            break;
        if (!read_member(r, depth))
            return false;
    }
    r->at++;
    if (r->b)
        val_close(r->b);
    return true;
}

static bool read_val(struct reader *r, uint8_t tag, unsigned depth)
{
    switch (tag) {
    case KEY_NULL:
        if (r->b)
            val_put_null(r->b);
        return true;
    case KEY_FALSE:
    case KEY_TRUE:
        if (r->b)
            val_put_bool(r->b, tag == KEY_TRUE);
        return true;
    case KEY_STRING:
    case KEY_SORTED:
        return read_string(r, tag);
    case KEY_ARRAY:
        return depth < LIMIT_NESTING && read_array(r, depth);
    case KEY_OBJECT:
        return depth < LIMIT_NESTING && read_object(r, depth);
    default:
        return tag >= 2 * KEY_ZERO - KEY_HUGE && tag <= KEY_HUGE && read_number(r, tag);
    }
}

enum errc key_read_val(struct slice *bytes, bool is_descending, struct arena *arena,
                       struct val *out, struct error *err)
{
    struct reader r = { (const uint8_t *)bytes->ptr, (const uint8_t *)bytes->ptr + bytes->len,
                        is_descending ? 0xFF : 0, out ? val_builder_new(0) : NULL };
    uint8_t tag;
    enum errc rc = OK;

    if (!take(&r, &tag) || !read_val(&r, tag, 0))
        rc = fail(err, ERR_CORRUPT, "an index key is damaged");
    else
        *bytes = slice_of(r.at, (size_t)(r.end - r.at));
    if (rc == OK && out)
        rc = val_finish_in(r.b, arena, out, err);
    val_builder_free(r.b);
    return rc;
}

/* ---- scalars ---- */

enum { EXACT_BYTES = 6 }; /* of a number: below 2^47, an int64 and a double compute alike */

static enum errc scalar_failed(struct error *err)
{
    return fail(err, ERR_CORRUPT, "an index key is damaged");
}

/* Strings without escapes lie in the key as they are. */
static enum errc scalar_string(struct slice *bytes, struct arena *arena, struct val *out,
                               struct error *err)
{
    struct slice rest = *bytes;

    if ((uint8_t)rest.ptr[0] == KEY_SORTED) {
        const char *end = memchr(rest.ptr, KEY_END, rest.len);
        size_t skip = end ? (size_t)(end - rest.ptr) + 1 : rest.len;
        rest = slice_of(rest.ptr + skip, rest.len - skip);
    }
    const char *end = rest.len ? memchr(rest.ptr, KEY_END, rest.len) : NULL;
    if (!end || (uint8_t)rest.ptr[0] != KEY_STRING)
        return scalar_failed(err);
    struct slice text = slice_of(rest.ptr + 1, (size_t)(end - rest.ptr) - 1);
    if (memchr(text.ptr, 1, text.len))
        return key_read_val(bytes, false, arena, out, err);
    *out = val_new_string(arena, text);
    *bytes = slice_of(end + 1, rest.len - text.len - 2);
    return OK;
}

static enum errc scalar_number(struct slice *bytes, struct arena *arena, struct val *out,
                               bool *is_exact, struct error *err)
{
    int tag = (uint8_t)bytes->ptr[0], len = tag < KEY_ZERO ? KEY_ZERO - tag : tag - KEY_ZERO;
    uint64_t whole = 0;

    if (len > EXACT_BYTES) {
        *is_exact = false;
        return key_read_val(bytes, false, arena, NULL, err);
    }
    if (bytes->len <= (size_t)len)
        return scalar_failed(err);
    for (int i = 1; i <= len; i++)
        whole = whole << 8 | (uint8_t)(bytes->ptr[i] ^ (tag < KEY_ZERO ? 0xFF : 0));
    if (whole & 1)
        return key_read_val(bytes, false, arena, out, err);
    int64_t i = (int64_t)(whole >> 1);
    *out = val_new_int(arena, tag < KEY_ZERO ? -i : i);
    *bytes = slice_of(bytes->ptr + len + 1, bytes->len - (size_t)len - 1);
    return OK;
}

enum errc key_read_scalar(struct slice *bytes, struct arena *arena, struct val *out, bool *is_exact,
                          struct error *err)
{
    uint8_t tag = bytes->len ? (uint8_t)bytes->ptr[0] : 0;

    *is_exact = true;
    *out = val_null;
    switch (tag) {
    case KEY_NULL:
    case KEY_FALSE:
    case KEY_TRUE:
        *out = tag == KEY_NULL ? val_null : val_new_bool(tag == KEY_TRUE);
        *bytes = slice_of(bytes->ptr + 1, bytes->len - 1);
        return OK;
    case KEY_STRING:
    case KEY_SORTED:
        return scalar_string(bytes, arena, out, err);
    case KEY_ARRAY:
    case KEY_OBJECT:
        *is_exact = false;
        return key_read_val(bytes, false, arena, NULL, err);
    default:
        if (tag < 2 * KEY_ZERO - KEY_HUGE || tag > KEY_HUGE)
            return scalar_failed(err);
        return scalar_number(bytes, arena, out, is_exact, err);
    }
}
