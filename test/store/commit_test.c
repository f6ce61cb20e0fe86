/* SPDX-License-Identifier: Apache-2.0 */
/* Who writes groups: callers and the committer's thread take turns. */
#include "base/env.h"
#include "base/key.h"
#include "fixture.h"
#include "store/commit_private.h"
#include "store/store_private.h"

#include <pthread.h>
#include <stdatomic.h>

enum { CLIENTS = 16, COMMITS = 60 };

/* A sink that notes on which threads it is called and whether the numbers rise one by one. */
struct watcher {
    struct commit_sink sink;
    pthread_t caller;
    atomic_uint inside;
    uint64_t last, by_caller, by_others;
    bool is_in_order, is_alone;
};

static enum errc note_stage(void *ctx, uint64_t seq, struct slice batch, struct error *err)
{
    struct watcher *w = ctx;
    (void)batch, (void)err;
    w->is_alone &= atomic_fetch_add(&w->inside, 1) == 0;
    w->is_in_order &= !w->last || seq == w->last + 1;
    w->last = seq;
    if (pthread_equal(pthread_self(), w->caller))
        w->by_caller++;
    else
        w->by_others++;
    atomic_fetch_sub(&w->inside, 1);
    return OK;
}

static void watch(struct watcher *w, struct fixture *f)
{
    *w = (struct watcher){ .caller = pthread_self(), .is_in_order = true, .is_alone = true };
    w->sink = (struct commit_sink){ .stage = note_stage, .ctx = w };
    store_add_sink(f->store, &w->sink); /* between commits: nobody looks at the list */
}

/* Without the fixture's error and arena, which belong to the main thread. */
static enum errc insert_one(struct store *store, uint64_t db, const char *key, bool is_synced)
{
    struct error err;
    struct txn *t = NULL;
    struct val doc;
    struct doc_change change;
    char text[64];
    struct arena *arena = arena_new(0);
    snprintf(text, sizeof text, "{\"_key\":\"%s\"}", key);
    enum errc rc = val_parse(slice_str(text), arena, &doc, &err);
    struct txn_options opt = { .isolation = ISOLATION_SNAPSHOT, .no_sync = !is_synced };
    if (rc == OK)
        rc = txn_begin(&t, store, &opt, &err);
    if (rc == OK)
        rc = doc_insert(t, catalog_collection(txn_catalog(t), db, slice_str("c")), doc, NULL, arena,
                        &change, &err);
    if (rc == OK)
        rc = txn_commit(t, &err);
    txn_end(t);
    arena_free(arena);
    return rc;
}

/* ---- tests ---- */

static void a_lone_caller_writes_itself(void **out)
{
    struct fixture f;
    struct watcher w;
    (void)out;
    fixture_init(&f, true);
    make_collection(&f, "c", COLLECTION_DOCUMENT);
    watch(&w, &f);
    for (int i = 0; i < 20; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(insert_one(f.store, f.db, key, true), OK);
    }
    assert_int_equal(w.by_caller + w.by_others, 20);
    assert_true(w.by_others <= 5); /* who arrives during a chore is served by the thread */
    fixture_release(&f);
}

struct client {
    struct fixture *f;
    int number;
    unsigned refused;
};

static void *client_main(void *arg)
{
    struct client *c = arg;
    for (int i = 0; i < COMMITS; i++) {
        char key[32];
        snprintf(key, sizeof key, "c%d-%d", c->number, i);
        c->refused += insert_one(c->f->store, c->f->db, key, i % 4 != 0) != OK;
    }
    return NULL;
}

