/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llama.cpp behind the engine. The only file that sees llama.h.
 *
 * A lane has one thread unless it is told otherwise: barriers between threads
 * collapse as soon as anything else runs on the machine, lanes do not. Flash attention is
 * off for chat lanes: on CPU it costs 1.4 to 2.9 times the decode step.
 * A model is read, not mapped: whoever cuts or edits the file later does not reach
 * it, and what it takes is the process's own memory, given back when it is freed.
 * Embedding lanes have no KV cells; all tokens of a step go into one ubatch,
 * because the encoder of llama.cpp demands it.
 */
#include "base/log.h"
#include "model/chat_template.h"
#include "model/engine.h"

#include "ggml-cpu.h"
#include "llama.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

enum { CONTROL_MAX = 4096, CONTROL_TEXT_BYTES = 128, TEXT_MAX = 1 << 30 };

struct control {
    char *text; /* owned */
    size_t len;
};

struct engine_llama {
    struct engine base;
    struct llama_model *model;       /* owned */
    const struct llama_vocab *vocab; /* the model's */
    struct chat_shim *chat;          /* owned; NULL for embedding models */
    struct control *controls;        /* texts of control tokens */
    size_t control_count;
    bool starts_control[256]; /* by first byte */
};

struct lane_llama {
    struct engine_lane base;
    struct engine_llama *engine;
    struct llama_context *ctx;       /* owned */
    struct llama_batch batch;        /* owned */
    struct ggml_threadpool *threads; /* owned; NULL until a step has more than one */
    unsigned threads_max;
    uint32_t batch_tokens, seq_max;
    bool can_fork, is_embedding;
    bool (*should_stop)(void *ctx);
    void *stop_ctx;
};

/* Set while llama.cpp complains about a step that we ended ourselves. */
static _Thread_local bool is_own_stop;

static void to_log(enum ggml_log_level level, const char *text, void *ctx)
{
    static _Thread_local enum log_level last = LOG_DEBUG;
    (void)ctx;
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == '\n')
        len--;
    if (level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN)
        last = level == GGML_LOG_LEVEL_ERROR ? LOG_ERROR : LOG_WARN;
    else if (level != GGML_LOG_LEVEL_CONT)
        last = LOG_DEBUG; /* its information is detail for us */
    enum log_level shown = is_own_stop ? LOG_DEBUG : last;
    if (len > 1 && log_is_on(shown))
        log_write(shown, "llama", "%.*s", (int)len, text);
}

static void init_once(void)
{
    llama_log_set(to_log, NULL);
    llama_backend_init();
}

static void llama_engine_free(struct engine *base)
{
    struct engine_llama *e = CONTAINER_OF(base, struct engine_llama, base);
    chat_shim_close(e->chat);
    for (size_t i = 0; i < e->control_count; i++)
        mem_free(e->controls[i].text);
    mem_free(e->controls);
    llama_model_free(e->model);
    mem_free(e);
}

static size_t tokenise(struct engine *base, struct slice text, bool add_special, bool parse_special,
                       int32_t *out, size_t max)
{
    struct engine_llama *e = CONTAINER_OF(base, struct engine_llama, base);
    int32_t room = max > INT32_MAX ? INT32_MAX : (int32_t)max;
    int32_t len = text.len > TEXT_MAX ? TEXT_MAX : (int32_t)text.len;
    int32_t n = llama_tokenize(e->vocab, text.len ? text.ptr : "", len, out, room, add_special,
                               parse_special);
    return n == INT32_MIN ? (size_t)INT32_MAX : (size_t)(n < 0 ? -(int64_t)n : n);
}

static size_t piece(struct engine *base, int32_t id, char out[ENGINE_PIECE_BYTES])
{
    struct engine_llama *e = CONTAINER_OF(base, struct engine_llama, base);
    int32_t n = llama_token_to_piece(e->vocab, id, out, ENGINE_PIECE_BYTES, 0, false);
    return n > 0 ? (size_t)n : 0;
}

static size_t spell(struct engine *base, int32_t id, char out[ENGINE_PIECE_BYTES])
{
    struct engine_llama *e = CONTAINER_OF(base, struct engine_llama, base);
    int32_t n = llama_token_to_piece(e->vocab, id, out, ENGINE_PIECE_BYTES, 0, true);
    return n > 0 ? (size_t)n : 0;
}

