/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of the old and the new document are made, sorted and compared; only
 * the difference is written, so an update that leaves the fields alone costs no
 * index write.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/key.h"
#include "store/index_private.h"
#include "store/vector_source.h"

/* ---- making entries ---- */

void index_entries_add(struct index_entries *e, struct arena *arena, struct slice key,
                       struct slice value)
{
    if (e->count == e->cap) {
        size_t cap = e->cap ? e->cap * 2 : 4;
        struct index_entry *more = arena_alloc(arena, cap * sizeof *more);
        if (e->count)
            memcpy(more, e->at, e->count * sizeof *more);
        e->at = more;
        e->cap = cap;
    }
    e->at[e->count++] = (struct index_entry){ arena_copy(arena, key), arena_copy(arena, value) };
}

struct persistent {
    const struct index_def *index;
    const struct collator *collator;
    const struct row *row;
    const struct val *values;
    size_t expanded;   /* position of the field with [*], or field_count */
    struct val stored; /* array of the stored values, or NULL */
    struct arena *arena;
    struct index_entries *out;
    struct buf key, value;
};

/* One entry; element stands for the expanded field. */
static enum errc add_persistent(struct persistent *p, struct val element, struct error *err)
{
    const struct index_def *x = p->index;
    buf_clear(&p->key);
    buf_clear(&p->value);
    key_add_u64(&p->key, x->object_id);
    for (size_t i = 0; i < x->field_count; i++)
        key_add_val(&p->key, i == p->expanded ? element : p->values[i], p->collator, false);
    if (p->key.len > LIMIT_INDEX_KEY_BYTES)
        return fail(err, ERR_TOO_LARGE,
                    "index '%.*s': the indexed values of document '%.*s' take %zu bytes, the limit "
                    "is %d",
                    SLICE_ARG(x->name), SLICE_ARG(p->row->key), p->key.len, LIMIT_INDEX_KEY_BYTES);
    if (x->is_unique) {
        key_add_u16(&p->value, p->row->slot);
        buf_add_slice(&p->value, p->row->key);
        if (p->stored.at)
            buf_add_char(&p->value, 0); /* no key has one */
    } else {
        key_add_u16(&p->key, p->row->slot);
        buf_add_slice(&p->key, p->row->key);
        key_add_u8(&p->value, (uint8_t)p->row->key.len);
    }
    if (p->stored.at)
        buf_add_slice(&p->value, val_bytes(p->stored));
    index_entries_add(p->out, p->arena, buf_slice(&p->key), buf_slice(&p->value));
    return OK;
}

static enum errc add_elements(struct persistent *p, struct error *err)
{
    const struct index_def *x = p->index;
    if (p->expanded == x->field_count)
        return add_persistent(p, VAL_NONE, err);
    struct val array = p->values[p->expanded];
    if (val_type(array) != VAL_ARRAY)
        return OK;
    for (size_t i = 0; i < val_count(array); i++) {
        struct val element = val_at(array, i);
        if (x->is_sparse && val_is_null(element))
            continue;
        enum errc rc = add_persistent(p, element, err);
        if (rc != OK)
            return rc;
    }
    return OK;
}

static struct val stored_values(const struct index_def *x, const struct row *row,
                                struct arena *arena)
{
    struct val values[LIMIT_INDEX_FIELDS];
    if (!x->stored_count)
        return VAL_NONE;
    for (size_t i = 0; i < x->stored_count; i++)
        values[i] = val_path(row->doc, x->stored[i].names, x->stored[i].count);
    return val_new_array(arena, values, x->stored_count);
}

static enum errc make_persistent(struct persistent *p, struct error *err)
{
    const struct index_def *x = p->index;
    struct val values[LIMIT_INDEX_FIELDS];
    p->expanded = x->field_count;
    for (size_t i = 0; i < x->field_count; i++) {
        values[i] = val_path(p->row->doc, x->fields[i].names, x->fields[i].count);
        if (x->fields[i].is_expanded)
            p->expanded = i;
        if (x->is_sparse && val_is_null(values[i]))
            return OK;
    }
    p->values = values;
    p->stored = stored_values(x, p->row, p->arena);
    buf_init(&p->key, 0);
    buf_init(&p->value, 0);
    enum errc rc = add_elements(p, err);
    buf_release(&p->key);
    buf_release(&p->value);
    return rc;
}

