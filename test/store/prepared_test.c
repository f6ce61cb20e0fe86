/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local half of two-phase commit: what a prepared transaction keeps others
 * from, what its decision does, and that both survive kill -9.
 */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/key.h"
#include "store/prepared.h"

enum { CRASH_ROUNDS = 8, WRITERS = 3 };

static int setup(void **out)
{
    struct fixture *f = calloc(1, sizeof *f);
    fixture_init(f, true);
    f->settings.prepared_wait_ms = 200;
    fixture_reopen(f);
    make_index(f, make_collection(f, "c", COLLECTION_DOCUMENT),
               "{\"type\":\"persistent\",\"fields\":[\"n\"]}");
    make_collection(f, "other", COLLECTION_DOCUMENT);
    must_put(f, "c", "{\"_key\":\"a\",\"n\":1}");
    must_put(f, "c", "{\"_key\":\"b\",\"n\":2}");
    *out = f;
    return 0;
}

static int teardown(void **out)
{
    fixture_release(*out);
    free(*out);
    return 0;
}

static void set(struct fixture *f, struct txn *t, const char *key, int64_t n)
{
    char text[80];
    struct doc_change change;
    struct doc_options over = { .overwrite = OVERWRITE_REPLACE };
    snprintf(text, sizeof text, "{\"_key\":\"%s\",\"n\":%lld}", key, (long long)n);
    OK_OR_FAIL(doc_insert(t, in(f, t, "c"), json(f, text), &over, f->arena, &change, &f->err),
               &f->err);
}

/* The number in the document; -1 when there is none. */
static enum errc get(struct fixture *f, struct txn *t, const char *key, int64_t *n)
{
    struct val doc;
    enum errc rc = doc_get(t, in(f, t, "c"), slice_str(key), f->arena, &doc, &f->err);
    *n = rc == OK ? val_int(val_get(doc, slice_str("n"))) : -1;
    return rc == ERR_NOT_FOUND ? OK : rc;
}

static int64_t now(struct fixture *f, const char *key)
{
    int64_t n;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    OK_OR_FAIL(get(f, t, key, &n), &f->err);
    txn_end(t);
    return n;
}

static enum errc try_set(struct fixture *f, const char *key, int64_t n)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    char text[80];
    struct doc_change change;
    struct doc_options over = { .overwrite = OVERWRITE_REPLACE };
    snprintf(text, sizeof text, "{\"_key\":\"%s\",\"n\":%lld}", key, (long long)n);
    enum errc rc = doc_insert(t, in(f, t, "c"), json(f, text), &over, f->arena, &change, &f->err);
    if (rc == OK)
        rc = txn_commit(t, &f->err);
    txn_end(t);
    return rc;
}

/* Reads `from`, writes key = n, and is prepared under the name. */
static enum errc prepare(struct fixture *f, const char *name, const char *from, const char *key,
                         int64_t n)
{
    int64_t seen;
    struct txn *t = begin(f, ISOLATION_SERIALIZABLE);
    if (from)
        OK_OR_FAIL(get(f, t, from, &seen), &f->err);
    if (key)
        set(f, t, key, n);
    enum errc rc = txn_prepare(t, slice_str(name), &f->err);
    txn_end(t);
    return rc;
}

static enum errc resolve(struct fixture *f, const char *name, bool is_commit)
{
    return txn_resolve(f->store, slice_str(name), is_commit, NULL, &f->err);
}

static size_t prepared_count(struct fixture *f)
{
    return txn_prepared(f->store, NULL, 0);
}

/* Documents with this n, through the index. */
static size_t indexed(struct fixture *f, int64_t n)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const struct collection *c = in(f, t, "c");
    struct index_iter *it = NULL;
    struct slice key;
    size_t found = 0;
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)n);
    struct val v = json(f, text);
    struct index_range range = { .equal = &v, .equal_count = 1 };
    OK_OR_FAIL(index_scan(&it, t, c, &c->indexes[1], &range, &f->err), &f->err);
    while (index_iter_next(it, &key))
        found++;
    OK_OR_FAIL(index_iter_check(it, &f->err), &f->err);
    index_iter_free(it);
    txn_end(t);
    return found;
}

