/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHORTEST_PATH gives the vertices and edges of one path row by row; the others
 * a row for each path, as rows are wanted.
 */
#include "query/path.h"

struct paths {
    struct val *row; /* input row; NULL = take the next one */
    struct walk_graph g;
    struct path_search *search;
    struct path path; /* SHORTEST_PATH: in hand */
    uint32_t at;
    bool is_walking;
};

static void paths_close(struct op *op)
{
    walk_close(&((struct paths *)op->state)->g);
}

static enum errc start(struct op *op, struct paths *s, struct error *err)
{
    struct val *row = s->row, v;
    uint32_t ends[2];
    enum errc rc = OK;

    paths_close(op);
    *s = (struct paths){ .row = row };
    arena_reset(op->kept);
    TRY(walk_open(&s->g, op->x, op->n->walk, op->kept, err));
    for (int i = 0; i < 2; i++) {
        TRY(exec_value(op->x, op->n->exprs[i], row, op->kept, &v, err));
        TRY(walk_vertex(&s->g, v, &ends[i], err));
    }
    if (ends[0] != WALK_NONE && ends[1] != WALK_NONE)
        rc = path_search_new(&s->search, &s->g, op->kept, ends[0], ends[1], err);
out:
    return rc;
}

/* ---- SHORTEST_PATH ---- */

static enum errc push_vertex(struct op *op, struct paths *s, struct error *err)
{
    const struct node *n = op->n;
    uint32_t edge = s->at ? s->path.edges[s->at - 1] : WALK_NONE;
    struct val *row = op_push(op, s->row), doc;
    enum errc rc = OK;

    if (n->reg != NO_REG) {
        TRY(walk_vertex_doc(&s->g, s->path.vertices[s->at], &doc, err));
        row[n->reg] = val_copy(op->batch, doc);
    }
    if (n->reg2 != NO_REG) {
        TRY(walk_edge_doc(&s->g, edge, &doc, err));
        row[n->reg2] = val_copy(op->batch, doc);
    }
    s->is_walking = s->at++ < s->path.length;
out:
    return rc;
}

/* ---- whole paths ---- */

static enum errc load_path(struct op *op, struct paths *s, const struct path *p,
                           struct val *vertices, struct val *edges, struct error *err)
{
    enum errc rc = OK;

    (void)op;
    for (uint32_t i = 0; rc == OK && i <= p->length; i++)
        rc = walk_vertex_doc(&s->g, p->vertices[i], &vertices[i], err);
    for (uint32_t i = 0; rc == OK && i < p->length; i++)
        rc = walk_edge_doc(&s->g, p->edges[i], &edges[i], err);
    return rc;
}

static enum errc push_path(struct op *op, struct paths *s, const struct path *p, struct error *err)
{
    struct slice names[] = { slice_str("vertices"), slice_str("edges"), slice_str("weight") };
    struct arena *arena = op->x->scratch;
    struct arena_mark mark = arena_mark(arena);
    struct val *row = op_push(op, s->row), made[3];
    bool has_weight = op->n->walk->kind == WALK_K_SHORTEST_PATHS;
    enum errc rc = OK;

    if (op->n->walk->path_reg == NO_REG)
        return OK;
    struct val *vertices = arena_alloc(arena, ((size_t)p->length + 1) * sizeof *vertices);
    struct val *edges = arena_alloc(arena, ((size_t)p->length + 1) * sizeof *edges);
    TRY(load_path(op, s, p, vertices, edges, err));
    made[0] = val_new_array(arena, vertices, (size_t)p->length + 1);
    made[1] = val_new_array(arena, edges, p->length);
    made[2] = val_new_double(arena, p->weight);
    row[op->n->walk->path_reg] = val_new_object(op->batch, names, made, has_weight ? 3 : 2);
out:
    arena_rewind(arena, mark);
    return rc;
}

/* One row more, or the input row is used up. */
static enum errc step(struct op *op, struct paths *s, struct error *err)
{
    struct path p;
    bool has = false;
    enum errc rc = OK;

    walk_trim(&s->g);
    if (s->is_walking)
        return push_vertex(op, s, err);
    if (s->search)
        rc = path_next(s->search, &p, &has, err);
    if (rc != OK || !has) {
        s->row = NULL;
        return rc;
    }
    if (op->n->walk->kind != WALK_SHORTEST_PATH)
        return push_path(op, s, &p, err);
    s->path = p;
    s->at = 0;
    return push_vertex(op, s, err);
}

static enum errc paths_next(struct op *op, struct batch **out, enum exec_status *status,
                            struct error *err)
{
    struct paths *s = op->state;
    enum errc rc = OK;

    op_begin_batch(op);
    *out = &op->out;
    while (rc == OK && !op_is_full(op)) {
        if (!s->row) {
            rc = op_input_row(op, &s->row, status, err);
            if (rc != OK || !s->row)
                break;
            rc = start(op, s, err);
        }
        if (rc == OK)
            rc = step(op, s, err);
    }
    if (op->out.rows)
        *status = EXEC_ROWS;
    return rc;
}

const struct op_kind op_paths = { paths_next, paths_close, sizeof(struct paths) };
