/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generator of this node: finds the model, tokenises on the caller's thread
 * and queues.
 */
#include "model/model_private.h"
#include "model/prompt.h"
#include "model/tools.h"

#include <stdio.h>

const char *model_kind_name(enum model_kind kind)
{
    switch (kind) {
    case MODEL_CHAT:
        return "chat";
    case MODEL_EMBEDDING:
        return "embedding";
    }
    BUG("kind %d", (int)kind);
}

static struct models *models_of(struct generator *g)
{
    return CONTAINER_OF(g, struct models, generator);
}

/* What a request wants besides tokens: the tools it offers, and how its answer is written. */
struct wish {
    struct arena *arena;
    struct toolset tools;
    struct chat_format format;
    struct slice stops[GEN_STOPS_MAX + CHAT_MARKS_MAX];
    struct shape *shape; /* the job's in the end */
};

static void wish_init(struct wish *w)
{
    memset(w, 0, sizeof *w);
    w->arena = w->format.arena = arena_new(0);
    buf_init(&w->format.grammar, GRAMMAR_BYTES_MAX);
    buf_init(&w->format.begun, 0);
}

static void wish_release(struct wish *w)
{
    answer_format_free(w->format.answer);
    shape_free(w->shape);
    buf_release(&w->format.grammar);
    buf_release(&w->format.begun);
    arena_free(w->arena);
}

/*
 * By the template if it knows tools or reasoning. The grammar of our own form is made in any case:
 * what it refuses is not shown to the template's converter of schemas, which has no limits.
 */
static enum errc choose_format(struct model *model, const struct gen_request *req, struct wish *w,
                               struct error *err)
{
    const struct engine_info *info = &model->engine->info;
    struct chat_format *f = &w->format;
    bool has_tools = w->tools.count > 0, is_chat = !val_is_null(req->messages);
    enum errc rc = OK;
    if (has_tools && req->shape.kind != GEN_FREE)
        TRY(fail(err, ERR_NOT_IMPLEMENTED,
                 "not implemented: tools together with a shape of the answer"));
    if (has_tools)
        TRY(tools_grammar(&w->tools, &f->grammar, err));
    if (has_tools && !info->has_tools) {
        f->answer = &tools_answer_format;
        f->is_lazy = !w->tools.is_required;
        f->triggers[f->trigger_count++] = slice_str(TOOL_CALL_BEGIN);
        return OK;
    }
    buf_clear(&f->grammar);
    if (has_tools || (info->has_reasoning && is_chat && req->format && req->shape.kind == GEN_FREE))
        TRY(model->engine->ops->format(model->engine, &w->tools, f, err));
out:
    return rc;
}

/* NULL when any text will do. */
static enum errc make_shape(struct model *model, const struct gen_request *req, struct wish *w,
                            struct error *err)
{
    struct chat_format *f = &w->format;
    struct gen_shape shape = req->shape;
    struct shape_options opt = { .engine = model->engine, .order = model->order };
    if (f->grammar.len > 0) {
        shape = (struct gen_shape){ .kind = GEN_GRAMMAR, .grammar = buf_slice(&f->grammar) };
        opt.begun = f->is_lazy ? slice_of("", 0) : buf_slice(&f->begun);
        opt.triggers = f->triggers;
        opt.trigger_count = f->is_lazy ? f->trigger_count : 0;
        opt.spelled = f->spelled;
        opt.spelled_count = f->spelled_count;
    }
    if (shape.kind == GEN_FREE)
        return OK;
    enum errc rc = grammar_cache_get(model->models->grammars, &shape, &opt.grammar, err);
    if (rc == OK)
        rc = shape_new(&w->shape, &opt, err);
    grammar_unref(opt.grammar);
    return rc;
}

static void add_stops(struct gen_request *req, struct wish *w)
{
    if (w->format.stop_count == 0 || req->stop_count > GEN_STOPS_MAX)
        return;
    for (size_t i = 0; i < req->stop_count; i++)
        w->stops[i] = req->stops[i];
    for (size_t i = 0; i < w->format.stop_count; i++)
        w->stops[req->stop_count + i] = w->format.stops[i];
    req->stops = w->stops;
    req->stop_count += w->format.stop_count;
}

