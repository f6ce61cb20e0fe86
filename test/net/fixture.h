/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixture -- a server on a loopback port with its loop in a thread, a few
 * routes that behave in the ways a server can behave, and raw sockets.
 */
#ifndef TEST_NET_FIXTURE_H
#define TEST_NET_FIXTURE_H

#include "../check.h"
#include "base/buf.h"
#include "base/pool.h"
#include "net/http.h"
#include "net/loop.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HELD_MAX = 64 };

struct fixture {
    struct loop *loop;
    struct http_server *server;
    struct pool *pool;
    pthread_t thread;
    uint16_t port;
    struct loop_task task;
    /* Exchanges that a test answers itself. */
    pthread_mutex_t lock;
    struct exchange *held[HELD_MAX];
    size_t held_count;
    atomic_int cancels, bodies, writes_failed, drained;
    atomic_size_t streamed, written, peak_unsent, active;
    atomic_bool is_resume_held;
};

struct work {
    struct job job;
    struct fixture *f;
    struct exchange *x;
    unsigned long number;
};

static inline void sleep_ms(unsigned ms)
{
    struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

    nanosleep(&t, NULL);
}

static inline uint64_t clock_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- routes ---- */

static inline void on_gone(void *ctx)
{
    struct fixture *f = ctx;

    atomic_fetch_add(&f->cancels, 1);
}

static inline void post_work(struct fixture *f, struct exchange *x, void (*run)(struct job *job),
                             unsigned long number)
{
    struct work *w = mem_zalloc(sizeof *w);

    w->job.run = run;
    w->f = f;
    w->x = exchange_ref(x);
    w->number = number;
    if (pool_post(f->pool, &w->job, NULL) != OK) {
        exchange_reply(x, 503, "text/plain", NULL, 0, slice_str("busy"));
        exchange_unref(x);
        mem_free(w);
    }
}

static inline void work_done(struct work *w)
{
    exchange_unref(w->x);
    mem_free(w);
}

static inline void run_pool(struct job *job)
{
    struct work *w = CONTAINER_OF(job, struct work, job);

    exchange_reply(w->x, 200, "text/plain", NULL, 0, slice_str("pooled"));
    work_done(w);
}

/* Later numbers sleep less, so that workers answer in the wrong order. */
static inline void run_order(struct job *job)
{
    struct work *w = CONTAINER_OF(job, struct work, job);
    char text[32];

    sleep_ms((unsigned)((w->number * 7919) % 13));
    snprintf(text, sizeof text, "<%lu>", w->number);
    exchange_reply(w->x, 200, "text/plain", NULL, 0, slice_str(text));
    work_done(w);
}

/* /stream?N: N pieces of 1,000 bytes. */
static inline void run_stream(struct job *job)
{
    struct work *w = CONTAINER_OF(job, struct work, job);
    char piece[1000];
    bool is_ok = true;

    exchange_start(w->x, 200, "text/plain", NULL, 0);
    for (unsigned long i = 0; is_ok && i < w->number; i++) {
        memset(piece, 'a' + (int)(i % 26), sizeof piece);
        is_ok = exchange_write(w->x, slice_of(piece, sizeof piece));
        size_t unsent = exchange_unsent(w->x);
        if (unsent > atomic_load(&w->f->peak_unsent))
            atomic_store(&w->f->peak_unsent, unsent);
        atomic_fetch_add(&w->f->written, sizeof piece);
    }
    if (is_ok)
        exchange_finish(w->x);
    else
        atomic_fetch_add(&w->f->writes_failed, 1);
    work_done(w);
}

static inline void run_events(struct job *job)
{
    struct work *w = CONTAINER_OF(job, struct work, job);

    exchange_start_events(w->x, NULL, 0);
    for (int i = 0; i < 3; i++) {
        char text[32];
        snprintf(text, sizeof text, "{\"n\":%d}", i);
        exchange_event(w->x, slice_str(text));
        sleep_ms(2);
    }
    exchange_finish(w->x);
    work_done(w);
}

static inline void run_abort(struct job *job)
{
    struct work *w = CONTAINER_OF(job, struct work, job);

    exchange_start(w->x, 200, "text/plain", NULL, 0);
    exchange_write(w->x, slice_str("half"));
    exchange_abort(w->x);
    work_done(w);
}

static inline void run_resume(struct job *job)
{
    struct work *w = CONTAINER_OF(job, struct work, job);

    while (atomic_load(&w->f->is_resume_held))
        sleep_ms(1);
    exchange_resume(w->x);
    work_done(w);
}

