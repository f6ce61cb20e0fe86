/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads until the socket is empty, feeds, answers inside the callbacks, writes
 * once at the end: what the libraries cost when nothing else is done.
 */
#include "http_peer.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <llhttp.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVENTS = 64, READ_BYTES = 128 * KIB, WRITE_BYTES = 256 * KIB };

struct answer {
    struct peer_answer given;
    nghttp2_nv fields[PEER_HEADERS];
    size_t field_count;
    struct slice body;
};

struct client {
    int fd;
    SSL *ssl;
    bool is_chosen, wants_write;
    llhttp_t http1;
    nghttp2_session *http2;
    char path[256];
    size_t path_len;
    struct buf out;
    size_t sent;
};

/* Of an HTTP/2 stream. */
struct request {
    char path[256];
    size_t path_len, body_at;
    const struct answer *answer;
};

static struct answer answers[PEER_ANSWERS];
static SSL_CTX *tls;
static llhttp_settings_t http1_settings;
static nghttp2_session_callbacks *http2_callbacks;
static int poller;

static const struct answer *answer_to(const char *path, size_t len)
{
    for (size_t i = 0; i < PEER_ANSWERS; i++)
        if (slice_is(slice_of(path, len), answers[i].given.path))
            return &answers[i];
    bench_fail("the peer was asked for %.*s", (int)len, path);
}

/* "Name: value" lines to fields of HTTP/2. */
static void make_fields(struct answer *a)
{
    char *text = mem_alloc(a->given.whole.len + 1), *line, *rest;
    char *end = memmem(a->given.whole.ptr, a->given.whole.len, "\r\n\r\n", 4);

    assert(end);
    size_t head = (size_t)(end - a->given.whole.ptr);
    a->body = slice_of(end + 4, a->given.whole.len - head - 4);
    memcpy(text, a->given.whole.ptr, head);
    text[head] = 0;
    a->fields[a->field_count++] = (nghttp2_nv){ (uint8_t *)":status", (uint8_t *)"200", 7, 3, 0 };
    (void)strtok_r(text, "\r\n", &rest); /* the status line */
    while ((line = strtok_r(NULL, "\r\n", &rest)) && a->field_count < PEER_HEADERS) {
        char *colon = strchr(line, ':');
        for (char *p = line; p < colon; p++)
            *p = (char)tolower((unsigned char)*p);
        a->fields[a->field_count++] = (nghttp2_nv){ (uint8_t *)line, (uint8_t *)colon + 2,
                                                    (size_t)(colon - line), strlen(colon + 2), 0 };
    }
}

/* ---- HTTP/1.1 ---- */

static int on_begin(llhttp_t *p)
{
    ((struct client *)p->data)->path_len = 0;
    return 0;
}

static int on_url(llhttp_t *p, const char *at, size_t len)
{
    struct client *c = p->data;

    if (len < sizeof c->path - c->path_len) {
        memcpy(c->path + c->path_len, at, len);
        c->path_len += len;
    }
    return 0;
}

static int on_complete(llhttp_t *p)
{
    struct client *c = p->data;

    buf_add_slice(&c->out, answer_to(c->path, c->path_len)->given.whole);
    return 0;
}

/* ---- HTTP/2 ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    (void)ctx;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id,
                                         mem_zalloc(sizeof(struct request)));
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *ctx)
{
    struct request *r = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags, (void)ctx;
    if (slice_is(slice_of(name, name_len), ":path") && value_len < sizeof r->path) {
        memcpy(r->path, value, value_len);
        r->path_len = value_len;
    }
    return 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t max,
                         uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    struct request *r = source->ptr;
    size_t left = r->answer->body.len - r->body_at, n = left < max ? left : max;

    (void)session, (void)id, (void)ctx;
    memcpy(out, r->answer->body.ptr + r->body_at, n);
    r->body_at += n;
    if (n == left)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct request *r = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)ctx;
    if (!r || frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    r->answer = answer_to(r->path, r->path_len);
    nghttp2_data_provider body = { .source.ptr = r, .read_callback = read_body };
    return nghttp2_submit_response(session, frame->hd.stream_id, r->answer->fields,
                                   r->answer->field_count, &body);
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *ctx)
{
    (void)code, (void)ctx;
    mem_free(nghttp2_session_get_stream_user_data(session, id));
    return 0;
}

static void speak_http2(struct client *c)
{
    const nghttp2_settings_entry settings[] = { { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 100 } };

    nghttp2_session_server_new(&c->http2, http2_callbacks, c);
    nghttp2_submit_settings(c->http2, 0, settings, ARRAY_LEN(settings));
}

static void make_protocols(void)
{
    llhttp_settings_init(&http1_settings);
    http1_settings.on_message_begin = on_begin;
    http1_settings.on_url = on_url;
    http1_settings.on_message_complete = on_complete;
    nghttp2_session_callbacks_new(&http2_callbacks);
    nghttp2_session_callbacks_set_on_begin_headers_callback(http2_callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(http2_callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(http2_callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(http2_callbacks, on_close);
}

/* ---- sockets ---- */

static void drop(struct client *c)
{
    SSL_free(c->ssl);
    nghttp2_session_del(c->http2);
    close(c->fd);
    buf_release(&c->out);
    mem_free(c);
}

