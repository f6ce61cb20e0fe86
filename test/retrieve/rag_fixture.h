/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rag_fixture -- a store in memory, a generator, and loops that run the state
 * machines of retrieve as a server would.
 */
#ifndef TEST_RETRIEVE_RAG_FIXTURE_H
#define TEST_RETRIEVE_RAG_FIXTURE_H

#include "base/buf.h"
#include "retrieve/rag.h"
#include "store/doc.h"
#include "store/txn.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#undef fail /* ours is a function */

/* The owner's side of wake. */
struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int woken;
    atomic_bool cancel;
};

static inline void waiter_wake(void *ctx)
{
    struct waiter *w = ctx;
    pthread_mutex_lock(&w->lock);
    w->woken++;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

static inline void waiter_wait(struct waiter *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->woken == 0)
        pthread_cond_wait(&w->cond, &w->lock);
    w->woken--;
    pthread_mutex_unlock(&w->lock);
}

static inline struct rag_wake waiter_of(struct waiter *w)
{
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->cond, NULL);
    w->woken = 0;
    return (struct rag_wake){ .fn = waiter_wake, .ctx = w, .cancel = &w->cancel };
}

struct rag_fixture {
    struct settings settings;
    struct store *store;
    struct rag_env env;
    uint64_t db_id;
};

static inline void fixture_open(struct rag_fixture *f, struct generator *g)
{
    struct store_options opt = { .settings = &f->settings };
    struct txn_options read_only = { .is_read_only = true };
    struct txn *t;
    struct error err;

    settings_init(&f->settings);
    assert_int_equal(store_open(&f->store, &opt, &err), OK);
    f->env = (struct rag_env){ .store = f->store, .generator = g, .settings = &f->settings };
    assert_int_equal(txn_begin(&t, f->store, &read_only, &err), OK);
    f->db_id = catalog_database(txn_catalog(t), slice_str("_system"))->id;
    txn_end(t);
}

static inline void fixture_close(struct rag_fixture *f)
{
    store_close(f->store);
}

/* Runs an import to its end. */
static inline enum errc import_run(struct rag_fixture *f, const struct rag_source *sources,
                                   size_t count, struct rag_import_result *result,
                                   struct error *err)
{
    struct rag_import_options opt = { .db_id = f->db_id };
    struct waiter w = { 0 };
    struct rag_import *im;
    enum rag_state state = RAG_WAIT;
    enum errc rc;

    assert_int_equal(rag_import_start(&im, &f->env, &opt, sources, count, waiter_of(&w), err), OK);
    while ((rc = rag_import_step(im, &state, result, err)) == OK && state == RAG_WAIT)
        waiter_wait(&w);
    rag_import_free(im);
    return rc;
}

static inline enum errc import_text(struct rag_fixture *f, const char *path, const char *text,
                                    struct rag_import_result *result, struct error *err)
{
    struct rag_source source = { .path = slice_str(path),
                                 .text = slice_str(text),
                                 .format = RAG_MARKDOWN };
    return import_run(f, &source, 1, result, err);
}

/* A question under way; release with ask_free. */
struct asking {
    struct waiter waiter;
    struct rag_ask *ask;
    struct rag_answer answer;
    struct error err;
};

static inline enum errc ask_run(struct rag_fixture *f, struct asking *a, struct rag_ask_options opt)
{
    enum rag_state state = RAG_WAIT;
    enum errc rc;

    opt.db_id = f->db_id;
    a->ask = NULL;
    a->waiter.cancel = false;
    rc = rag_ask_start(&a->ask, &f->env, &opt, waiter_of(&a->waiter), &a->err);
    while (rc == OK && (rc = rag_ask_step(a->ask, &state, &a->answer, &a->err)) == OK &&
           state == RAG_WAIT)
        waiter_wait(&a->waiter);
    return rc;
}

static inline struct rag_ask_options question(const char *text)
{
    return (struct rag_ask_options){ .question = slice_str(text),
                                     .min_score = (double)NAN,
                                     .temperature = (double)NAN };
}

