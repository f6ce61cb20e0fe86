/* SPDX-License-Identifier: Apache-2.0 */
/* Functions on strings. Positions count characters, not bytes. */
#include "base/collate.h"
#include "base/text_match.h"
#include "base/val_text.h"
#include "query/fn_support.h"

enum { TEXT_MAX = 64 * MIB, REPEAT_MAX = 16 * MIB };

static struct slice part(struct slice s, int64_t from, int64_t count)
{
    size_t a = fn_byte_of(s, from), b = a + fn_byte_of(slice_of(s.ptr + a, s.len - a), count);

    return slice_of(s.ptr + a, b - a);
}

static enum errc fn_concat(struct fn_call *call)
{
    bool is_list = call->count == 1 && fn_is(call, 0, VAL_ARRAY);
    size_t count = is_list ? val_count(call->args[0]) : (size_t)call->count;
    struct buf text;

    buf_init(&text, TEXT_MAX);
    for (size_t i = 0; i < count; i++) {
        struct val v = is_list ? val_at(call->args[0], i) : call->args[i];
        buf_add_slice(&text, val_string(cast_string(call->arena, v)));
    }
    return fn_return_buf(call, &text);
}

static enum errc fn_concat_separator(struct fn_call *call)
{
    bool is_list = call->count == 2 && fn_is(call, 1, VAL_ARRAY);
    size_t count = is_list ? val_count(call->args[1]) : (size_t)call->count - 1;
    struct slice separator = fn_text_arg(call, 0);
    bool is_first = true;
    struct buf text;

    buf_init(&text, TEXT_MAX);
    for (size_t i = 0; i < count; i++) {
        struct val v = is_list ? val_at(call->args[1], i) : call->args[i + 1];
        if (val_is_null(v))
            continue;
        if (!is_first)
            buf_add_slice(&text, separator);
        is_first = false;
        buf_add_slice(&text, val_string(cast_string(call->arena, v)));
    }
    return fn_return_buf(call, &text);
}

static enum errc change_case(struct fn_call *call, bool is_upper)
{
    struct buf text;

    buf_init(&text, TEXT_MAX);
    text_change_case(fn_text_arg(call, 0), is_upper, &text);
    return fn_return_buf(call, &text);
}

static enum errc fn_lower(struct fn_call *call)
{
    return change_case(call, false);
}

static enum errc fn_upper(struct fn_call *call)
{
    return change_case(call, true);
}

static enum errc fn_substring(struct fn_call *call)
{
    struct slice s = fn_text_arg(call, 0);
    int64_t size = (int64_t)utf8_count(s), from = fn_int_arg(call, 1), count = size;

    if (from < 0)
        from = from + size < 0 ? 0 : from + size;
    if (call->count > 2 && !val_is_null(call->args[2]))
        count = fn_int_arg(call, 2);
    if (count < 0)
        count = 0;
    return fn_return_text(call, part(s, from, count));
}

static enum errc fn_left(struct fn_call *call)
{
    return fn_return_text(call, part(fn_text_arg(call, 0), 0, fn_int_arg(call, 1)));
}

static enum errc fn_right(struct fn_call *call)
{
    struct slice s = fn_text_arg(call, 0);
    int64_t skip = (int64_t)utf8_count(s) - fn_int_arg(call, 1);

    return fn_return_text(call, part(s, skip < 0 ? 0 : skip, (int64_t)s.len));
}

static enum errc fn_contains(struct fn_call *call)
{
    struct slice s = fn_text_arg(call, 0), what = fn_text_arg(call, 1);
    const char *at =
        what.len <= s.len && what.len ? memmem(s.ptr, s.len, what.ptr, what.len) : NULL;

    if (!val_truth(fn_arg(call, 2)))
        return fn_return_bool(call, at != NULL);
    return fn_return_int(call,
                         at ? (int64_t)utf8_count(slice_of(s.ptr, (size_t)(at - s.ptr))) : -1);
}

static enum errc fn_starts_with(struct fn_call *call)
{
    struct slice s = fn_text_arg(call, 0);
    struct val prefixes = fn_arg(call, 1);
    bool is_list = val_type(prefixes) == VAL_ARRAY;
    size_t found = 0, count = is_list ? val_count(prefixes) : 1;
    int64_t needed = call->count > 2 ? fn_int_arg(call, 2) : 1;

    for (size_t i = 0; i < count; i++) {
        struct slice p = val_string(is_list ? val_at(prefixes, i) : prefixes);
        found += s.len >= p.len && !memcmp(s.ptr, p.len ? p.ptr : "", p.len);
    }
    return fn_return_bool(call, (int64_t)found >= needed);
}

