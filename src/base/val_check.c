/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The validator: after it, every reader may trust the bytes. Each value is
 * given the room it may use; recursion is bounded by the nesting limit.
 */
#include "base/val_bytes.h"
#include "base/val_text.h"
#include <math.h>

static bool check(const uint8_t *at, size_t room, unsigned depth, size_t *size);

static bool is_string(const uint8_t *at, size_t room, size_t *size)
{
    size_t len, head = 1;

    if (!room)
        return false;
    if (*at >= TAG_SHORT && *at <= TAG_SHORT_LAST) {
        len = (size_t)(*at - TAG_SHORT);
    } else if (*at == TAG_STRING && room >= 5) {
        len = load32(at + 1);
        head = 5;
        if (len <= TAG_SHORT_LAST - TAG_SHORT)
            return false; /* one encoding per string */
    } else {
        return false;
    }
    *size = head + len;
    return len <= room - head && utf8_check(slice_of(at + head, len), NULL);
}

static bool is_double(const uint8_t *at, size_t room, size_t *size)
{
    double d;
    float f;

    *size = *at == TAG_DOUBLE ? 9 : 5;
    if (room < *size)
        return false;
    if (*at == TAG_DOUBLE) {
        memcpy(&d, at + 1, sizeof d);
        return isfinite(d);
    }
    memcpy(&f, at + 1, sizeof f);
    return isfinite(f);
}

static bool is_equal_array(const uint8_t *at, size_t room, size_t *size)
{
    if (room < EQUAL_HEADER)
        return false;
    uint8_t stride = at[1];
    size_t count = load32(at + 2), one;
    if (!count || (stride != 5 && stride != 9) || count > (room - EQUAL_HEADER) / stride)
        return false;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *e = at + EQUAL_HEADER + i * stride;
        if (*e != (stride == 9 ? TAG_DOUBLE : TAG_FLOAT) || !is_double(e, stride, &one))
            return false;
    }
    *size = EQUAL_HEADER + count * stride;
    return true;
}

/* Hashes right, in order of the members or sorted with positions; names unique. */
static bool lookup_is_right(const uint8_t *at, unsigned w, size_t count)
{
    struct val v = { at };
    const uint8_t *hashes = at + 1 + 2 * w + count * w, *positions = hashes + count * 4;
    struct slice before = { 0 };
    uint32_t hash_before = 0;

    for (size_t i = 0; i < count; i++) {
        size_t position = count > OBJECT_LINEAR ? load_width(positions + i * w, w) : i;
        uint32_t hash = load32(hashes + i * 4);
        if (position >= count)
            return false;
        struct slice name = val_name_at(v, position);
        if (val_name_hash(name) != hash)
            return false;
        if (count > OBJECT_LINEAR && i &&
            (hash < hash_before || (hash == hash_before && slice_cmp(before, name) >= 0)))
            return false;
        for (size_t k = 0; count <= OBJECT_LINEAR && k < i; k++)
            if (slice_eq(val_name_at(v, k), name))
                return false;
        before = name;
        hash_before = hash;
    }
    return true;
}

static bool is_container(const uint8_t *at, size_t room, unsigned depth, size_t *size)
{
    bool is_object = tag_is_object(*at);
    unsigned w = tag_width(*at);

    if (room < 1 + 2 * (size_t)w)
        return false;
    size_t whole = load_width(at + 1, w), count = load_width(at + 1 + w, w);
    if (!count || whole > room || count > whole)
        return false;
    size_t header = container_header(w, count, is_object), next = header, n;
    if (header > whole)
        return false;
    for (size_t i = 0; i < count; i++) { /* members follow each other without gaps */
        if (load_width(at + 1 + 2 * w + i * w, w) != next)
            return false;
        if (is_object) {
            if (!is_string(at + next, whole - next, &n))
                return false;
            next += n;
        }
        if (!check(at + next, whole - next, depth + 1, &n))
            return false;
        next += n;
    }
    *size = whole;
    return next == whole && (!is_object || lookup_is_right(at, w, count));
}

static bool check(const uint8_t *at, size_t room, unsigned depth, size_t *size)
{
    if (!room)
        return false;
    uint8_t tag = *at;
    if (tag >= TAG_ARRAY_EMPTY && depth == LIMIT_NESTING)
        return false;
    if (tag == TAG_STRING || (tag >= TAG_SHORT && tag <= TAG_SHORT_LAST))
        return is_string(at, room, size);
    if (tag == TAG_DOUBLE || tag == TAG_FLOAT)
        return is_double(at, room, size);
    if (tag == TAG_ARRAY_EQUAL)
        return is_equal_array(at, room, size);
    if (tag_is_array(tag) || tag_is_object(tag))
        return is_container(at, room, depth, size);
    if (tag == TAG_SEALED) {
        *size = room < SEALED_HEADER ? 0 : SEALED_HEADER + (size_t)load32(at + 1);
        return *size && *size <= room;
    }
    if (tag >= TAG_INT && tag < TAG_SMALL) {
        *size = 2 + (size_t)(tag - TAG_INT);
        return *size <= room;
    }
    *size = 1;
    return tag == TAG_NULL || tag == TAG_FALSE || tag == TAG_TRUE ||
           (tag >= TAG_SMALL && tag < TAG_STRING) || tag == TAG_ARRAY_EMPTY ||
           tag == TAG_OBJECT_EMPTY;
}

enum errc val_validate(struct slice bytes, struct val *out, struct error *err)
{
    size_t size;

    if (!check((const uint8_t *)bytes.ptr, bytes.len, 0, &size))
        return fail(err, ERR_CORRUPT, "the value's encoding is damaged");
    if (size != bytes.len)
        return fail(err, ERR_CORRUPT, "%zu bytes follow the value", bytes.len - size);
    out->at = (const uint8_t *)bytes.ptr;
    return OK;
}
