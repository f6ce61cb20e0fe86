/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h2peer -- a client of HTTP/2 that does what a test wants: requests side by
 * side, windows that stay shut, and raw frames.
 */
#ifndef TEST_NET_H2PEER_H
#define TEST_NET_H2PEER_H

#include "fixture.h"
#include <fcntl.h>
#include <nghttp2/nghttp2.h>

enum { H2_STREAMS = 512, H2_WAIT_MS = 20000 };
#define H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

struct h2_answer {
    int32_t id;
    int status, informational; /* 0 = none yet */
    struct buf headers;        /* "name: value\n" */
    struct buf body;
    bool is_closed;
    uint32_t code; /* of the end */
    /* The request's body: so many bytes, in pieces while may_send. */
    size_t to_send;
    bool holds_end; /* the body does not end */
};

struct h2_peer {
    int fd;
    nghttp2_session *session;
    struct h2_answer answers[H2_STREAMS];
    size_t count, closed;
    bool is_shut; /* gives no window back */
    bool is_gone; /* the server has closed */
    bool has_goaway;
    uint32_t goaway;
};

static inline struct h2_answer *h2_answer(struct h2_peer *p, int32_t id)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->answers[i].id == id)
            return &p->answers[i];
    return NULL;
}

static inline int h2_on_header(nghttp2_session *session, const nghttp2_frame *frame,
                               const uint8_t *name, size_t name_len, const uint8_t *value,
                               size_t value_len, uint8_t flags, void *ctx)
{
    struct h2_answer *a = h2_answer(ctx, frame->hd.stream_id);

    (void)session, (void)flags;
    if (slice_is(slice_of(name, name_len), ":status")) {
        int status = (int)strtol((const char *)value, NULL, 10);
        if (status < 200)
            a->informational = status;
        else
            a->status = status;
    }
    buf_printf(&a->headers, "%.*s: %.*s\n", (int)name_len, (const char *)name, (int)value_len,
               (const char *)value);
    return 0;
}

static inline int h2_on_data(nghttp2_session *session, uint8_t flags, int32_t id,
                             const uint8_t *bytes, size_t len, void *ctx)
{
    struct h2_peer *p = ctx;
    struct h2_answer *a = h2_answer(p, id);

    (void)flags;
    buf_add(&a->body, bytes, len);
    if (!p->is_shut)
        nghttp2_session_consume(session, id, len);
    return 0;
}

static inline int h2_on_close(nghttp2_session *session, int32_t id, uint32_t code, void *ctx)
{
    struct h2_peer *p = ctx;
    struct h2_answer *a = h2_answer(p, id);

    (void)session;
    a->is_closed = true;
    a->code = code;
    p->closed++;
    return 0;
}

static inline int h2_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct h2_peer *p = ctx;

    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        p->has_goaway = true;
        p->goaway = frame->goaway.error_code;
    }
    return 0;
}

static inline void h2_open(struct h2_peer *p, const struct fixture *f)
{
    nghttp2_session_callbacks *cbs;
    nghttp2_option *option;

    memset(p, 0, sizeof *p);
    p->fd = dial(f);
    fcntl(p->fd, F_SETFL, O_NONBLOCK);
    nghttp2_session_callbacks_new(&cbs);
    nghttp2_session_callbacks_set_on_header_callback(cbs, h2_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cbs, h2_on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cbs, h2_on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cbs, h2_on_frame);
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_http_messaging(option, 1); /* may send what is wrong */
    nghttp2_option_set_max_send_header_block_length(option, MIB);
    nghttp2_session_client_new2(&p->session, cbs, p, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cbs);
    nghttp2_submit_settings(p->session, NGHTTP2_FLAG_NONE, NULL, 0);
}

static inline void h2_close(struct h2_peer *p)
{
    nghttp2_session_del(p->session);
    for (size_t i = 0; i < p->count; i++) {
        buf_release(&p->answers[i].headers);
        buf_release(&p->answers[i].body);
    }
    close(p->fd);
}

/* ---- requests ---- */

static inline ssize_t h2_read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t max,
                                   uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    struct h2_answer *a = source->ptr;
    size_t n = a->to_send < max ? a->to_send : max;

    (void)session, (void)id, (void)ctx;
    if (!n && a->holds_end)
        return NGHTTP2_ERR_DEFERRED;
    memset(out, 'b', n);
    a->to_send -= n;
    if (!a->to_send && !a->holds_end)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

struct h2_request {
    const char *method;    /* NULL = GET */
    const char *path;      /* NULL = none */
    const char *authority; /* NULL = "h", "" = none */
    size_t body_bytes;
    bool has_body, holds_end;
    const char *extra[8]; /* names and values */
};

