/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A query owns its arena, its transaction and its operators. A conflict with
 * another writer is tried again inside, as long as no model was asked: nobody
 * has seen anything of the first try.
 *
 * Waiting: is_waiting is set under the lock only when the running call has not
 * answered yet, so its answer either finds the flag and wakes the owner, or
 * came before and the query goes on by itself.
 */
#include "query/query.h"
#include "base/log.h"
#include "base/metrics.h"
#include "query/exec.h"
#include "query/query_private.h"
#include <pthread.h>
#include <stdio.h>

enum phase {
    PHASE_INITIALIZING,
    PHASE_PARSING,
    PHASE_PLANNING,
    PHASE_INSTANTIATING,
    PHASE_EXECUTING,
    PHASES
};

enum { TRIES_MAX = 5, WARNINGS_MAX = 10, LIMIT_QUERY_TEXT = 16 * MIB };

struct query {
    const struct query_env *env;
    struct query_options opt;
    struct arena *text_arena; /* text, tree, bind values: survive a new try */
    struct slice text;
    struct val bind;
    struct ast *ast;
    struct arena *arena, *scratch;
    struct plan *plan;
    struct exec exec;
    struct txn *own_txn;
    struct row_list rows;
    struct query_stats stats;
    struct query_warning *warnings;
    size_t warning_count, warning_max;
    uint64_t made_us, planned_us, started_us; /* planned: how long that took */
    uint64_t phase_us[PHASES + 1];  /* with profile: start of each, and the end of the last */
    struct query_node_stats *nodes; /* with profile 2, in text_arena */
    size_t node_count;
    size_t mark; /* of the transaction when the query began: it reads no writes of its own */
    unsigned tries;
    bool is_done;
    pthread_mutex_t lock;
    bool has_answered, is_waiting;
};

static struct metric queries = METRIC_COUNTER("themis_queries_total", "Queries run.");
static struct metric query_seconds =
    METRIC_HISTOGRAM("themis_query_duration_seconds", "From the first run to the last row.");

/* ---- warnings ---- */

static void add_warning(void *ctx, int num, const char *text)
{
    struct query *q = ctx;

    if (q->warning_count == q->warning_max)
        return;
    struct slice copy = arena_copy(q->text_arena, slice_str(text));
    q->warnings[q->warning_count++] = (struct query_warning){ num, copy.ptr };
}

/* ---- profile ---- */

static void begin_phase(struct query *q, int phase)
{
    if (q->opt.profile)
        q->phase_us[phase] = env_mono_us(q->env->env);
}

/* The operators go with the run, their figures stay. */
static void keep_nodes(struct query *q)
{
    size_t count = 0, i = 0;

    if (q->opt.profile < 2)
        return;
    for (const struct op *op = q->exec.ops; op; op = op->all)
        count++;
    q->nodes = arena_alloc(q->text_arena, (count + 1) * sizeof *q->nodes);
    for (const struct op *op = q->exec.ops; op; op = op->all)
        q->nodes[i++] =
            (struct query_node_stats){ op->n->id, op->calls, op->items, (double)op->us / 1e6 };
    q->node_count = count;
}

size_t query_phase_count(const struct query *q)
{
    return q->opt.profile ? PHASES : 0;
}

struct query_phase query_phase(const struct query *q, size_t i)
{
    /* ArangoDB's names */
    static const char *const names[] = { "initializing", "parsing", "optimizing plan",
                                         "instantiating executors", "executing" };

    return (struct query_phase){ names[i], (double)(q->phase_us[i + 1] - q->phase_us[i]) / 1e6 };
}

const struct query_node_stats *query_nodes(const struct query *q, size_t *count)
{
    *count = q->node_count;
    return q->nodes;
}

/* ---- waiting ---- */

static void call_done(struct call_batch *b)
{
    struct query *q = b->owner;
    void (*wake)(void *ctx) = NULL;
    void *ctx = NULL;

    pthread_mutex_lock(&q->lock);
    q->has_answered = true;
    if (q->is_waiting) {
        q->is_waiting = false;
        wake = q->opt.wake;
        ctx = q->opt.wake_ctx;
    }
    pthread_mutex_unlock(&q->lock);
    if (wake)
        wake(ctx);
}

/* False: the answer is here already. */
static bool must_wait(struct query *q)
{
    pthread_mutex_lock(&q->lock);
    bool waits = !q->has_answered;
    q->is_waiting = waits;
    pthread_mutex_unlock(&q->lock);
    return waits;
}

/* ---- planning ---- */

