/* SPDX-License-Identifier: Apache-2.0 */
/*
 * val -- the one value format: compact binary, read in place, on disk, in the
 * executor and between nodes (ADR 0001; the bytes are in docs/formats.md).
 *
 * A struct val points at encoded bytes owned by somebody else and is
 * immutable. {NULL} reads as null everywhere. Functions that take a val trust
 * its bytes: bytes from outside go through val_validate() first.
 */
#ifndef BASE_VAL_H
#define BASE_VAL_H

#include "base/arena.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

/* In AQL's order of types. */
enum val_type { VAL_NULL, VAL_BOOL, VAL_NUMBER, VAL_STRING, VAL_ARRAY, VAL_OBJECT };

struct val {
    const uint8_t *at;
};

#define VAL_NONE ((struct val){ NULL })
extern const struct val val_null, val_true, val_false, val_zero, val_empty_string, val_empty_array,
    val_empty_object;

/* Reading. Wrong types read as false, 0, "", no elements: check the type where it matters. */
enum val_type val_type(struct val v);
const char *val_type_name(
    enum val_type type);              /* "null" "bool" "number" "string" "array" "object" */
size_t val_size(struct val v);        /* encoded bytes */
struct slice val_bytes(struct val v); /* the encoding itself */
bool val_is_null(struct val v);
bool val_bool(struct val v);
bool val_is_int(struct val v);   /* a number held as int64 */
int64_t val_int(struct val v);   /* doubles are truncated and clamped */
double val_double(struct val v); /* ints are converted */
struct slice val_string(struct val v);
bool val_truth(struct val v); /* AQL: null, false, 0 and "" are false, all else true */

/*
 * A stored value that is encrypted: only the store makes and opens one, and nobody above it gets
 * one. Otherwise it reads as the string "(encrypted)", neither null nor its bytes.
 */
bool val_is_sealed(struct val v);
struct slice val_sealed_bytes(struct val v);

/* Arrays and objects. */
size_t val_count(struct val v); /* elements or members */
struct val val_at(struct val v,
                  size_t i); /* element, or value of the i-th member in stored order */
struct slice val_name_at(struct val object, size_t i); /* member name, stored order */

/* val_null when absent or not an object. Lookup by name: constant time for small objects. */
struct val val_get(struct val object, struct slice name);
bool val_find(struct val object, struct slice name, struct val *out); /* false = absent */
uint32_t val_name_hash(struct slice name);
bool val_find_hashed(struct val object, struct slice name, uint32_t hash, struct val *out);

/* Walks a path of names; any missing step gives val_null. */
struct val val_path(struct val v, const struct slice *names, size_t count);

/* True when arrays and objects are nested at most that deep; a scalar needs no level. */
bool val_is_within(struct val v, unsigned levels);

/*
 * All elements as float32 into out (room for max). Returns their number, or -1
 * when the value is not an array of numbers or holds more than max.
 */
long val_floats(struct val v, float *out, size_t max);

/*
 * Checks bytes from outside: every offset, length, UTF-8, nesting limit, sorted
 * lookup tables, unique names, no trailing bytes. ERR_CORRUPT says where.
 */
MUST_CHECK enum errc val_validate(struct slice bytes, struct val *out, struct error *err);

/* ---- making ---- */

/*
 * A builder appends to a growing buffer. Objects keep the order of insertion
 * for output; a name given twice keeps the last value (RFC 8259 leaves it
 * open). Errors (nesting, size) stick and are reported by val_finish.
 */
struct val_builder;
struct val_builder *val_builder_new(size_t max_bytes); /* 0 = no maximum */
void val_builder_free(struct val_builder *b);
void val_builder_reset(struct val_builder *b);

void val_put_null(struct val_builder *b);
void val_put_bool(struct val_builder *b, bool is_true);
void val_put_int(struct val_builder *b, int64_t i);
void val_put_double(struct val_builder *b, double d); /* NaN and infinities become null, -0 is 0 */
void val_put_string(struct val_builder *b, struct slice text);            /* must be UTF-8 */
void val_put(struct val_builder *b, struct val v);                        /* a copy */
void val_put_floats(struct val_builder *b, const float *f, size_t count); /* packed array */
void val_open_array(struct val_builder *b);
void val_open_object(struct val_builder *b);
void val_put_name(struct val_builder *b, struct slice name); /* then its value */
void val_close(struct val_builder *b);

/* The finished value lives in the builder until reset or free. */
MUST_CHECK enum errc val_finish(struct val_builder *b, struct val *out, struct error *err);
/* The same, copied into the arena; the builder is reset. */
MUST_CHECK enum errc val_finish_in(struct val_builder *b, struct arena *arena, struct val *out,
                                   struct error *err);

/* Single values in an arena. */
struct val val_new_int(struct arena *arena, int64_t i);
struct val val_new_double(struct arena *arena, double d);
struct val val_new_string(struct arena *arena, struct slice text);
struct val val_new_bool(bool is_true);
/* Sealed, with room for so many bytes, which the caller fills. */
struct val val_new_sealed(struct arena *arena, size_t len, uint8_t **bytes);
struct val val_copy(struct arena *arena, struct val v);
/* Of ready elements / members. Names must be unique. */
struct val val_new_array(struct arena *arena, const struct val *items, size_t count);
struct val val_new_object(struct arena *arena, const struct slice *names, const struct val *values,
                          size_t count);

/* Top-level merge: members of over replace or extend those of under. Used by AQL MERGE, documents. */
struct val val_merge(struct arena *arena, struct val under, struct val over);

/* ---- comparing ---- */

struct collator;

/*
 * AQL's total order: null < bool < number < string < array < object; numbers
 * exact across int64 and double; strings by the collator, then bytes (bytes
 * only when NULL); arrays elementwise with missing = null; objects over the
 * sorted union of names with missing = null.
 */
int val_compare(struct val a, struct val b, const struct collator *collator);
bool val_equal(struct val a, struct val b);
/* Equal values hash equal (5 and 5.0; [1] and [1, null]; {} and {a: null}). XXH3-64. */
uint64_t val_hash(struct val v);

#endif
