/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head -- the request line and headers of a request, checked the same way
 * whatever brought them; and what the head of a reply needs.
 */
#ifndef NET_HEAD_H
#define NET_HEAD_H

#include "net/protocol.h"

/*
 * Target and headers have been read: joins headers of one name, finds method,
 * path and expectation. An error's status is how the request is answered.
 */
struct protocol_error head_finish(struct exchange *x, struct slice method);

/* A number in decimal, in the end of out: printf is a tenth of a small reply. */
enum { HEAD_DIGITS = 20 };
struct slice head_number(uint64_t number, char out[HEAD_DIGITS]);
const char *head_reason(int status);
/* "Sun, 06 Nov 1994 08:49:37 GMT", now; any thread, valid until its next call there. */
const char *head_date(void);
/* Replies of this status have no body and no length. */
bool head_has_no_body(int status);

#endif
