/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is sent. A round draws `fanout` members that are not dead and one that is
 * (a partition heals by that), and sends each a SYN: own heartbeat and the versions
 * of everything. The peer answers with what is newer there and with what it lacks;
 * a third message brings that.
 *
 *   A -- SYN: own load, digest of all -->  B
 *   A <-- ACK: newer items, what B lacks -- B
 *   A -- NEWS: those items ------------->  B
 *
 * Sends draw on a bucket that fills by sends_per_s. Rounds may empty it, answers
 * and forwarding leave enough for one round. What is not sent is not kept: the
 * digests of the next round find it.
 */
#include "cluster/gossip_private.h"

/* ---- budget ---- */

static bool may_send(struct gossip *g, bool is_round)
{
    const struct gossip_settings *set = &g->opt.settings;
    uint64_t now = gossip_now_us(g);
    uint64_t full = set->sends_per_s * 1000ull;
    uint64_t reserve = is_round ? 0 : (set->fanout + 1) * 1000ull;

    uint64_t passed_us = now - g->tokens_us < 1000000 ? now - g->tokens_us : 1000000;
    uint64_t gained = passed_us * set->sends_per_s / 1000;
    if (gained) {
        g->tokens = g->tokens + gained < full ? g->tokens + gained : full;
        g->tokens_us = now;
    }
    if (g->tokens < reserve + 1000) {
        g->stats.over_budget++;
        return false;
    }
    g->tokens -= 1000;
    return true;
}

static void send_out(struct gossip *g, uint16_t to)
{
    g->stats.sent++;
    g->stats.sent_bytes += g->out.len;
    g->opt.send(g->opt.ctx, to, buf_slice(&g->out));
}

/* ---- drawing members ---- */

static bool is_dead(const struct gossip_member *m)
{
    return m->status == GOSSIP_DEAD || m->status == GOSSIP_LEFT;
}

/* Draws up to n of the members that are dead or that are not, to the front of order. */
static unsigned draw(struct gossip *g, bool dead, int but, unsigned n)
{
    size_t count = 0;

    for (size_t i = 0; i < g->count; i++) {
        if (is_dead(g->members[i]) == dead && g->members[i]->id != but)
            g->order[count++] = (uint16_t)i;
    }
    if (n > count)
        n = (unsigned)count;
    for (unsigned i = 0; i < n; i++) {
        size_t j = i + env_random_u64(g->opt.env) % (count - i);
        uint16_t swap = g->order[i];
        g->order[i] = g->order[j];
        g->order[j] = swap;
    }
    return n;
}

/* ---- at once ---- */

void gossip_pass_on(struct gossip *g, uint16_t shard, enum gossip_kind kind)
{
    struct gossip_batch *b = &g->batch;

    for (unsigned i = 0; i < b->item_count; i++) {
        if (b->items[i].shard == shard && b->items[i].kind == kind)
            return;
    }
    if (b->item_count < ARRAY_LEN(b->items))
        b->items[b->item_count++] = (struct gossip_item_ref){ shard, kind };
}

static struct slice item_bytes(struct gossip *g, uint16_t shard, enum gossip_kind kind)
{
    const struct gossip_member *m = shard == g->self.id ? &g->self : gossip_member(g, shard);
    return m && m->versions[kind] ? buf_slice(&m->bytes[kind]) : slice_of(NULL, 0);
}

void gossip_spread(struct gossip *g, int but)
{
    struct gossip_batch *b = &g->batch;
    struct gossip_writer w;
    bool has_room = true;

    if (!b->item_count && !b->claim_count)
        return;
    gossip_write_begin(&w, &g->out, GOSSIP_NEWS);
    for (unsigned i = 0; i < b->item_count && has_room; i++) {
        struct slice bytes = item_bytes(g, b->items[i].shard, b->items[i].kind);
        if (!bytes.len)
            continue;
        has_room = gossip_write_item(&w, bytes);
        g->stats.forwarded += has_room && b->items[i].shard != g->self.id;
    }
    has_room = true;
    for (unsigned i = 0; i < b->claim_count && has_room; i++)
        has_room = gossip_write_claim(&w, &b->claims[i]);
    b->item_count = b->claim_count = 0;
    if (!gossip_write_end(&w))
        return;
    unsigned n = draw(g, false, but, g->opt.settings.fanout);
    for (unsigned i = 0; i < n && may_send(g, false); i++)
        send_out(g, g->members[g->order[i]]->id);
}

