/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading collections. A stored document is tested where it lies; only
 * survivors are copied.
 */
#include "query/exec.h"

enum { POLL_ROWS = 256, PROJECT_FROM_BYTES = 256 };

/* A source of documents for one input row. */
struct scan {
    struct val *row; /* input row; NULL = take the next one */
    struct doc_iter *docs;
    struct index_iter *keys;
    struct val *list; /* values that are looked up one after the other */
    size_t at, count;
    struct index_range range;
    struct vector_hit *hits;
    unsigned since_poll;
};

static void scan_close(struct op *op)
{
    struct scan *s = op->state;

    doc_iter_free(s->docs);
    index_iter_free(s->keys);
    s->docs = NULL;
    s->keys = NULL;
}

static enum errc gone(const struct node *n, struct error *err)
{
    return fail_num(err, 1203, "collection %llu does not exist any more",
                    (unsigned long long)n->collection);
}

/* A large document of which little is used is not copied whole. */
static struct val keep_doc(struct exec *x, const struct node *n, struct val doc)
{
    struct slice names[PROJECTION_MAX];
    struct val values[PROJECTION_MAX];
    size_t count = 0;

    if (n->projects && !n->projection_count)
        return val_null;
    if (!n->projects || val_size(doc) < PROJECT_FROM_BYTES)
        return val_copy(x->arena, doc);
    for (uint32_t i = 0; i < n->projection_count; i++) {
        const struct attribute *a = &n->projection[i];
        if (val_find_hashed(doc, a->name, a->hash, &values[count]))
            names[count++] = a->name;
    }
    return val_new_object(x->arena, names, values, count);
}

/* Tests doc with the row's registers; a survivor becomes a row of out. */
static enum errc offer(struct op *op, struct scan *s, struct val doc, struct error *err)
{
    struct val *row = op_push(op, s->row);
    bool passes;

    row[op->n->reg] = doc;
    enum errc rc = exec_test(op->x, op->n->filters, op->n->filter_count, row, &passes, err);
    if (rc == OK && passes)
        row[op->n->reg] = keep_doc(op->x, op->n, doc);
    if (rc == OK && !passes) {
        op->out.rows--;
        op->x->stats->filtered++;
    }
    if (rc == OK && ++s->since_poll >= POLL_ROWS) {
        s->since_poll = 0;
        rc = exec_poll(op->x, err);
    }
    return rc;
}

/* Fetches by key; a key that is not there is skipped. */
static enum errc offer_key(struct op *op, struct scan *s, const struct collection *c,
                           struct slice key, struct error *err)
{
    struct exec *x = op->x;
    struct arena_mark mark = arena_mark(x->scratch);
    struct val doc;
    enum errc rc = doc_get(x->txn, c, key, x->scratch, &doc, err);

    x->stats->document_lookups++;
    if (rc == OK)
        rc = offer(op, s, doc, err);
    else if (rc == ERR_NOT_FOUND)
        rc = OK;
    arena_rewind(x->scratch, mark);
    return rc;
}

struct source {
    enum errc (*open)(struct op *op, struct scan *s, const struct collection *c, struct error *err);
    /* One document or key; *has false at the end. */
    enum errc (*step)(struct op *op, struct scan *s, const struct collection *c, bool *has,
                      struct error *err);
};

static enum errc scan_next(struct op *op, const struct source *src, struct batch **out,
                           enum exec_status *status, struct error *err)
{
    struct scan *s = op->state;
    const struct collection *c = exec_collection(op->x, op->n);
    enum errc rc = OK;
    bool has;

    if (!c)
        return gone(op->n, err);
    op->out.rows = 0;
    *out = &op->out;
    while (op->out.rows < LIMIT_ROWS_PER_BATCH) {
        if (!s->row) {
            rc = op_input_row(op, &s->row, status, err);
            if (rc == OK && *status != EXEC_ROWS) {
                s->row = NULL;
                break;
            }
            if (rc == OK)
                rc = src->open(op, s, c, err);
        }
        if (rc == OK)
            rc = src->step(op, s, c, &has, err);
        if (rc != OK)
            return rc;
        if (!has) {
            scan_close(op);
            s->row = NULL;
        }
    }
    if (op->out.rows)
        *status = EXEC_ROWS;
    return OK;
}

/* ---- all documents ---- */

static enum errc all_open(struct op *op, struct scan *s, const struct collection *c,
                          struct error *err)
{
    return doc_iter_new(&s->docs, op->x->txn, c, err);
}

static enum errc all_step(struct op *op, struct scan *s, const struct collection *c, bool *has,
                          struct error *err)
{
    struct val doc;

    (void)c;
    *has = doc_iter_next(s->docs, &doc);
    if (!*has)
        return doc_iter_check(s->docs, err);
    op->x->stats->scanned_full++;
    return offer(op, s, doc, err);
}

