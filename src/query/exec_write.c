/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INSERT, UPDATE, REPLACE, REMOVE, UPSERT. All input is read before the first write, and
 * all is written before the first row is given on. Reads of the query see what was there
 * when it began; a write, and the search of an UPSERT, what it has written so far.
 */
#include "query/exec.h"

enum { POLL_ROWS = 256 };

struct written {
    struct val *live;
    struct val old_doc, new_doc;
};

struct write {
    struct written *rows; /* in op->kept */
    size_t count, cap;
    struct val *row;   /* the row in hand, all registers */
    size_t next, kept; /* rows that were looked at; those of them that stay */
    size_t at;
    bool is_drained, is_asking; /* UPSERT: its inner pipeline runs */
    struct row_list found;
};

static void keep_row(struct op *op, struct write *s, const struct val *row)
{
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        struct written *rows = arena_alloc(op->kept, cap * sizeof *rows);
        if (s->count)
            memcpy(rows, s->rows, s->count * sizeof *rows);
        s->rows = rows;
        s->cap = cap;
    }
    s->rows[s->count++] = (struct written){ op_keep_live(op, row, op->kept), val_null, val_null };
}

static enum errc drain(struct op *op, struct write *s, enum exec_status *status, struct error *err)
{
    struct val *row;

    for (;;) {
        enum errc rc = op_input_row(op, &row, status, err);
        if (rc != OK || *status == EXEC_WAIT)
            return rc;
        if (*status == EXEC_DONE)
            break;
        keep_row(op, s, row);
        rc = s->count % POLL_ROWS == 0 ? exec_poll(op->x, err) : OK;
        if (rc != OK)
            return rc;
    }
    s->is_drained = true;
    s->row = arena_alloc(op->kept, (op->x->plan->reg_count + 1) * sizeof *s->row);
    return OK;
}

/* Registers of the row as they were when it came in. */
static struct val *open_row(struct op *op, struct write *s, const struct written *w)
{
    memcpy(s->row, op_outer(op), op->x->plan->reg_count * sizeof *s->row);
    for (uint32_t i = 0; i < op->n->live_count; i++)
        s->row[op->n->live[i]] = w->live[i];
    return s->row;
}

/* "key", "collection/key", or a document that names itself. */
static enum errc target(const struct collection *c, struct val v, struct slice *key,
                        struct error *err)
{
    struct slice collection;

    if (val_type(v) == VAL_OBJECT) {
        struct val own = val_get(v, slice_str("_key"));
        v = val_is_null(own) ? val_get(v, slice_str("_id")) : own;
    }
    if (val_type(v) != VAL_STRING)
        return fail_num(err, 1221, "a document is named by its key or by an object with _key");
    *key = val_string(v);
    if (!doc_split_id(val_string(v), &collection, key))
        return OK;
    if (!slice_eq(collection, c->name))
        return fail_num(err, 1205, "'%.*s' is not in collection '%.*s'", SLICE_ARG(val_string(v)),
                        SLICE_ARG(c->name));
    return OK;
}

/*
 * Looks the document up in the transaction's present state, own writes included:
 * the inner pipeline gives it (or null) and what is to be written.
 */
static enum errc upsert(struct op *op, struct write *s, const struct collection *c,
                        const struct doc_options *opt, struct doc_change *change, struct error *err)
{
    struct exec *x = op->x;
    struct val found = s->found.count ? s->found.items[0] : val_null;
    struct val old = val_at(found, 0), doc = val_at(found, 1);

    if (val_is_null(old))
        return doc_insert(x->txn, c, doc, opt, x->scratch, change, err);
    struct slice key = val_string(val_get(old, slice_str("_key")));
    if (op->n->write->is_replace)
        return doc_replace(x->txn, c, key, doc, opt, x->scratch, change, err);
    return doc_update(x->txn, c, key, doc, opt, x->scratch, change, err);
}

static enum errc apply(struct op *op, struct write *s, const struct collection *c,
                       struct doc_change *change, struct error *err)
{
    struct exec *x = op->x;
    const struct node *n = op->n;
    const struct write_options *w = n->write;
    struct doc_options opt = { .overwrite = (enum overwrite_mode)w->overwrite,
                               .drop_nulls = w->drop_nulls,
                               .replace_objects = w->replace_objects,
                               .check_rev = w->check_rev,
                               .leaves_old = !w->needs_old,
                               .version_attribute = w->version_attribute };
    struct val doc, name;
    struct slice key;
    enum errc rc = OK;

    if (n->kind == NODE_UPSERT)
        return upsert(op, s, c, &opt, change, err);
    TRY(exec_value(x, n->exprs[n->expr_count - 1], s->row, x->scratch, &doc, err));
    if (n->kind == NODE_INSERT)
        return doc_insert(x->txn, c, doc, &opt, x->scratch, change, err);
    name = doc;
    if (n->expr_count == 2 && n->exprs[0])
        TRY(exec_value(x, n->exprs[0], s->row, x->scratch, &name, err));
    TRY(target(c, name, &key, err));
    if (w->check_rev && val_type(name) == VAL_OBJECT)
        opt.if_rev = val_string(val_get(name, slice_str("_rev")));
    if (n->kind == NODE_REMOVE)
        return doc_remove(x->txn, c, key, &opt, x->scratch, change, err);
    if (n->kind == NODE_UPDATE)
        return doc_update(x->txn, c, key, doc, &opt, x->scratch, change, err);
    return doc_replace(x->txn, c, key, doc, &opt, x->scratch, change, err);
out:
    return rc;
}

