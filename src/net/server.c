/* SPDX-License-Identifier: Apache-2.0 */
/* Listening and the list of connections. */
#include "base/fault.h"
#include "base/log.h"
#include "base/metrics.h"
#include "net/conn.h"
#include "net/tls.h"
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum {
    SWEEP_MS = 100,
    BACKLOG = 1024,
    READ_BUFFER = 128 * KIB,
    ACCEPT_PAUSE_MS = 100,
    ACCEPTS_PER_TURN = 64,
    TURNED_AWAY_MAX = 64, /* connections that are being refused; accept pauses above */
    REPORT_MS = 10000,
    SHRINK_MS = 1000, /* an idle connection keeps its buffers for so long */
};

struct http_server {
    struct loop *loop;
    struct http_server_options opt;
    char *host, *server_name;
    uv_poll_t *listener;
    int fd;
    uint16_t port;
    /*
     * In the order of the time from which they are idle, so that only the first
     * of a list need be looked at. Those that just rest still have their buffers.
     */
    struct conn_list busy, resting, idle;
    size_t connections, turned_away, active;
    struct loop_timer *sweep;
    uint64_t pause_until_ms, reported_ms;
    bool is_draining, is_paused;
    char *read_buffer;
    struct buf too_many; /* the answer to a connection over the limit; empty with TLS */
};

static struct metric connections_now =
    METRIC_GAUGE("themis_http_connections", "Open client connections.");
static struct metric accepted_total =
    METRIC_COUNTER("themis_http_accepted_total", "Connections accepted.");
static struct metric turned_away_total = METRIC_COUNTER(
    "themis_http_turned_away_total", "Connections refused because max_connections were open.");

struct loop *server_loop(struct http_server *s)
{
    return s->loop;
}

const struct http_server_options *server_opt(const struct http_server *s)
{
    return &s->opt;
}

bool server_is_draining(const struct http_server *s)
{
    return s->is_draining;
}

void server_add_active(struct http_server *s, int delta)
{
    s->active += (size_t)delta;
}

/* ---- connections ---- */

static void list_add(struct conn_list *list, struct conn *c)
{
    struct conn_link *link = conn_link(c);

    link->list = list;
    link->next = NULL;
    link->prev = list->last;
    *list->last = c;
    list->last = &link->next;
}

static void list_remove(struct conn *c)
{
    struct conn_link *link = conn_link(c);

    *link->prev = link->next;
    if (link->next)
        conn_link(link->next)->prev = link->prev;
    else
        link->list->last = link->prev;
}

static void list_move(struct conn_list *list, struct conn *c)
{
    list_remove(c);
    list_add(list, c);
}

void server_rest(struct http_server *s, struct conn *c, bool is_idle)
{
    list_move(is_idle ? &s->resting : &s->busy, c);
}

void server_conn_closed(struct http_server *s, struct conn *c, bool was_turned_away)
{
    list_remove(c);
    if (was_turned_away) {
        s->turned_away--;
    } else {
        s->connections--;
        metric_set(&connections_now, (int64_t)s->connections);
    }
}

void *server_read_buffer(struct http_server *s, size_t *size)
{
    *size = READ_BUFFER;
    return s->read_buffer;
}

void server_take(struct http_server *s, int fd)
{
    struct conn *c = conn_new(s, fd, s->opt.tls);

    if (!c)
        return;
    list_add(&s->busy, c);
    conn_touch(c); /* it may be idle from the beginning */
    s->connections++;
    metric_add(&accepted_total, 1);
    metric_set(&connections_now, (int64_t)s->connections);
}

static void pause_accepting(struct http_server *s)
{
    s->is_paused = true;
    s->pause_until_ms = loop_now_ms(s->loop) + ACCEPT_PAUSE_MS;
    uv_poll_stop(s->listener);
}

static void report_full(struct http_server *s, const char *why)
{
    uint64_t now = loop_now_ms(s->loop);

    if (s->reported_ms && now - s->reported_ms < REPORT_MS)
        return;
    s->reported_ms = now;
    log_warn("net", "accept: %s; %zu connections are open", why, s->connections);
}

