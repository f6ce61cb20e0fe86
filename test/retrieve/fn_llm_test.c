/* SPDX-License-Identifier: Apache-2.0 */
/* INFER and EMBED over batches: order, windows, full queues, cancel, errors. */
#include "base/val_text.h"
#include "fake_generator.h"
#include "retrieve/rag.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>
#undef fail /* ours is a function */

enum { ROWS_MAX = 200 };

/* A batch with what the query would own. */
struct batch {
    struct call_batch b; /* first */
    struct call_row rows[ROWS_MAX];
    int done_count;
};

struct fixture {
    struct fake_generator fake;
    struct rag_calls *calls; /* with a line of its own for each test */
    const struct batch_call *infer, *embed;
    struct arena *arena;
    struct batch one, two;
    atomic_bool cancel;
};

static void on_done(struct call_batch *b)
{
    ((struct batch *)b)->done_count++;
}

static int set_up(void **state)
{
    struct fixture *f = mem_zalloc(sizeof *f);

    fake_init(&f->fake);
    f->calls = rag_calls_new(&f->fake.g);
    f->infer = rag_calls_infer(f->calls);
    f->embed = rag_calls_embed(f->calls);
    f->arena = arena_new(0);
    for (int i = 0; i < 2; i++) {
        struct batch *batch = i ? &f->two : &f->one;
        batch->b =
            (struct call_batch){ .rows = batch->rows, .cancel = &f->cancel, .done = on_done };
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < ROWS_MAX; i++) {
        buf_release(&f->one.rows[i].result);
        buf_release(&f->two.rows[i].result);
    }
    rag_calls_free(f->calls);
    arena_free(f->arena);
    mem_free(f);
    return 0;
}

static struct val parse(struct fixture *f, const char *json)
{
    struct val v;
    struct error err;
    assert_int_equal(val_parse(slice_str(json), f->arena, &v, &err), OK);
    return v;
}

static void add(struct fixture *f, struct batch *batch, const char *prompt, const char *options)
{
    struct call_row *row = &batch->rows[batch->b.count++];
    row->args[0] = parse(f, "\"m\"");
    row->args[1] = parse(f, prompt);
    row->args[2] = parse(f, options);
}

/* Adds rows with the prompts "p0", "p1", ... */
static void add_many(struct fixture *f, struct batch *batch, int count, char letter)
{
    char prompt[32];
    for (int i = 0; i < count; i++) {
        snprintf(prompt, sizeof prompt, "\"%c%d\"", letter, i);
        add(f, batch, prompt, "null");
    }
}

static void start(struct fixture *f, struct batch *batch)
{
    struct error err;
    assert_int_equal(f->infer->start(f->infer, &batch->b, &err), OK);
}

static void answer_all(struct fixture *f)
{
    for (long i; (i = fake_first_open(&f->fake)) >= 0;)
        fake_answer(&f->fake, (size_t)i, f->fake.calls[i].prompt);
}

static void assert_result(const struct call_row *row, const char *text)
{
    struct val v;
    struct error err;

    assert_int_equal(row->err.code, OK);
    if (!text) {
        assert_int_equal(row->result.len, 0);
        return;
    }
    assert_int_equal(val_validate(buf_slice(&row->result), &v, &err), OK);
    assert_true(slice_is(val_string(v), text));
}

static void answers_stand_in_the_order_of_the_rows(void **state)
{
    struct fixture *f = *state;
    char text[32];

    add_many(f, &f->one, 100, 'p');
    start(f, &f->one);
    assert_in_range(f->fake.open, 16, 64);
    while (f->fake.open > 0) /* the last first */
        for (size_t i = f->fake.count; i-- > 0;)
            if (f->fake.calls[i].is_open) {
                fake_answer(&f->fake, i, f->fake.calls[i].prompt);
                break;
            }
    assert_int_equal(f->one.done_count, 1);
    assert_in_range(f->fake.most_open, 16, 64);
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "p%d", i);
        assert_result(&f->one.rows[i], text);
    }
}

