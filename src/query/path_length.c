/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All ways of min to max edges without a vertex twice: depth first from the
 * source. How far the target is, is found by a search from its side over half
 * of the longest way; within that radius no step is made that cannot end in
 * time.
 */
#include "query/path_private.h"

struct level {
    const struct walk_list *edges;
    uint32_t at; /* next of them */
};

struct by_length {
    struct path_lists lists;
    struct level *levels; /* of the way in hand */
    struct path path;     /* its vertices and edges; length: edges in it */
    uint32_t cap;
    uint32_t *distances; /* to the target + 1, by vertex; 0: farther than radius */
    uint32_t distance_cap;
    uint32_t radius;
    bool is_started;
};

static uint32_t *distance(struct path_search *s, struct by_length *b, uint32_t vertex)
{
    if (vertex >= b->distance_cap) {
        uint32_t cap = vertex * 2 + 64;
        b->distances =
            path_grown(s->arena, b->distances, b->distance_cap, cap, sizeof *b->distances);
        b->distance_cap = cap;
    }
    return &b->distances[vertex];
}

/* One level of the search from the target; frontier and its successor alternate. */
static enum errc backward(struct path_search *s, struct by_length *b, struct walk_list *frontier,
                          uint32_t level, struct error *err)
{
    struct walk_list after = { 0 }, steps;
    enum errc rc = OK;

    for (uint32_t i = 0; rc == OK && i < frontier->count; i++) {
        rc = walk_neighbours(s->g, frontier->items[i].vertex, true, s->arena, &steps, err);
        for (uint32_t k = 0; rc == OK && k < steps.count; k++) {
            uint32_t *d = distance(s, b, steps.items[k].vertex);
            if (*d)
                continue;
            *d = level + 1;
            walk_list_add(&after, s->arena, steps.items[k]);
        }
    }
    *frontier = after;
    return rc;
}

static enum errc length_start(struct path_search *s, struct error *err)
{
    struct by_length *b = s->state;
    struct walk_list frontier = { 0 };
    enum errc rc = OK;

    b->radius = (uint32_t)(s->g->w->max / 2 + s->g->w->max % 2);
    walk_list_add(&frontier, s->arena, (struct walk_step){ WALK_NONE, s->target, 0 });
    *distance(s, b, s->target) = 1;
    for (uint32_t level = 1; rc == OK && level <= b->radius && frontier.count; level++)
        rc = backward(s, b, &frontier, level, err);
    return rc;
}

static bool can_end(struct path_search *s, struct by_length *b, uint32_t vertex, uint32_t left)
{
    uint32_t d = *distance(s, b, vertex);

    return d ? d - 1 <= left : left > b->radius;
}

static bool is_on_path(const struct by_length *b, uint32_t vertex)
{
    for (uint32_t i = 0; i <= b->path.length; i++)
        if (b->path.vertices[i] == vertex)
            return true;
    return false;
}

static void reserve(struct path_search *s, struct by_length *b)
{
    uint32_t need = b->path.length + 2, cap = b->cap ? b->cap * 2 : 16;

    if (need <= b->cap)
        return;
    b->levels = path_grown(s->arena, b->levels, b->cap, cap, sizeof *b->levels);
    b->path.vertices = path_grown(s->arena, b->path.vertices, b->cap, cap, sizeof(uint32_t));
    b->path.edges = path_grown(s->arena, b->path.edges, b->cap, cap, sizeof(uint32_t));
    b->cap = cap;
}

/* The way ends in vertex now; its edges are next. The target ends every way. */
static enum errc enter(struct path_search *s, struct by_length *b, uint32_t vertex,
                       struct error *err)
{
    static const struct walk_list none;
    struct level *level;

    b->path.vertices[b->path.length] = vertex;
    level = &b->levels[b->path.length];
    *level = (struct level){ &none, 0 };
    if (vertex == s->target || b->path.length >= s->g->w->max)
        return OK;
    return path_edges_of(s, &b->lists, vertex, &level->edges, err);
}

static bool is_wanted(const struct path_search *s, const struct by_length *b)
{
    return b->path.vertices[b->path.length] == s->target && b->path.length >= s->g->w->min;
}

static enum errc length_next(struct path_search *s, struct path *out, bool *has, struct error *err)
{
    struct by_length *b = s->state;
    enum errc rc = OK;

    *has = false;
    if (!b->is_started) {
        b->is_started = true;
        reserve(s, b);
        rc = enter(s, b, s->source, err);
        *has = rc == OK && is_wanted(s, b);
    }
    while (rc == OK && !*has) {
        struct level *level = &b->levels[b->path.length];
        if (level->at == level->edges->count) {
            if (!b->path.length)
                return OK;
            b->path.length--;
            continue;
        }
        struct walk_step step = level->edges->items[level->at++];
        uint32_t left = (uint32_t)s->g->w->max - b->path.length - 1;
        if (is_on_path(b, step.vertex) || !can_end(s, b, step.vertex, left))
            continue;
        reserve(s, b);
        b->path.edges[b->path.length++] = step.edge;
        rc = enter(s, b, step.vertex, err);
        if (rc == OK)
            rc = exec_poll(s->g->x, err);
        *has = rc == OK && is_wanted(s, b);
    }
    *out = b->path;
    out->weight = out->length;
    return rc;
}

const struct path_kind path_by_length = { length_start, length_next, sizeof(struct by_length) };
