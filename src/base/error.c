/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

struct errc_row {
    const char *name;
    int http;
    int num;
    bool is_retryable;
    const char *text;
};

static const struct errc_row codes[] = {
#define ERROR(name, http, num, retryable, text) { #name, http, num, retryable, text },
#include "base/error.def"
#undef ERROR
};

struct errnum_row {
    int num;
    enum errc code;
    int http;
    const char *text;
};

static const struct errnum_row numbers[] = {
#define ERRNUM(num, code, http, text) { num, code, http, text },
#include "base/errnum.def"
#undef ERRNUM
};

static const struct errnum_row *number_row(int num)
{
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (numbers[i].num == num)
            return &numbers[i];
    return NULL;
}

/* A text that was cut may end inside a character: drop that. */
static void trim_utf8(char *text, size_t size, size_t wanted)
{
    size_t n = strlen(text), back = 0;

    if (wanted < size)
        return;
    while (back < 3 && back < n && ((unsigned char)text[n - 1 - back] & 0xC0) == 0x80)
        back++;
    if (back < n) {
        unsigned char lead = (unsigned char)text[n - 1 - back];
        size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
        if (need > back + 1)
            text[n - 1 - back] = 0;
    }
}

static void set_text(struct error *err, const char *fmt, va_list args)
{
    int n = vsnprintf(err->text, sizeof err->text, fmt, args);

    trim_utf8(err->text, sizeof err->text, n < 0 ? 0 : (size_t)n);
}

enum errc fail(struct error *err, enum errc code, const char *fmt, ...)
{
    va_list args;

    if (!err)
        return code;
    err->code = code;
    err->num = err->http = 0;
    va_start(args, fmt);
    set_text(err, fmt, args);
    va_end(args);
    return code;
}

enum errc fail_os(struct error *err, const char *what, const char *path)
{
    return fail(err, errno == ENOSPC ? ERR_LIMIT : ERR_IO, "cannot %s %s: %s", what, path,
                strerror(errno));
}

enum errc fail_num(struct error *err, int num, const char *fmt, ...)
{
    const struct errnum_row *row = number_row(num);
    enum errc code = row ? row->code : ERR_INTERNAL;
    va_list args;

    if (!err)
        return code;
    err->code = code;
    err->num = num;
    err->http = row ? row->http : 500;
    va_start(args, fmt);
    set_text(err, fmt, args);
    va_end(args);
    return code;
}

enum errc wrap(struct error *err, const char *fmt, ...)
{
    char joined[sizeof err->text * 2];
    va_list args;
    size_t n;

    if (!err)
        return ERR_INTERNAL;
    va_start(args, fmt);
    int head = vsnprintf(joined, sizeof err->text, fmt, args);
    va_end(args);
    n = head < 0 ? 0 : (size_t)head < sizeof err->text ? (size_t)head : sizeof err->text - 1;
    int all = snprintf(joined + n, sizeof joined - n, ": %s", err->text);
    memcpy(err->text, joined, sizeof err->text - 1);
    err->text[sizeof err->text - 1] = 0;
    trim_utf8(err->text, sizeof err->text, n + (all < 0 ? 0 : (size_t)all));
    return err->code;
}

const char *errc_name(enum errc code)
{
    return (size_t)code < ARRAY_LEN(codes) ? codes[code].name : "?";
}

const char *errc_text(enum errc code)
{
    return (size_t)code < ARRAY_LEN(codes) ? codes[code].text : "?";
}

bool errc_is_retryable(enum errc code)
{
    return (size_t)code < ARRAY_LEN(codes) && codes[code].is_retryable;
}

int error_num(const struct error *err)
{
    return err->num ? err->num : codes[err->code].num ? codes[err->code].num : 4;
}

int error_http(const struct error *err)
{
    return err->http ? err->http : codes[err->code].http;
}

const char *errnum_text(int num)
{
    const struct errnum_row *row = number_row(num);

    return row ? row->text : NULL;
}
