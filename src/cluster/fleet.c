/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Own sends: a report of load is some time old when it comes, so each node adds
 * what it has sent since the last report to what the report says. Without that
 * every node sends everything to the shard that was idle a second ago.
 */
#include "cluster/fleet.h"

struct peer {
    uint16_t id;
    struct breaker breaker;
    uint32_t own_sends; /* since the last report of load */
    uint32_t in_flight;
    struct fleet *fleet; /* for the breaker's observer */
};

struct fleet {
    struct fleet_options opt;
    struct peer **peers; /* owned, sorted by id; only of shards that were called */
    size_t count, cap;
    struct route_shard shards[GOSSIP_MEMBERS_MAX + 1]; /* the picture */
    struct fleet_stats stats;
};

struct fleet_settings fleet_defaults(void)
{
    return (struct fleet_settings){ .route = route_defaults(),
                                    .breaker = breaker_defaults(),
                                    .retries_max = 3,
                                    .call_us = 30 * 1000000ull };
}

struct fleet *fleet_new(const struct fleet_options *options)
{
    struct fleet *f = mem_zalloc(sizeof *f);

    assert(options->settings.retries_max < FLEET_CALLS_MAX);
    f->opt = *options;
    return f;
}

void fleet_free(struct fleet *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++)
        mem_free(f->peers[i]);
    mem_free(f->peers);
    mem_free(f);
}

const struct fleet_stats *fleet_stats(const struct fleet *f)
{
    return &f->stats;
}

static uint64_t now_us(const struct fleet *f)
{
    return env_mono_us(f->opt.env);
}

/* ---- peers, sorted by id ---- */

