/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gossip_cluster -- N gossips in one process under virtual time, over links that
 * lose and delay messages and can be cut.
 */
#ifndef TEST_SIM_GOSSIP_CLUSTER_H
#define TEST_SIM_GOSSIP_CLUSTER_H

#include "cluster/gossip.h"
#include "vtime.h"

struct gossip_cluster;

struct gossip_cluster_node {
    struct gossip_cluster *all;
    struct gossip *gossip; /* NULL: the process is down */
    uint16_t id;
    uint64_t boots;
    int side; /* nodes of different sides do not reach each other */
};

struct gossip_cluster {
    struct vtime time;
    struct gossip_cluster_node *nodes; /* ids are 1 to count */
    unsigned count;
    double loss;       /* of a message, 0 to 1 */
    uint64_t delay_us; /* least; up to three times that */
    struct gossip_settings settings;
    struct gossip_seal seal;
    uint64_t delivered, lost;
    /* What the gossip of a node notices; may be NULL. */
    void (*on_event)(struct gossip_cluster_node *n, const struct gossip_member *m,
                     enum gossip_event event);
    /* May change a message on its way; returns how many times it is delivered. */
    unsigned (*meddle)(struct gossip_cluster *all, uint16_t from, uint16_t to, struct buf *bytes);
};

struct gossip_cluster_mail {
    uint16_t from;
    size_t len;
    char bytes[];
};

static void gossip_cluster_deliver(void *ctx, void *arg)
{
    struct gossip_cluster_node *n = ctx;
    struct gossip_cluster_mail *m = arg;

    if (n->gossip && n->all->nodes[m->from - 1].side == n->side) {
        n->all->delivered++;
        (void)!gossip_receive(n->gossip, m->from, slice_of(m->bytes, m->len), NULL);
    }
    mem_free(m);
}

static void gossip_cluster_send(void *ctx, uint16_t to, struct slice bytes)
{
    struct gossip_cluster_node *n = ctx;
    struct gossip_cluster *c = n->all;
    unsigned copies = 1;
    struct buf changed;

    buf_init(&changed, 0);
    buf_add_slice(&changed, bytes);
    if (c->meddle)
        copies = c->meddle(c, n->id, to, &changed);
    if (vtime_chance(&c->time) < c->loss || c->nodes[to - 1].side != n->side) {
        c->lost++;
        copies = 0;
    }
    for (unsigned i = 0; i < copies; i++) {
        struct gossip_cluster_mail *m = mem_alloc(sizeof *m + changed.len);
        m->from = n->id;
        m->len = changed.len;
        if (changed.len)
            memcpy(m->bytes, changed.ptr, changed.len);
        uint64_t delay = c->delay_us + (uint64_t)(vtime_chance(&c->time) * 2 * (double)c->delay_us);
        vtime_at(&c->time, vtime_now(&c->time) + delay, gossip_cluster_deliver, &c->nodes[to - 1],
                 m);
    }
    buf_release(&changed);
}

static void gossip_cluster_event(void *ctx, const struct gossip_member *m, enum gossip_event event)
{
    struct gossip_cluster_node *n = ctx;

    if (n->all->on_event)
        n->all->on_event(n, m, event);
}

static void gossip_cluster_tick(void *ctx, void *arg)
{
    struct gossip_cluster_node *n = ctx;
    uint64_t boot = *(uint64_t *)arg;

    if (!n->gossip || boot != n->boots) { /* of a process that is gone */
        mem_free(arg);
        return;
    }
    gossip_run(n->gossip);
    vtime_at(&n->all->time, gossip_next_us(n->gossip), gossip_cluster_tick, n, arg);
}

static void gossip_cluster_stop(struct gossip_cluster *c, unsigned i)
{
    gossip_free(c->nodes[i].gossip);
    c->nodes[i].gossip = NULL;
}

static inline void gossip_cluster_start(struct gossip_cluster *c, unsigned i)
{
    struct gossip_cluster_node *n = &c->nodes[i];
    uint16_t *ids = mem_alloc(c->count * sizeof *ids);
    uint64_t *boot = mem_alloc(sizeof *boot);
    struct gossip_options opt = { .self = n->id,
                                  .boot = ++n->boots,
                                  .env = &c->time.clock.env,
                                  .settings = c->settings,
                                  .seal = c->seal,
                                  .send = gossip_cluster_send,
                                  .on_event = gossip_cluster_event,
                                  .ctx = n };
    if (c->seal.sign)
        opt.seal.ctx = n;
    n->gossip = gossip_new(&opt);
    for (unsigned k = 0; k < c->count; k++)
        ids[k] = (uint16_t)(k + 1);
    if (gossip_set_members(n->gossip, ids, c->count, NULL) != OK)
        BUG("members");
    mem_free(ids);
    *boot = n->boots;
    vtime_at(&c->time, gossip_next_us(n->gossip), gossip_cluster_tick, n, boot);
}

