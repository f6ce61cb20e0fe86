/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row is its values one behind the other. In memory rows are sorted by pointers; a
 * run is a part of the file with a header before each row: length and hash, since what
 * comes back from a disk is not trusted. Runs are read in blocks and merged by a heap.
 */
#include "query/spill.h"
#include "base/env.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/metrics.h"
#include "base/seal.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUNS_MAX = 256, BLOCK_BYTES = 64 * KIB };

struct header {
    uint64_t hash;
    uint32_t len, order;
};

struct run {
    uint64_t at, end; /* in the file: what was not read yet */
    struct buf block;
    size_t taken;       /* of the block */
    const uint8_t *row; /* the current one, in the block; NULL at the end */
};

struct spill {
    struct spill_space *space; /* borrowed */
    struct spill_order order;
    struct arena *arena;  /* owned: rows in memory */
    const uint8_t **rows; /* in the arena */
    size_t count, cap;
    int fd;                      /* -1: nothing was written */
    uint8_t key[SEAL_KEY_BYTES]; /* of an encrypted file */
    uint64_t file_bytes;
    struct run *runs;
    uint32_t run_count;
    uint32_t heap[RUNS_MAX]; /* runs by their current rows */
    uint32_t heap_count;
    size_t at;          /* in memory: the next row */
    bool has_given;     /* the first of the heap was handed out */
    struct val *values; /* of the row handed out */
};

static struct metric spilled_bytes = METRIC_COUNTER("themis_query_spilled_bytes_total",
                                                    "Bytes that queries wrote to temporary files.");

/* ---- space ---- */

static enum errc remove_files(const char *dir, struct error *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    if (!d)
        return fail_os(err, "read", dir);
    while ((e = readdir(d)))
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    return OK;
}

enum errc spill_space_open(struct spill_space *space, const char *dir, struct error *err)
{
    snprintf(space->dir, sizeof space->dir, "%s", dir);
    metric_register(&spilled_bytes);
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return fail_os(err, "make", dir);
    return remove_files(dir, err);
}

/* ---- life ---- */

struct spill *spill_new(struct spill_space *space, const struct spill_order *order,
                        struct arena *parent)
{
    struct spill *s = mem_zalloc(sizeof *s);

    s->space = space;
    s->order = *order;
    s->arena = arena_child(parent);
    s->fd = -1;
    s->values = mem_alloc((order->keys + order->values + 1) * sizeof *s->values);
    return s;
}

void spill_free(struct spill *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->run_count; i++)
        buf_release(&s->runs[i].block);
    if (s->fd >= 0)
        close(s->fd);
    seal_wipe(s->key, sizeof s->key);
    atomic_fetch_sub(&s->space->used_bytes, s->file_bytes);
    mem_free(s->runs);
    mem_free(s->values);
    arena_free(s->arena);
    mem_free(s);
}

/* ---- order ---- */

static int compare_rows(const struct spill *s, const uint8_t *a, const uint8_t *b)
{
    for (uint32_t i = 0; i < s->order.keys; i++) {
        struct val x = { a }, y = { b };
        int c = val_compare(x, y, s->order.collator);
        if (c)
            return s->order.descending && s->order.descending[i] ? -c : c;
        a += val_size(x);
        b += val_size(y);
    }
    return 0;
}

/* Of the rows in memory; the header before a row tells. */
static uint32_t order_of(const uint8_t *row)
{
    struct header h;

    memcpy(&h, row - sizeof h, sizeof h);
    return h.order;
}

static int compare_places(const void *a, const void *b, void *arg)
{
    const uint8_t *x = *(const uint8_t *const *)a, *y = *(const uint8_t *const *)b;
    int c = compare_rows(arg, x, y);

    return c ? c : order_of(x) < order_of(y) ? -1 : 1;
}

static void sort_rows(struct spill *s)
{
    if (s->count)
        qsort_r(s->rows, s->count, sizeof *s->rows, compare_places, s);
}

/* ---- writing ---- */

static enum errc open_file(struct spill *s, struct error *err)
{
    char path[sizeof s->space->dir + 16];
    const struct env *env = env_system();

