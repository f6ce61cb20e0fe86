/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group is everything that queued while the last one was written. Clients
 * that were answered together come back together, so the committer sleeps a
 * little until as many are queued as the last groups held: at most a quarter of
 * a sync, by a timed wait and never by sched_yield, which costs a time slice
 * when the cores are busy. A lone client never waits.
 *
 * Waiters sleep on a futex word per parity of the group's number, so that one
 * call wakes them all without the lock.
 */
#include "store/commit.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/key.h"
#include "base/log.h"
#include "base/metrics.h"

enum {
    SYNC_DELAY_US = 100 * 1000,  /* unsynced commits are durable after this */
    SYNC_RETRY_US = 1000 * 1000, /* or after this, when the disk was full */
    FATAL_DELAY_MS = 100,        /* lets answers leave before the process ends */
    TIMER_SLACK_NS = 1000,
};

struct committer {
    struct commit_parts parts;
    pthread_mutex_t lock; /* of queue, views and flags */
    pthread_cond_t work;
    struct commit_request *queue, **queue_end;
    size_t queued, last_group, group_before, wanted;
    bool is_split, is_closing, is_failed;
    uint32_t gathering;       /* number of the group that takes new arrivals */
    _Atomic uint32_t done[2]; /* futex words by parity of the group */
    struct view *oldest, *current;
    size_t view_count;
    struct commit_stats stats;
    void (*on_fatal)(void *ctx, const struct error *err);
    void *fatal_ctx;
    pthread_t thread;

    /* the thread's own */
    struct trail *trail;
    struct counter_table *counters;
    struct kv_batch joined;
    struct buf log_key;
    uint64_t seq, sync_us;
    uint64_t sync_due_us; /* 0 = all is durable */
    struct commit_sink *sinks, **sinks_end;
};

static struct metric commits_total =
    METRIC_COUNTER("themis_commits_total", "Transactions committed.");
static struct metric conflicts_total =
    METRIC_COUNTER("themis_commit_conflicts_total", "Transactions refused by a conflict.");
static struct metric groups_total =
    METRIC_COUNTER("themis_commit_groups_total", "Groups of transactions written together.");
static struct metric sync_seconds =
    METRIC_HISTOGRAM("themis_commit_sync_seconds", "Writing and syncing one group.");
static struct metric views_open =
    METRIC_GAUGE("themis_views", "Published views that somebody still reads.");
static struct metric window_bytes = METRIC_GAUGE(
    "themis_conflict_window_bytes", "Keys of recent commits kept for conflict checks.");

static uint64_t mono_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static struct timespec timespec_at(uint64_t us)
{
    return (struct timespec){ .tv_sec = (time_t)(us / 1000000),
                              .tv_nsec = (long)(us % 1000000) * 1000 };
}

/* ---- views ---- */

static void view_free(struct committer *c, struct view *v)
{
    if (!v)
        return;
    kv_snapshot_free(c->parts.kv, v->snapshot);
    catalog_unref(v->catalog);
    mem_free(v);
}

static struct view *view_new(struct committer *c, struct catalog *catalog)
{
    struct view *v = mem_zalloc(sizeof *v);
    v->snapshot = kv_snapshot_new(c->parts.kv);
    v->seq = c->seq;
    v->position = trail_end(c->trail);
    v->catalog = catalog_ref(catalog);
    return v;
}

/* Takes a view off the list when nobody can get at it any more. Lock held. */
static struct view *view_take_unused(struct committer *c, struct view *v)
{
    if (!v || v->refs || v == c->current)
        return NULL;
    if (v->older)
        v->older->newer = v->newer;
    else
        c->oldest = v->newer;
    v->newer->older = v->older;
    c->view_count--;
    return v;
}

/* Returns the view before it when that is to be freed. Lock held. */
static struct view *view_publish(struct committer *c, struct view *v)
{
    struct view *before = c->current;
    v->older = before;
    if (before)
        before->newer = v;
    else
        c->oldest = v;
    c->current = v;
    c->view_count++;
    return view_take_unused(c, before);
}

struct view *committer_view(struct committer *c)
{
    pthread_mutex_lock(&c->lock);
    struct view *v = c->current;
    v->refs++;
    pthread_mutex_unlock(&c->lock);
    return v;
}

void committer_release(struct committer *c, struct view *view)
{
    pthread_mutex_lock(&c->lock);
    view->refs--;
    struct view *unused = view_take_unused(c, view);
    if (unused && garbage_is_ready(c->parts.garbage, c->oldest->seq))
        pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->lock);
    view_free(c, unused);
}

