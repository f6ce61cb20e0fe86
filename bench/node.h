/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node -- how much of what is underneath reaches the user of one node: RocksDB
 * through the store, a route through a handler, llama.cpp through a lane.
 */
#ifndef BENCH_NODE_H
#define BENCH_NODE_H

#include "bench.h"

struct node_part {
    const char *name;
    void (*run)(void);
};

void node_get(void); /* point reads of documents against raw RocksDB */

#endif
