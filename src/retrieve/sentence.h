/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sentence -- the structure of a text as byte ranges: blocks (heading,
 * paragraph, list item, table row, code line) and the sentences inside them.
 *
 * Pure and streaming: nothing is copied, memory does not grow with the text.
 * Ranges never begin or end inside a UTF-8 character, carry no surrounding
 * white space, and together cover every byte that is not white space.
 */
#ifndef RETRIEVE_SENTENCE_H
#define RETRIEVE_SENTENCE_H

#include "base/base.h"

struct span {
    size_t from, to;
};

enum block_kind { BLOCK_HEADING, BLOCK_TEXT, BLOCK_ITEM, BLOCK_ROW, BLOCK_CODE };

struct block {
    enum block_kind kind;
    struct span at;
    struct span title; /* BLOCK_HEADING: without its marks */
    unsigned level;    /* BLOCK_HEADING: 1 = outermost */
    bool has_gap;      /* a blank line or form feed before it */
};

/* Position of a scan; fields are the scanner's. */
struct block_scan {
    struct slice text;
    size_t at;
    bool is_markdown;
    bool is_started;
    char fence; /* the character of an open code fence, or 0 */
    size_t fence_len;
};

void block_scan_init(struct block_scan *scan, struct slice text, bool is_markdown);
/* false at the end. */
bool block_next(struct block_scan *scan, struct block *out);

/*
 * The next sentence of text at or after *at, which moves behind it. Knows
 * abbreviations, initials, decimal points and closing quotes; a line that
 * begins a list item also ends a sentence. false at the end.
 */
bool sentence_next(struct slice text, size_t *at, struct span *out);

/* The largest position <= at that does not lie inside a UTF-8 character. */
size_t utf8_floor(struct slice text, size_t at);

#endif
