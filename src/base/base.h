/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base -- the few definitions that every file uses: slices, attributes, sizes
 * and the one control-flow macro of the tree.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Stores the code of expr in rc and leaves by the label out unless it is OK. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        rc = (expr);                                                                               \
        if (rc != OK)                                                                              \
            goto out;                                                                              \
    } while (0)

enum { KIB = 1024, MIB = 1024 * 1024 };
#define GIB ((uint64_t)1024 * MIB)

/* Limits that are not settings, in one place. */
enum {
    LIMIT_NESTING = 200,          /* JSON and stored values, levels */
    LIMIT_AQL_NESTING = 500,      /* expressions, levels */
    LIMIT_KEY_BYTES = 254,        /* _key of a document */
    LIMIT_NAME_BYTES = 256,       /* database, collection, index, attribute path element */
    LIMIT_DOC_BYTES = 16 * MIB,   /* one stored document */
    LIMIT_INDEX_FIELDS = 32,      /* fields of one index */
    LIMIT_INDEX_KEY_BYTES = 8192, /* encoded values of one index entry */
    LIMIT_ROWS_PER_BATCH = 1000,  /* rows between two operators */
};

/* Bytes owned by somebody else; not terminated. ptr may be NULL only if len is 0. */
struct slice {
    const char *ptr;
    size_t len;
};

static inline struct slice slice_of(const void *ptr, size_t len)
{
    return (struct slice){ (const char *)ptr, len };
}

/* Of a string literal or a terminated string. */
static inline struct slice slice_str(const char *text)
{
    return (struct slice){ text, strlen(text) };
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool slice_is(struct slice a, const char *text)
{
    return slice_eq(a, slice_str(text));
}

static inline bool slice_starts(struct slice a, const char *prefix)
{
    size_t n = strlen(prefix);
    return a.len >= n && memcmp(a.ptr, prefix, n) == 0;
}

/* 1 to max of A-Z a-z 0-9 . _ -, not beginning with a dot: names a file and no path. */
bool slice_is_file_name(struct slice a, size_t max);

/* All of it as decimal digits; false when it is something else or too large. */
MUST_CHECK bool slice_to_u64(struct slice a, uint64_t *out);

/* Bytewise order, shorter first: <0, 0, >0. */
static inline int slice_cmp(struct slice a, struct slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.ptr, b.ptr, n) : 0;
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

/* For printf: printf("%.*s", SLICE_ARG(s)). */
#define SLICE_ARG(s) (int)(s).len, (s).len ? (s).ptr : ""

/* Allocation outside arenas. Small sizes abort when memory is out; never NULL. */
void *mem_alloc(size_t bytes);
void *mem_zalloc(size_t bytes);
void *mem_realloc(void *ptr, size_t bytes);
char *mem_strdup(const char *text);
/* Copies a slice and terminates it. Returns it to the caller. */
char *mem_strndup(struct slice text);
void mem_free(void *ptr);

/* A broken promise of our own code: prints file, line and message, then aborts. */
NORETURN void bug_at(const char *file, int line, const char *fmt, ...) PRINTF_LIKE(3, 4);
#define BUG(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)

#endif
