/* SPDX-License-Identifier: Apache-2.0 */
/*
 *            failures_max in a row, or a trip
 *   CLOSED ------------------------------------> OPEN
 *     ^                                         |    ^
 *     | probe succeeds           open_us passed |    | probe fails, or a trip
 *     |                                         v    |
 *     +-------------------------------------- HALF_OPEN
 *
 * Calls overlap, so most of them end in another state than they began in: the
 * fifth failure is followed by the failures of calls that left before it.
 * Each change of state begins a generation, and a ticket of an older one is
 * counted and otherwise ignored. In HALF_OPEN only the probe has a ticket of
 * the present generation, so only the probe decides.
 */
#include "cluster/breaker.h"

struct breaker_settings breaker_defaults(void)
{
    return (struct breaker_settings){ .failures_max = 5,
                                      .open_us = 60 * 1000000ull,
                                      .probe_us = 30 * 1000000ull };
}

void breaker_init(struct breaker *b, const struct breaker_settings *settings)
{
    *b = (struct breaker){ .settings = settings ? *settings : breaker_defaults() };
}

static bool may_move(enum breaker_state from, enum breaker_state to)
{
    static const bool moves[3][3] = {
        [BREAKER_CLOSED] = { [BREAKER_OPEN] = true },
        [BREAKER_OPEN] = { [BREAKER_HALF_OPEN] = true, [BREAKER_CLOSED] = true /* reset */ },
        [BREAKER_HALF_OPEN] = { [BREAKER_OPEN] = true, [BREAKER_CLOSED] = true },
    };
    return moves[from][to];
}

static void move(struct breaker *b, enum breaker_state to)
{
    enum breaker_state from = b->state;

    if (!may_move(from, to))
        BUG("breaker: %s to %s", breaker_state_name(from), breaker_state_name(to));
    b->state = to;
    b->generation++;
    b->failures = 0;
    b->has_probe = false;
    b->stats.opened += to == BREAKER_OPEN;
    b->stats.closed += to == BREAKER_CLOSED;
    if (b->on_change)
        b->on_change(b->ctx, b, from);
}

static void open_now(struct breaker *b, uint64_t now_us)
{
    b->until_us = now_us + b->settings.open_us;
    move(b, BREAKER_OPEN);
}

bool breaker_would_allow(const struct breaker *b, uint64_t now_us)
{
    switch (b->state) {
    case BREAKER_CLOSED:
        return true;
    case BREAKER_OPEN:
        return now_us >= b->until_us;
    case BREAKER_HALF_OPEN:
        return !b->has_probe || now_us >= b->until_us;
    }
    return false;
}

bool breaker_begin(struct breaker *b, uint64_t now_us, struct breaker_ticket *ticket)
{
    if (!breaker_would_allow(b, now_us)) {
        b->stats.refused++;
        return false;
    }
    if (b->has_probe)
        b->generation++; /* it is lost: should it end after all, it decides nothing */
    if (b->state == BREAKER_OPEN)
        move(b, BREAKER_HALF_OPEN);
    bool is_probe = b->state == BREAKER_HALF_OPEN;
    if (is_probe) {
        b->has_probe = true;
        b->until_us = now_us + b->settings.probe_us;
        b->stats.probes++;
    }
    b->stats.started++;
    *ticket = (struct breaker_ticket){ b->generation, is_probe };
    return true;
}

static void end_closed(struct breaker *b, enum breaker_outcome outcome, uint64_t now_us)
{
    switch (outcome) {
    case BREAKER_SUCCESS:
        b->failures = 0;
        break;
    case BREAKER_NEUTRAL:
        break;
    case BREAKER_FAILURE:
        if (++b->failures >= b->settings.failures_max)
            open_now(b, now_us);
        break;
    }
}

static void end_probe(struct breaker *b, enum breaker_outcome outcome, uint64_t now_us)
{
    switch (outcome) {
    case BREAKER_SUCCESS:
        move(b, BREAKER_CLOSED);
        break;
    case BREAKER_NEUTRAL:
        b->has_probe = false; /* says nothing; the next call is the probe */
        break;
    case BREAKER_FAILURE:
        open_now(b, now_us);
        break;
    }
}

void breaker_end(struct breaker *b, struct breaker_ticket ticket, enum breaker_outcome outcome,
                 uint64_t now_us)
{
    if (ticket.generation != b->generation) {
        b->stats.late++;
        return;
    }
    b->stats.success += outcome == BREAKER_SUCCESS;
    b->stats.neutral += outcome == BREAKER_NEUTRAL;
    b->stats.failure += outcome == BREAKER_FAILURE;
    if (ticket.is_probe)
        end_probe(b, outcome, now_us);
    else
        end_closed(b, outcome, now_us);
}

void breaker_trip(struct breaker *b, uint64_t now_us)
{
    if (b->state == BREAKER_OPEN)
        b->until_us = now_us + b->settings.open_us;
    else
        open_now(b, now_us);
}

void breaker_reset(struct breaker *b)
{
    b->failures = 0;
    if (b->state != BREAKER_CLOSED)
        move(b, BREAKER_CLOSED);
}

enum breaker_outcome breaker_outcome_of(int http_status)
{
    if (http_status == 503 || http_status == 501 || (http_status >= 400 && http_status < 500))
        return BREAKER_NEUTRAL;
    return http_status >= 100 && http_status < 400 ? BREAKER_SUCCESS : BREAKER_FAILURE;
}

const char *breaker_state_name(enum breaker_state state)
{
    switch (state) {
    case BREAKER_CLOSED:
        return "closed";
    case BREAKER_OPEN:
        return "open";
    case BREAKER_HALF_OPEN:
        return "half-open";
    }
    return "?";
}
