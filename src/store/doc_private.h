/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doc_private -- rows, keys and values of documents; for the files of store.
 */
#ifndef STORE_DOC_PRIVATE_H
#define STORE_DOC_PRIVATE_H

#include "store/doc.h"
#include "store/txn_private.h"

/* A document with its place. */
struct row {
    struct slice key;
    uint16_t slot;
    struct val doc;   /* as it is stored: attributes may be sealed */
    struct val clear; /* for those who may read it; VAL_NONE until it was opened */
};

/* Appends (object id, slot, key). */
void row_key(struct buf *out, const struct collection *c, uint16_t slot, struct slice key);
enum { ROW_KEY_HEAD = 10 };

/* ERR_NOT_FOUND leaves err untouched. The value lives in arena; clear is not there yet. */
MUST_CHECK enum errc row_find(struct txn *t, const struct collection *c, struct slice key,
                              struct arena *arena, struct row *out, struct error *err);
/* Sets row->clear, unless it is there. The errors of sealed_open. */
MUST_CHECK enum errc row_open(struct txn *t, const struct collection *c, struct row *row,
                              struct arena *arena, struct error *err);

/*
 * Moves a document from one state to the next with its indexes and the count.
 * Either row may be NULL; both have the same key.
 */
MUST_CHECK enum errc row_change(struct txn *t, const struct collection *c, const struct row *old,
                                const struct row *new, struct error *err);

/* The key of a new document: the one it brings, or a generated one. Lives in arena. */
MUST_CHECK enum errc key_choose(struct txn *t, const struct collection *c, struct val doc,
                                struct arena *arena, struct slice *out, struct error *err);

/*
 * The stored form: system attributes, then the members of doc; with old, the
 * members of old, in clear text, with doc as a patch. Fills row->clear.
 */
struct doc_make {
    const struct collection *collection;
    struct slice key;
    struct val doc;
    struct val old; /* VAL_NONE: doc is whole */
    const struct doc_options *opt;
    struct arena *arena;
};
MUST_CHECK enum errc doc_make(struct txn *t, const struct doc_make *m, struct row *out,
                              struct error *err);

/* Nested too deep (1524) or too large (1216). */
MUST_CHECK enum errc doc_check_limits(struct val doc, struct error *err);

/*
 * The stored document with the _id that the collection's present name gives it:
 * itself, or a copy in arena when it was stored under an older name.
 */
struct val doc_present(const struct collection *c, struct val doc, struct arena *arena);

#endif
