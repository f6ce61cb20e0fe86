/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss of power. Writers are killed, then every file goes back to what was synced of it, plus a
 * random part of the rest; files whose directory was not synced after they were made are gone.
 * Acknowledged writes that were to be durable must be there; of the others a beginning may be left,
 * and nothing in part.
 *
 * The program's own fdatasync, fsync, unlink and rename are called by RocksDB in place of the C
 * library's; they note in shared memory what is safe of each inode. A name that was safe stays so
 * when another file is renamed to it: the directory has the old file or the new one, never none.
 */
#include "fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { WRITERS = 4, SLOTS = 1 << 14, ROUNDS = 12 };

/* ---- what is safe ---- */

struct safe {
    _Atomic uint64_t inode; /* 0 = free; taken once */
    _Atomic int64_t bytes;
    _Atomic bool is_linked; /* its directory was synced since */
};

struct shared {
    struct safe files[SLOTS];
    _Atomic uint64_t tried[WRITERS], acknowledged[WRITERS], syncs;
};

static struct shared *shared;

static struct safe *slot_of(uint64_t inode)
{
    for (size_t i = inode % SLOTS;; i = (i + 1) % SLOTS) {
        uint64_t seen = 0;
        struct safe *s = &shared->files[i];
        if (s->inode == inode || atomic_compare_exchange_strong(&s->inode, &seen, inode) ||
            seen == inode)
            return s;
    }
}

static void note_directory(int fd)
{
    int copy = (int)syscall(SYS_openat, fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (e->d_type == DT_REG)
            slot_of(e->d_ino)->is_linked = true;
    if (dir)
        closedir(dir);
}

static int open_directory_of(const char *path, const char *slash)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%.*s", (int)(slash - path), path);
    return open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* size: of the file before the sync; what is written meanwhile may be lost. */
static void note_sync(int fd, const struct stat *st)
{
    shared->syncs++;
    if (S_ISDIR(st->st_mode))
        note_directory(fd);
    else
        slot_of(st->st_ino)->bytes = st->st_size;
}

static int sync_with(long call, int fd)
{
    struct stat st;
    bool is_known = shared && fstat(fd, &st) == 0;
    int rc = (int)syscall(call, fd);
    if (rc == 0 && is_known)
        note_sync(fd, &st);
    return rc;
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    return sync_with(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    return sync_with(SYS_fsync, fd);
}

/* The inode may be used again: nothing is safe of the next file. */
__attribute__((visibility("default"))) int unlink(const char *path)
{
    struct stat st;
    if (shared && lstat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        slot_of(st.st_ino)->bytes = 0;
        slot_of(st.st_ino)->is_linked = false;
    }
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

__attribute__((visibility("default"))) int rename(const char *from, const char *to)
{
    struct stat st;
    const char *slash = strrchr(to, '/');
    bool is_safe = shared && slash && lstat(to, &st) == 0 && slot_of(st.st_ino)->is_linked;
    int dir = is_safe ? open_directory_of(to, slash) : -1;
    if (dir >= 0) {
        note_directory(dir);
        (void)close(dir);
    }
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* ---- the loss ---- */

static uint64_t seed = 7;
static size_t cut_files, lost_files;
static bool keeps_mark;

static uint64_t chance(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return below ? (seed >> 33) % below : 0;
}

static int lose(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type != FTW_F)
        return 0;
    struct safe *s = slot_of(st->st_ino);
    bool is_mark = strstr(path, "/acknowledged") != NULL;
    if (is_mark && keeps_mark) /* the kernel may have written it at any time */
        return 0;
    if (!s->is_linked) {
        lost_files++;
        return unlink(path);
    }
    int64_t left = s->bytes < st->st_size ? s->bytes : st->st_size;
    if (chance(2))
        left += (int64_t)chance((uint64_t)(st->st_size - left) + 1);
    cut_files += left < st->st_size;
    return truncate(path, left);
}

static int settle(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)path, (void)ftw;
    if (type == FTW_F) {
        slot_of(st->st_ino)->bytes = st->st_size;
        slot_of(st->st_ino)->is_linked = true;
    }
    return 0;
}

static void lose_power(const struct fixture *f)
{
    assert_int_equal(nftw(f->path, lose, 16, FTW_PHYS), 0);
    assert_int_equal(nftw(f->path, settle, 16, FTW_PHYS), 0);
}

/* ---- the victim ---- */

struct writer {
    struct fixture f; /* arena and error of its own */
    int number;
    bool is_synced;
};

/* Two documents that belong together. */
static enum errc write_pair(struct writer *w, uint64_t n)
{
    char text[100];
    struct doc_change change;
    struct txn *t = NULL;
    struct txn_options opt = { .must_sync = w->is_synced };
    enum errc rc = txn_begin(&t, w->f.store, &opt, &w->f.err);
    for (int half = 0; rc == OK && half < 2; half++) {
        snprintf(text, sizeof text, "{\"_key\":\"w%d-%llu-%d\",\"n\":%llu}", w->number,
                 (unsigned long long)n, half, (unsigned long long)n);
        rc = doc_insert(t, in(&w->f, t, "c"), json(&w->f, text), NULL, w->f.arena, &change,
                        &w->f.err);
    }
    if (rc == OK)
        rc = txn_commit(t, &w->f.err);
    txn_end(t);
    return rc;
}

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    w->f.arena = arena_new(0);
    struct arena_mark start = arena_mark(w->f.arena);
    for (uint64_t n = shared->tried[w->number] + 1;; n++) {
        shared->tried[w->number] = n;
        if (write_pair(w, n) != OK)
            _exit(1);
        shared->acknowledged[w->number] = n;
        arena_rewind(w->f.arena, start);
    }
    return NULL;
}

/* The upper half of the writers always waits for the disk. */
static void victim(struct fixture *f)
{
    pthread_t threads[WRITERS];
    struct writer writers[WRITERS];
    fixture_open(f);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){ .f = *f, .number = i, .is_synced = i >= WRITERS / 2 };
        pthread_create(&threads[i], NULL, writer_main, &writers[i]);
    }
    pause();
    _exit(1);
}

