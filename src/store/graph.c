/* SPDX-License-Identifier: Apache-2.0 */
#include "store/graph.h"
#include <stdlib.h>

static const char collection_name[] = "_graphs";

static const struct collection *graphs(struct txn *t, uint64_t db_id)
{
    return catalog_collection(txn_catalog(t), db_id, slice_str(collection_name));
}

/* ---- reading a definition ---- */

static int compare_names(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

static size_t sort_names(struct slice *names, size_t count)
{
    size_t kept = 0;

    if (count)
        qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count; i++)
        if (!kept || !slice_eq(names[kept - 1], names[i]))
            names[kept++] = names[i];
    return kept;
}

/* Names of collections; false when it is no array of them. */
static bool read_names(struct val v, struct arena *arena, const struct slice **out, size_t *count)
{
    size_t n = val_count(v);
    struct slice *names = arena_alloc(arena, (n + 1) * sizeof *names);

    if (val_type(v) != VAL_ARRAY || n > GRAPH_VERTICES_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        names[i] = val_string(val_at(v, i));
        if (!names[i].len)
            return false;
    }
    *out = names;
    *count = sort_names(names, n);
    return true;
}

enum errc graph_parse_edges(struct val v, struct arena *arena, struct graph_edges *out,
                            struct error *err)
{
    *out = (struct graph_edges){ .collection = val_string(val_get(v, slice_str("collection"))) };
    if (val_type(v) == VAL_OBJECT && out->collection.len &&
        read_names(val_get(v, slice_str("from")), arena, &out->from, &out->from_count) &&
        read_names(val_get(v, slice_str("to")), arena, &out->to, &out->to_count) &&
        out->from_count && out->to_count)
        return OK;
    return fail_num(err, 1923,
                    "an edge definition is {collection: name, from: [names], to: "
                    "[names]}");
}

static enum errc read_edges(struct val v, struct arena *arena, struct graph *g, struct error *err)
{
    size_t n = val_count(v);

    if (!val_is_null(v) && (val_type(v) != VAL_ARRAY || n > GRAPH_EDGES_MAX))
        return fail_num(err, 1923, "edgeDefinitions is an array of at most %d", GRAPH_EDGES_MAX);
    g->edges = arena_alloc(arena, (n + 1) * sizeof *g->edges);
    for (size_t i = 0; i < n; i++) {
        struct graph_edges *e = &g->edges[i];
        enum errc rc = graph_parse_edges(val_at(v, i), arena, e, err);
        if (rc != OK)
            return rc;
        if (graph_find_edges(g, e->collection))
            return fail_num(err, 1920, "edge collection '%.*s' is used twice in the graph",
                            SLICE_ARG(e->collection));
        g->edge_count++;
    }
    return OK;
}

static bool is_joined(const struct graph *g, struct slice collection)
{
    for (size_t i = 0; i < g->edge_count; i++) {
        const struct graph_edges *e = &g->edges[i];
        if (bsearch(&collection, e->from, e->from_count, sizeof *e->from, compare_names) ||
            bsearch(&collection, e->to, e->to_count, sizeof *e->to, compare_names))
            return true;
    }
    return false;
}

static enum errc read_orphans(struct val v, struct arena *arena, struct graph *g, struct error *err)
{
    const struct slice *names = NULL;
    size_t count = 0;

    if (!val_is_null(v) && !read_names(v, arena, &names, &count))
        return fail_num(err, 1943, "orphanCollections is an array of at most %d names",
                        GRAPH_VERTICES_MAX);
    g->orphans = arena_alloc(arena, (count + 1) * sizeof *g->orphans);
    for (size_t i = 0; i < count; i++)
        if (!is_joined(g, names[i]))
            g->orphans[g->orphan_count++] = names[i];
    return OK;
}

static enum errc parse_parts(struct val v, struct arena *arena, struct graph *g, struct error *err)
{
    enum errc rc = read_edges(val_get(v, slice_str("edgeDefinitions")), arena, g, err);

    return rc == OK ? read_orphans(val_get(v, slice_str("orphanCollections")), arena, g, err) : rc;
}