static enum errc read_wish(struct model *model, struct gen_request *req, struct wish *w,
                           struct error *err)
{
    enum errc rc = OK;
    TRY(tools_read(&req->tools, w->arena, &w->tools, err));
    if (w->tools.count > 0 && val_is_null(req->messages))
        TRY(fail(err, ERR_INVALID, "'tools' need messages"));
    TRY(choose_format(model, req, w, err));
    rc = make_shape(model, req, w, err);
out:
    return rc;
}

/* Owned by the job and the caller from now on: the job's first event may be on its way already. */
static void hand_over(const struct gen_request *req, struct wish *w, struct gen_job *job)
{
    job->shape = w->shape;
    w->shape = NULL;
    if (req->format) {
        *req->format = w->format.answer;
        w->format.answer = NULL;
    }
}

static enum errc check_request(struct model *model, const struct gen_request *req,
                               struct error *err)
{
    enum errc rc = sampling_check(&req->sampling, model->engine->info.vocab_size, err);
    if (rc != OK)
        return rc;
    if (req->top_logprobs > LOGPROBS_TOP_MAX)
        return fail(err, ERR_INVALID, "top_logprobs must be 0 to %d, not %u", LOGPROBS_TOP_MAX,
                    req->top_logprobs);
    if (req->adapter.len > 0)
        return fail(err, ERR_NOT_FOUND, "no adapter is named %.*s", SLICE_ARG(req->adapter));
    return OK;
}

enum errc model_submit(struct model *model, const struct gen_request *req, struct error *err)
{
    const struct settings *s = &model->models->settings;
    struct gen_request r = *req;
    struct wish wish;
    int32_t *tokens = NULL;
    uint32_t count = 0;
    enum errc rc = OK;
    wish_init(&wish);
    TRY(check_request(model, &r, err));
    TRY(read_wish(model, &r, &wish, err));
    TRY(prompt_tokens(model->engine, &r, &wish.tools, model->context, &tokens, &count, err));
    add_stops(&r, &wish);
    uint32_t max = r.max_tokens ? r.max_tokens : (uint32_t)s->default_max_tokens;
    if (max > model->context - count)
        max = model->context - count;
    if (r.deadline_ms == 0)
        r.deadline_ms = (uint64_t)s->request_timeout_ms;
    if (r.deadline_ms > 7 * 86400000u)
        r.deadline_ms = 7 * 86400000u;
    tokens = mem_realloc(tokens, ((size_t)count + max) * sizeof *tokens);
    struct gen_job *job = gen_job_new(&r, tokens, count, max);
    tokens = NULL; /* the job's now */
    hand_over(&r, &wish, job);
    rc = sched_add(model->sched, job, err);
    if (rc != OK)
        gen_job_free(job);
    if (rc != OK && req->format) {
        answer_format_free(*req->format);
        *req->format = NULL;
    }
out:
    mem_free(tokens);
    wish_release(&wish);
    return rc;
}

/* A model that began to leave after it was found is not found. */
static enum errc leave(struct models *m, const struct model_wish *wish, struct model *model,
                       enum errc rc, struct error *err)
{
    struct model *again = NULL;
    struct error gone;
    model_unref(model);
    if (rc != ERR_NOT_FOUND)
        return rc;
    if (model_ref(m, wish, &again, &gone) == OK)
        model_unref(again);
    else
        *err = gone;
    return rc;
}

static enum errc payer_admit(struct gen_payer *p, struct error *err)
{
    return p ? p->admit(p, err) : OK;
}

static enum errc submit(struct generator *g, const struct gen_request *req, struct error *err)
{
    struct models *m = models_of(g);
    struct model_wish wish = { .name = req->model, .kind = MODEL_CHAT };
    struct model *model = NULL;
    enum errc rc = payer_admit(req->payer, err);
    if (rc == OK)
        rc = model_ref(m, &wish, &model, err);
    if (rc != OK)
        return rc;
    return leave(m, &wish, model, model_submit(model, req, err), err);
}

static enum errc embed(struct generator *g, const struct embed_request *req, struct error *err)
{
    struct models *m = models_of(g);
    struct model_wish wish = { .name = req->model, .kind = MODEL_EMBEDDING };
    struct model *model = NULL;
    enum errc rc = payer_admit(req->payer, err);
    if (rc == OK)
        rc = model_ref(m, &wish, &model, err);
    if (rc != OK)
        return rc;
    return leave(m, &wish, model, embedder_add(model->embedder, req, err), err);
}

