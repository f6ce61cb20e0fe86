/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire -- the connection of a client that may wait: a socket, with TLS or
 * without, and a limit on every wait. One thread.
 */
#ifndef NET_WIRE_H
#define NET_WIRE_H

#include "base/base.h"
#include "base/error.h"
#include <stdatomic.h>
#include <sys/types.h>

struct tls_config;
struct wire;

struct wire_options {
    const char *host, *port;
    const char *url;              /* for messages, as the next: */
    const char *program;          /* what should run there */
    const struct tls_config *tls; /* NULL = plain */
    uint64_t connect_ms;          /* for each address, and for the handshake */
    uint64_t read_ms;             /* longest silence */
    const atomic_bool *cancel;    /* set: waits end with ERR_GONE; NULL = never */
};

/* Borrows the strings and the configuration until wire_free; not connected. */
struct wire *wire_new(const struct wire_options *opt);
void wire_free(struct wire *w); /* NULL is allowed */

bool wire_is_open(const struct wire *w);
MUST_CHECK enum errc wire_open(struct wire *w, struct error *err);
void wire_close(struct wire *w);
/* The server has closed a kept connection, or said something unasked. */
bool wire_is_stale(struct wire *w);

/*
 * Sends all, unless the server answers meanwhile: then *is_early is set and the
 * rest is not sent. has_more: further bytes follow at once.
 */
MUST_CHECK enum errc wire_send(struct wire *w, struct slice bytes, bool has_more, bool *is_early,
                               struct error *err);
/* At least one byte, or 0 at the end. *is_clean tells an end that was meant from a broken line. */
MUST_CHECK enum errc wire_receive(struct wire *w, void *bytes, size_t size, size_t *got,
                                  bool *is_clean, struct error *err);

#endif
