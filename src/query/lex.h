/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lex -- AQL text to tokens. Knows the words of the language, not its grammar;
 * words that are keywords only in some places come out with their own kind and
 * the grammar falls back to TK_ID.
 */
#ifndef QUERY_LEX_H
#define QUERY_LEX_H

#include "base/arena.h"
#include "base/base.h"
#include "base/error.h"
#include "base/val.h"

struct token {
    int kind;          /* TK_x of the grammar; 0 = end of the text; TK_ILLEGAL = no token */
    uint32_t pos, len; /* bytes of the text */
    struct slice name; /* identifiers and bind parameters: unescaped, without their @ or ticks */
    struct val val;    /* literals */
};

struct lexer {
    struct slice text; /* followed by a zero byte that does not count */
    uint32_t pos;      /* where the next token is looked for */
    struct arena *arena;
};

/* Reads one token, past white space and comments. Errors: 1501 and 1504 with their position. */
MUST_CHECK enum errc lex_next(struct lexer *lx, struct token *out, struct error *err);

/* How a name without ticks would be read. */
enum word_class {
    WORD_NONE,       /* not as one word: it needs ticks */
    WORD_RESERVED,   /* as a keyword */
    WORD_CONTEXTUAL, /* as a name, but in some places as a keyword */
    WORD_PLAIN,      /* as a name */
};
enum word_class lex_word_class(struct slice name);

/*
 * Fills err with "<what> near '<text at pos>' at position LINE:COLUMN" and
 * returns its code. num is 1501, 1502, 1504 or 1524.
 */
enum errc lex_fail(struct error *err, int num, struct slice text, uint32_t pos, const char *fmt,
                   ...) PRINTF_LIKE(5, 6);

#endif