static void null_prompts_give_null_and_cost_nothing(void **state)
{
    struct fixture *f = *state;

    add(f, &f->one, "null", "null");
    add(f, &f->one, "\"x\"", "null");
    add(f, &f->one, "null", "{}");
    start(f, &f->one);
    assert_int_equal(f->fake.count, 1);
    answer_all(f);
    assert_int_equal(f->one.done_count, 1);
    assert_result(&f->one.rows[0], NULL);
    assert_result(&f->one.rows[1], "x");
    assert_result(&f->one.rows[2], NULL);
}

static void a_batch_without_work_is_done_at_once(void **state)
{
    struct fixture *f = *state;

    start(f, &f->one);
    assert_int_equal(f->one.done_count, 1);
    add(f, &f->two, "null", "null");
    start(f, &f->two);
    assert_int_equal(f->two.done_count, 1);
}

static void equal_greedy_prompts_are_computed_once(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 5; i++)
        add(f, &f->one, "\"same\"", "{\"max_tokens\": 3}");
    add(f, &f->one, "\"same\"", "{\"max_tokens\": 4}");
    add(f, &f->one, "\"same\"", "{\"temperature\": 0.5}");
    add(f, &f->one, "\"same\"", "{\"temperature\": 0.5}");
    start(f, &f->one);
    answer_all(f);
    assert_int_equal(f->one.done_count, 1);
    assert_int_equal(f->fake.count, 4);
    for (int i = 0; i < 8; i++)
        assert_result(&f->one.rows[i], "same");
}

static void options_reach_the_generator(void **state)
{
    struct fixture *f = *state;
    const struct gen_request *req = &f->fake.calls[0].req;

    add(f, &f->one, "\"x\"",
        "{\"domain\":\"legal\",\"adapter\":\"a\",\"max_tokens\":7,\"temperature\":0.25,\"seed\":42,"
        "\"system\":\"Be "
        "brief.\",\"stop\":[\"\\n\",\"END\"],\"top_p\":0.9,\"top_k\":5,\"min_p\":null}");
    start(f, &f->one);
    assert_int_equal(f->fake.count, 1);
    assert_int_equal(req->max_tokens, 7);
    assert_true(req->sampling.temperature == 0.25 && req->sampling.top_p == 0.9);
    assert_int_equal(req->sampling.top_k, 5);
    assert_true(req->sampling.has_seed && req->sampling.seed == 42);
    assert_int_equal(req->stop_count, 2);
    answer_all(f);
    assert_result(&f->one.rows[0], "x");
}

static void assert_row_error(struct fixture *f, const char *prompt, const char *options, int num,
                             const char *part)
{
    struct batch *batch = &f->one;

    batch->b.count = 0;
    batch->done_count = 0;
    batch->rows[0] = (struct call_row){ 0 };
    add(f, batch, prompt, options);
    start(f, batch);
    assert_int_equal(batch->done_count, 1);
    assert_int_equal(error_num(&batch->rows[0].err), num);
    assert_non_null(strstr(batch->rows[0].err.text, part));
}

static void wrong_arguments_say_what_is_allowed(void **state)
{
    struct fixture *f = *state;

    assert_row_error(f, "5", "null", 1542, "prompt must be a string, not number");
    assert_row_error(f, "\"x\"", "[1]", 1542, "must be an object");
    assert_row_error(f, "\"x\"", "{\"max_tokens\": \"9\"}", 1542, "'max_tokens' must be a number");
    assert_row_error(f, "\"x\"", "{\"temperature\": -1}", 1504, "allowed is 0 to");
    assert_row_error(f, "\"x\"", "{\"stop\": [1]}", 1542, "'stop'");
    assert_row_error(f, "\"x\"", "{\"temprature\": 1}", 10,
                     "'temprature'; allowed are adapter, domain");
    assert_int_equal(f->fake.count, 0);
}

static void an_error_stops_the_batch_and_reports_once(void **state)
{
    struct fixture *f = *state;
    struct error err;

    add_many(f, &f->one, 100, 'p');
    start(f, &f->one);
    (void)fail(&err, ERR_INTERNAL, "broken");
    fake_fail(&f->fake, 3, &err);
    answer_all(f);
    assert_int_equal(f->one.done_count, 1);
    assert_in_range(f->fake.count, 16, 64);
    assert_int_equal(f->one.rows[3].err.code, ERR_INTERNAL);
}

