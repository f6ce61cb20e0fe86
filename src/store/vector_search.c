/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The k nearest rows of a view, under a filter that only the caller knows.
 *
 * Heads are compared row by row, segments are searched by their graphs, own
 * writes of the transaction hide rows and add some. A graph answers a fixed
 * number of its rows, nearest first; rows that are dead, hidden or filtered are
 * dropped from them. What is farther than the last answer of some segment (the
 * horizon) may be missing, so candidates are tried in the order of distance up
 * to there. If that leaves fewer than k, more is asked for once, as the part
 * that passed suggests; where that would cost more than comparing all rows, all
 * rows are compared. So k rows are found whenever k exist.
 *
 * Filters are asked in the order of distance in every case, since one question
 * (reading a document) costs as much as comparing a hundred rows. When another
 * index knows all that can pass, and they are few, only they are compared.
 */
#include "store/vector_search.h"

#include <math.h>

#include "base/key.h"
#include "base/metrics.h"
#include "store/doc_private.h"
#include "store/faiss_shim.h"
#include "store/vector_heap.h"
#include "store/vector_private.h"

enum {
    WINDOW_ROWS = 1 << 18,   /* compared before filters are asked */
    GRAPH_ROWS_MIN = 1024,   /* smaller sets are compared */
    GRAPH_FETCH_PART = 32,   /* as are those of which a larger part is wanted, */
    FILTER_FETCH_PART = 100, /* here behind a filter */
    SELECTED_PART = 32,      /* a larger part of all rows is not looked up one by one, */
    SELECTED_COLD = 10000,   /* nor more when they are on disk */
};

#define SEARCH_METRIC(path)                                                                        \
    {                                                                                              \
        .name = "themis_vector_searches_total", .kind = METRIC_KIND_COUNTER,                       \
        .help = "Searches by what answered: graphs, rows selected by another index, all rows in "  \
                "memory, rows on disk.",                                                           \
        .labels = "path=\"" path "\""                                                              \
    }
static struct metric by_graph = SEARCH_METRIC("graph");
static struct metric by_selection = SEARCH_METRIC("selected");
static struct metric by_compare = SEARCH_METRIC("compare");
static struct metric by_scan = SEARCH_METRIC("scan");

struct candidate {
    float distance;
    uint32_t row;
    const struct vector_rows *rows; /* NULL: row is the number of an id in search.read */
};

/* Candidates as a binary heap, nearest first. */
struct pile {
    struct candidate *at; /* owned */
    size_t count, cap;
};

struct search {
    const struct vector_question *q;
    const struct vector_version *version;
    uint64_t seq;
    size_t dimension;
    bool is_l2, has_own;
    struct buf own_key; /* object id, then the id in question */
    struct vector_heap heap;
    struct pile pile;
    float horizon;
    size_t asked, passed; /* of the filter */
    int64_t *found;       /* owned; answers of a graph */
    float *found_distances;
    struct slice *read; /* owned; ids of rows that were read from disk; in the arena */
    size_t read_count;
};

static float distance_to(const struct search *s, const float *row)
{
    return s->is_l2 ? vector_l2_squared(s->q->vector, row, s->dimension)
                    : -vector_dot(s->q->vector, row, s->dimension);
}

/* ---- the pile ---- */

static void pile_add(struct pile *p, struct candidate c)
{
    if (p->count == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 256;
        p->at = mem_realloc(p->at, p->cap * sizeof *p->at);
    }
    p->at[p->count++] = c;
}

static void pile_sink(struct pile *p, size_t i)
{
    for (;;) {
        size_t top = i, left = 2 * i + 1;
        for (size_t child = left; child < left + 2 && child < p->count; child++)
            if (p->at[child].distance < p->at[top].distance)
                top = child;
        if (top == i)
            return;
        struct candidate t = p->at[top];
        p->at[top] = p->at[i];
        p->at[i] = t;
        i = top;
    }
}

static void pile_order(struct pile *p)
{
    for (size_t i = p->count / 2; i-- > 0;)
        pile_sink(p, i);
}

static struct candidate pile_take(struct pile *p)
{
    struct candidate first = p->at[0];
    p->at[0] = p->at[--p->count];
    pile_sink(p, 0);
    return first;
}

/* ---- one row ---- */

