/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunk -- splits a document into pieces that fit the window of an embedding
 * model. Pure; tokens are counted by a callback.
 *
 * A chunk is a byte range of the document, so that what is cited can be shown
 * in place. Chunks begin at headings, else at paragraphs, else at sentences;
 * only a sentence longer than a chunk is cut between words, and only a word
 * longer than a chunk between characters. Inside a section a chunk repeats the
 * last sentence or two of the one before it.
 */
#ifndef RETRIEVE_CHUNK_H
#define RETRIEVE_CHUNK_H

#include "base/arena.h"
#include "base/base.h"
#include "base/error.h"

/* Documents are imported whole, each in one transaction. */
#define CHUNK_DOC_BYTES_MAX ((size_t)32 * MIB)
enum { CHUNK_VERSION = 1 }; /* grows when the same text would be split differently */

struct chunk_counter {
    enum errc (*count)(void *ctx, struct slice text, size_t *tokens, struct error *err);
    void *ctx;
};

struct chunk_options {
    bool is_markdown;
    struct slice title;    /* outermost context; may be empty */
    size_t window_tokens;  /* of the model, its special tokens included */
    size_t target_tokens;  /* 0 = 180; capped by the window */
    size_t overlap_tokens; /* 0 = 40 */
    struct chunk_counter counter;
};

struct chunk {
    size_t from, to;      /* bytes of the text */
    struct slice heading; /* "Title > Section > Part": to be embedded in front of the text */
    uint32_t tokens;      /* of heading and text, estimated from above */
};

struct chunk_list {
    struct chunk *items; /* in the order of the text */
    size_t count;
};

/*
 * Lives in the arena. Text without anything but white space gives no chunks.
 * ERR_TOO_LARGE above CHUNK_DOC_BYTES_MAX; else what the counter says.
 */
MUST_CHECK enum errc chunk_split(struct chunk_list *out, struct slice text,
                                 const struct chunk_options *opt, struct arena *arena,
                                 struct error *err);

/* The first heading of the document, or empty. Borrows text. */
struct slice chunk_title(struct slice text, bool is_markdown);

#endif
