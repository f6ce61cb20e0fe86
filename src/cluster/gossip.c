/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knowledge is a map from (shard, kind) to the newest item, ordered by (boot,
 * version). Only the shard makes items of itself, so merging is "the newer one
 * stays", in any order and any number of times: duplicates and replays fall out.
 *
 *   UNKNOWN --beat--> ALIVE --silence or claim--> SUSPECT --dead_us--> DEAD
 *                       ^                            |                   |
 *                       +---------- newer beat ------+-------------------+
 *   any --state "leaving"--> LEFT --new boot--> ALIVE
 *
 * A heartbeat is the version of GOSSIP_LOAD. A claim names the newest one its
 * maker has; whoever has a newer one drops the claim and sends that back. Who has
 * heard of the shard a moment ago does not take a claim against it either.
 *
 * A newer boot throws away what was known of the older: prefixes and adapters of
 * a process that is gone must not attract requests.
 */
#include "cluster/gossip_private.h"
#include <stdlib.h>

/* Room above for a process that must outdo what others remember of it. */
#define BOOT_MAX (UINT64_MAX / 2)

struct gossip_settings gossip_defaults(void)
{
    return (struct gossip_settings){ .fanout = 4,
                                     .interval_us = 1000000,
                                     .dead_us = 3 * 1000000,
                                     .adapter_ttl_ms = 7200 * 1000ull,
                                     .skew_ms = 300 * 1000ull,
                                     .sends_per_s = 128,
                                     .receives_per_interval = 64 };
}

const char *gossip_status_name(enum gossip_status status)
{
    switch (status) {
    case GOSSIP_UNKNOWN:
        return "unknown";
    case GOSSIP_ALIVE:
        return "alive";
    case GOSSIP_SUSPECT:
        return "suspect";
    case GOSSIP_DEAD:
        return "dead";
    case GOSSIP_LEFT:
        return "left";
    }
    return "?";
}

/* ---- life ---- */

uint64_t gossip_now_us(const struct gossip *g)
{
    return env_mono_us(g->opt.env);
}

/* Forgets what a member said; its id and status stay. */
static void forget(struct gossip_member *m)
{
    for (int k = 0; k < GOSSIP_KINDS; k++) {
        buf_release(&m->bytes[k]);
        m->versions[k] = 0;
    }
    mem_free(m->state.adapters);
    mem_free(m->chains);
    m->state = (struct gossip_state){ 0 };
    m->load = (struct gossip_load){ 0 };
    m->chains = NULL;
    m->chain_count = 0;
    m->has_state = m->has_load = false;
}

static struct gossip_member *member_new(uint16_t id)
{
    struct gossip_member *m = mem_zalloc(sizeof *m);

    m->id = id;
    return m;
}

static void member_free(struct gossip_member *m)
{
    if (!m)
        return;
    forget(m);
    mem_free(m);
}

struct gossip *gossip_new(const struct gossip_options *options)
{
    struct gossip *g = mem_zalloc(sizeof *g);

    assert(options->boot > 0 && options->boot <= BOOT_MAX && options->send &&
           options->settings.fanout > 0 && options->settings.interval_us > 0);
    g->opt = *options;
    g->self.id = options->self;
    g->self.boot = options->boot;
    g->self.status = GOSSIP_ALIVE;
    buf_init(&g->out, GOSSIP_MESSAGE_BYTES);
    g->tokens = options->settings.sends_per_s * 1000ull;
    g->tokens_us = gossip_now_us(g);
    /* A random phase, so that nodes that start together do not send together. */
    g->next_round_us =
        gossip_now_us(g) + env_random_u64(options->env) % options->settings.interval_us;
    gossip_renew(g, GOSSIP_STATE);
    gossip_renew(g, GOSSIP_LOAD);
    return g;
}

void gossip_free(struct gossip *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->count; i++)
        member_free(g->members[i]);
    mem_free(g->members);
    mem_free(g->order);
    forget(&g->self);
    buf_release(&g->out);
    mem_free(g);
}

uint64_t gossip_boot(const struct gossip *g)
{
    return g->self.boot;
}

const struct gossip_member *gossip_self(const struct gossip *g)
{
    return &g->self;
}

const struct gossip_stats *gossip_stats(const struct gossip *g)
{
    return &g->stats;
}

/* ---- members ---- */

