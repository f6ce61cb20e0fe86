/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pass goes through the rows in their order, a batch of stale ones at a time, each batch a
 * transaction on a new view. Behind it no row is stale: a writer with an older catalog is refused by
 * the guard that the change of the attributes broke. A batch that is refused leaves its rows to the
 * next pass, and then this one does not count as whole.
 */
#include "store/encryption.h"

#include <inttypes.h>

#include "base/key.h"
#include "base/metrics.h"
#include "store/ddl.h"
#include "store/doc_private.h"
#include "store/sealed.h"

enum { PER_TXN = 500, SCAN_PER_TXN = 20000, BYTES_PER_TXN = 8 * MIB, ROWS_PER_LOOK = 1000 };

static struct metric rewritten_total =
    METRIC_COUNTER("themis_encryption_rewritten_total",
                   "Documents written again with another key, or encrypted for the first time.");

const struct keyring *encryption_keys(const struct store *s)
{
    return sealed_keys(s);
}

static enum errc look(const struct encryption_watch *watch, struct error *err)
{
    if (watch && watch->should_stop && watch->should_stop(watch->ctx))
        return fail(err, ERR_GONE, "the request was cancelled");
    return OK;
}

static enum errc find_collection(struct txn *t, uint64_t id, const struct collection **out,
                                 struct error *err)
{
    *out = catalog_collection_by_id(txn_catalog(t), id);
    if (*out)
        return OK;
    return fail_num(err, 1203, "collection with id %" PRIu64 " not found", id);
}

/* Rows of the collection from that key on; an empty one: from the first. */
static enum errc open_rows(struct txn_iter **out, struct txn *t, const struct collection *c,
                           struct slice from, struct error *err)
{
    struct buf first, end;
    buf_init(&first, 0);
    buf_init(&end, 0);
    key_add_u64(&first, c->object_id);
    key_add_u64(&end, c->object_id + 1);
    enum errc rc = txn_iter_new(out, t, KV_DOC,
                                &(struct kv_scan){ .from = from.len ? from : buf_slice(&first),
                                                   .to = buf_slice(&end),
                                                   .is_large = true },
                                err);
    buf_release(&first);
    buf_release(&end);
    return rc;
}

static struct slice doc_key_of(struct slice row_key)
{
    return slice_of(row_key.ptr + ROW_KEY_HEAD, row_key.len - ROW_KEY_HEAD);
}

/* ---- counting ---- */

void encryption_count_value(void *ctx, struct slice key_id)
{
    struct encryption_usage *u = ctx;
    if (!key_id.len) {
        u->clear++;
        return;
    }
    for (size_t i = 0; i < u->key_count; i++) {
        if (slice_is(key_id, u->keys[i].key_id)) {
            u->keys[i].values++;
            return;
        }
    }
    if (u->key_count == KEYS_MAX || key_id.len > KEY_ID_MAX) {
        u->others++;
        return;
    }
    struct encryption_use *use = &u->keys[u->key_count++];
    memcpy(use->key_id, key_id.ptr, key_id.len);
    use->key_id[key_id.len] = 0;
    use->values = 1;
}

enum errc encryption_count(struct store *s, uint64_t collection_id,
                           const struct encryption_watch *watch, struct encryption_usage *usage,
                           struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    struct txn_iter *it = NULL;
    const struct collection *c;
    TRY(txn_begin(&t, s, &(struct txn_options){ .is_read_only = true }, err));
    TRY(find_collection(t, collection_id, &c, err));
    TRY(open_rows(&it, t, c, slice_of(NULL, 0), err));
    for (; txn_iter_valid(it); txn_iter_next(it)) {
        struct val doc = { (const uint8_t *)txn_iter_value(it).ptr };
        if (usage->documents++ % ROWS_PER_LOOK == 0)
            TRY(look(watch, err));
        usage->stale += sealed_is_stale(s, c, doc);
        sealed_each(c, doc, encryption_count_value, usage);
    }
    rc = txn_iter_check(it, err);
out:
    txn_iter_free(it);
    txn_end(t);
    return rc;
}

/* ---- rewriting ---- */

struct pass {
    struct store *store;
    uint64_t collection_id;
    struct arena *arena;     /* owned; of one batch */
    struct buf next;         /* key of the row to go on from; empty: the first */
    uint64_t max;            /* documents that may still be written */
    bool is_at_end, is_full; /* no row is left; one is, but max were written */
    bool is_refused;
};

struct stale {
    struct slice row_key;
    struct val doc;
    struct stale *next;
};

/* Stale rows from where the pass is, as far as one transaction takes them. */
static enum errc gather(struct pass *p, struct txn *t, const struct collection *c,
                        struct stale **out, struct encryption_progress *progress, struct error *err)
{
    struct txn_iter *it = NULL;
    struct stale **end = out;
    size_t count = 0, bytes = 0, scanned = 0;
    enum errc rc = open_rows(&it, t, c, buf_slice(&p->next), err);
    *out = NULL;
    p->is_at_end = true;
    for (; rc == OK && txn_iter_valid(it); txn_iter_next(it), scanned++) {
        struct slice key = txn_iter_key(it);
        struct val doc = { (const uint8_t *)txn_iter_value(it).ptr };
        bool is_stale = sealed_is_stale(p->store, c, doc);
        p->is_full = is_stale && count == p->max;
        if (count == PER_TXN || p->is_full || bytes > BYTES_PER_TXN || scanned == SCAN_PER_TXN) {
            buf_clear(&p->next);
            buf_add_slice(&p->next, key);
            p->is_at_end = false;
            break;
        }
        if (!is_stale)
            continue;
        struct stale *one = ARENA_NEW(p->arena, struct stale);
        one->row_key = arena_copy(p->arena, key);
        one->doc = val_copy(p->arena, doc);
        *end = one;
        end = &one->next;
        bytes += val_size(doc);
        count++;
    }
    if (rc == OK)
        rc = txn_iter_check(it, err);
    txn_iter_free(it);
    progress->scanned += scanned;
    return rc;
}