/* The transaction wrote this row itself: what stands in the sets does not count. */
static bool is_own(struct search *s, struct slice id)
{
    s->own_key.len = sizeof(uint64_t);
    buf_add_slice(&s->own_key, id);
    return write_set_get(s->q->txn->writes, KV_INDEX, buf_slice(&s->own_key),
                         s->q->txn->sees_until) != NULL;
}

static bool is_visible(struct search *s, const struct vector_entry *e)
{
    return vector_entry_visible(e, s->seq) && (!s->has_own || !is_own(s, vector_entry_id(e)));
}

/* Keeps the row if it is near enough and passes. */
static void offer(struct search *s, struct vector_near near)
{
    if (!vector_heap_wants(&s->heap, near))
        return;
    if (s->q->request->filter) {
        s->asked++;
        if (!s->q->request->filter(s->q->request->ctx, vector_id_key(near.id)))
            return;
        s->passed++;
    }
    vector_heap_add(&s->heap, near);
}

static struct slice candidate_id(const struct search *s, struct candidate c)
{
    return c.rows ? vector_entry_id(vector_rows_entry(c.rows, c.row)) : s->read[c.row];
}

/* Candidates in the order of distance, as far as the horizon. */
static void offer_pile(struct search *s)
{
    pile_order(&s->pile);
    while (s->pile.count) {
        struct candidate c = pile_take(&s->pile);
        bool is_full = s->heap.count == s->heap.k;
        if (c.distance > s->horizon || (is_full && c.distance > s->heap.at[0].distance))
            break;
        offer(s, (struct vector_near){ c.distance, candidate_id(s, c) });
    }
    s->pile.count = 0;
}

/* ---- comparing all rows of a set ---- */

static void compare(struct search *s, const struct vector_rows *rows, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const struct vector_entry *e = vector_rows_entry(rows, i);
        if (!is_visible(s, e))
            continue;
        float distance = distance_to(s, vector_rows_vector(rows, i));
        if (s->q->request->filter)
            pile_add(&s->pile, (struct candidate){ distance, (uint32_t)i, rows });
        else
            offer(s, (struct vector_near){ distance, vector_entry_id(e) });
    }
}

static void compare_all(struct search *s)
{
    const struct vector_version *version = s->version;
    s->horizon = INFINITY;
    s->heap.count = 0;
    for (size_t i = 0; i < version->head_count + version->segment_count; i++) {
        const struct vector_rows *rows = i < version->head_count
                                             ? version->heads[i]
                                             : version->segments[i - version->head_count];
        size_t count = vector_rows_count(rows);
        for (size_t from = 0; from < count; from += WINDOW_ROWS) {
            compare(s, rows, from, from + WINDOW_ROWS < count ? from + WINDOW_ROWS : count);
            offer_pile(s);
        }
    }
    metric_add(&by_compare, 1);
}

/* ---- searching graphs ---- */

/* What to ask a graph for, so that `fetch` living rows are among it. */
static size_t fetch_from(const struct vector_rows *rows, size_t fetch)
{
    size_t dead = atomic_load_explicit(&rows->dead, memory_order_relaxed);
    size_t count = vector_rows_count(rows);
    return dead ? fetch + 8 + 2 * fetch * dead / (count - dead + 1) : fetch;
}

/* Too small, or too much of it wanted, for a graph to be quicker. */
static bool is_compared(const struct vector_rows *rows, size_t fetch)
{
    size_t count = vector_rows_count(rows);
    return count < GRAPH_ROWS_MIN || fetch_from(rows, fetch) * GRAPH_FETCH_PART > count ||
           fetch_from(rows, fetch) > hnsw_effort_max();
}

