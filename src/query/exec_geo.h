/* SPDX-License-Identifier: Apache-2.0 */
/* exec_geo -- where a scan by a geo index looks. */
#ifndef QUERY_EXEC_GEO_H
#define QUERY_EXEC_GEO_H

#include "query/exec.h"
#include "store/index.h"

/* Keys of documents that can pass. */
MUST_CHECK enum errc geo_scan_open(struct index_iter **out, struct op *op, struct val *row,
                                   const struct collection *c, const struct index_def *index,
                                   const struct access *a, struct error *err);
/* Keys, as texts, of the nearest documents that pass; more when several are as far away. */
MUST_CHECK enum errc geo_near_keys(struct op *op, struct val *row, const struct collection *c,
                                   const struct index_def *index, const struct access *a,
                                   struct val **keys, size_t *count, struct error *err);

#endif
