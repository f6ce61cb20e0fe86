/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit -- a line of JSON for each administrative and each denied request: when, who, from where, what,
 * with which result. Never bodies, parameters or credentials.
 *
 * audit_request only queues and never waits: a thread writes. What does not fit into the queue is
 * counted, and the file says how many lines are missing.
 */
#ifndef SERVER_AUDIT_H
#define SERVER_AUDIT_H

#include "base/settings.h"
#include "server/request.h"

struct audit;

/* Opens the file of audit_log, 0600; *out is NULL when the setting is empty. */
MUST_CHECK enum errc audit_open(struct audit **out, const struct settings *s, struct error *err);
/* Writes what is queued. NULL is allowed. */
void audit_close(struct audit *a);

/* A request that has been answered. Any thread; NULL is allowed. */
void audit_request(struct audit *a, const struct request *r);
/* The file is opened again by its name, soon: something else has renamed it. NULL is allowed. */
void audit_reopen(struct audit *a);

#endif
