/* SPDX-License-Identifier: Apache-2.0 */
/* Import and ask over a store in memory, with simulated engines and with a generator played by hand. */
#include "fake_generator.h"
#include "model/model.h"
#include "rag_fixture.h"

/* ---- with simulated engines ---- */

struct sim {
    struct rag_fixture f;
    struct models *models;
};

static const char script[] = "sim:chat,script=The notice period for the tenant is three months.";

static int sim_open(void **state)
{
    struct sim *s = mem_zalloc(sizeof *s);
    struct models_options opt = { .settings = &s->f.settings };
    struct error err;

    settings_init(&s->f.settings);
    assert_int_equal(models_new(&s->models, &opt, &err), OK);
    assert_int_equal(models_load(s->models, "embed", "sim:embed,dim=384", &err), OK);
    assert_int_equal(models_load(s->models, "small", "sim:embed,dim=64", &err), OK);
    assert_int_equal(models_load(s->models, "chat", script, &err), OK);
    fixture_open(&s->f, models_generator(s->models));
    *state = s;
    return 0;
}

static int sim_close(void **state)
{
    struct sim *s = *state;

    models_free(s->models);
    fixture_close(&s->f);
    mem_free(s);
    return 0;
}

static void import_samples(struct rag_fixture *f, struct rag_import_result *result)
{
    struct rag_source sources[SAMPLE_COUNT];
    struct error err;

    samples_read(sources);
    assert_int_equal(import_run(f, sources, SAMPLE_COUNT, result, &err), OK);
    samples_free(sources);
}

static void a_second_import_of_the_same_changes_nothing(void **state)
{
    struct sim *s = *state;
    struct rag_import_result r;

    import_samples(&s->f, &r);
    assert_int_equal(r.documents, SAMPLE_COUNT);
    assert_int_equal(r.unchanged, 0);
    assert_int_equal(r.truncated, 0);
    assert_true(r.tokens > 1000);
    assert_in_range(r.chunks, 60, 300);
    assert_int_equal(fixture_count(&s->f, "documents"), SAMPLE_COUNT);
    assert_int_equal(fixture_count(&s->f, "chunks"), r.chunks);
    import_samples(&s->f, &r);
    assert_int_equal(r.documents, 0);
    assert_int_equal(r.unchanged, SAMPLE_COUNT);
    assert_int_equal(r.chunks, 0);
}

/* A text of that many sections, each a chunk of its own. */
static void sections(struct buf *text, int count, const char *word)
{
    buf_clear(text);
    for (int i = 0; i < count; i++) {
        buf_printf(text, "# Part %d\n\n", i);
        for (int j = 0; j < 12; j++)
            buf_printf(text, "The %s of part %d has the property %d. ", word, i, j);
        buf_add_str(text, "\n\n");
    }
}

static void a_changed_document_replaces_its_chunks(void **state)
{
    struct sim *s = *state;
    struct rag_import_result r;
    struct error err;
    struct asking a;
    struct rag_ask_options opt = question("property of the zebra");
    struct buf text;

    buf_init(&text, 0);
    sections(&text, 40, "walrus");
    assert_int_equal(import_text(&s->f, "a.md", buf_cstr(&text), &r, &err), OK);
    assert_int_equal(import_text(&s->f, "b.md", "# Other\n\nSomething else.", &r, &err), OK);
    assert_in_range(fixture_count(&s->f, "chunks"), 41, 90);
    sections(&text, 3, "zebra");
    assert_int_equal(import_text(&s->f, "a.md", buf_cstr(&text), &r, &err), OK);
    assert_int_equal(r.documents, 1);
    assert_int_equal(fixture_count(&s->f, "documents"), 2);
    assert_int_equal(fixture_count(&s->f, "chunks"), r.chunks + 1);

    opt.search_only = true;
    opt.top_k = 100;
    assert_int_equal(ask_run(&s->f, &a, opt), OK);
    assert_int_equal(a.answer.hit_count, r.chunks + 1);
    for (size_t i = 0; i < r.chunks; i++) {
        const struct rag_source_hit *h = &a.answer.hits[i];
        assert_true(slice_is(h->path, "a.md"));
        assert_true(slice_is(h->title, "Part 0"));
        assert_true(slice_eq(h->text, slice_of(text.ptr + h->from, h->to - h->from)));
    }
    rag_ask_free(a.ask);
    buf_release(&text);
}

