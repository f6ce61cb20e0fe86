/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of query: transactions, waiting, cancelling, limits, explain. */
#include "base/log.h"
#include "base/val_text.h"
#include "query/plan.h"
#include "query/query.h"
#include "store/doc.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../check.h"

struct world {
    struct settings settings;
    struct store *store;
    struct arena *arena;
    struct query_env env;
    struct call_batch *pending; /* started, not answered */
    unsigned started, wakes;
    size_t largest;
    enum errc answers; /* code of every row */
    struct error err;
};

/* ---- a model that answers when told to ---- */

static enum errc keep(const struct batch_call *call, struct call_batch *b, struct error *err)
{
    struct world *w = call->ctx;

    (void)err;
    assert_null(w->pending);
    w->pending = b;
    w->started++;
    if (b->count > w->largest)
        w->largest = b->count;
    return OK;
}

static void answer(struct world *w)
{
    struct call_batch *b = w->pending;
    struct val_builder *v = val_builder_new(0);
    struct val out;

    assert_non_null(b);
    w->pending = NULL;
    for (size_t i = 0; i < b->count; i++) {
        if (w->answers != OK) {
            fail(&b->rows[i].err, w->answers, "the model is gone");
            continue;
        }
        val_builder_reset(v);
        val_put(v, b->rows[i].args[1]);
        assert_int_equal(val_finish(v, &out, NULL), OK);
        buf_add_slice(&b->rows[i].result, val_bytes(out));
    }
    val_builder_free(v);
    b->done(b);
}

static struct batch_call infer = {
    .name = "INFER", .min_args = 2, .max_args = 3, .max_rows = 16, .start = keep
};

static int setup(void **state)
{
    struct world *w = mem_zalloc(sizeof *w);
    struct store_options opt = { .settings = &w->settings };

    log_set_level(LOG_ERROR);
    settings_init(&w->settings);
    w->arena = arena_new(0);
    assert_int_equal(store_open(&w->store, &opt, &w->err), OK);
    infer.ctx = w;
    w->env = (struct query_env){ .store = w->store, .calls = { &infer }, .env = env_system() };
    struct collection_options c = { .name = slice_str("c"),
                                    .type = COLLECTION_DOCUMENT,
                                    .allow_user_keys = true };
    uint64_t id;
    assert_int_equal(store_create_collection(w->store, 1, &c, &id, &w->err), OK);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    store_close(w->store);
    arena_free(w->arena);
    mem_free(w);
    return 0;
}

static void wake(void *ctx)
{
    struct world *w = ctx;
    w->wakes++;
}

static enum errc begin(struct world *w, const char *text, struct query_options opt,
                       struct query **q)
{
    opt.db_id = 1;
    opt.wake = wake;
    opt.wake_ctx = w;
    memset(&w->err, 0, sizeof w->err);
    return query_new(q, &w->env, slice_str(text), val_null, &opt, &w->err);
}

/* Runs a query that must not wait; the rows as JSON, or "errorNum". */
static const char *run_with(struct world *w, const char *text, struct query_options opt)
{
    struct query *q = NULL;
    enum query_state s = QUERY_DONE;
    struct buf out;
    enum errc rc = begin(w, text, opt, &q);

    if (rc == OK)
        rc = query_run(q, &s, &w->err);
    assert_true(rc != OK || s == QUERY_DONE);
    buf_init(&out, 0);
    if (rc != OK)
        buf_printf(&out, "%d", error_num(&w->err));
    for (size_t i = 0; rc == OK && i < query_row_count(q); i++) {
        if (i)
            buf_add_char(&out, ' ');
        val_print(query_row(q, i), &out);
    }
    const char *rows = arena_copy(w->arena, buf_slice(&out)).ptr;
    buf_release(&out);
    query_free(q);
    return rows;
}

static const char *run(struct world *w, const char *text)
{
    return run_with(w, text, (struct query_options){ 0 });
}

/* ---- transactions ---- */

static void own_transaction_is_committed(void **state)
{
    struct world *w = *state;

    run(w, "INSERT {_key: 'a', n: 1} INTO c");
    assert_string_equal(run(w, "FOR d IN c RETURN d.n"), "1");
    assert_string_equal(run(w, "FOR d IN c UPDATE d WITH {n: 2} IN c RETURN NEW.n"), "2");
    assert_string_equal(run(w, "FOR d IN c RETURN d.n"), "2");
}

