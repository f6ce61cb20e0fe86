/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One turn of the loop: finish what was cancelled, take new jobs while their
 * worst case fits into the cells, fork those whose shared beginning is ready,
 * then one engine step: a token for every sequence that decodes, and with what
 * is left of the chunk, prompt tokens. Flags and deadlines are looked at between
 * steps, so cancelling waits for one step at most; the engine is interrupted
 * only when nobody in the step wants its result.
 *
 * Running sequences share beginnings in their cells. When one ends, its state
 * goes to the shelf and its cells are free: a prompt that begins like it loads
 * the state.
 *
 * A step that fails is tried again sequence by sequence, so that only the
 * requests that cannot be computed fail.
 */
#include "model/lane.h"

#include "base/cpu.h"
#include "base/env.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/metrics.h"
#include "model/prefix.h"

#include <pthread.h>
#include <time.h>

enum {
    ALONE_US = 400000, /* aimed length of a step without decoding sequences */
    BESIDE_US = 60000, /* aimed share of prefill in a step with them */
    PROBE_TOKENS = 16,
    PROBE_ROUNDS = 4,
    CHUNK_MIN = 16,
    LOOKS = 3, /* at who wants a core, before a first step */
    LOOK_NAP_NS = 300 * 1000,
};

static struct metric prompt_tokens =
    METRIC_COUNTER("themis_prompt_tokens_total", "Prompt tokens of finished generations.");
static struct metric cached_tokens = METRIC_COUNTER(
    "themis_cached_prompt_tokens_total", "Prompt tokens that were shared instead of computed.");
static struct metric generated_tokens =
    METRIC_COUNTER("themis_generated_tokens_total", "Generated tokens.");
static struct metric masked_tokens =
    METRIC_COUNTER("themis_grammar_masked_tokens_total",
                   "Tokens of constrained answers for which all of the vocabulary was looked at.");
static struct metric failed_steps =
    METRIC_COUNTER("themis_failed_steps_total", "Engine steps that failed.");
static struct metric queue_seconds =
    METRIC_HISTOGRAM("themis_llm_queue_seconds", "Wait of a generation for a place in a lane.");
static struct metric first_token_seconds = METRIC_HISTOGRAM(
    "themis_time_to_first_token_seconds", "From arrival of a generation to its first token.");
static struct metric step_seconds =
    METRIC_HISTOGRAM("themis_decode_step_seconds", "Length of one engine step.");

struct lane {
    struct lane_options opt;
    struct engine_lane *engine; /* owned */
    struct prefix_table table;
    struct gen_job *jobs[ENGINE_SEQ_MAX]; /* owned; by sequence id */
    struct engine_token *batch;           /* owned */
    uint64_t *mask;                       /* owned; a bit for each token */
    size_t batch_len;
    struct lane_chunks chunks;
    struct pace_step pace;
    unsigned cores, threads; /* of the process; of the engine's steps */
    unsigned runnable;       /* threads of the machine when the last step ended; 0 = look again */
    uint32_t turn;           /* which prefill begins */
    pthread_t thread;
    bool is_started;
    _Atomic uint64_t prompt_count, completion_count, cached_count;
};

static uint64_t now(void)
{
    return env_mono_us(env_system());
}

/* Asked by the engine in the middle of a step. */
static bool nobody_wants_step(void *ctx)
{
    struct lane *lane = ctx;
    if (sched_is_stopping(lane->opt.sched))
        return true;
    if (lane->batch_len == 0)
        return false;
    for (size_t i = 0; i < lane->batch_len; i++) {
        const struct gen_job *job = lane->jobs[lane->batch[i].seq];
        if (!job || !gen_job_is_cancelled(job))
            return false;
    }
    return true;
}

