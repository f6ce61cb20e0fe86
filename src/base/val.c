/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and comparing. The layout is in val_bytes.h. */
#include "base/val.h"
#include "base/collate.h"
#include "base/hash.h"
#include "base/val_bytes.h"
#include <math.h>
#include <stdlib.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

static const uint8_t bytes_null[] = { TAG_NULL }, bytes_true[] = { TAG_TRUE },
                     bytes_false[] = { TAG_FALSE }, bytes_zero[] = { TAG_SMALL },
                     bytes_empty[] = { TAG_SHORT }, bytes_array[] = { TAG_ARRAY_EMPTY },
                     bytes_object[] = { TAG_OBJECT_EMPTY };
/* So many hashes are looked at side by side; more are searched by halves. */
enum { SCAN_MAX = 32 };

const struct val val_null = { bytes_null }, val_true = { bytes_true }, val_false = { bytes_false },
                 val_zero = { bytes_zero }, val_empty_string = { bytes_empty },
                 val_empty_array = { bytes_array }, val_empty_object = { bytes_object };

enum val_type val_type(struct val v)
{
    uint8_t tag = v.at ? *v.at : TAG_NULL;

    if (tag >= TAG_OBJECT_EMPTY)
        return VAL_OBJECT;
    if (tag >= TAG_ARRAY_EMPTY)
        return VAL_ARRAY;
    if (tag >= TAG_STRING)
        return VAL_STRING;
    if (tag >= TAG_DOUBLE)
        return tag == TAG_SEALED ? VAL_STRING : VAL_NUMBER;
    return tag == TAG_NULL ? VAL_NULL : VAL_BOOL;
}

const char *val_type_name(enum val_type type)
{
    static const char *const names[] = { "null", "bool", "number", "string", "array", "object" };

    return names[type];
}

size_t val_size(struct val v)
{
    uint8_t tag = v.at ? *v.at : TAG_NULL;

    if (tag >= TAG_SHORT && tag <= TAG_SHORT_LAST)
        return 1 + (size_t)(tag - TAG_SHORT);
    if (tag >= TAG_SMALL && tag < TAG_STRING)
        return 1;
    if (tag >= TAG_INT && tag < TAG_SMALL)
        return 2 + (size_t)(tag - TAG_INT);
    if (tag_is_array(tag) || tag_is_object(tag))
        return load_width(v.at + 1, tag_width(tag));
    switch (tag) {
    case TAG_DOUBLE:
        return 9;
    case TAG_FLOAT:
        return 5;
    case TAG_STRING:
    case TAG_SEALED:
        return 5 + (size_t)load32(v.at + 1);
    case TAG_ARRAY_EQUAL:
        return EQUAL_HEADER + (size_t)v.at[1] * load32(v.at + 2);
    default:
        return 1;
    }
}

struct slice val_bytes(struct val v)
{
    return v.at ? slice_of(v.at, val_size(v)) : slice_of(bytes_null, 1);
}

bool val_is_null(struct val v)
{
    return !v.at || *v.at == TAG_NULL;
}

bool val_bool(struct val v)
{
    return v.at && *v.at == TAG_TRUE;
}

bool val_is_int(struct val v)
{
    return v.at && *v.at >= TAG_INT && *v.at < TAG_STRING;
}

static double raw_double(const uint8_t *at)
{
    double d;
    float f;

    if (*at == TAG_DOUBLE) {
        memcpy(&d, at + 1, sizeof d);
        return d;
    }
    memcpy(&f, at + 1, sizeof f);
    return f;
}

static int64_t raw_int(const uint8_t *at)
{
    unsigned n = (unsigned)(*at - TAG_INT) + 1;
    uint64_t v = 0;

    if (*at >= TAG_SMALL)
        return *at - TAG_SMALL;
    memcpy(&v, at + 1, n);
    unsigned shift = 64 - 8 * n;
    return (int64_t)(v << shift) >> shift;
}

