/* SPDX-License-Identifier: Apache-2.0 */
#include "store/doc.h"

#include "base/key.h"
#include "store/doc_private.h"
#include "store/index_private.h"
#include "store/rules.h"
#include "store/sealed.h"

static const struct doc_options no_options;

static struct slice text_of(struct val doc, const char *name)
{
    return val_string(val_get(doc, slice_str(name)));
}

static enum errc fail_missing(struct error *err, const struct collection *c, struct slice key)
{
    return fail_num(err, 1202, "document not found: '%.*s/%.*s'", SLICE_ARG(c->name),
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
    *out = (struct row){ .key = key, .doc = VAL_NONE };
    enum errc rc = find_slot(t, c, key, &out->slot, err);
    if (rc != OK)
        return rc;
    struct buf at;
    buf_init(&at, 0);
    row_key(&at, c, out->slot, key);
    rc = txn_get(t, KV_DOC, buf_slice(&at), arena, &value, err);
    buf_release(&at);
    if (rc == OK)
        out->doc = doc_present(c, (struct val){ (const uint8_t *)value.ptr }, arena);
    return rc;
}

enum errc row_open(struct txn *t, const struct collection *c, struct row *row, struct arena *arena,
                   struct error *err)
{
    if (row->clear.at)
        return OK;
    return sealed_open(t->store, c, row->key, row->doc, arena, &row->clear, err);
}

/* What is stored of a new document. */
static enum errc row_close(struct txn *t, const struct collection *c, struct row *row,
                           struct arena *arena, struct error *err)
{
    enum errc rc = sealed_close(t->store, c, row->key, row->clear, arena, &row->doc, err);
    return rc == OK && row->doc.at != row->clear.at ? doc_check_limits(row->doc, err) : rc;
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

static enum errc read_row(struct txn *t, const struct collection *c, struct slice key,
                          struct arena *arena, struct row *out, struct error *err)
{
    enum errc rc = txn_open_read(t, c, err);
    if (rc == OK)
        rc = row_find(t, c, key, arena, out, err);
    txn_scratch_reset(t);
    return rc == ERR_NOT_FOUND ? fail_missing(err, c, key) : rc;
}

enum errc doc_get_stored(struct txn *t, const struct collection *c, struct slice key,
                         struct arena *arena, struct val *out, struct error *err)
{
    struct row row = { .slot = 0 };
    enum errc rc = read_row(t, c, key, arena, &row, err);
    if (rc == OK)
        *out = row.doc;
    return rc;
}

enum errc doc_get(struct txn *t, const struct collection *c, struct slice key, struct arena *arena,
                  struct val *out, struct error *err)
{
    struct row row = { .slot = 0 };
    enum errc rc = read_row(t, c, key, arena, &row, err);
    if (rc == OK)
        rc = row_open(t, c, &row, arena, err);
    if (rc == OK)
        *out = row.clear;
    return rc;
}

enum errc doc_count(struct txn *t, const struct collection *c, uint64_t *out, struct error *err)
{
    int64_t count;
    enum errc rc = txn_open_read(t, c, err);
    if (rc == OK)
        rc = txn_count(t, c->object_id, &count, err);
    if (rc == OK)
        *out = count > 0 ? (uint64_t)count : 0;
    return rc;
}

enum errc doc_schema(struct txn *t, const struct collection *c, struct val *out, struct error *err)
{
    *out = c->schema;
    return txn_open_read(t, c, err);
}

/* ---- writing ---- */

static void change_fill(struct doc_change *out, const struct row *old, const struct row *new)
{
    struct val now = new ? new->doc : old->doc;
    *out = (struct doc_change){ .key = text_of(now, "_key"),
                                .id = text_of(now, "_id"),
                                .rev = text_of(now, "_rev"),
                                .old_doc = old && old->clear.at ? old->clear : val_null,
                                .new_doc = new ? new->clear : val_null };
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

/* One write on its way. */
struct write {
    struct txn *txn;
    const struct collection *collection;
    const struct doc_options *opt;
    struct arena *arena;
    struct doc_change *out;
    size_t mark; /* what a failing statement goes back to */
    size_t sees; /* what reads of the transaction saw before */
};

static struct write write_begin(struct txn *t, const struct collection *c,
                                const struct doc_options *opt, struct arena *arena,
                                struct doc_change *out)
{
    t->must_sync |= c->wait_for_sync;
    return (struct write){ t,   c,           opt ? opt : &no_options,       arena,
                           out, txn_mark(t), txn_see_until(t, TXN_SEES_ALL) };
}

/* A statement that fails leaves nothing behind. */
static enum errc write_end(const struct write *w, enum errc rc)
{
    if (rc != OK)
        txn_rewind(w->txn, w->mark);
    txn_see_until(w->txn, w->sees);
    txn_scratch_reset(w->txn);
    return rc;
}

static enum errc check_object(struct val doc, struct error *err)
{
    if (val_type(doc) == VAL_OBJECT)
        return OK;
    return fail_num(err, 1227, "invalid document type: a document must be an object, not %s",
                    val_type_name(val_type(doc)));
}

static bool is_version(struct val v)
{
    return val_type(v) == VAL_NUMBER && val_double(v) >= 0;
}

/* Somebody outside numbers the states of a document: an older one comes too late. */
static bool is_outdated(const struct write *w, struct val old, struct val doc)
{
    if (!w->opt->version_attribute.len)
        return false;
    struct val have = val_get(old, w->opt->version_attribute);
    struct val given = val_get(doc, w->opt->version_attribute);
    return is_version(have) && is_version(given) && val_int(given) <= val_int(have);
}

/* Opens the row that was found where somebody needs it; what is not encrypted is open anyway. */
static enum errc open_old(const struct write *w, struct row *old, bool is_needed, struct error *err)
{
    if (!is_needed && w->opt->leaves_old && !w->opt->version_attribute.len &&
        w->collection->sealed_count)
        return OK;
    return row_open(w->txn, w->collection, old, w->arena, err);
}

/* Replaces (is_patch false) or updates the row that was found. */
static enum errc write_over(const struct write *w, struct row *old, struct val doc, bool is_patch,
                            struct error *err)
{
    enum errc rc = OK;
    struct row new = { .slot = 0 };
    struct doc_make m = { .collection = w->collection,
                          .key = text_of(old->doc, "_key"),
                          .doc = doc,
                          .opt = w->opt,
                          .arena = w->arena };
    TRY(check_rev(old, doc, w->opt, err));
    TRY(open_old(w, old, is_patch || w->collection->rules, err));
    m.old = is_patch ? old->clear : VAL_NONE;
    if (is_outdated(w, old->clear, doc)) {
        change_fill(w->out, old, old);
        w->out->is_ignored = true;
        return OK;
    }
    TRY(doc_make(w->txn, &m, &new, err));
    TRY(rules_apply(w->txn, w->collection, is_patch ? RULES_UPDATE : RULES_REPLACE, old->clear,
                    w->arena, &new.clear, err));
    TRY(row_close(w->txn, w->collection, &new, w->arena, err));
    TRY(row_change(w->txn, w->collection, old, &new, err));
    change_fill(w->out, old, &new);
out:
    return rc;
}

static enum errc insert_over(const struct write *w, struct row *old, struct val doc,
                             struct error *err)
{
    enum errc rc;
    switch (w->opt->overwrite) {
    case OVERWRITE_CONFLICT:
        break;
    case OVERWRITE_IGNORE:
        rc = open_old(w, old, true, err);
        if (rc != OK)
            return rc;
        change_fill(w->out, old, old);
        w->out->is_ignored = true;
        return OK;
    case OVERWRITE_REPLACE:
        return write_over(w, old, doc, false, err);
    case OVERWRITE_UPDATE:
        return write_over(w, old, doc, true, err);
    }
    return fail_num(err, 1210,
                    "unique constraint violated - in index primary of type primary over '_key'; "
                    "conflicting key: %.*s",
                    SLICE_ARG(old->key));
}

static enum errc insert(const struct write *w, struct val doc, struct error *err)
{
    enum errc rc = OK;
    struct row old = { .slot = 0 }, new = old;
    struct doc_make m = {
        .collection = w->collection, .doc = doc, .opt = w->opt, .arena = w->arena
    };
    struct val given;
    TRY(txn_open_write(w->txn, w->collection, err));
    TRY(check_object(doc, err));
    bool is_given = val_find(doc, slice_str("_key"), &given);
    do { /* a key of ours never meets one that a user chose */
        TRY(key_choose(w->txn, w->collection, doc, w->arena, &m.key, err));
        rc = row_find(w->txn, w->collection, m.key, w->arena, &old, err);
    } while (rc == OK && !is_given);
    if (rc == OK)
        return insert_over(w, &old, doc, err);
    if (rc != ERR_NOT_FOUND)
        return rc;
    TRY(doc_make(w->txn, &m, &new, err));
    TRY(rules_apply(w->txn, w->collection, RULES_INSERT, VAL_NONE, w->arena, &new.clear, err));
    TRY(row_close(w->txn, w->collection, &new, w->arena, err));
    TRY(row_change(w->txn, w->collection, NULL, &new, err));
    change_fill(w->out, NULL, &new);
out:
    return rc;
}

enum errc doc_insert(struct txn *t, const struct collection *c, struct val doc,
                     const struct doc_options *opt, struct arena *arena, struct doc_change *out,
                     struct error *err)
{
    struct write w = write_begin(t, c, opt, arena, out);
    return write_end(&w, insert(&w, doc, err));
}

static enum errc find_existing(const struct write *w, struct slice key, struct row *old,
                               struct error *err)
{
    enum errc rc = txn_open_write(w->txn, w->collection, err);
    if (rc != OK)
        return rc;
    rc = row_find(w->txn, w->collection, key, w->arena, old, err);
    return rc == ERR_NOT_FOUND ? fail_missing(err, w->collection, key) : rc;
}

static enum errc change_existing(const struct write *w, struct slice key, struct val doc,
                                 bool is_patch, struct error *err)
{
    enum errc rc = OK;
    struct row old = { .slot = 0 };
    TRY(check_object(doc, err));
    TRY(find_existing(w, key, &old, err));
    rc = write_over(w, &old, doc, is_patch, err);
out:
    return rc;
}

enum errc doc_update(struct txn *t, const struct collection *c, struct slice key, struct val patch,
                     const struct doc_options *opt, struct arena *arena, struct doc_change *out,
                     struct error *err)
{
    struct write w = write_begin(t, c, opt, arena, out);
    return write_end(&w, change_existing(&w, key, patch, true, err));
}

enum errc doc_replace(struct txn *t, const struct collection *c, struct slice key, struct val doc,
                      const struct doc_options *opt, struct arena *arena, struct doc_change *out,
                      struct error *err)
{
    struct write w = write_begin(t, c, opt, arena, out);
    return write_end(&w, change_existing(&w, key, doc, false, err));
}

static enum errc remove_existing(const struct write *w, struct slice key, struct error *err)
{
    enum errc rc = OK;
    struct row old = { .slot = 0 };
    TRY(find_existing(w, key, &old, err));
    TRY(check_rev(&old, VAL_NONE, w->opt, err));
    TRY(open_old(w, &old, false, err));
    TRY(row_change(w->txn, w->collection, &old, NULL, err));
    change_fill(w->out, &old, NULL);
out:
    return rc;
}

enum errc doc_remove(struct txn *t, const struct collection *c, struct slice key,
                     const struct doc_options *opt, struct arena *arena, struct doc_change *out,
                     struct error *err)
{
    struct write w = write_begin(t, c, opt, arena, out);
    return write_end(&w, remove_existing(&w, key, err));
}

static uint64_t object_bytes(struct txn *t, enum kv_family f, uint64_t object_id)
{
    struct buf from, to;
    buf_init(&from, 0);
    buf_init(&to, 0);
    key_add_u64(&from, object_id);
    key_add_u64(&to, object_id + 1);
    uint64_t bytes = kv_range_bytes(t->store->kv, f, buf_slice(&from), buf_slice(&to));
    buf_release(&from);
    buf_release(&to);
    return bytes;
}

void doc_bytes(struct txn *t, const struct collection *c, struct collection_bytes *out)
{
    *out = (struct collection_bytes){ .documents = object_bytes(t, KV_DOC, c->object_id) };
    for (size_t i = 0; i < c->index_count; i++)
        out->indexes += object_bytes(t, KV_INDEX, c->indexes[i].object_id);
}

/* ---- all documents ---- */

struct doc_iter {
    struct txn_iter *it; /* owned */
    const struct collection *collection;
    struct store *store;
    struct arena *arena; /* owned; of one document, where it is not given as it is stored */
    enum errc rc;        /* of opening one: the end */
    struct error err;
    bool is_started, leaves_sealed;
};

enum errc doc_iter_new(struct doc_iter **out, struct txn *t, const struct collection *c,
                       struct error *err)
{
    struct buf from, to;
    struct txn_iter *it = NULL;
    enum errc rc = txn_open_read(t, c, err);
    *out = NULL;
    if (rc != OK)
        return rc;
    buf_init(&from, 0);
    buf_init(&to, 0);
    key_add_u64(&from, c->object_id);
    key_add_u64(&to, c->object_id + 1);
    struct kv_scan scan = { .from = buf_slice(&from), .to = buf_slice(&to) };
    if (t->store->path)
        scan.is_large =
            kv_range_bytes(t->store->kv, KV_DOC, scan.from, scan.to) > t->store->cache_bytes / 2;
    rc = txn_iter_new(&it, t, KV_DOC, &scan, err);
    if (rc == OK) {
        *out = mem_zalloc(sizeof **out);
        (*out)->it = it;
        (*out)->collection = c;
        (*out)->store = t->store;
        (*out)->arena = c->is_renamed || c->sealed_count ? arena_new(0) : NULL;
    }
    buf_release(&from);
    buf_release(&to);
    return rc;
}

void doc_iter_leave_sealed(struct doc_iter *it)
{
    it->leaves_sealed = true;
}

/* What is stored, as the collection presents it. */
static bool present(struct doc_iter *it, struct val *doc)
{
    struct slice key = txn_iter_key(it->it);
    arena_rewind(it->arena, (struct arena_mark){ 0 });
    *doc = doc_present(it->collection, *doc, it->arena);
    if (!it->leaves_sealed)
        it->rc = sealed_open(it->store, it->collection,
                             slice_of(key.ptr + ROW_KEY_HEAD, key.len - ROW_KEY_HEAD), *doc,
                             it->arena, doc, &it->err);
    return it->rc == OK;
}

bool doc_iter_next(struct doc_iter *it, struct val *out)
{
    if (it->rc != OK)
        return false;
    if (it->is_started)
        txn_iter_next(it->it);
    it->is_started = true;
    if (!txn_iter_valid(it->it))
        return false;
    out->at = (const uint8_t *)txn_iter_value(it->it).ptr;
    return !it->arena || present(it, out);
}

enum errc doc_iter_check(const struct doc_iter *it, struct error *err)
{
    if (it->rc == OK)
        return txn_iter_check(it->it, err);
    if (err)
        *err = it->err;
    return it->rc;
}

void doc_iter_free(struct doc_iter *it)
{
    if (!it)
        return;
    txn_iter_free(it->it);
    arena_free(it->arena);
    mem_free(it);
}

/* Keys first: the iterator does not see what is written below it. */
static enum errc collect_keys(struct txn *t, const struct collection *c, struct buf *keys,
                              struct error *err)
{
    struct doc_iter *it;
    struct val doc;
    enum errc rc = doc_iter_new(&it, t, c, err);
    if (rc != OK)
        return rc;
    doc_iter_leave_sealed(it);
    while (doc_iter_next(it, &doc)) {
        struct slice key = text_of(doc, "_key");
        buf_add_char(keys, (char)key.len); /* a key has at most 254 bytes */
        buf_add_slice(keys, key);
    }
    rc = doc_iter_check(it, err);
    doc_iter_free(it);
    return rc == OK ? buf_check(keys, "the list of documents to be removed", err) : rc;
}

enum errc doc_remove_all(struct txn *t, const struct collection *c, struct error *err)
{
    struct buf keys;
    struct doc_change change;
    struct arena *arena = arena_new(0);
    struct arena_mark start = arena_mark(arena);
    size_t mark = txn_mark(t);
    const struct doc_options blind = { .leaves_old = true };
    buf_init(&keys, t->options.max_bytes);
    enum errc rc = collect_keys(t, c, &keys, err);
    for (size_t at = 0; rc == OK && at < keys.len;) {
        size_t len = (uint8_t)keys.ptr[at];
        rc = doc_remove(t, c, slice_of(keys.ptr + at + 1, len), &blind, arena, &change, err);
        at += 1 + len;
        arena_rewind(arena, start);
    }
    if (rc != OK)
        txn_rewind(t, mark);
    buf_release(&keys);
    arena_free(arena);
    return rc;
}
