/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault -- named points where a test can make the environment fail.
 *
 * if (fault_hit("kv.write")) return fail(err, ERR_IO, ...);
 * Costs one relaxed load while nothing is armed.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include "base/base.h"

extern _Atomic int fault_is_armed;

bool fault_hit_slow(const char *point);
static inline bool fault_hit(const char *point)
{
    return __builtin_expect(fault_is_armed, 0) && fault_hit_slow(point);
}

/* The nth hit (1 = next) of points that start with prefix ("" = any) fails, once. */
void fault_arm(const char *prefix, unsigned nth);
void fault_disarm(void);
/* Hits counted since fault_arm: below nth means the body passed without reaching it. */
unsigned fault_hits(void);
const char *fault_last(void); /* point that failed, or NULL */

#endif
