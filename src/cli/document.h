/* SPDX-License-Identifier: Apache-2.0 */
/*
 * document -- documents as people have them, turned into text. What parses their
 * bytes runs in a child process with limits.
 */
#ifndef CLI_DOCUMENT_H
#define CLI_DOCUMENT_H

#include "base/buf.h"
#include "base/error.h"

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
    const char *source; /* "pdf", "html", "csv", or NULL when the body is the file itself */
};

/* Of the open file, whose bytes have been read. err says what is wrong, without its name. */
MUST_CHECK enum errc document_read(int file, enum document_kind kind, struct slice bytes,
                                   struct document *out, struct error *err);

#endif
