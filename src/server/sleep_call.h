/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_call -- AQL's SLEEP: the query waits on the loop's clock and holds no worker.
 * A cancelled query, or one whose time is up, sleeps no longer.
 */
#ifndef SERVER_SLEEP_CALL_H
#define SERVER_SLEEP_CALL_H

#include "query/call.h"

struct loop;
struct sleep_calls;

struct sleep_calls *sleep_calls_new(struct loop *loop);
const struct batch_call *sleep_calls_row(struct sleep_calls *s);

/* After the loop has ended, on its thread: wakes everybody, also those who come later. */
void sleep_calls_stop(struct sleep_calls *s);
/* When no query is left and the loop was freed; NULL is allowed. */
void sleep_calls_free(struct sleep_calls *s);

#endif
