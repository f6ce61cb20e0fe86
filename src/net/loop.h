/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop -- the event loop: sockets, timers and calls from other threads. Hides
 * libuv.
 *
 * One thread runs a loop and owns everything that belongs to it. Only
 * loop_post and loop_stop may be called from elsewhere.
 */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include "base/base.h"
#include "base/error.h"

struct loop;

MUST_CHECK enum errc loop_new(struct loop **out, struct error *err);
void loop_free(struct loop *loop); /* after loop_run has returned */

/* Runs until loop_stop. The calling thread becomes the loop's. */
void loop_run(struct loop *loop);
/* One turn, without waiting: for tests that decide what happens when. */
void loop_step(struct loop *loop);
void loop_stop(struct loop *loop);

/* True on the loop's thread while it runs. */
bool loop_is_here(const struct loop *loop);
#define ASSERT_ON(loop) assert(loop_is_here(loop))

/*
 * A call on the loop's thread. The task is embedded in what it is about; it
 * may be posted again only after it ran. Many tasks cost one wake-up (eventfd).
 */
struct loop_task {
    void (*run)(struct loop_task *task);
    struct loop_task *next; /* the loop's */
};
void loop_post(struct loop *loop, struct loop_task *task);

/* Runs once at the end of the current turn, after all sockets were served: one flush per turn. */
void loop_at_turn_end(struct loop *loop, struct loop_task *task);

/* Timers: loop thread only. timer_free stops it. */
struct loop_timer;
struct loop_timer *loop_timer_new(struct loop *loop, void (*fn)(void *ctx), void *ctx);
void loop_timer_start(struct loop_timer *t, uint64_t ms, uint64_t repeat_ms); /* repeat 0 = once */
void loop_timer_stop(struct loop_timer *t);
void loop_timer_free(struct loop_timer *t);
uint64_t loop_now_ms(const struct loop *loop); /* monotonic, cached per turn */

/* ---- for the files of net ---- */

void *loop_uv(struct loop *loop); /* the library's loop */
bool loop_is_running(const struct loop *loop);
bool loop_is_running_here(const struct loop *loop); /* stricter than loop_is_here */
void loop_flush(struct loop *loop);                 /* runs the turn-end tasks now */

#endif
