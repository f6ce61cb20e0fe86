/* SPDX-License-Identifier: Apache-2.0 */
/* The order of hits and their relevance, with vectors made by hand. */
#include "retrieve/evidence.h"
#include "retrieve/focus.h"
#include "retrieve/rank.h"
#include "retrieve/subject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { DIMENSION = 3 };

static int set_up(void **state)
{
    *state = arena_new(0);
    return 0;
}

static int tear_down(void **state)
{
    arena_free(*state);
    return 0;
}

static struct corpus_hit hit(const char *path, const char *title, const char *text, float score)
{
    return (struct corpus_hit){ .hit = { .path = slice_str(path),
                                         .title = slice_str(title),
                                         .text = slice_str(text),
                                         .score = score },
                                .rank = (double)score };
}

static void rare_words_of_the_question_decide_between_near_hits(void **state)
{
    struct corpus_hit near[3] = {
        hit("a", "", "Ward A2 was best.", 0.50f),
        hit("b", "", "Ward C3 has four rooms.", 0.45f),
        hit("c", "", "Something else.", 0.10f),
    };

    rank_hits(slice_str("Which rooms has ward C3?"), near, 3, *state);
    assert_true(slice_starts(near[0].hit.text, "Ward C3"));
    assert_true(near[0].hit.score < 0.46f);
    assert_true(near[0].rank > 0.5 && near[0].rank < 0.6);
    rank_hits(slice_str("x"), near, 0, *state);
}

static void assert_left(struct arena *arena, const char *question, const struct corpus_hit *hits,
                        size_t count, const char *left)
{
    struct slice out = subject_leave_out(slice_str(question), hits, count, arena);

    if (!slice_is(out, left))
        fail_msg("'%.*s' instead of '%s'", SLICE_ARG(out), left);
}

static void words_of_the_title_are_left_out(void **state)
{
    struct corpus_hit one = hit("a", "Rules of Brannoc Hospital", "Beds are made daily.", 0.5f);

    assert_left(*state, "How many beds has Brannoc hospital?", &one, 1, "How many beds has  ?");
    assert_left(*state, "Brannoc Hospital's rules?", &one, 1, "Brannoc Hospital's rules?");
    assert_left(*state, "Which rules?", NULL, 0, "Which rules?");
}

static void words_that_half_the_document_has_are_left_out(void **state)
{
    struct corpus_hit hits[5] = {
        hit("leaflet", "Information", "Velotrin is taken daily.", 0.5f),
        hit("leaflet", "Information", "Store Velotrin in the cupboard.", 0.4f),
        hit("leaflet", "Information", "Drink no juice.", 0.3f),
        hit("other", "More", "Juice of the cupboard.", 0.2f),
        hit("another", "More", "Juice in a cupboard.", 0.1f),
    };

    assert_left(*state, "Is Velotrin kept in the cupboard with juice?", hits, 5,
                "Is  kept in the cupboard with juice?");
    /* two chunks are too few to tell what the document is about */
    assert_left(*state, "Is Velotrin kept?", hits, 2, "Is Velotrin kept?");
}

/* Weighs two hits of one sentence each by the vectors: of the sentences, then of the rest. */
static double weigh(struct arena *arena, struct evidence *e, struct corpus_hit *hits, size_t count,
                    const float (*vectors)[DIMENSION])
{
    static const float question[DIMENSION] = { 1, 0, 0 };

    evidence_collect(e, slice_str("Who keeps the key?"), hits, count, count, arena);
    assert_int_equal(e->input_count, count + 1);
    return evidence_weigh(e, question, vectors[0], DIMENSION, hits, arena);
}

static void the_best_sentence_lifts_its_hit(void **state)
{
    static const float vectors[][DIMENSION] = { { 0.1f, 0, 0 }, { 0.9f, 0, 0 }, { 1, 0, 0 } };
    struct corpus_hit hits[2] = { hit("a", "A", "The door is red.", 0.5f),
                                  hit("b", "B", "The caretaker has the key.", 0.4f) };
    struct evidence e;
    struct focus f;

    weigh(*state, &e, hits, 2, vectors);
    assert_true(slice_is(hits[0].hit.path, "b"));
    assert_true(slice_is(hits[1].hit.path, "a"));
    assert_int_equal(e.passages.items[0].hit, 1); /* passages follow their hits */
    assert_int_equal(e.passages.items[1].hit, 0);
    focus_choose(&f, slice_str("Who keeps the key?"), &e, hits, 2, *state);
    assert_int_equal(f.passages.count, 1);
    assert_int_equal(f.passages.items[0].hit, 0);
    focus_choose(&f, slice_str("Who keeps the key?"), &e, hits, 0, *state);
    assert_int_equal(f.passages.count, 0);
}

static void being_about_the_subject_is_not_relevance(void **state)
{
    /* near to the whole question; near, and far, from what it asks beyond the subject */
    static const float answers[][DIMENSION] = { { 0.8f, 0.6f, 0 }, { 0.6f, 0.8f, 0 } };
    static const float touches[][DIMENSION] = { { 0.8f, 0.6f, 0 }, { 0, 0, 1 } };
    struct corpus_hit one = hit("a", "A", "The caretaker has the key.", 0.5f);
    struct evidence e;
    double much = weigh(*state, &e, &one, 1, answers);
    double little = weigh(*state, &e, &one, 1, touches);

    assert_true(much > 0.9 && much < 1.0);
    assert_true(little > 0.2 && little < 0.3);
}

static void only_the_first_hits_are_weighed(void **state)
{
    struct corpus_hit hits[3] = { hit("a", "A", "One. Two.", 0.5f), hit("b", "B", "Three.", 0.4f),
                                  hit("c", "C", "Four.", 0.3f) };
    struct evidence e;

    evidence_collect(&e, slice_str("Who?"), hits, 3, 2, *state);
    assert_int_equal(e.hit_count, 2);
    assert_int_equal(e.passages.count, 3);
    assert_int_equal(e.input_count, 4);
}

static void without_sentences_there_is_no_evidence(void **state)
{
    struct corpus_hit bare = hit("a.md", "A", "# A heading", 0.5f);
    struct evidence e;

    evidence_collect(&e, slice_str("Who?"), &bare, 1, 12, *state);
    assert_int_equal(e.input_count, 0);
    evidence_collect(&e, slice_str("Who?"), NULL, 0, 12, *state);
    assert_int_equal(e.input_count, 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rare_words_of_the_question_decide_between_near_hits),
        TEST(words_of_the_title_are_left_out),
        TEST(words_that_half_the_document_has_are_left_out),
        TEST(the_best_sentence_lifts_its_hit),
        TEST(being_about_the_subject_is_not_relevance),
        TEST(only_the_first_hits_are_weighed),
        TEST(without_sentences_there_is_no_evidence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
