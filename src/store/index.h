/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index -- reading persistent, edge, geo, fulltext and vector indexes inside a transaction.
 *
 * Keys (design decision 8): persistent (index, encoded values, slot, key);
 * unique (index, encoded values) -> slot, key; both with the stored values; edge (index, slot of the vertex,
 * vertex, edge key), one index per direction; geo (index, cell, slot, key); fulltext
 * (index, word, slot, key); vector (index, slot, key) -> float32 row.
 */
#ifndef STORE_INDEX_H
#define STORE_INDEX_H

#include "store/doc.h"
#include "store/vector.h"

/*
 * A range over a persistent index: equal on the first equal_count fields, then
 * optionally bounds on the next one. Values compare in AQL's order.
 */
struct index_range {
    const struct val *equal;
    size_t equal_count;
    struct val lower, upper; /* VAL_NONE = open */
    bool lower_included, upper_included;
    bool is_reverse;
};

struct index_iter;
MUST_CHECK enum errc index_scan(struct index_iter **out, struct txn *t, const struct collection *c,
                                const struct index_def *index, const struct index_range *range,
                                struct error *err);

/*
 * How many entries the range has, and how many those with one value in the first fields
 * on average: guesses that look at few entries. all: documents of the collection.
 * Persistent indexes only.
 */
double index_guess_range(struct txn *t, const struct index_def *index,
                         const struct index_range *range, double all);
double index_guess_equal(struct txn *t, const struct index_def *index, size_t fields, double all);

/* What the entry under the iterator holds of its document. */
struct index_values {
    struct val fields[LIMIT_INDEX_FIELDS]; /* those that were asked for */
    struct val stored; /* array: of the paths of storedValues; null when the entry has none */
    bool is_exact;     /* false: a field that was asked for must be read from the document */
};

/*
 * Of a persistent index without [*], after index_iter_next. Bit i of wanted asks for
 * field i. Values live in the arena or until the next step.
 */
MUST_CHECK enum errc index_iter_values(const struct index_iter *it, uint32_t wanted,
                                       struct arena *arena, struct index_values *out,
                                       struct error *err);

/*
 * Documents of a geo index that may have a point in the cap, each once; with has_nowhere
 * also those that have no place.
 */
struct geo_cap;
struct geo_shape;
MUST_CHECK enum errc index_scan_geo(struct index_iter **out, struct txn *t,
                                    const struct collection *c, const struct index_def *index,
                                    struct geo_cap cap, bool has_nowhere, struct error *err);
/* Where a document is for the index; false: nowhere. Lives in arena. */
bool index_geo_shape(const struct index_def *index, struct val doc, struct arena *arena,
                     struct geo_shape *out);
/* Documents of a fulltext index with the word, or with one that begins so; each once. */
MUST_CHECK enum errc index_scan_words(struct index_iter **out, struct txn *t,
                                      const struct collection *c, const struct index_def *index,
                                      struct slice word, bool is_prefix, struct error *err);

enum edge_direction { EDGE_OUTBOUND, EDGE_INBOUND, EDGE_ANY };
/* Edges whose _from (outbound) or _to (inbound) is the vertex. */
MUST_CHECK enum errc index_scan_edges(struct index_iter **out, struct txn *t,
                                      const struct collection *c, struct slice vertex,
                                      enum edge_direction direction, struct error *err);

/* The key of the next document; lives until the next step. false: index_iter_check. */
bool index_iter_next(struct index_iter *it, struct slice *key);
/* Of an edge: the vertex at its other end, until the next step. */
struct slice index_iter_vertex(const struct index_iter *it);
MUST_CHECK enum errc index_iter_check(const struct index_iter *it, struct error *err);
void index_iter_free(struct index_iter *it);

#endif