static enum errc begin(struct query *q, struct error *err)
{
    struct txn_options opt = { .isolation = q->opt.isolation, .access = q->opt.access };

    if (q->opt.txn)
        return OK;
    return txn_begin(&q->own_txn, q->env->store, &opt, err);
}

static struct txn *txn_of(const struct query *q)
{
    return q->opt.txn ? q->opt.txn : q->own_txn;
}

static enum errc make_plan(struct query *q, struct error *err)
{
    struct planner_env env = { .txn = txn_of(q),
                               .db_id = q->opt.db_id,
                               .calls = q->env->calls,
                               .collator = store_collator(q->env->store),
                               .env = q->env->env,
                               .full_count = q->opt.full_count,
                               .rules = q->opt.rules,
                               .warn = add_warning,
                               .warn_ctx = q };
    enum errc rc = plan_make(q->ast, q->text, q->bind, &env, q->arena, &q->plan, err);
    struct val encoded;
    void *copy;

    if (rc != OK || !q->opt.through_codec)
        return rc;
    rc = plan_encode(q->plan, q->scratch, &encoded, err);
    if (rc == OK)
        rc = val_validate(val_bytes(encoded), &encoded, err);
    if (rc == OK)
        rc = arena_try(q->arena, val_size(encoded), &copy, err);
    if (rc == OK) {
        memcpy(copy, encoded.at, val_size(encoded));
        rc = plan_decode((struct val){ copy }, q->arena, &q->plan, err);
    }
    return rc;
}

static void start_exec(struct query *q)
{
    struct exec *x = &q->exec;

    q->mark = txn_mark(txn_of(q));
    *x = (struct exec){
        .plan = q->plan,
        .arena = q->arena,
        .scratch = q->scratch,
        .txn = txn_of(q),
        .env = { .txn = txn_of(q),
                 .db_id = q->opt.db_id,
                 .user = q->opt.user,
                 .collator = store_collator(q->env->store),
                 .env = q->env->env,
                 .now_us = env_wall_us(q->env->env),
                 .warn = add_warning,
                 .validator = &x->validator,
                 .warn_ctx = q },
        .calls = q->env->calls,
        .rows_max = q->opt.batch_rows ? q->opt.batch_rows : LIMIT_ROWS_PER_BATCH,
        .spill = q->env->spill,
        .table_bytes = q->opt.memory_limit / 4,
        .stats = &q->stats,
        .payer = q->opt.payer,
        .cancel = q->opt.cancel,
        .is_profiled = q->opt.profile > 1,
        .call_done = call_done,
        .query = q,
    };
    exec_init(x);
}

/* A fresh view, plan and operators. */
static enum errc prepare(struct query *q, struct error *err)
{
    enum errc rc = OK;

    q->arena = arena_new(q->opt.memory_limit);
    arena_charge(q->arena, q->env->memory);
    q->scratch = arena_child(q->arena);
    begin_phase(q, PHASE_PLANNING);
    TRY(begin(q, err));
    TRY(make_plan(q, err));
    begin_phase(q, PHASE_INSTANTIATING);
    start_exec(q);
    begin_phase(q, PHASE_EXECUTING);
out:
    return rc;
}

static void discard(struct query *q)
{
    exec_release(&q->exec);
    txn_end(q->own_txn);
    q->own_txn = NULL;
    arena_free(q->scratch);
    arena_free(q->arena);
    q->arena = q->scratch = NULL;
    q->rows = (struct row_list){ 0 };
    q->warning_count = 0;
    q->stats = (struct query_stats){ 0 };
}

enum errc query_new(struct query **out, const struct query_env *env, struct slice text,
                    struct val bind, const struct query_options *opt, struct error *err)
{
    struct query *q = mem_zalloc(sizeof *q);
    enum errc rc = OK;

    q->env = env;
    q->opt = *opt;
    q->made_us = env_mono_us(env->env);
    begin_phase(q, PHASE_INITIALIZING);
    if (!q->opt.memory_limit)
        q->opt.memory_limit = GIB;
    q->warning_max = opt->max_warnings ? opt->max_warnings : WARNINGS_MAX;
    pthread_mutex_init(&q->lock, NULL);
    q->text_arena = arena_new(q->opt.memory_limit);
    arena_charge(q->text_arena, env->memory);
    q->warnings = arena_alloc(q->text_arena, (q->warning_max + 1) * sizeof *q->warnings);
    if (text.len > LIMIT_QUERY_TEXT) {
        rc = fail_num(err, 1524, "the query's text is longer than %d bytes", LIMIT_QUERY_TEXT);
        goto out;
    }
    q->text = arena_copy(q->text_arena, text);
    q->bind = val_copy(q->text_arena, bind);
    q->opt.rules = val_copy(q->text_arena, opt->rules);
    q->opt.user = arena_copy(q->text_arena, opt->user);
    begin_phase(q, PHASE_PARSING);
    TRY(aql_parse(q->text, q->text_arena, &q->ast, err));
    TRY(prepare(q, err));
    q->planned_us = env_mono_us(env->env) - q->made_us;
    *out = q;
    q = NULL;
out:
    query_free(q);
    return rc;
}