enum errc lane_new(struct lane **out, const struct lane_options *opt, struct error *err)
{
    struct lane *lane = mem_zalloc(sizeof *lane);
    lane->opt = *opt;
    lane->chunks = (struct lane_chunks){ opt->chunk, opt->chunk };
    lane->batch = mem_alloc(opt->batch_tokens * sizeof *lane->batch);
    lane->mask =
        mem_alloc((shape_mask_words(opt->engine->info.vocab_size) + 1) * sizeof *lane->mask);
    prefix_init(&lane->table, opt->seq_max, opt->cells);
    lane->threads = 1;
    lane->cores = cpu_cores();
    struct engine_lane_options eo = {
        .cells = opt->cells,
        .seq_max = opt->seq_max,
        .batch_tokens = opt->batch_tokens,
        .threads_max = opt->threads_max,
        .is_unified = true,
        .should_stop = nobody_wants_step,
        .ctx = lane,
    };
    enum errc rc = opt->engine->ops->lane_open(opt->engine, &lane->engine, &eo, err);
    if (rc != OK) {
        lane_free(lane);
        return rc;
    }
    *out = lane;
    return OK;
}

static uint32_t chunk_for(uint64_t us_per_token, uint64_t target_us, uint32_t max)
{
    uint32_t chunk = CHUNK_MIN;
    while (chunk * 2 <= max && chunk * 2 * us_per_token <= target_us)
        chunk *= 2;
    return chunk < max ? chunk : max;
}

enum errc lane_probe(struct lane *lane, struct lane_chunks *out, struct error *err)
{
    uint64_t best_us = UINT64_MAX;
    enum errc rc = OK;
    struct engine_token probe[PROBE_TOKENS];
    uint32_t count = PROBE_TOKENS < lane->opt.batch_tokens ? PROBE_TOKENS : lane->opt.batch_tokens;
    for (uint32_t i = 0; i < count; i++)
        probe[i] = (struct engine_token){ (int32_t)(i % lane->opt.engine->info.vocab_size), i, 0,
                                          i + 1 == count };
    for (int round = 0; round < PROBE_ROUNDS; round++) { /* the best: others may be busy now */
        uint64_t us = now();
        TRY(lane->engine->ops->decode(lane->engine, probe, count, err));
        us = now() - us;
        best_us = us < best_us ? us : best_us;
        lane->engine->ops->seq_cut(lane->engine, 0, 0);
    }
    out->alone = chunk_for(best_us / count, ALONE_US, lane->opt.chunk);
    out->beside = chunk_for(best_us / count, BESIDE_US, lane->opt.chunk);
out:
    return rc;
}

/* ---- ends ---- */

static void close_seq(struct lane *lane, int id)
{
    struct prefix_heir heir = prefix_close(&lane->table, id);
    if (heir.id >= 0 && heir.n > 0)
        engine_fork(lane->engine, (uint16_t)id, (uint16_t)heir.id, heir.n);
    if (heir.id >= 0)
        lane->jobs[heir.id]->cached = heir.n;
    lane->engine->ops->seq_cut(lane->engine, (uint16_t)id, 0);
}

/* Keeps what was computed for prompts that will begin like it. */
static void shelve(struct lane *lane, int id)
{
    const struct prefix_seq *s = &lane->table.seqs[id];
    const struct engine_lane_ops *ops = lane->engine->ops;
    if (!s->is_forked || s->computed < s->known || s->computed < PREFIX_MIN ||
        !lane->opt.engine->info.can_fork || sched_is_stopping(lane->opt.sched))
        return;
    size_t size = ops->save_size(lane->engine, (uint16_t)id);
    if (!shelf_wants(lane->opt.shelf, s->salt, s->tokens, s->computed, size))
        return;
    struct shelf_item *item = shelf_item_new(s->salt, s->tokens, s->computed, size);
    ops->save(lane->engine, (uint16_t)id, shelf_room(item), size);
    shelf_put(lane->opt.shelf, item);
}

