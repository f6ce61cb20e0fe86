/* SPDX-License-Identifier: Apache-2.0 */
/* aql -- what AQL costs beside the least that the same work can cost, and beside PostgreSQL. */
#ifndef BENCH_AQL_H
#define BENCH_AQL_H

#include "bench.h"

void aql_eval(void);     /* a filter and a projection over rows in memory, against C */
void aql_raw(void);      /* queries over all documents, against RocksDB's bare iteration */
void aql_postgres(void); /* queries over HTTP, against PostgreSQL's prepared statements */
void aql_graph(void);    /* traversals and shortest paths, against recursive SQL */

#endif
