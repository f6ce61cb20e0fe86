/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect -- waits for what a generator sends and keeps it, for tests.
 */
#ifndef TEST_MODEL_COLLECT_H
#define TEST_MODEL_COLLECT_H

#include "base/buf.h"
#include "base/val_text.h"
#include "model/model.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif

struct collect {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct buf text;
    atomic_bool cancel;
    int events, last_events;
    bool is_order_broken; /* an event after the last, or completion_tokens fell */
    bool is_text_broken;  /* not UTF-8 */
    struct gen_event last;
    struct error err;
    uint32_t tokens;
};

static inline void collect_init(struct collect *c)
{
    memset(c, 0, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    buf_init(&c->text, 0);
}

static inline void collect_release(struct collect *c)
{
    buf_release(&c->text);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
}

static inline void collect_event(void *ctx, const struct gen_event *e)
{
    struct collect *c = ctx;
    pthread_mutex_lock(&c->lock);
    c->is_order_broken |= c->last_events > 0 || e->completion_tokens < c->tokens;
    c->is_text_broken |= !utf8_check(e->text, NULL);
    c->tokens = e->completion_tokens;
    buf_add_slice(&c->text, e->text);
    c->events++;
    if (e->is_last) {
        c->last_events++;
        c->last = *e;
        if (e->err)
            c->err = *e->err;
    }
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->lock);
}

static inline struct timespec seconds_from_now(int s)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += s;
    return t;
}

/* Waits for so many events, or the last one. */
static inline void collect_events(struct collect *c, int events)
{
    struct timespec until = seconds_from_now(120);
    int late = 0;
    pthread_mutex_lock(&c->lock);
    while (c->events < events && c->last_events == 0 && late != ETIMEDOUT)
        late = pthread_cond_timedwait(&c->wake, &c->lock, &until);
    pthread_mutex_unlock(&c->lock);
    assert_int_not_equal(late, ETIMEDOUT);
}

static inline void collect_last(struct collect *c)
{
    collect_events(c, 1 << 30);
    assert_false(c->is_order_broken);
    assert_false(c->is_text_broken);
    assert_int_equal(c->last_events, 1);
}

static inline const char *collect_text(struct collect *c)
{
    return buf_cstr(&c->text);
}

static inline struct gen_request collect_request(struct collect *c, const char *prompt)
{
    struct gen_request r = { .prompt = slice_str(prompt),
                             .sampling = gen_sampling_default(),
                             .cancel = &c->cancel,
                             .on_event = collect_event,
                             .ctx = c };
    r.sampling.temperature = 0;
    return r;
}

static inline void nap_ms(int ms)
{
    struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };
    nanosleep(&t, NULL);
}

/* Models with a few settings changed: "lanes=2", ... up to NULL. */
static inline struct models *models_with(const char *const *pairs)
{
    struct settings s;
    struct models *m = NULL;
    struct error err;
    settings_init(&s);
    for (; pairs && *pairs; pairs++)
        assert_int_equal(settings_set_pair(&s, *pairs, &err), OK);
    assert_int_equal(models_new(&m, &(struct models_options){ .settings = &s }, &err), OK);
    return m;
}

static inline void load(struct models *m, const char *name, const char *path)
{
    struct error err;
    if (models_load(m, name, path, &err) != OK)
        fail_msg("%s", err.text);
}

static inline void ok(enum errc rc, const struct error *err)
{
    if (rc != OK)
        fail_msg("%s", err->text);
}

static inline void submit(struct models *m, const struct gen_request *r)
{
    struct error err;
    ok(models_generator(m)->submit(models_generator(m), r, &err), &err);
}

struct vectors {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    float *rows;
    bool *truncated;
    size_t count;
    uint32_t dimension, tokens;
    int calls;
    struct error err;
    bool has_failed;
    uint64_t done_at; /* order over all */
};

static inline void vectors_init(struct vectors *v)
{
    memset(v, 0, sizeof *v);
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->wake, NULL);
}

static inline void vectors_release(struct vectors *v)
{
    free(v->rows);
    free(v->truncated);
    pthread_cond_destroy(&v->wake);
    pthread_mutex_destroy(&v->lock);
}

static inline void vectors_done(void *ctx, const struct embed_result *r)
{
    static _Atomic uint64_t clock_of_all;
    struct vectors *v = ctx;
    pthread_mutex_lock(&v->lock);
    v->calls++;
    v->done_at = ++clock_of_all;
    if (r->err) {
        v->err = *r->err;
        v->has_failed = true;
    } else {
        size_t bytes = r->count * r->dimension * sizeof *v->rows;
        v->count = r->count;
        v->dimension = r->dimension;
        v->tokens = r->tokens;
        v->rows = malloc(bytes);
        memcpy(v->rows, r->vectors, bytes);
        v->truncated = malloc(r->count * sizeof *v->truncated);
        memcpy(v->truncated, r->truncated, r->count * sizeof *v->truncated);
    }
    pthread_cond_broadcast(&v->wake);
    pthread_mutex_unlock(&v->lock);
}

static inline void vectors_wait(struct vectors *v)
{
    struct timespec until = seconds_from_now(120);
    int late = 0;
    pthread_mutex_lock(&v->lock);
    while (v->calls == 0 && late != ETIMEDOUT)
        late = pthread_cond_timedwait(&v->wake, &v->lock, &until);
    pthread_mutex_unlock(&v->lock);
    assert_int_not_equal(late, ETIMEDOUT);
    assert_int_equal(v->calls, 1);
}

static inline double dot(const float *a, const float *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

#endif