static inline nghttp2_nv h2_nv(const char *name, const char *value)
{
    return (nghttp2_nv){ (uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0 };
}

static inline int32_t h2_ask(struct h2_peer *p, struct h2_request r)
{
    nghttp2_nv nv[16];
    size_t n = 0;
    struct h2_answer *a = &p->answers[p->count++];
    nghttp2_data_provider body = { .source.ptr = a, .read_callback = h2_read_body };

    assert_true(p->count <= H2_STREAMS);
    nv[n++] = h2_nv(":method", r.method ? r.method : "GET");
    nv[n++] = h2_nv(":scheme", "http");
    if (!r.authority || *r.authority)
        nv[n++] = h2_nv(":authority", r.authority ? r.authority : "h");
    if (r.path)
        nv[n++] = h2_nv(":path", r.path);
    for (size_t i = 0; i < ARRAY_LEN(r.extra) && r.extra[i]; i += 2)
        nv[n++] = h2_nv(r.extra[i], r.extra[i + 1]);
    a->to_send = r.body_bytes;
    a->holds_end = r.holds_end;
    a->id = nghttp2_submit_request(p->session, NULL, nv, n, r.has_body ? &body : NULL, NULL);
    return a->id;
}

static inline int32_t h2_get(struct h2_peer *p, const char *path)
{
    return h2_ask(p, (struct h2_request){ .path = path });
}

static inline int32_t h2_post(struct h2_peer *p, const char *path, size_t bytes)
{
    return h2_ask(p, (struct h2_request){
                         .method = "POST", .path = path, .body_bytes = bytes, .has_body = true });
}

/* ---- turns ---- */

static inline void h2_send(struct h2_peer *p)
{
    const uint8_t *bytes;
    ssize_t n;

    while (!p->is_gone && (n = nghttp2_session_mem_send(p->session, &bytes)) > 0) {
        for (ssize_t sent = 0; sent < n && !p->is_gone;) {
            ssize_t k = send(p->fd, bytes + sent, (size_t)(n - sent), MSG_NOSIGNAL);
            if (k > 0)
                sent += k;
            else if (errno != EAGAIN)
                p->is_gone = true;
            else
                poll(&(struct pollfd){ .fd = p->fd, .events = POLLOUT }, 1, 100);
        }
    }
}

/* Sends what it has and takes what comes, waiting at most so long for it. */
static inline void h2_turn(struct h2_peer *p, int ms)
{
    static _Thread_local uint8_t bytes[64 * KIB];
    struct pollfd pfd = { .fd = p->fd, .events = POLLIN };

    h2_send(p);
    if (p->is_gone || poll(&pfd, 1, ms) <= 0)
        return;
    ssize_t n = recv(p->fd, bytes, sizeof bytes, 0);
    if (n > 0) {
        if (nghttp2_session_mem_recv(p->session, bytes, (size_t)n) < 0)
            fail_msg("the server's bytes are not HTTP/2");
        h2_send(p);
    } else if (n == 0 || errno != EAGAIN) {
        p->is_gone = true;
    }
}

/* Until the condition holds, the server has closed, or too long. */
#define h2_until(p, condition)                                                                     \
    do {                                                                                           \
        for (uint64_t end_ = clock_ms() + H2_WAIT_MS;                                              \
             !(condition) && !(p)->is_gone && clock_ms() < end_;)                                  \
            h2_turn(p, 10);                                                                        \
    } while (0)

/* The whole answer. */
static inline struct h2_answer *h2_wait(struct h2_peer *p, int32_t id)
{
    struct h2_answer *a = h2_answer(p, id);

    h2_until(p, a->is_closed);
    if (!a->is_closed)
        fail_msg("stream %d does not end (status %d, %zu bytes, connection %s)", id, a->status,
                 a->body.len, p->is_gone ? "gone" : "open");
    buf_cstr(&a->body);
    return a;
}

static inline void h2_wait_gone(struct h2_peer *p)
{
    h2_until(p, false);
    assert_true(p->is_gone);
}

/* For so long, whatever comes. */
static inline void h2_for(struct h2_peer *p, unsigned ms)
{
    for (uint64_t end = clock_ms() + ms; clock_ms() < end && !p->is_gone;)
        h2_turn(p, 5);
}

/* ---- raw frames ---- */

static inline void h2_frame(struct buf *out, uint8_t type, uint8_t flags, uint32_t id,
                            const void *bytes, size_t len)
{
    uint8_t head[9] = {
        (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len,       type,       flags,
        (uint8_t)(id >> 24),  (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id
    };

    buf_add(out, head, sizeof head);
    buf_add(out, bytes, len);
}

/* GET /hello with the authority "h", as literals that need no table. */
static inline void h2_raw_request(struct buf *out, uint32_t id, uint8_t flags)
{
    static const char block[] = "\x82\x86\x04\x06/hello\x01\x01h";

    h2_frame(out, NGHTTP2_HEADERS, flags, id, block, sizeof block - 1);
}

#endif