enum errc graph_parse(struct val v, struct arena *arena, struct graph *out, struct error *err)
{
    *out = (struct graph){ .name = val_string(val_get(v, slice_str("name"))), .doc = val_null };
    if (!out->name.len)
        return fail_num(err, 1922, "a graph needs a name");
    if (!doc_key_is_legal(out->name))
        return fail_num(err, 1221, "'%.*s' cannot be the name of a graph", SLICE_ARG(out->name));
    return parse_parts(v, arena, out, err);
}

static enum errc parse_doc(struct val doc, struct arena *arena, struct graph *out,
                           struct error *err)
{
    *out = (struct graph){ .name = val_string(val_get(doc, slice_str("_key"))), .doc = doc };
    return parse_parts(doc, arena, out, err);
}

enum errc graph_get(struct txn *t, uint64_t db_id, struct slice name, struct arena *arena,
                    struct graph *out, struct error *err)
{
    const struct collection *c = graphs(t, db_id);
    struct val doc;
    enum errc rc =
        c && doc_key_is_legal(name) ? doc_get(t, c, name, arena, &doc, err) : ERR_NOT_FOUND;

    if (rc == ERR_NOT_FOUND)
        return fail_num(err, 1924, "graph '%.*s' not found", SLICE_ARG(name));
    return rc == OK ? parse_doc(doc, arena, out, err) : rc;
}

enum errc graph_list(struct txn *t, uint64_t db_id, struct arena *arena, struct graph **out,
                     size_t *count, struct error *err)
{
    const struct collection *c = graphs(t, db_id);
    struct doc_iter *it = NULL;
    struct val doc;
    uint64_t n = 0;
    enum errc rc = OK;

    *count = 0;
    *out = NULL;
    if (!c)
        return OK;
    TRY(doc_count(t, c, &n, err));
    *out = arena_alloc(arena, (n + 1) * sizeof(**out));
    TRY(doc_iter_new(&it, t, c, err));
    while (rc == OK && *count < n && doc_iter_next(it, &doc))
        rc = parse_doc(val_copy(arena, doc), arena, &(*out)[(*count)++], err);
    if (rc == OK)
        rc = doc_iter_check(it, err);
out:
    doc_iter_free(it);
    return rc;
}

/* ---- looking ---- */

static bool same_names(const struct slice *a, size_t a_count, const struct slice *b, size_t b_count)
{
    if (a_count != b_count)
        return false;
    for (size_t i = 0; i < a_count; i++)
        if (!slice_eq(a[i], b[i]))
            return false;
    return true;
}

bool graph_edges_equal(const struct graph_edges *a, const struct graph_edges *b)
{
    return slice_eq(a->collection, b->collection) &&
           same_names(a->from, a->from_count, b->from, b->from_count) &&
           same_names(a->to, a->to_count, b->to, b->to_count);
}

const struct graph_edges *graph_find_edges(const struct graph *g, struct slice collection)
{
    for (size_t i = 0; i < g->edge_count; i++)
        if (slice_eq(g->edges[i].collection, collection))
            return &g->edges[i];
    return NULL;
}

bool graph_is_orphan(const struct graph *g, struct slice collection)
{
    for (size_t i = 0; i < g->orphan_count; i++)
        if (slice_eq(g->orphans[i], collection))
            return true;
    return false;
}

bool graph_has_vertices(const struct graph *g, struct slice collection)
{
    return is_joined(g, collection) || graph_is_orphan(g, collection);
}

const struct slice *graph_vertices(const struct graph *g, struct arena *arena, size_t *count)
{
    size_t all = g->orphan_count, n = 0;

    for (size_t i = 0; i < g->edge_count; i++)
        all += g->edges[i].from_count + g->edges[i].to_count;
    struct slice *names = arena_alloc(arena, (all + 1) * sizeof *names);
    for (size_t i = 0; i < g->edge_count; i++) {
        for (size_t k = 0; k < g->edges[i].from_count; k++)
            names[n++] = g->edges[i].from[k];
        for (size_t k = 0; k < g->edges[i].to_count; k++)
            names[n++] = g->edges[i].to[k];
    }
    for (size_t i = 0; i < g->orphan_count; i++)
        names[n++] = g->orphans[i];
    *count = sort_names(names, n);
    return names;
}

