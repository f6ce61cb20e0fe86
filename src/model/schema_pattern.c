/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ECMAScript patterns as grammars. A pattern is about the text, the grammar about its JSON: a
 * quote, a backslash and control characters are there as their escapes. What looks around (\b,
 * lookahead, back references) has no grammar and is refused. A pattern that is not anchored may
 * have any characters before and behind it.
 */
#include "model/schema.h"

#include <stdio.h>

enum { GROUPS_MAX = 32, RANGES_MAX = 256, PATTERN_BYTES = 1000, LAST = 0x10ffff };

struct range {
    uint32_t from, to;
};

struct set {
    struct range ranges[RANGES_MAX];
    size_t count;
};

struct reader {
    const char *at, *end;
    struct buf *out;
    unsigned depth;
    struct error *err;
};

static enum errc refuse(struct reader *r, const char *what)
{
    size_t n = (size_t)(r->end - r->at);
    return fail(r->err, ERR_INVALID, "%s%s%.*s%s", what, n ? " at '" : " at its end",
                (int)(n < 16 ? n : 16), r->at, n ? "'" : "");
}

/* ---- sets of characters ---- */

static enum errc set_add(struct reader *r, struct set *s, uint32_t from, uint32_t to)
{
    if (s->count == RANGES_MAX)
        return refuse(r, "too many ranges");
    s->ranges[s->count++] = (struct range){ from, to };
    return OK;
}

/* Sorted, without overlaps. */
static void set_tidy(struct set *s)
{
    size_t n = 0;
    for (size_t i = 1; i < s->count; i++) {
        struct range x = s->ranges[i];
        size_t j = i;
        for (; j > 0 && s->ranges[j - 1].from > x.from; j--)
            s->ranges[j] = s->ranges[j - 1];
        s->ranges[j] = x;
    }
    for (size_t i = 0; i < s->count; i++) {
        if (n > 0 && s->ranges[i].from <= s->ranges[n - 1].to + 1) {
            if (s->ranges[i].to > s->ranges[n - 1].to)
                s->ranges[n - 1].to = s->ranges[i].to;
        } else {
            s->ranges[n++] = s->ranges[i];
        }
    }
    s->count = n;
}

static void set_invert(struct set *s)
{
    struct set out = { .count = 0 };
    uint32_t next = 0;
    set_tidy(s);
    for (size_t i = 0; i < s->count && out.count < RANGES_MAX; i++) {
        if (s->ranges[i].from > next)
            out.ranges[out.count++] = (struct range){ next, s->ranges[i].from - 1 };
        next = s->ranges[i].to + 1;
    }
    if (next <= LAST && out.count < RANGES_MAX)
        out.ranges[out.count++] = (struct range){ next, LAST };
    *s = out;
}

static bool set_has(const struct set *s, uint32_t c)
{
    for (size_t i = 0; i < s->count; i++) {
        if (c >= s->ranges[i].from && c <= s->ranges[i].to)
            return true;
    }
    return false;
}

static void put_code(struct buf *out, uint32_t c)
{
    bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_plain)
        buf_add_char(out, (char)c);
    else if (c < 0x100)
        buf_printf(out, "\\x%02X", c);
    else if (c < 0x10000)
        buf_printf(out, "\\u%04X", c);
    else
        buf_printf(out, "\\U%08X", c);
}

/* The set without characters that a JSON string has as escapes, and those escapes. */
static void put_set(struct reader *r, struct set *s)
{
    static const struct {
        uint32_t c;
        const char *json;
    } escapes[] = { { '"', "\\\"" }, { '\\', "\\\\" }, { '\n', "\\n" }, { '\t', "\\t" },
                    { '\r', "\\r" }, { '\b', "\\b" },  { '\f', "\\f" } };
    static const struct range never[] = {
        { 0, 0x1f }, { '"', '"' }, { '\\', '\\' }, { 0x7f, 0x7f }, { 0xd800, 0xdfff }
    };
    set_tidy(s);
    buf_add_str(r->out, "([");
    for (size_t i = 0; i < s->count; i++) {
        uint32_t from = s->ranges[i].from, to = s->ranges[i].to;
        for (size_t k = 0; k < ARRAY_LEN(never) && from <= to; k++) {
            if (never[k].to < from || never[k].from > to)
                continue;
            if (never[k].from > from) {
                put_code(r->out, from);
                buf_add_char(r->out, '-');
                put_code(r->out, never[k].from - 1);
            }
            from = never[k].to + 1;
        }
        if (from > to)
            continue;
        put_code(r->out, from);
        buf_add_char(r->out, '-');
        put_code(r->out, to);
    }
    buf_add_char(r->out, ']');
    for (size_t i = 0; i < ARRAY_LEN(escapes); i++) {
        if (set_has(s, escapes[i].c)) {
            buf_add_str(r->out, " | ");
            schema_literal(slice_str(escapes[i].json), r->out);
        }
    }
    buf_add_str(r->out, ") ");
}

