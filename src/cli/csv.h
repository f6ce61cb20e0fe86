/* SPDX-License-Identifier: Apache-2.0 */
/*
 * csv -- comma separated values as RFC 4180 has them, also with semicolons or
 * tabs: quoted fields, doubled quotes, line ends inside quotes. Pure.
 */
#ifndef CLI_CSV_H
#define CLI_CSV_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum { CSV_FIELDS_MAX = 1000 };

struct csv {
    struct slice text;
    size_t at;
    size_t line; /* of the last row's beginning, from 1 */
    size_t next_line;
    char separator;
    struct arena *arena; /* of fields with doubled quotes */
};

/* The separator is the most frequent of , ; and tab in the first line. Borrows text and arena. */
void csv_init(struct csv *csv, struct slice text, struct arena *arena);

/*
 * The next row that is not blank: at most CSV_FIELDS_MAX fields, *count of them; 0 at the end.
 * Fields are part of the text or live in the arena. A quote that never ends and a row with too
 * many fields are ERR_INVALID.
 */
MUST_CHECK enum errc csv_next(struct csv *csv, struct slice *fields, size_t *count,
                              struct error *err);

/*
 * The table as Markdown for reading, one list item for each row, which repeats the names of the
 * columns ("- name: Ada; age: 36"), so that a row can be found and cited alone.
 */
MUST_CHECK enum errc csv_to_markdown(struct slice text, struct buf *out, struct error *err);

#endif
