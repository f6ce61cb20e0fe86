/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding over the scripted engine: vectors, fairness, truncation, cancelling. */
#include "base/fault.h"
#include "collect.h"
#include "model/embed.h"

#include <math.h>
#include <stdio.h>

enum { IMPORT = 2000 };

static enum errc embed(struct models *m, const struct slice *texts, size_t count,
                       const atomic_bool *cancel, struct vectors *v, struct error *err)
{
    struct generator *g = models_generator(m);
    return g->embed(
        g,
        &(struct embed_request){
            .texts = texts, .count = count, .cancel = cancel, .on_done = vectors_done, .ctx = v },
        err);
}

static void similar_texts_are_near_each_other(void **state)
{
    (void)state;
    struct models *m = models_with(NULL);
    struct error err;
    struct vectors v;
    struct slice texts[4] = { slice_str("The tenant returns the keys of the flat"),
                              slice_str("keys are returned by the tenant"),
                              slice_str("Volcanoes erupt on distant islands"), slice_str("") };
    load(m, "e", "sim:embed,dim=384");
    vectors_init(&v);
    assert_int_equal(embed(m, texts, 4, NULL, &v, &err), OK);
    vectors_wait(&v);
    assert_int_equal(v.count, 4);
    assert_int_equal(v.dimension, 384);
    for (int i = 0; i < 4; i++)
        assert_true(fabs(dot(v.rows + 384 * i, v.rows + 384 * i, 384) - 1) < 1e-5);
    assert_true(dot(v.rows, v.rows + 384, 384) > 0.4);
    assert_true(fabs(dot(v.rows, v.rows + 768, 384)) < 0.3);
    vectors_release(&v);
    models_free(m);
}

static void batches_do_not_change_vectors(void **state)
{
    (void)state;
    struct models *m = models_with(NULL);
    struct error err;
    struct vectors all, one;
    static char text[300][48];
    static struct slice texts[300];
    load(m, "e", "sim:embed,dim=64");
    for (int i = 0; i < 300; i++) {
        snprintf(text[i], sizeof text[i], "word%d and word%d", i, i / 2);
        texts[i] = slice_str(text[i]);
    }
    vectors_init(&all);
    assert_int_equal(embed(m, texts, 300, NULL, &all, &err), OK);
    vectors_wait(&all);
    for (int i = 0; i < 300; i += 37) {
        vectors_init(&one);
        assert_int_equal(embed(m, &texts[i], 1, NULL, &one, &err), OK);
        vectors_wait(&one);
        assert_memory_equal(one.rows, all.rows + 64 * i, 64 * sizeof(float));
        vectors_release(&one);
    }
    vectors_release(&all);
    models_free(m);
}

static void long_texts_are_cut_and_said_so(void **state)
{
    (void)state;
    struct models *m = models_with(NULL);
    struct error err;
    struct vectors v;
    struct buf text;
    load(m, "e", "sim:embed,dim=16,ctx=32");
    buf_init(&text, 0);
    for (int i = 0; i < 100; i++)
        buf_add_str(&text, " word");
    struct slice texts[2] = { slice_str("short"), buf_slice(&text) };
    vectors_init(&v);
    assert_int_equal(embed(m, texts, 2, NULL, &v, &err), OK);
    vectors_wait(&v);
    assert_false(v.truncated[0]);
    assert_true(v.truncated[1]);
    assert_int_equal(v.tokens, 2 + 32);
    vectors_release(&v);

    struct generator *g = models_generator(m);
    size_t count = 0, len = 0;
    assert_int_equal(g->count_tokens(g, slice_str("e"), buf_slice(&text), &count, &err), OK);
    assert_int_equal(count, 101);
    assert_int_equal(g->fit_tokens(g, slice_str("e"), buf_slice(&text), 32, &len, &err), OK);
    assert_int_equal(len, 31 * 5);
    buf_release(&text);
    models_free(m);
}

