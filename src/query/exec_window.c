/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WINDOW. Of each row are kept the registers that are live behind the node and the
 * values that go into its aggregates, evaluated once. By rows, a window is a part
 * of them; by range, a part of them in the order of their values, which is not
 * always the order of the rows (a text that is a number, say), so places are kept.
 * Rows whose value cannot be placed are in no window and get null.
 *
 * Where the window only grows its aggregates are carried on; where it also loses
 * rows they are made again. With all rows before and none behind nothing is kept:
 * rows pass through.
 */
#include "query/aggregate.h"
#include "query/cast.h"
#include "query/exec.h"
#include <stdlib.h>

enum { POLL_ROWS = 256 };

struct windowed {
    struct val *live, *inputs; /* inputs: of the aggregates */
    struct val value;          /* by range: a number, or VAL_NONE */
    struct val lower, upper;
};

struct window_state {
    struct windowed *rows; /* in op->kept */
    size_t count, cap, at;
    uint32_t *order; /* by range: rows by their values; those without are not there */
    size_t order_count;
    struct aggregate_state *states;
    struct arena *arena; /* of the states; owned */
    size_t from, to;     /* what the states hold: of rows, or of order */
    uint64_t added;
    bool is_complete;
};

static void window_reset(struct op *op)
{
    struct window_state *s = op->state;

    arena_free(s->arena);
    s->arena = NULL;
}

static void begin_states(struct op *op, struct window_state *s)
{
    if (!s->arena)
        s->arena = arena_child(op->x->arena);
    arena_reset(s->arena);
    s->states = arena_zalloc(s->arena, (op->n->window->aggregate_count + 1) * sizeof *s->states);
}

/* ---- values ---- */

/* A text that is a number reads as 0 when it is none: then it must be spelled so. */
static bool is_number_text(struct slice text, struct val number)
{
    bool has_zero = false;

    if (val_double(number) != 0)
        return true;
    for (size_t i = 0; i < text.len; i++) {
        if (!strchr(" \t0+-.eE", text.ptr[i]))
            return false;
        has_zero = has_zero || text.ptr[i] == '0';
    }
    return has_zero;
}

/* False: the value has no place on the axis. */
static bool place_value(struct val v, bool is_date, struct arena *arena, struct val *out)
{
    static const double first_ms = -62167219200000.0, last_ms = 253402300799999.0;

    *out = v;
    if (is_date)
        return val_type(v) == VAL_NUMBER && val_double(v) >= first_ms && val_double(v) <= last_ms;
    while (val_type(v) == VAL_ARRAY && val_count(v) == 1)
        v = val_at(v, 0);
    *out = cast_number(arena, v);
    if (val_type(v) == VAL_STRING)
        return is_number_text(val_string(v), *out);
    return val_type(v) != VAL_OBJECT && !(val_type(v) == VAL_ARRAY && val_count(v));
}

static void warn_of_value(const struct exec *x, bool is_date)
{
    if (x->env.warn)
        x->env.warn(x->env.warn_ctx, is_date ? 1572 : 1561,
                    is_date ? "invalid date value" : "invalid arithmetic value");
}

static enum errc read_range(struct op *op, struct val *row, struct windowed *r, struct error *err)
{
    const struct window *w = op->n->window;
    struct exec *x = op->x;
    struct val v;
    enum errc rc = OK;

    TRY(exec_copy(x, op->n->expr, row, op->kept, &v, err));
    if (!place_value(v, w->is_date, op->kept, &row[op->n->reg])) {
        warn_of_value(x, w->is_date);
        return OK;
    }
    r->value = row[op->n->reg];
    TRY(exec_copy(x, w->lower, row, op->kept, &r->lower, err));
    rc = exec_copy(x, w->upper, row, op->kept, &r->upper, err);
out:
    return rc;
}

/* ---- keeping ---- */

static void reserve(struct op *op, struct window_state *s)
{
    if (s->count < s->cap)
        return;
    size_t cap = s->cap ? s->cap * 2 : 64;
    struct windowed *rows = arena_alloc(op->kept, cap * sizeof *rows);
    if (s->count)
        memcpy(rows, s->rows, s->count * sizeof *rows);
    s->rows = rows;
    s->cap = cap;
}

static enum errc add_row(struct op *op, struct window_state *s, struct val *row, struct error *err)
{
    const struct window *w = op->n->window;
    struct windowed one = { 0 };

    reserve(op, s);
    one.inputs = arena_alloc(op->kept, (w->aggregate_count + 1) * sizeof *one.inputs);
    for (uint32_t i = 0; i < w->aggregate_count; i++) {
        enum errc rc = exec_copy(op->x, w->aggregates[i].expr, row, op->kept, &one.inputs[i], err);
        if (rc != OK)
            return rc;
    }
    enum errc rc = op->n->expr ? read_range(op, row, &one, err) : OK;
    if (rc != OK)
        return rc;
    one.live = op_keep_live(op, row, op->kept);
    s->rows[s->count++] = one;
    return OK;
}

static int compare_values(const void *a, const void *b, void *rows)
{
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    int c =
        val_compare(((struct windowed *)rows)[i].value, ((struct windowed *)rows)[k].value, NULL);

    return c ? c : i < k ? -1 : 1;
}

static void place_rows(struct op *op, struct window_state *s)
{
    s->order = arena_alloc(op->kept, (s->count + 1) * sizeof *s->order);
    for (size_t i = 0; i < s->count; i++)
        if (s->rows[i].value.at)
            s->order[s->order_count++] = (uint32_t)i;
    if (s->order_count)
        qsort_r(s->order, s->order_count, sizeof *s->order, compare_values, s->rows);
}

static enum errc fill(struct op *op, struct window_state *s, enum exec_status *status,
                      struct error *err)
{
    struct val *row;