static bool is_end(struct engine *base, int32_t id)
{
    struct engine_llama *e = CONTAINER_OF(base, struct engine_llama, base);
    return llama_vocab_is_eog(e->vocab, id);
}

static bool find_control(struct engine *base, struct slice text, size_t from, size_t *at,
                         size_t *len)
{
    struct engine_llama *e = CONTAINER_OF(base, struct engine_llama, base);
    for (size_t i = from; i < text.len; i++) {
        if (!e->starts_control[(unsigned char)text.ptr[i]])
            continue;
        size_t best = 0;
        for (size_t j = 0; j < e->control_count; j++) {
            const struct control *c = &e->controls[j];
            if (c->len > best && c->len <= text.len - i &&
                memcmp(text.ptr + i, c->text, c->len) == 0)
                best = c->len;
        }
        if (best > 0) {
            *at = i;
            *len = best;
            return true;
        }
    }
    return false;
}

static enum errc render(struct engine *base, const struct chat_message *messages, size_t count,
                        struct slice tools, struct buf *out, struct error *err)
{
    struct engine_llama *e = CONTAINER_OF(base, struct engine_llama, base);
    return chat_render(e->chat, messages, count, tools, out, err);
}

static enum errc format(struct engine *base, const struct toolset *tools, struct chat_format *out,
                        struct error *err)
{
    struct engine_llama *e = CONTAINER_OF(base, struct engine_llama, base);
    return chat_format_of(e->chat, base, tools, out, err);
}

/* ---- lanes ---- */

static void lane_close(struct engine_lane *base)
{
    struct lane_llama *lane = CONTAINER_OF(base, struct lane_llama, base);
    if (lane->batch.token)
        llama_batch_free(lane->batch);
    if (lane->ctx)
        llama_free(lane->ctx);
    if (lane->threads)
        ggml_threadpool_free(lane->threads);
    mem_free(lane);
}

static enum errc lane_decode(struct engine_lane *base, const struct engine_token *tokens,
                             size_t count, struct error *err)
{
    struct lane_llama *lane = CONTAINER_OF(base, struct lane_llama, base);
    struct llama_batch *b = &lane->batch;
    assert(count > 0 && count <= lane->batch_tokens);
    for (size_t i = 0; i < count; i++) {
        b->token[i] = tokens[i].id;
        b->pos[i] = (llama_pos)tokens[i].pos;
        b->n_seq_id[i] = 1;
        b->seq_id[i][0] = tokens[i].seq;
        b->logits[i] = tokens[i].want_output;
    }
    b->n_tokens = (int32_t)count;
    int rc = llama_decode(lane->ctx, *b);
    is_own_stop = false;
    if (rc == 0)
        llama_synchronize(lane->ctx);
    if (rc == 2)
        return fail(err, ERR_GONE, "the step was stopped");
    if (rc == 1)
        return fail(err, ERR_LIMIT, "no KV cells for %zu tokens", count);
    if (rc != 0)
        return fail(err, ERR_INTERNAL, "llama.cpp failed to decode %zu tokens (%d)", count, rc);
    return OK;
}

static const float *lane_logits(struct engine_lane *base, size_t i)
{
    struct lane_llama *lane = CONTAINER_OF(base, struct lane_llama, base);
    return llama_get_logits_ith(lane->ctx, (int32_t)i);
}

static const float *lane_embedding(struct engine_lane *base, uint16_t seq)
{
    struct lane_llama *lane = CONTAINER_OF(base, struct lane_llama, base);
    return llama_get_embeddings_seq(lane->ctx, seq);
}

static void lane_seq_cut(struct engine_lane *base, uint16_t seq, uint32_t from)
{
    struct lane_llama *lane = CONTAINER_OF(base, struct lane_llama, base);
    llama_memory_t mem = llama_get_memory(lane->ctx);
    if (mem)
        llama_memory_seq_rm(mem, seq, (llama_pos)from, -1);
}

static void lane_fork(struct engine_lane *base, uint16_t from, uint16_t to, uint32_t n)
{
    struct lane_llama *lane = CONTAINER_OF(base, struct lane_llama, base);
    assert(lane->can_fork && from < lane->seq_max && to < lane->seq_max && from != to);
    llama_memory_seq_cp(llama_get_memory(lane->ctx), from, to, 0, (llama_pos)n);
}

/*
 * The other threads sleep between steps (poll 0): a core that nobody uses is free for
 * the workers. They stay until the lane is closed.
 */
