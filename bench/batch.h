/* SPDX-License-Identifier: Apache-2.0 */
/* batch -- the parts of this benchmark, one file each. */
#ifndef BENCH_BATCH_H
#define BENCH_BATCH_H

#include "bench.h"

void batch_virtual(void); /* the coordinator's code over engines of virtual time */

#endif
