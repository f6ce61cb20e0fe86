/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certificate -- a certificate and its key: read at the start and again when
 * asked to or when a file has changed. New files that cannot be used are
 * reported once and change nothing.
 */
#ifndef NET_CERTIFICATE_H
#define NET_CERTIFICATE_H

#include "base/error.h"

struct certificate;
struct loop;
struct metric;
struct tls_config;

struct certificate_options {
    const char *cert, *key; /* files; borrowed until certificate_close, as all */
    const char *ca;         /* NULL: a server's; else of a peer (tls_config_mutual) */
    struct metric *expires, *failures;
};

/* *first is for the listener. Both are the caller's. */
MUST_CHECK enum errc certificate_open(struct certificate **out, struct tls_config **first,
                                      const struct certificate_options *opt, struct error *err);
/* After the last check has run; what it found but use has not seen is dropped. NULL is allowed. */
void certificate_close(struct certificate *c);

/* Loop thread. use gets each further configuration, which it keeps, on the loop thread. */
void certificate_on_change(struct certificate *c, struct loop *loop,
                           void (*use)(void *ctx, struct tls_config *tls), void *ctx);
/* Any thread: the next check reads the files, changed or not. */
void certificate_reload(struct certificate *c);
/* One worker at a time, every second or so. */
void certificate_check(struct certificate *c);

#endif
