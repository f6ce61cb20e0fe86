/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched -- the waiting generations of one model and which lane takes which.
 *
 * Any thread. One queue for all lanes, so no lane idles while another has a
 * backlog; a request goes to the lane that already runs the beginning of its
 * prompt, else to the one with the least to do.
 */
#ifndef MODEL_SCHED_H
#define MODEL_SCHED_H

#include "model/engine.h"
#include "model/job.h"

enum { LANES_MAX = 64 };

struct sched;

struct sched_options {
    uint32_t lanes;
    uint32_t places;    /* running at once per lane */
    uint32_t queue_max; /* waiting */
};
struct sched *sched_new(const struct sched_options *opt);
void sched_free(struct sched *s); /* must be empty */

/* Keeps the job on OK. ERR_BUSY: the queue is full; ERR_NOT_FOUND: it was closed. */
MUST_CHECK enum errc sched_add(struct sched *s, struct gen_job *job, struct error *err);

/* The next job for a lane, or NULL. It counts as running there. */
struct gen_job *sched_take(struct sched *s, uint32_t lane, uint64_t now_us);
/* Puts back what was taken and did not fit, in front. */
void sched_return(struct sched *s, uint32_t lane, struct gen_job *job);
void sched_done(struct sched *s, uint32_t lane, uint64_t group); /* a taken job has ended */

/* Unlinks waiting jobs that are cancelled or late (all when stopping). */
struct gen_job *sched_sweep(struct sched *s, uint64_t now_us);

/* Sleeps until there may be work. False: stopping. */
bool sched_wait(struct sched *s);
void sched_close(struct sched *s); /* new jobs are refused, those that are in go on */
/* For good: what is in ends, with ERR_GONE and this text (a literal), or cancelled when NULL. */
void sched_stop(struct sched *s, const char *why);
const char *sched_stop_reason(struct sched *s);
bool sched_is_stopping(struct sched *s);

/* No other lane works, and nobody waits for a place. */
bool sched_is_alone(struct sched *s, uint32_t lane);

void sched_counts(struct sched *s, uint32_t *waiting, uint32_t *running);

#endif
