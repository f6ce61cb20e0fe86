/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_call -- one request about a named graph: finding it, changing its
 * definition, and ArangoDB's shape of it.
 *
 * Worker threads. A call belongs to its request.
 */
#ifndef SERVER_GRAPH_CALL_H
#define SERVER_GRAPH_CALL_H

#include "server/reply.h"
#include "store/graph.h"

struct graph_call {
    struct request *r;
    struct txn *t;
    uint64_t db_id;
    struct slice name; /* of the graph */
    struct val body;   /* of the request */
    struct graph g;
    struct graph *all; /* every graph of the database */
    size_t all_count;
    bool saves; /* graph_call_change: this pass of edit is the one that is written */
};

/* Begins a transaction and reads all graphs. Ends with graph_call_end. */
MUST_CHECK enum errc graph_call_begin(struct graph_call *c, bool is_read_only, struct error *err);
/* The graph of that name into c->g: 1924. */
MUST_CHECK enum errc graph_call_find(struct graph_call *c, struct error *err);
void graph_call_end(struct graph_call *c);

/*
 * Changes c->g, which is the stored graph (or nothing when it is to be made), in
 * the request's arena. Called more than once: it depends on the call only.
 */
typedef enum errc (*graph_edit)(struct graph_call *c, struct error *err);

/*
 * Edits, creates the collections that the graph needs and lacks, and saves; tries
 * again after a conflict. Errors: 1921 an edge collection that another graph
 * defines differently, 1944, 1927 wrong types of collections, those of edit.
 */
MUST_CHECK enum errc graph_call_change(struct graph_call *c, bool is_new, graph_edit edit,
                                       struct error *err);

/* Drops the collections that no graph uses; with all of them read by graph_call_begin. */
MUST_CHECK enum errc graph_call_drop(struct graph_call *c, const struct slice *names, size_t count,
                                     struct error *err);

/* {_id, _key, _rev, name, edgeDefinitions, orphanCollections} */
struct val graph_call_shape(struct graph_call *c, const struct graph *g);

#endif
