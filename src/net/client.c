/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kept connection that the server has closed meanwhile is opened again; a
 * request that may already have been carried out is not repeated unless it only
 * reads.
 */
#include "net/client.h"
#include "base/hash.h"
#include "net/tls.h"
#include "net/wire.h"
#include <llhttp.h>
#include <stdio.h>
#include <strings.h>

enum { READ_BYTES = 64 * KIB, REPLY_MAX = 1 << 30 };

struct http_client {
    char *host, *port, *authorization;
    char *url;
    struct tls_config *tls; /* NULL = plain */
    struct wire *wire;
    llhttp_t parser;
    llhttp_settings_t settings;
    /* of the running call */
    struct http_reply *reply;
    const struct http_call *call;
    struct buf name, value;
    bool is_complete, is_stopped, has_begun, is_early;
};

/* ---- parsing ---- */

static int on_begin(llhttp_t *p)
{
    struct http_client *c = p->data;

    c->has_begun = true;
    return 0;
}

static int on_name(llhttp_t *p, const char *at, size_t len)
{
    struct http_client *c = p->data;

    buf_add(&c->name, at, len);
    return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
    struct http_client *c = p->data;

    buf_add(&c->value, at, len);
    return 0;
}

static int on_value_complete(llhttp_t *p)
{
    struct http_client *c = p->data;

    if (!strcasecmp(buf_cstr(&c->name), "content-type"))
        buf_add_slice(&c->reply->content_type, buf_slice(&c->value));
    buf_clear(&c->name);
    buf_clear(&c->value);
    return 0;
}

static int on_headers(llhttp_t *p)
{
    struct http_client *c = p->data;

    c->reply->status = p->status_code;
    return c->call && !strcmp(c->call->method, "HEAD") ? 1 : 0;
}

static int on_body(llhttp_t *p, const char *at, size_t len)
{
    struct http_client *c = p->data;

    if (!c->call->on_piece)
        buf_add(&c->reply->body, at, len);
    else if (!c->call->on_piece(c->call->piece_ctx, c->reply->status, slice_of(at, len)))
        c->is_stopped = true;
    return c->is_stopped ? HPE_USER : 0;
}

static int on_complete(llhttp_t *p)
{
    struct http_client *c = p->data;

    if (p->status_code >= 100 && p->status_code < 200)
        return 0; /* 100 Continue: the reply follows */
    c->is_complete = true;
    return HPE_PAUSED;
}

/* ---- opening ---- */

static enum errc parse_url(struct http_client *c, const char *url, bool *is_tls, struct error *err)
{
    *is_tls = !strncmp(url, "https://", 8);
    if (!*is_tls && strncmp(url, "http://", 7) != 0)
        return fail(err, ERR_INVALID, "the URL must begin with http:// or https:// (got '%s')",
                    url);
    const char *host = url + (*is_tls ? 8 : 7), *end = host + strcspn(host, "/"), *colon;
    if (*host == '[') {
        const char *shut = memchr(host, ']', (size_t)(end - host));
        if (!shut)
            return fail(err, ERR_INVALID, "the URL has no ] (%s)", url);
        c->host = mem_strndup(slice_of(host + 1, (size_t)(shut - host - 1)));
        colon = shut[1] == ':' ? shut + 1 : NULL;
    } else {
        colon = memchr(host, ':', (size_t)(end - host));
        c->host = mem_strndup(slice_of(host, (size_t)((colon ? colon : end) - host)));
    }
    c->port = colon ? mem_strndup(slice_of(colon + 1, (size_t)(end - colon - 1)))
                    : mem_strdup(*is_tls ? "443" : "80");
    if (!*c->host || !*c->port || (*end && strcmp(end, "/")))
        return fail(err, ERR_INVALID, "the URL must be http[s]://HOST:PORT (got '%s')", url);
    return OK;
}

static char *make_authorization(const struct http_client_options *opt)
{
    struct buf pair, line;
    char *out = NULL;

    buf_init(&pair, 0);
    buf_init(&line, 0);
    if (opt->user || opt->password) {
        buf_printf(&pair, "%s:%s", opt->user ? opt->user : "root",
                   opt->password ? opt->password : "");
        buf_add_str(&line, "Basic ");
        base64_encode(buf_slice(&pair), false, &line);
    } else if (opt->api_key) {
        buf_printf(&line, "Bearer %s", opt->api_key);
    }
    if (line.len)
        out = mem_strdup(buf_cstr(&line));
    buf_release(&pair);
    buf_release(&line);
    return out;
}

