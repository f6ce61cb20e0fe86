/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env -- time and chance. Pure cores get them only from here, so that a test
 * or the simulator can own both.
 */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include "base/base.h"

struct env {
    uint64_t (*mono_us)(void *ctx); /* monotonic, microseconds */
    uint64_t (*wall_us)(void *ctx); /* since 1970, microseconds */
    void (*random)(void *ctx, void *out, size_t len);
    void *ctx;
};

/* The machine's clock and getrandom. */
const struct env *env_system(void);

/* A scripted one for tests: time moves only by env_test_advance. */
struct env_test {
    struct env env;
    uint64_t now_us;
    uint64_t seed;
};
void env_test_init(struct env_test *t, uint64_t seed);
void env_test_advance(struct env_test *t, uint64_t us);

static inline uint64_t env_mono_us(const struct env *e)
{
    return e->mono_us(e->ctx);
}
static inline uint64_t env_mono_ms(const struct env *e)
{
    return e->mono_us(e->ctx) / 1000;
}
static inline uint64_t env_wall_us(const struct env *e)
{
    return e->wall_us(e->ctx);
}
uint64_t env_random_u64(const struct env *e);

#endif
