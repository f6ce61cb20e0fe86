/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiters stand in one list. The committer wakes them after a group, but not twice within
 * WAKE_PAUSE_US: then the next tick does, so that hundreds of groups a second cost a follower ten
 * looks and the committer nearly nothing.
 *
 * A waiter in the list holds a reference of its request. Who takes it off wakes it.
 */
#include "server/change_hub.h"

#include "base/metrics.h"
#include "store/change_feed.h"
#include <pthread.h>

enum { WAKE_PAUSE_US = 10000 };

struct change_hub {
    struct store *store;
    struct change_listener listener;
    pthread_mutex_t lock; /* of all below */
    struct change_waiter *first;
    unsigned followers, followers_max, writers, writers_max;
    _Atomic uint64_t woken_us;
    atomic_bool has_waiters;
};

static struct metric followers_now =
    METRIC_GAUGE("themis_change_feeds", "Requests that follow the change feed.");

/* Lock held. */
static void take_off(struct change_hub *h, struct change_waiter *w)
{
    *w->prev = w->next;
    if (w->next)
        w->next->prev = w->prev;
    w->is_queued = false;
    atomic_store(&h->has_waiters, h->first != NULL);
}

/* The list of those that were taken off, by next. */
static void wake_list(struct change_waiter *w)
{
    while (w) {
        struct change_waiter *next = w->next; /* w may be gone after it is woken */
        struct request *r = w->r;
        request_wake(r);
        request_unref(r);
        w = next;
    }
}

static void wake_ready(struct change_hub *h, uint64_t limit, uint64_t now_ms, bool is_all)
{
    struct change_waiter *ready = NULL;

    pthread_mutex_lock(&h->lock);
    for (struct change_waiter *w = h->first, *next; w; w = next) {
        next = w->next;
        if (!is_all && w->after >= limit && w->due_ms > now_ms)
            continue;
        take_off(h, w);
        w->next = ready;
        ready = w;
    }
    pthread_mutex_unlock(&h->lock);
    wake_list(ready);
}

static void on_commits(void *ctx)
{
    struct change_hub *h = ctx;
    uint64_t now_us;

    if (!atomic_load(&h->has_waiters))
        return;
    now_us = env_mono_us(env_system());
    if (now_us - atomic_load(&h->woken_us) < WAKE_PAUSE_US)
        return;
    atomic_store(&h->woken_us, now_us);
    wake_ready(h, change_limit(h->store), 0, false);
}

void change_hub_tick(struct change_hub *h, uint64_t now_ms, bool is_stopping)
{
    if (atomic_load(&h->has_waiters))
        wake_ready(h, change_limit(h->store), now_ms, is_stopping);
}

struct change_hub *change_hub_new(struct store *s, unsigned followers_max, unsigned writers_max)
{
    struct change_hub *h = mem_zalloc(sizeof *h);

    metric_register(&followers_now);
    h->store = s;
    h->followers_max = followers_max;
    h->writers_max = writers_max ? writers_max : 1;
    h->listener = (struct change_listener){ on_commits, h };
    pthread_mutex_init(&h->lock, NULL);
    change_listen(s, &h->listener);
    return h;
}

void change_hub_free(struct change_hub *h)
{
    if (!h)
        return;
    assert(!h->first);
    pthread_mutex_destroy(&h->lock);
    mem_free(h);
}

enum errc change_hub_enter(struct change_hub *h, struct error *err)
{
    pthread_mutex_lock(&h->lock);
    bool is_full = h->followers >= h->followers_max;
    h->followers += !is_full;
    metric_set(&followers_now, h->followers);
    pthread_mutex_unlock(&h->lock);
    if (!is_full)
        return OK;
    return fail(err, ERR_BUSY, "%u change feeds are followed already (max_change_feeds)",
                h->followers_max);
}

void change_hub_leave(struct change_hub *h)
{
    pthread_mutex_lock(&h->lock);
    h->followers--;
    metric_set(&followers_now, h->followers);
    pthread_mutex_unlock(&h->lock);
}

bool change_hub_begin_writing(struct change_hub *h)
{
    pthread_mutex_lock(&h->lock);
    bool may = h->writers < h->writers_max;
    h->writers += may;
    pthread_mutex_unlock(&h->lock);
    return may;
}

void change_hub_end_writing(struct change_hub *h)
{
    pthread_mutex_lock(&h->lock);
    h->writers--;
    pthread_mutex_unlock(&h->lock);
}

static void put_on(struct change_hub *h, struct change_waiter *w)
{
    request_ref(w->r);
    pthread_mutex_lock(&h->lock);
    w->next = h->first;
    w->prev = &h->first;
    if (w->next)
        w->next->prev = &w->next;
    h->first = w;
    w->is_queued = true;
    atomic_store(&h->has_waiters, true);
    pthread_mutex_unlock(&h->lock);
}

/*
 * What came between the last look and the list is seen by looking again; a client that left in
 * between is seen likewise.
 */
static void park(struct change_hub *h, struct change_waiter *w, request_fn step)
{
    struct request *r = w->r;
    uint64_t after = w->after;

    put_on(h, w);
    if (change_limit(h->store) > after || atomic_load(exchange_cancel_flag(r->x)) ||
        atomic_load(&r->ctx->is_draining))
        change_hub_wake(h, w);
    request_park(r, step);
}

void change_hub_wait(struct change_hub *h, struct change_waiter *w, request_fn step)
{
    park(h, w, step);
}

void change_hub_pause(struct change_hub *h, struct change_waiter *w, request_fn step)
{
    w->after = UINT64_MAX;
    park(h, w, step);
}

void change_hub_wake(struct change_hub *h, struct change_waiter *w)
{
    struct change_waiter *ready = NULL;

    pthread_mutex_lock(&h->lock);
    if (w->is_queued) {
        take_off(h, w);
        w->next = NULL;
        ready = w;
    }
    pthread_mutex_unlock(&h->lock);
    wake_list(ready);
}
