/* SPDX-License-Identifier: Apache-2.0 */
/* A text is made lower case and composed as a whole, since that may move its parts. */
#include "base/words.h"
#include <pthread.h>
#include <stdio.h>
#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>

struct wide {
    UChar *at;
    int32_t len;
};

static void check(UErrorCode status, const char *what)
{
    if (U_FAILURE(status))
        BUG("%s: %s", what, u_errorName(status));
}

/* Lower case, composed. The caller frees at. */
static struct wide fold(struct slice text)
{
    UErrorCode status = U_ZERO_ERROR;
    int32_t room = (int32_t)text.len * 3 + 16, n = 0; /* nothing grows more than that */
    UChar *plain = mem_alloc((size_t)room * sizeof *plain);
    UChar *lower = mem_alloc((size_t)room * sizeof *lower);
    struct wide w = { mem_alloc((size_t)room * sizeof(UChar)), 0 };

    u_strFromUTF8(plain, room, &n, text.len ? text.ptr : "", (int32_t)text.len, &status);
    n = u_strToLower(lower, room, plain, n, "", &status);
    w.len = unorm2_normalize(unorm2_getNFCInstance(&status), lower, n, w.at, room, &status);
    check(status, "a text as words");
    mem_free(plain);
    mem_free(lower);
    return w;
}

/* Characters of a part, at most WORD_CHARS_MAX; *end is behind the last of them. */
static size_t cut(const UChar *at, int32_t from, int32_t to, int32_t *end)
{
    size_t chars = 0;

    for (*end = from; *end < to && chars < WORD_CHARS_MAX; chars++)
        U16_FWD_1(at, *end, to);
    return chars;
}

/* Room for WORD_CHARS_MAX characters. */
static struct slice narrow(const UChar *at, int32_t len, char out[WORD_CHARS_MAX * 4])
{
    UErrorCode status = U_ZERO_ERROR;
    int32_t n = 0;

    u_strToUTF8(out, WORD_CHARS_MAX * 4, &n, at, len, &status);
    check(status == U_STRING_NOT_TERMINATED_WARNING ? U_ZERO_ERROR : status, "a word");
    return slice_of(out, (size_t)n);
}

void words_each(struct slice text, size_t min, void (*fn)(void *ctx, struct slice word), void *ctx)
{
    UErrorCode status = U_ZERO_ERROR;
    struct wide w = fold(text);
    UBreakIterator *breaks = ubrk_open(UBRK_WORD, "", w.at, w.len, &status);
    char word[WORD_CHARS_MAX * 4];

    check(status, "word breaks");
    int32_t from = ubrk_first(breaks);
    for (int32_t to; (to = ubrk_next(breaks)) != UBRK_DONE; from = to) {
        int32_t end;
        if (ubrk_getRuleStatus(breaks) < UBRK_WORD_NUMBER) /* space and punctuation */
            continue;
        if (cut(w.at, from, to, &end) >= min)
            fn(ctx, narrow(w.at + from, end - from, word));
    }
    ubrk_close(breaks);
    mem_free(w.at);
}

size_t words_fold(struct slice text, struct buf *out)
{
    struct wide w = fold(text);
    char word[WORD_CHARS_MAX * 4];
    int32_t end;
    size_t chars = cut(w.at, 0, w.len, &end);

    buf_add_slice(out, narrow(w.at, end, word));
    mem_free(w.at);
    return chars;
}

bool text_is_composed(struct slice text)
{
    UErrorCode status = U_ZERO_ERROR;
    int32_t room = (int32_t)text.len + 1, n = 0;
    UChar *wide = mem_alloc((size_t)room * sizeof *wide);

    u_strFromUTF8(wide, room, &n, text.len ? text.ptr : "", (int32_t)text.len, &status);
    bool is_composed = unorm2_isNormalized(unorm2_getNFCInstance(&status), wide, n, &status);
    check(status, "a normal form");
    mem_free(wide);
    return is_composed;
}

static char version[64];
static pthread_once_t version_once = PTHREAD_ONCE_INIT;

static void make_version(void)
{
    UVersionInfo unicode, icu;

    u_getUnicodeVersion(unicode);
    u_getVersion(icu);
    snprintf(version, sizeof version, "words 1 unicode %u.%u icu %u", unicode[0], unicode[1],
             icu[0]);
}

const char *words_version(void)
{
    pthread_once(&version_once, make_version);
    return version;
}