/* Adds living rows to the pile; *is_short: fewer than fetch. */
static enum errc ask_graph(struct search *s, const struct vector_rows *rows, size_t fetch,
                           bool *is_short, struct error *err)
{
    size_t want = fetch_from(rows, fetch), count, living = 0;
    float last = -INFINITY;
    /* The farther answers of a graph are the less sure ones, and a filter needs them. */
    size_t effort = s->q->request->filter ? 2 * s->q->effort : s->q->effort;
    size_t least = s->q->request->filter ? want + want / 2 : want;
    effort = effort > least ? effort : least;
    s->found = mem_realloc(s->found, want * sizeof *s->found);
    s->found_distances = mem_realloc(s->found_distances, want * sizeof *s->found_distances);
    enum errc rc = hnsw_search(
        rows->graph, &(struct hnsw_query){ .vector = s->q->vector, .k = want, .effort = effort },
        s->found, s->found_distances, &count, err);
    if (rc != OK)
        return rc;
    for (size_t i = 0; i < count; i++) {
        uint32_t row = (uint32_t)s->found[i];
        /* By our own kernel, so that a row's score does not depend on where it lies. */
        float distance = distance_to(s, vector_rows_vector(rows, row));
        last = distance > last ? distance : last;
        if (!is_visible(s, vector_rows_entry(rows, row)))
            continue;
        living++;
        pile_add(&s->pile, (struct candidate){ distance, row, rows });
    }
    s->horizon = last < s->horizon ? last : s->horizon;
    *is_short = living < fetch;
    return OK;
}

/* Fills the pile with at least fetch rows of each segment; false in *is_enough: not all were found. */
static enum errc gather(struct search *s, size_t fetch, bool *is_enough, struct error *err)
{
    enum errc rc = OK;
    const struct vector_version *version = s->version;
    *is_enough = true;
    s->horizon = INFINITY;
    s->heap.count = s->asked = s->passed = 0;
    for (size_t i = 0; i < version->head_count; i++)
        compare(s, version->heads[i], 0, vector_rows_count(version->heads[i]));
    for (size_t i = 0; rc == OK && *is_enough && i < version->segment_count; i++) {
        const struct vector_rows *rows = version->segments[i];
        bool is_short = false;
        if (is_compared(rows, fetch))
            compare(s, rows, 0, vector_rows_count(rows));
        else
            rc = ask_graph(s, rows, fetch, &is_short, err);
        *is_enough = !is_short;
    }
    return rc;
}

static size_t segment_rows(const struct vector_version *version)
{
    size_t rows = 0;
    for (size_t i = 0; i < version->segment_count; i++)
        rows += vector_rows_count(version->segments[i]);
    return rows;
}

/* How many candidates it takes until k pass, judged by those that were asked. */
static size_t estimate(const struct search *s)
{
    double part = ((double)s->passed + 0.5) / ((double)s->asked + 1);
    return (size_t)((double)s->q->request->k / part * 1.5) + 16;
}

static enum errc search_graphs(struct search *s, bool *is_done, struct error *err)
{
    size_t k = s->q->request->k, fetch = s->q->request->filter ? 2 * k + 16 : k;
    size_t rows = segment_rows(s->version);
    *is_done = false;
    for (int round = 0; round < 2; round++) {
        bool is_enough;
        enum errc rc = gather(s, fetch, &is_enough, err);
        if (rc != OK)
            return rc;
        if (is_enough)
            offer_pile(s);
        s->pile.count = 0;
        *is_done = is_enough && (s->heap.count == k || s->horizon == INFINITY);
        fetch = is_enough ? estimate(s) : fetch * 8;
        if (*is_done || fetch * FILTER_FETCH_PART > rows)
            break;
    }
    metric_add(&by_graph, *is_done);
    return OK;
}

/* ---- own writes ---- */

/* They compete with what was found. */
static void offer_own(struct search *s)
{
    struct write_cursor c;
    struct write_set *writes = s->q->txn->writes;
    float *aligned = mem_alloc(s->dimension * sizeof *aligned);
    s->own_key.len = sizeof(uint64_t);
    struct slice object = buf_slice(&s->own_key);
    write_cursor_init(&c, writes, KV_INDEX, s->q->txn->sees_until);
    for (write_cursor_seek(&c, object, false, false); c.entry; write_cursor_step(&c, false)) {
        struct slice key = write_entry_key(c.entry);
        if (key.len < object.len || memcmp(key.ptr, object.ptr, object.len) != 0)
            break;
        if (c.entry->is_delete || !vector_key_is_row(key))
            continue;
        memcpy(aligned, c.entry->value.ptr, s->dimension * sizeof *aligned);
        offer(s, (struct vector_near){ distance_to(s, aligned),
                                       slice_of(key.ptr + object.len, key.len - object.len) });
    }
    mem_free(aligned);
}

static void count_register(void)
{
    metric_register(&by_graph);
    metric_register(&by_selection);
    metric_register(&by_compare);
    metric_register(&by_scan);
}

/* ---- rows that another index selected ---- */

