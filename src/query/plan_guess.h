/* SPDX-License-Identifier: Apache-2.0 */
/* plan_guess -- how many documents a lookup gives, from a few entries of the index. */
#ifndef QUERY_PLAN_GUESS_H
#define QUERY_PLAN_GUESS_H

#include "query/plan.h"
#include "store/catalog.h"

/* Of one access, for one row that asks; all: documents of the collection. */
double plan_guess(struct txn *t, const struct collection *c, const struct access *a, double all);

#endif
