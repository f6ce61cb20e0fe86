/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ids -- numbers that are never given twice on this node, also after a crash:
 * ids of everything, and the hybrid clock behind _rev.
 *
 * An id is node << 48 | counter. A revision is milliseconds << 22 | count << 10
 * | node. Both are handed out from memory by any thread; the committer writes
 * how far they may go with the group that first uses them.
 */
#ifndef STORE_IDS_H
#define STORE_IDS_H

#include "base/env.h"
#include "store/kv.h"

enum { NODE_COUNT_MAX = 1024, REV_TEXT_BYTES = 12 };

struct ids {
    const struct env *env;
    uint16_t node;
    _Atomic uint64_t next;            /* counter */
    _Atomic uint64_t clock;           /* milliseconds << 12 | count of the newest revision */
    uint64_t next_limit, clock_limit; /* on disk; the committer's */
};

/* Reads the limits and writes new ones, so that ids are safe before the first commit. */
MUST_CHECK enum errc ids_open(struct ids *ids, struct kv *kv, const struct env *env, uint16_t node,
                              struct error *err);
uint64_t ids_new(struct ids *ids);
uint64_t ids_new_rev(struct ids *ids);

/* Adds a record to the group when what was handed out passes what is on disk. Committer only. */
void ids_cover(struct ids *ids, struct kv_batch *batch);
/* The group was not written: the next one covers again. Committer only. */
void ids_uncover(struct ids *ids);

/* ArangoDB's alphabet, most significant digit first, without leading zeros. Not terminated. */
size_t rev_encode(uint64_t rev, char out[REV_TEXT_BYTES]);
bool rev_decode(struct slice text, uint64_t *out);
uint64_t rev_ms(uint64_t rev);    /* since 1970 */
unsigned rev_count(uint64_t rev); /* of those of one millisecond */

#endif
