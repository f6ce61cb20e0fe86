/* SPDX-License-Identifier: Apache-2.0 */
#include "base/geo_cell.h"
#include "base/hash.h"
#include "base/key.h"
#include "store/index_private.h"

enum { OBJECT_ID_BYTES = 8 }; /* before the values of an entry */

/* Keys already answered, for indexes in which one document has several entries. */
struct seen {
    uint64_t *hashes;
    struct slice *keys;
    size_t mask, count;
    struct arena *arena; /* of the keys */
};

struct index_iter {
    struct txn *txn;
    const struct index_def *index;
    struct txn_iter *it; /* owned */
    bool is_started, is_expanded;
    struct seen seen;

    /* geo: ranges of cells, one after the other */
    struct geo_range *ranges; /* owned */
    size_t range_count, range_at;

    /* edges */
    bool is_edge, has_inbound_left;
    size_t prefix;       /* bytes before the edge's key */
    struct slice vertex; /* owned; set when both directions are asked for */
    struct error err;    /* of opening the second direction */
};

/* ---- seen ---- */

static bool seen_add(struct seen *s, struct slice key)
{
    uint64_t h = hash_xxh3(key.ptr, key.len) | 1;
    if (!s->hashes || s->count * 10 > s->mask * 7) {
        struct seen old = *s;
        s->mask = old.hashes ? old.mask * 2 + 1 : 63;
        s->hashes = mem_zalloc((s->mask + 1) * sizeof *s->hashes);
        s->keys = mem_zalloc((s->mask + 1) * sizeof *s->keys);
        for (size_t i = 0; old.hashes && i <= old.mask; i++) {
            if (!old.hashes[i])
                continue;
            size_t at = old.hashes[i] & s->mask;
            while (s->hashes[at])
                at = (at + 1) & s->mask;
            s->hashes[at] = old.hashes[i];
            s->keys[at] = old.keys[i];
        }
        mem_free(old.hashes);
        mem_free(old.keys);
    }
    size_t at = h & s->mask;
    for (; s->hashes[at]; at = (at + 1) & s->mask)
        if (s->hashes[at] == h && slice_eq(s->keys[at], key))
            return false;
    if (!s->arena)
        s->arena = arena_new(0);
    s->hashes[at] = h;
    s->keys[at] = arena_copy(s->arena, key);
    s->count++;
    return true;
}

static void seen_release(struct seen *s)
{
    mem_free(s->hashes);
    mem_free(s->keys);
    arena_free(s->arena);
}

/* ---- ranges ---- */

/* The smallest key behind everything that begins with key. */
static void move_behind(struct buf *key)
{
    if (!key_prefix_end(key))
        BUG("an index key consists of ff only");
}

void index_bounds(const struct txn *t, const struct index_def *index, const struct index_range *r,
                  struct buf *from, struct buf *to)
{
    const struct collator *collator = t->store->collator;
    key_add_u64(from, index->object_id);
    for (size_t i = 0; i < r->equal_count; i++)
        key_add_val(from, r->equal[i], collator, false);
    buf_add_slice(to, buf_slice(from));
    if (r->lower.at) {
        key_add_val(from, r->lower, collator, false);
        if (!r->lower_included)
            move_behind(from);
    }
    if (r->upper.at)
        key_add_val(to, r->upper, collator, false);
    if (!r->upper.at || r->upper_included)
        move_behind(to);
}

static enum errc check_range(const struct collection *c, const struct index_def *index,
                             const struct index_range *r, struct error *err)
{
    size_t used = r->equal_count + (r->lower.at || r->upper.at ? 1 : 0);
    if (index->kind != INDEX_PERSISTENT || !index->is_ready)
        return fail(err, ERR_INVALID, "index '%.*s' of '%.*s' cannot be scanned",
                    SLICE_ARG(index->name), SLICE_ARG(c->name));
    if (used > index->field_count)
        return fail(err, ERR_INVALID, "index '%.*s' has %zu fields, %zu were asked for",
                    SLICE_ARG(index->name), index->field_count, used);
    return OK;
}

