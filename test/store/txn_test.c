/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <pthread.h>

static int setup(void **out)
{
    struct fixture *f = calloc(1, sizeof *f);
    fixture_init(f, false);
    make_collection(f, "c", COLLECTION_DOCUMENT);
    *out = f;
    return 0;
}

static int teardown(void **out)
{
    fixture_release(*out);
    free(*out);
    return 0;
}

static enum errc insert(struct fixture *f, struct txn *t, const char *text)
{
    struct doc_change change;
    return doc_insert(t, in(f, t, "c"), json(f, text), NULL, f->arena, &change, &f->err);
}

static enum errc update(struct fixture *f, struct txn *t, const char *key, const char *text)
{
    struct doc_change change;
    return doc_update(t, in(f, t, "c"), slice_str(key), json(f, text), NULL, f->arena, &change,
                      &f->err);
}

static int64_t number(struct fixture *f, struct txn *t, const char *key)
{
    struct val doc;
    OK_OR_FAIL(doc_get(t, in(f, t, "c"), slice_str(key), f->arena, &doc, &f->err), &f->err);
    return val_int(val_get(doc, slice_str("n")));
}

static void readers_keep_their_view(void **out)
{
    struct fixture *f = *out;
    must_put(f, "c", "{\"_key\":\"a\",\"n\":1}");
    struct txn *old = begin(f, ISOLATION_SNAPSHOT);
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(update(f, t, "a", "{\"n\":2}"), &f->err);
    assert_int_equal(number(f, old, "a"), 1);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    assert_int_equal(txn_commit_seq(t), txn_view_seq(old) + 1);
    txn_end(t);
    assert_int_equal(number(f, old, "a"), 1);
    txn_end(old);
    t = begin(f, ISOLATION_SNAPSHOT);
    assert_int_equal(number(f, t, "a"), 2);
    txn_end(t);
}

static void the_first_committer_wins(void **out)
{
    struct fixture *f = *out;
    must_put(f, "c", "{\"_key\":\"a\",\"n\":1}");
    struct txn *one = begin(f, ISOLATION_SNAPSHOT), *two = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(update(f, one, "a", "{\"n\":2}"), &f->err);
    OK_OR_FAIL(update(f, two, "a", "{\"n\":3}"), &f->err);
    OK_OR_FAIL(txn_commit(one, &f->err), &f->err);
    assert_int_equal(txn_commit(two, &f->err), ERR_CONFLICT);
    assert_int_equal(error_num(&f->err), 1200);
    assert_true(errc_is_retryable(f->err.code));
    assert_non_null(strstr(f->err.text, "write-write conflict on document 'c/a';"));
    txn_end(one);
    txn_end(two);
    struct store_stats stats;
    store_stats(f->store, &stats);
    assert_int_equal(stats.conflicts, 1);
}

static void equal_inserts_conflict(void **out)
{
    struct fixture *f = *out;
    struct txn *one = begin(f, ISOLATION_SNAPSHOT), *two = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(insert(f, one, "{\"_key\":\"a\"}"), &f->err);
    OK_OR_FAIL(insert(f, two, "{\"_key\":\"a\"}"), &f->err);
    OK_OR_FAIL(txn_commit(two, &f->err), &f->err);
    assert_int_equal(txn_commit(one, &f->err), ERR_CONFLICT);
    txn_end(one);
    txn_end(two);
    assert_int_equal(count_of(f, "c"), 1);
}

/* Each reads both and writes one: allowed by snapshot isolation, refused by serializable. */
static void write_skew_needs_serializable(void **out)
{
    struct fixture *f = *out;
    must_put(f, "c", "{\"_key\":\"a\",\"n\":1}");
    must_put(f, "c", "{\"_key\":\"b\",\"n\":1}");
    for (int i = ISOLATION_SNAPSHOT; i <= ISOLATION_SERIALIZABLE; i++) {
        struct txn *one = begin(f, (enum isolation)i), *two = begin(f, (enum isolation)i);
        assert_int_equal(number(f, one, "b"), number(f, two, "a"));
        OK_OR_FAIL(update(f, one, "a", "{\"x\":0}"), &f->err);
        OK_OR_FAIL(update(f, two, "b", "{\"x\":0}"), &f->err);
        OK_OR_FAIL(txn_commit(one, &f->err), &f->err);
        enum errc rc = txn_commit(two, &f->err);
        assert_int_equal(rc, i == ISOLATION_SNAPSHOT ? OK : ERR_CONFLICT);
        if (rc != OK)
            assert_non_null(strstr(f->err.text, "read-write conflict on document 'c/a'"));
        txn_end(one);
        txn_end(two);
    }
}

