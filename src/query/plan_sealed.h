/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_sealed -- encrypted attributes in plans: where a query may not name one, and which scans can
 * do without decrypting.
 */
#ifndef QUERY_PLAN_SEALED_H
#define QUERY_PLAN_SEALED_H

#include "query/plan.h"
#include "store/catalog.h"

struct planner;

/*
 * ERR_INVALID when a FILTER, SORT, COLLECT, AGGREGATE, DISTINCT, WINDOW or PRUNE names an encrypted
 * attribute of a collection, or a variable that LET made of one. Before the rules, so that the
 * answer does not depend on them.
 */
MUST_CHECK enum errc plan_check_sealed(struct planner *p);

/* Nothing that the scan evaluates or gives on is encrypted: it reads documents as they are stored. */
bool plan_leaves_sealed(const struct node *scan, const struct collection *c);

#endif