static void lane_set_threads(struct engine_lane *base, unsigned threads)
{
    struct lane_llama *lane = CONTAINER_OF(base, struct lane_llama, base);
    assert(threads > 0 && threads <= lane->threads_max);
    if (threads > 1 && !lane->threads) {
        struct ggml_threadpool_params p = ggml_threadpool_params_default((int)lane->threads_max);
        p.poll = 0;
        lane->threads = ggml_threadpool_new(&p);
    }
    if (threads > 1)
        llama_attach_threadpool(lane->ctx, lane->threads, lane->threads);
    else
        llama_detach_threadpool(lane->ctx);
    llama_set_n_threads(lane->ctx, (int32_t)threads, (int32_t)threads);
}

static size_t lane_save_size(struct engine_lane *base, uint16_t seq)
{
    struct lane_llama *lane = CONTAINER_OF(base, struct lane_llama, base);
    return llama_state_seq_get_size(lane->ctx, seq);
}

static void lane_save(struct engine_lane *base, uint16_t seq, void *out, size_t size)
{
    struct lane_llama *lane = CONTAINER_OF(base, struct lane_llama, base);
    size_t n = llama_state_seq_get_data(lane->ctx, out, size, seq);
    if (n != size)
        BUG("llama.cpp wrote %zu bytes of state instead of %zu", n, size);
}

static enum errc lane_load(struct engine_lane *base, uint16_t seq, struct slice state,
                           struct error *err)
{
    struct lane_llama *lane = CONTAINER_OF(base, struct lane_llama, base);
    if (!llama_state_seq_set_data(lane->ctx, (const uint8_t *)state.ptr, state.len, seq))
        return fail(err, ERR_LIMIT, "llama.cpp cannot load a state of %zu bytes", state.len);
    return OK;
}

static const struct engine_lane_ops lane_ops = {
    .close = lane_close,
    .decode = lane_decode,
    .logits = lane_logits,
    .embedding = lane_embedding,
    .seq_cut = lane_seq_cut,
    .set_threads = lane_set_threads,
    .fork = lane_fork,
    .save_size = lane_save_size,
    .save = lane_save,
    .load = lane_load,
};

static bool ask_stop(void *ctx)
{
    struct lane_llama *lane = ctx;
    is_own_stop = lane->should_stop(lane->stop_ctx);
    return is_own_stop;
}

static enum errc lane_open(struct engine *base, struct engine_lane **out,
                           const struct engine_lane_options *opt, struct error *err)
{
    struct engine_llama *e = CONTAINER_OF(base, struct engine_llama, base);
    struct llama_context_params p = llama_context_default_params();
    bool is_embedding = base->info.kind == MODEL_EMBEDDING;
    assert(opt->seq_max <= ENGINE_SEQ_MAX);
    p.n_ctx = opt->cells;
    p.n_batch = opt->batch_tokens;
    p.n_ubatch = is_embedding || opt->batch_tokens < 512 ? opt->batch_tokens : 512;
    p.n_seq_max = opt->seq_max;
    p.n_outputs_max = is_embedding ? 0 : opt->seq_max;
    p.n_threads = p.n_threads_batch = 1;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p.kv_unified = opt->is_unified;
    p.embeddings = is_embedding;
    p.no_perf = true;

    struct lane_llama *lane = mem_zalloc(sizeof *lane);
    lane->base.ops = &lane_ops;
    lane->engine = e;
    lane->batch_tokens = opt->batch_tokens;
    lane->seq_max = opt->seq_max;
    lane->threads_max = opt->threads_max ? opt->threads_max : 1;
    lane->can_fork = opt->is_unified && base->info.can_fork;
    lane->is_embedding = is_embedding;
    lane->should_stop = opt->should_stop;
    lane->stop_ctx = opt->ctx;
    if (opt->should_stop) {
        p.abort_callback = ask_stop;
        p.abort_callback_data = lane;
    }
    lane->ctx = llama_init_from_model(e->model, p);
    if (!lane->ctx) {
        lane_close(&lane->base);
        return fail(err, ERR_LIMIT, "llama.cpp cannot make a context of %u tokens", opt->cells);
    }
    lane->batch = llama_batch_init((int32_t)opt->batch_tokens, 0, 1);
    *out = &lane->base;
    return OK;
}

static const struct engine_ops ops = {
    .free = llama_engine_free,
    .tokenise = tokenise,
    .piece = piece,
    .spell = spell,
    .is_end = is_end,
    .find_control = find_control,
    .render = render,
    .format = format,
    .lane_open = lane_open,
};