static uint64_t all_acknowledged(void)
{
    uint64_t n = 0;
    for (int i = 0; i < WRITERS; i++)
        n += shared->acknowledged[i];
    return n;
}

/* Most often while it writes, else while it opens: a busy machine takes its time for that. */
static void kill_writers(struct fixture *f)
{
    int status;
    uint64_t before = all_acknowledged();
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child)
        victim(f);
    if (chance(4))
        for (int ms = 0; all_acknowledged() == before && ms < 30000; ms++)
            usleep(1000);
    usleep((useconds_t)(150 + chance(250)) * 1000);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- what must be there ---- */

/* 0, 1 or 2 halves of the pair. */
static int halves(struct fixture *f, struct txn *t, int writer, uint64_t n)
{
    int found = 0;
    for (int half = 0; half < 2; half++) {
        char key[40];
        struct val doc;
        snprintf(key, sizeof key, "w%d-%llu-%d", writer, (unsigned long long)n, half);
        found += doc_get(t, in(f, t, "c"), slice_str(key), f->arena, &doc, &f->err) == OK;
    }
    return found;
}

/* Pairs 1 to the answer are whole and there is nothing behind them. */
static uint64_t check_writer(struct fixture *f, struct txn *t, int writer)
{
    uint64_t n = 1, tried = shared->tried[writer];
    while (n <= tried && halves(f, t, writer, n) == 2)
        n++;
    for (uint64_t behind = n; behind <= tried; behind++)
        if (halves(f, t, writer, behind))
            fail_msg("writer %d: pair %llu is there, %llu is not", writer,
                     (unsigned long long)behind, (unsigned long long)n);
    return n - 1;
}

static void check_store(struct fixture *f, bool is_all_synced)
{
    uint64_t pairs = 0;
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    for (int i = 0; i < WRITERS; i++) {
        uint64_t found = check_writer(f, t, i), acknowledged = shared->acknowledged[i];
        if ((is_all_synced || i >= WRITERS / 2) && found < acknowledged)
            fail_msg("writer %d: %llu pairs were acknowledged, %llu are there", i,
                     (unsigned long long)acknowledged, (unsigned long long)found);
        shared->tried[i] = shared->acknowledged[i] = found;
        pairs += found;
    }
    txn_end(t);
    assert_int_equal(count_of(f, "c"), 2 * pairs);
}

static void lives_through(bool is_all_synced)
{
    struct fixture f;
    cut_files = lost_files = 0;
    memset(shared, 0, sizeof *shared);
    fixture_init(&f, true);
    f.settings.sync_writes = is_all_synced;
    make_index(&f, make_collection(&f, "c", COLLECTION_DOCUMENT),
               "{\"type\":\"persistent\",\"fields\":[\"n\"]}");
    for (int round = 0; round < ROUNDS; round++) {
        store_close(f.store);
        f.store = NULL;
        kill_writers(&f);
        keeps_mark = chance(2);
        lose_power(&f);
        fixture_open(&f);
        check_store(&f, is_all_synced);
    }
    assert_true(shared->syncs > ROUNDS); /* the calls did come here */
    assert_true(cut_files > 0);
    fixture_release(&f);
}

static void durable_writes_survive(void **out)
{
    (void)out;
#ifdef __SANITIZE_THREAD__
    skip(); /* it does not know threads of a forked child */
#endif
    lives_through(true);
}

static void without_sync_a_beginning_survives(void **out)
{
    (void)out;
#ifdef __SANITIZE_THREAD__
    skip();
#endif
    lives_through(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durable_writes_survive),
        cmocka_unit_test(without_sync_a_beginning_survives),
    };
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests_name("power", tests, NULL, NULL);
}
