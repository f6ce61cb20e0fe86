/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How alike texts are.
 *
 * Similarity by n-grams is the longest common subsequence of both texts' n-grams, where a pair
 * of n-grams counts as far as it is equal (Kondrak, "N-Gram Similarity and Distance", 2005). Its
 * result has the precision of a float, as ArangoDB's has.
 */
#include "base/val_text.h"
#include "query/fn_support.h"
#include <ctype.h>

enum { CHARS_MAX = 10000 };

static enum errc fn_levenshtein(struct fn_call *call)
{
    struct slice a = fn_text_arg(call, 0), b = fn_text_arg(call, 1);
    size_t na = utf8_count(a), nb = utf8_count(b);

    if (na > CHARS_MAX || nb > CHARS_MAX)
        return fn_bad_arg(call, 0, "a text of at most 10000 characters");
    size_t *row = arena_alloc(call->arena, (nb + 1) * sizeof *row);
    for (size_t k = 0; k <= nb; k++)
        row[k] = k;
    size_t at = 0;
    for (size_t i = 1; i <= na; i++) {
        size_t n = fn_byte_of(slice_of(a.ptr + at, a.len - at), 1), diagonal = row[0], bt = 0;
        row[0] = i;
        for (size_t k = 1; k <= nb; k++) {
            size_t m = fn_byte_of(slice_of(b.ptr + bt, b.len - bt), 1), above = row[k];
            size_t cost = !(n == m && !memcmp(a.ptr + at, b.ptr + bt, n));
            size_t best = diagonal + cost;
            best = above + 1 < best ? above + 1 : best;
            row[k] = row[k - 1] + 1 < best ? row[k - 1] + 1 : best;
            diagonal = above;
            bt += m;
        }
        at += n;
    }
    return fn_return_int(call, (int64_t)row[nb]);
}

/* ---- n-grams ---- */

/* Code points of a text; more than CHARS_MAX: warned, -1. */
static long code_points(struct fn_call *call, int i, uint32_t **out)
{
    struct slice s = val_string(call->args[i]);
    size_t n = utf8_count(s), at = 0;

    if (n > CHARS_MAX) {
        fn_bad_arg(call, i, "a text of at most 10000 characters");
        return -1;
    }
    *out = arena_alloc(call->arena, (n + 1) * sizeof **out);
    for (size_t k = 0; k < n; k++) {
        size_t bytes = fn_byte_of(slice_of(s.ptr + at, s.len - at), 1);
        uint32_t c = 0; /* the bytes of the character: equal for equal characters */
        memcpy(&c, s.ptr + at, bytes);
        (*out)[k] = c;
        at += bytes;
    }
    return (long)n;
}

/* Equal places of two n-grams. */
static uint32_t equal_places(const uint32_t *a, const uint32_t *b, long size)
{
    uint32_t equal = 0;

    for (long i = 0; i < size; i++)
        equal += a[i] == b[i];
    return equal;
}

/* Of texts that are shorter than one n-gram. */
static float short_similarity(const uint32_t *a, long na, const uint32_t *b, long nb,
                              bool is_partial)
{
    long shorter = na < nb ? na : nb, longer = na < nb ? nb : na, equal = 0;

    if (!longer)
        return 1;
    while (equal < shorter && a[equal] == b[equal])
        equal++;
    if (!is_partial)
        return na == nb && equal == na;
    return (float)equal / (float)longer;
}

/*
 * The usual table of the longest common subsequence, a row at a time. Equal places of two n-grams
 * follow from those of the two before them: one place leaves, one comes.
 */
