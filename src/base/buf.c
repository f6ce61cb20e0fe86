/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include <stdarg.h>
#include <stdio.h>

enum { CAP_FIRST = 64 };

void buf_init(struct buf *buf, size_t max)
{
    *buf = (struct buf){ .max = max };
}

void buf_release(struct buf *buf)
{
    if (!buf)
        return;
    mem_free(buf->ptr);
    *buf = (struct buf){ .max = buf->max };
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->is_overfull = false;
}

/* Room for len more bytes and a terminator. */
static bool grow(struct buf *buf, size_t len)
{
    if (buf->is_overfull || len > SIZE_MAX / 4 || (buf->max && len > buf->max - buf->len)) {
        buf->is_overfull = true;
        return false;
    }
    size_t need = buf->len + len + 1;
    if (need <= buf->cap)
        return true;
    size_t cap = buf->cap ? buf->cap * 2 : CAP_FIRST;
    if (cap < need)
        cap = need;
    buf->ptr = mem_realloc(buf->ptr, cap);
    buf->cap = cap;
    return true;
}

void buf_add(struct buf *buf, const void *bytes, size_t len)
{
    if (!grow(buf, len) || !len)
        return;
    memcpy(buf->ptr + buf->len, bytes, len);
    buf->len += len;
}

void buf_add_slice(struct buf *buf, struct slice bytes)
{
    buf_add(buf, bytes.ptr, bytes.len);
}

void buf_add_str(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

void buf_add_char(struct buf *buf, char c)
{
    if (!grow(buf, 1))
        return;
    buf->ptr[buf->len++] = c;
}

void buf_printf(struct buf *buf, const char *fmt, ...)
{
    va_list args, again;

    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n > 0 && grow(buf, (size_t)n)) {
        vsnprintf(buf->ptr + buf->len, (size_t)n + 1, fmt, again);
        buf->len += (size_t)n;
    }
    va_end(again);
}

char *buf_reserve(struct buf *buf, size_t len)
{
    if (!grow(buf, len))
        return NULL;
    char *at = buf->ptr + buf->len;
    buf->len += len;
    return at;
}

void buf_drop(struct buf *buf, size_t len)
{
    if (len >= buf->len) {
        buf->len = 0;
        return;
    }
    memmove(buf->ptr, buf->ptr + len, buf->len - len);
    buf->len -= len;
}

const char *buf_cstr(struct buf *buf)
{
    if (!buf->ptr) {
        buf->ptr = mem_alloc(CAP_FIRST);
        buf->cap = CAP_FIRST;
    }
    buf->ptr[buf->len] = 0;
    return buf->ptr;
}

enum errc buf_check(const struct buf *buf, const char *what, struct error *err)
{
    if (!buf->is_overfull)
        return OK;
    return fail(err, ERR_TOO_LARGE, "%s is larger than the limit of %zu bytes", what, buf->max);
}
