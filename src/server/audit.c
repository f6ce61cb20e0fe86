/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two buffers: requests add lines to one under the lock, the thread takes it, leaves the empty one and
 * writes without the lock. A disk that hangs fills the first one up, and nobody waits for it.
 */
#include "server/audit.h"

#include "base/env.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/val_text.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { QUEUE_BYTES = 4 * MIB, TEXT_BYTES_MAX = 1024 };

struct audit {
    char path[SETTING_STRING_BYTES]; /* "" = among the lines of the log */
    uint64_t rotate_bytes;
    unsigned keep_files;
    pthread_t thread;
    pthread_mutex_t lock; /* of the next five */
    pthread_cond_t work;
    struct buf queue;
    uint64_t dropped;
    bool is_closing, wants_reopen;

    /* the thread's own */
    int fd; /* -1 = could not be opened: tried again with the next lines */
    uint64_t bytes;
    struct buf lines;
    bool is_failing; /* was said in the log */
};

static struct metric lines_total =
    METRIC_COUNTER("themis_audit_lines_total", "Requests written to the audit log.");
static struct metric dropped_total =
    METRIC_COUNTER("themis_audit_dropped_total", "Lines of the audit log that were lost.");

/* ---- what is told ---- */

/* Paths whose changes are administration, whatever role they ask for. */
static const char *const structure[] = {
    "/_api/collection", "/_api/index", "/_api/database", "/_api/user",  "/_api/token",
    "/_api/gharial",    "/_admin/",    "/v1/models",     "/_open/auth",
};
static bool begins_with_one(const char *path, const char *const *prefixes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strncmp(path, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

/* Vertices and edges of a graph; its definition is structure, like that of a collection. */
static bool is_of_document(const struct route *route)
{
    return !strncmp(route->path, "/_api/gharial", strlen("/_api/gharial")) &&
           route->runs_on == ON_POOL_TRX;
}

static bool is_administrative(const struct request *r)
{
    const struct route *route = r->route;
    bool reads = exchange_method(r->x) & (METHOD_GET | METHOD_HEAD);

    if (!route || reads)
        return false;
    return route->role == ROLE_ADMIN ||
           (begins_with_one(route->path, structure, ARRAY_LEN(structure)) &&
            !is_of_document(route));
}

static const char *method_name(enum http_method method)
{
    switch (method) {
    case METHOD_GET:
        return "GET";
    case METHOD_HEAD:
        return "HEAD";
    case METHOD_POST:
        return "POST";
    case METHOD_PUT:
        return "PUT";
    case METHOD_PATCH:
        return "PATCH";
    case METHOD_DELETE:
        return "DELETE";
    case METHOD_OPTIONS:
        return "OPTIONS";
    }
    return "?";
}

static void put_time(struct buf *out)
{
    char text[32];
    struct tm tm;
    uint64_t now_us = env_wall_us(env_system());
    time_t seconds = (time_t)(now_us / 1000000);

    gmtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    buf_printf(out, "{\"time\":\"%s.%03uZ\"", text, (unsigned)(now_us / 1000 % 1000));
}

/* Of any bytes, a text of at most TEXT_BYTES_MAX. */
static void put_text(struct buf *out, const char *name, struct slice text, struct arena *arena)
{
    if (text.len > TEXT_BYTES_MAX)
        text.len = TEXT_BYTES_MAX;
    buf_printf(out, ",\"%s\":", name);
    if (text.len)
        val_print(text_clean(arena, text), out);
    else
        buf_add_str(out, "null");
}

static void put_line(struct buf *out, const struct request *r, const char *event, int status)
{
    bool is_known = r->user.len > 0;

    put_time(out);
    buf_printf(out, ",\"event\":\"%s\"", event);
    put_text(out, "user", r->user, r->arena);
    if (!is_known && r->claimed.len)
        put_text(out, "claimed", r->claimed, r->arena);
    put_text(out, "peer", exchange_peer(r->x), r->arena);
    put_text(out, "method", slice_str(method_name(exchange_method(r->x))), r->arena);
    put_text(out, "path", exchange_path(r->x), r->arena);
    put_text(out, "database", r->db_name, r->arena);
    buf_printf(out, ",\"status\":%d}\n", status);
}

void audit_request(struct audit *a, const struct request *r)
{
    struct buf line;

    if (!a)
        return;
    int status = exchange_status(r->x);
    bool is_denied = status == 401 || status == 403;
    if (!is_denied && !is_administrative(r))
        return;
    buf_init(&line, 0);
    put_line(&line, r, is_denied ? "denied" : "admin", status);
    pthread_mutex_lock(&a->lock);
    if (a->queue.len + line.len <= QUEUE_BYTES)
        buf_add_slice(&a->queue, buf_slice(&line));
    else
        a->dropped++;
    pthread_cond_signal(&a->work);
    pthread_mutex_unlock(&a->lock);
    buf_release(&line);
}

/* ---- the file ---- */

static enum errc open_file(struct audit *a, struct error *err)
{
    struct stat st;

    a->fd = fault_errno("server.audit", EACCES)
                ? -1
                : open(a->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                       0600);
    if (a->fd < 0)
        return fail_os(err, "open", a->path);
    if (fstat(a->fd, &st) || !S_ISREG(st.st_mode) || fchmod(a->fd, 0600)) {
        close(a->fd);
        a->fd = -1;
        return fail(err, ERR_INVALID, "audit_log %s is not a file of this user", a->path);
    }
    a->bytes = (uint64_t)st.st_size;
    return OK;
}

static void close_file(struct audit *a)
{
    if (a->fd < 0)
        return;
    if (fsync(a->fd))
        log_warn("server", "cannot sync %s: %s", a->path, strerror(errno));
    close(a->fd);
    a->fd = -1;
}

/* FILE becomes FILE.1, that FILE.2 and so on; the last one goes. */
static void rotate(struct audit *a)
{
    char from[SETTING_STRING_BYTES + 16], to[SETTING_STRING_BYTES + 16];

    close_file(a);
    for (unsigned i = a->keep_files; i > 0; i--) {
        snprintf(to, sizeof to, "%s.%u", a->path, i);
        if (i > 1)
            snprintf(from, sizeof from, "%s.%u", a->path, i - 1);
        else
            snprintf(from, sizeof from, "%s", a->path);
        if (rename(from, to) && errno != ENOENT)
            log_warn("server", "cannot rename %s: %s", from, strerror(errno));
    }
}

static size_t count_lines(struct slice text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++)
        n += text.ptr[i] == '\n';
    return n;
}

/* Once for each time that it begins to fail. */
static void say_failure(struct audit *a, const char *what)
{
    if (!a->is_failing)
        log_error("server", "the audit log loses lines: %s", what);
    a->is_failing = true;
}

/* How much of text, in whole lines, the file takes before it is full; at least one line. */
static size_t piece_of(const struct audit *a, struct slice text)
{
    size_t room = a->bytes < a->rotate_bytes ? (size_t)(a->rotate_bytes - a->bytes) : 0;
    size_t len = text.len <= room ? text.len : room;

    while (len && text.ptr[len - 1] != '\n')
        len--;
    if (!len && !a->bytes)
        len = (size_t)((const char *)memchr(text.ptr, '\n', text.len) - text.ptr) + 1;
    return len;
}

static bool write_piece(struct audit *a, struct slice piece)
{
    while (piece.len) {
        ssize_t n = fault_errno("server.audit", ENOSPC) ? -1 : write(a->fd, piece.ptr, piece.len);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            a->bytes += (uint64_t)n;
            piece = slice_of(piece.ptr + n, piece.len - (size_t)n);
        }
    }
    return true;
}