/* ---- reading ---- */

static uint32_t next_code(struct reader *r)
{
    const unsigned char *s = (const unsigned char *)r->at;
    int more = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : s[0] >= 0xc0 ? 1 : 0;
    uint32_t c = more == 0 ? s[0] : s[0] & (0x3fu >> more);
    for (int i = 1; i <= more; i++)
        c = c << 6 | (s[i] & 0x3f);
    r->at += more + 1;
    return c;
}

static enum errc read_hex(struct reader *r, int digits, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        char c = r->at < r->end ? *r->at : 0;
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return refuse(r, "hexadecimal digits are missing");
        *out = *out << 4 | (uint32_t)d;
    }
    return OK;
}

static enum errc add_class(struct reader *r, struct set *s, char name)
{
    struct set one = { .count = 0 };
    char lower = (char)(name | 0x20);
    enum errc rc = OK;
    if (lower == 'd' || lower == 'w')
        TRY(set_add(r, &one, '0', '9'));
    if (lower == 'w') {
        TRY(set_add(r, &one, 'a', 'z'));
        TRY(set_add(r, &one, 'A', 'Z'));
        TRY(set_add(r, &one, '_', '_'));
    }
    if (lower == 's') {
        TRY(set_add(r, &one, '\t', '\r'));
        TRY(set_add(r, &one, ' ', ' '));
        TRY(set_add(r, &one, 0xa0, 0xa0));
    }
    if (name != lower)
        set_invert(&one);
    for (size_t i = 0; i < one.count; i++)
        TRY(set_add(r, s, one.ranges[i].from, one.ranges[i].to));
out:
    return rc;
}

/* Behind a backslash: one character, or a class of them, which is added to s. */
static enum errc read_escape(struct reader *r, struct set *s, bool *is_class, uint32_t *c)
{
    static const char simple[] = "nrtfv0", values[] = "\n\r\t\f\v";
    char name = r->at < r->end ? *r->at : 0;
    const char *found = name ? strchr(simple, name) : NULL;
    *is_class = name && strchr("dDwWsS", name);
    if (*is_class) {
        r->at++;
        return add_class(r, s, name);
    }
    if (name == 'x' || name == 'u') {
        r->at++;
        return read_hex(r, name == 'x' ? 2 : 4, c);
    }
    if (!name || (!found && ((name >= '0' && name <= '9') || (name >= 'a' && name <= 'z') ||
                             (name >= 'A' && name <= 'Z'))))
        return refuse(r, "an escape that a grammar does not know,");
    *c = found ? (unsigned char)values[found - simple] : next_code(r);
    r->at += found != NULL;
    return OK;
}

static enum errc read_member(struct reader *r, struct set *s, bool *is_class, uint32_t *c)
{
    *is_class = false;
    if (*r->at != '\\') {
        *c = next_code(r);
        return OK;
    }
    r->at++;
    return read_escape(r, s, is_class, c);
}

static enum errc read_set(struct reader *r)
{
    struct set s = { .count = 0 };
    bool is_inverted = r->at < r->end && *r->at == '^', is_class;
    uint32_t from, to;
    enum errc rc = OK;
    r->at += is_inverted;
    while (r->at < r->end && *r->at != ']') {
        TRY(read_member(r, &s, &is_class, &from));
        if (is_class)
            continue;
        to = from;
        if (r->end - r->at >= 2 && r->at[0] == '-' && r->at[1] != ']') {
            r->at++;
            TRY(read_member(r, &s, &is_class, &to));
            if (is_class || to < from)
                TRY(refuse(r, "a range that is none"));
        }
        TRY(set_add(r, &s, from, to));
    }
    if (r->at == r->end)
        TRY(refuse(r, "a class does not end"));
    r->at++;
    if (is_inverted)
        set_invert(&s);
    put_set(r, &s);
out:
    return rc;
}

