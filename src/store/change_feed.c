/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history is a random number in the file "history" beside rocks/, which no backup holds: a
 * restored store begins a new one. A copy of the whole directory keeps it, and a copy that goes on
 * beside the original is what nobody can tell.
 */
#include "store/change_feed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/key.h"
#include "base/manifest.h"
#include "store/change_private.h"

enum { HISTORY_DIGITS = 16 };

struct changes {
    struct store *store;
    struct commit_sink sink;
    char history[HISTORY_DIGITS + 1];
    const struct change_listener *_Atomic listener;
};

/* ---- history ---- */

static void new_history(struct changes *c)
{
    snprintf(c->history, sizeof c->history, "%016llx",
             (unsigned long long)env_random_u64(c->store->env));
}

static bool is_history(const char *text)
{
    return strspn(text, "0123456789abcdef") == HISTORY_DIGITS && text[HISTORY_DIGITS] == 0;
}

static enum errc write_history(struct changes *c, const char *path, struct error *err)
{
    int fd = fault_errno("store.history", EIO)
                 ? -1
                 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    new_history(c);
    bool is_done =
        fd >= 0 && write(fd, c->history, HISTORY_DIGITS) == HISTORY_DIGITS && fsync(fd) == 0;
    enum errc rc = is_done ? OK : fail_os(err, "write", path);
    if (fd >= 0)
        close(fd);
    return rc == OK ? folder_sync(c->store->path, err) : rc;
}

/* One that a crash left unfinished was never shown to anybody. */
static enum errc open_history(struct changes *c, bool is_new_line, struct error *err)
{
    char path[4096];
    ssize_t n = 0;
    if (!c->store->path) {
        new_history(c);
        return OK;
    }
    snprintf(path, sizeof path, "%s/history", c->store->path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return fail_os(err, "open", path);
    if (fd >= 0) {
        n = read(fd, c->history, HISTORY_DIGITS);
        close(fd);
    }
    c->history[n > 0 ? n : 0] = 0;
    if (is_history(c->history) && !is_new_line)
        return OK;
    if (fd >= 0 && unlink(path))
        return fail_os(err, "remove", path);
    return write_history(c, path, err);
}

const char *change_history(const struct store *s)
{
    return s->changes->history;
}

/* ---- the limit ---- */

uint64_t change_limit(const struct store *s)
{
    struct commit_stats stats;
    committer_stats(s->committer, &stats);
    uint64_t durable = disk_durable(s->disk);
    return stats.last_seq < durable ? stats.last_seq : durable;
}

static void on_published(void *ctx, uint64_t seq)
{
    struct changes *c = ctx;
    (void)seq;
    const struct change_listener *listener = atomic_load(&c->listener);
    if (listener)
        listener->fn(listener->ctx);
}

void change_listen(struct store *s, const struct change_listener *listener)
{
    atomic_store(&s->changes->listener, listener);
}

enum errc changes_open(struct changes **out, struct store *s, bool is_new_line, struct error *err)
{
    struct changes *c = mem_zalloc(sizeof *c);
    c->store = s;
    c->sink = (struct commit_sink){ .published = on_published, .ctx = c };
    enum errc rc = open_history(c, is_new_line, err);
    if (rc != OK) {
        changes_close(c);
        *out = NULL;
        return rc;
    }
    store_add_sink(s, &c->sink);
    *out = c;
    return OK;
}

void changes_close(struct changes *c)
{
    mem_free(c);
}

/* ---- figures ---- */

static enum errc time_of(struct store *s, uint64_t seq, uint64_t *time_us, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct slice value = { NULL, 0 };
    struct change_record record = { 0 };
    struct buf key;
    buf_init(&key, 0);
    key_add_u64(&key, seq);
    enum errc rc = kv_get(s->kv, NULL, KV_LOG, buf_slice(&key), arena, &value, err);
    if (rc == OK && change_record_decode(buf_slice(&key), value, &record))
        *time_us = record.time_us;
    buf_release(&key);
    arena_free(arena);
    return rc == ERR_NOT_FOUND ? OK : rc; /* it went meanwhile */
}

enum errc change_range(struct store *s, struct change_range *out, struct error *err)
{
    enum errc rc = OK;
    struct slice all = { NULL, 0 };
    *out = (struct change_range){ .last = change_limit(s), .is_on = change_log_is_on(s->log) };
    TRY(change_log_first(s->kv, &out->first, err));
    TRY(time_of(s, out->first, &out->first_us, err));
    TRY(time_of(s, out->last, &out->last_us, err));
    out->bytes = kv_range_bytes(s->kv, KV_LOG, all, all);
out:
    return rc;
}
