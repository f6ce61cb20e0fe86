/* SPDX-License-Identifier: Apache-2.0 */
#include "server/reply.h"
#include <stdio.h>

void reply_begin(struct reply *a, struct request *r)
{
    *a = (struct reply){ r, val_builder_new(0) };
    val_open_object(a->b);
}

void reply_begin_list(struct reply *a, struct request *r)
{
    *a = (struct reply){ r, val_builder_new(0) };
    val_open_array(a->b);
}

static void name(struct reply *a, const char *text)
{
    if (text)
        val_put_name(a->b, slice_str(text));
}

void reply_text(struct reply *a, const char *n, struct slice text)
{
    name(a, n);
    val_put_string(a->b, text);
}

void reply_str(struct reply *a, const char *n, const char *text)
{
    reply_text(a, n, slice_str(text));
}

void reply_int(struct reply *a, const char *n, int64_t value)
{
    name(a, n);
    val_put_int(a->b, value);
}

void reply_double(struct reply *a, const char *n, double value)
{
    name(a, n);
    val_put_double(a->b, value);
}

void reply_bool(struct reply *a, const char *n, bool value)
{
    name(a, n);
    val_put_bool(a->b, value);
}

void reply_null(struct reply *a, const char *n)
{
    name(a, n);
    val_put_null(a->b);
}

void reply_val(struct reply *a, const char *n, struct val value)
{
    name(a, n);
    val_put(a->b, value);
}

void reply_id(struct reply *a, const char *n, uint64_t id)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)id);
    reply_str(a, n, text);
}

void reply_open(struct reply *a, const char *n)
{
    name(a, n);
    val_open_object(a->b);
}

void reply_list(struct reply *a, const char *n)
{
    name(a, n);
    val_open_array(a->b);
}

void reply_close(struct reply *a)
{
    val_close(a->b);
}

struct val reply_finish(struct reply *a)
{
    struct val out = val_null;

    val_close(a->b);
    if (val_finish_in(a->b, a->r->arena, &out, NULL) != OK)
        out = val_null;
    reply_drop(a);
    return out;
}

void reply_drop(struct reply *a)
{
    val_builder_free(a->b);
    a->b = NULL;
}

void reply_send_bare(struct reply *a, int status)
{
    request_reply(a->r, status, reply_finish(a));
}

void reply_send(struct reply *a, int status)
{
    reply_bool(a, "error", false);
    reply_int(a, "code", status);
    reply_send_bare(a, status);
}