/* Sets loss, delay_us, settings, seal and meddle may be changed before gossip_cluster_start_all. */
static inline void gossip_cluster_init(struct gossip_cluster *c, unsigned count, uint64_t seed)
{
    *c = (struct gossip_cluster){ .count = count, .delay_us = 1000, .settings = gossip_defaults() };
    vtime_init(&c->time, seed);
    c->nodes = mem_zalloc(count * sizeof *c->nodes);
    for (unsigned i = 0; i < count; i++) {
        c->nodes[i].all = c;
        c->nodes[i].id = (uint16_t)(i + 1);
    }
}

static inline void gossip_cluster_start_all(struct gossip_cluster *c)
{
    for (unsigned i = 0; i < c->count; i++)
        gossip_cluster_start(c, i);
}

static inline void gossip_cluster_release(struct gossip_cluster *c)
{
    for (unsigned i = 0; i < c->count; i++)
        gossip_cluster_stop(c, i);
    mem_free(c->nodes);
    vtime_release(&c->time);
}

static inline void gossip_cluster_run(struct gossip_cluster *c, double seconds)
{
    vtime_run(&c->time, vtime_now(&c->time) + (uint64_t)(seconds * 1e6));
}

/* Announces an adapter for the domain at node i. */
static inline void gossip_cluster_announce(struct gossip_cluster *c, unsigned i, const char *domain,
                                           double accuracy)
{
    struct gossip_adapter a = { .model = 1, .accuracy = accuracy, .samples = 100, .round = 1 };
    struct gossip_state s = {
        .model_count = 1, .models = { 1 }, .adapter_count = 1, .adapters = &a
    };
    strncpy(a.domain, domain, GOSSIP_DOMAIN_BYTES);
    if (gossip_set_state(c->nodes[i].gossip, &s, NULL) != OK)
        BUG("state");
}

/* How many other nodes know node i's announcement of the domain. */
static inline unsigned gossip_cluster_knowing(const struct gossip_cluster *c, unsigned i,
                                              const char *domain, double accuracy)
{
    unsigned n = 0;

    for (unsigned k = 0; k < c->count; k++) {
        const struct gossip *g = c->nodes[k].gossip;
        const struct gossip_member *m = g && k != i ? gossip_find(g, c->nodes[i].id) : NULL;
        uint64_t age;
        const struct gossip_adapter *a =
            m ? gossip_adapter(g, m, slice_str(domain), 1, &age) : NULL;
        n += a && a->accuracy == accuracy;
    }
    return n;
}

/* How many running nodes see node i in this status. */
static inline unsigned gossip_cluster_seeing(const struct gossip_cluster *c, unsigned i,
                                             enum gossip_status status)
{
    unsigned n = 0;

    for (unsigned k = 0; k < c->count; k++) {
        const struct gossip *g = c->nodes[k].gossip;
        const struct gossip_member *m = g && k != i ? gossip_find(g, c->nodes[i].id) : NULL;
        n += m && m->status == status;
    }
    return n;
}

/*
 * Announces at a random node of a cluster that runs, and returns the seconds until
 * all others know it; limit_s when it takes longer.
 */
static inline double gossip_cluster_converge(struct gossip_cluster *c, double limit_s)
{
    unsigned i = vtime_below(&c->time, c->count);
    uint64_t begin = vtime_now(&c->time), limit = begin + (uint64_t)(limit_s * 1e6);
    double accuracy = vtime_chance(&c->time);
    uint64_t looked = 0;

    gossip_cluster_announce(c, i, "legal", accuracy);
    while (vtime_step(&c->time, limit)) {
        if (c->delivered == looked)
            continue;
        looked = c->delivered;
        if (gossip_cluster_knowing(c, i, "legal", accuracy) == c->count - 1)
            break;
    }
    return (double)(vtime_now(&c->time) - begin) / 1e6;
}

#endif
