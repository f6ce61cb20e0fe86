/* SPDX-License-Identifier: Apache-2.0 */
/* text_match -- LIKE patterns and regular expressions. Hides PCRE2. */
#ifndef QUERY_TEXT_MATCH_H
#define QUERY_TEXT_MATCH_H

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

#endif