/* What the client wants to say is not read: it may be anything, and a handshake is dear. */
static void turn_away(struct http_server *s, int fd)
{
    struct conn *c = conn_turn_away(s, fd, buf_slice(&s->too_many));

    report_full(s, "further ones are refused");
    metric_add(&turned_away_total, 1);
    if (!c)
        return;
    list_add(&s->busy, c);
    s->turned_away++;
}

static bool is_full(const struct http_server *s)
{
    return s->connections >= s->opt.limits.connections;
}

static void on_accept(uv_poll_t *handle, int status, int events)
{
    struct http_server *s = handle->data;

    (void)status, (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        if (is_full(s) && s->turned_away >= TURNED_AWAY_MAX) {
            pause_accepting(s);
            return;
        }
        int fd = fault_errno("server.accept", EMFILE) || fault_errno("server.accept", ECONNABORTED)
                     ? -1
                     : accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            if (is_full(s))
                turn_away(s, fd);
            else
                server_take(s, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            report_full(s, strerror(errno));
            pause_accepting(s); /* a busy loop otherwise */
        }
        return;
    }
}

static void watch(struct http_server *s)
{
    uv_poll_start(s->listener, UV_READABLE, on_accept);
}

static void sweep_idle(struct http_server *s, uint64_t now)
{
    uint64_t idle_ms = s->opt.limits.idle_ms, rest_ms = idle_ms < SHRINK_MS ? idle_ms : SHRINK_MS;
    struct conn *c;

    while ((c = s->resting.first) && now - conn_idle_since(c) >= rest_ms) {
        conn_shrink(c);
        list_move(&s->idle, c);
    }
    while ((c = s->idle.first) && now - conn_idle_since(c) > idle_ms) {
        list_move(&s->busy, c);
        conn_sweep(c, now);
    }
}

static void on_sweep(void *arg)
{
    struct http_server *s = arg;
    uint64_t now = loop_now_ms(s->loop);

    for (struct conn *c = s->busy.first, *next; c; c = next) {
        next = conn_link(c)->next;
        conn_sweep(c, now);
    }
    sweep_idle(s, now);
    if (s->is_paused && s->listener && now >= s->pause_until_ms) {
        s->is_paused = false;
        watch(s);
    }
}

static int listen_on(const struct addrinfo *a, int *why)
{
    int one = 1;
    int fd = fault_errno("server.socket", EMFILE)
                 ? -1
                 : socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) &&
        !fault_errno("server.bind", EADDRINUSE) && !bind(fd, a->ai_addr, a->ai_addrlen) &&
        !listen(fd, BACKLOG))
        return fd;
    *why = errno;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The number that the kernel chose. */
static enum errc read_port(struct http_server *s, struct error *err)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;
    char text[8];

    if (fault_errno("server.name", ENOBUFS) || getsockname(s->fd, (struct sockaddr *)&addr, &len) ||
        getnameinfo((struct sockaddr *)&addr, len, NULL, 0, text, sizeof text, NI_NUMERICSERV))
        return fail(err, ERR_IO, "cannot tell the port of the listener: %s", strerror(errno));
    s->port = (uint16_t)strtoul(text, NULL, 10);
    return OK;
}

static enum errc open_listener(struct http_server *s, struct error *err)
{
    struct addrinfo want = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *found;
    char port[8];
    int why = 0;

    snprintf(port, sizeof port, "%u", s->opt.port);
    int rc =
        fault_hit("server.resolve") ? EAI_AGAIN : getaddrinfo(s->opt.host, port, &want, &found);
    if (rc)
        return fail(err, ERR_INVALID, "cannot listen on %s: %s", s->opt.host, gai_strerror(rc));
    s->fd = listen_on(found, &why);
    freeaddrinfo(found);
    if (s->fd < 0)
        return fail(err, why == EADDRINUSE ? ERR_BUSY : ERR_IO, "cannot listen on %s:%s: %s",
                    s->opt.host, port, strerror(why));
    enum errc code = read_port(s, err);
    if (code == OK) {
        s->listener = mem_zalloc(sizeof *s->listener);
        rc = fault_hit("server.poll")
                 ? UV_ENOMEM
                 : uv_poll_init((uv_loop_t *)loop_uv(s->loop), s->listener, s->fd);
        if (!rc)
            return OK;
        mem_free(s->listener);
        code = fail(err, ERR_LIMIT, "cannot wait for connections: %s", uv_strerror(rc));
    }
    close(s->fd);
    return code;
}

