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
#include "query/plan.h"
#include "query/query.h"
#include "query/spill.h"
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

/*
 * Values of a batch live until the operator that gave it is asked for the next
 * one, or is reset. So an operator that makes rows of its own hands them over
 * before it asks its input again (op_input_row says when), and one that keeps
 * rows copies what it keeps. Values from around an inner pipeline outlive its run.
 */
struct op {
    const struct op_kind *kind;
    const struct node *n;
    struct exec *x;
    struct op *input;
    struct op *sub;      /* last operator of an inner pipeline */
    struct val *outer;   /* singleton of an inner pipeline: row to start from */
    struct arena *batch; /* values made for the batch given last */
    struct arena *kept;  /* what lives until the reset */
    struct arena *docs;  /* scans: where documents go when all of them are results; or NULL */
    struct batch out;
    struct batch *in; /* batch being read */
    size_t at;        /* next row of it */
    bool is_done;
    size_t first_rows, batch_rows; /* under a LIMIT: of the first batch, of the next; or 0 */
    void *state;                   /* state_bytes, zeroed by a reset */
    struct arena *lasting;         /* what a reset leaves; NULL until it is used */
    void *table;                   /* in it */
    uint64_t calls, items, us;     /* of a profiled query */
    struct op *all;                /* the exec's list */
};

struct exec {
    const struct plan *plan;
    struct arena *arena;   /* operators and results: until the query ends; parent of the others */
    struct arena *scratch; /* one evaluation */
    struct txn *txn;
    struct expr_env env;
    const struct batch_call *const *calls;
    struct query_stats *stats;
    struct gen_payer *payer;
    const atomic_bool *cancel;
    bool is_profiled;
    uint64_t deadline_us; /* monotonic; 0 = none */
    void (*call_done)(struct call_batch *b);
    void *query;                 /* for call_done */
    size_t rows_max;             /* of one batch; lowered for wide rows */
    size_t table_bytes;          /* of one hash join's table */
    struct spill_space *spill;   /* or NULL */
    struct validator *validator; /* owned; the one that SCHEMA_VALIDATE used last */
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
/* Runs on; *status is DONE or WAIT. The rows live in x->arena. */
MUST_CHECK enum errc exec_run(struct exec *x, struct row_list *out, enum exec_status *status,
                              struct error *err);

/* ---- for the operators ---- */

MUST_CHECK enum errc op_next(struct op *op, struct batch **out, enum exec_status *status,
                             struct error *err);
/*
 * The next input row; valid until the call after it. A NULL row with ROWS means
 * that the input's batch is used up: what is in op->out must be given on first.
 */
MUST_CHECK enum errc op_input_row(struct op *op, struct val **row, enum exec_status *status,
                                  struct error *err);
void op_reset(struct op *op);                      /* the pipeline up to its first operator */
void op_start_sub(struct op *op, struct val *row); /* op->sub begins again, for this row */
/*
 * Empties op->out and the memory of its values. Under a LIMIT the first batch is as
 * large as that, each further one twice the one before: no row is made that nobody
 * wants, which matters where a row is dear.
 */
void op_begin_batch(struct op *op);
bool op_is_full(const struct op *op);
/* A new row of op->out, a copy of row. */
struct val *op_push(struct op *op, const struct val *row);
/* The row that the pipeline started from: registers from around it. */
const struct val *op_outer(const struct op *op);
/* Copies what is live behind the node of a row, in the order of n->live. */
struct val *op_keep_live(struct op *op, const struct val *row, struct arena *arena);
/* A new row of op->out from such a copy. */
struct val *op_push_live(struct op *op, const struct val *live);

/* Cancelled, too late, over memory? */
MUST_CHECK enum errc exec_poll(struct exec *x, struct error *err);
/*
 * Evaluates into arena. The result may also lie in the row or in the plan; what
 * was only used on the way is given back when it is much.
 */
MUST_CHECK enum errc exec_value(struct exec *x, const struct expr *e, struct val *row,
                                struct arena *arena, struct val *out, struct error *err);
/* Evaluates and copies: the result depends on no row. */
MUST_CHECK enum errc exec_copy(struct exec *x, const struct expr *e, struct val *row,
                               struct arena *arena, struct val *out, struct error *err);
MUST_CHECK enum errc exec_test(struct exec *x, struct expr *const *filters, size_t count,
                               struct val *row, bool *passes, struct error *err);
void row_list_add(struct row_list *l, struct arena *arena, struct val v);
const struct collection *exec_collection(const struct exec *x, const struct node *n);
/* Feeds the rows of an inner pipeline, or the main one, to the list; they live in arena. */
MUST_CHECK enum errc exec_drain(struct op *last, struct arena *arena, struct row_list *out,
                                enum exec_status *status, struct error *err);

extern const struct op_kind op_singleton, op_enum_list, op_filter, op_calc, op_limit, op_return,
    op_subquery, op_enum_collection, op_index, op_vector, op_write, op_collect, op_distinct,
    op_call, op_sort, op_traverse, op_paths, op_window, op_hash_join;

#endif