void gossip_correct(struct gossip *g, uint16_t to)
{
    struct gossip_batch *b = &g->batch;
    struct gossip_writer w;
    bool has_room = true;

    gossip_write_begin(&w, &g->out, GOSSIP_NEWS);
    for (unsigned i = 0; i < b->missed_count && has_room; i++)
        has_room = gossip_write_item(&w, item_bytes(g, b->missed[i], GOSSIP_LOAD));
    b->missed_count = 0;
    if (gossip_write_end(&w) && may_send(g, false))
        send_out(g, to);
}

/* ---- answers ---- */

static void digest_of(const struct gossip_member *m, struct gossip_digest *out)
{
    out->shard = m->id;
    out->boot = m->boot;
    memcpy(out->versions, m->versions, sizeof out->versions);
}

/* The items of a member that are newer than the peer's; false when the message is full. */
static bool add_newer(struct gossip_writer *w, const struct gossip_member *m,
                      const struct gossip_digest *theirs)
{
    if (m->boot < theirs->boot)
        return true;
    for (int k = 0; k < GOSSIP_KINDS; k++) {
        bool is_newer = m->boot > theirs->boot || m->versions[k] > theirs->versions[k];
        if (m->versions[k] && is_newer && !gossip_write_item(w, buf_slice(&m->bytes[k])))
            return false;
    }
    return true;
}

static bool is_behind(const struct gossip_member *m, const struct gossip_digest *theirs)
{
    if (m->boot != theirs->boot)
        return m->boot < theirs->boot;
    for (int k = 0; k < GOSSIP_KINDS; k++) {
        if (m->versions[k] < theirs->versions[k])
            return true;
    }
    return false;
}

static const struct gossip_member *known(struct gossip *g, uint16_t shard)
{
    return shard == g->self.id ? &g->self : gossip_member(g, shard);
}

/*
 * Two passes over the digest, since items come before it in a message. The first
 * begins at a random entry, so that a full message is not always full of the same.
 */
void gossip_answer(struct gossip *g, uint16_t to, const struct gossip_message *msg)
{
    struct gossip_writer w;
    struct gossip_digest theirs, ours;
    struct slice first = msg->digests, all = msg->digests;
    bool has_room = true;

    if (!msg->digest_count)
        return;
    uint64_t skip = env_random_u64(g->opt.env) % msg->digest_count;
    for (uint64_t i = 0; i < skip; i++)
        (void)gossip_next_digest(&first, &theirs);
    gossip_write_begin(&w, &g->out, msg->type == GOSSIP_SYN ? GOSSIP_ACK : GOSSIP_NEWS);
    for (unsigned i = 0; i < msg->digest_count && has_room; i++) {
        if (!first.len)
            first = msg->digests;
        if (!gossip_next_digest(&first, &theirs))
            break;
        const struct gossip_member *m = known(g, theirs.shard);
        has_room = !m || add_newer(&w, m, &theirs);
    }
    has_room = msg->type == GOSSIP_SYN;
    while (has_room && gossip_next_digest(&all, &theirs)) {
        const struct gossip_member *m = known(g, theirs.shard);
        if (!m || m == &g->self || !is_behind(m, &theirs))
            continue;
        digest_of(m, &ours);
        has_room = gossip_write_digest(&w, &ours);
    }
    if (gossip_write_end(&w) && may_send(g, false))
        send_out(g, to);
}

/* ---- rounds ---- */

