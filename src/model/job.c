/* SPDX-License-Identifier: Apache-2.0 */
#include "model/job.h"

#include "base/env.h"
#include "base/hash.h"
#include "model/prefix.h"

const char *gen_finish_name(enum gen_finish f)
{
    switch (f) {
    case GEN_STOP:
        return "stop";
    case GEN_LENGTH:
        return "length";
    case GEN_CANCELLED:
        return "cancelled";
    case GEN_FAILED:
        return "error";
    }
    BUG("finish %d", (int)f);
}

/* Lengths go in too, so that tenant "ab" with adapter "c" is not "a" with "bc". */
static uint64_t salt_of(const struct gen_request *req)
{
    uint64_t parts[4] = { req->tenant.len, hash_xxh3(req->tenant.ptr, req->tenant.len),
                          req->adapter.len, hash_xxh3(req->adapter.ptr, req->adapter.len) };
    return hash_xxh3(parts, sizeof parts);
}

static uint64_t group_of(uint64_t salt, const int32_t *tokens, uint32_t prompt_len)
{
    if (prompt_len <= PREFIX_MIN)
        return 0;
    uint64_t parts[2] = { salt, hash_xxh3(tokens, PREFIX_MIN * sizeof *tokens) };
    return hash_xxh3(parts, sizeof parts) | 1;
}

struct gen_job *gen_job_new(const struct gen_request *req, int32_t *tokens, uint32_t prompt_len,
                            uint32_t max_tokens)
{
    struct gen_job *job = mem_zalloc(sizeof *job);
    job->tokens = tokens;
    job->prompt_len = job->count = prompt_len;
    job->max_tokens = max_tokens;
    job->ignores_end = req->ignores_end;
    job->salt = salt_of(req);
    job->group = group_of(job->salt, tokens, prompt_len);
    job->sampler = sampler_new(&req->sampling, env_random_u64(env_system()));
    sampler_see_prompt(job->sampler, tokens, prompt_len);
    answer_text_init(&job->text, req->stops, req->stop_count);
    logprobs_init(&job->logprobs, req->wants_logprobs, req->top_logprobs);
    job->payer = req->payer;
    job->cancel = req->cancel;
    job->on_event = req->on_event;
    job->ctx = req->ctx;
    job->submitted_us = env_mono_us(env_system());
    job->deadline_us = job->submitted_us + req->deadline_ms * 1000;
    return job;
}

void gen_job_free(struct gen_job *job)
{
    if (!job)
        return;
    sampler_free(job->sampler);
    shape_free(job->shape);
    answer_text_release(&job->text);
    logprobs_release(&job->logprobs);
    mem_free(job->tokens);
    mem_free(job);
}

bool gen_job_is_cancelled(const struct gen_job *job)
{
    return job->cancel && atomic_load_explicit(job->cancel, memory_order_acquire);
}

static struct gen_event event_of(const struct gen_job *job, struct slice text)
{
    uint64_t now_us = env_mono_us(env_system());
    uint64_t admitted = job->admitted_us ? job->admitted_us : now_us;
    uint64_t first = job->first_us ? job->first_us : now_us;
    return (struct gen_event){
        .text = text,
        .prompt_tokens = job->prompt_len,
        .cached_tokens = job->cached,
        .completion_tokens = job->count - job->prompt_len,
        .queue_us = admitted - job->submitted_us,
        .prefill_us = first - admitted,
        .decode_us = now_us - first,
    };
}

void gen_job_send(struct gen_job *job, struct slice text)
{
    struct gen_event e = event_of(job, text);
    e.tokens = logprobs_take(&job->logprobs, job->text.shown);
    job->on_event(job->ctx, &e);
}

void gen_job_finish(struct gen_job *job, enum gen_finish finish, const struct error *err)
{
    struct gen_event e = event_of(job, answer_text_finish(&job->text));
    /* Behind the last shown byte are only tokens without text; behind a stop text all are cut. */
    e.tokens = logprobs_take(&job->logprobs, job->text.shown + !job->text.is_stopped);
    e.is_last = true;
    e.finish = finish;
    e.err = finish == GEN_FAILED ? err : NULL;
    if (job->payer && job->admitted_us)
        job->payer->charge(job->payer, job->count);
    job->on_event(job->ctx, &e);
    gen_job_free(job);
}
