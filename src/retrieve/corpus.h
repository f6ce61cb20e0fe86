/* SPDX-License-Identifier: Apache-2.0 */
/*
 * corpus -- the documents and chunks collections: their shapes, keys and
 * transactions. Knows nothing of models or prompts.
 *
 * Calls block on the store: worker threads only.
 */
#ifndef RETRIEVE_CORPUS_H
#define RETRIEVE_CORPUS_H

#include "retrieve/chunk.h"
#include "retrieve/rag.h"

struct corpus {
    struct store *store;
    uint64_t db_id;
    struct slice documents, chunks; /* names of the collections */
};

/* The model that made the vectors; vectors of two models cannot be compared. */
struct corpus_model {
    struct slice name;
    uint64_t file_bytes; /* tells two files of one name apart; 0 = unknown */
    uint32_t dimension;
};

/* Defaults for empty names. */
struct corpus corpus_of(const struct rag_env *env, uint64_t db_id, struct slice documents,
                        struct slice chunks);

/*
 * Key of the document with that path: readable end of the path, then 16 digits of
 * its SHA-256. Has no colon, so that "key:n" of a chunk shares its slot.
 */
struct slice corpus_key(struct slice path, struct arena *arena);

/*
 * Creates what is missing: both collections and the vector index. ERR_INVALID
 * when the collections hold vectors of another model.
 */
MUST_CHECK enum errc corpus_prepare(const struct corpus *c, const struct corpus_model *model,
                                    struct error *err);

/* One document to be written. */
struct corpus_doc {
    struct slice key, path, title, text;
    struct slice digest;        /* hexadecimal SHA-256 of the text */
    struct slice source_digest; /* the client's, of what the text was made from; or empty */
    struct val attributes;
    const struct chunk *chunks;
    size_t chunk_count;
    const float *vectors; /* chunk_count x model->dimension */
};

/* True when the stored document has this digest, title, attributes and splitter. */
MUST_CHECK enum errc corpus_is_unchanged(const struct corpus *c, const struct corpus_doc *doc,
                                         bool *out, struct error *err);

/* Notes the source_digest of a document that has not changed otherwise. */
MUST_CHECK enum errc corpus_note_source(const struct corpus *c, const struct corpus_doc *doc,
                                        struct error *err);

/* Replaces document and chunks in one transaction; tries again on conflicts, 50 times at most. */
MUST_CHECK enum errc corpus_write(const struct corpus *c, const struct corpus_doc *doc,
                                  const struct corpus_model *model, struct error *err);

/*
 * Removes the documents of these paths with their chunks in one transaction; tries again as
 * corpus_write does. Paths that were not imported do not matter. *removed: how many were.
 */
MUST_CHECK enum errc corpus_remove(const struct corpus *c, const struct slice *paths, size_t count,
                                   size_t *removed, struct error *err);

/* Paths of the documents that begin with the prefix, in the arena. None without a collection. */
MUST_CHECK enum errc corpus_paths(const struct corpus *c, struct slice prefix, struct arena *arena,
                                  struct slice **paths, size_t *count, struct error *err);

struct corpus_hit {
    struct rag_source_hit hit;
    struct slice heading;
    double rank; /* what the hits are ordered by */
};

/* Heading, line end, text; lives in the arena. */
struct slice corpus_hit_text(const struct corpus_hit *h, struct arena *arena);

/*
 * The k chunks nearest to the vector, best first; lives in the arena. A collection
 * that is missing or has no vector index, or vectors of another length, is an error.
 */
MUST_CHECK enum errc corpus_search(const struct corpus *c, const float *vector, uint32_t dimension,
                                   size_t k, struct arena *arena, struct corpus_hit **hits,
                                   size_t *count, struct error *err);

#endif
