/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences form trees. A child shares the first `shared` tokens of its parent
 * and owns the cells behind them:
 *
 *   A  [=========================]        owns 25
 *   B  ---------[======]                  parent A, shared 9, owns 7
 *   C  -----[=========]                   parent A, shared 5
 *
 * The cells in use are exactly the sum of what all own, because llama.cpp
 * frees a cell with its last sequence. When A ends, the child that shares most
 * of it (the heir) inherits: it becomes the owner of A's part up to its own
 * shared length, and the other children hang below it or below A's parent. The
 * sum never grows at that, so what was admitted always fits.
 *
 * A child follows its parent: it waits until the parent has computed the shared
 * tokens, then forks. Waiting follows tree edges only, hence has no cycles.
 */
#include "model/prefix.h"

void prefix_init(struct prefix_table *t, uint32_t seq_max, uint32_t cells)
{
    memset(t, 0, sizeof *t);
    t->seq_max = seq_max;
    t->cells_max = cells;
}

int prefix_find(const struct prefix_table *t, uint64_t salt, const int32_t *tokens, uint32_t max,
                uint32_t *len)
{
    int best = -1;
    uint32_t best_len = PREFIX_MIN - 1;
    for (uint32_t i = 0; i < t->seq_max; i++) {
        const struct prefix_seq *s = &t->seqs[i];
        if (!s->is_running || s->salt != salt)
            continue;
        uint32_t most = s->known < max ? s->known : max;
        uint32_t n = 0;
        if (most <= best_len || s->tokens[best_len] != tokens[best_len])
            continue;
        while (n < most && s->tokens[n] == tokens[n])
            n++;
        if (n > best_len) {
            best = (int)i;
            best_len = n;
        }
    }
    *len = best < 0 ? 0 : best_len;
    return best;
}

bool prefix_has_room(const struct prefix_table *t, uint32_t reserved, uint32_t shared)
{
    return reserved - shared <= t->cells_max - t->cells_reserved;
}

int prefix_open(struct prefix_table *t, const struct prefix_open *o)
{
    uint32_t id = 0;
    while (id < t->seq_max && t->seqs[id].is_running)
        id++;
    uint32_t shared = o->parent < 0 ? 0 : o->shared;
    if (id == t->seq_max || !prefix_has_room(t, o->reserved, shared))
        return -1;
    t->seqs[id] = (struct prefix_seq){
        .is_running = true,
        .tokens = o->tokens,
        .known = o->known,
        .reserved = o->reserved,
        .shared = shared,
        .parent = (int16_t)o->parent,
        .is_forked = shared == 0,
        .salt = o->salt,
    };
    t->cells_reserved += o->reserved - shared;
    t->running++;
    return (int)id;
}

/* Who shares most; among equals one that has forked, whose cells are there. */
static int find_heir(const struct prefix_table *t, int id)
{
    int heir = -1;
    for (uint32_t i = 0; i < t->seq_max; i++) {
        const struct prefix_seq *s = &t->seqs[i];
        if (!s->is_running || s->parent != id || s->shared <= t->seqs[id].shared)
            continue;
        const struct prefix_seq *h = heir < 0 ? NULL : &t->seqs[heir];
        if (!h || s->shared > h->shared ||
            (s->shared == h->shared && s->is_forked && !h->is_forked))
            heir = (int)i;
    }
    return heir;
}

static void pass_on(struct prefix_table *t, int id, int heir)
{
    struct prefix_seq *gone = &t->seqs[id];
    for (uint32_t i = 0; i < t->seq_max; i++) {
        struct prefix_seq *s = &t->seqs[i];
        if (!s->is_running || s->parent != id || (int)i == heir)
            continue;
        s->parent = (int16_t)(s->shared <= gone->shared ? gone->parent : heir);
    }
    if (heir >= 0) {
        struct prefix_seq *h = &t->seqs[heir];
        t->cells_reserved += h->shared - gone->shared;
        h->parent = gone->parent;
        h->shared = gone->shared;
    }
}

struct prefix_heir prefix_close(struct prefix_table *t, int id)
{
    struct prefix_seq *s = &t->seqs[id];
    struct prefix_heir out = { -1, 0 };
    assert(s->is_running);
    int heir = find_heir(t, id);
    if (heir >= 0 && !t->seqs[heir].is_forked && s->is_forked) {
        struct prefix_seq *h = &t->seqs[heir];
        out.id = heir;
        out.n = s->computed < h->shared ? s->computed : h->shared;
        h->computed = out.n;
        h->is_forked = true;
    }
    t->cells_reserved -= s->reserved - s->shared;
    pass_on(t, id, heir);
    t->running--;
    memset(s, 0, sizeof *s);
    return out;
}
