/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 over nghttp2, which keeps the streams, windows and header tables. A
 * stream here is what ties one of its streams to an exchange:
 *
 *   DATA -> piece()            while the handler takes bytes: the window opens at once
 *        -> held               while it has paused: the window opens when they are taken
 *   exchange.pending -> data   whole, by moving the buffer; from there frame by frame to out
 *
 * What a peer can repeat at no cost to itself (PING, SETTINGS, PRIORITY, empty
 * DATA, requests that break the rules) costs patience, which comes back with
 * time. Streams that are opened and reset at once, headers without end and
 * unread answers to PING are limited by nghttp2 itself.
 */
#include "net/http2.h"
#include "base/log.h"
#include "base/metrics.h"
#include "net/blocks.h"
#include "net/head.h"
#include <nghttp2/nghttp2.h>

enum {
    STREAM_WINDOW = 4 * MIB, /* the default of 64 KiB crawls over any distance */
    SESSION_WINDOW = 16 * MIB,
    RESET_BURST = 200, /* requests that a client may take back at once */
    RESETS_PER_S = 33,
    PATIENCE = 1000, /* frames */
    PATIENCE_PER_TENTH = 10,
    BROKEN_COST = 10,       /* of a request that breaks the rules */
    HEAD_FACTOR = 4,        /* headers this much over the limit end the stream without an answer */
    HEADER_OVERHEAD = 32,   /* of each, by RFC 9113, 6.5.2 */
    REPLY_HEADERS_MAX = 64, /* further ones of a handler are left out */
    TELL_BYTES = 64 * KIB,  /* the writer hears of so much at a time */
};

struct http2_stream {
    struct exchange *x; /* a reference */
    int32_t id;
    struct http2_stream *next, **prev;
    char method[16];
    size_t method_len, head_bytes;
    bool has_head, is_head_over;
    struct buf held; /* arrived while the handler has paused */
    bool is_paused, is_body_over;
    struct buf data; /* of the reply; sent up to data_at */
    size_t data_at, untold;
    bool has_all;     /* what the exchange will ever have is in data */
    bool is_deferred; /* nghttp2 does not ask for data until told */
    bool is_answered;
};

struct http2 {
    struct http2_options opt;
    nghttp2_session *session;
    struct http2_stream *first;
    struct http2_stream *arriving; /* whose headers came last; NULL when it is gone */
    struct buf *out;               /* while frames are put */
    size_t out_max;
    int patience;
    bool is_broken;
};

static struct metric floods =
    METRIC_COUNTER("themis_http2_floods_total", "HTTP/2 connections ended because of a flood.");

/* ---- streams ---- */

static struct http2_stream *stream_new(struct http2 *h, int32_t id)
{
    struct http2_stream *s = blocks_get(sizeof *s);

    memset(s, 0, sizeof *s);
    s->id = id;
    s->x = h->opt.events.begin(h->opt.events.ctx);
    s->x->stream = s;
    s->next = h->first;
    s->prev = &h->first;
    if (s->next)
        s->next->prev = &s->next;
    h->first = s;
    return s;
}

static void stream_free(struct http2 *h, struct http2_stream *s)
{
    if (h->arriving == s)
        h->arriving = NULL;
    *s->prev = s->next;
    if (s->next)
        s->next->prev = s->prev;
    s->x->stream = NULL;
    exchange_unref(s->x);
    buf_release(&s->held);
    buf_release(&s->data);
    blocks_put(s);
}

static struct http2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

/* ---- patience ---- */

