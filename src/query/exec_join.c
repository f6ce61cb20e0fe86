/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash join: the collection is read once, what passes its own conditions goes to a
 * table by its keys, and each row that comes looks its matches up. The table outlives
 * a reset: the query reads one state from beginning to end. When it grows over its
 * share of the memory it is given up, and the collection is read for each row.
 */
#include "query/exec_scan.h"
#include "query/groups.h"
#include "query/plan_sealed.h"

struct match {
    struct match *next;
    struct val doc;
    struct val values[]; /* of projections */
};

struct matches {
    struct group group;
    struct match *first, *last; /* in the order of the scan */
};

struct join_table {
    struct groups groups;
    bool is_complete, is_too_large;
};

struct join {
    struct val *row;
    const struct match *at;
    struct doc_iter *docs; /* without a table */
    struct val *keys;      /* of the row that asks */
    unsigned since_poll;
};

static uint32_t key_count(const struct op *op)
{
    return op->n->expr_count / 2;
}

static void join_close(struct op *op)
{
    struct join *s = op->state;

    doc_iter_free(s->docs);
    s->docs = NULL;
}

/* ---- the table ---- */

static void add_match(struct op *op, struct join_table *t, const struct val *keys,
                      const struct val *row)
{
    const struct scan *scan = op->n->scan;
    bool is_new;
    struct matches *m = (struct matches *)groups_add(&t->groups, keys, &is_new);
    struct match *one =
        arena_alloc(op->lasting, sizeof *one + scan->projection_count * sizeof one->values[0]);

    one->next = NULL;
    one->doc = scan->projects ? val_null : val_copy(op->lasting, row[op->n->reg]);
    for (uint32_t i = 0; i < scan->projection_count; i++)
        one->values[i] =
            val_copy(op->lasting, scan_path_value(row[op->n->reg], &scan->projections[i]));
    if (m->last)
        m->last->next = one;
    else
        m->first = one;
    m->last = one;
}

static enum errc read_keys(struct op *op, struct expr *const *exprs, struct val *row,
                           struct arena *arena, struct val *keys, struct error *err)
{
    for (uint32_t i = 0; i < key_count(op); i++) {
        enum errc rc = exec_value(op->x, exprs[i], row, arena, &keys[i], err);
        if (rc != OK)
            return rc;
    }
    return OK;
}

static enum errc offer_match(struct op *op, struct join_table *t, struct val *row, struct val *keys,
                             struct error *err)
{
    const struct scan *scan = op->n->scan;
    struct exec *x = op->x;
    struct arena_mark mark = arena_mark(x->scratch);
    bool passes;
    enum errc rc = OK;

    TRY(exec_test(x, scan->filters, scan->filter_count, row, &passes, err));
    x->stats->filtered += !passes;
    if (!passes)
        goto out;
    TRY(read_keys(op, op->n->exprs, row, x->scratch, keys, err));
    add_match(op, t, keys, row);
out:
    arena_rewind(x->scratch, mark);
    return rc;
}

static enum errc read_all(struct op *op, struct join_table *t, struct val *row, struct val *keys,
                          struct doc_iter *docs, struct error *err)
{
    struct exec *x = op->x;
    unsigned since_poll = 0;

    while (doc_iter_next(docs, &row[op->n->reg])) {
        x->stats->scanned_full++;
        enum errc rc = offer_match(op, t, row, keys, err);
        if (rc == OK && ++since_poll % SCAN_POLL_ROWS == 0)
            rc = exec_poll(x, err);
        if (rc != OK)
            return rc;
        if (arena_used(op->lasting) > x->table_bytes) {
            t->is_too_large = true;
            return OK;
        }
    }
    t->is_complete = true;
    return doc_iter_check(docs, err);
}

static enum errc make_table(struct op *op, const struct collection *c, struct error *err)
{
    struct join_table *t = op->table = ARENA_NEW(op->x->arena, struct join_table);
    struct arena_mark mark = arena_mark(op->x->scratch);
    size_t regs = op->x->plan->reg_count;
    struct val *row = arena_alloc(op->x->scratch, (regs + 1) * sizeof *row);
    struct val *keys = arena_alloc(op->x->scratch, (key_count(op) + 1) * sizeof *keys);
    struct doc_iter *docs = NULL;

