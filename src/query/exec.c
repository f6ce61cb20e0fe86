/* SPDX-License-Identifier: Apache-2.0 */
/* The pipeline and its simple operators. */
#include "query/exec.h"
#include "query/cast.h"
#include <stdlib.h>

enum { CELLS_MAX = 1 << 20 };

/* ---- helpers ---- */

enum errc exec_poll(struct exec *x, struct error *err)
{
    if (x->cancel && atomic_load_explicit(x->cancel, memory_order_relaxed))
        return fail_num(err, 1500, "query killed");
    if (x->deadline_us && env_mono_us(x->env.env) > x->deadline_us)
        return fail_num(err, 1500, "query killed: it ran longer than maxRuntime");
    enum errc rc = arena_check(x->arena, err);
    return rc == OK ? arena_check(x->scratch, err) : rc;
}

enum errc exec_keep(struct exec *x, const struct expr *e, struct val *row, struct val *out,
                    struct error *err)
{
    if (expr_is_stable(e))
        return expr_eval(e, row, x->scratch, &x->env, out, err);
    struct arena_mark mark = arena_mark(x->scratch);
    enum errc rc = expr_eval(e, row, x->scratch, &x->env, out, err);
    if (rc == OK)
        *out = val_copy(x->arena, *out);
    arena_rewind(x->scratch, mark);
    return rc;
}

enum errc exec_test(struct exec *x, struct expr *const *filters, size_t count, struct val *row,
                    bool *passes, struct error *err)
{
    struct arena_mark mark = arena_mark(x->scratch);
    enum errc rc = OK;
    struct val v;

    *passes = true;
    for (size_t i = 0; rc == OK && *passes && i < count; i++) {
        rc = expr_eval(filters[i], row, x->scratch, &x->env, &v, err);
        *passes = rc == OK && val_truth(v);
    }
    arena_rewind(x->scratch, mark);
    return rc;
}

void row_list_add(struct row_list *l, struct arena *arena, struct val v)
{
    if (l->count == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        struct val *items = arena_alloc(arena, cap * sizeof *items);
        if (l->count)
            memcpy(items, l->items, l->count * sizeof *items);
        l->items = items;
        l->cap = cap;
    }
    l->items[l->count++] = v;
}

struct val *exec_copy_row(struct exec *x, const struct val *row)
{
    size_t bytes = x->plan->reg_count * sizeof *row;
    struct val *copy = arena_alloc(x->arena, bytes + 1);

    if (bytes)
        memcpy(copy, row, bytes);
    return copy;
}

const struct collection *exec_collection(const struct exec *x, const struct node *n)
{
    return catalog_collection_by_id(txn_catalog(x->txn), n->collection);
}

static size_t rows_max(const struct exec *x)
{
    size_t regs = x->plan->reg_count ? x->plan->reg_count : 1, rows = CELLS_MAX / regs;

    return rows > LIMIT_ROWS_PER_BATCH ? LIMIT_ROWS_PER_BATCH : rows < 1 ? 1 : rows;
}

struct val *op_push(struct op *op, const struct val *row)
{
    size_t regs = op->x->plan->reg_count;
    struct batch *b = &op->out;

    if (b->rows == b->cap) {
        b->cap = b->cap ? b->cap * 2 : 8;
        b->cells = mem_realloc(b->cells, b->cap * regs * sizeof *b->cells + 1);
    }
    struct val *to = b->cells + b->rows++ * regs;
    if (regs)
        memcpy(to, row, regs * sizeof *to);
    return to;
}

static bool out_is_full(const struct op *op)
{
    return op->out.rows >= rows_max(op->x);
}

enum errc op_next(struct op *op, struct batch **out, enum exec_status *status, struct error *err)
{
    if (op->is_done) {
        *status = EXEC_DONE;
        return OK;
    }
    enum errc rc = exec_poll(op->x, err);
    if (rc == OK)
        rc = op->kind->next(op, out, status, err);
    op->is_done = rc == OK && *status == EXEC_DONE;
    return rc;
}

enum errc op_input_row(struct op *op, struct val **row, enum exec_status *status, struct error *err)
{
    while (!op->in || op->at >= op->in->rows) {
        op->in = NULL;
        op->at = 0;
        struct batch *in;
        enum errc rc = op_next(op->input, &in, status, err);
        if (rc != OK || *status != EXEC_ROWS)
            return rc;
        op->in = in;
    }
    *row = op->in->cells + op->at++ * op->x->plan->reg_count;
    *status = EXEC_ROWS;
    return OK;
}

