/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list under a lock. An entry of a running query holds a reference to its exchange, whose
 * flag ends the query's work; the client still gets the answer. Slow ones are a list too,
 * newest first, cut at its length.
 */
#include "server/query_list.h"
#include "base/env.h"
#include "base/metrics.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SLOW_MAX = 1024, TEXT_MAX = 64 * KIB, BIND_MAX = 16 * KIB };

static struct metric slow_total =
    METRIC_COUNTER("themis_queries_slow_total", "Queries that ran longer than slowQueryThreshold.");
static struct metric killed_total =
    METRIC_COUNTER("themis_queries_killed_total", "Queries that were ended through the list.");

struct entry {
    uint64_t id, db_id, started_us; /* monotonic */
    time_t started;
    struct exchange *x; /* of a running one: a reference */
    struct arena *arena;
    struct slice db, user, text;
    struct val bind; /* null when not kept */
    double seconds;  /* of an ended one */
    bool is_killed, has_failed;
    struct entry *next;
};

struct query_list {
    pthread_mutex_t lock;
    struct entry *running, *slow;
    size_t slow_count;
    uint64_t next_id;
    struct query_tracking tracking;
};

struct query_list *query_list_new(void)
{
    struct query_list *l = mem_zalloc(sizeof *l);

    pthread_mutex_init(&l->lock, NULL);
    l->next_id = 1;
    l->tracking = (struct query_tracking){ .is_enabled = true,
                                           .tracks_slow = true,
                                           .tracks_bind = true,
                                           .slow_max = 64,
                                           .text_bytes_max = 4096,
                                           .slow_s = 10 };
    return l;
}

static void entry_free(struct entry *e)
{
    exchange_unref(e->x);
    arena_free(e->arena);
    mem_free(e);
}

static void free_all(struct entry *e)
{
    while (e) {
        struct entry *next = e->next;
        entry_free(e);
        e = next;
    }
}

void query_list_free(struct query_list *l)
{
    if (!l)
        return;
    free_all(l->running);
    free_all(l->slow);
    pthread_mutex_destroy(&l->lock);
    mem_free(l);
}

/* ---- coming and going ---- */

/* The beginning of a text, at the start of a character. */
static struct slice head(struct slice text, size_t max)
{
    if (text.len <= max)
        return text;
    while (max && ((uint8_t)text.ptr[max] & 0xC0) == 0x80)
        max--;
    return slice_of(text.ptr, max);
}

uint64_t query_list_add(struct query_list *l, const struct request *r, const struct query *q)
{
    struct query_tracking t;
    struct entry *e = mem_zalloc(sizeof *e);

    query_list_tracking(l, &t);
    e->arena = arena_new(0);
    e->x = exchange_ref(r->x);
    e->db_id = query_database(q);
    e->started_us = env_mono_us(env_system());
    e->started = (time_t)(env_wall_us(env_system()) / 1000000);
    e->db = arena_copy(e->arena, r->db_name);
    e->user = arena_copy(e->arena, r->user);
    e->text = arena_copy(e->arena, head(query_text(q), (size_t)t.text_bytes_max));
    e->bind = t.tracks_bind && val_size(query_bind(q)) <= BIND_MAX
                  ? val_copy(e->arena, query_bind(q))
                  : val_null;
    pthread_mutex_lock(&l->lock);
    uint64_t id = e->id = l->next_id++;
    e->next = l->running;
    l->running = e;
    pthread_mutex_unlock(&l->lock);
    return id;
}

/* Takes it out of the list; NULL when it is not there. Lock held. */
static struct entry *take(struct entry **at, uint64_t id)
{
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    struct entry *e = *at;
    if (e)
        *at = e->next;
    return e;
}

/* What is over the length. Lock held; the caller frees it. */
static struct entry *cut_slow(struct query_list *l)
{
    struct entry **at = &l->slow;
    int64_t kept = 0;

    while (*at && kept < l->tracking.slow_max) {
        at = &(*at)->next;
        kept++;
    }
    struct entry *rest = *at;
    *at = NULL;
    l->slow_count = (size_t)kept;
    return rest;
}