void edge_prefix(struct buf *out, const struct index_def *index, enum edge_side side,
                 struct slice vertex)
{
    struct slice collection, key = vertex;
    (void)doc_split_id(vertex, &collection, &key);
    const char *colon = key.len ? memchr(key.ptr, ':', key.len) : NULL;
    if (colon && colon > key.ptr)
        key.len = (size_t)(colon - key.ptr);
    key_add_u64(out, index->object_id);
    key_add_u8(out, (uint8_t)side);
    key_add_u16(out, hash_slot(key));
    key_add_string(out, vertex, false);
}

static void make_edge(struct index_entries *out, const struct index_def *index,
                      const struct row *row, struct arena *arena)
{
    struct slice ends[2] = { val_string(val_get(row->doc, slice_str("_from"))),
                             val_string(val_get(row->doc, slice_str("_to"))) };
    struct buf key, value;
    buf_init(&key, 0);
    buf_init(&value, 0);
    for (int side = EDGE_SIDE_FROM; side <= EDGE_SIDE_TO; side++) {
        buf_clear(&key);
        buf_clear(&value);
        edge_prefix(&key, index, (enum edge_side)side, ends[side]);
        buf_add_slice(&key, row->key);
        key_add_u16(&value, row->slot);
        buf_add_slice(&value, ends[1 - side]);
        index_entries_add(out, arena, buf_slice(&key), buf_slice(&value));
    }
    buf_release(&key);
    buf_release(&value);
}

static enum errc make_vector(struct index_entries *out, const struct index_def *index,
                             const struct row *row, struct arena *arena, struct error *err)
{
    struct slice floats;
    struct val v = val_path(row->doc, index->fields[0].names, index->fields[0].count);
    enum errc rc = vector_row(index, v, arena, &floats, err);
    if (rc != OK || !floats.len)
        return rc;
    struct buf key;
    buf_init(&key, 0);
    key_add_u64(&key, index->object_id);
    key_add_u16(&key, row->slot);
    buf_add_slice(&key, row->key);
    index_entries_add(out, arena, buf_slice(&key), floats);
    buf_release(&key);
    return OK;
}

static int compare_entries(const void *a, const void *b)
{
    return slice_cmp(((const struct index_entry *)a)->key, ((const struct index_entry *)b)->key);
}

static enum errc fail_unique(struct error *err, const struct index_def *index, struct slice doc_key)
{
    struct buf fields;
    buf_init(&fields, 100);
    for (size_t i = 0; i < index->field_count; i++) {
        buf_add_str(&fields, i ? ", " : "");
        buf_add_slice(&fields, index->fields[i].text);
    }
    fail_num(err, 1210,
             "unique constraint violated - in index %.*s of type %s over '%s'; "
             "conflicting key: %.*s",
             SLICE_ARG(index->name), index->type, buf_cstr(&fields), SLICE_ARG(doc_key));
    buf_release(&fields);
    return ERR_EXISTS;
}

/* Elements that occur twice: one entry, or a violation when that is asked for. */
static enum errc sort_entries(struct index_entries *e, const struct index_def *index,
                              const struct row *row, struct error *err)
{
    size_t kept = 0;
    if (e->count < 2)
        return OK;
    qsort(e->at, e->count, sizeof *e->at, compare_entries);
    for (size_t i = 1; i < e->count; i++) {
        if (!slice_eq(e->at[i].key, e->at[kept].key))
            e->at[++kept] = e->at[i];
        else if (index->is_unique && !index->deduplicate)
            return fail_unique(err, index, row->key);
    }
    e->count = kept + 1;
    return OK;
}

enum errc index_entries_make(struct index_entries *out, const struct collection *c,
                             const struct index_def *index, const struct collator *collator,
                             const struct row *row, struct arena *arena, struct error *err)
{
    enum errc rc = OK;
    (void)c;
    *out = (struct index_entries){ NULL, 0, 0 };
    switch (index->kind) {
    case INDEX_PRIMARY: /* kept with the row */
        return OK;
    case INDEX_EDGE:
        make_edge(out, index, row, arena);
        break;
    case INDEX_PERSISTENT:
        rc = make_persistent(
            &(struct persistent){
                .index = index, .collator = collator, .row = row, .arena = arena, .out = out },
            err);
        break;
    case INDEX_VECTOR:
        rc = make_vector(out, index, row, arena, err);
        break;
    case INDEX_GEO:
        index_make_geo(out, index, row, arena);
        break;
    case INDEX_FULLTEXT:
        index_make_words(out, index, row, arena);
        break;
    }
    return rc == OK ? sort_entries(out, index, row, err) : rc;
}

/* ---- writing the difference ---- */

