/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"
#include <pthread.h>
#include <stdatomic.h>

_Atomic int fault_is_armed;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *wanted = "";
static unsigned countdown, hits;
static const char *last;

bool fault_hit_slow(const char *point)
{
    bool fails = false;

    pthread_mutex_lock(&lock);
    if (!strncmp(point, wanted, strlen(wanted))) {
        hits++;
        fails = countdown && --countdown == 0;
        if (fails)
            last = point;
    }
    pthread_mutex_unlock(&lock);
    return fails;
}

void fault_arm(const char *prefix, unsigned nth)
{
    pthread_mutex_lock(&lock);
    wanted = prefix;
    countdown = nth;
    hits = 0;
    last = NULL;
    pthread_mutex_unlock(&lock);
    atomic_store(&fault_is_armed, 1);
}

void fault_disarm(void)
{
    atomic_store(&fault_is_armed, 0);
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
