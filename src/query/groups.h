/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups -- a hash table from lists of values to what is collected under them,
 * in the order of arrival. One thread; everything lives in one arena.
 */
#ifndef QUERY_GROUPS_H
#define QUERY_GROUPS_H

#include "base/arena.h"
#include "base/val.h"

struct group {
    struct val *keys;
    uint64_t hash;
    struct group *next; /* in the order of arrival */
};

struct groups {
    struct arena *arena; /* borrowed */
    size_t key_count;
    size_t group_bytes; /* of a struct that begins with a struct group; zeroed when made */
    struct group **slots;
    size_t slot_count, count;
    struct group *first, *last;
};

/* The group of the keys; a new one copies them. */
struct group *groups_add(struct groups *g, const struct val *keys, bool *is_new);
/* Its first group, or NULL. */
struct group *groups_find(const struct groups *g, const struct val *keys);

#endif
