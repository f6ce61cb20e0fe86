/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers, texts and arrays of a schema. A range of whole numbers is a choice over their lengths,
 * and for each length over the first digit in which the bounds differ.
 */
#include "model/schema_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { DIGITS = 15 };
#define LARGEST INT64_C(999999999999999)

/* ---- numbers ---- */

/* Whole numbers of as many digits from low to high, not negative. */
static void put_same_length(struct buf *out, const char *low, const char *high)
{
    size_t n = strlen(low), i = 0;
    while (i < n && low[i] == high[i])
        i++;
    if (i > 0)
        buf_printf(out, "\"%.*s\" ", (int)i, low);
    if (i == n)
        return;
    char zeros[DIGITS + 1] = { 0 }, nines[DIGITS + 1] = { 0 };
    size_t rest = n - i - 1;
    memset(zeros, '0', rest);
    memset(nines, '9', rest);
    bool is_low_full = strcmp(low + i + 1, zeros) == 0,
         is_high_full = strcmp(high + i + 1, nines) == 0;
    char from = (char)(low[i] + !is_low_full), to = (char)(high[i] - !is_high_full);
    const char *sep = "";
    buf_add_str(out, "(");
    if (!is_low_full) {
        buf_printf(out, "\"%c\" ", low[i]);
        put_same_length(out, low + i + 1, nines);
        sep = "| ";
    }
    if (from <= to) {
        buf_printf(out, "%s[%c-%c] ", sep, from, to);
        if (rest > 0)
            buf_printf(out, "[0-9]{%zu} ", rest);
        sep = "| ";
    }
    if (!is_high_full) {
        buf_printf(out, "%s\"%c\" ", sep, high[i]);
        put_same_length(out, zeros, high + i + 1);
    }
    buf_add_str(out, ") ");
}

/* 0 <= low <= high <= LARGEST */
static void put_range(struct buf *out, int64_t low, int64_t high)
{
    char a[24] = { 0 }, b[24] = { 0 };
    buf_add_char(out, '(');
    for (;;) {
        snprintf(a, sizeof a, "%" PRId64, low);
        int64_t end = 9;
        for (size_t i = 1; i < strlen(a); i++)
            end = end * 10 + 9;
        end = end < high ? end : high;
        snprintf(b, sizeof b, "%" PRId64, end);
        put_same_length(out, a, b);
        if (end == high)
            break;
        buf_add_str(out, "| ");
        low = end + 1;
    }
    buf_add_str(out, ") ");
}

/* Not negative; with a fraction if it is not whole: then high itself has zeros behind the point. */
static void put_side(struct buf *out, int64_t low, int64_t high, bool is_whole)
{
    if (is_whole) {
        put_range(out, low, high);
        return;
    }
    if (high == LARGEST) {
        put_range(out, low, high);
        buf_add_str(out, "fraction? ");
        return;
    }
    if (low < high) {
        put_range(out, low, high - 1);
        buf_add_str(out, "fraction? | ");
    }
    buf_printf(out, "\"%" PRId64 "\" (\".\" \"0\"{1,16})? ", high);
}

static enum errc read_bound(struct schema_writer *w, struct val s, const char *name, bool is_whole,
                            bool is_low, int64_t *out)
{
    struct val v = schema_get(s, name);
    if (!schema_has(s, name))
        return OK;
    double d = val_double(v);
    bool is_exclusive = name[0] == 'e';
    if (val_type(v) != VAL_NUMBER || !(fabs(d) <= LARGEST))
        return schema_refuse(w, "'%s' must be a number of at most %d digits", name, DIGITS);
    if (!is_whole && (is_exclusive || d != floor(d)))
        return schema_refuse(w, "'%s'%s is not supported for the type number (of integers it is)",
                             name, is_exclusive ? "" : " with a fraction");
    int64_t bound = (int64_t)(is_low ? ceil(d) : floor(d));
    if (is_exclusive && (double)bound == d)
        bound += is_low ? 1 : -1;
    if (is_low ? bound > *out : bound < *out)
        *out = bound;
    return OK;
}

enum errc schema_write_number(struct schema_writer *w, struct val s, bool is_whole, uint32_t rule)
{
    int64_t low = -LARGEST, high = LARGEST;
    enum errc rc = OK;
    TRY(read_bound(w, s, "minimum", is_whole, true, &low));
    TRY(read_bound(w, s, "exclusiveMinimum", is_whole, true, &low));
    TRY(read_bound(w, s, "maximum", is_whole, false, &high));
    TRY(read_bound(w, s, "exclusiveMaximum", is_whole, false, &high));
    if (low > high)
        TRY(schema_refuse(w, "no number is between 'minimum' and 'maximum'"));
    if (low == -LARGEST && high == LARGEST) {
        buf_printf(w->out, "s%u ::= %s\n", rule, is_whole ? "integer" : "number");
        return OK;
    }
    buf_printf(w->out, "s%u ::= ", rule);
    if (high >= 0)
        put_side(w->out, low > 0 ? low : 0, high, is_whole);
    if (low < 0) {
        buf_printf(w->out, "%s\"-\" (", high >= 0 ? "| " : "");
        put_side(w->out, high < 0 ? -high : is_whole, -low, is_whole);
        buf_add_char(w->out, ')');
    }
    buf_add_char(w->out, '\n');
out:
    return rc;
}

