/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mark is the file "acknowledged": u64 BE commit number, u64 BE XXH3-64 of
 * those 8 bytes. It lies inside one sector; a torn or missing one is no mark.
 */
#include "store/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/key.h"
#include "base/log.h"

enum { INTERVAL_MS = 100, MARK_BYTES = 16 };

struct disk {
    char *dir; /* owned; NULL in memory */
    uint64_t floor_bytes;
    int mark_fd;
    _Atomic uint64_t noted;        /* written by the committer */
    uint64_t marked, marked_at_ms; /* the committer's; marked is on disk */
    pthread_mutex_t lock;          /* of the two below */
    uint64_t free_bytes, asked_at_ms;
};

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

struct disk *disk_new(const char *dir, uint64_t floor_bytes)
{
    struct disk *d = mem_zalloc(sizeof *d);
    d->dir = dir ? mem_strdup(dir) : NULL;
    d->floor_bytes = floor_bytes;
    d->mark_fd = -1;
    pthread_mutex_init(&d->lock, NULL);
    return d;
}

void disk_free(struct disk *d)
{
    if (!d)
        return;
    if (d->mark_fd >= 0)
        close(d->mark_fd);
    pthread_mutex_destroy(&d->lock);
    mem_free(d->dir);
    mem_free(d);
}

static uint64_t ask_free_bytes(const struct disk *d)
{
    struct statvfs s;
    if (fault_hit("store.space"))
        return 0;
    if (fault_errno("store.statvfs", EIO) || statvfs(d->dir, &s)) {
        log_warn("store", "cannot ask for the free space of %s: %s", d->dir, strerror(errno));
        return UINT64_MAX;
    }
    return (uint64_t)s.f_bavail * s.f_frsize;
}

enum errc disk_check_space(struct disk *d, struct error *err)
{
    if (!d->dir)
        return OK;
    pthread_mutex_lock(&d->lock);
    uint64_t now = now_ms();
    if (!d->asked_at_ms || now - d->asked_at_ms >= INTERVAL_MS) {
        d->free_bytes = ask_free_bytes(d);
        d->asked_at_ms = now;
    }
    uint64_t left = d->free_bytes;
    pthread_mutex_unlock(&d->lock);
    if (left >= d->floor_bytes)
        return OK;
    return fail(err, ERR_LIMIT,
                "the disk is full: %" PRIu64 " MiB free, writes need %" PRIu64
                " MiB; removing documents is still possible",
                left / MIB, d->floor_bytes / MIB);
}

/* ---- mark ---- */

static void encode_mark(uint64_t seq, uint8_t out[MARK_BYTES])
{
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(seq >> (56 - 8 * i));
    uint64_t sum = hash_xxh3(out, 8);
    for (int i = 0; i < 8; i++)
        out[8 + i] = (uint8_t)(sum >> (56 - 8 * i));
}

static void write_mark(struct disk *d, uint64_t seq)
{
    uint8_t bytes[MARK_BYTES];
    encode_mark(seq, bytes);
    if (fault_errno("store.mark", EIO) || pwrite(d->mark_fd, bytes, sizeof bytes, 0) != MARK_BYTES)
        log_warn("store", "cannot write the mark of acknowledged commits: %s", strerror(errno));
}

void disk_mark_now(struct disk *d)
{
    if (d->mark_fd < 0 || d->noted <= d->marked)
        return;
    d->marked = d->noted;
    d->marked_at_ms = now_ms();
    write_mark(d, d->marked);
}

enum errc disk_put_mark(const char *dir, uint64_t seq, struct error *err)
{
    char path[4096];
    uint8_t bytes[MARK_BYTES];
    encode_mark(seq, bytes);
    snprintf(path, sizeof path, "%s/acknowledged", dir);
    int fd = fault_errno("store.mark", EACCES)
                 ? -1
                 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool is_done = fd >= 0 && write(fd, bytes, sizeof bytes) == MARK_BYTES && fsync(fd) == 0;
    enum errc rc = is_done ? OK : fail(err, ERR_IO, "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}

void disk_mark(struct disk *d, uint64_t seq)
{
    d->noted = seq;
    if (now_ms() - d->marked_at_ms >= INTERVAL_MS)
        disk_mark_now(d);
}

uint64_t disk_durable(const struct disk *d)
{
    return d->noted;
}

uint64_t disk_mark_due_us(const struct disk *d)
{
    bool is_due = d->mark_fd >= 0 && d->noted > d->marked;
    return is_due ? (d->marked_at_ms + INTERVAL_MS) * 1000 : 0;
}

static int open_mark(const char *dir, int flags)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/acknowledged", dir);
    return fault_errno("store.mark", EACCES) ? -1 : open(path, flags | O_CLOEXEC, 0600);
}

static enum errc read_mark(int fd, const char *dir, uint64_t *seq, bool *is_known,
                           struct error *err)
{
    uint8_t bytes[MARK_BYTES], want[MARK_BYTES];
    ssize_t n = fault_errno("store.mark", EIO) ? -1 : pread(fd, bytes, sizeof bytes, 0);
    *seq = 0;
    *is_known = false;
    if (n < 0)
        return fail(err, ERR_IO, "cannot read %s/acknowledged: %s", dir, strerror(errno));
    if (n == 0)
        return OK;
    uint64_t found = n == MARK_BYTES ? key_read_u64(bytes) : 0;
    encode_mark(found, want);
    if (n == MARK_BYTES && memcmp(bytes, want, MARK_BYTES) == 0) {
        *seq = found;
        *is_known = true;
        return OK;
    }
    log_warn("store", "the mark of acknowledged commits in %s is damaged and ignored", dir);
    return OK;
}

enum errc disk_read_mark(const char *dir, uint64_t *seq, bool *is_known, struct error *err)
{
    int fd = open_mark(dir, O_RDONLY);
    *seq = 0;
    *is_known = false;
    if (fd < 0 && errno == ENOENT)
        return OK;
    if (fd < 0)
        return fail(err, ERR_IO, "cannot open %s/acknowledged: %s", dir, strerror(errno));
    enum errc rc = read_mark(fd, dir, seq, is_known, err);
    close(fd);
    return rc;
}

enum errc disk_check_mark(struct disk *d, uint64_t found_seq, bool accept_loss, struct error *err)
{
    d->noted = found_seq;
    if (!d->dir)
        return OK;
    uint64_t marked;
    bool is_known;
    d->mark_fd = open_mark(d->dir, O_RDWR | O_CREAT);
    if (d->mark_fd < 0)
        return fail(err, ERR_IO, "cannot open %s/acknowledged: %s", d->dir, strerror(errno));
    enum errc rc = read_mark(d->mark_fd, d->dir, &marked, &is_known, err);
    if (rc != OK)
        return rc;
    if (marked > found_seq && !accept_loss)
        return fail(err, ERR_CORRUPT,
                    "%s lost acknowledged commits %" PRIu64 " to %" PRIu64
                    ": restore a backup, or start with --accept-loss",
                    d->dir, found_seq + 1, marked);
    if (marked > found_seq)
        log_error("store", "acknowledged commits %" PRIu64 " to %" PRIu64 " are lost and accepted",
                  found_seq + 1, marked);
    d->marked = found_seq;
    if (marked != found_seq)
        write_mark(d, found_seq);
    return OK;
}
