/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traversals and path searches: which edges they follow, and how. A named graph
 * is read when the query is planned.
 */
#include "query/planner.h"
#include "store/graph.h"

enum { DEPTH_MAX = INT32_MAX };

/* ---- edges ---- */

static enum errc add_source(struct planner *p, const struct ast *at, struct walk *w,
                            const struct collection *c, uint8_t direction)
{
    if (c->type != COLLECTION_EDGE)
        return plan_fail(p, at, 1218, "collection '%.*s' is not an edge collection",
                         SLICE_ARG(c->name));
    for (uint32_t i = 0; i < w->edge_count; i++) {
        if (w->edges[i].collection != c->id)
            continue;
        if (w->edges[i].direction == direction)
            return OK;
        return plan_fail(p, at, 1501, "conflicting directions specified for collection '%.*s'",
                         SLICE_ARG(c->name));
    }
    if (w->edge_count == WALK_EDGES_MAX)
        return plan_fail(p, at, 1522, "a traversal follows at most %d edge collections",
                         WALK_EDGES_MAX);
    w->edges[w->edge_count++] = (struct walk_source){ c->id, direction };
    return plan_check_access(p, at, c);
}

static enum errc anonymous_graph(struct planner *p, const struct ast *edges, struct walk *w)
{
    enum errc rc = OK;

    for (uint32_t i = 0; i < edges->count; i++) {
        const struct ast *e = edges->kids[i];
        const struct collection *c = NULL;
        TRY(plan_collection(p, e->kids[0], &c));
        TRY(add_source(p, e, w, c, e->op));
    }
out:
    return rc;
}

static enum errc graph_name(struct planner *p, const struct ast *n, struct slice *out)
{
    struct val v = n->val;
    enum errc rc = OK;

    *out = n->name;
    if (n->kind == AST_BIND || n->kind == AST_BIND_COLLECTION)
        rc = plan_bind_value(p, n, &v);
    if (rc != OK || n->kind == AST_NAME)
        return rc;
    if (val_type(v) != VAL_STRING)
        return plan_fail(p, n, 1553, "a graph's name must be a string");
    *out = val_string(v);
    return OK;
}

static enum errc named_graph(struct planner *p, const struct ast *n, uint8_t direction,
                             struct walk *w)
{
    const struct catalog *catalog = txn_catalog(p->env->txn);
    struct slice name;
    struct graph graph;
    enum errc rc = OK;

    TRY(graph_name(p, n->kids[0], &name));
    TRY(graph_get(p->env->txn, p->env->db_id, name, p->arena, &graph, p->err));
    for (size_t i = 0; i < graph.edge_count; i++) {
        const struct collection *c =
            catalog_collection(catalog, p->env->db_id, graph.edges[i].collection);
        if (!c)
            return plan_fail(p, n, 1203, "collection or view not found: %.*s",
                             SLICE_ARG(graph.edges[i].collection));
        TRY(add_source(p, n, w, c, direction));
    }
out:
    return rc;
}

static enum errc read_graph(struct planner *p, const struct ast *graph, uint8_t direction,
                            struct walk *w)
{
    w->edges = arena_alloc(p->arena, WALK_EDGES_MAX * sizeof *w->edges);
    if (graph->kind == AST_GRAPH)
        return named_graph(p, graph, direction, w);
    return anonymous_graph(p, graph, w);
}

/* ---- depth ---- */

static enum errc depth_number(struct planner *p, const struct ast *n, struct val v, uint32_t *out)
{
    double d = val_double(v);

    if (val_type(v) != VAL_NUMBER || d < 0 || d != (double)(int64_t)d)
        return plan_fail(p, n, 1501, "the depth of a traversal is a whole number from 0");
    *out = d > DEPTH_MAX ? DEPTH_MAX : (uint32_t)d;
    return OK;
}

static enum errc read_depth(struct planner *p, const struct ast *n, struct walk *w)
{
    struct val low, high;
    enum errc rc = OK;

