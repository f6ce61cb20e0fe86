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
    size_t at;
    uint64_t seen;
    bool is_complete;
};

static enum errc add_into(struct op *op, struct collected *g, struct val *row, struct error *err)
{
    const struct collect *c = op->n->collect;
    struct exec *x = op->x;
    struct val v;
    enum errc rc = OK;

    if (c->into_expr) {
        rc = exec_copy(x, c->into_expr, row, op->kept, &v, err);
    } else {
        struct arena_mark mark = arena_mark(x->scratch);
        struct val *values = arena_alloc(x->scratch, (c->keep_count + 1) * sizeof *values);
        for (uint32_t i = 0; i < c->keep_count; i++)
            values[i] = row[c->keep_regs[i]];
        v = val_new_object(op->kept, c->keep_names, values, c->keep_count);
        arena_rewind(x->scratch, mark);
    }
    if (rc == OK)
        row_list_add(&g->into, op->kept, v);
    return rc;
}

static enum errc add_aggregates(struct op *op, struct collected *g, struct val *row,
                                struct error *err)
{
    const struct collect *c = op->n->collect;
    struct exec *x = op->x;
    struct arena_mark mark = arena_mark(x->scratch);
    enum errc rc = OK;

    if (!g->aggregates && c->aggregate_count)
        g->aggregates = arena_zalloc(op->kept, c->aggregate_count * sizeof *g->aggregates);
    for (uint32_t i = 0; rc == OK && i < c->aggregate_count; i++) {
        struct val v;
        rc = exec_value(x, c->aggregates[i].expr, row, x->scratch, &v, err);
        if (rc == OK)
            aggregate_add(c->aggregates[i].kind, &g->aggregates[i], v, op->kept, &x->env);
        arena_rewind(x->scratch, mark);
    }
    return rc;
}

static enum errc find_group(struct op *op, struct collect_state *s, struct val *row,
                            struct group **out, struct error *err)
{
    struct exec *x = op->x;
    size_t count = op->n->expr_count;
    struct arena_mark mark = arena_mark(x->scratch);
    struct val *keys = arena_alloc(x->scratch, (count + 1) * sizeof *keys);
    bool is_new;
    enum errc rc = OK;

    for (size_t i = 0; rc == OK && i < count; i++)
        rc = exec_value(x, op->n->exprs[i], row, x->scratch, &keys[i], err);
    if (rc == OK)
        *out = groups_add(&s->groups, keys, &is_new);
    arena_rewind(x->scratch, mark);
    return rc;
}

static enum errc collect_row(struct op *op, struct collect_state *s, struct val *row,
                             struct error *err)
{
    struct group *group = s->groups.first; /* the only one without keys */
    enum errc rc = op->n->expr_count ? find_group(op, s, row, &group, err) : OK;

    if (rc != OK)
        return rc;
    struct collected *g = (struct collected *)group;
    g->rows++;
    if (op->n->collect->aggregate_count)
        rc = add_aggregates(op, g, row, err);
    if (rc == OK && op->n->collect->into_reg != NO_REG)
        rc = add_into(op, g, row, err);
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
    if (!op->n->expr_count) /* without keys there is one group, also of no rows */
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
static void sort_groups(struct op *op, struct collect_state *s)
{
    size_t n = 0;

    s->sorted = arena_alloc(op->kept, (s->groups.count + 1) * sizeof(*s->sorted));
    for (struct group *g = s->groups.first; g; g = g->next)
        s->sorted[n++] = (struct collected *)g;
    qsort_r(s->sorted, n, sizeof(*s->sorted), compare_groups, op);
}

static void emit_group(struct op *op, const struct collected *g)
{
    static const struct aggregate_state none;
    const struct collect *c = op->n->collect;
    struct val *row = op_push(op, op_outer(op));

    for (uint32_t i = 0; i < op->n->expr_count; i++)
        row[c->regs[i]] = g->group.keys[i];
    for (uint32_t i = 0; i < c->aggregate_count; i++)
        row[c->aggregates[i].reg] =
            aggregate_result(c->aggregates[i].kind, g->aggregates ? &g->aggregates[i] : &none,
                             op->batch, &op->x->env);
    if (c->into_reg != NO_REG)
        row[c->into_reg] = val_new_array(op->batch, g->into.items, g->into.count);
    if (c->count_reg != NO_REG)
        row[c->count_reg] = val_new_int(op->batch, (int64_t)g->rows);
}

static enum errc collect_next(struct op *op, struct batch **out, enum exec_status *status,
                              struct error *err)
{
    struct collect_state *s = op->state;

    if (!s->is_complete) {
        enum errc rc = collect_fill(op, s, status, err);
        if (rc != OK || *status == EXEC_WAIT)
            return rc;
        sort_groups(op, s);
        s->is_complete = true;
    }
    op_begin_batch(op);
    *out = &op->out;
    while (s->at < s->groups.count && !op_is_full(op))
        emit_group(op, s->sorted[s->at++]);
    *status = op->out.rows ? EXEC_ROWS : EXEC_DONE;
    return OK;
}

const struct op_kind op_collect = { collect_next, NULL, sizeof(struct collect_state) };
