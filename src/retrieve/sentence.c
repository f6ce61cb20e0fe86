/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sentence ends behind . ! ? (with closing quotes or brackets) when white
 * space follows, unless the point belongs to an abbreviation, an initial or the
 * number of a list item, or the text goes on in lower case. It also ends before
 * a line that begins a list item, a heading or a table row, and at a blank
 * line. The ideographic full stop and its relatives end one at once.
 */
#include "retrieve/sentence.h"

/* Never the end of a sentence: a name follows. In lower case. */
static const char *const titles[] = {
    "mr",  "mrs", "ms",  "dr", "prof", "st",  "vs",  "cf",  "e.g",  "i.e",
    "z.b", "d.h", "u.a", "ca", "bzw",  "rev", "hon", "gen", "capt", "approx",
};

/* Not the end when a digit follows. */
static const char *const numbered[] = {
    "no", "nr", "fig", "art", "sec", "sect", "para", "vol", "p", "pp", "abs", "ch", "eq",
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v' || c == '\0';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

size_t utf8_floor(struct slice text, size_t at)
{
    if (at >= text.len)
        return text.len;
    while (at > 0 && ((unsigned char)text.ptr[at] & 0xC0) == 0x80)
        at--;
    return at;
}

static bool same_word(struct slice word, const char *lower)
{
    if (word.len != strlen(lower))
        return false;
    for (size_t i = 0; i < word.len; i++) {
        char c = word.ptr[i];
        if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != lower[i])
            return false;
    }
    return true;
}

/* The point at `at` belongs to the word before it. from: start of the sentence. */
static bool is_abbreviation(struct slice text, size_t from, size_t at)
{
    size_t begin = at;
    struct slice word;

    while (begin > from && (is_letter(text.ptr[begin - 1]) || text.ptr[begin - 1] == '.'))
        begin--;
    word = slice_of(text.ptr + begin, at - begin);
    if (word.len == 0) { /* "12. " as the first thing of a sentence is a list number */
        begin = at;
        while (begin > from && text.ptr[begin - 1] >= '0' && text.ptr[begin - 1] <= '9')
            begin--;
        return begin == from && at > begin && at - begin <= 3;
    }
    if (word.len == 1 && word.ptr[0] >= 'A' && word.ptr[0] <= 'Z')
        return true; /* initial */
    for (size_t i = 0; i < ARRAY_LEN(titles); i++)
        if (same_word(word, titles[i]))
            return true;
    while (++at < text.len && is_space(text.ptr[at]))
        ;
    if (at >= text.len || text.ptr[at] < '0' || text.ptr[at] > '9')
        return false;
    for (size_t i = 0; i < ARRAY_LEN(numbered); i++)
        if (same_word(word, numbered[i]))
            return true;
    return false;
}

/* Bytes of quotes and brackets that may close a sentence. */
static size_t closing_at(struct slice text, size_t at)
{
    static const char *const wide[] = { "\xe2\x80\x9d", "\xe2\x80\x99", "\xe2\x80\x9c",
                                        "\xc2\xbb" };
    struct slice rest = slice_of(text.ptr + at, text.len - at);

    if (rest.len == 0)
        return 0;
    if (memchr("\"')]*_", rest.ptr[0], 6))
        return 1;
    for (size_t i = 0; i < ARRAY_LEN(wide); i++)
        if (slice_starts(rest, wide[i]))
            return strlen(wide[i]);
    return 0;
}

/* Length of a full stop of Chinese or Japanese at `at`, or 0. */
static size_t wide_stop_at(struct slice text, size_t at)
{
    static const char *const stops[] = { "\xe3\x80\x82", "\xef\xbc\x81", "\xef\xbc\x9f" };
    struct slice rest = slice_of(text.ptr + at, text.len - at);

    for (size_t i = 0; i < ARRAY_LEN(stops); i++)
        if (slice_starts(rest, stops[i]))
            return strlen(stops[i]);
    return 0;
}

static bool goes_on_in_lower_case(struct slice text, size_t at)
{
    while (at < text.len && is_space(text.ptr[at]))
        at++;
    return at < text.len && text.ptr[at] >= 'a' && text.ptr[at] <= 'z';
}

/* If a sentence that began at from may end at `at`, the position behind its end; else 0. */
static size_t end_at(struct slice text, size_t from, size_t at)
{
    size_t wide = wide_stop_at(text, at), end;
    char c = text.ptr[at];

    if (wide)
        return at + wide;
    if (c != '.' && c != '!' && c != '?')
        return 0;
    end = at + 1;
    for (size_t n; (n = closing_at(text, end)) > 0; end += n)
        ;
    if (end < text.len && !is_space(text.ptr[end]))
        return 0;
    if (c == '.' && is_abbreviation(text, from, at))
        return 0;
    if ((c == '.' || end > at + 1) && goes_on_in_lower_case(text, end))
        return 0;
    return end;
}

/* The line that begins at `at` (behind a line end) is blank or starts something new. */
static bool line_breaks(struct slice text, size_t at)
{
    while (at < text.len && (text.ptr[at] == ' ' || text.ptr[at] == '\t'))
        at++;
    if (at >= text.len || text.ptr[at] == '\n' || text.ptr[at] == '\r')
        return true;
    if (text.ptr[at] == '|' || text.ptr[at] == '#')
        return true;
    return at + 1 < text.len && (text.ptr[at] == '-' || text.ptr[at] == '*') &&
           text.ptr[at + 1] == ' ';
}

bool sentence_next(struct slice text, size_t *at, struct span *out)
{
    size_t from = *at, i, end = 0;

    while (from < text.len && is_space(text.ptr[from]))
        from++;
    if (from >= text.len) {
        *at = text.len;
        return false;
    }
    for (i = from; i < text.len && end == 0; i++) {
        if (text.ptr[i] == '\f' || (text.ptr[i] == '\n' && line_breaks(text, i + 1)))
            end = i;
        else
            end = end_at(text, from, i);
    }
    if (end == 0)
        end = text.len;
    *at = end;
    while (end > from && is_space(text.ptr[end - 1]))
        end--;
    *out = (struct span){ from, end };
    return true;
}
