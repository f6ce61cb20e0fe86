/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building an index without stopping writers.
 *
 * 1. The index enters the catalog as not ready and the collection's guard is
 *    broken: writers that began before are refused (1200), later ones keep the
 *    index. So from here on every change of a document reaches the index.
 * 2. Documents are added in chunks in the order of their rows. A chunk watches
 *    the rows that it read: if one of them is changed meanwhile, the chunk is
 *    refused and done again from a new view. Adding twice is harmless.
 * 3. The index is declared ready.
 *
 * A crash in between leaves an index that is not ready; opening builds it again.
 * A stop of the store takes a new index back.
 */
#include <inttypes.h>

#include "base/key.h"
#include "base/log.h"
#include "store/ddl.h"
#include "store/index_private.h"
#include "store/sealed.h"

enum { CHUNK_ROWS = 1000, CHUNK_BYTES = 8 * MIB };

/* ---- filling ---- */

struct chunk {
    struct txn *txn;
    const struct collection *collection;
    const struct index_def *index;
    struct buf *at; /* row to begin with; moves behind the last one */
    bool is_last;
};

static enum errc chunk_find(struct chunk *k, uint64_t collection_id, uint64_t index_id,
                            struct error *err)
{
    k->collection = catalog_collection_by_id(txn_catalog(k->txn), collection_id);
    if (!k->collection)
        return fail_num(err, 1203, "the collection was dropped while the index was built");
    k->index = collection_index(k->collection, index_id);
    if (!k->index)
        return fail_num(err, 1212, "the index was dropped while it was built");
    return OK;
}

static enum errc add_row(struct chunk *k, struct slice key, struct slice value, struct error *err)
{
    struct row row = { .key = slice_of(key.ptr + ROW_KEY_HEAD, key.len - ROW_KEY_HEAD),
                       .slot = key_read_u16(key.ptr + 8),
                       .doc = { (const uint8_t *)value.ptr } };
    txn_watch(k->txn, KV_DOC, key);
    enum errc rc = index_add(k->txn, k->collection, k->index, &row, err);
    txn_scratch_reset(k->txn);
    return rc;
}

static enum errc chunk_fill(struct chunk *k, struct error *err)
{
    enum errc rc = OK;
    struct txn_iter *it = NULL;
    struct buf from, to;
    size_t rows = 0, bytes = 0;
    buf_init(&from, 0);
    buf_init(&to, 0);
    key_add_u64(&from, k->collection->object_id);
    key_add_u64(&to, k->collection->object_id + 1);
    if (k->at->len && memcmp(k->at->ptr, from.ptr, 8) == 0) { /* else it was truncated */
        buf_clear(&from);
        buf_add_slice(&from, buf_slice(k->at));
    }
    TRY(txn_iter_new(&it, k->txn, KV_DOC,
                     &(struct kv_scan){ .from = buf_slice(&from), .to = buf_slice(&to) }, err));
    for (; txn_iter_valid(it) && rows < CHUNK_ROWS && bytes < CHUNK_BYTES; txn_iter_next(it)) {
        struct slice key = txn_iter_key(it), value = txn_iter_value(it);
        rows++;
        bytes += value.len;
        TRY(add_row(k, key, value, err));
        buf_clear(&from);
        buf_add_slice(&from, key);
        buf_add_char(&from, 0);
    }
    TRY(txn_iter_check(it, err));
    k->is_last = !txn_iter_valid(it);
    txn_iter_free(it);
    it = NULL;
    TRY(txn_open_write(k->txn, k->collection, err));
    TRY(txn_commit(k->txn, err));
    buf_clear(k->at);
    buf_add_slice(k->at, buf_slice(&from));
out:
    txn_iter_free(it);
    buf_release(&from);
    buf_release(&to);
    return rc;
}

static enum errc check_stop(const struct store *s, struct error *err)
{
    if (!s->should_stop || !s->should_stop(s->stop_ctx))
        return OK;
    return fail(err, ERR_GONE, "the index build was stopped with the store");
}

enum errc index_build(struct store *s, uint64_t collection_id, uint64_t index_id, struct error *err)
{
    enum errc rc = OK;
    struct buf at;
    struct chunk k = { .at = &at };
    struct txn_options opt = { .isolation = ISOLATION_SNAPSHOT, .no_sync = true };
    buf_init(&at, 0);
    while (!k.is_last) {
        TRY(check_stop(s, err));
        TRY(txn_begin(&k.txn, s, &opt, err));
        rc = chunk_find(&k, collection_id, index_id, err);
        if (rc == OK)
            rc = chunk_fill(&k, err);
        txn_end(k.txn);
        if (rc == ERR_CONFLICT) { /* somebody changed a row of it: once more */
            k.is_last = false;
            rc = OK;
        }
        if (rc != OK)
            break;
    }
out:
    buf_release(&at);
    return rc;
}

