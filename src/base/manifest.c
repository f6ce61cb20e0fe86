/* SPDX-License-Identifier: Apache-2.0 */
#include "base/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/val_text.h"

enum { FORMAT = 1, PIECE_BYTES = 1 << 20, FILES_MAX = 1000000, TEXT_MAX = 256 * MIB };

static const char file_name[] = "manifest.json";

static enum errc os_fail(struct error *err, const char *what, const char *path)
{
    if (errno != ENOENT)
        return fail_os(err, what, path);
    return fail(err, ERR_NOT_FOUND, "cannot %s %s: %s", what, path, strerror(errno));
}

/* ---- folders ---- */

static FTS *open_walk(const char *dir)
{
    char *const paths[] = { (char *)dir, NULL };
    return fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
}

enum errc folder_remove(const char *dir, struct error *err)
{
    enum errc rc = OK;
    FTS *walk = open_walk(dir);
    if (!walk)
        return os_fail(err, "read", dir);
    for (FTSENT *e; rc == OK && (e = fts_read(walk)) != NULL;) {
        if (e->fts_info == FTS_D)
            continue; /* its content first */
        errno = e->fts_errno;
        bool is_bad = e->fts_info == FTS_ERR || e->fts_info == FTS_DNR || e->fts_info == FTS_NS;
        if (is_bad || remove(e->fts_path))
            rc = os_fail(err, "remove", e->fts_path);
    }
    fts_close(walk);
    return rc;
}

enum errc folder_sync(const char *dir, struct error *err)
{
    int fd = fault_errno("base.manifest", EIO) ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum errc rc = fd < 0 || fsync(fd) ? os_fail(err, "sync", dir) : OK;
    if (fd >= 0)
        close(fd);
    return rc;
}

/* ---- hashing ---- */

enum errc manifest_hash(int fd, const char *path, struct manifest_file *out, struct error *err)
{
    uint8_t digest[32];
    char *piece = mem_alloc(PIECE_BYTES);
    struct sha256 *sum = sha256_new();
    ssize_t n;
    out->bytes = 0;
    while ((n = fault_errno("base.manifest", EIO) ? -1 : read(fd, piece, PIECE_BYTES)) > 0) {
        sha256_add(sum, piece, (size_t)n);
        out->bytes += (uint64_t)n;
    }
    enum errc rc = n < 0 ? os_fail(err, "read", path) : OK;
    sha256_finish(sum, digest);
    hash_hex(digest, sizeof digest, out->sha256);
    mem_free(piece);
    return rc;
}

static enum errc hash_file(const char *path, struct manifest_file *out, struct error *err)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return os_fail(err, "open", path);
    enum errc rc = manifest_hash(fd, path, out, err);
    close(fd);
    return rc;
}

/* ---- making ---- */

typedef enum errc visit_file(void *ctx, const char *full, const char *within, struct error *err);

/* Calls visit for each file of the folder but the manifest itself. */
static enum errc walk_files(const char *dir, visit_file *visit, void *ctx, struct error *err)
{
    enum errc rc = OK;
    size_t skip = strlen(dir);
    FTS *walk = open_walk(dir);
    if (!walk)
        return os_fail(err, "read", dir);
    for (FTSENT *e; rc == OK && (e = fts_read(walk)) != NULL;) {
        const char *within = e->fts_path + skip + (e->fts_path[skip] == '/');
        if (e->fts_info == FTS_D || e->fts_info == FTS_DP || !strcmp(within, file_name))
            continue;
        errno = e->fts_errno;
        if (e->fts_info == FTS_F)
            rc = visit(ctx, e->fts_path, within, err);
        else if (e->fts_errno)
            rc = os_fail(err, "read", e->fts_path);
        else
            rc = fail(err, ERR_INVALID, "%s is not a plain file", e->fts_path);
    }
    fts_close(walk);
    return rc;
}

struct making {
    struct manifest *m;
    struct arena *arena;
    size_t room;
};

static enum errc add_file(void *ctx, const char *full, const char *within, struct error *err)
{
    struct making *k = ctx;
    struct manifest *m = k->m;
    if (m->count == k->room) {
        size_t room = k->room ? k->room * 2 : 64;
        struct manifest_file *more = arena_alloc(k->arena, room * sizeof *more);
        if (m->count)
            memcpy(more, m->files, m->count * sizeof *more);
        m->files = more;
        k->room = room;
    }
    struct manifest_file *f = &m->files[m->count++];
    f->path = arena_copy(k->arena, slice_str(within)).ptr;
    enum errc rc = hash_file(full, f, err);
    m->bytes += f->bytes;
    return rc;
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const struct manifest_file *)a)->path, ((const struct manifest_file *)b)->path);
}