/* ---- one transaction in a group ---- */

static enum errc check_window(struct committer *c, struct commit_request *r, struct error *err)
{
    if (r->kind == COMMIT_RESOLVE)
        return OK;
    switch (trail_check(c->trail, &r->position, r->reads, &r->conflict)) {
    case TRAIL_CLEAR:
        return OK;
    case TRAIL_CONFLICT:
        return fail(err, ERR_CONFLICT, "write-write conflict");
    case TRAIL_FORGOTTEN:
        buf_clear(&r->conflict);
        return fail(err, ERR_CONFLICT,
                    "the transaction is older than the conflict window; start it again");
    }
    return OK;
}

static void add_to_trail(struct committer *c, struct slice batch)
{
    struct kv_record record;
    for (size_t at = 0; kv_batch_next(batch, &at, &record);)
        trail_add(c->trail, record.family, record.key);
}

static void add_to_log(struct committer *c, const struct commit_request *r)
{
    buf_clear(&c->log_key);
    key_add_u64(&c->log_key, r->seq);
    kv_batch_add(&c->joined, &(struct kv_record){ .op = KV_PUT,
                                                  .family = KV_LOG,
                                                  .key = buf_slice(&c->log_key),
                                                  .value = buf_slice(&r->batch.bytes) });
    garbage_trim_log(c->parts.garbage, r->seq, r->batch.bytes.len, &c->joined);
}

/* Against transactions that are prepared, then what the request does to them. */
static enum errc check_prepared(struct committer *c, struct commit_request *r, struct error *err)
{
    struct prepared_table *t = c->parts.prepared;
    bool is_prepare = r->kind == COMMIT_PREPARE;
    if (r->kind == COMMIT_RESOLVE)
        return prepared_end(t, r->name, c->seq + 1, r->is_decided, err);
    enum errc rc = prepared_check(t, is_prepare ? r->pending : buf_slice(&r->batch.bytes),
                                  is_prepare ? r->reads : NULL, &r->conflict, err);
    r->is_held = rc == ERR_CONFLICT;
    return rc == OK && is_prepare ? prepared_may_add(t, r->prepare, err) : rc;
}

/* The record is on its way in this group: later requests meet the entry. */
static void enter_prepared(struct committer *c, struct commit_request *r)
{
    prepared_add(c->parts.prepared, r->prepare, r->seq);
    r->prepare = NULL;
}

static enum errc admit(struct committer *c, struct commit_request *r, struct error *err)
{
    enum errc rc = OK;
    if (c->is_failed)
        return fail(err, ERR_IO, "the store stopped writing after a failed sync");
    if (!r->is_removal)
        TRY(disk_check_space(c->parts.disk, err));
    TRY(check_window(c, r, err));
    TRY(counter_table_load(c->counters, r->counters, r->counter_count, err));
    TRY(check_prepared(c, r, err));
    r->seq = ++c->seq;
    if (r->kind == COMMIT_PREPARE)
        enter_prepared(c, r);
    if (!r->is_derived)
        add_to_trail(c, buf_slice(&r->batch.bytes));
    counter_table_apply(c->counters, r->counters, r->counter_count, &r->batch);
    kv_batch_append(&c->joined, buf_slice(&r->batch.bytes));
    add_to_log(c, r);
out:
    return rc;
}

/* ---- the group ---- */

struct group {
    struct commit_request *first;
    size_t accepted;
    bool is_synced, is_written;
    struct catalog *catalog; /* the newest of the group, or NULL */
};

static enum errc write_group(struct committer *c, struct group *g, struct error *err)
{
    uint64_t start = mono_us();
    ids_cover(c->parts.ids, &c->joined);
    enum errc rc = kv_write(c->parts.kv, &c->joined, g->is_synced, err);
    uint64_t took = mono_us() - start;
    metric_observe_us(&sync_seconds, took);
    if (g->is_synced)
        c->sync_us = (c->sync_us * 9 + took) / 10;
    if (rc != OK)
        return rc;
    g->is_written = true;
    if (g->is_synced)
        c->sync_due_us = 0;
    else if (!c->sync_due_us)
        c->sync_due_us = start + SYNC_DELAY_US;
    return OK;
}

static enum errc stage_group(struct committer *c, const struct group *g, struct error *err)
{
    for (struct commit_sink *s = c->sinks; s; s = s->next) {
        for (const struct commit_request *r = g->first; r; r = r->next) {
            if (r->rc != OK || !s->stage)
                continue;
            enum errc rc = s->stage(s->ctx, r->seq, buf_slice(&r->batch.bytes), err);
            if (rc != OK)
                return rc;
        }
    }
    return OK;
}

