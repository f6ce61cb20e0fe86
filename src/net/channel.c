/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RESTING -> FINDING -> CONNECTING -> GREETING -> UP
 *     ^________|____________|___________|________|     by channel_break
 *
 * The pause before another try doubles up to a second. What may be called while
 * bytes are fed (callers that ask, cancel, or free the channel in on_end) only
 * marks: the socket is written at the end of the turn.
 */
#include "net/channel.h"
#include "base/env.h"
#include "base/fault.h"
#include "base/log.h"
#include "net/tls.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum {
    PAUSE_FIRST_MS = 50,
    PAUSE_MAX_MS = 1000,
    READ_BYTES = 128 * KIB,
    READS_PER_TURN = 8,
    OUT_HIGH = 256 * KIB,
};

enum channel_state { RESTING, FINDING, CONNECTING, GREETING, UP };

/* The library keeps it until the address was found, also when the channel has gone. */
struct finding {
    uv_getaddrinfo_t req;
    struct channel *channel; /* NULL: nobody waits */
};

struct channel {
    struct loop *loop;
    struct channel_options opt;
    char *host, *port, *name;
    struct tls_config *tls;
    enum channel_state state;
    struct finding *finding;
    int fd, events;
    uv_poll_t *poll;
    struct tls *session;
    struct http2_client *http;
    struct buf out;
    size_t out_sent;
    struct loop_timer *timer; /* the end of a pause, or of the patience with a connection */
    struct loop_timer *ping;
    unsigned unanswered;
    uint64_t pinged_us, rtt_us, pause_ms;
    bool is_touched, is_freed;
    struct loop_task turn_end;
};

static void start_connecting(struct channel *ch);
static void on_poll(uv_poll_t *handle, int status, int events);

/* ---- the socket ---- */

static void poll_closed(uv_handle_t *handle)
{
    mem_free(handle);
}

static void close_socket(struct channel *ch)
{
    if (ch->session && ch->state == UP)
        tls_end(ch->session);
    tls_free(ch->session);
    ch->session = NULL;
    if (ch->poll) {
        uv_poll_stop(ch->poll);
        uv_close((uv_handle_t *)ch->poll, poll_closed);
        ch->poll = NULL;
    }
    if (ch->fd >= 0)
        close(ch->fd);
    ch->fd = -1;
    ch->events = 0;
    buf_release(&ch->out);
    buf_init(&ch->out, 0);
    ch->out_sent = 0;
}

/* What the state waits for. */
static int wanted_events(const struct channel *ch)
{
    if (ch->state == CONNECTING)
        return UV_WRITABLE;
    int events = UV_READABLE;
    if (tls_has_more(ch->session)) /* a read goes on although the socket brings nothing new */
        events |= UV_WRITABLE;
    if (ch->out.len > ch->out_sent && !tls_write_waits_to_read(ch->session))
        events |= UV_WRITABLE;
    return events;
}

static void watch(struct channel *ch)
{
    int events = wanted_events(ch);

    if (events == ch->events)
        return;
    ch->events = events;
    uv_poll_start(ch->poll, events, on_poll);
}

/* Whatever was under way has failed: calls end, and another try follows. */
static void channel_break(struct channel *ch, const char *why)
{
    struct http2_client *http = ch->http;
    char text[200];

    snprintf(text, sizeof text, "%s", why); /* it may belong to what is closed now */
    if (ch->finding)
        ch->finding->channel = NULL;
    ch->finding = NULL;
    close_socket(ch);
    ch->http = NULL;
    ch->state = RESTING;
    ch->rtt_us = 0;
    loop_timer_stop(ch->ping);
    ch->pause_ms = ch->pause_ms ? 2 * ch->pause_ms : PAUSE_FIRST_MS;
    if (ch->pause_ms > PAUSE_MAX_MS)
        ch->pause_ms = PAUSE_MAX_MS;
    loop_timer_start(ch->timer, ch->pause_ms, 0);
    http2_client_free(http);
    ch->opt.on_down(ch->opt.ctx, text);
}

static void on_timer(void *arg)
{
    struct channel *ch = arg;

    if (ch->state == RESTING)
        start_connecting(ch);
    else if (ch->state != UP)
        channel_break(ch, "no connection in time");
}

/* ---- bytes ---- */

