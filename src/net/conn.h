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
/* Keeps fd: sends the words, if any, in such a way that the client gets them, and closes. */
struct conn *conn_turn_away(struct http_server *s, int fd, struct slice words);
/* Something about the connection changed: look again at the end of the turn. */
void conn_touch(struct conn *c);
/* One of its exchanges has something new to say. */
void conn_ready(struct conn *c, struct exchange *x);
/* A paused stream goes on. */
void conn_resume(struct conn *c, struct exchange *x);
/* Called a few times a second while it is not idle: time-outs. */
void conn_sweep(struct conn *c, uint64_t now_ms);
/* Bytes of replies wait for the client to take them. */
bool conn_is_sending(const struct conn *c);
/* No further requests: closes now when idle. */
void conn_drain(struct conn *c);
void conn_close(struct conn *c);

/* An idle connection gives its buffers back, and may be forgotten until it is woken. */
void conn_shrink(struct conn *c);
/* When it was last busy. */
uint64_t conn_idle_since(const struct conn *c);

/* Links of the server's lists. */
struct conn_list {
    struct conn *first, **last;
};
struct conn_link {
    struct conn *next, **prev;
    struct conn_list *list;
};
struct conn_link *conn_link(struct conn *c);

/* A connection that was accepted elsewhere; keeps fd, which does not block. */
void server_take(struct http_server *s, int fd);

/* ---- what a connection asks of its server ---- */

struct loop *server_loop(struct http_server *s);
const struct http_server_options *server_opt(const struct http_server *s);
bool server_is_draining(const struct http_server *s);
void server_add_active(struct http_server *s, int delta);
/* Whether it is idle from now on: it is swept only when it has been so for too long. */
void server_rest(struct http_server *s, struct conn *c, bool is_idle);
void server_conn_closed(struct http_server *s, struct conn *c, bool was_turned_away);
void *server_read_buffer(struct http_server *s, size_t *size);

#endif