static void a_forgotten_document_is_gone(void **state)
{
    struct sim *s = *state;
    struct rag_import_options opt = { .db_id = s->f.db_id };
    struct rag_import_result r;
    struct error err;

    assert_int_equal(rag_forget(&s->f.env, &opt, slice_str("a.md"), &err), ERR_NOT_FOUND);
    assert_int_equal(import_text(&s->f, "a.md", "# A\n\nText.", &r, &err), OK);
    assert_int_equal(rag_forget(&s->f.env, &opt, slice_str("a.md"), &err), OK);
    assert_int_equal(fixture_count(&s->f, "documents"), 0);
    assert_int_equal(fixture_count(&s->f, "chunks"), 0);
    assert_int_equal(rag_forget(&s->f.env, &opt, slice_str("a.md"), &err), ERR_NOT_FOUND);
    assert_int_equal(error_num(&err), 1202);
}

static void a_folder_is_pruned_to_what_it_still_has(void **state)
{
    static const char *const paths[] = { "docs/a.md", "docs/b.md", "docs/deep/c.md",
                                         "docs-2/d.md" };
    struct sim *s = *state;
    struct rag_import_options opt = { .db_id = s->f.db_id };
    const struct slice keep[] = { slice_str("docs/z.md"), slice_str("docs/a.md") };
    struct rag_prune_options prune = { .prefix = slice_str("docs/"),
                                       .keep = keep,
                                       .keep_count = 2 };
    struct arena *arena = arena_new(0);
    struct rag_import_result r;
    struct slice *removed;
    struct error err;
    size_t count;

    assert_int_equal(rag_prune(&s->f.env, &opt, &prune, arena, &removed, &count, &err), OK);
    assert_int_equal(count, 0); /* no collection yet */
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        assert_int_equal(import_text(&s->f, paths[i], "# A\n\nText.", &r, &err), OK);
    assert_int_equal(rag_prune(&s->f.env, &opt, &prune, arena, &removed, &count, &err), OK);
    assert_int_equal(count, 2);
    for (size_t i = 0; i < count; i++)
        assert_true(slice_is(removed[i], "docs/b.md") || slice_is(removed[i], "docs/deep/c.md"));
    assert_int_equal(fixture_count(&s->f, "documents"), 2);
    assert_int_equal(fixture_count(&s->f, "chunks"), 2);
    assert_int_equal(rag_forget(&s->f.env, &opt, slice_str("docs/a.md"), &err), OK);
    assert_int_equal(rag_forget(&s->f.env, &opt, slice_str("docs-2/d.md"), &err), OK);
    prune.prefix = slice_of(NULL, 0);
    assert_int_equal(rag_prune(&s->f.env, &opt, &prune, arena, &removed, &count, &err),
                     ERR_INVALID);
    arena_free(arena);
}

static void many_documents_are_pruned(void **state)
{
    enum { MANY = 200 };
    struct sim *s = *state;
    struct rag_import_options opt = { .db_id = s->f.db_id };
    struct rag_prune_options prune = { .prefix = slice_str("m/") };
    struct arena *arena = arena_new(0);
    struct rag_source sources[MANY];
    struct rag_import_result r;
    struct slice *removed;
    struct error err;
    size_t count;

    for (int i = 0; i < MANY; i++)
        sources[i] = (struct rag_source){ .path = slice_str(arena_printf(arena, "m/%d", i)),
                                          .text = slice_str("Text.") };
    assert_int_equal(import_run(&s->f, sources, MANY, &r, &err), OK);
    assert_int_equal(rag_prune(&s->f.env, &opt, &prune, arena, &removed, &count, &err), OK);
    assert_int_equal(count, MANY);
    assert_int_equal(fixture_count(&s->f, "documents"), 0);
    assert_int_equal(fixture_count(&s->f, "chunks"), 0);
    arena_free(arena);
}

static void an_empty_document_has_no_chunks(void **state)
{
    struct sim *s = *state;
    struct rag_import_result r;
    struct error err;

    assert_int_equal(import_text(&s->f, "empty.md", " \n", &r, &err), OK);
    assert_int_equal(r.documents, 1);
    assert_int_equal(r.chunks, 0);
    assert_int_equal(fixture_count(&s->f, "documents"), 1);
    assert_int_equal(import_run(&s->f, NULL, 0, &r, &err), OK);
    assert_int_equal(r.documents, 0);
}

