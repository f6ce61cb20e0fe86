/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a scan by a geo index looks. A place that cannot be read, or a limit that is no
 * number, means everywhere: the conditions then say the same as without the index.
 *
 * The nearest documents are found in discs around the place, each with twice the radius
 * of the one before, until one holds as many as are wanted.
 */
#include "query/exec_geo.h"
#include "base/geo.h"
#include "query/exec_scan.h"
#include <math.h>
#include <stdlib.h>

#define FIRST_RADIUS_M 250.0

struct hit {
    double distance; /* below 0: without a place, which comes first */
    struct slice key;
};

struct hits {
    struct hit *at;
    size_t count, cap;
};

static enum errc read_place(struct op *op, struct val *row, const struct access *a,
                            struct geo_shape *out, bool *is_place, struct error *err)
{
    struct val v;
    enum errc rc = exec_value(op->x, a->equal[0], row, op->kept, &v, err);

    *is_place = rc == OK && geo_parse(v, op->kept, out, NULL) == OK;
    return rc;
}

enum errc geo_scan_open(struct index_iter **out, struct op *op, struct val *row,
                        const struct collection *c, const struct index_def *index,
                        const struct access *a, struct error *err)
{
    struct geo_cap cap = { { 0, 0, 1 }, M_PI };
    struct geo_shape shape;
    struct val limit = val_null;
    bool is_place, has_nowhere = true;
    enum errc rc = read_place(op, row, a, &shape, &is_place, err);

    if (rc == OK && a->upper)
        rc = exec_value(op->x, a->upper, row, op->kept, &limit, err);
    if (rc != OK)
        return rc;
    if (is_place && a->geo == ACCESS_MEETS) {
        cap = geo_bounds(&shape);
        has_nowhere = false;
    } else if (is_place && val_type(limit) == VAL_NUMBER) {
        double angle = val_double(limit) / GEO_RADIUS_M + GEO_ANGLE_ERROR;
        cap = (struct geo_cap){ geo_centroid(&shape), fmin(fmax(angle, 0), M_PI) };
    }
    return index_scan_geo(out, op->x->txn, c, index, cap, has_nowhere, err);
}

/* ---- nearest ---- */

static void hits_add(struct hits *h, struct arena *arena, double distance, struct slice key)
{
    if (h->count == h->cap) {
        size_t cap = h->cap ? h->cap * 2 : 64;
        struct hit *more = arena_alloc(arena, cap * sizeof *more);
        if (h->count)
            memcpy(more, h->at, h->count * sizeof *more);
        h->at = more;
        h->cap = cap;
    }
    h->at[h->count++] = (struct hit){ distance, arena_copy(arena, key) };
}

struct near {
    struct op *op;
    struct val *row;
    const struct collection *c;
    const struct index_def *index;
    struct geo_vec from;
    struct arena *arena; /* of the hits */
    struct hits hits;
    size_t inside; /* of the disc: the cells reach further */
    unsigned since_poll;
};

static enum errc look_at(struct near *n, struct slice key, double radius, struct error *err)
{
    struct exec *x = n->op->x;
    const struct scan *scan = n->op->n->scan;
    struct arena_mark mark = arena_mark(x->scratch);
    struct geo_shape shape;
    struct val doc;
    bool passes = false;
    enum errc rc = doc_get(x->txn, n->c, key, x->scratch, &doc, err);

    if (rc == OK) {
        n->row[n->op->n->reg] = doc;
        rc = exec_test(x, scan->filters, scan->filter_count, n->row, &passes, err);
        n->row[n->op->n->reg] = val_null;
    } else if (rc == ERR_NOT_FOUND) {
        rc = OK;
    }
    if (rc == OK && passes) {
        double distance = index_geo_shape(n->index, doc, x->scratch, &shape)
                              ? geo_distance(n->from, geo_centroid(&shape))
                              : -1;
        n->inside += distance <= radius;
        hits_add(&n->hits, n->arena, distance, key);
    }
    arena_rewind(x->scratch, mark);
    if (rc == OK && ++n->since_poll % SCAN_POLL_ROWS == 0)
        rc = exec_poll(x, err);
    return rc;
}

static enum errc look_within(struct near *n, double radius, struct error *err)
{
    struct geo_cap cap = { n->from, fmin(radius / GEO_RADIUS_M, M_PI) };
    struct index_iter *it;
    struct slice key;
    enum errc rc = index_scan_geo(&it, n->op->x->txn, n->c, n->index, cap, true, err);

    if (rc != OK)
        return rc;
    arena_reset(n->arena);
    n->hits = (struct hits){ 0 };
    n->inside = 0;
    while (rc == OK && index_iter_next(it, &key)) {
        n->op->x->stats->scanned_index++;
        rc = look_at(n, key, radius, err);
    }
    if (rc == OK)
        rc = index_iter_check(it, err);
    index_iter_free(it);
    return rc;
}

static int compare_hits(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;

    return x->distance < y->distance   ? -1
           : x->distance > y->distance ? 1
                                       : slice_cmp(x->key, y->key);
}

/* As many as are wanted, and those that are as far away as the last of them. */
static enum errc take(struct near *n, size_t wanted, struct val **keys, size_t *count,
                      struct error *err)
{
    void *room;
    size_t taken = 0;

    if (n->hits.count)
        qsort(n->hits.at, n->hits.count, sizeof *n->hits.at, compare_hits);
    enum errc rc = arena_try(n->op->kept, (n->hits.count + 1) * sizeof(struct val), &room, err);
    if (rc != OK)
        return rc;
    *keys = room;
    while (taken < n->hits.count &&
           (taken < wanted || n->hits.at[taken].distance == n->hits.at[taken - 1].distance)) {
        (*keys)[taken] = val_new_string(n->op->kept, n->hits.at[taken].key);
        taken++;
    }
    *count = taken;
    return OK;
}

enum errc geo_near_keys(struct op *op, struct val *row, const struct collection *c,
                        const struct index_def *index, const struct access *a, struct val **keys,
                        size_t *count, struct error *err)
{
    struct near n = { .op = op, .row = row, .c = c, .index = index };
    struct geo_shape shape;
    bool is_place;
    double radius = FIRST_RADIUS_M;
    enum errc rc = read_place(op, row, a, &shape, &is_place, err);

    *count = 0;
    *keys = NULL;
    if (rc != OK || !a->near)
        return rc;
    n.arena = arena_child(op->kept);
    if (is_place)
        n.from = geo_centroid(&shape);
    else
        radius = M_PI * GEO_RADIUS_M * 2; /* all are equally far */
    do {
        rc = look_within(&n, radius, err);
        radius *= 2;
    } while (rc == OK && n.inside < a->near && radius < M_PI * GEO_RADIUS_M * 4);
    if (rc == OK)
        rc = take(&n, is_place ? (size_t)a->near : n.hits.count, keys, count, err);
    arena_free(n.arena);
    return rc;
}