    for (;;) {
        enum errc rc = op_input_row(op, &row, status, err);
        if (rc != OK || *status != EXEC_ROWS)
            return rc;
        if (s->count == UINT32_MAX)
            return fail(err, ERR_LIMIT, "WINDOW takes at most %u rows", UINT32_MAX);
        rc = add_row(op, s, row, err);
        if (rc == OK && s->count % POLL_ROWS == 0)
            rc = exec_poll(op->x, err);
        if (rc != OK)
            return rc;
    }
}

/* ---- windows ---- */

/* How many of the placed values lie below v; with is_included, also those equal to it. */
static size_t count_below(const struct window_state *s, struct val v, bool is_included)
{
    size_t low = 0, high = s->order_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = val_compare(s->rows[s->order[middle]].value, v, NULL);
        if (c < 0 || (is_included && !c))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void find_window(const struct op *op, const struct window_state *s, size_t *from, size_t *to)
{
    const struct window *w = op->n->window;
    const struct windowed *r = &s->rows[s->at];

    if (op->n->expr) { /* a date out of all bounds is null: there is no end */
        *from = count_below(s, r->lower, false);
        *to = val_is_null(r->upper) ? s->order_count : count_below(s, r->upper, true);
        return;
    }
    uint64_t preceding = (uint64_t)w->preceding, following = (uint64_t)w->following;
    *from = s->at > preceding ? s->at - (size_t)preceding : 0;
    *to = following < s->count - s->at ? s->at + (size_t)following + 1 : s->count;
}

static enum errc hold(struct op *op, struct window_state *s, size_t from, size_t to,
                      struct error *err)
{
    const struct window *w = op->n->window;

    if (!s->states || from != s->from || to < s->to) {
        begin_states(op, s);
        s->to = from;
    }
    s->from = from;
    for (; s->to < to; s->to++) {
        const struct windowed *r = &s->rows[op->n->expr ? s->order[s->to] : s->to];
        for (uint32_t i = 0; i < w->aggregate_count; i++)
            aggregate_add(w->aggregates[i].kind, &s->states[i], r->inputs[i], s->arena,
                          &op->x->env);
        enum errc rc = ++s->added % POLL_ROWS == 0 ? exec_poll(op->x, err) : OK;
        if (rc != OK)
            return rc;
    }
    return OK;
}

/* Results may lie among the states, which do not stay. */
static void set_results(struct op *op, struct window_state *s, struct val *row)
{
    const struct window *w = op->n->window;

    for (uint32_t i = 0; i < w->aggregate_count; i++)
        row[w->aggregates[i].reg] =
            val_copy(op->batch, aggregate_result(w->aggregates[i].kind, &s->states[i], op->batch,
                                                 &op->x->env));
}

static enum errc emit(struct op *op, struct window_state *s, struct error *err)
{
    const struct window *w = op->n->window;
    const struct windowed *r = &s->rows[s->at];
    size_t from, to;

    if (op->n->expr && !r->value.at) {
        struct val *row = op_push_live(op, r->live);
        for (uint32_t i = 0; i < w->aggregate_count; i++)
            row[w->aggregates[i].reg] = val_null;
        return OK;
    }
    find_window(op, s, &from, &to);
    enum errc rc = hold(op, s, from, to, err);
    if (rc == OK)
        set_results(op, s, op_push_live(op, r->live));
    return rc;
}

/* ---- all rows before ---- */

static bool passes_through(const struct op *op)
{
    const struct window *w = op->n->window;

    return !op->n->expr && w->preceding == WINDOW_ALL && w->following == 0;
}

static enum errc accumulate_row(struct op *op, struct window_state *s, struct val *row,
                                struct error *err)
{
    const struct window *w = op->n->window;
    struct exec *x = op->x;
    struct arena_mark mark = arena_mark(x->scratch);
    struct val v;
    enum errc rc = OK;

    for (uint32_t i = 0; rc == OK && i < w->aggregate_count; i++) {
        rc = exec_value(x, w->aggregates[i].expr, row, x->scratch, &v, err);
        if (rc == OK)
            aggregate_add(w->aggregates[i].kind, &s->states[i], v, s->arena, &x->env);
    }
    arena_rewind(x->scratch, mark);
    if (rc == OK)
        set_results(op, s, row);
    return rc == OK && ++s->added % POLL_ROWS == 0 ? exec_poll(x, err) : rc;
}

static enum errc accumulate(struct op *op, struct window_state *s, struct batch **out,
                            enum exec_status *status, struct error *err)
{
    size_t regs = op->x->plan->reg_count;
    enum errc rc = op_next(op->input, out, status, err);

    arena_reset(op->batch);
    if (!s->states)
        begin_states(op, s);
    for (size_t i = 0; rc == OK && *status == EXEC_ROWS && i < (*out)->rows; i++)
        rc = accumulate_row(op, s, (*out)->cells + i * regs, err);
    return rc;
}

static enum errc window_next(struct op *op, struct batch **out, enum exec_status *status,
                             struct error *err)
{
    struct window_state *s = op->state;
    enum errc rc = OK;

    if (passes_through(op))
        return accumulate(op, s, out, status, err);
    if (!s->is_complete) {
        rc = fill(op, s, status, err);
        if (rc != OK || *status == EXEC_WAIT)
            return rc;
        if (op->n->expr)
            place_rows(op, s);
        s->is_complete = true;
    }
    op_begin_batch(op);
    *out = &op->out;
    for (; rc == OK && s->at < s->count && !op_is_full(op); s->at++)
        rc = emit(op, s, err);
    *status = op->out.rows ? EXEC_ROWS : EXEC_DONE;
    return rc;
}

const struct op_kind op_window = { window_next, window_reset, sizeof(struct window_state) };
