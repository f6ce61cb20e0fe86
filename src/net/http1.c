/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http1.h"
#include <llhttp.h>
#include <stdio.h>
#include <time.h>

struct http1 {
    llhttp_t parser;
    llhttp_settings_t settings;
    struct http1_events events;
    struct exchange *x; /* current; a reference */
    struct header now;  /* header being read */
    size_t head_seen;   /* bytes of request line and headers */
    bool in_body, is_dead;
    struct http1_error error;
};

static int refuse(struct http1 *h, int status, const char *text)
{
    h->error = (struct http1_error){ status, text };
    return HPE_USER;
}

static int head_add(struct http1 *h, const char *at, size_t len)
{
    h->head_seen += len;
    if (h->head_seen > h->events.header_bytes)
        return refuse(h, 431, "the request line and headers are too large");
    buf_add(&h->x->head, at, len);
    return 0;
}

static int on_begin(llhttp_t *p)
{
    struct http1 *h = p->data;

    exchange_unref(h->x);
    h->x = h->events.begin(h->events.ctx);
    h->head_seen = 0;
    h->in_body = false;
    h->now = (struct header){ 0 };
    return 0;
}

static int on_url(llhttp_t *p, const char *at, size_t len)
{
    struct http1 *h = p->data;
    int rc = head_add(h, at, len);

    h->x->target_len = h->x->head.len;
    return rc;
}

static int on_name(llhttp_t *p, const char *at, size_t len)
{
    struct http1 *h = p->data;

    if (!h->now.name_len)
        h->now.name = (uint32_t)h->x->head.len;
    h->now.name_len += (uint32_t)len;
    return head_add(h, at, len);
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
    struct http1 *h = p->data;

    if (!h->now.value_len)
        h->now.value = (uint32_t)h->x->head.len;
    h->now.value_len += (uint32_t)len;
    return head_add(h, at, len);
}

static int on_value_complete(llhttp_t *p)
{
    struct http1 *h = p->data;
    struct exchange *x = h->x;

    if (h->in_body) { /* a trailer: read and dropped */
        h->now = (struct header){ 0 };
        return 0;
    }
    if (x->header_count == HEADERS_MAX)
        return refuse(h, 431, "the request has more than 100 headers");
    while (h->now.value_len && (x->head.ptr[h->now.value + h->now.value_len - 1] == ' ' ||
                                x->head.ptr[h->now.value + h->now.value_len - 1] == '\t'))
        h->now.value_len--;
    x->headers[x->header_count++] = h->now;
    h->now = (struct header){ 0 };
    return 0;
}

static int read_method(struct http1 *h, uint8_t method)
{
    static const struct {
        const char *name;
        enum http_method method;
    } rows[] = { { "GET", METHOD_GET },     { "HEAD", METHOD_HEAD },     { "POST", METHOD_POST },
                 { "PUT", METHOD_PUT },     { "PATCH", METHOD_PATCH },   { "DELETE", METHOD_DELETE },
                 { "OPTIONS", METHOD_OPTIONS } };
    const char *name = llhttp_method_name((llhttp_method_t)method);

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (!strcmp(name, rows[i].name)) {
            h->x->method = rows[i].method;
            return 0;
        }
    }
    return refuse(h, 501, "this method is not supported");
}

