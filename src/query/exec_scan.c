/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading collections. A stored document is tested where it lies; of survivors
 * only what the query uses is copied. An index that holds all of it is read
 * alone; an entry that cannot give a value back exactly is looked up after all.
 */
#include "query/exec_scan.h"
#include "query/exec_geo.h"
#include "query/intern.h"
#include "query/plan_sealed.h"

struct scan_state {
    struct val *row; /* input row; NULL = take the next one */
    struct doc_iter *docs;
    struct index_iter *keys;
    const struct index_def *index; /* of the access in hand */
    uint32_t access;               /* the next one */
    bool is_listed;                /* the list has keys */
    uint32_t wanted;               /* bits: fields that projections take from entries */
    struct val *list;              /* values that are looked up one after the other */
    size_t at, count;
    struct index_range range;
    bool may_repeat;    /* several lookups may find the same document */
    struct intern seen; /* keys that an earlier one gave */
    uint64_t skip;      /* so many more documents are passed over */
    unsigned since_poll;
    bool leaves_sealed; /* documents are read as they are stored */
};

static void scan_close(struct op *op)
{
    struct scan_state *s = op->state;

    doc_iter_free(s->docs);
    index_iter_free(s->keys);
    s->docs = NULL;
    s->keys = NULL;
}

enum errc scan_gone(const struct node *n, struct error *err)
{
    return fail_num(err, 1203, "collection %llu does not exist any more",
                    (unsigned long long)n->collection);
}

/* ---- one document ---- */

static struct val path_value(struct val v, const struct projection *p, uint32_t from)
{
    for (uint32_t i = from; i < p->count; i++)
        if (!val_find_hashed(v, p->names[i], p->hashes[i], &v))
            return val_null;
    return v;
}

struct val scan_path_value(struct val doc, const struct projection *p)
{
    return path_value(doc, p, 0);
}

void scan_keep(struct op *op, struct val *row, struct val doc)
{
    const struct scan *scan = op->n->scan;

    row[op->n->reg] = scan->projects ? val_null : val_copy(op->docs ? op->docs : op->batch, doc);
    for (uint32_t i = 0; i < scan->projection_count; i++) {
        const struct projection *p = &scan->projections[i];
        row[p->reg] = val_copy(op->batch, path_value(doc, p, 0));
    }
}

static enum errc count_offer(struct op *op, unsigned *since_poll, bool passes, struct error *err)
{
    op->x->stats->filtered += !passes;
    if (++*since_poll < SCAN_POLL_ROWS)
        return OK;
    *since_poll = 0;
    return exec_poll(op->x, err);
}

enum errc scan_offer(struct op *op, struct val *row, struct val doc, unsigned *since_poll,
                     struct error *err)
{
    const struct scan *scan = op->n->scan;
    bool passes;

    row[op->n->reg] = doc;
    enum errc rc = exec_test(op->x, scan->filters, scan->filter_count, row, &passes, err);
    if (rc != OK)
        return rc;
    if (passes)
        scan_keep(op, op_push(op, row), doc);
    return count_offer(op, since_poll, passes, err);
}

/* The same when filters look at registers: they are set before. */
static enum errc offer_covered(struct op *op, struct scan_state *s, struct error *err)
{
    const struct scan *scan = op->n->scan;
    bool passes;
    enum errc rc = exec_test(op->x, scan->filters, scan->filter_count, s->row, &passes, err);

    if (rc != OK)
        return rc;
    if (passes) {
        struct val *row = op_push(op, s->row);
        row[op->n->reg] = val_null;
        for (uint32_t i = 0; i < scan->projection_count; i++)
            row[scan->projections[i].reg] = val_copy(op->batch, row[scan->projections[i].reg]);
    }
    return count_offer(op, &s->since_poll, passes, err);
}

/* Fetches by key; a key that is not there is skipped. */
static enum errc offer_key(struct op *op, struct scan_state *s, const struct collection *c,
                           struct slice key, struct error *err)
{
    struct exec *x = op->x;
    const struct scan *scan = op->n->scan;
    struct arena_mark mark = arena_mark(x->scratch);
    struct val doc;
    enum errc rc = s->leaves_sealed ? doc_get_stored(x->txn, c, key, x->scratch, &doc, err)
                                    : doc_get(x->txn, c, key, x->scratch, &doc, err);

