/* SPDX-License-Identifier: Apache-2.0 */
/* query_private -- the inside of a query, for explain. */
#ifndef QUERY_QUERY_PRIVATE_H
#define QUERY_QUERY_PRIVATE_H

#include "query/plan.h"
#include "query/query.h"

const struct plan *query_plan(const struct query *q);
struct txn *query_txn(const struct query *q);
size_t query_memory(const struct query *q); /* bytes, at most so far */
double query_plan_s(const struct query *q); /* parsing and planning took so long */

#endif