static enum errc all_next(struct op *op, struct batch **out, enum exec_status *status,
                          struct error *err)
{
    static const struct source all = { all_open, all_step };

    return scan_next(op, &all, out, status, err);
}

const struct op_kind op_enum_collection = { all_next, scan_close, sizeof(struct scan) };

/* ---- lookups ---- */

/* Different values only: the hash table holds places + 1. */
static size_t unique_values(struct arena *arena, struct val *items, size_t count)
{
    size_t slots = 16, kept = 0;

    while (slots < count * 2)
        slots *= 2;
    uint32_t *table = arena_zalloc(arena, slots * sizeof *table);
    for (size_t i = 0; i < count; i++) {
        size_t at = val_hash(items[i]) & (slots - 1);
        while (table[at] && !val_equal(items[table[at] - 1], items[i]))
            at = (at + 1) & (slots - 1);
        if (table[at])
            continue;
        items[kept++] = items[i];
        table[at] = (uint32_t)kept;
    }
    return kept;
}

/* The values of the array that the expression gives; of no array none, or itself. */
static enum errc list_values(struct op *op, struct scan *s, const struct expr *e, bool takes_one,
                             struct error *err)
{
    struct val list;
    enum errc rc = exec_keep(op->x, e, s->row, &list, err);

    s->at = 0;
    s->count = 0;
    if (rc != OK)
        return rc;
    bool is_array = val_type(list) == VAL_ARRAY;
    size_t count = is_array ? val_count(list) : takes_one;
    s->list = arena_alloc(op->x->arena, (count + 1) * sizeof *s->list);
    for (size_t i = 0; i < count; i++)
        s->list[i] = is_array ? val_at(list, i) : list;
    s->count = unique_values(op->x->arena, s->list, count);
    return OK;
}

/* ---- a persistent index ---- */

/* Bounds outlive the evaluation: with a list the same prefix is scanned for each value. */
static enum errc index_bounds(struct op *op, struct scan *s, const struct index_def *index,
                              struct error *err)
{
    const struct node *n = op->n;
    struct val *equal = arena_alloc(op->x->arena, (index->field_count + 1) * sizeof *equal);
    enum errc rc = OK;

    s->range = (struct index_range){ .equal = equal,
                                     .equal_count = n->expr_count,
                                     .lower_included = n->lower_included,
                                     .upper_included = n->upper_included };
    for (uint32_t i = 0; i < n->expr_count; i++)
        TRY(exec_keep(op->x, n->exprs[i], s->row, &equal[i], err));
    if (n->lower)
        TRY(exec_keep(op->x, n->lower, s->row, &s->range.lower, err));
    if (n->upper)
        TRY(exec_keep(op->x, n->upper, s->row, &s->range.upper, err));
out:
    return rc;
}

/* Scans on, with the next value of the list if there is one. */
static enum errc index_advance(struct op *op, struct scan *s, const struct collection *c,
                               struct error *err)
{
    const struct index_def *index = collection_index(c, op->n->index);
    struct val *equal = (struct val *)s->range.equal;

    if (op->n->expr) {
        equal[op->n->expr_count] = s->list[s->at++];
        s->range.equal_count = op->n->expr_count + 1;
    }
    return index_scan(&s->keys, op->x->txn, c, index, &s->range, err);
}

static enum errc index_open(struct op *op, struct scan *s, const struct collection *c,
                            struct error *err)
{
    const struct node *n = op->n;
    const struct index_def *index = collection_index(c, n->index);

    if (!index || n->expr_count + (n->expr != NULL) > index->field_count)
        return fail_num(err, 1212, "index %llu does not exist any more",
                        (unsigned long long)n->index);
    enum errc rc = index_bounds(op, s, index, err);
    if (rc == OK && n->expr)
        return list_values(op, s, n->expr, false, err);
    return rc == OK ? index_advance(op, s, c, err) : rc;
}

static enum errc index_step(struct op *op, struct scan *s, const struct collection *c, bool *has,
                            struct error *err)
{
    struct slice key;

    for (;;) {
        *has = s->keys && index_iter_next(s->keys, &key);
        if (*has)
            break;
        enum errc rc = s->keys ? index_iter_check(s->keys, err) : OK;
        index_iter_free(s->keys);
        s->keys = NULL;
        if (rc != OK || !op->n->expr || s->at == s->count)
            return rc;
        rc = exec_poll(op->x, err);
        if (rc == OK)
            rc = index_advance(op, s, c, err);
        if (rc != OK)
            return rc;
    }
    op->x->stats->scanned_index++;
    return offer_key(op, s, c, key, err);
}

static enum errc index_next(struct op *op, struct batch **out, enum exec_status *status,
                            struct error *err)
{
    static const struct source by_index = { index_open, index_step };

