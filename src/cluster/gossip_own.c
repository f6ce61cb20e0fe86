/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this node says of itself: its items, made anew with each change. State is
 * spread at once, a little later when it changes too often; load and prefixes go with
 * the rounds.
 */
#include "cluster/gossip_private.h"

void gossip_renew(struct gossip *g, enum gossip_kind kind)
{
    uint8_t seal[GOSSIP_SEAL_BYTES];
    size_t seal_len = 0;
    struct gossip_member *s = &g->self;
    struct buf payload, *out = &s->bytes[kind];

    buf_init(&payload, 0);
    switch (kind) {
    case GOSSIP_STATE:
        for (unsigned i = 0; i < s->state.adapter_count; i++)
            s->state.adapters[i].announced_ms = env_wall_us(g->opt.env) / 1000;
        gossip_state_encode(&s->state, &payload);
        s->state_us = gossip_now_us(g);
        break;
    case GOSSIP_LOAD:
        gossip_load_encode(&s->load, &payload);
        break;
    case GOSSIP_PREFIX:
        gossip_chains_encode(s->chains, s->chain_count, &payload);
        break;
    }
    s->versions[kind]++;
    buf_clear(out);
    gossip_item_open(out, &(struct gossip_item){ s->id, s->boot, kind, s->versions[kind],
                                                 .payload = buf_slice(&payload) });
    if (g->opt.seal.sign)
        seal_len = g->opt.seal.sign(g->opt.seal.ctx, slice_of(out->ptr + 2, out->len - 2), seal);
    gossip_item_close(out, 0, slice_of(seal, seal_len));
    buf_release(&payload);
}

static bool states_equal(const struct gossip_state *a, const struct gossip_state *b)
{
    if (a->is_draining != b->is_draining || a->is_leaving != b->is_leaving ||
        a->model_count != b->model_count || a->adapter_count != b->adapter_count ||
        memcmp(a->models, b->models, a->model_count * sizeof a->models[0]) != 0)
        return false;
    for (unsigned i = 0; i < a->adapter_count; i++) {
        const struct gossip_adapter *x = &a->adapters[i], *y = &b->adapters[i];
        if (strcmp(x->domain, y->domain) != 0 || x->model != y->model ||
            x->accuracy != y->accuracy || x->latency_ms != y->latency_ms ||
            x->samples != y->samples || x->round != y->round)
            return false;
    }
    return true;
}

enum errc gossip_set_state(struct gossip *g, const struct gossip_state *state, struct error *err)
{
    struct gossip_state *own = &g->self.state;
    enum errc rc = gossip_state_check(state, err);

    if (rc != OK || states_equal(own, state))
        return rc;
    size_t bytes = state->adapter_count * sizeof *state->adapters;
    struct gossip_adapter *copy = mem_zalloc(bytes);
    if (bytes)
        memcpy(copy, state->adapters, bytes);
    mem_free(own->adapters);
    *own = *state;
    own->adapters = copy;
    if (gossip_now_us(g) - g->spread_us < g->opt.settings.interval_us / 10) {
        g->is_state_due = true;
        return OK;
    }
    g->spread_us = gossip_now_us(g);
    gossip_renew(g, GOSSIP_STATE);
    gossip_pass_on(g, g->self.id, GOSSIP_STATE);
    gossip_spread(g, -1);
    return OK;
}

enum errc gossip_set_load(struct gossip *g, const struct gossip_load *load, struct error *err)
{
    enum errc rc = gossip_load_check(load, err);

    if (rc == OK)
        g->self.load = *load;
    return rc;
}

void gossip_set_prefixes(struct gossip *g, const struct gossip_chain *chains, size_t count)
{
    struct gossip_member *s = &g->self;
    unsigned n = count < GOSSIP_CHAINS_MAX ? (unsigned)count : GOSSIP_CHAINS_MAX;

    if (n == s->chain_count && (!n || memcmp(chains, s->chains, n * sizeof *chains) == 0))
        return;
    mem_free(s->chains);
    s->chains = mem_zalloc(n * sizeof *chains);
    if (n)
        memcpy(s->chains, chains, n * sizeof *chains);
    s->chain_count = n;
    g->is_prefix_due = true;
}