static void failed_query_writes_nothing(void **state)
{
    struct world *w = *state;

    assert_string_equal(
        run(w, "FOR i IN 1..5 INSERT {_key: i < 5 ? TO_STRING(i) : 'bad key'} INTO c"), "1221");
    assert_string_equal(run(w, "RETURN LENGTH(FOR d IN c RETURN 1)"), "0");
}

static void given_transaction_is_left_open(void **state)
{
    struct world *w = *state;
    struct txn *txn = NULL;

    assert_int_equal(txn_begin(&txn, w->store, &(struct txn_options){ 0 }, &w->err), OK);
    run_with(w, "INSERT {n: 1} INTO c", (struct query_options){ .txn = txn });
    assert_string_equal(run(w, "FOR d IN c RETURN d.n"), "");
    assert_string_equal(run_with(w, "FOR d IN c RETURN d.n", (struct query_options){ .txn = txn }),
                        "1");
    assert_int_equal(txn_commit(txn, &w->err), OK);
    txn_end(txn);
    assert_string_equal(run(w, "FOR d IN c RETURN d.n"), "1");
}

static void conflict_is_tried_again(void **state)
{
    struct world *w = *state;
    struct query *q = NULL;
    enum query_state s;

    run(w, "INSERT {_key: 'a', n: 1} INTO c");
    assert_int_equal(begin(w, "FOR d IN c UPDATE d WITH {n: d.n + 1} IN c RETURN NEW.n",
                           (struct query_options){ 0 }, &q),
                     OK);
    run(w, "UPDATE 'a' WITH {n: 10} IN c"); /* after the view of q was taken */
    assert_int_equal(query_run(q, &s, &w->err), OK);
    assert_int_equal(s, QUERY_DONE);
    assert_int_equal(val_int(query_row(q, 0)), 11);
    assert_true(query_stats(q)->commit_seq > 0);
    query_free(q);
}

static void conflict_in_a_given_transaction_is_reported(void **state)
{
    struct world *w = *state;
    struct txn *txn = NULL;

    run(w, "INSERT {_key: 'a', n: 1} INTO c");
    assert_int_equal(txn_begin(&txn, w->store, &(struct txn_options){ 0 }, &w->err), OK);
    run_with(w, "UPDATE 'a' WITH {n: 2} IN c", (struct query_options){ .txn = txn });
    run(w, "UPDATE 'a' WITH {n: 10} IN c");
    assert_int_equal(txn_commit(txn, &w->err), ERR_CONFLICT);
    txn_end(txn);
    assert_string_equal(run(w, "FOR d IN c RETURN d.n"), "10");
}

/* ---- waiting ---- */

static void waiting_query_is_woken_once_per_batch(void **state)
{
    struct world *w = *state;
    struct query *q = NULL;
    enum query_state s;
    unsigned turns = 0;

    assert_int_equal(begin(w, "FOR i IN 1..40 RETURN INFER('m', CONCAT('p', i))",
                           (struct query_options){ 0 }, &q),
                     OK);
    for (;;) {
        assert_int_equal(query_run(q, &s, &w->err), OK);
        if (s == QUERY_DONE)
            break;
        assert_int_equal(w->wakes, turns);
        answer(w);
        assert_int_equal(w->wakes, ++turns);
    }
    assert_int_equal(turns, 3); /* 16 + 16 + 8 */
    assert_int_equal(w->largest, 16);
    assert_int_equal(query_row_count(q), 40);
    assert_true(slice_is(val_string(query_row(q, 39)), "p40"));
    assert_int_equal(query_stats(q)->calls, 40);
    query_free(q);
}

static void failing_model_fails_the_query(void **state)
{
    struct world *w = *state;
    struct query *q = NULL;
    enum query_state s;

    w->answers = ERR_BUSY;
    assert_int_equal(
        begin(w, "INSERT {t: INFER('m', 'p')} INTO c", (struct query_options){ 0 }, &q), OK);
    assert_int_equal(query_run(q, &s, &w->err), OK);
    assert_int_equal(s, QUERY_WAIT);
    answer(w);
    assert_int_equal(query_run(q, &s, &w->err), ERR_BUSY);
    query_free(q);
    assert_string_equal(run(w, "FOR d IN c RETURN 1"), "");
}

