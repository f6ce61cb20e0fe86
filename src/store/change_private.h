/* SPDX-License-Identifier: Apache-2.0 */
/* change_private -- the inside of the change feed; for the files of store. */
#ifndef STORE_CHANGE_PRIVATE_H
#define STORE_CHANGE_PRIVATE_H

#include "store/change_feed.h"
#include "store/store_private.h"

/* Which commits readers may see, and who is told. */
struct changes;
/* is_new_line: the history so far ends, as after an accepted loss. Before the first commit. */
MUST_CHECK enum errc changes_open(struct changes **out, struct store *s, bool is_new_line,
                                  struct error *err);
void changes_close(struct changes *c);

/* What is different between two catalogs, as a list in arena. Borrows both. */
size_t change_diff(const struct catalog *before, const struct catalog *after, struct arena *arena,
                   struct change **out);

/* The text of errorNum 1415. */
enum errc change_fail_gone(struct error *err, const char *why);

#endif