void op_reset(struct op *op)
{
    for (; op; op = op->input) {
        if (op->kind->reset)
            op->kind->reset(op);
        if (op->kind->state_bytes)
            memset(op->state, 0, op->kind->state_bytes);
        op->is_done = false;
        op->in = NULL;
        op->at = 0;
        op->out.rows = 0;
        if (op->sub)
            op_reset(op->sub);
    }
}

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
    op->out.rows = 0;
    if (!s->was_sent)
        op_push(op, op->outer);
    s->was_sent = true;
    *out = &op->out;
    return OK;
}

static const struct op_kind op_singleton = { singleton_next, NULL, sizeof(struct singleton) };

/* ---- FOR over a list ---- */

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
    return val_new_int(op->x->arena, (int64_t)((uint64_t)s->from + at * (uint64_t)s->step));
}

static enum errc list_open(struct op *op, struct enum_list *s, struct error *err)
{
    if (op->n->expr->kind == EXPR_RANGE)
        return range_open(op, s, err);
    enum errc rc = exec_keep(op->x, op->n->expr, s->row, &s->list, err);

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

static enum errc list_next(struct op *op, struct batch **out, enum exec_status *status,
                           struct error *err)
{
    struct enum_list *s = op->state;
    enum errc rc = OK;

    op->out.rows = 0;
    *out = &op->out;
    while (!out_is_full(op)) {
        if (s->row && s->at < s->count) {
            op_push(op, s->row)[op->n->reg] = list_value(op, s);
            continue;
        }
        s->row = NULL;
        rc = op_input_row(op, &s->row, status, err);
        if (rc != OK)
            return rc;
        if (*status != EXEC_ROWS) {
            s->row = NULL;
            break;
        }
        rc = list_open(op, s, err);
        if (rc != OK)
            return rc;
    }
    if (op->out.rows)
        *status = EXEC_ROWS;
    return OK;
}

static const struct op_kind op_enum_list = { list_next, NULL, sizeof(struct enum_list) };

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

static const struct op_kind op_filter = { filter_next, NULL, 0 };

static enum errc calc_next(struct op *op, struct batch **out, enum exec_status *status,
                           struct error *err)
{
    size_t regs = op->x->plan->reg_count;
    enum errc rc = op_next(op->input, out, status, err);

    for (size_t i = 0; rc == OK && *status == EXEC_ROWS && i < (*out)->rows; i++) {
        struct val *row = (*out)->cells + i * regs;
        rc = exec_keep(op->x, op->n->expr, row, &row[op->n->reg], err);
        if (rc == OK && i % 64 == 63)
            rc = exec_poll(op->x, err);
    }
    return rc;
}

static const struct op_kind op_calc = { calc_next, NULL, 0 };

/* RETURN is evaluated by who drains the pipeline. */
static enum errc pass_next(struct op *op, struct batch **out, enum exec_status *status,
                           struct error *err)
{
    return op_next(op->input, out, status, err);
}

static const struct op_kind op_return = { pass_next, NULL, 0 };

/* ---- LIMIT ---- */

struct limit {
    uint64_t seen;
    bool has_asked;
};

static enum errc limit_next(struct op *op, struct batch **out, enum exec_status *status,
                            struct error *err)
{
    struct limit *s = op->state;
    uint64_t from = (uint64_t)op->n->offset;
    uint64_t to = op->n->limit < 0 ? UINT64_MAX : from + (uint64_t)op->n->limit;
    struct val *row;

