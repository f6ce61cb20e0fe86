/* SPDX-License-Identifier: Apache-2.0 */
#include "../check.h"
#include "cluster/scatter.h"
#include <math.h>

enum { S = 1000000, SHARDS = 4 };

/* Four shards, each the expert (0.9) of one of four domains and fair (0.6) at the others. */
static const double accuracy[4][SHARDS] = {
    { 0.9, 0.6, 0.6, 0.6 },
    { 0.6, 0.9, 0.6, 0.6 },
    { 0.6, 0.6, 0.9, 0.6 },
    { 0.6, 0.6, 0.6, 0.9 },
};

static struct scatter_group groups[4];

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        groups[i] = (struct scatter_group){ .accuracy = accuracy[i], .home = -1 };
    return 0;
}

/* counts: rows of each domain; they come mixed. */
static struct scatter *new_batch(const unsigned counts[4], const struct scatter_settings *set)
{
    uint16_t group[4096];
    size_t n = 0;
    unsigned left[4];
    struct scatter *s;

    memcpy(left, counts, sizeof left);
    for (bool any = true; any;) {
        any = false;
        for (uint16_t g = 0; g < 4; g++) {
            if (left[g]) {
                left[g]--;
                group[n++] = g;
                any = true;
            }
        }
    }
    const struct scatter_options opt = { .settings = set ? *set : scatter_defaults(),
                                         .row_count = n,
                                         .groups_of_rows = group,
                                         .groups = groups,
                                         .group_count = 4,
                                         .shard_count = SHARDS };
    assert_int_equal(scatter_new(&s, &opt, NULL), OK);
    return s;
}

static unsigned pull(struct scatter *s, unsigned shard, struct scatter_chunk *out)
{
    return scatter_pull(s, shard, out) ? out->count : 0;
}

static void answer_all(struct scatter *s, const struct scatter_chunk *c)
{
    for (unsigned i = 0; i < c->count; i++)
        assert_true(scatter_answer(s, c->call, c->rows[i]));
}

/* Everything that is left is answered by the shards in turn. Returns the rows given out in order. */
static unsigned finish(struct scatter *s)
{
    struct scatter_chunk c;
    struct scatter_result r;
    unsigned next = 0;

    for (bool any = true; any;) {
        any = false;
        for (unsigned i = 0; i < SHARDS; i++) {
            if (pull(s, i, &c)) {
                answer_all(s, &c);
                any = true;
            }
        }
    }
    assert_true(scatter_is_done(s));
    while (scatter_next(s, &r))
        assert_int_equal(r.row, next++);
    return next;
}

static void each_domain_goes_to_its_expert(void **state)
{
    static const unsigned counts[] = { 16, 16, 16, 16 };
    struct scatter *s = new_batch(counts, NULL);
    struct scatter_chunk c;

    (void)state;
    for (unsigned i = 0; i < SHARDS; i++) {
        assert_int_equal(pull(s, i, &c), 16);
        for (unsigned k = 0; k < 16; k++)
            assert_int_equal(c.rows[k] % 4, i);
        assert_int_equal(pull(s, i, &c), 0); /* the window is full */
    }
    assert_int_equal(scatter_stats(s)->stolen, 0);
    scatter_free(s);
}

static void an_uneven_batch_is_spread_evenly_at_once(void **state)
{
    static const unsigned counts[] = { 33, 17, 11, 3 };
    struct scatter *s = new_batch(counts, NULL);
    struct scatter_chunk c;

    (void)state;
    for (unsigned i = SHARDS; i-- > 0;)
        assert_int_equal(pull(s, i, &c), 16);
    assert_int_equal(scatter_stats(s)->stolen, 17 + 1);
    assert_true(fabs(scatter_stats(s)->given_up - 18 * 0.3) < 1e-9);
    scatter_free(s);
}

static void accuracy_given_up_has_a_limit(void **state)
{
    static const unsigned counts[] = { 64, 0, 0, 0 };
    struct scatter_settings set = scatter_defaults();
    struct scatter_chunk c;

    (void)state;
    set.give_up_mean = 0.05; /* of 64 rows: 3.2, that is 10 rows */
    struct scatter *s = new_batch(counts, &set);
    assert_int_equal(pull(s, 1, &c), 10);
    assert_int_equal(pull(s, 2, &c), 0);
    assert_int_equal(pull(s, 0, &c), 16);
    assert_int_equal(scatter_stats(s)->stolen, 10);
    scatter_free(s);
}

