/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that must see all rows: SORT, COLLECT, DISTINCT. */
#include "query/aggregate.h"
#include "query/exec.h"
#include <stdlib.h>

enum { SORT_CUT_FROM = 64 };

/* ---- SORT ---- */

struct sorted_row {
    struct val *row, *keys;
    size_t order; /* of arrival: equal keys keep it */
};

struct sort {
    struct sorted_row *rows;
    size_t count, cap, at, seen;
    bool is_sorted;
    bool is_full; /* the first limit rows are sorted: nothing behind the last can come through */
    struct arena *own;      /* of rows and keys, when what was read can be given back; or NULL */
    struct arena_mark mark; /* of the exec's arena, behind the first batch */
    bool is_marked;
    size_t batch_start; /* arrival number of the batch's first row */
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

    arena_free(s->own);
    s->own = NULL;
}

/* Nothing but the documents of one scan and what is computed of them. */
static bool reads_one_scan(const struct node *n)
{
    while (n->kind == NODE_FILTER || n->kind == NODE_CALC)
        n = n->input;
    bool is_scan = n->kind == NODE_ENUM_COLLECTION || n->kind == NODE_INDEX;
    return is_scan && n->input->kind == NODE_SINGLETON;
}

static struct arena *sort_arena(const struct op *op, const struct sort *s)
{
    return s->own ? s->own : op->x->arena;
}

static void sort_reserve(struct op *op, struct sort *s)
{
    if (s->count < s->cap)
        return;
    size_t cap = s->cap ? s->cap * 2 : 64;
    struct sorted_row *rows = arena_alloc(sort_arena(op, s), cap * sizeof *rows);
    if (s->count)
        memcpy(rows, s->rows, s->count * sizeof *rows);
    s->rows = rows;
    s->cap = cap;
}

/* A row that stays moves out of the memory that is given back. */
static void move_row(struct op *op, struct sorted_row *r, struct arena *to)
{
    size_t regs = op->x->plan->reg_count, keys = op->n->expr_count;
    struct val *row = arena_alloc(to, (regs + 1) * sizeof *row);
    struct val *own_keys = arena_alloc(to, (keys + 1) * sizeof *own_keys);

    memcpy(row, r->row, regs * sizeof *row);
    for (const struct node *n = op->n->input; n->kind != NODE_SINGLETON; n = n->input)
        if (n->reg != NO_REG)
            row[n->reg] = val_copy(to, row[n->reg]);
    for (size_t i = 0; i < keys; i++)
        own_keys[i] = val_copy(to, r->keys[i]);
    r->row = row;
    r->keys = own_keys;
}

/*
 * Under a LIMIT few of the rows stay. What a scan opened lies before the first
 * batch's end; behind it are documents only.
 */
static void sort_give_back(struct op *op, struct sort *s)
{
    if (!s->own || !op->in || op->at < op->in->rows)
        return;
    for (size_t i = 0; s->is_marked && i < s->count; i++)
        if (s->rows[i].order >= s->batch_start)
            move_row(op, &s->rows[i], s->own);
    if (s->is_marked)
        arena_rewind(op->x->arena, s->mark);
    else
        s->mark = arena_mark(op->x->arena);
    s->is_marked = true;
    s->batch_start = s->seen;
}

static void sort_rows(struct op *op, struct sort *s)
{
    if (s->count)
        qsort_r(s->rows, s->count, sizeof *s->rows, compare_rows, op);
}

/* Under a LIMIT little more than twice its rows are kept. */
static void sort_cut(struct op *op, struct sort *s)
{
    if (op->n->limit < 0 || s->count < SORT_CUT_FROM || s->count / 2 < (size_t)op->n->limit)
        return;
    sort_rows(op, s);
    s->count = (size_t)op->n->limit;
    s->is_full = true;
}

static enum errc sort_add(struct op *op, struct sort *s, struct val *row, struct error *err)
{
    struct exec *x = op->x;
    struct arena_mark mark = arena_mark(x->arena);
    struct sorted_row one = { .row = row, .order = s->seen++ };

    if (!op->n->limit)
        return OK;
    one.keys = arena_alloc(x->arena, (op->n->expr_count + 1) * sizeof *one.keys);
    for (uint32_t i = 0; i < op->n->expr_count; i++) {
        enum errc rc = exec_keep(x, op->n->exprs[i], row, &one.keys[i], err);
        if (rc != OK)
            return rc;
    }
    if (s->is_full && compare_rows(&one, &s->rows[op->n->limit - 1], op) > 0) {
        arena_rewind(x->arena, mark);
        return OK;
    }
    sort_reserve(op, s);
    one.row = exec_copy_row(x, row);
    s->rows[s->count++] = one;
    sort_cut(op, s);
    return OK;
}

static enum errc sort_fill(struct op *op, struct sort *s, enum exec_status *status,
                           struct error *err)
{
    struct val *row;

