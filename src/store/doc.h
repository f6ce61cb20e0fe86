/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doc -- documents and edges inside a transaction, with their indexes kept.
 *
 * A stored document is an object whose first members are _key, _id, _rev (and
 * _from, _to in edge collections); it is read in place. _rev is a hybrid clock
 * with the node number, in ArangoDB's 64-character alphabet.
 */
#ifndef STORE_DOC_H
#define STORE_DOC_H

#include "store/txn.h"

enum overwrite_mode { OVERWRITE_CONFLICT, OVERWRITE_IGNORE, OVERWRITE_REPLACE, OVERWRITE_UPDATE };

struct doc_options {
    enum overwrite_mode overwrite; /* insert */
    bool drop_nulls;               /* keepNull=false: update removes members that become null */
    bool replace_objects;          /* mergeObjects=false: update replaces nested objects whole */
    bool check_rev;      /* ignoreRevs=false: a _rev in the document must match (1200, 412) */
    struct slice if_rev; /* If-Match; empty = none */
    /*
     * Update and replace: where both documents have a number from 0 under this name and the new
     * one, rounded down, is not higher, nothing is written. Empty = none.
     */
    struct slice version_attribute;
    /* Nobody looks at old_doc: it is val_null where it would have to be decrypted for this alone. */
    bool leaves_old;
};

/* What a write did. Values live in the arena given. */
struct doc_change {
    struct slice key, id, rev;
    struct slice old_rev; /* empty for a new document */
    struct val old_doc;   /* val_null for a new document, and see leaves_old */
    struct val new_doc;   /* val_null after remove */
    bool is_ignored;      /* OVERWRITE_IGNORE or version_attribute let the old document stand */
};

/* Missing: ERR_NOT_FOUND, errorNum 1202, "document not found: 'c/k'". */
MUST_CHECK enum errc doc_get(struct txn *t, const struct collection *c, struct slice key,
                             struct arena *arena, struct val *out, struct error *err);

/* The same, except that encrypted attributes stay so: for those who do not look at them. */
MUST_CHECK enum errc doc_get_stored(struct txn *t, const struct collection *c, struct slice key,
                                    struct arena *arena, struct val *out, struct error *err);

/*
 * Errors: 1227 not an object, 1221 bad key, 1210 unique (names index, collection, existing key),
 * 1233 edge without _from/_to, 1216 too large, 1200 revision, 1620 refused by the schema,
 * those of expressions of computed values.
 * Members _id and _rev of the input are ignored; _key is generated when absent.
 */
MUST_CHECK enum errc doc_insert(struct txn *t, const struct collection *c, struct val doc,
                                const struct doc_options *opt, struct arena *arena,
                                struct doc_change *out, struct error *err);
MUST_CHECK enum errc doc_update(struct txn *t, const struct collection *c, struct slice key,
                                struct val patch, const struct doc_options *opt,
                                struct arena *arena, struct doc_change *out, struct error *err);
MUST_CHECK enum errc doc_replace(struct txn *t, const struct collection *c, struct slice key,
                                 struct val doc, const struct doc_options *opt, struct arena *arena,
                                 struct doc_change *out, struct error *err);
MUST_CHECK enum errc doc_remove(struct txn *t, const struct collection *c, struct slice key,
                                const struct doc_options *opt, struct arena *arena,
                                struct doc_change *out, struct error *err);

/* Documents of the collection in this view, own writes included. Constant time. */
MUST_CHECK enum errc doc_count(struct txn *t, const struct collection *c, uint64_t *out,
                               struct error *err);

/* The schema of the collection: {message, level, type, rule}, or null. */
MUST_CHECK enum errc doc_schema(struct txn *t, const struct collection *c, struct val *out,
                                struct error *err);

/* Estimates of what a collection takes on disk. */
struct collection_bytes {
    uint64_t documents, indexes;
};
void doc_bytes(struct txn *t, const struct collection *c, struct collection_bytes *out);

/* Removes each document of the collection as part of the transaction. */
MUST_CHECK enum errc doc_remove_all(struct txn *t, const struct collection *c, struct error *err);

/* All documents in key order of (slot, key). The value lives until the next step. */
struct doc_iter;
MUST_CHECK enum errc doc_iter_new(struct doc_iter **out, struct txn *t, const struct collection *c,
                                  struct error *err);
/* false at the end or on an error: then doc_iter_check. */
bool doc_iter_next(struct doc_iter *it, struct val *out);
MUST_CHECK enum errc doc_iter_check(const struct doc_iter *it, struct error *err);
void doc_iter_free(struct doc_iter *it);
/* Encrypted attributes are not decrypted from here on, and not looked at by whoever says so. */
void doc_iter_leave_sealed(struct doc_iter *it);

/* Splits "collection/key"; false when it is not a handle. */
bool doc_split_id(struct slice id, struct slice *collection, struct slice *key);
bool doc_key_is_legal(struct slice key);

/* Milliseconds since 1970 and the count within them; false when it is not a _rev. */
bool doc_decode_rev(struct slice rev, uint64_t *ms, uint32_t *count);

/* Where a document lives; a pure function of the shard keys (_key, the prefix of prefix:rest, _from). */
uint16_t doc_slot(const struct collection *c, struct slice key, struct slice from);

#endif