static size_t place_of(const struct gossip *g, uint16_t shard)
{
    size_t low = 0, high = g->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (g->members[middle]->id < shard)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct gossip_member *gossip_member(struct gossip *g, uint16_t shard)
{
    size_t i = place_of(g, shard);
    return i < g->count && g->members[i]->id == shard ? g->members[i] : NULL;
}

const struct gossip_member *gossip_find(const struct gossip *g, uint16_t shard)
{
    size_t i = place_of(g, shard);
    return i < g->count && g->members[i]->id == shard ? g->members[i] : NULL;
}

size_t gossip_count(const struct gossip *g)
{
    return g->count;
}

const struct gossip_member *gossip_at(const struct gossip *g, size_t i)
{
    assert(i < g->count);
    return g->members[i];
}

static int by_id(const void *a, const void *b)
{
    const struct gossip_member *const *x = a, *const *y = b;
    return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

enum errc gossip_set_members(struct gossip *g, const uint16_t *ids, size_t count, struct error *err)
{
    if (count > GOSSIP_MEMBERS_MAX)
        return fail(err, ERR_LIMIT, "gossip: %zu members, at most %d are supported", count,
                    GOSSIP_MEMBERS_MAX);
    struct gossip_member **next = mem_zalloc((count + 1) * sizeof *next);
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = place_of(g, ids[i]);
        bool is_known = at < g->count && g->members[at] && g->members[at]->id == ids[i];
        if (ids[i] == g->self.id)
            continue;
        next[n] = is_known ? gossip_member(g, ids[i]) : member_new(ids[i]);
        next[n]->received = UINT32_MAX; /* marks those that stay */
        n++;
    }
    for (size_t i = 0; i < g->count; i++) {
        if (g->members[i]->received != UINT32_MAX)
            member_free(g->members[i]);
    }
    mem_free(g->members);
    qsort(next, n, sizeof *next, by_id);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) { /* the same number twice is one member */
        next[i]->received = 0;
        if (kept && next[kept - 1]->id == next[i]->id) {
            if (next[kept - 1] != next[i])
                member_free(next[i]);
            continue;
        }
        next[kept++] = next[i];
    }
    g->members = next;
    g->count = kept;
    g->order = mem_realloc(g->order, (kept + 1) * sizeof *g->order);
    return OK;
}

void gossip_tell(struct gossip *g, const struct gossip_member *m, enum gossip_event event)
{
    if (g->opt.on_event)
        g->opt.on_event(g->opt.ctx, m, event);
}

void gossip_move(struct gossip *g, struct gossip_member *m, enum gossip_status to)
{
    if (m->status == to)
        return;
    m->status = to;
    gossip_tell(g, m, GOSSIP_EVENT_STATUS);
}

/* ---- items of others ---- */

/* Another node has newer items of this node than it made: they are of a process before it. */
static void outdo(struct gossip *g, const struct gossip_item *item)
{
    struct gossip_member *s = &g->self;

    if (item->boot < s->boot ||
        (item->boot == s->boot && item->version <= s->versions[item->kind])) {
        g->stats.stale++;
        return;
    }
    g->stats.accepted++;
    s->boot = (item->boot > s->boot ? item->boot : s->boot) + 1;
    for (int k = 0; k < GOSSIP_KINDS; k++) {
        if (s->versions[k]) {
            s->versions[k] = 0;
            gossip_renew(g, (enum gossip_kind)k);
        }
    }
    gossip_pass_on(g, s->id, GOSSIP_STATE);
    gossip_pass_on(g, s->id, GOSSIP_LOAD);
}

/* Decodes into m. The item is not yet the member's, so a bad one changes nothing. */
static enum errc take_state(struct gossip *g, struct gossip_member *m, struct slice payload,
                            struct error *err)
{
    struct gossip_state state = { .adapters = g->scratch };
    uint64_t wall_ms = env_wall_us(g->opt.env) / 1000;
    enum errc rc = gossip_state_decode(payload, &state, err);

    if (rc != OK)
        return rc;
    for (unsigned i = 0; i < state.adapter_count; i++) {
        if (state.adapters[i].announced_ms > wall_ms + g->opt.settings.skew_ms)
            return fail(err, ERR_INVALID, "gossip: an announcement of shard %u is from the future",
                        m->id);
    }
    size_t bytes = state.adapter_count * sizeof *state.adapters;
    struct gossip_adapter *adapters = mem_zalloc(bytes);
    if (bytes)
        memcpy(adapters, g->scratch, bytes);
    mem_free(m->state.adapters);
    m->state = state;
    m->state.adapters = adapters;
    m->state_us = gossip_now_us(g);
    m->has_state = true;
    return OK;
}

