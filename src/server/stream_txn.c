/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table by id. Ended transactions stay for a while, so that a client
 * that repeats its commit learns the outcome; the oldest of them go first when
 * there are too many.
 */
#include "server/stream_txn.h"

#include <inttypes.h>
#include <pthread.h>

#include "base/log.h"
#include "base/metrics.h"

enum { BUCKETS = 1024, ENDED_MAX = 4096 };

struct stream_txn {
    uint64_t id;
    struct stream_owner owner; /* user: owned bytes */
    struct txn *txn;           /* owned; NULL when ended */
    struct txn_scope scope;    /* ids: owned */
    uint64_t *ids;
    enum stream_state state;
    uint64_t expires_ms;
    size_t mark; /* of its writes when it was taken */
    bool is_busy;
    struct stream_txn *next;       /* in the bucket */
    struct stream_txn *next_ended; /* in order of their end */
};

struct stream_txns {
    struct store *store;
    const struct settings *settings;
    const struct env *env;
    pthread_mutex_t lock;
    struct stream_txn *buckets[BUCKETS];
    struct stream_txn *ended, **ended_end;
    size_t running, ended_count;
};

static struct metric running_now =
    METRIC_GAUGE("themis_stream_transactions", "Transactions that last over several requests.");
static struct metric expired_total = METRIC_COUNTER(
    "themis_stream_transactions_expired_total", "Of them, aborted after being idle for too long.");

struct stream_txns *stream_txns_new(struct store *store, const struct settings *settings,
                                    const struct env *env)
{
    struct stream_txns *s = mem_zalloc(sizeof *s);
    metric_register(&running_now);
    metric_register(&expired_total);
    pthread_mutex_init(&s->lock, NULL);
    s->store = store;
    s->settings = settings;
    s->env = env;
    s->ended_end = &s->ended;
    return s;
}

static void stream_free(struct stream_txn *t)
{
    if (!t)
        return;
    txn_end(t->txn);
    mem_free((char *)t->owner.user.ptr);
    mem_free(t->ids);
    mem_free(t);
}

void stream_txns_free(struct stream_txns *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        while (s->buckets[i]) {
            struct stream_txn *t = s->buckets[i];
            s->buckets[i] = t->next;
            stream_free(t);
        }
    }
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

static uint64_t deadline(const struct stream_txns *s)
{
    return env_mono_ms(s->env) + (uint64_t)s->settings->transaction_idle_timeout_ms;
}

/* ---- the table; lock held ---- */

static struct stream_txn **bucket(struct stream_txns *s, uint64_t id)
{
    return &s->buckets[id % BUCKETS];
}

static enum errc find(struct stream_txns *s, const struct stream_owner *who, uint64_t id,
                      struct stream_txn **out, struct error *err)
{
    struct stream_txn *t = *bucket(s, id);
    while (t && t->id != id)
        t = t->next;
    *out = t;
    if (t && t->owner.db_id == who->db_id && slice_eq(t->owner.user, who->user))
        return OK;
    return fail_num(err, 1655, "transaction '%" PRIu64 "' not found", id);
}

static void forget(struct stream_txns *s, struct stream_txn *t)
{
    struct stream_txn **at = bucket(s, t->id);
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    stream_free(t);
}

static void forget_first_ended(struct stream_txns *s)
{
    struct stream_txn *t = s->ended;
    s->ended = t->next_ended;
    if (!s->ended)
        s->ended_end = &s->ended;
    s->ended_count--;
    forget(s, t);
}

/* Returns its transaction, to be ended without the lock. */
static struct txn *set_ended(struct stream_txns *s, struct stream_txn *t, enum stream_state state)
{
    struct txn *inside = t->txn;
    t->txn = NULL;
    t->state = state;
    t->is_busy = false;
    t->expires_ms = deadline(s);
    t->next_ended = NULL;
    *s->ended_end = t;
    s->ended_end = &t->next_ended;
    s->running--;
    metric_set(&running_now, (int64_t)s->running);
    if (++s->ended_count > ENDED_MAX)
        forget_first_ended(s);
    return inside;
}

