/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { SMALL_BLOCK = 1032 }; /* the largest of those */

static void *checked(void *ptr, size_t bytes)
{
    if (!ptr && bytes) {
        fprintf(stderr, "themis: out of memory (%zu bytes)\n", bytes);
        abort();
    }
    return ptr;
}

void *mem_alloc(size_t bytes)
{
    return checked(malloc(bytes ? bytes : 1), bytes);
}

/* glibc's calloc passes by the freed blocks that malloc keeps at hand for each thread. */
void *mem_zalloc(size_t bytes)
{
    if (bytes > SMALL_BLOCK)
        return checked(calloc(1, bytes), bytes);
    return memset(mem_alloc(bytes), 0, bytes);
}

void *mem_realloc(void *ptr, size_t bytes)
{
    return checked(realloc(ptr, bytes ? bytes : 1), bytes);
}

char *mem_strdup(const char *text)
{
    return mem_strndup(slice_str(text));
}

char *mem_strndup(struct slice text)
{
    char *copy = mem_alloc(text.len + 1);

    if (text.len)
        memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    return copy;
}

void mem_free(void *ptr)
{
    free(ptr);
}

void bug_at(const char *file, int line, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fprintf(stderr, "%s:%d: bug: ", file, line);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

bool slice_to_u64(struct slice a, uint64_t *out)
{
    uint64_t n = 0;
    for (size_t i = 0; i < a.len; i++) {
        if (a.ptr[i] < '0' || a.ptr[i] > '9' || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(a.ptr[i] - '0'), &n))
            return false;
    }
    *out = n;
    return a.len > 0;
}

bool slice_is_file_name(struct slice a, size_t max)
{
    if (!a.len || a.len > max || a.ptr[0] == '.')
        return false;
    for (size_t i = 0; i < a.len; i++) {
        char c = a.ptr[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
        if (!is_plain)
            return false;
    }
    return true;
}