static enum errc take_prefix(struct gossip_member *m, struct slice payload, struct error *err)
{
    struct gossip_chain chains[GOSSIP_CHAINS_MAX];
    unsigned count;
    enum errc rc = gossip_chains_decode(payload, chains, &count, err);

    if (rc != OK)
        return rc;
    mem_free(m->chains);
    m->chains = mem_zalloc(count * sizeof *chains);
    if (count)
        memcpy(m->chains, chains, count * sizeof *chains);
    m->chain_count = count;
    return OK;
}

static enum errc take_load(struct gossip *g, struct gossip_member *m, struct slice payload,
                           struct error *err)
{
    struct gossip_load load;
    enum errc rc = gossip_load_decode(payload, &load, err);

    if (rc != OK)
        return rc;
    m->load = load;
    m->has_load = true;
    m->beat_us = gossip_now_us(g);
    return OK;
}

static enum errc take_payload(struct gossip *g, struct gossip_member *m,
                              const struct gossip_item *item, struct error *err)
{
    switch (item->kind) {
    case GOSSIP_STATE:
        return take_state(g, m, item->payload, err);
    case GOSSIP_LOAD:
        return take_load(g, m, item->payload, err);
    case GOSSIP_PREFIX:
        return take_prefix(m, item->payload, err);
    }
    return fail(err, ERR_CORRUPT, "gossip: unknown kind of item");
}

/* Who is to hear of an accepted item, and what it does to the member's status. */
static void follow(struct gossip *g, struct gossip_member *m, enum gossip_kind kind)
{
    switch (kind) {
    case GOSSIP_STATE:
        gossip_pass_on(g, m->id, kind);
        gossip_tell(g, m, GOSSIP_EVENT_STATE);
        if (m->state.is_leaving)
            gossip_move(g, m, GOSSIP_LEFT);
        break;
    case GOSSIP_LOAD:
        gossip_tell(g, m, GOSSIP_EVENT_LOAD);
        if (m->status == GOSSIP_SUSPECT || m->status == GOSSIP_DEAD)
            gossip_pass_on(g, m->id, kind); /* a refutation */
        if (m->status != GOSSIP_LEFT)
            gossip_move(g, m, GOSSIP_ALIVE);
        break;
    case GOSSIP_PREFIX:
        gossip_tell(g, m, GOSSIP_EVENT_PREFIX);
        break;
    }
}

static bool seal_is_right(const struct gossip *g, uint16_t from, const struct gossip_item *item)
{
    if (g->opt.seal.verify)
        return g->opt.seal.verify(g->opt.seal.ctx, item->shard, item->sealed, item->seal);
    (void)from; /* a member, see gossip_receive: trusted to pass on what it got */
    return true;
}

/* Takes an item when it is newer than what is known. */
static void accept(struct gossip *g, uint16_t from, const struct gossip_item *item)
{
    struct gossip_member *m = gossip_member(g, item->shard);

    g->stats.items++;
    if (!m && item->shard != g->self.id) {
        g->stats.strange++;
        return;
    }
    if (m && (item->boot < m->boot ||
              (item->boot == m->boot && item->version <= m->versions[item->kind]))) {
        g->stats.stale++;
        return;
    }
    if (!item->boot || item->boot > BOOT_MAX || !item->version || !seal_is_right(g, from, item)) {
        g->stats.refused++;
        return;
    }
    if (!m) {
        outdo(g, item);
        return;
    }
    bool is_new_boot = item->boot > m->boot;
    struct gossip_member fresh = { .id = m->id, .beat_us = gossip_now_us(g) };
    if (take_payload(g, is_new_boot ? &fresh : m, item, NULL) != OK) {
        forget(&fresh);
        g->stats.refused++;
        return;
    }
    if (is_new_boot) {
        bool is_restart = m->boot != 0;
        unsigned received = m->received;
        fresh.status = m->status == GOSSIP_LEFT ? GOSSIP_UNKNOWN : m->status;
        fresh.suspect_since_us = m->suspect_since_us;
        fresh.received = received;
        forget(m);
        *m = fresh;
        m->boot = item->boot;
        g->stats.restarts_seen += is_restart;
        if (is_restart)
            gossip_tell(g, m, GOSSIP_EVENT_RESTART);
    }
    m->versions[item->kind] = item->version;
    buf_clear(&m->bytes[item->kind]);
    buf_add_slice(&m->bytes[item->kind], item->bytes);
    g->stats.accepted++;
    follow(g, m, item->kind);
}

/* ---- claims ---- */