static size_t walk(struct fixture *f, struct txn *t, size_t limit)
{
    struct doc_iter *it = NULL;
    struct val doc;
    size_t n = 0;
    OK_OR_FAIL(doc_iter_new(&it, t, in(f, t, "c"), &f->err), &f->err);
    while (n < limit && doc_iter_next(it, &doc))
        n++;
    OK_OR_FAIL(doc_iter_check(it, &f->err), &f->err);
    doc_iter_free(it);
    return n;
}

static void phantoms_are_refused_where_a_scan_went(void **out)
{
    struct fixture *f = *out;
    must_put(f, "c", "{\"_key\":\"a\",\"n\":1}");
    struct txn *t = begin(f, ISOLATION_SERIALIZABLE);
    assert_int_equal(walk(f, t, 100), 1);
    OK_OR_FAIL(insert(f, t, "{\"_key\":\"sum\"}"), &f->err);
    must_put(f, "c", "{\"_key\":\"phantom\"}");
    assert_int_equal(txn_commit(t, &f->err), ERR_CONFLICT);
    txn_end(t);

    t = begin(f, ISOLATION_SERIALIZABLE);
    uint64_t n;
    OK_OR_FAIL(doc_count(t, in(f, t, "c"), &n, &f->err), &f->err);
    assert_int_equal(n, 2);
    OK_OR_FAIL(insert(f, t, "{\"_key\":\"sum\"}"), &f->err);
    must_put(f, "c", "{\"_key\":\"phantom2\"}");
    assert_int_equal(txn_commit(t, &f->err), ERR_CONFLICT);
    txn_end(t);
}

static void only_the_walked_part_of_a_range_counts(void **out)
{
    struct fixture *f = *out;
    struct collection probe = { .type = COLLECTION_DOCUMENT };
    char text[64], last[16] = "";
    uint16_t high = 0;
    for (int i = 0; i < 50; i++) { /* the key with the highest slot comes last */
        snprintf(text, sizeof text, "{\"_key\":\"k%d\",\"n\":1}", i);
        must_put(f, "c", text);
        snprintf(text, sizeof text, "k%d", i);
        uint16_t slot = doc_slot(&probe, slice_str(text), slice_str(""));
        if (slot >= high) {
            high = slot;
            snprintf(last, sizeof last, "k%d", i);
        }
    }
    struct txn *t = begin(f, ISOLATION_SERIALIZABLE), *other = begin(f, ISOLATION_SNAPSHOT);
    assert_int_equal(walk(f, t, 1), 1);
    OK_OR_FAIL(insert(f, t, "{\"_key\":\"mine\"}"), &f->err);
    OK_OR_FAIL(update(f, other, last, "{\"n\":2}"), &f->err);
    OK_OR_FAIL(txn_commit(other, &f->err), &f->err);
    txn_end(other);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
}

/* A reader of a truncated collection may not commit behind the truncation. */
static void a_serializable_reader_notices_a_truncation(void **out)
{
    struct fixture *f = *out;
    must_put(f, "c", "{\"_key\":\"a\",\"n\":1}");
    make_collection(f, "d", COLLECTION_DOCUMENT);
    for (int i = ISOLATION_SNAPSHOT; i <= ISOLATION_SERIALIZABLE; i++) {
        struct doc_change change;
        struct txn *t = begin(f, (enum isolation)i);
        (void)walk(f, t, 100);
        OK_OR_FAIL(doc_insert(t, in(f, t, "d"), json(f, "{}"), NULL, f->arena, &change, &f->err),
                   &f->err);
        OK_OR_FAIL(store_truncate_collection(f->store, in(f, t, "c")->id, &f->err), &f->err);
        assert_int_equal(txn_commit(t, &f->err), i == ISOLATION_SNAPSHOT ? OK : ERR_CONFLICT);
        txn_end(t);
    }
}

