/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pace -- how many threads the next step of a lane uses. One is the rule:
 * threads of one step wait for each other, and as soon as anything else wants a
 * core, a step of many becomes slower than a step of one. More are used while
 * the lane works alone, the machine has idle cores and measured steps show that
 * it pays.
 *
 * One for all lanes of a model, which learn from each other. Pure; any thread,
 * by a lock for the few lines of each call.
 */
#ifndef MODEL_PACE_H
#define MODEL_PACE_H

#include "base/base.h"

#include <pthread.h>

enum {
    PACE_LEVELS = 6,   /* 1, 2, 4, 8, 16, 32 threads, or what there is */
    PACE_CLASSES = 14, /* by the logarithm of a step's tokens */
    PACE_MEMORY = 4,   /* steps that the machine must have been quiet */
};

struct pace {
    pthread_mutex_t lock; /* over the following */
    unsigned threads_max;
    unsigned best;              /* level that pays as far as is known */
    unsigned free[PACE_MEMORY]; /* cores that were free before the last steps */
    unsigned free_next;
    double cost_us[PACE_CLASSES][PACE_LEVELS]; /* per token; 0 = not known */
    uint64_t single_at_us[PACE_CLASSES];       /* when one thread was last measured */
    uint64_t retry_at_us;                      /* nothing above `best` before */
    uint64_t backoff_us;
};

/* threads_max: cores that a step may use; 1 = always one thread. */
void pace_init(struct pace *p, unsigned threads_max);
void pace_release(struct pace *p);

struct pace_now {
    uint64_t us;         /* monotonic */
    bool is_alone;       /* no other lane works and nobody waits for one */
    unsigned free_cores; /* that nobody else wants at this moment: the one it runs on, or more */
    uint32_t tokens;     /* of the step to come */
};
/* What was chosen for it. */
struct pace_step {
    unsigned threads;
    unsigned level;
    uint32_t tokens;
};
struct pace_step pace_next(struct pace *p, const struct pace_now *now);

/* How long that step took. */
void pace_took(struct pace *p, const struct pace_step *step, uint64_t now_us, uint64_t took_us);

#endif
