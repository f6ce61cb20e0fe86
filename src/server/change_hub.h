/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change_hub -- requests that follow the commits of the store: how many there may be, and who wakes
 * them. Hides that many commits a second wake a follower only now and then.
 */
#ifndef SERVER_CHANGE_HUB_H
#define SERVER_CHANGE_HUB_H

#include "server/request.h"

struct change_hub;

/* One request that may wait; in its arena. */
struct change_waiter {
    struct request *r;
    uint64_t due_ms; /* monotonic */
    uint64_t after;  /* woken when the store has more than that */
    bool is_queued;
    struct change_waiter *next, **prev; /* the hub's */
};

/* Listens to the store, which must end first. */
struct change_hub *change_hub_new(struct store *s, unsigned followers_max, unsigned writers_max);
void change_hub_free(struct change_hub *h); /* NULL is allowed */

/* A follower comes: ERR_BUSY when there are too many. Each one that came leaves. */
MUST_CHECK enum errc change_hub_enter(struct change_hub *h, struct error *err);
void change_hub_leave(struct change_hub *h);

/* One of the few that may write an answer at this moment, so that slow clients leave workers free. */
bool change_hub_begin_writing(struct change_hub *h);
void change_hub_end_writing(struct change_hub *h);

/*
 * Parks the request until there are commits behind `after`, or until due_ms, or until the client
 * leaves; step runs then. The caller returns at once.
 */
void change_hub_wait(struct change_hub *h, struct change_waiter *w, request_fn step);
/* The same until due_ms only. */
void change_hub_pause(struct change_hub *h, struct change_waiter *w, request_fn step);
/* The client has left. Any thread. */
void change_hub_wake(struct change_hub *h, struct change_waiter *w);

/* Wakes whose time has come; all of them when the node stops. Now and then, any thread. */
void change_hub_tick(struct change_hub *h, uint64_t now_ms, bool is_stopping);

#endif
