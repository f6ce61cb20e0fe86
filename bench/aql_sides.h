/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aql_sides -- one load generator for both: threads with a blocking connection
 * each, to themisd by HTTP or to PostgreSQL by libpq, that ask the same with the
 * same values again and again.
 */
#ifndef BENCH_AQL_SIDES_H
#define BENCH_AQL_SIDES_H

#include "bench_postgres.h"
#include "bench_server.h"

enum { AQL_VALUES_MAX = 2 };

/* What @a and @b, $1 and $2 are this time: numbers and JSON as they are, strings without quotes. */
struct aql_values {
    struct buf text[AQL_VALUES_MAX];
};

struct aql_row {
    const char *what;
    const char *aql, *sql;
    const char *kinds; /* a letter for each value: s for a string, j for a number or JSON */
    void (*choose)(uint64_t chance, struct aql_values *out); /* NULL without values */
    bool is_parallel; /* PostgreSQL may use parallel workers: measured with 0 and with 2 */
    bool is_short;    /* measured with 1 and with 8 connections */
    bool is_write;
    unsigned units;   /* of a call; 0 = 1 */
    const char *unit; /* NULL: "queries/s" */
    double target;    /* 0 = 1 */
};

struct aql_sides {
    struct bench_server ours;
    struct bench_postgres theirs;
    char settings[512]; /* PostgreSQL's, as facts of a line */
};
/* Fills both with these tables (of aql_data) and starts them. */
void aql_sides_start(struct aql_sides *s, const char *name, const unsigned *tables, size_t count);
void aql_sides_stop(struct aql_sides *s);

/* Both answer with as many rows, or the program ends; then the row's lines. */
void aql_sides_compare(struct aql_sides *s, const struct aql_row *row);

#endif