/* Counts; with ignoreErrors a refused write is undone alone and its row dropped. */
static enum errc settle(struct op *op, enum errc rc, const struct error *own, size_t mark,
                        const struct doc_change *change, struct error *err)
{
    struct exec *x = op->x;

    if (rc == OK) {
        x->stats->writes_ignored += change->is_ignored;
        x->stats->writes_executed += !change->is_ignored;
        return OK;
    }
    bool is_fatal = rc == ERR_IO || rc == ERR_CORRUPT || rc == ERR_LIMIT || rc == ERR_INTERNAL;
    if (!op->n->write->ignore_errors || is_fatal) {
        *err = *own;
        return rc;
    }
    txn_rewind(x->txn, mark);
    x->stats->writes_ignored++;
    return OK;
}

static enum errc write_row(struct op *op, struct write *s, const struct collection *c,
                           struct written *w, bool *stays, struct error *err)
{
    struct exec *x = op->x;
    struct arena_mark scratch = arena_mark(x->scratch);
    struct error own = { 0 };
    struct doc_change change = { 0 };
    size_t mark = txn_mark(x->txn);
    enum errc rc = apply(op, s, c, &change, &own);

    *stays = rc == OK;
    if (*stays && op->n->write->needs_old)
        w->old_doc = val_copy(op->kept, change.old_doc);
    if (*stays && op->n->write->needs_new)
        w->new_doc = val_copy(op->kept, change.new_doc);
    rc = settle(op, rc, &own, mark, &change, err);
    arena_rewind(x->scratch, scratch);
    return rc;
}

/* UPSERT: what to write to what; may wait. */
static enum errc ask(struct op *op, struct write *s, struct val *row, enum exec_status *status,
                     struct error *err)
{
    if (!s->is_asking) {
        arena_reset(op->batch);
        s->found = (struct row_list){ 0 };
        op_start_sub(op, row);
        s->is_asking = true;
    }
    size_t sees = 0;
    if (!op->n->write->reads_start)
        sees = txn_see_until(op->x->txn, TXN_SEES_ALL);
    enum errc rc = exec_drain(op->sub, op->batch, &s->found, status, err);
    if (!op->n->write->reads_start)
        txn_see_until(op->x->txn, sees);
    if (rc == OK && *status == EXEC_DONE)
        s->is_asking = false;
    return rc;
}

/* All writes are made before the first row is given on: a LIMIT above does not cut them off. */
static enum errc write_all(struct op *op, struct write *s, const struct collection *c,
                           enum exec_status *status, struct error *err)
{
    bool stays;

    for (; s->next < s->count; s->next++) {
        struct written *w = &s->rows[s->next];
        struct val *row = open_row(op, s, w);
        enum errc rc = exec_poll(op->x, err);
        *status = EXEC_DONE;
        if (rc == OK && op->sub)
            rc = ask(op, s, row, status, err);
        if (rc != OK || *status == EXEC_WAIT)
            return rc;
        rc = write_row(op, s, c, w, &stays, err);
        if (rc != OK)
            return rc;
        if (stays)
            s->rows[s->kept++] = *w;
    }
    return OK;
}

/* What the options ask of the whole transaction. */
static enum errc claim(struct op *op, const struct collection *c, struct error *err)
{
    if (op->n->write->waits_for_sync)
        txn_wait_for_sync(op->x->txn);
    return op->n->write->is_exclusive ? txn_claim(op->x->txn, c, err) : OK;
}

static enum errc write_next(struct op *op, struct batch **out, enum exec_status *status,
                            struct error *err)
{
    struct write *s = op->state;
    const struct collection *c = exec_collection(op->x, op->n);
    enum errc rc = OK;

    if (!c)
        return fail_num(err, 1203, "the collection does not exist any more");
    if (!s->is_drained) {
        rc = drain(op, s, status, err);
        if (rc == OK && s->is_drained)
            rc = claim(op, c, err);
        if (rc != OK || !s->is_drained)
            return rc;
    }
    rc = write_all(op, s, c, status, err);
    if (rc != OK || s->next < s->count)
        return rc;
    op_begin_batch(op);
    *out = &op->out;
    for (; s->at < s->kept && !op_is_full(op); s->at++) {
        struct val *row = op_push_live(op, s->rows[s->at].live);
        row[op->n->reg] = s->rows[s->at].old_doc;
        row[op->n->reg2] = s->rows[s->at].new_doc;
    }
    *status = op->out.rows ? EXEC_ROWS : EXEC_DONE;
    return OK;
}

const struct op_kind op_write = { write_next, NULL, sizeof(struct write) };