static void cancelled_while_waiting_ends_with_1500(void **state)
{
    struct world *w = *state;
    struct query *q = NULL;
    enum query_state s;
    atomic_bool cancel = false;

    assert_int_equal(
        begin(w, "RETURN INFER('m', 'p')", (struct query_options){ .cancel = &cancel }, &q), OK);
    assert_int_equal(query_run(q, &s, &w->err), OK);
    assert_int_equal(s, QUERY_WAIT);
    atomic_store(&cancel, true);
    assert_true(atomic_load(w->pending->cancel));
    answer(w);
    assert_int_equal(query_run(q, &s, &w->err), ERR_GONE);
    assert_int_equal(error_num(&w->err), 1500);
    query_free(q);
}

static void *answer_soon(void *ctx)
{
    answer(ctx);
    return NULL;
}

static void answers_from_another_thread_are_seen(void **state)
{
    struct world *w = *state;

    for (int round = 0; round < 50; round++) {
        struct query *q = NULL;
        enum query_state s;
        pthread_t thread;
        assert_int_equal(begin(w, "RETURN INFER('m', 'p')", (struct query_options){ 0 }, &q), OK);
        assert_int_equal(query_run(q, &s, &w->err), OK);
        assert_int_equal(s, QUERY_WAIT);
        assert_int_equal(pthread_create(&thread, NULL, answer_soon, w), 0);
        pthread_join(thread, NULL);
        assert_int_equal(query_run(q, &s, &w->err), OK);
        assert_int_equal(s, QUERY_DONE);
        query_free(q);
    }
}

/* Only rows that reach the branch are sent to the model. */
static void unused_branches_call_no_model(void **state)
{
    struct world *w = *state;
    struct query *q = NULL;
    enum query_state s;

    assert_int_equal(begin(w,
                           "FOR i IN 1..10 FILTER i > 7 AND INFER('m', TO_STRING(i)) != '9' "
                           "RETURN i == 8 ? INFER('m', 'eight') : i",
                           (struct query_options){ 0 }, &q),
                     OK);
    while (query_run(q, &s, &w->err) == OK && s == QUERY_WAIT)
        answer(w);
    assert_int_equal(query_stats(q)->calls, 4);
    assert_int_equal(query_row_count(q), 2);
    assert_true(slice_is(val_string(query_row(q, 0)), "eight"));
    assert_int_equal(val_int(query_row(q, 1)), 10);
    query_free(q);
}

/* ---- limits ---- */

static void cancel_stops_a_running_query(void **state)
{
    atomic_bool cancel = true;

    assert_string_equal(run_with(*state, "FOR i IN 1..1000000 FOR j IN 1..1000 RETURN 1",
                                 (struct query_options){ .cancel = &cancel }),
                        "1500");
}

static void long_query_is_stopped(void **state)
{
    assert_string_equal(run_with(*state,
                                 "FOR i IN 1..100000 FOR j IN 1..100000 FILTER i + j < 0 RETURN 1",
                                 (struct query_options){ .max_runtime_ms = 50 }),
                        "1500");
}

static void memory_is_limited(void **state)
{
    struct query_options opt = { .memory_limit = 4 * MIB };
    static const char *const greedy[] = {
        "FOR i IN 1..100000 RETURN CONCAT('some text that is long enough to count ', i)",
        "RETURN 1..5000000",
        "FOR i IN 1..100000 SORT -i RETURN i",
        "FOR i IN 1..100000 COLLECT k = i RETURN k",
        "LET a = (FOR i IN 1..1000 RETURN 'x') FOR i IN 1..20000 LET b = PUSH(a, i) RETURN b",
    };

    for (size_t i = 0; i < ARRAY_LEN(greedy); i++)
        assert_string_equal(run_with(*state, greedy[i], opt), "32");
}

/* What a sort under LIMIT has read and does not keep is given back. */
static void sorting_for_a_few_rows_needs_little_memory(void **state)
{
    struct world *w = *state;
    struct query_options opt = { .memory_limit = 6 * MIB };

    run(w, "FOR i IN 1..8000 INSERT {_key: TO_STRING(i), n: i, t: REPEAT('0123456789', 100)} "
           "INTO c");
    for (int codec = 0; codec < 2; codec++) {
        opt.through_codec = codec;
        assert_string_equal(
            run_with(w,
                     "FOR d IN c LET m = d.n * 2 SORT m DESC LIMIT 1, 2 RETURN [d.n, m, d.t == "
                     "REPEAT('0123456789', 100), UNSET(d, '_rev', 't')]",
                     opt),
            "[7999,15998,true,{\"_key\":\"7999\",\"_id\":\"c/7999\",\"n\":7999}] "
            "[7998,15996,true,{\"_key\":\"7998\",\"_id\":\"c/7998\",\"n\":7998}]");
        assert_string_equal(
            run_with(w,
                     "FOR i IN 1..3 LET top = (FOR d IN c FILTER d.n % 4 == i SORT d.n LIMIT 2 "
                     "RETURN d) RETURN top[*].n",
                     opt),
            "[1,5] [2,6] [3,7]");
    }
    assert_string_equal(run_with(w, "FOR d IN c SORT d.n LIMIT 7000 RETURN d", opt), "32");
}