/* ---- changes of the catalog ---- */

static enum errc find_both(struct change *ch, uint64_t collection_id, uint64_t index_id,
                           struct collection **c, struct index_def **index, struct error *err)
{
    *c = clone_collection(ch->clone, collection_id, NULL);
    *index = *c ? clone_index(*c, index_id) : NULL;
    if (*index)
        return OK;
    if (*c)
        fail_num(err, 1212, "index '%.*s/%" PRIu64 "' not found", SLICE_ARG((*c)->name), index_id);
    else
        fail_num(err, 1203, "collection with id %" PRIu64 " not found", collection_id);
    return ERR_NOT_FOUND;
}

static enum errc set_ready(struct store *s, uint64_t collection_id, uint64_t index_id,
                           bool is_ready, struct error *err)
{
    enum errc rc = OK;
    struct change ch;
    struct collection *c = NULL;
    struct index_def *index = NULL;
    TRY(change_begin(&ch, s, err));
    TRY(find_both(&ch, collection_id, index_id, &c, &index, err));
    index->is_ready = is_ready;
    rc = change_commit(&ch, err);
out:
    change_end(&ch);
    return rc;
}

static enum errc drop(struct store *s, uint64_t collection_id, uint64_t index_id, struct error *err)
{
    enum errc rc = OK;
    struct change ch;
    struct collection *c = NULL;
    struct index_def *index = NULL;
    TRY(change_begin(&ch, s, err));
    TRY(find_both(&ch, collection_id, index_id, &c, &index, err));
    if (index->kind == INDEX_PRIMARY || index->kind == INDEX_EDGE) {
        rc = fail(err, ERR_FORBIDDEN, "the %s index cannot be dropped", index->type);
        goto out;
    }
    change_kill(&ch, index->object_id);
    ch.txn->is_removal = true;
    TRY(txn_break_guard(ch.txn, collection_id, err));
    clone_remove_index(c, index);
    rc = change_commit(&ch, err);
out:
    change_end(&ch);
    return rc;
}

enum errc store_drop_index(struct store *s, uint64_t collection_id, uint64_t index_id,
                           struct error *err)
{
    return drop(s, collection_id, index_id, err);
}

static struct slice collator_name(const struct store *s, const struct index_def *index)
{
    return slice_str(index_order_version(index, s->collator));
}

/* An equal index, or a clash of names. */
static enum errc find_equal(const struct collection *c, const struct index_def *wanted,
                            const struct index_def **out, struct error *err)
{
    const struct index_def *same_name = NULL;
    *out = NULL;
    for (size_t i = 0; i < c->index_count; i++) {
        const struct index_def *x = &c->indexes[i];
        if (index_def_equal(x, wanted))
            *out = x;
        else if (wanted->name.len && slice_eq(x->name, wanted->name))
            same_name = x;
    }
    if (same_name && !*out)
        return fail_num(err, 1207, "duplicate index name '%.*s'", SLICE_ARG(wanted->name));
    return OK;
}

/* An _id follows the name of its collection, entries of an index would not. */
static enum errc check_paths(const struct field_path *paths, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (slice_is(paths[i].names[0], "_id"))
            return fail(err, ERR_INVALID, "the attribute _id cannot be indexed: index _key");
    return OK;
}

static enum errc add_index(struct store *s, uint64_t collection_id, struct val def, uint64_t *id,
                           bool *is_new, struct error *err)
{
    enum errc rc = OK;
    struct change ch;
    struct index_def index;
    const struct index_def *equal;
    struct collection *c;
    TRY(change_begin(&ch, s, err));
    c = clone_collection(ch.clone, collection_id, NULL);
    if (!c) {
        rc = fail_num(err, 1203, "collection with id %" PRIu64 " not found", collection_id);
        goto out;
    }
    TRY(index_def_parse(&index, def, ch.arena, err));
    if (index.kind == INDEX_PRIMARY || index.kind == INDEX_EDGE) {
        rc = fail(err, ERR_INVALID, "an index of type '%s' cannot be created", index.type);
        goto out;
    }
    TRY(check_paths(index.fields, index.field_count, err));
    TRY(check_paths(index.stored, index.stored_count, err));
    TRY(find_equal(c, &index, &equal, err));
    *is_new = !equal;
    *id = equal ? equal->id : ids_new(&s->ids);
    if (equal)
        goto out;
    index.id = *id;
    index.object_id = ids_new(&s->ids);
    index.collator_version = collator_name(s, &index);
    TRY(sealed_check_index(c, &index, err));
    TRY(index_def_finish(&index, ch.arena, err));
    clone_add_index(c, ch.arena, &index);
    TRY(txn_break_guard(ch.txn, collection_id, err));
    rc = change_commit(&ch, err);
out:
    change_end(&ch);
    return rc;
}

