/* SPDX-License-Identifier: Apache-2.0 */
#include "store/vector_source.h"

#include "base/hash.h"
#include "base/key.h"
#include "store/index_private.h"

enum { NOTE_KEY_HEAD = 12, NOTE_VALUE_BYTES = 16 };

/* ---- texts ---- */

/* A string, or the strings of an array. */
static void add_text(struct buf *out, struct val v)
{
    size_t count = val_type(v) == VAL_ARRAY ? val_count(v) : 1;
    for (size_t i = 0; i < count; i++) {
        struct val item = val_type(v) == VAL_ARRAY ? val_at(v, i) : v;
        if (val_type(item) != VAL_STRING || !val_string(item).len || out->len >= VECTOR_TEXT_MAX)
            continue;
        if (out->len)
            buf_add_char(out, '\n');
        buf_add_slice(out, val_string(item));
    }
}

bool vector_source_text(const struct index_def *index, struct val doc, struct buf *out)
{
    size_t start = out->len;
    for (size_t i = 0; i < index->source_count; i++)
        add_text(out, val_path(doc, index->source[i].names, index->source[i].count));
    if (out->len - start > VECTOR_TEXT_MAX) { /* at a character */
        out->len = start + VECTOR_TEXT_MAX;
        while (out->len > start && ((unsigned char)out->ptr[out->len] & 0xc0) == 0x80)
            out->len--;
    }
    return out->len > start;
}

uint64_t vector_source_hash(struct slice text)
{
    return hash_xxh3(text.ptr, text.len);
}

/* ---- keys ---- */

void vector_row_key(struct buf *out, const struct index_def *index, uint16_t slot, struct slice key)
{
    key_add_u64(out, index->object_id);
    key_add_u16(out, slot);
    buf_add_slice(out, key);
}

void vector_note_key(struct buf *out, const struct index_def *index, uint16_t slot,
                     struct slice key)
{
    key_add_u64(out, index->object_id);
    key_add_u16(out, VECTOR_SLOT_PENDING);
    key_add_u16(out, slot);
    buf_add_slice(out, key);
}

void vector_note_range(const struct index_def *index, struct buf *from, struct buf *to)
{
    key_add_u64(from, index->object_id);
    key_add_u16(from, VECTOR_SLOT_PENDING);
    key_add_u64(to, index->object_id + 1);
}

bool vector_note_read(struct slice key, struct slice value, struct vector_note *out)
{
    if (key.len <= NOTE_KEY_HEAD || value.len != NOTE_VALUE_BYTES)
        return false;
    *out = (struct vector_note){ .key = slice_of(key.ptr + NOTE_KEY_HEAD, key.len - NOTE_KEY_HEAD),
                                 .slot = key_read_u16(key.ptr + NOTE_KEY_HEAD - 2),
                                 .hash = key_read_u64(value.ptr),
                                 .wall_ms = key_read_u64(value.ptr + 8) };
    return true;
}

/* ---- changes ---- */

/* Where the vector of a document comes from. */
struct origin {
    enum { ORIGIN_NONE, ORIGIN_OWN, ORIGIN_TEXT } kind;
    struct slice floats;
    uint64_t hash;
};

static enum errc find_origin(struct origin *out, const struct index_def *index,
                             const struct row *row, struct arena *arena, struct error *err)
{
    *out = (struct origin){ .kind = ORIGIN_NONE };
    if (!row)
        return OK;
    struct val v = val_path(row->doc, index->fields[0].names, index->fields[0].count);
    if (!val_is_null(v)) {
        out->kind = ORIGIN_OWN;
        return vector_row(index, v, arena, &out->floats, err);
    }
    struct buf text;
    buf_init(&text, 0);
    if (vector_source_text(index, row->doc, &text)) {
        out->kind = ORIGIN_TEXT;
        out->hash = vector_source_hash(buf_slice(&text));
    }
    buf_release(&text);
    return OK;
}

static enum errc put_note(struct txn *t, struct slice key, uint64_t hash, struct error *err)
{
    struct buf value;
    buf_init(&value, 0);
    key_add_u64(&value, hash);
    key_add_u64(&value, env_wall_us(t->store->env) / 1000);
    enum errc rc = txn_put(t, KV_INDEX, key, buf_slice(&value), err);
    buf_release(&value);
    return rc;
}

static enum errc change_row(struct txn *t, struct slice key, const struct origin *old,
                            const struct origin *new, struct error *err)
{
    bool is_same_text =
        new->kind == ORIGIN_TEXT && old->kind == ORIGIN_TEXT && old->hash == new->hash;
    if (new->kind == ORIGIN_OWN) {
        bool is_same = old->kind == ORIGIN_OWN && slice_eq(old->floats, new->floats);
        return is_same ? OK : txn_put(t, KV_INDEX, key, new->floats, err);
    }
    return old->kind == ORIGIN_NONE || is_same_text ? OK : txn_delete(t, KV_INDEX, key, err);
}

static enum errc change_note(struct txn *t, struct slice key, const struct origin *old,
                             const struct origin *new, struct error *err)
{
    if (new->kind != ORIGIN_TEXT)
        return old->kind == ORIGIN_TEXT ? txn_delete(t, KV_INDEX, key, err) : OK;
    bool is_same = old->kind == ORIGIN_TEXT && old->hash == new->hash;
    return is_same ? OK : put_note(t, key, new->hash, err);
}

enum errc vector_source_change(struct txn *t, const struct index_def *index, const struct row *old,
                               const struct row *new, struct error *err)
{
    struct origin before, after;
    struct buf row, note;
    enum errc rc = OK;
    if (old && new && old->slot != new->slot) { /* an edge that begins elsewhere */
        rc = vector_source_change(t, index, old, NULL, err);
        return rc == OK ? vector_source_change(t, index, NULL, new, err) : rc;
    }
    const struct row *any = new ? new : old;
    assert(any);
    /* What is stored was accepted once; an index that is being built may refuse it: no vector. */
    if (find_origin(&before, index, old, txn_scratch(t), NULL) != OK)
        before.kind = ORIGIN_NONE;
    buf_init(&row, 0);
    buf_init(&note, 0);
    TRY(find_origin(&after, index, new, txn_scratch(t), err));
    vector_row_key(&row, index, any->slot, any->key);
    vector_note_key(&note, index, any->slot, any->key);
    TRY(change_row(t, buf_slice(&row), &before, &after, err));
    rc = change_note(t, buf_slice(&note), &before, &after, err);
out:
    buf_release(&row);
    buf_release(&note);
    return rc;
}
