/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fn -- AQL functions: one row beside its code in a fn_*.c file. Registry,
 * arity errors, explain and the reference page read the rows.
 */
#ifndef QUERY_FN_H
#define QUERY_FN_H

#include "base/arena.h"
#include "base/error.h"
#include "base/val.h"

struct fn_call;

enum fn_flags {
    FN_PURE = 1,     /* same arguments, same result: may be folded at plan time */
    FN_STABLE = 2,   /* same within a query (DATE_NOW) */
    FN_READS = 4,    /* reads the store (DOCUMENT) */
    FN_CALLS = 16,   /* calls others (CALL) */
    FN_NAMES = 8,    /* the first argument may be a bare collection, which stands for its name */
    FN_SESSION = 32, /* tells of the server, the session or the query: not in computed values */
};

struct fn {
    const char *name; /* upper case */
    int min_args;
    int max_args;      /* -1 = any number */
    const char *types; /* a letter per argument, see fn_eval; the last one holds for the rest */
    unsigned flags;
    enum errc (*eval)(struct fn_call *call);
    const char *help;
};

/* Arguments and surroundings of one evaluation. */
struct txn;
struct collator;
struct validator;
struct fn_call {
    const struct val *args;
    int count;
    struct arena *arena; /* the result lives here */
    const struct collator *collator;
    const struct env *env;
    struct txn *txn;
    uint64_t db_id;
    struct slice user;            /* who asks; empty when nobody was asked for */
    uint64_t now_us;              /* wall clock, fixed for the query */
    struct validator **validator; /* compiled last, kept for the next call; may be NULL */
    struct val result;            /* val_null until set */
    struct error *err;
    void *warn_ctx;
    void (*warn)(void *ctx, int num, const char *text); /* e.g. 1542 invalid argument type */
};

/*
 * Checks the arguments, then calls the function. Types: "." anything, "a" array, "A" array or
 * null (which reads as an empty one), "n" array, or null for null without a warning, "o" object,
 * "s" string.
 */
MUST_CHECK enum errc fn_eval(const struct fn *fn, struct fn_call *call);

/* Wrong argument type in AQL: a warning 1542 and the result null. Returns OK. */
enum errc fn_bad_arg(struct fn_call *call, int i, const char *expected);

const struct fn *fn_find(struct slice name); /* any case; NULL when unknown */
const struct fn *fn_at(size_t i);            /* for the reference; NULL at the end */

/* Tables, each ended by a row without name; fn.c lists them. */
extern const struct fn fn_array[], fn_text[], fn_encode[], fn_similar[], fn_number[], fn_bit[],
    fn_object[], fn_date[], fn_date_zone[], fn_type[], fn_misc[], fn_dynamic[], fn_vector[],
    fn_geo[], fn_index[], fn_schema[], fn_minhash[];

#endif