int64_t val_int(struct val v)
{
    if (val_is_int(v))
        return raw_int(v.at);
    if (val_type(v) != VAL_NUMBER)
        return 0;
    double d = raw_double(v.at);
    if (d >= 0x1p63)
        return INT64_MAX;
    if (d <= -0x1p63)
        return INT64_MIN;
    return (int64_t)d;
}

double val_double(struct val v)
{
    if (val_is_int(v))
        return (double)raw_int(v.at);
    return val_type(v) == VAL_NUMBER ? raw_double(v.at) : 0;
}

struct slice val_string(struct val v)
{
    uint8_t tag = v.at ? *v.at : TAG_NULL;

    if (tag >= TAG_SHORT && tag <= TAG_SHORT_LAST)
        return slice_of(v.at + 1, (size_t)(tag - TAG_SHORT));
    if (tag == TAG_STRING)
        return slice_of(v.at + 5, load32(v.at + 1));
    if (tag == TAG_SEALED)
        return slice_str("(encrypted)");
    return slice_of("", 0);
}

bool val_is_sealed(struct val v)
{
    return v.at && *v.at == TAG_SEALED;
}

struct slice val_sealed_bytes(struct val v)
{
    return slice_of(v.at + SEALED_HEADER, load32(v.at + 1));
}

bool val_truth(struct val v)
{
    switch (val_type(v)) {
    case VAL_NULL:
        return false;
    case VAL_BOOL:
        return val_bool(v);
    case VAL_NUMBER:
        return val_double(v) != 0;
    case VAL_STRING:
        return val_string(v).len > 0;
    case VAL_ARRAY:
    case VAL_OBJECT:
        return true;
    }
    return false;
}

/* ---- containers ---- */

size_t val_count(struct val v)
{
    uint8_t tag = v.at ? *v.at : TAG_NULL;

    if (tag_is_array(tag) || tag_is_object(tag)) {
        unsigned w = tag_width(tag);
        return load_width(v.at + 1 + w, w);
    }
    return tag == TAG_ARRAY_EQUAL ? load32(v.at + 2) : 0;
}

static const uint8_t *member_at(struct val v, size_t i)
{
    unsigned w = tag_width(*v.at);

    return v.at + load_width(v.at + 1 + 2 * w + i * w, w);
}

struct val val_at(struct val v, size_t i)
{
    if (i >= val_count(v))
        return val_null;
    if (*v.at == TAG_ARRAY_EQUAL)
        return (struct val){ v.at + EQUAL_HEADER + i * v.at[1] };
    const uint8_t *at = member_at(v, i);
    if (tag_is_object(*v.at))
        at += val_size((struct val){ at });
    return (struct val){ at };
}

struct slice val_name_at(struct val object, size_t i)
{
    if (i >= val_count(object) || !tag_is_object(*object.at))
        return slice_of("", 0);
    return val_string((struct val){ member_at(object, i) });
}

uint32_t val_name_hash(struct slice name)
{
    return (uint32_t)hash_xxh3(name.ptr, name.len);
}

/* Names are short: two loads that may overlap are less than a call. */
static inline bool same_bytes(const void *a, const void *b, size_t len)
{
    const uint8_t *x = a, *y = b;

    if (len > 8)
        return memcmp(x, y, len) == 0;
    if (len >= 4)
        return load32(x) == load32(y) && load32(x + len - 4) == load32(y + len - 4);
    if (len >= 2)
        return load16(x) == load16(y) && x[len - 1] == y[len - 1];
    return !len || *x == *y;
}

/* The value when the member bears the name, else VAL_NONE. */
static inline struct val value_named(const uint8_t *at, struct slice name)
{
    bool is_it;

    if (*at != TAG_STRING) { /* nearly all names are short */
        is_it = *at == TAG_SHORT + name.len && same_bytes(at + 1, name.ptr, name.len);
        return (struct val){ is_it ? at + 1 + name.len : NULL };
    }
    is_it = slice_eq(val_string((struct val){ at }), name);
    return (struct val){ is_it ? at + 5 + name.len : NULL };
}

