/* SPDX-License-Identifier: Apache-2.0 */
/* routing -- the parts of this benchmark, one file each. */
#ifndef BENCH_ROUTING_H
#define BENCH_ROUTING_H

#include "bench.h"

void routing_queue(void); /* the router's rules under load, virtual time */

#endif