    w->min = w->max = 1;
    if (!n)
        return OK;
    bool is_range = n->kind == AST_RANGE;
    TRY(plan_constant(p, is_range ? n->kids[0] : n, &low));
    TRY(plan_constant(p, is_range ? n->kids[1] : n, &high));
    TRY(depth_number(p, n, low, &w->min));
    TRY(depth_number(p, n, high, &w->max));
    if (w->min > w->max)
        return plan_fail(p, n, 1501, "the smallest depth is greater than the largest");
out:
    return rc;
}

/* ---- options ---- */

static enum errc bad_option(struct planner *p, const struct ast *at, const char *what)
{
    return plan_fail(p, at, 10, "%s", what);
}

static enum errc read_order(struct planner *p, const struct ast *at, struct val o, struct walk *w)
{
    struct val order = val_get(o, slice_str("order"));
    struct slice text = val_string(order);

    w->order = val_truth(val_get(o, slice_str("bfs"))) ? WALK_BFS : WALK_DFS;
    if (val_is_null(order))
        return OK;
    if (slice_is(text, "bfs"))
        w->order = WALK_BFS;
    else if (slice_is(text, "dfs"))
        w->order = WALK_DFS;
    else if (slice_is(text, "weighted"))
        w->order = WALK_WEIGHTED;
    else
        return bad_option(p, at, "the order of a traversal is bfs, dfs or weighted");
    return OK;
}

static enum errc read_unique(struct planner *p, const struct ast *at, struct val o, struct walk *w)
{
    struct val vertices = val_get(o, slice_str("uniqueVertices"));
    struct val edges = val_get(o, slice_str("uniqueEdges"));
    struct slice v = val_string(vertices), e = val_string(edges);

    if (slice_is(v, "path"))
        w->unique_vertices = WALK_UNIQUE_PATH;
    else if (slice_is(v, "global"))
        w->unique_vertices = WALK_UNIQUE_GLOBAL;
    else if (!val_is_null(vertices) && !slice_is(v, "none"))
        return bad_option(p, at, "uniqueVertices is none, path or global");
    if (w->unique_vertices == WALK_UNIQUE_GLOBAL && w->order == WALK_DFS)
        return bad_option(p, at,
                          "uniqueVertices: \"global\" needs the order bfs or weighted, since "
                          "depth first the result would be unpredictable");
    w->has_unique_edges = val_is_null(edges) || slice_is(e, "path");
    if (!val_is_null(edges) && !slice_is(e, "path") && !slice_is(e, "none"))
        return bad_option(p, at, "uniqueEdges is none or path");
    return OK;
}

static enum errc read_weight(struct planner *p, const struct ast *at, struct val o, struct walk *w)
{
    struct val attribute = val_get(o, slice_str("weightAttribute"));
    struct val otherwise = val_get(o, slice_str("defaultWeight"));

    w->default_weight = 1;
    if (!val_is_null(attribute) && val_type(attribute) != VAL_STRING)
        return bad_option(p, at, "weightAttribute is the name of an attribute");
    if (!val_is_null(otherwise) && val_type(otherwise) != VAL_NUMBER)
        return bad_option(p, at, "defaultWeight is a number");
    w->weight_attribute = val_string(attribute);
    if (!val_is_null(otherwise))
        w->default_weight = val_double(otherwise);
    if (w->default_weight < 0)
        return plan_fail(p, at, 1948, "negative edge weight found: the default is %g",
                         w->default_weight);
    return OK;
}

/* A name or an array of them. */
static enum errc read_names(struct planner *p, const struct ast *at, struct val v,
                            struct slice **out, uint32_t *count)
{
    size_t n = val_type(v) == VAL_ARRAY ? val_count(v) : val_type(v) == VAL_STRING;

    *out = arena_alloc(p->arena, (n + 1) * sizeof(**out));
    *count = 0;
    if (!val_is_null(v) && val_type(v) != VAL_ARRAY && val_type(v) != VAL_STRING)
        return bad_option(p, at, "collections are given by name or as an array of names");
    for (size_t i = 0; i < n; i++) {
        struct val one = val_type(v) == VAL_ARRAY ? val_at(v, i) : v;
        if (val_type(one) != VAL_STRING)
            return bad_option(p, at, "collections are given by name or as an array of names");
        (*out)[(*count)++] = val_string(one);
    }
    return OK;
}

