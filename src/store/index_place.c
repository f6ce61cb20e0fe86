/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of geo and fulltext indexes: words and cells as keys.
 *
 * A geo index has an entry for each document: one without a place is at cell 0, so that a
 * query that such documents pass gives the same rows with the index as without.
 */
#include "base/collate.h"
#include "base/geo_cell.h"
#include "base/key.h"
#include "base/words.h"
#include "store/index_private.h"

enum { SHAPE_CELLS_MAX = 8 };

const char *index_order_version(const struct index_def *index, const struct collator *collator)
{
    switch (index->kind) {
    case INDEX_PERSISTENT:
        return collator_version(collator);
    case INDEX_FULLTEXT:
        return words_version();
    case INDEX_PRIMARY:
    case INDEX_EDGE:
    case INDEX_VECTOR:
    case INDEX_GEO:
        return "binary";
    }
    BUG("index kind %d", index->kind);
}

/* ---- places ---- */

static bool read_pair(struct val lat, struct val lng, struct geo_vec *out)
{
    double y = val_double(lat), x = val_double(lng);

    if (val_type(lat) != VAL_NUMBER || val_type(lng) != VAL_NUMBER || !(y >= -90 && y <= 90) ||
        !(x >= -180 && x <= 180))
        return false;
    *out = geo_at(x, y);
    return true;
}

bool index_geo_shape(const struct index_def *index, struct val doc, struct arena *arena,
                     struct geo_shape *out)
{
    struct val first = val_path(doc, index->fields[0].names, index->fields[0].count), second;
    struct geo_vec at;

    if (index->is_geo_json)
        return geo_parse(first, arena, out, NULL) == OK;
    if (index->field_count == 2) {
        second = val_path(doc, index->fields[1].names, index->fields[1].count);
    } else {
        if (val_type(first) != VAL_ARRAY)
            return false;
        second = val_at(first, 1);
        first = val_at(first, 0);
    }
    if (!read_pair(first, second, &at))
        return false;
    geo_point(out, arena, at);
    return true;
}

static void add_entry(struct index_entries *out, struct arena *arena, const struct row *row,
                      struct buf *key)
{
    char len = (char)row->key.len;

    key_add_u16(key, row->slot);
    buf_add_slice(key, row->key);
    index_entries_add(out, arena, buf_slice(key), slice_of(&len, 1));
}

void index_make_geo(struct index_entries *out, const struct index_def *index, const struct row *row,
                    struct arena *arena)
{
    uint64_t cells[SHAPE_CELLS_MAX] = { 0 };
    size_t count = 1;
    struct geo_shape shape;
    struct buf key;

    if (index_geo_shape(index, row->doc, arena, &shape)) {
        if (shape.kind == GEO_POINT)
            cells[0] = geo_cell(shape.chains[0].at[0]);
        else
            count = geo_cover(geo_bounds(&shape), SHAPE_CELLS_MAX, cells);
    }
    buf_init(&key, 0);
    for (size_t i = 0; i < count; i++) {
        buf_clear(&key);
        key_add_u64(&key, index->object_id);
        key_add_u64(&key, cells[i]);
        add_entry(out, arena, row, &key);
    }
    buf_release(&key);
}

/* ---- words ---- */

struct words {
    struct index_entries *out;
    const struct index_def *index;
    const struct row *row;
    struct arena *arena;
    struct buf key;
};

static void add_word(void *ctx, struct slice word)
{
    struct words *w = ctx;

    buf_clear(&w->key);
    key_add_u64(&w->key, w->index->object_id);
    buf_add_slice(&w->key, word);
    key_add_u8(&w->key, 0);
    add_entry(w->out, w->arena, w->row, &w->key);
}

void index_make_words(struct index_entries *out, const struct index_def *index,
                      const struct row *row, struct arena *arena)
{
    struct words w = { .out = out, .index = index, .row = row, .arena = arena };
    struct val v = val_path(row->doc, index->fields[0].names, index->fields[0].count);
    bool is_many = val_type(v) == VAL_ARRAY || val_type(v) == VAL_OBJECT;

    buf_init(&w.key, 0);
    for (size_t i = 0; i < (is_many ? val_count(v) : 1); i++) {
        struct val text = is_many ? val_at(v, i) : v;
        if (val_type(text) == VAL_STRING)
            words_each(val_string(text), index->min_length, add_word, &w);
    }
    buf_release(&w.key);
}