static void a_full_queue_waits_for_own_rows(void **state)
{
    struct fixture *f = *state;

    f->fake.room = 3;
    add_many(f, &f->one, 50, 'p');
    start(f, &f->one);
    assert_int_equal(f->fake.open, 3);
    assert_int_equal(f->one.done_count, 0);
    answer_all(f);
    assert_int_equal(f->one.done_count, 1);
    assert_int_equal(f->fake.count, 50);
    assert_result(&f->one.rows[49], "p49");
}

static void a_full_queue_waits_for_rows_of_others(void **state)
{
    struct fixture *f = *state;

    f->fake.room = 2;
    add_many(f, &f->one, 20, 'a');
    add_many(f, &f->two, 20, 'b');
    start(f, &f->one);
    start(f, &f->two);
    assert_int_equal(f->two.done_count, 0);
    assert_int_equal(f->two.rows[0].err.code, OK);
    fake_answer(&f->fake, 0, "a0");
    assert_string_equal(f->fake.calls[2].prompt, "b0"); /* the one in the line comes first */
    answer_all(f);
    assert_int_equal(f->one.done_count, 1);
    assert_int_equal(f->two.done_count, 1);
    assert_result(&f->one.rows[19], "a19");
    assert_result(&f->two.rows[19], "b19");
}

static void a_queue_full_of_strangers_is_an_error(void **state)
{
    struct fixture *f = *state;

    f->fake.room = 0;
    add_many(f, &f->one, 5, 'p');
    start(f, &f->one);
    assert_int_equal(f->one.done_count, 1);
    assert_int_equal(f->one.rows[0].err.code, ERR_BUSY);
}

/* Rows at one generator make no room at another: nobody would wake the batch. */
static void each_generator_has_a_line_of_its_own(void **state)
{
    struct fixture *f = *state;
    struct fake_generator *other = mem_zalloc(sizeof *other);
    struct rag_calls *calls;
    struct error err;

    fake_init(other);
    other->room = 0;
    calls = rag_calls_new(&other->g);
    add_many(f, &f->one, 2, 'a');
    add_many(f, &f->two, 2, 'b');
    start(f, &f->one);
    assert_int_equal(rag_calls_infer(calls)->start(rag_calls_infer(calls), &f->two.b, &err), OK);
    assert_int_equal(f->one.done_count, 0);
    assert_int_equal(f->two.done_count, 1);
    assert_int_equal(f->two.rows[0].err.code, ERR_BUSY);
    answer_all(f);
    assert_int_equal(f->one.done_count, 1);
    rag_calls_free(calls);
    mem_free(other);
}

static void waiting_batches_end_when_nothing_runs_any_more(void **state)
{
    struct fixture *f = *state;

    f->fake.room = 1;
    add_many(f, &f->one, 3, 'a');
    add_many(f, &f->two, 3, 'b');
    start(f, &f->one);
    start(f, &f->two);
    f->fake.room = 0; /* strangers take all the room */
    fake_answer(&f->fake, 0, "a0");
    assert_int_equal(f->one.done_count, 1);
    assert_int_equal(f->two.done_count, 1);
    assert_int_equal(f->one.rows[1].err.code, ERR_BUSY);
    assert_int_equal(f->two.rows[0].err.code, ERR_BUSY);
}

static void cancel_ends_the_batch_with_1500(void **state)
{
    struct fixture *f = *state;

    add_many(f, &f->one, 100, 'p');
    start(f, &f->one);
    atomic_store(&f->cancel, true);
    answer_all(f);
    assert_int_equal(f->one.done_count, 1);
    assert_in_range(f->fake.count, 16, 64);
    assert_int_equal(error_num(&f->one.rows[0].err), 1500);
    add_many(f, &f->two, 3, 'q');
    start(f, &f->two); /* cancelled before it began */
    assert_int_equal(f->two.done_count, 1);
    assert_int_equal(error_num(&f->two.rows[0].err), 1500);
}

