/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has the turn writes a group: everything that is queued. At most one has
 * it, a caller or the committer's thread, and all that belongs to the turn goes
 * from one to the next through the lock.
 *
 *     caller    queues; when the crowd is complete by it and the turn is free,
 *               it takes the turn itself: no other thread has to wake up
 *     thread    takes the turn when a crowd is not complete in time, and for
 *               chores: syncing what was not, the mark, garbage
 *
 * The crowd is who was answered by the last group and who queued meanwhile:
 * clients that were answered together come back together. A lone client is its
 * own crowd and never waits. A crowd that was not complete in time, which is a
 * quarter of a write by a timed wait (never by sched_yield, which costs a time
 * slice when the cores are busy), is taken to be as small as it was.
 *
 * Nothing is left lying: whoever queues without taking the turn, while it is
 * free, wakes the thread; whoever gives the turn back wakes it when something
 * is queued or due earlier than it wakes anyway.
 *
 * Waiters sleep on a futex word per parity of the group's number, so that one
 * call wakes them all without the lock.
 */
#include "store/commit_private.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/pool.h"

enum {
    SYNC_RETRY_US = 1000 * 1000, /* a sync that found the disk full is tried again after this */
    FATAL_DELAY_MS = 100,        /* lets answers leave before the process ends */
    TIMER_SLACK_NS = 1000,
};

static struct metric commits_total =
    METRIC_COUNTER("themis_commits_total", "Transactions committed.");
static struct metric conflicts_total =
    METRIC_COUNTER("themis_commit_conflicts_total", "Transactions refused by a conflict.");
static struct metric groups_total =
    METRIC_COUNTER("themis_commit_groups_total", "Groups of transactions written together.");
static struct metric views_open =
    METRIC_GAUGE("themis_views", "Published views that somebody still reads.");
static struct metric window_bytes = METRIC_GAUGE(
    "themis_conflict_window_bytes", "Keys of recent commits kept for conflict checks.");

static uint64_t now_us(void)
{
    return env_mono_us(env_system());
}

static struct timespec timespec_at(uint64_t us)
{
    return (struct timespec){ .tv_sec = (time_t)(us / 1000000),
                              .tv_nsec = (long)(us % 1000000) * 1000 };
}

/* ---- the turn ---- */

static uint64_t next_chore_us(const struct committer *c)
{
    uint64_t mark_us = disk_mark_due_us(c->parts.disk);
    if (!mark_us || !c->sync_due_us)
        return mark_us + c->sync_due_us;
    return mark_us < c->sync_due_us ? mark_us : c->sync_due_us;
}

/* Lock held, the turn free. */
static void turn_take(struct committer *c)
{
    assert(!c->is_taken);
    c->is_taken = true;
}

/* Lock held. */
static void turn_give_back(struct committer *c)
{
    c->is_taken = false;
    c->due_us = next_chore_us(c);
    bool is_due_before = c->due_us && (!c->wakes_at_us || c->due_us < c->wakes_at_us);
    if (c->queue || c->is_wanted || c->is_closing || c->is_fatal_due || is_due_before ||
        garbage_is_ready(c->parts.garbage, c->oldest->seq))
        pthread_cond_signal(&c->work);
}

/* Nothing is written any more. Lock held, by whoever has the turn; the thread tells it. */
static void stop_writing(struct committer *c, const struct error *why, bool is_fatal)
{
    c->is_failed = true;
    if (!is_fatal)
        return;
    c->failure = *why;
    c->is_fatal_due = true;
}

/* ---- a group ---- */

/* Lock held, queue not empty. Returns the group's number. */
static uint32_t take_queue(struct committer *c, struct group *g)
{
    *g = (struct group){ .first = c->queue, .size = c->queued };
    c->queue = NULL;
    c->queue_end = &c->queue;
    c->queued = 0;
    return c->gathering++;
}