static void a_pinned_domain_stays_at_home(void **state)
{
    static const unsigned counts[] = { 40, 10, 10, 0 };
    struct scatter_chunk c;

    (void)state;
    groups[0].is_pinned = true;
    struct scatter *s = new_batch(counts, NULL);
    assert_int_equal(pull(s, 3, &c), 0);
    assert_int_equal(pull(s, 1, &c), 10);
    for (unsigned k = 0; k < c.count; k++)
        assert_int_equal(c.rows[k] < 30 ? c.rows[k] % 3 : 0, 1);
    answer_all(s, &c);
    assert_int_equal(finish(s), 60);
    scatter_free(s);
}

static void rows_are_handed_out_eight_to_sixteen_at_a_time(void **state)
{
    static const unsigned counts[] = { 200, 0, 0, 0 };
    struct scatter_chunk c, more;

    (void)state;
    struct scatter *s = new_batch(counts, NULL);
    assert_int_equal(pull(s, 0, &c), 16);
    for (unsigned i = 0; i < 7; i++)
        assert_true(scatter_answer(s, c.call, c.rows[i]));
    assert_int_equal(pull(s, 0, &more), 0); /* room for seven is not worth a call */
    assert_true(scatter_answer(s, c.call, c.rows[7]));
    assert_int_equal(pull(s, 0, &more), 8);
    assert_int_equal(scatter_stats(s)->chunks, 2);
    scatter_free(s);
}

static void rows_that_only_one_may_take_are_not_held_back(void **state)
{
    static const unsigned counts[] = { 200, 0, 0, 0 };
    struct scatter_chunk c;

    (void)state;
    groups[0].is_pinned = true;
    struct scatter *s = new_batch(counts, NULL);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pull(s, 0, &c), 16);
    assert_int_equal(pull(s, 0, &c), 0); /* 64 are under way */
    scatter_free(s);
}

static void the_tail_is_shared(void **state)
{
    static const unsigned counts[] = { 25, 25, 25, 25 };
    struct scatter *s = new_batch(counts, NULL);
    struct scatter_chunk c[SHARDS];
    unsigned most = 0;

    (void)state;
    for (unsigned i = 0; i < SHARDS; i++)
        assert_int_equal(pull(s, i, &c[i]), 16);
    for (unsigned i = 0; i < SHARDS; i++)
        answer_all(s, &c[i]);
    for (unsigned i = 0; i < SHARDS; i++) { /* 36 are left */
        unsigned n = pull(s, i, &c[i]);
        most = n > most ? n : most;
    }
    assert_in_range(most, 8, 9);
    scatter_free(s);
}

static void an_answer_counts_once(void **state)
{
    static const unsigned counts[] = { 8, 0, 0, 0 };
    struct scatter *s = new_batch(counts, NULL);
    struct scatter_chunk c;

    (void)state;
    assert_int_equal(pull(s, 0, &c), 8);
    assert_true(scatter_answer(s, c.call, 0));
    assert_false(scatter_answer(s, c.call, 0));
    assert_false(scatter_answer(s, c.call + 1, 1)); /* no such call */
    assert_false(scatter_answer(s, 0, 1));
    assert_false(scatter_answer(s, c.call, 8)); /* no such row */
    assert_int_equal(scatter_stats(s)->late, 4);
    scatter_free(s);
}

static void a_failed_call_goes_once_more_to_another(void **state)
{
    static const unsigned counts[] = { 8, 0, 0, 0 };
    struct scatter *s = new_batch(counts, NULL);
    struct scatter_chunk c, again;
    struct scatter_result r;

    (void)state;
    assert_int_equal(pull(s, 0, &c), 8);
    for (unsigned i = 0; i < 4; i++)
        assert_true(scatter_answer(s, c.call, c.rows[i]));
    scatter_call_failed(s, c.call, ERR_IO);
    assert_int_equal(pull(s, 0, &again), 0);            /* not where it has just failed */
    assert_false(scatter_answer(s, c.call, c.rows[5])); /* comes after all */
    assert_int_equal(pull(s, 1, &again), 4);
    assert_true(scatter_answer(s, again.call, again.rows[0]));
    scatter_call_failed(s, again.call, ERR_TIMEOUT); /* the second failure is the last */
    assert_true(scatter_is_done(s));
    for (unsigned i = 0; i < 8; i++) {
        assert_true(scatter_next(s, &r));
        assert_int_equal(r.row, i);
        assert_int_equal(r.is_answer, i < 5);
        assert_int_equal(r.code, i < 5 ? OK : ERR_TIMEOUT);
        assert_int_equal(r.attempts, i < 4 ? 1 : 2);
    }
    const struct scatter_stats *st = scatter_stats(s);
    assert_int_equal(st->handed, st->answered + st->failures + st->expired);
    assert_int_equal(st->retried, 4);
    scatter_free(s);
}