/* Bits of the hashes that are equal, of up to SCAN_MAX in whatever order. */
static inline uint32_t equal_hashes(const uint8_t *hashes, size_t count, uint32_t hash)
{
    uint32_t found = 0;
    size_t i = 0;

#ifdef __SSE2__
    __m128i wanted = _mm_set1_epi32((int)hash);
    for (; i + 4 <= count; i += 4) {
        __m128i four = _mm_loadu_si128((const __m128i *)(const void *)(hashes + i * 4));
        four = _mm_cmpeq_epi32(four, wanted);
        found |= (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(four)) << i;
    }
#endif
    for (; i < count; i++)
        found |= (uint32_t)(load32(hashes + i * 4) == hash) << i;
    return found;
}

/* Of count sorted hashes, how many are less than hash. */
static size_t lower_bound(const uint8_t *hashes, size_t count, uint32_t hash)
{
    size_t low = 0;

    while (count) { /* without a branch to mispredict */
        size_t half = (count + 1) / 2;
        low += load32(hashes + (low + half - 1) * 4) < hash ? half : 0;
        count -= half;
    }
    return low;
}

static struct val find_sorted(const uint8_t *at, size_t count, struct slice name, uint32_t hash)
{
    unsigned w = tag_width(*at);
    const uint8_t *offsets = at + 1 + 2 * w, *hashes = offsets + count * w;
    const uint8_t *positions = hashes + count * 4;

    for (size_t i = lower_bound(hashes, count, hash); i < count && load32(hashes + i * 4) == hash;
         i++) {
        size_t position = load_width(positions + i * w, w);
        struct val v = value_named(at + load_width(offsets + position * w, w), name);
        if (v.at)
            return v;
    }
    return VAL_NONE;
}

/* With w known where it is compiled. */
__attribute__((always_inline)) static inline struct val find_in(const uint8_t *at, unsigned w,
                                                                struct slice name, uint32_t hash)
{
    size_t count = load_width(at + 1 + w, w);
    const uint8_t *offsets = at + 1 + 2 * w, *hashes = offsets + count * w;

    if (count > SCAN_MAX)
        return find_sorted(at, count, name, hash);
    for (uint32_t left = equal_hashes(hashes, count, hash); left; left &= left - 1) {
        size_t i = (size_t)__builtin_ctz(left);
        if (count > OBJECT_LINEAR)
            i = load_width(hashes + count * 4 + i * w, w);
        struct val v = value_named(at + load_width(offsets + i * w, w), name);
        if (v.at)
            return v;
    }
    return VAL_NONE;
}

static inline struct val find(struct val object, struct slice name, uint32_t hash)
{
    switch (object.at ? *object.at : TAG_NULL) {
    case TAG_OBJECT + 1:
        return find_in(object.at, 1, name, hash);
    case TAG_OBJECT + 2:
        return find_in(object.at, 2, name, hash);
    case TAG_OBJECT + 3:
        return find_in(object.at, 4, name, hash);
    default:
        return VAL_NONE;
    }
}

bool val_find_hashed(struct val object, struct slice name, uint32_t hash, struct val *out)
{
    struct val v = find(object, name, hash);

    if (v.at)
        *out = v;
    return v.at != NULL;
}

bool val_find(struct val object, struct slice name, struct val *out)
{
    return val_find_hashed(object, name, val_name_hash(name), out);
}

struct val val_get(struct val object, struct slice name)
{
    struct val out;

    return val_find(object, name, &out) ? out : val_null;
}

struct val val_path(struct val v, const struct slice *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        v = val_get(v, names[i]);
    return v;
}

static long read_floats(const uint8_t *at, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        memcpy(&out[i], at + i * 5 + 1, sizeof out[i]);
    return (long)count;
}