    if (s->space->is_encrypted)
        env->random(env->ctx, s->key, sizeof s->key);
    s->fd = fault_errno("spill.open", EMFILE)
                ? -1
                : open(s->space->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (s->fd >= 0)
        return OK;
    if (errno != EOPNOTSUPP && errno != EISDIR)
        return fail_os(err, "make a temporary file in", s->space->dir);
    snprintf(path, sizeof path, "%s/spill.XXXXXX", s->space->dir);
    s->fd = mkostemp(path, O_CLOEXEC);
    if (s->fd < 0)
        return fail_os(err, "make a temporary file in", s->space->dir);
    unlink(path);
    return OK;
}

static enum errc claim(struct spill *s, uint64_t bytes, struct error *err)
{
    uint64_t used = atomic_fetch_add(&s->space->used_bytes, bytes);

    s->file_bytes += bytes;
    metric_add(&spilled_bytes, bytes);
    if (used + bytes <= s->space->max_bytes)
        return OK;
    return fail(err, ERR_LIMIT,
                "temporary files of queries would take more than spill_max_mb: %llu bytes",
                (unsigned long long)s->space->max_bytes);
}

static enum errc write_block(struct spill *s, struct buf *block, uint64_t *at, struct error *err)
{
    struct slice left = buf_slice(block);
    enum errc rc = claim(s, left.len, err);

    if (s->space->is_encrypted)
        seal_stream(s->key, *at, block->ptr, block->len);
    while (rc == OK && left.len) {
        ssize_t n =
            fault_errno("spill.write", ENOSPC) ? -1 : pwrite(s->fd, left.ptr, left.len, (off_t)*at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_os(err, "write to a temporary file in", s->space->dir);
        *at += (uint64_t)n;
        left = slice_of(left.ptr + n, left.len - (size_t)n);
    }
    buf_clear(block);
    return rc;
}

/* The rows in memory become a run. */
static enum errc write_run(struct spill *s, struct error *err)
{
    struct buf block;
    uint64_t at = s->run_count ? s->runs[s->run_count - 1].end : 0;
    struct run run = { .at = at };
    enum errc rc = OK;

    buf_init(&block, 0);
    buf_init(&run.block, 0);
    if (s->run_count == RUNS_MAX)
        return fail(err, ERR_LIMIT,
                    "a query may write at most %d sorted runs; raise spill_memory_mb", RUNS_MAX);
    if (s->fd < 0)
        TRY(open_file(s, err));
    sort_rows(s);
    for (size_t i = 0; i < s->count; i++) {
        struct header h;
        memcpy(&h, s->rows[i] - sizeof h, sizeof h);
        buf_add(&block, s->rows[i] - sizeof h, sizeof h + h.len);
        if (block.len >= BLOCK_BYTES)
            TRY(write_block(s, &block, &at, err));
    }
    TRY(write_block(s, &block, &at, err));
    run.end = at;
    s->runs = mem_realloc(s->runs, (s->run_count + 1) * sizeof *s->runs);
    s->runs[s->run_count++] = run;
    arena_reset(s->arena);
    s->rows = NULL;
    s->count = s->cap = 0;
out:
    buf_release(&block);
    return rc;
}

static void reserve(struct spill *s)
{
    if (s->count < s->cap)
        return;
    size_t cap = s->cap ? s->cap * 2 : 256;
    const uint8_t **rows = arena_alloc(s->arena, cap * sizeof(*rows));
    if (s->count)
        memcpy(rows, s->rows, s->count * sizeof(*rows));
    s->rows = rows;
    s->cap = cap;
}

static uint8_t *put_values(uint8_t *to, const struct val *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct slice bytes = val_bytes(list[i]);
        memcpy(to, bytes.ptr, bytes.len);
        to += bytes.len;
    }
    return to;
}

static size_t values_size(const struct val *list, uint32_t count)
{
    size_t size = 0;

    for (uint32_t i = 0; i < count; i++)
        size += val_bytes(list[i]).len;
    return size;
}

enum errc spill_add(struct spill *s, const struct val *keys, const struct val *values,
                    struct error *err)
{
    size_t size = values_size(keys, s->order.keys) + values_size(values, s->order.values);
    struct header h = { .len = (uint32_t)size };
    enum errc rc = arena_used(s->arena) > s->space->memory_bytes ? write_run(s, err) : OK;

