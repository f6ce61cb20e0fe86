/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A level is a number of threads: 1, 2, 4, ... For each size of step and level
 * the cost per token is remembered; where more than one thread has settled, a
 * new measurement weighs a quarter.
 *
 *   up    when the lane is alone, the cores were free for some steps and the
 *         time to try again has come: the level above the best. If it is not
 *         clearly faster, the level below stays the best.
 *   down  when the cores are not free: at once. When steps became slower than
 *         one thread's, which one very slow step or some slow ones show, the
 *         next try is put off as well, twice as long each time, so that a
 *         neighbour who comes and goes costs one slow step in many.
 *
 * Steps get longer while the context grows, so decoding measures one thread
 * again now and then. Prompts come in few long steps, which cannot: they are
 * called slow only when there is no doubt.
 */
#include "model/pace.h"

enum {
    BACKOFF_MIN_US = 250 * 1000,
    BACKOFF_MAX_US = 30 * 1000 * 1000,
    REFRESH_US = 3 * 1000 * 1000, /* how old the measurement of one thread may be */
    PROMPT_CLASS = 4,             /* steps of 16 tokens and more */
};

static const double pays = 0.9; /* a level must cost less than this part of the other */
static const double prompt_doubt = 1.5;

void pace_init(struct pace *p, unsigned threads_max)
{
    memset(p, 0, sizeof *p);
    p->threads_max = threads_max ? threads_max : 1;
    p->backoff_us = BACKOFF_MIN_US;
    for (size_t i = 0; i < PACE_MEMORY; i++)
        p->free[i] = p->threads_max;
    pthread_mutex_init(&p->lock, NULL);
}

void pace_release(struct pace *p)
{
    pthread_mutex_destroy(&p->lock);
}

static unsigned threads_at(const struct pace *p, unsigned level)
{
    return 1u << level < p->threads_max ? 1u << level : p->threads_max;
}

static bool is_top(const struct pace *p, unsigned level)
{
    return level + 1 == PACE_LEVELS || threads_at(p, level) == p->threads_max;
}

static unsigned class_of(uint32_t tokens)
{
    unsigned size = 0;
    while (tokens > 1 && size + 1 < PACE_CLASSES) {
        tokens /= 2;
        size++;
    }
    return size;
}

/* The highest level whose threads all had a core of their own lately. */
static unsigned allowed(struct pace *p, const struct pace_now *now)
{
    unsigned least = p->threads_max, level = 0;
    p->free[p->free_next++ % PACE_MEMORY] = now->is_alone ? now->free_cores : 1;
    for (size_t i = 0; i < PACE_MEMORY; i++)
        least = p->free[i] < least ? p->free[i] : least;
    while (!is_top(p, level) && threads_at(p, level + 1) <= least)
        level++;
    return level;
}

struct pace_step pace_next(struct pace *p, const struct pace_now *now)
{
    unsigned class = class_of(now->tokens);
    struct pace_step step = { .tokens = now->tokens };
    const double *cost = p->cost_us[class];
    pthread_mutex_lock(&p->lock);
    unsigned most = allowed(p, now);
    bool is_old = class < PROMPT_CLASS && now->us - p->single_at_us[class] > REFRESH_US;
    bool is_due = now->us >= p->retry_at_us && !is_top(p, p->best);
    if (cost[0] > 0 && !is_old)
        step.level = cost[p->best] > 0 && is_due ? p->best + 1 : p->best;
    step.level = step.level < most ? step.level : most;
    step.threads = threads_at(p, step.level);
    pthread_mutex_unlock(&p->lock);
    return step;
}

static void step_back(struct pace *p, uint64_t now_us, unsigned to)
{
    p->best = to;
    p->retry_at_us = now_us + p->backoff_us;
    p->backoff_us = p->backoff_us * 2 < BACKOFF_MAX_US ? p->backoff_us * 2 : BACKOFF_MAX_US;
}

void pace_took(struct pace *p, const struct pace_step *step, uint64_t now_us, uint64_t took_us)
{
    unsigned class = class_of(step->tokens), level = step->level;
    double *cost = p->cost_us[class], *mine = &cost[level];
    double per_token = (double)took_us / (step->tokens ? step->tokens : 1);
    pthread_mutex_lock(&p->lock);
    bool is_settled = level > 0 && level <= p->best && *mine > 0;
    *mine = is_settled ? *mine * 0.75 + per_token * 0.25 : per_token;
    if (level == 0) {
        p->single_at_us[class] = now_us;
    } else if (*mine > cost[0] * (class < PROMPT_CLASS ? 1 : prompt_doubt)) {
        step_back(p, now_us, 0);
    } else if (level > p->best && *mine < cost[p->best] * pays) {
        p->best = level;
    } else if (level > p->best) {
        step_back(p, now_us, p->best);
    } else if (now_us > p->retry_at_us + p->backoff_us) {
        p->backoff_us = BACKOFF_MIN_US; /* it has paid for long */
    }
    pthread_mutex_unlock(&p->lock);
}
