/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"
#include <pthread.h>

/* Bounds of the section, made by the linker; NULL in a program without points. */
extern struct fault_point points_start[] __asm__("__start_fault_points") __attribute__((weak));
extern struct fault_point points_stop[] __asm__("__stop_fault_points") __attribute__((weak));

_Static_assert(sizeof(struct fault_point) == 16, "points lie in a row without gaps");

atomic_bool fault_is_armed;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below and of the points */
static struct {
    const char *prefix;
    const struct fault_point *point; /* or NULL: by the prefix */
    unsigned nth, hits;
    const char *for_good; /* prefix, or NULL */
    const char *last;
} armed = { .prefix = "" };

static bool starts(const char *name, const char *prefix)
{
    return !strncmp(name, prefix, strlen(prefix));
}

/* Counts what is armed; true when this hit fails. */
static bool count(const struct fault_point *point)
{
    bool is_meant = armed.point ? armed.point == point : starts(point->name, armed.prefix);

    armed.hits += is_meant;
    if (armed.last)
        return armed.for_good && starts(point->name, armed.for_good);
    return is_meant && armed.hits == armed.nth;
}

bool fault_hit_slow(struct fault_point *point)
{
    pthread_mutex_lock(&lock);
    point->hits++;
    bool fails = count(point);
    point->failures += fails;
    if (fails && !armed.last)
        armed.last = point->name;
    pthread_mutex_unlock(&lock);
    return fails;
}

static void arm(const char *prefix, const struct fault_point *point, unsigned nth)
{
    pthread_mutex_lock(&lock);
    armed.prefix = prefix;
    armed.point = point;
    armed.nth = nth;
    armed.hits = 0;
    armed.for_good = NULL;
    armed.last = NULL;
    for (struct fault_point *p = fault_next(NULL); p; p = fault_next(p))
        p->hits = 0;
    pthread_mutex_unlock(&lock);
    atomic_store(&fault_is_armed, true);
}

void fault_arm(const char *prefix, unsigned nth)
{
    arm(prefix, NULL, nth);
}

void fault_arm_point(struct fault_point *point, unsigned nth)
{
    arm("", point, nth);
}

void fault_for_good(const char *prefix)
{
    pthread_mutex_lock(&lock);
    armed.for_good = prefix;
    pthread_mutex_unlock(&lock);
}

void fault_disarm(void)
{
    atomic_store(&fault_is_armed, false);
}

unsigned fault_hits(void)
{
    pthread_mutex_lock(&lock);
    unsigned n = armed.hits;
    pthread_mutex_unlock(&lock);
    return n;
}

const char *fault_last(void)
{
    pthread_mutex_lock(&lock);
    const char *point = armed.last;
    pthread_mutex_unlock(&lock);
    return point;
}

struct fault_point *fault_next(struct fault_point *after)
{
    struct fault_point *p = after ? after + 1 : points_start;

    return p < points_stop ? p : NULL;
}

const char *fault_untried(const char *prefix)
{
    for (struct fault_point *p = fault_next(NULL); p; p = fault_next(p))
        if (starts(p->name, prefix) && !p->failures)
            return p->name;
    return NULL;
}
