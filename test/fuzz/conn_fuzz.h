/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_fuzz -- a real server and one connection to it over a pair of sockets,
 * whose loop is stepped by hand: the bytes of a client, cut where the input
 * says, pass the socket, the protocol and handlers of every kind.
 *
 * The first byte of an input decides: how large the pieces are, whether the
 * client reads at once or at the end, and how it leaves.
 */
#ifndef TEST_FUZZ_CONN_FUZZ_H
#define TEST_FUZZ_CONN_FUZZ_H

#include "net/conn.h"
#include "net/http.h"
#include "net/loop.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { HELD_MAX = 4096, STEPS_MAX = 64, PIECES = 3 };

/* A request that is answered later, step by step. */
struct held {
    struct exchange *x; /* a reference */
    unsigned written;
    bool is_paused, is_gone, starts;
};

static struct {
    struct loop *loop;
    struct http_server *server;
    struct held held[HELD_MAX];
    size_t held_count;
    struct buf got;
} fuzz;

static void fuzz_gone(void *ctx)
{
    ((struct held *)ctx)->is_gone = true;
}

static struct held *fuzz_hold(struct exchange *x)
{
    struct held *h = &fuzz.held[fuzz.held_count++];

    if (fuzz.held_count == HELD_MAX)
        abort(); /* far more than one connection may have */
    *h = (struct held){ .x = exchange_ref(x) };
    exchange_on_cancel(x, fuzz_gone, h);
    return h;
}

/* Every third piece pauses. */
static bool fuzz_piece(void *ctx, struct exchange *x, struct slice piece, bool is_last)
{
    struct held *h = ctx;

    (void)piece;
    if (exchange_has_started(x)) /* answered early: what still comes is not wanted */
        return true;
    if (is_last) {
        exchange_reply(x, 201, "text/plain", NULL, 0, slice_str("taken"));
        return true;
    }
    h->is_paused = h->written++ % 3 == 0;
    return !h->is_paused;
}

static void fuzz_headers(void *ctx, struct exchange *x)
{
    struct slice path = exchange_path(x);
    struct http_header header = { "X-Method", exchange_method(x) == METHOD_GET ? "GET" : "other" };

    (void)ctx;
    if (exchange_query(x).len && exchange_query(x).ptr[-1] != '?')
        abort();
    if (slice_starts(path, "/e"))
        exchange_want_body(x, 100000);
    else if (slice_starts(path, "/u"))
        exchange_want_stream(x, fuzz_piece, fuzz_hold(x));
    else if (slice_starts(path, "/s"))
        fuzz_hold(x)->starts = true;
    else if (slice_starts(path, "/h"))
        fuzz_hold(x);
    else if (slice_starts(path, "/n"))
        exchange_reply(x, 204, NULL, NULL, 0, slice_of(NULL, 0));
    else
        exchange_reply(x, 200, "text/plain", &header, 1, path);
}

static void fuzz_request(void *ctx, struct exchange *x)
{
    (void)ctx;
    exchange_reply(x, 200, "application/json", NULL, 0, exchange_body(x));
}

/* What workers would do meanwhile. */
static void fuzz_go_on(struct held *h)
{
    static const char text[100] = "streamed";

    if (h->is_gone)
        return;
    if (h->is_paused) {
        h->is_paused = false;
        exchange_resume(h->x);
    } else if (!h->starts) {
        if (exchange_has_started(h->x) || h->written++ < 2)
            return;
        if (exchange_header(h->x, "content-type").len != 7)
            exchange_reply(h->x, 200, "text/plain", NULL, 0, slice_str("late"));
    } else if (h->written == 0) {
        exchange_start(h->x, 200, "text/plain", NULL, 0);
        h->written++;
    } else if (h->written <= PIECES) {
        exchange_write(h->x, slice_of(text, sizeof text));
        h->written++;
    } else if (h->written++ == PIECES + 1) {
        if (exchange_query(h->x).len == 1)
            exchange_abort(h->x);
        else
            exchange_finish(h->x);
    }
}

static void fuzz_step(void)
{
    loop_step(fuzz.loop);
    for (size_t i = 0; i < fuzz.held_count; i++)
        fuzz_go_on(&fuzz.held[i]);
}

/* False: the server has closed. */
static bool fuzz_read(int fd)
{
    char bytes[16384];
    ssize_t n;

    while ((n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        buf_add(&fuzz.got, bytes, (size_t)n);
    return n < 0;
}

static void fuzz_start(void)
{
    struct error err = { 0 };
    struct http_server_options opt = {
        .host = "127.0.0.1",
        .limits = { .header_bytes = 4096,
                    .body_bytes = 200000,
                    .connections = 10,
                    .gzip_bytes = 64,
                    .header_ms = 100000,
                    .body_ms = 100000,
                    .idle_ms = 100000,
                    .pipeline = 4,
                    .streams = 8 },
        .handler = { .on_headers = fuzz_headers, .on_request = fuzz_request },
        .server_name = "fuzz",
    };

    if (loop_new(&fuzz.loop, &err) != OK ||
        http_server_new(&fuzz.server, fuzz.loop, &opt, &err) != OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

static void fuzz_end(void)
{
    http_server_free(fuzz.server);
    loop_free(fuzz.loop);
    buf_release(&fuzz.got);
}

static void fuzz_send(int fd, struct slice bytes, size_t piece, bool reads)
{
    for (size_t at = 0; at < bytes.len;) {
        size_t n = piece < bytes.len - at ? piece : bytes.len - at;
        ssize_t sent = send(fd, bytes.ptr + at, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        at += sent > 0 ? (size_t)sent : 0;
        fuzz_step();
        if (sent < 0 && (errno != EAGAIN || !fuzz_read(fd)))
            return;
        if (reads && !fuzz_read(fd))
            return;
    }
}

/* All that the client sends, and what the server says to it in fuzz.got. */
static void fuzz_talk(uint8_t how, struct slice before, struct slice bytes)
{
    static const size_t pieces[] = { 1, 3, 17, 100, 1000, SIZE_MAX, SIZE_MAX, SIZE_MAX };
    int pair[2];

    if (!fuzz.loop) {
        fuzz_start();
        atexit(fuzz_end);
    }
    buf_clear(&fuzz.got);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
        abort();
    server_take(fuzz.server, pair[0]);
    fuzz_send(pair[1], before, SIZE_MAX, how & 8);
    fuzz_send(pair[1], bytes, pieces[how & 7], how & 8);
    if (how & 16)
        shutdown(pair[1], SHUT_WR);
    for (int i = 0; i < 8; i++) {
        fuzz_step();
        if (!(how & 32) && !fuzz_read(pair[1]))
            break;
    }
    close(pair[1]);
    for (int i = 0; http_server_connections(fuzz.server) && i < STEPS_MAX; i++)
        loop_step(fuzz.loop);
    if (http_server_connections(fuzz.server) || http_server_active(fuzz.server))
        abort(); /* a client that has left leaves nothing behind */
    for (size_t i = 0; i < fuzz.held_count; i++)
        exchange_unref(fuzz.held[i].x);
    fuzz.held_count = 0;
    loop_step(fuzz.loop); /* posts of exchanges whose connection has gone */
}

#endif
