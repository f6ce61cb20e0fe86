/* SPDX-License-Identifier: Apache-2.0 */
/* computed -- the store's seam for computed values, filled with AQL expressions. */
#ifndef QUERY_COMPUTED_H
#define QUERY_COMPUTED_H

#include "store/compute.h"

extern const struct compute query_compute;

#endif