/*
 * A full disk is known to have taken nothing into the view that runs on, so its numbers are given
 * again; all else is unknown until the next start.
 */
static bool is_outcome_unknown(const struct group *g, enum errc rc)
{
    return rc != OK && (g->is_written || rc != ERR_LIMIT);
}

static void fail_group(struct committer *c, struct group *g, const struct error *why)
{
    if (!g->is_written) {
        c->seq -= g->accepted;
        ids_uncover(c->parts.ids);
    }
    g->accepted = 0;
    for (struct commit_request *r = g->first; r; r = r->next) {
        if (r->rc != OK)
            continue;
        r->err = *why;
        r->rc = wrap(&r->err, "the outcome of the commit is unknown");
    }
    counter_table_forget(c->counters);
}

/* After the group is published or has failed; the requests are still there. */
static void settle_prepared(struct committer *c, const struct group *g)
{
    for (const struct commit_request *r = g->first; r; r = r->next) {
        bool was_admitted = r->seq != 0;
        if (!was_admitted)
            continue;
        if (r->kind == COMMIT_RESOLVE)
            prepared_settle(c->parts.prepared, r->name, r->rc == OK);
        else if (r->kind == COMMIT_PREPARE && r->rc != OK)
            prepared_take_back(c->parts.prepared, r->name);
    }
}

/* Writes what the group's transactions agree on; their rc tells the outcome. */
static enum errc group_commit(struct committer *c, struct group *g, struct error *err)
{
    enum errc rc = OK;
    kv_batch_clear(&c->joined);
    for (struct commit_request *r = g->first; r; r = r->next) {
        r->rc = admit(c, r, &r->err);
        if (r->rc != OK)
            continue;
        g->accepted++;
        g->is_synced |= !r->no_sync;
        if (r->catalog)
            g->catalog = r->catalog;
    }
    if (!g->accepted)
        return OK;
    TRY(write_group(c, g, err));
    TRY(stage_group(c, g, err));
    if (g->is_synced)
        disk_mark(c->parts.disk, c->seq);
out:
    if (rc != OK)
        fail_group(c, g, err);
    return rc;
}

static void count_group(struct committer *c, const struct group *g, size_t size)
{
    size_t conflicts = 0;
    for (const struct commit_request *r = g->first; r; r = r->next)
        conflicts += r->rc == ERR_CONFLICT;
    c->stats.groups++;
    c->stats.commits += g->accepted;
    c->stats.conflicts += conflicts;
    c->group_before = c->last_group;
    c->last_group = size;
    metric_add(&groups_total, 1);
    metric_add(&commits_total, (int64_t)g->accepted);
    metric_add(&conflicts_total, (int64_t)conflicts);
}

static void wake_group(struct committer *c, uint32_t number)
{
    _Atomic uint32_t *word = &c->done[number & 1];
    atomic_store_explicit(word, number, memory_order_release);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
}

static void fatal_default(void *ctx, const struct error *err)
{
    (void)ctx, (void)err;
    nanosleep(&(struct timespec){ .tv_nsec = FATAL_DELAY_MS * 1000000L }, NULL);
    abort();
}

static void tell_fatal(struct committer *c, const struct error *err)
{
    pthread_mutex_lock(&c->lock);
    void (*fn)(void *ctx, const struct error *err) = c->on_fatal;
    void *ctx = c->fatal_ctx;
    pthread_mutex_unlock(&c->lock);
    if (fn)
        fn(ctx, err);
}

/* Sleeps until the crowd of the last groups is back. Lock held. */
static void linger(struct committer *c)
{
    size_t expected = c->last_group > c->group_before ? c->last_group : c->group_before;
    if (c->last_group + c->group_before <= 2)
        return;
    if (c->is_split) /* the last two groups were halves of one crowd */
        expected = c->last_group + c->group_before;
    struct timespec end = timespec_at(mono_us() + c->sync_us / 4);
    c->wanted = expected;
    while (c->queued < expected && !c->is_closing &&
           pthread_cond_timedwait(&c->work, &c->lock, &end) == 0)
        ;
    c->wanted = 0;
    c->is_split = c->queued * 4 < (c->last_group + c->group_before) * 3;
}

static void tell_sinks(struct committer *c, uint64_t seq)
{
    for (struct commit_sink *s = c->sinks; s; s = s->next)
        if (s->published)
            s->published(s->ctx, seq);
}