long val_floats(struct val v, float *out, size_t max)
{
    size_t count = val_count(v);

    if (val_type(v) != VAL_ARRAY || count > max)
        return -1;
    if (*v.at == TAG_ARRAY_EQUAL && v.at[1] == 5)
        return read_floats(v.at + EQUAL_HEADER, count, out);
    for (size_t i = 0; i < count; i++) {
        struct val e = val_at(v, i);
        if (val_type(e) != VAL_NUMBER)
            return -1;
        out[i] = (float)val_double(e);
    }
    return (long)count;
}

/* A level costs four bytes at least, so most values are decided by their size. */
bool val_is_within(struct val v, unsigned levels)
{
    size_t count = val_count(v);
    enum val_type type = val_type(v);

    if (type != VAL_ARRAY && type != VAL_OBJECT)
        return true;
    if (!levels)
        return false;
    if (!count || *v.at == TAG_ARRAY_EQUAL || val_size(v) < (size_t)levels * 4)
        return true;
    for (size_t i = 0; i < count; i++)
        if (!val_is_within(val_at(v, i), levels - 1))
            return false;
    return true;
}

/*
 * ---- order ----
 *
 * Stored values are nested LIMIT_NESTING deep at most, but a query may wrap
 * them. Beyond VISIT_NESTING, comparing goes on bytewise and hashing stops:
 * still one order, and no stack runs over.
 */

enum { VISIT_NESTING = 1000 };

static int order(struct val a, struct val b, const struct collator *c, unsigned depth);

static int compare_double(double a, double b)
{
    return (a > b) - (a < b);
}

/* Exact: the double is never rounded to an int nor the int to a double. */
static int compare_int_double(int64_t i, double d)
{
    if (d >= 0x1p63)
        return -1;
    if (d < -0x1p63)
        return 1;
    int64_t whole = (int64_t)d;
    if (i != whole)
        return i < whole ? -1 : 1;
    return compare_double(0, d - (double)whole);
}

static int compare_number(struct val a, struct val b)
{
    bool a_int = val_is_int(a), b_int = val_is_int(b);

    if (a_int && b_int) {
        int64_t x = raw_int(a.at), y = raw_int(b.at);
        return (x > y) - (x < y);
    }
    if (a_int)
        return compare_int_double(raw_int(a.at), raw_double(b.at));
    if (b_int)
        return -compare_int_double(raw_int(b.at), raw_double(a.at));
    return compare_double(raw_double(a.at), raw_double(b.at));
}

static int compare_string(struct slice a, struct slice b, const struct collator *c)
{
    int sign = c ? collator_compare(c, a, b) : 0;

    return sign ? sign : slice_cmp(a, b);
}

static int compare_array(struct val a, struct val b, const struct collator *c, unsigned depth)
{
    size_t na = val_count(a), nb = val_count(b), n = na > nb ? na : nb;
    int sign = 0;

    for (size_t i = 0; i < n && !sign; i++)
        sign = order(val_at(a, i), val_at(b, i), c, depth + 1);
    return sign;
}