static enum errc read_choices(struct reader *r, size_t *count);

static enum errc read_group(struct reader *r)
{
    size_t count;
    enum errc rc = OK;
    if (r->depth == GROUPS_MAX)
        return refuse(r, "too many groups in each other");
    if (r->at < r->end && *r->at == '?') {
        if (r->end - r->at < 2 || r->at[1] != ':')
            return refuse(r, "a group that looks around or has a name,");
        r->at += 2;
    }
    r->depth++;
    buf_add_char(r->out, '(');
    TRY(read_choices(r, &count));
    if (r->at == r->end)
        TRY(refuse(r, "a group does not end"));
    r->at++;
    r->depth--;
    buf_add_str(r->out, ") ");
out:
    return rc;
}

static enum errc read_atom(struct reader *r)
{
    struct set s = { .count = 0 };
    bool is_class = false;
    uint32_t c = (unsigned char)*r->at;
    enum errc rc = OK;
    if (c == '(' || c == '[') {
        r->at++;
        return c == '(' ? read_group(r) : read_set(r);
    }
    if (strchr("*+?{}]^$", (int)c))
        return refuse(r, c == '^' || c == '$' ? "an anchor inside" : "not expected");
    if (c == '.') {
        r->at++;
        TRY(set_add(r, &s, '\n', '\n'));
        TRY(set_add(r, &s, '\r', '\r'));
        set_invert(&s);
    } else {
        TRY(read_member(r, &s, &is_class, &c));
        if (!is_class)
            TRY(set_add(r, &s, c, c));
    }
    put_set(r, &s);
out:
    return rc;
}

/* {m}, {m,}, {m,n}: the same in a grammar, which has its own limit. */
static enum errc read_quantifier(struct reader *r)
{
    const char *from = r->at;
    if (*r->at == '{') {
        while (r->at < r->end && *r->at != '}') {
            r->at++;
            if (r->at < r->end && *r->at != '}' && *r->at != ',' && (*r->at < '0' || *r->at > '9'))
                return refuse(r, "not a number");
        }
        if (r->at == r->end)
            return refuse(r, "'}' is missing");
    }
    r->at++;
    while (r->out->len > 0 && r->out->ptr[r->out->len - 1] == ' ')
        r->out->len--;
    buf_add(r->out, from, (size_t)(r->at - from));
    buf_add_char(r->out, ' ');
    if (r->at < r->end && *r->at == '?') /* as few as possible: the texts are the same */
        r->at++;
    return OK;
}

static enum errc read_choices(struct reader *r, size_t *count)
{
    enum errc rc = OK;
    *count = 1;
    while (r->at < r->end && *r->at != ')') {
        if (*r->at == '|') {
            r->at++;
            buf_add_str(r->out, "| ");
            ++*count;
            continue;
        }
        TRY(read_atom(r));
        if (r->at < r->end && strchr("*+?{", *r->at))
            TRY(read_quantifier(r));
    }
out:
    return rc;
}

/* Is the last character of the pattern an anchor, and not an escaped one? */
static bool ends_with_anchor(struct slice p)
{
    size_t backslashes = 0;
    if (p.len == 0 || p.ptr[p.len - 1] != '$')
        return false;
    while (backslashes + 1 < p.len && p.ptr[p.len - 2 - backslashes] == '\\')
        backslashes++;
    return backslashes % 2 == 0;
}

enum errc schema_pattern(struct slice pattern, struct buf *out, struct error *err)
{
    bool has_begin = pattern.len > 0 && pattern.ptr[0] == '^';
    bool has_end = ends_with_anchor(pattern);
    struct reader r = { .at = pattern.ptr + has_begin,
                        .end = pattern.ptr + pattern.len - has_end,
                        .out = out,
                        .err = err };
    size_t count;
    enum errc rc = OK;
    if (pattern.len > PATTERN_BYTES)
        TRY(fail(err, ERR_INVALID, "it has more than %d bytes", PATTERN_BYTES));
    buf_add_str(out, has_begin ? "(" : "char* (");
    TRY(read_choices(&r, &count));
    if (r.at < r.end)
        TRY(refuse(&r, "')' without '('"));
    if (count > 1 && (has_begin || has_end))
        TRY(fail(err, ERR_INVALID, "an anchor belongs to one choice only; put (?: ) around them"));
    buf_add_str(out, has_end ? ")" : ") char*");
out:
    return rc;
}
