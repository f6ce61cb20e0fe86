/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers have no gaps, so a record that is not the next one tells that the next one is gone.
 *
 * A row names its object, and the catalog of its time says of which collection that is. Rows of
 * edges move when _from changes: a deleted row is then no removed edge, but the entry of the
 * collection's primary index is deleted with the edge and only then.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/key.h"
#include "store/change_private.h"
#include "store/doc_private.h"
#include "store/sealed.h"

struct change_reader {
    struct store *store;
    uint64_t position;
    struct kv_iter *it;               /* owned; NULL while it rests */
    struct catalog *catalog, *before; /* owned; of the position; of the commit before a change */
    struct arena *arena;              /* owned; of one commit */
    struct arena_mark start;
    struct slice batch; /* of the record under the iterator; empty while it rests */
    size_t at;
    bool is_inside;      /* there may be more changes of the commit */
    struct slice value;  /* of the row that was read last */
    struct change *list; /* changes of the catalog in the commit */
    size_t count, next;
    struct arena *row; /* owned; of one document */
    /* The object of the last row, and whose it is. */
    uint64_t object_id;
    const struct collection *collection;
    const struct index_def *index;
};

enum errc change_fail_gone(struct error *err, const char *why)
{
    return fail_num(err, 1415,
                    "%s: take a snapshot with GET /_api/changes/snapshot and go on with "
                    "after=SEQUENCE, which its first line names",
                    why);
}

static enum errc fail_late(const struct change_reader *r, struct error *err)
{
    char why[160];
    uint64_t first = 0;
    enum errc rc = change_log_first(r->store->kv, &first, err);
    if (rc != OK)
        return rc;
    snprintf(why, sizeof why,
             "the changes after %" PRIu64 " are not kept any more (the log begins at %" PRIu64 ")",
             r->position, first);
    return change_fail_gone(err, why);
}

static enum errc load_catalog(struct change_reader *r, struct error *err)
{
    struct slice bytes = { NULL, 0 };
    enum errc rc = change_log_catalog(r->store->kv, r->position, r->arena, &bytes, err);
    if (rc == ERR_NOT_FOUND)
        return fail_late(r, err);
    if (rc == OK)
        rc = catalog_decode(&r->catalog, bytes, err);
    arena_rewind(r->arena, r->start);
    return rc;
}

enum errc change_reader_open(struct change_reader **out, struct store *s, uint64_t after,
                             struct error *err)
{
    char why[160];
    uint64_t limit = change_limit(s);
    *out = NULL;
    if (!change_log_is_on(s->log))
        return fail(err, ERR_INVALID, "the change log is off (setting change_log)");
    if (after > limit) {
        snprintf(why, sizeof why, "commit %" PRIu64 " is not in this store, which ends at %" PRIu64,
                 after, limit);
        return change_fail_gone(err, why);
    }
    struct change_reader *r = mem_zalloc(sizeof *r);
    r->store = s;
    r->position = after;
    r->arena = arena_new(0);
    r->row = arena_new(0);
    r->start = arena_mark(r->arena);
    enum errc rc = load_catalog(r, err);
    if (rc == OK)
        *out = r;
    else
        change_reader_close(r);
    return rc;
}

void change_reader_rest(struct change_reader *r)
{
    kv_iter_free(r->it);
    r->it = NULL;
    r->batch = r->value = slice_of(NULL, 0);
}

void change_reader_close(struct change_reader *r)
{
    if (!r)
        return;
    change_reader_rest(r);
    catalog_unref(r->catalog);
    catalog_unref(r->before);
    arena_free(r->arena);
    arena_free(r->row);
    mem_free(r);
}

uint64_t change_reader_position(const struct change_reader *r)
{
    return r->position;
}

/* ---- the next record ---- */

static enum errc open_iter(struct change_reader *r, uint64_t seq, struct error *err)
{
    struct buf from;
    change_reader_rest(r);
    buf_init(&from, 0);
    key_add_u64(&from, seq);
    enum errc rc =
        kv_iter_new(&r->it, r->store->kv, NULL, KV_LOG,
                    &(struct kv_scan){ .from = buf_slice(&from), .is_large = true }, err);
    buf_release(&from);
    return rc;
}

/* An iterator shows what was there when it was made: at its end a new one looks once more. */
static enum errc step(struct change_reader *r, struct error *err)
{
    enum errc rc = OK;
    if (r->it)
        kv_iter_next(r->it);
    if (r->it && !kv_iter_valid(r->it))
        TRY(kv_iter_check(r->it, err));
    if (!r->it || !kv_iter_valid(r->it))
        TRY(open_iter(r, r->position + 1, err));
    if (!kv_iter_valid(r->it))
        TRY(kv_iter_check(r->it, err));
out:
    return rc;
}

/* The record of that number under the iterator. */
static bool is_at(const struct change_reader *r, uint64_t seq, struct change_record *out)
{
    return kv_iter_valid(r->it) &&
           change_record_decode(kv_iter_key(r->it), kv_iter_value(r->it), out) && out->seq == seq;
}