    for (size_t i = 0; i < regs; i++)
        row[i] = val_null;
    op->lasting = arena_child(op->x->arena);
    t->groups.arena = op->lasting;
    t->groups.key_count = key_count(op);
    t->groups.group_bytes = sizeof(struct matches);
    enum errc rc = doc_iter_new(&docs, op->x->txn, c, err);
    if (rc == OK && c->sealed_count && plan_leaves_sealed(op->n, c))
        doc_iter_leave_sealed(docs);
    if (rc == OK)
        rc = read_all(op, t, row, keys, docs, err);
    doc_iter_free(docs);
    arena_rewind(op->x->scratch, mark);
    if (t->is_too_large)
        arena_reset(op->lasting);
    return rc;
}

/* ---- rows ---- */

static void emit_match(struct op *op, const struct join *s, const struct match *m)
{
    const struct scan *scan = op->n->scan;
    struct val *row = op_push(op, s->row);

    row[op->n->reg] = m->doc;
    for (uint32_t i = 0; i < scan->projection_count; i++)
        row[scan->projections[i].reg] = m->values[i];
}

/* Without a table: the next document that fits the row. */
static enum errc next_document(struct op *op, struct join *s, bool *has, struct error *err)
{
    const struct scan *scan = op->n->scan;
    struct exec *x = op->x;
    struct arena_mark mark = arena_mark(x->scratch);
    struct val doc, key;
    bool passes;
    enum errc rc = OK;

    *has = doc_iter_next(s->docs, &doc);
    if (!*has)
        return doc_iter_check(s->docs, err);
    x->stats->scanned_full++;
    s->row[op->n->reg] = doc;
    TRY(exec_test(x, scan->filters, scan->filter_count, s->row, &passes, err));
    for (uint32_t i = 0; passes && i < key_count(op); i++) {
        TRY(exec_value(x, op->n->exprs[i], s->row, x->scratch, &key, err));
        passes = val_equal(key, s->keys[i]);
    }
    if (passes)
        scan_keep(op, op_push(op, s->row), doc);
    x->stats->filtered += !passes;
    if (++s->since_poll % SCAN_POLL_ROWS == 0)
        rc = exec_poll(x, err);
out:
    arena_rewind(x->scratch, mark);
    return rc;
}

/* Takes the next row and finds its matches; *has false: what is there is given on. */
static enum errc next_row(struct op *op, struct join *s, const struct collection *c, bool *has,
                          enum exec_status *status, struct error *err)
{
    enum errc rc = OK;

    *has = false;
    TRY(op_input_row(op, &s->row, status, err));
    if (*status != EXEC_ROWS || !s->row)
        return OK;
    *has = true;
    if (!op->table)
        TRY(make_table(op, c, err));
    const struct join_table *t = op->table;
    arena_reset(op->kept);
    s->keys = arena_alloc(op->kept, (key_count(op) + 1) * sizeof *s->keys);
    TRY(read_keys(op, op->n->exprs + key_count(op), s->row, op->kept, s->keys, err));
    if (t->is_too_large)
        return doc_iter_new(&s->docs, op->x->txn, c, err);
    const struct group *g = groups_find(&t->groups, s->keys);
    s->at = g ? ((const struct matches *)g)->first : NULL;
out:
    return rc;
}

static enum errc join_next(struct op *op, struct batch **out, enum exec_status *status,
                           struct error *err)
{
    struct join *s = op->state;
    const struct collection *c = exec_collection(op->x, op->n);
    enum errc rc = OK;
    bool has = true;

    if (!c)
        return scan_gone(op->n, err);
    op_begin_batch(op);
    *out = &op->out;
    while (rc == OK && has && !op_is_full(op)) {
        if (s->at) {
            emit_match(op, s, s->at);
            s->at = s->at->next;
        } else if (s->docs) {
            bool more;
            rc = next_document(op, s, &more, err);
            if (rc == OK && !more)
                join_close(op);
        } else {
            rc = next_row(op, s, c, &has, status, err);
        }
    }
    if (op->out.rows)
        *status = EXEC_ROWS;
    return rc;
}

const struct op_kind op_hash_join = { join_next, join_close, sizeof(struct join) };