/* Returns what could not be written. */
static struct slice write_lines(struct audit *a, struct slice text)
{
    struct error err = { 0 };

    while (text.len) {
        if (a->fd < 0 && open_file(a, &err) != OK) {
            say_failure(a, err.text);
            return text;
        }
        size_t len = piece_of(a, text);
        if (!len) {
            rotate(a);
            continue;
        }
        if (!write_piece(a, slice_of(text.ptr, len))) {
            say_failure(a, strerror(errno));
            close_file(a);
            return text;
        }
        metric_add(&lines_total, (int64_t)count_lines(slice_of(text.ptr, len)));
        text = slice_of(text.ptr + len, text.len - len);
    }
    a->is_failing = false;
    return text;
}

static void log_lines(struct slice text)
{
    while (text.len) {
        size_t len = (size_t)((const char *)memchr(text.ptr, '\n', text.len) - text.ptr);
        log_write(LOG_INFO, "audit", "%.*s", (int)len, text.ptr);
        metric_add(&lines_total, 1);
        text = slice_of(text.ptr + len + 1, text.len - len - 1);
    }
}

/* The file tells itself what is missing in it. */
static void add_dropped(struct audit *a, uint64_t dropped)
{
    if (!dropped)
        return;
    metric_add(&dropped_total, (int64_t)dropped);
    put_time(&a->lines);
    buf_printf(&a->lines, ",\"event\":\"dropped\",\"lines\":%" PRIu64 "}\n", dropped);
}