static size_t place_of(const struct fleet *f, uint16_t shard)
{
    size_t low = 0, high = f->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (f->peers[middle]->id < shard)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct peer *find(const struct fleet *f, uint16_t shard)
{
    size_t i = place_of(f, shard);
    return i < f->count && f->peers[i]->id == shard ? f->peers[i] : NULL;
}

static void breaker_changed(void *ctx, const struct breaker *b, enum breaker_state from)
{
    struct peer *p = ctx;

    if (p->fleet->opt.on_breaker)
        p->fleet->opt.on_breaker(p->fleet->opt.ctx, p->id, b, from);
}

/* The peer's record; made when there is none. */
static struct peer *peer(struct fleet *f, uint16_t shard)
{
    size_t at = place_of(f, shard);

    if (at < f->count && f->peers[at]->id == shard)
        return f->peers[at];
    if (f->count == f->cap) {
        f->cap = f->cap ? f->cap * 2 : 16;
        f->peers = mem_realloc(f->peers, f->cap * sizeof *f->peers);
    }
    struct peer *p = mem_zalloc(sizeof *p);
    p->id = shard;
    p->fleet = f;
    breaker_init(&p->breaker, &f->opt.settings.breaker);
    p->breaker.on_change = breaker_changed;
    p->breaker.ctx = p;
    memmove(f->peers + at + 1, f->peers + at, (f->count - at) * sizeof *f->peers);
    f->peers[at] = p;
    f->count++;
    return p;
}

const struct breaker *fleet_breaker(const struct fleet *f, uint16_t shard)
{
    const struct peer *p = find(f, shard);
    return p ? &p->breaker : NULL;
}

uint32_t fleet_in_flight(const struct fleet *f, uint16_t shard)
{
    const struct peer *p = find(f, shard);
    return p ? p->in_flight : 0;
}

enum errc fleet_set_load(struct fleet *f, const struct gossip_load *load, struct error *err)
{
    enum errc rc = gossip_set_load(f->opt.gossip, load, err);
    struct peer *own = find(f, gossip_self(f->opt.gossip)->id);

    if (rc == OK && own)
        own->own_sends = 0;
    return rc;
}

void fleet_on_gossip(struct fleet *f, const struct gossip_member *m, enum gossip_event event)
{
    struct peer *p = find(f, m->id);

    if (!p)
        return;
    switch (event) {
    case GOSSIP_EVENT_LOAD:
        p->own_sends = 0;
        break;
    case GOSSIP_EVENT_RESTART:
        p->own_sends = 0;
        breaker_reset(&p->breaker);
        break;
    case GOSSIP_EVENT_STATE:
    case GOSSIP_EVENT_PREFIX:
    case GOSSIP_EVENT_STATUS:
        break;
    }
}

void fleet_peer_lost(struct fleet *f, uint16_t shard)
{
    breaker_trip(&peer(f, shard)->breaker, now_us(f));
}

/* ---- the picture ---- */

static bool has_model(const struct gossip_member *m, uint64_t model)
{
    if (!model)
        return m->state.model_count > 0;
    for (unsigned i = 0; i < m->state.model_count; i++) {
        if (m->state.models[i] == model)
            return true;
    }
    return false;
}

static uint32_t prefix_tokens(const struct gossip_member *m, const struct fleet_request *req)
{
    uint32_t best = 0;

    for (unsigned i = 0; i < m->chain_count; i++) {
        for (unsigned j = 0; j < req->chain_count; j++) {
            if (m->chains[i].key == req->chains[j].key && req->chains[j].tokens > best)
                best = req->chains[j].tokens;
        }
    }
    return best;
}

static void fill(struct fleet *f, struct route_shard *s, const struct gossip_member *m,
                 const struct fleet_request *req, bool is_self)
{
    uint64_t now = now_us(f);
    uint64_t load_age_ms = is_self ? 0 : (now - m->beat_us) / 1000;
    const struct peer *p = find(f, m->id);
    const struct gossip_adapter *a = NULL;

    *s = (struct route_shard){ .id = m->id };
    if (!is_self && (m->status != GOSSIP_ALIVE || !m->has_state))
        s->bars |= ROUTE_BAR_UNHEALTHY;
    if (!is_self && p && !breaker_would_allow(&p->breaker, now))
        s->bars |= ROUTE_BAR_BREAKER;
    if (m->state.is_draining || m->state.is_leaving)
        s->bars |= ROUTE_BAR_DRAINING;
    if (!has_model(m, req->model))
        s->bars |= ROUTE_BAR_INCOMPATIBLE;
    s->has_load = is_self || m->has_load;
    s->load_age_ms = load_age_ms < UINT32_MAX ? (uint32_t)load_age_ms : UINT32_MAX;
    s->pending = m->load.pending;
    s->slots = m->load.slots;
    s->service_ms = m->load.service_ms;
    s->own_sends = p ? p->own_sends : 0;
    if (req->domain.len)
        a = gossip_adapter(f->opt.gossip, m, req->domain, req->model, &s->domain_age_ms);
    if (a) {
        s->has_domain = true;
        s->accuracy = a->accuracy;
        s->latency_ms = a->latency_ms;
    }
    s->prefix_tokens = prefix_tokens(m, req);
}

const struct route_shard *fleet_picture(struct fleet *f, const struct fleet_request *req,
                                        size_t *count)
{
    const struct gossip *g = f->opt.gossip;
    const struct gossip_member *self = gossip_self(g);
    size_t n = 0, members = gossip_count(g);
    bool has_self = false;

    for (size_t i = 0; i < members; i++) {
        const struct gossip_member *m = gossip_at(g, i);
        if (!has_self && self->id < m->id) {
            fill(f, &f->shards[n++], self, req, true);
            has_self = true;
        }
        fill(f, &f->shards[n++], m, req, false);
    }
    if (!has_self)
        fill(f, &f->shards[n++], self, req, true);
    *count = n < ROUTE_SHARDS_MAX ? n : ROUTE_SHARDS_MAX;
    return f->shards;
}

static struct route_decision decide(struct fleet *f, const struct errand *e)
{
    size_t count;
    (void)fleet_picture(f, &e->req, &count);
    for (size_t i = 0; i < count; i++) {
        for (unsigned k = 0; k < e->tried_count; k++) {
            if (e->tried[k] == f->shards[i].id)
                f->shards[i].bars |= ROUTE_BAR_TRIED;
        }
    }
    const struct route_request req = { .domain = e->req.domain,
                                       .has_domain = e->req.domain.len > 0,
                                       .slot = e->req.slot,
                                       .owner = e->req.owner,
                                       .prompt_tokens = e->req.prompt_tokens };
    return route_choose(&f->opt.settings.route, &req, f->shards, count, f->opt.env);
}

struct route_decision fleet_explain(struct fleet *f, const struct fleet_request *req)
{
    const struct errand e = { .req = *req };
    return decide(f, &e);
}

/* ---- errands ---- */

void errand_init(struct fleet *f, struct errand *e, const struct fleet_request *req)
{
    *e = (struct errand){ .req = *req };
    f->stats.errands++;
}

void errand_begun(struct errand *e)
{
    e->has_begun = true;
}

static void give_up(struct fleet *f, struct errand *e)
{
    e->is_over = true;
    f->stats.failed++;
}

enum errc fleet_call(struct fleet *f, struct errand *e, struct error *err)
{
    uint64_t now = now_us(f);
    bool is_local;

    assert(!e->is_over && !e->call.number);
    if (now >= e->req.deadline_us) {
        give_up(f, e);
        return fail(err, ERR_TIMEOUT, "no shard has answered in time (%u tried)", e->calls);
    }
    e->decision = decide(f, e);
    f->stats.domain_fallbacks += e->decision.is_fallback && !e->calls;
    if (e->decision.index < 0) {
        f->stats.nowhere++;
        give_up(f, e);
        return fail(err, ERR_BUSY, "%s", e->decision.text);
    }
    uint16_t shard = f->shards[e->decision.index].id;
    struct peer *p = peer(f, shard);
    is_local = shard == gossip_self(f->opt.gossip)->id;
    uint64_t until = now + f->opt.settings.call_us;
    e->call =
        (struct fleet_call){ .number = ++e->calls,
                             .shard = shard,
                             .is_local = is_local,
                             .until_us = until < e->req.deadline_us ? until : e->req.deadline_us };
    /* The picture has just said that it would let it through. */
    if (!is_local && !breaker_begin(&p->breaker, now, &e->call.ticket))
        BUG("fleet: the breaker of shard %u refuses what it allowed", shard);
    p->own_sends++;
    p->in_flight++;
    f->stats.calls++;
    return OK;
}

/* The call is over for the peer's record. */
static void settle(struct fleet *f, const struct fleet_call *call, enum breaker_outcome outcome)
{
    struct peer *p = peer(f, call->shard);

    assert(p->in_flight > 0);
    p->in_flight--;
    f->stats.ended++;
    if (!call->is_local)
        breaker_end(&p->breaker, call->ticket, outcome, now_us(f));
}

static bool may_retry(const struct fleet *f, const struct errand *e, int http_status)
{
    bool is_elsewhere_better = http_status == 0 || (http_status >= 500 && http_status != 501);

    return is_elsewhere_better && !e->has_begun && e->calls <= f->opt.settings.retries_max &&
           now_us(f) < e->req.deadline_us;
}

enum fleet_verdict fleet_end(struct fleet *f, struct errand *e, uint32_t number, int http_status)
{
    if (e->is_over || !number || e->call.number != number) {
        f->stats.late++;
        return FLEET_LATE;
    }
    settle(f, &e->call, breaker_outcome_of(http_status));
    e->tried[e->tried_count++] = e->call.shard;
    e->call.number = 0;
    if (may_retry(f, e, http_status)) {
        f->stats.retries++;
        return FLEET_RETRY;
    }
    e->is_over = true;
    bool is_answer = http_status > 0 && http_status < 500;
    f->stats.done += is_answer;
    f->stats.failed += !is_answer;
    return is_answer ? FLEET_DONE : FLEET_FAILED;
}

void fleet_abandon(struct fleet *f, struct errand *e)
{
    if (e->is_over)
        return;
    if (e->call.number)
        settle(f, &e->call, BREAKER_NEUTRAL);
    e->call.number = 0;
    e->is_over = true;
    f->stats.failed++;
}

/* ---- calls of batches ---- */

bool fleet_begin_at(struct fleet *f, uint16_t shard, unsigned rows, struct breaker_ticket *ticket)
{
    struct peer *p = peer(f, shard);
    bool is_local = shard == gossip_self(f->opt.gossip)->id;

    *ticket = (struct breaker_ticket){ 0 };
    if (!is_local && !breaker_begin(&p->breaker, now_us(f), ticket))
        return false;
    p->own_sends += rows;
    p->in_flight++;
    f->stats.calls++;
    return true;
}

void fleet_end_at(struct fleet *f, uint16_t shard, struct breaker_ticket ticket, int http_status)
{
    struct fleet_call call = { .shard = shard,
                               .is_local = shard == gossip_self(f->opt.gossip)->id,
                               .ticket = ticket };
    settle(f, &call, breaker_outcome_of(http_status));
}
