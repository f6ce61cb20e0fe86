/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.x over llhttp, strict. Headers are copied into the exchange; the body
 * is handed on where it lies. A header that comes twice is joined by ", " once
 * all are read.
 */
#include "net/protocol.h"
#include <llhttp.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

enum { BIG_PIECE = 64 * KIB };

struct http1 {
    struct protocol protocol;
    llhttp_t parser;
    llhttp_settings_t settings;
    struct protocol_events events;
    struct exchange *x; /* current; a reference */
    struct header now;  /* header being read */
    size_t head_seen;   /* bytes of request line, headers and trailers */
    bool in_body, is_paused, is_dead;
    struct protocol_error error;
};

static int refuse(struct http1 *h, int status, const char *text)
{
    h->error = (struct protocol_error){ status, text };
    return HPE_USER;
}

/* Trailers count but are not kept: the head belongs to the handler by then. */
static int head_add(struct http1 *h, const char *at, size_t len)
{
    h->head_seen += len;
    if (h->head_seen > h->events.header_bytes)
        return refuse(h, 431, "the request line and headers are too large");
    if (!h->in_body)
        buf_add(&h->x->req.head, at, len);
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

    h->x->req.target_len = h->x->req.head.len;
    return rc;
}

static int on_name(llhttp_t *p, const char *at, size_t len)
{
    struct http1 *h = p->data;

    if (!h->now.name_len)
        h->now.name = (uint32_t)h->x->req.head.len;
    h->now.name_len += (uint32_t)len;
    return head_add(h, at, len);
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
    struct http1 *h = p->data;

    if (!h->now.value_len)
        h->now.value = (uint32_t)h->x->req.head.len;
    h->now.value_len += (uint32_t)len;
    return head_add(h, at, len);
}

static int on_value_complete(llhttp_t *p)
{
    struct http1 *h = p->data;
    struct exchange_request *req = &h->x->req;
    struct header now = h->now;

    h->now = (struct header){ 0 };
    if (h->in_body)
        return 0;
    if (req->header_count == HEADERS_MAX)
        return refuse(h, 431, "the request has more than 100 headers");
    while (now.value_len && strchr(" \t", req->head.ptr[now.value + now.value_len - 1]))
        now.value_len--;
    req->headers[req->header_count++] = now;
    return 0;
}

static bool same_name(const struct exchange_request *req, const struct header *a,
                      const struct header *b)
{
    return a->name_len == b->name_len &&
           !strncasecmp(req->head.ptr + a->name, req->head.ptr + b->name, a->name_len);
}

/* The value moves to the end of head, followed by those of the later headers of this name. */
static void join_header(struct exchange_request *req, size_t first)
{
    struct header *h = &req->headers[first];
    struct buf *head = &req->head;
    size_t kept = first + 1;
    uint32_t at = (uint32_t)head->len;

    for (size_t i = first; i < req->header_count; i++) {
        struct header one = req->headers[i];
        if (!same_name(req, h, &one)) {
            req->headers[kept++] = one; /* never ahead of i */
            continue;
        }
        if (i > first)
            buf_add_str(head, ", ");
        char *copy = buf_reserve(head, one.value_len);
        memcpy(copy, head->ptr + one.value, one.value_len);
    }
    h->value = at;
    h->value_len = (uint32_t)head->len - at;
    req->header_count = kept;
}

/* False when Host came twice. */
static bool join_headers(struct exchange_request *req)
{
    for (size_t i = 0; i < req->header_count; i++) {
        for (size_t j = i + 1; j < req->header_count; j++) {
            if (!same_name(req, &req->headers[i], &req->headers[j]))
                continue;
            if (req->headers[i].name_len == 4 &&
                !strncasecmp(req->head.ptr + req->headers[i].name, "host", 4))
                return false;
            join_header(req, i);
            break;
        }
    }
    return true;
}