/* 2,000 texts take seconds; a query that comes later is done long before. */
static void a_query_overtakes_an_import(void **state)
{
    (void)state;
    struct models *m = models_with(NULL);
    struct error err;
    struct vectors import, query;
    atomic_bool cancel = false;
    static struct slice texts[IMPORT];
    load(m, "e", "sim:embed,dim=16,prefill=4000");
    for (int i = 0; i < IMPORT; i++)
        texts[i] = slice_str("ten words of a text that somebody wants to import");
    vectors_init(&import);
    vectors_init(&query);
    assert_int_equal(embed(m, texts, IMPORT, &cancel, &import, &err), OK);
    nap_ms(100);
    for (int i = 0; i < 5; i++) {
        vectors_release(&query);
        vectors_init(&query);
        assert_int_equal(embed(m, texts, 1, NULL, &query, &err), OK);
        vectors_wait(&query);
        assert_int_equal(import.calls, 0);
    }
    atomic_store(&cancel, true);
    vectors_wait(&import);
    assert_true(import.has_failed);
    assert_int_equal(import.err.code, ERR_GONE);
    vectors_release(&import);
    vectors_release(&query);
    models_free(m);
}

/* Many small requests do not keep a long text from its turn. */
static void long_texts_get_their_turn(void **state)
{
    (void)state;
    struct models *m = models_with(NULL);
    struct error err;
    static struct vectors small[40];
    struct vectors big;
    struct buf text;
    struct slice word = slice_str("word");
    load(m, "e", "sim:embed,dim=16,ctx=512,prefill=20000");
    buf_init(&text, 0);
    for (int i = 0; i < 500; i++)
        buf_add_str(&text, " word");
    struct slice long_text = buf_slice(&text);
    for (int i = 0; i < 40; i++) {
        vectors_init(&small[i]);
        if (i == 5) {
            vectors_init(&big);
            assert_int_equal(embed(m, &long_text, 1, NULL, &big, &err), OK);
        }
        assert_int_equal(embed(m, &word, 1, NULL, &small[i], &err), OK);
    }
    vectors_wait(&big);
    for (int i = 0; i < 40; i++) {
        vectors_wait(&small[i]);
        vectors_release(&small[i]);
    }
    vectors_release(&big);
    buf_release(&text);
    models_free(m);
}

static void a_failed_step_fails_its_texts_only(void **state)
{
    (void)state;
    struct models *m = models_with(NULL);
    struct error err;
    struct vectors a, b;
    struct slice word = slice_str("word");
    load(m, "e", "sim:embed,dim=16");
    vectors_init(&a);
    vectors_init(&b);
    fault_arm("model.embed", 1);
    assert_int_equal(embed(m, &word, 1, NULL, &a, &err), OK);
    vectors_wait(&a);
    fault_disarm();
    assert_true(a.has_failed);
    assert_int_equal(a.err.code, ERR_INTERNAL);
    assert_int_equal(embed(m, &word, 1, NULL, &b, &err), OK);
    vectors_wait(&b);
    assert_false(b.has_failed);
    vectors_release(&a);
    vectors_release(&b);
    models_free(m);
}

struct seen_at_end {
    struct embedder *e;
    struct vectors v;
    uint32_t waiting;
};

static void look_at_queue(void *ctx, const struct embed_result *r)
{
    struct seen_at_end *s = ctx;
    struct embedder_stats stats;
    embedder_stats(s->e, &stats);
    s->waiting = stats.waiting;
    vectors_done(&s->v, r);
}

/*
 * Everybody of a failed step is out of the queue before the first is told and freed: who comes
 * then may get the address of one that has ended, and must not be taken for it.
 */
