/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_commit -- durable inserts by several clients: each a transaction with
 * one document through the committer, against a synced rocksdb_write of the same
 * bytes. Both begin with an empty database with the same options.
 */
#ifndef BENCH_BENCH_COMMIT_H
#define BENCH_BENCH_COMMIT_H

/* For 1, 8 and 64 clients; name: of the benchmark. */
void bench_commit(const char *name);

/* Only our side, against other opponents; s has the collection "d". Commits per second. */
struct bench_store;
double bench_commit_ours(struct bench_store *s, unsigned clients, double seconds);

#endif