    op->out.rows = 0;
    *out = &op->out;
    while (!out_is_full(op)) {
        /* LIMIT 0 keeps no row, but the writes under it are made. */
        bool may_stop = s->has_asked || !op->x->plan->is_write;
        if (s->seen >= to && !op->n->counts_full && may_stop) {
            *status = EXEC_DONE;
            break;
        }
        s->has_asked = true;
        enum errc rc = op_input_row(op, &row, status, err);
        if (rc != OK)
            return rc;
        if (*status != EXEC_ROWS)
            break;
        if (s->seen >= from && s->seen < to)
            op_push(op, row);
        s->seen++;
    }
    if (op->n->counts_full)
        op->x->stats->full_count = s->seen;
    if (op->out.rows)
        *status = EXEC_ROWS;
    return OK;
}

static const struct op_kind op_limit = { limit_next, NULL, sizeof(struct limit) };

/* ---- subqueries ---- */

struct subquery {
    struct batch *in;
    size_t at;
    bool is_running;
    struct row_list rows;
};

static struct op *first_op(struct op *op)
{
    while (op->input)
        op = op->input;
    return op;
}

void op_start_sub(struct op *op, struct val *row)
{
    op_reset(op->sub);
    first_op(op->sub)->outer = row;
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
        s->at = 0;
    }
    while (s->at < s->in->rows) {
        struct val *row = s->in->cells + s->at * op->x->plan->reg_count;
        bool runs = true;
        if (!s->is_running && op->n->expr) {
            rc = exec_test(op->x, (struct expr *const *)&op->n->expr, 1, row, &runs, err);
            if (rc != OK)
                return rc;
        }
        if (!runs) {
            row[op->n->reg] = val_null;
            s->at++;
            continue;
        }
        if (!s->is_running) {
            op_start_sub(op, row);
            s->rows = (struct row_list){ 0 };
            s->is_running = true;
        }
        rc = exec_drain(op->sub, &s->rows, status, err);
        if (rc != OK || *status == EXEC_WAIT)
            return rc;
        row[op->n->reg] = val_new_array(op->x->arena, s->rows.items, s->rows.count);
        s->is_running = false;
        s->at++;
    }
    *out = s->in;
    s->in = NULL;
    *status = EXEC_ROWS;
    return exec_poll(op->x, err);
}

static const struct op_kind op_subquery = { subquery_next, NULL, sizeof(struct subquery) };

/* ---- life ---- */

static const struct op_kind *kind_of(const struct node *n)
{
    switch ((enum node_kind)n->kind) {
    case NODE_SINGLETON:
        return &op_singleton;
    case NODE_ENUM_LIST:
        return &op_enum_list;
    case NODE_ENUM_COLLECTION:
        return &op_enum_collection;
    case NODE_INDEX:
        return &op_index;
    case NODE_PRIMARY:
        return &op_primary;
    case NODE_VECTOR:
        return &op_vector;
    case NODE_FILTER:
        return &op_filter;
    case NODE_CALC:
        return &op_calc;
    case NODE_SUBQUERY:
        return &op_subquery;
    case NODE_CALL:
        return &op_call;
    case NODE_SORT:
        return &op_sort;
    case NODE_LIMIT:
        return &op_limit;
    case NODE_COLLECT:
        return &op_collect;
    case NODE_DISTINCT:
        return &op_distinct;
    case NODE_INSERT:
    case NODE_UPDATE:
    case NODE_REPLACE:
    case NODE_REMOVE:
    case NODE_UPSERT:
        return &op_write;
    case NODE_RETURN:
        return &op_return;
    }
    BUG("no operator for node kind %d", n->kind);
}

static struct op *make_ops(struct exec *x, const struct node *n)
{
    struct op *op = ARENA_NEW(x->arena, struct op);

    op->kind = kind_of(n);
    op->n = n;
    op->x = x;
    op->state = arena_zalloc(x->arena, op->kind->state_bytes + 1);
    op->all = x->ops;
    x->ops = op;
    op->input = n->input ? make_ops(x, n->input) : NULL;
    op->sub = n->sub ? make_ops(x, n->sub) : NULL;
    return op;
}

void exec_init(struct exec *x)
{
    size_t regs = x->plan->reg_count;

    x->ops = NULL;
    x->root = make_ops(x, x->plan->root);
    struct val *row = arena_alloc(x->arena, (regs + 1) * sizeof *row);
    for (size_t i = 0; i < regs; i++)
        row[i] = val_null;
    first_op(x->root)->outer = row;
}

void exec_release(struct exec *x)
{
    for (struct op *op = x->ops; op; op = op->all) {
        if (op->kind->reset)
            op->kind->reset(op);
        mem_free(op->out.cells);
        op->out = (struct batch){ 0 };
    }
    x->ops = NULL;
}

enum errc exec_drain(struct op *last, struct row_list *out, enum exec_status *status,
                     struct error *err)
{
    struct exec *x = last->x;
    bool returns = last->n->kind == NODE_RETURN;
    struct batch *b;
    struct val v;

    for (;;) {
        enum errc rc = op_next(last, &b, status, err);
        if (rc != OK || *status != EXEC_ROWS)
            return rc;
        for (size_t i = 0; returns && i < b->rows; i++) {
            rc = exec_keep(x, last->n->expr, b->cells + i * x->plan->reg_count, &v, err);
            if (rc != OK)
                return rc;
            row_list_add(out, x->arena, v);
        }
    }
}

enum errc exec_run(struct exec *x, struct row_list *out, enum exec_status *status,
                   struct error *err)
{
    return exec_drain(x->root, out, status, err);
}