/* ---- opening ---- */

struct progress {
    bool (*fn)(void *ctx, double done);
    void *ctx;
    bool is_ended; /* by fn */
};

static bool on_progress(float done, void *ctx)
{
    struct progress *p = ctx;
    p->is_ended = p->fn && !p->fn(p->ctx, done);
    return !p->is_ended;
}

static void collect_controls(struct engine_llama *e)
{
    int32_t n = llama_vocab_n_tokens(e->vocab);
    e->controls = mem_zalloc(CONTROL_MAX * sizeof *e->controls);
    for (int32_t id = 0; id < n && e->control_count < CONTROL_MAX; id++) {
        enum llama_token_attr attr = llama_vocab_get_attr(e->vocab, id);
        if (!(attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)))
            continue;
        const char *text = llama_vocab_get_text(e->vocab, id);
        size_t len = text ? strlen(text) : 0;
        if (len == 0 || len > CONTROL_TEXT_BYTES)
            continue;
        e->controls[e->control_count++] = (struct control){ mem_strdup(text), len };
        e->starts_control[(unsigned char)text[0]] = true;
    }
}

static bool is_embedding_model(const struct llama_model *m)
{
    char arch[64] = "", key[96], value[32];
    if (llama_model_meta_val_str(m, "general.architecture", arch, sizeof arch) < 0)
        return false;
    snprintf(key, sizeof key, "%s.pooling_type", arch);
    return llama_model_meta_val_str(m, key, value, sizeof value) > 0 && strcmp(value, "0") != 0;
}

static void describe(struct engine_llama *e, const struct model_shape *shape)
{
    struct engine_info *info = &e->base.info;
    char name[72] = "", desc[48] = "";
    info->kind = is_embedding_model(e->model) ? MODEL_EMBEDDING : MODEL_CHAT;
    info->context_tokens = (uint32_t)llama_model_n_ctx_train(e->model);
    info->vocab_size = (uint32_t)llama_vocab_n_tokens(e->vocab);
    info->dimension = (uint32_t)llama_model_n_embd_out(e->model);
    info->parameters = llama_model_n_params(e->model);
    info->file_bytes = shape->file_bytes;
    info->can_fork = !llama_model_is_recurrent(e->model) && !llama_model_is_hybrid(e->model) &&
                     llama_model_n_swa(e->model) == 0;
    llama_model_meta_val_str(e->model, "general.name", name, sizeof name);
    llama_model_desc(e->model, desc, sizeof desc);
    snprintf(info->description, sizeof info->description, "%s%s%s", name, *name ? ", " : "", desc);
}

enum errc engine_llama_open(struct engine **out, const char *path,
                            bool (*progress)(void *ctx, double done), void *ctx, struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct progress p = { progress, ctx, false };
    struct engine_llama *e = NULL;
    struct chat_shim_abilities abilities = { false, false };
    struct model_shape shape;
    char why[160];
    enum errc rc = OK;

    TRY(gguf_check(path, &shape, err));
    pthread_once(&once, init_once);
    e = mem_zalloc(sizeof *e);
    e->base.ops = &ops;
    struct llama_model_params mp = llama_model_default_params();
    mp.load_mode = LLAMA_LOAD_MODE_NONE; /* a mapped file that is cut would end the process */
    mp.progress_callback = on_progress;
    mp.progress_callback_user_data = &p;
    e->model = llama_model_load_from_file(path, mp);
    if (!e->model) {
        rc = p.is_ended
                 ? fail(err, ERR_GONE, "loading %s was stopped", path)
                 : fail(err, ERR_CORRUPT, "llama.cpp cannot load %s; the log says why", path);
        goto out;
    }
    e->vocab = llama_model_get_vocab(e->model);
    describe(e, &shape);
    collect_controls(e);
    if (e->base.info.kind == MODEL_CHAT &&
        chat_shim_open(e->model, &e->chat, &abilities, why, sizeof why)) {
        rc = fail(err, ERR_CORRUPT, "the chat template in %s cannot be used: %s", path, why);
        goto out;
    }
    e->base.info.has_tools = abilities.has_tools;
    e->base.info.has_reasoning = abilities.has_reasoning;
    *out = &e->base;
    e = NULL;
out:
    if (e) {
        if (e->model)
            llama_engine_free(&e->base);
        else
            mem_free(e);
    }
    return rc;
}
