/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /_api/changes: the commits of a database in order, by long poll or as server-sent events, and the
 * snapshot from which a client that came too late begins again.
 *
 * A request reads until there is nothing more or its answer is long enough, then waits without a
 * worker and without anything of the store. What a step reads is limited, so that a client that wants
 * one collection of a busy database does not keep a worker.
 */
#include "base/val_text.h"
#include "server/change_hub.h"
#include "server/change_json.h"
#include "server/reply.h"
#include "server/router.h"
#include <inttypes.h>

enum {
    WAIT_MAX_MS = 300000,
    BYTES_DEFAULT = MIB,
    BYTES_MAX = 64 * MIB,
    STEP_BYTES = 8 * MIB,    /* of the log */
    UNSENT_HIGH = MIB,       /* events that the client has not taken */
    PAUSE_MS = 100,          /* until the next look at a client that does not read */
    HEARTBEAT_MS = 10000,    /* events: a position after so long without one */
    STREAM_LIFE_MS = 3600000 /* then the client comes again, with its credentials */
};

struct follow {
    struct request *r;
    struct change_hub *hub;
    struct change_waiter waiter;
    struct change_reader *reader;
    struct change_filter filter;
    struct change_text text;
    uint64_t first, max_bytes;
    uint64_t until_ms;   /* the answer at the latest; events: the end */
    uint64_t said_ms;    /* events: the last one */
    uint64_t said_after; /* events: the position in it */
    bool is_events, has_begun, has_transactions;
};

/* ---- parameters ---- */

static enum errc read_number(struct request *r, const char *name, uint64_t max, uint64_t *out,
                             struct error *err)
{
    struct slice text;

    if (!request_word(r, name, &text))
        return OK;
    if (slice_to_u64(text, out) && *out <= max)
        return OK;
    return fail(err, ERR_INVALID, "%s must be a number of 0 to %" PRIu64 " (got '%.*s')", name, max,
                SLICE_ARG(text));
}

/* Where the client goes on: a stream that broke says it in a header. */
static enum errc read_after(struct follow *f, uint64_t *after, struct error *err)
{
    struct request *r = f->r;
    struct slice last = exchange_header(r->x, "last-event-id"), history;
    enum errc rc;

    *after = change_limit(r->ctx->store);
    rc = read_number(r, "after", UINT64_MAX, after, err);
    if (rc == OK && f->is_events && last.len && !slice_to_u64(last, after))
        rc = fail(err, ERR_INVALID, "Last-Event-ID must be a number (got '%.*s')", SLICE_ARG(last));
    if (rc != OK || !request_word(r, "history", &history) ||
        slice_is(history, change_history(r->ctx->store)))
        return rc;
    return fail_num(err, 1415,
                    "the commits of history '%.*s' are not in this store, whose history is %s: "
                    "take a snapshot with GET /_api/changes/snapshot and go on with "
                    "after=SEQUENCE, which its first line names",
                    SLICE_ARG(history), change_history(r->ctx->store));
}

static enum errc read_filter(struct request *r, struct change_filter *f, struct error *err)
{
    struct slice names;
    enum errc rc = request_database_id(r, &f->db_id, err);

    if (rc == OK && request_word(r, "collections", &names))
        rc = change_filter_names(f, r, names, err);
    for (size_t i = 0; rc == OK && i < f->count; i++)
        rc = request_may_use(r, f->names[i], ACCESS_READ, err);
    return rc;
}

static bool wants_events(struct request *r)
{
    struct slice accept = exchange_header(r->x, "accept");

    return accept.len && memmem(accept.ptr, accept.len, "text/event-stream", 17) != NULL;
}

static enum errc read_follow(struct follow *f, struct error *err)
{
    struct request *r = f->r;
    uint64_t now_ms = env_mono_ms(env_system()), wait_ms = 0, after;
    enum errc rc = OK;

    f->is_events = wants_events(r);
    f->max_bytes = BYTES_DEFAULT;
    TRY(read_number(r, "wait_ms", WAIT_MAX_MS, &wait_ms, err));
    TRY(read_number(r, "max_bytes", BYTES_MAX, &f->max_bytes, err));
    TRY(read_filter(r, &f->filter, err));
    TRY(read_after(f, &after, err));
    TRY(change_reader_open(&f->reader, r->ctx->store, after, err));
    f->first = f->said_after = after;
    f->said_ms = now_ms;
    f->until_ms = now_ms + (f->is_events ? STREAM_LIFE_MS : wait_ms);
out:
    return rc;
}

/* ---- answering ---- */

