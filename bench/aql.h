/* SPDX-License-Identifier: Apache-2.0 */
/* aql -- what AQL costs beside the least that the same work can cost. */
#ifndef BENCH_AQL_H
#define BENCH_AQL_H

#include "bench.h"

void aql_eval(void); /* a filter and a projection over rows in memory, against C */

#endif
