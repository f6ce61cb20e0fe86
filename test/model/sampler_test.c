/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler on scripted logits: exact sets, and distributions by chi-square with fixed seeds. */
#include "model/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { DRAWS = 20000, SMALL = 8, LARGE = 2000 };

static const float small[SMALL] = { 1.0f, 0.5f, 0.0f, -0.5f, 2.0f, -1.0f, 1.5f, -3.0f };

static int32_t pick_once(const struct gen_sampling *conf, const float *logits, uint32_t n)
{
    struct sampler *s = sampler_new(conf, 1);
    int32_t id = sampler_pick(s, logits, n);
    sampler_free(s);
    return id;
}

static void count_draws(const struct gen_sampling *conf, const float *logits, uint32_t n,
                        uint32_t *counts)
{
    struct sampler *s = sampler_new(conf, 42);
    memset(counts, 0, n * sizeof *counts);
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = sampler_pick(s, logits, n);
        assert_in_range(id, 0, n - 1);
        counts[id]++;
    }
    sampler_free(s);
}

/* p need not be normalised. Bound: about p = 1e-4 for up to 7 degrees of freedom. */
static void assert_distribution(const uint32_t *counts, const double *p, uint32_t n)
{
    double sum = 0, chi = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += p[i];
    for (uint32_t i = 0; i < n; i++) {
        double expected = p[i] / sum * DRAWS;
        if (p[i] == 0) {
            assert_int_equal(counts[i], 0);
            continue;
        }
        chi += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    if (chi > 29.9)
        fail_msg("chi-square %f", chi);
}

static void zero_temperature_takes_the_largest(void **state)
{
    (void)state;
    struct gen_sampling conf = gen_sampling_default();
    float equal[4] = { 1, 3, 3, 2 };
    conf.temperature = 0;
    assert_int_equal(pick_once(&conf, small, SMALL), 4);
    assert_int_equal(pick_once(&conf, equal, 4), 1);
}

static void bad_logits_are_never_picked(void **state)
{
    (void)state;
    struct gen_sampling conf = gen_sampling_default();
    float some[4] = { NAN, -INFINITY, 0.5f, NAN };
    float none[3] = { NAN, -INFINITY, NAN };
    for (int k = 0; k < 3; k++) {
        conf.temperature = k == 0 ? 0 : 1;
        conf.top_k = k == 2 ? 2 : 0;
        assert_int_equal(pick_once(&conf, some, 4), 2);
        assert_int_equal(pick_once(&conf, none, 3), -1);
    }
}

static void softmax_is_drawn_exactly(void **state)
{
    (void)state;
    static const double temperatures[] = { 0.5, 1, 2 };
    for (size_t t = 0; t < ARRAY_LEN(temperatures); t++) {
        struct gen_sampling conf = gen_sampling_default();
        uint32_t counts[SMALL];
        double p[SMALL];
        conf.temperature = temperatures[t];
        for (int i = 0; i < SMALL; i++)
            p[i] = exp(small[i] / conf.temperature);
        count_draws(&conf, small, SMALL, counts);
        assert_distribution(counts, p, SMALL);
    }
}

static void top_k_keeps_the_k_best(void **state)
{
    (void)state;
    struct gen_sampling conf = gen_sampling_default();
    uint32_t counts[SMALL];
    double p[SMALL] = { 0 };
    conf.top_k = 3; /* ids 4, 6, 0 */
    p[4] = exp(2);
    p[6] = exp(1.5);
    p[0] = exp(1);
    count_draws(&conf, small, SMALL, counts);
    assert_distribution(counts, p, SMALL);
}

static void top_p_keeps_the_smallest_set_that_holds_the_mass(void **state)
{
    (void)state;
    struct gen_sampling conf = gen_sampling_default();
    float logits[4];
    static const double mass[4] = { 0.5, 0.3, 0.15, 0.05 };
    uint32_t counts[4];
    for (int i = 0; i < 4; i++)
        logits[i] = (float)log(mass[i]);
    conf.top_p = 0.75;
    double p[4] = { 0.5, 0.3, 0, 0 };
    count_draws(&conf, logits, 4, counts);
    assert_distribution(counts, p, 4);
    conf.top_p = 0.9;
    p[2] = 0.15;
    count_draws(&conf, logits, 4, counts);
    assert_distribution(counts, p, 4);
    conf.top_p = 0; /* the best alone */
    assert_int_equal(pick_once(&conf, logits, 4), 0);
}

static void min_p_drops_what_is_far_from_the_best(void **state)
{
    (void)state;
    struct gen_sampling conf = gen_sampling_default();
    float logits[4];
    static const double mass[4] = { 0.5, 0.3, 0.15, 0.05 };
    uint32_t counts[4];
    double p[4] = { 0.5, 0.3, 0.15, 0 };
    for (int i = 0; i < 4; i++)
        logits[i] = (float)log(mass[i]);
    conf.min_p = 0.2; /* of the best: 0.1 */
    count_draws(&conf, logits, 4, counts);
    assert_distribution(counts, p, 4);
}

/* The set that top-p keeps, by sorting everything. */
static uint32_t nucleus_by_hand(const float *logits, double top_p, bool *is_kept)
{
    bool is_taken[LARGE] = { false };
    double all = 0, sum = 0;
    uint32_t count = 0;
    for (int i = 0; i < LARGE; i++)
        all += exp(logits[i]);
    memset(is_kept, 0, LARGE * sizeof *is_kept);
    while (sum < top_p * all && count < LARGE) {
        int best = -1;
        for (int i = 0; i < LARGE; i++) {
            if (!is_taken[i] && (best < 0 || logits[i] > logits[best]))
                best = i;
        }
        is_taken[best] = is_kept[best] = true;
        sum += exp(logits[best]);
        count++;
    }
    return count;
}

static void top_p_is_right_for_large_vocabularies(void **state)
{
    (void)state;
    static float logits[LARGE];
    static bool is_kept[LARGE];
    static const double spreads[] = { 0.5, 8 }; /* wide nucleus, narrow nucleus */
    srand(7);
    for (size_t k = 0; k < ARRAY_LEN(spreads); k++) {
        struct gen_sampling conf = gen_sampling_default();
        conf.top_p = 0.8;
        for (int i = 0; i < LARGE; i++)
            logits[i] = (float)(spreads[k] * rand() / RAND_MAX);
        uint32_t kept = nucleus_by_hand(logits, conf.top_p, is_kept);
        struct sampler *s = sampler_new(&conf, 5);
        uint32_t distinct = 0;
        static bool is_seen[LARGE];
        memset(is_seen, 0, sizeof is_seen);
        for (int i = 0; i < 1500; i++) {
            int32_t id = sampler_pick(s, logits, LARGE);
            assert_true(is_kept[id]);
            distinct += !is_seen[id];
            is_seen[id] = true;
        }
        assert_true(distinct > kept / 8);
        sampler_free(s);
    }
}

static void a_seed_repeats_and_another_differs(void **state)
{
    (void)state;
    struct gen_sampling conf = gen_sampling_default();
    int32_t a[64], b[64], c[64];
    for (int k = 0; k < 3; k++) {
        conf.has_seed = true;
        conf.seed = k < 2 ? 11 : 12;
        int32_t *out = k == 0 ? a : k == 1 ? b : c;
        struct sampler *s = sampler_new(&conf, (uint64_t)k);
        for (int i = 0; i < 64; i++)
            out[i] = sampler_pick(s, small, SMALL);
        sampler_free(s);
    }
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
}

static void penalties_change_the_order(void **state)
{
    (void)state;
    struct gen_sampling conf = gen_sampling_default();
    float logits[4] = { 4, 3.5f, 3, -1 };
    int32_t prompt[2] = { 0, 1 };
    conf.temperature = 0;

    conf.repeat_penalty = 2; /* 4 -> 2, 3.5 -> 1.75 */
    struct sampler *s = sampler_new(&conf, 1);
    sampler_see_prompt(s, prompt, 2);
    assert_int_equal(sampler_pick(s, logits, 4), 2);
    assert_int_equal(sampler_pick(s, logits, 4), 0); /* now 2 has 1.5 */
    sampler_free(s);

    conf.repeat_penalty = 1;
    conf.presence_penalty = 0.7; /* once per token, generated ones only */
    s = sampler_new(&conf, 1);
    sampler_see_prompt(s, prompt, 2);
    static const int32_t by_presence[] = { 0, 1, 0, 0 };
    for (int i = 0; i < 4; i++)
        assert_int_equal(sampler_pick(s, logits, 4), by_presence[i]);
    sampler_free(s);

    conf.presence_penalty = 0;
    conf.frequency_penalty = 0.3; /* per occurrence */
    s = sampler_new(&conf, 1);
    static const int32_t by_frequency[] = { 0, 0, 1, 0, 1, 0 }; /* 4 3.7 3.4<3.5 */
    for (int i = 0; i < 6; i++)
        assert_int_equal(sampler_pick(s, logits, 4), by_frequency[i]);
    sampler_free(s);
}

static void bias_is_added_forbids_and_forces(void **state)
{
    (void)state;
    struct gen_sampling conf = gen_sampling_default();
    struct error err;
    float logits[4] = { 4, 3.5f, 3, -1 };
    struct gen_bias bias[2] = { { 0, -0.75f }, { 3, 1 } };
    conf.temperature = 0;
    conf.bias = bias;
    conf.bias_count = 2;
    struct sampler *s = sampler_new(&conf, 1);
    bias[0].bias = 100; /* it has a copy */
    assert_int_equal(sampler_pick(s, logits, 4), 1);
    assert_true(logits[0] == 4); /* the model's own stay as they are */
    sampler_free(s);

    conf.temperature = 1;
    bias[0] = (struct gen_bias){ 0, -100 };
    bias[1] = (struct gen_bias){ 1, -100 };
    s = sampler_new(&conf, 1);
    for (int i = 0; i < 200; i++)
        assert_true(sampler_pick(s, logits, 4) >= 2);
    sampler_free(s);
    bias[1] = (struct gen_bias){ 3, 100 };
    s = sampler_new(&conf, 1);
    for (int i = 0; i < 200; i++)
        assert_int_equal(sampler_pick(s, logits, 4), 3);
    sampler_free(s);

    assert_int_equal(sampling_check(&conf, 4, &err), OK);
    assert_int_equal(sampling_check(&conf, 3, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "token 3 is not one of the model's 3"));
    bias[0].bias = -101;
    assert_int_equal(sampling_check(&conf, 4, &err), ERR_INVALID);
    bias[0].bias = NAN;
    assert_int_equal(sampling_check(&conf, 4, &err), ERR_INVALID);
    conf.bias_count = GEN_BIAS_MAX + 1;
    assert_int_equal(sampling_check(&conf, 4, &err), ERR_INVALID);
}

static void values_out_of_range_are_refused(void **state)
{
    (void)state;
    struct error err;
    struct gen_sampling conf = gen_sampling_default();
    assert_int_equal(sampling_check(&conf, 1000, &err), OK);
    conf.temperature = -1;
    assert_int_equal(sampling_check(&conf, 1000, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "temperature"));
    conf.temperature = NAN;
    assert_int_equal(sampling_check(&conf, 1000, &err), ERR_INVALID);
    conf = gen_sampling_default();
    conf.top_p = 1.5;
    assert_int_equal(sampling_check(&conf, 1000, &err), ERR_INVALID);
    conf = gen_sampling_default();
    conf.repeat_penalty = 0;
    assert_int_equal(sampling_check(&conf, 1000, &err), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_temperature_takes_the_largest),
        cmocka_unit_test(bad_logits_are_never_picked),
        cmocka_unit_test(softmax_is_drawn_exactly),
        cmocka_unit_test(top_k_keeps_the_k_best),
        cmocka_unit_test(top_p_keeps_the_smallest_set_that_holds_the_mass),
        cmocka_unit_test(min_p_drops_what_is_far_from_the_best),
        cmocka_unit_test(top_p_is_right_for_large_vocabularies),
        cmocka_unit_test(a_seed_repeats_and_another_differs),
        cmocka_unit_test(penalties_change_the_order),
        cmocka_unit_test(bias_is_added_forbids_and_forces),
        cmocka_unit_test(values_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
