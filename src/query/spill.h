/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spill -- rows sorted by their first values: in memory while they fit, else in sorted
 * runs in a file that has no name, merged when they are read back.
 *
 * One thread; blocks on the disk. A row comes out after those that are equal to it and
 * came before it.
 */
#ifndef QUERY_SPILL_H
#define QUERY_SPILL_H

#include "base/arena.h"
#include "base/val.h"
#include <stdatomic.h>

/* What all queries of a node share; outlives them. */
struct spill_space {
    char dir[4096];
    uint64_t memory_bytes; /* of one operator's rows before it writes */
    uint64_t max_bytes;    /* in all files together; more is refused with ERR_LIMIT */
    bool is_encrypted;     /* each file with a key that is nowhere but in memory */
    _Atomic uint64_t used_bytes;
};

/* Makes the directory, or removes what a crash has left in it. */
MUST_CHECK enum errc spill_space_open(struct spill_space *space, const char *dir,
                                      struct error *err);

struct spill_order {
    uint32_t keys, values;  /* of a row: the keys first */
    const bool *descending; /* by key; NULL: none is */
    const struct collator *collator;
};

struct spill;
/* Borrows everything. The memory counts against the parent. Returned to the caller. */
struct spill *spill_new(struct spill_space *space, const struct spill_order *order,
                        struct arena *parent);
void spill_free(struct spill *s); /* NULL is allowed */

/* Copies the values. */
MUST_CHECK enum errc spill_add(struct spill *s, const struct val *keys, const struct val *values,
                               struct error *err);
/* After the last row, before the first is read. */
MUST_CHECK enum errc spill_finish(struct spill *s, struct error *err);
/* *row: keys and values, valid until the next call; NULL at the end. */
MUST_CHECK enum errc spill_next(struct spill *s, struct val **row, struct error *err);

#endif
