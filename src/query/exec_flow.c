/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that pass rows on: loops over lists, FILTER, LET, LIMIT, subqueries. */
#include "query/cast.h"
#include "query/exec.h"

enum { HELD_MAX = MIB, POLL_ROWS = 64 };

/* ---- singleton ---- */

struct singleton {
    bool was_sent;
};

static enum errc singleton_next(struct op *op, struct batch **out, enum exec_status *status,
                                struct error *err)
{
    struct singleton *s = op->state;

    (void)err;
    *status = s->was_sent ? EXEC_DONE : EXEC_ROWS;
    op_begin_batch(op);
    if (!s->was_sent)
        op_push(op, op->outer);
    s->was_sent = true;
    *out = &op->out;
    return OK;
}

const struct op_kind op_singleton = { singleton_next, NULL, sizeof(struct singleton) };

/* ---- FOR over a list ---- */

/* Computed lists live in op->kept until all rows that point into them are gone. */
struct enum_list {
    struct val list, *row;
    uint64_t at, count;
    int64_t from, step; /* a range is counted, not built; step 0: no range */
};

static enum errc range_open(struct op *op, struct enum_list *s, struct error *err)
{
    struct exec *x = op->x;
    struct arena_mark mark = arena_mark(x->scratch);
    int64_t bound[2] = { 0 };
    struct val v;
    enum errc rc = OK;

    for (int i = 0; rc == OK && i < 2; i++) {
        rc = expr_eval(op->n->expr->kids[i], s->row, x->scratch, &x->env, &v, err);
        if (rc == OK)
            bound[i] = val_int(cast_number(x->scratch, v));
    }
    arena_rewind(x->scratch, mark);
    s->at = 0;
    s->from = bound[0];
    s->step = bound[0] <= bound[1] ? 1 : -1;
    s->count = s->step > 0 ? (uint64_t)bound[1] - (uint64_t)bound[0]
                           : (uint64_t)bound[0] - (uint64_t)bound[1];
    s->count += s->count < UINT64_MAX;
    return rc;
}

static struct val list_value(struct op *op, struct enum_list *s)
{
    uint64_t at = s->at++;

    if (!s->step)
        return val_at(s->list, at);
    return val_new_int(op->batch, (int64_t)((uint64_t)s->from + at * (uint64_t)s->step));
}

static enum errc list_open(struct op *op, struct enum_list *s, struct error *err)
{
    if (!op->out.rows)
        arena_reset(op->kept);
    if (op->n->expr->kind == EXPR_RANGE)
        return range_open(op, s, err);
    enum errc rc = exec_value(op->x, op->n->expr, s->row, op->kept, &s->list, err);

    if (rc != OK)
        return rc;
    s->at = 0;
    s->count = val_count(s->list);
    if (val_type(s->list) == VAL_ARRAY)
        return OK;
    return fail_num(err, 1563,
                    "collection or array expected as operand to FOR loop; it is a value "
                    "of type %s",
                    val_type_name(val_type(s->list)));
}

/* Takes the next input row and opens its list; *has false: what is there is given on. */
static enum errc list_advance(struct op *op, struct enum_list *s, bool *has,
                              enum exec_status *status, struct error *err)
{
    enum errc rc = OK;

    *has = false;
    s->row = NULL;
    if (op->out.rows && arena_used(op->kept) > HELD_MAX)
        return OK;
    rc = op_input_row(op, &s->row, status, err);
    if (rc != OK || *status != EXEC_ROWS || !s->row) {
        s->row = NULL;
        return rc;
    }
    *has = true;
    return list_open(op, s, err);
}

static enum errc list_next(struct op *op, struct batch **out, enum exec_status *status,
                           struct error *err)
{
    struct enum_list *s = op->state;
    bool has = true;

    op_begin_batch(op);
    *out = &op->out;
    while (!op_is_full(op) && has) {
        if (s->row && s->at < s->count) {
            op_push(op, s->row)[op->n->reg] = list_value(op, s);
            continue;
        }
        enum errc rc = list_advance(op, s, &has, status, err);
        if (rc != OK)
            return rc;
    }
    if (op->out.rows)
        *status = EXEC_ROWS;
    return OK;
}

const struct op_kind op_enum_list = { list_next, NULL, sizeof(struct enum_list) };

/* ---- FILTER, LET: in place ---- */

static enum errc filter_next(struct op *op, struct batch **out, enum exec_status *status,
                             struct error *err)
{
    size_t regs = op->x->plan->reg_count;

    for (;;) {
        enum errc rc = op_next(op->input, out, status, err);
        size_t kept = 0;
        if (rc != OK || *status != EXEC_ROWS)
            return rc;
        for (size_t i = 0; i < (*out)->rows; i++) {
            struct val *row = (*out)->cells + i * regs;
            bool passes;
            rc = exec_test(op->x, (struct expr *const *)&op->n->expr, 1, row, &passes, err);
            if (rc != OK)
                return rc;
            if (passes && kept != i)
                memcpy((*out)->cells + kept * regs, row, regs * sizeof *row);
            kept += passes;
        }
        op->x->stats->filtered += (*out)->rows - kept;
        (*out)->rows = kept;
        if (kept)
            return OK;
    }
}