void query_list_end(struct query_list *l, uint64_t id, bool has_failed)
{
    struct entry *rest = NULL;

    pthread_mutex_lock(&l->lock);
    struct entry *e = take(&l->running, id);
    if (!e)
        BUG("query %llu ends twice", (unsigned long long)id);
    struct exchange *x = e->x;
    e->x = NULL;
    e->seconds = (double)(env_mono_us(env_system()) - e->started_us) / 1e6;
    e->has_failed = has_failed;
    bool is_slow = e->seconds >= l->tracking.slow_s;
    bool is_kept = is_slow && l->tracking.is_enabled && l->tracking.tracks_slow;
    if (is_kept) {
        e->next = l->slow;
        l->slow = e;
        rest = cut_slow(l);
    }
    pthread_mutex_unlock(&l->lock);
    exchange_unref(x);
    free_all(rest);
    if (!is_kept)
        entry_free(e);
    if (is_slow)
        metric_add(&slow_total, 1);
}

/* ---- looking ---- */

static bool is_in(const struct entry *e, const struct query_scope *scope)
{
    return (!scope->db_id || e->db_id == scope->db_id) &&
           (scope->is_any_user || slice_eq(e->user, scope->user));
}

static void put_entry(struct reply *a, const struct entry *e, bool is_slow)
{
    char started[32];
    struct tm tm;

    gmtime_r(&e->started, &tm);
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &tm);
    reply_open(a, NULL);
    reply_id(a, "id", e->id);
    reply_text(a, "database", e->db);
    reply_text(a, "user", e->user);
    reply_text(a, "query", e->text);
    if (!val_is_null(e->bind))
        reply_val(a, "bindVars", e->bind);
    reply_str(a, "started", started);
    reply_double(a, "runTime",
                 is_slow ? e->seconds : (double)(env_mono_us(env_system()) - e->started_us) / 1e6);
    reply_bool(a, "stream", false);
    reply_str(a, "state", e->is_killed ? "killed" : is_slow ? "finished" : "executing");
    if (is_slow)
        reply_int(a, "exitCode", e->has_failed ? e->is_killed ? 1500 : 1 : 0);
    reply_close(a);
}

void query_list_put(struct query_list *l, const struct query_scope *scope, bool is_slow,
                    struct reply *a)
{
    pthread_mutex_lock(&l->lock);
    for (const struct entry *e = is_slow ? l->slow : l->running; e; e = e->next)
        if (is_in(e, scope))
            put_entry(a, e, is_slow);
    pthread_mutex_unlock(&l->lock);
}

void query_list_clear_slow(struct query_list *l, const struct query_scope *scope)
{
    struct entry *gone = NULL;

    pthread_mutex_lock(&l->lock);
    for (struct entry **at = &l->slow; *at;) {
        struct entry *e = *at;
        if (!is_in(e, scope)) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        e->next = gone;
        gone = e;
        l->slow_count--;
    }
    pthread_mutex_unlock(&l->lock);
    free_all(gone);
}

enum errc query_list_kill(struct query_list *l, const struct query_scope *scope, uint64_t id,
                          struct error *err)
{
    struct exchange *x = NULL;

    pthread_mutex_lock(&l->lock);
    for (struct entry *e = l->running; e; e = e->next) {
        if (e->id != id || !is_in(e, scope))
            continue;
        e->is_killed = true;
        x = exchange_ref(e->x);
    }
    pthread_mutex_unlock(&l->lock);
    if (!x)
        return fail_num(err, 1591, "query '%llu' does not run", (unsigned long long)id);
    exchange_stop_work(x);
    exchange_unref(x);
    metric_add(&killed_total, 1);
    return OK;
}

/* ---- settings ---- */

void query_list_tracking(struct query_list *l, struct query_tracking *out)
{
    pthread_mutex_lock(&l->lock);
    *out = l->tracking;
    pthread_mutex_unlock(&l->lock);
}

enum errc query_list_track(struct query_list *l, const struct query_tracking *t, struct error *err)
{
    if (t->slow_max < 0 || t->slow_max > SLOW_MAX)
        return fail(err, ERR_INVALID, "maxSlowQueries must be 0 to %d", SLOW_MAX);
    if (t->text_bytes_max < 64 || t->text_bytes_max > TEXT_MAX)
        return fail(err, ERR_INVALID, "maxQueryStringLength must be 64 to %d", TEXT_MAX);
    if (!(t->slow_s >= 0 && t->slow_s <= 1e9))
        return fail(err, ERR_INVALID, "slowQueryThreshold must be seconds from 0 on");
    pthread_mutex_lock(&l->lock);
    l->tracking = *t;
    struct entry *rest = cut_slow(l);
    pthread_mutex_unlock(&l->lock);
    free_all(rest);
    return OK;
}
