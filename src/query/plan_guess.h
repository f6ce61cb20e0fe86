/* SPDX-License-Identifier: Apache-2.0 */
/* plan_guess -- how many documents a lookup gives, from a few entries of the index. */
#ifndef QUERY_PLAN_GUESS_H
#define QUERY_PLAN_GUESS_H

#include "query/plan.h"
#include "store/catalog.h"

/* Of one access, for one row that asks; all: documents of the collection. */
double plan_guess(struct txn *t, const struct collection *c, const struct access *a, double all);
/* Rows that leave the node when so many enter it; and those that enter, of a run of its pipeline. */
double plan_guess_out(struct txn *t, const struct node *n, double in);
double plan_guess_in(struct txn *t, const struct node *n);
/* The query gives all of its values, so that they were looked for. */
bool plan_access_is_known(const struct access *a);

#endif