static bool is_named(const struct slice *names, uint32_t count, struct slice name)
{
    for (uint32_t i = 0; i < count; i++)
        if (slice_eq(names[i], name))
            return true;
    return false;
}

static enum errc restrict_edges(struct planner *p, const struct ast *at, struct val o,
                                struct walk *w)
{
    const struct catalog *catalog = txn_catalog(p->env->txn);
    struct slice *names;
    uint32_t count, kept = 0;
    enum errc rc = read_names(p, at, val_get(o, slice_str("edgeCollections")), &names, &count);

    if (rc != OK || !count)
        return rc;
    for (uint32_t i = 0; i < w->edge_count; i++) {
        const struct collection *c = catalog_collection_by_id(catalog, w->edges[i].collection);
        if (c && is_named(names, count, c->name))
            w->edges[kept++] = w->edges[i];
    }
    w->edge_count = kept;
    return OK;
}

static enum errc traverse_options(struct planner *p, const struct ast *options, struct walk *w)
{
    static const char *const known[] = {
        "order",          "bfs",       "uniqueVertices", "uniqueEdges",     "edgeCollections",
        "maxProjections", "indexHint", "parallelism",    "weightAttribute", "vertexCollections",
        "defaultWeight",  "useCache",
    };
    struct val o;
    enum errc rc = OK;

    TRY(plan_options(p, options, known, ARRAY_LEN(known), &o));
    TRY(read_order(p, options, o, w));
    TRY(read_unique(p, options, o, w));
    TRY(read_weight(p, options, o, w));
    w->is_weighted = w->order == WALK_WEIGHTED;
    TRY(restrict_edges(p, options, o, w));
    rc = read_names(p, options, val_get(o, slice_str("vertexCollections")), &w->vertex_collections,
                    &w->vertex_collection_count);
out:
    return rc;
}

static enum errc path_options(struct planner *p, const struct ast *options, struct walk *w)
{
    static const char *const known[] = { "weightAttribute", "defaultWeight", "useCache" };
    struct val o;
    enum errc rc = OK;

    TRY(plan_options(p, options, known, ARRAY_LEN(known), &o));
    TRY(read_weight(p, options, o, w));
    bool takes_weight = w->kind == WALK_SHORTEST_PATH || w->kind == WALK_K_SHORTEST_PATHS;
    w->is_weighted = takes_weight && (w->weight_attribute.len || w->default_weight != 1);
out:
    return rc;
}

/* ---- nodes ---- */

static struct walk *new_walk(struct planner *p, enum walk_kind kind)
{
    struct walk *w = ARENA_NEW(p->arena, struct walk);

    w->kind = (uint8_t)kind;
    w->prune_reg = w->path_reg = NO_REG;
    w->default_weight = 1;
    return w;
}

static enum errc declare_step(struct planner *p, const struct ast *var, uint32_t *reg)
{
    if (p->loop_start == SIZE_MAX)
        p->loop_start = p->variable_count;
    return var ? plan_declare(p, var, reg) : OK;
}

static bool has_call(const struct node *last)
{
    for (const struct node *n = last; n; n = n->input)
        if (n->kind == NODE_CALL || has_call(n->sub))
            return true;
    return false;
}

/*
 * The condition is asked at every step: what is lifted out of it becomes a pipeline of
 * the node, which may not wait.
 */
static enum errc read_prune(struct planner *p, const struct ast *prune, struct node *node)
{
    struct inner in;
    struct expr *condition = NULL;

