/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aql_data -- the rows of the comparisons, the same in every run and on both
 * sides: "d" documents of about 400 bytes, "g" what they are joined with, "b"
 * empty, "v" and "e" a graph whose edges lead forward, so that no walk of three
 * steps comes back to where it began.
 */
#ifndef BENCH_AQL_DATA_H
#define BENCH_AQL_DATA_H

#include "base/buf.h"
#include "bench_store.h"

enum { AQL_GROUPS = 10000, AQL_CITIES = 5, AQL_AGES = 90, AQL_EDGES_PER_VERTEX = 10 };

/* BENCH_DOCS, or a million. */
uint64_t aql_docs(void);
uint64_t aql_vertices(void);

struct aql_table {
    const char *name;
    bool is_edge;
    uint64_t count;
    /* A document with its key; and the same as a line of PostgreSQL's COPY. */
    void (*document)(uint64_t number, struct buf *out);
    void (*copy_line)(uint64_t number, struct buf *out);
    const char *indexes[4]; /* the fields of each as JSON, NULL ends */
    const char *create;     /* SQL: the table; its indexes, made when it is full */
    const char *create_indexes;
};
enum { AQL_DOCUMENTS, AQL_JOINED, AQL_EMPTY, AQL_VERTICES, AQL_EDGES, AQL_TABLES };
const struct aql_table *aql_table(unsigned which);

void aql_key(uint64_t number, struct buf *out);
const char *aql_city(unsigned i);
/* A document of AQL_DOCUMENTS without a key. */
void aql_body(uint64_t number, struct buf *out);
/* 64 mixed bits of a number. */
uint64_t aql_mixed(uint64_t number);

/* A store in bench_dir()/name with the tables, compacted and closed. */
void aql_fill_store(struct bench_store *s, const char *name, const unsigned *which, size_t count);

#endif
