/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text_match.h"
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { MATCH_LIMIT = 1000000, DEPTH_LIMIT = 10000, PATTERN_MAX = 64 * KIB, HEAP_KIB = 65536 };

/* ---- LIKE ---- */

static size_t char_len(struct slice s, size_t at)
{
    size_t n = 1;

    while (at + n < s.len && ((uint8_t)s.ptr[at + n] & 0xC0) == 0x80)
        n++;
    return n;
}

static char fold(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool same_char(struct slice a, size_t i, struct slice b, size_t k, size_t n, bool folds)
{
    for (size_t j = 0; j < n; j++) {
        if (i + j >= a.len || k + j >= b.len)
            return false;
        char x = a.ptr[i + j], y = b.ptr[k + j];
        if (x != y && !(folds && fold(x) == fold(y)))
            return false;
    }
    return true;
}

/* Backtracks to the last % only: linear in practice, quadratic at worst. */
bool text_like(struct slice text, struct slice pattern, bool folds)
{
    size_t t = 0, p = 0, star = SIZE_MAX, star_text = 0;

    while (t < text.len) {
        bool is_escape = p + 1 < pattern.len && pattern.ptr[p] == '\\';
        if (p < pattern.len && pattern.ptr[p] == '%') {
            star = ++p;
            star_text = t;
            continue;
        }
        if (p < pattern.len && pattern.ptr[p] == '_') {
            t += char_len(text, t);
            p++;
            continue;
        }
        size_t from = p + is_escape;
        if (p < pattern.len) {
            size_t n = char_len(pattern, from);
            if (same_char(text, t, pattern, from, n, folds)) {
                t += n;
                p = from + n;
                continue;
            }
        }
        if (star == SIZE_MAX)
            return false;
        star_text += char_len(text, star_text);
        t = star_text;
        p = star;
    }
    while (p < pattern.len && pattern.ptr[p] == '%')
        p++;
    return p == pattern.len;
}

/* ---- compiling ---- */

static enum errc compile(pcre2_code **out, struct slice pattern, uint32_t flags, struct error *err)
{
    int why;
    PCRE2_SIZE at;

    *out = NULL;
    if (pattern.len > PATTERN_MAX)
        return fail_num(err, 1543, "a regular expression is longer than %d bytes", PATTERN_MAX);
    *out = pcre2_compile((PCRE2_SPTR)(pattern.len ? pattern.ptr : ""), pattern.len,
                         flags | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &why, &at, NULL);
    if (*out)
        return OK;
    PCRE2_UCHAR text[120];
    pcre2_get_error_message(why, text, sizeof text);
    return fail_num(err, 1543, "invalid regex value: %s at offset %zu", (char *)text, at);
}

/* Backtracking lives on a heap of its own: depth costs memory, of which HEAP_KIB is the limit. */
static pcre2_match_context *limits_new(uint32_t depth)
{
    pcre2_match_context *limits = pcre2_match_context_create(NULL);

    if (!limits)
        BUG("out of memory");
    pcre2_set_match_limit(limits, MATCH_LIMIT);
    pcre2_set_depth_limit(limits, depth);
    pcre2_set_heap_limit(limits, HEAP_KIB);
    return limits;
}

static enum errc fail_steps(struct error *err)
{
    return fail_num(err, 1543, "the regular expression needs too many steps on this text");
}

/* ---- patterns that are kept ---- */

struct pattern {
    pcre2_code *code;
    pcre2_match_context *limits; /* only read */
};

enum errc pattern_new(struct pattern **out, struct slice text, struct error *err)
{
    pcre2_code *code;
    enum errc rc = compile(&code, text, PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX, err);

    *out = NULL;
    if (rc != OK)
        return rc;
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* where the system allows it: else interpreted */
    *out = mem_zalloc(sizeof **out);
    (*out)->code = code;
    (*out)->limits = limits_new(MATCH_LIMIT);
    return OK;
}

void pattern_free(struct pattern *p)
{
    if (!p)
        return;
    pcre2_match_context_free(p->limits);
    pcre2_code_free(p->code);
    mem_free(p);
}

enum errc pattern_find(const struct pattern *p, struct slice text, bool *is_found,
                       struct error *err)
{
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);

    if (!match)
        BUG("out of memory");
    PCRE2_SPTR at = (PCRE2_SPTR)(text.len ? text.ptr : "");
    int n = pcre2_match(p->code, at, text.len, 0, PCRE2_NO_UTF_CHECK, match, p->limits);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter has a heap, with a limit of its own */
        n = pcre2_match(p->code, at, text.len, 0, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match,
                        p->limits);
    pcre2_match_data_free(match);
    *is_found = n >= 0; /* 0: with more groups than there is room for */
    return n >= 0 || n == PCRE2_ERROR_NOMATCH ? OK : fail_steps(err);
}

/* ---- regular expressions used once ---- */

struct regex {
    pcre2_code *code;
    pcre2_match_context *limits;
    pcre2_match_data *match;
};

static void regex_close(struct regex *r)
{
    pcre2_match_data_free(r->match);
    pcre2_match_context_free(r->limits);
    pcre2_code_free(r->code);
}

static enum errc regex_open(struct regex *r, struct slice pattern, bool ignores_case,
                            struct error *err)
{
    *r = (struct regex){ 0 };
    enum errc rc = compile(&r->code, pattern, ignores_case ? PCRE2_CASELESS : 0, err);