/* ---- what it keeps others from ---- */

static void writers_of_what_it_read_or_writes_are_refused(void **out)
{
    struct fixture *f = *out;
    struct txn *older = begin(f, ISOLATION_SNAPSHOT);
    set(f, older, "b", 3);
    OK_OR_FAIL(prepare(f, "t1", "a", "b", 20), &f->err);
    assert_int_equal(txn_commit(older, &f->err), ERR_CONFLICT);
    assert_int_equal(error_num(&f->err), 1200);
    assert_non_null(strstr(f->err.text, "prepared transaction 't1'"));
    assert_non_null(strstr(f->err.text, "'c/b'"));
    txn_end(older);
    assert_int_equal(try_set(f, "a", 3), ERR_CONFLICT);
    assert_non_null(strstr(f->err.text, "'c/a'"));
    assert_int_equal(try_set(f, "b", 3), ERR_CONFLICT); /* has to read it, which waits */
    assert_non_null(strstr(f->err.text, "undecided"));
    OK_OR_FAIL(try_set(f, "free", 3), &f->err);
    OK_OR_FAIL(resolve(f, "t1", true), &f->err);
    assert_int_equal(now(f, "b"), 20);
    OK_OR_FAIL(try_set(f, "a", 3), &f->err);
    OK_OR_FAIL(try_set(f, "b", 4), &f->err);
}

static void phantoms_are_refused(void **out)
{
    struct fixture *f = *out;
    struct doc_iter *it = NULL;
    struct val doc;
    struct txn *t = begin(f, ISOLATION_SERIALIZABLE);
    size_t rows = 0;
    OK_OR_FAIL(doc_iter_new(&it, t, in(f, t, "c"), &f->err), &f->err);
    while (doc_iter_next(it, &doc))
        rows++;
    doc_iter_free(it);
    assert_int_equal(rows, 2);
    OK_OR_FAIL(txn_prepare(t, slice_str("scan"), &f->err), &f->err);
    txn_end(t);
    assert_int_equal(try_set(f, "new", 1), ERR_CONFLICT);
    OK_OR_FAIL(put(f, "other", "{\"_key\":\"x\"}"), &f->err);
    fixture_reopen(f);
    assert_int_equal(try_set(f, "new", 1), ERR_CONFLICT);
    OK_OR_FAIL(resolve(f, "scan", true), &f->err);
    OK_OR_FAIL(try_set(f, "new", 1), &f->err);
}

static void an_abort_changes_nothing(void **out)
{
    struct fixture *f = *out;
    OK_OR_FAIL(prepare(f, "t1", NULL, "new", 7), &f->err);
    OK_OR_FAIL(resolve(f, "t1", false), &f->err);
    assert_int_equal(now(f, "new"), -1);
    assert_int_equal(count_of(f, "c"), 2);
    assert_int_equal(indexed(f, 7), 0);
    OK_OR_FAIL(try_set(f, "new", 8), &f->err);
}

/* One reads a and writes b, the other the reverse: a cycle over two stores would fit in between. */
static void two_that_would_see_each_other_are_not_both_prepared(void **out)
{
    struct fixture *f = *out;
    int64_t seen;
    struct txn *reader = begin(f, ISOLATION_SERIALIZABLE);
    OK_OR_FAIL(get(f, reader, "b", &seen), &f->err);
    set(f, reader, "unrelated", 1);
    struct txn *second = begin(f, ISOLATION_SNAPSHOT);
    set(f, second, "b", 4);
    OK_OR_FAIL(prepare(f, "writer", NULL, "b", 3), &f->err);
    assert_int_equal(txn_prepare(reader, slice_str("reader"), &f->err), ERR_CONFLICT);
    assert_non_null(strstr(f->err.text, "prepared transaction 'writer'"));
    txn_end(reader);
    assert_int_equal(txn_prepare(second, slice_str("second"), &f->err), ERR_CONFLICT);
    txn_end(second);
    assert_int_equal(prepared_count(f), 1);
}

