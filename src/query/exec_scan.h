/* SPDX-License-Identifier: Apache-2.0 */
/* exec_scan -- what the operators share that read documents of a collection. */
#ifndef QUERY_EXEC_SCAN_H
#define QUERY_EXEC_SCAN_H

#include "query/exec.h"

enum { SCAN_POLL_ROWS = 256 };

/* The error of a collection that a decoded plan names in vain. */
enum errc scan_gone(const struct node *n, struct error *err);

/*
 * Tests a document with the registers of row; *since_poll counts. A survivor becomes
 * a row of op->out with its values in op->batch.
 */
MUST_CHECK enum errc scan_offer(struct op *op, struct val *row, struct val doc,
                                unsigned *since_poll, struct error *err);

/* Puts into a new row of op->out what the query uses of the document. */
void scan_keep(struct op *op, struct val *row, struct val doc);

/* Different values only, in their order; returns how many. */
size_t scan_unique_values(struct arena *arena, struct val *items, size_t count);

#endif
