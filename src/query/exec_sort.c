/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SORT. Of a row are kept its sort keys and the registers that are live behind
 * the node. Under a LIMIT only so many best rows stay, in a heap with the worst
 * of them on top; what leaves is garbage in the arena until that outgrows what
 * stays, and the rows move to a fresh one. So memory depends on the limit, not
 * on the input. Without a LIMIT rows that take more than their share of the memory
 * are sorted on disk.
 */
#include "query/exec.h"
#include <stdlib.h>

enum { GARBAGE_MIN = 256 * KIB, POLL_ROWS = 256 };

struct sorted_row {
    struct val *live, *keys;
    uint64_t order; /* of arrival: equal keys keep it */
};

struct sort {
    struct sorted_row *rows;
    size_t count, cap, at;
    uint64_t seen;
    struct spill *spill; /* all rows, once they are too many for memory; owned */
    struct arena *arena; /* of the rows under a LIMIT; owned */
    size_t settled;      /* bytes used by rows that stay, as of the last move */
    bool is_sorted;
};

static int compare_rows(const void *a, const void *b, void *arg)
{
    const struct sorted_row *x = a, *y = b;
    const struct op *op = arg;

    for (uint32_t i = 0; i < op->n->expr_count; i++) {
        int c = val_compare(x->keys[i], y->keys[i], op->x->env.collator);
        if (c)
            return op->n->descending[i] ? -c : c;
    }
    return x->order < y->order ? -1 : 1;
}

static void sort_reset(struct op *op)
{
    struct sort *s = op->state;

    arena_free(s->arena);
    s->arena = NULL;
    spill_free(s->spill);
    s->spill = NULL;
}

static bool is_limited(const struct op *op)
{
    return op->n->limit >= 0;
}

/* ---- the heap ---- */

static void swap_rows(struct sorted_row *a, struct sorted_row *b)
{
    struct sorted_row t = *a;

    *a = *b;
    *b = t;
}

