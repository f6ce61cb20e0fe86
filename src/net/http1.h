/* SPDX-License-Identifier: Apache-2.0 */
/* http1 -- HTTP/1.0 and 1.1 of a server: bytes to requests, replies to bytes. Hides llhttp. */
#ifndef NET_HTTP1_H
#define NET_HTTP1_H

#include "net/protocol.h"

struct http1;

/* Returns it to the caller. */
struct http1 *http1_new(const struct protocol_events *events);
void http1_free(struct http1 *h); /* NULL is allowed */

/*
 * Takes bytes; *used says how many. Fewer than given: paused or failed. After a
 * pause the rest is fed, even when nothing is left: the end of a request may be
 * due. After an error nothing more is taken.
 */
struct protocol_error http1_feed(struct http1 *h, struct slice bytes, size_t *used);
/* The request that is being read, or NULL. */
struct exchange *http1_current(const struct http1 *h);
/* Its headers have been read. */
bool http1_in_body(const struct http1 *h);

void http1_put_continue(struct buf *out);
/*
 * Moves what the reply has ready to out; a large piece goes to big instead,
 * uncopied, to be sent behind out. Lock held; big is empty before.
 */
void http1_put_reply(struct http1 *h, struct exchange *x, bool closes, struct buf *out,
                     struct buf *big);

#endif
