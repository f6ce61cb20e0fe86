/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_plan -- how the memory of a node is divided, from its settings and the machine's memory:
 * the one place that knows all limits. Pure.
 */
#ifndef BASE_MEMORY_PLAN_H
#define BASE_MEMORY_PLAN_H

#include "base/buf.h"
#include "base/settings.h"

/* Bytes that each part may take at most. */
struct memory_plan {
    uint64_t machine;   /* what there is */
    uint64_t budget;    /* memory_budget_mb; 0 = none is set */
    uint64_t cache;     /* RocksDB's blocks */
    uint64_t memtables; /* what was written and is not in tables yet */
    uint64_t window;    /* recent commits, for conflicts; once more for prepared transactions */
    uint64_t queries;   /* all running ones and their results */
    uint64_t vectors;   /* indexes and what is built of them */
    uint64_t models;    /* weights, KV cells, buffers */
};

/* settings NULL: the defaults. A part that a setting names gets that. */
void memory_plan_make(struct memory_plan *out, const struct settings *s, uint64_t machine_bytes);
uint64_t memory_plan_sum(const struct memory_plan *p);
/* "block cache 256 MiB (block_cache_mb), ..." */
void memory_plan_print(const struct memory_plan *p, struct buf *out);

/*
 * ERR_INVALID when a budget is set and the parts need more. OK with *is_over when there is none and
 * they may take more than the machine has.
 */
MUST_CHECK enum errc memory_plan_check(const struct memory_plan *p, bool *is_over,
                                       struct error *err);

#endif