static enum errc find(struct fn_call *call, bool is_last)
{
    struct slice s = fn_text_arg(call, 0), what = fn_text_arg(call, 1);
    int64_t size = (int64_t)utf8_count(s);
    int64_t from = call->count > 2 && !val_is_null(call->args[2]) ? fn_int_arg(call, 2) : 0;
    int64_t to = call->count > 3 && !val_is_null(call->args[3]) ? fn_int_arg(call, 3) : size - 1;
    int64_t found = -1;

    if (from < 0 || to < from - 1)
        return fn_return_int(call, -1);
    if (!what.len)
        return fn_return_int(call, is_last ? size : from);
    struct slice area = part(s, from, to - from + 1);
    for (size_t i = 0; i + what.len <= area.len; i++) {
        if (((uint8_t)area.ptr[i] & 0xC0) == 0x80 || memcmp(area.ptr + i, what.ptr, what.len))
            continue;
        found = from + (int64_t)utf8_count(slice_of(area.ptr, i));
        if (!is_last)
            break;
    }
    return fn_return_int(call, found);
}

static enum errc fn_find_first(struct fn_call *call)
{
    return find(call, false);
}

static enum errc fn_find_last(struct fn_call *call)
{
    return find(call, true);
}

/* Bytes of the separator that begins here, 0 when none does. */
static size_t separator_at(struct slice s, size_t at, struct val separators)
{
    size_t count = val_type(separators) == VAL_ARRAY ? val_count(separators) : 1;

    for (size_t i = 0; i < count; i++) {
        struct slice one =
            val_string(val_type(separators) == VAL_ARRAY ? val_at(separators, i) : separators);
        if (one.len && s.len - at >= one.len && !memcmp(s.ptr + at, one.ptr, one.len))
            return one.len;
    }
    return 0;
}

static enum errc fn_split(struct fn_call *call)
{
    struct slice s = fn_text_arg(call, 0);
    struct val separators = fn_arg(call, 1);
    int64_t limit =
        call->count > 2 && !val_is_null(call->args[2]) ? fn_int_arg(call, 2) : INT64_MAX;
    size_t count = 0, from = 0;

    if (call->count < 2 || val_is_null(separators))
        return fn_return(
            call, val_new_array(call->arena, (struct val[]){ val_new_string(call->arena, s) }, 1));
    bool by_char = val_type(separators) == VAL_STRING && !val_string(separators).len;
    struct val *items = fn_room(call, s.len + 1);
    for (size_t i = 0; i < s.len && (int64_t)count < limit;) {
        size_t n = by_char ? 0 : separator_at(s, i, separators);
        bool starts_char = ((uint8_t)s.ptr[i] & 0xC0) != 0x80;
        if (n || (by_char && i > from && starts_char)) {
            items[count++] = val_new_string(call->arena, slice_of(s.ptr + from, i - from));
            from = i + n;
            i += n ? n : 1;
        } else {
            i++;
        }
    }
    if ((int64_t)count < limit)
        items[count++] = val_new_string(call->arena, slice_of(s.ptr + from, s.len - from));
    return fn_return(call, val_new_array(call->arena, items, count));
}

/* Is the character at i one of the set? */
static bool in_set(struct slice s, size_t i, size_t n, struct slice set)
{
    for (size_t k = 0; k + n <= set.len; k++)
        if (!memcmp(s.ptr + i, set.ptr + k, n) && ((uint8_t)set.ptr[k] & 0xC0) != 0x80)
            return true;
    return false;
}

static enum errc trim(struct fn_call *call, bool left, bool right, struct slice set)
{
    struct slice s = fn_text_arg(call, 0);

    while (left && s.len) {
        size_t n = fn_byte_of(s, 1);
        if (!in_set(s, 0, n, set))
            break;
        s = slice_of(s.ptr + n, s.len - n);
    }
    while (right && s.len) {
        size_t i = s.len - 1;
        while (i && ((uint8_t)s.ptr[i] & 0xC0) == 0x80)
            i--;
        if (!in_set(s, i, s.len - i, set))
            break;
        s.len = i;
    }
    return fn_return_text(call, s);
}

static struct slice trim_set(struct fn_call *call)
{
    return fn_is(call, 1, VAL_STRING) ? fn_text_arg(call, 1) : slice_str(" \t\r\n\f\v");
}

