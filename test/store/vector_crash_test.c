/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 while segments are made, merged, written and renamed, under writers
 * with a ledger in shared memory. After each death the store must start, keep
 * what was acknowledged, and answer every question as a walk over the documents
 * does: at once, and again when the index is in memory.
 *
 * THEMIS_CRASH_ROUNDS sets the rounds (default 10); in every third some file of
 * a segment is damaged besides.
 */
#include "vector_fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { WRITERS = 2, NUMBERS = 600 }; /* few: segments are small and compared exactly */

/* Versions of each document; odd ones are removals. */
static struct ledger {
    _Atomic uint64_t tried[NUMBERS], acknowledged[NUMBERS];
    _Atomic uint64_t commits;
} * ledger;

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

static void write_one(unsigned number, uint64_t version, uint64_t *seed)
{
    struct error err;
    struct txn *t = NULL;
    struct arena *arena = arena_new(0);
    struct doc_change change;
    struct doc_options over = { .overwrite = OVERWRITE_REPLACE };
    float vector[DIMENSION];
    char key[16];
    snprintf(key, sizeof key, "%u", number);
    for (int i = 0; i < DIMENSION; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        vector[i] = (float)(*seed >> 40) / (float)(1 << 23) - 1;
    }
    CHECK(txn_begin(&t, fixture.store, NULL, &err) == OK);
    const struct collection *c = catalog_collection(txn_catalog(t), 1, slice_str("c"));
    ledger->tried[number] = version;
    enum errc rc = version % 2 ? doc_remove(t, c, slice_str(key), NULL, arena, &change, &err)
                               : doc_insert(t, c, vector_doc(arena, key, number, vector), &over,
                                            arena, &change, &err);
    CHECK(rc == OK);
    CHECK(txn_commit(t, &err) == OK);
    ledger->acknowledged[number] = version;
    ledger->commits++;
    txn_end(t);
    arena_free(arena);
}

static void *writer_main(void *arg)
{
    unsigned writer = (unsigned)(intptr_t)arg;
    uint64_t seed = (uint64_t)getpid() * 77 + writer;
    for (;;) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned number = (unsigned)(seed >> 33) % (NUMBERS / WRITERS) * WRITERS + writer;
        uint64_t version = ledger->acknowledged[number] + 1;
        if (version == 1 || (version % 2 && (seed >> 20) % 4 == 0))
            version++; /* put instead of removed */
        write_one(number, version, &seed);
    }
    return NULL;
}

static void *merger_main(void *arg)
{
    (void)arg;
    for (;;) {
        struct txn *t = NULL;
        CHECK(txn_begin(&t, fixture.store, NULL, &fixture.err) == OK);
        vector_merge(fixture.store, vector_index_of(&fixture, t));
        txn_end(t);
        usleep(20000);
    }
    return NULL;
}

static void victim(void)
{
    pthread_t thread;
    open_store();
    for (int i = 0; i < WRITERS; i++)
        CHECK(pthread_create(&thread, NULL, writer_main, (void *)(intptr_t)i) == 0);
    CHECK(pthread_create(&thread, NULL, merger_main, NULL) == 0);
    pause();
}

/* ---- the check ---- */

static void check_documents(struct txn *t)
{
    const struct collection *c = catalog_collection(txn_catalog(t), 1, slice_str("c"));
    for (unsigned n = 0; n < NUMBERS; n++) {
        struct val doc;
        char key[16];
        snprintf(key, sizeof key, "%u", n);
        enum errc rc = doc_get(t, c, slice_str(key), fixture.arena, &doc, &fixture.err);
        CHECK(rc == OK || rc == ERR_NOT_FOUND);
        bool is_there = rc == OK;
        uint64_t sure = ledger->acknowledged[n], tried = ledger->tried[n];
        bool sure_there = sure % 2 == 0 && sure > 0, tried_there = tried % 2 == 0 && tried > 0;
        CHECK(is_there == sure_there || (tried > sure && is_there == tried_there));
        ledger->acknowledged[n] = ledger->tried[n] = is_there ? 2 : tried ? 1 : 0;
    }
}

static void verify(void)
{
    struct txn *t = NULL;
    open_store();
    CHECK(txn_begin(&t, fixture.store, NULL, &fixture.err) == OK);
    check_documents(t);
    for (int i = 0; i < 3; i++)
        must_be_exact(&fixture, t, NULL);
    vector_settle(fixture.store);
    CHECK(strcmp(figures_of(&fixture).state, "warm") == 0);
    for (int i = 0; i < 3; i++)
        must_be_exact(&fixture, t, NULL);
    txn_end(t);
    store_close(fixture.store);
}

static void prepare(void)
{
    open_store();
    make_vector_index(&fixture, make_collection(&fixture, "c", COLLECTION_DOCUMENT), "l2");
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

/* Flips a byte of, cuts, or removes the first file of a segment, if there is one. */
static void damage(unsigned how)
{
    char dir[100], path[400] = "";
    struct dirent *e;
    struct stat st;
    snprintf(dir, sizeof dir, "%s/vectors", fixture.path);
    DIR *d = opendir(dir);
    while (d && (e = readdir(d)))
        if (strstr(e->d_name, ".seg"))
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (d)
        closedir(d);
    if (!path[0] || stat(path, &st) || !st.st_size)
        return;
    if (how % 3 == 0) {
        FILE *f = fopen(path, "r+");
        assert_non_null(f);
        assert_int_equal(fseek(f, st.st_size / 2, SEEK_SET), 0);
        int byte = fgetc(f);
        assert_int_equal(fseek(f, st.st_size / 2, SEEK_SET), 0);
        assert_int_not_equal(fputc(byte ^ 1, f), EOF);
        assert_int_equal(fclose(f), 0);
    } else if (how % 3 == 1) {
        assert_int_equal(truncate(path, st.st_size / 2), 0);
    } else {
        assert_int_equal(unlink(path), 0);
    }
}

static void a_killed_index_answers_as_the_documents_do(void **out)
{
    (void)out;
    const char *asked = getenv("THEMIS_CRASH_ROUNDS");
    int rounds = asked ? atoi(asked) : 10;
    uint64_t seed = (uint64_t)getpid();
    ledger = mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(ledger, MAP_FAILED);
    in_a_process_of_its_own(prepare);
    for (int i = 0; i < rounds; i++) {
        int status;
        fflush(stdout);
        pid_t pid = fork();
        if (!pid)
            victim();
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        usleep(100000 + (unsigned)((seed >> 33) % 500000));
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (i % 3 == 2)
            damage((unsigned)i / 3);
        random_state = seed;
        in_a_process_of_its_own(verify);
    }
    printf("%d rounds, %llu acknowledged transactions\n", rounds,
           (unsigned long long)ledger->commits);
    assert_true(ledger->commits > 0);
}

int main(void)
{
    log_set_level(LOG_ERROR);
    settings_init(&fixture.settings);
    fixture.settings.memtables_mb = 8;
    fixture.settings.block_cache_mb = 8;
    fixture.settings.vector_head_rows = 32;
    fixture.db = 1;
    fixture.arena = arena_new(0);
    snprintf(fixture.path, sizeof fixture.path, "/tmp/themis-crash-XXXXXX");
    if (!mkdtemp(fixture.path))
        return 1;
    const struct CMUnitTest tests[] = { cmocka_unit_test(
        a_killed_index_answers_as_the_documents_do) };
    int bad = cmocka_run_group_tests_name("vector_crash", tests, NULL, NULL);
    fixture_remove(&fixture);
    arena_free(fixture.arena);
    return bad;
}
