/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expr -- evaluating expressions over one row of registers. Never waits.
 */
#ifndef QUERY_EXPR_H
#define QUERY_EXPR_H

#include "query/plan.h"

struct expr_env {
    struct txn *txn;
    uint64_t db_id;
    const struct collator *collator;
    const struct env *env;
    uint64_t now_us;
    void *warn_ctx;
    void (*warn)(void *ctx, int num, const char *text);
};

/*
 * The result lives in arena, in the row, or in the plan. Registers of CURRENT
 * are written during the call.
 */
MUST_CHECK enum errc expr_eval(const struct expr *e, struct val *row, struct arena *arena,
                               const struct expr_env *env, struct val *out, struct error *err);

/* Result points into the row or the plan, never into the arena. */
bool expr_is_stable(const struct expr *e);

/* One operator on two values, for aggregates and folding. */
MUST_CHECK enum errc expr_binary(enum ast_op op, struct val a, struct val b, struct arena *arena,
                                 const struct expr_env *env, struct val *out, struct error *err);

#endif
