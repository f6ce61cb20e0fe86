/* SPDX-License-Identifier: Apache-2.0 */
/*
 * document -- documents as people have them, turned into text. What parses their
 * bytes runs in a child process with limits.
 */
#ifndef CLI_DOCUMENT_H
#define CLI_DOCUMENT_H

#include "cli/source.h"

enum document_kind {
    DOCUMENT_TEXT,
    DOCUMENT_MARKDOWN,
    DOCUMENT_HTML,
    DOCUMENT_PDF,
    DOCUMENT_CSV,
};

struct document {
    struct buf text;    /* UTF-8 without zero bytes; the caller's, also after an error */
    struct slice title; /* part of text's memory; may be empty */
    struct slice body;  /* the same */
    const char *format; /* of body, for /v1/import: "text" or "markdown" */
    const char *source; /* "pdf", "html", "csv", or NULL when the body is the file's text itself */
};

/* By the beginning of the bytes, else by the ending of the name. */
enum document_kind document_kind(const char *name, struct slice bytes);
/* Are its bytes text, in whatever encoding? Pages name their encoding themselves. */
bool document_is_plain(enum document_kind kind);

/* Of a source that has been read. err says what is wrong, without its name. */
MUST_CHECK enum errc document_read(const struct source *s, enum document_kind kind,
                                   struct document *out, struct error *err);

#endif