enum errc index_scan(struct index_iter **out, struct txn *t, const struct collection *c,
                     const struct index_def *index, const struct index_range *range,
                     struct error *err)
{
    struct buf from, to;
    struct txn_iter *it = NULL;
    enum errc rc = check_range(c, index, range, err);
    *out = NULL;
    if (rc == OK)
        rc = txn_open_read(t, c, err);
    if (rc != OK)
        return rc;
    buf_init(&from, 0);
    buf_init(&to, 0);
    index_bounds(t, index, range, &from, &to);
    if (slice_cmp(buf_slice(&from), buf_slice(&to)) > 0) { /* an empty range: stay empty */
        buf_clear(&to);
        buf_add_slice(&to, buf_slice(&from));
    }
    struct kv_scan scan = { .from = buf_slice(&from),
                            .to = buf_slice(&to),
                            .is_reverse = range->is_reverse };
    rc = txn_iter_new(&it, t, KV_INDEX, &scan, err);
    buf_release(&from);
    buf_release(&to);
    if (rc != OK)
        return rc;
    struct index_iter *x = mem_zalloc(sizeof *x);
    x->txn = t;
    x->index = index;
    x->it = it;
    for (size_t i = 0; i < index->field_count; i++)
        x->is_expanded |= index->fields[i].is_expanded;
    *out = x;
    return OK;
}

/* Stands before the first entry of a range, whose bounds are released. */
static enum errc open_range(struct index_iter *x, struct buf *from, struct buf *to,
                            struct error *err)
{
    struct kv_scan scan = { .from = buf_slice(from), .to = buf_slice(to) };
    enum errc rc = txn_iter_new(&x->it, x->txn, KV_INDEX, &scan, err);
    x->is_started = false;
    buf_release(from);
    buf_release(to);
    return rc;
}

/* ---- edges ---- */

static enum errc open_side(struct index_iter *x, enum edge_side side, struct slice vertex,
                           struct error *err)
{
    struct buf from, to;
    buf_init(&from, 0);
    buf_init(&to, 0);
    edge_prefix(&from, x->index, side, vertex);
    buf_add_slice(&to, buf_slice(&from));
    move_behind(&to);
    x->prefix = from.len;
    return open_range(x, &from, &to, err);
}

enum errc index_scan_edges(struct index_iter **out, struct txn *t, const struct collection *c,
                           struct slice vertex, enum edge_direction direction, struct error *err)
{
    *out = NULL;
    if (c->type != COLLECTION_EDGE || c->index_count < 2)
        return fail_num(err, 1218, "'%.*s' is not an edge collection", SLICE_ARG(c->name));
    enum errc rc = txn_open_read(t, c, err);
    if (rc != OK)
        return rc;
    struct index_iter *x = mem_zalloc(sizeof *x);
    x->txn = t;
    x->index = &c->indexes[1];
    x->is_edge = true;
    if (direction == EDGE_ANY) {
        x->has_inbound_left = true;
        x->vertex = slice_of(mem_strndup(vertex), vertex.len);
    }
    rc = open_side(x, direction == EDGE_INBOUND ? EDGE_SIDE_TO : EDGE_SIDE_FROM, vertex, err);
    if (rc == OK)
        *out = x;
    else
        index_iter_free(x);
    return rc;
}

/* Edges from the vertex to itself were answered with the outgoing ones. */
static bool is_loop(const struct index_iter *x)
{
    struct slice value = txn_iter_value(x->it);
    return x->vertex.ptr && !x->has_inbound_left && value.len >= 2 &&
           slice_eq(slice_of(value.ptr + 2, value.len - 2), x->vertex);
}

static bool next_entry(struct index_iter *x)
{
    if (x->is_started)
        txn_iter_next(x->it);
    x->is_started = true;
    return txn_iter_valid(x->it);
}

/* ---- places and words ---- */

static enum errc open_cells(struct index_iter *x, struct error *err)
{
    const struct geo_range *r = &x->ranges[x->range_at++];
    struct buf from, to;
    buf_init(&from, 0);
    buf_init(&to, 0);
    key_add_u64(&from, x->index->object_id);
    key_add_u64(&from, r->first);
    key_add_u64(&to, x->index->object_id);
    key_add_u64(&to, r->last + 1);
    return open_range(x, &from, &to, err);
}

static enum errc open_place(struct index_iter **out, struct txn *t, const struct collection *c,
                            const struct index_def *index, enum index_kind kind, struct error *err)
{
    *out = NULL;
    if (index->kind != kind || !index->is_ready)
        return fail(err, ERR_INVALID, "index '%.*s' of '%.*s' cannot be scanned",
                    SLICE_ARG(index->name), SLICE_ARG(c->name));
    enum errc rc = txn_open_read(t, c, err);
    if (rc != OK)
        return rc;
    *out = mem_zalloc(sizeof **out);
    (*out)->txn = t;
    (*out)->index = index;
    (*out)->is_expanded = kind == INDEX_FULLTEXT || index->is_geo_json;
    return OK;
}