static void copies_of_a_text_are_one_hit(void **state)
{
    struct sim *s = *state;
    struct rag_import_result r;
    struct error err;
    struct asking a;
    struct rag_ask_options opt = question("the cat");

    assert_int_equal(import_text(&s->f, "a.md", "The cat is grey.", &r, &err), OK);
    assert_int_equal(import_text(&s->f, "b.md", "The cat is grey.", &r, &err), OK);
    assert_int_equal(import_text(&s->f, "c.md", "The cat is black.", &r, &err), OK);
    assert_int_equal(fixture_count(&s->f, "chunks"), 3);
    opt.search_only = true;
    assert_int_equal(ask_run(&s->f, &a, opt), OK);
    assert_int_equal(a.answer.hit_count, 2);
    rag_ask_free(a.ask);
}

static void broken_sources_are_named(void **state)
{
    struct sim *s = *state;
    struct rag_import_result r;
    struct error err;

    assert_int_equal(import_text(&s->f, "bad.txt", "abc\xff", &r, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "bad.txt"));
    assert_non_null(strstr(err.text, "3"));
    assert_int_equal(import_text(&s->f, "", "abc", &r, &err), ERR_INVALID);
}

static void another_model_is_refused_with_a_reason(void **state)
{
    struct sim *s = *state;
    struct rag_import_result r;
    struct error err;
    struct asking a;
    struct rag_ask_options opt = question("text");
    struct rag_import_options options = { .db_id = s->f.db_id, .model = slice_str("small") };
    struct rag_source source = { .path = slice_str("b.md"), .text = slice_str("More text.") };
    struct waiter w = { 0 };
    struct rag_import *im;
    enum rag_state state_out;

    assert_int_equal(import_text(&s->f, "a.md", "Some text.", &r, &err), OK);
    assert_int_equal(rag_import_start(&im, &s->f.env, &options, &source, 1, waiter_of(&w), &err),
                     OK);
    assert_int_equal(rag_import_step(im, &state_out, &r, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "384"));
    assert_non_null(strstr(err.text, "'small'"));
    rag_import_free(im);

    opt.embedding_model = slice_str("small");
    assert_int_equal(ask_run(&s->f, &a, opt), ERR_INVALID);
    assert_non_null(strstr(a.err.text, "384"));
    rag_ask_free(a.ask);
}

static void questions_find_their_document_among_the_samples(void **state)
{
    struct sim *s = *state;
    struct rag_import_result r;
    size_t found = 0;

    import_samples(&s->f, &r);
    for (size_t i = 0; i < SAMPLE_QUESTION_COUNT; i++) {
        const struct sample_question *q = &sample_questions[i];
        struct rag_ask_options opt = question(q->question);
        struct asking a;

        opt.search_only = true;
        opt.top_k = 4;
        assert_int_equal(ask_run(&s->f, &a, opt), OK);
        assert_int_equal(a.answer.hit_count, 4);
        found += rank_of(&a.answer, q->path) > 0;
        rag_ask_free(a.ask);
    }
    assert_in_range(found, SAMPLE_QUESTION_COUNT - 2, SAMPLE_QUESTION_COUNT);
}

struct stream {
    size_t sources;
    struct buf text;
    bool in_order;
};

static void on_sources(void *ctx, const struct rag_source_hit *hits, size_t count)
{
    struct stream *st = ctx;
    (void)hits;
    st->sources += count;
    st->in_order = st->text.len == 0;
}

static void on_text(void *ctx, struct slice text)
{
    buf_add_slice(&((struct stream *)ctx)->text, text);
}

static void an_answer_streams_and_cites(void **state)
{
    struct sim *s = *state;
    struct rag_import_result r;
    struct stream st = { 0 };
    struct asking a;
    struct rag_ask_options opt = question(sample_questions[0].question);

    import_samples(&s->f, &r);
    opt.on_sources = on_sources;
    opt.on_text = on_text;
    opt.ctx = &st;
    assert_int_equal(ask_run(&s->f, &a, opt), OK);
    assert_true(a.answer.is_answered);
    assert_true(slice_is(a.answer.text, "The notice period for the tenant is three months."));
    assert_true(slice_eq(buf_slice(&st.text), a.answer.text));
    assert_true(st.in_order);
    assert_int_equal(st.sources, a.answer.hit_count);
    assert_true(slice_is(a.answer.model, "chat"));
    assert_true(slice_is(a.answer.embedding_model, "embed"));
    assert_true(a.answer.prompt_tokens > 50 && a.answer.completion_tokens > 5);
    assert_int_equal(a.answer.citation_count, 1);
    assert_true(
        slice_is(a.answer.citations[0].quote, "The notice period for the tenant is three months."));
    assert_true(slice_is(a.answer.hits[a.answer.citations[0].source - 1].path,
                         "legal/rental-agreement.md"));
    rag_ask_free(a.ask);
    buf_release(&st.text);
}

