/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client -- HTTP requests from a program that may wait: the shell and tests.
 *
 * One thread. Calls block; a reply may be consumed in pieces while it arrives.
 * Connections are kept alive and reopened once when the server closed them.
 */
#ifndef NET_CLIENT_H
#define NET_CLIENT_H

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "net/http.h"

struct http_client;

struct http_client_options {
    const char *url;                  /* http://host:port or https://host:port */
    const char *ca_file;              /* authorities that https trusts (PEM); NULL = the system's */
    const char *cert_file, *key_file; /* https: what the client proves itself by; NULL = nothing */
    const char *program;              /* that should run there, for messages; NULL = themisd */
    const char *user;                 /* Basic, when password or user is given */
    const char *password;
    const char *api_key;       /* Authorization: Bearer */
    uint64_t connect_ms;       /* 0 = 5,000 */
    uint64_t read_ms;          /* longest silence; 0 = 600,000 */
    const atomic_bool *cancel; /* set: the running call ends with ERR_GONE soon; may be NULL */
};

MUST_CHECK enum errc http_client_new(struct http_client **out,
                                     const struct http_client_options *opt, struct error *err);
void http_client_free(struct http_client *c);

struct http_reply {
    int status;
    struct buf content_type;
    struct buf body; /* empty when pieces were taken by on_piece */
};
void http_reply_release(struct http_reply *r);

/* Return false to stop reading (the connection is closed). */
typedef bool (*http_piece_fn)(void *ctx, int status, struct slice piece);

/* Supplies the next piece of a request body; an empty slice ends it. */
typedef struct slice (*http_body_fn)(void *ctx);

struct http_call {
    const char *method;
    const char *path; /* with query */
    const char *content_type;
    struct slice body;
    http_body_fn next_piece; /* chunked body instead of body */
    void *body_ctx;
    http_piece_fn on_piece; /* NULL: collect in reply->body */
    void *piece_ctx;
};

/* Any HTTP status is OK here; ERR_IO and ERR_TIMEOUT are about the transport. */
MUST_CHECK enum errc http_client_call(struct http_client *c, const struct http_call *call,
                                      struct http_reply *reply, struct error *err);

/* Splits a text/event-stream; keep one per reply. on_event returns false to stop. */
struct sse_reader {
    struct buf line;
    struct buf data;
};
void sse_reader_init(struct sse_reader *r);
void sse_reader_release(struct sse_reader *r);
bool sse_reader_add(struct sse_reader *r, struct slice bytes,
                    bool (*on_event)(void *, struct slice), void *ctx);

#endif