    return scan_next(op, &by_index, out, status, err);
}

const struct op_kind op_index = { index_next, scan_close, sizeof(struct scan) };

/* ---- by key ---- */

static enum errc primary_open(struct op *op, struct scan *s, const struct collection *c,
                              struct error *err)
{
    (void)c;
    return list_values(op, s, op->n->exprs[0], true, err);
}

static enum errc primary_step(struct op *op, struct scan *s, const struct collection *c, bool *has,
                              struct error *err)
{
    struct slice name, key;

    *has = s->at < s->count;
    if (!*has)
        return OK;
    struct val v = s->list[s->at++];
    if (val_type(v) != VAL_STRING)
        return OK;
    if (!doc_split_id(val_string(v), &name, &key))
        key = val_string(v);
    else if (!slice_eq(name, c->name))
        return OK;
    op->x->stats->scanned_index++;
    return offer_key(op, s, c, key, err);
}

static enum errc primary_next(struct op *op, struct batch **out, enum exec_status *status,
                              struct error *err)
{
    static const struct source by_key = { primary_open, primary_step };

    return scan_next(op, &by_key, out, status, err);
}

const struct op_kind op_primary = { primary_next, scan_close, sizeof(struct scan) };

/* ---- nearest vectors ---- */

struct near_filter {
    struct op *op;
    struct scan *s;
    const struct collection *c;
    enum errc rc;
    struct error *err;
};

/* Called per candidate: the conditions of the query decide before the k are chosen. */
static bool near_passes(void *ctx, struct slice key)
{
    struct near_filter *f = ctx;
    struct exec *x = f->op->x;
    struct arena_mark mark = arena_mark(x->scratch);
    struct val doc;
    bool passes = false;

    if (f->rc != OK)
        return false;
    f->rc = doc_get(x->txn, f->c, key, x->scratch, &doc, f->err);
    if (f->rc == OK) {
        struct val before = f->s->row[f->op->n->reg];
        f->s->row[f->op->n->reg] = doc;
        f->rc = exec_test(x, f->op->n->filters, f->op->n->filter_count, f->s->row, &passes, f->err);
        f->s->row[f->op->n->reg] = before;
    }
    arena_rewind(x->scratch, mark);
    if (f->rc == OK && ++f->s->since_poll % POLL_ROWS == 0)
        f->rc = exec_poll(x, f->err);
    x->stats->filtered += f->rc == OK && !passes;
    return passes;
}

static enum errc vector_open(struct op *op, struct scan *s, const struct collection *c,
                             struct error *err)
{
    struct exec *x = op->x;
    const struct index_def *index = collection_index(c, op->n->index);
    struct near_filter filter = { op, s, c, OK, err };
    struct val query;
    void *hits;
    float *floats;
    enum errc rc = OK;

    if (!index)
        return fail_num(err, 1554, "failed vector search: the index does not exist any more");
    TRY(exec_keep(x, op->n->exprs[0], s->row, &query, err));
    floats = arena_alloc(x->arena, (index->dimension + 1) * sizeof *floats);
    if (val_floats(query, floats, index->dimension) != (long)index->dimension)
        return fail_num(err, 1554, "failed vector search: the query must be an array of %u numbers",
                        index->dimension);
    TRY(arena_try(x->arena, ((size_t)op->n->limit + 1) * sizeof *s->hits, &hits, err));
    s->hits = hits;
    s->at = 0;
    s->count = 0;
    if (!op->n->limit)
        return OK;
    TRY(vector_search(x->txn, c, index, floats, index->dimension, (size_t)op->n->limit,
                      op->n->filter_count ? near_passes : NULL, &filter, x->arena, s->hits,
                      &s->count, err));
    rc = filter.rc;
    x->stats->scanned_index += s->count;
out:
    return rc;
}

static enum errc vector_step(struct op *op, struct scan *s, const struct collection *c, bool *has,
                             struct error *err)
{
    struct exec *x = op->x;
    struct val doc;

    *has = s->at < s->count;
    if (!*has)
        return OK;
    const struct vector_hit *hit = &s->hits[s->at++];
    enum errc rc = doc_get(x->txn, c, hit->key, x->arena, &doc, err);
    if (rc != OK)
        return rc;
    x->stats->document_lookups++;
    struct val *row = op_push(op, s->row);
    row[op->n->reg] = doc;
    row[op->n->reg2] = val_new_double(x->arena, hit->score);
    return OK;
}

static enum errc vector_next(struct op *op, struct batch **out, enum exec_status *status,
                             struct error *err)
{
    static const struct source by_vector = { vector_open, vector_step };

    return scan_next(op, &by_vector, out, status, err);
}

const struct op_kind op_vector = { vector_next, scan_close, sizeof(struct scan) };
