/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job -- one accepted generation: what was copied from the request and how far
 * it is. Belongs to the queue, then to one lane; ends with its last event.
 */
#ifndef MODEL_JOB_H
#define MODEL_JOB_H

#include "base/error.h"
#include "model/answer_text.h"
#include "model/generator.h"
#include "model/logprob.h"
#include "model/sampler.h"
#include "model/shape.h"

struct gen_job {
    struct gen_job *next; /* in the queue */

    int32_t *tokens; /* owned; room for prompt and answer */
    uint32_t prompt_len;
    uint32_t max_tokens;
    uint32_t count; /* prompt and answer so far */
    uint32_t cached;
    bool ignores_end;
    uint64_t salt;  /* of tenant and adapter */
    uint64_t group; /* of the beginning of the prompt; 0 = too short to share */

    struct sampler *sampler; /* owned */
    struct shape *shape;     /* owned; NULL = any text */
    struct answer_text text;
    struct logprobs logprobs;

    struct gen_payer *payer;   /* the caller's; may be NULL */
    const atomic_bool *cancel; /* the caller's; may be NULL */
    void (*on_event)(void *ctx, const struct gen_event *e);
    void *ctx;

    uint64_t submitted_us, deadline_us, admitted_us, first_us;
};

/* Copies what is needed of req; deadline_ms must be set. Keeps tokens (room for prompt_len + max_tokens). Returned to the caller. */
struct gen_job *gen_job_new(const struct gen_request *req, int32_t *tokens, uint32_t prompt_len,
                            uint32_t max_tokens);
void gen_job_free(struct gen_job *job);

bool gen_job_is_cancelled(const struct gen_job *job);
/* Text of the answer, between first and last event. */
void gen_job_send(struct gen_job *job, struct slice text);
/* The last event, then frees the job. err only with GEN_FAILED. */
void gen_job_finish(struct gen_job *job, enum gen_finish finish, const struct error *err);

#endif
