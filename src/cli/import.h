/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import -- what the parts of `themis import` share: documents that go to
 * POST /v1/import in batches, rows that go into a collection, and the list of
 * files that could not be read.
 */
#ifndef CLI_IMPORT_H
#define CLI_IMPORT_H

#include "cli/cli.h"
#include "cli/document.h"

enum { IMPORT_FILE_MAX = 32 * MIB, IMPORT_BATCH_DOCS = 16, IMPORT_BATCH_BYTES = 256 * KIB };

/* Texts of malloc, owned by the list. */
struct path_list {
    char **items;
    size_t count, cap;
};
void path_list_add(struct path_list *list, const char *path);
void path_list_release(struct path_list *list);

/* SHA-256 in hexadecimal of a file's bytes and of what else decides about its text. "" = unknown. */
struct import_digest {
    char hex[65];
};

struct import_doc {
    const char *path; /* lives as long as the list of files */
    struct val body;  /* for /v1/import */
};

struct import {
    struct cli *c;
    const char *model, *collection, *charset;
    struct path_list files, links; /* links: to files, until it is known which are needed */
    struct path_list bad, reasons; /* files that were skipped, and why: of equal length */
    struct import_doc docs[IMPORT_BATCH_DOCS];
    size_t doc_count, doc_bytes;
    struct arena_mark mark; /* before the first of docs */
    int64_t documents, unchanged, chunks, truncated, rows, bad_rows, removed, linked;
    uint64_t begin_ms;
    double seconds, embed_ms; /* of all; how much of it the server waited for the model */
    size_t done;
    bool is_shown;
};

/* Notes that a file is left out; import goes on. */
void import_skip(struct import *im, const char *path, const char *fmt, ...) PRINTF_LIKE(3, 4);
void import_show(const struct import *im);

/* ---- documents ---- */

/*
 * Adds the text of one file; sends a batch when one is full. charset and digest may be NULL. False:
 * the server cannot be used.
 */
bool import_add_document(struct import *im, const char *path, const struct document *doc,
                         const char *charset, const struct import_digest *digest);
bool import_send_documents(struct import *im);

/* ---- files whose text need not be made again ---- */

enum { IMPORT_WINDOW = 64 };

/* Of a file that can be read and is no larger than a document may be; else "". */
void import_digest_of(const struct import *im, const char *path, struct import_digest *out);
/*
 * Which of at most IMPORT_WINDOW files the server has a document of, made from the same bytes.
 * False: the server cannot be used.
 */
bool import_ask_known(struct import *im, char *const *paths, const struct import_digest *digests,
                      size_t count, bool *known);

/* ---- rows ---- */

enum rows_format { ROWS_ARRAY, ROWS_LINES, ROWS_CSV };

/* Rows of a file go into im->collection, which is created. False: the server cannot be used. */
bool import_rows(struct import *im, const char *path, struct slice text, enum rows_format format);

#endif
