/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INFER, EMBED: a batch of rows becomes a batch of calls. The operator answers
 * WAIT until all of them are in.
 */
#include "query/exec.h"

struct call {
    struct batch *in;
    size_t from, to;  /* rows of in that the running calls come from */
    uint32_t *places; /* row of in of each call */
    struct call_batch *batch;
};

static const struct batch_call *find(const struct exec *x, struct slice name)
{
    for (size_t i = 0; x->calls && x->calls[i]; i++)
        if (slice_is(name, x->calls[i]->name))
            return x->calls[i];
    return NULL;
}

static void batch_free(struct call *s)
{
    if (!s->batch)
        return;
    for (size_t i = 0; i < s->batch->count; i++)
        buf_release(&s->batch->rows[i].result);
    s->batch = NULL;
}

static void call_reset(struct op *op)
{
    batch_free(op->state);
}

static enum errc gather_row(struct op *op, struct call *s, struct call_batch *b, struct error *err)
{
    struct exec *x = op->x;
    struct val *row = s->in->cells + s->to * x->plan->reg_count;
    bool passes = true;
    enum errc rc = OK;

    if (op->n->expr)
        rc = exec_test(x, (struct expr *const *)&op->n->expr, 1, row, &passes, err);
    if (rc == OK && !passes)
        row[op->n->reg] = val_null;
    if (rc != OK || !passes)
        return rc;
    s->places[b->count] = (uint32_t)s->to;
    for (uint32_t k = 0; rc == OK && k < op->n->expr_count && k < CALL_ARGS_MAX; k++)
        rc = exec_value(x, op->n->exprs[k], row, op->batch, &b->rows[b->count].args[k], err);
    b->count++;
    return rc;
}

/* The next rows that need an answer; none may be left. */
static enum errc gather(struct op *op, struct call *s, const struct batch_call *call,
                        struct call_batch **out, struct error *err)
{
    struct exec *x = op->x;
    struct call_batch *b = ARENA_NEW(op->batch, struct call_batch);
    size_t max = s->in->rows - s->from;

    if (call->max_rows && call->max_rows < max)
        max = call->max_rows;
    b->rows = arena_zalloc(op->batch, max * sizeof *b->rows);
    s->places = arena_alloc(op->batch, max * sizeof *s->places);
    for (s->to = s->from; s->to < s->in->rows && b->count < max; s->to++) {
        enum errc rc = gather_row(op, s, b, err);
        if (rc != OK)
            return rc;
    }
    b->payer = x->payer;
    b->cancel = x->cancel;
    b->done = x->call_done;
    b->owner = x->query;
    if (x->deadline_us) {
        uint64_t now = env_mono_us(x->env.env);
        b->deadline_ms = x->deadline_us > now ? (x->deadline_us - now) / 1000 + 1 : 1;
    }
    *out = b;
    return OK;
}

static enum errc start(struct op *op, struct call *s, const struct batch_call *call,
                       struct call_batch *b, struct error *err)
{
    struct exec *x = op->x;

    if (!call->is_model_free)
        x->stats->calls += b->count;
    s->batch = b;
    enum errc rc = call->start(call, b, err);
    if (rc != OK)
        batch_free(s);
    return rc;
}

/* Results of the finished calls go to their rows. */
static enum errc take(struct op *op, struct call *s, struct error *err)
{
    struct exec *x = op->x;
    enum errc rc = OK;

    for (size_t i = 0; rc == OK && i < s->batch->count; i++) {
        struct call_row *r = &s->batch->rows[i];
        struct val *row = s->in->cells + s->places[i] * x->plan->reg_count;
        if (r->err.code != OK) {
            *err = r->err;
            rc = r->err.code;
        } else {
            struct val v = { r->result.len ? (const uint8_t *)r->result.ptr : NULL };
            row[op->n->reg] = val_copy(op->batch, v);
        }
    }
    batch_free(s);
    s->from = s->to;
    return rc;
}

static enum errc call_next(struct op *op, struct batch **out, enum exec_status *status,
                           struct error *err)
{
    struct call *s = op->state;
    const struct batch_call *call = find(op->x, op->n->call);
    enum errc rc = OK;

    if (!call)
        return fail_num(err, 9, "not implemented: %.*s on this node", SLICE_ARG(op->n->call));
    for (;;) {
        if (s->batch) { /* the query runs again only when the call has answered */
            rc = take(op, s, err);
            if (rc == OK)
                rc = exec_poll(op->x, err);
            if (rc != OK)
                return rc;
        }
        if (s->in && s->from == s->in->rows) {
            *out = s->in;
            s->in = NULL;
            *status = EXEC_ROWS;
            return OK;
        }
        if (!s->in) {
            rc = op_next(op->input, &s->in, status, err);
            if (rc != OK || *status != EXEC_ROWS) {
                s->in = NULL;
                return rc;
            }
            arena_reset(op->batch);
            s->from = 0;
            continue;
        }
        struct call_batch *b;
        rc = gather(op, s, call, &b, err);
        if (rc != OK)
            return rc;
        if (!b->count) {
            s->from = s->to;
            continue;
        }
        *status = EXEC_WAIT;
        return start(op, s, call, b, err);
    }
}

const struct op_kind op_call = { call_next, call_reset, sizeof(struct call) };
