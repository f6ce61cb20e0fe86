/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_postgres -- Debian's PostgreSQL 15 as an opponent: a server of its own in
 * bench_dir(), reached over a unix socket only, and pgbench, its own benchmark.
 *
 * PostgreSQL refuses to be run by root, who becomes the package's user for it.
 */
#ifndef BENCH_BENCH_POSTGRES_H
#define BENCH_BENCH_POSTGRES_H

#include "bench.h"

struct bench_postgres {
    pid_t pid;
    char dir[512];      /* of everything; the socket lies here */
    char settings[256]; /* the ones that matter, as the server tells them: facts of a line */
};
/* Makes a database, starts the server and runs the SQL. It ends with this program at the latest. */
void bench_postgres_start(struct bench_postgres *p, const char *sql);
void bench_postgres_stop(struct bench_postgres *p);

/* One line of psql's bare output, terminated, in arena-less room of the caller. */
void bench_postgres_ask(const struct bench_postgres *p, const char *sql, char *out, size_t max);

struct bench_postgres_load {
    unsigned clients;
    double seconds;
    const char *script;        /* SQL, run again and again by each */
    uint64_t *done_per_client; /* room for clients, or NULL */
};
/* Transactions per second, connecting not counted. */
double bench_postgres_run(const struct bench_postgres *p, const struct bench_postgres_load *load);
/* The command line of such a run, for the opponent of a line. */
void bench_postgres_command(const struct bench_postgres *p, const struct bench_postgres_load *load,
                            char *out, size_t max);

#endif
