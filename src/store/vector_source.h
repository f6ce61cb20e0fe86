/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector_source -- vector indexes whose vectors are made from texts of the
 * documents (params.source). For the files of store.
 *
 * A write does not wait for a model: it takes the vector of the old text away
 * and leaves a note, (index, SLOT_PENDING, slot, key) -> hash of the text and
 * time. Behind it somebody makes the vector and removes the note, if the text
 * is still the same (vector_embed.c). So the index never holds a vector of a
 * text that the document no longer has. A document that brings a vector in the
 * field itself keeps that.
 */
#ifndef STORE_VECTOR_SOURCE_H
#define STORE_VECTOR_SOURCE_H

#include "store/doc_private.h"

enum { VECTOR_SLOT_PENDING = 0xffff, VECTOR_TEXT_MAX = 64 * KIB };

/* Appends the text of the document, at most VECTOR_TEXT_MAX bytes; false: it has none. */
bool vector_source_text(const struct index_def *index, struct val doc, struct buf *out);
uint64_t vector_source_hash(struct slice text);

/* Brings the index from old to new; either may be NULL. */
MUST_CHECK enum errc vector_source_change(struct txn *t, const struct index_def *index,
                                          const struct row *old, const struct row *new,
                                          struct error *err);

/* Appends the key of the row, or of the note. */
void vector_row_key(struct buf *out, const struct index_def *index, uint16_t slot,
                    struct slice key);
void vector_note_key(struct buf *out, const struct index_def *index, uint16_t slot,
                     struct slice key);
/* Bounds of all notes of an index. */
void vector_note_range(const struct index_def *index, struct buf *from, struct buf *to);

struct vector_note {
    struct slice key; /* of the document */
    uint16_t slot;
    uint64_t hash, wall_ms;
};
/* false: damaged. */
bool vector_note_read(struct slice key, struct slice value, struct vector_note *out);

#endif