/* ---- begin ---- */

static enum errc find_names(struct txn *t, uint64_t db_id, const struct slice *names, size_t count,
                            uint64_t *ids, bool is_claim, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct collection *c = catalog_collection(txn_catalog(t), db_id, names[i]);
        if (!c)
            return fail_num(err, 1203, "collection or view not found: %.*s", SLICE_ARG(names[i]));
        ids[i] = c->id;
        enum errc rc = is_claim ? txn_claim(t, c, err) : OK;
        if (rc != OK)
            return rc;
    }
    return OK;
}

/* Opens the transaction and fills its scope. */
static enum errc open_inside(struct stream_txns *s, struct stream_txn *t,
                             const struct stream_options *opt, struct error *err)
{
    enum errc rc = OK;
    struct txn_options inside = opt->txn;
    size_t writes = opt->write_count + opt->exclusive_count;
    uint64_t db = t->owner.db_id;
    t->ids = mem_alloc((writes + opt->read_count + 1) * sizeof *t->ids);
    inside.scope = &t->scope;
    TRY(txn_begin(&t->txn, s->store, &inside, err));
    TRY(find_names(t->txn, db, opt->write, opt->write_count, t->ids, false, err));
    t->scope = (struct txn_scope){ .write = t->ids,
                                   .write_count = writes,
                                   .read = t->ids + writes,
                                   .read_count = opt->read_count,
                                   .reads_any = opt->reads_any };
    TRY(find_names(t->txn, db, opt->read, opt->read_count, t->ids + writes, false, err));
    TRY(find_names(t->txn, db, opt->exclusive, opt->exclusive_count, t->ids + opt->write_count,
                   true, err));
out:
    return rc;
}

enum errc stream_begin(struct stream_txns *s, const struct stream_owner *who,
                       const struct stream_options *opt, uint64_t *id, struct error *err)
{
    struct stream_txn *t = mem_zalloc(sizeof *t);
    size_t max = (size_t)s->settings->max_transactions;
    t->owner.db_id = who->db_id;
    t->owner.user = slice_of(mem_strndup(who->user), who->user.len);
    enum errc rc = open_inside(s, t, opt, err);
    if (rc != OK) {
        stream_free(t);
        return rc;
    }
    *id = t->id = store_new_id(s->store);
    pthread_mutex_lock(&s->lock);
    bool has_room = s->running < max;
    if (has_room) {
        t->expires_ms = deadline(s);
        t->next = *bucket(s, t->id);
        *bucket(s, t->id) = t;
        metric_set(&running_now, (int64_t)++s->running);
    }
    pthread_mutex_unlock(&s->lock);
    if (has_room)
        return OK;
    stream_free(t);
    return fail(err, ERR_LIMIT,
                "%zu transactions run already, which is the limit (max_transactions)", max);
}

/* ---- end ---- */

static const char *state_name(enum stream_state state)
{
    return state == STREAM_RUNNING     ? "running"
           : state == STREAM_COMMITTED ? "committed"
                                       : "aborted";
}

static enum errc check_idle(const struct stream_txn *t, struct error *err)
{
    if (t->is_busy)
        return fail_num(err, 28, "transaction '%" PRIu64 "' is used by another request", t->id);
    return OK;
}

/* Takes a running one for its end; *t is NULL when it ended in that way before. Lock held. */
static enum errc take_to_end(struct stream_txns *s, const struct stream_owner *who, uint64_t id,
                             enum stream_state wanted, struct stream_txn **t, struct error *err)
{
    enum errc rc = find(s, who, id, t, err);
    if (rc != OK)
        return rc;
    if ((*t)->state == STREAM_RUNNING) {
        rc = check_idle(*t, err);
        (*t)->is_busy |= rc == OK;
        return rc;
    }
    bool is_same = (*t)->state == wanted;
    if (!is_same)
        rc = fail_num(err, 1653, "transaction '%" PRIu64 "' was %s before", id,
                      state_name((*t)->state));
    *t = NULL;
    return rc;
}