enum errc index_scan_geo(struct index_iter **out, struct txn *t, const struct collection *c,
                         const struct index_def *index, struct geo_cap cap, bool has_nowhere,
                         struct error *err)
{
    uint64_t cells[GEO_COVER_MAX];
    struct index_iter *x;
    enum errc rc = open_place(out, t, c, index, INDEX_GEO, err);
    if (rc != OK)
        return rc;
    x = *out;
    x->ranges = mem_alloc((GEO_RANGES_MAX + 1) * sizeof *x->ranges);
    if (has_nowhere)
        x->ranges[x->range_count++] = (struct geo_range){ 0, 0 };
    size_t count = geo_cover(cap, GEO_COVER_MAX / 2, cells);
    x->range_count += geo_ranges(cells, count, index->is_geo_json, x->ranges + x->range_count);
    rc = open_cells(x, err);
    if (rc != OK) {
        index_iter_free(x);
        *out = NULL;
    }
    return rc;
}

enum errc index_scan_words(struct index_iter **out, struct txn *t, const struct collection *c,
                           const struct index_def *index, struct slice word, bool is_prefix,
                           struct error *err)
{
    struct buf from, to;
    enum errc rc = open_place(out, t, c, index, INDEX_FULLTEXT, err);
    if (rc != OK)
        return rc;
    buf_init(&from, 0);
    buf_init(&to, 0);
    key_add_u64(&from, index->object_id);
    buf_add_slice(&from, word);
    if (!is_prefix)
        key_add_u8(&from, 0);
    buf_add_slice(&to, buf_slice(&from));
    move_behind(&to);
    rc = open_range(*out, &from, &to, err);
    if (rc != OK) {
        index_iter_free(*out);
        *out = NULL;
    }
    return rc;
}

/* Goes on with the next range of cells; false at the end or on an error. */
static bool next_cells(struct index_iter *x)
{
    if (x->range_at == x->range_count || txn_iter_check(x->it, NULL) != OK)
        return false;
    txn_iter_free(x->it);
    x->it = NULL;
    return open_cells(x, &x->err) == OK;
}

static bool next_edge(struct index_iter *x, struct slice *key)
{
    for (;;) {
        while (next_entry(x)) {
            struct slice entry = txn_iter_key(x->it);
            if (is_loop(x))
                continue;
            *key = slice_of(entry.ptr + x->prefix, entry.len - x->prefix);
            return true;
        }
        if (!x->has_inbound_left || txn_iter_check(x->it, NULL) != OK)
            return false;
        x->has_inbound_left = false;
        txn_iter_free(x->it);
        x->it = NULL;
        if (open_side(x, EDGE_SIDE_TO, x->vertex, &x->err) != OK)
            return false;
    }
}

/* ---- stepping ---- */

bool index_iter_next(struct index_iter *x, struct slice *key)
{
    if (!x->it)
        return false;
    if (x->is_edge)
        return next_edge(x, key);
    do {
        while (next_entry(x)) {
            *key = index_entry_doc(x->index, txn_iter_key(x->it), txn_iter_value(x->it));
            if (!x->is_expanded || seen_add(&x->seen, *key))
                return true;
        }
    } while (next_cells(x));
    return false;
}

enum errc index_iter_values(const struct index_iter *x, uint32_t wanted, struct arena *arena,
                            struct index_values *out, struct error *err)
{
    struct slice rest = txn_iter_key(x->it);
    struct slice stored = index_entry_stored(x->index, txn_iter_value(x->it));
    bool is_exact;
    out->is_exact = true;
    out->stored = stored.len ? (struct val){ (const uint8_t *)stored.ptr } : val_null;
    rest = slice_of(rest.ptr + OBJECT_ID_BYTES, rest.len - OBJECT_ID_BYTES);
    for (size_t i = 0; i < x->index->field_count && wanted >> i; i++) {
        enum errc rc = key_read_scalar(&rest, arena, &out->fields[i], &is_exact, err);
        if (rc != OK)
            return rc;
        if (wanted >> i & 1)
            out->is_exact = out->is_exact && is_exact;
    }
    return OK;
}

struct slice index_iter_vertex(const struct index_iter *x)
{
    struct slice value = txn_iter_value(x->it);
    return value.len > 2 ? slice_of(value.ptr + 2, value.len - 2) : slice_str("");
}

enum errc index_iter_check(const struct index_iter *x, struct error *err)
{
    if (x->it)
        return txn_iter_check(x->it, err);
    if (err)
        *err = x->err;
    return x->err.code;
}

void index_iter_free(struct index_iter *x)
{
    if (!x)
        return;
    txn_iter_free(x->it);
    seen_release(&x->seen);
    mem_free((char *)x->vertex.ptr);
    mem_free(x->ranges);
    mem_free(x);
}
