/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collate -- order of strings for people. Hides ICU.
 *
 * A collator is immutable after opening and may be used by all threads.
 */
#ifndef BASE_COLLATE_H
#define BASE_COLLATE_H

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

struct collator;

/* locale: "und" = ICU root. "binary" gives *out = NULL, which means bytewise everywhere. */
MUST_CHECK enum errc collator_open(struct collator **out, const char *locale, struct error *err);
void collator_close(struct collator *c);

/* Tertiary order only; 0 does not mean equal bytes. */
int collator_compare(const struct collator *c, struct slice a, struct slice b);

/* Appends the tertiary sort key, which contains no zero byte. */
void collator_sort_key(const struct collator *c, struct slice text, struct buf *out);

/* Changes when sort keys may have changed: store it beside what was built with them. */
const char *collator_version(const struct collator *c); /* "binary" for NULL */

/* Appends the text in upper or lower case, root locale. */
void text_change_case(struct slice text, bool is_upper, struct buf *out);

#endif
