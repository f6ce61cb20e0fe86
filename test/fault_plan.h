/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_plan -- which hit of which fault point fails next: each that a run without a fault has
 * passed, one after the other, at most HITS_MAX of one place.
 *
 *     fault_arm("", 0);
 *     run();
 *     fault_plan_init(&plan);
 *     while (fault_plan_arm(&plan)) {
 *         run();
 *         fault_plan_note(&plan);
 *     }
 */
#ifndef TEST_FAULT_PLAN_H
#define TEST_FAULT_PLAN_H

#include "base/fault.h"

enum { HITS_MAX = 8, POINTS_MAX = 256 };

struct fault_plan {
    uint32_t left[POINTS_MAX]; /* hits of each point that are still to fail */
    struct fault_point *at;
    size_t place; /* of at */
    unsigned nth;
    unsigned failed; /* hits that failed so far */
};

/* Disarms. */
static inline void fault_plan_init(struct fault_plan *plan)
{
    size_t i = 0;

    fault_disarm();
    *plan = (struct fault_plan){ .at = fault_next(NULL) };
    for (struct fault_point *p = plan->at; p; p = fault_next(p)) {
        if (i == POINTS_MAX)
            BUG("too many fault points");
        plan->left[i++] = p->hits < HITS_MAX ? p->hits : HITS_MAX;
    }
}

/* Arms the next hit; false when there is none. */
static inline bool fault_plan_arm(struct fault_plan *plan)
{
    while (plan->at && !plan->left[plan->place]) {
        plan->at = fault_next(plan->at);
        plan->place++;
        plan->nth = 0;
    }
    if (!plan->at)
        return false;
    plan->left[plan->place]--;
    fault_arm_point(plan->at, ++plan->nth);
    return true;
}

/* Disarms. A place that was not passed so often this time is left alone. */
static inline void fault_plan_note(struct fault_plan *plan)
{
    fault_disarm();
    if (fault_last())
        plan->failed++;
    else
        plan->left[plan->place] = 0;
}

#endif