static void open_wire(struct http_client *c, const struct http_client_options *opt)
{
    struct wire_options wire = { .host = c->host,
                                 .port = c->port,
                                 .url = c->url,
                                 .program = opt->program ? opt->program : "themisd",
                                 .tls = c->tls,
                                 .cancel = opt->cancel,
                                 .connect_ms = opt->connect_ms ? opt->connect_ms : 5000,
                                 .read_ms = opt->read_ms ? opt->read_ms : 600000 };

    c->wire = wire_new(&wire);
}

enum errc http_client_new(struct http_client **out, const struct http_client_options *opt,
                          struct error *err)
{
    struct http_client *c = mem_zalloc(sizeof *c);
    bool is_tls;
    enum errc rc = parse_url(c, opt->url, &is_tls, err);

    if (rc == OK && is_tls)
        rc = tls_config_client(&c->tls, opt->ca_file, err);
    if (rc == OK && is_tls && opt->cert_file)
        rc = tls_config_identify(c->tls, opt->cert_file, opt->key_file, err);
    if (rc != OK) {
        http_client_free(c);
        return rc;
    }
    c->url = mem_strdup(opt->url);
    c->authorization = make_authorization(opt);
    open_wire(c, opt);
    llhttp_settings_init(&c->settings);
    c->settings.on_message_begin = on_begin;
    c->settings.on_header_field = on_name;
    c->settings.on_header_value = on_value;
    c->settings.on_header_value_complete = on_value_complete;
    c->settings.on_headers_complete = on_headers;
    c->settings.on_body = on_body;
    c->settings.on_message_complete = on_complete;
    *out = c;
    return OK;
}

void http_client_free(struct http_client *c)
{
    if (!c)
        return;
    wire_free(c->wire);
    tls_config_free(c->tls);
    buf_release(&c->name);
    buf_release(&c->value);
    mem_free(c->host);
    mem_free(c->port);
    mem_free(c->url);
    mem_free(c->authorization);
    mem_free(c);
}

void http_reply_release(struct http_reply *r)
{
    buf_release(&r->content_type);
    buf_release(&r->body);
}

/* ---- a call ---- */

/* A server that answers while we send has refused: the rest is not wanted. */
static enum errc send_all(struct http_client *c, struct slice bytes, bool has_more,
                          struct error *err)
{
    return wire_send(c->wire, bytes, has_more, &c->is_early, err);
}

static enum errc send_pieces(struct http_client *c, struct error *err)
{
    enum errc rc = OK;
    struct slice piece;
    char head[32];

    do {
        piece = c->call->next_piece(c->call->body_ctx);
        snprintf(head, sizeof head, "%zx\r\n", piece.len);
        TRY(send_all(c, slice_str(head), true, err));
        TRY(send_all(c, piece, true, err));
        TRY(send_all(c, slice_str("\r\n"), false, err));
    } while (piece.len && !c->is_early);
out:
    return rc;
}

static enum errc send_request(struct http_client *c, struct error *err)
{
    const struct http_call *call = c->call;
    struct buf head;

    buf_init(&head, 0);
    bool is_v6 = strchr(c->host, ':') != NULL;
    buf_printf(&head, "%s %s HTTP/1.1\r\nHost: %s%s%s:%s\r\n", call->method, call->path,
               is_v6 ? "[" : "", c->host, is_v6 ? "]" : "", c->port);
    if (c->authorization)
        buf_printf(&head, "Authorization: %s\r\n", c->authorization);
    if (call->content_type)
        buf_printf(&head, "Content-Type: %s\r\n", call->content_type);
    if (call->next_piece)
        buf_add_str(&head, "Transfer-Encoding: chunked\r\n\r\n");
    else
        buf_printf(&head, "Content-Length: %zu\r\n\r\n", call->body.len);
    if (!call->next_piece && call->body.len < 16 * KIB)
        buf_add_slice(&head, call->body);
    enum errc rc = send_all(c, buf_slice(&head), call->next_piece != NULL, err);
    buf_release(&head);
    if (rc == OK && call->next_piece)
        rc = send_pieces(c, err);
    else if (rc == OK && call->body.len >= 16 * KIB)
        rc = send_all(c, call->body, false, err);
    return rc;
}

