/* SPDX-License-Identifier: Apache-2.0 */
/* plan_parts -- what nodes of one kind have beside what all nodes have. */
#ifndef QUERY_PLAN_PARTS_H
#define QUERY_PLAN_PARTS_H

#include "query/expr.h"

/*
 * How an index finds documents: equal on its first fields, then one of a list or
 * a range. Of the primary index, values are keys or _ids.
 */
struct access {
    uint64_t index; /* 0: the primary one */
    struct expr **equal;
    uint32_t equal_count;
    struct expr *in; /* array: each of its values for the next field; or NULL */
    struct expr *lower, *upper;
    bool lower_included, upper_included;
    uint8_t geo;   /* enum access_geo: of a geo index equal[0] is a place */
    uint64_t near; /* ACCESS_NEAR: so many documents are enough */
};
enum access_geo {
    ACCESS_PLAIN,
    ACCESS_WITHIN, /* with a centroid as far as upper, or nearer; or without a place */
    ACCESS_MEETS,  /* with a point in common */
    ACCESS_NEAR,   /* the nearest ones */
};

/* An attribute of the document, names from the outside in, and the register it goes to. */
struct projection {
    uint32_t reg;
    uint32_t count;
    struct slice *names;
    uint32_t *hashes;
    uint8_t source;      /* in the entry of a covering index, see below */
    uint8_t source_skip; /* so many of the names lead to the value found there */
};
/* Below SOURCE_STORED: a field of the index, from there on its stored values. */
enum { SOURCE_STORED = 64, SOURCE_ID = 253, SOURCE_KEY = 254, SOURCE_NONE = 255 };

enum { PROJECTIONS_MAX = 32, ACCESSES_MAX = 64 };

/* Reading documents of a collection, for the nodes that do. */
struct scan {
    struct access *accesses; /* NODE_INDEX: one, or several whose documents are joined */
    uint32_t access_count;
    bool is_reverse;       /* NODE_INDEX */
    bool sees_writes;      /* reads the newest state (planner only) */
    uint64_t skip;         /* the first documents are passed over; nothing is tested then */
    struct expr **filters; /* tested on the stored document; when covering, on registers */
    uint32_t filter_count;
    bool projects;    /* only these attributes go to registers, the document does not */
    bool is_covering; /* the index's entries have them all: documents are not read */
    struct projection *projections;
    uint32_t projection_count;
};

struct write_options {
    uint8_t overwrite; /* enum overwrite_mode */
    bool drop_nulls, replace_objects, check_rev, ignore_errors, is_replace;
    bool waits_for_sync, is_exclusive;
    bool reads_start;               /* UPSERT searches what was there when the query began */
    bool needs_old, needs_new;      /* somebody looks at the register */
    struct slice version_attribute; /* or empty */
};

struct aggregate {
    uint8_t kind; /* row of the table in aggregate.c */
    uint32_t reg;
    struct expr *expr;
};

/* Registers that COLLECT gives. */
struct collect {
    uint32_t *regs; /* of the keys, as many as the node has exprs */
    bool is_sorted; /* rows come group by group, in the order of the keys */
    bool is_hash;   /* they may not be made to (planner only) */
    struct aggregate *aggregates;
    uint32_t aggregate_count;
    uint32_t count_reg, into_reg; /* or NO_REG */
    struct expr *into_expr;
    struct slice *keep_names; /* without into_expr: members of a group's element */
    uint32_t *keep_regs;
    uint32_t keep_count;
};

/*
 * Aggregates over the rows around each row: so many before and behind it, or those
 * whose value lies between lower and upper, both of which see the node's register.
 */
struct window {
    int64_t preceding, following; /* WINDOW_ALL: up to the first or last row */
    struct expr *lower, *upper;   /* NULL: by rows */
    bool is_date;                 /* the value is milliseconds since 1970 */
    struct aggregate *aggregates;
    uint32_t aggregate_count;
};
#define WINDOW_ALL INT64_MAX

enum walk_kind {
    WALK_TRAVERSE,
    WALK_SHORTEST_PATH,
    WALK_ALL_SHORTEST_PATHS,
    WALK_K_SHORTEST_PATHS,
    WALK_K_PATHS,
};
enum walk_order { WALK_DFS, WALK_BFS, WALK_WEIGHTED };
enum walk_unique { WALK_UNIQUE_NONE, WALK_UNIQUE_PATH, WALK_UNIQUE_GLOBAL };

struct walk_source {
    uint64_t collection; /* of edges */
    uint8_t direction;   /* enum ast_direction */
};

enum { WALK_EDGES_MAX = 256 };

/* Following edges, for NODE_TRAVERSE and NODE_PATHS. */
struct walk {
    uint8_t kind;            /* enum walk_kind */
    uint8_t order;           /* enum walk_order */
    uint8_t unique_vertices; /* enum walk_unique */
    bool has_unique_edges;   /* on one path */
    bool is_weighted;
    uint32_t min, max; /* edges of a path */
    struct walk_source *edges;
    uint32_t edge_count;
    struct slice *vertex_collections; /* names; none: all */
    uint32_t vertex_collection_count;
    struct slice weight_attribute; /* or empty */
    double default_weight;
    struct expr *prune; /* or NULL; sees the registers of the step */
    uint32_t prune_reg, path_reg;
};

#endif