static void a_row_that_cannot_succeed_is_not_repeated(void **state)
{
    static const unsigned counts[] = { 8, 0, 0, 0 };
    struct scatter *s = new_batch(counts, NULL);
    struct scatter_chunk c;
    struct scatter_result r;

    (void)state;
    assert_int_equal(pull(s, 0, &c), 8);
    scatter_row_failed(s, c.call, 0, ERR_INVALID, false);
    assert_true(scatter_next(s, &r));
    assert_false(r.is_answer);
    assert_int_equal(r.code, ERR_INVALID);
    scatter_free(s);
}

static void partial_results_come_in_order(void **state)
{
    static const unsigned counts[] = { 8, 0, 0, 0 };
    struct scatter *s = new_batch(counts, NULL);
    struct scatter_chunk c;
    struct scatter_result r;

    (void)state;
    assert_int_equal(pull(s, 0, &c), 8);
    assert_true(scatter_answer(s, c.call, 1));
    assert_false(scatter_next(s, &r)); /* row 0 is not there yet */
    assert_true(scatter_answer(s, c.call, 0));
    assert_true(scatter_next(s, &r) && r.row == 0);
    assert_true(scatter_next(s, &r) && r.row == 1);
    assert_false(scatter_next(s, &r));
    assert_false(scatter_is_done(s));
    scatter_free(s);
}

static void a_paused_shard_hands_its_domain_to_the_next_best(void **state)
{
    static const unsigned counts[] = { 40, 0, 0, 0 };
    static const double skilled[] = { 0.9, 0.5, 0.8, 0.7 };
    struct scatter_settings set = scatter_defaults();
    struct scatter_chunk first, c;

    (void)state;
    groups[0].accuracy = skilled;
    set.give_up_mean = 0;
    struct scatter *s = new_batch(counts, &set);
    assert_int_equal(pull(s, 0, &first), 10); /* an even share at first */
    scatter_shard_pause(s, 0);
    assert_int_equal(pull(s, 0, &c), 0);
    assert_int_equal(pull(s, 1, &c), 0);  /* no stealing without accuracy to give up */
    assert_int_equal(pull(s, 2, &c), 10); /* a third of 30 */
    answer_all(s, &first);                /* what was under way goes on */
    scatter_shard_resume(s, 0);
    assert_true(pull(s, 0, &c) > 0);
    answer_all(s, &c);
    scatter_free(s);
}

static void a_pinned_domain_waits_for_a_shard_that_still_works(void **state)
{
    static const unsigned counts[] = { 24, 0, 0, 0 };
    static const double only[] = { 0.9, NAN, NAN, NAN };
    struct scatter_chunk c, more;

    (void)state;
    groups[0].accuracy = only;
    groups[0].is_pinned = true;
    struct scatter *s = new_batch(counts, NULL);
    assert_int_equal(pull(s, 0, &c), 8);
    scatter_shard_pause(s, 0); /* its breaker lets one probe through, and this is it */
    assert_int_equal(pull(s, 1, &more), 0);
    assert_int_equal(scatter_stats(s)->failed, 0);
    answer_all(s, &c);
    scatter_shard_resume(s, 0);
    assert_int_equal(pull(s, 0, &c), 8);
    scatter_shard_pause(s, 0);
    scatter_call_failed(s, c.call, ERR_IO); /* it was the only hope */
    assert_true(scatter_is_done(s));
    assert_int_equal(scatter_stats(s)->answered, 8);
    assert_int_equal(scatter_stats(s)->failed, 16);
    scatter_free(s);
}

static void a_pinned_domain_without_its_adapter_is_an_error(void **state)
{
    static const unsigned counts[] = { 10, 4, 0, 0 };
    static const double only[] = { 0.9, NAN, NAN, NAN };
    struct scatter_chunk c;
    struct scatter_result r;
    unsigned failed = 0;

    (void)state;
    groups[0].accuracy = only;
    groups[0].is_pinned = true;
    struct scatter *s = new_batch(counts, NULL);
    scatter_shard_pause(s, 0);
    while (pull(s, 1, &c))
        answer_all(s, &c);
    assert_true(scatter_is_done(s));
    while (scatter_next(s, &r)) {
        failed += !r.is_answer;
        assert_true(r.is_answer || (r.code == ERR_BUSY && r.attempts == 0));
    }
    assert_int_equal(failed, 10);
    scatter_free(s);
}