/* ---- changing ---- */

/* Lists of its own, with room for one edge definition and so many orphans more. */
static void own_lists(struct graph *g, size_t orphans, struct arena *arena)
{
    struct graph_edges *edges = arena_alloc(arena, (g->edge_count + 1) * sizeof *edges);
    struct slice *names = arena_alloc(arena, (g->orphan_count + orphans + 1) * sizeof *names);

    if (g->edge_count)
        memcpy(edges, g->edges, g->edge_count * sizeof *edges);
    if (g->orphan_count)
        memcpy(names, g->orphans, g->orphan_count * sizeof *names);
    g->edges = edges;
    g->orphans = names;
}

/* Who lost the last edge definition is an orphan, who got one is none. */
static void settle_orphans(struct graph *g, const struct slice *before, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < g->orphan_count; i++)
        if (!is_joined(g, g->orphans[i]))
            g->orphans[kept++] = g->orphans[i];
    g->orphan_count = kept;
    for (size_t i = 0; i < count; i++)
        if (!graph_has_vertices(g, before[i]))
            g->orphans[g->orphan_count++] = before[i];
}

static struct graph_edges *edges_in(struct graph *g, struct slice collection)
{
    for (size_t i = 0; i < g->edge_count; i++)
        if (slice_eq(g->edges[i].collection, collection))
            return &g->edges[i];
    return NULL;
}

static enum errc no_edges(struct slice collection, struct error *err)
{
    return fail_num(err, 1930, "edge collection '%.*s' is not used in the graph",
                    SLICE_ARG(collection));
}

enum errc graph_add_edges(struct graph *g, const struct graph_edges *e, struct arena *arena,
                          struct error *err)
{
    if (graph_find_edges(g, e->collection))
        return fail_num(err, 1920, "edge collection '%.*s' is in the graph already",
                        SLICE_ARG(e->collection));
    if (g->edge_count == GRAPH_EDGES_MAX)
        return fail_num(err, 1923, "a graph has at most %d edge definitions", GRAPH_EDGES_MAX);
    own_lists(g, 0, arena);
    g->edges[g->edge_count++] = *e;
    settle_orphans(g, NULL, 0);
    return OK;
}

enum errc graph_replace_edges(struct graph *g, const struct graph_edges *e, struct arena *arena,
                              struct error *err)
{
    size_t count;
    const struct slice *before = graph_vertices(g, arena, &count);

    if (!graph_find_edges(g, e->collection))
        return no_edges(e->collection, err);
    own_lists(g, count, arena);
    *edges_in(g, e->collection) = *e;
    settle_orphans(g, before, count);
    return OK;
}

enum errc graph_remove_edges(struct graph *g, struct slice collection, struct arena *arena,
                             struct error *err)
{
    size_t count;
    const struct slice *before = graph_vertices(g, arena, &count);

    if (!graph_find_edges(g, collection))
        return no_edges(collection, err);
    own_lists(g, count, arena);
    struct graph_edges *gone = edges_in(g, collection), *end = g->edges + g->edge_count--;
    memmove(gone, gone + 1, (size_t)(end - gone - 1) * sizeof *gone);
    settle_orphans(g, before, count);
    return OK;
}

enum errc graph_add_orphan(struct graph *g, struct slice collection, struct arena *arena,
                           struct error *err)
{
    if (graph_is_orphan(g, collection))
        return fail_num(err, 1938, "collection '%.*s' is in the graph already",
                        SLICE_ARG(collection));
    if (graph_has_vertices(g, collection))
        return fail_num(err, 1929, "collection '%.*s' is used in an edge definition",
                        SLICE_ARG(collection));
    if (g->orphan_count == GRAPH_VERTICES_MAX)
        return fail_num(err, 1943, "a graph has at most %d orphan collections", GRAPH_VERTICES_MAX);
    own_lists(g, 1, arena);
    g->orphans[g->orphan_count++] = collection;
    return OK;
}

enum errc graph_remove_orphan(struct graph *g, struct slice collection, struct arena *arena,
                              struct error *err)
{
    size_t kept = 0;

