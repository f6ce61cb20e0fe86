/* SPDX-License-Identifier: Apache-2.0 */
#include "store/doc.h"

#include "base/key.h"
#include "store/doc_private.h"
#include "store/index_private.h"

static const struct doc_options no_options;

static struct slice text_of(struct val doc, const char *name)
{
    return val_string(val_get(doc, slice_str(name)));
}

static enum errc fail_missing(struct error *err, const struct collection *c, struct slice key)
{
    return fail_num(err, 1202, "document '%.*s/%.*s' not found", SLICE_ARG(c->name),
                    SLICE_ARG(key));
}

/* ---- rows ---- */

/* Edges live at the slot of their _from; the primary index of the collection says where. */
static void primary_key(struct buf *out, const struct collection *c, struct slice key)
{
    key_add_u64(out, c->indexes[0].object_id);
    buf_add_slice(out, key);
}

static enum errc find_slot(struct txn *t, const struct collection *c, struct slice key,
                           uint16_t *out, struct error *err)
{
    if (c->type != COLLECTION_EDGE) {
        *out = doc_slot(c, key, slice_str(""));
        return OK;
    }
    struct buf at;
    struct slice value = { NULL, 0 };
    buf_init(&at, 0);
    primary_key(&at, c, key);
    enum errc rc = txn_get(t, KV_INDEX, buf_slice(&at), txn_scratch(t), &value, err);
    if (rc == OK && value.len != 2)
        rc = fail(err, ERR_CORRUPT, "the primary entry of '%.*s/%.*s' is damaged",
                  SLICE_ARG(c->name), SLICE_ARG(key));
    else if (rc == OK)
        *out = key_read_u16(value.ptr);
    buf_release(&at);
    return rc;
}

enum errc row_find(struct txn *t, const struct collection *c, struct slice key, struct arena *arena,
                   struct row *out, struct error *err)
{
    struct slice value = { NULL, 0 };
    enum errc rc = find_slot(t, c, key, &out->slot, err);
    if (rc != OK)
        return rc;
    struct buf at;
    buf_init(&at, 0);
    row_key(&at, c, out->slot, key);
    rc = txn_get(t, KV_DOC, buf_slice(&at), arena, &value, err);
    buf_release(&at);
    if (rc == OK) {
        out->key = key;
        out->doc.at = (const uint8_t *)value.ptr;
    }
    return rc;
}

static enum errc put_primary(struct txn *t, const struct collection *c, const struct row *old,
                             const struct row *new, struct error *err)
{
    struct buf key, value;
    enum errc rc;
    if (c->type != COLLECTION_EDGE || (old && new && old->slot == new->slot))
        return OK;
    buf_init(&key, 0);
    buf_init(&value, 0);
    primary_key(&key, c, new ? new->key : old->key);
    if (new) {
        key_add_u16(&value, new->slot);
        rc = txn_put(t, KV_INDEX, buf_slice(&key), buf_slice(&value), err);
    } else {
        rc = txn_delete(t, KV_INDEX, buf_slice(&key), err);
    }
    buf_release(&key);
    buf_release(&value);
    return rc;
}

enum errc row_change(struct txn *t, const struct collection *c, const struct row *old,
                     const struct row *new, struct error *err)
{
    enum errc rc = OK;
    struct buf key;
    buf_init(&key, 0);
    if (!old != !new)
        txn_add_count(t, c->object_id, new ? 1 : -1);
    if (old && (!new || new->slot != old->slot)) {
        row_key(&key, c, old->slot, old->key);
        TRY(txn_delete(t, KV_DOC, buf_slice(&key), err));
    }
    if (new) {
        buf_clear(&key);
        row_key(&key, c, new->slot, new->key);
        TRY(txn_put(t, KV_DOC, buf_slice(&key), val_bytes(new->doc), err));
    }
    TRY(put_primary(t, c, old, new, err));
    rc = index_change(t, c, old, new, err);
out:
    buf_release(&key);
    return rc;
}

/* ---- reading ---- */

enum errc doc_get(struct txn *t, const struct collection *c, struct slice key, struct arena *arena,
                  struct val *out, struct error *err)
{
    struct row row;
    txn_guard_read(t, c);
    enum errc rc = row_find(t, c, key, arena, &row, err);
    txn_scratch_reset(t);
    if (rc == ERR_NOT_FOUND)
        return fail_missing(err, c, key);
    if (rc == OK)
        *out = row.doc;
    return rc;
}

