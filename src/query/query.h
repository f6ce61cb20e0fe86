/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query -- one AQL query: text and bind values in, rows out. Hides parsing,
 * planning and the executor.
 *
 * query_run never blocks on anybody but the store: when the query waits for a
 * model, it says so and its wake function is called once from any thread; the
 * owner then runs it again, on any worker. One thread at a time.
 */
#ifndef QUERY_QUERY_H
#define QUERY_QUERY_H

#include "base/arena.h"
#include "base/base.h"
#include "base/error.h"
#include "base/val.h"
#include "query/call.h"
#include "store/txn.h"
#include <stdatomic.h>

/* What all queries of a node share; outlives them. */
struct spill_space;
struct query_env {
    struct store *store;
    const struct batch_call *calls[8]; /* INFER, EMBED, ...; NULL ends */
    const struct env *env;             /* clock and randomness */
    struct spill_space *spill;         /* where large sorts go; NULL: memory only */
    struct arena_budget *memory;       /* of all queries together; NULL: none */
};

struct query_options {
    uint64_t db_id;
    struct txn *txn;          /* run inside this transaction and do not commit; NULL = own */
    enum isolation isolation; /* of an own transaction */
    struct access_rights
        *access;             /* who asks, of an own transaction; NULL = everything is allowed */
    struct slice user;       /* of CURRENT_USER; empty gives null; copied */
    uint64_t memory_limit;   /* bytes; 0 = setting */
    uint64_t max_runtime_ms; /* 0 = none; beyond: 1500 */
    bool full_count;         /* count as if the last LIMIT were not there */
    bool fail_on_warning;
    int profile;               /* 1: time of phases, 2: also of each node */
    struct val rules;          /* of the planner: array of "-name", "+name", "-all", or null */
    size_t max_warnings;       /* 0 = 10 */
    bool through_codec;        /* encode the plan and decode it before running (tests) */
    size_t batch_rows;         /* between two operators; 0 = LIMIT_ROWS_PER_BATCH (tests) */
    struct gen_payer *payer;   /* who pays for what models compute; NULL = nobody */
    const atomic_bool *cancel; /* set: ends with 1500; may be NULL */
    void (*wake)(void *ctx);
    void *wake_ctx;
};

struct query;

/*
 * Parses, binds, plans. bind: object of bind values or null ("@coll" is the
 * name "@coll"). Errors carry line and column. Returned to the caller, who
 * must query_free() it, never while it waits (cancel first, then run until done).
 */
MUST_CHECK enum errc query_new(struct query **out, const struct query_env *env, struct slice text,
                               struct val bind, const struct query_options *opt, struct error *err);
void query_free(struct query *q);

enum query_state { QUERY_DONE, QUERY_WAIT };

/*
 * Runs until done or waiting. Done: rows are complete and an own transaction
 * is committed. On an error nothing was written.
 */
MUST_CHECK enum errc query_run(struct query *q, enum query_state *state, struct error *err);

/* ---- after QUERY_DONE; values live until query_free ---- */

size_t query_row_count(const struct query *q);
struct val query_row(const struct query *q, size_t i);

struct query_warning {
    int num;
    const char *text;
};

struct query_stats {
    uint64_t writes_executed, writes_ignored, document_lookups, scanned_full, scanned_index,
        filtered, full_count, peak_memory, calls; /* calls: rows given to INFER or EMBED */
    uint64_t execution_us;
    uint64_t commit_seq;
};
const struct query_stats *query_stats(const struct query *q);

/* With profile: seconds from the start of a phase to its end, in order. */
struct query_phase {
    const char *name;
    double seconds;
};
size_t query_phase_count(const struct query *q);
struct query_phase query_phase(const struct query *q, size_t i);
/* With profile 2: what the operator of each node did; NULL rows otherwise. */
struct query_node_stats {
    uint32_t id; /* of the plan's node */
    uint64_t calls, items;
    double seconds; /* with the operators that it asked */
};
const struct query_node_stats *query_nodes(const struct query *q, size_t *count);

size_t query_warning_count(const struct query *q);
const struct query_warning *query_warning(const struct query *q, size_t i);
bool query_is_write(const struct query *q);
/* As it was given; live until query_free. */
struct slice query_text(const struct query *q);
struct val query_bind(const struct query *q);
uint64_t query_database(const struct query *q);

/* The plan in ArangoDB's explain shape {nodes, rules, collections, variables, ...}. */
MUST_CHECK enum errc query_explain(struct query *q, struct arena *arena, struct val *out,
                                   struct error *err);

/* Name of the i-th rule of the planner, NULL behind the last. */
const char *query_rule(size_t i, const char **help);

/*
 * Parses only: {bindVars: [names], collections: [names], ast: ...} for /_api/query.
 */
MUST_CHECK enum errc query_parse_only(struct slice text, struct arena *arena, struct val *out,
                                      struct error *err);

#endif
