/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-encoding (RFC 3986) and query parameters. */
#include "net/http.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool url_decode(struct slice in, bool is_form, struct buf *out)
{
    for (size_t i = 0; i < in.len; i++) {
        char c = in.ptr[i];
        if (c == '%') {
            if (in.len - i < 3 || hex(in.ptr[i + 1]) < 0 || hex(in.ptr[i + 2]) < 0)
                return false;
            c = (char)(hex(in.ptr[i + 1]) * 16 + hex(in.ptr[i + 2]));
            i += 2;
        } else if (c == '+' && is_form) {
            c = ' ';
        }
        if (!c)
            return false;
        buf_add_char(out, c);
    }
    return !out->is_overfull;
}

void url_encode(struct slice in, struct buf *out)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";

    for (size_t i = 0; i < in.len; i++) {
        if (in.ptr[i] && strchr(plain, in.ptr[i]))
            buf_add_char(out, in.ptr[i]);
        else
            buf_printf(out, "%%%02X", (unsigned char)in.ptr[i]);
    }
}

bool url_query_get(struct slice query, const char *name, struct buf *out)
{
    size_t name_len = strlen(name);

    while (query.len) {
        const char *amp = memchr(query.ptr, '&', query.len);
        size_t len = amp ? (size_t)(amp - query.ptr) : query.len;
        const char *equals = memchr(query.ptr, '=', len);
        size_t head = equals ? (size_t)(equals - query.ptr) : len;
        if (head == name_len && !memcmp(query.ptr, name, name_len)) {
            struct slice value = equals ? slice_of(equals + 1, len - head - 1) : slice_of("", 0);
            return url_decode(value, true, out);
        }
        size_t skip = amp ? len + 1 : len;
        query = slice_of(query.ptr + skip, query.len - skip);
    }
    return false;
}
