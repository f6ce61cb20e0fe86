/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /_api/changes: the commits of a database in order, by long poll or as server-sent events.
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
    uint64_t said_after; /* the position behind the last transaction that was put */
    struct change_commit commit;
    size_t sent_before, text_before; /* where its text begins */
    bool is_inside;                  /* there is more of it */
    bool is_open;                    /* its text has begun, and not ended */
    bool is_events, has_begun, has_started, has_transactions;
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
    TRY(change_filter_read(&f->filter, r, err));
    TRY(read_after(f, &after, err));
    TRY(change_reader_open(&f->reader, r->ctx->store, after, err));
    f->first = f->said_after = after;
    f->said_ms = now_ms;
    f->until_ms = now_ms + (f->is_events ? STREAM_LIFE_MS : wait_ms);
out:
    return rc;
}

/* ---- answering ---- */

/* What fails before anything was sent is still answered as an error. */
static void flush(struct follow *f, bool is_last)
{
    static const struct http_header fresh = { "Cache-Control", "no-store" };

    if (!f->has_started && !is_last && f->text.out.len < CHANGE_PIECE_BYTES)
        return;
    if (!f->has_started && f->is_events)
        exchange_start_events(f->r->x, NULL, 0);
    else if (!f->has_started)
        exchange_start(f->r->x, 200, "application/json; charset=utf-8", &fresh, 1);
    f->has_started = true;
    change_text_flush(&f->text, is_last);
}

static void begin(struct follow *f)
{
    if (f->has_begun)
        return;
    f->has_begun = true;
    if (f->is_events)
        return;
    buf_add_char(&f->text.out, '{');
    change_put_history(&f->text);
    buf_printf(&f->text.out, ",\"after\":%" PRIu64 ",\"transactions\":[", f->first);
}

static void begin_transaction(struct follow *f)
{
    const struct change_commit *commit = &f->commit;

    begin(f);
    f->is_open = true;
    f->sent_before = f->text.bytes;
    f->text_before = f->text.out.len;
    if (f->is_events)
        buf_printf(&f->text.out, "id: %" PRIu64 "\nevent: transaction\ndata: ", commit->seq);
    else if (f->has_transactions)
        buf_add_char(&f->text.out, ',');
    f->has_transactions = true;
    buf_printf(&f->text.out, "{\"sequence\":%" PRIu64 ",", commit->seq);
    change_put_time(&f->text, "time", commit->time_us);
    buf_add_str(&f->text.out, ",\"changes\":[");
}

static void end_transaction(struct follow *f)
{
    buf_add_str(&f->text.out, f->is_events ? "]}\n\n" : "]}");
    f->is_open = false;
    f->said_after = f->commit.seq;
    f->said_ms = env_mono_ms(env_system());
}

/* The transaction was not told, if nothing of it was sent. */
static void take_back_transaction(struct follow *f)
{
    if (!f->is_open || f->text.bytes != f->sent_before)
        return;
    f->text.out.len = f->text_before;
    f->is_open = f->is_inside = false;
}

/* The client does not read as fast as we write: a worker would wait for it. */
static bool is_behind(const struct follow *f)
{
    return exchange_unsent(f->r->x) > UNSENT_HIGH;
}

/*
 * The commit in hand, or what is left of it: nothing, when the filter takes nothing. It goes on at
 * the next step (is_inside) when the client is behind.
 */
static enum errc put_commit(struct follow *f, struct error *err)
{
    struct change change;
    bool has = true;
    enum errc rc = OK;

    while (!f->text.is_gone) {
        if (!f->text.out.len && is_behind(f))
            return OK;
        TRY(change_reader_change(f->reader, &change, &has, err));
        if (!has)
            break;
        if (!change_filter_takes(&f->filter, f->r, &change))
            continue;
        TRY(change_reader_document(f->reader, &change, err));
        bool is_first = !f->is_open;
        if (is_first)
            begin_transaction(f);
        buf_add_str(&f->text.out, is_first ? "{" : ",{");
        change_put(&f->text, &change);
        buf_add_char(&f->text.out, '}');
        flush(f, false);
    }
    f->is_inside = false;
    if (f->is_open)
        end_transaction(f);
out:
    return rc;
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

/* at: the position that the client goes on from. Not in the middle of a transaction. */
static void finish_at(struct follow *f, uint64_t at)
{
    struct request *r = f->r;

    if (f->is_events) {
        put_position(f);
    } else {
        begin(f);
        buf_printf(&f->text.out, "],\"sequence\":%" PRIu64 ",\"last\":%" PRIu64 "}", at,
                   change_limit(r->ctx->store));
    }
    flush(f, true);
    exchange_finish(r->x);
    release(f);
    request_done(r);
}

static void finish(struct follow *f)
{
    finish_at(f, change_reader_position(f->reader));
}

/*
 * Half an answer cannot become an error: it ends before what could not be told, and the next request
 * is answered with the error; or the connection breaks. Events can tell.
 */
static void give_up(struct follow *f, const struct error *err)
{
    struct request *r = f->r;
    bool has_started = f->has_started;

    take_back_transaction(f);
    if (!f->is_events && !f->is_open && f->said_after > f->first) {
        finish_at(f, f->said_after);
        return;
    }
    if (has_started && f->is_events && !f->is_open) {
        buf_add_str(&f->text.out, "event: error\ndata: ");
        val_print(error_body(r->arena, r->style, err), &f->text.out);
        buf_add_str(&f->text.out, "\n\n");
        flush(f, true);
        exchange_finish(r->x);
    } else if (has_started) {
        exchange_abort(r->x);
    }
    release(f);
    if (has_started)
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
    uint64_t read = 0;
    bool has = true;
    enum errc rc = OK;

    *has_more = false;
    while (!*has_more && !f->text.is_gone) {
        if (!f->is_inside) {
            TRY(change_reader_next(f->reader, &f->commit, &has, err));
            if (!has)
                break;
            f->is_inside = true;
            read += f->commit.bytes;
        }
        TRY(put_commit(f, err));
        bool is_long = f->text.bytes + f->text.out.len >= f->max_bytes;
        *has_more =
            f->is_inside || read >= STEP_BYTES || (is_long && !f->is_events) || is_behind(f);
    }
out:
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

    if (now_ms >= f->until_ms && !f->is_inside) {
        finish(f);
        return;
    }
    if (!f->is_inside && (!f->has_begun || now_ms - f->said_ms >= HEARTBEAT_MS))
        put_position(f);
    flush(f, true);
    if (is_behind(f)) {
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

    bool is_over =
        is_long || (f->has_transactions && !has_more) || env_mono_ms(env_system()) >= f->until_ms;

    if (is_over && !f->is_inside) {
        finish(f);
    } else if (is_behind(f)) {
        go_on_later(f);
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
        fail(&err, ERR_BUSY, "the server is shutting down");
        if (f->is_open)
            give_up(f, &err);
        else
            finish(f);
        return;
    }
    if (is_behind(f)) {
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

/* The client has left, or has read what it had not. */
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
    exchange_on_room(r->x, on_gone, f);
    follow_step(r);
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
    { METHOD_GET, "/_api/changes/state", ROLE_USER, ON_POOL, 0, get_state,
      "Which commits the change log has." },
    { 0 },
};