static void lose_patience(struct http2 *h, int cost)
{
    bool was_patient = h->patience > 0;

    h->patience -= cost;
    if (!was_patient || h->patience > 0)
        return;
    metric_add(&floods, 1);
    log_debug("net", "HTTP/2: a peer was told to calm down");
    nghttp2_session_terminate_session(h->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

void http2_relax(struct http2 *h, uint64_t tenths)
{
    if (h->patience <= 0) /* the connection ends */
        return;
    uint64_t missing = (uint64_t)(PATIENCE - h->patience);
    h->patience +=
        (int)(tenths < missing / PATIENCE_PER_TENTH ? tenths * PATIENCE_PER_TENTH : missing);
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *ctx)
{
    struct http2 *h = ctx;

    (void)session;
    switch (hd->type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_CONTINUATION:
    case NGHTTP2_RST_STREAM:
    case NGHTTP2_WINDOW_UPDATE:
        return 0;
    case NGHTTP2_DATA:
        if (hd->length || hd->flags & NGHTTP2_FLAG_END_STREAM)
            return 0;
        break;
    default: /* PING, SETTINGS, PRIORITY and what nobody knows */
        break;
    }
    lose_patience(h, 1);
    return 0;
}

/* ---- headers ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct http2 *h = ctx;

    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    h->arriving = stream_new(h, frame->hd.stream_id);
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, h->arriving);
    return 0;
}

static void add_header(struct exchange *x, struct slice name, struct slice value)
{
    struct exchange_request *req = &x->req;
    struct header *header = exchange_add_header(x);

    header->name = (uint32_t)req->head.len;
    header->name_len = (uint32_t)name.len;
    buf_add_slice(&req->head, name);
    header->value = (uint32_t)req->head.len;
    header->value_len = (uint32_t)value.len;
    buf_add_slice(&req->head, value);
}

/* An authority and a Host of the same value are one. */
static bool is_host_again(struct exchange *x, struct slice name, struct slice value)
{
    return slice_is(name, "host") && slice_eq(exchange_header(x, "host"), value);
}

static void keep_header(struct http2_stream *s, struct slice name, struct slice value)
{
    struct exchange_request *req = &s->x->req;

    if (name.ptr[0] != ':') {
        if (!is_host_again(s->x, name, value))
            add_header(s->x, name, value);
    } else if (slice_is(name, ":method")) {
        s->method_len = value.len < sizeof s->method ? value.len : sizeof s->method;
        memcpy(s->method, value.ptr, s->method_len);
    } else if (slice_is(name, ":path")) {
        req->target = req->head.len;
        req->target_len = value.len;
        buf_add_slice(&req->head, value);
    } else if (slice_is(name, ":authority")) {
        add_header(s->x, slice_str("host"), value);
    }
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *ctx)
{
    struct http2 *h = ctx;
    struct http2_stream *s = h->arriving && h->arriving->id == frame->hd.stream_id
                                 ? h->arriving
                                 : stream_of(session, frame->hd.stream_id);
    size_t max = h->opt.events.header_bytes;

    (void)flags;
    if (!s)
        return 0;
    s->head_bytes += name_len + value_len + HEADER_OVERHEAD;
    if (s->head_bytes > HEAD_FACTOR * max)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (s->has_head) /* a trailer: the head belongs to the handler by now */
        return 0;
    if (s->head_bytes > max || s->x->req.header_count == HEADERS_MAX)
        s->is_head_over = true;
    else
        keep_header(s, slice_of(name, name_len), slice_of(value, value_len));
    return 0;
}

/* nghttp2 has checked that it is a number, and checks that the body is as long. */
static void read_length(struct exchange_request *req, struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        req->content_length = req->content_length * 10 + (uint64_t)(text.ptr[i] - '0');
    req->has_content_length = text.len > 0;
}

static void send_continue(struct http2 *h, struct http2_stream *s)
{
    static uint8_t name[] = ":status", value[] = "100";
    const nghttp2_nv status = { name, value, sizeof name - 1, sizeof value - 1, 0 };
    struct exchange *x = s->x;

    if (x->req.is_expecting && (x->mode == BODY_COLLECT || x->mode == BODY_STREAM) &&
        !exchange_has_started(x))
        nghttp2_submit_headers(h->session, NGHTTP2_FLAG_NONE, s->id, NULL, &status, 1, NULL);
    x->req.is_expecting = false;
}

static void finish_head(struct http2 *h, struct http2_stream *s, bool has_body)
{
    struct exchange *x = s->x;
    struct protocol_error e = { 431, "the request's headers are too large or too many" };

    s->has_head = true;
    if (!s->is_head_over)
        e = head_finish(x, slice_of(s->method, s->method_len));
    if (e.status) {
        if (!x->req.method)
            x->req.method = METHOD_GET;
        exchange_refuse(x, e.status, e.text);
        return;
    }
    read_length(&x->req, exchange_header(x, "content-length"));
    h->opt.events.headers(h->opt.events.ctx, x);
    if (has_body)
        send_continue(h, s);
}

/* ---- bodies ---- */

static void take_piece(struct http2 *h, struct http2_stream *s, struct slice bytes)
{
    s->is_paused = !h->opt.events.piece(h->opt.events.ctx, s->x, bytes);
    nghttp2_session_consume(h->session, s->id, bytes.len);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *ctx)
{
    struct http2 *h = ctx;
    struct http2_stream *s = stream_of(session, id);

    (void)flags;
    if (!s)
        nghttp2_session_consume(session, id, len);
    else if (s->is_paused)
        buf_add(&s->held, bytes, len); /* at most the stream's window */
    else
        take_piece(h, s, slice_of(bytes, len));
    return 0;
}

static void finish_body(struct http2 *h, struct http2_stream *s)
{
    s->is_body_over = true;
    if (!s->is_paused)
        h->opt.events.complete(h->opt.events.ctx, s->x);
}

void http2_resume(struct http2 *h, struct exchange *x)
{
    struct http2_stream *s = x->stream;

    if (!s || !s->is_paused)
        return;
    struct buf held = s->held;
    s->held = (struct buf){ 0 };
    s->is_paused = false;
    if (held.len)
        take_piece(h, s, buf_slice(&held));
    buf_release(&held);
    if (s->is_body_over && !s->is_paused)
        h->opt.events.complete(h->opt.events.ctx, x);
}

/* Nobody takes what is held any more. */
static void drop_held(struct http2 *h, struct http2_stream *s)
{
    s->is_paused = false;
    if (s->held.len)
        nghttp2_session_consume(h->session, s->id, s->held.len);
    buf_release(&s->held);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct http2 *h = ctx;
    bool is_last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct http2_stream *s;

    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    s = stream_of(session, frame->hd.stream_id);
    if (!s)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && !s->has_head)
        finish_head(h, s, !is_last);
    if (is_last)
        finish_body(h, s);
    return 0;
}

/* ---- replies ---- */

/* Takes what the exchange has, when all before has been sent. Its lock is held. */
static void take_data(struct http2_stream *s)
{
    struct exchange_reply *rep = &s->x->rep;

    if (s->data_at == s->data.len) {
        buf_release(&s->data);
        s->data = rep->pending;
        s->data_at = 0;
        buf_init(&rep->pending, 0);
    }
    s->has_all = rep->is_finished && !rep->pending.len;
}

static void refill(struct http2_stream *s)
{
    if (s->has_all)
        return;
    pthread_mutex_lock(&s->x->lock);
    take_data(s);
    pthread_mutex_unlock(&s->x->lock);
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *unused, size_t max,
                       uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    struct http2_stream *s = source->ptr;

    (void)session, (void)id, (void)unused, (void)ctx;
    refill(s);
    size_t left = s->data.len - s->data_at;
    if (!left && !s->has_all) {
        s->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (left <= max && s->has_all)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)(left < max ? left : max);
}

/* The writer of a reply that is whole does not wait, and the exchange ends with its last frame. */
static void tell_sent(struct http2_stream *s, size_t len)
{
    s->untold += len;
    if (s->has_all && s->x->is_whole)
        return;
    if (s->untold >= TELL_BYTES || s->data_at == s->data.len) {
        exchange_sent(s->x, s->untold);
        s->untold = 0;
    }
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                        size_t len, nghttp2_data_source *source, void *ctx)
{
    struct http2_stream *s = source->ptr;
    struct http2 *h = ctx;

    (void)session, (void)frame; /* no padding was asked for */
    if (h->out->len >= h->out_max)
        return NGHTTP2_ERR_WOULDBLOCK;
    buf_add(h->out, head, 9);
    if (len) /* else there may be no data to point into */
        buf_add(h->out, s->data.ptr + s->data_at, len);
    s->data_at += len;
    tell_sent(s, len);
    h->opt.sent(h->opt.events.ctx, s->x, len);
    return 0;
}

/* A list of headers for nghttp2, which copies them and puts their names into lower case. */
struct fields {
    size_t count;
    nghttp2_nv list[REPLY_HEADERS_MAX];
};

static void add_field(struct fields *f, struct slice name, struct slice value)
{
    if (f->count < REPLY_HEADERS_MAX)
        f->list[f->count++] = (nghttp2_nv){ (uint8_t *)name.ptr, (uint8_t *)value.ptr, name.len,
                                            value.len, NGHTTP2_NV_FLAG_NONE };
}

/* "Name: value" lines to fields. */
static void add_lines(struct fields *f, struct slice lines)
{
    const char *at = lines.ptr, *end = lines.len ? at + lines.len : at;

    while (at < end) {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        const char *line_end = memchr(at, '\r', (size_t)(end - at));
        assert(colon && line_end); /* as exchange_reply makes them */
        add_field(f, slice_of(at, (size_t)(colon - at)),
                  slice_of(colon + 2, (size_t)(line_end - colon - 2)));
        at = line_end + 2;
    }
}

/* Lock held. */
static void submit_head(struct http2 *h, struct http2_stream *s)
{
    const struct exchange_reply *rep = &s->x->rep;
    nghttp2_data_provider body = { .source.ptr = s, .read_callback = on_read };
    bool has_body = s->x->req.method != METHOD_HEAD && !head_has_no_body(rep->status);
    char status[HEAD_DIGITS], length[HEAD_DIGITS];
    struct fields f; /* large: not zeroed */

    f.count = 0;
    add_field(&f, slice_str(":status"), head_number((uint64_t)rep->status, status));
    add_field(&f, slice_str("date"), slice_str(head_date()));
    add_field(&f, slice_str("server"), slice_str(h->opt.events.server_name));
    if (rep->has_length && !head_has_no_body(rep->status))
        add_field(&f, slice_str("content-length"), head_number(rep->pending.len, length));
    add_lines(&f, slice_of(s->x->few_lines, rep->few_len));
    add_lines(&f, buf_slice(&rep->lines));
    nghttp2_submit_response(h->session, s->id, f.list, f.count, has_body ? &body : NULL);
    s->x->is_head_written = true;
    take_data(s);
}

void http2_ready(struct http2 *h, struct exchange *x)
{
    struct http2_stream *s = x->stream;

    if (!s || s->is_answered)
        return;
    pthread_mutex_lock(&x->lock);
    bool is_broken = x->rep.is_aborted || x->rep.is_stalled;
    if (!is_broken && x->rep.is_started && !x->is_head_written)
        submit_head(h, s);
    pthread_mutex_unlock(&x->lock);
    if (is_broken) {
        nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_INTERNAL_ERROR);
    } else if (s->is_deferred) {
        s->is_deferred = false;
        nghttp2_session_resume_data(h->session, s->id);
    }
}