static void refute(struct gossip *g, const struct gossip_claim *claim)
{
    struct gossip_member *s = &g->self;

    if (claim->boot != s->boot || claim->beat > s->versions[GOSSIP_LOAD] || s->state.is_leaving)
        return; /* of an older process, or of nobody's knowledge */
    g->stats.refutations++;
    gossip_renew(g, GOSSIP_LOAD);
    gossip_pass_on(g, s->id, GOSSIP_LOAD);
}

static void hear_claim(struct gossip *g, const struct gossip_claim *claim)
{
    struct gossip_member *m = gossip_member(g, claim->shard);

    if (claim->shard == g->self.id) {
        refute(g, claim);
        return;
    }
    if (!m || claim->boot < m->boot || !m->has_load)
        return;
    if (claim->boot == m->boot && claim->beat < m->versions[GOSSIP_LOAD]) {
        struct gossip_batch *b = &g->batch; /* it has missed something */
        if (b->missed_count < GOSSIP_CLAIMS_MAX)
            b->missed[b->missed_count++] = m->id;
        return;
    }
    bool is_fresh = gossip_now_us(g) - m->beat_us < g->opt.settings.interval_us * 3 / 2;
    if (m->status != GOSSIP_ALIVE || claim->boot != m->boot || is_fresh)
        return;
    g->stats.claims_taken++;
    m->suspect_since_us = gossip_now_us(g);
    if (g->batch.claim_count < GOSSIP_CLAIMS_MAX)
        g->batch.claims[g->batch.claim_count++] = *claim;
    gossip_move(g, m, GOSSIP_SUSPECT);
}

/* ---- the outside ---- */

static enum errc admit(struct gossip *g, uint16_t from, struct error *err)
{
    struct gossip_member *m = gossip_member(g, from);

    if (!m) {
        g->stats.from_stranger++;
        return fail(err, ERR_FORBIDDEN, "gossip: node %u is not a member of the cluster", from);
    }
    if (m->received >= g->opt.settings.receives_per_interval) {
        g->stats.flooded++;
        return fail(err, ERR_BUSY, "gossip: node %u sends more than %u messages in an interval",
                    from, g->opt.settings.receives_per_interval);
    }
    m->received++;
    return OK;
}

enum errc gossip_receive(struct gossip *g, uint16_t from, struct slice bytes, struct error *err)
{
    struct gossip_message msg;
    struct gossip_item item;
    struct gossip_claim claim;

    g->stats.received++;
    enum errc rc = admit(g, from, err);
    if (rc != OK)
        return rc;
    rc = gossip_message_decode(bytes, &msg, err);
    if (rc != OK) {
        g->stats.damaged++;
        return rc;
    }
    g->stats.taken++;
    while (gossip_next_item(&msg.items, &item))
        accept(g, from, &item);
    while (gossip_next_claim(&msg.claims, &claim))
        hear_claim(g, &claim);
    gossip_spread(g, from);
    gossip_correct(g, from);
    if (msg.type != GOSSIP_NEWS)
        gossip_answer(g, from, &msg);
    return OK;
}

uint64_t gossip_next_us(const struct gossip *g)
{
    return g->next_round_us;
}

void gossip_run(struct gossip *g)
{
    if (gossip_now_us(g) < g->next_round_us)
        return;
    g->next_round_us += g->opt.settings.interval_us;
    if (g->next_round_us <= gossip_now_us(g)) /* was not called for long: no burst of rounds */
        g->next_round_us = gossip_now_us(g) + g->opt.settings.interval_us;
    gossip_round(g);
}

static uint64_t age_ms(const struct gossip *g, const struct gossip_member *m,
                       const struct gossip_adapter *a)
{
    uint64_t wall_ms = env_wall_us(g->opt.env) / 1000;
    uint64_t by_wall = wall_ms > a->announced_ms ? wall_ms - a->announced_ms : 0;
    uint64_t by_receipt = (gossip_now_us(g) - m->state_us) / 1000;

    return by_wall > by_receipt ? by_wall : by_receipt;
}

const struct gossip_adapter *gossip_adapter(const struct gossip *g, const struct gossip_member *m,
                                            struct slice domain, uint64_t model, uint64_t *age)
{
    for (unsigned i = 0; i < m->state.adapter_count; i++) {
        const struct gossip_adapter *a = &m->state.adapters[i];
        if (a->model != model || !slice_is(domain, a->domain))
            continue;
        *age = age_ms(g, m, a);
        return *age <= g->opt.settings.adapter_ttl_ms ? a : NULL;
    }
    return NULL;
}
