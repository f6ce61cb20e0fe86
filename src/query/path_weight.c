/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Least weight: Dijkstra's algorithm. Many ways by rising weight: Yen's, which
 * makes the next one by leaving each known way at each of its vertices, with the
 * edges banned that earlier ways took from there. Edges are read once and kept.
 */
#include "query/path_private.h"
#include <math.h>

/* ---- one way ---- */

static struct near_vertex *near_vertex(struct path_search *s, struct nearest *n, uint32_t vertex)
{
    if (vertex >= n->vertex_cap) {
        uint32_t cap = vertex * 2 + 64;
        n->vertices = path_grown(s->arena, n->vertices, n->vertex_cap, cap, sizeof *n->vertices);
        n->vertex_cap = cap;
    }
    return &n->vertices[vertex];
}

void nearest_begin(struct nearest *n)
{
    n->round++;
    n->heap_count = 0;
}

void nearest_ban_vertex(struct path_search *s, struct nearest *n, uint32_t vertex)
{
    near_vertex(s, n, vertex)->banned = n->round;
}

void nearest_ban_edge(struct path_search *s, struct nearest *n, uint32_t edge)
{
    if (edge >= n->edge_cap) {
        uint32_t cap = edge * 2 + 64;
        n->banned_edges =
            path_grown(s->arena, n->banned_edges, n->edge_cap, cap, sizeof *n->banned_edges);
        n->edge_cap = cap;
    }
    n->banned_edges[edge] = n->round;
}

static void heap_push(struct path_search *s, struct nearest *n, uint32_t vertex, double weight)
{
    if (n->heap_count == n->heap_cap) {
        uint32_t cap = n->heap_cap ? n->heap_cap * 2 : 64;
        n->heap = path_grown(s->arena, n->heap, n->heap_count, cap, sizeof *n->heap);
        n->heap_cap = cap;
    }
    uint32_t i = n->heap_count++;
    for (; i && weight < n->heap[(i - 1) / 2].weight; i = (i - 1) / 2)
        n->heap[i] = n->heap[(i - 1) / 2];
    n->heap[i] = (struct near_entry){ weight, vertex };
}

static uint32_t heap_pop(struct nearest *n)
{
    uint32_t vertex = n->heap[0].vertex, i = 0;
    struct near_entry last = n->heap[--n->heap_count];

    for (;;) {
        uint32_t kid = 2 * i + 1;
        if (kid + 1 < n->heap_count && n->heap[kid + 1].weight < n->heap[kid].weight)
            kid++;
        if (kid >= n->heap_count || n->heap[kid].weight >= last.weight)
            break;
        n->heap[i] = n->heap[kid];
        i = kid;
    }
    n->heap[i] = last;
    return vertex;
}

static bool is_banned(struct path_search *s, struct nearest *n, const struct walk_step *step)
{
    if (step->edge < n->edge_cap && n->banned_edges[step->edge] == n->round)
        return true;
    return near_vertex(s, n, step->vertex)->banned == n->round;
}

static void reach(struct path_search *s, struct nearest *n, uint32_t from, uint32_t edge,
                  uint32_t vertex, double weight)
{
    struct near_vertex *v = near_vertex(s, n, vertex);

    if (v->round == n->round && (v->is_done || v->weight <= weight))
        return;
    v->round = n->round;
    v->is_done = false;
    v->from = from;
    v->edge = edge;
    v->weight = weight;
    heap_push(s, n, vertex, weight);
}

static void trace(struct path_search *s, struct nearest *n, uint32_t source, struct path *out)
{
    uint32_t length = 0;

    for (uint32_t v = s->target; v != source; v = n->vertices[v].from)
        length++;
    *out = path_room(s->arena, length);
    out->length = length;
    out->weight = n->vertices[s->target].weight;
    uint32_t v = s->target;
    for (uint32_t i = length; i > 0; i--) {
        out->vertices[i] = v;
        out->edges[i - 1] = n->vertices[v].edge;
        v = n->vertices[v].from;
    }
    out->vertices[0] = source;
}

enum errc nearest_find(struct path_search *s, struct nearest *n, uint32_t source, struct path *out,
                       bool *has, struct error *err)
{
    const struct walk_list *edges;
    enum errc rc = OK;

    *has = false;
    reach(s, n, WALK_NONE, WALK_NONE, source, 0);
    while (n->heap_count) {
        uint32_t at = heap_pop(n);
        if (near_vertex(s, n, at)->is_done)
            continue;
        n->vertices[at].is_done = true;
        double weight = n->vertices[at].weight;
        if (at == s->target) {
            trace(s, n, source, out);
            *has = true;
            return OK;
        }
        rc = path_edges_of(s, &n->lists, at, &edges, err);
        if (rc != OK)
            return rc;
        walk_trim(s->g);
        for (uint32_t i = 0; i < edges->count; i++)
            if (!is_banned(s, n, &edges->items[i]))
                reach(s, n, at, edges->items[i].edge, edges->items[i].vertex,
                      weight + edges->items[i].weight);
    }
    return OK;
}

struct single {
    struct nearest nearest;
    bool is_over;
};

static enum errc single_next(struct path_search *s, struct path *out, bool *has, struct error *err)
{
    struct single *one = s->state;