static void put(struct val_builder *b, const char *name, struct slice text)
{
    val_put_name(b, slice_str(name));
    val_put_string(b, text);
}

static enum errc to_text(const struct manifest *m, struct buf *out, struct error *err)
{
    struct val_builder *b = val_builder_new(0);
    struct arena *arena = arena_new(0);
    struct val v;
    val_open_object(b);
    val_put_name(b, slice_str("format"));
    val_put_int(b, FORMAT);
    val_put_name(b, slice_str("about"));
    val_put(b, m->about);
    val_put_name(b, slice_str("files"));
    val_open_array(b);
    for (size_t i = 0; i < m->count; i++) {
        val_open_object(b);
        put(b, "path", slice_str(m->files[i].path));
        val_put_name(b, slice_str("bytes"));
        val_put_int(b, (int64_t)m->files[i].bytes);
        put(b, "sha256", slice_str(m->files[i].sha256));
        val_close(b);
    }
    val_close(b);
    val_close(b);
    enum errc rc = val_finish_in(b, arena, &v, err);
    if (rc == OK)
        val_print_pretty(v, out);
    buf_add_char(out, '\n');
    val_builder_free(b);
    arena_free(arena);
    return rc;
}

static enum errc write_durably(const char *path, struct slice text, struct error *err)
{
    int fd = fault_errno("base.manifest", EIO)
                 ? -1
                 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (fd < 0)
        return os_fail(err, "make", path);
    enum errc rc = OK;
    while (rc == OK && text.len) {
        ssize_t n = fault_errno("base.manifest", EIO) ? -1 : write(fd, text.ptr, text.len);
        if (n < 0 && errno != EINTR)
            rc = os_fail(err, "write", path);
        else if (n > 0)
            text = slice_of(text.ptr + n, text.len - (size_t)n);
    }
    if (rc == OK && (fault_errno("base.manifest", EIO) || fsync(fd)))
        rc = os_fail(err, "sync", path);
    close(fd);
    return rc;
}

enum errc manifest_make(const char *dir, struct val about, struct arena *arena,
                        struct manifest *out, struct error *err)
{
    enum errc rc = OK;
    struct making k = { .m = out, .arena = arena };
    struct buf text, path;
    *out = (struct manifest){ .about = about };
    buf_init(&text, 0);
    buf_init(&path, 0);
    buf_printf(&path, "%s/%s", dir, file_name);
    TRY(walk_files(dir, add_file, &k, err));
    if (out->count)
        qsort(out->files, out->count, sizeof *out->files, compare_files);
    TRY(to_text(out, &text, err));
    TRY(write_durably(buf_cstr(&path), buf_slice(&text), err));
    rc = folder_sync(dir, err);
out:
    buf_release(&text);
    buf_release(&path);
    return rc;
}

/* ---- reading ---- */

static enum errc read_text(const char *path, struct buf *out, struct error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return os_fail(err, "open", path);
    enum errc rc = fstat(fd, &st) ? os_fail(err, "read", path) : OK;
    if (rc == OK && st.st_size > TEXT_MAX)
        rc = fail(err, ERR_CORRUPT, "%s is larger than %d bytes", path, TEXT_MAX);
    size_t size = rc == OK ? (size_t)st.st_size : 0;
    char *to = buf_reserve(out, size);
    if (rc == OK && read(fd, to, size) != (ssize_t)size)
        rc = fail(err, ERR_IO, "cannot read all of %s", path);
    close(fd);
    return rc;
}

/* Within the folder, whatever a foreign manifest says. */
static bool path_is_safe(struct slice path)
{
    if (!path.len || path.ptr[0] == '/' || memchr(path.ptr, 0, path.len))
        return false;
    for (size_t start = 0; start <= path.len;) {
        const char *slash = memchr(path.ptr + start, '/', path.len - start);
        size_t end = slash ? (size_t)(slash - path.ptr) : path.len;
        struct slice part = slice_of(path.ptr + start, end - start);
        if (!part.len || slice_is(part, ".") || slice_is(part, ".."))
            return false;
        start = end + 1;
    }
    return true;
}

static bool read_file_row(struct val v, struct arena *arena, struct manifest_file *out)
{
    struct slice path = val_string(val_get(v, slice_str("path")));
    struct slice digest = val_string(val_get(v, slice_str("sha256")));
    struct val bytes = val_get(v, slice_str("bytes"));
    if (!path_is_safe(path) || digest.len != 64 || val_type(bytes) != VAL_NUMBER ||
        val_int(bytes) < 0)
        return false;
    out->path = arena_copy(arena, path).ptr;
    out->bytes = (uint64_t)val_int(bytes);
    memcpy(out->sha256, digest.ptr, digest.len);
    out->sha256[64] = 0;
    return true;
}

