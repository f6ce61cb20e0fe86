/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena -- memory of one request or query, freed in one call.
 *
 * One thread at a time. Small allocations never fail; the limit is a budget
 * that arena_check() reports and that arena_try() refuses to pass.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/base.h"
#include "base/error.h"

struct arena;

/* limit_bytes 0 = no limit. Returned to the caller, who must arena_free() it. */
struct arena *arena_new(size_t limit_bytes);
/*
 * One that is emptied by itself and counts against the limit of another: a check
 * of either looks at both, and at all further children. It counts by whole blocks,
 * free room included. The child is freed before its parent, by the same thread.
 */
struct arena *arena_child(struct arena *parent);
/*
 * What several arenas may take together, by whole blocks. Set before the first is charged to it; any
 * thread. Beyond it those that hold more than ARENA_BUDGET_FREE are refused as by their own limit.
 */
struct arena_budget {
    size_t limit_bytes; /* 0 = none */
    const char *name;   /* the setting, for the message */
    _Atomic size_t used_bytes;
};
enum { ARENA_BUDGET_FREE = MIB };
/* Before anything is allocated in it or a child. Borrows the budget until the arena is freed. */
void arena_charge(struct arena *arena, struct arena_budget *budget);

void arena_free(struct arena *arena); /* NULL is allowed */

/* 16-byte aligned, not zeroed; never NULL. */
void *arena_alloc(struct arena *arena, size_t bytes);
void *arena_zalloc(struct arena *arena, size_t bytes);
#define ARENA_NEW(arena, type) ((type *)arena_zalloc((arena), sizeof(type)))

/* For sizes that a client chooses: ERR_LIMIT instead of passing the budget. */
MUST_CHECK enum errc arena_try(struct arena *arena, size_t bytes, void **out, struct error *err);

/* ERR_LIMIT (errorNum 32) once the budget is passed. Cheap: ask once per batch of work. */
MUST_CHECK enum errc arena_check(const struct arena *arena, struct error *err);

/* Copies into the arena; the copy of a string is also terminated. */
struct slice arena_copy(struct arena *arena, struct slice bytes);
char *arena_printf(struct arena *arena, const char *fmt, ...) PRINTF_LIKE(2, 3);

size_t arena_used(const struct arena *arena); /* bytes handed out, without children */
size_t arena_peak(const struct arena *arena); /* with children; of a child: its own */

/* Forgets everything allocated after the mark (block granular, keeps the memory for reuse). */
struct arena_mark {
    void *block;
    size_t used;
    size_t total;
};
struct arena_mark arena_mark(const struct arena *arena);
void arena_rewind(struct arena *arena, struct arena_mark mark);
/* Forgets everything; NULL is allowed. */
void arena_reset(struct arena *arena);

#endif
