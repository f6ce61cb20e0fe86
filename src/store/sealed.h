/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sealed -- attributes of documents that are encrypted on disk (ADR 0026). Rows, and so the log,
 * backups and sinks, hold them sealed; documents that leave the store hold them in clear text.
 * For the files of store.
 *
 * A value is bound to its place: collection, document key and attribute. At another it does not
 * open.
 */
#ifndef STORE_SEALED_H
#define STORE_SEALED_H

#include "base/keyring.h"
#include "store/catalog.h"
#include "store/store_private.h"

enum { ENCRYPTED_MAX = 32, SEALED_MAX = 64 }; /* attributes of a collection; with former ones */

/*
 * The document as it is stored. Errors: no key is there to write with (ERR_IO), an array stands
 * where the path goes on (ERR_INVALID). Lives in arena, or is doc.
 */
MUST_CHECK enum errc sealed_close(struct store *s, const struct collection *c, struct slice key,
                                  struct val doc, struct arena *arena, struct val *out,
                                  struct error *err);

/*
 * The stored document in clear text. Errors name the key: it is missing (ERR_IO), is another one,
 * or the value has been changed or moved (ERR_CORRUPT).
 */
MUST_CHECK enum errc sealed_open(struct store *s, const struct collection *c, struct slice key,
                                 struct val doc, struct arena *arena, struct val *out,
                                 struct error *err);
/* The same for who holds keys but no store. */
MUST_CHECK enum errc sealed_open_with(const struct keyring *keys, const struct collection *c,
                                      struct slice key, struct val doc, struct arena *arena,
                                      struct val *out, struct error *err);

/* What a stored document holds: fn gets each sealed value's key id, or "" for a clear one. */
void sealed_each(const struct collection *c, struct val doc,
                 void (*fn)(void *ctx, struct slice key_id), void *ctx);
/* True when writing the document again would change with which keys it is encrypted. */
bool sealed_is_stale(const struct store *s, const struct collection *c, struct val doc);

/* Reads the key file again: new writes take its writer. On an error the keys stay as they are. */
MUST_CHECK enum errc sealed_load_keys(struct store *s, struct error *err);
void sealed_free_keys(struct store *s);
/* What counts now; valid until the store is closed. NULL: there is no key file. */
const struct keyring *sealed_keys(const struct store *s);

/*
 * Reads "encryptedFields": paths without [*], none a system attribute, none inside another. Fills
 * c->sealed: first these, then those of before that are not among them, since rows may hold them.
 * ERR_INVALID also when an index of the collection looks at one.
 */
MUST_CHECK enum errc sealed_set_fields(struct collection *c, struct val fields, struct arena *arena,
                                       struct error *err);
/* No row holds one of former times any more. */
void sealed_forget_former(struct collection *c);
/* From the catalog. */
MUST_CHECK enum errc sealed_decode_fields(struct collection *c, struct val fields,
                                          struct val former, struct arena *arena,
                                          struct error *err);
/* ERR_INVALID when the index looks at an encrypted attribute, or at what holds one or is in one. */
MUST_CHECK enum errc sealed_check_index(const struct collection *c, const struct index_def *index,
                                        struct error *err);

#endif