/* Rows that nobody keeps are gone with their batch. */
static void what_streams_needs_little_memory(void **state)
{
    struct world *w = *state;
    struct query_options opt = { .memory_limit = 6 * MIB };
    static const char *const rows[][2] = {
        { "FOR i IN 1..100000 SORT -i LIMIT 2 RETURN i", "100000 99999" },
        { "FOR i IN 1..100000 LET s = CONCAT('some text, number ', i) FILTER LENGTH(s) > 5 "
          "COLLECT AGGREGATE n = COUNT(), m = MAX(s) RETURN [n, m]",
          "[100000,\"some text, number 99999\"]" },
        { "FOR d IN c FOR i IN [1, 2, 3] LET t = CONCAT(d.t, i) COLLECT AGGREGATE n = "
          "SUM(LENGTH(t)) "
          "RETURN n",
          "24024000" },
        { "RETURN LENGTH(FOR d IN c LIMIT 7998, 10 RETURN d)", "2" },
        { "FOR i IN 1..100 FOR l IN [1..2000] FOR x IN l COLLECT WITH COUNT INTO n RETURN n",
          "200000" },
        { "FOR d IN c FOR e IN c FILTER e._key == d._key LET s = (FOR f IN c FILTER f._key == "
          "e._key "
          "RETURN f) COLLECT AGGREGATE n = SUM(s[0].n) RETURN n",
          "32004000" },
        { "FOR d IN c RETURN DISTINCT d.n % 3", "1 2 0" },
    };

    run(w, "FOR i IN 1..8000 INSERT {_key: TO_STRING(100000 + i), n: i, t: REPEAT('0123456789', "
           "100)} INTO c");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        opt.through_codec = i % 2;
        assert_string_equal(run_with(w, rows[i][0], opt), rows[i][1]);
    }
}

static void warnings_are_limited_and_may_fail(void **state)
{
    struct world *w = *state;
    struct query *q = NULL;
    enum query_state s;

    assert_int_equal(begin(w, "FOR i IN 1..100 RETURN i / 0", (struct query_options){ 0 }, &q), OK);
    assert_int_equal(query_run(q, &s, &w->err), OK);
    assert_int_equal(query_warning_count(q), 10);
    assert_int_equal(query_warning(q, 9)->num, 1562);
    query_free(q);
    assert_string_equal(
        run_with(w, "INSERT {n: 1 / 0} INTO c", (struct query_options){ .fail_on_warning = true }),
        "1562");
    assert_string_equal(run(w, "FOR d IN c RETURN 1"), "");
}

static const char *repeated(struct world *w, const char *head, const char *one, size_t count,
                            const char *tail)
{
    struct buf text;

    buf_init(&text, 0);
    buf_add_str(&text, head);
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, one, i);
    buf_add_str(&text, tail);
    const char *copy = arena_copy(w->arena, buf_slice(&text)).ptr;
    buf_release(&text);
    return copy;
}

/* As deep and as long as the limits allow, with and without the codec. */
static void large_plans_run(void **state)
{
    struct world *w = *state;

    for (int codec = 0; codec < 2; codec++) {
        struct query_options opt = { .through_codec = codec };
        assert_string_equal(run_with(w, repeated(w, "RETURN 0", " + 1", 450, ""), opt), "450");
        assert_string_equal(
            run_with(w, repeated(w, "", "LET v%zu = 1 ", 3000, "RETURN v2999"), opt), "1");
        assert_string_equal(
            run_with(w, repeated(w, "RETURN -", "(-", 200, repeated(w, "1", ")", 200, "")), opt),
            "-1");
    }
    assert_string_equal(run(w, repeated(w, "", "LET v%zu = 1 ", 5000, "RETURN 1")), "1524");
    assert_string_equal(run(w, repeated(w, "RETURN 0", " + 1", 600, "")), "1524");
}

/* ---- explain, parse only ---- */

