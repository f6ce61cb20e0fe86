/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check -- verifies a store that nobody has open, without changing it: blocks
 * against their checksums, encrypted values with the keys that are given, the log against the mark, documents, index entries
 * in both directions, counts, and rows that belong to nothing.
 */
#ifndef STORE_CHECK_H
#define STORE_CHECK_H

#include "base/error.h"
#include "base/settings.h"

struct check_options {
    const char *path;                /* of the store */
    const struct settings *settings; /* the key file; NULL: values are not decrypted */
    /* Gets each line of the report. */
    void (*say)(void *ctx, bool is_problem, const char *line);
    void *ctx;
};

/*
 * OK: the check ran to its end and found so many problems. An error: it could
 * not begin (no store there, in use, of a newer format, not readable at all).
 * Reads the whole store, so it takes as long.
 */
MUST_CHECK enum errc store_check(const struct check_options *opt, uint64_t *problems,
                                 struct error *err);

#endif
