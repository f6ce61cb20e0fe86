/* SPDX-License-Identifier: Apache-2.0 */
/* path_private -- the kinds of search behind path_next. */
#ifndef QUERY_PATH_PRIVATE_H
#define QUERY_PATH_PRIVATE_H

#include "query/path.h"

struct path_kind {
    MUST_CHECK enum errc (*start)(struct path_search *s, struct error *err); /* may be NULL */
    MUST_CHECK enum errc (*next)(struct path_search *s, struct path *out, bool *has,
                                 struct error *err);
    size_t state_bytes;
};

struct path_search {
    const struct path_kind *kind;
    struct walk_graph *g;
    struct arena *arena;
    uint32_t source, target;
    void *state;
};

extern const struct path_kind path_meet, path_nearest, path_by_weight, path_by_length;

/* Room for count values, the old ones first, the rest zero. */
void *path_grown(struct arena *arena, const void *old, size_t count, size_t cap, size_t size);

/* An empty path with room for so many edges. */
struct path path_room(struct arena *arena, uint32_t length);

/* Edges of a vertex, read once. */
struct path_lists {
    struct walk_list **items; /* by vertex */
    uint32_t cap;
};
MUST_CHECK enum errc path_edges_of(struct path_search *s, struct path_lists *lists, uint32_t vertex,
                                   const struct walk_list **out, struct error *err);

/*
 * The way of least weight from one vertex to the target, without vertices and
 * edges that are marked. Kept to be used again; zeroed at first.
 */
struct nearest {
    struct path_lists lists;
    uint32_t round;
    struct near_vertex {
        uint32_t round;  /* of the rest; another one: not met yet */
        uint32_t banned; /* round in which the vertex may not be used */
        bool is_done;
        uint32_t from, edge;
        double weight;
    } * vertices;
    uint32_t vertex_cap;
    uint32_t *banned_edges; /* round, by edge */
    uint32_t edge_cap;
    struct near_entry {
        double weight;
        uint32_t vertex;
    } * heap;
    uint32_t heap_count, heap_cap;
};
void nearest_begin(struct nearest *n); /* a new round: nothing is banned */
void nearest_ban_vertex(struct path_search *s, struct nearest *n, uint32_t vertex);
void nearest_ban_edge(struct path_search *s, struct nearest *n, uint32_t edge);
MUST_CHECK enum errc nearest_find(struct path_search *s, struct nearest *n, uint32_t source,
                                  struct path *out, bool *has, struct error *err);

#endif