static void run_clients(struct fixture *f)
{
    pthread_t threads[CLIENTS];
    struct client clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){ .f = f, .number = i };
        assert_int_equal(pthread_create(&threads[i], NULL, client_main, &clients[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(clients[i].refused, 0);
    }
}

static uint64_t counted(struct fixture *f)
{
    uint64_t n = 0;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(doc_count(t, in(f, t, "c"), &n, &f->err), &f->err);
    txn_end(t);
    return n;
}

static void a_crowd_shares_groups_in_order(void **out)
{
    struct fixture f;
    struct watcher w;
    struct store_stats before, after;
    (void)out;
    fixture_init(&f, true);
    make_collection(&f, "c", COLLECTION_DOCUMENT);
    watch(&w, &f);
    store_stats(f.store, &before);
    run_clients(&f);
    store_stats(f.store, &after);
    assert_int_equal(w.by_caller + w.by_others, CLIENTS * COMMITS);
    assert_true(w.is_in_order);
    assert_true(w.is_alone);
    assert_int_equal(after.commits - before.commits, CLIENTS * COMMITS);
    assert_true(after.groups - before.groups < CLIENTS * COMMITS / 2);
    assert_int_equal(counted(&f), CLIENTS * COMMITS);
    fixture_reopen(&f);
    assert_int_equal(counted(&f), CLIENTS * COMMITS);
    fixture_release(&f);
}

/* The value of the collection's counter in a batch of the log, or -1. */
static int64_t count_in_batch(struct slice batch)
{
    struct kv_record r;
    int64_t found = -1;
    for (size_t at = 0; kv_batch_next(batch, &at, &r);)
        if (r.family == KV_META && slice_starts(r.key, "count/"))
            found = (int64_t)key_read_u64(r.value.ptr);
    return found;
}

/* A group writes a counter once, but whoever replays the log needs it after each commit. */
static void each_record_of_the_log_has_its_own_count(void **out)
{
    struct fixture f;
    struct kv_iter *it = NULL;
    struct kv_scan all = { .is_reverse = false };
    int64_t last = 0;
    (void)out;
    fixture_init(&f, true);
    make_collection(&f, "c", COLLECTION_DOCUMENT);
    run_clients(&f);
    OK_OR_FAIL(kv_iter_new(&it, f.store->kv, NULL, KV_LOG, &all, &f.err), &f.err);
    for (; kv_iter_valid(it); kv_iter_next(it)) {
        struct change_record record;
        assert_true(change_record_decode(kv_iter_key(it), kv_iter_value(it), &record));
        int64_t n = count_in_batch(record.batch);
        assert_true(n == -1 || n == last + 1);
        last = n == -1 ? last : n;
    }
    kv_iter_free(it);
    assert_int_equal(last, CLIENTS * COMMITS);
    fixture_release(&f);
}

/* Has the turn in the middle of each third commit until the thread wants it for an overdue sync. */
struct holder {
    struct commit_sink sink;
    struct committer *committer;
    uint64_t due_us; /* of the sync that the thread waits for; 0 = none was due */
    int step;
    unsigned held, overtaken;
};

enum { ROUNDS = 20, WANT_MS = 60000 };

static bool is_wanted(struct committer *c)
{
    pthread_mutex_lock(&c->lock);
    bool result = c->is_wanted;
    pthread_mutex_unlock(&c->lock);
    return result;
}

/* 0: leaves something unsynced; 1: keeps the turn until the thread asks; 2: who comes next? */
static enum errc hold_turn(void *ctx, uint64_t seq, struct slice batch, struct error *err)
{
    struct holder *h = ctx;
    struct committer *c = h->committer;
    (void)seq, (void)batch, (void)err;
    if (h->step == 1) {
        h->due_us = c->sync_due_us;
        for (int ms = 0; h->due_us && !is_wanted(c) && ms < WANT_MS; ms++)
            usleep(1000);
        h->held += is_wanted(c);
    } else if (h->step == 2) {
        h->overtaken += h->due_us && c->sync_due_us == h->due_us;
    }
    return OK;
}

/*
 * The caller asks for the turn again at once, before the thread could have woken up: the chore comes
 * first all the same, each time.
 */
static void a_chore_that_is_due_comes_before_the_next_group(void **out)
{
    struct fixture f;
    (void)out;
    fixture_init(&f, false);
    make_collection(&f, "c", COLLECTION_DOCUMENT);
    struct holder h = { .committer = f.store->committer };
    h.sink = (struct commit_sink){ .stage = hold_turn, .ctx = &h };
    store_add_sink(f.store, &h.sink);
    for (int i = 0; i < 3 * ROUNDS; i++) {
        char key[16];
        h.step = i % 3;
        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(insert_one(f.store, f.db, key, false), OK);
    }
    assert_true(h.held > 0); /* on a machine that stands still a sync may come before its time */
    assert_int_equal(h.overtaken, 0);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_caller_writes_itself),
        cmocka_unit_test(a_crowd_shares_groups_in_order),
        cmocka_unit_test(each_record_of_the_log_has_its_own_count),
        cmocka_unit_test(a_chore_that_is_due_comes_before_the_next_group),
    };
    return cmocka_run_group_tests_name("commit", tests, NULL, NULL);
}