static void begin(struct follow *f)
{
    static const struct http_header fresh = { "Cache-Control", "no-store" };

    if (f->has_begun)
        return;
    f->has_begun = true;
    if (f->is_events) {
        exchange_start_events(f->r->x, NULL, 0);
        return;
    }
    exchange_start(f->r->x, 200, "application/json; charset=utf-8", &fresh, 1);
    buf_add_char(&f->text.out, '{');
    change_put_history(&f->text);
    buf_printf(&f->text.out, ",\"after\":%" PRIu64 ",\"transactions\":[", f->first);
}

static void begin_transaction(struct follow *f, const struct change_commit *commit)
{
    begin(f);
    if (f->is_events)
        buf_printf(&f->text.out, "id: %" PRIu64 "\nevent: transaction\ndata: ", commit->seq);
    else if (f->has_transactions)
        buf_add_char(&f->text.out, ',');
    f->has_transactions = true;
    buf_printf(&f->text.out, "{\"sequence\":%" PRIu64 ",", commit->seq);
    change_put_time(&f->text, "time", commit->time_us);
    buf_add_str(&f->text.out, ",\"changes\":[");
}

static void end_transaction(struct follow *f, const struct change_commit *commit)
{
    buf_add_str(&f->text.out, f->is_events ? "]}\n\n" : "]}");
    f->said_after = commit->seq;
    f->said_ms = env_mono_ms(env_system());
}

/* One commit: nothing, when the filter takes nothing of it. */
static void put_commit(struct follow *f, const struct change_commit *commit)
{
    struct change change;
    bool is_first = true;

    while (!f->text.is_gone && change_reader_change(f->reader, &change)) {
        if (!change_filter_takes(&f->filter, f->r, &change))
            continue;
        if (is_first)
            begin_transaction(f, commit);
        buf_add_str(&f->text.out, is_first ? "{" : ",{");
        is_first = false;
        change_put(&f->text, &change);
        buf_add_char(&f->text.out, '}');
        change_text_flush(&f->text, false);
    }
    if (!is_first)
        end_transaction(f, commit);
}

/* A position that the client may go on from, also when nothing was for it. */
static void put_position(struct follow *f)
{
    uint64_t at = change_reader_position(f->reader);

    begin(f);
    buf_printf(&f->text.out, "id: %" PRIu64 "\nevent: position\ndata: {", at);
    change_put_history(&f->text);
    buf_printf(&f->text.out, ",\"sequence\":%" PRIu64 "}\n\n", at);
    f->said_after = at;
    f->said_ms = env_mono_ms(env_system());
}

static void release(struct follow *f)
{
    change_reader_close(f->reader);
    change_text_release(&f->text);
    change_hub_leave(f->hub);
}

static void finish(struct follow *f)
{
    struct request *r = f->r;

    if (f->is_events) {
        put_position(f);
    } else {
        begin(f);
        buf_printf(&f->text.out, "],\"sequence\":%" PRIu64 ",\"last\":%" PRIu64 "}",
                   change_reader_position(f->reader), change_limit(r->ctx->store));
    }
    change_text_flush(&f->text, true);
    exchange_finish(r->x);
    release(f);
    request_done(r);
}

/* Half an answer cannot become an error: then the connection breaks. Events can tell. */
static void give_up(struct follow *f, const struct error *err)
{
    struct request *r = f->r;
    bool has_begun = f->has_begun;

    if (has_begun && f->is_events) {
        buf_add_str(&f->text.out, "event: error\ndata: ");
        val_print(error_body(r->arena, r->style, err), &f->text.out);
        buf_add_str(&f->text.out, "\n\n");
        change_text_flush(&f->text, true);
        exchange_finish(r->x);
    } else if (has_begun) {
        exchange_abort(r->x);
    }
    release(f);
    if (has_begun)
        request_done(r);
    else
        request_fail(r, err);
}

/* ---- following ---- */

/* What the user may do can change while a stream lasts. */
static enum errc check_user(struct request *r, struct error *err)
{
    struct user *now;

    if (!r->account)
        return OK;
    now = users_find(r->ctx->users, r->user);
    if (!now || !user_is_active(now) || user_database_level(now, r->db_name) == ACCESS_NONE) {
        user_unref(now);
        return fail(err, ERR_UNAUTHORIZED, "user '%.*s' has no access to database '%.*s' any more",
                    SLICE_ARG(r->user), SLICE_ARG(r->db_name));
    }
    user_unref(r->account);
    r->account = now;
    return OK;
}

/* *has_more: the step read enough, or the answer is long enough, before the end. */
static enum errc read_commits(struct follow *f, bool *has_more, struct error *err)
{
    struct change_commit commit;
    uint64_t read = 0;
    bool has = true;
    enum errc rc = OK;

