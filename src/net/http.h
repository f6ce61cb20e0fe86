/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http -- a server's requests and replies, whatever carries them: HTTP/1.1 or
 * HTTP/2, plain or over TLS, on one port.
 *
 * An exchange is one request with its reply. It is made on the loop thread
 * when the headers are complete, is reference counted, and outlives its
 * connection. Reading the request: any thread, after it was handed over.
 * Replying: any thread, one at a time. A client that leaves sets
 * exchange_cancel_flag, and whatever is sent afterwards is dropped.
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "net/loop.h"
#include <stdatomic.h>

struct http_server;
struct exchange;
struct tls_config;

enum http_method {
    METHOD_GET = 1,
    METHOD_HEAD = 2,
    METHOD_POST = 4,
    METHOD_PUT = 8,
    METHOD_PATCH = 16,
    METHOD_DELETE = 32,
    METHOD_OPTIONS = 64,
};

/* All on the loop thread. */
struct http_handler {
    /*
     * Headers are complete. Exactly one of: exchange_want_body, exchange_want_stream,
     * or a reply at once (the body is then discarded within limits).
     */
    void (*on_headers)(void *ctx, struct exchange *x);
    /* The whole body is here (want_body). The exchange is the handler's until it has replied. */
    void (*on_request)(void *ctx, struct exchange *x);
    void *ctx;
};

struct http_limits {
    size_t header_bytes; /* 431 above */
    size_t body_bytes;   /* hard maximum of a buffered body: 413 above */
    size_t connections;  /* at once; further ones are told 503, over TLS just closed */
    size_t gzip_bytes;   /* whole replies from here on are compressed for who asks; 0 = none */
    uint64_t header_ms;  /* of a request: 408, then closed; of a TLS handshake: closed */
    uint64_t body_ms;    /* longest pause in a body, or of a client that does not read */
    uint64_t idle_ms;    /* keep-alive */
    size_t pipeline;     /* HTTP/1: requests read ahead; reading pauses above; 0 = 1 */
    size_t streams;      /* HTTP/2: requests at once, of one connection; 0 = 100 */
};

struct http_server_options {
    const char *host; /* numeric address or name */
    uint16_t port;    /* 0 = any; see http_server_port */
    struct http_limits limits;
    struct http_handler handler;
    const char *server_name; /* Server: header, "themis/0.1.0" */
    struct tls_config *tls;  /* NULL = plain; kept, even when http_server_new fails */
    /* A connection broke before its handshake was over, and why; may be NULL. */
    void (*on_refused)(void *ctx, const char *peer, const char *why);
};

/* Loop thread. Listening when it returns. */
MUST_CHECK enum errc http_server_new(struct http_server **out, struct loop *loop,
                                     const struct http_server_options *opt, struct error *err);
uint16_t http_server_port(const struct http_server *s);
/* Closes the listener; running exchanges go on, idle connections close, replies say close. */
void http_server_drain(struct http_server *s);
/* Further connections use this certificate, which is kept. Only for a server that speaks TLS. */
void http_server_set_tls(struct http_server *s, struct tls_config *tls);
/* Exchanges not finished; when there are none, connections whose last replies are on their way. */
size_t http_server_active(const struct http_server *s);
size_t http_server_connections(const struct http_server *s);
void http_server_free(struct http_server *s); /* closes what is left */

/* ---- the request ---- */

enum http_method exchange_method(const struct exchange *x);
struct slice exchange_path(const struct exchange *x);  /* raw, without the query, still %-encoded */
struct slice exchange_query(const struct exchange *x); /* raw, without '?' */
/* Name in lower case. Empty slice when absent; several are joined by ", ". */
struct slice exchange_header(const struct exchange *x, const char *name);
struct slice exchange_body(const struct exchange *x); /* after on_request */
struct slice exchange_peer(const struct exchange *x); /* "127.0.0.1:4711" */
bool exchange_is_loopback(const struct exchange *x);
/* Who the client has proved to be by its certificate (tls_peer_name); NULL: nobody. */
const char *exchange_peer_name(const struct exchange *x);
/* Set when the client is gone, or the work was stopped. Valid while a reference is held. */
const atomic_bool *exchange_cancel_flag(const struct exchange *x);
/* Sets the flag; the client still gets the answer. Any thread. */
void exchange_stop_work(struct exchange *x);
/*
 * Called once when the client leaves, or net refuses the request, before the
 * reply is complete (loop thread). Never after exchange_reply, exchange_finish
 * or exchange_abort has returned. Must not wait for a thread that replies.
 */
void exchange_on_cancel(struct exchange *x, void (*fn)(void *ctx), void *ctx);

/* The handler's own pointer. */
void exchange_set_user(struct exchange *x, void *user);
void *exchange_user(const struct exchange *x);

struct exchange *exchange_ref(struct exchange *x);
void exchange_unref(struct exchange *x);

/* ---- its body: loop thread, inside on_headers ---- */

/* Collect up to max_bytes (0 = the limit's), then on_request. Larger: 413 is answered by net. */
void exchange_want_body(struct exchange *x, size_t max_bytes);

/*
 * Hand over pieces as they arrive (loop thread); is_last with an empty or the
 * last piece. Return false to pause reading until exchange_resume (any thread).
 */
typedef bool (*exchange_piece_fn)(void *ctx, struct exchange *x, struct slice piece, bool is_last);
void exchange_want_stream(struct exchange *x, exchange_piece_fn fn, void *ctx);
void exchange_resume(struct exchange *x);

/* ---- the reply: any thread ---- */

struct http_header {
    const char *name;
    const char *value;
};

/* A header of the reply, said before it begins; a later one of the name is one more. */
void exchange_tag(struct exchange *x, const char *name, const char *value);

/*
 * A whole reply; copies. content_type NULL = no body. HEAD sends only the
 * length. Text and the like is compressed here when the client asks for it.
 */
void exchange_reply(struct exchange *x, int status, const char *content_type,
                    const struct http_header *headers, size_t header_count, struct slice body);

/* A streamed reply: start, pieces, finish. */
void exchange_start(struct exchange *x, int status, const char *content_type,
                    const struct http_header *headers, size_t header_count);
/*
 * Copies. False when the client is gone or has not read for too long: stop
 * producing. Off the loop's thread it waits while more than 4 MiB are unsent.
 */
bool exchange_write(struct exchange *x, struct slice piece);
size_t exchange_unsent(const struct exchange *x); /* bytes that the client has not taken */
/*
 * Called when the client has taken all but 1 MiB, or less, of what was more (loop thread): whoever
 * would rather not wait in exchange_write goes on then. Never after the reply is complete. Must not
 * wait for a thread that replies.
 */
void exchange_on_room(struct exchange *x, void (*fn)(void *ctx), void *ctx);
void exchange_finish(struct exchange *x);
/* Breaks the stream or the connection: the reply cannot be completed after an error half-way. */
void exchange_abort(struct exchange *x);
bool exchange_has_started(const struct exchange *x);
int exchange_status(const struct exchange *x); /* 0 until replied */

/* Server-sent events: start with text/event-stream, then "data: ...\n\n" each. */
void exchange_start_events(struct exchange *x, const struct http_header *headers, size_t count);
bool exchange_event(struct exchange *x, struct slice data);

/* ---- helpers for URLs ---- */

/* Decodes %XX (and + when is_form) into out; false on bad escapes or NUL. */
bool url_decode(struct slice in, bool is_form, struct buf *out);
void url_encode(struct slice in, struct buf *out);
/* Decoded value of a query parameter into out; false when absent. */
bool url_query_get(struct slice query, const char *name, struct buf *out);

#endif