static void count_end(struct lane *lane, const struct gen_job *job)
{
    uint32_t completion = job->count - job->prompt_len;
    metric_add(&prompt_tokens, job->prompt_len);
    metric_add(&cached_tokens, job->cached);
    metric_add(&generated_tokens, completion);
    lane->prompt_count += job->prompt_len;
    lane->cached_count += job->cached;
    lane->completion_count += completion;
}

static void end_job(struct lane *lane, int id, enum gen_finish finish, const struct error *err)
{
    struct gen_job *job = lane->jobs[id];
    count_end(lane, job);
    if (finish != GEN_FAILED)
        shelve(lane, id);
    close_seq(lane, id);
    lane->jobs[id] = NULL;
    sched_done(lane->opt.sched, lane->opt.index, job->group);
    gen_job_finish(job, finish, err);
}

/* Does a generation end before its time, and how? err is filled for GEN_FAILED. */
static bool ends_early(struct lane *lane, const struct gen_job *job, enum gen_finish *finish,
                       struct error *err)
{
    const char *why = sched_stop_reason(lane->opt.sched);
    *finish = GEN_CANCELLED;
    if (gen_job_is_cancelled(job))
        return true;
    if (sched_is_stopping(lane->opt.sched) && !why)
        return true;
    *finish = GEN_FAILED;
    if (sched_is_stopping(lane->opt.sched))
        fail(err, ERR_GONE, "%s", why);
    else if (now() < job->deadline_us)
        return false;
    else if (job->admitted_us)
        fail(err, ERR_TIMEOUT, "the generation ran into its deadline after %u tokens",
             job->count - job->prompt_len);
    else
        fail(err, ERR_TIMEOUT, "the generation was still waiting at its deadline");
    return true;
}

static void end_unwanted(struct lane *lane)
{
    enum gen_finish finish;
    struct error err;
    struct gen_job *dead = sched_sweep(lane->opt.sched, now());
    while (dead) {
        struct gen_job *next = dead->next;
        if (!ends_early(lane, dead, &finish, &err)) /* it was swept, so it does */
            finish = GEN_CANCELLED;
        gen_job_finish(dead, finish, finish == GEN_FAILED ? &err : NULL);
        dead = next;
    }
    for (uint32_t id = 0; id < lane->opt.seq_max; id++) {
        struct gen_job *job = lane->jobs[id];
        if (job && ends_early(lane, job, &finish, &err))
            end_job(lane, (int)id, finish, finish == GEN_FAILED ? &err : NULL);
    }
}

/* ---- admission ---- */

/* The sequence is empty. Without the state the tokens are computed. */
static void load(struct lane *lane, int id, const struct shelf_item *item, uint32_t len)
{
    struct prefix_seq *s = &lane->table.seqs[id];
    struct error err;
    enum errc rc = lane->engine->ops->load(lane->engine, (uint16_t)id, shelf_state(item), &err);
    if (rc != OK)
        log_warn("model", "lane %u: %s; it is computed again", lane->opt.index, err.text);
    s->computed = rc == OK ? len : 0;
    lane->jobs[id]->cached = s->computed;
    lane->engine->ops->seq_cut(lane->engine, (uint16_t)id, s->computed);
}

static bool admit(struct lane *lane, struct gen_job *job)
{
    struct prefix_table *t = &lane->table;
    struct prefix_open o = {
        .tokens = job->tokens,
        .known = job->prompt_len,
        .reserved = job->prompt_len + job->max_tokens,
        .salt = job->salt,
        .parent = -1,
    };
    const struct shelf_item *item = NULL;
    uint32_t loaded = 0;
    if (lane->opt.engine->info.can_fork) { /* the last token is computed again, for its logits */
        uint32_t max = job->prompt_len - 1;
        o.parent = prefix_find(t, job->salt, job->tokens, max, &o.shared);
        item = shelf_find(lane->opt.shelf, job->salt, job->tokens, max, &loaded);
        if (loaded > o.shared + PREFIX_MIN) /* a fork is cheaper than a load */
            o.parent = -1;
        else
            loaded = 0;
    }
    int id = prefix_open(t, &o);
    if (id >= 0) {
        lane->jobs[id] = job;
        if (loaded > 0)
            load(lane, id, item, loaded);
        job->admitted_us = now();
        metric_observe_us(&queue_seconds, job->admitted_us - job->submitted_us);
    }
    if (item)
        shelf_release(lane->opt.shelf, item);
    return id >= 0;
}