static enum errc fn_trim(struct fn_call *call)
{
    int64_t type = fn_is(call, 1, VAL_NUMBER) ? fn_int_arg(call, 1) : 0;

    return trim(call, type != 2, type != 1, trim_set(call));
}

static enum errc fn_ltrim(struct fn_call *call)
{
    return trim(call, true, false, trim_set(call));
}

static enum errc fn_rtrim(struct fn_call *call)
{
    return trim(call, false, true, trim_set(call));
}

struct pair {
    struct slice search, with;
};

static size_t read_pairs(struct fn_call *call, struct pair **out)
{
    struct val search = fn_arg(call, 1), with = fn_arg(call, 2);
    size_t count = val_type(search) == VAL_STRING ? 1 : val_count(search);

    *out = arena_zalloc(call->arena, (count + 1) * sizeof(**out));
    for (size_t i = 0; i < count; i++) {
        struct pair *p = &(*out)[i];
        struct val w = val_type(with) == VAL_ARRAY ? val_at(with, i) : with;
        if (val_type(search) == VAL_OBJECT) {
            p->search = val_name_at(search, i);
            w = val_at(search, i);
        } else {
            p->search = val_string(cast_string(
                call->arena, val_type(search) == VAL_ARRAY ? val_at(search, i) : search));
        }
        p->with = val_string(cast_string(call->arena, w));
    }
    return count;
}

static enum errc fn_substitute(struct fn_call *call)
{
    struct slice s = fn_text_arg(call, 0);
    int limit_at = fn_is(call, 1, VAL_OBJECT) ? 2 : 3;
    int64_t limit = call->count > limit_at && !val_is_null(call->args[limit_at])
                        ? fn_int_arg(call, limit_at)
                        : INT64_MAX;
    struct pair *pairs;
    size_t count = read_pairs(call, &pairs);
    struct buf text;

    buf_init(&text, TEXT_MAX);
    for (size_t i = 0; i < s.len;) {
        size_t k = 0;
        while (k < count &&
               !(limit > 0 && pairs[k].search.len && s.len - i >= pairs[k].search.len &&
                 !memcmp(s.ptr + i, pairs[k].search.ptr, pairs[k].search.len)))
            k++;
        if (k == count) {
            buf_add_char(&text, s.ptr[i++]);
            continue;
        }
        buf_add_slice(&text, pairs[k].with);
        i += pairs[k].search.len;
        limit--;
    }
    return fn_return_buf(call, &text);
}

static enum errc fn_reverse(struct fn_call *call)
{
    struct val v = fn_arg(call, 0);

    if (val_type(v) == VAL_ARRAY) {
        size_t n = val_count(v);
        struct val *items = fn_room(call, n);
        for (size_t i = 0; i < n; i++)
            items[i] = val_at(v, n - 1 - i);
        return fn_return(call, val_new_array(call->arena, items, n));
    }
    struct slice s = fn_text_arg(call, 0);
    char *out = arena_alloc(call->arena, s.len + 1);
    for (size_t i = 0; i < s.len;) {
        size_t n = fn_byte_of(slice_of(s.ptr + i, s.len - i), 1);
        memcpy(out + s.len - i - n, s.ptr + i, n);
        i += n;
    }
    return fn_return_text(call, slice_of(out, s.len));
}

static enum errc fn_char_length(struct fn_call *call)
{
    return fn_return_int(call, (int64_t)utf8_count(fn_text_arg(call, 0)));
}

static enum errc fn_repeat(struct fn_call *call)
{
    struct slice s = fn_text_arg(call, 0), separator = fn_text_arg(call, 2);
    int64_t times = fn_int_arg(call, 1);
    struct buf text;

    if (times < 0 || (double)times * (double)(s.len + separator.len) > REPEAT_MAX) {
        fn_warn(call, 32, "the result of REPEAT would be larger than 16 MiB");
        return fn_return(call, val_null);
    }
    buf_init(&text, 0);
    for (int64_t i = 0; i < times; i++) {
        if (i)
            buf_add_slice(&text, separator);
        buf_add_slice(&text, s);
    }
    return fn_return_buf(call, &text);
}

/* ---- patterns ---- */

static enum errc fn_like(struct fn_call *call)
{
    return fn_return_bool(
        call, text_like(fn_text_arg(call, 0), fn_text_arg(call, 1), val_truth(fn_arg(call, 2))));
}

/* A bad pattern is a warning and null. */
static enum errc regex_result(struct fn_call *call, enum errc rc, const struct error *why,
                              struct val v)
{
    if (rc == OK)
        return fn_return(call, v);
    fn_warn(call, 1543, why->text);
    return fn_return(call, val_null);
}