static int read_method(struct http1 *h, uint8_t method)
{
    static const struct {
        const char *name;
        enum http_method method;
    } rows[] = { { "GET", METHOD_GET },        { "HEAD", METHOD_HEAD },
                 { "POST", METHOD_POST },      { "PUT", METHOD_PUT },
                 { "PATCH", METHOD_PATCH },    { "DELETE", METHOD_DELETE },
                 { "OPTIONS", METHOD_OPTIONS } };
    const char *name = llhttp_method_name((llhttp_method_t)method);

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (!strcmp(name, rows[i].name)) {
            h->x->req.method = rows[i].method;
            return 0;
        }
    }
    return refuse(h, 501, "this method is not supported");
}

static int check_head(struct http1 *h)
{
    struct exchange *x = h->x;
    struct slice expect;

    if (h->parser.http_major != 1)
        return refuse(h, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    if (read_method(h, h->parser.method))
        return HPE_USER;
    if (!x->req.target_len || x->req.head.ptr[0] != '/')
        return refuse(h, 400, "the request target must be a path");
    if (!join_headers(&x->req))
        return refuse(h, 400, "the request has two Host headers");
    if (!x->req.is_http10 && !exchange_header(x, "host").len)
        return refuse(h, 400, "an HTTP/1.1 request needs a Host header");
    expect = exchange_header(x, "expect");
    if (!expect.len || x->req.is_http10)
        return 0;
    if (expect.len != 12 || strncasecmp(expect.ptr, "100-continue", 12))
        return refuse(h, 417, "the only expectation understood is 100-continue");
    x->req.is_expecting = true;
    return 0;
}

static int on_headers(llhttp_t *p)
{
    struct http1 *h = p->data;
    struct exchange *x = h->x;
    const char *question = memchr(x->req.head.ptr, '?', x->req.target_len);

    x->req.path_len = question ? (size_t)(question - x->req.head.ptr) : x->req.target_len;
    x->req.is_http10 = p->http_major == 1 && p->http_minor == 0;
    x->req.has_content_length = p->flags & F_CONTENT_LENGTH;
    x->req.content_length = p->content_length;
    x->keep_alive = llhttp_should_keep_alive(p);
    p->upgrade = 0; /* offers to speak something else are ignored */
    h->in_body = true;
    if (check_head(h))
        return HPE_USER;
    h->events.headers(h->events.ctx, x);
    return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t len)
{
    struct http1 *h = p->data;

    if (!len) /* fed without bytes after a pause */
        return 0;
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

/* ---- bytes in ---- */

static struct http1 *of(const struct protocol *p)
{
    return CONTAINER_OF(p, struct http1, protocol);
}

static struct protocol_error error_of(struct http1 *h, llhttp_errno_t rc)
{
    const char *why = llhttp_get_error_reason(&h->parser);

    if (h->error.status)
        return h->error;
    if (rc == HPE_PAUSED_H2_UPGRADE)
        return (struct protocol_error){ 505, "HTTP/2 is not spoken on this port" };
    if (rc == HPE_INVALID_VERSION && h->parser.http_major != 1)
        return (struct protocol_error){ 505, "this HTTP version is not spoken here" };
    if (rc == HPE_INVALID_METHOD)
        return (struct protocol_error){ 400, "the request does not start with a known method" };
    return (struct protocol_error){ 400, why && *why ? why : "the request is not HTTP" };
}

static struct protocol_error http1_feed(struct protocol *p, struct slice bytes, size_t *used)
{
    static const struct protocol_error none = { 0, NULL };
    struct http1 *h = of(p);

    *used = 0;
    if (h->is_dead || (!bytes.len && !h->is_paused))
        return none;
    if (!bytes.len)
        bytes.ptr = ""; /* the end of a message may wait without bytes */
    h->is_paused = false;
    llhttp_errno_t rc = llhttp_execute(&h->parser, bytes.ptr, bytes.len);
    if (rc == HPE_OK) {
        *used = bytes.len;
        return none;
    }
    *used = (size_t)(llhttp_get_error_pos(&h->parser) - bytes.ptr);
    if (rc == HPE_PAUSED) {
        llhttp_resume(&h->parser);
        h->is_paused = true;
        return none;
    }
    h->is_dead = true;
    return error_of(h, rc);
}

static struct exchange *http1_current(const struct protocol *p)
{
    return of(p)->x;
}

static bool http1_in_body(const struct protocol *p)
{
    return of(p)->in_body;
}

static void http1_free(struct protocol *p)
{
    struct http1 *h = of(p);

    exchange_unref(h->x);
    mem_free(h);
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

static bool status_has_no_body(int status)
{
    return status < 200 || status == 204 || status == 304;
}

static bool has_no_body(const struct exchange *x)
{
    return x->req.method == METHOD_HEAD || status_has_no_body(x->rep.status);
}

static bool is_chunked(const struct exchange *x)
{
    return !x->rep.has_length && !x->req.is_http10 && !status_has_no_body(x->rep.status);
}

static void put_head(struct http1 *h, const struct exchange *x, bool closes, struct buf *out)
{
    const struct exchange_reply *rep = &x->rep;
    char line[96];

    snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\n", rep->status, http_reason(rep->status));
    buf_add_str(out, line);
    put_date(out);
    buf_add_str(out, "Server: ");
    buf_add_str(out, h->events.server_name);
    if (rep->content_type) {
        buf_add_str(out, "\r\nContent-Type: ");
        buf_add_str(out, rep->content_type);
    }
    buf_add_str(out, "\r\n");
    buf_add_slice(out, buf_slice(&rep->extra));
    if (is_chunked(x)) {
        buf_add_str(out, "Transfer-Encoding: chunked\r\n");
    } else if (rep->has_length && !status_has_no_body(rep->status)) {
        snprintf(line, sizeof line, "Content-Length: %zu\r\n", rep->pending.len);
        buf_add_str(out, line);
    }
    if (closes)
        buf_add_str(out, "Connection: close\r\n");
    else if (x->req.is_http10)
        buf_add_str(out, "Connection: keep-alive\r\n");
    buf_add_str(out, "\r\n");
}

/* The end of a chunk, and of the body behind the last one. */
static void put_chunk_end(const struct exchange *x, bool has_piece, struct buf *out)
{
    if (has_piece)
        buf_add_str(out, "\r\n");
    if (x->rep.is_finished)
        buf_add_str(out, "0\r\n\r\n");
}

static void http1_put_reply(struct protocol *p, struct exchange *x, bool closes, struct buf *out,
                            struct buf *big)
{
    struct buf *piece = &x->rep.pending;
    bool has_piece = piece->len > 0;
    char line[32];

    if (!x->is_head_written)
        put_head(of(p), x, closes, out);
    x->is_head_written = true;
    if (has_no_body(x)) {
        buf_release(piece);
        return;
    }
    if (is_chunked(x) && has_piece) {
        snprintf(line, sizeof line, "%zx\r\n", piece->len);
        buf_add_str(out, line);
    }
    if (piece->len >= BIG_PIECE) {
        *big = *piece;
        buf_init(piece, 0);
        out = big;
    } else {
        buf_add_slice(out, buf_slice(piece));
        buf_release(piece);
    }
    if (is_chunked(x))
        put_chunk_end(x, has_piece, out);
}

static void http1_put_continue(struct protocol *p, struct buf *out)
{
    (void)p;
    buf_add_str(out, "HTTP/1.1 100 Continue\r\n\r\n");
}

struct protocol *http1_new(const struct protocol_events *events)
{
    static const struct protocol_ops ops = {
        .feed = http1_feed,
        .current = http1_current,
        .in_body = http1_in_body,
        .put_continue = http1_put_continue,
        .put_reply = http1_put_reply,
        .free = http1_free,
    };
    struct http1 *h = mem_zalloc(sizeof *h);

    h->protocol.ops = &ops;
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
    return &h->protocol;
}