    *has = false;
    if (one->is_over)
        return OK;
    one->is_over = true;
    nearest_begin(&one->nearest);
    return nearest_find(s, &one->nearest, s->source, out, has, err);
}

const struct path_kind path_nearest = { NULL, single_next, sizeof(struct single) };

/* ---- many ways ---- */

struct yen {
    struct nearest nearest;
    struct path *found; /* in their order */
    uint32_t found_count, found_cap;
    struct path *candidates;
    uint32_t candidate_count, candidate_cap;
};

static bool same_start(const struct path *a, const struct path *b, uint32_t edges)
{
    if (a->length < edges || b->length < edges)
        return false;
    return memcmp(a->edges, b->edges, edges * sizeof *a->edges) == 0 &&
           memcmp(a->vertices, b->vertices, ((size_t)edges + 1) * sizeof *a->vertices) == 0;
}

static bool is_known(const struct path *list, uint32_t count, const struct path *p)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i].length == p->length && same_start(&list[i], p, p->length))
            return true;
    return false;
}

static void add_path(struct path_search *s, struct path **list, uint32_t *count, uint32_t *cap,
                     struct path p)
{
    if (*count == *cap) {
        *cap = *cap ? *cap * 2 : 16;
        *list = path_grown(s->arena, *list, *count, *cap, sizeof(**list));
    }
    (*list)[(*count)++] = p;
}

static double start_weight(const struct path_search *s, const struct yen *y, const struct path *p,
                           uint32_t edges)
{
    double weight = 0;

    (void)s;
    for (uint32_t i = 0; i < edges; i++) {
        const struct walk_list *l = y->nearest.lists.items[p->vertices[i]];
        for (uint32_t k = 0; k < l->count; k++) {
            if (l->items[k].edge == p->edges[i]) {
                weight += l->items[k].weight;
                break;
            }
        }
    }
    return weight;
}

/* The first edges of p, then the whole of rest. */
static struct path joined(struct path_search *s, const struct path *p, uint32_t edges,
                          const struct path *rest, double weight)
{
    struct path all = path_room(s->arena, edges + rest->length);

    all.length = edges + rest->length;
    all.weight = weight + rest->weight;
    memcpy(all.vertices, p->vertices, edges * sizeof *all.vertices);
    memcpy(all.edges, p->edges, edges * sizeof *all.edges);
    memcpy(all.vertices + edges, rest->vertices, ((size_t)rest->length + 1) * sizeof *all.vertices);
    memcpy(all.edges + edges, rest->edges, rest->length * sizeof *all.edges);
    return all;
}

/* Leaves the last way behind so many of its edges. */
static enum errc leave(struct path_search *s, struct yen *y, uint32_t edges, struct error *err)
{
    const struct path last = y->found[y->found_count - 1];
    struct path rest;
    bool has;

    nearest_begin(&y->nearest);
    for (uint32_t i = 0; i < edges; i++)
        nearest_ban_vertex(s, &y->nearest, last.vertices[i]);
    for (uint32_t i = 0; i < y->found_count; i++)
        if (y->found[i].length > edges && same_start(&y->found[i], &last, edges))
            nearest_ban_edge(s, &y->nearest, y->found[i].edges[edges]);
    enum errc rc = nearest_find(s, &y->nearest, last.vertices[edges], &rest, &has, err);
    if (rc != OK || !has)
        return rc;
    struct path all = joined(s, &last, edges, &rest, start_weight(s, y, &last, edges));
    if (!is_known(y->candidates, y->candidate_count, &all))
        add_path(s, &y->candidates, &y->candidate_count, &y->candidate_cap, all);
    return OK;
}

/* Takes the best candidate, the one with fewer edges among equals. */
static bool take_best(struct path_search *s, struct yen *y)
{
    uint32_t best = 0;

    if (!y->candidate_count)
        return false;
    for (uint32_t i = 1; i < y->candidate_count; i++) {
        const struct path *a = &y->candidates[i], *b = &y->candidates[best];
        if (a->weight < b->weight || (a->weight == b->weight && a->length < b->length))
            best = i;
    }
    add_path(s, &y->found, &y->found_count, &y->found_cap, y->candidates[best]);
    y->candidates[best] = y->candidates[--y->candidate_count];
    return true;
}

static enum errc yen_next(struct path_search *s, struct path *out, bool *has, struct error *err)
{
    struct yen *y = s->state;
    enum errc rc = OK;
    struct path first;

    if (!y->found_count) {
        nearest_begin(&y->nearest);
        rc = nearest_find(s, &y->nearest, s->source, &first, has, err);
        if (rc == OK && *has)
            add_path(s, &y->found, &y->found_count, &y->found_cap, first);
    } else {
        uint32_t length = y->found[y->found_count - 1].length;
        for (uint32_t i = 0; rc == OK && i < length; i++) {
            rc = leave(s, y, i, err);
            if (rc == OK)
                rc = exec_poll(s->g->x, err);
        }
        *has = rc == OK && take_best(s, y);
    }
    if (rc == OK && *has)
        *out = y->found[y->found_count - 1];
    return rc;
}

const struct path_kind path_by_weight = { NULL, yen_next, sizeof(struct yen) };
