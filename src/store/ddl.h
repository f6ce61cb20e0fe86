/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddl -- one change of the catalog: a transaction with an editable clone.
 * For the files of store.
 *
 *   TRY(change_begin(&ch, s, err));
 *   ... edit ch.clone, allocate in ch.arena ...
 *   rc = change_commit(&ch, err);
 * out:
 *   change_end(&ch);
 */
#ifndef STORE_DDL_H
#define STORE_DDL_H

#include "store/txn_private.h"

struct change {
    struct store *store;
    struct txn *txn;
    struct arena *arena;
    struct catalog *clone;
    struct catalog *next; /* owned reference */
    uint64_t *dead;       /* object ids that die with it; in the arena */
    size_t dead_count;
};

/* Takes the lock of the catalog until change_end, which must follow in any case. */
MUST_CHECK enum errc change_begin(struct change *ch, struct store *s, struct error *err);
MUST_CHECK enum errc change_commit(struct change *ch, struct error *err);
void change_end(struct change *ch);

/* The rows of the object go once nobody sees them. */
void change_kill(struct change *ch, uint64_t object_id);

#endif
