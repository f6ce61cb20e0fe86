/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /_api/changes/snapshot: all documents of a database at one position, from which a client that came
 * too late for the changes begins again.
 */
#include "base/log.h"
#include "base/val_text.h"
#include "server/change_hub.h"
#include "server/change_json.h"
#include "server/reply.h"
#include "server/router.h"
#include <inttypes.h>

enum { UNSENT_HIGH = MIB /* that the client has not taken */, PAUSE_MS = 100 };

struct snapshot {
    struct request *r;
    struct change_hub *hub;
    struct change_waiter waiter;
    struct change_filter filter;
    struct change_text text;
    struct txn *txn;
    size_t next;                         /* collection of the database */
    const struct collection *collection; /* whose documents are being put; or NULL */
    struct doc_iter *docs;
    uint64_t documents, collections;
    bool has_started;
};

static bool is_wanted(struct snapshot *s, const struct database *db, const struct collection *c)
{
    struct change change = { .kind = CHANGE_CREATE_COLLECTION, .db = db, .collection = c };

    return change_filter_takes(&s->filter, s->r, &change);
}

static void put_collection(struct snapshot *s, const struct collection *c)
{
    struct buf *out = &s->text.out;

    buf_add_str(out, "{\"type\":\"collection\",\"collection\":");
    val_print_string(c->name, out);
    buf_add_char(out, ',');
    change_put_collection(&s->text, c, true);
    buf_add_str(out, "}\n");
    s->collections++;
}

static void put_document(struct snapshot *s, struct val doc)
{
    struct buf *out = &s->text.out;

    buf_add_str(out, "{\"type\":\"document\",\"collection\":");
    val_print_string(s->collection->name, out);
    buf_add_str(out, ",\"document\":");
    val_print(doc, out);
    buf_add_str(out, "}\n");
    change_text_flush(&s->text, false);
    s->documents++;
}

/* The documents of the collection in hand, or some of them: *is_behind, the client is. */
static enum errc put_documents(struct snapshot *s, bool *is_behind, struct error *err)
{
    struct val doc;

    while (!s->text.is_gone) {
        *is_behind = !s->text.out.len && exchange_unsent(s->r->x) > UNSENT_HIGH;
        if (*is_behind)
            return OK;
        if (!doc_iter_next(s->docs, &doc))
            break;
        put_document(s, doc);
    }
    enum errc rc = doc_iter_check(s->docs, err);
    doc_iter_free(s->docs);
    s->docs = NULL;
    return rc;
}

static void put_head(struct snapshot *s)
{
    struct buf *out = &s->text.out;

    buf_add_str(out, "{\"type\":\"snapshot\",");
    change_put_history(&s->text);
    buf_printf(out, ",\"sequence\":%" PRIu64 ",\"database\":", txn_view_seq(s->txn));
    val_print_string(s->r->db_name, out);
    buf_add_str(out, "}\n");
}

/* On from where it is; with *is_behind it is not at the end. */
static enum errc put_snapshot(struct snapshot *s, bool *is_behind, struct error *err)
{
    const struct database *db = catalog_database_by_id(txn_catalog(s->txn), s->filter.db_id);
    enum errc rc = OK;

    *is_behind = false;
    while (db && rc == OK && !*is_behind && (s->docs || s->next < db->collection_count)) {
        if (!s->docs) {
            s->collection = &db->collections[s->next++];
            if (!is_wanted(s, db, s->collection))
                continue;
            put_collection(s, s->collection);
            rc = doc_iter_new(&s->docs, s->txn, s->collection, err);
        }
        if (rc == OK)
            rc = put_documents(s, is_behind, err);
    }
    if (rc == OK && !*is_behind)
        buf_printf(&s->text.out,
                   "{\"type\":\"end\",\"collections\":%" PRIu64 ",\"documents\":%" PRIu64 "}\n",
                   s->collections, s->documents);
    return rc;
}

static void end_snapshot(struct snapshot *s)
{
    doc_iter_free(s->docs);
    txn_end(s->txn);
    change_text_release(&s->text);
    change_hub_leave(s->hub);
}

static void snapshot_step(struct request *r);

static void snapshot_later(struct snapshot *s)
{
    s->waiter.due_ms = env_mono_ms(env_system()) + PAUSE_MS;
    change_hub_pause(s->hub, &s->waiter, snapshot_step);
}

/* The node stops, or the client has left. */
static void stop_snapshot(struct snapshot *s)
{
    struct request *r = s->r;
    struct error err = { 0 };
    bool has_started = s->has_started;

    fail(&err, ERR_BUSY, "the server is shutting down");
    if (has_started)
        exchange_abort(r->x);
    end_snapshot(s);
    if (has_started)
        request_done(r);
    else
        request_fail(r, &err);
}

/* An error on the way cannot be told but by a connection that breaks before the last line. */
static void end_writing(struct snapshot *s, enum errc rc, const struct error *err)
{
    struct request *r = s->r;

    if (rc == OK) {
        change_text_flush(&s->text, true);
        exchange_finish(r->x);
    } else {
        log_warn("changes", "a snapshot ended early: %s", err->text);
        exchange_abort(r->x);
    }
    end_snapshot(s);
    request_done(r);
}

/*
 * A view may show commits that are not durable yet: the client must not be ahead of the feed. A
 * client that reads slowly keeps the view, but no worker.
 */
static void snapshot_step(struct request *r)
{
    struct snapshot *s = r->state;
    struct error err = { 0 };
    bool is_behind = false;

    if (atomic_load(exchange_cancel_flag(r->x)) || atomic_load(&r->ctx->is_draining)) {
        stop_snapshot(s);
        return;
    }
    if (change_limit(r->ctx->store) < txn_view_seq(s->txn) || !change_hub_begin_writing(s->hub)) {
        snapshot_later(s);
        return;
    }
    if (!s->has_started) {
        s->has_started = true;
        exchange_start(r->x, 200, "application/x-ndjson", NULL, 0);
        put_head(s);
    }
    enum errc rc = put_snapshot(s, &is_behind, &err);
    change_hub_end_writing(s->hub);
    if (is_behind)
        snapshot_later(s);
    else
        end_writing(s, rc, &err);
}

static void on_snapshot_gone(void *ctx)
{
    struct snapshot *s = ctx;

    change_hub_wake(s->hub, &s->waiter);
}

static void get_snapshot(struct request *r)
{
    struct error err = { 0 };
    struct txn_options opt = { .is_read_only = true, .access = request_access(r) };
    struct snapshot *s = ARENA_NEW(r->arena, struct snapshot);
    enum errc rc = change_hub_enter(r->ctx->changes, &err);

    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    s->r = s->waiter.r = r;
    s->hub = r->ctx->changes;
    change_text_init(&s->text, r);
    rc = change_filter_read(&s->filter, r, &err);
    if (rc == OK)
        rc = txn_begin(&s->txn, r->ctx->store, &opt, &err);
    if (rc != OK) {
        end_snapshot(s);
        request_fail(r, &err);
        return;
    }
    r->state = s;
    exchange_on_cancel(r->x, on_snapshot_gone, s);
    exchange_on_room(r->x, on_snapshot_gone, s);
    snapshot_step(r);
}

const struct route api_snapshot_routes[] = {
    { METHOD_GET, "/_api/changes/snapshot?collections", ROLE_USER, ON_POOL, 0, get_snapshot,
      "All documents at one position." },
    { 0 },
};