/* Lock held. */
static void count_group(struct committer *c, const struct group *g)
{
    size_t conflicts = 0;
    for (const struct commit_request *r = g->first; r; r = r->next)
        conflicts += r->rc == ERR_CONFLICT;
    c->stats.groups++;
    c->stats.commits += g->accepted;
    c->stats.conflicts += conflicts;
    c->stats.last_seq = c->current->seq;
    metric_add(&groups_total, 1);
    metric_add(&commits_total, (int64_t)g->accepted);
    metric_add(&conflicts_total, (int64_t)conflicts);
    metric_set(&views_open, (int64_t)c->view_count);
}

static void wake_group(struct committer *c, uint32_t number)
{
    _Atomic uint32_t *word = &c->done[number & 1];
    atomic_store_explicit(word, number, memory_order_release);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
}

static void tell_sinks(struct committer *c, uint64_t seq)
{
    for (struct commit_sink *s = c->sinks; s; s = s->next)
        if (s->published)
            s->published(s->ctx, seq);
}

static void forget_trail(struct committer *c, uint64_t oldest_position)
{
    trail_forget(c->trail, oldest_position, c->parts.window_bytes);
    metric_set(&window_bytes, (int64_t)trail_bytes(c->trail));
}

/* What readers get after the group; NULL = the same as before. */
static struct view *view_after(struct committer *c, const struct group *g, enum errc rc,
                               struct catalog *catalog)
{
    if (rc == OK && g->accepted)
        return view_new(c, g->catalog ? g->catalog : catalog);
    if (rc != OK && !group_is_unknown(g, rc))
        return view_new(c, catalog); /* the same rows behind the trail of what was not written */
    return NULL;
}

/* Writes and publishes what is queued, answers. Lock held, the turn free; both are so again. */
static void group_turn(struct committer *c)
{
    struct error err;
    struct group g;
    turn_take(c);
    bool is_complete = c->queued >= c->crowd;
    uint32_t number = take_queue(c, &g);
    struct catalog *catalog = c->current->catalog; /* replaced by whoever has the turn */
    pthread_mutex_unlock(&c->lock);

    enum errc rc = group_commit(c, &g, &err);
    bool is_fatal = group_is_unknown(&g, rc);
    struct view *view = view_after(c, &g, rc, catalog);
    uint64_t seq = c->seq;

    pthread_mutex_lock(&c->lock);
    struct view *old = view ? view_publish(c, view) : NULL;
    uint64_t oldest_position = c->oldest->position;
    c->crowd = is_complete ? g.size + c->queued : g.size;
    count_group(c, &g);
    pthread_mutex_unlock(&c->lock);

    group_settle(c, &g);
    wake_group(c, number); /* the requests of others are gone from here on */
    if (g.accepted)
        tell_sinks(c, seq);
    forget_trail(c, oldest_position);
    if (rc != OK)
        log_error("store", "writing a group of commits failed: %s", err.text);
    view_free(c, old);
    pthread_mutex_lock(&c->lock);
    if (is_fatal)
        stop_writing(c, &err, true);
    turn_give_back(c);
}

/* ---- the thread ---- */

static void fatal_default(void *ctx, const struct error *err)
{
    (void)ctx, (void)err;
    nanosleep(&(struct timespec){ .tv_nsec = FATAL_DELAY_MS * 1000000L }, NULL);
    abort();
}

/* Lock held; not during the call. */
static void tell_fatal(struct committer *c)
{
    void (*fn)(void *ctx, const struct error *err) = c->on_fatal;
    void *ctx = c->fatal_ctx;
    struct error err = c->failure;
    c->is_fatal_due = false;
    pthread_mutex_unlock(&c->lock);
    if (fn)
        fn(ctx, &err);
    pthread_mutex_lock(&c->lock);
}

/* Makes unsynced commits durable. is_last: there is no later. */
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
        c->sync_due_us = now_us() + SYNC_RETRY_US;
        return;
    }
    pthread_mutex_lock(&c->lock);
    stop_writing(c, &err, rc != ERR_LIMIT);
    pthread_mutex_unlock(&c->lock);
}