static int on_headers(llhttp_t *p)
{
    struct http1 *h = p->data;
    struct exchange *x = h->x;
    const char *question = memchr(x->head.ptr, '?', x->target_len);

    x->path_len = question ? (size_t)(question - x->head.ptr) : x->target_len;
    x->is_http10 = p->http_major == 1 && p->http_minor == 0;
    x->keep_alive = llhttp_should_keep_alive(p);
    p->upgrade = 0; /* offers to speak something else are ignored */
    h->in_body = true;
    if (p->http_major != 1)
        return refuse(h, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    if (read_method(h, p->method))
        return HPE_USER;
    if (!x->target_len || x->head.ptr[0] != '/')
        return refuse(h, 400, "the request target must be a path");
    if (!x->is_http10 && !exchange_header(x, "host").len)
        return refuse(h, 400, "an HTTP/1.1 request needs a Host header");
    h->events.headers(h->events.ctx, x);
    return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t len)
{
    struct http1 *h = p->data;

    return h->events.piece(h->events.ctx, h->x, slice_of(at, len)) ? 0 : HPE_PAUSED;
}

static int on_complete(llhttp_t *p)
{
    struct http1 *h = p->data;
    struct exchange *x = h->x;

    h->x = NULL;
    h->in_body = false;
    bool goes_on = h->events.complete(h->events.ctx, x);
    exchange_unref(x);
    return goes_on ? 0 : HPE_PAUSED;
}

struct http1 *http1_new(const struct http1_events *events)
{
    struct http1 *h = mem_zalloc(sizeof *h);

    h->events = *events;
    llhttp_settings_init(&h->settings);
    h->settings.on_message_begin = on_begin;
    h->settings.on_url = on_url;
    h->settings.on_header_field = on_name;
    h->settings.on_header_value = on_value;
    h->settings.on_header_value_complete = on_value_complete;
    h->settings.on_headers_complete = on_headers;
    h->settings.on_body = on_body;
    h->settings.on_message_complete = on_complete;
    llhttp_init(&h->parser, HTTP_REQUEST, &h->settings);
    h->parser.data = h;
    return h;
}

void http1_free(struct http1 *h)
{
    if (!h)
        return;
    exchange_unref(h->x);
    mem_free(h);
}

struct http1_error http1_feed(struct http1 *h, struct slice bytes, size_t *used)
{
    static const struct http1_error none = { 0, NULL };

    *used = 0;
    if (h->is_dead || !bytes.len)
        return none;
    llhttp_errno_t rc = llhttp_execute(&h->parser, bytes.ptr, bytes.len);
    if (rc == HPE_OK) {
        *used = bytes.len;
        return none;
    }
    *used = (size_t)(llhttp_get_error_pos(&h->parser) - bytes.ptr);
    if (rc == HPE_PAUSED) {
        llhttp_resume(&h->parser);
        return none;
    }
    h->is_dead = true;
    if (h->error.status)
        return h->error;
    if (rc == HPE_PAUSED_H2_UPGRADE)
        return (struct http1_error){ 505, "HTTP/2 is not spoken on this port" };
    if (rc == HPE_INVALID_VERSION)
        return (struct http1_error){ 505, "this HTTP version is not spoken here" };
    const char *why = llhttp_get_error_reason(&h->parser);
    return (struct http1_error){ 400, why && *why ? why : "the request is not HTTP" };
}

bool http1_is_idle(const struct http1 *h)
{
    return !h->x;
}

bool http1_in_body(const struct http1 *h)
{
    return h->in_body;
}

/* ---- replies ---- */

static void put_date(struct buf *out)
{
    static _Thread_local time_t last;
    static _Thread_local char text[64];
    time_t now = time(NULL);
    struct tm utc;

    if (now != last) {
        gmtime_r(&now, &utc);
        strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &utc);
        last = now;
    }
    buf_add_str(out, text);
}

static bool has_no_body(const struct exchange *x)
{
    return x->method == METHOD_HEAD || x->status == 204 || x->status == 304;
}

void http1_put_head(const struct exchange *x, const char *server_name, bool closes, size_t length,
                    struct buf *out)
{
    buf_printf(out, "HTTP/1.1 %d %s\r\n", x->status, http_reason(x->status));
    put_date(out);
    buf_printf(out, "Server: %s\r\n", server_name);
    if (x->content_type)
        buf_printf(out, "Content-Type: %s\r\n", x->content_type);
    buf_add_slice(out, buf_slice(&x->extra));
    if (x->has_length && x->status != 204 && x->status != 304)
        buf_printf(out, "Content-Length: %zu\r\n", length);
    else if (!x->has_length && !x->is_http10)
        buf_add_str(out, "Transfer-Encoding: chunked\r\n");
    if (closes)
        buf_add_str(out, "Connection: close\r\n");
    else if (x->is_http10)
        buf_add_str(out, "Connection: keep-alive\r\n");
    buf_add_str(out, "\r\n");
}

void http1_put_piece(const struct exchange *x, struct slice piece, struct buf *out)
{
    if (has_no_body(x) || !piece.len)
        return;
    if (x->has_length || x->is_http10) {
        buf_add_slice(out, piece);
        return;
    }
    buf_printf(out, "%zx\r\n", piece.len);
    buf_add_slice(out, piece);
    buf_add_str(out, "\r\n");
}

void http1_put_end(const struct exchange *x, struct buf *out)
{
    if (!x->has_length && !x->is_http10 && !has_no_body(x))
        buf_add_str(out, "0\r\n\r\n");
}