static void a_failed_step_spares_who_comes_meanwhile(void **state)
{
    (void)state;
    struct engine *engine = NULL;
    struct embedder *e = NULL;
    struct error err;
    struct seen_at_end ends[3];
    struct slice word = slice_str("word");
    ok(engine_sim_open(&engine, "embed,dim=16,prefill=50", &err), &err);
    ok(embedder_new(
           &e, &(struct embedder_options){ .engine = engine, .window = 64, .queue_max = 8 }, &err),
       &err);
    fault_arm("model.embed", 2);
    for (int i = 0; i < 3; i++) {
        ends[i].e = e;
        vectors_init(&ends[i].v);
        struct embed_request r = {
            .texts = &word, .count = 1, .on_done = look_at_queue, .ctx = &ends[i]
        };
        ok(embedder_add(e, &r, &err), &err);
        nap_ms(i ? 0 : 20); /* the step of the first lets the others queue */
    }
    for (int i = 0; i < 3; i++)
        vectors_wait(&ends[i].v);
    fault_disarm();
    assert_false(ends[0].v.has_failed);
    for (int i = 1; i < 3; i++) {
        assert_true(ends[i].v.has_failed);
        assert_int_equal(ends[i].waiting, 0);
    }
    for (int i = 0; i < 3; i++)
        vectors_release(&ends[i].v);
    embedder_free(e);
    engine_free(engine);
}

static void limits_are_kept(void **state)
{
    (void)state;
    static const char *const conf[] = { "max_queued_requests=2", NULL };
    struct models *m = models_with(conf);
    struct error err;
    struct vectors v[3];
    struct slice words = slice_str("some words that take time");
    load(m, "e", "sim:embed,dim=16,prefill=50");
    for (int i = 0; i < 3; i++)
        vectors_init(&v[i]);
    assert_int_equal(embed(m, &words, 0, NULL, &v[0], &err), ERR_INVALID);
    assert_int_equal(embed(m, &words, 1, NULL, &v[0], &err), OK);
    assert_int_equal(embed(m, &words, 1, NULL, &v[1], &err), OK);
    assert_int_equal(embed(m, &words, 1, NULL, &v[2], &err), ERR_BUSY);
    vectors_wait(&v[0]);
    vectors_wait(&v[1]);
    assert_int_equal(v[2].calls, 0);
    for (int i = 0; i < 3; i++)
        vectors_release(&v[i]);
    models_free(m);
}

static void fitting_prefixes_are_the_longest(void **state)
{
    (void)state;
    struct models *m = models_with(NULL);
    struct generator *g = models_generator(m);
    struct error err;
    size_t len = 0, count = 0;
    const char *text = "one two, h\xc3\xa9llo \xf0\x9f\x98\x80 three four";
    load(m, "a", "sim:chat");
    for (size_t max = 0; max < 20; max++) {
        assert_int_equal(g->fit_tokens(g, slice_str(""), slice_str(text), max, &len, &err), OK);
        assert_true(utf8_check(slice_of(text, len), NULL));
        assert_int_equal(g->count_tokens(g, slice_str(""), slice_of(text, len), &count, &err), OK);
        assert_true(count <= max);
        if (len == strlen(text))
            continue;
        size_t next = len + 1;
        while (((unsigned char)text[next] & 0xc0) == 0x80)
            next++;
        assert_int_equal(g->count_tokens(g, slice_str(""), slice_of(text, next), &count, &err), OK);
        assert_true(count > max);
    }
    assert_int_equal(g->fit_tokens(g, slice_str(""), slice_str(""), 5, &len, &err), OK);
    assert_int_equal(len, 0);
    models_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(similar_texts_are_near_each_other),
        cmocka_unit_test(batches_do_not_change_vectors),
        cmocka_unit_test(long_texts_are_cut_and_said_so),
        cmocka_unit_test(a_query_overtakes_an_import),
        cmocka_unit_test(long_texts_get_their_turn),
        cmocka_unit_test(a_failed_step_fails_its_texts_only),
        cmocka_unit_test(a_failed_step_spares_who_comes_meanwhile),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(fitting_prefixes_are_the_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