static float longest_sequence(struct fn_call *call, const uint32_t *a, long na, const uint32_t *b,
                              long nb, long size, bool is_partial)
{
    long rows = na - size + 1, columns = nb - size + 1;
    float *best = arena_zalloc(call->arena, ((size_t)columns + 1) * sizeof *best);
    uint32_t *equal = arena_zalloc(call->arena, ((size_t)columns + 1) * sizeof *equal);

    for (long i = 0; i < rows; i++) {
        float diagonal = 0;
        uint32_t before = 0;
        for (long k = 0; k < columns; k++) {
            uint32_t now =
                !i || !k ? equal_places(a + i, b + k, size)
                         : before - (a[i - 1] == b[k - 1]) + (a[i + size - 1] == b[k + size - 1]);
            before = equal[k];
            equal[k] = now;
            float with = diagonal + (is_partial ? (float)now / (float)size : (float)(now == size));
            diagonal = best[k + 1];
            if (best[k] > best[k + 1])
                best[k + 1] = best[k];
            if (with > best[k + 1])
                best[k + 1] = with;
        }
    }
    return best[columns];
}

static enum errc ngram_similarity(struct fn_call *call, bool is_partial)
{
    uint32_t *text, *target;
    int64_t size = fn_int_arg(call, 2);

    if (!fn_is(call, 2, VAL_NUMBER) || size < 1)
        return fn_bad_arg(call, 2, "a size from 1");
    long n = code_points(call, 0, &text);
    long m = n < 0 ? -1 : code_points(call, 1, &target);
    if (m < 0)
        return OK;
    if (n < size || m < size)
        return fn_return_double(call, short_similarity(text, n, target, m, is_partial));
    float similarity = longest_sequence(call, text, n, target, m, (long)size, is_partial);
    long total = (is_partial && n > m ? n : m) - (long)size + 1;
    return fn_return_double(call, similarity / (float)total);
}

static enum errc fn_ngram(struct fn_call *call)
{
    return ngram_similarity(call, false);
}

static enum errc fn_ngram_positional(struct fn_call *call)
{
    return ngram_similarity(call, true);
}

/* ---- sound ---- */

static enum errc fn_soundex(struct fn_call *call)
{
    static const char codes[] = "01230120022455012623010202"; /* of a to z; 0 is no sound */
    struct slice s = fn_text_arg(call, 0);
    char out[4] = { 0, '0', '0', '0' }, last = 0;
    int n = 0;

    for (size_t i = 0; i < s.len && n < 4; i++) {
        int c = tolower((unsigned char)s.ptr[i]);
        if (c < 'a' || c > 'z')
            continue;
        char code = codes[c - 'a'];
        if (!n)
            out[n++] = (char)(c - 'a' + 'A');
        else if (code != '0' && code != last)
            out[n++] = code;
        if (c != 'h' && c != 'w') /* they do not part equal sounds */
            last = code;
    }
    return fn_return_text(call, slice_of(out, n ? 4 : 0));
}

/* ---- words ---- */

/* Analyzers are not there, except the one that leaves the text as it is. */
static enum errc fn_tokens(struct fn_call *call)
{
    struct slice analyzer = call->count > 1 ? fn_text_arg(call, 1) : slice_str("identity");

    if (!slice_is(analyzer, "identity"))
        return fail_num(call->err, 9, "not implemented: TOKENS with analyzer '%.*s'; 'identity' is",
                        SLICE_ARG(analyzer));
    if (!fn_is(call, 0, VAL_STRING))
        return fn_bad_arg(call, 0, "a string");
    return fn_return(call, val_new_array(call->arena, call->args, 1));
}

const struct fn fn_similar[] = {
    { "LEVENSHTEIN_DISTANCE", 2, 2, "", FN_PURE, fn_levenshtein, "Edits between two texts." },
    { "NGRAM_SIMILARITY", 3, 3, "ss.", FN_PURE, fn_ngram,
      "Common n-grams in order, as a part of the second text's." },
    { "NGRAM_POSITIONAL_SIMILARITY", 3, 3, "ss.", FN_PURE, fn_ngram_positional,
      "The same, where n-grams may be equal in part." },
    { "SOUNDEX", 1, 1, "", FN_PURE, fn_soundex, "How an English word sounds." },
    { "TOKENS", 1, 2, "", FN_PURE, fn_tokens, "The text as an array, by the analyzer 'identity'." },
    { 0 },
};