static enum errc rewrite_row(struct pass *p, struct txn *t, const struct collection *c,
                             const struct stale *one, struct error *err)
{
    struct slice key = doc_key_of(one->row_key);
    struct val doc;
    enum errc rc = sealed_open(p->store, c, key, one->doc, p->arena, &doc, err);
    if (rc == OK)
        rc = sealed_close(p->store, c, key, doc, p->arena, &doc, err);
    return rc == OK ? txn_put(t, KV_DOC, one->row_key, val_bytes(doc), err) : rc;
}

/* One transaction. The indexes stay: none looks at such an attribute. */
static enum errc rewrite_some(struct pass *p, struct encryption_progress *progress,
                              struct error *err)
{
    enum errc rc = OK;
    struct txn *t = NULL;
    struct stale *list;
    const struct collection *c;
    uint64_t count = 0;
    arena_reset(p->arena);
    TRY(txn_begin(&t, p->store, &(struct txn_options){ 0 }, err));
    TRY(find_collection(t, p->collection_id, &c, err));
    TRY(txn_open_write(t, c, err));
    TRY(gather(p, t, c, &list, progress, err));
    for (const struct stale *one = list; one; one = one->next, count++)
        TRY(rewrite_row(p, t, c, one, err));
    if (!count)
        goto out;
    rc = txn_commit(t, err);
    if (rc == ERR_CONFLICT) { /* somebody wrote one of them meanwhile, with the newest catalog */
        progress->conflicts++;
        p->is_refused = true;
        rc = OK;
    } else if (rc == OK) {
        progress->rewritten += count;
        p->max -= count;
        metric_add(&rewritten_total, count);
    }
out:
    txn_end(t);
    return rc;
}

/* Old versions of the rows go with the tables that hold them. */
static void drop_old_bytes(struct store *s, uint64_t object_id)
{
    struct buf from, to;
    buf_init(&from, 0);
    buf_init(&to, 0);
    key_add_u64(&from, object_id);
    key_add_u64(&to, object_id + 1);
    kv_compact(s->kv, KV_DOC, buf_slice(&from), buf_slice(&to));
    buf_release(&from);
    buf_release(&to);
}

/* A whole pass over rows as of that version of the catalog met no stale one. */
static enum errc forget_former(struct store *s, uint64_t collection_id, uint64_t version,
                               struct error *err)
{
    enum errc rc = OK;
    struct change ch;
    struct collection *c;
    TRY(change_begin(&ch, s, err));
    c = clone_collection(ch.clone, collection_id, NULL);
    if (!c || catalog_version(txn_catalog(ch.txn)) != version ||
        c->sealed_count == c->encrypted_count)
        goto out;
    sealed_forget_former(c);
    TRY(txn_break_guard(ch.txn, collection_id, err));
    rc = change_commit(&ch, err);
out:
    change_end(&ch);
    return rc;
}

static enum errc begin_pass(struct store *s, uint64_t id, struct collection *out, uint64_t *version,
                            struct error *err)
{
    struct txn *t = NULL;
    const struct collection *c;
    enum errc rc = txn_begin(&t, s, &(struct txn_options){ .is_read_only = true }, err);
    if (rc == OK)
        rc = find_collection(t, id, &c, err);
    if (rc == OK) {
        *out = *c; /* numbers only are looked at later */
        *version = catalog_version(txn_catalog(t));
    }
    txn_end(t);
    return rc;
}

static enum errc end_pass(struct pass *p, const struct collection *before, uint64_t version,
                          struct error *err)
{
    struct collection now;
    uint64_t now_version;
    enum errc rc = begin_pass(p->store, p->collection_id, &now, &now_version, err);
    bool has_former = before->sealed_count > before->encrypted_count;
    if (rc == OK && has_former && version == now_version)
        rc = forget_former(p->store, p->collection_id, version, err);
    if (rc == OK)
        drop_old_bytes(p->store, now.object_id);
    return rc;
}

enum errc encryption_rewrite(struct store *s, uint64_t collection_id, uint64_t max,
                             const struct encryption_watch *watch,
                             struct encryption_progress *progress, struct error *err)
{
    struct pass p = {
        .store = s, .collection_id = collection_id, .arena = arena_new(0), .max = max
    };
    struct collection before;
    uint64_t version, rewritten = progress->rewritten;
    enum errc rc = OK;
    metric_register(&rewritten_total);
    buf_init(&p.next, 0);
    progress->is_done = false;
    TRY(begin_pass(s, collection_id, &before, &version, err));
    while (!p.is_at_end && !p.is_full) {
        TRY(look(watch, err));
        TRY(rewrite_some(&p, progress, err));
    }
    progress->is_done = p.is_at_end && !p.is_refused;
    if (progress->is_done &&
        (progress->rewritten > rewritten || before.sealed_count > before.encrypted_count))
        TRY(end_pass(&p, &before, version, err));
out:
    buf_release(&p.next);
    arena_free(p.arena);
    return rc;
}
