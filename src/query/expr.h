/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expr -- expressions over one row of registers, as data, and their evaluation.
 * Never waits.
 */
#ifndef QUERY_EXPR_H
#define QUERY_EXPR_H

#include "base/arena.h"
#include "base/val.h"
#include "query/ast.h"

enum expr_kind {
    EXPR_CONST,      /* val */
    EXPR_REG,        /* reg */
    EXPR_ATTR,       /* [object] name, hash */
    EXPR_INDEX,      /* [object or array, index] */
    EXPR_UNARY,      /* [value] op */
    EXPR_BINARY,     /* [left, right] op; AND and OR evaluate the right side when needed */
    EXPR_QUANTIFIED, /* [array, right, count?] op, quantifier */
    EXPR_TERNARY,    /* [condition, then?, else] */
    EXPR_RANGE,      /* [from, to] */
    EXPR_ARRAY,      /* [each] */
    EXPR_OBJECT,     /* [name, value, name, value, ...]; names are expressions */
    EXPR_EXPAND, /* [array, filter?, offset?, count?, projection?, tail?] op: levels; reg: CURRENT;
                      reg2: the element of the tail */
    EXPR_ARRAY_TEST, /* [array, filter?, number?] op: levels, quantifier; reg: CURRENT */
    EXPR_CALL,       /* [each argument] fn */
};

struct fn;
struct validator;

struct expr {
    uint8_t kind;       /* enum expr_kind */
    uint8_t op;         /* enum ast_op, or levels */
    uint8_t quantifier; /* enum ast_quantifier, or NO_QUANTIFIER */
    uint32_t count;     /* kids; an absent one is NULL */
    uint32_t reg, reg2;
    uint32_t hash; /* of name */
    struct expr **kids;
    struct slice name; /* EXPR_ATTR; name of the function */
    struct val val;
    const struct fn *fn;
};
/* SORTED_IN, of EXPR_BINARY: the array on the right is sorted bytewise. */
enum { NO_QUANTIFIER = 255, SORTED_IN = 1, NO_REG = UINT32_MAX };

struct expr_env {
    struct txn *txn;
    uint64_t db_id;
    struct slice user; /* of CURRENT_USER */
    const struct collator *collator;
    const struct env *env;
    uint64_t now_us;
    struct validator **validator; /* of SCHEMA_VALIDATE, kept between calls; may be NULL */
    void *warn_ctx;
    void (*warn)(void *ctx, int num, const char *text);
};

/*
 * The result lives in arena, in the row, or in the plan. Registers of CURRENT
 * are written during the call.
 */
MUST_CHECK enum errc expr_eval(const struct expr *e, struct val *row, struct arena *arena,
                               const struct expr_env *env, struct val *out, struct error *err);

/* Whether the value is true, which takes less than making it. */
MUST_CHECK enum errc expr_test(const struct expr *e, struct val *row, struct arena *arena,
                               const struct expr_env *env, bool *out, struct error *err);

/* One operator on two values, for aggregates and folding. */
MUST_CHECK enum errc expr_binary(enum ast_op op, struct val a, struct val b, struct arena *arena,
                                 const struct expr_env *env, struct val *out, struct error *err);

#endif
