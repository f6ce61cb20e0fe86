/* SPDX-License-Identifier: Apache-2.0 */
/* A file system that is really full, below what the store keeps free: a tmpfs that only this program sees. */
#include "fixture.h"

#include "store/kv.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

enum { DISK_MB = 64, LEFT_BYTES = 1536 * KIB, VALUE_BYTES = 40 * 1000, ROUNDS = 200 };

struct state {
    char root[64], path[80], ballast[80];
    struct kv *kv;
    struct arena *arena;
    int written; /* keys 0 to written - 1 were acknowledged */
    struct error err;
};

static bool can_mount(const char *path)
{
    char size[32];
    snprintf(size, sizeof size, "size=%dm", DISK_MB);
    return !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount("tmpfs", path, "tmpfs", 0, size);
}

static int setup(void **out)
{
    struct state *s = calloc(1, sizeof *s);
    log_set_level(LOG_ERROR);
    s->arena = arena_new(0);
    snprintf(s->root, sizeof s->root, "/tmp/themis-full-XXXXXX");
    assert_non_null(mkdtemp(s->root));
    snprintf(s->path, sizeof s->path, "%s/data", s->root);
    snprintf(s->ballast, sizeof s->ballast, "%s/ballast", s->root);
    *out = s;
    return 0;
}

static int teardown(void **out)
{
    struct state *s = *out;
    kv_close(s->kv);
    arena_free(s->arena);
    (void)umount2(s->root, MNT_DETACH);
    int rc = rmdir(s->root);
    free(s);
    return rc;
}

static void reopen(struct state *s)
{
    struct kv_options opt = { .path = s->path, .memtable_bytes = 64 * MIB };
    kv_close(s->kv);
    s->kv = NULL;
    OK_OR_FAIL(kv_open(&s->kv, &opt, &s->err), &s->err);
}

/* Somebody else takes all but that. */
static void take_space(const struct state *s, size_t left)
{
    struct statvfs free_space;
    assert_int_equal(statvfs(s->root, &free_space), 0);
    off_t bytes = (off_t)(free_space.f_bavail * free_space.f_frsize - left);
    int fd = open(s->ballast, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(posix_fallocate(fd, 0, bytes), 0);
    close(fd);
}

static enum errc write_key(struct state *s, int n)
{
    static char value[VALUE_BYTES];
    char key[16];
    struct kv_batch b;
    memset(value, 'a' + n % 26, sizeof value);
    snprintf(key, sizeof key, "k%06d", n);
    kv_batch_init(&b);
    for (int f = KV_DOC; f <= KV_LOG; f++)
        kv_batch_add(&b, &(struct kv_record){ .op = KV_PUT,
                                              .family = (enum kv_family)f,
                                              .key = slice_str(key),
                                              .value = slice_of(value, sizeof value) });
    enum errc rc = kv_write(s->kv, &b, true, &s->err);
    kv_batch_release(&b);
    return rc;
}

static int count(struct state *s, enum kv_family f)
{
    struct kv_iter *it;
    int n = 0;
    OK_OR_FAIL(kv_iter_new(&it, s->kv, NULL, f, &(struct kv_scan){ 0 }, &s->err), &s->err);
    for (; kv_iter_valid(it); kv_iter_next(it))
        n++;
    OK_OR_FAIL(kv_iter_check(it, &s->err), &s->err);
    kv_iter_free(it);
    return n;
}

/* Every acknowledged key in every family, and nothing of a refused one. */
static void check_all(struct state *s)
{
    for (int f = KV_DOC; f <= KV_LOG; f++)
        assert_int_equal(count(s, (enum kv_family)f), s->written);
}

static void fill_up(struct state *s)
{
    enum errc rc = OK;
    for (int i = 0; rc == OK && i < ROUNDS; i++) {
        rc = write_key(s, s->written);
        s->written += rc == OK;
    }
    if (rc != ERR_LIMIT || !strstr(s->err.text, "the disk is full"))
        fail_msg("%s: %s", errc_name(rc), s->err.text);
}

static void what_a_full_disk_refuses_never_comes_back(void **out)
{
    struct state *s = *out;
    if (!can_mount(s->root)) {
        print_message("cannot mount a tmpfs: %s\n", strerror(errno));
        skip();
    }
    reopen(s);
    take_space(s, LEFT_BYTES);
    fill_up(s);
    assert_true(s->written > 0);
    check_all(s);
    for (int i = 0; i < 3; i++)
        assert_int_equal(write_key(s, s->written), ERR_LIMIT);
    check_all(s);
    assert_int_equal(unlink(s->ballast), 0);
    reopen(s); /* the log ends in what did not fit */
    check_all(s);

    take_space(s, LEFT_BYTES);
    fill_up(s);
    assert_int_equal(unlink(s->ballast), 0);
    enum errc rc = ERR_LIMIT;
    for (int i = 0; rc == ERR_LIMIT && i < 6000; i++) { /* the engine looks every few seconds */
        usleep(10 * 1000);
        rc = write_key(s, s->written);
    }
    OK_OR_FAIL(rc, &s->err);
    s->written++;
    check_all(s);
    reopen(s);
    check_all(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_full_disk_refuses_never_comes_back, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
