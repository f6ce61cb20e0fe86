/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange -- the inside of a request with its reply, for the files of net.
 *
 * The request half belongs to the loop until it is handed over and does not
 * change afterwards. The reply half is written by any thread and taken by the
 * loop, under the lock.
 */
#ifndef NET_EXCHANGE_H
#define NET_EXCHANGE_H

#include "net/http.h"
#include <pthread.h>

struct conn;
struct http2_stream;

enum body_mode { BODY_UNDECIDED, BODY_COLLECT, BODY_STREAM, BODY_DISCARD };

enum { HEADERS_MAX = 100, HEADERS_FIRST = 16 };

struct header {
    uint32_t name, name_len, value, value_len; /* in head */
};

/* Written while the request arrives. */
struct exchange_request {
    enum http_method method;
    struct buf head;                     /* target, names and values */
    size_t target, path_len, target_len; /* the path is the beginning of the target */
    size_t header_count, header_cap;
    struct header *headers; /* those of the exchange; more are in a block of their own */
    uint64_t content_length;
    bool has_content_length;
    bool is_http10;
    bool is_expecting; /* the client waits for 100 Continue */
    char peer[64];
    char *peer_name; /* proved; NULL = nobody */
    bool is_loopback;
    size_t gzip_bytes; /* whole replies from this size on may be compressed; 0 = none */
};

/* Written by the thread that replies; under the lock. */
struct exchange_reply {
    int status;
    size_t few_len;     /* header lines, ready, are in few_lines until that is full */
    struct buf lines;   /* and then here */
    struct buf pending; /* body bytes that the loop has not taken */
    size_t unsent;      /* pending and what the connection holds */
    bool is_started, is_finished, is_aborted, has_length;
    bool is_stalled; /* the client does not read */
    bool is_waiting; /* a writer sleeps on room */
};

struct exchange {
    _Atomic int refs;
    struct loop *loop;             /* NULL in tests of the protocol alone */
    struct conn *conn;             /* NULL when the client is gone; loop only */
    struct exchange *next, **prev; /* in the connection's order */
    uint64_t begun_us;             /* its first byte was read; monotonic */

    struct exchange_request req;

    /* Loop only. */
    enum body_mode mode;
    struct buf body;
    size_t body_max, discarded;
    exchange_piece_fn on_piece;
    void *piece_ctx;
    bool is_paused, is_whole; /* the request has arrived */
    bool keep_alive;          /* HTTP/1 */
    bool is_head_written;
    struct http2_stream *stream; /* HTTP/2, while it lasts */
    uint64_t read_ms, write_ms;  /* see conn_credit; write_ms of HTTP/2 only */
    uint64_t paused_ms;

    atomic_bool is_cancelled;
    atomic_bool is_stopped; /* cancelled, or its work is not wanted any more */
    void (*on_cancel)(void *ctx);
    void *cancel_ctx;
    void (*on_room)(void *ctx);
    void *room_ctx;
    void *user;

    pthread_mutex_t lock; /* recursive: on_cancel, on_room are called with it */
    pthread_cond_t room;
    struct exchange_reply rep;
    bool is_posted, is_resuming;
    struct loop_task task;

    struct header few_headers[HEADERS_FIRST]; /* this and what follows is not zeroed */
    char few_lines[128];
};

struct exchange *exchange_new(struct loop *loop, struct conn *conn);

/* Room for one more header, below HEADERS_MAX; it counts. */
struct header *exchange_add_header(struct exchange *x);

/* The client has gone: sets the flag, tells the handler, forgets the connection. Loop. */
void exchange_cancel(struct exchange *x);

/*
 * An error in ArangoDB's JSON shape, answered by net itself; the handler hears
 * of it by on_cancel. False when a reply had begun. Loop.
 */
bool exchange_refuse(struct exchange *x, int status, const char *text);

/* Bytes have left the machine: writers that wait for room go on. Loop. */
void exchange_sent(struct exchange *x, size_t bytes);

/* Nothing more comes from the handler: finished or aborted. */
bool exchange_is_over(struct exchange *x);

#endif
