/* SPDX-License-Identifier: Apache-2.0 */
/* aggregate -- what AGGREGATE of COLLECT and WINDOW can compute, value by value. */
#ifndef QUERY_AGGREGATE_H
#define QUERY_AGGREGATE_H

#include "query/expr.h"
#include "query/groups.h"

/* Zeroed before the first value. */
struct aggregate_state {
    uint64_t count;
    bool is_spoiled; /* a value that is no number: the result is null */
    bool is_double;  /* the sum has a fraction or left 64 bits */
    int64_t whole;   /* sum, bits */
    double sum;
    double mean, m2;      /* Welford's running variance */
    struct val extreme;   /* MIN, MAX */
    struct groups values; /* different ones */
    struct val *items;    /* PUSH */
    size_t item_count, item_cap;
};

/* Row of an aggregate function, or -1. */
int aggregate_find(struct slice name);
const char *aggregate_name(int kind);
bool aggregate_takes_nothing(int kind); /* may be called without an argument */
/* What must be kept of v is copied to the arena. */
void aggregate_add(int kind, struct aggregate_state *s, struct val v, struct arena *arena,
                   const struct expr_env *env);
/* In the arena, or where it was kept. */
struct val aggregate_result(int kind, const struct aggregate_state *s, struct arena *arena,
                            const struct expr_env *env);

#endif
