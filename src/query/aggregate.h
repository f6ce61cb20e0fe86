/* SPDX-License-Identifier: Apache-2.0 */
/* aggregate -- what COLLECT ... AGGREGATE can compute, value by value. */
#ifndef QUERY_AGGREGATE_H
#define QUERY_AGGREGATE_H

#include "query/expr.h"

struct aggregate_state {
    uint64_t count;
    struct val value; /* sum, extreme */
    double mean, m2;  /* Welford's running variance */
    struct val *items;
    size_t item_count, item_cap;
};

/* Row of an aggregate function, or -1. */
int aggregate_find(struct slice name);
const char *aggregate_name(int kind);
enum errc aggregate_add(int kind, struct aggregate_state *s, struct val v, struct arena *arena,
                        const struct expr_env *env, struct error *err);
struct val aggregate_result(int kind, const struct aggregate_state *s, struct arena *arena,
                            const struct expr_env *env);

#endif