    if (!s->own && !s->seen && op->n->limit > 0 && reads_one_scan(op->n->input))
        s->own = arena_new(op->x->memory_limit);
    for (;;) {
        sort_give_back(op, s);
        enum errc rc = op_input_row(op, &row, status, err);
        if (rc != OK || *status != EXEC_ROWS)
            return rc;
        rc = sort_add(op, s, row, err);
        if (rc == OK && s->seen % 256 == 0)
            rc = exec_poll(op->x, err);
        if (rc == OK && s->own && s->seen % 256 == 0)
            rc = arena_check(s->own, err);
        if (rc != OK)
            return rc;
    }
}

/* The result outlives the operator. */
static void sort_settle(struct op *op, struct sort *s)
{
    sort_rows(op, s);
    s->is_sorted = true;
    if (op->n->limit >= 0 && s->count > (size_t)op->n->limit)
        s->count = (size_t)op->n->limit;
    if (!s->own)
        return;
    struct sorted_row *rows = arena_alloc(op->x->arena, (s->count + 1) * sizeof *rows);
    for (size_t i = 0; i < s->count; i++) {
        rows[i] = s->rows[i];
        move_row(op, &rows[i], op->x->arena);
    }
    s->rows = rows;
    sort_reset(op);
}

static enum errc sort_next(struct op *op, struct batch **out, enum exec_status *status,
                           struct error *err)
{
    struct sort *s = op->state;

    if (!s->is_sorted) {
        enum errc rc = sort_fill(op, s, status, err);
        if (rc != OK || *status == EXEC_WAIT)
            return rc;
        sort_settle(op, s);
    }
    op->out.rows = 0;
    *out = &op->out;
    while (s->at < s->count && op->out.rows < LIMIT_ROWS_PER_BATCH)
        op_push(op, s->rows[s->at++].row);
    *status = op->out.rows ? EXEC_ROWS : EXEC_DONE;
    return OK;
}

const struct op_kind op_sort = { sort_next, sort_reset, sizeof(struct sort) };

/* ---- groups by value ---- */

struct group {
    struct val *keys;
    uint64_t hash;
    uint64_t rows;
    struct aggregate_state *aggregates;
    struct row_list into;
    struct group *next; /* in the order of arrival */
};

struct collect {
    struct group **slots;
    size_t slot_count, count;
    struct group *first, **last, *at;
    bool is_complete, is_started;
};

static void slots_grow(struct op *op, struct collect *s)
{
    size_t count = s->slot_count ? s->slot_count * 2 : 64;
    struct group **slots = arena_zalloc(op->x->arena, count * sizeof(*slots));

    for (struct group *g = s->first; g; g = g->next) {
        size_t i = g->hash & (count - 1);
        while (slots[i])
            i = (i + 1) & (count - 1);
        slots[i] = g;
    }
    s->slots = slots;
    s->slot_count = count;
}

static bool same_keys(const struct val *a, const struct val *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!val_equal(a[i], b[i]))
            return false;
    return true;
}

/* Finds the group of the keys or makes it (*is_new). */
static struct group *group_of(struct op *op, struct collect *s, const struct val *keys,
                              size_t count, bool *is_new)
{
    uint64_t hash = 0x9e3779b97f4a7c15u;

    if (!s->last)
        s->last = &s->first;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ val_hash(keys[i])) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
    if (s->count * 2 >= s->slot_count)
        slots_grow(op, s);
    size_t i = hash & (s->slot_count - 1);
    for (; s->slots[i]; i = (i + 1) & (s->slot_count - 1))
        if (s->slots[i]->hash == hash && same_keys(s->slots[i]->keys, keys, count)) {
            *is_new = false;
            return s->slots[i];
        }
    struct group *g = ARENA_NEW(op->x->arena, struct group);
    g->hash = hash;
    g->keys = arena_alloc(op->x->arena, (count + 1) * sizeof *g->keys);
    for (size_t k = 0; k < count; k++)
        g->keys[k] = keys[k];
    s->slots[i] = g;
    s->count++;
    *s->last = g;
    s->last = &g->next;
    *is_new = true;
    return g;
}

/* ---- DISTINCT ---- */

static enum errc distinct_next(struct op *op, struct batch **out, enum exec_status *status,
                               struct error *err)
{
    struct collect *s = op->state;
    struct val *row, v;
    bool is_new;

    op->out.rows = 0;
    *out = &op->out;
    while (op->out.rows < LIMIT_ROWS_PER_BATCH) {
        enum errc rc = op_input_row(op, &row, status, err);
        if (rc != OK)
            return rc;
        if (*status != EXEC_ROWS)
            break;
        rc = exec_keep(op->x, op->n->expr, row, &v, err);
        if (rc != OK)
            return rc;
        group_of(op, s, &v, 1, &is_new);
        if (is_new)
            op_push(op, row)[op->n->reg] = v;
    }
    if (op->out.rows)
        *status = EXEC_ROWS;
    return OK;
}

const struct op_kind op_distinct = { distinct_next, NULL, sizeof(struct collect) };

/* ---- COLLECT ---- */

static enum errc group_add(struct op *op, struct group *g, struct val *row, struct error *err)
{
    struct exec *x = op->x;
    const struct node *n = op->n;
    struct val v;
    enum errc rc = OK;

