/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FOR v, e, p IN min..max OUTBOUND start ... A visit is a vertex together with
 * the way to it, a chain of visits. Depth first keeps the visits of one path
 * with an iterator each; breadth first all of them and one iterator; weighted
 * all of them in a heap by their distance. Edges are read one by one as rows are
 * wanted, so a LIMIT ends the work early (weighted: vertex by vertex).
 */
#include "query/walk.h"

struct visit {
    uint32_t parent; /* WALK_NONE for the start */
    uint32_t vertex, edge;
    uint32_t depth : 31;
    uint32_t is_leaf : 1; /* pruned: its edges are not followed */
    double weight;
};

struct traverse {
    struct val *row; /* input row; NULL = take the next one */
    struct walk_graph g;
    struct visit *visits;
    struct walk_iter *iters; /* depth first: of each visit; breadth first: one, of the head */
    uint32_t count, cap, head;
    uint32_t *heap; /* weighted: visits by distance */
    uint32_t heap_count, heap_cap;
    uint8_t *seen; /* by vertex, where each is visited once */
    uint32_t seen_cap;
    bool is_started;
};

static void traverse_close(struct op *op)
{
    struct traverse *s = op->state;
    bool is_deep = op->n->walk->order == WALK_DFS;

    for (uint32_t i = 0; s->iters && i < (is_deep ? s->count : 1); i++)
        walk_iter_close(&s->iters[i]);
    s->iters = NULL;
    walk_close(&s->g);
}

/* ---- visits ---- */

static void *grown(struct arena *arena, const void *old, size_t count, size_t cap, size_t size)
{
    void *more = arena_zalloc(arena, cap * size);

    if (old)
        memcpy(more, old, count * size);
    return more;
}

static uint32_t push(struct op *op, struct traverse *s, uint32_t parent, struct walk_step step)
{
    bool is_deep = op->n->walk->order == WALK_DFS;
    const struct visit *from = parent == WALK_NONE ? NULL : &s->visits[parent];
    struct visit one = { .parent = parent,
                         .vertex = step.vertex,
                         .edge = step.edge,
                         .depth = from ? from->depth + 1u : 0,
                         .weight = from ? from->weight + step.weight : 0 };

    if (!s->visits || s->count == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 16;
        s->visits = grown(op->kept, s->visits, s->count, cap, sizeof *s->visits);
        if (is_deep)
            s->iters = grown(op->kept, s->iters, s->count, cap, sizeof *s->iters);
        s->cap = cap;
    }
    s->visits[s->count] = one;
    if (is_deep)
        walk_iter_init(&s->iters[s->count], &s->g, one.vertex, false);
    return s->count++;
}

static bool is_seen(const struct traverse *s, uint32_t vertex)
{
    return vertex < s->seen_cap && s->seen[vertex];
}

static void set_seen(struct op *op, struct traverse *s, uint32_t vertex)
{
    if (vertex >= s->seen_cap) {
        uint32_t cap = vertex * 2 + 64;
        s->seen = grown(op->kept, s->seen, s->seen_cap, cap, 1);
        s->seen_cap = cap;
    }
    s->seen[vertex] = 1;
}

/* May the way to a visit go on by this step? */
static bool is_fresh(const struct op *op, const struct traverse *s, uint32_t from,
                     struct walk_step step)
{
    const struct walk *w = op->n->walk;
    bool by_vertex = w->unique_vertices == WALK_UNIQUE_PATH;

    if (w->unique_vertices == WALK_UNIQUE_GLOBAL)
        return !is_seen(s, step.vertex);
    if (!by_vertex && !w->has_unique_edges)
        return true;
    for (uint32_t i = from; i != WALK_NONE; i = s->visits[i].parent)
        if ((by_vertex && s->visits[i].vertex == step.vertex) ||
            (w->has_unique_edges && s->visits[i].edge == step.edge))
            return false;
    return true;
}

static bool goes_on(const struct op *op, const struct visit *v)
{
    return !v->is_leaf && v->depth < op->n->walk->max;
}

/* ---- depth first ---- */

static enum errc next_deep(struct op *op, struct traverse *s, uint32_t *visit, bool *has,
                           struct error *err)
{
    struct walk_step step;
    bool more;

    while (s->count) {
        uint32_t top = s->count - 1;
        more = false;
        if (goes_on(op, &s->visits[top])) {
            enum errc rc = walk_iter_next(&s->iters[top], &step, &more, err);
            if (rc != OK)
                return rc;
        }
        if (!more) {
            walk_iter_close(&s->iters[top]);
            s->count--;
        } else if (is_fresh(op, s, top, step)) {
            *visit = push(op, s, top, step);
            *has = true;
            return OK;
        }
    }
    return OK;
}

/* ---- breadth first ---- */

