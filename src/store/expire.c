/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The value of a TTL index is a number, seconds since 1970, or a date as text; both lie in
 * the index in order, so what is over comes first. A text is read again before its document
 * goes, because texts that are no dates lie between them.
 */
#include "store/expire.h"
#include "base/calendar.h"
#include "base/metrics.h"
#include "store/index.h"
#include "store/store_private.h"
#include "store/txn_private.h"

enum { PER_TXN = 500 };

static struct metric removed_total =
    METRIC_COUNTER("themis_ttl_removed_total", "Documents removed because their time was over.");

struct target {
    uint64_t collection, index;
};

struct targets {
    struct target *at;
    size_t count, cap;
};

static void find_targets(const struct catalog *catalog, struct arena *arena, struct targets *out)
{
    for (size_t i = 0; i < catalog_database_count(catalog); i++) {
        const struct database *db = catalog_database_at(catalog, i);
        for (size_t j = 0; j < db->collection_count; j++) {
            const struct collection *c = &db->collections[j];
            for (size_t k = 0; k < c->index_count; k++) {
                if (!c->indexes[k].expires || !c->indexes[k].is_ready)
                    continue;
                if (out->count == out->cap) {
                    size_t cap = out->cap ? out->cap * 2 : 8;
                    struct target *more = arena_alloc(arena, cap * sizeof *more);
                    if (out->count)
                        memcpy(more, out->at, out->count * sizeof *more);
                    out->at = more;
                    out->cap = cap;
                }
                out->at[out->count++] = (struct target){ c->id, c->indexes[k].id };
            }
        }
    }
}

static bool is_over(struct val v, int64_t limit_ms)
{
    int64_t ms;

    if (val_type(v) == VAL_NUMBER)
        return val_double(v) * 1000 <= (double)limit_ms;
    return val_type(v) == VAL_STRING && date_parse(val_string(v), &ms) && ms <= limit_ms;
}

/* Keys of documents that are over, at most PER_TXN. */
static enum errc find_over(struct txn *t, const struct collection *c, const struct index_def *x,
                           const struct index_range *range, int64_t limit_ms, struct arena *arena,
                           struct slice *keys, size_t *count, struct error *err)
{
    struct index_iter *it;
    struct slice key;
    struct val doc;
    enum errc rc = index_scan(&it, t, c, x, range, err);

    if (rc != OK)
        return rc;
    while (rc == OK && *count < PER_TXN && index_iter_next(it, &key)) {
        rc = doc_get_stored(t, c, key, arena, &doc, err);
        if (rc == OK && is_over(val_path(doc, x->fields[0].names, x->fields[0].count), limit_ms))
            keys[(*count)++] = arena_copy(arena, key);
    }
    if (rc == OK)
        rc = index_iter_check(it, err);
    index_iter_free(it);
    return rc;
}

/* One transaction; *count is what it removed, less than PER_TXN at the end. */
static enum errc remove_some(struct store *s, const struct target *target, uint64_t now_ms,
                             size_t *count, struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    struct arena *arena = arena_new(0);
    struct slice keys[PER_TXN];
    char text[DATE_TEXT_BYTES];
    struct doc_change change;
    const struct doc_options blind = { .leaves_old = true };
    const struct collection *c;
    const struct index_def *x;
    int64_t limit_ms;
    *count = 0;
    TRY(txn_begin(&t, s, &(struct txn_options){ 0 }, err));
    c = catalog_collection_by_id(txn_catalog(t), target->collection);
    x = c ? collection_index(c, target->index) : NULL;
    if (!x || !x->expires || !x->is_ready) /* gone meanwhile */
        goto out;
    limit_ms = (int64_t)now_ms - (int64_t)(x->expire_after_s * 1000);
    struct index_range numbers = { .lower = val_true,
                                   .upper = val_new_double(arena, (double)limit_ms / 1000),
                                   .upper_included = true };
    TRY(find_over(t, c, x, &numbers, limit_ms, arena, keys, count, err));
    date_print(limit_ms < DATE_MIN ? DATE_MIN : limit_ms, true, text);
    struct index_range texts = { .lower = val_empty_string,
                                 .upper = val_new_string(arena, slice_str(text)),
                                 .upper_included = true };
    TRY(find_over(t, c, x, &texts, limit_ms, arena, keys, count, err));
    for (size_t i = 0; i < *count; i++)
        TRY(doc_remove(t, c, keys[i], &blind, arena, &change, err));
    if (*count)
        rc = txn_commit(t, err);
out:
    txn_end(t);
    arena_free(arena);
    if (rc != OK)
        *count = 0;
    return rc;
}

enum errc store_expire(struct store *s, uint64_t now_ms, uint64_t max, uint64_t *removed,
                       struct error *err)
{
    struct arena *arena = arena_new(0);
    struct targets targets = { 0 };
    struct txn *t;
    enum errc rc = txn_begin(&t, s, &(struct txn_options){ .is_read_only = true }, err);

    *removed = 0;
    if (rc == OK) {
        find_targets(txn_catalog(t), arena, &targets);
        txn_end(t);
    }
    for (size_t i = 0; rc == OK && i < targets.count; i++) {
        size_t count = PER_TXN;
        while (rc == OK && count == PER_TXN && *removed < max) {
            rc = remove_some(s, &targets.at[i], now_ms, &count, err);
            *removed += count;
        }
        if (rc == ERR_CONFLICT || rc == ERR_NOT_FOUND) /* somebody else changed one */
            rc = OK;
    }
    metric_add(&removed_total, *removed);
    arena_free(arena);
    return rc;
}
