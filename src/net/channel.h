/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel -- a kept connection to one other program: HTTP/2 over mutual TLS,
 * opened again whenever it breaks, and watched by PING. Hides the socket.
 *
 * Loop thread only. While it is not up, calls are refused at once: the caller
 * has somewhere else to go.
 */
#ifndef NET_CHANNEL_H
#define NET_CHANNEL_H

#include "net/http2_client.h"

struct channel;
struct loop;
struct tls_config;

struct channel_options {
    const char *host, *port; /* copied */
    const char *name;        /* that the other side must prove; copied */
    uint64_t connect_ms;     /* for the address, the connection and the handshake together */
    uint64_t ping_ms;        /* between two PINGs */
    unsigned ping_misses;    /* so many without an answer: it is broken */
    /* The handshake is over. (That the other side takes our certificate shows the first answer.) */
    void (*on_up)(void *ctx);
    /* Once for each failure, up before or not; calls have ended before. It tries again by itself. */
    void (*on_down)(void *ctx, const char *why);
    void *ctx;
};

/* Begins to connect. tls is borrowed: later connections use what channel_set_tls gave last. */
struct channel *channel_new(struct loop *loop, const struct tls_config *tls,
                            const struct channel_options *opt);
/* Ends its calls, calls on_down no more; not from within its own calls. NULL is allowed. */
void channel_free(struct channel *ch);
void channel_set_tls(struct channel *ch, const struct tls_config *tls);

bool channel_is_up(const struct channel *ch);
uint64_t channel_rtt_us(const struct channel *ch); /* of the last PING; 0 = none yet */
/* NULL: it is not up. */
struct http2_call *channel_ask(struct channel *ch, const struct http2_ask *ask,
                               const struct http2_call_events *events);
void channel_resume(struct channel *ch, struct http2_call *call);
void channel_cancel(struct channel *ch, struct http2_call *call);

#endif
