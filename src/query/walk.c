/* SPDX-License-Identifier: Apache-2.0 */
/* An edge is named by the place of its collection in the plan and its key. */
#include "query/walk.h"
#include <stdio.h>

enum { LOADED_MAX = 8 * MIB, POLL_STEPS = 64, PLACE_BYTES = 2 };

enum errc walk_open(struct walk_graph *g, struct exec *x, const struct walk *w, struct arena *arena,
                    struct error *err)
{
    const struct catalog *catalog = txn_catalog(x->txn);

    *g = (struct walk_graph){ .x = x, .w = w, .arena = arena, .loaded = arena_child(x->arena) };
    g->vertices.arena = g->edges.arena = arena;
    g->collections = arena_alloc(arena, (w->edge_count + 1) * sizeof *g->collections);
    for (uint32_t i = 0; i < w->edge_count; i++) {
        g->collections[i].direction = w->edges[i].direction;
        g->collections[i].collection = catalog_collection_by_id(catalog, w->edges[i].collection);
        if (!g->collections[i].collection)
            return fail_num(err, 1203, "an edge collection does not exist any more");
    }
    return OK;
}

void walk_close(struct walk_graph *g)
{
    arena_free(g->loaded);
    g->loaded = NULL;
}

/* ---- documents ---- */

static enum errc load(struct walk_graph *g, const struct collection *c, struct slice key,
                      struct val *out, struct error *err)
{
    enum errc rc = c ? doc_get(g->x->txn, c, key, g->loaded, out, NULL) : ERR_NOT_FOUND;

    g->x->stats->document_lookups++;
    if (rc == OK)
        return OK;
    *out = val_null;
    if (rc == ERR_NOT_FOUND)
        return OK;
    return doc_get(g->x->txn, c, key, g->loaded, out, err); /* for the message */
}

static struct val *doc_place(struct walk_graph *g, struct walk_docs *d, uint32_t number)
{
    if (number >= d->cap) {
        uint32_t cap = number * 2 + 64;
        struct val *items = arena_zalloc(g->arena, cap * sizeof *items);
        if (d->cap)
            memcpy(items, d->items, d->cap * sizeof *items);
        d->items = items;
        d->cap = cap;
    }
    return &d->items[number];
}

static const struct collection *collection_of(struct walk_graph *g, struct slice id,
                                              struct slice *key)
{
    struct slice name;

    if (!doc_split_id(id, &name, key))
        return NULL;
    return catalog_collection(txn_catalog(g->x->txn), g->x->env.db_id, name);
}

static void warn_missing(struct walk_graph *g, struct slice id)
{
    char text[LIMIT_NAME_BYTES + LIMIT_KEY_BYTES + 40];

    snprintf(text, sizeof text, "document not found: vertex %.*s", SLICE_ARG(id));
    if (g->x->env.warn)
        g->x->env.warn(g->x->env.warn_ctx, 1202, text);
}

enum errc walk_vertex_doc(struct walk_graph *g, uint32_t vertex, struct val *out, struct error *err)
{
    struct val *place = doc_place(g, &g->vertex_docs, vertex);
    struct slice id = g->vertices.items[vertex], key = id;
    enum errc rc = OK;

    if (!place->at) {
        rc = load(g, collection_of(g, id, &key), key, place, err);
        if (rc == OK && val_is_null(*place))
            warn_missing(g, id);
    }
    *out = *place;
    return rc;
}

static const struct walk_edges *edges_of(const struct walk_graph *g, uint32_t edge,
                                         struct slice *key)
{
    struct slice name = g->edges.items[edge];
    uint32_t place = (uint32_t)(uint8_t)name.ptr[0] << 8 | (uint8_t)name.ptr[1];

    *key = slice_of(name.ptr + PLACE_BYTES, name.len - PLACE_BYTES);
    return &g->collections[place];
}

enum errc walk_edge_doc(struct walk_graph *g, uint32_t edge, struct val *out, struct error *err)
{
    enum errc rc = OK;
    struct slice key;

    *out = val_null;
    if (edge == WALK_NONE)
        return OK;
    struct val *place = doc_place(g, &g->edge_docs, edge);
    if (!place->at) {
        const struct walk_edges *e = edges_of(g, edge, &key);
        rc = load(g, e->collection, key, place, err);
    }
    *out = *place;
    return rc;
}

void walk_trim(struct walk_graph *g)
{
    if (arena_used(g->loaded) < LOADED_MAX)
        return;
    arena_reset(g->loaded);
    if (g->vertex_docs.cap)
        memset(g->vertex_docs.items, 0, g->vertex_docs.cap * sizeof *g->vertex_docs.items);
    if (g->edge_docs.cap)
        memset(g->edge_docs.items, 0, g->edge_docs.cap * sizeof *g->edge_docs.items);
}

enum errc walk_vertex(struct walk_graph *g, struct val v, uint32_t *out, struct error *err)
{
    struct val id = val_type(v) == VAL_OBJECT ? val_get(v, slice_str("_id")) : v, doc;
    struct slice name, key;