    *has_more = false;
    while (rc == OK && has && !f->text.is_gone) {
        rc = change_reader_next(f->reader, &commit, &has, err);
        if (rc != OK || !has)
            break;
        put_commit(f, &commit);
        read += commit.bytes;
        bool is_long = f->text.bytes + f->text.out.len >= f->max_bytes;
        if (read >= STEP_BYTES || (is_long && !f->is_events) ||
            (f->is_events && exchange_unsent(f->r->x) + f->text.out.len > UNSENT_HIGH)) {
            *has_more = true;
            break;
        }
    }
    change_reader_rest(f->reader);
    return rc;
}

static void follow_step(struct request *r);

static void wait_until(struct follow *f, uint64_t due_ms)
{
    f->waiter.due_ms = due_ms;
    f->waiter.after = change_reader_position(f->reader);
    change_hub_wait(f->hub, &f->waiter, follow_step);
}

static void go_on_later(struct follow *f)
{
    f->waiter.due_ms = env_mono_ms(env_system()) + PAUSE_MS;
    change_hub_pause(f->hub, &f->waiter, follow_step);
}

static void follow_events(struct follow *f, bool has_more)
{
    struct request *r = f->r;
    uint64_t now_ms = env_mono_ms(env_system());

    if (now_ms >= f->until_ms) {
        finish(f);
        return;
    }
    if (!f->has_begun || now_ms - f->said_ms >= HEARTBEAT_MS)
        put_position(f);
    change_text_flush(&f->text, true);
    if (exchange_unsent(r->x) > UNSENT_HIGH) {
        go_on_later(f);
    } else if (has_more) {
        request_wake(r); /* others first */
        request_park(r, follow_step);
    } else {
        uint64_t beat_ms = f->said_ms + HEARTBEAT_MS;
        wait_until(f, beat_ms < f->until_ms ? beat_ms : f->until_ms);
    }
}

static void follow_poll(struct follow *f, bool has_more)
{
    struct request *r = f->r;
    bool is_long = f->text.bytes + f->text.out.len >= f->max_bytes;

    if (is_long || (f->has_transactions && !has_more) || env_mono_ms(env_system()) >= f->until_ms) {
        finish(f);
    } else if (has_more) {
        request_wake(r);
        request_park(r, follow_step);
    } else {
        wait_until(f, f->until_ms);
    }
}

static void follow_step(struct request *r)
{
    struct follow *f = r->state;
    struct error err = { 0 };
    bool has_more = false;
    enum errc rc;

    if (f->text.is_gone || atomic_load(exchange_cancel_flag(r->x)) ||
        atomic_load(&r->ctx->is_draining)) {
        finish(f);
        return;
    }
    if (f->is_events && f->has_begun && exchange_unsent(r->x) > UNSENT_HIGH) {
        go_on_later(f);
        return;
    }
    if (!change_hub_begin_writing(f->hub)) {
        go_on_later(f);
        return;
    }
    rc = check_user(r, &err);
    if (rc == OK)
        rc = read_commits(f, &has_more, &err);
    change_hub_end_writing(f->hub);
    if (rc != OK)
        give_up(f, &err);
    else if (f->is_events)
        follow_events(f, has_more);
    else
        follow_poll(f, has_more);
}

static void on_gone(void *ctx)
{
    struct follow *f = ctx;

    change_hub_wake(f->hub, &f->waiter);
}

static void get_changes(struct request *r)
{
    struct error err = { 0 };
    struct follow *f = ARENA_NEW(r->arena, struct follow);
    enum errc rc = change_hub_enter(r->ctx->changes, &err);

    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    f->r = r;
    f->hub = r->ctx->changes;
    f->waiter.r = r;
    change_text_init(&f->text, r);
    if (read_follow(f, &err) != OK) {
        give_up(f, &err);
        return;
    }
    r->state = f;
    exchange_on_cancel(r->x, on_gone, f);
    follow_step(r);
}

/* ---- snapshot ---- */

struct snapshot {
    struct request *r;
    struct change_hub *hub;
    struct change_waiter waiter;
    struct change_filter filter;
    struct change_text text;
    struct txn *txn;
    uint64_t documents, collections;
};

static bool is_wanted(struct snapshot *s, const struct database *db, const struct collection *c)
{
    struct change change = { .kind = CHANGE_CREATE_COLLECTION, .db = db, .collection = c };

    return change_filter_takes(&s->filter, s->r, &change);
}

static enum errc put_documents(struct snapshot *s, const struct collection *c, struct error *err)
{
    struct doc_iter *it = NULL;
    struct val doc;
    enum errc rc = doc_iter_new(&it, s->txn, c, err);

    while (rc == OK && !s->text.is_gone && doc_iter_next(it, &doc)) {
        buf_add_str(&s->text.out, "{\"type\":\"document\",\"collection\":");
        val_print_string(c->name, &s->text.out);
        buf_add_str(&s->text.out, ",\"document\":");
        val_print(doc, &s->text.out);
        buf_add_str(&s->text.out, "}\n");
        change_text_flush(&s->text, false);
        s->documents++;
    }
    if (rc == OK)
        rc = doc_iter_check(it, err);
    doc_iter_free(it);
    return rc;
}

