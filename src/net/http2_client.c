/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http2_client.h"
#include "base/log.h"
#include <nghttp2/nghttp2.h>
#include <stdio.h>

enum {
    STREAM_WINDOW = 4 * MIB, /* as the server's */
    SESSION_WINDOW = 16 * MIB,
    HEADERS_SENT_MAX = 16,
};

struct http2_call {
    struct http2_client *client;
    struct http2_call_events events;
    int32_t id;
    struct http2_call *next, **prev;
    struct buf body; /* of the request; sent up to body_at */
    size_t body_at;
    struct buf held; /* of the answer, while the receiver has paused */
    int status;
    bool is_paused, is_cancelled, is_told; /* told: on_head was called */
};

struct http2_client {
    nghttp2_session *session;
    struct http2_call *first;
    void (*on_pong)(void *ctx);
    void *ctx;
    bool is_broken;
};

/* ---- calls ---- */

static struct http2_call *call_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static void call_free(struct http2_call *call)
{
    *call->prev = call->next;
    if (call->next)
        call->next->prev = call->prev;
    buf_release(&call->body);
    buf_release(&call->held);
    mem_free(call);
}

static void call_end(struct http2_call *call, bool is_whole)
{
    struct http2_call_events e = call->events;
    bool is_cancelled = call->is_cancelled;

    call_free(call);
    if (!is_cancelled)
        e.on_end(e.ctx, is_whole);
}

static bool give(struct http2_call *call, struct slice bytes)
{
    return call->is_cancelled || call->events.on_piece(call->events.ctx, bytes);
}

void http2_call_resume(struct http2_call *call)
{
    struct buf held = call->held;

    if (!call->is_paused)
        return;
    buf_init(&call->held, 0);
    call->is_paused = false;
    if (held.len) {
        call->is_paused = !give(call, buf_slice(&held));
        nghttp2_session_consume(call->client->session, call->id, held.len);
    }
    buf_release(&held);
}

void http2_call_cancel(struct http2_call *call)
{
    call->is_cancelled = true;
    nghttp2_submit_rst_stream(call->client->session, NGHTTP2_FLAG_NONE, call->id, NGHTTP2_CANCEL);
}

/* ---- what comes ---- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *ctx)
{
    struct http2_call *call = call_of(session, frame->hd.stream_id);
    uint64_t status;

    (void)flags, (void)ctx;
    if (call && slice_is(slice_of(name, name_len), ":status") &&
        slice_to_u64(slice_of(value, value_len), &status))
        call->status = (int)status;
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *ctx)
{
    struct http2_call *call = call_of(session, id);

    (void)flags, (void)ctx;
    if (call && call->is_paused) {
        buf_add(&call->held, bytes, len); /* at most the stream's window */
        return 0;
    }
    if (call)
        call->is_paused = !give(call, slice_of(bytes, len));
    nghttp2_session_consume(session, id, len);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct http2_client *c = ctx;

    if (frame->hd.type == NGHTTP2_PING && frame->hd.flags & NGHTTP2_FLAG_ACK)
        c->on_pong(c->ctx);
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    struct http2_call *call = call_of(session, frame->hd.stream_id);
    if (call && call->status >= 200 && !call->is_told && !call->is_cancelled) {
        call->is_told = true;
        call->events.on_head(call->events.ctx, call->status);
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *ctx)
{
    struct http2_call *call = call_of(session, id);

    (void)ctx;
    if (!call)
        return 0;
    if (call->held.len) { /* what was held is the rest of the answer */
        struct buf held = call->held;
        buf_init(&call->held, 0);
        nghttp2_session_consume_connection(session, held.len);
        give(call, buf_slice(&held));
        buf_release(&held);
    }
    call_end(call, code == NGHTTP2_NO_ERROR && call->is_told);
    return 0;
}