    if (rc != OK)
        return rc;
    r->limits = limits_new(DEPTH_LIMIT);
    r->match = pcre2_match_data_create_from_pattern(r->code, NULL);
    if (!r->match)
        BUG("out of memory");
    return OK;
}

/* Groups of a match from an offset; 0 = none, <0 = an error that is reported. */
static enum errc run(struct regex *r, struct slice text, size_t from, int *groups,
                     struct error *err)
{
    int n = pcre2_match(r->code, (PCRE2_SPTR)(text.len ? text.ptr : ""), text.len, from,
                        PCRE2_NO_UTF_CHECK, r->match, r->limits);

    *groups = n > 0 ? n : 0;
    if (n > 0 || n == PCRE2_ERROR_NOMATCH)
        return OK;
    return fail_steps(err);
}

static struct slice group(const struct regex *r, struct slice text, int i)
{
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(r->match);

    if (at[2 * i] == PCRE2_UNSET || at[2 * i + 1] < at[2 * i])
        return slice_of("", 0);
    return slice_of(text.ptr + at[2 * i], at[2 * i + 1] - at[2 * i]);
}

/* Start and end of the whole match; where to look on after an empty one. */
static void bounds(const struct regex *r, struct slice text, size_t *from, size_t *to, size_t *next)
{
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(r->match);

    *from = at[0];
    *to = at[1] < at[0] ? at[0] : at[1];
    *next = *to > *from || *to >= text.len ? *to : *to + char_len(text, *to);
}

enum errc regex_test(struct slice pattern, struct slice text, bool ignores_case, bool *is_match,
                     struct error *err)
{
    struct regex r;
    int groups = 0;
    enum errc rc = regex_open(&r, pattern, ignores_case, err);

    if (rc == OK)
        rc = run(&r, text, 0, &groups, err);
    *is_match = groups > 0;
    regex_close(&r);
    return rc;
}

enum errc regex_groups(struct slice pattern, struct slice text, bool ignores_case,
                       struct arena *arena, struct val *out, struct error *err)
{
    struct regex r;
    int groups = 0;
    enum errc rc = regex_open(&r, pattern, ignores_case, err);

    *out = val_null;
    if (rc == OK)
        rc = run(&r, text, 0, &groups, err);
    if (rc == OK && groups) {
        struct val *items = arena_alloc(arena, (size_t)groups * sizeof *items);
        for (int i = 0; i < groups; i++)
            items[i] = val_new_string(arena, group(&r, text, i));
        *out = val_new_array(arena, items, (size_t)groups);
    }
    regex_close(&r);
    return rc;
}

static void add_replacement(const struct regex *r, struct slice text, struct slice with, int groups,
                            struct buf *out)
{
    for (size_t i = 0; i < with.len; i++) {
        bool is_group = with.ptr[i] == '$' && i + 1 < with.len && with.ptr[i + 1] >= '0' &&
                        with.ptr[i + 1] <= '9';
        if (!is_group) {
            buf_add_char(out, with.ptr[i]);
            continue;
        }
        int n = with.ptr[++i] - '0';
        if (n < groups)
            buf_add_slice(out, group(r, text, n));
    }
}

enum errc regex_replace(struct slice pattern, struct slice text, struct slice with,
                        bool ignores_case, struct arena *arena, struct val *out, struct error *err)
{
    struct regex r;
    struct buf result;
    int groups = 1;
    size_t at = 0, copied = 0, from, to;
    enum errc rc = regex_open(&r, pattern, ignores_case, err);

    buf_init(&result, 64 * MIB);
    while (rc == OK && groups && at <= text.len) {
        rc = run(&r, text, at, &groups, err);
        if (rc != OK || !groups)
            break;
        bounds(&r, text, &from, &to, &at);
        buf_add(&result, text.ptr + copied, from - copied);
        add_replacement(&r, text, with, groups, &result);
        copied = to;
        if (at == to && from == to)
            break; /* an empty match at the end */
    }
    buf_add(&result, text.ptr + copied, text.len - copied);
    if (rc == OK)
        rc = buf_check(&result, "the result", err);
    if (rc == OK)
        *out = val_new_string(arena, buf_slice(&result));
    buf_release(&result);
    regex_close(&r);
    return rc;
}

enum errc regex_split(struct slice pattern, struct slice text, bool ignores_case, size_t limit,
                      struct arena *arena, struct val *out, struct error *err)
{
    struct regex r;
    int groups = 1;
    size_t at = 0, copied = 0, from, to, count = 0;
    struct val *items = arena_alloc(arena, (text.len + 2) * sizeof *items);
    enum errc rc = regex_open(&r, pattern, ignores_case, err);

    while (rc == OK && groups && at < text.len && count < limit) {
        rc = run(&r, text, at, &groups, err);
        if (rc != OK || !groups)
            break;
        bounds(&r, text, &from, &to, &at);
        if (to == from && from >= text.len)
            break;
        if (to > from || from > copied) {
            items[count++] = val_new_string(arena, slice_of(text.ptr + copied, from - copied));
            copied = to;
        }
    }
    if (count < limit)
        items[count++] = val_new_string(arena, slice_of(text.ptr + copied, text.len - copied));
    if (rc == OK)
        *out = val_new_array(arena, items, count);
    regex_close(&r);
    return rc;
}