/* Of an embedding model with its start and end tokens: that is what must fit its window. */
static size_t count_of(struct model *model, struct slice text)
{
    struct engine *e = model->engine;
    bool add_special = e->info.kind == MODEL_EMBEDDING;
    int32_t none;
    return e->ops->tokenise(e, text, add_special, false, &none, 0);
}

static enum errc count_tokens(struct generator *g, struct slice name, struct slice text,
                              size_t *count, struct error *err)
{
    struct model_wish wish = { .name = name, .kind = MODEL_CHAT, .is_any = true };
    struct model *model = NULL;
    enum errc rc = model_ref(models_of(g), &wish, &model, err);
    if (rc != OK)
        return rc;
    *count = count_of(model, text);
    model_unref(model);
    return OK;
}

/* len or a little less, so that no character is cut. */
static size_t whole_chars(struct slice text, size_t len)
{
    while (len > 0 && len < text.len && ((unsigned char)text.ptr[len] & 0xc0) == 0x80)
        len--;
    return len;
}

static size_t next_char(struct slice text, size_t at)
{
    do
        at++;
    while (at < text.len && ((unsigned char)text.ptr[at] & 0xc0) == 0x80);
    return at;
}

/*
 * The longest beginning of at most max tokens. Tokens of word-piece models do
 * not add up to the text, so it is searched for: grow until it is too long,
 * then halve.
 */
static size_t fitting(struct model *model, struct slice text, size_t max)
{
    size_t fits = 0, at = max < 16 ? 64 : max * 4;
    for (;;) {
        at = whole_chars(text, at < text.len ? at : text.len);
        if (count_of(model, slice_of(text.ptr, at)) > max)
            break;
        if (at == text.len)
            return at;
        fits = at;
        at *= 2;
    }
    size_t over = at;
    while (next_char(text, fits) < over) {
        size_t mid = whole_chars(text, fits + (over - fits) / 2);
        if (mid <= fits)
            mid = next_char(text, fits);
        if (count_of(model, slice_of(text.ptr, mid)) <= max)
            fits = mid;
        else
            over = mid;
    }
    return fits;
}

static enum errc fit_tokens(struct generator *g, struct slice name, struct slice text, size_t max,
                            size_t *len, struct error *err)
{
    struct model_wish wish = { .name = name, .kind = MODEL_CHAT, .is_any = true };
    struct model *model = NULL;
    enum errc rc = model_ref(models_of(g), &wish, &model, err);
    if (rc != OK)
        return rc;
    *len = text.len ? fitting(model, text, max) : 0;
    model_unref(model);
    return OK;
}

/* With the lock held, or a reference. */
static void fill_info(const struct model *model, struct model_info *out)
{
    const struct engine_info *info;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", model->name);
    out->state = model->state;
    out->memory_bytes = footprint_sum(&model->footprint);
    if (model->state != MODEL_READY)
        return;
    info = &model->engine->info;
    snprintf(out->sha256, sizeof out->sha256, "%s", model->sha256);
    snprintf(out->description, sizeof out->description, "%s", info->description);
    out->kind = info->kind;
    out->context_tokens = model->context;
    out->dimension = info->kind == MODEL_EMBEDDING ? info->dimension : 0;
    out->parameters = info->parameters;
    out->file_bytes = info->file_bytes;
    out->created_s = model->created_s;
}

static size_t list(struct generator *g, struct model_info *out, size_t max)
{
    struct models *m = models_of(g);
    pthread_mutex_lock(&m->lock);
    size_t n = m->count;
    for (size_t i = 0; i < n && i < max; i++)
        fill_info(m->list[i], &out[i]);
    pthread_mutex_unlock(&m->lock);
    return n;
}

static enum errc get_model(struct generator *g, struct slice name, enum model_kind kind,
                           struct model_info *out, struct error *err)
{
    struct model_wish wish = { .name = name, .kind = kind };
    struct model *model = NULL;
    enum errc rc = model_ref(models_of(g), &wish, &model, err);
    if (rc != OK)
        return rc;
    fill_info(model, out);
    model_unref(model);
    return OK;
}

void generator_local_init(struct models *m)
{
    m->generator = (struct generator){
        .submit = submit,
        .embed = embed,
        .count_tokens = count_tokens,
        .fit_tokens = fit_tokens,
        .models = list,
        .model = get_model,
    };
}