static void send_syn(struct gossip *g, uint16_t to)
{
    struct gossip_writer w;
    struct gossip_digest d;
    bool has_room;

    gossip_write_begin(&w, &g->out, GOSSIP_SYN);
    has_room = gossip_write_item(&w, buf_slice(&g->self.bytes[GOSSIP_LOAD]));
    digest_of(&g->self, &d);
    has_room = has_room && gossip_write_digest(&w, &d);
    for (size_t i = 0; i < g->count && has_room; i++) {
        digest_of(g->members[i], &d);
        has_room = gossip_write_digest(&w, &d);
    }
    if (gossip_write_end(&w) && may_send(g, true))
        send_out(g, to);
}

/* More members need more rounds until a heartbeat has come around. */
static uint64_t suspect_us(const struct gossip *g)
{
    const struct gossip_settings *set = &g->opt.settings;
    unsigned doublings = 0;

    if (set->suspect_us)
        return set->suspect_us;
    for (size_t n = g->count + 1; n > 1; n >>= 1)
        doublings++;
    return 3 * set->interval_us + doublings * set->interval_us / 2;
}

static void watch(struct gossip *g, struct gossip_member *m, uint64_t now)
{
    if (m->status == GOSSIP_ALIVE && now - m->beat_us > suspect_us(g)) {
        struct gossip_batch *b = &g->batch;
        m->suspect_since_us = now;
        g->stats.claims_made++;
        if (b->claim_count < GOSSIP_CLAIMS_MAX)
            b->claims[b->claim_count++] =
                (struct gossip_claim){ m->id, m->boot, m->versions[GOSSIP_LOAD] };
        gossip_move(g, m, GOSSIP_SUSPECT);
    } else if (m->status == GOSSIP_SUSPECT && now - m->suspect_since_us > g->opt.settings.dead_us) {
        gossip_move(g, m, GOSSIP_DEAD);
    }
}

/* Announcements that are too old leave the member's list. */
static void evict(struct gossip *g, struct gossip_member *m)
{
    struct gossip_state *s = &m->state;
    unsigned kept = 0;
    uint64_t age;

    for (unsigned i = 0; i < s->adapter_count; i++) {
        const struct gossip_adapter *a = &s->adapters[i];
        if (gossip_adapter(g, m, slice_str(a->domain), a->model, &age))
            s->adapters[kept++] = *a;
        else
            g->stats.evicted++;
    }
    bool is_changed = kept != s->adapter_count;
    s->adapter_count = kept;
    if (is_changed)
        gossip_tell(g, m, GOSSIP_EVENT_STATE);
}

static void renew_own(struct gossip *g, uint64_t now)
{
    bool is_old = g->self.state.adapter_count &&
                  (now - g->self.state_us) / 1000 > g->opt.settings.adapter_ttl_ms / 4;

    gossip_renew(g, GOSSIP_LOAD);
    if (g->is_prefix_due)
        gossip_renew(g, GOSSIP_PREFIX);
    if (g->is_state_due || is_old) {
        gossip_renew(g, GOSSIP_STATE);
        g->spread_us = now;
        g->batch.items[g->batch.item_count++] =
            (struct gossip_item_ref){ g->self.id, GOSSIP_STATE };
    }
    g->is_prefix_due = g->is_state_due = false;
}

void gossip_round(struct gossip *g)
{
    uint64_t now = gossip_now_us(g);

    g->stats.rounds++;
    renew_own(g, now);
    for (size_t i = 0; i < g->count; i++) {
        struct gossip_member *m = g->members[i];
        m->received = 0;
        watch(g, m, now);
        if (m->state.adapter_count)
            evict(g, m);
    }
    gossip_spread(g, -1);
    unsigned n = draw(g, false, -1, g->opt.settings.fanout);
    uint16_t to[16];
    n = n < ARRAY_LEN(to) ? n : ARRAY_LEN(to);
    for (unsigned i = 0; i < n; i++)
        to[i] = g->members[g->order[i]]->id;
    for (unsigned i = 0; i < n; i++)
        send_syn(g, to[i]);
    if (draw(g, true, -1, 1))
        send_syn(g, g->members[g->order[0]]->id);
}
