/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certificate -- the server's certificate and key: read at the start and again
 * when asked to or when a file has changed. New files that cannot be used are
 * reported once and change nothing.
 */
#ifndef SERVER_CERTIFICATE_H
#define SERVER_CERTIFICATE_H

#include "base/error.h"

struct certificate;
struct loop;
struct settings;
struct tls_config;

/* *first is for the listener. *out is NULL when no certificate is set. Both are the caller's. */
MUST_CHECK enum errc certificate_open(struct certificate **out, struct tls_config **first,
                                      const struct settings *s, struct error *err);
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
