/* SPDX-License-Identifier: Apache-2.0 */
/* Operators: how they are built, asked and reset. */
#include "query/exec.h"
#include "base/validator.h"

enum { CELLS_MAX = 1 << 20, GARBAGE_MAX = 4096, POLL_ROWS = 64 };

enum errc exec_poll(struct exec *x, struct error *err)
{
    if (x->cancel && atomic_load_explicit(x->cancel, memory_order_relaxed))
        return fail_num(err, 1500, "query killed");
    if (x->deadline_us && env_mono_us(x->env.env) > x->deadline_us)
        return fail_num(err, 1500, "query killed: it ran longer than maxRuntime");
    return arena_check(x->arena, err);
}

/* ---- values ---- */

/* Copies the result to the start of what its evaluation took, by way of another arena: scratch. */
static void compact(struct exec *x, struct arena *arena, struct arena_mark mark, struct val *v)
{
    struct arena_mark scratch = arena_mark(x->scratch);
    struct val copy = val_copy(x->scratch, *v);

    arena_rewind(arena, mark);
    *v = val_copy(arena, copy);
    arena_rewind(x->scratch, scratch);
}

enum errc exec_value(struct exec *x, const struct expr *e, struct val *row, struct arena *arena,
                     struct val *out, struct error *err)
{
    struct arena_mark mark = arena_mark(arena);
    enum errc rc = expr_eval(e, row, arena, &x->env, out, err);

    if (rc == OK && arena != x->scratch && arena_used(arena) - mark.total > GARBAGE_MAX)
        compact(x, arena, mark, out);
    return rc;
}

enum errc exec_copy(struct exec *x, const struct expr *e, struct val *row, struct arena *arena,
                    struct val *out, struct error *err)
{
    struct arena_mark mark = arena_mark(x->scratch);
    enum errc rc = expr_eval(e, row, x->scratch, &x->env, out, err);

    if (rc == OK && e->kind != EXPR_CONST)
        *out = val_copy(arena, *out);
    arena_rewind(x->scratch, mark);
    return rc;
}

