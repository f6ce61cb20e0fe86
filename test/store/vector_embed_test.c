/* SPDX-License-Identifier: Apache-2.0 */
#include "vector_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- a model ---- */

static struct model {
    _Atomic int texts, calls;
    _Atomic bool is_missing, is_held;
} model;

/* Equal texts have equal vectors, others hardly. */
static void vector_of(struct slice text, float *out)
{
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < text.len; i++)
        h = (h ^ (unsigned char)text.ptr[i]) * 1099511628211u;
    for (int i = 0; i < DIMENSION; i++) {
        h = h * 6364136223846793005u + 1442695040888963407u;
        out[i] = (float)(h >> 40) / (float)(1 << 23) - 1;
    }
}

static enum errc embed(void *ctx, const struct vector_texts *t, float *rows, struct error *err)
{
    (void)ctx;
    model.calls++;
    if (model.is_missing || !slice_is(t->model, "words"))
        return (fail)(err, ERR_NOT_FOUND, "no model '%.*s'", SLICE_ARG(t->model));
    while (model.is_held && !atomic_load(t->cancel))
        usleep(500);
    for (size_t i = 0; i < t->count; i++)
        vector_of(t->texts[i], rows + i * DIMENSION);
    model.texts += (int)t->count;
    return OK;
}

static const struct vector_embedder embedder = { embed, NULL };

static uint64_t make_source_index(struct fixture *f, uint64_t c, const char *name)
{
    char def[300];
    snprintf(def, sizeof def,
             "{\"type\":\"vector\",\"fields\":[\"v\"],\"params\":{\"metric\":\"l2\","
             "\"dimension\":%d,\"source\":[\"title\",\"body.text\"],\"model\":\"%s\"}}",
             DIMENSION, name);
    return make_index(f, c, def);
}

static int setup(void **out)
{
    struct fixture *f = calloc(1, sizeof *f);
    fixture_init(f, true);
    memset(&model, 0, sizeof model);
    make_source_index(f, make_collection(f, "c", COLLECTION_DOCUMENT), "words");
    OK_OR_FAIL(store_start_embedding(f->store, &embedder, &f->err), &f->err);
    *out = f;
    return 0;
}

static int teardown(void **out)
{
    model.is_held = false;
    fixture_release(*out);
    free(*out);
    return 0;
}

static void wait_for_vectors(struct fixture *f)
{
    while (figures_of(f).pending)
        usleep(1000);
}

/* Keys in the order of distance from the text's vector. */
static const char *near_to(struct fixture *f, struct txn *t, const char *text)
{
    struct vector_hit hits[20];
    size_t count;
    float query[DIMENSION];
    struct vector_request request = { .vector = query, .dimension = DIMENSION, .k = 20 };
    struct buf out;
    vector_of(slice_str(text), query);
    OK_OR_FAIL(vector_search(t, in(f, t, "c"), vector_index_of(f, t), &request, f->arena, hits,
                             &count, &f->err),
               &f->err);
    buf_init(&out, 0);
    for (size_t i = 0; i < count; i++)
        buf_printf(&out, "%s%.*s%s", i ? " " : "", SLICE_ARG(hits[i].key),
                   hits[i].score == 0 ? "!" : "");
    const char *keys = arena_copy(f->arena, buf_slice(&out)).ptr;
    buf_release(&out);
    return keys;
}

static const char *near_now(struct fixture *f, const char *text)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    const char *keys = near_to(f, t, text);
    txn_end(t);
    return keys;
}

static void change(struct fixture *f, struct txn *t, const char *key, const char *patch)
{
    struct doc_change done;
    OK_OR_FAIL(doc_update(t, in(f, t, "c"), slice_str(key), json(f, patch), NULL, f->arena, &done,
                          &f->err),
               &f->err);
}

static void change_now(struct fixture *f, const char *key, const char *patch)
{
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    change(f, t, key, patch);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
}

/* ---- tests ---- */