static void below_the_threshold_nothing_is_generated(void **state)
{
    struct sim *s = *state;
    struct rag_import_result r;
    struct stream st = { 0 };
    struct asking a;
    struct rag_ask_options opt = question("xylophone quartz?");

    import_samples(&s->f, &r);
    opt.on_text = on_text;
    opt.ctx = &st;
    assert_int_equal(ask_run(&s->f, &a, opt), OK);
    assert_false(a.answer.is_answered);
    assert_int_equal(a.answer.completion_tokens, 0);
    assert_int_equal(a.answer.citation_count, 0);
    assert_true(a.answer.text.len > 0);
    assert_true(slice_eq(buf_slice(&st.text), a.answer.text));
    rag_ask_free(a.ask);
    buf_release(&st.text);
}

static void asking_an_empty_database_says_what_to_do(void **state)
{
    struct sim *s = *state;
    struct asking a;

    assert_int_equal(ask_run(&s->f, &a, question("anything?")), ERR_NOT_FOUND);
    assert_int_equal(error_num(&a.err), 1203);
    assert_non_null(strstr(a.err.text, "import"));
    rag_ask_free(a.ask);
    assert_int_equal(ask_run(&s->f, &a, question("")), ERR_INVALID);
    assert_null(a.ask);
}

/* Imports its own part of the samples again and again, and one path that all share. */
static void *import_in_parallel(void *arg)
{
    struct sim *s = arg;
    static atomic_int number;
    char text[200], shared[200], own[32];
    int me = atomic_fetch_add(&number, 1);

    snprintf(own, sizeof own, "own-%d.md", me);
    for (int i = 0; i < 8; i++) {
        struct rag_source sources[2] = { { .path = slice_str("shared.md") },
                                         { .path = slice_str(own) } };
        struct rag_import_result r;
        struct error err;

        snprintf(text, sizeof text, "# T\n\nThread %d writes round %d.\n\n# U\n\nMore.\n", me, i);
        snprintf(shared, sizeof shared, "# S\n\nThread %d shares round %d.\n", me, i);
        sources[0].text = slice_str(shared);
        sources[1].text = slice_str(text);
        if (import_run(&s->f, sources, 2, &r, &err) != OK) {
            print_error("%s\n", err.text);
            return "failed";
        }
    }
    return NULL;
}

static void imports_side_by_side_leave_one_version(void **state)
{
    struct sim *s = *state;
    pthread_t threads[4];
    void *failed[4];
    struct asking a;
    struct rag_ask_options opt = question("writes round");

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, import_in_parallel, s), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], &failed[i]);
    for (int i = 0; i < 4; i++)
        assert_null(failed[i]);
    assert_int_equal(fixture_count(&s->f, "documents"), 5);
    opt.search_only = true;
    opt.top_k = 100;
    assert_int_equal(ask_run(&s->f, &a, opt), OK);
    assert_int_equal(a.answer.hit_count, fixture_count(&s->f, "chunks"));
    rag_ask_free(a.ask);
}

/* ---- with a generator played by hand ---- */

struct hand {
    struct rag_fixture f;
    struct fake_generator fake;
};

static int hand_open(void **state)
{
    struct hand *h = mem_zalloc(sizeof *h);

    fake_init(&h->fake);
    fixture_open(&h->f, &h->fake.g);
    *state = h;
    return 0;
}

static int hand_close(void **state)
{
    struct hand *h = *state;

    fixture_close(&h->f);
    mem_free(h);
    return 0;
}

static void import_by_hand(struct hand *h)
{
    struct rag_import_result r;
    struct error err;

    h->fake.answers_inside = true;
    assert_int_equal(import_text(&h->f, "a.md", "# A\n\nThe cat is grey.", &r, &err), OK);
    h->fake.answers_inside = false;
}

/* Answers the call that is open. */
static void hand_answer(struct hand *h)
{
    size_t i = (size_t)fake_first_open(&h->fake);

    if (h->fake.calls[i].is_embed)
        fake_embed_answer(&h->fake, i, NULL);
    else
        fake_answer(&h->fake, i, "Grey.");
}