static void clean_up(struct committer *c, uint64_t oldest_position)
{
    trail_forget(c->trail, oldest_position, c->parts.window_bytes);
    metric_set(&window_bytes, (int64_t)trail_bytes(c->trail));
}

/* Lock held, queue not empty. */
static void group_turn(struct committer *c)
{
    struct error err;
    linger(c);
    struct group g = { .first = c->queue };
    size_t size = c->queued;
    uint32_t number = c->gathering++;
    c->queue = NULL;
    c->queue_end = &c->queue;
    c->queued = 0;
    struct catalog *catalog = c->current->catalog; /* only this thread replaces current */
    pthread_mutex_unlock(&c->lock);

    enum errc rc = group_commit(c, &g, &err);
    bool is_fatal = is_outcome_unknown(&g, rc);
    struct view *view = NULL;
    if (rc == OK && g.accepted)
        view = view_new(c, g.catalog ? g.catalog : catalog);
    else if (rc != OK && !is_fatal) /* the same rows behind the trail of what was not written */
        view = view_new(c, catalog);
    uint64_t seq = c->seq;

    pthread_mutex_lock(&c->lock);
    struct view *old = view ? view_publish(c, view) : NULL;
    uint64_t oldest_position = c->oldest->position;
    count_group(c, &g, size);
    c->stats.last_seq = c->current->seq;
    c->is_failed |= is_fatal;
    metric_set(&views_open, (int64_t)c->view_count);
    pthread_mutex_unlock(&c->lock);

    settle_prepared(c, &g);
    wake_group(c, number); /* the requests are gone from here on */
    view_free(c, old);
    if (g.accepted)
        tell_sinks(c, seq);
    clean_up(c, oldest_position);
    if (rc != OK)
        log_error("store", "writing a group of commits failed: %s", err.text);
    if (is_fatal)
        tell_fatal(c, &err);
    pthread_mutex_lock(&c->lock);
}

/* ---- the thread ---- */

/* Makes unsynced commits durable. Without the lock. is_last: there is no later. */
static void sync_now(struct committer *c, bool is_last)
{
    struct error err;
    kv_batch_clear(&c->joined);
    kv_batch_add(&c->joined, &(struct kv_record){
                                 .op = KV_PUT, .family = KV_META, .key = slice_str("synced") });
    enum errc rc = kv_write(c->parts.kv, &c->joined, true, &err);
    c->sync_due_us = 0;
    if (rc == OK) {
        disk_mark(c->parts.disk, c->seq);
        return;
    }
    log_error("store", "syncing the log failed: %s", err.text);
    if (rc == ERR_LIMIT && !is_last) {
        c->sync_due_us = mono_us() + SYNC_RETRY_US;
        return;
    }
    pthread_mutex_lock(&c->lock);
    c->is_failed = true;
    pthread_mutex_unlock(&c->lock);
    if (rc != ERR_LIMIT)
        tell_fatal(c, &err);
}

/* What is due besides groups. Lock held; true when something was done. */
static bool do_chores(struct committer *c)
{
    bool is_last = c->is_closing;
    bool is_sync_due = c->sync_due_us && (is_last || mono_us() >= c->sync_due_us);
    uint64_t oldest_seq = c->oldest->seq;
    bool is_garbage_due = !c->is_failed && garbage_is_ready(c->parts.garbage, oldest_seq);
    uint64_t mark_due_us = disk_mark_due_us(c->parts.disk);
    bool is_mark_due = mark_due_us && (is_last || mono_us() >= mark_due_us);
    if (!is_sync_due && !is_garbage_due && !is_mark_due)
        return false;
    pthread_mutex_unlock(&c->lock);
    if (is_mark_due)
        disk_mark_now(c->parts.disk);
    if (is_garbage_due)
        garbage_collect(c->parts.garbage, oldest_seq);
    if (is_sync_due)
        sync_now(c, is_last);
    pthread_mutex_lock(&c->lock);
    return true;
}

static void wait_for_work(struct committer *c)
{
    uint64_t due_us = disk_mark_due_us(c->parts.disk);
    if (c->sync_due_us && (!due_us || c->sync_due_us < due_us))
        due_us = c->sync_due_us;
    if (!due_us) {
        pthread_cond_wait(&c->work, &c->lock);
        return;
    }
    struct timespec end = timespec_at(due_us);
    pthread_cond_timedwait(&c->work, &c->lock, &end);
}

