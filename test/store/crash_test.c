/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 against writers, with a ledger in shared memory that outlives them.
 * Each transaction adds a document and an edge, moves a counter and removes an
 * old pair. After each death: counters lie between acknowledged and tried,
 * documents, counts and index entries agree, and the log ends where they say.
 *
 * THEMIS_CRASH_ROUNDS sets the rounds (default 10); every fifth dies while or
 * right after it opens.
 */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { WRITERS = 4, KEPT = 50 };

struct ledger {
    _Atomic uint64_t tried[WRITERS], acknowledged[WRITERS];
};

static struct ledger *ledger;
static struct fixture fixture;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, fixture.err.text);          \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void open_store(void)
{
    struct store_options opt = { .path = fixture.path, .settings = &fixture.settings };
    CHECK(store_open(&fixture.store, &opt, &fixture.err) == OK);
}

/* ---- the victim ---- */

struct step {
    struct txn *txn;
    const struct collection *docs, *edges;
    struct arena *arena;
    int writer;
    struct error err;
};

static struct val parse(struct step *s, const char *text)
{
    struct val v;
    CHECK(val_parse(slice_str(text), s->arena, &v, &s->err) == OK);
    return v;
}

static uint64_t counter(struct txn *t, const struct collection *c, struct arena *arena, int writer)
{
    char key[16];
    struct val doc;
    struct error err;
    snprintf(key, sizeof key, "counter%d", writer);
    enum errc rc = doc_get(t, c, slice_str(key), arena, &doc, &err);
    return rc == OK ? (uint64_t)val_int(val_get(doc, slice_str("n"))) : 0;
}

static enum errc remove_old(struct step *s, uint64_t n)
{
    char key[32];
    struct doc_change change;
    snprintf(key, sizeof key, "d%d-%llu", s->writer, (unsigned long long)n);
    enum errc rc = doc_remove(s->txn, s->docs, slice_str(key), NULL, s->arena, &change, &s->err);
    if (rc == OK)
        rc = doc_remove(s->txn, s->edges, slice_str(key), NULL, s->arena, &change, &s->err);
    return rc;
}

static enum errc add_new(struct step *s, uint64_t n)
{
    char text[300];
    struct doc_change change;
    struct doc_options over = { .overwrite = OVERWRITE_REPLACE };
    unsigned long long m = n;
    snprintf(text, sizeof text, "{\"_key\":\"d%d-%llu\",\"u\":\"%d/%llu\",\"n\":%llu}", s->writer,
             m, s->writer, m, m);
    enum errc rc = doc_insert(s->txn, s->docs, parse(s, text), NULL, s->arena, &change, &s->err);
    if (rc != OK)
        return rc;
    snprintf(text, sizeof text,
             "{\"_key\":\"d%d-%llu\",\"_from\":\"docs/d%d-%llu\","
             "\"_to\":\"docs/counter%d\"}",
             s->writer, m, s->writer, m, s->writer);
    rc = doc_insert(s->txn, s->edges, parse(s, text), NULL, s->arena, &change, &s->err);
    if (rc != OK)
        return rc;
    snprintf(text, sizeof text, "{\"_key\":\"counter%d\",\"u\":\"c%d\",\"n\":%llu}", s->writer,
             s->writer, m);
    return doc_insert(s->txn, s->docs, parse(s, text), &over, s->arena, &change, &s->err);
}

static void one_step(int writer)
{
    struct step s = { .writer = writer, .arena = arena_new(0) };
    struct txn_options opt = { .isolation = ISOLATION_SERIALIZABLE };
    CHECK(txn_begin(&s.txn, fixture.store, &opt, &s.err) == OK);
    s.docs = catalog_collection(txn_catalog(s.txn), 1, slice_str("docs"));
    s.edges = catalog_collection(txn_catalog(s.txn), 1, slice_str("edges"));
    uint64_t n = counter(s.txn, s.docs, s.arena, writer) + 1;
    ledger->tried[writer] = n;
    enum errc rc = add_new(&s, n);
    if (rc == OK && n > KEPT)
        rc = remove_old(&s, n - KEPT);
    if (rc == OK)
        rc = txn_commit(s.txn, &s.err);
    if (rc != OK)
        fprintf(stderr, "writer %d: %s\n", writer, s.err.text);
    CHECK(rc == OK);
    ledger->acknowledged[writer] = n;
    txn_end(s.txn);
    arena_free(s.arena);
}

static void *writer_main(void *arg)
{
    for (;;)
        one_step((int)(intptr_t)arg);
    return NULL;
}

static void victim(bool dies_early)
{
    pthread_t threads[WRITERS];
    open_store();
    if (dies_early)
        kill(getpid(), SIGKILL);
    for (int i = 0; i < WRITERS; i++)
        CHECK(pthread_create(&threads[i], NULL, writer_main, (void *)(intptr_t)i) == 0);
    pause();
}

/* ---- the check ---- */