static void admit_all(struct lane *lane)
{
    for (;;) {
        struct gen_job *job = sched_take(lane->opt.sched, lane->opt.index, now());
        if (!job)
            return;
        if (!admit(lane, job)) {
            sched_return(lane->opt.sched, lane->opt.index, job);
            return;
        }
    }
}

static void fork_ready(struct lane *lane)
{
    for (uint32_t id = 0; id < lane->opt.seq_max; id++) {
        struct prefix_seq *s = &lane->table.seqs[id];
        struct gen_job *job = lane->jobs[id];
        if (!job || s->is_forked)
            continue;
        struct prefix_seq *from = &lane->table.seqs[s->parent];
        if (!from->is_forked || from->computed < s->shared)
            continue;
        engine_fork(lane->engine, (uint16_t)s->parent, (uint16_t)id, s->shared);
        s->is_forked = true;
        s->computed = s->shared;
        job->cached = s->shared;
    }
}

/* ---- steps ---- */

static void add_tokens(struct lane *lane, uint32_t id, uint32_t count)
{
    const struct prefix_seq *s = &lane->table.seqs[id];
    const struct gen_job *job = lane->jobs[id];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t pos = s->computed + i;
        lane->batch[lane->batch_len++] =
            (struct engine_token){ job->tokens[pos], pos, (uint16_t)id, pos + 1 == job->count };
    }
}

static uint32_t todo(const struct lane *lane, uint32_t id)
{
    const struct prefix_seq *s = &lane->table.seqs[id];
    return lane->jobs[id] && s->is_forked ? lane->jobs[id]->count - s->computed : 0;
}

static bool is_decoding(const struct lane *lane, uint32_t id)
{
    return lane->jobs[id] && lane->jobs[id]->count > lane->jobs[id]->prompt_len;
}

/* All prefills get an equal share of the chunk; what some do not need goes to the next. */
static void add_prefills(struct lane *lane, uint32_t budget)
{
    uint32_t ids[ENGINE_SEQ_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < lane->opt.seq_max; i++) {
        uint32_t id = (lane->turn + i) % lane->opt.seq_max;
        if (todo(lane, id) > 0 && !is_decoding(lane, id))
            ids[n++] = id;
    }
    for (uint32_t i = 0; i < n && budget > 0; i++) {
        uint32_t share = budget / (n - i);
        share = share < CHUNK_MIN ? CHUNK_MIN : share;
        share = share < budget ? share : budget;
        uint32_t want = todo(lane, ids[i]);
        add_tokens(lane, ids[i], want < share ? want : share);
        budget -= want < share ? want : share;
    }
    if (n > 0)
        lane->turn = ids[0] + 1;
}

static void build_batch(struct lane *lane)
{
    lane->batch_len = 0;
    for (uint32_t id = 0; id < lane->opt.seq_max; id++) {
        if (is_decoding(lane, id) && todo(lane, id) > 0)
            add_tokens(lane, id, 1);
    }
    uint32_t chunk = lane->batch_len ? lane->chunks.beside : lane->chunks.alone;
    uint32_t room = lane->opt.batch_tokens - (uint32_t)lane->batch_len;
    add_prefills(lane, chunk < room ? chunk : room);
}