    if (rc != OK)
        return rc;
    if (size > UINT32_MAX - sizeof h)
        return fail(err, ERR_LIMIT, "a row of %zu bytes cannot be sorted", size);
    reserve(s);
    h.order = (uint32_t)s->count;
    uint8_t *row = arena_alloc(s->arena, sizeof h + size);
    put_values(put_values(row + sizeof h, keys, s->order.keys), values, s->order.values);
    h.hash = hash_xxh3(row + sizeof h, size);
    memcpy(row, &h, sizeof h);
    s->rows[s->count++] = row + sizeof h;
    return OK;
}

/* ---- reading ---- */

/* Fills the block until it holds so many bytes behind what was taken. */
static enum errc read_block(struct spill *s, struct run *r, size_t want, struct error *err)
{
    buf_drop(&r->block, r->taken);
    r->taken = 0;
    while (r->block.len < want) {
        uint64_t left = r->end - r->at;
        size_t have = r->block.len;
        size_t ask = want - have > BLOCK_BYTES ? want - have : BLOCK_BYTES;
        if (ask > left)
            ask = (size_t)left;
        char *to = buf_reserve(&r->block, ask);
        ssize_t n = fault_errno("spill.read", EIO) ? -1 : pread(s->fd, to, ask, (off_t)r->at);
        r->block.len = have + (n > 0 ? (size_t)n : 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_os(err, "read a temporary file in", s->space->dir);
        if (n == 0)
            return fail(err, ERR_CORRUPT, "a temporary file in %s is cut off", s->space->dir);
        if (s->space->is_encrypted)
            seal_stream(s->key, r->at, to, (size_t)n);
        r->at += (uint64_t)n;
    }
    return OK;
}

static size_t held(const struct run *r)
{
    return r->block.len - r->taken;
}

/* Makes the next row of the run the current one. */
static enum errc advance(struct spill *s, struct run *r, struct error *err)
{
    struct header h;
    enum errc rc = OK;

    r->row = NULL;
    if (!held(r) && r->at == r->end)
        return OK;
    if (held(r) < sizeof h)
        TRY(read_block(s, r, sizeof h, err));
    memcpy(&h, r->block.ptr + r->taken, sizeof h);
    if (held(r) < sizeof h + h.len)
        TRY(read_block(s, r, sizeof h + h.len, err));
    const uint8_t *row = (const uint8_t *)r->block.ptr + r->taken + sizeof h;
    if (hash_xxh3(row, h.len) != h.hash)
        return fail(err, ERR_CORRUPT, "a temporary file in %s is damaged", s->space->dir);
    r->taken += sizeof h + h.len;
    r->row = row;
out:
    return rc;
}

/* Earlier runs hold rows that came earlier. */
static bool is_before(const struct spill *s, uint32_t a, uint32_t b)
{
    int c = compare_rows(s, s->runs[a].row, s->runs[b].row);

    return c < 0 || (c == 0 && a < b);
}

static void sift_down(struct spill *s, uint32_t i)
{
    for (;;) {
        uint32_t first = i;
        for (uint32_t kid = 2 * i + 1; kid <= 2 * i + 2 && kid < s->heap_count; kid++)
            if (is_before(s, s->heap[kid], s->heap[first]))
                first = kid;
        if (first == i)
            return;
        uint32_t t = s->heap[i];
        s->heap[i] = s->heap[first];
        s->heap[first] = t;
        i = first;
    }
}

enum errc spill_finish(struct spill *s, struct error *err)
{
    enum errc rc = OK;

    if (!s->run_count) {
        sort_rows(s);
        return OK;
    }
    if (s->count)
        TRY(write_run(s, err));
    for (uint32_t i = 0; i < s->run_count; i++) {
        TRY(advance(s, &s->runs[i], err));
        if (s->runs[i].row)
            s->heap[s->heap_count++] = i;
    }
    for (uint32_t i = s->heap_count / 2; i-- > 0;)
        sift_down(s, i);
out:
    return rc;
}

static struct val *open_row(struct spill *s, const uint8_t *row)
{
    for (uint32_t i = 0; i < s->order.keys + s->order.values; i++) {
        s->values[i] = (struct val){ row };
        row += val_size(s->values[i]);
    }
    return s->values;
}

enum errc spill_next(struct spill *s, struct val **row, struct error *err)
{
    *row = NULL;
    if (!s->run_count) {
        if (s->at < s->count)
            *row = open_row(s, s->rows[s->at++]);
        return OK;
    }
    if (s->has_given) {
        struct run *r = &s->runs[s->heap[0]];
        enum errc rc = advance(s, r, err);
        if (rc != OK)
            return rc;
        if (!r->row)
            s->heap[0] = s->heap[--s->heap_count];
        sift_down(s, 0);
    }
    s->has_given = s->heap_count > 0;
    if (s->has_given)
        *row = open_row(s, s->runs[s->heap[0]].row);
    return OK;
}