/* The last frame of the reply has been put. */
static void finish_reply(struct http2 *h, struct http2_stream *s)
{
    if (!s->has_all &&
        !exchange_is_over(s->x)) /* to HEAD: what the handler still says is not wanted */
        return;
    s->is_answered = true;
    drop_held(h, s);
    h->opt.answered(h->opt.events.ctx, s->x);
}

/* Requests that break the rules: they cost us more than the peer. */
static int cost_of_reset(uint32_t code)
{
    switch (code) {
    case NGHTTP2_NO_ERROR:
    case NGHTTP2_CANCEL:
    case NGHTTP2_INTERNAL_ERROR:
        return 0;
    case NGHTTP2_REFUSED_STREAM:
        return 1;
    default:
        return BROKEN_COST;
    }
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct http2 *h = ctx;
    struct http2_stream *s = stream_of(session, frame->hd.stream_id);

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        if (s && frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
            finish_reply(h, s);
        return 0;
    case NGHTTP2_RST_STREAM:
        lose_patience(h, cost_of_reset(frame->rst_stream.error_code));
        return 0;
    default:
        return 0;
    }
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *ctx)
{
    struct http2 *h = ctx;
    struct http2_stream *s = stream_of(session, id);

    (void)code;
    if (!s)
        return 0;
    if (s->held.len) /* the stream's window is gone, the connection's is not */
        nghttp2_session_consume_connection(session, s->held.len);
    h->opt.gone(h->opt.events.ctx, s->x);
    stream_free(h, s);
    return 0;
}

