/* SPDX-License-Identifier: Apache-2.0 */
/* Log-probabilities: the numbers, their order, and that they go with the text. */
#include "collect.h"
#include "model/logprob.h"

#include <math.h>

static struct engine *engine;

static int open_engine(void **state)
{
    struct error err;
    (void)state;
    return engine_sim_open(&engine, "chat", &err) != OK;
}

static int close_engine(void **state)
{
    (void)state;
    engine_free(engine);
    return 0;
}

static float *flat(void)
{
    float *logits = malloc(engine->info.vocab_size * sizeof *logits);
    for (uint32_t i = 0; i < engine->info.vocab_size; i++)
        logits[i] = -INFINITY;
    return logits;
}

static void they_are_log_softmax_best_first(void **state)
{
    (void)state;
    float *logits = flat();
    struct logprobs l;
    struct gen_token t;
    logits['a'] = 1;
    logits['b'] = 3;
    logits['c'] = 2;
    logits['d'] = 3;
    logprobs_init(&l, true, 3);
    logprobs_add(&l, engine, logits, 'c');
    double sum = exp(1) + exp(3) + exp(2) + exp(3);
    struct slice rest = logprobs_take(&l, 1);
    assert_true(gen_token_next(&rest, &t));
    assert_int_equal(t.id, 'c');
    assert_true(slice_is(t.bytes, "c"));
    assert_int_equal(t.alternatives, 3);
    assert_true(fabs(t.logprob - log(exp(2) / sum)) < 1e-6);
    static const char order[] = "bdc"; /* of equal ones the lower id */
    for (int i = 0; i < 3; i++) {
        assert_true(gen_token_next(&rest, &t));
        assert_int_equal(t.id, order[i]);
        assert_true(fabs(t.logprob - log(exp(logits[(int)order[i]]) / sum)) < 1e-6);
    }
    assert_false(gen_token_next(&rest, &t));
    logprobs_add(&l, engine, logits, 'z'); /* forced, although the model forbids it */
    rest = logprobs_take(&l, 2);
    assert_true(gen_token_next(&rest, &t));
    assert_true(isinf(t.logprob) && t.logprob < 0);
    logprobs_release(&l);
    free(logits);
}

static void large_logits_do_not_overflow(void **state)
{
    (void)state;
    float *logits = flat();
    struct logprobs l;
    struct gen_token t;
    logits['a'] = 30000;
    logits['b'] = 29999;
    logprobs_init(&l, true, 0);
    logprobs_add(&l, engine, logits, 'a');
    struct slice rest = logprobs_take(&l, 1);
    assert_true(gen_token_next(&rest, &t));
    assert_true(fabs(t.logprob + log1p(exp(-1))) < 1e-3);
    logprobs_release(&l);
    free(logits);
}

static void they_wait_for_their_text(void **state)
{
    (void)state;
    float *logits = flat();
    struct logprobs l;
    struct gen_token t;
    logits['a'] = 0;
    logprobs_init(&l, true, 0);
    for (int i = 0; i < 3; i++)
        logprobs_add(&l, engine, logits, 'a' + i);
    assert_int_equal(logprobs_take(&l, 0).len, 0);
    struct slice rest = logprobs_take(&l, 2);
    assert_true(gen_token_next(&rest, &t) && t.id == 'a');
    assert_true(gen_token_next(&rest, &t) && t.id == 'b');
    assert_false(gen_token_next(&rest, &t));
    rest = logprobs_take(&l, 3);
    assert_true(gen_token_next(&rest, &t) && t.id == 'c');
    logprobs_release(&l);
    free(logits);
}

/* ---- in a generation ---- */

struct taken {
    struct collect c;
    struct buf bytes; /* of the tokens */
    uint32_t count;
};

static void take_event(void *ctx, const struct gen_event *e)
{
    struct taken *k = ctx;
    struct slice rest = e->tokens;
    struct gen_token t;
    while (gen_token_next(&rest, &t)) {
        buf_add_slice(&k->bytes, t.bytes);
        k->count++;
        assert_int_equal(t.alternatives, 2);
        for (int i = 0; i < 2; i++)
            assert_true(gen_token_next(&rest, &t));
    }
    collect_event(&k->c, e);
}

static void generate(struct models *m, struct taken *k, const struct slice *stop)
{
    collect_init(&k->c);
    buf_init(&k->bytes, 0);
    k->count = 0;
    struct gen_request r = collect_request(&k->c, "x");
    r.on_event = take_event;
    r.ctx = k;
    r.wants_logprobs = true;
    r.top_logprobs = 2;
    r.stops = stop;
    r.stop_count = stop != NULL;
    submit(m, &r);
    collect_last(&k->c);
}

static void taken_release(struct taken *k)
{
    collect_release(&k->c);
    buf_release(&k->bytes);
}

static void tokens_of_an_answer_are_its_text(void **state)
{
    (void)state;
    struct models *m = models_with(NULL);
    struct taken k;
    struct slice stop = slice_str("three fo");
    load(m, "a", "sim:chat,script=one \xe2\x82\xac two three four");
    generate(m, &k, NULL);
    assert_string_equal(buf_cstr(&k.bytes), collect_text(&k.c));
    assert_string_equal(buf_cstr(&k.bytes), "one \xe2\x82\xac two three four");
    assert_int_equal(k.count, k.c.last.completion_tokens);
    taken_release(&k);
    generate(m, &k, &stop); /* " three" begins before the stop text, so it is told, whole */
    assert_string_equal(collect_text(&k.c), "one \xe2\x82\xac two ");
    assert_string_equal(buf_cstr(&k.bytes), "one \xe2\x82\xac two three");
    taken_release(&k);
    models_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_log_softmax_best_first),
        cmocka_unit_test(large_logits_do_not_overflow),
        cmocka_unit_test(they_wait_for_their_text),
        cmocka_unit_test(tokens_of_an_answer_are_its_text),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
