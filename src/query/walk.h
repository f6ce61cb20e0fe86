/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk -- the graph under a traversal or a path search: its vertices and edges
 * as numbers, given when they are first met, so that paths are small and
 * comparing them is cheap. Hides edge indexes, weights, restrictions and which
 * documents are loaded.
 *
 * Belongs to one operator. Numbers live until walk_close; documents until the
 * next walk_trim.
 */
#ifndef QUERY_WALK_H
#define QUERY_WALK_H

#include "query/exec.h"
#include "query/intern.h"

enum { WALK_NONE = UINT32_MAX };

/* An edge and the vertex at its other end. */
struct walk_step {
    uint32_t edge, vertex;
    double weight;
};

struct walk_docs {
    struct val *items; /* by number; NULL inside: not loaded */
    uint32_t cap;
};

struct walk_edges { /* an edge collection in hand */
    const struct collection *collection;
    uint8_t direction; /* enum ast_direction */
};

struct walk_graph {
    struct exec *x;
    const struct walk *w;
    struct arena *arena;  /* numbers; borrowed */
    struct arena *loaded; /* documents; owned */
    struct walk_edges *collections;
    struct intern vertices, edges;
    struct walk_docs vertex_docs, edge_docs;
    unsigned since_poll;
};

MUST_CHECK enum errc walk_open(struct walk_graph *g, struct exec *x, const struct walk *w,
                               struct arena *arena, struct error *err);
void walk_close(struct walk_graph *g); /* zeroes are allowed */

/*
 * The vertex that a start or target value names: an _id or an object with one.
 * WALK_NONE with a warning for other values, without one when it does not exist.
 */
MUST_CHECK enum errc walk_vertex(struct walk_graph *g, struct val v, uint32_t *out,
                                 struct error *err);

/* Edges of one vertex. One that is not finished holds an iterator: close it. */
struct walk_iter {
    struct walk_graph *g;
    struct index_iter *edges;
    uint32_t vertex, at; /* at: collection in hand */
    bool is_backward;
};
void walk_iter_init(struct walk_iter *it, struct walk_graph *g, uint32_t vertex, bool is_backward);
/* *has false at the end. Edges to vertices outside the restriction are passed over; 1948. */
MUST_CHECK enum errc walk_iter_next(struct walk_iter *it, struct walk_step *out, bool *has,
                                    struct error *err);
void walk_iter_close(struct walk_iter *it);

/* All edges of one vertex, in arena. */
struct walk_list {
    struct walk_step *items;
    uint32_t count, cap;
};
void walk_list_add(struct walk_list *l, struct arena *arena, struct walk_step s);
MUST_CHECK enum errc walk_neighbours(struct walk_graph *g, uint32_t vertex, bool is_backward,
                                     struct arena *arena, struct walk_list *out, struct error *err);

/* The document, or null (with a warning 1202 for a vertex) when there is none. */
MUST_CHECK enum errc walk_vertex_doc(struct walk_graph *g, uint32_t vertex, struct val *out,
                                     struct error *err);
MUST_CHECK enum errc walk_edge_doc(struct walk_graph *g, uint32_t edge, struct val *out,
                                   struct error *err);
/* Forgets documents when they have become many; those given before are gone then. */
void walk_trim(struct walk_graph *g);

#endif