static void a_loser_is_not_prepared(void **out)
{
    struct fixture *f = *out;
    struct txn *t = begin(f, ISOLATION_SERIALIZABLE);
    set(f, t, "a", 5);
    OK_OR_FAIL(try_set(f, "a", 6), &f->err);
    assert_int_equal(txn_prepare(t, slice_str("late"), &f->err), ERR_CONFLICT);
    txn_end(t);
    assert_int_equal(prepared_count(f), 0);
    OK_OR_FAIL(try_set(f, "a", 7), &f->err);
}

static void the_collection_stays_as_it_is(void **out)
{
    struct fixture *f = *out;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    uint64_t c = in(f, t, "c")->id, id;
    bool is_new;
    txn_end(t);
    OK_OR_FAIL(prepare(f, "t1", NULL, "new", 7), &f->err);
    assert_int_equal(store_truncate_collection(f->store, c, &f->err), ERR_CONFLICT);
    assert_int_equal(store_drop_collection(f->store, f->db, c, &f->err), ERR_CONFLICT);
    struct val def = json(f, "{\"type\":\"persistent\",\"fields\":[\"m\"]}");
    assert_int_equal(store_create_index(f->store, c, def, &id, &is_new, &f->err), ERR_CONFLICT);
    OK_OR_FAIL(resolve(f, "t1", true), &f->err);
    OK_OR_FAIL(store_truncate_collection(f->store, c, &f->err), &f->err);
    assert_int_equal(count_of(f, "c"), 0);
}

/* ---- readers ---- */

struct decision {
    struct fixture *f;
    bool is_commit;
    struct error err;
};

static void *decide_later(void *arg)
{
    struct decision *d = arg;
    usleep(50 * 1000);
    return txn_resolve(d->f->store, slice_str("t1"), d->is_commit, NULL, &d->err) == OK ? d : NULL;
}

static void newer_readers_wait_for_the_decision(void **out)
{
    struct fixture *f = *out;
    for (int is_commit = 0; is_commit <= 1; is_commit++) {
        int64_t n;
        void *is_done;
        pthread_t thread;
        struct decision d = { .f = f, .is_commit = is_commit };
        struct txn *older = begin(f, ISOLATION_SNAPSHOT);
        OK_OR_FAIL(prepare(f, "t1", NULL, "b", 20), &f->err);
        struct txn *newer = begin(f, ISOLATION_SNAPSHOT);
        assert_int_equal(pthread_create(&thread, NULL, decide_later, &d), 0);
        OK_OR_FAIL(get(f, older, "b", &n), &f->err); /* at once */
        assert_int_equal(n, 2);
        assert_int_equal(prepared_count(f), 1);
        OK_OR_FAIL(get(f, newer, "a", &n), &f->err);
        enum errc rc = get(f, newer, "b", &n);
        assert_int_equal(prepared_count(f), 0);
        assert_int_equal(rc, is_commit ? ERR_CONFLICT : OK);
        assert_int_equal(n, is_commit ? -1 : 2);
        pthread_join(thread, &is_done);
        assert_non_null(is_done);
        txn_end(older);
        txn_end(newer);
    }
    assert_int_equal(now(f, "b"), 20);
}

static void scans_and_counts_wait_too(void **out)
{
    struct fixture *f = *out;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        uint64_t n;
        char key[8];
        struct doc_iter *it = NULL;
        struct decision d = { .f = f, .is_commit = true };
        snprintf(key, sizeof key, "new%d", i);
        OK_OR_FAIL(prepare(f, "t1", NULL, key, 20), &f->err);
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        assert_int_equal(pthread_create(&thread, NULL, decide_later, &d), 0);
        if (i == 0)
            assert_int_equal(doc_count(t, in(f, t, "c"), &n, &f->err), ERR_CONFLICT);
        else
            assert_int_equal(doc_iter_new(&it, t, in(f, t, "c"), &f->err), ERR_CONFLICT);
        pthread_join(thread, NULL);
        txn_end(t);
    }
    assert_int_equal(count_of(f, "c"), 4);
}

