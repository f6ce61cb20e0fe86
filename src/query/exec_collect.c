/* SPDX-License-Identifier: Apache-2.0 */
/* Operators over groups of equal values: COLLECT, DISTINCT. */
#include "query/aggregate.h"
#include "query/exec.h"
#include "query/groups.h"
#include <stdlib.h>

enum { POLL_ROWS = 256 };

/* ---- DISTINCT: in place ---- */

struct distinct {
    struct groups groups;
};

static enum errc distinct_row(struct op *op, struct distinct *s, struct val *row, bool *is_new,
                              struct error *err)
{
    struct exec *x = op->x;
    struct arena_mark mark = arena_mark(x->scratch);
    struct val v;
    enum errc rc = exec_value(x, op->n->expr, row, x->scratch, &v, err);

    if (rc == OK)
        row[op->n->reg] = groups_add(&s->groups, &v, is_new)->keys[0];
    arena_rewind(x->scratch, mark);
    return rc;
}

static enum errc distinct_next(struct op *op, struct batch **out, enum exec_status *status,
                               struct error *err)
{
    struct distinct *s = op->state;
    size_t regs = op->x->plan->reg_count;
    bool is_new;

    s->groups.arena = op->kept;
    s->groups.key_count = 1;
    s->groups.group_bytes = sizeof(struct group);
    for (;;) {
        enum errc rc = op_next(op->input, out, status, err);
        size_t kept = 0;
        if (rc != OK || *status != EXEC_ROWS)
            return rc;
        for (size_t i = 0; i < (*out)->rows; i++) {
            struct val *row = (*out)->cells + i * regs;
            rc = distinct_row(op, s, row, &is_new, err);
            if (rc != OK)
                return rc;
            if (is_new && kept != i)
                memcpy((*out)->cells + kept * regs, row, regs * sizeof *row);
            kept += is_new;
        }
        (*out)->rows = kept;
        if (kept)
            return OK;
    }
}

const struct op_kind op_distinct = { distinct_next, NULL, sizeof(struct distinct) };

/* ---- COLLECT ---- */

struct collected {
    struct group group;
    uint64_t rows;
    struct aggregate_state *aggregates;
    struct row_list into;
};

struct collect_state {
    struct groups groups;
    struct collected **sorted;
    struct collected *current; /* of sorted rows: the only group, in op->kept */
    struct spill *spill;       /* rows of groups for which there was no room; owned */
    struct arena *arena;       /* of one group of them; owned */
    struct val *spilled;       /* the next of these rows, or NULL */
    size_t at;
    uint64_t seen;
    bool is_complete;
};

/* What one row adds to its group: a value for each aggregate, then that of INTO. */
static uint32_t input_count(const struct op *op)
{
    const struct collect *c = op->n->collect;

    return c->aggregate_count + (c->into_reg != NO_REG);
}

static enum errc into_value(struct op *op, struct val *row, struct arena *arena, struct val *out,
                            struct error *err)
{
    const struct collect *c = op->n->collect;

    if (c->into_expr)
        return exec_value(op->x, c->into_expr, row, arena, out, err);
    struct val *values = arena_alloc(arena, (c->keep_count + 1) * sizeof *values);
    for (uint32_t i = 0; i < c->keep_count; i++)
        values[i] = row[c->keep_regs[i]];
    *out = val_new_object(arena, c->keep_names, values, c->keep_count);
    return OK;
}

static enum errc make_inputs(struct op *op, struct val *row, struct arena *arena,
                             struct val *inputs, struct error *err)
{
    const struct collect *c = op->n->collect;
    enum errc rc = OK;

    for (uint32_t i = 0; rc == OK && i < c->aggregate_count; i++)
        rc = exec_value(op->x, c->aggregates[i].expr, row, arena, &inputs[i], err);
    if (rc == OK && c->into_reg != NO_REG)
        rc = into_value(op, row, arena, &inputs[c->aggregate_count], err);
    return rc;
}

/* The group's memory is in arena. */
static void add_inputs(struct op *op, struct collected *g, const struct val *inputs,
                       struct arena *arena)
{
    const struct collect *c = op->n->collect;

    g->rows++;
    if (!g->aggregates && c->aggregate_count)
        g->aggregates = arena_zalloc(arena, c->aggregate_count * sizeof *g->aggregates);
    for (uint32_t i = 0; i < c->aggregate_count; i++)
        aggregate_add(c->aggregates[i].kind, &g->aggregates[i], inputs[i], arena, &op->x->env);
    if (c->into_reg != NO_REG)
        row_list_add(&g->into, arena, val_copy(arena, inputs[c->aggregate_count]));
}

/* ---- the table ---- */

static bool is_too_large(const struct op *op)
{
    const struct spill_space *space = op->x->spill;

    return space && op->n->expr_count && arena_used(op->kept) > space->memory_bytes;
}