static int compare_names(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

static struct slice *sorted_names(struct val a, struct val b, size_t *count)
{
    size_t na = val_count(a), nb = val_count(b), kept = 0;
    struct slice *names = mem_alloc((na + nb) * sizeof *names);

    for (size_t i = 0; i < na; i++)
        names[i] = val_name_at(a, i);
    for (size_t i = 0; i < nb; i++)
        names[na + i] = val_name_at(b, i);
    qsort(names, na + nb, sizeof *names, compare_names);
    for (size_t i = 0; i < na + nb; i++)
        if (!kept || !slice_eq(names[kept - 1], names[i]))
            names[kept++] = names[i];
    *count = kept;
    return names;
}

static int compare_object(struct val a, struct val b, const struct collator *c, unsigned depth)
{
    size_t count;
    struct slice *names = sorted_names(a, b, &count);
    int sign = 0;

    for (size_t i = 0; i < count && !sign; i++)
        sign = order(val_get(a, names[i]), val_get(b, names[i]), c, depth + 1);
    mem_free(names);
    return sign;
}

static int compare_container(struct val a, struct val b, const struct collator *c, unsigned depth)
{
    int bytes = slice_cmp(val_bytes(a), val_bytes(b));

    if (!bytes || depth == VISIT_NESTING)
        return bytes;
    if (val_type(a) == VAL_ARRAY)
        return compare_array(a, b, c, depth);
    return compare_object(a, b, c, depth);
}

static int order(struct val a, struct val b, const struct collator *c, unsigned depth)
{
    enum val_type ta = val_type(a), tb = val_type(b);

    if (ta != tb)
        return ta < tb ? -1 : 1;
    switch (ta) {
    case VAL_NULL:
        return 0;
    case VAL_BOOL:
        return val_bool(a) - val_bool(b);
    case VAL_NUMBER:
        return compare_number(a, b);
    case VAL_STRING:
        return compare_string(val_string(a), val_string(b), c);
    case VAL_ARRAY:
    case VAL_OBJECT:
        return compare_container(a, b, c, depth);
    }
    return 0;
}

/* Nearly all numbers and many strings are small: their tags tell most. */
static inline bool are_small_ints(uint8_t a, uint8_t b)
{
    return a >= TAG_SMALL && a < TAG_STRING && b >= TAG_SMALL && b < TAG_STRING;
}

int val_compare(struct val a, struct val b, const struct collator *c)
{
    if (a.at && b.at && are_small_ints(*a.at, *b.at))
        return (*a.at > *b.at) - (*a.at < *b.at);
    return order(a, b, c, 0);
}

bool val_equal(struct val a, struct val b)
{
    if (a.at && b.at && are_small_ints(*a.at, *b.at))
        return *a.at == *b.at;
    if (a.at && b.at && *a.at >= TAG_SHORT && *a.at <= TAG_SHORT_LAST && *b.at >= TAG_SHORT &&
        *b.at <= TAG_SHORT_LAST)
        return *a.at == *b.at && !memcmp(a.at + 1, b.at + 1, (size_t)(*a.at - TAG_SHORT));
    return order(a, b, NULL, 0) == 0;
}

/* ---- hash ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    uint64_t pair[2] = { h, v };

    return hash_xxh3(pair, sizeof pair);
}

static uint64_t hash_number(struct val v)
{
    double d = val_double(v);

    /* A double that is a whole int64 hashes as that int. */
    if (!val_is_int(v) && (d != floor(d) || d < -0x1p63 || d >= 0x1p63)) {
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        return mix(3, bits);
    }
    return mix(2, (uint64_t)val_int(v));
}

static uint64_t hash_val(struct val v, unsigned depth);

static uint64_t hash_array(struct val v, unsigned depth)
{
    size_t count = val_count(v);

    while (count && val_is_null(val_at(v, count - 1)))
        count--;
    uint64_t h = mix(5, count);
    for (size_t i = 0; i < count; i++)
        h = mix(h, hash_val(val_at(v, i), depth + 1));
    return h;
}

/* A sum: the order of members does not matter. */
static uint64_t hash_object(struct val v, unsigned depth)
{
    size_t count = val_count(v);
    uint64_t h = 6;

    for (size_t i = 0; i < count; i++) {
        struct slice name = val_name_at(v, i);
        if (!val_is_null(val_at(v, i)))
            h += mix(hash_xxh3(name.ptr, name.len), hash_val(val_at(v, i), depth + 1));
    }
    return h;
}

static uint64_t hash_val(struct val v, unsigned depth)
{
    switch (val_type(v)) {
    case VAL_NULL:
        return mix(0, 0);
    case VAL_BOOL:
        return mix(1, val_bool(v));
    case VAL_NUMBER:
        return hash_number(v);
    case VAL_STRING:
        return mix(4, hash_xxh3(val_string(v).ptr, val_string(v).len));
    case VAL_ARRAY:
        return depth == VISIT_NESTING ? mix(5, 0) : hash_array(v, depth);
    case VAL_OBJECT:
        return depth == VISIT_NESTING ? mix(6, 0) : hash_object(v, depth);
    }
    return 0;
}

uint64_t val_hash(struct val v)
{
    return hash_val(v, 0);
}
