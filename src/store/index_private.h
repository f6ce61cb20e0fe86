/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_private -- keeping indexes; for the files of store. The bytes of the
 * entries are in docs/formats.md.
 */
#ifndef STORE_INDEX_PRIVATE_H
#define STORE_INDEX_PRIVATE_H

#include "store/doc_private.h"
#include "store/index.h"

/* What one document contributes to one index. */
struct index_entry {
    struct slice key, value;
};
struct index_entries {
    struct index_entry *at; /* sorted by key, no key twice */
    size_t count, cap;
};

/* Everything lives in the arena. Errors: an unusable vector, too long a key, 1210 within the row. */
MUST_CHECK enum errc index_entries_make(struct index_entries *out, const struct collection *c,
                                        const struct index_def *index,
                                        const struct collator *collator, const struct row *row,
                                        struct arena *arena, struct error *err);

/* Brings all indexes of the collection from old to new; either may be NULL. */
MUST_CHECK enum errc index_change(struct txn *t, const struct collection *c, const struct row *old,
                                  const struct row *new, struct error *err);

/* Adds one document to one index. */
MUST_CHECK enum errc index_add(struct txn *t, const struct collection *c,
                               const struct index_def *index, const struct row *row,
                               struct error *err);

/* Appends where the range begins and ends among the keys; from may come behind to. */
void index_bounds(const struct txn *t, const struct index_def *index, const struct index_range *r,
                  struct buf *from, struct buf *to);

/* One more, copied into the arena. */
void index_entries_add(struct index_entries *e, struct arena *arena, struct slice key,
                       struct slice value);
void index_make_geo(struct index_entries *out, const struct index_def *index, const struct row *row,
                    struct arena *arena);
void index_make_words(struct index_entries *out, const struct index_def *index,
                      const struct row *row, struct arena *arena);

/* What the order of the entries depends on beside the values. */
const char *index_order_version(const struct index_def *index, const struct collator *collator);

/* The values of storedValues in such an entry, encoded; empty when it has none. */
struct slice index_entry_stored(const struct index_def *index, struct slice value);

/* The document's key in an entry of a persistent index; empty when the entry is damaged. */
struct slice index_entry_doc(const struct index_def *index, struct slice key, struct slice value);

/*
 * The row of a vector index for this value, in the arena: floats, normalised
 * for cosine. *row is empty when the document has no vector and the index is
 * sparse.
 */
void vector_normalise(float *v, size_t n); /* to length 1; zero stays zero */
MUST_CHECK enum errc vector_row(const struct index_def *index, struct val v, struct arena *arena,
                                struct slice *row, struct error *err);

enum edge_side { EDGE_SIDE_FROM, EDGE_SIDE_TO };
/* Appends (object id, side, slot of the vertex, vertex): the prefix of its edges. */
void edge_prefix(struct buf *out, const struct index_def *index, enum edge_side side,
                 struct slice vertex);

/* Fills the index from what is in the collection; online, in chunks. */
MUST_CHECK enum errc index_build(struct store *s, uint64_t collection_id, uint64_t index_id,
                                 struct error *err);

#endif