void http2_cancel(struct http2 *h, struct exchange *x)
{
    struct http2_stream *s = x->stream;

    if (s)
        nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, s->id,
                                  s->is_answered ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
}

bool http2_has_head(const struct exchange *x)
{
    return x->stream->has_head;
}

bool http2_is_answered(const struct exchange *x)
{
    return x->stream->is_answered;
}

/* ---- the session ---- */

static void set_callbacks(nghttp2_session_callbacks *cbs)
{
    nghttp2_session_callbacks_set_on_begin_frame_callback(cbs, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cbs, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cbs, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cbs, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cbs, on_frame_recv);
    nghttp2_session_callbacks_set_on_frame_send_callback(cbs, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(cbs, on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(cbs, on_send_data);
}

static void announce(struct http2 *h)
{
    const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, h->opt.streams },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW },
        { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)h->opt.events.header_bytes },
        { NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
    };

    nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings));
    nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, SESSION_WINDOW);
}

/* ---- its memory ---- */

static void *get(size_t bytes, void *unused)
{
    (void)unused;
    return blocks_get(bytes);
}

static void put(void *ptr, void *unused)
{
    (void)unused;
    blocks_put(ptr);
}

static void *get_zeroed(size_t count, size_t bytes, void *unused)
{
    (void)unused;
    if (bytes && count > SIZE_MAX / bytes)
        return NULL;
    return memset(blocks_get(count * bytes), 0, count * bytes);
}

