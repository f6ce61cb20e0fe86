/* SPDX-License-Identifier: Apache-2.0 */
/* The requests' side: one thread, epoll, HTTP/1.1 with kept connections. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench_server.h"

enum { REPLY_MAX = 256 * KIB, LATENCIES_MAX = 1 << 22, EVENTS = 64 };

void bench_http_get(struct buf *out, const char *path)
{
    buf_printf(out,
               "GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n",
               path);
}

void bench_http_post(struct buf *out, const char *path, const char *json)
{
    buf_printf(out,
               "POST %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n"
               "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
               path, strlen(json), json);
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to))
        bench_fail("cannot connect to port %u: %s", port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void send_all(int fd, struct slice bytes)
{
    if (send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL) != (ssize_t)bytes.len)
        bench_fail("cannot send a request of %zu bytes: %s", bytes.len, strerror(errno));
}

struct client_conn {
    int fd;
    double sent_at;
    size_t len;
    char reply[REPLY_MAX];
};

struct run {
    const struct bench_http_load *load;
    struct client_conn *conns;
    size_t next; /* request */
    uint64_t done;
    double *latencies_us;
};

static void send_next(struct run *r, struct client_conn *c)
{
    struct slice request = r->load->requests[r->next++ % r->load->request_count];
    c->len = 0;
    c->sent_at = bench_seconds();
    send_all(c->fd, request);
}

/* True when the reply is whole. The last byte of the buffer is kept for a zero. */
static bool is_whole(struct client_conn *c)
{
    c->reply[c->len] = 0;
    char *end = strstr(c->reply, "\r\n\r\n");
    if (!end)
        return false;
    char *length = strcasestr(c->reply, "\r\nContent-Length:");
    if (!length || length > end)
        bench_fail("a reply without length: %.200s", c->reply);
    size_t want = (size_t)(end + 4 - c->reply) + strtoul(length + 17, NULL, 10);
    if (c->len < want)
        return false;
    if (c->len > want || strncmp(c->reply, "HTTP/1.1 2", 10) != 0)
        bench_fail("not the reply that was expected: %.1000s", c->reply);
    return true;
}

static void read_reply(struct run *r, struct client_conn *c)
{
    ssize_t n = recv(c->fd, c->reply + c->len, sizeof c->reply - 1 - c->len, 0);
    if (n <= 0)
        bench_fail("the server closed a connection or a reply is too large: %s", strerror(errno));
    c->len += (size_t)n;
    if (!is_whole(c))
        return;
    r->latencies_us[r->done++ % LATENCIES_MAX] = (bench_seconds() - c->sent_at) * 1e6;
    send_next(r, c);
}

static void result_fill(struct run *r, double seconds, struct bench_http_result *out)
{
    size_t n = r->done < LATENCIES_MAX ? r->done : LATENCIES_MAX;
    if (!n)
        bench_fail("no request was answered in %.1f s", seconds);
    *out = (struct bench_http_result){ .per_second = (double)r->done / seconds,
                                       .p50_us = bench_quantile(r->latencies_us, n, 0.5),
                                       .p99_us = bench_quantile(r->latencies_us, n, 0.99),
                                       .worst_us = bench_quantile(r->latencies_us, n, 1) };
}

void bench_http_run(const struct bench_http_load *load, struct bench_http_result *out)
{
    struct run r = { .load = load };
    struct epoll_event events[EVENTS];
    int poll = epoll_create1(EPOLL_CLOEXEC);
    r.conns = mem_alloc(load->connections * sizeof *r.conns);
    r.latencies_us = mem_alloc(LATENCIES_MAX * sizeof *r.latencies_us);
    for (unsigned i = 0; i < load->connections; i++) {
        struct client_conn *c = &r.conns[i];
        c->fd = connect_to(load->port);
        struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
        if (epoll_ctl(poll, EPOLL_CTL_ADD, c->fd, &e))
            bench_fail("epoll: %s", strerror(errno));
    }
    double begin = bench_seconds(), now = begin;
    for (unsigned i = 0; i < load->connections; i++)
        send_next(&r, &r.conns[i]);
    for (; now - begin < load->seconds; now = bench_seconds()) {
        int n = epoll_wait(poll, events, EVENTS, 100);
        for (int i = 0; i < n; i++)
            read_reply(&r, events[i].data.ptr);
    }
    result_fill(&r, now - begin, out);
    for (unsigned i = 0; i < load->connections; i++)
        close(r.conns[i].fd);
    close(poll);
    mem_free(r.conns);
    mem_free(r.latencies_us);
}

void bench_http_fetch(uint16_t port, struct slice request, struct buf *out)
{
    struct client_conn *c = mem_zalloc(sizeof *c);
    ssize_t n;
    c->fd = connect_to(port);
    send_all(c->fd, request);
    do {
        n = recv(c->fd, c->reply + c->len, sizeof c->reply - 1 - c->len, 0);
        if (n <= 0)
            bench_fail("no answer to a request: %s", strerror(errno));
        c->len += (size_t)n;
    } while (!is_whole(c));
    buf_add(out, c->reply, c->len);
    close(c->fd);
    mem_free(c);
}

/* ---- requests that wait ---- */

struct bench_http_waiting {
    unsigned count;
    int fds[];
};

struct bench_http_waiting *bench_http_begin(uint16_t port, unsigned connections,
                                            struct slice request)
{
    struct bench_http_waiting *w = mem_alloc(sizeof *w + connections * sizeof *w->fds);
    w->count = connections;
    for (unsigned i = 0; i < connections; i++) {
        w->fds[i] = connect_to(port);
        send_all(w->fds[i], request);
    }
    return w;
}

unsigned bench_http_answered(struct bench_http_waiting *w)
{
    unsigned answered = 0;
    for (unsigned i = 0; i < w->count; i++) {
        int bytes = 0;
        if (ioctl(w->fds[i], FIONREAD, &bytes) == 0 && bytes > 0)
            answered++;
    }
    return answered;
}

void bench_http_leave(struct bench_http_waiting *w)
{
    for (unsigned i = 0; i < w->count; i++)
        close(w->fds[i]);
    mem_free(w);
}