/* Documents of a collection. */
static inline uint64_t fixture_count(struct rag_fixture *f, const char *collection)
{
    struct txn_options read_only = { .is_read_only = true };
    const struct collection *c;
    struct txn *t;
    struct error err;
    uint64_t n = 0;

    assert_int_equal(txn_begin(&t, f->store, &read_only, &err), OK);
    c = catalog_collection(txn_catalog(t), f->db_id, slice_str(collection));
    if (c)
        assert_int_equal(doc_count(t, c, &n, &err), OK);
    txn_end(t);
    return n;
}

static const char *const sample_paths[] = {
    "legal/rental-agreement.md",         "legal/data-processing-policy.md",
    "legal/maintenance-contract.txt",    "legal/tool-library-bylaws.md",
    "medical/vaccination-guideline.md",  "medical/velotrin-leaflet.txt",
    "medical/hand-hygiene-policy.md",    "medical/specimen-handling.txt",
    "geospatial/river-gauge-network.md", "geospatial/survey-coordinate-guide.txt",
    "geospatial/lidar-survey-report.md", "geospatial/address-register-manual.md",
};
enum { SAMPLE_COUNT = sizeof sample_paths / sizeof *sample_paths };

/* The documents under samples/; free the texts with samples_free. */
static inline void samples_read(struct rag_source *sources)
{
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        char path[256];
        struct buf text;
        char part[4096];
        size_t n;
        FILE *file;

        snprintf(path, sizeof path, "samples/%s", sample_paths[i]);
        file = fopen(path, "rb");
        assert_non_null(file);
        buf_init(&text, 0);
        while ((n = fread(part, 1, sizeof part, file)) > 0)
            buf_add(&text, part, n);
        fclose(file);
        sources[i] = (struct rag_source){ .path = slice_str(sample_paths[i]),
                                          .text = buf_slice(&text),
                                          .format = strstr(path, ".md") ? RAG_MARKDOWN : RAG_TEXT };
    }
}

static inline void samples_free(struct rag_source *sources)
{
    for (size_t i = 0; i < SAMPLE_COUNT; i++)
        mem_free((char *)(uintptr_t)sources[i].text.ptr);
}

/* The questions of samples/README.md with their document and a part of the fact. */
static const struct sample_question {
    const char *question, *path, *fact;
} sample_questions[] = {
    { "How long is the notice period for the tenant?", "legal/rental-agreement.md",
      "three months" },
    { "How much is the deposit for the flat in Alder Lane?", "legal/rental-agreement.md", "1,880" },
    { "How long are camera recordings of the loading ramps kept?",
      "legal/data-processing-policy.md", "72 hours" },
    { "Who keeps the deposited source code of Folio Desk?", "legal/maintenance-contract.txt",
      "Edda Quist" },
    { "For how long can a member borrow a power tool?", "legal/tool-library-bylaws.md",
      "five days" },
    { "At which temperature are vaccines stored?", "medical/vaccination-guideline.md", "2 and 8" },
    { "What is the highest dose of Velotrin?", "medical/velotrin-leaflet.txt", "two tablets" },
    { "How many negative swabs end the isolation of an MRSA patient?",
      "medical/hand-hygiene-policy.md", "three" },
    { "How quickly must an ammonia sample reach the laboratory?", "medical/specimen-handling.txt",
      "15 minutes" },
    { "How long does a flood wave take from Kellbridge to Sandau?",
      "geospatial/river-gauge-network.md", "14 hours" },
    { "What is the central meridian of the projection in Ardenmoor?",
      "geospatial/survey-coordinate-guide.txt", "11 degrees" },
    { "How high is Beacon Hill?", "geospatial/lidar-survey-report.md", "243.7" },
    { "Which colour do street signs in Lindhaven have?", "geospatial/address-register-manual.md",
      "white" },
};
enum { SAMPLE_QUESTION_COUNT = sizeof sample_questions / sizeof *sample_questions };

/* Place of the document among the hits, from 1; 0 = not there. */
static inline size_t rank_of(const struct rag_answer *answer, const char *path)
{
    for (size_t i = 0; i < answer->hit_count; i++)
        if (slice_is(answer->hits[i].path, path))
            return i + 1;
    return 0;
}

#endif