static void cancel_reaches_a_batch_in_the_line(void **state)
{
    struct fixture *f = *state;

    f->fake.room = 1;
    add_many(f, &f->one, 2, 'a');
    add_many(f, &f->two, 2, 'b');
    start(f, &f->one);
    start(f, &f->two);
    atomic_store(&f->cancel, true);
    answer_all(f);
    assert_int_equal(f->one.done_count, 1);
    assert_int_equal(f->two.done_count, 1);
}

static void answers_from_within_submit_are_taken(void **state)
{
    struct fixture *f = *state;

    f->fake.answers_inside = true;
    add_many(f, &f->one, 150, 'p');
    start(f, &f->one);
    assert_int_equal(f->one.done_count, 1);
    assert_result(&f->one.rows[149], "p149");
}

static void embed_asks_once_per_model(void **state)
{
    struct fixture *f = *state;
    struct error err;
    struct val v;
    float vector[FAKE_DIMENSION];

    f->fake.answers_inside = true;
    for (int i = 0; i < 6; i++)
        add(f, &f->one, i == 2 ? "null" : "\"text\"", "null");
    f->one.rows[4].args[0] = val_null;
    assert_int_equal(f->embed->start(f->embed, &f->one.b, &err), OK);
    assert_int_equal(f->one.done_count, 1);
    assert_int_equal(f->fake.count, 2);
    assert_int_equal(f->one.rows[2].result.len, 0);
    assert_int_equal(val_validate(buf_slice(&f->one.rows[4].result), &v, &err), OK);
    assert_int_equal(val_floats(v, vector, FAKE_DIMENSION), FAKE_DIMENSION);
    assert_true(vector[0] == 4 && vector[3] == 3);
}

static void embed_reports_errors(void **state)
{
    struct fixture *f = *state;
    struct error err, why;

    add(f, &f->one, "5", "null");
    assert_int_equal(f->embed->start(f->embed, &f->one.b, &err), OK);
    assert_int_equal(f->one.done_count, 1);
    assert_int_equal(error_num(&f->one.rows[0].err), 1542);

    f->fake.room = 0;
    add(f, &f->two, "\"x\"", "null");
    assert_int_equal(f->embed->start(f->embed, &f->two.b, &err), OK);
    assert_int_equal(f->two.done_count, 1);
    assert_int_equal(f->two.rows[0].err.code, ERR_BUSY);

    f->fake.room = 1;
    f->two.done_count = 0;
    f->two.rows[0].err.code = OK;
    assert_int_equal(f->embed->start(f->embed, &f->two.b, &err), OK);
    assert_int_equal(f->two.done_count, 0);
    (void)fail(&why, ERR_GONE, "cancelled");
    fake_embed_answer(&f->fake, 0, &why);
    assert_int_equal(f->two.done_count, 1);
    assert_int_equal(f->two.rows[0].err.code, ERR_GONE);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(answers_stand_in_the_order_of_the_rows),
        WITH_FIXTURE(null_prompts_give_null_and_cost_nothing),
        WITH_FIXTURE(a_batch_without_work_is_done_at_once),
        WITH_FIXTURE(equal_greedy_prompts_are_computed_once),
        WITH_FIXTURE(options_reach_the_generator),
        WITH_FIXTURE(wrong_arguments_say_what_is_allowed),
        WITH_FIXTURE(an_error_stops_the_batch_and_reports_once),
        WITH_FIXTURE(a_full_queue_waits_for_own_rows),
        WITH_FIXTURE(a_full_queue_waits_for_rows_of_others),
        WITH_FIXTURE(a_queue_full_of_strangers_is_an_error),
        WITH_FIXTURE(each_generator_has_a_line_of_its_own),
        WITH_FIXTURE(waiting_batches_end_when_nothing_runs_any_more),
        WITH_FIXTURE(cancel_ends_the_batch_with_1500),
        WITH_FIXTURE(cancel_reaches_a_batch_in_the_line),
        WITH_FIXTURE(answers_from_within_submit_are_taken),
        WITH_FIXTURE(embed_asks_once_per_model),
        WITH_FIXTURE(embed_reports_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
