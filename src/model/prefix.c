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

void prefix_release(struct prefix_table *t)
{
    for (uint32_t i = 0; i < t->seq_max; i++) {
        if (t->seqs[i].state == PREFIX_HOLDER)
            mem_free((void *)t->seqs[i].tokens);
    }
    memset(t, 0, sizeof *t);
}

int prefix_find(const struct prefix_table *t, uint64_t salt, const int32_t *tokens, uint32_t max,
                uint32_t *len)
{
    int best = -1;
    uint32_t best_len = PREFIX_MIN - 1;
    for (uint32_t i = 0; i < t->seq_max; i++) {
        const struct prefix_seq *s = &t->seqs[i];
        if (s->state == PREFIX_FREE || s->salt != salt)
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
    while (id < t->seq_max && t->seqs[id].state != PREFIX_FREE)
        id++;
    uint32_t shared = o->parent < 0 ? 0 : o->shared;
    if (id == t->seq_max || !prefix_has_room(t, o->reserved, shared))
        return -1;
    t->seqs[id] = (struct prefix_seq){
        .state = PREFIX_RUNNING,
        .tokens = o->tokens,
        .known = o->known,
        .reserved = o->reserved,
        .shared = shared,
        .parent = (int16_t)o->parent,
        .is_forked = shared == 0,
        .salt = o->salt,
        .used_at = ++t->clock,
    };
    if (o->parent >= 0)
        t->seqs[o->parent].used_at = t->clock;
    t->cells_reserved += o->reserved - shared;
    t->running++;
    return (int)id;
}

int prefix_oldest_holder(const struct prefix_table *t, int except)
{
    int best = -1;
    for (uint32_t i = 0; i < t->seq_max; i++) {
        const struct prefix_seq *s = &t->seqs[i];
        if (s->state == PREFIX_HOLDER && (int)i != except &&
            (best < 0 || s->used_at < t->seqs[best].used_at))
            best = (int)i;
    }
    return best;
}

/* Tokens of a holder that running children still need. */
static uint32_t needed_part(const struct prefix_table *t, int id)
{
    uint32_t most = t->seqs[id].shared;
    for (uint32_t i = 0; i < t->seq_max; i++) {
        const struct prefix_seq *s = &t->seqs[i];
        if (s->state != PREFIX_FREE && s->parent == id && s->shared > most)
            most = s->shared;
    }
    return most;
}

uint32_t prefix_held_cells(const struct prefix_table *t)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < t->seq_max; i++) {
        if (t->seqs[i].state == PREFIX_HOLDER)
            sum += t->seqs[i].reserved - needed_part(t, (int)i);
    }
    return sum;
}

void prefix_hold(struct prefix_table *t, int id, uint32_t len)
{
    struct prefix_seq *s = &t->seqs[id];
    assert(s->state == PREFIX_RUNNING && len <= s->computed && len >= needed_part(t, id));
    int32_t *copy = mem_alloc((len + 1) * sizeof *copy);
    memcpy(copy, s->tokens, len * sizeof *copy);
    t->cells_reserved -= s->reserved - len;
    s->state = PREFIX_HOLDER;
    s->tokens = copy;
    s->known = s->computed = s->reserved = len;
    s->used_at = ++t->clock;
    t->running--;
    t->holders++;
}

/* Who shares most; among equals one that has forked, whose cells are there. */
static int find_heir(const struct prefix_table *t, int id)
{
    int heir = -1;
    for (uint32_t i = 0; i < t->seq_max; i++) {
        const struct prefix_seq *s = &t->seqs[i];
        if (s->state == PREFIX_FREE || s->parent != id || s->shared <= t->seqs[id].shared)
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
        if (s->state == PREFIX_FREE || s->parent != id || (int)i == heir)
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
    assert(s->state != PREFIX_FREE);
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
    if (s->state == PREFIX_HOLDER) {
        mem_free((void *)s->tokens);
        t->holders--;
    } else {
        t->running--;
    }
    memset(s, 0, sizeof *s);
    return out;
}