enum errc exec_test(struct exec *x, struct expr *const *filters, size_t count, struct val *row,
                    bool *passes, struct error *err)
{
    struct arena_mark mark = arena_mark(x->scratch);
    enum errc rc = OK;

    *passes = true;
    for (size_t i = 0; rc == OK && *passes && i < count; i++)
        rc = expr_test(filters[i], row, x->scratch, &x->env, passes, err);
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

const struct collection *exec_collection(const struct exec *x, const struct node *n)
{
    return catalog_collection_by_id(txn_catalog(x->txn), n->collection);
}

/* ---- rows ---- */

static size_t rows_max(const struct exec *x)
{
    size_t regs = x->plan->reg_count ? x->plan->reg_count : 1, rows = CELLS_MAX / regs;

    return rows > x->rows_max ? x->rows_max : rows < 1 ? 1 : rows;
}

bool op_is_full(const struct op *op)
{
    return op->out.rows >= op->batch_rows;
}

void op_begin_batch(struct op *op)
{
    size_t rows_max = op->x->rows_max;
    size_t next = op->batch_rows ? op->batch_rows * 2 : op->first_rows ? op->first_rows : rows_max;

    op->batch_rows = next < rows_max ? next : rows_max;
    op->out.rows = 0;
    arena_reset(op->batch);
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

static struct op *first_op(struct op *op)
{
    while (op->input)
        op = op->input;
    return op;
}

const struct val *op_outer(const struct op *op)
{
    while (op->input)
        op = op->input;
    return op->outer;
}

struct val *op_keep_live(struct op *op, const struct val *row, struct arena *arena)
{
    const struct node *n = op->n;
    struct val *live = arena_alloc(arena, (n->live_count + 1) * sizeof *live);

    for (uint32_t i = 0; i < n->live_count; i++)
        live[i] = val_copy(arena, row[n->live[i]]);
    return live;
}

struct val *op_push_live(struct op *op, const struct val *live)
{
    const struct node *n = op->n;
    struct val *row = op_push(op, op_outer(op));

    for (uint32_t i = 0; i < n->live_count; i++)
        row[n->live[i]] = live[i];
    return row;
}

/* ---- asking ---- */

enum errc op_next(struct op *op, struct batch **out, enum exec_status *status, struct error *err)
{
    if (op->is_done) {
        *status = EXEC_DONE;
        return OK;
    }
    enum errc rc = exec_poll(op->x, err);
    uint64_t from_us = op->x->is_profiled ? env_mono_us(op->x->env.env) : 0;
    if (rc == OK)
        rc = op->kind->next(op, out, status, err);
    if (op->x->is_profiled) {
        op->calls++;
        op->items += rc == OK && *status == EXEC_ROWS ? (*out)->rows : 0;
        op->us += env_mono_us(op->x->env.env) - from_us;
    }
    op->is_done = rc == OK && *status == EXEC_DONE;
    return rc;
}

enum errc op_input_row(struct op *op, struct val **row, enum exec_status *status, struct error *err)
{
    *row = NULL;
    *status = EXEC_ROWS;
    while (!op->in || op->at >= op->in->rows) {
        struct batch *in;
        if (op->out.rows)
            return OK;
        op->in = NULL;
        op->at = 0;
        enum errc rc = op_next(op->input, &in, status, err);
        if (rc != OK || *status != EXEC_ROWS)
            return rc;
        op->in = in;
    }
    *row = op->in->cells + op->at++ * op->x->plan->reg_count;
    return OK;
}

void op_reset(struct op *op)
{
    for (; op; op = op->input) {
        if (op->kind->reset)
            op->kind->reset(op);
        if (op->kind->state_bytes)
            memset(op->state, 0, op->kind->state_bytes);
        arena_reset(op->batch);
        arena_reset(op->kept);
        op->is_done = false;
        op->batch_rows = 0;
        op->in = NULL;
        op->at = 0;
        op->out.rows = 0;
        if (op->sub)
            op_reset(op->sub);
    }
}

void op_start_sub(struct op *op, struct val *row)
{
    op_reset(op->sub);
    first_op(op->sub)->outer = row;
}

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
    case NODE_HASH_JOIN:
        return &op_hash_join;
    case NODE_VECTOR:
        return &op_vector;
    case NODE_TRAVERSE:
        return &op_traverse;
    case NODE_PATHS:
        return &op_paths;
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
    case NODE_WINDOW:
        return &op_window;
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
    op->batch = arena_child(x->arena);
    op->kept = arena_child(x->arena);
    op->all = x->ops;
    x->ops = op;
    op->input = n->input ? make_ops(x, n->input) : NULL;
    op->sub = n->sub ? make_ops(x, n->sub) : NULL;
    return op;
}

/* Rows pass on one by one, though not all of them. */
static bool passes_rows(const struct node *n)
{
    return n->kind == NODE_CALC || n->kind == NODE_FILTER || n->kind == NODE_SUBQUERY ||
           n->kind == NODE_CALL || n->kind == NODE_DISTINCT;
}

static void limit_first_batch(struct op *limit)
{
    struct op *op = limit->input;
    int64_t rows = limit->n->offset + limit->n->limit;

    while (op && passes_rows(op->n))
        op = op->input;
    if (op && rows > 0 && rows < LIMIT_ROWS_PER_BATCH)
        op->first_rows = (size_t)rows;
}

void exec_init(struct exec *x)
{
    size_t regs = x->plan->reg_count;

    x->ops = NULL;
    x->rows_max = rows_max(x);
    x->root = make_ops(x, x->plan->root);
    for (struct op *op = x->ops; op; op = op->all)
        if (op->n->kind == NODE_LIMIT && op->n->limit >= 0 && !op->n->counts_full)
            limit_first_batch(op);
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
        arena_free(op->batch);
        arena_free(op->kept);
        arena_free(op->lasting);
    }
    x->ops = NULL;
    validator_free(x->validator);
    x->validator = NULL;
}

/* RETURN of just what the scan under it reads: one copy is enough. */
static bool returns_documents(const struct op *last)
{
    const struct op *scan = last->input;

    return scan && (scan->n->kind == NODE_ENUM_COLLECTION || scan->n->kind == NODE_INDEX) &&
           last->n->expr->kind == EXPR_REG && last->n->expr->reg == scan->n->reg;
}

static enum errc drain_batch(struct op *last, const struct batch *b, struct arena *arena,
                             struct row_list *out, struct error *err)
{
    struct exec *x = last->x;
    bool is_kept = last->input->docs != NULL;
    enum errc rc = OK;
    struct val v;

    for (size_t i = 0; rc == OK && i < b->rows; i++) {
        struct val *row = b->cells + i * x->plan->reg_count;
        if (is_kept)
            v = row[last->n->expr->reg];
        else
            rc = exec_copy(x, last->n->expr, row, arena, &v, err);
        row_list_add(out, arena, v);
        if (rc == OK && i % POLL_ROWS == POLL_ROWS - 1)
            rc = exec_poll(x, err);
    }
    return rc;
}

enum errc exec_drain(struct op *last, struct arena *arena, struct row_list *out,
                     enum exec_status *status, struct error *err)
{
    struct batch *b;
    bool returns = last->n->kind == NODE_RETURN;

    if (returns && returns_documents(last))
        last->input->docs = arena;
    for (;;) {
        enum errc rc = op_next(last, &b, status, err);
        if (rc == OK && *status == EXEC_ROWS && returns)
            rc = drain_batch(last, b, arena, out, err);
        if (rc != OK || *status != EXEC_ROWS)
            return rc;
    }
}

enum errc exec_run(struct exec *x, struct row_list *out, enum exec_status *status,
                   struct error *err)
{
    return exec_drain(x->root, x->arena, out, status, err);
}
