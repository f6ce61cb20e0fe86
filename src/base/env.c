/* SPDX-License-Identifier: Apache-2.0 */
#include "base/env.h"
#include <sys/random.h>
#include <time.h>

static uint64_t clock_us(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static uint64_t system_mono(void *ctx)
{
    (void)ctx;
    return clock_us(CLOCK_MONOTONIC);
}

static uint64_t system_wall(void *ctx)
{
    (void)ctx;
    return clock_us(CLOCK_REALTIME);
}

static void system_random(void *ctx, void *out, size_t len)
{
    (void)ctx;
    for (char *at = out; len;) {
        ssize_t n = getrandom(at, len, 0);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
}

const struct env *env_system(void)
{
    static const struct env system = { system_mono, system_wall, system_random, NULL };

    return &system;
}

static uint64_t test_mono(void *ctx)
{
    return ((struct env_test *)ctx)->now_us;
}

static uint64_t test_wall(void *ctx)
{
    return 1700000000000000u + ((struct env_test *)ctx)->now_us;
}

/* splitmix64 */
static void test_random(void *ctx, void *out, size_t len)
{
    struct env_test *t = ctx;

    for (size_t i = 0; i < len; i++) {
        uint64_t z = t->seed += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        ((uint8_t *)out)[i] = (uint8_t)(z ^ z >> 31);
    }
}

void env_test_init(struct env_test *t, uint64_t seed)
{
    *t = (struct env_test){ { test_mono, test_wall, test_random, t }, 1, seed };
}

void env_test_advance(struct env_test *t, uint64_t us)
{
    t->now_us += us;
}

uint64_t env_random_u64(const struct env *e)
{
    uint64_t v;

    e->random(e->ctx, &v, sizeof v);
    return v;
}
