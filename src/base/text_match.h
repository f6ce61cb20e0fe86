/* SPDX-License-Identifier: Apache-2.0 */
/* text_match -- LIKE patterns and regular expressions. Hides PCRE2. */
#ifndef BASE_TEXT_MATCH_H
#define BASE_TEXT_MATCH_H

#include "base/arena.h"
#include "base/error.h"
#include "base/val.h"

/* % any text, _ one character, backslash takes the next one as it is. */
bool text_like(struct slice text, struct slice pattern, bool ignores_case);

/* UTF-8, bounded matching. A bad pattern: 1543; a pattern that runs too long: 1543 as well. */
MUST_CHECK enum errc regex_test(struct slice pattern, struct slice text, bool ignores_case,
                                bool *is_match, struct error *err);
/* Groups of the first match as an array; null without a match. */
MUST_CHECK enum errc regex_groups(struct slice pattern, struct slice text, bool ignores_case,
                                  struct arena *arena, struct val *out, struct error *err);
/* All matches replaced; $1 are groups. */
MUST_CHECK enum errc regex_replace(struct slice pattern, struct slice text, struct slice with,
                                   bool ignores_case, struct arena *arena, struct val *out,
                                   struct error *err);
MUST_CHECK enum errc regex_split(struct slice pattern, struct slice text, bool ignores_case,
                                 size_t limit, struct arena *arena, struct val *out,
                                 struct error *err);

/*
 * A regular expression that is kept: compiled once, found by any number of threads, with the meaning
 * that JSON Schema gives it (ECMAScript's, on UTF-8).
 */
struct pattern;
/* Returned to the caller. 1543 says what is wrong. */
MUST_CHECK enum errc pattern_new(struct pattern **out, struct slice text, struct error *err);
void pattern_free(struct pattern *p);
/* Anywhere in the text. 1543: it needs too many steps. */
MUST_CHECK enum errc pattern_find(const struct pattern *p, struct slice text, bool *is_found,
                                  struct error *err);

#endif
