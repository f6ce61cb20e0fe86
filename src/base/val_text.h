/* SPDX-License-Identifier: Apache-2.0 */
/*
 * val_text -- JSON text to values and back. Hides yyjson.
 *
 * int64 stay exact, larger numbers become doubles, doubles print as the
 * shortest text that reads back equal. Text must be UTF-8; a duplicate name
 * keeps its last value; nesting over LIMIT_NESTING is refused.
 */
#ifndef BASE_VAL_TEXT_H
#define BASE_VAL_TEXT_H

#include "base/val.h"

/*
 * Parses one JSON value that must fill the text. The result lives in arena.
 * Bad text: ERR_INVALID, errorNum 600, with the byte offset, line and column.
 */
MUST_CHECK enum errc val_parse(struct slice text, struct arena *arena, struct val *out,
                               struct error *err);

/* Prints compact JSON at the end of out, whose maximum holds. */
void val_print(struct val v, struct buf *out);
/* Two-space indented, for people. */
void val_print_pretty(struct val v, struct buf *out);

/* A JSON string literal with quotes. */
void val_print_string(struct slice text, struct buf *out);

/* True when the bytes are valid UTF-8; *at = first bad byte otherwise (may be NULL). */
bool utf8_check(struct slice text, size_t *at);
size_t utf8_count(struct slice text); /* characters of valid UTF-8 */

#endif
