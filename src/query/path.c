/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fewest edges: both ends are searched in turn, level by level, the smaller
 * side first, until they meet. Then every shortest way crosses the level where
 * they met exactly once, so all of them are a chain of predecessors on the one
 * side joined with one on the other; they are counted through like the digits
 * of a number.
 */
#include "query/path_private.h"

void *path_grown(struct arena *arena, const void *old, size_t count, size_t cap, size_t size)
{
    void *more = arena_zalloc(arena, cap * size);

    if (count)
        memcpy(more, old, count * size);
    return more;
}

struct path path_room(struct arena *arena, uint32_t length)
{
    struct path p = { 0 };

    p.vertices = arena_alloc(arena, ((size_t)length + 1) * sizeof *p.vertices);
    p.edges = arena_alloc(arena, ((size_t)length + 1) * sizeof *p.edges);
    return p;
}

enum errc path_edges_of(struct path_search *s, struct path_lists *lists, uint32_t vertex,
                        const struct walk_list **out, struct error *err)
{
    if (vertex >= lists->cap) {
        uint32_t cap = vertex * 2 + 64;
        lists->items = path_grown(s->arena, lists->items, lists->cap, cap, sizeof(*lists->items));
        lists->cap = cap;
    }
    struct walk_list *l = lists->items[vertex];
    enum errc rc = OK;
    if (!l) {
        l = lists->items[vertex] = ARENA_NEW(s->arena, struct walk_list);
        rc = walk_neighbours(s->g, vertex, false, s->arena, l, err);
    }
    *out = l;
    return rc;
}

/* ---- meeting in the middle ---- */

/* A step back towards the side's root. */
struct link {
    uint32_t vertex, edge;
    uint32_t next; /* another one of the same vertex, or WALK_NONE */
};

struct side_vertex {
    uint32_t level; /* + 1; 0: not met */
    uint32_t first; /* link */
};

struct side {
    struct side_vertex *vertices;
    uint32_t vertex_cap;
    struct link *links;
    uint32_t link_count, link_cap;
    uint32_t *frontier, *after; /* vertices of the last level; of the next one */
    uint32_t frontier_count, after_count, after_cap;
    uint32_t level;
    bool is_backward;
};

struct meet {
    struct side sides[2];
    uint32_t *middles; /* vertices where the sides meet */
    uint32_t middle_count, middle;
    uint32_t *chosen; /* links of the way in hand: from the middle back, then from the middle on */
    uint32_t chosen_count;
    struct path path;
    bool is_running; /* a way has been given and can be counted on */
};

static struct side_vertex *side_vertex(struct path_search *s, struct side *side, uint32_t vertex)
{
    if (vertex >= side->vertex_cap) {
        uint32_t cap = vertex * 2 + 64;
        side->vertices =
            path_grown(s->arena, side->vertices, side->vertex_cap, cap, sizeof *side->vertices);
        side->vertex_cap = cap;
    }
    return &side->vertices[vertex];
}

static void side_start(struct path_search *s, struct side *side, uint32_t root, bool is_backward)
{
    *side = (struct side){ .is_backward = is_backward };
    *side_vertex(s, side, root) = (struct side_vertex){ 1, WALK_NONE };
    side->frontier = arena_alloc(s->arena, sizeof *side->frontier);
    side->frontier[side->frontier_count++] = root;
}

static void add_after(struct path_search *s, struct side *side, uint32_t vertex)
{
    if (side->after_count == side->after_cap) {
        uint32_t cap = side->after_cap ? side->after_cap * 2 : 64;
        side->after =
            path_grown(s->arena, side->after, side->after_count, cap, sizeof *side->after);
        side->after_cap = cap;
    }
    side->after[side->after_count++] = vertex;
}

static void add_link(struct path_search *s, struct side *side, struct side_vertex *v,
                     uint32_t vertex, uint32_t edge)
{
    if (side->link_count == side->link_cap) {
        uint32_t cap = side->link_cap ? side->link_cap * 2 : 64;
        side->links = path_grown(s->arena, side->links, side->link_count, cap, sizeof *side->links);
        side->link_cap = cap;
    }
    side->links[side->link_count] = (struct link){ vertex, edge, v->first };
    v->first = side->link_count++;
}

/* A vertex of the next level keeps every step that leads to it, or only the first. */
static void meet_step(struct path_search *s, struct side *side, uint32_t from,
                      struct walk_step step)
{
    bool keeps_all = s->g->w->kind == WALK_ALL_SHORTEST_PATHS;
    struct side_vertex *v = side_vertex(s, side, step.vertex);
    uint32_t next = side->level + 2;

    if (v->level && (v->level != next || !keeps_all))
        return;
    if (!v->level) {
        *v = (struct side_vertex){ next, WALK_NONE };
        add_after(s, side, step.vertex);
    }
    add_link(s, side, v, from, step.edge);
}

static enum errc side_expand(struct path_search *s, struct side *side, struct error *err)
{
    struct walk_iter it;
    struct walk_step step;
    enum errc rc = OK;

    for (uint32_t i = 0; rc == OK && i < side->frontier_count; i++) {
        bool more = true;
        walk_iter_init(&it, s->g, side->frontier[i], side->is_backward);
        while (rc == OK && more) {
            rc = walk_iter_next(&it, &step, &more, err);
            if (rc == OK && more)
                meet_step(s, side, side->frontier[i], step);
        }
        walk_iter_close(&it);
    }
    side->frontier = side->after;
    side->frontier_count = side->after_count;
    side->after = NULL;
    side->after_count = side->after_cap = 0;
    side->level++;
    return rc;
}

