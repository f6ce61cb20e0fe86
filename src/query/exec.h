/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec -- operators over batches of rows. Each pulls from its input;
 * exec_next answers ROWS, DONE or WAIT. After WAIT the same call is made again
 * when the model has answered; an operator keeps where it was. After DONE it
 * stays DONE until it is reset.
 */
#ifndef QUERY_EXEC_H
#define QUERY_EXEC_H

#include "query/call.h"
#include "query/expr.h"
#include "query/query.h"
#include "store/doc.h"
#include "store/index.h"

enum exec_status { EXEC_ROWS, EXEC_DONE, EXEC_WAIT };

/* Row-major registers. The cells may be changed by the operator above. */
struct batch {
    struct val *cells;
    size_t rows, cap;
};

struct exec;
struct op;

struct op_kind {
    enum errc (*next)(struct op *op, struct batch **out, enum exec_status *status,
                      struct error *err);
    void (*reset)(struct op *op); /* frees what is held; may be NULL */
    size_t state_bytes;
};

struct op {
    const struct op_kind *kind;
    const struct node *n;
    struct exec *x;
    struct op *input;
    struct op *sub;    /* last operator of an inner pipeline */
    struct val *outer; /* singleton of an inner pipeline: row to start from */
    struct batch out;
    struct batch *in; /* batch being read */
    size_t at;        /* next row of it */
    bool is_done;
    void *state;    /* state_bytes, zeroed by a reset */
    struct op *all; /* the exec's list */
};

struct exec {
    const struct plan *plan;
    struct arena *arena;   /* results, rows: until the query ends */
    struct arena *scratch; /* one evaluation */
    size_t memory_limit;   /* of either, and of an operator's own arena */
    struct txn *txn;
    struct expr_env env;
    const struct batch_call *const *calls;
    struct query_stats *stats;
    const atomic_bool *cancel;
    uint64_t deadline_us; /* monotonic; 0 = none */
    void (*call_done)(struct call_batch *b);
    void *query; /* for call_done */
    struct op *ops;
    struct op *root;
};

/* Rows that become the result: of RETURN, or none. */
struct row_list {
    struct val *items;
    size_t count, cap;
};

void exec_init(struct exec *x); /* builds the operators of x->plan */
void exec_release(struct exec *x);
/* Runs on; *status is DONE or WAIT. */
MUST_CHECK enum errc exec_run(struct exec *x, struct row_list *out, enum exec_status *status,
                              struct error *err);

/* ---- for the operators ---- */

MUST_CHECK enum errc op_next(struct op *op, struct batch **out, enum exec_status *status,
                             struct error *err);
/* The next input row; valid until the call after it. */
MUST_CHECK enum errc op_input_row(struct op *op, struct val **row, enum exec_status *status,
                                  struct error *err);
void op_reset(struct op *op);                      /* the pipeline up to its first operator */
void op_start_sub(struct op *op, struct val *row); /* op->sub begins again, for this row */
/* A new row of op->out, a copy of row. */
struct val *op_push(struct op *op, const struct val *row);
/* Cancelled, too late, over memory? */
MUST_CHECK enum errc exec_poll(struct exec *x, struct error *err);
/* Evaluates for keeping: the result outlives the scratch arena. */
MUST_CHECK enum errc exec_keep(struct exec *x, const struct expr *e, struct val *row,
                               struct val *out, struct error *err);
MUST_CHECK enum errc exec_test(struct exec *x, struct expr *const *filters, size_t count,
                               struct val *row, bool *passes, struct error *err);
void row_list_add(struct row_list *l, struct arena *arena, struct val v);
struct val *exec_copy_row(struct exec *x, const struct val *row);
const struct collection *exec_collection(const struct exec *x, const struct node *n);
/* Feeds the rows of an inner pipeline, or the main one, to the list. */
MUST_CHECK enum errc exec_drain(struct op *last, struct row_list *out, enum exec_status *status,
                                struct error *err);

extern const struct op_kind op_enum_collection, op_index, op_primary, op_vector, op_write,
    op_collect, op_distinct, op_call, op_sort;

#endif