static void vectors_follow_the_texts(void **out)
{
    struct fixture *f = *out;
    must_put(f, "c", "{\"_key\":\"a\",\"title\":\"red\"}");
    must_put(f, "c", "{\"_key\":\"b\",\"title\":\"red\",\"body\":{\"text\":[\"hot\",\"big\"]}}");
    must_put(f, "c", "{\"_key\":\"n\",\"title\":7}"); /* no text */
    wait_for_vectors(f);
    assert_string_equal(strchr(near_now(f, "red"), ' ') ? "two" : "one", "two");
    assert_true(strncmp(near_now(f, "red"), "a!", 2) == 0);
    assert_true(strncmp(near_now(f, "red\nhot\nbig"), "b!", 2) == 0);
    change_now(f, "a", "{\"title\":\"blue\"}");
    assert_null(strstr(near_now(f, "red"), "a!")); /* at once, before there is a new vector */
    wait_for_vectors(f);
    assert_true(strncmp(near_now(f, "blue"), "a!", 2) == 0);
    int texts = model.texts;
    change_now(f, "a", "{\"other\":1}"); /* nothing to do */
    assert_int_equal(figures_of(f).pending, 0);
    assert_int_equal(model.texts, texts);
    assert_int_equal(take(f, "c", "a"), OK);
    assert_null(strstr(near_now(f, "blue"), "a"));
    change_now(f, "b", "{\"title\":null,\"body\":null}");
    assert_string_equal(near_now(f, "red"), "");
    assert_int_equal(figures_of(f).pending, 0);
}

static void a_vector_that_the_document_brings_is_kept(void **out)
{
    struct fixture *f = *out;
    must_put(f, "c", "{\"_key\":\"a\",\"title\":\"red\",\"v\":[1,1,1,1,1,1,1,1]}");
    assert_int_equal(figures_of(f).pending, 0);
    assert_string_equal(near_now(f, "red"), "a");
    assert_int_equal(put(f, "c", "{\"title\":\"x\",\"v\":[1]}"), ERR_INVALID);
    change_now(f, "a", "{\"v\":null}");
    wait_for_vectors(f);
    assert_string_equal(near_now(f, "red"), "a!");
    change_now(f, "a", "{\"v\":[2,2,2,2,2,2,2,2]}");
    assert_string_equal(near_now(f, "red"), "a");
    assert_int_equal(figures_of(f).pending, 0);
}

static void texts_wait_for_a_model_that_is_not_there(void **out)
{
    struct fixture *f = *out;
    model.is_missing = true;
    must_put(f, "c", "{\"_key\":\"a\",\"title\":\"red\"}");
    while (!model.calls || !figures_of(f).embed_error[0])
        usleep(1000);
    struct vector_figures figures = figures_of(f);
    assert_int_equal(figures.pending, 1);
    assert_string_equal(figures.embed_error, "no model 'words'");
    assert_string_equal(near_now(f, "red"), "");
    fixture_reopen(f); /* the note stays */
    assert_int_equal(figures_of(f).pending, 1);
    OK_OR_FAIL(store_start_embedding(f->store, &embedder, &f->err), &f->err);
    usleep(20000);
    assert_int_equal(figures_of(f).pending, 1);
    model.is_missing = false;
    wait_for_vectors(f); /* tried again */
    assert_string_equal(near_now(f, "red"), "a!");
    while (figures_of(f).embed_error[0])
        usleep(1000);
}

/* A text that changes while it is embedded is not given the vector of the old one. */
static void a_text_that_changed_meanwhile_gets_its_own_vector(void **out)
{
    struct fixture *f = *out;
    model.is_held = true;
    must_put(f, "c", "{\"_key\":\"a\",\"title\":\"red\"}");
    must_put(f, "c", "{\"_key\":\"b\",\"title\":\"red\"}");
    must_put(f, "c", "{\"_key\":\"d\",\"title\":\"red\"}");
    while (!model.calls)
        usleep(1000);
    change_now(f, "a", "{\"title\":\"blue\"}");
    assert_int_equal(take(f, "c", "b"), OK);
    model.is_held = false;
    wait_for_vectors(f);
    assert_null(strstr(near_now(f, "red"), "a!"));
    assert_null(strstr(near_now(f, "red"), "b"));
    assert_true(strncmp(near_now(f, "red"), "d!", 2) == 0);
    assert_true(strncmp(near_now(f, "blue"), "a!", 2) == 0);
}

