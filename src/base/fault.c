/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"
#include <pthread.h>

/* Bounds of the section, made by the linker; NULL in a program without points. */
extern struct fault_point points_start[] __asm__("__start_fault_points") __attribute__((weak));
extern struct fault_point points_stop[] __asm__("__stop_fault_points") __attribute__((weak));

_Static_assert(sizeof(struct fault_point) == 16, "points lie in a row without gaps");

atomic_bool fault_is_armed;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *wanted = "";
static unsigned first, hits;
static bool is_for_good;
static const char *last;

static bool starts(const char *name, const char *prefix)
{
    return !strncmp(name, prefix, strlen(prefix));
}

bool fault_hit_slow(struct fault_point *point)
{
    bool fails = false;

    pthread_mutex_lock(&lock);
    if (starts(point->name, wanted)) {
        hits++;
        fails = first && (hits == first || (is_for_good && hits > first));
        if (fails) {
            last = point->name;
            atomic_fetch_add_explicit(&point->failures, 1, memory_order_relaxed);
        }
    }
    pthread_mutex_unlock(&lock);
    return fails;
}

static void arm(const char *prefix, unsigned nth, bool for_good)
{
    pthread_mutex_lock(&lock);
    wanted = prefix;
    first = nth;
    is_for_good = for_good;
    hits = 0;
    last = NULL;
    pthread_mutex_unlock(&lock);
    atomic_store(&fault_is_armed, true);
}

void fault_arm(const char *prefix, unsigned nth)
{
    arm(prefix, nth, false);
}

void fault_arm_for_good(const char *prefix, unsigned nth)
{
    arm(prefix, nth, true);
}

void fault_disarm(void)
{
    atomic_store(&fault_is_armed, false);
}

unsigned fault_hits(void)
{
    pthread_mutex_lock(&lock);
    unsigned n = hits;
    pthread_mutex_unlock(&lock);
    return n;
}

const char *fault_last(void)
{
    pthread_mutex_lock(&lock);
    const char *point = last;
    pthread_mutex_unlock(&lock);
    return point;
}

const char *fault_untried(const char *prefix)
{
    for (struct fault_point *p = points_start; p < points_stop; p++)
        if (starts(p->name, prefix) && !atomic_load(&p->failures))
            return p->name;
    return NULL;
}
