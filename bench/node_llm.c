/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generations through the model layer in this process (submit, scheduler, lane,
 * sampler, text) against llama.cpp's own benchmarks of the same model file,
 * threads, attention and context. Every answer has the same number of tokens,
 * whatever the model thinks of its end, as the opponent's have. Only the time in
 * which every stream decodes counts: from the last first token to the first last
 * one.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "model/model.h"
#include "node.h"

enum { STREAMS_MAX = 16, TOKENS_MAX = 512, PROMPT_TOKENS = 32 };

static const char model_file[] = "build/models/SmolLM2-135M-Instruct.Q4_1.gguf";

struct stream {
    struct llm *all;
    int32_t prompt[PROMPT_TOKENS];
    double at[TOKENS_MAX]; /* when the answer had so many tokens */
    uint32_t tokens;
};

struct llm {
    struct models *models;
    struct generator *generator;
    struct stream streams[STREAMS_MAX];
    unsigned stream_count, threads;
    uint32_t max_tokens;
    char command[512]; /* the opponent's */
    const char *rate_key;
    uint64_t seed;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    unsigned running;
};

/* ---- ours ---- */

static void on_event(void *ctx, const struct gen_event *e)
{
    struct stream *s = ctx;
    if (e->is_last && (e->finish == GEN_FAILED || e->finish == GEN_CANCELLED))
        bench_fail("a generation failed: %s", e->err ? e->err->text : "cancelled");
    while (s->tokens < e->completion_tokens && s->tokens < TOKENS_MAX)
        s->at[s->tokens++] = bench_seconds();
    if (!e->is_last)
        return;
    pthread_mutex_lock(&s->all->lock);
    s->all->running--;
    pthread_cond_signal(&s->all->wake);
    pthread_mutex_unlock(&s->all->lock);
}

/* Plain words at random, so that no two prompts begin alike and nothing is shared. */
static void make_prompt(struct llm *l, struct stream *s)
{
    for (size_t i = 0; i < PROMPT_TOKENS; i++) {
        l->seed ^= l->seed << 13;
        l->seed ^= l->seed >> 7;
        l->seed ^= l->seed << 17;
        s->prompt[i] = (int32_t)(1000 + l->seed % 20000);
    }
}

static void submit(struct llm *l, struct stream *s)
{
    struct error err;
    struct gen_request request = { .tokens = s->prompt,
                                   .token_count = PROMPT_TOKENS,
                                   .sampling = gen_sampling_default(),
                                   .max_tokens = l->max_tokens,
                                   .ignores_end = true,
                                   .on_event = on_event,
                                   .ctx = s };
    request.sampling.temperature = 0;
    s->all = l;
    s->tokens = 0;
    make_prompt(l, s);
    bench_must(l->generator->submit(l->generator, &request, &err), &err, "submitting");
}

static uint32_t tokens_before(const struct stream *s, double at)
{
    uint32_t n = 0;
    while (n < s->tokens && s->at[n] <= at)
        n++;
    return n;
}

static double ours(void *ctx, double seconds)
{
    struct llm *l = ctx;
    double begin = 0, end = 0, tokens = 0;
    (void)seconds; /* the number of tokens is the measure of both sides */
    l->running = l->stream_count;
    for (unsigned i = 0; i < l->stream_count; i++)
        submit(l, &l->streams[i]);
    pthread_mutex_lock(&l->lock);
    while (l->running)
        pthread_cond_wait(&l->wake, &l->lock);
    pthread_mutex_unlock(&l->lock);
    for (unsigned i = 0; i < l->stream_count; i++) {
        const struct stream *s = &l->streams[i];
        if (s->tokens != l->max_tokens)
            bench_fail("stream %u has %u tokens instead of %u", i, s->tokens, l->max_tokens);
        begin = i && begin > s->at[0] ? begin : s->at[0];
        end = i && end < s->at[s->tokens - 1] ? end : s->at[s->tokens - 1];
    }
    if (begin >= end)
        bench_fail("the first of %u streams ended before the last began to decode: no %u tokens "
                   "are enough",
                   l->stream_count, l->max_tokens);
    for (unsigned i = 0; i < l->stream_count; i++)
        tokens += tokens_before(&l->streams[i], end) - tokens_before(&l->streams[i], begin);
    return tokens / (end - begin);
}

/* ---- theirs ---- */

static double theirs(void *ctx, double seconds)
{
    struct llm *l = ctx;
    struct buf out;
    char command[600];
    (void)seconds;
    buf_init(&out, 0);
    snprintf(command, sizeof command, "%s 2>/dev/null", l->command);
    bench_capture(command, &out);
    const char *text = buf_cstr(&out), *at = strstr(text, l->rate_key);
    if (!at)
        bench_fail("'%s' printed no %s: %.300s", l->command, l->rate_key, text);
    double rate = strtod(at + strlen(l->rate_key), NULL);
    buf_release(&out);
    return rate;
}

/* ---- both ---- */

static void llm_open(struct llm *l, struct settings *settings)
{
    struct error err;
    memset(l, 0, sizeof *l);
    l->seed = 88172645463325252u;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->wake, NULL);
    bench_must(models_new(&l->models, &(struct models_options){ .settings = settings }, &err), &err,
               "models");
    bench_must(models_load(l->models, "chat", model_file, &err), &err, "loading the model");
    l->generator = models_generator(l->models);
}

static void llm_close(struct llm *l)
{
    models_free(l->models);
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
}

static void compare(struct llm *l, const char *what, double target)
{
    char facts[128];
    snprintf(facts, sizeof facts, "streams=%u threads=%u prompt=%d tokens=%u model=%s",
             l->stream_count, l->threads, PROMPT_TOKENS, l->max_tokens,
             strrchr(model_file, '/') + 1);
    bench_compare(&(struct bench_pair){ .name = "node",
                                        .what = what,
                                        .facts = facts,
                                        .unit = "tokens/s",
                                        .opponent = l->command,
                                        .target = target,
                                        .ours = ours,
                                        .theirs = theirs,
                                        .ctx = l });
}

static void decode_with(unsigned threads)
{
    static struct llm l;
    struct settings settings;
    settings_init(&settings);
    settings.step_threads = threads;
    llm_open(&l, &settings);
    l.stream_count = 1;
    l.threads = threads;
    l.max_tokens = 64;
    l.rate_key = "\"avg_ts\": ";
    snprintf(l.command, sizeof l.command,
             "build/deps/llama/bin/llama-bench -m %s -t %u -fa off -p 0 -n %u -d %d -r 1 -o jsonl",
             model_file, l.threads, l.max_tokens, PROMPT_TOKENS);
    compare(&l, "decode", 0.95);
    llm_close(&l);
}

/* One thread, and all of them: themis takes them when it finds the machine quiet. */
void node_decode(void)
{
    unsigned cores = cpu_cores();
    decode_with(1);
    if (cores > 1)
        decode_with(cores);
}

void node_streams(void)
{
    static struct llm l;
    struct settings settings;
    settings_init(&settings);
    llm_open(&l, &settings);
    l.stream_count = 16;
    l.threads = cpu_cores();
    l.max_tokens = 96; /* with the prompts they fill the opponent's 2,048 cells */
    l.rate_key = "\"speed_tg\": ";
    snprintf(l.command, sizeof l.command,
             "build/deps/llama/bin/llama-batched-bench -m %s -t %u -fa off -c 2048 -npp %d -ntg %u "
             "-npl %u --output-format jsonl",
             model_file, l.threads, PROMPT_TOKENS, l.max_tokens, l.stream_count);
    compare(&l, "streams", 0.9);
    llm_close(&l);
}