enum errc doc_count(struct txn *t, const struct collection *c, uint64_t *out, struct error *err)
{
    int64_t count;
    txn_guard_read(t, c);
    enum errc rc = txn_count(t, c->object_id, &count, err);
    if (rc == OK)
        *out = count > 0 ? (uint64_t)count : 0;
    return rc;
}

/* ---- writing ---- */

static void change_fill(struct doc_change *out, const struct row *old, const struct row *new)
{
    struct val now = new ? new->doc : old->doc;
    *out = (struct doc_change){ .key = text_of(now, "_key"),
                                .id = text_of(now, "_id"),
                                .rev = text_of(now, "_rev"),
                                .old_doc = old ? old->doc : val_null,
                                .new_doc = new ? new->doc : val_null };
    if (old)
        out->old_rev = text_of(old->doc, "_rev");
}

/* doc: where a _rev may stand; VAL_NONE for a remove. */
static enum errc check_rev(const struct row *old, struct val doc, const struct doc_options *opt,
                           struct error *err)
{
    struct slice have = text_of(old->doc, "_rev");
    struct val given = opt->check_rev && doc.at ? val_get(doc, slice_str("_rev")) : val_null;
    bool is_wrong = opt->if_rev.len && !slice_eq(opt->if_rev, have);
    if (!val_is_null(given))
        is_wrong |= !slice_eq(val_string(given), have);
    if (!is_wrong)
        return OK;
    return fail(err, ERR_PRECONDITION,
                "conflict, _rev values do not match: the document has '%.*s'", SLICE_ARG(have));
}

/* Replaces (is_patch false) or updates the row that was found. */
static enum errc write_over(struct txn *t, const struct collection *c, const struct row *old,
                            struct val doc, bool is_patch, const struct doc_options *opt,
                            struct arena *arena, struct doc_change *out, struct error *err)
{
    enum errc rc = OK;
    struct row new;
    struct doc_make m = { .collection = c,
                          .key = text_of(old->doc, "_key"),
                          .doc = doc,
                          .old = is_patch ? old->doc : VAL_NONE,
                          .opt = opt,
                          .arena = arena };
    TRY(check_rev(old, doc, opt, err));
    TRY(doc_make(t, &m, &new, err));
    TRY(row_change(t, c, old, &new, err));
    change_fill(out, old, &new);
out:
    return rc;
}

static enum errc insert_over(struct txn *t, const struct collection *c, const struct row *old,
                             struct val doc, const struct doc_options *opt, struct arena *arena,
                             struct doc_change *out, struct error *err)
{
    switch (opt->overwrite) {
    case OVERWRITE_CONFLICT:
        break;
    case OVERWRITE_IGNORE:
        change_fill(out, old, old);
        out->is_ignored = true;
        return OK;
    case OVERWRITE_REPLACE:
        return write_over(t, c, old, doc, false, opt, arena, out, err);
    case OVERWRITE_UPDATE:
        return write_over(t, c, old, doc, true, opt, arena, out, err);
    }
    return fail_num(err, 1210,
                    "unique constraint violated - in index primary of type primary over '_key'; "
                    "conflicting key: %.*s",
                    SLICE_ARG(old->key));
}

static enum errc insert(struct txn *t, const struct collection *c, struct val doc,
                        const struct doc_options *opt, struct arena *arena, struct doc_change *out,
                        struct error *err)
{
    enum errc rc = OK;
    struct row old, new;
    struct doc_make m = { .collection = c, .doc = doc, .opt = opt, .arena = arena };
    TRY(key_choose(t, c, doc, arena, &m.key, err));
    rc = row_find(t, c, m.key, arena, &old, err);
    if (rc == OK)
        return insert_over(t, c, &old, doc, opt, arena, out, err);
    if (rc != ERR_NOT_FOUND)
        return rc;
    TRY(doc_make(t, &m, &new, err));
    TRY(row_change(t, c, NULL, &new, err));
    change_fill(out, NULL, &new);
out:
    return rc;
}

/* What every write begins with. */
static enum errc begin_write(struct txn *t, const struct collection *c, const struct val *doc,
                             struct error *err)
{
    txn_guard(t, c);
    t->must_sync |= c->wait_for_sync;
    if (doc && val_type(*doc) != VAL_OBJECT)
        return fail_num(err, 1227, "invalid document type: a document must be an object, not %s",
                        val_type_name(val_type(*doc)));
    return OK;
}

