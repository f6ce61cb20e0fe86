/* SPDX-License-Identifier: Apache-2.0 */
/*
 * garbage -- what is deleted later: rows of dropped or truncated objects once
 * no view can see them.
 *
 * The list of dead objects is on disk (meta "garbage/" + object id), written
 * with the catalog change that killed them, so a crash leaks nothing.
 */
#ifndef STORE_GARBAGE_H
#define STORE_GARBAGE_H

#include "store/kv.h"

struct garbage;

/* Reads the list. */
MUST_CHECK enum errc garbage_open(struct garbage **out, struct kv *kv, struct error *err);
void garbage_close(struct garbage *g);

/* The key of the record that a catalog change puts for an object that dies with it. */
void garbage_key(struct buf *out, uint64_t object_id);

/* After that commit. Any thread. */
void garbage_add(struct garbage *g, uint64_t object_id, uint64_t seq);

/* True when something died at or before the oldest view. Any thread. */
bool garbage_is_ready(struct garbage *g, uint64_t oldest_seq);

/* Deletes it. Committer only. */
void garbage_collect(struct garbage *g, uint64_t oldest_seq);

#endif