static void *resize(void *ptr, size_t bytes, void *unused)
{
    (void)unused;
    return blocks_resize(ptr, bytes);
}

struct http2 *http2_new(const struct http2_options *opt)
{
    struct http2 *h = mem_zalloc(sizeof *h);
    nghttp2_mem memory = { NULL, get, put, get_zeroed, resize };
    nghttp2_session_callbacks *cbs;
    nghttp2_option *option;

    h->opt = *opt;
    h->patience = PATIENCE;
    if (nghttp2_session_callbacks_new(&cbs) || nghttp2_option_new(&option))
        BUG("nghttp2 has no memory");
    set_callbacks(cbs);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_stream_reset_rate_limit(option, RESET_BURST, RESETS_PER_S);
    if (nghttp2_session_server_new3(&h->session, cbs, h, option, &memory))
        BUG("nghttp2 makes no session");
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cbs);
    announce(h);
    metric_register(&floods);
    return h;
}

void http2_free(struct http2 *h)
{
    if (!h)
        return;
    nghttp2_session_del(h->session);
    while (h->first)
        stream_free(h, h->first);
    mem_free(h);
}

bool http2_feed(struct http2 *h, struct slice bytes)
{
    if (h->is_broken)
        return false;
    ssize_t n = nghttp2_session_mem_recv(h->session, (const uint8_t *)bytes.ptr, bytes.len);
    if (n < 0) {
        h->is_broken = true;
        if (n == NGHTTP2_ERR_FLOODED)
            metric_add(&floods, 1);
        log_debug("net", "HTTP/2: %s", nghttp2_strerror((int)n));
        nghttp2_session_terminate_session(h->session, n == NGHTTP2_ERR_FLOODED
                                                          ? NGHTTP2_ENHANCE_YOUR_CALM
                                                          : NGHTTP2_PROTOCOL_ERROR);
    }
    return !h->is_broken;
}

bool http2_put(struct http2 *h, struct buf *out, size_t max)
{
    const uint8_t *bytes;
    ssize_t n = 1;

    h->out = out;
    h->out_max = max;
    while (n > 0 && out->len < max) {
        n = nghttp2_session_mem_send(h->session, &bytes);
        if (n > 0)
            buf_add(out, bytes, (size_t)n);
    }
    if (n < 0)
        h->is_broken = true;
    h->out = NULL;
    return out->len >= max;
}

void http2_end(struct http2 *h)
{
    nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(h->session), NGHTTP2_NO_ERROR,
                          NULL, 0);
}

void http2_give_up(struct http2 *h)
{
    nghttp2_session_terminate_session(h->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

bool http2_is_over(const struct http2 *h)
{
    return !nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session);
}