static void *committer_main(void *arg)
{
    struct committer *c = arg;
    prctl(PR_SET_NAME, "committer");
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    pthread_mutex_lock(&c->lock);
    for (;;) {
        if (c->queue)
            group_turn(c);
        if (do_chores(c) || c->queue)
            continue;
        if (c->is_closing)
            break;
        wait_for_work(c);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void register_metrics(void)
{
    metric_register(&commits_total);
    metric_register(&conflicts_total);
    metric_register(&groups_total);
    metric_register(&sync_seconds);
    metric_register(&views_open);
    metric_register(&window_bytes);
}

static void release(struct committer *c)
{
    for (struct view *v = c->oldest, *newer; v; v = newer) {
        newer = v->newer;
        view_free(c, v);
    }
    trail_free(c->trail);
    counter_table_free(c->counters);
    kv_batch_release(&c->joined);
    buf_release(&c->log_key);
    pthread_cond_destroy(&c->work);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

enum errc committer_new(struct committer **out, const struct commit_parts *parts,
                        struct catalog *catalog, struct error *err)
{
    struct committer *c = mem_zalloc(sizeof *c);
    pthread_condattr_t monotonic;
    register_metrics();
    c->parts = *parts;
    c->queue_end = &c->queue;
    c->sinks_end = &c->sinks;
    c->gathering = 2;
    c->done[1] = 1; /* the group before the first */
    c->seq = c->stats.last_seq = parts->last_seq;
    c->trail = trail_new();
    c->counters = counter_table_new(parts->kv);
    kv_batch_init(&c->joined);
    buf_init(&c->log_key, 0);
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&c->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    (void)view_publish(c, view_new(c, catalog));
    if (fault_hit("store.thread") || pthread_create(&c->thread, NULL, committer_main, c)) {
        release(c);
        *out = NULL;
        return fail(err, ERR_LIMIT, "cannot start the committer's thread");
    }
    *out = c;
    return OK;
}

void committer_free(struct committer *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->is_closing = true;
    pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    if (!c->is_failed)
        disk_mark(c->parts.disk, c->seq);
    disk_mark_now(c->parts.disk);
    release(c);
}

void committer_add_sink(struct committer *c, struct commit_sink *sink)
{
    sink->next = NULL;
    *c->sinks_end = sink;
    c->sinks_end = &sink->next;
}

/* ---- the callers' side ---- */

static void wait_for_group(struct committer *c, uint32_t number)
{
    _Atomic uint32_t *word = &c->done[number & 1];
    uint32_t seen;
    while ((int32_t)((seen = atomic_load_explicit(word, memory_order_acquire)) - number) < 0)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void submit_and_wait(struct committer *c, struct commit_request *r)
{
    r->next = NULL;
    pthread_mutex_lock(&c->lock);
    *c->queue_end = r;
    c->queue_end = &r->next;
    c->queued++;
    uint32_t mine = c->gathering;
    if (c->wanted ? c->queued >= c->wanted : c->queued == 1)
        pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->lock);
    wait_for_group(c, mine);
}

enum errc committer_commit(struct committer *c, struct commit_request *r, struct error *err)
{
    r->rc = check_window(c, r, &r->err); /* the long part, outside the committer */
    if (r->rc == OK) {
        submit_and_wait(c, r);
    } else {
        pthread_mutex_lock(&c->lock);
        c->stats.conflicts++;
        uint32_t last = c->gathering - 1;
        pthread_mutex_unlock(&c->lock);
        metric_add(&conflicts_total, 1);
        /* The winner may be in a group that is still being written: whoever tries again at once
         * must get a view that has it, or would lose against the same commit over and over. */
        wait_for_group(c, last);
    }
    if (r->rc != OK && err)
        *err = r->err;
    return r->rc;
}

enum errc committer_check(struct committer *c, struct error *err)
{
    pthread_mutex_lock(&c->lock);
    bool is_failed = c->is_failed;
    pthread_mutex_unlock(&c->lock);
    if (is_failed)
        return fail(err, ERR_IO, "the store stopped writing after a failed sync");
    return disk_check_space(c->parts.disk, err);
}

void committer_stats(struct committer *c, struct commit_stats *out)
{
    pthread_mutex_lock(&c->lock);
    *out = c->stats;
    out->views = c->view_count;
    pthread_mutex_unlock(&c->lock);
    out->window_bytes = trail_bytes(c->trail);
}

void committer_on_fatal(struct committer *c, void (*fn)(void *ctx, const struct error *err),
                        void *ctx)
{
    pthread_mutex_lock(&c->lock);
    c->on_fatal = fn ? fn : fatal_default;
    c->fatal_ctx = ctx;
    pthread_mutex_unlock(&c->lock);
}