static inline bool on_upload(void *ctx, struct exchange *x, struct slice piece, bool is_last)
{
    struct fixture *f = ctx;

    atomic_fetch_add(&f->streamed, piece.len);
    if (!is_last) {
        post_work(f, x, run_resume, 0);
        return false;
    }
    char text[32];
    snprintf(text, sizeof text, "%zu", atomic_load(&f->streamed));
    exchange_reply(x, 200, "text/plain", NULL, 0, slice_str(text));
    return true;
}

static inline void hold(struct fixture *f, struct exchange *x)
{
    exchange_on_cancel(x, on_gone, f);
    pthread_mutex_lock(&f->lock);
    if (f->held_count == HELD_MAX)
        BUG("too many held exchanges");
    f->held[f->held_count++] = exchange_ref(x);
    pthread_mutex_unlock(&f->lock);
}

static inline unsigned long query_number(struct exchange *x)
{
    struct slice q = exchange_query(x);
    char text[32];

    snprintf(text, sizeof text, "%.*s", SLICE_ARG(q));
    return strtoul(text, NULL, 10);
}

/* /json?N: N bytes that shrink well. */
static inline void reply_json(struct exchange *x)
{
    struct buf text;

    buf_init(&text, 0);
    while (text.len < query_number(x))
        buf_add_str(&text, "{\"a\":1},");
    text.len = query_number(x);
    exchange_reply(x, 200, "application/json; charset=utf-8", NULL, 0, buf_slice(&text));
    buf_release(&text);
}

static inline void route_headers(void *ctx, struct exchange *x)
{
    struct fixture *f = ctx;
    struct slice path = exchange_path(x);

    if (slice_is(path, "/hello"))
        exchange_reply(x, 200, "text/plain", NULL, 0, slice_str("hello"));
    else if (slice_is(path, "/teapot"))
        exchange_reply(x, 418, "text/plain", NULL, 0, exchange_header(x, "x-tea"));
    else if (slice_is(path, "/nothing"))
        exchange_reply(x, 204, NULL, NULL, 0, slice_of(NULL, 0));
    else if (slice_is(path, "/json"))
        reply_json(x);
    else if (slice_is(path, "/pool"))
        post_work(f, x, run_pool, 0);
    else if (slice_is(path, "/order"))
        post_work(f, x, run_order, query_number(x));
    else if (slice_is(path, "/stream"))
        post_work(f, x, run_stream, query_number(x));
    else if (slice_is(path, "/events"))
        post_work(f, x, run_events, 0);
    else if (slice_is(path, "/abort"))
        post_work(f, x, run_abort, 0);
    else if (slice_is(path, "/echo"))
        exchange_want_body(x, query_number(x));
    else if (slice_is(path, "/bodypool")) {
        exchange_on_cancel(x, on_gone, f);
        exchange_want_body(x, 0);
    } else if (slice_is(path, "/hold"))
        hold(f, x);
    else if (slice_is(path, "/upload")) {
        exchange_on_cancel(x, on_gone, f);
        exchange_want_stream(x, on_upload, f);
    } else
        exchange_reply(x, 404, "text/plain", NULL, 0, slice_str("no"));
}

static inline void route_body(void *ctx, struct exchange *x)
{
    struct fixture *f = ctx;

    atomic_fetch_add(&f->bodies, 1);
    if (slice_is(exchange_path(x), "/bodypool"))
        post_work(f, x, run_pool, 0);
    else
        exchange_reply(x, 200, "text/plain", NULL, 0, exchange_body(x));
}

/* ---- life ---- */

static inline struct http_limits default_limits(void)
{
    return (struct http_limits){
        .header_bytes = 16 * KIB,
        .body_bytes = 1 * MIB,
        .connections = 1000,
        .header_ms = 10000,
        .body_ms = 10000,
        .idle_ms = 10000,
        .pipeline = 16,
        .streams = 100,
    };
}

static inline void *run_loop(void *arg)
{
    loop_run(arg);
    return NULL;
}

/* tls is NULL or kept. */
static inline struct fixture *fixture_new_tls(struct http_limits limits, struct tls_config *tls)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    struct error err = { 0 };
    struct http_server_options opt = {
        .host = "127.0.0.1",
        .limits = limits,
        .handler = { .on_headers = route_headers, .on_request = route_body, .ctx = f },
        .server_name = "themis/test",
        .tls = tls,
    };

    pthread_mutex_init(&f->lock, NULL);
    assert_int_equal(loop_new(&f->loop, &err), OK);
    assert_int_equal(pool_new(&f->pool, "test", 4, 4096, &err), OK);
    if (http_server_new(&f->server, f->loop, &opt, &err) != OK)
        fail_msg("%s", err.text);
    f->port = http_server_port(f->server);
    pthread_create(&f->thread, NULL, run_loop, f->loop);
    return f;
}

