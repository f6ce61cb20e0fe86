/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn -- one client connection: a socket behind a filter, a protocol object,
 * and the exchanges in their order. Loop thread only.
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include "net/exchange.h"

struct conn;
struct http_server;
struct tls_config;

/* Keeps fd. Without a configuration of TLS the connection is plain. NULL: it cannot be watched. */
struct conn *conn_new(struct http_server *s, int fd, const struct tls_config *tls);
/* Something about the connection changed: look again at the end of the turn. */
void conn_touch(struct conn *c);
/* One of its exchanges has something new to say. */
void conn_ready(struct conn *c, struct exchange *x);
/* A paused stream goes on. */
void conn_resume(struct conn *c, struct exchange *x);
/* Called a few times a second: time-outs. */
void conn_sweep(struct conn *c, uint64_t now_ms);
/* No further requests: closes now when idle. */
void conn_drain(struct conn *c);
void conn_close(struct conn *c);

/* Links of the server's list. */
struct conn_link {
    struct conn *next, **prev;
};
struct conn_link *conn_link(struct conn *c);

/* ---- what a connection asks of its server ---- */

struct loop *server_loop(struct http_server *s);
const struct http_server_options *server_opt(const struct http_server *s);
bool server_is_draining(const struct http_server *s);
void server_add_active(struct http_server *s, int delta);
void server_conn_closed(struct http_server *s);
void *server_read_buffer(struct http_server *s, size_t *size);

#endif
