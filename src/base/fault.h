/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault -- named points where a test can make the environment fail.
 *
 *     if (fault_hit("kv.write"))
 *         return fail(err, ERR_IO, ...);
 *     fd = fault_errno("server.accept", EMFILE) ? -1 : accept4(...);
 *
 * Costs one relaxed load while nothing is armed. The linker collects the points of a program, so
 * that a test can fail each that a run of it has passed. Any thread.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include "base/base.h"
#include <errno.h>
#include <stdatomic.h>

/* One place in the source; several may share a name. 16 bytes: the linker puts them in a row. */
struct fault_point {
    _Alignas(16) const char *name;
    uint32_t hits;     /* since something was armed */
    uint32_t failures; /* since the start of the program */
};

extern atomic_bool fault_is_armed;

bool fault_hit_slow(struct fault_point *point);

/* True when this place must fail now. point_name is a literal. */
#define fault_hit(point_name)                                                                      \
    ({                                                                                             \
        static struct fault_point fault_here                                                       \
            __attribute__((section("fault_points"), used)) = { .name = "" point_name };            \
        __builtin_expect(atomic_load_explicit(&fault_is_armed, memory_order_relaxed), false) &&    \
            fault_hit_slow(&fault_here);                                                           \
    })

/* The same, and errno says why. */
#define fault_errno(point_name, number) (fault_hit(point_name) && ((errno = (number)), true))

/*
 * The nth hit (1 = next, 0 = none: hits are only counted) of points that start with prefix ("" =
 * any) fails, once. The prefix is borrowed until the next call.
 */
void fault_arm(const char *prefix, unsigned nth);
/* The same for one place alone. */
void fault_arm_point(struct fault_point *point, unsigned nth);
/* From that hit on all points that start with prefix fail. Behind either of the two above. */
void fault_for_good(const char *prefix);
void fault_disarm(void);
/* Hits counted since then: below nth means the body passed without reaching it. */
unsigned fault_hits(void);
const char *fault_last(void); /* first point that failed, or NULL */

/* ---- the points of the program: while nothing is armed ---- */

struct fault_point *fault_next(struct fault_point *after); /* NULL: the first; NULL at the end */
/* A point whose name starts with prefix and that never failed in this process, or NULL. */
const char *fault_untried(const char *prefix);

#endif
