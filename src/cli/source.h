/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source -- a file that is imported: its bytes, unpacked when they are packed with gzip,
 * and as UTF-8 when they are text of another encoding. What unpacks and decodes them
 * runs in a child process with limits.
 *
 * Order of calls: open, read, perhaps decode, release.
 */
#ifndef CLI_SOURCE_H
#define CLI_SOURCE_H

#include "base/buf.h"
#include "base/error.h"

struct source {
    int file;            /* holds the same bytes; -1 = none */
    char *name;          /* its end tells the kind: the path, without ".gz" when it was packed */
    const char *charset; /* what it was decoded from; NULL = nothing was done */
    struct buf bytes;
    bool is_packed;
};

/* s need not be initialised and must be released also after an error, which does not name the file. */
MUST_CHECK enum errc source_open(struct source *s, const char *path, struct error *err);
void source_release(struct source *s);

/* Fills bytes, with at most max. */
MUST_CHECK enum errc source_read(struct source *s, size_t max, struct error *err);

/*
 * For text: bytes with the byte order mark of UTF-16 are decoded as that; others that are not
 * UTF-8 from the charset, if one is given. The result need not be UTF-8 if none is.
 */
MUST_CHECK enum errc source_decode(struct source *s, const char *charset, size_t max,
                                   struct error *err);

/* Is there such a charset? err names it. */
MUST_CHECK enum errc source_check_charset(const char *charset, struct error *err);

#endif