const struct op_kind op_filter = { filter_next, NULL, 0 };

static enum errc calc_next(struct op *op, struct batch **out, enum exec_status *status,
                           struct error *err)
{
    size_t regs = op->x->plan->reg_count;
    enum errc rc = op_next(op->input, out, status, err);

    arena_reset(op->batch);
    for (size_t i = 0; rc == OK && *status == EXEC_ROWS && i < (*out)->rows; i++) {
        struct val *row = (*out)->cells + i * regs;
        rc = exec_value(op->x, op->n->expr, row, op->batch, &row[op->n->reg], err);
        if (rc == OK && i % POLL_ROWS == POLL_ROWS - 1)
            rc = exec_poll(op->x, err);
    }
    return rc;
}

const struct op_kind op_calc = { calc_next, NULL, 0 };

/* RETURN is evaluated by who drains the pipeline. */
static enum errc pass_next(struct op *op, struct batch **out, enum exec_status *status,
                           struct error *err)
{
    return op_next(op->input, out, status, err);
}

const struct op_kind op_return = { pass_next, NULL, 0 };

/* ---- LIMIT ---- */

struct limit {
    uint64_t seen;
    bool has_asked;
    struct batch part; /* of the input's batch */
};

/* LIMIT 0 keeps no row, but the writes under it are made. */
static bool limit_is_reached(const struct op *op, const struct limit *s, uint64_t to)
{
    bool may_stop = s->has_asked || !op->x->plan->is_write;

    return s->seen >= to && !op->n->counts_full && may_stop;
}

static enum errc limit_next(struct op *op, struct batch **out, enum exec_status *status,
                            struct error *err)
{
    struct limit *s = op->state;
    uint64_t from = (uint64_t)op->n->offset;
    uint64_t to = op->n->limit < 0 ? UINT64_MAX : from + (uint64_t)op->n->limit;
    struct batch *in;

    *out = &s->part;
    for (;;) {
        if (limit_is_reached(op, s, to)) {
            *status = EXEC_DONE;
            return OK;
        }
        s->has_asked = true;
        enum errc rc = op_next(op->input, &in, status, err);
        if (op->n->counts_full)
            op->x->stats->full_count = s->seen;
        if (rc != OK || *status != EXEC_ROWS)
            return rc;
        uint64_t first = from > s->seen ? from - s->seen : 0;
        uint64_t end = to > s->seen ? to - s->seen : 0;
        s->seen += in->rows;
        if (end > in->rows)
            end = in->rows;
        if (first >= end)
            continue;
        s->part.cells = in->cells + first * op->x->plan->reg_count;
        s->part.rows = end - first;
        return OK;
    }
}

const struct op_kind op_limit = { limit_next, NULL, sizeof(struct limit) };

/* ---- subqueries ---- */

struct subquery {
    struct batch *in;
    size_t at;
    bool is_running;
    struct row_list rows; /* in op->kept */
};

/* One row's subquery; leaves with WAIT and comes back. */
static enum errc subquery_row(struct op *op, struct subquery *s, struct val *row,
                              enum exec_status *status, struct error *err)
{
    bool runs = true;
    enum errc rc = OK;

    if (!s->is_running && op->n->expr)
        rc = exec_test(op->x, (struct expr *const *)&op->n->expr, 1, row, &runs, err);
    *status = EXEC_DONE;
    if (rc != OK || !runs) {
        row[op->n->reg] = val_null;
        return rc;
    }
    if (!s->is_running) {
        op_start_sub(op, row);
        s->rows = (struct row_list){ 0 };
        s->is_running = true;
    }
    rc = exec_drain(op->sub, op->kept, &s->rows, status, err);
    if (rc != OK || *status == EXEC_WAIT)
        return rc;
    row[op->n->reg] = val_new_array(op->batch, s->rows.items, s->rows.count);
    arena_reset(op->kept);
    s->is_running = false;
    return OK;
}

static enum errc subquery_next(struct op *op, struct batch **out, enum exec_status *status,
                               struct error *err)
{
    struct subquery *s = op->state;
    enum errc rc = OK;

    if (!s->in) {
        rc = op_next(op->input, &s->in, status, err);
        if (rc != OK || *status != EXEC_ROWS) {
            s->in = NULL;
            return rc;
        }
        arena_reset(op->batch);
        s->at = 0;
    }
    for (; s->at < s->in->rows; s->at++) {
        rc = subquery_row(op, s, s->in->cells + s->at * op->x->plan->reg_count, status, err);
        if (rc != OK || *status == EXEC_WAIT)
            return rc;
    }
    *out = s->in;
    s->in = NULL;
    *status = EXEC_ROWS;
    return exec_poll(op->x, err);
}

const struct op_kind op_subquery = { subquery_next, NULL, sizeof(struct subquery) };
