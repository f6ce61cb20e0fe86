/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules -- what a collection asks of its documents: values that are computed, and a schema. For the
 * files of store.
 *
 * The definitions are in the catalog. They are compiled by the first write that sees them and kept
 * with that catalog; any thread may use them.
 */
#ifndef STORE_RULES_H
#define STORE_RULES_H

#include "store/doc_private.h"

enum { COMPUTED_MAX = 100, COMPUTED_TEXT_MAX = 64 * KIB };

/* Bits: which write computes a value. */
enum rules_event { RULES_INSERT = 1, RULES_UPDATE = 2, RULES_REPLACE = 4 };

/*
 * Definitions as clients send them, checked, and as they are shown and stored; null for none (null,
 * or empty). *out lives in arena. 1621 for the schema, 10 for the values.
 */
MUST_CHECK enum errc rules_read_schema(struct val given, struct arena *arena, struct val *out,
                                       struct error *err);
MUST_CHECK enum errc rules_read_computed(struct store *s, struct val given, struct arena *arena,
                                         struct val *out, struct error *err);

/* Borrows the definitions. NULL when both are null. */
struct rules *rules_new(struct val schema, struct val computed);
void rules_free(struct rules *r);

/*
 * The document that is about to be stored, with what is computed for it, which may be a new value in
 * arena; then the schema is asked. old: what it replaces, or VAL_NONE. Errors: 1620 with the
 * collection's own message, those of an expression.
 */
MUST_CHECK enum errc rules_apply(struct txn *t, const struct collection *c, enum rules_event event,
                                 struct val old, struct arena *arena, struct val *doc,
                                 struct error *err);

#endif
