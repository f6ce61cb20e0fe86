/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intern -- different strings, numbered from 0 in the order of their arrival.
 *
 * Lives in one arena, which takes what it outgrows until it is reset. One thread.
 */
#ifndef QUERY_INTERN_H
#define QUERY_INTERN_H

#include "base/arena.h"

struct intern {
    struct arena *arena; /* borrowed; set it, zero the rest */
    struct slice *items; /* by number */
    uint64_t *hashes;
    uint32_t *slots; /* number + 1 */
    uint32_t count, cap, slot_count;
};

enum { INTERN_NONE = UINT32_MAX };

/* Its number; a new string is copied. *is_new may be NULL. */
uint32_t intern_add(struct intern *in, struct slice text, bool *is_new);
/* Its number, or INTERN_NONE. */
uint32_t intern_find(const struct intern *in, struct slice text);

#endif