static void read_only_transactions_never_fail_and_never_write(void **out)
{
    struct fixture *f = *out;
    struct txn *t = NULL;
    struct txn_options opt = { .isolation = ISOLATION_SERIALIZABLE, .is_read_only = true };
    must_put(f, "c", "{\"_key\":\"a\",\"n\":1}");
    OK_OR_FAIL(txn_begin(&t, f->store, &opt, &f->err), &f->err);
    assert_int_equal(number(f, t, "a"), 1);
    assert_int_equal(take(f, "c", "a"), OK);
    assert_int_equal(insert(f, t, "{}"), ERR_INVALID);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    assert_int_equal(txn_commit_seq(t), 0);
    txn_end(t);
}

static void a_transaction_has_a_size_limit(void **out)
{
    struct fixture *f = *out;
    struct txn *t = NULL;
    struct txn_options opt = { .max_bytes = 2000 };
    OK_OR_FAIL(txn_begin(&t, f->store, &opt, &f->err), &f->err);
    enum errc rc = OK;
    int n = 0;
    for (; rc == OK && n < 1000; n++)
        rc = insert(f, t, "{\"text\":\"0123456789012345678901234567890123456789\"}");
    assert_int_equal(rc, ERR_LIMIT);
    assert_in_range(n, 5, 50);
    txn_end(t);
    assert_int_equal(count_of(f, "c"), 0);
}