/* A question to the document of import_by_hand that has made `calls` steps, each of which waits. */
static struct rag_ask *ask_by_hand(struct hand *h, struct waiter *w, int calls)
{
    struct rag_ask_options opt = question("Which colour has the cat?");
    struct rag_answer answer;
    struct rag_ask *ask;
    enum rag_state st = RAG_DONE;
    struct error err;

    opt.db_id = h->f.db_id;
    opt.min_score = -1;
    assert_int_equal(rag_ask_start(&ask, &h->f.env, &opt, waiter_of(w), &err), OK);
    for (int i = 0; i < calls; i++) {
        if (i > 0)
            hand_answer(h);
        assert_int_equal(w->woken, i);
        assert_int_equal(rag_ask_step(ask, &st, &answer, &err), OK);
        assert_int_equal(st, RAG_WAIT);
    }
    return ask;
}

static void cancel_in_each_phase_of_ask(void **state)
{
    struct hand *h = *state;

    h->fake.is_small = true;
    import_by_hand(h);
    for (int calls = 0; calls < 4; calls++) { /* none, question, sentences, answer */
        struct waiter w = { 0 };
        struct rag_ask *ask = ask_by_hand(h, &w, calls);
        struct rag_answer answer;
        enum rag_state st;
        struct error err;

        atomic_store(&w.cancel, true);
        if (calls > 0)
            hand_answer(h);
        assert_int_equal(w.woken, calls);
        assert_int_equal(rag_ask_step(ask, &st, &answer, &err), ERR_GONE);
        rag_ask_free(ask);
    }
    assert_int_equal(h->fake.open, 0);
}

static void small_models_get_sentences_and_large_ones_chunks(void **state)
{
    struct hand *h = *state;

    import_by_hand(h);
    for (int small = 0; small < 2; small++) {
        struct waiter w = { 0 };
        struct rag_answer answer;
        struct rag_ask *ask;
        enum rag_state st;
        struct error err;

        h->fake.is_small = small;
        ask = ask_by_hand(h, &w, 3);
        assert_true(strncmp(h->fake.calls[h->fake.count - 1].prompt,
                            small ? "Notes:" : "Sources:", 6) == 0);
        assert_non_null(strstr(h->fake.calls[h->fake.count - 1].prompt, "The cat is grey."));
        hand_answer(h);
        assert_int_equal(rag_ask_step(ask, &st, &answer, &err), OK);
        assert_int_equal(st, RAG_DONE);
        assert_true(slice_is(answer.text, "Grey."));
        assert_int_equal(answer.citation_count, 1);
        assert_true(slice_is(answer.citations[0].quote, "The cat is grey."));
        rag_ask_free(ask);
    }
}

static void cancel_of_an_import_writes_nothing_more(void **state)
{
    struct hand *h = *state;
    struct rag_source sources[2] = { { .path = slice_str("a"), .text = slice_str("One.") },
                                     { .path = slice_str("b"), .text = slice_str("Two.") } };
    struct rag_import_options opt = { .db_id = h->f.db_id };
    struct rag_import_result r;
    struct rag_import *im;
    struct waiter w = { 0 };
    enum rag_state st;
    struct error err;

    assert_int_equal(rag_import_start(&im, &h->f.env, &opt, sources, 2, waiter_of(&w), &err), OK);
    assert_int_equal(rag_import_step(im, &st, &r, &err), OK);
    assert_int_equal(st, RAG_WAIT);
    atomic_store(&w.cancel, true);
    assert_int_equal(h->fake.calls[0].embed.count, 2); /* both documents in one call */
    h->fake.calls[0].embed.texts = (struct slice[]){ slice_str("One."), slice_str("Two.") };
    fake_embed_answer(&h->fake, 0, NULL);
    assert_int_equal(w.woken, 1);
    assert_int_equal(rag_import_step(im, &st, &r, &err), ERR_GONE);
    rag_import_free(im);
    assert_int_equal(fixture_count(&h->f, "documents"), 0);
    assert_int_equal(fixture_count(&h->f, "chunks"), 0);
}

static void a_busy_model_is_told(void **state)
{
    struct hand *h = *state;
    struct rag_import_result r;
    struct error err;
    struct asking a;

    import_by_hand(h);
    h->fake.room = 0;
    assert_int_equal(import_text(&h->f, "b.md", "Text.", &r, &err), ERR_BUSY);
    assert_int_equal(ask_run(&h->f, &a, question("?")), ERR_BUSY);
    rag_ask_free(a.ask);
}

