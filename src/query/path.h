/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path -- ways between two vertices of a graph, found one after the other as
 * they are asked for.
 *
 *   PATH_SHORTEST      one way of fewest edges, or of least weight
 *   PATH_ALL_SHORTEST  every way of fewest edges
 *   PATH_K_SHORTEST    ways without a vertex twice, by rising weight
 *   PATH_K             ways without a vertex twice, of min to max edges
 *
 * Memory is the arena's, whose limit ends a search that grows too large.
 */
#ifndef QUERY_PATH_H
#define QUERY_PATH_H

#include "query/walk.h"

struct path {
    uint32_t length;    /* edges */
    uint32_t *vertices; /* length + 1 */
    uint32_t *edges;
    double weight;
};

struct path_search;

/* Borrows the graph; lives in the arena. source and target are vertices of the graph. */
MUST_CHECK enum errc path_search_new(struct path_search **out, struct walk_graph *g,
                                     struct arena *arena, uint32_t source, uint32_t target,
                                     struct error *err);
/* *has false when there are no more. The path lives until the next call. */
MUST_CHECK enum errc path_next(struct path_search *s, struct path *out, bool *has,
                               struct error *err);

#endif