/* From here on the groups that are there grow, and rows of others go to disk. */
static void start_spill(struct op *op, struct collect_state *s)
{
    struct spill_order order = { .keys = op->n->expr_count,
                                 .values = input_count(op),
                                 .collator = op->x->env.collator };

    s->spill = spill_new(op->x->spill, &order, op->x->arena);
}

static enum errc collect_row(struct op *op, struct collect_state *s, struct val *row,
                             struct error *err)
{
    struct exec *x = op->x;
    uint32_t count = op->n->expr_count;
    struct arena_mark mark = arena_mark(x->scratch);
    struct val *keys = arena_alloc(x->scratch, (count + 1) * sizeof *keys);
    struct val *inputs = arena_alloc(x->scratch, (input_count(op) + 1) * sizeof *inputs);
    struct group *group = s->groups.first; /* the only one without keys */
    bool is_new;
    enum errc rc = OK;

    for (uint32_t i = 0; rc == OK && i < count; i++)
        rc = exec_value(x, op->n->exprs[i], row, x->scratch, &keys[i], err);
    if (rc == OK)
        rc = make_inputs(op, row, x->scratch, inputs, err);
    if (rc == OK && count)
        group = s->spill ? groups_find(&s->groups, keys) : groups_add(&s->groups, keys, &is_new);
    if (rc == OK && group)
        add_inputs(op, (struct collected *)group, inputs, op->kept);
    else if (rc == OK)
        rc = spill_add(s->spill, keys, inputs, err);
    arena_rewind(x->scratch, mark);
    if (rc == OK && !s->spill && is_too_large(op))
        start_spill(op, s);
    return rc;
}

static enum errc collect_fill(struct op *op, struct collect_state *s, enum exec_status *status,
                              struct error *err)
{
    struct val *row;
    bool is_new;

    s->groups.arena = op->kept;
    s->groups.key_count = op->n->expr_count;
    s->groups.group_bytes = sizeof(struct collected);
    if (!op->n->expr_count && !s->groups.first) /* without keys: one group, also of no rows */
        groups_add(&s->groups, NULL, &is_new);
    for (;;) {
        enum errc rc = op_input_row(op, &row, status, err);
        if (rc != OK || *status != EXEC_ROWS)
            return rc;
        rc = collect_row(op, s, row, err);
        if (rc == OK && ++s->seen % POLL_ROWS == 0)
            rc = exec_poll(op->x, err);
        if (rc != OK)
            return rc;
    }
}

static int compare_keys(const struct op *op, const struct val *a, const struct val *b)
{
    for (uint32_t i = 0; i < op->n->expr_count; i++) {
        int c = val_compare(a[i], b[i], op->x->env.collator);
        if (c)
            return c;
    }
    return 0;
}

static int compare_groups(const void *a, const void *b, void *arg)
{
    const struct group *x = *(struct group *const *)a, *y = *(struct group *const *)b;

    return compare_keys(arg, x->keys, y->keys);
}

/* Groups come out in the order of their keys, as ArangoDB's sorted method gives them. */
static void sort_groups(struct op *op, struct collect_state *s)
{
    size_t n = 0;

    s->sorted = arena_alloc(op->kept, (s->groups.count + 1) * sizeof(*s->sorted));
    for (struct group *g = s->groups.first; g; g = g->next)
        s->sorted[n++] = (struct collected *)g;
    qsort_r(s->sorted, n, sizeof(*s->sorted), compare_groups, op);
}

/* is_passing: the group's memory is used again for the next one. */
static void emit_group(struct op *op, const struct collected *g, bool is_passing)
{
    static const struct aggregate_state none;
    const struct collect *c = op->n->collect;
    struct val *row = op_push(op, op_outer(op));

    for (uint32_t i = 0; i < op->n->expr_count; i++)
        row[c->regs[i]] = is_passing ? val_copy(op->batch, g->group.keys[i]) : g->group.keys[i];
    for (uint32_t i = 0; i < c->aggregate_count; i++) {
        struct val v =
            aggregate_result(c->aggregates[i].kind, g->aggregates ? &g->aggregates[i] : &none,
                             op->batch, &op->x->env);
        row[c->aggregates[i].reg] = is_passing ? val_copy(op->batch, v) : v;
    }
    if (c->into_reg != NO_REG)
        row[c->into_reg] = val_new_array(op->batch, g->into.items, g->into.count);
    if (c->count_reg != NO_REG)
        row[c->count_reg] = val_new_int(op->batch, (int64_t)g->rows);
}

/* ---- sorted rows ---- */

static bool is_in_group(const struct op *op, const struct collected *g, const struct val *keys)
{
    for (uint32_t i = 0; i < op->n->expr_count; i++)
        if (!val_equal(g->group.keys[i], keys[i]))
            return false;
    return true;
}

