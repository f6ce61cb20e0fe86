/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph -- named graphs: which edge collections join which vertex collections.
 * A graph is a document of the system collection _graphs, in ArangoDB's shape:
 * {_key: name, edgeDefinitions: [{collection, from: [], to: []}],
 * orphanCollections: []}. The collections themselves know nothing of it.
 *
 * Worker threads only.
 */
#ifndef STORE_GRAPH_H
#define STORE_GRAPH_H

#include "store/doc.h"

enum { GRAPH_EDGES_MAX = 256, GRAPH_VERTICES_MAX = 1024 };

struct graph_edges {
    struct slice collection;
    const struct slice *from, *to; /* vertex collections, sorted, none twice */
    size_t from_count, to_count;
};

struct graph {
    struct slice name;
    struct graph_edges *edges;
    size_t edge_count;
    struct slice *orphans; /* vertex collections of no edge definition */
    size_t orphan_count;
    struct val doc; /* as stored; val_null when it was not read */
};

/* All of it lives in the arena. 1924 when there is none of that name. */
MUST_CHECK enum errc graph_get(struct txn *t, uint64_t db_id, struct slice name,
                               struct arena *arena, struct graph *out, struct error *err);

/* Every graph of the database. Lives in the arena. */
MUST_CHECK enum errc graph_list(struct txn *t, uint64_t db_id, struct arena *arena,
                                struct graph **out, size_t *count, struct error *err);

/*
 * Reads members name, edgeDefinitions and orphanCollections; borrows v. Errors:
 * 1922 no name, 1221 a bad one, 1923 edge definitions, 1943 orphans, 1920 an edge collection
 * twice. An orphan that an edge definition names is left out.
 */
MUST_CHECK enum errc graph_parse(struct val v, struct arena *arena, struct graph *out,
                                 struct error *err);
/* One edge definition {collection, from, to}: 1923. */
MUST_CHECK enum errc graph_parse_edges(struct val v, struct arena *arena, struct graph_edges *out,
                                       struct error *err);

/* Same edge collection, same vertex collections. */
bool graph_edges_equal(const struct graph_edges *a, const struct graph_edges *b);
const struct graph_edges *graph_find_edges(const struct graph *g, struct slice collection);
/* Named by an edge definition, or an orphan. */
bool graph_has_vertices(const struct graph *g, struct slice collection);
bool graph_is_orphan(const struct graph *g, struct slice collection);

/* Vertex collections, orphans included, sorted; in the arena. */
const struct slice *graph_vertices(const struct graph *g, struct arena *arena, size_t *count);

/*
 * Changes of a definition in memory; new lists live in the arena. Vertex collections
 * that lose their last edge definition become orphans. Errors: 1920 the edge
 * collection is there, 1930 it is not, 1938 and 1929 the vertex collection is there
 * (as an orphan, by an edge definition), 1926 it is not, 1928 it is no orphan.
 */
MUST_CHECK enum errc graph_add_edges(struct graph *g, const struct graph_edges *e,
                                     struct arena *arena, struct error *err);
MUST_CHECK enum errc graph_replace_edges(struct graph *g, const struct graph_edges *e,
                                         struct arena *arena, struct error *err);
MUST_CHECK enum errc graph_remove_edges(struct graph *g, struct slice collection,
                                        struct arena *arena, struct error *err);
MUST_CHECK enum errc graph_add_orphan(struct graph *g, struct slice collection, struct arena *arena,
                                      struct error *err);
MUST_CHECK enum errc graph_remove_orphan(struct graph *g, struct slice collection,
                                         struct arena *arena, struct error *err);

/*
 * Writes the definition: new (1925 when the name is taken) or in place of the old
 * one. The collection _graphs must exist: graph_prepare. g->doc is what was written.
 */
MUST_CHECK enum errc graph_save(struct txn *t, uint64_t db_id, struct graph *g, bool is_new,
                                struct arena *arena, struct error *err);
MUST_CHECK enum errc graph_remove(struct txn *t, uint64_t db_id, struct slice name,
                                  struct arena *arena, struct error *err);

/* Creates _graphs when it is missing; a change of the catalog of its own. */
MUST_CHECK enum errc graph_prepare(struct store *s, uint64_t db_id, struct error *err);

#endif
