/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_private -- the inside of a connection, for the files that are one:
 * conn.c (socket, turns, life), conn_filter.c (plain or TLS), conn_request.c
 * (bytes to exchanges) and conn_reply.c (exchanges to bytes).
 */
#ifndef NET_CONN_PRIVATE_H
#define NET_CONN_PRIVATE_H

#include "net/conn.h"
#include "net/io.h"
#include "net/protocol.h"
#include <sys/types.h>

struct tls;

/*
 * What stands between the socket and the protocol. read and write return bytes,
 * IO_AGAIN, IO_GONE or (read) IO_EOF.
 */
struct conn_filter {
    ssize_t (*read)(struct conn *c, void *bytes, size_t len);
    ssize_t (*write)(struct conn *c, const void *bytes, size_t len);
    /* The poll events that it needs for those that the connection needs. */
    int (*want)(struct conn *c, int events);
    /* A read may get on although the socket brings nothing new. */
    bool (*has_more)(struct conn *c);
    /* Nothing more is written, and the client may know that it has everything. */
    void (*end)(struct conn *c);
};
extern const struct conn_filter conn_filter_plain, conn_filter_tls;

enum conn_state { CONN_OPEN, CONN_FLUSHING, CONN_LINGERING, CONN_CLOSED };

struct conn {
    struct uv_poll_s *poll;
    int fd, events;
    const struct conn_filter *filter;
    struct tls *tls; /* NULL when plain */
    struct http_server *server;
    struct conn_link link;
    char peer[64];
    bool is_loopback;

    enum conn_state state;
    struct protocol *protocol;
    struct exchange *first, **last; /* one reference each */
    size_t pipelined;
    bool is_ended;         /* no further request is taken */
    bool is_failed;        /* no further byte is taken */
    bool is_eof;           /* the client has ended its side */
    bool is_stream_paused; /* by the handler of the current request */
    bool is_greeted;       /* its first byte has been looked at */

    struct buf in; /* bytes that a paused protocol has not taken, from in_used on */
    size_t in_used;
    struct buf out, big; /* out goes first */
    size_t out_sent, big_sent;
    struct buf ended; /* begun_us of requests whose last byte is in out or big */
    int queued;       /* bytes in the kernel's queue when last asked */
    size_t owed;      /* of them, bytes of the first exchange that its writer was not told about */

    uint64_t request_ms, read_ms, write_ms, idle_ms, state_ms; /* of the last progress */
    bool is_touched, is_handle_closed;
    struct loop_task turn_end;
};

const struct http_limits *conn_limits(const struct conn *c);
uint64_t conn_now_ms(const struct conn *c);
/* Only forward. */
void conn_set_state(struct conn *c, enum conn_state state);

/* ---- requests ---- */

struct protocol_events conn_events(struct conn *c);
bool conn_is_between_requests(const struct conn *c);
/* May the protocol be fed? */
bool conn_takes_bytes(const struct conn *c);
/* Feeds bytes and keeps what a pause leaves over. */
void conn_feed(struct conn *c, struct slice bytes);
/* The protocol goes on with the bytes that came while it was paused, if any. */
void conn_feed_rest(struct conn *c);
/* Answers a request that cannot be read, behind those before it. */
void conn_fail_request(struct conn *c, int status, const char *text);
/* The first exchange leaves the connection. */
void conn_pop_first(struct conn *c);
void conn_cancel_all(struct conn *c);

/* ---- replies ---- */

size_t conn_unsent(const struct conn *c);
/* Takes what exchanges have ready. True: it stopped because enough waits to be sent. */
bool conn_pump(struct conn *c);
/* Writes at most *budget bytes and lowers it. */
void conn_flush(struct conn *c, size_t *budget);

#endif
