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

/* What the projection takes of a document. */
struct val scan_path_value(struct val doc, const struct projection *p);

/* Puts into a new row of op->out what the query uses of the document. */
void scan_keep(struct op *op, struct val *row, struct val doc);

/*
 * The keys that the node's only access gives, which is not the primary index.
 * Lives in op->kept; close it in any case. A key lives until the next step.
 */
struct scan_state;
MUST_CHECK enum errc scan_keys_open(struct scan_state **out, struct op *op, struct val *row,
                                    const struct collection *c, struct error *err);
MUST_CHECK enum errc scan_keys_next(struct op *op, struct scan_state *s, const struct collection *c,
                                    struct slice *key, bool *has, struct error *err);
void scan_keys_close(struct scan_state *s); /* NULL is allowed */

/* Different values only, in their order; returns how many. */
size_t scan_unique_values(struct arena *arena, struct val *items, size_t count);

#endif
