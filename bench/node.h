/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node -- how much of what is underneath reaches the user of one node: RocksDB
 * through the store, a route through a handler, llama.cpp through a lane.
 */
#ifndef BENCH_NODE_H
#define BENCH_NODE_H

#include "bench.h"

void node_get(void);     /* point reads of documents against raw RocksDB */
void node_http(void);    /* a document over HTTP against a route with nothing to do */
void node_decode(void);  /* one generation against llama-bench */
void node_streams(void); /* 16 generations against llama-batched-bench */
void node_infer(void);   /* point reads over HTTP beside queries that wait on INFER */

#endif
