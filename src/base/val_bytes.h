/* SPDX-License-Identifier: Apache-2.0 */
/*
 * val_bytes -- the layout of encoded values, for the files of base that read
 * or make them (docs/formats.md). Little-endian, no alignment.
 *
 *   01 null  02 false  03 true  04 double, 8 bytes  05 float32, 4 bytes
 *   06 sealed: length 4, bytes
 *   08..0F   int of 1..8 bytes, two's complement
 *   10..1F   int 0..15
 *   20       string: length 4, bytes          40..BF  string of 0..127 bytes
 *   C0       empty array
 *   C1 C2 C3 array, width w = 1, 2, 4: size w, count w, offsets count*w, elements
 *   C4       array of equal elements: stride 1, count 4, elements
 *   D0       empty object
 *   D1 D2 D3 object, width w = 1, 2, 4: size w, count w, offsets count*w,
 *            hashes count*4, [positions count*w], members (name string, value)
 *
 * Offsets count from the tag, in order of insertion. Up to OBJECT_LINEAR
 * members the hashes are in that order too; above, they are sorted by (hash,
 * name) and positions says which member each belongs to.
 */
#ifndef BASE_VAL_BYTES_H
#define BASE_VAL_BYTES_H

#include "base/val.h"

enum val_tag {
    TAG_NULL = 0x01,
    TAG_FALSE = 0x02,
    TAG_TRUE = 0x03,
    TAG_DOUBLE = 0x04,
    TAG_FLOAT = 0x05,
    TAG_SEALED = 0x06,
    TAG_INT = 0x08,   /* + bytes - 1 */
    TAG_SMALL = 0x10, /* + value */
    TAG_STRING = 0x20,
    TAG_SHORT = 0x40, /* + length */
    TAG_SHORT_LAST = 0xBF,
    TAG_ARRAY_EMPTY = 0xC0,
    TAG_ARRAY = 0xC0, /* + 1, 2, 3 for width 1, 2, 4 */
    TAG_ARRAY_EQUAL = 0xC4,
    TAG_OBJECT_EMPTY = 0xD0,
    TAG_OBJECT = 0xD0, /* + 1, 2, 3 for width 1, 2, 4 */
};

enum { OBJECT_LINEAR = 8, EQUAL_HEADER = 6, EQUAL_MIN = 4, SEALED_HEADER = 5 };

static inline uint16_t load16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline size_t load_width(const uint8_t *p, unsigned w)
{
    return w == 1 ? *p : w == 2 ? load16(p) : load32(p);
}

static inline void store_width(uint8_t *p, unsigned w, size_t v)
{
    uint32_t v32 = (uint32_t)v;
    memcpy(p, &v32, w);
}

/* Width of a container tag. */
static inline unsigned tag_width(uint8_t tag)
{
    unsigned n = tag & 3;
    return n == 3 ? 4 : n;
}

static inline bool tag_is_array(uint8_t tag)
{
    return tag >= TAG_ARRAY + 1 && tag <= TAG_ARRAY + 3;
}

static inline bool tag_is_object(uint8_t tag)
{
    return tag >= TAG_OBJECT + 1 && tag <= TAG_OBJECT + 3;
}

/* Bytes before the first element or member. */
static inline size_t container_header(unsigned w, size_t count, bool is_object)
{
    size_t n = 1 + 2 * (size_t)w + count * w;
    if (is_object)
        n += count * 4 + (count > OBJECT_LINEAR ? count * w : 0);
    return n;
}

/* The smallest width whose offsets reach the end; 0 = too large. */
unsigned container_width(size_t count, size_t payload, bool is_object);

/* Writes the encoding of a scalar; out has 9 bytes. Returns its length. */
size_t val_encode_int(uint8_t *out, int64_t i);
size_t val_encode_double(uint8_t *out, double d);
/* Head of a string; out has 5 bytes. */
size_t val_encode_string_head(uint8_t *out, size_t len);

/* A member's name while its object is made; position is in order of insertion. */
struct lookup {
    struct slice name;
    uint32_t hash;
    uint32_t position;
};

/* Fills hash and position of rows whose names are set and puts them in the order of the table. */
void lookup_make(struct lookup *rows, size_t count);
/* By (hash, name, position), whatever their number. */
void lookup_sort(struct lookup *rows, size_t count);
/* True when a name is there twice, in rows made by lookup_make. */
bool lookup_has_twins(const struct lookup *rows, size_t count);

/*
 * Fills in tag, size, count and tables of a container whose members (payload
 * bytes) follow the header. starts: offset of each from the first member. rows
 * are an object's; NULL for an array.
 */
void container_fill(uint8_t *at, unsigned w, size_t count, size_t payload, const uint32_t *starts,
                    const struct lookup *rows);

#endif