/* Shows what token id adds. False: the answer is complete. */
static bool show_token(struct lane *lane, int seq, int32_t id, const float *logits)
{
    struct gen_job *job = lane->jobs[seq];
    char bytes[ENGINE_PIECE_BYTES];
    struct slice text;
    struct error err;
    if (job->shape && shape_take(job->shape, id, &err) != OK) {
        end_job(lane, seq, GEN_FAILED, &err);
        return false;
    }
    if (!job->ignores_end && lane->opt.engine->ops->is_end(lane->opt.engine, id)) {
        end_job(lane, seq, GEN_STOP, NULL);
        return false;
    }
    job->tokens[job->count++] = id;
    if (job->logprobs.is_on)
        logprobs_add(&job->logprobs, lane->opt.engine, logits, id);
    size_t len = job->shape ? shape_piece(job->shape, id, bytes)
                            : lane->opt.engine->ops->piece(lane->opt.engine, id, bytes);
    bool is_stopped = answer_text_add(&job->text, slice_of(bytes, len), &text);
    if (text.len > 0)
        gen_job_send(job, text);
    bool is_full = job->count - job->prompt_len >= job->max_tokens;
    is_stopped |= job->shape && shape_is_done(job->shape);
    if (is_stopped || is_full)
        end_job(lane, seq, is_stopped ? GEN_STOP : GEN_LENGTH, NULL);
    return !is_stopped && !is_full;
}

/* Nearly always the first choice is allowed; all tokens are looked at only when it is not. */
static int32_t pick(struct lane *lane, struct gen_job *job, const float *logits)
{
    uint32_t vocab = lane->opt.engine->info.vocab_size;
    int32_t id = sampler_try(job->sampler, logits, vocab, NULL);
    if (id >= 0 && job->shape && !shape_allows(job->shape, id)) {
        shape_mask(job->shape, lane->mask);
        metric_add(&masked_tokens, 1);
        id = sampler_try(job->sampler, logits, vocab, lane->mask);
    }
    if (id >= 0)
        sampler_take(job->sampler, id);
    return id;
}

static void take_output(struct lane *lane, size_t i, int seq)
{
    struct gen_job *job = lane->jobs[seq];
    const float *logits = lane->engine->ops->logits(lane->engine, i);
    int32_t id = logits ? pick(lane, job, logits) : -1;
    struct error err;
    if (!job->first_us) {
        job->first_us = now();
        metric_observe_us(&first_token_seconds, job->first_us - job->submitted_us);
    }
    if (id < 0) {
        if (!logits || !job->shape || shape_why(job->shape, &err) == OK)
            fail(&err, ERR_INTERNAL, "the model gave no usable next token");
        end_job(lane, seq, GEN_FAILED, &err);
        return;
    }
    show_token(lane, seq, id, logits);
}

static enum errc decode(struct lane *lane, const struct engine_token *tokens, size_t count,
                        struct error *err)
{
    if (fault_hit("model.decode"))
        return fail(err, ERR_INTERNAL, "injected failure of a step");
    return lane->engine->ops->decode(lane->engine, tokens, count, err);
}

/* Everything of tokens is in the cells now. */
static void take_step(struct lane *lane, const struct engine_token *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct prefix_seq *s = &lane->table.seqs[tokens[i].seq];
        s->computed = tokens[i].pos + 1;
        s->known = s->known < s->computed ? s->computed : s->known;
    }
    for (size_t i = 0; i < count; i++) {
        if (tokens[i].want_output)
            take_output(lane, i, tokens[i].seq);
    }
}

static void cut_back(struct lane *lane, const struct engine_token *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || tokens[i].seq != tokens[i - 1].seq)
            lane->engine->ops->seq_cut(lane->engine, tokens[i].seq, tokens[i].pos);
    }
}

