/* SPDX-License-Identifier: Apache-2.0 */
#include "net/gzip.h"
#include <strings.h>
#include <zlib.h>

enum {
    LEVEL =
        1, /* JSON shrinks four times; the default level takes three times as long for a sixth */
    WINDOW_BITS = 15, /* the format's largest */
    GZIP_FORMAT = 16, /* instead of zlib's own */
    MEMORY = 8,
    Q_ONE = 1000, /* weights have three digits */
};

static bool ends_with(struct slice s, const char *end)
{
    size_t n = strlen(end);

    return s.len >= n && !strncasecmp(s.ptr + s.len - n, end, n);
}

bool gzip_suits(const char *content_type)
{
    static const char *const types[] = { "application/json", "application/javascript",
                                         "application/xml", "application/x-ndjson",
                                         "image/svg+xml" };
    struct slice type = slice_of(content_type, strcspn(content_type, "; "));

    if (!strncasecmp(type.ptr, "text/", 5))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (type.len == strlen(types[i]) && ends_with(type, types[i]))
            return true;
    return ends_with(type, "+json") || ends_with(type, "+xml");
}

/* ---- Accept-Encoding (RFC 9110, 12.5.3) ---- */

static struct slice trim(struct slice s)
{
    while (s.len && strchr(" \t", s.ptr[0]))
        s = slice_of(s.ptr + 1, s.len - 1);
    while (s.len && strchr(" \t", s.ptr[s.len - 1]))
        s.len--;
    return s;
}

/* Up to the next separator, which is dropped. */
static struct slice take_until(struct slice *rest, char separator)
{
    const char *end = memchr(rest->ptr, separator, rest->len);
    size_t n = end ? (size_t)(end - rest->ptr) : rest->len;
    struct slice part = slice_of(rest->ptr, n);

    *rest = end ? slice_of(end + 1, rest->len - n - 1) : slice_of(rest->ptr, 0);
    return trim(part);
}

/* "0.5" to thousandths. What is not a weight counts as 0. */
static int weight(struct slice text)
{
    int value = 0, place = Q_ONE;

    for (size_t i = 0; i < text.len && i < 5; i++) {
        if (i == 1 ? text.ptr[i] != '.' : text.ptr[i] < '0' || text.ptr[i] > '9')
            return 0;
        if (i == 1)
            continue;
        value += (text.ptr[i] - '0') * place;
        place /= 10;
    }
    return value > Q_ONE ? Q_ONE : value;
}

/* The weight of "gzip;q=0.5", which is 1 without a q. */
static int item_weight(struct slice parameters)
{
    while (parameters.len) {
        struct slice one = take_until(&parameters, ';');
        if (one.len >= 2 && !strncasecmp(one.ptr, "q=", 2))
            return weight(slice_of(one.ptr + 2, one.len - 2));
    }
    return Q_ONE;
}

static bool is_word(struct slice s, const char *word)
{
    return s.len == strlen(word) && !strncasecmp(s.ptr, word, s.len);
}

bool gzip_is_welcome(struct slice accept)
{
    int gzip = -1, plain = -1, any = -1;

    while (accept.len) {
        struct slice item = take_until(&accept, ',');
        struct slice name = take_until(&item, ';');
        int q = item_weight(item);
        if (is_word(name, "gzip") || is_word(name, "x-gzip"))
            gzip = q;
        else if (is_word(name, "identity"))
            plain = q;
        else if (is_word(name, "*"))
            any = q;
    }
    if (gzip < 0)
        gzip = any;
    return gzip > 0 && gzip >= plain;
}

/* ---- compressing ---- */

static void *allocate(void *unused, unsigned count, unsigned size)
{
    (void)unused;
    return mem_alloc((size_t)count * size);
}

static void release(void *unused, void *ptr)
{
    (void)unused;
    mem_free(ptr);
}

bool gzip_pack(struct slice in, struct buf *out)
{
    z_stream z = { .zalloc = allocate, .zfree = release };
    size_t before = out->len;

    if (!in.len || in.len > UINT32_MAX)
        return false;
    if (deflateInit2(&z, LEVEL, Z_DEFLATED, WINDOW_BITS + GZIP_FORMAT, MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        BUG("zlib makes no stream");
    z.next_in = (Bytef *)in.ptr;
    z.avail_in = (uInt)in.len;
    z.next_out = (Bytef *)buf_reserve(out, in.len);
    z.avail_out = (uInt)in.len; /* more is not worth it */
    bool is_smaller = z.next_out && deflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_out;
    deflateEnd(&z);
    out->len = is_smaller ? before + z.total_out : before;
    return is_smaller;
}
