/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange -- the inside of a request with its reply, for the files of net.
 *
 * The request half belongs to the loop until it is handed over. The reply half
 * is written by one thread and taken by the loop, under the lock.
 */
#ifndef NET_EXCHANGE_H
#define NET_EXCHANGE_H

#include "net/http.h"
#include <pthread.h>

struct conn;

enum body_mode { BODY_UNDECIDED, BODY_COLLECT, BODY_STREAM, BODY_DISCARD };

enum { HEADERS_MAX = 100 };

struct header {
    uint32_t name, name_len, value, value_len; /* in head */
};

struct exchange {
    _Atomic int refs;
    struct loop *loop;
    struct conn *conn;      /* NULL when the client is gone; loop only */
    struct exchange *next;  /* in the connection's order */

    enum http_method method;
    struct buf head;        /* target, then names and values */
    size_t path_len, target_len;
    struct header headers[HEADERS_MAX];
    size_t header_count;
    char peer[64];
    bool is_loopback, is_http10;

    enum body_mode mode;
    struct buf body;
    size_t body_max, discarded;
    exchange_piece_fn on_piece;
    void *piece_ctx;
    bool is_paused, is_whole; /* the request has arrived */
    bool has_headers;         /* the handler has seen it */
    bool keep_alive;

    atomic_bool is_cancelled;
    void (*on_cancel)(void *ctx);
    void *cancel_ctx;
    void *user;

    pthread_mutex_t lock;
    int status;
    char *content_type;
    struct buf extra;   /* further header lines, ready */
    struct buf pending; /* body bytes that the loop has not taken */
    bool is_started, is_finished, is_aborted, has_length, is_posted, is_resuming;
    _Atomic size_t unsent;
    struct loop_task task;
    bool is_head_written; /* loop only */
};

struct exchange *exchange_new(struct loop *loop, struct conn *conn);

/* The client has gone: sets the flag, tells the handler, forgets the connection. Loop. */
void exchange_cancel(struct exchange *x);

/* An error in ArangoDB's JSON shape, answered by net itself; the handler hears of it by on_cancel. */
void exchange_refuse(struct exchange *x, int status, const char *text);

const char *http_reason(int status);

#endif
