/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_generator -- a generator whose answers a test gives by hand, on the
 * test's own thread: for orders of events that real lanes show only by chance.
 */
#ifndef TEST_RETRIEVE_FAKE_GENERATOR_H
#define TEST_RETRIEVE_FAKE_GENERATOR_H

#include "base/error.h"
#include "model/generator.h"

#include <stdio.h>

enum { FAKE_CALLS_MAX = 2048, FAKE_DIMENSION = 4 };

struct fake_call {
    struct gen_request req;
    struct embed_request embed;
    char prompt[256]; /* content of the last message */
    bool is_embed, is_open;
};

struct fake_generator {
    struct generator g; /* first */
    struct fake_call calls[FAKE_CALLS_MAX];
    size_t count; /* calls so far */
    size_t open;  /* without an answer */
    size_t room;  /* more open ones are refused */
    size_t refused;
    size_t most_open;
    bool answers_inside; /* submit calls back before it returns */
    bool is_small;       /* the chat model has few parameters */
};

static inline void fake_answer(struct fake_generator *f, size_t i, const char *text)
{
    struct fake_call *c = &f->calls[i];
    struct gen_event e = { .text = slice_str(text), .completion_tokens = 1 };

    c->is_open = false;
    f->open--;
    c->req.on_event(c->req.ctx, &e);
    e = (struct gen_event){ .is_last = true, .finish = GEN_STOP, .completion_tokens = 1 };
    if (c->req.cancel && atomic_load(c->req.cancel))
        e.finish = GEN_CANCELLED;
    c->req.on_event(c->req.ctx, &e);
}

static inline void fake_fail(struct fake_generator *f, size_t i, const struct error *err)
{
    struct gen_event e = { .is_last = true, .finish = GEN_FAILED, .err = err };

    f->calls[i].is_open = false;
    f->open--;
    f->calls[i].req.on_event(f->calls[i].req.ctx, &e);
}

/* Vector of a text: its length and first three bytes. */
static inline void fake_embed_answer(struct fake_generator *f, size_t i, const struct error *err)
{
    struct fake_call *c = &f->calls[i];
    static float vectors[4096 * FAKE_DIMENSION];
    struct embed_result r = { .count = c->embed.count, .dimension = FAKE_DIMENSION, .err = err };

    r.vectors = err ? NULL : vectors;
    for (size_t n = 0; n < c->embed.count; n++) /* the test keeps the texts alive */
        for (size_t d = 0; d < FAKE_DIMENSION; d++)
            vectors[n * FAKE_DIMENSION + d] = d == 0 ? (float)c->embed.texts[n].len : (float)d;
    c->is_open = false;
    f->open--;
    c->embed.on_done(c->embed.ctx, &r);
}

/* The first open call, or -1. */
static inline long fake_first_open(const struct fake_generator *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->calls[i].is_open)
            return (long)i;
    return -1;
}

static inline enum errc fake_take(struct fake_generator *f, struct fake_call **out,
                                  struct error *err)
{
    if (f->open >= f->room) {
        f->refused++;
        return fail(err, ERR_BUSY, "full");
    }
    *out = &f->calls[f->count++];
    (*out)->is_open = true;
    f->open++;
    if (f->open > f->most_open)
        f->most_open = f->open;
    return OK;
}

static inline enum errc fake_submit(struct generator *g, const struct gen_request *req,
                                    struct error *err)
{
    struct fake_generator *f = (struct fake_generator *)g;
    struct fake_call *c = NULL;
    enum errc rc = fake_take(f, &c, err);
    struct val last;
    struct slice text;

    if (rc != OK)
        return rc;
    c->req = *req;
    last = val_at(req->messages, val_count(req->messages) - 1);
    text = val_string(val_get(last, slice_str("content")));
    snprintf(c->prompt, sizeof c->prompt, "%.*s", SLICE_ARG(text));
    if (f->answers_inside)
        fake_answer(f, f->count - 1, c->prompt);
    return OK;
}

static inline enum errc fake_embed(struct generator *g, const struct embed_request *req,
                                   struct error *err)
{
    struct fake_generator *f = (struct fake_generator *)g;
    struct fake_call *c = NULL;
    enum errc rc = fake_take(f, &c, err);

    if (rc != OK)
        return rc;
    c->embed = *req;
    c->is_embed = true;
    if (f->answers_inside)
        fake_embed_answer(f, f->count - 1, NULL);
    return OK;
}

static inline enum errc fake_count_tokens(struct generator *g, struct slice model,
                                          struct slice text, size_t *count, struct error *err)
{
    (void)g;
    (void)model;
    (void)err;
    *count = 2 + text.len / 4;
    return OK;
}

static inline enum errc fake_fit_tokens(struct generator *g, struct slice model, struct slice text,
                                        size_t max, size_t *len, struct error *err)
{
    (void)g;
    (void)model;
    (void)err;
    *len = text.len < max * 4 ? text.len : max * 4;
    return OK;
}

static inline enum errc fake_model(struct generator *g, struct slice name, enum model_kind kind,
                                   struct model_info *out, struct error *err)
{
    if (slice_is(name, "missing"))
        return fail(err, ERR_NOT_FOUND, "no model is named missing");
    *out = (struct model_info){ .kind = kind,
                                .parameters =
                                    ((struct fake_generator *)g)->is_small ? 100000000 : 7000000000,
                                .context_tokens = kind == MODEL_CHAT ? 2048 : 256,
                                .dimension = kind == MODEL_CHAT ? 0 : FAKE_DIMENSION };
    snprintf(out->name, sizeof out->name, "%s", kind == MODEL_CHAT ? "fake-chat" : "fake-embed");
    return OK;
}

static inline void fake_init(struct fake_generator *f)
{
    memset(f, 0, sizeof *f);
    f->g = (struct generator){ .submit = fake_submit,
                               .embed = fake_embed,
                               .count_tokens = fake_count_tokens,
                               .fit_tokens = fake_fit_tokens,
                               .model = fake_model };
    f->room = FAKE_CALLS_MAX;
}

#endif