/* The background never refuses a client: whoever began before the vector came may commit. */
static void clients_do_not_lose_against_the_background(void **out)
{
    struct fixture *f = *out;
    model.is_held = true;
    must_put(f, "c", "{\"_key\":\"a\",\"title\":\"red\"}");
    must_put(f, "c", "{\"_key\":\"b\",\"title\":\"red\"}");
    struct txn *t = begin(f, ISOLATION_SERIALIZABLE);
    const char *before = near_to(f, t, "red");
    assert_string_equal(before, "");
    model.is_held = false;
    wait_for_vectors(f);
    assert_string_equal(near_to(f, t, "red"), before); /* its view stays */
    change(f, t, "a", "{\"title\":\"blue\"}");
    struct doc_change done;
    OK_OR_FAIL(doc_remove(t, in(f, t, "c"), slice_str("b"), NULL, f->arena, &done, &f->err),
               &f->err);
    OK_OR_FAIL(txn_commit(t, &f->err), &f->err);
    txn_end(t);
    wait_for_vectors(f);
    assert_string_equal(near_now(f, "blue"), "a!");
}

static void an_index_over_old_documents_embeds_them(void **out)
{
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "old", COLLECTION_DOCUMENT);
    for (int i = 0; i < 150; i++) {
        char text[80];
        snprintf(text, sizeof text, "{\"_key\":\"%d\",\"title\":\"word %d\"}", i, i);
        must_put(f, "old", text);
    }
    uint64_t id = make_source_index(f, c, "words");
    for (;;) {
        struct vector_figures figures;
        struct txn *t = begin(f, ISOLATION_SNAPSHOT);
        vector_figures(f->store, collection_index(in(f, t, "old"), id), &figures);
        txn_end(t);
        if (!figures.pending)
            break;
        usleep(1000);
    }
    struct txn *t = begin(f, ISOLATION_SNAPSHOT);
    float query[DIMENSION];
    struct vector_hit hits[200];
    size_t count;
    struct vector_request request = { .vector = query, .dimension = DIMENSION, .k = 200 };
    vector_of(slice_str("word 77"), query);
    const struct collection *col = in(f, t, "old");
    OK_OR_FAIL(
        vector_search(t, col, collection_index(col, id), &request, f->arena, hits, &count, &f->err),
        &f->err);
    txn_end(t);
    assert_int_equal(count, 150);
    assert_true(slice_is(hits[0].key, "77") && hits[0].score == 0);
}

static void bad_sources_are_refused(void **out)
{
    static const char *const params[] = {
        "\"source\":[]",
        "\"source\":\"a\"",
        "\"source\":[1]",
        "\"source\":[\"a[*]\"]",
        "\"source\":[\"a\"],\"model\":7",
        "\"model\":\"x\"",
    };
    struct fixture *f = *out;
    uint64_t c = make_collection(f, "d", COLLECTION_DOCUMENT), id;
    bool is_new;
    for (size_t i = 0; i < ARRAY_LEN(params); i++) {
        char def[200];
        snprintf(def, sizeof def,
                 "{\"type\":\"vector\",\"fields\":[\"v\"],\"params\":{\"metric\":\"l2\","
                 "\"dimension\":2,%s}}",
                 params[i]);
        if (store_create_index(f->store, c, json(f, def), &id, &is_new, &f->err) != ERR_INVALID)
            fail_msg("%s", def);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(vectors_follow_the_texts),
        TEST(a_vector_that_the_document_brings_is_kept),
        TEST(texts_wait_for_a_model_that_is_not_there),
        TEST(a_text_that_changed_meanwhile_gets_its_own_vector),
        TEST(clients_do_not_lose_against_the_background),
        TEST(an_index_over_old_documents_embeds_them),
        TEST(bad_sources_are_refused),
    };
    return cmocka_run_group_tests_name("vector_embed", tests, NULL, NULL);
}