static enum errc put_snapshot(struct snapshot *s, struct error *err)
{
    const struct database *db = catalog_database_by_id(txn_catalog(s->txn), s->filter.db_id);
    struct buf *out = &s->text.out;
    enum errc rc = OK;

    buf_add_str(out, "{\"type\":\"snapshot\",");
    change_put_history(&s->text);
    buf_printf(out, ",\"sequence\":%" PRIu64 ",\"database\":", txn_view_seq(s->txn));
    val_print_string(s->r->db_name, out);
    buf_add_str(out, "}\n");
    for (size_t i = 0; db && rc == OK && i < db->collection_count; i++) {
        const struct collection *c = &db->collections[i];
        if (!is_wanted(s, db, c))
            continue;
        buf_add_str(out, "{\"type\":\"collection\",\"collection\":");
        val_print_string(c->name, out);
        buf_add_char(out, ',');
        change_put_collection(&s->text, c, true);
        buf_add_str(out, "}\n");
        s->collections++;
        rc = put_documents(s, c, err);
    }
    buf_printf(out, "{\"type\":\"end\",\"collections\":%" PRIu64 ",\"documents\":%" PRIu64 "}\n",
               s->collections, s->documents);
    return rc;
}

static void end_snapshot(struct snapshot *s)
{
    txn_end(s->txn);
    change_text_release(&s->text);
    change_hub_leave(s->hub);
}

/* A view may show commits that are not durable yet: the client must not be ahead of the feed. */
static void snapshot_step(struct request *r)
{
    struct snapshot *s = r->state;
    struct error err = { 0 };
    bool is_over = atomic_load(exchange_cancel_flag(r->x)) || atomic_load(&r->ctx->is_draining);

    if (!is_over &&
        (change_limit(r->ctx->store) < txn_view_seq(s->txn) || !change_hub_begin_writing(s->hub))) {
        s->waiter.due_ms = env_mono_ms(env_system()) + PAUSE_MS;
        change_hub_pause(s->hub, &s->waiter, snapshot_step);
        return;
    }
    if (is_over) {
        fail(&err, ERR_BUSY, "the server is shutting down");
        end_snapshot(s);
        request_fail(r, &err);
        return;
    }
    exchange_start(r->x, 200, "application/x-ndjson", NULL, 0);
    if (put_snapshot(s, &err) == OK) {
        change_text_flush(&s->text, true);
        exchange_finish(r->x);
    } else {
        exchange_abort(r->x);
    }
    change_hub_end_writing(s->hub);
    end_snapshot(s);
    request_done(r);
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
    rc = read_filter(r, &s->filter, &err);
    if (rc == OK)
        rc = txn_begin(&s->txn, r->ctx->store, &opt, &err);
    if (rc != OK) {
        end_snapshot(s);
        request_fail(r, &err);
        return;
    }
    r->state = s;
    exchange_on_cancel(r->x, on_snapshot_gone, s);
    snapshot_step(r);
}

/* ---- state ---- */

static void get_state(struct request *r)
{
    struct error err = { 0 };
    struct change_range range;
    struct change_text t;

    if (change_range(r->ctx->store, &range, &err) != OK) {
        request_fail(r, &err);
        return;
    }
    change_text_init(&t, r);
    buf_add_char(&t.out, '{');
    change_put_history(&t);
    buf_printf(&t.out, ",\"isOn\":%s,\"first\":%" PRIu64 ",\"last\":%" PRIu64 ",",
               range.is_on ? "true" : "false", range.first, range.last);
    change_put_time(&t, "firstTime", range.first_us);
    buf_add_char(&t.out, ',');
    change_put_time(&t, "lastTime", range.last_us);
    buf_printf(&t.out, ",\"bytes\":%" PRIu64 ",\"error\":false,\"code\":200}", range.bytes);
    exchange_reply(r->x, 200, "application/json; charset=utf-8", NULL, 0, buf_slice(&t.out));
    change_text_release(&t);
    request_done(r);
}

const struct route api_changes_routes[] = {
    { METHOD_GET, "/_api/changes?after&history&collections&wait_ms&max_bytes", ROLE_USER, ON_POOL,
      0, get_changes, "Commits after a position, in order; waits for some, or streams them." },
    { METHOD_GET, "/_api/changes/snapshot?collections", ROLE_USER, ON_POOL, 0, get_snapshot,
      "All documents at one position." },
    { METHOD_GET, "/_api/changes/state", ROLE_USER, ON_POOL, 0, get_state,
      "Which commits the change log has." },
    { 0 },
};