    *out = WALK_NONE;
    if (val_type(id) != VAL_STRING || !doc_split_id(val_string(id), &name, &key)) {
        if (g->x->env.warn)
            g->x->env.warn(g->x->env.warn_ctx, 10,
                           "a vertex is named by its _id or by an object with one");
        return OK;
    }
    enum errc rc = load(g, collection_of(g, val_string(id), &key), key, &doc, err);
    if (rc == OK && !val_is_null(doc))
        *out = intern_add(&g->vertices, val_string(id), NULL);
    if (rc == OK && *out != WALK_NONE)
        *doc_place(g, &g->vertex_docs, *out) = doc;
    return rc;
}

/* ---- edges ---- */

void walk_iter_init(struct walk_iter *it, struct walk_graph *g, uint32_t vertex, bool is_backward)
{
    *it = (struct walk_iter){ .g = g, .vertex = vertex, .is_backward = is_backward };
}

void walk_iter_close(struct walk_iter *it)
{
    index_iter_free(it->edges);
    it->edges = NULL;
}

static enum edge_direction side(uint8_t direction, bool is_backward)
{
    if (direction == AST_ANY)
        return EDGE_ANY;
    return (direction == AST_OUTBOUND) != is_backward ? EDGE_OUTBOUND : EDGE_INBOUND;
}

static bool is_allowed(const struct walk_graph *g, struct slice id)
{
    const struct walk *w = g->w;
    struct slice name, key;

    if (!w->vertex_collection_count || !doc_split_id(id, &name, &key))
        return !w->vertex_collection_count;
    for (uint32_t i = 0; i < w->vertex_collection_count; i++)
        if (slice_eq(w->vertex_collections[i], name))
            return true;
    return false;
}

static uint32_t edge_number(struct walk_graph *g, uint32_t place, struct slice key)
{
    char name[PLACE_BYTES + LIMIT_KEY_BYTES + 1];

    if (key.len > LIMIT_KEY_BYTES)
        BUG("a key of %zu bytes", key.len);
    name[0] = (char)(place >> 8);
    name[1] = (char)place;
    memcpy(name + PLACE_BYTES, key.ptr, key.len);
    return intern_add(&g->edges, slice_of(name, PLACE_BYTES + key.len), NULL);
}

static enum errc weigh(struct walk_graph *g, struct walk_step *s, struct error *err)
{
    struct val doc;

    s->weight = g->w->is_weighted ? g->w->default_weight : 1;
    if (!g->w->is_weighted || !g->w->weight_attribute.len)
        return OK;
    enum errc rc = walk_edge_doc(g, s->edge, &doc, err);
    struct val v = rc == OK ? val_get(doc, g->w->weight_attribute) : val_null;
    if (val_type(v) == VAL_NUMBER)
        s->weight = val_double(v);
    if (rc == OK && s->weight < 0)
        return fail_num(err, 1948, "negative edge weight found: %g", s->weight);
    return rc;
}

enum errc walk_iter_next(struct walk_iter *it, struct walk_step *out, bool *has, struct error *err)
{
    struct walk_graph *g = it->g;
    struct slice key;
    enum errc rc = OK;

    for (*has = false;;) {
        if (++g->since_poll % POLL_STEPS == 0)
            TRY(exec_poll(g->x, err));
        if (!it->edges) {
            if (it->at == g->w->edge_count)
                return OK;
            const struct walk_edges *e = &g->collections[it->at];
            TRY(index_scan_edges(&it->edges, g->x->txn, e->collection,
                                 g->vertices.items[it->vertex], side(e->direction, it->is_backward),
                                 err));
        }
        if (!index_iter_next(it->edges, &key)) {
            rc = index_iter_check(it->edges, err);
            walk_iter_close(it);
            it->at++;
            if (rc != OK)
                return rc;
            continue;
        }
        g->x->stats->scanned_index++;
        struct slice other = index_iter_vertex(it->edges);
        if (!is_allowed(g, other))
            continue;
        out->vertex = intern_add(&g->vertices, other, NULL);
        out->edge = edge_number(g, it->at, key);
        *has = true;
        return weigh(g, out, err);
    }
out:
    return rc;
}

void walk_list_add(struct walk_list *l, struct arena *arena, struct walk_step s)
{
    if (l->count == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 8;
        struct walk_step *items = arena_alloc(arena, cap * sizeof *items);
        if (l->count)
            memcpy(items, l->items, l->count * sizeof *items);
        l->items = items;
        l->cap = cap;
    }
    l->items[l->count++] = s;
}

enum errc walk_neighbours(struct walk_graph *g, uint32_t vertex, bool is_backward,
                          struct arena *arena, struct walk_list *out, struct error *err)
{
    struct walk_iter it;
    struct walk_step s;
    bool has = true;
    enum errc rc = OK;

    *out = (struct walk_list){ 0 };
    walk_iter_init(&it, g, vertex, is_backward);
    while (rc == OK && has) {
        rc = walk_iter_next(&it, &s, &has, err);
        if (rc == OK && has)
            walk_list_add(out, arena, s);
        walk_trim(g);
    }
    walk_iter_close(&it);
    return rc;
}
