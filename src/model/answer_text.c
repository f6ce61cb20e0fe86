/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held keeps the shortest tail that may not be shown: the longest suffix that
 * begins a stop text, or the bytes of an unfinished character, whichever is
 * longer. Bytes that can never become a character turn into U+FFFD.
 */
#include "model/answer_text.h"

void answer_text_init(struct answer_text *t, const struct slice *stops, size_t stop_count)
{
    memset(t, 0, sizeof *t);
    buf_init(&t->held, 0);
    buf_init(&t->ready, 0);
    t->stops = mem_zalloc((stop_count + 1) * sizeof *t->stops);
    t->stop_lens = mem_zalloc((stop_count + 1) * sizeof *t->stop_lens);
    for (size_t i = 0; i < stop_count; i++) {
        if (stops[i].len == 0)
            continue;
        t->stops[t->stop_count] = mem_strndup(stops[i]);
        t->stop_lens[t->stop_count++] = stops[i].len;
    }
}

void answer_text_release(struct answer_text *t)
{
    for (size_t i = 0; i < t->stop_count; i++)
        mem_free(t->stops[i]);
    mem_free(t->stops);
    mem_free(t->stop_lens);
    buf_release(&t->held);
    buf_release(&t->ready);
    memset(t, 0, sizeof *t);
}

/* First place of a whole stop text; len when there is none. */
static size_t find_stop(const struct answer_text *t)
{
    size_t best = t->held.len;
    for (size_t i = 0; i < t->stop_count; i++) {
        for (size_t at = 0; at + t->stop_lens[i] <= t->held.len && at < best; at++) {
            if (memcmp(t->held.ptr + at, t->stops[i], t->stop_lens[i]) == 0)
                best = at;
        }
    }
    return best;
}

/* Where the longest suffix begins that is a beginning of a stop text; len when none is. */
static size_t find_stop_begin(const struct answer_text *t)
{
    size_t best = t->held.len;
    for (size_t i = 0; i < t->stop_count; i++) {
        size_t most = t->stop_lens[i] - 1;
        size_t at = t->held.len > most ? t->held.len - most : 0;
        for (; at < best; at++) {
            if (memcmp(t->held.ptr + at, t->stops[i], t->held.len - at) == 0)
                best = at;
        }
    }
    return best;
}

/*
 * Length of the character at p: > 0 whole, 0 = may become one with more bytes,
 * -1 = never. Follows the Unicode table of well-formed sequences.
 */
static int char_len(const unsigned char *p, size_t n)
{
    unsigned char c = p[0];
    if (c < 0x80)
        return 1;
    int len = c >= 0xc2 && c <= 0xdf   ? 2
              : c >= 0xe0 && c <= 0xef ? 3
              : c >= 0xf0 && c <= 0xf4 ? 4
                                       : 0;
    if (len == 0)
        return -1;
    for (int i = 1; i < len; i++) {
        if ((size_t)i >= n)
            return 0;
        unsigned char low = 0x80, high = 0xbf;
        if (i == 1) {
            low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
            high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
        }
        if (p[i] < low || p[i] > high)
            return -1;
    }
    return len;
}

/* Moves the first len held bytes to ready as far as they are whole characters. */
static void release(struct answer_text *t, size_t len, bool is_final)
{
    const unsigned char *p = (const unsigned char *)t->held.ptr;
    size_t at = 0;
    buf_clear(&t->ready);
    while (at < len) {
        int n = char_len(p + at, len - at);
        if (n == 0 && !is_final)
            break;
        if (n > 0) {
            buf_add(&t->ready, p + at, (size_t)n);
            at += (size_t)n;
            continue;
        }
        buf_add_str(&t->ready, "\xef\xbf\xbd");
        at += n == 0 ? len - at : 1;
    }
    buf_drop(&t->held, at);
    t->shown += at;
}

bool answer_text_add(struct answer_text *t, struct slice piece, struct slice *out)
{
    buf_add_slice(&t->held, piece);
    size_t stop = find_stop(t);
    bool is_stopped = stop < t->held.len;
    release(t, is_stopped ? stop : find_stop_begin(t), is_stopped);
    t->is_stopped |= is_stopped;
    if (is_stopped)
        buf_clear(&t->held);
    *out = buf_slice(&t->ready);
    return is_stopped;
}

struct slice answer_text_finish(struct answer_text *t)
{
    release(t, t->held.len, true);
    return buf_slice(&t->ready);
}