    x->stats->document_lookups++;
    if (rc == OK && scan->is_covering) {
        for (uint32_t i = 0; i < scan->projection_count; i++)
            s->row[scan->projections[i].reg] = path_value(doc, &scan->projections[i], 0);
        rc = offer_covered(op, s, err);
    } else if (rc == OK) {
        rc = scan_offer(op, s->row, doc, &s->since_poll, err);
    } else if (rc == ERR_NOT_FOUND) {
        rc = OK;
    }
    arena_rewind(x->scratch, mark);
    return rc;
}

/* ---- rows ---- */

struct source {
    enum errc (*open)(struct op *op, struct scan_state *s, const struct collection *c,
                      struct error *err);
    /* One document or key; *has false at the end. */
    enum errc (*step)(struct op *op, struct scan_state *s, const struct collection *c, bool *has,
                      struct error *err);
};

static enum errc scan_next(struct op *op, const struct source *src, struct batch **out,
                           enum exec_status *status, struct error *err)
{
    struct scan_state *s = op->state;
    const struct collection *c = exec_collection(op->x, op->n);
    enum errc rc = OK;
    bool has;

    if (!c)
        return scan_gone(op->n, err);
    op_begin_batch(op);
    *out = &op->out;
    while (!op_is_full(op)) {
        if (!s->row) {
            rc = op_input_row(op, &s->row, status, err);
            if (rc != OK || !s->row)
                break;
            arena_reset(op->kept);
            s->skip = op->n->scan->skip;
            s->leaves_sealed = c->sealed_count && plan_leaves_sealed(op->n, c);
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
    return rc;
}

/* ---- all documents ---- */

static enum errc all_open(struct op *op, struct scan_state *s, const struct collection *c,
                          struct error *err)
{
    enum errc rc = doc_iter_new(&s->docs, op->x->txn, c, err);

    if (rc == OK && s->leaves_sealed)
        doc_iter_leave_sealed(s->docs);
    return rc;
}

static enum errc all_step(struct op *op, struct scan_state *s, const struct collection *c,
                          bool *has, struct error *err)
{
    struct val doc;

    (void)c;
    *has = doc_iter_next(s->docs, &doc);
    if (!*has)
        return doc_iter_check(s->docs, err);
    op->x->stats->scanned_full++;
    if (s->skip) {
        s->skip--;
        return count_offer(op, &s->since_poll, true, err);
    }
    return scan_offer(op, s->row, doc, &s->since_poll, err);
}

static enum errc all_next(struct op *op, struct batch **out, enum exec_status *status,
                          struct error *err)
{
    static const struct source all = { all_open, all_step };

    return scan_next(op, &all, out, status, err);
}

const struct op_kind op_enum_collection = { all_next, scan_close, sizeof(struct scan_state) };

/* ---- by index ---- */

size_t scan_unique_values(struct arena *arena, struct val *items, size_t count)
{
    size_t slots = 16, kept = 0;

    if (count < 2)
        return count;
    while (slots < count * 2)
        slots *= 2;
    uint32_t *table = arena_zalloc(arena, slots * sizeof *table); /* places + 1 */
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

/* The values to look up: the elements of an array, or the value itself. */
static enum errc open_list(struct op *op, struct scan_state *s, const struct expr *e,
                           bool takes_elements, struct error *err)
{
    struct val list;
    enum errc rc = exec_value(op->x, e, s->row, op->kept, &list, err);

    s->at = 0;
    s->count = 0;
    if (rc != OK)
        return rc;
    bool is_array = val_type(list) == VAL_ARRAY;
    size_t count = !takes_elements ? 1 : is_array ? val_count(list) : 0;
    s->list = arena_alloc(op->kept, (count + 1) * sizeof *s->list);
    for (size_t i = 0; i < count; i++)
        s->list[i] = takes_elements ? val_at(list, i) : list;
    s->count = scan_unique_values(op->kept, s->list, count);
    return OK;
}

/* Bounds outlive the evaluation: with a list the same prefix is scanned for each value. */
static enum errc open_range(struct op *op, struct scan_state *s, const struct access *a,
                            struct error *err)
{
    struct exec *x = op->x;
    struct val *equal = arena_alloc(op->kept, (a->equal_count + 2) * sizeof *equal);
    enum errc rc = OK;

    s->range = (struct index_range){ .equal = equal,
                                     .equal_count = a->equal_count,
                                     .lower_included = a->lower_included,
                                     .upper_included = a->upper_included,
                                     .is_reverse = op->n->scan->is_reverse };
    for (uint32_t i = 0; i < a->equal_count; i++)
        TRY(exec_value(x, a->equal[i], s->row, op->kept, &equal[i], err));
    if (a->lower)
        TRY(exec_value(x, a->lower, s->row, op->kept, &s->range.lower, err));
    if (a->upper)
        TRY(exec_value(x, a->upper, s->row, op->kept, &s->range.upper, err));
out:
    return rc;
}

/* A decoded plan may ask for what the index does not have. */
static bool has_sources(const struct scan *scan, const struct index_def *index)
{
    for (uint32_t i = 0; scan->is_covering && i < scan->projection_count; i++) {
        uint8_t source = scan->projections[i].source;
        if (source == SOURCE_NONE || (source < SOURCE_STORED && source >= index->field_count))
            return false;
    }
    return true;
}

static bool is_expanded(const struct index_def *index)
{
    for (size_t i = 0; i < index->field_count; i++)
        if (index->fields[i].is_expanded)
            return true;
    return false;
}

/* The next access; its range is scanned at once, its list value by value. */
static enum errc next_access(struct op *op, struct scan_state *s, const struct collection *c,
                             struct error *err)
{
    const struct access *a = &op->n->scan->accesses[s->access++];

    s->index = collection_index(c, a->index);
    if (!s->index || a->equal_count + (a->in != NULL) > s->index->field_count ||
        !has_sources(op->n->scan, s->index))
        return fail_num(err, 1212, "index %llu does not exist any more",
                        (unsigned long long)a->index);
    s->is_listed = s->index->kind == INDEX_PRIMARY || a->geo == ACCESS_NEAR;
    s->may_repeat = op->n->scan->access_count > 1 || (a->in && is_expanded(s->index));
    if (!a->geo != (s->index->kind != INDEX_GEO))
        return fail_num(err, 1212, "index %llu is of another kind", (unsigned long long)a->index);
    s->count = s->at = 0;
    if (a->geo == ACCESS_NEAR)
        return geo_near_keys(op, s->row, c, s->index, a, &s->list, &s->count, err);
    if (a->geo)
        return geo_scan_open(&s->keys, op, s->row, c, s->index, a, err);
    if (s->index->kind == INDEX_PRIMARY)
        return open_list(op, s, a->in ? a->in : a->equal[0], a->in != NULL, err);
    enum errc rc = open_range(op, s, a, err);
    if (rc == OK && a->in)
        return open_list(op, s, a->in, true, err);
    s->count = s->at = 0;
    return rc == OK ? index_scan(&s->keys, op->x->txn, c, s->index, &s->range, err) : rc;
}

static enum errc index_open(struct op *op, struct scan_state *s, const struct collection *c,
                            struct error *err)
{
    const struct scan *scan = op->n->scan;

    s->wanted = 0;
    for (uint32_t i = 0; i < scan->projection_count; i++)
        if (scan->projections[i].source < LIMIT_INDEX_FIELDS)
            s->wanted |= 1u << scan->projections[i].source;
    s->access = 0;
    s->may_repeat = false;
    s->seen = (struct intern){ .arena = op->kept };
    return next_access(op, s, c, err);
}

/* Scans on with the next value of the list. */
static enum errc next_value(struct op *op, struct scan_state *s, const struct collection *c,
                            struct error *err)
{
    struct val *equal = (struct val *)s->range.equal;
    const struct access *a = &op->n->scan->accesses[s->access - 1];

    equal[a->equal_count] = s->list[s->at++];
    s->range.equal_count = a->equal_count + 1;
    return index_scan(&s->keys, op->x->txn, c, s->index, &s->range, err);
}

static struct val key_source(const struct projection *p, const struct collection *c,
                             struct slice key, struct arena *arena)
{
    if (p->source == SOURCE_KEY)
        return val_new_string(arena, key);
    return val_new_string(
        arena, slice_str(arena_printf(arena, "%.*s/%.*s", SLICE_ARG(c->name), SLICE_ARG(key))));
}

/* Sets the registers of the projections from the entry; *is_exact false: read the document. */
static enum errc read_entry(struct op *op, struct scan_state *s, const struct collection *c,
                            struct slice key, bool *is_exact, struct error *err)
{
    const struct scan *scan = op->n->scan;
    struct arena *arena = op->x->scratch;
    struct index_values values;
    enum errc rc = index_iter_values(s->keys, s->wanted, arena, &values, err);

    *is_exact = rc == OK && values.is_exact;
    for (uint32_t i = 0; *is_exact && i < scan->projection_count; i++) {
        const struct projection *p = &scan->projections[i];
        struct val v;
        if (p->source == SOURCE_KEY || p->source == SOURCE_ID) {
            v = key_source(p, c, key, arena);
        } else if (p->source >= SOURCE_STORED) {
            *is_exact = !val_is_null(values.stored);
            v = val_at(values.stored, p->source - SOURCE_STORED);
        } else {
            v = values.fields[p->source];
        }
        s->row[p->reg] = path_value(v, p, p->source_skip);
    }
    return rc;
}

static enum errc offer_entry(struct op *op, struct scan_state *s, const struct collection *c,
                             struct slice key, struct error *err)
{
    struct exec *x = op->x;
    bool is_exact = true;
    enum errc rc = OK;

    x->stats->scanned_index++;
    if (!op->n->scan->is_covering)
        return offer_key(op, s, c, key, err);
    struct arena_mark mark = arena_mark(x->scratch);
    if (op->n->scan->projection_count)
        rc = read_entry(op, s, c, key, &is_exact, err);
    if (rc == OK && is_exact)
        rc = offer_covered(op, s, err);
    arena_rewind(x->scratch, mark);
    return rc == OK && !is_exact ? offer_key(op, s, c, key, err) : rc;
}

/* A key of the list, or the key of an _id of this collection. */
static enum errc offer_listed(struct op *op, struct scan_state *s, const struct collection *c,
                              struct error *err)
{
    struct val v = s->list[s->at++];
    struct slice name, key;

    if (val_type(v) != VAL_STRING)
        return OK;
    if (!doc_split_id(val_string(v), &name, &key))
        key = val_string(v);
    else if (!slice_eq(name, c->name))
        return OK;
    op->x->stats->scanned_index++;
    if (s->may_repeat) {
        bool is_new;
        intern_add(&s->seen, key, &is_new);
        if (!is_new)
            return OK;
    }
    return offer_key(op, s, c, key, err);
}

static enum errc offer_scanned(struct op *op, struct scan_state *s, const struct collection *c,
                               struct slice key, struct error *err)
{
    bool is_new = true;

    if (s->may_repeat)
        intern_add(&s->seen, key, &is_new);
    if (!is_new)
        return OK;
    if (!s->skip)
        return offer_entry(op, s, c, key, err);
    s->skip--;
    op->x->stats->scanned_index++;
    return count_offer(op, &s->since_poll, true, err);
}

/* The next entry's key; *has false: a listed key comes next, or the end. */
static enum errc next_key(struct op *op, struct scan_state *s, const struct collection *c,
                          struct slice *key, bool *has, struct error *err)
{
    for (;;) {
        *has = s->keys && index_iter_next(s->keys, key);
        if (*has)
            return OK;
        enum errc rc = s->keys ? index_iter_check(s->keys, err) : exec_poll(op->x, err);
        index_iter_free(s->keys);
        s->keys = NULL;
        bool is_end = s->at == s->count && s->access == op->n->scan->access_count;
        if (rc != OK || is_end || (s->at < s->count && s->is_listed))
            return rc;
        rc = s->at < s->count ? next_value(op, s, c, err) : next_access(op, s, c, err);
        if (rc != OK)
            return rc;
    }
}

static enum errc index_step(struct op *op, struct scan_state *s, const struct collection *c,
                            bool *has, struct error *err)
{
    struct slice key;
    bool has_key;
    enum errc rc = next_key(op, s, c, &key, &has_key, err);

    *has = has_key || s->at < s->count;
    if (rc != OK || !*has)
        return rc;
    return has_key ? offer_scanned(op, s, c, key, err) : offer_listed(op, s, c, err);
}

static enum errc index_next(struct op *op, struct batch **out, enum exec_status *status,
                            struct error *err)
{
    static const struct source by_index = { index_open, index_step };

    return scan_next(op, &by_index, out, status, err);
}

const struct op_kind op_index = { index_next, scan_close, sizeof(struct scan_state) };

/* ---- keys alone ---- */

enum errc scan_keys_open(struct scan_state **out, struct op *op, struct val *row,
                         const struct collection *c, struct error *err)
{
    *out = arena_zalloc(op->kept, sizeof **out);
    (*out)->row = row;
    return index_open(op, *out, c, err);
}

enum errc scan_keys_next(struct op *op, struct scan_state *s, const struct collection *c,
                         struct slice *key, bool *has, struct error *err)
{
    enum errc rc = next_key(op, s, c, key, has, err);

    op->x->stats->scanned_index += *has;
    return rc;
}

void scan_keys_close(struct scan_state *s)
{
    if (s)
        index_iter_free(s->keys);
}