static uint64_t handle(struct audit *a, uint64_t dropped, bool wants_reopen)
{
    struct slice left = { NULL, 0 };

    if (wants_reopen)
        close_file(a);
    add_dropped(a, dropped);
    if (!a->path[0])
        log_lines(buf_slice(&a->lines));
    else
        left = write_lines(a, buf_slice(&a->lines));
    dropped = count_lines(left);
    buf_clear(&a->lines);
    return dropped;
}

/* ---- the thread ---- */

static void *audit_main(void *arg)
{
    struct audit *a = arg;
    uint64_t lost = 0; /* could not be written; said with the next lines */

    prctl(PR_SET_NAME, "audit");
    pthread_mutex_lock(&a->lock);
    for (;;) {
        while (!a->queue.len && !a->is_closing && !a->wants_reopen)
            pthread_cond_wait(&a->work, &a->lock);
        bool is_last = a->is_closing, wants_reopen = a->wants_reopen;
        uint64_t dropped = a->dropped + lost;
        struct buf taken = a->queue;
        a->queue = a->lines;
        a->lines = taken;
        a->dropped = 0;
        a->wants_reopen = false;
        pthread_mutex_unlock(&a->lock);
        lost =
            a->lines.len || wants_reopen ? handle(a, a->lines.len ? dropped : 0, wants_reopen) : 0;
        pthread_mutex_lock(&a->lock);
        if (is_last && !a->queue.len)
            break;
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

enum errc audit_open(struct audit **out, const struct settings *s, struct error *err)
{
    bool is_file = strcmp(s->audit_log, "log") != 0;
    enum errc rc = OK;

    *out = NULL;
    if (!s->audit_log[0])
        return OK;
    struct audit *a = mem_zalloc(sizeof *a);
    metric_register(&lines_total);
    metric_register(&dropped_total);
    if (is_file)
        memcpy(a->path, s->audit_log, sizeof a->path);
    a->rotate_bytes = (uint64_t)s->audit_log_mb * MIB;
    a->keep_files = (unsigned)s->audit_log_files;
    a->fd = -1;
    buf_init(&a->queue, 0);
    buf_init(&a->lines, 0);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->work, NULL);
    if (is_file && open_file(a, err) != OK)
        rc = wrap(err, "setting audit_log");
    if (rc == OK && pthread_create(&a->thread, NULL, audit_main, a)) {
        a->thread = 0;
        rc = fail(err, ERR_LIMIT, "cannot start the thread of the audit log");
    }
    if (rc == OK)
        *out = a;
    else
        audit_close(a);
    return rc;
}

void audit_close(struct audit *a)
{
    if (!a)
        return;
    if (a->thread) {
        pthread_mutex_lock(&a->lock);
        a->is_closing = true;
        pthread_cond_signal(&a->work);
        pthread_mutex_unlock(&a->lock);
        pthread_join(a->thread, NULL);
    }
    close_file(a);
    buf_release(&a->queue);
    buf_release(&a->lines);
    pthread_cond_destroy(&a->work);
    pthread_mutex_destroy(&a->lock);
    mem_free(a);
}

void audit_reopen(struct audit *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->wants_reopen = true;
    pthread_cond_signal(&a->work);
    pthread_mutex_unlock(&a->lock);
}
