/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INSERT, UPDATE, REPLACE, REMOVE, UPSERT. All input is read before the first write,
 * so that a scan never meets what its own query wrote.
 */
#include "query/exec.h"

struct write {
    struct val **rows;
    size_t count, cap, at;
    bool is_drained;
};

static enum errc drain(struct op *op, struct write *s, enum exec_status *status, struct error *err)
{
    struct val *row;

    for (;;) {
        enum errc rc = op_input_row(op, &row, status, err);
        if (rc != OK || *status == EXEC_WAIT)
            return rc;
        if (*status == EXEC_DONE)
            break;
        if (s->count == s->cap) {
            size_t cap = s->cap ? s->cap * 2 : 64;
            struct val **rows = arena_alloc(op->x->arena, cap * sizeof(*rows));
            if (s->count)
                memcpy(rows, s->rows, s->count * sizeof(*rows));
            s->rows = rows;
            s->cap = cap;
        }
        s->rows[s->count++] = exec_copy_row(op->x, row);
    }
    s->is_drained = true;
    return OK;
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

/* Looks the document up in the transaction's present state, own writes included. */
static enum errc upsert(struct op *op, const struct collection *c, struct val *row,
                        const struct doc_options *opt, struct doc_change *change, struct error *err)
{
    struct exec *x = op->x;
    const struct node *n = op->n;
    struct row_list found = { 0 };
    enum exec_status status;
    struct val doc;
    enum errc rc = OK;

    op_start_sub(op, row);
    TRY(exec_drain(op->sub, &found, &status, err));
    row[n->reg] = found.count ? found.items[0] : val_null;
    TRY(exec_keep(x, n->exprs[found.count > 0], row, &doc, err));
    if (!found.count)
        return doc_insert(x->txn, c, doc, opt, x->arena, change, err);
    struct slice key = val_string(val_get(row[n->reg], slice_str("_key")));
    if (n->write.is_replace)
        return doc_replace(x->txn, c, key, doc, opt, x->arena, change, err);
    return doc_update(x->txn, c, key, doc, opt, x->arena, change, err);
out:
    return rc;
}

static enum errc apply(struct op *op, const struct collection *c, struct val *row,
                       struct doc_change *change, struct error *err)
{
    struct exec *x = op->x;
    const struct node *n = op->n;
    const struct write_options *w = &n->write;
    struct doc_options opt = { .overwrite = (enum overwrite_mode)w->overwrite,
                               .drop_nulls = w->drop_nulls,
                               .replace_objects = w->replace_objects,
                               .check_rev = w->check_rev };
    struct val doc, name;
    struct slice key;
    enum errc rc = OK;

    if (n->kind == NODE_UPSERT)
        return upsert(op, c, row, &opt, change, err);
    TRY(exec_keep(x, n->exprs[n->expr_count - 1], row, &doc, err));
    if (n->kind == NODE_INSERT)
        return doc_insert(x->txn, c, doc, &opt, x->arena, change, err);
    name = doc;
    if (n->expr_count == 2 && n->exprs[0])
        TRY(exec_keep(x, n->exprs[0], row, &name, err));
    TRY(target(c, name, &key, err));
    if (w->check_rev && n->expr_count == 2 && val_type(name) == VAL_OBJECT)
        opt.if_rev = val_string(val_get(name, slice_str("_rev")));
    if (n->kind == NODE_REMOVE) {
        if (w->check_rev && val_type(name) == VAL_OBJECT)
            opt.if_rev = val_string(val_get(name, slice_str("_rev")));
        return doc_remove(x->txn, c, key, &opt, x->arena, change, err);
    }
    if (n->kind == NODE_UPDATE)
        return doc_update(x->txn, c, key, doc, &opt, x->arena, change, err);
    return doc_replace(x->txn, c, key, doc, &opt, x->arena, change, err);
out:
    return rc;
}

/* One write; with ignoreErrors a refused one is undone alone and its row dropped. */
static enum errc write_row(struct op *op, const struct collection *c, struct val *row, bool *stays,
                           struct error *err)
{
    struct exec *x = op->x;
    struct error own = { 0 };
    struct doc_change change = { 0 };
    size_t mark = txn_mark(x->txn);
    enum errc rc = apply(op, c, row, &change, &own);

    *stays = rc == OK;
    if (rc != OK) {
        bool is_fatal = rc == ERR_IO || rc == ERR_CORRUPT || rc == ERR_LIMIT || rc == ERR_INTERNAL;
        if (!op->n->write.ignore_errors || is_fatal) {
            *err = own;
            return rc;
        }
        txn_rewind(x->txn, mark);
        x->stats->writes_ignored++;
        return OK;
    }
    if (change.is_ignored)
        x->stats->writes_ignored++;
    else
        x->stats->writes_executed++;
    row[op->n->reg] = change.old_doc;
    row[op->n->reg2] = change.new_doc;
    return OK;
}

/* All writes are made before the first row is given on: a LIMIT above does not cut them off. */
static enum errc write_all(struct op *op, struct write *s, const struct collection *c,
                           struct error *err)
{
    size_t kept = 0;
    bool stays;

    for (size_t i = 0; i < s->count; i++) {
        enum errc rc = write_row(op, c, s->rows[i], &stays, err);
        if (rc == OK)
            rc = exec_poll(op->x, err);
        if (rc != OK)
            return rc;
        if (stays)
            s->rows[kept++] = s->rows[i];
    }
    s->count = kept;
    return OK;
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
            rc = write_all(op, s, c, err);
        if (rc != OK || !s->is_drained)
            return rc;
    }
    op->out.rows = 0;
    *out = &op->out;
    while (s->at < s->count && op->out.rows < LIMIT_ROWS_PER_BATCH)
        op_push(op, s->rows[s->at++]);
    *status = op->out.rows ? EXEC_ROWS : EXEC_DONE;
    return OK;
}

const struct op_kind op_write = { write_next, NULL, sizeof(struct write) };