/* After a rest inside a commit: its record once more. */
static enum errc come_back(struct change_reader *r, struct error *err)
{
    struct change_record record;
    enum errc rc = open_iter(r, r->position, err);
    if (rc == OK && !kv_iter_valid(r->it))
        rc = kv_iter_check(r->it, err);
    if (rc != OK)
        return rc;
    if (!is_at(r, r->position, &record))
        return fail_late(r, err);
    r->batch = record.batch;
    return OK;
}

static bool find_new_catalog(struct slice batch, struct slice *out)
{
    struct kv_record record;
    for (size_t at = 0; kv_batch_next(batch, &at, &record);) {
        if (record.family == KV_META && record.op == KV_PUT && slice_is(record.key, "catalog")) {
            *out = record.value;
            return true;
        }
    }
    return false;
}

/* The catalog of the commit, and what it changed. */
static enum errc follow_catalog(struct change_reader *r, struct error *err)
{
    struct slice bytes;
    struct catalog *next = NULL;
    catalog_unref(r->before);
    r->before = NULL;
    if (!find_new_catalog(r->batch, &bytes))
        return OK;
    enum errc rc = catalog_decode(&next, bytes, err);
    if (rc != OK)
        return rc;
    r->before = r->catalog;
    r->catalog = next;
    r->count = change_diff(r->before, next, r->arena, &r->list);
    r->object_id = 0;
    return OK;
}

enum errc change_reader_next(struct change_reader *r, struct change_commit *out, bool *has,
                             struct error *err)
{
    enum errc rc = OK;
    struct change_record record = { 0 };
    char why[160];
    *has = false;
    if (r->position >= change_limit(r->store))
        return OK;
    TRY(step(r, err));
    if (!is_at(r, r->position + 1, &record))
        return fail_late(r, err);
    if (record.is_empty) {
        snprintf(why, sizeof why, "commit %" PRIu64 " was made while the change log was off",
                 record.seq);
        return change_fail_gone(err, why);
    }
    arena_rewind(r->arena, r->start);
    r->batch = record.batch;
    r->at = r->count = r->next = 0;
    r->position = record.seq;
    r->is_inside = true;
    TRY(follow_catalog(r, err));
    *out = (struct change_commit){ .seq = record.seq,
                                   .time_us = record.time_us,
                                   .bytes = record.batch.len };
    *has = true;
out:
    return rc;
}

/* ---- its changes ---- */

/* Whose rows begin with this object id; one that the commit itself dropped is not looked for. */
static const struct collection *owner_of(struct change_reader *r, struct slice key)
{
    if (key.len < 8)
        return NULL;
    uint64_t object_id = key_read_u64(key.ptr);
    if (object_id != r->object_id) {
        r->object_id = object_id;
        r->collection = catalog_by_object(r->catalog, object_id, &r->index);
    }
    return r->collection;
}

static bool read_row(struct change_reader *r, const struct kv_record *record, struct change *out)
{
    const struct collection *c = owner_of(r, record->key);
    if (!c || record->key.len < ROW_KEY_HEAD)
        return false;
    if (record->op == KV_DELETE && c->type == COLLECTION_EDGE)
        return false;
    *out = (struct change){ .kind = record->op == KV_PUT ? CHANGE_PUT : CHANGE_REMOVE,
                            .db = catalog_database_by_id(r->catalog, c->db_id),
                            .collection = c,
                            .key = slice_of(record->key.ptr + ROW_KEY_HEAD,
                                            record->key.len - ROW_KEY_HEAD) };
    r->value = record->value;
    return true;
}

enum errc change_reader_document(struct change_reader *r, struct change *change, struct error *err)
{
    const struct collection *c = change->collection;
    if (change->kind != CHANGE_PUT)
        return OK;
    arena_rewind(r->row, (struct arena_mark){ 0 });
    change->doc = doc_present(c, (struct val){ (const uint8_t *)r->value.ptr }, r->row);
    return sealed_open(r->store, c, change->key, change->doc, r->row, &change->doc, err);
}

static bool read_entry(struct change_reader *r, const struct kv_record *record, struct change *out)
{
    const struct collection *c = record->op == KV_DELETE ? owner_of(r, record->key) : NULL;
    if (!c || c->type != COLLECTION_EDGE || !r->index || r->index->kind != INDEX_PRIMARY)
        return false;
    *out = (struct change){ .kind = CHANGE_REMOVE,
                            .db = catalog_database_by_id(r->catalog, c->db_id),
                            .collection = c,
                            .key = slice_of(record->key.ptr + 8, record->key.len - 8) };
    return true;
}

enum errc change_reader_change(struct change_reader *r, struct change *out, bool *has,
                               struct error *err)
{
    struct kv_record record;
    *has = true;
    if (r->next < r->count) {
        *out = r->list[r->next++];
        return OK;
    }
    if (r->is_inside && !r->it) {
        enum errc rc = come_back(r, err);
        if (rc != OK)
            return rc;
    }
    while (r->is_inside && kv_batch_next(r->batch, &r->at, &record)) {
        bool is_one = record.op != KV_DELETE_RANGE &&
                      ((record.family == KV_DOC && read_row(r, &record, out)) ||
                       (record.family == KV_INDEX && read_entry(r, &record, out)));
        if (is_one)
            return OK;
    }
    *has = r->is_inside = false;
    return OK;
}
