/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key -- order-preserving encoding: memcmp of two encodings is AQL's order of
 * the values (docs/formats.md). No encoding is a prefix of another, so fields
 * follow each other without separators.
 *
 *   null 10 | false 20 | true 21 | number 36..4A | string 50 or 51 | array 60 | object 70
 *
 * With a collator a string is 51, tertiary sort key, 00, then the raw string
 * in the tag-50 form as tie-breaker; without one only the tag-50 form.
 */
#ifndef BASE_KEY_H
#define BASE_KEY_H

#include "base/buf.h"
#include "base/val.h"

struct collator;

/*
 * Appends one field. is_descending complements every byte of it. A value that
 * is nested too deep to be stored makes out overfull.
 */
void key_add_val(struct buf *out, struct val v, const struct collator *c, bool is_descending);

/* Fixed big-endian integers for ids and slots. */
void key_add_u8(struct buf *out, uint8_t v);
void key_add_u16(struct buf *out, uint16_t v);
void key_add_u64(struct buf *out, uint64_t v);
uint16_t key_read_u16(const void *at);
uint64_t key_read_u64(const void *at);
/* Take from the front of *in; false, and nothing taken, when it is shorter. */
MUST_CHECK bool key_take_u64(struct slice *in, uint64_t *out);
MUST_CHECK bool key_take_bytes(struct slice *in, uint64_t len, struct slice *out);

/* A string in the tag-50 form (binary order), as for vertex ids. */
void key_add_string(struct buf *out, struct slice text, bool is_descending);

/* Lowest and highest possible first byte of each type, for ranges such as "all numbers". */
enum { KEY_FIRST = 0x10, KEY_LAST = 0x7f };

/*
 * Reads one ascending or descending field at *bytes, moves behind it and, when
 * out is given, decodes it into arena: exact up to the number's type and
 * members that are null. ERR_CORRUPT on bad bytes.
 */
MUST_CHECK enum errc key_read_val(struct slice *bytes, bool is_descending, struct arena *arena,
                                  struct val *out, struct error *err);

/*
 * The same for one ascending field, fast and only where the value comes back as it
 * was: *is_exact is false for arrays and objects (nulls in them are lost) and for
 * numbers of which int64 and double would differ; they are passed over.
 */
MUST_CHECK enum errc key_read_scalar(struct slice *bytes, struct arena *arena, struct val *out,
                                     bool *is_exact, struct error *err);

/* Makes the smallest key greater than every key with this prefix; false: there is none. */
bool key_prefix_end(struct buf *key);

#endif
