/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call -- functions over a batch of values that answer later (INFER, EMBED,
 * ASK). query owns the shape; the layer above fills it. The planner lifts each
 * use out of its expression into an operator of its own.
 */
#ifndef QUERY_CALL_H
#define QUERY_CALL_H

#include "base/buf.h"
#include "base/error.h"
#include "base/val.h"
#include <stdatomic.h>

struct gen_payer;

enum { CALL_ARGS_MAX = 3 };

/* One row: arguments in (valid until done), value or error out. */
struct call_row {
    struct val args[CALL_ARGS_MAX]; /* INFER: model, prompt, options; EMBED: model, text */
    struct buf result;              /* filler: an encoded val; empty reads as null */
    struct error err;               /* filler: code != OK fails the query */
};

/* Owned by the query; stays valid until done has been called. */
struct call_batch {
    struct call_row *rows;
    size_t count;
    const atomic_bool *cancel;          /* the filler watches it and still calls done */
    struct gen_payer *payer;            /* of the query; handed on to models */
    uint64_t deadline_ms;               /* from start; 0 = none */
    void (*done)(struct call_batch *b); /* exactly once, any thread, also from within start */
    void *owner;                        /* the query's */
    void *filler;                       /* the filler's own */
};

struct batch_call {
    const char *name; /* "INFER" */
    int min_args, max_args;
    size_t max_rows; /* rows of one start; larger batches are split */
    /* On an error done is not called. */
    enum errc (*start)(const struct batch_call *call, struct call_batch *b, struct error *err);
    void *ctx;
    bool is_model_free; /* no model answers: not counted as a call of one */
};

#endif