static void a_transaction_older_than_the_window_is_told_so(void **out)
{
    struct fixture *f = *out;
    struct fixture small;
    (void)f;
    memset(&small, 0, sizeof small);
    settings_init(&small.settings);
    small.settings.window_mb = 1;
    small.arena = arena_new(0);
    small.db = 1;
    fixture_open(&small);
    make_collection(&small, "c", COLLECTION_DOCUMENT);
    must_put(&small, "c", "{\"_key\":\"a\",\"n\":1}");
    struct txn *old = begin(&small, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(update(&small, old, "a", "{\"n\":2}"), &small.err);
    for (int i = 0; i < 40; i++) {
        struct txn *t = begin(&small, ISOLATION_SNAPSHOT);
        for (int j = 0; j < 1000; j++)
            OK_OR_FAIL(insert(&small, t, "{}"), &small.err);
        OK_OR_FAIL(txn_commit(t, &small.err), &small.err);
        txn_end(t);
    }
    assert_int_equal(txn_commit(old, &small.err), ERR_CONFLICT);
    assert_non_null(strstr(small.err.text, "older than the conflict window"));
    txn_end(old);
    struct store_stats stats;
    store_stats(small.store, &stats);
    assert_true(stats.window_bytes <= 2 * MIB);
    fixture_release(&small);
}

static void marks_undo_a_part(void **out)
{
    struct fixture *f = *out;
    struct slice value;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    struct slice key = slice_str("test/k");
    OK_OR_FAIL(txn_put(t, KV_META, key, slice_str("1"), &f->err), &f->err);
    size_t mark = txn_mark(t);
    OK_OR_FAIL(txn_put(t, KV_META, key, slice_str("2"), &f->err), &f->err);
    OK_OR_FAIL(txn_put(t, KV_META, slice_str("test/l"), slice_str("3"), &f->err), &f->err);
    OK_OR_FAIL(txn_delete(t, KV_META, key, &f->err), &f->err);
    assert_int_equal(txn_get(t, KV_META, key, f->arena, &value, &f->err), ERR_NOT_FOUND);
    txn_rewind(t, mark);
    OK_OR_FAIL(txn_get(t, KV_META, key, f->arena, &value, &f->err), &f->err);
    assert_true(slice_is(value, "1"));
    assert_int_equal(txn_get(t, KV_META, slice_str("test/l"), f->arena, &value, &f->err),
                     ERR_NOT_FOUND);
    txn_rewind(t, 0);
    assert_false(txn_has_writes(t));
    assert_int_equal(txn_write_bytes(t), 0);
    txn_end(t);
}

/* Own writes merged with the view, both ways, against a plain array. */
static void iterators_merge_own_writes(void **out)
{
    struct fixture *f = *out;
    enum { KEYS = 60 };
    int model[KEYS] = { 0 };
    char key[16], value[16];
    uint64_t seed = 7;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    for (int round = 0; round < 2; round++) {
        for (int step = 1; step < 60; step++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            int k = (int)((seed >> 33) % KEYS);
            model[k] = (seed >> 20) % 3 ? step + round * 100 : 0;
            snprintf(key, sizeof key, "m/%03d", k);
            snprintf(value, sizeof value, "%d", model[k]);
            if (model[k])
                OK_OR_FAIL(txn_put(t, KV_META, slice_str(key), slice_str(value), &f->err), &f->err);
            else
                OK_OR_FAIL(txn_delete(t, KV_META, slice_str(key), &f->err), &f->err);
        }
        if (round == 0) {
            OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
            txn_end(t);
            t = begin(f, ISOLATION_SNAPSHOT);
        }
    }
    for (int reverse = 0; reverse < 2; reverse++) {
        struct txn_iter *it = NULL;
        struct kv_scan scan = { .from = slice_str("m/010"),
                                .to = slice_str("m/050"),
                                .is_reverse = reverse };
        OK_OR_FAIL(txn_iter_new(&it, t, KV_META, &scan, &f->err), &f->err);
        for (int i = 10; i < 50; i++) {
            int k = reverse ? 59 - i : i;
            if (!model[k])
                continue;
            snprintf(key, sizeof key, "m/%03d", k);
            snprintf(value, sizeof value, "%d", model[k]);
            assert_true(txn_iter_valid(it));
            assert_true(slice_is(txn_iter_key(it), key));
            assert_true(slice_is(txn_iter_value(it), value));
            txn_iter_next(it);
        }
        assert_false(txn_iter_valid(it));
        txn_iter_free(it);
    }
    txn_end(t);
}

/* ---- threads ---- */

enum { THREADS = 8, ACCOUNTS = 10, TRANSFERS = 60 };

struct bank {
    struct fixture *f;
    enum isolation isolation;
    int number;
    long committed, conflicts;
};

static int64_t balance(struct txn *t, const struct collection *c, struct arena *arena, int account,
                       enum errc *rc, struct error *err)
{
    char key[16];
    struct val doc;
    snprintf(key, sizeof key, "%d", account);
    *rc = doc_get(t, c, slice_str(key), arena, &doc, err);
    return *rc == OK ? val_int(val_get(doc, slice_str("n"))) : 0;
}

static enum errc set_balance(struct txn *t, const struct collection *c, struct arena *arena,
                             int account, int64_t n, struct error *err)
{
    char key[16];
    struct doc_change change;
    struct slice name = slice_str("n");
    struct val value = val_new_int(arena, n), patch = val_new_object(arena, &name, &value, 1);
    snprintf(key, sizeof key, "%d", account);
    return doc_update(t, c, slice_str(key), patch, NULL, arena, &change, err);
}

static enum errc transfer(struct bank *b, struct arena *arena, uint64_t random, struct error *err)
{
    struct txn *t = NULL;
    enum errc rc =
        txn_begin(&t, b->f->store, &(struct txn_options){ .isolation = b->isolation }, err);
    if (rc != OK)
        return rc;
    const struct collection *c = catalog_collection(txn_catalog(t), 1, slice_str("c"));
    int64_t sum = 0, n[ACCOUNTS];
    for (int i = 0; rc == OK && i < ACCOUNTS; i++)
        sum += n[i] = balance(t, c, arena, i, &rc, err);
    if (rc == OK && sum != ACCOUNTS * 100)
        rc = fail_num(err, 4, "a view shows a sum of %ld", (long)sum);
    int from = (int)(random % ACCOUNTS), to = (int)(random / ACCOUNTS % ACCOUNTS);
    if (rc == OK && from != to) {
        rc = set_balance(t, c, arena, from, n[from] - 1, err);
        if (rc == OK)
            rc = set_balance(t, c, arena, to, n[to] + 1, err);
        if (rc == OK)
            rc = txn_commit(t, err);
    }
    txn_end(t);
    return rc;
}

static void *client(void *arg)
{
    struct bank *b = arg;
    uint64_t seed = (uint64_t)b->number + 1;
    for (int i = 0; i < TRANSFERS; i++) {
        struct arena *arena = arena_new(0);
        struct error err;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        enum errc rc = transfer(b, arena, seed >> 33, &err);
        arena_free(arena);
        if (rc == OK)
            b->committed++;
        else if (rc == ERR_CONFLICT)
            b->conflicts++;
        else
            return (void *)1;
    }
    return NULL;
}

static void money_is_neither_made_nor_lost(void **out)
{
    struct fixture *f = *out;
    char text[48];
    for (int i = 0; i < ACCOUNTS; i++) {
        snprintf(text, sizeof text, "{\"_key\":\"%d\",\"n\":100}", i);
        must_put(f, "c", text);
    }
    for (int isolation = ISOLATION_SNAPSHOT; isolation <= ISOLATION_SERIALIZABLE; isolation++) {
        struct bank banks[THREADS];
        pthread_t threads[THREADS];
        long committed = 0;
        for (int i = 0; i < THREADS; i++) {
            banks[i] = (struct bank){ f, (enum isolation)isolation, i, 0, 0 };
            assert_int_equal(pthread_create(&threads[i], NULL, client, &banks[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            void *bad;
            pthread_join(threads[i], &bad);
            assert_null(bad);
            committed += banks[i].committed;
        }
        assert_true(committed > 0);
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        int64_t sum = 0;
        for (int i = 0; i < ACCOUNTS; i++) {
            enum errc rc;
            sum += balance(t, in(f, t, "c"), f->arena, i, &rc, &f->err);
            assert_int_equal(rc, OK);
        }
        assert_int_equal(sum, ACCOUNTS * 100);
        txn_end(t);
    }
}

/*
 * Serializable list-append: each transaction reads the list's length by count
 * and inserts the document with that number. Without phantoms the numbers are
 * dense and each is given once.
 */
static void *appender(void *arg)
{
    struct bank *b = arg;
    while (b->committed < 20) {
        struct arena *arena = arena_new(0);
        struct error err;
        struct txn *t = NULL;
        struct doc_change change;
        uint64_t n = 0;
        enum errc rc = txn_begin(
            &t, b->f->store, &(struct txn_options){ .isolation = ISOLATION_SERIALIZABLE }, &err);
        const struct collection *c = catalog_collection(txn_catalog(t), 1, slice_str("c"));
        if (rc == OK)
            rc = doc_count(t, c, &n, &err);
        struct slice name = slice_str("n");
        struct val value = val_new_int(arena, (int64_t)n);
        if (rc == OK)
            rc = doc_insert(t, c, val_new_object(arena, &name, &value, 1), NULL, arena, &change,
                            &err);
        if (rc == OK)
            rc = txn_commit(t, &err);
        txn_end(t);
        arena_free(arena);
        b->committed += rc == OK;
        if (rc != OK && rc != ERR_CONFLICT)
            return (void *)1;
    }
    return NULL;
}

static void appended_numbers_are_dense(void **out)
{
    struct fixture *f = *out;
    struct bank banks[THREADS];
    pthread_t threads[THREADS];
    bool seen[THREADS * 20] = { false };
    for (int i = 0; i < THREADS; i++) {
        banks[i] = (struct bank){ f, ISOLATION_SERIALIZABLE, i, 0, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, appender, &banks[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    struct doc_iter *it = NULL;
    struct val doc;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(doc_iter_new(&it, t, in(f, t, "c"), &f->err), &f->err);
    while (doc_iter_next(it, &doc)) {
        int64_t n = val_int(val_get(doc, slice_str("n")));
        assert_in_range(n, 0, THREADS * 20 - 1);
        assert_false(seen[n]);
        seen[n] = true;
    }
    doc_iter_free(it);
    txn_end(t);
    assert_int_equal(count_of(f, "c"), THREADS * 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- scopes ---- */

static uint64_t id_of(struct fixture *f, const char *name)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    uint64_t id = in(f, t, name)->id;
    txn_end(t);
    return id;
}

static struct txn *begin_in(struct fixture *f, const struct txn_scope *scope)
{
    struct txn *t = NULL;
    struct txn_options opt = { .scope = scope };
    OK_OR_FAIL(txn_begin(&t, f->store, &opt, &f->err), &f->err);
    return t;
}

static void a_scope_names_what_may_be_used(void **out)
{
    struct fixture *f = *out;
    uint64_t c = id_of(f, "c"), other = make_collection(f, "other", COLLECTION_DOCUMENT);
    struct doc_change change;
    struct val doc;
    uint64_t n;
    must_put(f, "other", "{\"_key\":\"x\"}");
    struct txn_scope scope = { .write = &c, .write_count = 1 };
    struct txn *t = begin_in(f, &scope);
    OK_OR_FAIL(insert(f, t, "{\"_key\":\"a\"}"), &f->err);
    OK_OR_FAIL(doc_get(t, in(f, t, "c"), slice_str("a"), f->arena, &doc, &f->err), &f->err);
    assert_int_equal(doc_get(t, in(f, t, "other"), slice_str("x"), f->arena, &doc, &f->err),
                     ERR_INVALID);
    assert_int_equal(error_num(&f->err), 1652);
    assert_non_null(strstr(f->err.text, "'other' was not declared for reading"));
    assert_int_equal(doc_count(t, in(f, t, "other"), &n, &f->err), ERR_INVALID);
    scope.reads_any = true;
    OK_OR_FAIL(doc_count(t, in(f, t, "other"), &n, &f->err), &f->err);
    assert_int_equal(
        doc_remove(t, in(f, t, "other"), slice_str("x"), NULL, f->arena, &change, &f->err),
        ERR_INVALID);
    assert_non_null(strstr(f->err.text, "for writing"));
    scope.reads_any = false;
    scope.read = &other;
    scope.read_count = 1;
    OK_OR_FAIL(doc_count(t, in(f, t, "other"), &n, &f->err), &f->err);
    assert_int_equal(doc_remove_all(t, in(f, t, "other"), &f->err), ERR_INVALID);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    assert_int_equal(count_of(f, "c"), 1);
    assert_int_equal(count_of(f, "other"), 1);
}

static void a_claim_conflicts_with_any_other_writer(void **out)
{
    struct fixture *f = *out;
    for (int claims = 0; claims <= 1; claims++) {
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        if (claims)
            OK_OR_FAIL(txn_claim(t, in(f, t, "c"), &f->err), &f->err);
        OK_OR_FAIL(insert(f, t, "{}"), &f->err);
        must_put(f, "c", "{}");
        assert_int_equal(txn_commit(t, &f->err), claims ? ERR_CONFLICT : OK);
        txn_end(t);
    }
}

static void all_documents_can_be_removed_inside(void **out)
{
    struct fixture *f = *out;
    for (int i = 0; i < 100; i++)
        must_put(f, "c", "{\"n\":1}");
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    uint64_t n;
    OK_OR_FAIL(insert(f, t, "{\"_key\":\"own\"}"), &f->err);
    OK_OR_FAIL(doc_remove_all(t, in(f, t, "c"), &f->err), &f->err);
    OK_OR_FAIL(doc_count(t, in(f, t, "c"), &n, &f->err), &f->err);
    assert_int_equal(n, 0);
    OK_OR_FAIL(insert(f, t, "{\"_key\":\"after\"}"), &f->err);
    assert_int_equal(count_of(f, "c"), 100);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    assert_int_equal(count_of(f, "c"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(readers_keep_their_view),
        TEST(the_first_committer_wins),
        TEST(equal_inserts_conflict),
        TEST(write_skew_needs_serializable),
        TEST(phantoms_are_refused_where_a_scan_went),
        TEST(only_the_walked_part_of_a_range_counts),
        TEST(a_serializable_reader_notices_a_truncation),
        TEST(read_only_transactions_never_fail_and_never_write),
        TEST(a_transaction_has_a_size_limit),
        TEST(a_transaction_older_than_the_window_is_told_so),
        TEST(marks_undo_a_part),
        TEST(iterators_merge_own_writes),
        TEST(money_is_neither_made_nor_lost),
        TEST(appended_numbers_are_dense),
        TEST(a_scope_names_what_may_be_used),
        TEST(a_claim_conflicts_with_any_other_writer),
        TEST(all_documents_can_be_removed_inside),
    };
    return cmocka_run_group_tests_name("txn", tests, NULL, NULL);
}
