/* SPDX-License-Identifier: Apache-2.0 */
/*
 * breaker -- whether calls to one peer may leave. After five failures in a row
 * it opens; 60 seconds later one call at a time may try again; the first that
 * succeeds closes it, one that fails opens it for another 60 seconds.
 *
 * What counts is whether the peer can work, not whether it liked the request:
 * a 4xx counts neither as failure nor as success, and neither does an orderly
 * "busy" (503 of a full queue or a draining node), else a burst would take a
 * healthy peer away for a minute and push its load onto the others.
 *
 * Pure: time comes with each call. One thread at a time, the owner of the peer.
 */
#ifndef CLUSTER_BREAKER_H
#define CLUSTER_BREAKER_H

#include "base/base.h"

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

/* How a call ended, as far as a breaker cares. */
enum breaker_outcome {
    BREAKER_SUCCESS, /* the peer did the work */
    BREAKER_NEUTRAL, /* it answered that it will not (4xx, busy), or the caller gave up */
    BREAKER_FAILURE, /* no connection, reset, silence until the deadline, 5xx */
};

struct breaker_settings {
    unsigned failures_max; /* failures in a row that open it; default 5 */
    uint64_t open_us;      /* time until a probe may leave; default 60 s */
    uint64_t probe_us; /* a probe without an end makes room for another after this; default 30 s */
};
/* The defaults above. */
struct breaker_settings breaker_defaults(void);

/* Each is a total since breaker_init. started = success + neutral + failure + late + unfinished. */
struct breaker_stats {
    uint64_t started; /* calls that were let through, probes included */
    uint64_t refused; /* calls that were not */
    uint64_t probes;
    uint64_t success, neutral, failure;
    uint64_t late;   /* ended after the state had changed, and changed nothing */
    uint64_t opened; /* changes to open */
    uint64_t closed; /* changes to closed */
};

struct breaker {
    struct breaker_settings settings;
    enum breaker_state state;
    unsigned failures;   /* in a row, while closed */
    bool has_probe;      /* a probe is on its way */
    uint64_t until_us;   /* open: when a probe may leave; half-open: when the present one is lost */
    uint32_t generation; /* of the state; an older ticket changes nothing */
    struct breaker_stats stats;
    /* Told of each change of state; may be NULL. It must not call the breaker. */
    void (*on_change)(void *ctx, const struct breaker *b, enum breaker_state from);
    void *ctx; /* borrowed */
};

/* Closed. settings may be NULL: the defaults. */
void breaker_init(struct breaker *b, const struct breaker_settings *settings);

/* What a call that was let through must show when it ends. */
struct breaker_ticket {
    uint32_t generation;
    bool is_probe;
};

/*
 * May a call leave now? If so, *ticket is for the one breaker_end that must
 * follow. If not, the caller goes elsewhere at once.
 */
MUST_CHECK bool breaker_begin(struct breaker *b, uint64_t now_us, struct breaker_ticket *ticket);

/* Whether breaker_begin would let a call through, without letting it: for the router. */
bool breaker_would_allow(const struct breaker *b, uint64_t now_us);

void breaker_end(struct breaker *b, struct breaker_ticket ticket, enum breaker_outcome outcome,
                 uint64_t now_us);

/*
 * The transport knows that the peer is gone (its connection was lost, pings
 * were missed): opens it without waiting for five calls to fail.
 */
void breaker_trip(struct breaker *b, uint64_t now_us);

/* The peer has started anew (another boot id): what is known of the old one is void. */
void breaker_reset(struct breaker *b);

/* Of an HTTP status; 0 = no answer came. */
enum breaker_outcome breaker_outcome_of(int http_status);

const char *breaker_state_name(enum breaker_state state); /* "closed", "open", "half-open" */

#endif
