/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf -- growing bytes with a maximum. Passing the maximum sets a flag that
 * sticks, so that writers check once at the end.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/base.h"
#include "base/error.h"

struct buf {
    char *ptr;
    size_t len;
    size_t cap;
    size_t max;       /* bytes; 0 = no maximum */
    bool is_overfull; /* something did not fit and was dropped */
};

void buf_init(struct buf *buf, size_t max);
void buf_release(struct buf *buf);
void buf_clear(struct buf *buf); /* len = 0, flag gone, memory kept */

void buf_add(struct buf *buf, const void *bytes, size_t len);
void buf_add_slice(struct buf *buf, struct slice bytes);
void buf_add_str(struct buf *buf, const char *text);
void buf_add_char(struct buf *buf, char c);
void buf_printf(struct buf *buf, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Room for len bytes at the end, already counted in len; NULL when over the maximum. */
char *buf_reserve(struct buf *buf, size_t len);

/* Removes the first len bytes. */
void buf_drop(struct buf *buf, size_t len);

/* A terminating zero behind the content, not counted. */
const char *buf_cstr(struct buf *buf);

static inline struct slice buf_slice(const struct buf *buf)
{
    return slice_of(buf->ptr, buf->len);
}

/* ERR_TOO_LARGE naming what, when something was dropped. */
MUST_CHECK enum errc buf_check(const struct buf *buf, const char *what, struct error *err);

#endif