static void failures_of_the_model_are_passed_on(void **state)
{
    struct hand *h = *state;
    struct rag_ask_options opt = question("?");
    struct error err, why;
    struct asking a;

    import_by_hand(h);
    (void)fail(&why, ERR_TIMEOUT, "too slow");
    for (int calls = 1; calls < 4; calls++) { /* question, sentences, answer */
        struct waiter w = { 0 };
        struct rag_ask *ask = ask_by_hand(h, &w, calls);
        size_t open = (size_t)fake_first_open(&h->fake);
        struct rag_answer answer;
        enum rag_state st;

        if (h->fake.calls[open].is_embed)
            fake_embed_answer(&h->fake, open, &why);
        else
            fake_fail(&h->fake, open, &why);
        assert_int_equal(rag_ask_step(ask, &st, &answer, &err), ERR_TIMEOUT);
        assert_string_equal(err.text, "too slow");
        rag_ask_free(ask);
    }
    opt.model = slice_str("missing");
    assert_int_equal(ask_run(&h->f, &a, opt), ERR_NOT_FOUND);
    rag_ask_free(a.ask);
}

static void an_answer_that_does_not_know_is_no_answer(void **state)
{
    struct hand *h = *state;
    struct waiter w = { 0 };
    struct rag_answer answer;
    struct rag_ask *ask;
    enum rag_state st;
    struct error err;

    import_by_hand(h);
    ask = ask_by_hand(h, &w, 3);
    fake_answer(&h->fake, (size_t)fake_first_open(&h->fake),
                "The documents do not answer this question.");
    assert_int_equal(rag_ask_step(ask, &st, &answer, &err), OK);
    assert_int_equal(st, RAG_DONE);
    assert_false(answer.is_answered);
    assert_int_equal(answer.citation_count, 0);
    rag_ask_free(ask);
}

static void the_prompt_fits_the_context(void **state)
{
    struct hand *h = *state;
    struct rag_import_result r;
    struct rag_ask_options opt;
    struct asking a;
    struct error err;
    char *longest = mem_alloc(60001);

    h->fake.answers_inside = true;
    assert_int_equal(import_text(&h->f, "a.md", "# A\n\nThe cat is grey.", &r, &err), OK);
    opt = question("Which colour?");
    opt.min_score = -1;
    opt.max_tokens = 1800; /* of 2,048 */
    assert_int_equal(ask_run(&h->f, &a, opt), OK);
    rag_ask_free(a.ask);
    memset(longest, 'x', 60000);
    longest[60000] = 0;
    opt.question = slice_str(longest);
    assert_int_equal(ask_run(&h->f, &a, opt), ERR_INVALID);
    assert_non_null(strstr(a.err.text, "too long"));
    rag_ask_free(a.ask);
    mem_free(longest);
}

#define WITH_SIM(test) cmocka_unit_test_setup_teardown(test, sim_open, sim_close)
#define WITH_HAND(test) cmocka_unit_test_setup_teardown(test, hand_open, hand_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SIM(a_second_import_of_the_same_changes_nothing),
        WITH_SIM(a_changed_document_replaces_its_chunks),
        WITH_SIM(a_forgotten_document_is_gone),
        WITH_SIM(a_folder_is_pruned_to_what_it_still_has),
        WITH_SIM(many_documents_are_pruned),
        WITH_SIM(an_empty_document_has_no_chunks),
        WITH_SIM(copies_of_a_text_are_one_hit),
        WITH_SIM(broken_sources_are_named),
        WITH_SIM(another_model_is_refused_with_a_reason),
        WITH_SIM(questions_find_their_document_among_the_samples),
        WITH_SIM(an_answer_streams_and_cites),
        WITH_SIM(below_the_threshold_nothing_is_generated),
        WITH_SIM(asking_an_empty_database_says_what_to_do),
        WITH_SIM(imports_side_by_side_leave_one_version),
        WITH_HAND(cancel_in_each_phase_of_ask),
        WITH_HAND(small_models_get_sentences_and_large_ones_chunks),
        WITH_HAND(cancel_of_an_import_writes_nothing_more),
        WITH_HAND(a_busy_model_is_told),
        WITH_HAND(failures_of_the_model_are_passed_on),
        WITH_HAND(an_answer_that_does_not_know_is_no_answer),
        WITH_HAND(the_prompt_fits_the_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
