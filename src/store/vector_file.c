/* SPDX-License-Identifier: Apache-2.0 */
/*
 * header | ids | graph in FAISS's bytes | XXH3-64 of each MiB of ids and graph | XXH3-64 of those
 *
 * The graph's reader trusts its input, so the sums are checked in a first pass.
 */
#include "store/vector_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/log.h"
#include "store/faiss_shim.h"

enum { FILE_VERSION = 1, BLOCK_BYTES = MIB, ID_BYTES_MAX = 2 + LIMIT_KEY_BYTES };

static const char magic[8] = { 't', 'h', 'e', 'm', 'i', 's', 'V', 'S' };

/* As it lies in the file, little endian. */
struct header {
    char magic[8];
    uint32_t version, metric, dimension, unused;
    uint64_t object_id, rows, body_bytes;
    uint64_t sum; /* of everything before it */
};

static uint64_t header_sum(const struct header *h)
{
    return hash_xxh3(h, offsetof(struct header, sum));
}

static void path_of(struct buf *out, const struct vector_file *f)
{
    buf_printf(out, "%s/%016llx-%016llx.seg", f->dir, (unsigned long long)f->object_id,
               (unsigned long long)f->number);
}

static enum errc fail_io(struct error *err, const char *what, const char *path)
{
    return fail(err, errno == ENOSPC || errno == EDQUOT ? ERR_LIMIT : ERR_IO, "%s %s: %s", what,
                path, strerror(errno));
}

/* ---- writing ---- */

struct writer {
    int fd;
    const char *path;
    char *block; /* owned; BLOCK_BYTES */
    size_t used;
    uint64_t total;
    struct buf sums;
};

static enum errc write_all(int fd, const char *path, const void *bytes, size_t len,
                           struct error *err)
{
    const char *at = bytes;
    while (len) {
        ssize_t n = fault_errno("vector.write", EIO) ? -1 : write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_io(err, "cannot write", path);
        at += n;
        len -= (size_t)n;
    }
    return OK;
}

static enum errc flush_block(struct writer *w, struct error *err)
{
    uint64_t sum = hash_xxh3(w->block, w->used);
    if (!w->used)
        return OK;
    buf_add_slice(&w->sums, slice_of(&sum, sizeof sum));
    enum errc rc = write_all(w->fd, w->path, w->block, w->used, err);
    w->used = 0;
    return rc;
}

static enum errc writer_add(void *ctx, const void *bytes, size_t len, struct error *err)
{
    struct writer *w = ctx;
    const char *at = bytes;
    w->total += len;
    while (len) {
        size_t n = BLOCK_BYTES - w->used < len ? BLOCK_BYTES - w->used : len;
        memcpy(w->block + w->used, at, n);
        w->used += n;
        at += n;
        len -= n;
        if (w->used == BLOCK_BYTES) {
            enum errc rc = flush_block(w, err);
            if (rc != OK)
                return rc;
        }
    }
    return OK;
}

static enum errc write_ids(struct writer *w, const struct vector_rows *rows, struct error *err)
{
    enum errc rc = OK;
    size_t count = vector_rows_count(rows);
    for (size_t i = 0; i < count; i++) {
        struct slice id = vector_entry_id(vector_rows_entry(rows, i));
        uint16_t len = (uint16_t)id.len;
        TRY(writer_add(w, &len, sizeof len, err));
        TRY(writer_add(w, id.ptr, id.len, err));
    }
out:
    return rc;
}

/* The header comes last, in front: without it the file is worth nothing. */
static enum errc write_header(struct writer *w, const struct vector_file *f,
                              const struct vector_rows *rows, struct error *err)
{
    struct header h = { .version = FILE_VERSION,
                        .metric = f->metric,
                        .dimension = f->dimension,
                        .object_id = f->object_id,
                        .rows = vector_rows_count(rows),
                        .body_bytes = w->total };
    memcpy(h.magic, magic, sizeof magic);
    h.sum = header_sum(&h);
    if (lseek(w->fd, 0, SEEK_SET) != 0)
        return fail_io(err, "cannot write", w->path);
    return write_all(w->fd, w->path, &h, sizeof h, err);
}