struct selection {
    struct slice *keys; /* owned; in the arena */
    size_t count, max;
};

/* *is_small false: there are too many, or nobody knows them. */
static enum errc select_keys(const struct search *s, struct selection *out, bool *is_small,
                             struct error *err)
{
    const struct vector_request *r = s->q->request;
    size_t cap = 0;
    *is_small = false;
    while (out->count <= out->max) {
        struct slice key;
        bool has;
        enum errc rc = r->next(r->ctx, &key, &has, err);
        if (rc != OK)
            return rc;
        if (!has) {
            *is_small = true;
            return OK;
        }
        if (out->count == cap) {
            cap = cap ? cap * 2 : 64;
            out->keys = mem_realloc(out->keys, cap * sizeof *out->keys);
        }
        out->keys[out->count++] = arena_copy(s->q->arena, key);
    }
    return OK;
}

/* The row where it lies in a segment; false: not in one, or not for this view. */
static bool look_up(struct search *s, struct slice id)
{
    size_t segments = s->version ? s->version->segment_count : 0;
    for (size_t i = 0; i < segments; i++) {
        const struct vector_rows *rows = s->version->segments[i];
        size_t row = vector_rows_find(rows, id);
        if (row == SIZE_MAX || !is_visible(s, vector_rows_entry(rows, row)))
            continue;
        float distance = distance_to(s, vector_rows_vector(rows, row));
        pile_add(&s->pile, (struct candidate){ distance, (uint32_t)row, rows });
        return true;
    }
    return false;
}

/* The row from disk or from own writes; one that has none is passed over. */
static enum errc read_row(struct search *s, struct slice id, float *room, struct error *err)
{
    struct slice row = { NULL, 0 };
    struct arena *scratch = txn_scratch(s->q->txn);
    s->own_key.len = sizeof(uint64_t);
    buf_add_slice(&s->own_key, id);
    enum errc rc = txn_get(s->q->txn, KV_INDEX, buf_slice(&s->own_key), scratch, &row, err);
    if (rc == OK && row.len == s->dimension * sizeof *room) {
        memcpy(room, row.ptr, row.len);
        s->read[s->read_count] = arena_copy(s->q->arena, id);
        pile_add(&s->pile,
                 (struct candidate){ distance_to(s, room), (uint32_t)s->read_count++, NULL });
    }
    txn_scratch_reset(s->q->txn);
    return rc == ERR_NOT_FOUND ? OK : rc;
}

static enum errc compare_selected(struct search *s, const struct selection *chosen,
                                  struct error *err)
{
    enum errc rc = OK;
    struct buf id;
    float *room = mem_alloc(s->dimension * sizeof *room);
    buf_init(&id, 0);
    s->horizon = INFINITY;
    s->read = mem_alloc((chosen->count + 1) * sizeof *s->read);
    for (size_t i = 0; i < chosen->count; i++) {
        buf_clear(&id);
        key_add_u16(&id, doc_slot(s->q->collection, chosen->keys[i], slice_str("")));
        buf_add_slice(&id, chosen->keys[i]);
        if (!look_up(s, buf_slice(&id)))
            TRY(read_row(s, buf_slice(&id), room, err));
    }
    offer_pile(s);
    metric_add(&by_selection, 1);
out:
    mem_free(room);
    buf_release(&id);
    return rc;
}

static enum errc search_selected(struct search *s, bool *is_done, struct error *err)
{
    const struct vector_version *version = s->version;
    size_t rows = version ? segment_rows(version) : 0;
    struct selection chosen = { .max = version ? rows / SELECTED_PART + s->q->request->k
                                               : SELECTED_COLD };
    *is_done = false;
    /* The slot of an edge depends on its _from, which the other index does not tell. */
    if (!s->q->request->next || s->q->collection->type == COLLECTION_EDGE)
        return OK;
    enum errc rc = select_keys(s, &chosen, is_done, err);
    if (rc == OK && *is_done)
        rc = compare_selected(s, &chosen, err);
    mem_free(chosen.keys);
    return rc;
}

/* ---- rows on disk ---- */