/* False: the connection is broken. */
static bool flush(struct channel *ch)
{
    for (;;) {
        if (ch->out_sent == ch->out.len) {
            buf_clear(&ch->out);
            ch->out_sent = 0;
            http2_client_put(ch->http, &ch->out, OUT_HIGH);
            if (!ch->out.len)
                return true;
        }
        ssize_t n = tls_write(ch->session, ch->out.ptr + ch->out_sent, ch->out.len - ch->out_sent);
        if (n == IO_AGAIN)
            return true;
        if (n < 0)
            return false;
        ch->out_sent += (size_t)n;
    }
}

static void on_turn_end(struct loop_task *task)
{
    struct channel *ch = CONTAINER_OF(task, struct channel, turn_end);

    ch->is_touched = false;
    if (ch->is_freed) {
        mem_free(ch);
        return;
    }
    if (ch->state != UP)
        return;
    if (flush(ch))
        watch(ch);
    else
        channel_break(ch, tls_why(ch->session));
}

static void touch(struct channel *ch)
{
    if (ch->is_touched)
        return;
    ch->is_touched = true;
    ch->turn_end.run = on_turn_end;
    loop_at_turn_end(ch->loop, &ch->turn_end);
}

static void read_some(struct channel *ch)
{
    static _Thread_local char bytes[READ_BYTES];

    for (int i = 0; i < READS_PER_TURN; i++) {
        ssize_t n = tls_read(ch->session, bytes, sizeof bytes);
        if (n == IO_AGAIN)
            return;
        if (n < 0) {
            channel_break(ch, n == IO_EOF ? "it has closed the connection" : tls_why(ch->session));
            return;
        }
        ch->unanswered = 0; /* whatever comes shows that it lives */
        ch->pause_ms = 0;
        if (!http2_client_feed(ch->http, slice_of(bytes, (size_t)n))) {
            channel_break(ch, "it has ended the connection");
            return;
        }
        if ((size_t)n < sizeof bytes && !tls_has_more(ch->session))
            return;
    }
}

/* ---- PING ---- */

static void on_pong(void *arg)
{
    struct channel *ch = arg;

    ch->rtt_us = env_mono_us(env_system()) - ch->pinged_us;
}

static void on_ping(void *arg)
{
    struct channel *ch = arg;

    if (ch->unanswered >= ch->opt.ping_misses) {
        channel_break(ch, "it does not answer PING");
        return;
    }
    ch->unanswered++;
    ch->pinged_us = env_mono_us(env_system());
    http2_client_ping(ch->http);
    touch(ch);
}

/* ---- opening ---- */

static void greet(struct channel *ch)
{
    int rc = tls_handshake(ch->session);

    if (rc == IO_AGAIN) {
        watch(ch);
        return;
    }
    if (rc != 1 || !tls_is_http2(ch->session)) {
        channel_break(ch, rc == 1 ? "it does not speak HTTP/2" : tls_why(ch->session));
        return;
    }
    loop_timer_stop(ch->timer);
    ch->state = UP;
    ch->unanswered = 0;
    ch->http = http2_client_new(on_pong, ch);
    loop_timer_start(ch->ping, ch->opt.ping_ms, ch->opt.ping_ms);
    touch(ch);
    ch->opt.on_up(ch->opt.ctx);
}

/* What the socket has suffered; 0 = nothing. */
static int socket_error(const struct channel *ch)
{
    int why = 0;
    socklen_t len = sizeof why;

    getsockopt(ch->fd, SOL_SOCKET, SO_ERROR, &why, &len);
    return why;
}