    g->rows++;
    if (!g->aggregates && n->aggregate_count)
        g->aggregates = arena_zalloc(x->arena, n->aggregate_count * sizeof *g->aggregates);
    for (uint32_t i = 0; i < n->aggregate_count; i++) {
        TRY(exec_keep(x, n->aggregates[i].expr, row, &v, err));
        TRY(aggregate_add(n->aggregates[i].kind, &g->aggregates[i], v, x->arena, &x->env, err));
    }
    if (n->into_reg == NO_REG)
        return OK;
    if (n->into_expr) {
        TRY(exec_keep(x, n->into_expr, row, &v, err));
    } else {
        struct val *values = arena_alloc(x->scratch, (n->keep_count + 1) * sizeof *values);
        for (uint32_t i = 0; i < n->keep_count; i++)
            values[i] = row[n->keep_regs[i]];
        v = val_new_object(x->arena, n->keep_names, values, n->keep_count);
    }
    row_list_add(&g->into, x->arena, v);
out:
    return rc;
}

static enum errc collect_fill(struct op *op, struct collect *s, enum exec_status *status,
                              struct error *err)
{
    struct exec *x = op->x;
    size_t count = op->n->expr_count;
    struct val *keys = arena_alloc(x->arena, (count + 1) * sizeof *keys), *row;
    bool is_new;

    if (!count) /* without keys there is one group, also of no rows */
        group_of(op, s, keys, 0, &is_new);
    for (;;) {
        enum errc rc = op_input_row(op, &row, status, err);
        if (rc != OK || *status != EXEC_ROWS)
            return rc;
        for (size_t i = 0; i < count; i++) {
            rc = exec_keep(x, op->n->exprs[i], row, &keys[i], err);
            if (rc != OK)
                return rc;
        }
        rc = group_add(op, group_of(op, s, keys, count, &is_new), row, err);
        if (rc == OK)
            rc = arena_check(x->arena, err);
        if (rc != OK)
            return rc;
    }
}

static int compare_groups(const void *a, const void *b, void *arg)
{
    const struct group *x = *(struct group *const *)a, *y = *(struct group *const *)b;
    const struct op *op = arg;

    for (uint32_t i = 0; i < op->n->expr_count; i++) {
        int c = val_compare(x->keys[i], y->keys[i], op->x->env.collator);
        if (c)
            return c;
    }
    return 0;
}

/* Groups come out in the order of their keys, as ArangoDB's sorted method gives them. */
static void sort_groups(struct op *op, struct collect *s)
{
    struct group **all = arena_alloc(op->x->arena, (s->count + 1) * sizeof(*all));
    size_t n = 0;

    for (struct group *g = s->first; g; g = g->next)
        all[n++] = g;
    qsort_r(all, n, sizeof(*all), compare_groups, op);
    s->last = &s->first;
    for (size_t i = 0; i < n; i++) {
        *s->last = all[i];
        s->last = &all[i]->next;
    }
    *s->last = NULL;
    s->at = s->first;
}

static void emit_group(struct op *op, const struct group *g)
{
    struct exec *x = op->x;
    const struct node *n = op->n;
    struct val *blank = arena_alloc(x->scratch, (x->plan->reg_count + 1) * sizeof *blank);

    /* An inner pipeline keeps the registers of the outer row. */
    const struct op *first = op;
    while (first->input)
        first = first->input;
    for (uint32_t i = 0; i < x->plan->reg_count; i++)
        blank[i] = first->outer[i];
    struct val *row = op_push(op, blank);
    for (uint32_t i = 0; i < n->expr_count; i++)
        row[n->regs[i]] = g->keys[i];
    for (uint32_t i = 0; i < n->aggregate_count; i++) {
        static const struct aggregate_state none;
        const struct aggregate_state *state = g->aggregates ? &g->aggregates[i] : &none;
        row[n->aggregates[i].reg] =
            aggregate_result(n->aggregates[i].kind, state, x->arena, &x->env);
    }
    if (n->into_reg != NO_REG)
        row[n->into_reg] = val_new_array(x->arena, g->into.items, g->into.count);
    if (n->reg != NO_REG)
        row[n->reg] = val_new_int(x->arena, (int64_t)g->rows);
}

static enum errc collect_next(struct op *op, struct batch **out, enum exec_status *status,
                              struct error *err)
{
    struct collect *s = op->state;
    struct arena_mark mark = arena_mark(op->x->scratch);

    if (!s->is_complete) {
        enum errc rc = collect_fill(op, s, status, err);
        if (rc != OK || *status == EXEC_WAIT)
            return rc;
        sort_groups(op, s);
        s->is_complete = true;
    }
    op->out.rows = 0;
    *out = &op->out;
    for (; s->at && op->out.rows < LIMIT_ROWS_PER_BATCH; s->at = s->at->next)
        emit_group(op, s->at);
    arena_rewind(op->x->scratch, mark);
    *status = op->out.rows ? EXEC_ROWS : EXEC_DONE;
    return OK;
}

const struct op_kind op_collect = { collect_next, NULL, sizeof(struct collect) };
