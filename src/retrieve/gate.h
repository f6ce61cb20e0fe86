/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate -- the meeting of a step that is about to wait and a callback that may
 * come before, during or after that.
 *
 * The step arms the gate, starts the work and calls gate_wait as the last thing
 * it does with the object; the last callback calls gate_open. Whoever comes
 * second goes on: the step itself, or its owner through wake.
 */
#ifndef RETRIEVE_GATE_H
#define RETRIEVE_GATE_H

#include "retrieve/rag.h"
#include <stdatomic.h>

struct gate {
    atomic_int arrived;
    struct rag_wake wake;
};

static inline void gate_arm(struct gate *g)
{
    atomic_store(&g->arrived, 0);
}

/* true: return RAG_WAIT and touch nothing more. false: the result is there already. */
static inline bool gate_wait(struct gate *g)
{
    return atomic_fetch_add(&g->arrived, 1) == 0;
}

static inline void gate_open(struct gate *g)
{
    struct rag_wake wake = g->wake; /* the step may free g once it has been told */
    if (atomic_fetch_add(&g->arrived, 1) != 0)
        wake.fn(wake.ctx);
}

static inline bool gate_is_cancelled(const struct gate *g)
{
    return g->wake.cancel && atomic_load(g->wake.cancel);
}

#endif