static void sift_up(struct op *op, struct sort *s, size_t i)
{
    while (i && compare_rows(&s->rows[i], &s->rows[(i - 1) / 2], op) > 0) {
        swap_rows(&s->rows[i], &s->rows[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

static void sift_down(struct op *op, struct sort *s)
{
    for (size_t i = 0;;) {
        size_t worst = i;
        for (size_t kid = 2 * i + 1; kid <= 2 * i + 2 && kid < s->count; kid++)
            if (compare_rows(&s->rows[kid], &s->rows[worst], op) > 0)
                worst = kid;
        if (worst == i)
            return;
        swap_rows(&s->rows[i], &s->rows[worst]);
        i = worst;
    }
}

/* ---- keeping ---- */

static void reserve(struct op *op, struct sort *s)
{
    if (s->count < s->cap)
        return;
    size_t cap = s->cap ? s->cap * 2 : 64;
    struct sorted_row *rows = arena_alloc(op->kept, cap * sizeof *rows);
    if (s->count)
        memcpy(rows, s->rows, s->count * sizeof *rows);
    s->rows = rows;
    s->cap = cap;
}

/* Bytes that a whole row takes; keys may lie in it. */
static void copy_row(const struct op *op, struct sorted_row *r, struct arena *to)
{
    size_t keys = op->n->expr_count, live = op->n->live_count;
    struct val *own_keys = arena_alloc(to, (keys + 1) * sizeof *own_keys);
    struct val *own_live = arena_alloc(to, (live + 1) * sizeof *own_live);

    for (size_t i = 0; i < keys; i++)
        own_keys[i] = val_copy(to, r->keys[i]);
    for (size_t i = 0; i < live; i++)
        own_live[i] = val_copy(to, r->live[i]);
    r->keys = own_keys;
    r->live = own_live;
}

/* Moves what stays when most of the arena is garbage. */
static void sweep(struct op *op, struct sort *s)
{
    if (arena_used(s->arena) < s->settled * 2 + GARBAGE_MIN)
        return;
    struct arena *fresh = arena_child(op->x->arena);
    for (size_t i = 0; i < s->count; i++)
        copy_row(op, &s->rows[i], fresh);
    arena_free(s->arena);
    s->arena = fresh;
    s->settled = arena_used(fresh);
}

static enum errc make_keys(struct op *op, struct val *row, struct arena *arena, struct val *keys,
                           struct error *err)
{
    for (uint32_t i = 0; i < op->n->expr_count; i++) {
        enum errc rc = exec_value(op->x, op->n->exprs[i], row, arena, &keys[i], err);
        if (rc != OK)
            return rc;
    }
    return OK;
}

/* The row is looked at before anything of it is copied. */
static enum errc add_limited(struct op *op, struct sort *s, struct val *row, struct error *err)
{
    struct exec *x = op->x;
    struct arena_mark mark = arena_mark(x->scratch);
    struct sorted_row one = { .order = s->seen++ };
    size_t limit = (size_t)op->n->limit;

    if (!limit)
        return OK;
    one.keys = arena_alloc(x->scratch, (op->n->expr_count + 1) * sizeof *one.keys);
    enum errc rc = make_keys(op, row, x->scratch, one.keys, err);
    bool is_full = s->count == limit;
    if (rc != OK || (is_full && compare_rows(&one, &s->rows[0], op) > 0)) {
        arena_rewind(x->scratch, mark);
        return rc;
    }
    if (!s->arena)
        s->arena = arena_child(x->arena);
    one.live = arena_alloc(x->scratch, (op->n->live_count + 1) * sizeof *one.live);
    for (uint32_t i = 0; i < op->n->live_count; i++)
        one.live[i] = row[op->n->live[i]];
    copy_row(op, &one, s->arena);
    arena_rewind(x->scratch, mark);
    if (is_full) {
        s->rows[0] = one;
        sift_down(op, s);
    } else {
        reserve(op, s);
        s->rows[s->count++] = one;
        sift_up(op, s, s->count - 1);
    }
    sweep(op, s);
    return OK;
}

/* Part of what is kept: is not copied once more. */
static bool is_kept(const struct node *n, const struct expr *e)
{
    while (e->kind == EXPR_ATTR)
        e = e->kids[0];
    for (uint32_t i = 0; e->kind == EXPR_REG && i < n->live_count; i++)
        if (n->live[i] == e->reg)
            return true;
    return false;
}

static enum errc add_row(struct op *op, struct sort *s, struct val *row, struct error *err)
{
    struct sorted_row one = { .order = s->seen++ };
    const struct node *n = op->n;

    reserve(op, s);
    one.live = op_keep_live(op, row, op->kept);
    for (uint32_t i = 0; i < n->live_count; i++)
        row[n->live[i]] = one.live[i];
    one.keys = arena_alloc(op->kept, (n->expr_count + 1) * sizeof *one.keys);
    for (uint32_t i = 0; i < n->expr_count; i++) {
        enum errc rc = is_kept(n, n->exprs[i])
                           ? exec_value(op->x, n->exprs[i], row, op->kept, &one.keys[i], err)
                           : exec_copy(op->x, n->exprs[i], row, op->kept, &one.keys[i], err);
        if (rc != OK)
            return rc;
    }
    s->rows[s->count++] = one;
    return OK;
}

/* ---- on disk ---- */

static bool is_too_large(const struct op *op)
{
    const struct spill_space *space = op->x->spill;

    return space && arena_used(op->kept) > space->memory_bytes;
}

static enum errc start_spill(struct op *op, struct sort *s, struct error *err)
{
    struct spill_order order = { .keys = op->n->expr_count,
                                 .values = op->n->live_count,
                                 .descending = op->n->descending,
                                 .collator = op->x->env.collator };
    enum errc rc = OK;

    s->spill = spill_new(op->x->spill, &order, op->x->arena);
    for (size_t i = 0; rc == OK && i < s->count; i++)
        rc = spill_add(s->spill, s->rows[i].keys, s->rows[i].live, err);
    arena_reset(op->kept);
    s->rows = NULL;
    s->count = s->cap = 0;
    return rc;
}

static enum errc spill_row(struct op *op, struct sort *s, struct val *row, struct error *err)
{
    struct exec *x = op->x;
    const struct node *n = op->n;
    struct arena_mark mark = arena_mark(x->scratch);
    struct val *keys = arena_alloc(x->scratch, (n->expr_count + 1) * sizeof *keys);
    struct val *live = arena_alloc(x->scratch, (n->live_count + 1) * sizeof *live);
    enum errc rc = make_keys(op, row, x->scratch, keys, err);

    for (uint32_t i = 0; i < n->live_count; i++)
        live[i] = row[n->live[i]];
    if (rc == OK)
        rc = spill_add(s->spill, keys, live, err);
    s->seen++;
    arena_rewind(x->scratch, mark);
    return rc;
}

static enum errc take_row(struct op *op, struct sort *s, struct val *row, struct error *err)
{
    if (is_limited(op))
        return add_limited(op, s, row, err);
    if (s->spill)
        return spill_row(op, s, row, err);
    enum errc rc = add_row(op, s, row, err);
    return rc == OK && is_too_large(op) ? start_spill(op, s, err) : rc;
}

static enum errc push_spilled(struct op *op, struct sort *s, bool *has, struct error *err)
{
    const struct node *n = op->n;
    struct val *values;
    enum errc rc = spill_next(s->spill, &values, err);

    *has = rc == OK && values;
    if (!*has)
        return rc;
    struct val *row = op_push(op, op_outer(op));
    for (uint32_t i = 0; i < n->live_count; i++)
        row[n->live[i]] = val_copy(op->batch, values[n->expr_count + i]);
    return OK;
}

static enum errc fill(struct op *op, struct sort *s, enum exec_status *status, struct error *err)
{
    struct val *row;

    for (;;) {
        enum errc rc = op_input_row(op, &row, status, err);
        if (rc != OK || *status != EXEC_ROWS)
            return rc;
        rc = take_row(op, s, row, err);
        if (rc == OK && s->seen % POLL_ROWS == 0)
            rc = exec_poll(op->x, err);
        if (rc != OK)
            return rc;
    }
}

static enum errc sort_next(struct op *op, struct batch **out, enum exec_status *status,
                           struct error *err)
{
    struct sort *s = op->state;

    if (!s->is_sorted) {
        enum errc rc = fill(op, s, status, err);
        if (rc != OK || *status == EXEC_WAIT)
            return rc;
        if (s->spill)
            rc = spill_finish(s->spill, err);
        else if (s->count)
            qsort_r(s->rows, s->count, sizeof *s->rows, compare_rows, op);
        if (rc != OK)
            return rc;
        s->is_sorted = true;
    }
    op_begin_batch(op);
    *out = &op->out;
    for (bool has = true; s->spill && has && !op_is_full(op);) {
        enum errc rc = push_spilled(op, s, &has, err);
        if (rc != OK)
            return rc;
    }
    while (s->at < s->count && !op_is_full(op))
        op_push_live(op, s->rows[s->at++].live);
    *status = op->out.rows ? EXEC_ROWS : EXEC_DONE;
    return OK;
}

const struct op_kind op_sort = { sort_next, sort_reset, sizeof(struct sort) };