/* Takes back an index that could not be built; err keeps why. */
static void give_up(struct store *s, uint64_t collection_id, uint64_t index_id)
{
    struct error err;
    if (drop(s, collection_id, index_id, &err) != OK)
        log_warn("store", "an index that could not be built stays unready: %s", err.text);
}

enum errc store_create_index(struct store *s, uint64_t collection_id, struct val def, uint64_t *id,
                             bool *is_new, struct error *err)
{
    pthread_mutex_lock(&s->build);
    enum errc rc = add_index(s, collection_id, def, id, is_new, err);
    if (rc == OK && *is_new) {
        rc = index_build(s, collection_id, *id, err);
        if (rc == OK)
            rc = set_ready(s, collection_id, *id, true, err);
        if (rc != OK)
            give_up(s, collection_id, *id);
    }
    pthread_mutex_unlock(&s->build);
    return rc;
}

/* ---- repair at open ---- */

static bool is_stale(const struct store *s, const struct index_def *index)
{
    return !index->is_ready || !slice_eq(index->collator_version, collator_name(s, index));
}

/* Ready to be used, but sorted by another collator. */
static bool is_misleading(const struct store *s, const struct index_def *index)
{
    return index->is_ready && is_stale(s, index);
}

typedef bool index_test(const struct store *s, const struct index_def *index);

static bool find_in(const struct store *s, const struct catalog *catalog, index_test *is_wanted,
                    uint64_t *collection, uint64_t *index)
{
    for (size_t i = 0; i < catalog->database_count; i++) {
        const struct database *db = &catalog->databases[i];
        for (size_t j = 0; j < db->collection_count; j++) {
            const struct collection *c = &db->collections[j];
            for (size_t k = 0; k < c->index_count; k++) {
                if (!is_wanted(s, &c->indexes[k]))
                    continue;
                *collection = c->id;
                *index = c->indexes[k].id;
                return true;
            }
        }
    }
    return false;
}

static bool find_index(struct store *s, index_test *is_wanted, uint64_t *collection,
                       uint64_t *index)
{
    struct view *v = committer_view(s->committer);
    bool is_found = find_in(s, v->catalog, is_wanted, collection, index);
    committer_release(s->committer, v);
    return is_found;
}

/* Empties the index: new rows under a new object id. */
static enum errc reset(struct store *s, uint64_t collection_id, uint64_t index_id,
                       struct error *err)
{
    enum errc rc = OK;
    struct change ch;
    struct collection *c = NULL;
    struct index_def *index = NULL;
    TRY(change_begin(&ch, s, err));
    TRY(find_both(&ch, collection_id, index_id, &c, &index, err));
    log_info("store", "building index %.*s of %.*s again", SLICE_ARG(index->name),
             SLICE_ARG(c->name));
    change_kill(&ch, index->object_id);
    index->object_id = ids_new(&s->ids);
    index->collator_version = collator_name(s, index);
    index->is_ready = false;
    rc = change_commit(&ch, err);
out:
    change_end(&ch);
    return rc;
}

/* Takes stale indexes out of use; rows that prepared transactions promised still fit them. */
static enum errc hide_misleading(struct store *s, struct error *err)
{
    uint64_t collection_id, index_id;
    enum errc rc = OK;
    while (rc == OK && find_index(s, is_misleading, &collection_id, &index_id))
        rc = set_ready(s, collection_id, index_id, false, err);
    return rc;
}

enum errc store_repair_indexes(struct store *s, struct error *err)
{
    uint64_t collection_id, index_id;
    enum errc rc = OK;
    while (find_index(s, is_stale, &collection_id, &index_id)) {
        if (txn_prepared(s, NULL, 0)) {
            log_warn("store", "indexes wait for prepared transactions; they are built again at the "
                              "first start without one");
            return hide_misleading(s, err);
        }
        TRY(reset(s, collection_id, index_id, err));
        rc = index_build(s, collection_id, index_id, err);
        if (rc == OK)
            rc = set_ready(s, collection_id, index_id, true, err);
        if (rc == ERR_EXISTS || rc == ERR_INVALID || rc == ERR_TOO_LARGE) {
            log_warn("store", "dropping an index that cannot be built: %s", err->text);
            rc = drop(s, collection_id, index_id, err);
        }
        if (rc != OK)
            break;
    }
out:
    return rc;
}