static enum errc write_body(struct writer *w, const struct vector_file *f,
                            const struct vector_rows *rows, struct error *err)
{
    enum errc rc = OK;
    static const struct header empty;
    uint64_t sum;
    TRY(write_all(w->fd, w->path, &empty, sizeof empty, err));
    TRY(write_ids(w, rows, err));
    TRY(hnsw_save(rows->graph, writer_add, w, err));
    TRY(flush_block(w, err));
    sum = hash_xxh3(w->sums.ptr, w->sums.len);
    buf_add_slice(&w->sums, slice_of(&sum, sizeof sum));
    TRY(write_all(w->fd, w->path, w->sums.ptr, w->sums.len, err));
    TRY(write_header(w, f, rows, err));
    if (fault_errno("vector.sync", EIO) || fsync(w->fd))
        rc = fail_io(err, "cannot sync", w->path);
out:
    return rc;
}

static enum errc sync_dir(const char *dir, struct error *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_bad = fd < 0 || fsync(fd);
    enum errc rc = is_bad ? fail_io(err, "cannot sync", dir) : OK;
    if (fd >= 0)
        close(fd);
    return rc;
}

enum errc vector_file_write(const struct vector_file *f, const struct vector_rows *rows,
                            struct error *err)
{
    enum errc rc = OK;
    struct buf path, unfinished;
    struct writer w = { .fd = -1 };
    buf_init(&path, 0);
    buf_init(&unfinished, 0);
    buf_init(&w.sums, 0);
    path_of(&path, f);
    buf_printf(&unfinished, "%s.new", buf_cstr(&path));
    w.path = buf_cstr(&unfinished);
    w.block = mem_alloc(BLOCK_BYTES);
    w.fd = open(w.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (w.fd < 0) {
        rc = fail_io(err, "cannot create", w.path);
        goto out;
    }
    TRY(write_body(&w, f, rows, err));
    if (fault_errno("vector.rename", EIO) || rename(w.path, buf_cstr(&path))) {
        rc = fail_io(err, "cannot rename", w.path);
        goto out;
    }
    rc = sync_dir(f->dir, err);
out:
    if (w.fd >= 0)
        close(w.fd);
    if (rc != OK)
        (void)unlink(w.path);
    mem_free(w.block);
    buf_release(&w.sums);
    buf_release(&path);
    buf_release(&unfinished);
    return rc;
}

/* ---- reading ---- */

struct reader {
    int fd;
    const char *path;
    char *block; /* owned; BLOCK_BYTES */
    size_t at, used;
    uint64_t left; /* of the body */
};

static enum errc read_all(const struct reader *r, void *bytes, size_t len, struct error *err)
{
    char *at = bytes;
    while (len) {
        ssize_t n = fault_errno("vector.read", EIO) ? -1 : read(r->fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_io(err, "cannot read", r->path);
        if (n == 0)
            return fail(err, ERR_CORRUPT, "%s ends too early", r->path);
        at += n;
        len -= (size_t)n;
    }
    return OK;
}

static enum errc fill_block(struct reader *r, struct error *err)
{
    r->at = 0;
    r->used = r->left < BLOCK_BYTES ? (size_t)r->left : BLOCK_BYTES;
    r->left -= r->used;
    return read_all(r, r->block, r->used, err);
}

static enum errc reader_take(void *ctx, void *bytes, size_t len, struct error *err)
{
    struct reader *r = ctx;
    char *at = bytes;
    while (len) {
        if (r->at == r->used) {
            if (!r->left)
                return fail(err, ERR_CORRUPT, "%s: its content is too short", r->path);
            enum errc rc = fill_block(r, err);
            if (rc != OK)
                return rc;
        }
        size_t n = r->used - r->at < len ? r->used - r->at : len;
        memcpy(at, r->block + r->at, n);
        r->at += n;
        at += n;
        len -= n;
    }
    return OK;
}

static enum errc read_header(const struct reader *r, const struct vector_file *f, struct header *h,
                             struct error *err)
{
    struct stat st;
    enum errc rc = read_all(r, h, sizeof *h, err);
    if (rc != OK)
        return rc;
    if (memcmp(h->magic, magic, sizeof magic) != 0 || h->sum != header_sum(h))
        return fail(err, ERR_CORRUPT, "%s has a damaged header", r->path);
    if (h->version != FILE_VERSION)
        return fail(err, ERR_CORRUPT, "%s has format %u, this program reads %d", r->path,
                    h->version, FILE_VERSION);
    if (h->object_id != f->object_id || h->metric != f->metric || h->dimension != f->dimension ||
        h->rows > VECTOR_ROWS_MAX)
        return fail(err, ERR_CORRUPT, "%s belongs to another index", r->path);
    if (fstat(r->fd, &st))
        return fail_io(err, "cannot read", r->path);
    uint64_t blocks = (h->body_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    uint64_t want = sizeof *h + h->body_bytes + (blocks + 1) * sizeof(uint64_t);
    if ((uint64_t)st.st_size != want)
        return fail(err, ERR_CORRUPT, "%s has %llu bytes instead of %llu", r->path,
                    (unsigned long long)st.st_size, (unsigned long long)want);
    return OK;
}

/* The first pass: every block against its sum. */
static enum errc check_sums(struct reader *r, const struct header *h, struct error *err)
{
    enum errc rc = OK;
    uint64_t sum;
    struct buf made, found;
    buf_init(&made, 0);
    buf_init(&found, 0);
    r->left = h->body_bytes;
    while (r->left) {
        TRY(fill_block(r, err));
        sum = hash_xxh3(r->block, r->used);
        buf_add_slice(&made, slice_of(&sum, sizeof sum));
    }
    buf_add_slice(&found, buf_slice(&made)); /* as many bytes */
    TRY(read_all(r, found.ptr, found.len, err));
    TRY(read_all(r, &sum, sizeof sum, err));
    if (sum != hash_xxh3(found.ptr, found.len))
        rc = fail(err, ERR_CORRUPT, "%s has damaged checksums", r->path);
    for (size_t i = 0; rc == OK && i < made.len; i += sizeof sum)
        if (memcmp(made.ptr + i, found.ptr + i, sizeof sum) != 0)
            rc = fail(err, ERR_CORRUPT, "%s is damaged in its MiB %zu", r->path, i / sizeof sum);
out:
    buf_release(&made);
    buf_release(&found);
    return rc;
}

static enum errc read_rows(struct reader *r, const struct header *h, struct vector_rows *rows,
                           struct error *err)
{
    enum errc rc = OK;
    struct hnsw *graph = NULL;
    char id[ID_BYTES_MAX];
    for (uint64_t i = 0; i < h->rows; i++) {
        uint16_t len;
        TRY(reader_take(r, &len, sizeof len, err));
        if (len > sizeof id) {
            rc = fail(err, ERR_CORRUPT, "%s holds too long a key", r->path);
            goto out;
        }
        TRY(reader_take(r, id, len, err));
        (void)vector_rows_add(rows, slice_of(id, len), 0, VECTOR_ALIVE, NULL);
    }
    TRY(hnsw_load(&graph, reader_take, r, err));
    if (hnsw_count(graph) != h->rows || hnsw_dimension(graph) != h->dimension)
        rc = fail(err, ERR_CORRUPT, "%s holds another graph than it says", r->path);
    else
        vector_rows_set_graph(rows, graph), graph = NULL;
out:
    hnsw_free(graph);
    return rc;
}

static enum errc read_file(struct reader *r, const struct vector_file *f, int64_t max_bytes,
                           _Atomic int64_t *charge, struct vector_rows **out, struct error *err)
{
    enum errc rc = OK;
    struct header h;
    TRY(read_header(r, f, &h, err));
    if ((int64_t)h.body_bytes > max_bytes) {
        rc = fail(err, ERR_LIMIT, "%s needs %llu MiB of memory, %lld are left", r->path,
                  (unsigned long long)(h.body_bytes / MIB), (long long)(max_bytes / MIB));
        goto out;
    }
    TRY(check_sums(r, &h, err));
    if (lseek(r->fd, sizeof h, SEEK_SET) != sizeof h) {
        rc = fail_io(err, "cannot read", r->path);
        goto out;
    }
    r->left = h.body_bytes;
    r->at = r->used = 0;
    *out = vector_rows_new(h.dimension, (size_t)h.rows, false, charge);
    rc = read_rows(r, &h, *out, err);
out:
    return rc;
}

enum errc vector_file_read(const struct vector_file *f, int64_t max_bytes, _Atomic int64_t *charge,
                           struct vector_rows **out, struct error *err)
{
    enum errc rc = OK;
    struct buf path;
    struct reader r;
    *out = NULL;
    buf_init(&path, 0);
    path_of(&path, f);
    r = (struct reader){ .path = buf_cstr(&path) };
    r.fd = open(r.path, O_RDONLY | O_CLOEXEC);
    if (r.fd < 0) {
        rc = errno == ENOENT ? fail(err, ERR_NOT_FOUND, "%s is missing", r.path)
                             : fail_io(err, "cannot open", r.path);
        goto out;
    }
    r.block = mem_alloc(BLOCK_BYTES);
    rc = read_file(&r, f, max_bytes, charge, out, err);
    if (rc != OK) {
        vector_rows_unref(*out);
        *out = NULL;
    } else {
        (*out)->file_number = f->number;
    }
    close(r.fd);
    mem_free(r.block);
out:
    buf_release(&path);
    return rc;
}

/* ---- removing ---- */

void vector_file_remove(const struct vector_file *f)
{
    struct buf path;
    buf_init(&path, 0);
    path_of(&path, f);
    if (unlink(buf_cstr(&path)) && errno != ENOENT)
        log_warn("store", "cannot remove %s: %s", buf_cstr(&path), strerror(errno));
    buf_release(&path);
}

/* OBJECT-NUMBER.seg; *is_whole is false with something behind it. */
static bool read_name(const char *name, uint64_t *object_id, uint64_t *number, bool *is_whole)
{
    enum { DIGITS = 16, NUMBER_AT = DIGITS + 1, END_AT = NUMBER_AT + DIGITS };
    static const char suffix[] = ".seg";
    char *end;
    if (strlen(name) < END_AT + sizeof suffix - 1 || name[DIGITS] != '-' ||
        strncmp(name + END_AT, suffix, sizeof suffix - 1) != 0)
        return false;
    *object_id = strtoull(name, &end, 16);
    if (end != name + DIGITS)
        return false;
    *number = strtoull(name + NUMBER_AT, &end, 16);
    *is_whole = name[END_AT + sizeof suffix - 1] == 0;
    return end == name + END_AT;
}

void vector_files_tidy(const char *dir,
                       bool (*is_kept)(void *ctx, uint64_t object_id, uint64_t number), void *ctx)
{
    struct dirent *e;
    DIR *d = opendir(dir);
    while (d && (e = readdir(d))) {
        uint64_t object_id, number;
        bool is_whole;
        if (!read_name(e->d_name, &object_id, &number, &is_whole) ||
            (is_whole && is_kept(ctx, object_id, number)))
            continue;
        if (unlinkat(dirfd(d), e->d_name, 0) == 0)
            log_info("store", "removed %s, which no vector index uses", e->d_name);
    }
    if (d)
        closedir(d);
}