static bool has_rule(struct val plan, const char *name)
{
    struct val rules = val_get(plan, slice_str("rules"));

    for (size_t i = 0; i < val_count(rules); i++)
        if (slice_is(val_string(val_at(rules, i)), name))
            return true;
    return false;
}

static void explain_names_what_runs(void **state)
{
    struct world *w = *state;
    struct query *q = NULL;
    struct val out;

    assert_int_equal(begin(w, "FOR d IN c FILTER d._key == 'a' LET x = 1 RETURN [d, x]",
                           (struct query_options){ 0 }, &q),
                     OK);
    assert_int_equal(query_explain(q, w->arena, &out, &w->err), OK);
    query_free(q);
    struct val nodes = val_get(out, slice_str("nodes"));
    struct val scan = val_at(nodes, 1);
    assert_int_equal(val_count(nodes), 4);
    assert_true(slice_is(val_string(val_get(scan, slice_str("type"))), "IndexNode"));
    assert_true(slice_is(val_string(val_get(scan, slice_str("collection"))), "c"));
    assert_true(has_rule(out, "use-indexes"));
    assert_false(has_rule(out, "sort-limit"));
    struct val collection = val_at(val_get(out, slice_str("collections")), 0);
    assert_true(slice_is(val_string(val_get(collection, slice_str("name"))), "c"));
    assert_int_equal(val_count(val_get(out, slice_str("variables"))), 2);
}

static void explain_of_a_large_plan_is_quick(void **state)
{
    struct world *w = *state;
    struct query *q = NULL;
    struct val out;

    assert_int_equal(begin(w, repeated(w, "", "LET v%zu = 1 ", 3900, "RETURN 1"),
                           (struct query_options){ 0 }, &q),
                     OK);
    uint64_t from = env_mono_ms(env_system());
    assert_int_equal(query_explain(q, w->arena, &out, &w->err), OK);
    assert_true(env_mono_ms(env_system()) - from < 5000);
    query_free(q);
}

static void parse_only_lists_what_is_needed(void **state)
{
    struct world *w = *state;
    struct val out;

    assert_int_equal(query_parse_only(slice_str("FOR d IN things FILTER d.a == @a RETURN d.@b"),
                                      w->arena, &out, &w->err),
                     OK);
    assert_int_equal(val_count(val_get(out, slice_str("bindVars"))), 2);
    assert_true(slice_is(val_string(val_at(val_get(out, slice_str("collections")), 0)), "things"));
    assert_int_equal(query_parse_only(slice_str("FOR"), w->arena, &out, &w->err), ERR_INVALID);
    assert_int_equal(error_num(&w->err), 1501);
}

/* ---- damaged plans ---- */

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Any change of the bytes is refused or gives a plan that is well formed. */
static void damaged_plans_are_refused(void **state)
{
    struct world *w = *state;
    struct txn *txn = NULL;
    struct ast *ast;
    struct plan *plan, *copy;
    struct val encoded, read;
    uint64_t seed = 7;
    struct slice text = slice_str("FOR d IN c FILTER d.a > 1 SORT d.b DESC LIMIT 3 "
                                  "COLLECT k = d.x AGGREGATE s = SUM(d.y) INTO g "
                                  "LET t = (FOR i IN 1..3 RETURN [i, k][*])"
                                  "INSERT {k, s, t} INTO c RETURN NEW");

    assert_int_equal(txn_begin(&txn, w->store, &(struct txn_options){ 0 }, &w->err), OK);
    struct planner_env env = { .txn = txn, .db_id = 1, .env = env_system() };
    assert_int_equal(aql_parse(text, w->arena, &ast, &w->err), OK);
    assert_int_equal(plan_make(ast, text, val_null, &env, w->arena, &plan, &w->err), OK);
    assert_int_equal(plan_encode(plan, w->arena, &encoded, &w->err), OK);
    struct slice bytes = val_bytes(encoded);
    for (int i = 0; i < 20000; i++) {
        struct arena *arena = arena_new(0);
        char *damaged = mem_alloc(bytes.len); /* of its own: reads behind it are found */
        memcpy(damaged, bytes.ptr, bytes.len);
        for (uint64_t n = 1 + next_random(&seed) % 3; n > 0; n--)
            damaged[next_random(&seed) % bytes.len] = (char)next_random(&seed);
        if (val_validate(slice_of(damaged, bytes.len), &read, &w->err) == OK &&
            plan_decode(read, arena, &copy, &w->err) == OK) {
            struct val again;
            assert_int_equal(plan_encode(copy, arena, &again, &w->err), OK);
        }
        mem_free(damaged);
        arena_free(arena);
    }
    txn_end(txn);
}

