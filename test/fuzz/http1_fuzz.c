/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a client against the HTTP/1 object, whole and in pieces, with and
 * without pauses: each way must see the same requests. Every request is
 * answered, and the replies are made to bytes.
 */
#include "net/http1.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

struct run {
    struct http1 *p;
    struct exchange *last; /* a reference */
    struct buf seen, out, big;
    bool pauses;
};

static struct exchange *begin(void *ctx)
{
    struct run *r = ctx;

    exchange_unref(r->last);
    r->last = exchange_new(NULL, NULL);
    return exchange_ref(r->last);
}

static void headers(void *ctx, struct exchange *x)
{
    struct run *r = ctx;

    buf_printf(&r->seen, "%d %.*s?%.*s host=%.*s\n", exchange_method(x),
               SLICE_ARG(exchange_path(x)), SLICE_ARG(exchange_query(x)),
               SLICE_ARG(exchange_header(x, "host")));
}

static bool piece(void *ctx, struct exchange *x, struct slice bytes)
{
    struct run *r = ctx;

    (void)x;
    buf_add_slice(&r->seen, bytes);
    return !r->pauses;
}

static bool complete(void *ctx, struct exchange *x)
{
    struct run *r = ctx;

    buf_add_char(&r->seen, '\n');
    exchange_reply(x, 200, "text/plain", NULL, 0, slice_str("ok"));
    http1_put_reply(r->p, x, !x->keep_alive, &r->out, &r->big);
    return !r->pauses;
}

static void run(struct run *r, struct slice bytes, size_t step)
{
    struct protocol_events events = { begin, headers, piece, complete, r, 4096, "fuzz" };
    struct protocol_error e = { 0 };

    r->p = http1_new(&events);
    buf_init(&r->seen, 0);
    buf_init(&r->out, 0);
    buf_init(&r->big, 0);
    for (size_t at = 0; at < bytes.len && !e.status;) {
        size_t n = step < bytes.len - at ? step : bytes.len - at, used;
        e = http1_feed(r->p, slice_of(bytes.ptr + at, n), &used);
        if (used > n)
            abort();
        at += used;
    }
    if (!e.status && r->pauses) {
        size_t used;
        http1_feed(r->p, slice_of(NULL, 0), &used);
    }
    if (e.status) {
        buf_add_str(&r->seen,
                    "error\n"); /* which of two errors is met first depends on the pieces */
        if (!e.text || !*e.text)
            abort();
    }
    http1_free(r->p);
    exchange_unref(r->last);
    buf_release(&r->out);
    buf_release(&r->big);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const size_t steps[] = { 1, 7 };
    struct slice in = slice_of(bytes, len);
    struct run whole = { 0 };

    run(&whole, in, len ? len : 1);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        for (int pauses = 0; pauses < 2; pauses++) {
            struct run other = { .pauses = pauses };
            run(&other, in, steps[i]);
            if (!slice_eq(buf_slice(&whole.seen), buf_slice(&other.seen)))
                abort();
            buf_release(&other.seen);
        }
    }
    buf_release(&whole.seen);
    return 0;
}
