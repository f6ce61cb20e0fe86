/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn_private -- the inside of a connection, for the files that are one:
 * conn.c (socket, turns, life), conn_filter.c (plain or TLS), conn_send.c
 * (bytes out), conn_request.c (a request and its handler), and what the bytes
 * mean: conn_opening.c until that is known, then conn_http1.c or conn_http2.c.
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

/* What the bytes mean. */
struct conn_protocol {
    /* May it be fed? Only while the connection is open. */
    bool (*takes_bytes)(const struct conn *c);
    /* Takes all, keeping what a pause leaves over. */
    void (*feed)(struct conn *c, struct slice bytes);
    /* The reply has something new: its head, bytes, its end. */
    void (*ready)(struct conn *c, struct exchange *x);
    /* A paused body goes on. */
    void (*resume)(struct conn *c, struct exchange *x);
    /* Moves what replies have ready to out. True: it stopped because enough waits to be sent. */
    bool (*pump)(struct conn *c);
    /* Looks for what takes too long. */
    void (*sweep)(struct conn *c, uint64_t now_ms);
    /* No further request is taken: is_ended has been set. */
    void (*end)(struct conn *c);
    /* Nothing is going on, and nothing will. */
    bool (*is_over)(const struct conn *c);
    /* Nothing is going on that has a time limit but idle_ms. */
    bool (*is_idle)(const struct conn *c);
    void (*free)(struct conn *c);
};
extern const struct conn_protocol conn_opening, conn_http1, conn_http2;

enum conn_state { CONN_OPEN, CONN_FLUSHING, CONN_LINGERING, CONN_CLOSED };

struct conn {
    struct uv_poll_s *poll;
    int fd, events;
    const struct conn_filter *filter;
    struct tls *tls; /* NULL when plain */
    const struct conn_protocol *protocol;
    struct http1 *http1; /* when it speaks that */
    struct http2 *http2; /* the same */
    struct http_server *server;
    struct conn_link link;
    char peer[64];
    char *peer_name; /* proved by its certificate; NULL = nobody */
    bool is_loopback, is_named;

    enum conn_state state;
    struct exchange *first, **last; /* in the order of their requests; one reference each */
    size_t exchanges;
    bool is_greeted; /* its first byte has been looked at */
    bool is_ended;   /* no further request is taken */
    bool is_failed;  /* no further byte is taken */
    bool is_eof;     /* the client has ended its side */

    /* The first bytes, too few to tell what is spoken. */
    char lead[3];
    uint8_t lead_len;

    /* HTTP/1 */
    bool is_stream_paused; /* by the handler of the current request */
    struct buf in;         /* bytes that a paused protocol has not taken, from in_used on */
    size_t in_used;
    size_t
        owed; /* of unsent bytes, those of the first exchange that its writer was not told about */

    struct buf out, big; /* out goes first */
    size_t out_sent, big_sent;
    struct buf ended; /* begun_us of requests whose last byte is in out or big */
    int queued;       /* bytes in the kernel's queue when last asked */

    uint64_t request_ms, read_ms, idle_ms, state_ms; /* of the last progress */
    uint64_t write_ms;                               /* see conn_credit */
    uint64_t read_us;                                /* when bytes came last; monotonic */
    uint64_t relaxed_ms;                             /* HTTP/2: patience has been given back */
    bool is_touched, is_handle_closed;
    bool is_turned_away; /* one too many: never served */
    bool is_idle;
    struct loop_task turn_end;
};

const struct http_limits *conn_limits(const struct conn *c);
uint64_t conn_now_ms(const struct conn *c);
/*
 * The time from which a client is late, after it has earned some: by bytes that
 * went on, at the slowest speed that is taken, 1,000 a second. So one that sends
 * or reads a byte now and then ends like one that does nothing.
 */
enum { MS_PER_BYTE = 1 };
uint64_t conn_credit(const struct conn *c, uint64_t since_ms, uint64_t earned_ms);
/* Only forward. */
void conn_set_state(struct conn *c, enum conn_state state);
bool conn_takes_bytes(const struct conn *c);

/* ---- a request and its handler ---- */

/* A new exchange at the end of the list. */
struct exchange *conn_begin(struct conn *c);
/* Asks the handler what to do with the body. */
void conn_headers(struct conn *c, struct exchange *x);
/* Bytes of the body. The handler may pause (is_paused); nobody may want them. */
enum conn_piece { PIECE_TAKEN, PIECE_PAUSED, PIECE_TOO_MUCH };
enum conn_piece conn_piece(struct conn *c, struct exchange *x, struct slice bytes);
/* The request is whole. */
void conn_complete(struct conn *c, struct exchange *x);
/* The exchange leaves the connection. */
void conn_drop(struct conn *c, struct exchange *x);
void conn_cancel_all(struct conn *c);

/* ---- what it speaks from now on ---- */

void conn_speak_http1(struct conn *c);
void conn_speak_http2(struct conn *c);
/* HTTP/1: answers a request that cannot be read, behind those before it. */
void conn_fail_request(struct conn *c, int status, const char *text);

/* ---- bytes out ---- */

enum { CONN_OUT_HIGH = 256 * KIB }; /* no more replies are taken above */

size_t conn_unsent(const struct conn *c);
/* The end of the reply is in out or big. */
void conn_note_end(struct conn *c, const struct exchange *x);
/* Writes at most *budget bytes and lowers it. */
void conn_flush(struct conn *c, size_t *budget);

#endif