static void write_too_many(struct http_server *s)
{
    static const char body[] = "{\"error\":true,\"code\":503,\"errorNum\":503,\"errorMessage\":"
                               "\"the server has as many connections as max_connections allows\"}";

    buf_printf(&s->too_many,
               "HTTP/1.1 503 Service Unavailable\r\nServer: %s\r\nRetry-After: 1\r\n"
               "Content-Type: application/json; charset=utf-8\r\nContent-Length: %zu\r\n"
               "Connection: close\r\n\r\n%s",
               s->server_name, sizeof body - 1, body);
}

static void release(struct http_server *s)
{
    tls_config_free(s->opt.tls);
    buf_release(&s->too_many);
    mem_free(s->read_buffer);
    mem_free(s->host);
    mem_free(s->server_name);
    mem_free(s);
}

enum errc http_server_new(struct http_server **out, struct loop *loop,
                          const struct http_server_options *opt, struct error *err)
{
    struct http_server *s = mem_zalloc(sizeof *s);

    s->loop = loop;
    s->opt = *opt;
    s->opt.host = s->host = mem_strdup(opt->host);
    s->opt.server_name = s->server_name =
        mem_strdup(opt->server_name ? opt->server_name : "themis");
    s->fd = -1;
    s->busy.last = &s->busy.first;
    s->resting.last = &s->resting.first;
    s->idle.last = &s->idle.first;
    if (!s->opt.limits.pipeline)
        s->opt.limits.pipeline = 1;
    if (!s->opt.limits.streams)
        s->opt.limits.streams = 100;
    enum errc rc = open_listener(s, err);
    if (rc != OK) {
        release(s);
        return rc;
    }
    s->read_buffer = mem_alloc(READ_BUFFER);
    if (!s->opt.tls)
        write_too_many(s);
    metric_register(&turned_away_total);
    s->listener->data = s;
    watch(s);
    s->sweep = loop_timer_new(loop, on_sweep, s);
    loop_timer_start(s->sweep, SWEEP_MS, SWEEP_MS);
    *out = s;
    return OK;
}

uint16_t http_server_port(const struct http_server *s)
{
    return s->port;
}

static void listener_closed(uv_handle_t *handle)
{
    mem_free(handle);
}

static void close_listener(struct http_server *s)
{
    if (!s->listener)
        return;
    uv_poll_stop(s->listener);
    uv_close((uv_handle_t *)s->listener, listener_closed);
    s->listener = NULL;
    close(s->fd);
}

void http_server_drain(struct http_server *s)
{
    s->is_draining = true;
    close_listener(s);
    while (s->resting.first) /* each hears of it once */
        list_move(&s->busy, s->resting.first);
    while (s->idle.first)
        list_move(&s->busy, s->idle.first);
    for (struct conn *c = s->busy.first, *next; c; c = next) {
        next = conn_link(c)->next;
        conn_drain(c);
    }
}

void http_server_set_tls(struct http_server *s, struct tls_config *tls)
{
    assert(s->opt.tls && tls);
    tls_config_free(s->opt.tls);
    s->opt.tls = tls;
}

/* A reply of HTTP/1 may have left its exchange long before the client has taken it. */
size_t http_server_active(const struct http_server *s)
{
    size_t sending = 0;

    if (!s->active)
        for (struct conn *c = s->busy.first; c; c = conn_link(c)->next)
            sending += conn_is_sending(c);
    return s->active + sending;
}

size_t http_server_connections(const struct http_server *s)
{
    return s->connections;
}

static void close_all(struct conn_list *list)
{
    while (list->first)
        conn_close(list->first);
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    close_listener(s);
    close_all(&s->busy);
    close_all(&s->resting);
    close_all(&s->idle);
    loop_timer_free(s->sweep);
    loop_flush(s->loop); /* turn-end tasks of the connections */
    release(s);
}
