/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte is the sender (of four nodes, or a stranger), the rest a message
 * to a gossip, twice: the second time nothing may be new. The counts must add up, what
 * was accepted must be within range and encode to the bytes that it came as.
 */
#include "base/key.h"
#include "cluster/gossip.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t sent;

static void count_send(void *ctx, uint16_t to, struct slice bytes)
{
    struct gossip_message msg;
    struct error err;

    (void)ctx;
    (void)to;
    sent++;
    if (gossip_message_decode(bytes, &msg, &err) != OK)
        BUG("sends what it would not take: %s", err.text);
}

/* Of an item that was kept: the payload must be exactly what its meaning encodes to. */
static void check_item(const struct gossip_member *m, enum gossip_kind kind)
{
    struct slice bytes = buf_slice(&m->bytes[kind]);
    struct gossip_item item;
    struct buf again;

    if (!m->versions[kind])
        return;
    if (!gossip_next_item(&bytes, &item) || bytes.len || item.shard != m->id ||
        item.boot != m->boot || item.version != m->versions[kind])
        BUG("an item was kept that is not the member's");
    buf_init(&again, 0);
    switch (kind) {
    case GOSSIP_STATE:
        if (gossip_state_check(&m->state, NULL) != OK)
            BUG("a state out of range was taken");
        gossip_state_encode(&m->state, &again);
        break;
    case GOSSIP_LOAD:
        if (gossip_load_check(&m->load, NULL) != OK)
            BUG("a load out of range was taken");
        gossip_load_encode(&m->load, &again);
        break;
    case GOSSIP_PREFIX:
        gossip_chains_encode(m->chains, m->chain_count, &again);
        break;
    }
    if (!slice_eq(item.payload, buf_slice(&again)))
        BUG("an item of kind %d does not encode to what it was", kind);
    buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint16_t ids[] = { 1, 2, 3, 4 };
    struct env_test env;
    struct error err;

    if (!size)
        return 0;
    env_test_init(&env, 1);
    sent = 0;
    const struct gossip_options opt = {
        .self = 1, .boot = 5, .env = &env.env, .settings = gossip_defaults(), .send = count_send
    };
    struct gossip *g = gossip_new(&opt);
    if (gossip_set_members(g, ids, ARRAY_LEN(ids), &err) != OK)
        BUG("%s", err.text);
    const struct gossip_stats *s = gossip_stats(g);
    uint64_t accepted = 0;
    for (int i = 0; i < 2; i++) {
        accepted = s->accepted;
        (void)!gossip_receive(g, data[0] % 6, slice_of(data + 1, size - 1), &err);
        env_test_advance(&env, 1000);
    }
    /* Only what claims to be of this node itself may be taken again: it is outdone each time. */
    if (gossip_boot(g) == 5 && s->accepted != accepted)
        BUG("a replay was accepted");
    if (s->received != s->taken + s->from_stranger + s->flooded + s->damaged ||
        s->items != s->accepted + s->stale + s->refused + s->strange)
        BUG("the counts do not add up");
    for (size_t i = 0; i < gossip_count(g); i++) {
        for (int k = 0; k < GOSSIP_KINDS; k++)
            check_item(gossip_at(g, i), (enum gossip_kind)k);
    }
    for (int i = 0; i < 3; i++) {
        env_test_advance(&env, 1000000);
        gossip_run(g);
    }
    if (sent > 64)
        BUG("one message has led to %zu", sent);
    gossip_free(g);
    return 0;
}