static enum errc next_broad(struct op *op, struct traverse *s, uint32_t *visit, bool *has,
                            struct error *err)
{
    struct walk_step step;

    while (s->head < s->count) {
        bool more = false;
        if (!s->iters) {
            s->iters = arena_alloc(op->kept, sizeof *s->iters);
            walk_iter_init(s->iters, &s->g, s->visits[0].vertex, false);
        }
        if (goes_on(op, &s->visits[s->head])) {
            enum errc rc = walk_iter_next(s->iters, &step, &more, err);
            if (rc != OK)
                return rc;
        }
        if (!more) {
            walk_iter_close(s->iters);
            if (++s->head < s->count)
                walk_iter_init(s->iters, &s->g, s->visits[s->head].vertex, false);
        } else if (is_fresh(op, s, s->head, step)) {
            set_seen(op, s, step.vertex);
            *visit = push(op, s, s->head, step);
            *has = true;
            return OK;
        }
    }
    return OK;
}

/* ---- by distance ---- */

static bool is_nearer(const struct traverse *s, uint32_t a, uint32_t b)
{
    double x = s->visits[a].weight, y = s->visits[b].weight;

    return x < y || (x == y && a < b);
}

static void heap_push(struct op *op, struct traverse *s, uint32_t visit)
{
    if (s->heap_count == s->heap_cap) {
        uint32_t cap = s->heap_cap ? s->heap_cap * 2 : 64;
        s->heap = grown(op->kept, s->heap, s->heap_count, cap, sizeof *s->heap);
        s->heap_cap = cap;
    }
    uint32_t i = s->heap_count++;
    for (; i && is_nearer(s, visit, s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = visit;
}

static uint32_t heap_pop(struct traverse *s)
{
    uint32_t first = s->heap[0], last = s->heap[--s->heap_count], i = 0;

    for (;;) {
        uint32_t kid = 2 * i + 1;
        if (kid + 1 < s->heap_count && is_nearer(s, s->heap[kid + 1], s->heap[kid]))
            kid++;
        if (kid >= s->heap_count || !is_nearer(s, s->heap[kid], last))
            break;
        s->heap[i] = s->heap[kid];
        i = kid;
    }
    s->heap[i] = last;
    return first;
}

static enum errc expand(struct op *op, struct traverse *s, uint32_t visit, struct error *err)
{
    struct walk_iter it;
    struct walk_step step;
    bool more = true;
    enum errc rc = OK;

    walk_iter_init(&it, &s->g, s->visits[visit].vertex, false);
    while (rc == OK && more) {
        rc = walk_iter_next(&it, &step, &more, err);
        if (rc == OK && more && is_fresh(op, s, visit, step))
            heap_push(op, s, push(op, s, visit, step));
        if (rc == OK)
            walk_trim(&s->g);
    }
    walk_iter_close(&it);
    return rc;
}

/* The visit given before is expanded first: whether it was pruned is known now. */
static enum errc next_near(struct op *op, struct traverse *s, uint32_t *visit, bool *has,
                           struct error *err)
{
    bool is_global = op->n->walk->unique_vertices == WALK_UNIQUE_GLOBAL;

    if (goes_on(op, &s->visits[s->head])) {
        enum errc rc = expand(op, s, s->head, err);
        if (rc != OK)
            return rc;
    }
    while (s->heap_count) {
        uint32_t i = heap_pop(s);
        if (is_global && is_seen(s, s->visits[i].vertex))
            continue;
        set_seen(op, s, s->visits[i].vertex);
        s->head = *visit = i;
        *has = true;
        return OK;
    }
    return OK;
}

static enum errc next_visit(struct op *op, struct traverse *s, uint32_t *visit, bool *has,
                            struct error *err)
{
    *has = false;
    walk_trim(&s->g);
    if (!s->is_started) {
        s->is_started = true;
        *has = s->count > 0;
        *visit = 0;
        return OK;
    }
    if (!s->count)
        return OK;
    switch ((enum walk_order)op->n->walk->order) {
    case WALK_DFS:
        return next_deep(op, s, visit, has, err);
    case WALK_BFS:
        return next_broad(op, s, visit, has, err);
    case WALK_WEIGHTED:
        return next_near(op, s, visit, has, err);
    }
    BUG("order %d of a traversal", op->n->walk->order);
}

/* ---- rows ---- */

/* {vertices, edges, weights} along the way to the visit. */
static enum errc make_path(struct op *op, struct traverse *s, uint32_t visit, struct val *out,
                           struct error *err)
{
    struct slice names[] = { slice_str("vertices"), slice_str("edges"), slice_str("weights") };
    struct arena *arena = op->x->scratch;
    struct arena_mark mark = arena_mark(arena);
    uint32_t depth = s->visits[visit].depth, at = visit;
    struct val *lists[3], made[3];
    enum errc rc = OK;

    for (int i = 0; i < 3; i++)
        lists[i] = arena_alloc(arena, ((size_t)depth + 1) * sizeof(struct val));
    for (uint32_t i = depth;; i--) {
        const struct visit *v = &s->visits[at];
        TRY(walk_vertex_doc(&s->g, v->vertex, &lists[0][i], err));
        if (i)
            TRY(walk_edge_doc(&s->g, v->edge, &lists[1][i - 1], err));
        lists[2][i] = val_new_double(arena, v->weight);
        if (!i)
            break;
        at = v->parent;
    }
    for (int i = 0; i < 3; i++)
        made[i] = val_new_array(arena, lists[i], (size_t)depth + (i != 1));
    *out = val_new_object(op->batch, names, made, 3);
out:
    arena_rewind(arena, mark);
    return rc;
}

/* Sets the row's registers for the visit, as far as somebody reads them. */
static enum errc fill(struct op *op, struct traverse *s, uint32_t visit, struct error *err)
{
    const struct node *n = op->n;
    struct val doc;
    enum errc rc = OK;

    if (n->reg != NO_REG) {
        TRY(walk_vertex_doc(&s->g, s->visits[visit].vertex, &doc, err));
        s->row[n->reg] = val_copy(op->batch, doc);
    }
    if (n->reg2 != NO_REG) {
        TRY(walk_edge_doc(&s->g, s->visits[visit].edge, &doc, err));
        s->row[n->reg2] = val_copy(op->batch, doc);
    }
    if (n->walk->path_reg != NO_REG)
        rc = make_path(op, s, visit, &s->row[n->walk->path_reg], err);
out:
    return rc;
}

static bool may_prune(const struct op *op)
{
    return op->n->walk->prune || op->sub;
}

/* A condition with subqueries is the one row of a pipeline, which does not wait. */
static enum errc ask_prune(struct op *op, struct traverse *s, struct val *out, struct error *err)
{
    struct row_list rows = { 0 };
    enum exec_status status;

    if (!op->sub)
        return exec_value(op->x, op->n->walk->prune, s->row, op->batch, out, err);
    op_start_sub(op, s->row);
    enum errc rc = exec_drain(op->sub, op->batch, &rows, &status, err);
    *out = rows.count ? rows.items[0] : val_null;
    if (rc == OK && status == EXEC_WAIT)
        rc = fail(err, ERR_INTERNAL, "a condition of PRUNE waits");
    return rc;
}

static enum errc prune(struct op *op, struct traverse *s, uint32_t visit, struct error *err)
{
    const struct walk *w = op->n->walk;
    struct val v;

    if (!may_prune(op))
        return OK;
    enum errc rc = ask_prune(op, s, &v, err);
    if (rc != OK)
        return rc;
    s->visits[visit].is_leaf = val_truth(v);
    if (w->prune_reg != NO_REG)
        s->row[w->prune_reg] = v;
    return OK;
}

/* Whether the visit becomes a row; otherwise its values are given back. */
static enum errc offer(struct op *op, struct traverse *s, uint32_t visit, struct error *err)
{
    const struct walk *w = op->n->walk;
    struct arena_mark mark = arena_mark(op->batch);
    bool is_row = s->visits[visit].depth >= w->min;
    enum errc rc = is_row || may_prune(op) ? fill(op, s, visit, err) : OK;

    if (rc == OK)
        rc = prune(op, s, visit, err);
    if (rc == OK && is_row)
        op_push(op, s->row);
    else
        arena_rewind(op->batch, mark);
    return rc;
}

static enum errc start(struct op *op, struct traverse *s, struct error *err)
{
    struct val *row = s->row, v;
    uint32_t vertex;
    enum errc rc = OK;

    traverse_close(op);
    *s = (struct traverse){ .row = row };
    arena_reset(op->kept);
    TRY(walk_open(&s->g, op->x, op->n->walk, op->kept, err));
    TRY(exec_value(op->x, op->n->exprs[0], row, op->kept, &v, err));
    TRY(walk_vertex(&s->g, v, &vertex, err));
    if (vertex == WALK_NONE)
        return OK;
    push(op, s, WALK_NONE, (struct walk_step){ WALK_NONE, vertex, 0 });
    set_seen(op, s, vertex);
out:
    return rc;
}

static enum errc traverse_next(struct op *op, struct batch **out, enum exec_status *status,
                               struct error *err)
{
    struct traverse *s = op->state;
    enum errc rc = OK;
    uint32_t visit;
    bool has;

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
            rc = next_visit(op, s, &visit, &has, err);
        if (rc == OK && has)
            rc = offer(op, s, visit, err);
        else
            s->row = NULL;
    }
    if (op->out.rows)
        *status = EXEC_ROWS;
    return rc;
}

const struct op_kind op_traverse = { traverse_next, traverse_close, sizeof(struct traverse) };