static void the_deadline_ends_everything(void **state)
{
    static const unsigned counts[] = { 64, 0, 0, 0 };
    struct scatter *s = new_batch(counts, NULL);
    struct scatter_chunk c;
    struct scatter_result r;
    unsigned n = 0;

    (void)state;
    assert_int_equal(pull(s, 0, &c), 16);
    assert_true(scatter_answer(s, c.call, 0));
    assert_true(scatter_deadline_us(s) == 30 * S);
    scatter_expire(s, 30 * S - 1);
    assert_false(scatter_is_done(s));
    scatter_expire(s, 30 * S);
    assert_true(scatter_is_done(s));
    assert_false(scatter_answer(s, c.call, c.rows[1]));
    for (unsigned i = 0; i < SHARDS; i++)
        assert_int_equal(pull(s, i, &c), 0);
    for (; scatter_next(s, &r); n++)
        assert_int_equal(r.code, n ? ERR_TIMEOUT : OK);
    assert_int_equal(n, 64);
    const struct scatter_stats *st = scatter_stats(s);
    assert_int_equal(st->handed, st->answered + st->failures + st->expired);
    assert_int_equal(st->answered + st->failed, 64);
    scatter_free(s);
}

static void rows_without_a_domain_are_spread_for_nothing(void **state)
{
    static const double equal[SHARDS] = { 0 };
    uint16_t group[64] = { 0 };
    const struct scatter_group any = { .accuracy = equal, .home = -1 };
    const struct scatter_options opt = { .settings = scatter_defaults(),
                                         .row_count = 64,
                                         .groups_of_rows = group,
                                         .groups = &any,
                                         .group_count = 1,
                                         .shard_count = SHARDS };
    struct scatter *s;
    struct scatter_chunk c;

    (void)state;
    assert_int_equal(scatter_new(&s, &opt, NULL), OK);
    for (unsigned i = SHARDS; i-- > 0;)
        assert_int_equal(pull(s, i, &c), 16);
    assert_true(scatter_stats(s)->given_up == 0);
    scatter_free(s);
}

static void the_routers_home_is_kept(void **state)
{
    static const unsigned counts[] = { 16, 0, 0, 0 };
    struct scatter_settings set = scatter_defaults();
    struct scatter_chunk c;

    (void)state;
    set.give_up_mean = 0;
    groups[0].home = 3;
    struct scatter *s = new_batch(counts, &set);
    assert_true(pull(s, 3, &c) > 0);
    scatter_free(s);
}

static void options_out_of_range_are_refused(void **state)
{
    uint16_t group[1] = { 4 };
    struct scatter_options opt = { .settings = scatter_defaults(),
                                   .row_count = 1,
                                   .groups_of_rows = group,
                                   .groups = groups,
                                   .group_count = 4,
                                   .shard_count = SHARDS };
    struct scatter *s;
    struct error err;

    (void)state;
    assert_int_equal(scatter_new(&s, &opt, &err), ERR_INVALID);
    group[0] = 0;
    opt.row_count = SCATTER_ROWS_MAX + 1;
    assert_int_equal(scatter_new(&s, &opt, &err), ERR_LIMIT);
    opt.row_count = 1;
    opt.shard_count = 0;
    assert_int_equal(scatter_new(&s, &opt, &err), ERR_INVALID);
    opt.shard_count = SHARDS;
    opt.settings.chunk_min = 0;
    assert_int_equal(scatter_new(&s, &opt, &err), ERR_INVALID);
    opt.settings = scatter_defaults();
    groups[1].home = 4;
    assert_int_equal(scatter_new(&s, &opt, &err), ERR_INVALID);
    groups[1].home = -1;
    opt.row_count = 0;
    assert_int_equal(scatter_new(&s, &opt, &err), OK);
    assert_true(scatter_is_done(s));
    scatter_free(s);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_domain_goes_to_its_expert),
        TEST(an_uneven_batch_is_spread_evenly_at_once),
        TEST(accuracy_given_up_has_a_limit),
        TEST(a_pinned_domain_stays_at_home),
        TEST(rows_are_handed_out_eight_to_sixteen_at_a_time),
        TEST(rows_that_only_one_may_take_are_not_held_back),
        TEST(the_tail_is_shared),
        TEST(an_answer_counts_once),
        TEST(a_failed_call_goes_once_more_to_another),
        TEST(a_row_that_cannot_succeed_is_not_repeated),
        TEST(partial_results_come_in_order),
        TEST(a_paused_shard_hands_its_domain_to_the_next_best),
        TEST(a_pinned_domain_waits_for_a_shard_that_still_works),
        TEST(a_pinned_domain_without_its_adapter_is_an_error),
        TEST(the_deadline_ends_everything),
        TEST(rows_without_a_domain_are_spread_for_nothing),
        TEST(the_routers_home_is_kept),
        TEST(options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