    if (!prune)
        return OK;
    plan_enter(p, &in);
    const struct node *first = plan_node(p, NODE_SINGLETON);
    enum errc rc = plan_expr(p, prune->kids[1], &condition);
    bool is_plain = p->last == first;
    if (rc == OK && !is_plain)
        plan_node(p, NODE_RETURN)->expr = condition;
    struct node *sub = plan_leave(p, &in);
    if (rc != OK)
        return rc;
    if (is_plain)
        node->walk->prune = condition;
    else
        node->sub = sub;
    if (has_call(node->sub))
        return plan_not_implemented(p, prune, "a model call in PRUNE");
    return prune->kids[0] ? plan_declare(p, prune->kids[0], &node->walk->prune_reg) : OK;
}

static struct node *walk_node(struct planner *p, enum node_kind kind, struct walk *w,
                              struct expr **exprs, uint32_t count)
{
    struct node *n = plan_node(p, kind);

    n->walk = w;
    n->exprs = exprs;
    n->expr_count = count;
    return n;
}

static enum errc plan_traverse(struct planner *p, const struct ast *n)
{
    struct walk *w = new_walk(p, WALK_TRAVERSE);
    struct expr **exprs = plan_expr_list(p, 1);
    enum errc rc = OK;

    TRY(plan_expr(p, n->kids[4], &exprs[0]));
    TRY(read_depth(p, n->kids[3], w));
    TRY(read_graph(p, n->kids[5], n->op, w));
    TRY(traverse_options(p, n->kids[7], w));
    struct node *node = walk_node(p, NODE_TRAVERSE, w, exprs, 1);
    TRY(declare_step(p, n->kids[0], &node->reg));
    TRY(declare_step(p, n->kids[1], &node->reg2));
    TRY(declare_step(p, n->kids[2], &w->path_reg));
    rc = read_prune(p, n->kids[6], node);
out:
    return rc;
}

static enum errc plan_shortest(struct planner *p, const struct ast *n)
{
    struct walk *w = new_walk(p, WALK_SHORTEST_PATH);
    struct expr **exprs = plan_expr_list(p, 2);
    enum errc rc = OK;

    TRY(plan_expr(p, n->kids[2], &exprs[0]));
    TRY(plan_expr(p, n->kids[3], &exprs[1]));
    TRY(read_graph(p, n->kids[4], n->op, w));
    TRY(path_options(p, n->kids[5], w));
    struct node *node = walk_node(p, NODE_PATHS, w, exprs, 2);
    TRY(declare_step(p, n->kids[0], &node->reg));
    rc = declare_step(p, n->kids[1], &node->reg2);
out:
    return rc;
}

/* Kinds that give whole paths; first: the start among the children. */
static enum errc plan_whole_paths(struct planner *p, const struct ast *n, enum walk_kind kind,
                                  uint32_t first)
{
    struct walk *w = new_walk(p, kind);
    struct expr **exprs = plan_expr_list(p, 2);
    enum errc rc = OK;

    TRY(plan_expr(p, n->kids[first], &exprs[0]));
    TRY(plan_expr(p, n->kids[first + 1], &exprs[1]));
    if (kind == WALK_K_PATHS)
        TRY(read_depth(p, n->kids[1], w));
    TRY(read_graph(p, n->kids[first + 2], n->op, w));
    TRY(path_options(p, n->kids[first + 3], w));
    walk_node(p, NODE_PATHS, w, exprs, 2);
    rc = declare_step(p, n->kids[0], &w->path_reg);
out:
    return rc;
}

enum errc plan_graph(struct planner *p, const struct ast *n)
{
    switch ((enum ast_kind)n->kind) {
    case AST_TRAVERSE:
        return plan_traverse(p, n);
    case AST_SHORTEST_PATH:
        return plan_shortest(p, n);
    case AST_ALL_SHORTEST_PATHS:
        return plan_whole_paths(p, n, WALK_ALL_SHORTEST_PATHS, 1);
    case AST_K_SHORTEST_PATHS:
        return plan_whole_paths(p, n, WALK_K_SHORTEST_PATHS, 1);
    case AST_K_PATHS:
        return plan_whole_paths(p, n, WALK_K_PATHS, 2);
    default:
        BUG("%s follows no edges", ast_kind_name((enum ast_kind)n->kind));
    }
}