/* The connection has ended, which may be the end of the body. */
static enum errc end_of_answer(struct http_client *c, bool is_clean, struct error *err)
{
    if (is_clean)
        llhttp_finish(&c->parser);
    wire_close(c->wire);
    if (c->is_complete)
        return OK;
    return fail(err, ERR_IO, "%s closed the connection before its answer was complete", c->url);
}

static enum errc receive(struct http_client *c, struct error *err)
{
    static _Thread_local char bytes[READ_BYTES];

    while (!c->is_complete) {
        bool is_clean;
        size_t n;
        enum errc rc = wire_receive(c->wire, bytes, sizeof bytes, &n, &is_clean, err);
        if (rc != OK)
            return rc;
        if (!n)
            return end_of_answer(c, is_clean, err);
        llhttp_errno_t e = llhttp_execute(&c->parser, bytes, n);
        if (c->is_stopped)
            return OK;
        if (e != HPE_OK && e != HPE_PAUSED)
            return fail(err, ERR_IO, "%s did not answer with HTTP: %s", c->url,
                        llhttp_get_error_reason(&c->parser));
    }
    return OK;
}

static bool may_repeat(const struct http_call *call)
{
    return !call->next_piece && (!strcmp(call->method, "GET") || !strcmp(call->method, "HEAD"));
}

static enum errc try_call(struct http_client *c, struct error *err)
{
    enum errc rc = OK;

    llhttp_init(&c->parser, HTTP_RESPONSE, &c->settings);
    c->parser.data = c;
    c->is_complete = c->is_stopped = c->has_begun = c->is_early = false;
    buf_clear(&c->name);
    buf_clear(&c->value);
    if (!wire_is_open(c->wire))
        TRY(wire_open(c->wire, err));
    rc = send_request(c, err);
    /* A server that refuses early may answer before it has read all. */
    if (rc == OK || rc == ERR_IO) {
        struct error own = { 0 };
        enum errc got = receive(c, &own);
        if (got == OK || rc == OK) {
            rc = got;
            if (got != OK && err)
                *err = own;
        }
    }
out:
    if (rc != OK || c->is_stopped || c->is_early || !llhttp_should_keep_alive(&c->parser))
        wire_close(c->wire);
    return rc;
}

enum errc http_client_call(struct http_client *c, const struct http_call *call,
                           struct http_reply *reply, struct error *err)
{
    if (wire_is_stale(c->wire))
        wire_close(c->wire);
    bool was_kept = wire_is_open(c->wire);

    *reply = (struct http_reply){ 0 };
    buf_init(&reply->body, REPLY_MAX);
    c->call = call;
    c->reply = reply;
    enum errc rc = try_call(c, err);
    if (rc == ERR_IO && was_kept && !c->has_begun && may_repeat(call))
        rc = try_call(c, err);
    c->call = NULL;
    if (rc == OK)
        rc = buf_check(&reply->body, "the answer", err);
    if (rc != OK)
        http_reply_release(reply);
    return rc;
}

/* ---- server-sent events ---- */

void sse_reader_init(struct sse_reader *r)
{
    buf_init(&r->line, 16 * MIB);
    buf_init(&r->data, 16 * MIB);
}

void sse_reader_release(struct sse_reader *r)
{
    buf_release(&r->line);
    buf_release(&r->data);
}

static bool sse_line(struct sse_reader *r, bool (*on_event)(void *, struct slice), void *ctx)
{
    struct slice line = buf_slice(&r->line);
    bool goes_on = true;

    if (line.len && line.ptr[line.len - 1] == '\r')
        line.len--;
    if (!line.len) {
        if (r->data.len)
            goes_on = on_event(ctx, buf_slice(&r->data));
        buf_clear(&r->data);
    } else if (slice_starts(line, "data:")) {
        size_t skip = line.len > 5 && line.ptr[5] == ' ' ? 6 : 5;
        if (r->data.len)
            buf_add_char(&r->data, '\n');
        buf_add(&r->data, line.ptr + skip, line.len - skip);
    }
    buf_clear(&r->line);
    return goes_on;
}

bool sse_reader_add(struct sse_reader *r, struct slice bytes,
                    bool (*on_event)(void *, struct slice), void *ctx)
{
    while (bytes.len) {
        const char *end = memchr(bytes.ptr, '\n', bytes.len);
        size_t n = end ? (size_t)(end - bytes.ptr) : bytes.len;
        buf_add(&r->line, bytes.ptr, n);
        if (!end)
            return true;
        bytes = slice_of(end + 1, bytes.len - n - 1);
        if (!sse_line(r, on_event, ctx))
            return false;
    }
    return true;
}