static enum errc end(struct stream_txns *s, const struct stream_owner *who, uint64_t id,
                     enum stream_state wanted, struct error *err)
{
    struct stream_txn *t;
    pthread_mutex_lock(&s->lock);
    enum errc rc = take_to_end(s, who, id, wanted, &t, err);
    pthread_mutex_unlock(&s->lock);
    if (rc != OK || !t)
        return rc;
    if (wanted == STREAM_COMMITTED)
        rc = txn_commit(t->txn, err); /* busy: nobody else touches it */
    pthread_mutex_lock(&s->lock);
    struct txn *inside = set_ended(s, t, rc == OK ? wanted : STREAM_ABORTED);
    pthread_mutex_unlock(&s->lock);
    txn_end(inside);
    return rc;
}

enum errc stream_commit(struct stream_txns *s, const struct stream_owner *who, uint64_t id,
                        struct error *err)
{
    return end(s, who, id, STREAM_COMMITTED, err);
}

enum errc stream_abort(struct stream_txns *s, const struct stream_owner *who, uint64_t id,
                       struct error *err)
{
    return end(s, who, id, STREAM_ABORTED, err);
}

enum errc stream_find(struct stream_txns *s, const struct stream_owner *who, uint64_t id,
                      enum stream_state *state, struct error *err)
{
    struct stream_txn *t;
    pthread_mutex_lock(&s->lock);
    enum errc rc = find(s, who, id, &t, err);
    if (rc == OK)
        *state = t->state;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

size_t stream_list(struct stream_txns *s, const struct stream_owner *who, uint64_t *ids, size_t max)
{
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (const struct stream_txn *t = s->buckets[i]; t; t = t->next) {
            if (t->state != STREAM_RUNNING || t->owner.db_id != who->db_id ||
                !slice_eq(t->owner.user, who->user))
                continue;
            if (n < max)
                ids[n] = t->id;
            n++;
        }
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* One that was idle for too long, aborted; NULL when there is none. */
static struct txn *abort_one_idle(struct stream_txns *s, uint64_t now)
{
    struct txn *inside = NULL;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; !inside && i < BUCKETS; i++) {
        struct stream_txn *t = s->buckets[i];
        while (t && (t->state != STREAM_RUNNING || t->is_busy || t->expires_ms > now))
            t = t->next;
        if (t) {
            log_info("server", "transaction %" PRIu64 " was idle for too long and is aborted",
                     t->id);
            inside = set_ended(s, t, STREAM_ABORTED);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return inside;
}

void stream_expire(struct stream_txns *s)
{
    struct txn *inside;
    uint64_t now = env_mono_ms(s->env);
    while ((inside = abort_one_idle(s, now)) != NULL) {
        metric_add(&expired_total, 1);
        txn_end(inside);
    }
    pthread_mutex_lock(&s->lock);
    while (s->ended && s->ended->expires_ms <= now)
        forget_first_ended(s);
    pthread_mutex_unlock(&s->lock);
}

/* ---- use ---- */

enum errc stream_take(struct stream_txns *s, const struct stream_owner *who, uint64_t id,
                      struct stream_txn **out, struct error *err)
{
    struct stream_txn *t;
    pthread_mutex_lock(&s->lock);
    enum errc rc = find(s, who, id, &t, err);
    if (rc == OK && t->state != STREAM_RUNNING)
        rc = fail_num(err, 1653, "transaction '%" PRIu64 "' is %s", id, state_name(t->state));
    if (rc == OK)
        rc = check_idle(t, err);
    if (rc == OK) {
        t->is_busy = true;
        t->mark = txn_mark(t->txn);
    }
    pthread_mutex_unlock(&s->lock);
    *out = rc == OK ? t : NULL;
    return rc;
}

struct txn *stream_inside(struct stream_txn *t)
{
    return t->txn;
}

void stream_give(struct stream_txns *s, struct stream_txn *t, bool is_kept)
{
    if (!is_kept)
        txn_rewind(t->txn, t->mark);
    pthread_mutex_lock(&s->lock);
    t->is_busy = false;
    t->expires_ms = deadline(s);
    pthread_mutex_unlock(&s->lock);
}