static enum errc fn_regex_test(struct fn_call *call)
{
    struct error why = { 0 };
    bool is_match;
    enum errc rc = regex_test(fn_text_arg(call, 1), fn_text_arg(call, 0),
                              val_truth(fn_arg(call, 2)), &is_match, &why);

    return regex_result(call, rc, &why, val_new_bool(is_match));
}

static enum errc fn_regex_matches(struct fn_call *call)
{
    struct error why = { 0 };
    struct val v;
    enum errc rc = regex_groups(fn_text_arg(call, 1), fn_text_arg(call, 0),
                                val_truth(fn_arg(call, 2)), call->arena, &v, &why);

    return regex_result(call, rc, &why, v);
}

static enum errc fn_regex_replace(struct fn_call *call)
{
    struct error why = { 0 };
    struct val v = val_null;
    enum errc rc = regex_replace(fn_text_arg(call, 1), fn_text_arg(call, 0), fn_text_arg(call, 2),
                                 val_truth(fn_arg(call, 3)), call->arena, &v, &why);

    return regex_result(call, rc, &why, v);
}

static enum errc fn_regex_split(struct fn_call *call)
{
    struct error why = { 0 };
    struct val v = val_null;
    int64_t limit =
        call->count > 3 && !val_is_null(call->args[3]) ? fn_int_arg(call, 3) : INT64_MAX;

    if (limit <= 0)
        return fn_bad_arg(call, 3, "a limit from 1");
    enum errc rc = regex_split(fn_text_arg(call, 1), fn_text_arg(call, 0),
                               val_truth(fn_arg(call, 2)), (size_t)limit, call->arena, &v, &why);
    return regex_result(call, rc, &why, v);
}

const struct fn fn_text[] = {
    { "CONCAT", 1, -1, "", FN_PURE, fn_concat, "Texts one behind the other." },
    { "CONCAT_SEPARATOR", 2, -1, "", FN_PURE, fn_concat_separator, "The same with a separator." },
    { "LOWER", 1, 1, "", FN_PURE, fn_lower, "In lower case." },
    { "UPPER", 1, 1, "", FN_PURE, fn_upper, "In upper case." },
    { "SUBSTRING", 2, 3, "", FN_PURE, fn_substring, "A part of the text." },
    { "LEFT", 2, 2, "", FN_PURE, fn_left, "The first characters." },
    { "RIGHT", 2, 2, "", FN_PURE, fn_right, "The last characters." },
    { "CONTAINS", 2, 3, "", FN_PURE, fn_contains, "Is a text in the other, or where." },
    { "STARTS_WITH", 2, 3, "s.", FN_PURE, fn_starts_with, "Does the text begin so?" },
    { "FIND_FIRST", 2, 4, "", FN_PURE, fn_find_first, "Place of the first occurrence, or -1." },
    { "FIND_LAST", 2, 4, "", FN_PURE, fn_find_last, "Place of the last occurrence, or -1." },
    { "SPLIT", 1, 3, "", FN_PURE, fn_split, "Parts between separators." },
    { "TRIM", 1, 2, "", FN_PURE, fn_trim, "Without white space at the ends." },
    { "LTRIM", 1, 2, "", FN_PURE, fn_ltrim, "Without it at the start." },
    { "RTRIM", 1, 2, "", FN_PURE, fn_rtrim, "Without it at the end." },
    { "SUBSTITUTE", 2, 4, "", FN_PURE, fn_substitute, "Texts replaced by others." },
    { "REVERSE", 1, 1, "", FN_PURE, fn_reverse, "Backwards." },
    { "CHAR_LENGTH", 1, 1, "", FN_PURE, fn_char_length, "Number of characters." },
    { "REPEAT", 2, 3, "", FN_PURE, fn_repeat, "The text several times." },
    { "LIKE", 2, 3, "", FN_PURE, fn_like, "Does it match the pattern (% and _)?" },
    { "REGEX_TEST", 2, 3, "", FN_PURE, fn_regex_test, "Does the expression match somewhere?" },
    { "REGEX_MATCHES", 2, 3, "", FN_PURE, fn_regex_matches, "Groups of the first match." },
    { "REGEX_REPLACE", 3, 4, "", FN_PURE, fn_regex_replace, "All matches replaced." },
    { "REGEX_SPLIT", 2, 4, "", FN_PURE, fn_regex_split, "Parts between matches." },
    { 0 },
};
