/* SPDX-License-Identifier: Apache-2.0 */
/* Terms and citations on handmade hits and answers. */
#include "retrieve/cite.h"
#include "retrieve/terms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char rent_text[] = "## 6. Ending\n\n### 6.1 Notice\n\nThe notice period for the "
                                "tenant is three months. Notice must be "
                                "given in writing.\n\n### 6.2 Landlord\n\nHer notice period is six "
                                "months; after eight years it grows "
                                "to nine months.\n";
static const char hill_text[] =
    "The highest point is Beacon Hill with 243.7 metres, 1.9 metres less than "
    "before. The dyke is 6.50 metres high.";

static struct corpus_hit hits[2];
static struct arena *arena;

static int set_up(void **state)
{
    (void)state;
    arena = arena_new(0);
    hits[0] = (struct corpus_hit){
        .heading = slice_str("Rental Agreement, 14 Alder Lane"),
        .hit = { .key = slice_str("a:3"),
                 .title = slice_str("Rental Agreement, 14 Alder Lane"),
                 .path = slice_str("legal/rent.md"),
                 .text = slice_str(rent_text),
                 .from = 1000,
                 .to = 1000 + sizeof rent_text - 1,
                 .score = 0.6f },
    };
    hits[1] = (struct corpus_hit){
        .hit = { .key = slice_str("b:0"),
                 .path = slice_str("geo/report.txt"),
                 .text = slice_str(hill_text),
                 .to = sizeof hill_text - 1,
                 .score = 0.3f },
    };
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static void words_are_compared_without_case_ending_and_spelled_numbers(void **state)
{
    struct terms a =
        terms_of(slice_str("Recordings were kept for THREE months, 1,880 crowns"), arena);
    struct terms b = terms_of(slice_str("recording kept 3 month 1880 crown"), arena);
    struct terms none = terms_of(slice_str("of the and \xe2\x80\x93 ..."), arena);
    struct term_weights weights = { 0 };

    (void)state;
    assert_true(terms_overlap(&weights, &a, &b) > 0.999);
    assert_true(terms_overlap(&weights, &b, &a) > 0.999);
    assert_int_equal(none.count, 0);
    assert_true(terms_overlap(&weights, &none, &a) == 0);
}

static struct rag_citation *cite(const char *answer, const char *question, size_t *count)
{
    return cite_answer(slice_str(answer), slice_str(question), hits, 2, arena, count);
}

static void each_sentence_cites_the_span_that_supports_it(void **state)
{
    static const char answer[] =
        "[1] The tenant's notice period is 3 months. Beacon Hill is 243.7 metres high.";
    size_t count;
    struct rag_citation *c = cite(answer, "?", &count);

    (void)state;
    assert_int_equal(count, 2);
    assert_int_equal(c[0].source, 1);
    assert_true(slice_is(c[0].quote, "The notice period for the tenant is three months."));
    assert_memory_equal(rent_text + (c[0].from - 1000), c[0].quote.ptr, c[0].quote.len);
    assert_int_equal(c[0].to - c[0].from, c[0].quote.len);
    assert_int_equal(c[0].answer_from, 0);
    assert_int_equal(c[1].source, 2);
    assert_int_equal(c[1].from, 0);
    assert_true(slice_starts(slice_of(answer + c[1].answer_from, 11), "Beacon Hill"));
}

static void a_wrong_number_is_not_supported(void **state)
{
    size_t count;

    (void)state;
    (void)cite("The notice period for the tenant is four months.", "?", &count);
    assert_int_equal(count, 0);
    (void)cite("Beacon Hill is 300 metres high.", "?", &count);
    assert_int_equal(count, 0);
}

static void invented_sentences_get_no_citation(void **state)
{
    size_t count;

    (void)state;
    (void)cite("Bananas grow in warm countries. I hope that this helps!", "?", &count);
    assert_int_equal(count, 0);
    (void)cite("", "?", &count);
    assert_int_equal(count, 0);
}

static void a_bare_fact_is_enough(void **state)
{
    size_t count;
    struct rag_citation *c = cite("243.7 metres", "How high is Beacon Hill?", &count);

    (void)state;
    assert_int_equal(count, 1);
    assert_int_equal(c[0].source, 2);
    assert_true(slice_starts(c[0].quote, "The highest point"));
}

static void words_of_the_title_support_too(void **state)
{
    size_t count;
    struct rag_citation *c = cite("In 14 Alder Lane the notice period is six months.", "?", &count);

    (void)state;
    assert_int_equal(count, 1);
    assert_true(slice_starts(c[0].quote, "Her notice period"));
}

static void answers_that_do_not_know_are_recognised(void **state)
{
    (void)state;
    assert_true(cite_says_unknown(slice_str("The documents do not answer this question.")));
    assert_true(cite_says_unknown(slice_str("I don't know.")));
    assert_true(cite_says_unknown(slice_str("  ")));
    assert_true(cite_says_unknown(slice_str("The sources DO NOT MENTION it.")));
    assert_false(cite_says_unknown(slice_str("Three months.")));
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(words_are_compared_without_case_ending_and_spelled_numbers),
        TEST(each_sentence_cites_the_span_that_supports_it),
        TEST(a_wrong_number_is_not_supported),
        TEST(invented_sentences_get_no_citation),
        TEST(a_bare_fact_is_enough),
        TEST(words_of_the_title_support_too),
        TEST(answers_that_do_not_know_are_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