static void on_connected(struct channel *ch)
{
    int why = socket_error(ch), one = 1;

    if (why) {
        channel_break(ch, strerror(why));
        return;
    }
    setsockopt(ch->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ch->session = tls_connect_peer(ch->tls, ch->fd, ch->name);
    ch->state = GREETING;
    greet(ch);
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct channel *ch = handle->data;

    if (status < 0 || fault_hit("channel.event")) { /* the library does not say what it was */
        int why = socket_error(ch);
        channel_break(ch, why ? strerror(why) : "the connection broke");
        return;
    }
    if (ch->state == CONNECTING) {
        on_connected(ch);
    } else if (ch->state == GREETING) {
        greet(ch);
    } else {
        if (events & UV_READABLE || tls_has_more(ch->session))
            read_some(ch);
        if (ch->state == UP)
            touch(ch);
    }
}

/* 0, or why not. */
static int connect_to(struct channel *ch, const struct addrinfo *a)
{
    ch->fd = fault_errno("channel.socket", EMFILE)
                 ? -1
                 : socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (ch->fd < 0)
        return errno;
    if (connect(ch->fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS)
        return errno;
    ch->poll = mem_zalloc(sizeof *ch->poll);
    if (uv_poll_init((uv_loop_t *)loop_uv(ch->loop), ch->poll, ch->fd)) {
        mem_free(ch->poll);
        ch->poll = NULL;
        return ENOMEM;
    }
    ch->poll->data = ch;
    return 0;
}

static void on_found(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct finding *f = CONTAINER_OF(req, struct finding, req);
    struct channel *ch = f->channel;
    int why = status == 0 && ch ? connect_to(ch, found) : 0;

    uv_freeaddrinfo(found);
    mem_free(f);
    if (!ch)
        return;
    ch->finding = NULL;
    if (status || why) {
        channel_break(ch, status ? uv_strerror(status) : strerror(why));
        return;
    }
    ch->state = CONNECTING;
    watch(ch);
}

static void start_connecting(struct channel *ch)
{
    struct addrinfo want = { .ai_socktype = SOCK_STREAM };
    struct finding *f = mem_zalloc(sizeof *f);

    loop_timer_start(ch->timer, ch->opt.connect_ms, 0);
    f->channel = ch;
    ch->finding = f;
    ch->state = FINDING;
    int rc = uv_getaddrinfo((uv_loop_t *)loop_uv(ch->loop), &f->req, on_found, ch->host, ch->port,
                            &want);
    if (rc) {
        ch->finding = NULL;
        mem_free(f);
        channel_break(ch, uv_strerror(rc));
    }
}

struct channel *channel_new(struct loop *loop, const struct tls_config *tls,
                            const struct channel_options *opt)
{
    struct channel *ch = mem_zalloc(sizeof *ch);

    ch->loop = loop;
    ch->opt = *opt;
    ch->opt.host = ch->host = mem_strdup(opt->host);
    ch->opt.port = ch->port = mem_strdup(opt->port);
    ch->opt.name = ch->name = mem_strdup(opt->name);
    ch->tls = tls_config_share(tls);
    ch->fd = -1;
    buf_init(&ch->out, 0);
    ch->timer = loop_timer_new(loop, on_timer, ch);
    ch->ping = loop_timer_new(loop, on_ping, ch);
    loop_timer_start(ch->timer, 0, 0); /* not here: whoever makes it wants to know it first */
    return ch;
}

void channel_free(struct channel *ch)
{
    if (!ch)
        return;
    struct http2_client *http = ch->http;
    if (ch->finding)
        ch->finding->channel = NULL;
    close_socket(ch);
    ch->http = NULL;
    ch->state = RESTING;
    http2_client_free(http);
    loop_timer_free(ch->timer);
    loop_timer_free(ch->ping);
    buf_release(&ch->out);
    tls_config_free(ch->tls);
    mem_free(ch->host);
    mem_free(ch->port);
    mem_free(ch->name);
    ch->is_freed = true;
    if (!ch->is_touched)
        mem_free(ch);
}

void channel_set_tls(struct channel *ch, const struct tls_config *tls)
{
    tls_config_free(ch->tls);
    ch->tls = tls_config_share(tls);
}

/* ---- calls ---- */

bool channel_is_up(const struct channel *ch)
{
    return ch->state == UP && http2_client_is_open(ch->http);
}

uint64_t channel_rtt_us(const struct channel *ch)
{
    return ch->rtt_us;
}

struct http2_call *channel_ask(struct channel *ch, const struct http2_ask *ask,
                               const struct http2_call_events *events)
{
    struct http2_call *call = channel_is_up(ch) ? http2_client_ask(ch->http, ask, events) : NULL;

    if (call)
        touch(ch);
    return call;
}

void channel_resume(struct channel *ch, struct http2_call *call)
{
    http2_call_resume(call);
    touch(ch);
}

void channel_cancel(struct channel *ch, struct http2_call *call)
{
    http2_call_cancel(call);
    touch(ch);
}