/* A statement that fails leaves nothing behind. */
static enum errc end_write(struct txn *t, size_t mark, enum errc rc)
{
    if (rc != OK)
        txn_rewind(t, mark);
    txn_scratch_reset(t);
    return rc;
}

enum errc doc_insert(struct txn *t, const struct collection *c, struct val doc,
                     const struct doc_options *opt, struct arena *arena, struct doc_change *out,
                     struct error *err)
{
    size_t mark = txn_mark(t);
    enum errc rc = begin_write(t, c, &doc, err);
    if (rc == OK)
        rc = insert(t, c, doc, opt ? opt : &no_options, arena, out, err);
    return end_write(t, mark, rc);
}

static enum errc change_existing(struct txn *t, const struct collection *c, struct slice key,
                                 struct val doc, bool is_patch, const struct doc_options *opt,
                                 struct arena *arena, struct doc_change *out, struct error *err)
{
    struct row old;
    size_t mark = txn_mark(t);
    enum errc rc = begin_write(t, c, &doc, err);
    if (rc == OK)
        rc = row_find(t, c, key, arena, &old, err);
    if (rc == ERR_NOT_FOUND)
        rc = fail_missing(err, c, key);
    if (rc == OK)
        rc = write_over(t, c, &old, doc, is_patch, opt ? opt : &no_options, arena, out, err);
    return end_write(t, mark, rc);
}

enum errc doc_update(struct txn *t, const struct collection *c, struct slice key, struct val patch,
                     const struct doc_options *opt, struct arena *arena, struct doc_change *out,
                     struct error *err)
{
    return change_existing(t, c, key, patch, true, opt, arena, out, err);
}

enum errc doc_replace(struct txn *t, const struct collection *c, struct slice key, struct val doc,
                      const struct doc_options *opt, struct arena *arena, struct doc_change *out,
                      struct error *err)
{
    return change_existing(t, c, key, doc, false, opt, arena, out, err);
}

enum errc doc_remove(struct txn *t, const struct collection *c, struct slice key,
                     const struct doc_options *opt, struct arena *arena, struct doc_change *out,
                     struct error *err)
{
    struct row old;
    size_t mark = txn_mark(t);
    enum errc rc = begin_write(t, c, NULL, err);
    if (rc == OK)
        rc = row_find(t, c, key, arena, &old, err);
    if (rc == ERR_NOT_FOUND)
        rc = fail_missing(err, c, key);
    if (rc == OK)
        rc = check_rev(&old, VAL_NONE, opt ? opt : &no_options, err);
    if (rc == OK)
        rc = row_change(t, c, &old, NULL, err);
    if (rc == OK)
        change_fill(out, &old, NULL);
    return end_write(t, mark, rc);
}

/* ---- all documents ---- */

struct doc_iter {
    struct txn_iter *it; /* owned */
    bool is_started;
};

enum errc doc_iter_new(struct doc_iter **out, struct txn *t, const struct collection *c,
                       struct error *err)
{
    struct buf from, to;
    struct txn_iter *it = NULL;
    txn_guard_read(t, c);
    buf_init(&from, 0);
    buf_init(&to, 0);
    key_add_u64(&from, c->object_id);
    key_add_u64(&to, c->object_id + 1);
    struct kv_scan scan = { .from = buf_slice(&from), .to = buf_slice(&to) };
    if (t->store->path)
        scan.is_large =
            kv_range_bytes(t->store->kv, KV_DOC, scan.from, scan.to) > t->store->cache_bytes / 2;
    enum errc rc = txn_iter_new(&it, t, KV_DOC, &scan, err);
    *out = NULL;
    if (rc == OK) {
        *out = mem_zalloc(sizeof **out);
        (*out)->it = it;
    }
    buf_release(&from);
    buf_release(&to);
    return rc;
}

bool doc_iter_next(struct doc_iter *it, struct val *out)
{
    if (it->is_started)
        txn_iter_next(it->it);
    it->is_started = true;
    if (!txn_iter_valid(it->it))
        return false;
    out->at = (const uint8_t *)txn_iter_value(it->it).ptr;
    return true;
}

enum errc doc_iter_check(const struct doc_iter *it, struct error *err)
{
    return txn_iter_check(it->it, err);
}

void doc_iter_free(struct doc_iter *it)
{
    if (!it)
        return;
    txn_iter_free(it->it);
    mem_free(it);
}