struct slice index_entry_stored(const struct index_def *index, struct slice value)
{
    size_t skip = 1;
    if (!index->stored_count || !value.len)
        return slice_str("");
    if (index->is_unique) {
        const char *end = value.len > 2 ? memchr(value.ptr + 2, 0, value.len - 2) : NULL;
        skip = end ? (size_t)(end - value.ptr) + 1 : value.len;
    }
    return slice_of(value.ptr + skip, value.len - skip);
}

struct slice index_entry_doc(const struct index_def *index, struct slice key, struct slice value)
{
    if (index->is_unique) {
        if (value.len <= 2)
            return slice_str("");
        const char *end = index->stored_count ? memchr(value.ptr + 2, 0, value.len - 2) : NULL;
        return slice_of(value.ptr + 2, end ? (size_t)(end - value.ptr) - 2 : value.len - 2);
    }
    size_t len = value.len ? (uint8_t)value.ptr[0] : 0;
    return len < key.len ? slice_of(key.ptr + key.len - len, len) : slice_str("");
}

static enum errc put_entry(struct txn *t, const struct index_def *index,
                           const struct index_entry *e, struct slice doc_key, struct error *err)
{
    struct slice there = { NULL, 0 };
    if (index->kind == INDEX_PERSISTENT && index->is_unique) {
        enum errc rc = txn_get(t, KV_INDEX, e->key, txn_scratch(t), &there, err);
        if (rc != OK && rc != ERR_NOT_FOUND)
            return rc;
        struct slice owner = rc == OK ? index_entry_doc(index, e->key, there) : doc_key;
        if (!slice_eq(owner, doc_key))
            return fail_unique(err, index, owner);
    }
    return txn_put(t, KV_INDEX, e->key, e->value, err);
}

/*
 * While a unique index is built, the entry may belong to a document that the
 * builder put first: then it is not ours to delete.
 */
static enum errc delete_entry(struct txn *t, const struct index_def *index,
                              const struct index_entry *e, struct error *err)
{
    struct slice there = { NULL, 0 };
    if (index->is_unique && !index->is_ready) {
        txn_watch(t, KV_INDEX, e->key); /* the builder may put it after our view */
        enum errc rc = txn_get(t, KV_INDEX, e->key, txn_scratch(t), &there, err);
        if (rc == ERR_NOT_FOUND || (rc == OK && !slice_eq(there, e->value)))
            return OK;
        if (rc != OK)
            return rc;
    }
    return txn_delete(t, KV_INDEX, e->key, err);
}

static enum errc write_difference(struct txn *t, const struct index_def *index,
                                  const struct index_entries *old, const struct index_entries *new,
                                  struct slice doc_key, struct error *err)
{
    size_t i = 0, j = 0;
    enum errc rc = OK;
    while (rc == OK && (i < old->count || j < new->count)) {
        int c = i == old->count   ? 1
                : j == new->count ? -1
                                  : slice_cmp(old->at[i].key, new->at[j].key);
        if (c < 0) {
            rc = delete_entry(t, index, &old->at[i++], err);
        } else if (c > 0) {
            rc = put_entry(t, index, &new->at[j++], doc_key, err);
        } else {
            if (!slice_eq(old->at[i].value, new->at[j].value))
                rc = put_entry(t, index, &new->at[j], doc_key, err);
            i++, j++;
        }
    }
    return rc;
}

static enum errc change_one(struct txn *t, const struct collection *c,
                            const struct index_def *index, const struct row *old,
                            const struct row *new, struct error *err)
{
    enum errc rc = OK;
    assert(old || new);
    if (index->source_count)
        return vector_source_change(t, index, old, new, err);
    struct index_entries before = { NULL, 0, 0 }, after = { NULL, 0, 0 };
    struct arena *arena = txn_scratch(t);
    const struct collator *collator = t->store->collator;
    /* What is stored was accepted once; an index that is being built may refuse it: no entries. */
    if (old && index_entries_make(&before, c, index, collator, old, arena, NULL) != OK)
        before.count = 0;
    if (new)
        TRY(index_entries_make(&after, c, index, collator, new, arena, err));
    rc = write_difference(t, index, &before, &after, new ? new->key : old->key, err);
out:
    return rc;
}

enum errc index_change(struct txn *t, const struct collection *c, const struct row *old,
                       const struct row *new, struct error *err)
{
    for (size_t i = 0; i < c->index_count; i++) {
        enum errc rc = change_one(t, c, &c->indexes[i], old, new, err);
        if (rc != OK)
            return rc;
    }
    return OK;
}

enum errc index_add(struct txn *t, const struct collection *c, const struct index_def *index,
                    const struct row *row, struct error *err)
{
    return change_one(t, c, index, NULL, row, err);
}
