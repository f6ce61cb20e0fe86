/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A word is a run of letters, digits and bytes of multi-byte characters; marks
 * between digits belong to it ("3.5", "1,880", "22:00" are one word each). The
 * stemmer only cuts -s, -es, -ed and -ing: enough to let "kept" fail and
 * "recordings" meet "recording", and too weak to merge unrelated words.
 */
#include "retrieve/terms.h"

#include "base/hash.h"
#include <math.h>
#include <stdlib.h>

enum { WORD_BYTES_MAX = 64 };

static const char *const function_words[] = {
    "a",     "about", "after", "all",   "also",   "am",   "an",    "and",   "any",  "are",  "as",
    "at",    "be",    "been",  "but",   "by",     "can",  "could", "did",   "do",   "does", "for",
    "from",  "had",   "has",   "have",  "he",     "her",  "his",   "how",   "i",    "if",   "in",
    "into",  "is",    "it",    "its",   "may",    "me",   "must",  "my",    "not",  "of",   "on",
    "or",    "our",   "she",   "shall", "should", "so",   "some",  "such",  "than", "that", "the",
    "their", "them",  "then",  "there", "these",  "they", "this",  "those", "to",   "was",  "we",
    "were",  "what",  "when",  "where", "which",  "who",  "whom",  "whose", "why",  "will", "with",
    "would", "you",   "your",  "tell",  "please", "s",    "t", /* of "it's", "don't" */
};

static const char *const number_words[] = {
    "zero",  "one",   "two",  "three", "four",   "five",   "six",
    "seven", "eight", "nine", "ten",   "eleven", "twelve",
};

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word_byte(unsigned char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
}

/* Typographic marks and dashes (U+2000 to U+206F) separate words. */
static bool is_mark(struct slice text, size_t at)
{
    return at + 2 < text.len && (unsigned char)text.ptr[at] == 0xE2 &&
           ((unsigned char)text.ptr[at + 1] == 0x80 || (unsigned char)text.ptr[at + 1] == 0x81);
}

static bool joins_digits(struct slice text, size_t at)
{
    char c = text.ptr[at];
    return (c == '.' || c == ',' || c == ':') && at > 0 && at + 1 < text.len &&
           is_digit((unsigned char)text.ptr[at - 1]) && is_digit((unsigned char)text.ptr[at + 1]);
}

static bool ends(const char *word, size_t len, const char *suffix, size_t least)
{
    size_t n = strlen(suffix);
    return len >= n + least && memcmp(word + len - n, suffix, n) == 0;
}

static size_t stem(const char *word, size_t len)
{
    if (ends(word, len, "ies", 2))
        return len - 2; /* "copies", "copy" -> both end in i or y: close enough below */
    if (ends(word, len, "sses", 2) || ends(word, len, "ches", 2) || ends(word, len, "shes", 2))
        return len - 2;
    if (ends(word, len, "s", 3) && !ends(word, len, "ss", 1) && !ends(word, len, "us", 1))
        len--;
    if (ends(word, len, "ing", 4))
        return len - 3;
    if (ends(word, len, "ed", 4))
        return len - 2;
    return ends(word, len, "e", 4) ? len - 1 : len;
}

/* Lower-cases and stems the word. false for function words. */
static bool term_make(struct slice word, struct term *out)
{
    char buf[WORD_BYTES_MAX];
    size_t len = word.len < sizeof buf ? word.len : sizeof buf;

    out->is_number = false;
    for (size_t i = 0; i < len; i++) {
        char c = word.ptr[i];
        buf[i] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
        out->is_number |= is_digit((unsigned char)c);
    }
    for (size_t i = 0; i < ARRAY_LEN(function_words); i++)
        if (slice_is(slice_of(buf, len), function_words[i]))
            return false;
    for (size_t i = 0; i < ARRAY_LEN(number_words); i++)
        if (slice_is(slice_of(buf, len), number_words[i])) {
            len = (size_t)(i >= 10) + 1;
            buf[0] = i >= 10 ? '1' : (char)('0' + i);
            buf[1] = (char)('0' + i % 10);
            out->is_number = true;
            break;
        }
    if (out->is_number) { /* "1,880" equals "1880" */
        size_t n = 0;
        for (size_t i = 0; i < len; i++)
            if (buf[i] != ',')
                buf[n++] = buf[i];
        len = n;
    } else {
        len = stem(buf, len);
        if (buf[len - 1] == 'y')
            buf[len - 1] = 'i';
    }
    out->hash = hash_xxh3(buf, len);
    return true;
}

static int term_order(const void *a, const void *b)
{
    uint64_t x = ((const struct term *)a)->hash, y = ((const struct term *)b)->hash;
    return (x > y) - (x < y);
}

/* The next word at or after *at. */
static bool word_next(struct slice text, size_t *at, struct slice *out)
{
    size_t i = *at, from;

    while (i < text.len && (!is_word_byte((unsigned char)text.ptr[i]) || is_mark(text, i)))
        i += is_mark(text, i) ? 3 : 1;
    from = i;
    while (i < text.len && !is_mark(text, i) &&
           (is_word_byte((unsigned char)text.ptr[i]) || joins_digits(text, i)))
        i++;
    *at = i;
    *out = slice_of(text.ptr + from, i - from);
    return i > from;
}

bool terms_next(struct slice text, size_t *at, struct slice *word, struct term *out)
{
    while (word_next(text, at, word))
        if (term_make(*word, out))
            return true;
    return false;
}

struct terms terms_of(struct slice text, struct arena *arena)
{
    struct terms out = { 0 };
    struct slice word;
    struct term term;
    size_t at = 0, words = 0, kept = 0;

    while (words < TERMS_MAX && terms_next(text, &at, &word, &term))
        words++;
    out.items = arena_alloc(arena, (words + 1) * sizeof *out.items);
    at = 0;
    while (out.count < words && terms_next(text, &at, &word, &out.items[out.count]))
        out.count++;
    qsort(out.items, out.count, sizeof *out.items, term_order);
    for (size_t i = 0; i < out.count; i++)
        if (kept == 0 || out.items[kept - 1].hash != out.items[i].hash)
            out.items[kept++] = out.items[i];
    out.count = kept;
    return out;
}

bool terms_have(const struct terms *terms, uint64_t hash)
{
    struct term key = { .hash = hash };
    return terms->count > 0 &&
           bsearch(&key, terms->items, terms->count, sizeof key, term_order) != NULL;
}

double terms_weight(const struct term_weights *w, struct term term)
{
    size_t found = 0;
    double weight;

    for (size_t i = 0; i < w->count; i++)
        found += terms_have(&w->texts[i], term.hash);
    weight = log(1.0 + (double)(w->count + 1) / (double)(found + 1));
    return term.is_number ? 1.5 * weight : weight;
}

double terms_overlap(const struct term_weights *w, const struct terms *of, const struct terms *in)
{
    double all = 0, common = 0;

    for (size_t i = 0; i < of->count; i++) {
        double weight = terms_weight(w, of->items[i]);
        all += weight;
        if (terms_have(in, of->items[i].hash))
            common += weight;
    }
    return all > 0 ? common / all : 0;
}
