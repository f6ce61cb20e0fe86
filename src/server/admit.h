/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admit -- from the headers of a request to its handler: host rule, route,
 * parameters, credentials, rights, body. Hides that a password may have to be
 * compared by a worker before the body is read.
 */
#ifndef SERVER_ADMIT_H
#define SERVER_ADMIT_H

#include "net/http.h"
#include "server/context.h"

/* The two calls of struct http_handler; ctx is the struct server_ctx. Loop thread. */
void admit_headers(void *ctx, struct exchange *x);
void admit_request(void *ctx, struct exchange *x);

#endif
