/* SPDX-License-Identifier: Apache-2.0 */
/* plan_print -- expressions and nodes of a plan as text for people. */
#ifndef QUERY_PLAN_PRINT_H
#define QUERY_PLAN_PRINT_H

#include "base/buf.h"
#include "query/plan.h"

struct catalog;

struct plan_printer {
    const struct plan *plan;
    const struct catalog *catalog; /* for names of collections and indexes */
};

/* The name of a register's variable, or "#3". */
void plan_print_reg(const struct plan_printer *pp, uint32_t reg, struct buf *out);
/* As AQL; long constants are cut. */
void plan_print_expr(const struct plan_printer *pp, const struct expr *e, struct buf *out);
/* "FOR d IN c   (persistent index scan, 1 filter)" */
void plan_print_node(const struct plan_printer *pp, const struct node *n, struct buf *out);

#endif
