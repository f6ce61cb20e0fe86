/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.x over llhttp, strict. Headers are copied into the exchange; the body
 * is handed on where it lies. A header that comes twice is joined by ", " once
 * all are read.
 */
#include "net/http1.h"
#include "net/head.h"
#include <llhttp.h>
#include <stdio.h>

enum { BIG_PIECE = 64 * KIB };

struct http1 {
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
static int add_head(struct http1 *h, const char *at, size_t len)
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
    int rc = add_head(h, at, len);

    h->x->req.target_len = h->x->req.head.len;
    return rc;
}

static int on_name(llhttp_t *p, const char *at, size_t len)
{
    struct http1 *h = p->data;

    if (!h->now.name_len)
        h->now.name = (uint32_t)h->x->req.head.len;
    h->now.name_len += (uint32_t)len;
    return add_head(h, at, len);
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
    struct http1 *h = p->data;

    if (!h->now.value_len)
        h->now.value = (uint32_t)h->x->req.head.len;
    h->now.value_len += (uint32_t)len;
    return add_head(h, at, len);
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
    *exchange_add_header(h->x) = now;
    return 0;
}

static int on_headers(llhttp_t *p)
{
    struct http1 *h = p->data;
    struct exchange *x = h->x;

    x->req.is_http10 = p->http_major == 1 && p->http_minor == 0;
    x->req.has_content_length = p->flags & F_CONTENT_LENGTH;
    x->req.content_length = p->content_length;
    x->keep_alive = llhttp_should_keep_alive(p);
    p->upgrade = 0; /* offers to speak something else are ignored */
    h->in_body = true;
    if (p->http_major != 1)
        return refuse(h, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    h->error = head_finish(x, slice_str(llhttp_method_name((llhttp_method_t)p->method)));
    if (h->error.status)
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

static struct protocol_error error_of(struct http1 *h, llhttp_errno_t rc)
{
    const char *why = llhttp_get_error_reason(&h->parser);

    if (h->error.status)
        return h->error;
    if (rc == HPE_PAUSED_H2_UPGRADE)
        return (struct protocol_error){ 505, "HTTP/2 begins a connection, not a later request" };
    if (rc == HPE_INVALID_VERSION && h->parser.http_major != 1)
        return (struct protocol_error){ 505, "this HTTP version is not spoken here" };
    if (rc == HPE_INVALID_METHOD)
        return (struct protocol_error){ 400, "the request does not start with a known method" };
    return (struct protocol_error){ 400, why && *why ? why : "the request is not HTTP" };
}

struct protocol_error http1_feed(struct http1 *h, struct slice bytes, size_t *used)
{
    static const struct protocol_error none = { 0, NULL };

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

struct exchange *http1_current(const struct http1 *h)
{
    return h->x;
}

bool http1_in_body(const struct http1 *h)
{
    return h->in_body;
}

void http1_free(struct http1 *h)
{
    if (h)
        exchange_unref(h->x);
    mem_free(h);
}

/* ---- replies ---- */

static bool has_no_body(const struct exchange *x)
{
    return x->req.method == METHOD_HEAD || head_has_no_body(x->rep.status);
}

static bool is_chunked(const struct exchange *x)
{
    return !x->rep.has_length && !x->req.is_http10 && !head_has_no_body(x->rep.status);
}

static void put_head(struct http1 *h, const struct exchange *x, bool closes, struct buf *out)
{
    const struct exchange_reply *rep = &x->rep;
    char number[HEAD_DIGITS];

    buf_add_str(out, "HTTP/1.1 ");
    buf_add_slice(out, head_number((uint64_t)rep->status, number));
    buf_add_char(out, ' ');
    buf_add_str(out, head_reason(rep->status));
    buf_add_str(out, "\r\nDate: ");
    buf_add_str(out, head_date());
    buf_add_str(out, "\r\nServer: ");
    buf_add_str(out, h->events.server_name);
    buf_add_str(out, "\r\n");
    buf_add(out, x->few_lines, rep->few_len);
    buf_add_slice(out, buf_slice(&rep->lines));
    if (is_chunked(x)) {
        buf_add_str(out, "Transfer-Encoding: chunked\r\n");
    } else if (rep->has_length && !head_has_no_body(rep->status)) {
        buf_add_str(out, "Content-Length: ");
        buf_add_slice(out, head_number(rep->pending.len, number));
        buf_add_str(out, "\r\n");
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

void http1_put_reply(struct http1 *h, struct exchange *x, bool closes, struct buf *out,
                     struct buf *big)
{
    struct buf *piece = &x->rep.pending;
    bool has_piece = piece->len > 0;
    char line[32];

    if (!x->is_head_written)
        put_head(h, x, closes, out);
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

void http1_put_continue(struct buf *out)
{
    buf_add_str(out, "HTTP/1.1 100 Continue\r\n\r\n");
}

struct http1 *http1_new(const struct protocol_events *events)
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