/* What is due besides groups. Lock held, the turn free; true when something was done. */
static bool do_chores(struct committer *c)
{
    bool is_last = c->is_closing;
    bool is_sync_due = c->sync_due_us && (is_last || now_us() >= c->sync_due_us);
    uint64_t oldest_seq = c->oldest->seq;
    bool is_garbage_due = !c->is_failed && garbage_is_ready(c->parts.garbage, oldest_seq);
    uint64_t mark_due_us = disk_mark_due_us(c->parts.disk);
    bool is_mark_due = mark_due_us && (is_last || now_us() >= mark_due_us);
    if (!is_sync_due && !is_garbage_due && !is_mark_due)
        return false;
    turn_take(c);
    pthread_mutex_unlock(&c->lock);
    if (is_mark_due)
        disk_mark_now(c->parts.disk);
    if (is_garbage_due)
        garbage_collect(c->parts.garbage, oldest_seq);
    if (is_sync_due)
        sync_now(c, is_last);
    pthread_mutex_lock(&c->lock);
    turn_give_back(c);
    return true;
}

/* Sleeps until that time, 0 = for ever, or until there may be something to do. Lock held. */
static bool sleep_until(struct committer *c, uint64_t us)
{
    struct timespec end = timespec_at(us);
    c->wakes_at_us = us;
    bool is_over = (us ? pthread_cond_timedwait(&c->work, &c->lock, &end)
                       : pthread_cond_wait(&c->work, &c->lock)) != 0;
    c->wakes_at_us = 0;
    return is_over;
}

/* Lets the crowd become complete, by somebody who then has taken it. Lock held. */
static void linger_and_turn(struct committer *c)
{
    uint64_t end_us = now_us() + c->write_us / 4;
    bool is_over = false;
    while (c->queue && !c->is_taken && c->queued < c->crowd && !c->is_closing && !is_over)
        is_over = sleep_until(c, end_us);
    if (c->queue && !c->is_taken)
        group_turn(c);
}

/* Lock held, somebody has the turn: what is his is not looked at. */
static bool is_chore_waiting(const struct committer *c)
{
    bool is_garbage = !c->is_failed && garbage_is_ready(c->parts.garbage, c->oldest->seq);
    return is_garbage || (c->due_us && now_us() >= c->due_us);
}

/* Until there may be something to do. Lock held. */
static void wait_for_work(struct committer *c)
{
    c->is_wanted = c->is_taken && is_chore_waiting(c);
    (void)sleep_until(c, c->is_wanted ? 0 : c->due_us);
    c->is_wanted = false;
}

static void *committer_main(void *arg)
{
    struct committer *c = arg;
    prctl(PR_SET_NAME, "committer");
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    pthread_mutex_lock(&c->lock);
    for (;;) {
        if (c->is_fatal_due)
            tell_fatal(c);
        else if (!c->is_taken && do_chores(c))
            continue;
        else if (c->queue && !c->is_taken)
            linger_and_turn(c);
        else if (c->is_closing && !c->is_taken)
            break;
        else
            wait_for_work(c);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- life ---- */

static void register_metrics(void)
{
    metric_register(&commits_total);
    metric_register(&conflicts_total);
    metric_register(&groups_total);
    group_register_metrics();
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
    bool is_free = !c->is_taken && !c->is_wanted;
    if (is_free && c->queued >= c->crowd)
        group_turn(c);
    else if (is_free && c->queued == 1)
        pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->lock);
    wait_for_group(c, mine); /* over already for who had the turn */
}

enum errc committer_commit(struct committer *c, struct commit_request *r, struct error *err)
{
    r->rc = group_check_window(c, r, &r->err); /* the long part, outside the turn */
    if (r->rc == OK) {
        pool_wait_begin(); /* a crowd that waits for one sync is not to be as small as the pool */
        submit_and_wait(c, r);
        pool_wait_end();
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