    if (!graph_has_vertices(g, collection))
        return fail_num(err, 1926, "vertex collection '%.*s' is not part of the graph",
                        SLICE_ARG(collection));
    if (!graph_is_orphan(g, collection))
        return fail_num(err, 1928, "collection '%.*s' is used in an edge definition",
                        SLICE_ARG(collection));
    own_lists(g, 0, arena);
    for (size_t i = 0; i < g->orphan_count; i++)
        if (!slice_eq(g->orphans[i], collection))
            g->orphans[kept++] = g->orphans[i];
    g->orphan_count = kept;
    return OK;
}

/* ---- writing ---- */

static void put_names(struct val_builder *b, const char *name, const struct slice *names,
                      size_t count)
{
    val_put_name(b, slice_str(name));
    val_open_array(b);
    for (size_t i = 0; i < count; i++)
        val_put_string(b, names[i]);
    val_close(b);
}

static enum errc make_doc(const struct graph *g, struct arena *arena, struct val *out,
                          struct error *err)
{
    struct val_builder *b = val_builder_new(0);

    val_open_object(b);
    val_put_name(b, slice_str("_key"));
    val_put_string(b, g->name);
    val_put_name(b, slice_str("edgeDefinitions"));
    val_open_array(b);
    for (size_t i = 0; i < g->edge_count; i++) {
        val_open_object(b);
        val_put_name(b, slice_str("collection"));
        val_put_string(b, g->edges[i].collection);
        put_names(b, "from", g->edges[i].from, g->edges[i].from_count);
        put_names(b, "to", g->edges[i].to, g->edges[i].to_count);
        val_close(b);
    }
    val_close(b);
    put_names(b, "orphanCollections", g->orphans, g->orphan_count);
    val_close(b);
    enum errc rc = val_finish_in(b, arena, out, err);
    val_builder_free(b);
    return rc;
}

enum errc graph_save(struct txn *t, uint64_t db_id, struct graph *g, bool is_new,
                     struct arena *arena, struct error *err)
{
    const struct collection *c = graphs(t, db_id);
    struct doc_options opt = { .overwrite = OVERWRITE_CONFLICT };
    struct doc_change change;
    struct val doc;
    enum errc rc = OK;

    if (!c)
        return fail_num(err, 1932, "collection _graphs does not exist");
    TRY(make_doc(g, arena, &doc, err));
    if (is_new) {
        rc = doc_insert(t, c, doc, &opt, arena, &change, err);
        if (rc == ERR_EXISTS)
            return fail_num(err, 1925, "graph '%.*s' exists already", SLICE_ARG(g->name));
    } else {
        rc = doc_replace(t, c, g->name, doc, &opt, arena, &change, err);
    }
    if (rc == OK)
        g->doc = change.new_doc;
out:
    return rc;
}

enum errc graph_remove(struct txn *t, uint64_t db_id, struct slice name, struct arena *arena,
                       struct error *err)
{
    const struct collection *c = graphs(t, db_id);
    struct doc_options opt = { .overwrite = OVERWRITE_CONFLICT };
    struct doc_change change;
    enum errc rc = c ? doc_remove(t, c, name, &opt, arena, &change, err) : ERR_NOT_FOUND;

    if (rc == ERR_NOT_FOUND)
        return fail_num(err, 1924, "graph '%.*s' not found", SLICE_ARG(name));
    return rc;
}

enum errc graph_prepare(struct store *s, uint64_t db_id, struct error *err)
{
    struct collection_options opt = { .name = slice_str(collection_name),
                                      .type = COLLECTION_DOCUMENT,
                                      .allow_user_keys = true };
    struct error own = { 0 };
    struct txn *t = NULL;
    uint64_t id;
    enum errc rc = txn_begin(&t, s, &(struct txn_options){ .is_read_only = true }, err);

    bool is_there = rc == OK && graphs(t, db_id);
    txn_end(t);
    if (rc != OK || is_there)
        return rc;
    rc = store_create_collection(s, db_id, &opt, &id, &own);
    if (rc != OK && rc != ERR_EXISTS)
        *err = own;
    return rc == ERR_EXISTS ? OK : rc;
}
