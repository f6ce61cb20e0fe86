/* SPDX-License-Identifier: Apache-2.0 */
/*
 * catalog_private -- making and changing catalogs; for the files of store.
 *
 * A change clones the catalog into an arena, edits the clone in place, encodes
 * it (the value of meta "catalog") and decodes that into the next catalog.
 */
#ifndef STORE_CATALOG_PRIVATE_H
#define STORE_CATALOG_PRIVATE_H

#include "store/catalog.h"

struct catalog {
    _Atomic int refs;
    uint64_t version;
    struct arena *arena; /* owned; NULL in a clone */
    struct slice locale;
    struct database *databases;
    size_t database_count;
};

/* Returned to the caller with one reference. Copies the bytes. */
MUST_CHECK enum errc catalog_decode(struct catalog **out, struct slice bytes, struct error *err);
/* The result lives in the arena. */
MUST_CHECK enum errc catalog_encode(const struct catalog *c, struct arena *arena, struct slice *out,
                                    struct error *err);

/* Lives in the arena, borrows the original's strings; everything in it may be edited. */
struct catalog *catalog_clone(const struct catalog *c, struct arena *arena);
struct database *clone_database(struct catalog *clone, uint64_t id);
/* NULL when absent; *database may be NULL. */
struct collection *clone_collection(struct catalog *clone, uint64_t id, struct database **database);
struct index_def *clone_index(struct collection *c, uint64_t id);
void clone_add_database(struct catalog *clone, struct arena *arena, const struct database *db);
void clone_add_collection(struct database *db, struct arena *arena, const struct collection *c);
void clone_add_index(struct collection *c, struct arena *arena, const struct index_def *index);
void clone_remove_database(struct catalog *clone, struct database *db);
void clone_remove_collection(struct database *db, struct collection *c);
void clone_remove_index(struct collection *c, struct index_def *index);

/* By object id, for messages. *index is NULL when it is the collection's own. */
const struct collection *catalog_by_object(const struct catalog *c, uint64_t object_id,
                                           const struct index_def **index);

bool name_is_database(struct slice name);
bool name_is_collection(struct slice name);
bool name_is_index(struct slice name); /* letters, digits, _ and - */

/* "a.b" or "tags[*]". 1220, 9. Lives in the arena. */
MUST_CHECK enum errc field_path_parse(struct field_path *out, struct slice text,
                                      struct arena *arena, struct error *err);

/*
 * Reads a definition: as a client sent it, or as it is stored. Fills everything
 * that the definition says; ids and state stay zero. Everything lives in the
 * arena. Errors: 10, 9, 1220, 1232.
 */
MUST_CHECK enum errc index_def_parse(struct index_def *out, struct val def, struct arena *arena,
                                     struct error *err);
/* Sets name and def, complete for answers. */
MUST_CHECK enum errc index_def_finish(struct index_def *index, struct arena *arena,
                                      struct error *err);
/* primary or edge. */
MUST_CHECK enum errc index_def_builtin(struct index_def *out, enum index_kind kind,
                                       struct arena *arena, struct error *err);
/* The same kind over the same fields with the same properties. */
bool index_def_equal(const struct index_def *a, const struct index_def *b);

#endif
