/* SPDX-License-Identifier: Apache-2.0 */
/* txn -- the parts of bench/txn.c. */
#ifndef BENCH_TXN_H
#define BENCH_TXN_H

#include "bench.h"

void txn_postgres(void);
void txn_hot(void);
void txn_check(void);
void txn_change_log(void);
void txn_encrypted(void);

#endif