static enum errc from_val(struct val v, const char *path, struct arena *arena, struct manifest *out,
                          struct error *err)
{
    struct val files = val_get(v, slice_str("files"));
    struct val format = val_get(v, slice_str("format"));
    out->about = val_get(v, slice_str("about"));
    out->count = val_count(files);
    if (val_type(format) == VAL_NUMBER && val_int(format) > FORMAT)
        return fail(err, ERR_INVALID, "%s has format %lld, this program reads up to %d", path,
                    (long long)val_int(format), FORMAT);
    if (val_type(format) != VAL_NUMBER || val_type(files) != VAL_ARRAY ||
        val_type(out->about) != VAL_OBJECT || out->count > FILES_MAX)
        return fail(err, ERR_CORRUPT, "%s is not a manifest", path);
    out->files = arena_alloc(arena, (out->count + 1) * sizeof *out->files);
    for (size_t i = 0; i < out->count; i++) {
        if (!read_file_row(val_at(files, i), arena, &out->files[i]))
            return fail(err, ERR_CORRUPT, "row %zu of %s is not a file of the folder", i + 1, path);
        if (i && compare_files(&out->files[i - 1], &out->files[i]) >= 0)
            return fail(err, ERR_CORRUPT, "the rows of %s are not in order", path);
        out->bytes += out->files[i].bytes;
    }
    return OK;
}

enum errc manifest_read(const char *dir, struct arena *arena, struct manifest *out,
                        struct error *err)
{
    enum errc rc = OK;
    struct buf text, path;
    struct error why;
    struct val v;
    *out = (struct manifest){ .about = val_null };
    buf_init(&text, 0);
    buf_init(&path, 0);
    buf_printf(&path, "%s/%s", dir, file_name);
    TRY(read_text(buf_cstr(&path), &text, err));
    if (val_parse(buf_slice(&text), arena, &v, &why) != OK)
        rc = fail(err, ERR_CORRUPT, "%s: %s", buf_cstr(&path), why.text);
    else
        rc = from_val(v, buf_cstr(&path), arena, out, err);
out:
    buf_release(&text);
    buf_release(&path);
    return rc;
}

enum errc manifest_digest(const char *dir, char out[65], struct error *err)
{
    struct manifest_file file = { .bytes = 0 };
    struct buf path;
    buf_init(&path, 0);
    buf_printf(&path, "%s/%s", dir, file_name);
    enum errc rc = hash_file(buf_cstr(&path), &file, err);
    if (rc == OK)
        memcpy(out, file.sha256, sizeof file.sha256);
    buf_release(&path);
    return rc;
}

/* ---- checking ---- */

static enum errc check_known(void *ctx, const char *full, const char *within, struct error *err)
{
    const struct manifest *m = ctx;
    struct manifest_file key = { .path = within };
    if (m->count && bsearch(&key, m->files, m->count, sizeof *m->files, compare_files))
        return OK;
    return fail(err, ERR_CORRUPT, "%s is not in the manifest", full);
}

static enum errc check_file(const char *dir, const struct manifest_file *want, struct error *err)
{
    struct manifest_file have = { .bytes = 0 };
    struct buf path;
    buf_init(&path, 0);
    buf_printf(&path, "%s/%s", dir, want->path);
    enum errc rc = hash_file(buf_cstr(&path), &have, err);
    if (rc == ERR_NOT_FOUND)
        rc = fail(err, ERR_CORRUPT, "%s is missing", buf_cstr(&path));
    else if (rc == OK && have.bytes != want->bytes)
        rc = fail(err, ERR_CORRUPT, "%s has %llu bytes instead of %llu", buf_cstr(&path),
                  (unsigned long long)have.bytes, (unsigned long long)want->bytes);
    else if (rc == OK && memcmp(have.sha256, want->sha256, 64) != 0)
        rc = fail(err, ERR_CORRUPT, "%s is damaged: its SHA-256 is not the one that was recorded",
                  buf_cstr(&path));
    buf_release(&path);
    return rc;
}

enum errc manifest_check(const char *dir, const struct manifest *m, struct error *err)
{
    enum errc rc = walk_files(dir, check_known, (void *)m, err);
    for (size_t i = 0; rc == OK && i < m->count; i++)
        rc = check_file(dir, &m->files[i], err);
    return rc;
}