/* Bytes, 0 = nothing now, -1 = the end. */
static ssize_t take(struct client *c, void *bytes, size_t len)
{
    size_t n;

    if (!c->ssl) {
        ssize_t got = recv(c->fd, bytes, len, 0);
        return got > 0 ? got : got < 0 && errno == EAGAIN ? 0 : -1;
    }
    if (SSL_read_ex(c->ssl, bytes, len, &n))
        return (ssize_t)n;
    int why = SSL_get_error(c->ssl, 0);
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

static ssize_t give(struct client *c, const void *bytes, size_t len)
{
    size_t n;

    if (!c->ssl) {
        ssize_t put = send(c->fd, bytes, len, MSG_NOSIGNAL);
        return put > 0 ? put : errno == EAGAIN ? 0 : -1;
    }
    if (SSL_write_ex(c->ssl, bytes, len, &n))
        return (ssize_t)n;
    int why = SSL_get_error(c->ssl, 0);
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

static void want_write(struct client *c, bool wants)
{
    struct epoll_event e = { .events = EPOLLIN | (wants ? EPOLLOUT : 0), .data.ptr = c };

    if (wants != c->wants_write)
        epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
    c->wants_write = wants;
}

static void choose(struct client *c, const char *bytes)
{
    c->is_chosen = true;
    if (*bytes == 'P') { /* the preface; nobody posts here */
        speak_http2(c);
    } else {
        llhttp_init(&c->http1, HTTP_REQUEST, &http1_settings);
        c->http1.data = c;
    }
}

static bool feed(struct client *c, const char *bytes, size_t len)
{
    if (!c->is_chosen)
        choose(c, bytes);
    if (c->http2)
        return nghttp2_session_mem_recv(c->http2, (const uint8_t *)bytes, len) >= 0;
    return llhttp_execute(&c->http1, bytes, len) == HPE_OK;
}

static bool flush(struct client *c)
{
    const uint8_t *bytes;
    ssize_t n;

    for (;;) {
        while (c->http2 && c->out.len < WRITE_BYTES &&
               (n = nghttp2_session_mem_send(c->http2, &bytes)) > 0)
            buf_add(&c->out, bytes, (size_t)n);
        if (c->sent == c->out.len)
            break;
        n = give(c, c->out.ptr + c->sent, c->out.len - c->sent);
        if (n < 0)
            return false;
        c->sent += (size_t)n;
        if (c->sent < c->out.len) {
            want_write(c, true);
            return true;
        }
        buf_clear(&c->out);
        c->sent = 0;
    }
    want_write(c, false);
    return true;
}

static void serve(struct client *c)
{
    static char bytes[READ_BYTES];
    ssize_t n;

    do {
        n = take(c, bytes, sizeof bytes);
        if (n < 0 || (n > 0 && !feed(c, bytes, (size_t)n))) {
            drop(c);
            return;
        }
    } while (n > 0 && (c->ssl || (size_t)n == sizeof bytes));
    if (!flush(c))
        drop(c);
}

static void welcome(int listener)
{
    int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return;
    struct client *c = mem_zalloc(sizeof *c);
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->fd = fd;
    if (tls) {
        c->ssl = SSL_new(tls);
        SSL_set_fd(c->ssl, fd);
        SSL_set_accept_state(c->ssl);
    }
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
}

static NORETURN void run(int listener)
{
    struct epoll_event ready[EVENTS], e = { .events = EPOLLIN };

    poller = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &e);
    make_protocols();
    for (;;) {
        int count = epoll_wait(poller, ready, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (ready[i].data.ptr)
                serve(ready[i].data.ptr);
            else
                welcome(listener);
        }
    }
}

/* ---- life ---- */

static int choose_alpn(SSL *ssl, const uint8_t **out, uint8_t *out_len, const uint8_t *in,
                       unsigned in_len, void *ctx)
{
    static const uint8_t ours[] = "\x02h2\x08http/1.1";

    (void)ssl, (void)ctx;
    return SSL_select_next_proto((uint8_t **)out, out_len, ours, sizeof ours - 1, in, in_len) ==
                   OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static void make_tls(const char *cert, const char *key)
{
    tls = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(tls, 1);
    SSL_CTX_set_alpn_select_cb(tls, choose_alpn, NULL);
    if (SSL_CTX_use_certificate_chain_file(tls, cert) != 1 ||
        SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
        bench_fail("the peer cannot use %s and %s", cert, key);
}

void peer_start(struct peer *p, const struct peer_answer given[PEER_ANSWERS], const char *cert,
                const char *key)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 1024) ||
        getsockname(fd, (struct sockaddr *)&at, &len))
        bench_fail("the peer cannot listen: %s", strerror(errno));
    p->port = ntohs(at.sin_port);
    fflush(stdout);
    p->pid = fork();
    if (p->pid < 0)
        bench_fail("cannot start a process: %s", strerror(errno));
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0; i < PEER_ANSWERS; i++) {
            answers[i].given = given[i];
            make_fields(&answers[i]);
        }
        if (cert)
            make_tls(cert, key);
        run(fd);
    }
    close(fd);
}

void peer_stop(struct peer *p)
{
    if (kill(p->pid, SIGKILL) || waitpid(p->pid, NULL, 0) != p->pid)
        bench_fail("the peer is gone already");
    p->pid = 0;
}
