/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions of samples/README.md with the real embedding and chat models:
 * each document is among the first four hits, what is not there is refused, and
 * the question of `make run` is answered with a citation. Skipped when
 * the models were not fetched or sanitizers make them too slow.
 */
#include "model/model.h"
#include "rag_fixture.h"

#include <unistd.h>

static const char embed_path[] = "build/models/all-MiniLM-L6-v2.F16.gguf";
static const char chat_path[] = "build/models/SmolLM2-135M-Instruct.Q4_1.gguf";

struct real {
    struct rag_fixture f;
    struct models *models;
};

static bool models_are_here(void)
{
#ifdef THEMIS_SANITIZED
    return false;
#else
    return access(embed_path, R_OK) == 0 && access(chat_path, R_OK) == 0;
#endif
}

static int open_all(void **state)
{
    struct real *r = mem_zalloc(sizeof *r);
    struct models_options opt = { .settings = &r->f.settings };
    struct rag_source sources[SAMPLE_COUNT];
    struct rag_import_result result;
    struct error err;

    *state = r;
    if (!models_are_here())
        return 0;
    settings_init(&r->f.settings);
    assert_int_equal(models_new(&r->models, &opt, &err), OK);
    assert_int_equal(models_load(r->models, "embed", embed_path, &err), OK);
    assert_int_equal(models_load(r->models, "chat", chat_path, &err), OK);
    fixture_open(&r->f, models_generator(r->models));
    samples_read(sources);
    assert_int_equal(import_run(&r->f, sources, SAMPLE_COUNT, &result, &err), OK);
    samples_free(sources);
    assert_int_equal(result.truncated, 0);
    print_message("%u documents, %u chunks, %u tokens\n", result.documents, result.chunks,
                  result.tokens);
    return 0;
}

static int close_all(void **state)
{
    struct real *r = *state;

    models_free(r->models);
    fixture_close(&r->f);
    mem_free(r);
    return 0;
}

static void each_question_finds_its_document(void **state)
{
    struct real *r = *state;
    size_t found = 0;

    if (!r->models)
        skip();
    for (size_t i = 0; i < SAMPLE_QUESTION_COUNT; i++) {
        const struct sample_question *q = &sample_questions[i];
        struct rag_ask_options opt = question(q->question);
        struct asking a;
        size_t rank;

        opt.search_only = true;
        opt.top_k = 4;
        assert_int_equal(ask_run(&r->f, &a, opt), OK);
        rank = rank_of(&a.answer, q->path);
        print_message("rank %zu, cosine %.3f: %s\n", rank, (double)a.answer.hits[0].score,
                      q->question);
        found += rank > 0;
        assert_true(a.answer.is_answered);
        rag_ask_free(a.ask);
    }
    assert_int_equal(found, SAMPLE_QUESTION_COUNT);
}

static void what_is_not_there_is_refused(void **state)
{
    struct real *r = *state;
    struct asking a;

    if (!r->models)
        skip();
    assert_int_equal(ask_run(&r->f, &a, question("Who won the chess world championship in 1972?")),
                     OK);
    assert_false(a.answer.is_answered);
    assert_int_equal(a.answer.completion_tokens, 0);
    rag_ask_free(a.ask);
}

static bool has_text(struct slice text, const char *part)
{
    return memmem(text.ptr, text.len, part, strlen(part)) != NULL;
}

static void the_first_question_is_answered_with_a_citation(void **state)
{
    struct real *r = *state;
    struct asking a;

    if (!r->models)
        skip();
    assert_int_equal(ask_run(&r->f, &a, question(sample_questions[0].question)), OK);
    print_message("%.*s\n", SLICE_ARG(a.answer.text));
    assert_true(a.answer.is_answered);
    assert_true(has_text(a.answer.text, sample_questions[0].fact));
    assert_true(a.answer.citation_count > 0);
    assert_true(has_text(a.answer.citations[0].quote, sample_questions[0].fact));
    rag_ask_free(a.ask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_question_finds_its_document),
        cmocka_unit_test(what_is_not_there_is_refused),
        cmocka_unit_test(the_first_question_is_answered_with_a_citation),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