static double guessed_rows(struct world *w, const char *text)
{
    struct query *q = NULL;
    struct val out;

    assert_int_equal(query_new(&q, &w->env, slice_str(text), val_null,
                               &(struct query_options){ .db_id = 1 }, &w->err),
                     OK);
    assert_int_equal(query_explain(q, w->arena, &out, &w->err), OK);
    double rows = val_double(val_get(out, slice_str("estimatedNrItems")));
    query_free(q);
    return rows;
}

static void explain_guesses_from_the_index(void **state)
{
    struct world *w = *state;
    struct val def, names[2];
    uint64_t id = 0, index;
    bool is_new;

    struct collection_options c = { .name = slice_str("indexed"),
                                    .type = COLLECTION_DOCUMENT,
                                    .allow_user_keys = true };
    assert_int_equal(store_create_collection(w->store, 1, &c, &id, &w->err), OK);
    names[0] = val_new_string(w->arena, slice_str("persistent"));
    names[1] = val_new_string(w->arena, slice_str("a"));
    names[1] = val_new_array(w->arena, &names[1], 1);
    def = val_new_object(w->arena, (struct slice[]){ slice_str("type"), slice_str("fields") },
                         names, 2);
    assert_int_equal(store_create_index(w->store, id, def, &index, &is_new, &w->err), OK);
    run(w, "FOR i IN 1..1000 INSERT {a: i <= 500 ? i % 50 : 'x', b: i} INTO indexed");

    assert_true(guessed_rows(w, "FOR d IN indexed RETURN d") == 1000);
    assert_true(guessed_rows(w, "FOR d IN indexed FILTER d.a == 3 RETURN d") == 10);
    assert_true(guessed_rows(w, "FOR d IN indexed FILTER d.a IN [3, 4, 99] RETURN d") == 20);
    assert_true(guessed_rows(w, "FOR d IN indexed FILTER d.a < 2 RETURN d") == 20);
    assert_true(guessed_rows(w, "FOR d IN indexed FILTER d._key == 'x' RETURN d") == 1);
    double many = guessed_rows(w, "FOR d IN indexed FILTER d.a == 'x' RETURN d");
    assert_true(many > 250 && many < 1000);
    double joined = guessed_rows(w, "FOR d IN indexed FILTER d.a == NOOPT(3) RETURN d");
    assert_true(joined >= 5 && joined <= 20);
}

/* Nodes and variables of one plan. */
static void a_plan_has_limits(void **state)
{
    struct world *w = *state;
    struct query_env env = { .store = w->store, .env = env_system() };
    struct query_options opt = { .db_id = 1 };

    for (int i = 0; i < 2; i++) {
        struct error err = { 0 };
        struct query *q = NULL;
        struct buf text;
        buf_init(&text, 0);
        for (int n = 0; n < 4100; n++)
            buf_printf(&text, i ? "LET x%d = 1 " : "FILTER %d ", n);
        buf_add_str(&text, "RETURN 1");
        assert_int_not_equal(query_new(&q, &env, buf_slice(&text), val_null, &opt, &err), OK);
        assert_int_equal(error_num(&err), 1524);
        buf_release(&text);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(own_transaction_is_committed),
        TEST(failed_query_writes_nothing),
        TEST(given_transaction_is_left_open),
        TEST(conflict_is_tried_again),
        TEST(conflict_in_a_given_transaction_is_reported),
        TEST(waiting_query_is_woken_once_per_batch),
        TEST(failing_model_fails_the_query),
        TEST(cancelled_while_waiting_ends_with_1500),
        TEST(answers_from_another_thread_are_seen),
        TEST(unused_branches_call_no_model),
        TEST(cancel_stops_a_running_query),
        TEST(long_query_is_stopped),
        TEST(memory_is_limited),
        TEST(sorting_for_a_few_rows_needs_little_memory),
        TEST(what_streams_needs_little_memory),
        TEST(warnings_are_limited_and_may_fail),
        TEST(large_plans_run),
        TEST(explain_names_what_runs),
        TEST(explain_of_a_large_plan_is_quick),
        TEST(parse_only_lists_what_is_needed),
        TEST(explain_guesses_from_the_index),
        TEST(a_plan_has_limits),
        TEST(damaged_plans_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
