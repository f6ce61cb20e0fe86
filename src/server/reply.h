/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply -- building JSON answers member by member in the request's arena.
 *
 *   struct reply a;
 *   reply_begin(&a, r);
 *   reply_text(&a, "name", name);
 *   reply_send(&a, 200);
 */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include "server/request.h"

struct reply {
    struct request *r;
    struct val_builder *b;
};

void reply_begin(struct reply *a, struct request *r);      /* opens an object */
void reply_begin_list(struct reply *a, struct request *r); /* opens an array, for reply_send_bare */
void reply_text(struct reply *a, const char *name, struct slice text);
void reply_str(struct reply *a, const char *name, const char *text);
void reply_int(struct reply *a, const char *name, int64_t value);
void reply_double(struct reply *a, const char *name, double value);
void reply_bool(struct reply *a, const char *name, bool value);
void reply_null(struct reply *a, const char *name);
void reply_val(struct reply *a, const char *name, struct val value);
void reply_id(struct reply *a, const char *name, uint64_t id); /* a decimal string */
void reply_open(struct reply *a, const char *name);            /* an object */
void reply_list(struct reply *a, const char *name);            /* an array; NULL name in an array */
void reply_close(struct reply *a);
/* {..., error: false, code: status}, closes, sends and ends the request. */
void reply_send(struct reply *a, int status);
/* The same without error and code. */
void reply_send_bare(struct reply *a, int status);
/* Finishes into the arena without sending. */
struct val reply_finish(struct reply *a);
void reply_drop(struct reply *a);

#endif