/* ---- restart, names ---- */

static void it_survives_a_restart(void **out)
{
    struct fixture *f = *out;
    struct prepared_info info[2];
    OK_OR_FAIL(prepare(f, "keep", "a", "new", 7), &f->err);
    OK_OR_FAIL(prepare(f, "drop", NULL, "gone", 9), &f->err);
    fixture_reopen(f);
    assert_int_equal(txn_prepared(f->store, info, 2), 2);
    assert_int_equal(info[0].name_len, 4);
    assert_int_equal(try_set(f, "a", 3), ERR_CONFLICT);
    assert_int_equal(try_set(f, "new", 3), ERR_CONFLICT);
    OK_OR_FAIL(resolve(f, "keep", true), &f->err);
    OK_OR_FAIL(resolve(f, "drop", false), &f->err);
    fixture_reopen(f);
    assert_int_equal(prepared_count(f), 0);
    assert_int_equal(now(f, "new"), 7);
    assert_int_equal(now(f, "gone"), -1);
    assert_int_equal(count_of(f, "c"), 3);
    assert_int_equal(indexed(f, 7), 1);
    assert_int_equal(indexed(f, 9), 0);
}

static void names_are_checked(void **out)
{
    struct fixture *f = *out;
    char longest[PREPARED_NAME_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[PREPARED_NAME_MAX + 1] = 0;
    assert_int_equal(prepare(f, "", NULL, "x", 1), ERR_INVALID);
    assert_int_equal(prepare(f, longest, NULL, "x", 1), ERR_INVALID);
    OK_OR_FAIL(prepare(f, longest + 1, NULL, "x", 1), &f->err);
    OK_OR_FAIL(prepare(f, "t1", NULL, "y", 1), &f->err);
    assert_int_equal(prepare(f, "t1", NULL, "z", 1), ERR_EXISTS);
    assert_int_equal(resolve(f, "t2", true), ERR_NOT_FOUND);
    OK_OR_FAIL(resolve(f, "t1", true), &f->err);
    assert_int_equal(resolve(f, "t1", true), ERR_NOT_FOUND);
    assert_non_null(strstr(f->err.text, "'t1'"));
    OK_OR_FAIL(resolve(f, longest + 1, false), &f->err);

    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    set(f, t, "w", 1);
    OK_OR_FAIL(txn_prepare(t, slice_str("t3"), &f->err), &f->err);
    assert_int_equal(txn_commit(t, &f->err), ERR_INVALID);
    assert_int_equal(txn_prepare(t, slice_str("t4"), &f->err), ERR_INVALID);
    txn_end(t);
    OK_OR_FAIL(prepare(f, "reads only", "a", NULL, 0), &f->err);
    assert_int_equal(try_set(f, "a", 2), ERR_CONFLICT);
    OK_OR_FAIL(resolve(f, "reads only", true), &f->err);
    OK_OR_FAIL(try_set(f, "a", 2), &f->err);
}

static void their_number_is_limited(void **out)
{
    struct fixture *f = *out;
    char name[16], key[16];
    for (int i = 0; i < PREPARED_MAX; i++) {
        snprintf(name, sizeof name, "t%d", i);
        snprintf(key, sizeof key, "k%d", i);
        OK_OR_FAIL(prepare(f, name, NULL, key, i), &f->err);
    }
    assert_int_equal(prepare(f, "more", NULL, "more", 1), ERR_LIMIT);
    OK_OR_FAIL(resolve(f, "t5", true), &f->err);
    OK_OR_FAIL(prepare(f, "more", NULL, "more", 1), &f->err);
}

/* ---- records ---- */

static uint64_t seed = 42;

static uint64_t chance(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static struct slice some_key(char *out)
{
    size_t len = 1 + chance(6);
    for (size_t i = 0; i < len; i++)
        out[i] = (char)('a' + chance(3));
    return slice_of(out, len);
}

static struct read_set *some_set(void)
{
    struct read_set *r = read_set_new();
    char a[8], b[8];
    for (uint64_t n = chance(60); n; n--)
        read_set_add_key(r, (enum kv_family)chance(3), some_key(a));
    for (uint64_t n = chance(4); n; n--) {
        struct slice from = some_key(a), to = some_key(b);
        if (slice_cmp(from, to) < 0)
            read_set_add_range(r, (enum kv_family)chance(3), from,
                               chance(5) ? to : slice_of("", 0));
    }
    read_set_seal(r);
    return r;
}

static void a_guard_reads_back_as_it_was(void **out)
{
    (void)out;
    for (int round = 0; round < 200; round++) {
        struct read_set *r = some_set(), *again = NULL;
        struct buf bytes;
        buf_init(&bytes, 0);
        read_set_encode(r, &bytes);
        struct slice rest = buf_slice(&bytes);
        assert_true(read_set_decode(&again, &rest));
        assert_int_equal(rest.len, 0);
        for (int i = 0; i < 100; i++) {
            char key[8];
            struct slice k = some_key(key);
            enum kv_family f = (enum kv_family)chance(3);
            assert_int_equal(read_set_holds(r, f, k), read_set_holds(again, f, k));
        }
        read_set_free(r);
        read_set_free(again);
        buf_release(&bytes);
    }
}

static void damaged_records_are_refused(void **out)
{
    (void)out;
    struct read_set *guard = some_set();
    struct counter_change counter = { .kind = COUNTER_DOCUMENTS, .id = 7, .value = -3 };
    struct kv_batch batch;
    struct buf bytes;
    struct prepared_record r;
    struct error err;
    kv_batch_init(&batch);
    kv_batch_add(&batch, &(struct kv_record){ .op = KV_PUT,
                                              .family = KV_DOC,
                                              .key = slice_str("key"),
                                              .value = slice_str("value") });
    buf_init(&bytes, 0);
    prepared_encode(&bytes, 1, guard, &counter, 1, buf_slice(&batch.bytes));
    struct slice whole = buf_slice(&bytes);
    size_t without_writes = whole.len - batch.bytes.len;
    for (size_t len = 0; len <= whole.len; len++) {
        char *cut = malloc(len + 1); /* so that reading too far is seen */
        memcpy(cut, whole.ptr, len);
        enum errc rc = prepared_decode(&r, slice_of(cut, len), &err);
        assert_int_equal(rc, len == whole.len || len == without_writes ? OK : ERR_CORRUPT);
        prepared_record_release(&r);
        free(cut);
    }
    for (int i = 0; i < 20000; i++) {
        char *flipped = malloc(whole.len);
        memcpy(flipped, whole.ptr, whole.len);
        flipped[chance(whole.len)] ^= (char)(1 + chance(255));
        if (prepared_decode(&r, slice_of(flipped, whole.len), &err) == OK)
            prepared_record_release(&r);
        free(flipped);
    }
    kv_batch_release(&batch);
    buf_release(&bytes);
    read_set_free(guard);
}

/* ---- kill -9 ---- */

/* The n-th transaction of a writer writes document w<writer>-<n>; every third is aborted. */
struct ledger {
    _Atomic uint64_t tried[WRITERS], prepared[WRITERS], resolved[WRITERS];
};

static struct ledger *ledger;

static int64_t value_of(int writer, uint64_t n)
{
    return (int64_t)n * 10 + writer + 100;
}

static void name_of(char out[32], int writer, uint64_t n)
{
    snprintf(out, 32, "w%d-%llu", writer, (unsigned long long)n);
}

struct writer {
    struct fixture *f;
    int number;
};

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    struct fixture own = *w->f; /* arena and error of its own */
    own.arena = arena_new(0);
    struct arena_mark start = arena_mark(own.arena);
    for (uint64_t n = ledger->tried[w->number] + 1;; n++) {
        char name[32];
        name_of(name, w->number, n);
        ledger->tried[w->number] = n;
        if (prepare(&own, name, NULL, name, value_of(w->number, n)) != OK)
            _exit(1);
        ledger->prepared[w->number] = n;
        if (resolve(&own, name, n % 3 != 0) != OK)
            _exit(1);
        ledger->resolved[w->number] = n;
        arena_rewind(own.arena, start);
    }
    return NULL;
}

static void victim(struct fixture *f)
{
    pthread_t threads[WRITERS];
    struct writer writers[WRITERS];
    fixture_open(f);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){ f, i };
        pthread_create(&threads[i], NULL, writer_main, &writers[i]);
    }
    pause();
    _exit(1);
}