static void retry_alone(struct lane *lane, const struct error *why)
{
    size_t count = lane->batch_len;
    log_warn("model", "lane %u: a step of %zu tokens failed, each sequence alone now: %s",
             lane->opt.index, count, why->text);
    for (size_t i = 0, n; i < count; i += n) {
        const struct engine_token *first = &lane->batch[i];
        struct error err = *why;
        n = 1;
        while (i + n < count && first[n].seq == first->seq)
            n++;
        enum errc rc = n == count ? why->code : decode(lane, first, n, &err);
        if (rc == OK) {
            take_step(lane, first, n);
            continue;
        }
        cut_back(lane, first, n);
        if (rc != ERR_GONE) /* stopped: the next turn ends it */
            end_job(lane, first->seq, GEN_FAILED, &err);
    }
}

/* Whoever handed the work over may still be on a core for a moment. */
static unsigned look_at_cores(void)
{
    unsigned least = cpu_runnable();
    for (int i = 1; i < LOOKS && least > 1; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_NAP_NS }, NULL);
        unsigned n = cpu_runnable();
        least = n < least ? n : least;
    }
    return least;
}

static void choose_threads(struct lane *lane)
{
    if (lane->opt.threads_max <= 1)
        return;
    if (!lane->runnable)
        lane->runnable = look_at_cores();
    unsigned others = lane->runnable - 1;
    struct pace_now here = { .us = now(),
                             .is_alone = sched_is_alone(lane->opt.sched, lane->opt.index),
                             .free_cores = others < lane->cores ? lane->cores - others : 1,
                             .tokens = (uint32_t)lane->batch_len };
    lane->pace = pace_next(lane->opt.pace, &here);
    if (lane->pace.threads != lane->threads)
        lane->engine->ops->set_threads(lane->engine, lane->pace.threads);
    lane->threads = lane->pace.threads;
}

static void step(struct lane *lane)
{
    struct error err;
    build_batch(lane);
    if (lane->batch_len == 0)
        return;
    choose_threads(lane);
    uint64_t begin = now();
    enum errc rc = decode(lane, lane->batch, lane->batch_len, &err);
    uint64_t end = now();
    metric_observe_us(&step_seconds, end - begin);
    if (rc == OK) {
        if (lane->opt.threads_max > 1) {
            pace_took(lane->opt.pace, &lane->pace, end, end - begin);
            lane->runnable = cpu_runnable(); /* before the answer wakes others */
        }
        take_step(lane, lane->batch, lane->batch_len);
        return;
    }
    cut_back(lane, lane->batch, lane->batch_len);
    if (rc == ERR_GONE)
        return;
    metric_add(&failed_steps, 1);
    retry_alone(lane, &err);
}

static void *run(void *arg)
{
    struct lane *lane = arg;
    bool is_open = true;
    while (is_open || lane->table.running > 0) {
        end_unwanted(lane);
        admit_all(lane);
        if (lane->table.running == 0) {
            is_open = sched_wait(lane->opt.sched);
            lane->runnable = 0;
            continue;
        }
        fork_ready(lane);
        step(lane);
    }
    end_unwanted(lane); /* what arrived just before the stop */
    return NULL;
}

enum errc lane_start(struct lane *lane, const struct lane_chunks *chunks, struct error *err)
{
    lane->chunks = *chunks;
    if (pthread_create(&lane->thread, NULL, run, lane) != 0)
        return fail(err, ERR_LIMIT, "cannot start a thread");
    lane->is_started = true;
    return OK;
}

void lane_stop(struct lane *lane)
{
    if (lane->is_started)
        pthread_join(lane->thread, NULL);
    lane->is_started = false;
}

void lane_free(struct lane *lane)
{
    if (!lane)
        return;
    lane_stop(lane);
    assert(lane->table.running == 0);
    engine_lane_close(lane->engine);
    mem_free(lane->batch);
    mem_free(lane->mask);
    mem_free(lane);
}

void lane_stats(struct lane *lane, struct lane_stats *out)
{
    *out = (struct lane_stats){ lane->prompt_count, lane->completion_count, lane->cached_count };
}