static void find_middles(struct path_search *s, struct meet *m, const struct side *grown)
{
    struct side *other = &m->sides[grown == &m->sides[0]];

    m->middles = arena_alloc(s->arena, (grown->frontier_count + 1) * sizeof *m->middles);
    for (uint32_t i = 0; i < grown->frontier_count; i++)
        if (side_vertex(s, other, grown->frontier[i])->level)
            m->middles[m->middle_count++] = grown->frontier[i];
}

static enum errc meet_start(struct path_search *s, struct error *err)
{
    struct meet *m = s->state;

    side_start(s, &m->sides[0], s->source, false);
    side_start(s, &m->sides[1], s->target, true);
    if (s->source == s->target)
        find_middles(s, m, &m->sides[0]);
    while (!m->middle_count) {
        struct side *a = &m->sides[0], *b = &m->sides[1];
        struct side *side = a->frontier_count <= b->frontier_count ? a : b;
        if (!a->frontier_count || !b->frontier_count)
            return OK;
        enum errc rc = side_expand(s, side, err);
        if (rc != OK)
            return rc;
        find_middles(s, m, side);
    }
    uint32_t length = m->sides[0].level + m->sides[1].level;
    m->chosen = arena_alloc(s->arena, ((size_t)length + 1) * sizeof *m->chosen);
    m->path = path_room(s->arena, length);
    return OK;
}

/* From place on, the first link of each vertex on both sides. */
static void choose_first(struct meet *m, uint32_t place, uint32_t vertex)
{
    uint32_t back = m->sides[0].level;

    for (uint32_t i = place; i < m->chosen_count; i++) {
        const struct side *side = &m->sides[i >= back];
        if (i == back)
            vertex = m->middles[m->middle];
        m->chosen[i] = side->vertices[vertex].first;
        vertex = side->links[m->chosen[i]].vertex;
    }
}

/* The next combination of links; false when the middle has no more. */
static bool count_on(struct meet *m)
{
    for (uint32_t i = m->chosen_count; i-- > 0;) {
        const struct side *side = &m->sides[i >= m->sides[0].level];
        uint32_t next = side->links[m->chosen[i]].next;
        if (next == WALK_NONE)
            continue;
        m->chosen[i] = next;
        choose_first(m, i + 1, side->links[next].vertex);
        return true;
    }
    return false;
}

static void meet_path(const struct meet *m, struct path *out)
{
    uint32_t back = m->sides[0].level;

    *out = m->path;
    out->length = m->chosen_count;
    out->weight = out->length;
    out->vertices[back] = m->middles[m->middle];
    for (uint32_t i = 0; i < back; i++) {
        const struct link *l = &m->sides[0].links[m->chosen[i]];
        out->vertices[back - 1 - i] = l->vertex;
        out->edges[back - 1 - i] = l->edge;
    }
    for (uint32_t i = back; i < m->chosen_count; i++) {
        const struct link *l = &m->sides[1].links[m->chosen[i]];
        out->vertices[i + 1] = l->vertex;
        out->edges[i] = l->edge;
    }
}

static enum errc meet_next(struct path_search *s, struct path *out, bool *has, struct error *err)
{
    struct meet *m = s->state;

    (void)err;
    if (m->is_running && !count_on(m)) {
        m->middle++;
        m->is_running = false;
    }
    *has = m->middle < m->middle_count;
    if (!*has)
        return OK;
    if (!m->is_running) {
        m->chosen_count = m->sides[0].level + m->sides[1].level;
        choose_first(m, 0, m->middles[m->middle]);
        m->is_running = true;
    }
    meet_path(m, out);
    if (s->g->w->kind != WALK_ALL_SHORTEST_PATHS) {
        m->middle = m->middle_count;
        m->is_running = false;
    }
    return OK;
}

const struct path_kind path_meet = { meet_start, meet_next, sizeof(struct meet) };

/* ---- the door ---- */

static const struct path_kind *kind_of(const struct walk *w)
{
    switch ((enum walk_kind)w->kind) {
    case WALK_SHORTEST_PATH:
        return w->is_weighted ? &path_nearest : &path_meet;
    case WALK_ALL_SHORTEST_PATHS:
        return &path_meet;
    case WALK_K_SHORTEST_PATHS:
        return &path_by_weight;
    case WALK_K_PATHS:
        return &path_by_length;
    case WALK_TRAVERSE:
        break;
    }
    BUG("a traversal is no path search");
}

enum errc path_search_new(struct path_search **out, struct walk_graph *g, struct arena *arena,
                          uint32_t source, uint32_t target, struct error *err)
{
    struct path_search *s = ARENA_NEW(arena, struct path_search);

    *s = (struct path_search){ kind_of(g->w), g, arena, source, target, NULL };
    s->state = arena_zalloc(arena, s->kind->state_bytes);
    *out = s;
    return s->kind->start ? s->kind->start(s, err) : OK;
}

enum errc path_next(struct path_search *s, struct path *out, bool *has, struct error *err)
{
    return s->kind->next(s, out, has, err);
}