/* The only group of an arena that is emptied for it. */
static struct collected *fresh_group(const struct op *op, struct arena *arena,
                                     const struct val *keys)
{
    uint32_t count = op->n->expr_count;

    arena_reset(arena);
    struct collected *g = ARENA_NEW(arena, struct collected);
    g->group.keys = arena_alloc(arena, (count + 1) * sizeof *g->group.keys);
    for (uint32_t i = 0; i < count; i++)
        g->group.keys[i] = val_copy(arena, keys[i]);
    return g;
}

static enum errc sorted_row(struct op *op, struct collect_state *s, struct val *row,
                            struct error *err)
{
    struct exec *x = op->x;
    struct arena_mark mark = arena_mark(x->scratch);
    struct val *keys = arena_alloc(x->scratch, (op->n->expr_count + 1) * sizeof *keys);
    struct val *inputs = arena_alloc(x->scratch, (input_count(op) + 1) * sizeof *inputs);
    enum errc rc = OK;

    for (uint32_t i = 0; rc == OK && i < op->n->expr_count; i++)
        rc = exec_value(x, op->n->exprs[i], row, x->scratch, &keys[i], err);
    if (rc == OK)
        rc = make_inputs(op, row, x->scratch, inputs, err);
    if (rc == OK && s->current && !is_in_group(op, s->current, keys)) {
        emit_group(op, s->current, true);
        s->current = NULL;
    }
    if (rc == OK && !s->current)
        s->current = fresh_group(op, op->kept, keys);
    if (rc == OK)
        add_inputs(op, s->current, inputs, op->kept);
    arena_rewind(x->scratch, mark);
    return rc;
}

static enum errc sorted_next(struct op *op, struct batch **out, enum exec_status *status,
                             struct error *err)
{
    struct collect_state *s = op->state;
    struct val *row;

    op_begin_batch(op);
    *out = &op->out;
    while (!op_is_full(op)) {
        enum errc rc = op_input_row(op, &row, status, err);
        if (rc == OK && row)
            rc = sorted_row(op, s, row, err);
        if (rc == OK && ++s->seen % POLL_ROWS == 0)
            rc = exec_poll(op->x, err);
        if (rc != OK)
            return rc;
        if (!row)
            break;
    }
    if (*status == EXEC_DONE && s->current) {
        emit_group(op, s->current, true);
        s->current = NULL;
    }
    if (op->out.rows)
        *status = EXEC_ROWS;
    return OK;
}

/* ---- groups on disk ---- */

static enum errc next_spilled(struct collect_state *s, struct error *err)
{
    s->spilled = NULL;
    return s->spill ? spill_next(s->spill, &s->spilled, err) : OK;
}

/* The rows of one group follow each other. */
static enum errc emit_spilled(struct op *op, struct collect_state *s, struct error *err)
{
    struct collected *g = fresh_group(op, s->arena, s->spilled);

    while (s->spilled && is_in_group(op, g, s->spilled)) {
        add_inputs(op, g, s->spilled + op->n->expr_count, s->arena);
        enum errc rc = next_spilled(s, err);
        if (rc == OK && ++s->seen % POLL_ROWS == 0)
            rc = exec_poll(op->x, err);
        if (rc != OK)
            return rc;
    }
    emit_group(op, g, true);
    return OK;
}

static enum errc open_groups(struct op *op, struct collect_state *s, struct error *err)
{
    enum errc rc = OK;

    sort_groups(op, s);
    s->is_complete = true;
    if (!s->spill)
        return OK;
    s->arena = arena_child(op->x->arena);
    rc = spill_finish(s->spill, err);
    return rc == OK ? next_spilled(s, err) : rc;
}

static void collect_reset(struct op *op)
{
    struct collect_state *s = op->state;

    spill_free(s->spill);
    arena_free(s->arena);
    s->spill = NULL;
    s->arena = NULL;
}

static enum errc collect_next(struct op *op, struct batch **out, enum exec_status *status,
                              struct error *err)
{
    struct collect_state *s = op->state;

    if (op->n->collect->is_sorted && op->n->expr_count)
        return sorted_next(op, out, status, err);
    if (!s->is_complete) {
        enum errc rc = collect_fill(op, s, status, err);
        if (rc != OK || *status == EXEC_WAIT)
            return rc;
        rc = open_groups(op, s, err);
        if (rc != OK)
            return rc;
    }
    op_begin_batch(op);
    *out = &op->out;
    while (!op_is_full(op) && (s->spilled || s->at < s->groups.count)) {
        bool is_spilled =
            s->spilled && (s->at == s->groups.count ||
                           compare_keys(op, s->spilled, s->sorted[s->at]->group.keys) < 0);
        enum errc rc = is_spilled ? emit_spilled(op, s, err) : OK;
        if (rc != OK)
            return rc;
        if (!is_spilled)
            emit_group(op, s->sorted[s->at++], false);
    }
    *status = op->out.rows ? EXEC_ROWS : EXEC_DONE;
    return OK;
}

const struct op_kind op_collect = { collect_next, collect_reset, sizeof(struct collect_state) };