void query_free(struct query *q)
{
    if (!q)
        return;
    pthread_mutex_lock(&q->lock); /* who answered last has left */
    pthread_mutex_unlock(&q->lock);
    discard(q);
    arena_free(q->text_arena);
    pthread_mutex_destroy(&q->lock);
    mem_free(q);
}

/* ---- running ---- */

static void finish(struct query *q)
{
    begin_phase(q, PHASES);
    keep_nodes(q);
    exec_release(&q->exec);
    q->is_done = true;
    q->stats.peak_memory = query_memory(q);
    q->stats.execution_us = env_mono_us(q->env->env) - q->started_us;
    if (q->own_txn)
        q->stats.commit_seq = txn_commit_seq(q->own_txn);
    txn_end(q->own_txn);
    q->own_txn = NULL;
    metric_add(&queries, 1);
    metric_observe_us(&query_seconds, q->stats.execution_us);
}

static enum errc check_warnings(struct query *q, struct error *err)
{
    if (!q->opt.fail_on_warning || !q->warning_count)
        return OK;
    return fail_num(err, q->warnings[0].num, "%s (failOnWarning is set)", q->warnings[0].text);
}

static enum errc run_once(struct query *q, enum query_state *state, struct error *err)
{
    size_t sees = txn_see_until(txn_of(q), q->mark);
    enum exec_status status;
    enum errc rc;

    do {
        q->has_answered = false;
        rc = exec_run(&q->exec, &q->rows, &status, err);
    } while (rc == OK && status == EXEC_WAIT && !must_wait(q));
    txn_see_until(txn_of(q), sees);
    if (rc == OK)
        rc = arena_check(q->arena, err);
    if (rc != OK || status == EXEC_WAIT) {
        *state = QUERY_WAIT;
        return rc;
    }
    *state = QUERY_DONE;
    rc = check_warnings(q, err);
    if (rc == OK && q->own_txn)
        rc = txn_commit(q->own_txn, err);
    return rc;
}

enum errc query_run(struct query *q, enum query_state *state, struct error *err)
{
    for (;;) {
        struct error own = { 0 };
        if (!q->started_us)
            q->started_us = env_mono_us(q->env->env);
        q->exec.deadline_us =
            q->opt.max_runtime_ms ? q->started_us + q->opt.max_runtime_ms * 1000 : 0;
        enum errc rc = run_once(q, state, &own);
        if (rc == OK && *state == QUERY_DONE)
            finish(q);
        if (rc == OK)
            return OK;
        bool may_retry = rc == ERR_CONFLICT && q->own_txn && !q->stats.calls && own.http != 412 &&
                         ++q->tries < TRIES_MAX;
        if (may_retry) {
            discard(q);
            rc = prepare(q, &own);
            if (rc == OK)
                continue;
        }
        if (err)
            *err = own;
        return rc;
    }
}

size_t query_row_count(const struct query *q)
{
    return q->rows.count;
}

struct val query_row(const struct query *q, size_t i)
{
    return q->rows.items[i];
}

const struct query_stats *query_stats(const struct query *q)
{
    return &q->stats;
}

size_t query_warning_count(const struct query *q)
{
    return q->warning_count;
}

const struct query_warning *query_warning(const struct query *q, size_t i)
{
    return &q->warnings[i];
}

bool query_is_write(const struct query *q)
{
    return q->plan->is_write;
}

const struct plan *query_plan(const struct query *q)
{
    return q->plan;
}

struct txn *query_txn(const struct query *q)
{
    return txn_of(q);
}

size_t query_memory(const struct query *q)
{
    return arena_peak(q->arena) + arena_peak(q->text_arena);
}

double query_plan_s(const struct query *q)
{
    return (double)q->planned_us / 1e6;
}

struct val query_bind(const struct query *q)
{
    return q->bind;
}

uint64_t query_database(const struct query *q)
{
    return q->opt.db_id;
}

struct slice query_text(const struct query *q)
{
    return q->text;
}
