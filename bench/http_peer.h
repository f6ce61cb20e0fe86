/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_peer -- the least that an HTTP server can do with the same libraries: one
 * thread, epoll, llhttp or nghttp2, OpenSSL. It knows ready answers by their
 * paths, and has no limits, time-outs, routes or credentials.
 */
#ifndef BENCH_HTTP_PEER_H
#define BENCH_HTTP_PEER_H

#include "bench.h"

enum { PEER_ANSWERS = 2, PEER_HEADERS = 16 };

struct peer_answer {
    const char *path;
    struct slice whole; /* head and body, as HTTP/1.1 sends them */
};

struct peer {
    pid_t pid;
    uint16_t port;
};

/* In a process that ends with this one. Files of TLS, or NULL. */
void peer_start(struct peer *p, const struct peer_answer answers[PEER_ANSWERS], const char *cert,
                const char *key);
void peer_stop(struct peer *p);

#endif