bool http2_client_feed(struct http2_client *c, struct slice bytes)
{
    if (c->is_broken)
        return false;
    ssize_t n = nghttp2_session_mem_recv(c->session, (const uint8_t *)bytes.ptr, bytes.len);
    if (n < 0) {
        c->is_broken = true;
        log_debug("net", "HTTP/2 of a peer: %s", nghttp2_strerror((int)n));
    }
    return !c->is_broken && nghttp2_session_want_read(c->session);
}

/* ---- what goes ---- */

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *out, size_t max,
                       uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    struct http2_call *call = source->ptr;
    size_t left = call->body.len - call->body_at, n = left < max ? left : max;

    (void)session, (void)id, (void)ctx;
    if (n)
        memcpy(out, call->body.ptr + call->body_at, n);
    call->body_at += n;
    if (n == left) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        buf_release(&call->body);
        buf_init(&call->body, 0);
        call->body_at = 0;
    }
    return (ssize_t)n;
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){ (uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value),
                         NGHTTP2_NV_FLAG_NONE };
}

struct http2_call *http2_client_ask(struct http2_client *c, const struct http2_ask *ask,
                                    const struct http2_call_events *events)
{
    nghttp2_nv fields[HEADERS_SENT_MAX + 5];
    size_t n = 0;
    char length[24];

    if (!http2_client_is_open(c))
        return NULL;
    assert(ask->header_count <= HEADERS_SENT_MAX);
    struct http2_call *call = mem_zalloc(sizeof *call);
    nghttp2_data_provider body = { .source.ptr = call, .read_callback = on_read };
    call->client = c;
    call->events = *events;
    buf_init(&call->body, 0);
    buf_add_slice(&call->body, ask->body);
    snprintf(length, sizeof length, "%zu", ask->body.len);
    fields[n++] = field(":method", "POST");
    fields[n++] = field(":scheme", "https");
    fields[n++] = field(":authority", ask->authority);
    fields[n++] = field(":path", ask->path);
    fields[n++] = field("content-length", length);
    for (size_t i = 0; i < ask->header_count; i++)
        fields[n++] = field(ask->headers[i].name, ask->headers[i].value);
    call->next = c->first;
    call->prev = &c->first;
    if (call->next)
        call->next->prev = &call->next;
    c->first = call;
    call->id = nghttp2_submit_request(c->session, NULL, fields, n, &body, call);
    if (call->id < 0) {
        call_free(call);
        return NULL;
    }
    return call;
}

void http2_client_put(struct http2_client *c, struct buf *out, size_t max)
{
    const uint8_t *bytes;
    ssize_t n = 1;

    while (n > 0 && out->len < max) {
        n = nghttp2_session_mem_send(c->session, &bytes);
        if (n > 0)
            buf_add(out, bytes, (size_t)n);
    }
    if (n < 0)
        c->is_broken = true;
}

void http2_client_ping(struct http2_client *c)
{
    nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL);
}

/* ---- the session ---- */

bool http2_client_is_open(const struct http2_client *c)
{
    return !c->is_broken && nghttp2_session_check_request_allowed(c->session);
}

struct http2_client *http2_client_new(void (*on_pong)(void *ctx), void *ctx)
{
    static const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW },
    };
    struct http2_client *c = mem_zalloc(sizeof *c);
    nghttp2_session_callbacks *cbs;
    nghttp2_option *option;

    c->on_pong = on_pong;
    c->ctx = ctx;
    if (nghttp2_session_callbacks_new(&cbs) || nghttp2_option_new(&option))
        BUG("nghttp2 has no memory");
    nghttp2_session_callbacks_set_on_header_callback(cbs, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cbs, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cbs, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cbs, on_close);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    if (nghttp2_session_client_new2(&c->session, cbs, c, option))
        BUG("nghttp2 makes no session");
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cbs);
    nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings));
    nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, SESSION_WINDOW);
    return c;
}

void http2_client_free(struct http2_client *c)
{
    if (!c)
        return;
    c->is_broken = true; /* whoever hears that a call has ended asks nothing more here */
    while (c->first)
        call_end(c->first, false);
    nghttp2_session_del(c->session);
    mem_free(c);
}