static inline struct fixture *fixture_new(struct http_limits limits)
{
    return fixture_new_tls(limits, NULL);
}

static inline void free_in_loop(struct loop_task *task)
{
    struct fixture *f = CONTAINER_OF(task, struct fixture, task);

    http_server_free(f->server);
    loop_stop(f->loop);
}

/* The server goes first, with whatever still runs; then workers; then the loop. */
static inline void fixture_free(struct fixture *f)
{
    atomic_store(&f->is_resume_held, false);
    f->task.run = free_in_loop;
    loop_post(f->loop, &f->task);
    pthread_join(f->thread, NULL);
    pool_free(f->pool);
    for (size_t i = 0; i < f->held_count; i++) {
        exchange_reply(f->held[i], 200, "text/plain", NULL, 0, slice_str("late"));
        exchange_unref(f->held[i]);
    }
    loop_free(f->loop);
    pthread_mutex_destroy(&f->lock);
    mem_free(f);
}

static inline void drain_in_loop(struct loop_task *task)
{
    struct fixture *f = CONTAINER_OF(task, struct fixture, task);

    http_server_drain(f->server);
    atomic_store(&f->drained, 1);
}

static inline void count_in_loop(struct loop_task *task)
{
    struct fixture *f = CONTAINER_OF(task, struct fixture, task);

    atomic_store(&f->active,
                 http_server_active(f->server) + 1000 * http_server_connections(f->server));
    atomic_store(&f->drained, 1);
}

static inline void in_loop(struct fixture *f, void (*run)(struct loop_task *task))
{
    atomic_store(&f->drained, 0);
    f->task.run = run;
    loop_post(f->loop, &f->task);
    while (!atomic_load(&f->drained))
        sleep_ms(1);
}

static inline void wait_until(atomic_int *value, int wanted)
{
    for (int i = 0; i < 5000 && atomic_load(value) < wanted; i++)
        sleep_ms(1);
    assert_int_equal(atomic_load(value), wanted);
}

static inline void wait_held(struct fixture *f, size_t wanted)
{
    size_t count = 0;

    for (int i = 0; i < 5000 && count < wanted; i++) {
        sleep_ms(1);
        pthread_mutex_lock(&f->lock);
        count = f->held_count;
        pthread_mutex_unlock(&f->lock);
    }
    assert_int_equal(count, wanted);
}

/* ---- a raw client ---- */

static inline int dial(const struct fixture *f)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(f->port) };
    struct timeval limit = { .tv_sec = 20 };
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static inline bool put_bytes(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

static inline bool put(int fd, const char *text)
{
    return put_bytes(fd, text, strlen(text));
}

static inline size_t count_of(struct buf *in, const char *text)
{
    size_t n = 0, len = strlen(text);

    for (const char *at = buf_cstr(in); (at = strstr(at, text)); at += len)
        n++;
    return n;
}

/* Reads until the text has been seen so many times; false: closed or late before. */
static inline bool get_until(int fd, struct buf *in, const char *text, size_t times)
{
    char bytes[16384];

    while (count_of(in, text) < times) {
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0)
            return false;
        buf_add(in, bytes, (size_t)n);
    }
    return true;
}

/* Reads to the end of the connection. Fails on a time-out. */
static inline void get_all(int fd, struct buf *in)
{
    char bytes[16384];
    ssize_t n;

    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0)
        buf_add(in, bytes, (size_t)n);
    if (n < 0 && errno == EAGAIN)
        fail_msg("the server keeps the connection open after: %s", buf_cstr(in));
    buf_cstr(in);
}

static inline bool has(struct buf *in, const char *text)
{
    return strstr(buf_cstr(in), text) != NULL;
}

#define assert_has(in, text)                                                                       \
    do {                                                                                           \
        if (!has(in, text))                                                                        \
            fail_msg("no '%s' in: %s", text, buf_cstr(in));                                        \
    } while (0)

/* One request on its own connection, to the end of it. */
static inline void talk(const struct fixture *f, const char *text, struct buf *in)
{
    int fd = dial(f);

    buf_init(in, 0);
    put(fd, text);
    get_all(fd, in);
    close(fd);
}

#endif
