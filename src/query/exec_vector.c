/* SPDX-License-Identifier: Apache-2.0 */
/* The documents with the nearest vectors; conditions decide before the k are chosen. */
#include "query/exec_scan.h"

struct near {
    struct val *row; /* input row; NULL = take the next one */
    struct vector_hit *hits;
    size_t at, count;
    unsigned since_poll;
};

struct near_filter {
    struct op *op;
    struct near *s;
    const struct collection *c;
    struct scan_state *keys; /* of the index that knows what can pass; NULL = none */
    enum errc rc;
    struct error *err;
};

static bool near_passes(void *ctx, struct slice key)
{
    struct near_filter *f = ctx;
    struct exec *x = f->op->x;
    const struct scan *scan = f->op->n->scan;
    struct arena_mark mark = arena_mark(x->scratch);
    struct val doc;
    bool passes = false;

    if (f->rc != OK)
        return false;
    f->rc = doc_get(x->txn, f->c, key, x->scratch, &doc, f->err);
    if (f->rc == OK) {
        f->s->row[f->op->n->reg] = doc;
        f->rc = exec_test(x, scan->filters, scan->filter_count, f->s->row, &passes, f->err);
        f->s->row[f->op->n->reg] = val_null;
    }
    arena_rewind(x->scratch, mark);
    if (f->rc == OK && ++f->s->since_poll % SCAN_POLL_ROWS == 0)
        f->rc = exec_poll(x, f->err);
    x->stats->filtered += f->rc == OK && !passes;
    return passes;
}

static enum errc near_key(void *ctx, struct slice *key, bool *has, struct error *err)
{
    struct near_filter *f = ctx;

    return scan_keys_next(f->op, f->keys, f->c, key, has, err);
}

/* ArangoDB's third argument: {nProbe: 20}. */
static enum errc read_probes(struct op *op, struct near *s, size_t *out, struct error *err)
{
    struct val options;

    *out = 0;
    if (op->n->expr_count < 2)
        return OK;
    enum errc rc = exec_value(op->x, op->n->exprs[1], s->row, op->kept, &options, err);
    if (rc != OK)
        return rc;
    struct val probes = val_get(options, slice_str("nProbe"));
    bool is_count = val_is_int(probes) && val_int(probes) > 0;
    if (val_type(options) != VAL_OBJECT || (!val_is_null(probes) && !is_count))
        return fail_num(err, 1554,
                        "failed vector search: the options must be an object such as {nProbe: 20}");
    *out = is_count ? (size_t)val_int(probes) : 0;
    return OK;
}

/* The scan of another index, when the plan found one. */
static bool has_keys(const struct scan *scan)
{
    return scan->access_count == 1 && scan->accesses[0].index;
}

static enum errc near_search(struct op *op, struct near *s, const struct collection *c,
                             struct error *err)
{
    struct exec *x = op->x;
    const struct index_def *index = collection_index(c, op->n->index);
    struct near_filter filter = { .op = op, .s = s, .c = c, .err = err };
    struct vector_request request;
    struct val query;
    void *hits;
    float *floats;
    enum errc rc = OK;

    if (!index)
        return fail_num(err, 1554, "failed vector search: the index does not exist any more");
    arena_reset(op->kept);
    TRY(exec_value(x, op->n->exprs[0], s->row, op->kept, &query, err));
    floats = arena_alloc(op->kept, (index->dimension + 1) * sizeof *floats);
    if (val_floats(query, floats, index->dimension) != (long)index->dimension)
        return fail_num(err, 1554, "failed vector search: the query must be an array of %u numbers",
                        index->dimension);
    TRY(arena_try(op->kept, ((size_t)op->n->limit + 1) * sizeof *s->hits, &hits, err));
    s->hits = hits;
    s->at = 0;
    s->count = 0;
    if (!op->n->limit)
        return OK;
    request = (struct vector_request){ .vector = floats,
                                       .dimension = index->dimension,
                                       .k = (size_t)op->n->limit,
                                       .filter = op->n->scan->filter_count ? near_passes : NULL,
                                       .ctx = &filter };
    TRY(read_probes(op, s, &request.probes, err));
    if (has_keys(op->n->scan)) {
        TRY(scan_keys_open(&filter.keys, op, s->row, c, err));
        request.next = near_key;
    }
    TRY(vector_search(x->txn, c, index, &request, op->kept, s->hits, &s->count, err));
    rc = filter.rc;
    x->stats->scanned_index += s->count;
out:
    scan_keys_close(filter.keys);
    return rc;
}

static enum errc near_push(struct op *op, struct near *s, const struct collection *c,
                           struct error *err)
{
    struct exec *x = op->x;
    const struct vector_hit *hit = &s->hits[s->at++];
    struct arena_mark mark = arena_mark(x->scratch);
    struct val doc;
    enum errc rc = doc_get(x->txn, c, hit->key, x->scratch, &doc, err);

    if (rc == OK) {
        x->stats->document_lookups++;
        struct val *row = op_push(op, s->row);
        scan_keep(op, row, doc);
        row[op->n->reg2] = val_new_double(op->batch, hit->score);
    }
    arena_rewind(x->scratch, mark);
    return rc;
}

static enum errc near_next(struct op *op, struct batch **out, enum exec_status *status,
                           struct error *err)
{
    struct near *s = op->state;
    const struct collection *c = exec_collection(op->x, op->n);
    enum errc rc = OK;

    if (!c)
        return scan_gone(op->n, err);
    op_begin_batch(op);
    *out = &op->out;
    while (rc == OK && !op_is_full(op)) {
        if (s->row && s->at < s->count) {
            rc = near_push(op, s, c, err);
            continue;
        }
        rc = op_input_row(op, &s->row, status, err);
        if (rc != OK || !s->row)
            break;
        rc = near_search(op, s, c, err);
    }
    if (op->out.rows)
        *status = EXEC_ROWS;
    return rc;
}

const struct op_kind op_vector = { near_next, NULL, sizeof(struct near) };