static bool is_prepared(struct fixture *f, const char *name)
{
    struct prepared_info info[WRITERS];
    size_t n = txn_prepared(f->store, info, WRITERS);
    assert_true(n <= WRITERS);
    for (size_t i = 0; i < n; i++)
        if (slice_is(slice_of(info[i].name, info[i].name_len), name))
            return true;
    return false;
}

static void check_writer(struct fixture *f, int writer)
{
    uint64_t tried = ledger->tried[writer], prepared = ledger->prepared[writer],
             resolved = ledger->resolved[writer];
    char name[32];
    for (uint64_t n = 1; n <= resolved; n++) {
        name_of(name, writer, n);
        assert_int_equal(now(f, name), n % 3 ? value_of(writer, n) : -1);
        assert_false(is_prepared(f, name));
    }
    if (tried == resolved)
        return;
    name_of(name, writer, tried); /* the one that was under way */
    if (is_prepared(f, name)) {
        assert_int_equal(try_set(f, name, -5), ERR_CONFLICT);
        OK_OR_FAIL(resolve(f, name, tried % 3 != 0), &f->err);
    } else if (prepared == tried) { /* acknowledged: must have been resolved */
        assert_int_equal(now(f, name), tried % 3 ? value_of(writer, tried) : -1);
    }
    ledger->resolved[writer] = ledger->prepared[writer] = tried;
    if (tried % 3 && now(f, name) == -1) /* died before it was prepared: do it now */
        OK_OR_FAIL(try_set(f, name, value_of(writer, tried)), &f->err);
}