static enum errc scan(struct search *s, struct error *err)
{
    struct buf from, to;
    struct txn_iter *it = NULL;
    enum errc rc = OK;
    float *aligned = mem_alloc(s->dimension * sizeof *aligned);
    uint64_t object_id = s->q->index->object_id;
    buf_init(&from, 0);
    buf_init(&to, 0);
    key_add_u64(&from, object_id);
    vector_scan_end(&to, object_id);
    TRY(txn_iter_new(&it, s->q->txn, KV_INDEX,
                     &(struct kv_scan){ .from = buf_slice(&from), .to = buf_slice(&to) }, err));
    for (; txn_iter_valid(it); txn_iter_next(it)) {
        struct slice key = txn_iter_key(it), row = txn_iter_value(it);
        if (!vector_key_is_row(key) || row.len != s->dimension * sizeof(float)) {
            rc = fail(err, ERR_CORRUPT, "vector index '%.*s' holds a damaged entry",
                      SLICE_ARG(s->q->index->name));
            goto out;
        }
        memcpy(aligned, row.ptr, row.len);
        offer(s, (struct vector_near){ distance_to(s, aligned),
                                       slice_of(key.ptr + from.len, key.len - from.len) });
    }
    rc = txn_iter_check(it, err);
    metric_add(&by_scan, 1);
out:
    txn_iter_free(it);
    mem_free(aligned);
    buf_release(&from);
    buf_release(&to);
    return rc;
}

/* ---- the whole ---- */

static enum errc search_version(struct search *s, struct error *err)
{
    bool is_done;
    enum errc rc = search_graphs(s, &is_done, err);
    if (rc == OK && !is_done)
        compare_all(s);
    if (rc == OK && s->has_own)
        offer_own(s);
    return rc;
}

static enum errc search(struct search *s, struct error *err)
{
    bool is_done;
    key_add_u64(&s->own_key, s->q->index->object_id);
    s->has_own = write_set_has_family(s->q->txn->writes, KV_INDEX);
    enum errc rc = search_selected(s, &is_done, err);
    if (rc != OK || is_done)
        return rc;
    if (s->version)
        return search_version(s, err);
    s->heap.copies = s->q->arena;
    return scan(s, err);
}

/* Nearest first; distances to scores, ids to keys that outlive the version. */
static void answer(struct search *s, struct vector_hit *hits, size_t *count)
{
    vector_heap_sort(&s->heap);
    for (size_t i = 0; i < s->heap.count; i++) {
        float distance = s->heap.at[i].distance;
        hits[i] =
            (struct vector_hit){ .key = arena_copy(s->q->arena, vector_id_key(s->heap.at[i].id)),
                                 .score = s->is_l2 ? sqrtf(distance) : -distance };
    }
    *count = s->heap.count;
}

/* The search reads all rows of the index, whatever it looks at. */
static enum errc read_range(const struct vector_question *q, struct error *err)
{
    struct buf from, to;
    struct txn *t = q->txn;
    buf_init(&from, 0);
    buf_init(&to, 0);
    key_add_u64(&from, q->index->object_id);
    vector_scan_end(&to, q->index->object_id);
    enum errc rc = prepared_wait_range(t->store->prepared, t->view->seq, KV_INDEX, buf_slice(&from),
                                       buf_slice(&to), err);
    if (rc == OK)
        txn_read_range(t, KV_INDEX, buf_slice(&from), buf_slice(&to));
    buf_release(&from);
    buf_release(&to);
    return rc;
}

enum errc vector_answer(const struct vector_question *q, struct vector_hit *hits, size_t *count,
                        struct error *err)
{
    enum errc rc;
    struct store *store = q->txn->store;
    struct search s = { .q = q,
                        .seq = txn_view_seq(q->txn),
                        .dimension = q->index->dimension,
                        .is_l2 = q->index->metric == VECTOR_L2,
                        .heap = { .k = q->request->k } };
    count_register();
    s.heap.at = mem_alloc(q->request->k * sizeof *s.heap.at);
    buf_init(&s.own_key, 0);
    struct vector_version *version = vectors_acquire(store->vectors, q->index->object_id, s.seq);
    s.version = version;
    rc = read_range(q, err);
    if (rc == OK)
        rc = search(&s, err);
    if (rc == OK)
        answer(&s, hits, count);
    vector_version_unref(version);
    mem_free(s.heap.at);
    mem_free(s.pile.at);
    mem_free(s.found);
    mem_free(s.found_distances);
    mem_free(s.read);
    buf_release(&s.own_key);
    return rc;
}