static uint64_t walk(struct txn *t, const struct collection *c)
{
    struct doc_iter *it = NULL;
    struct val doc;
    uint64_t n = 0;
    CHECK(doc_iter_new(&it, t, c, &fixture.err) == OK);
    while (doc_iter_next(it, &doc)) {
        struct val checked;
        CHECK(val_validate(slice_of(doc.at, val_size(doc)), &checked, &fixture.err) == OK);
        n++;
    }
    CHECK(doc_iter_check(it, &fixture.err) == OK);
    doc_iter_free(it);
    return n;
}

static uint64_t walk_index(struct txn *t, const struct collection *c)
{
    struct index_iter *it = NULL;
    struct slice key;
    struct val doc;
    uint64_t n = 0;
    struct arena *arena = arena_new(0);
    CHECK(index_scan(&it, t, c, &c->indexes[1], &(struct index_range){ 0 }, &fixture.err) == OK);
    while (index_iter_next(it, &key)) {
        CHECK(doc_get(t, c, key, arena, &doc, &fixture.err) == OK);
        n++;
    }
    CHECK(index_iter_check(it, &fixture.err) == OK);
    index_iter_free(it);
    arena_free(arena);
    return n;
}

static uint64_t edges_into(struct txn *t, const struct collection *edges, int writer)
{
    struct index_iter *it = NULL;
    struct slice key;
    char vertex[32];
    uint64_t n = 0;
    snprintf(vertex, sizeof vertex, "docs/counter%d", writer);
    CHECK(index_scan_edges(&it, t, edges, slice_str(vertex), EDGE_INBOUND, &fixture.err) == OK);
    while (index_iter_next(it, &key))
        n++;
    index_iter_free(it);
    return n;
}

static void verify(void)
{
    struct txn *t = NULL;
    uint64_t want = 0, commits = 0, counted;
    open_store();
    CHECK(txn_begin(&t, fixture.store, NULL, &fixture.err) == OK);
    const struct collection *docs = catalog_collection(txn_catalog(t), 1, slice_str("docs"));
    const struct collection *edges = catalog_collection(txn_catalog(t), 1, slice_str("edges"));
    for (int i = 0; i < WRITERS; i++) {
        uint64_t n = counter(t, docs, fixture.arena, i);
        CHECK(n >= ledger->acknowledged[i]);
        CHECK(n <= ledger->tried[i]);
        uint64_t kept = n < KEPT ? n : KEPT;
        CHECK(edges_into(t, edges, i) == kept);
        want += kept + (n > 0);
        commits += n;
    }
    CHECK(walk(t, docs) == want);
    CHECK(walk_index(t, docs) == want);
    CHECK(doc_count(t, docs, &counted, &fixture.err) == OK && counted == want);
    CHECK(doc_count(t, edges, &counted, &fixture.err) == OK && counted == walk(t, edges));
    CHECK(txn_view_seq(t) >= commits); /* and the catalog's own commits */
    txn_end(t);
    store_close(fixture.store);
}

static void in_a_process_of_its_own(void (*body)(void))
{
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void prepare(void)
{
    open_store();
    make_collection(&fixture, "edges", COLLECTION_EDGE);
    uint64_t id = make_collection(&fixture, "docs", COLLECTION_DOCUMENT);
    make_index(&fixture, id, "{\"type\":\"persistent\",\"fields\":[\"u\"],\"unique\":true}");
    store_close(fixture.store);
}

static uint64_t acknowledged_by_all(void)
{
    uint64_t n = 0;
    for (int i = 0; i < WRITERS; i++)
        n += ledger->acknowledged[i];
    return n;
}

static void wait_for_more_than(uint64_t before)
{
    for (int ms = 0; acknowledged_by_all() == before && ms < 30000; ms++)
        usleep(1000);
}

static void a_killed_store_keeps_its_promises(void **out)
{
    (void)out;
    const char *asked = getenv("THEMIS_CRASH_ROUNDS");
    int rounds = asked ? atoi(asked) : 10;
    uint64_t seed = (uint64_t)getpid();
    ledger = mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(ledger, MAP_FAILED);
    in_a_process_of_its_own(prepare);
    for (int i = 0; i < rounds; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (!pid)
            victim(i % 5 == 4);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if (i % 5 != 4 && (seed >> 60) & 3) /* else it may be killed while it opens */
            wait_for_more_than(acknowledged_by_all());
        usleep(100000 + (unsigned)((seed >> 33) % 500000));
        kill(pid, SIGKILL);
        int status;
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        in_a_process_of_its_own(verify);
    }
    printf("%d rounds, %llu acknowledged transactions\n", rounds,
           (unsigned long long)acknowledged_by_all());
    assert_true(acknowledged_by_all() > 0);
}

int main(void)
{
    log_set_level(LOG_ERROR);
    settings_init(&fixture.settings);
    fixture.settings.memtables_mb = 8;
    fixture.settings.block_cache_mb = 8;
    fixture.db = 1;
    fixture.arena = arena_new(0);
    snprintf(fixture.path, sizeof fixture.path, "/tmp/themis-crash-XXXXXX");
    if (!mkdtemp(fixture.path))
        return 1;
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_killed_store_keeps_its_promises) };
    int bad = cmocka_run_group_tests_name("crash", tests, NULL, NULL);
    fixture_remove(&fixture);
    arena_free(fixture.arena);
    return bad;
}