/* ---- texts ---- */

static enum errc put_format(struct schema_writer *w, struct slice format)
{
    if (slice_is(format, "date"))
        buf_add_str(w->out, "day ");
    else if (slice_is(format, "time"))
        buf_add_str(w->out, "time ");
    else if (slice_is(format, "date-time"))
        buf_add_str(w->out, "day \"T\" time ");
    else if (slice_is(format, "uuid"))
        buf_add_str(w->out, "uuid ");
    else
        return schema_refuse(w,
                             "the 'format' %.*s is not supported (date, time, date-time, uuid are)",
                             (int)(format.len < 40 ? format.len : 40), format.ptr);
    return OK;
}

enum errc schema_write_string(struct schema_writer *w, struct val s, uint32_t rule)
{
    bool has_length = schema_has(s, "minLength") || schema_has(s, "maxLength");
    uint32_t least = 0, most = 0;
    enum errc rc = OK;
    TRY(schema_size(w, s, "minLength", 0, &least));
    TRY(schema_size(w, s, "maxLength", UINT32_MAX, &most));
    if (least > most)
        TRY(schema_refuse(w, "'minLength' is larger than 'maxLength'"));
    if (has_length + schema_has(s, "pattern") + schema_has(s, "format") > 1)
        TRY(schema_refuse(w, "only one of 'pattern', 'format' and lengths is supported"));
    buf_printf(w->out, "s%u ::= \"\\\"\" ", rule);
    if (schema_has(s, "pattern")) {
        if (val_type(schema_get(s, "pattern")) != VAL_STRING)
            TRY(schema_refuse(w, "'pattern' must be a text"));
        struct error why;
        if (schema_pattern(val_string(schema_get(s, "pattern")), w->out, &why) != OK)
            TRY(schema_refuse(w, "'pattern' is not supported: %s", why.text));
    } else if (schema_has(s, "format")) {
        TRY(put_format(w, val_string(schema_get(s, "format"))));
    } else if (most == UINT32_MAX) {
        buf_printf(w->out, "char{%u,}", least);
    } else {
        buf_printf(w->out, "char{%u,%u}", least, most);
    }
    buf_add_str(w->out, " \"\\\"\"\n");
out:
    return rc;
}

/* ---- arrays ---- */

static enum errc write_tuple(struct schema_writer *w, struct val s, uint32_t rule)
{
    struct val list = schema_get(s, "prefixItems");
    size_t n = val_count(list);
    uint32_t least, most;
    enum errc rc = OK;
    if (val_type(list) != VAL_ARRAY || n == 0)
        TRY(schema_refuse(w, "'prefixItems' must be an array of schemas"));
    TRY(schema_size(w, s, "minItems", (uint32_t)n, &least));
    TRY(schema_size(w, s, "maxItems", (uint32_t)n, &most));
    if (least > n || most < n ||
        (schema_has(s, "items") && !val_equal(schema_get(s, "items"), val_false)))
        TRY(schema_refuse(w, "'prefixItems' with further or fewer items is not supported"));
    uint32_t *rules = arena_alloc(w->arena, n * sizeof *rules);
    for (size_t i = 0; i < n; i++)
        TRY(schema_item(w, "prefixItems", i, val_at(list, i), &rules[i]));
    buf_printf(w->out, "s%u ::= \"[\" ws ", rule);
    for (size_t i = 0; i < n; i++)
        buf_printf(w->out, "%ss%u ws ", i ? "\",\" ws " : "", rules[i]);
    buf_add_str(w->out, "\"]\"\n");
out:
    return rc;
}

enum errc schema_write_array(struct schema_writer *w, struct val s, uint32_t rule)
{
    struct val items = schema_get(s, "items");
    char item[24] = "value";
    uint32_t least, most, inner;
    enum errc rc = OK;
    if (schema_has(s, "prefixItems"))
        return write_tuple(w, s, rule);
    TRY(schema_size(w, s, "minItems", 0, &least));
    TRY(schema_size(w, s, "maxItems", UINT32_MAX, &most));
    if (least > most)
        TRY(schema_refuse(w, "'minItems' is larger than 'maxItems'"));
    if (schema_has(s, "items")) {
        TRY(schema_inner(w, NULL, slice_str("items"), items, &inner));
        snprintf(item, sizeof item, "s%u", inner);
    }
    if (most == 0) {
        buf_printf(w->out, "s%u ::= \"[\" ws \"]\"\n", rule);
        return OK;
    }
    buf_printf(w->out, "s%u ::= \"[\" ws (%s ws (\",\" ws %s ws){%u,", rule, item, item,
               least ? least - 1 : 0);
    if (most != UINT32_MAX)
        buf_printf(w->out, "%u", most - 1);
    buf_printf(w->out, "})%s \"]\"\n", least == 0 ? "?" : "");
out:
    return rc;
}