static uint64_t expected_count(void)
{
    uint64_t n = 2; /* a and b */
    for (int i = 0; i < WRITERS; i++)
        n += ledger->resolved[i] - ledger->resolved[i] / 3;
    return n;
}

static void nothing_promised_is_lost_by_kill(void **out)
{
    struct fixture *f = *out;
#ifdef __SANITIZE_THREAD__
    skip(); /* it does not know threads of a forked child */
#endif
    ledger = mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(ledger != MAP_FAILED);
    for (int round = 0; round < CRASH_ROUNDS; round++) {
        int status;
        store_close(f->store);
        f->store = NULL;
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child)
            victim(f);
        usleep((useconds_t)(100 + chance(200)) * 1000);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        fixture_open(f);
        for (int i = 0; i < WRITERS; i++)
            check_writer(f, i);
        assert_int_equal(prepared_count(f), 0);
        assert_int_equal(count_of(f, "c"), expected_count());
        assert_int_equal(indexed(f, value_of(0, ledger->resolved[0])),
                         ledger->resolved[0] % 3 ? 1 : 0);
    }
    munmap(ledger, sizeof *ledger);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(writers_of_what_it_read_or_writes_are_refused),
        T(phantoms_are_refused),
        T(an_abort_changes_nothing),
        T(two_that_would_see_each_other_are_not_both_prepared),
        T(a_loser_is_not_prepared),
        T(the_collection_stays_as_it_is),
        T(newer_readers_wait_for_the_decision),
        T(scans_and_counts_wait_too),
        T(it_survives_a_restart),
        T(names_are_checked),
        T(their_number_is_limited),
        cmocka_unit_test(a_guard_reads_back_as_it_was),
        cmocka_unit_test(damaged_records_are_refused),
        T(nothing_promised_is_lost_by_kill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
