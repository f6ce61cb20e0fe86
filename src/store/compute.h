/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compute -- the seam to whoever evaluates the expressions of computed values: the store says
 * when, the query layer fills in how.
 */
#ifndef STORE_COMPUTE_H
#define STORE_COMPUTE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/val.h"

struct collator;
struct env;

/* One evaluation. */
struct compute_call {
    struct val doc; /* @doc: the document as it is about to be stored */
    const struct collator *collator;
    const struct env *env;
    struct arena *arena; /* the result lives here, in the document or in the program */
    void (*warn)(void *ctx, int num, const char *text);
    void *ctx;
};

struct compute {
    /*
     * "RETURN ..." to a program, returned to the caller. Errors (10) say what an expression of a
     * computed value may not have: other operations, stored data, other parameters than @doc.
     */
    enum errc (*compile)(struct slice text, const struct collator *collator, const struct env *env,
                         void **program, struct error *err);
    /* From any thread, several at once. Does not wait. */
    enum errc (*run)(const void *program, const struct compute_call *call, struct val *out,
                     struct error *err);
    void (*release)(void *program); /* NULL is allowed */
};

#endif
