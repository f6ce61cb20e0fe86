/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UNKNOWN -> UP <-> DRAINING        by a hello that is answered
 *     \______ | ______/
 *             v
 *           DOWN                    when the connection breaks, or a hello is refused
 *
 * Beside it each node has a circuit breaker over the calls that are work: one that
 * says hello and fails them is left alone for a while.
 *
 * A connection that is up shows only that somebody is there; a node is UP when
 * it has said hello as the node that we think it is. PING watches the
 * connection, hello the rest.
 */
#include "cluster/peers.h"
#include "base/env.h"
#include "base/log.h"
#include "base/metrics.h"
#include "net/channel.h"
#include "net/tls.h"
#include <pthread.h>
#include <stdio.h>

enum { TICK_MS = 100 };

struct peer {
    struct peers *peers;
    struct peer_view view;  /* written under the lock */
    struct breaker breaker; /* under the lock */
    struct channel *channel;
    uint64_t asked_ms;
    bool is_asking; /* a hello is on its way */
    bool is_gone;   /* not in the topology any more: freed when its hello has ended */
    struct peer *next;
};

struct peers {
    struct peers_options opt;
    struct tls_config *tls;
    struct rpc_client *rpc;
    struct loop_timer *tick;
    struct peer *first; /* the other nodes */
    bool is_stopped;
    pthread_mutex_t
        lock; /* over the topology, the list and all views; the loop alone changes them */
    struct topology *topology;
};

static struct metric peers_up =
    METRIC_GAUGE("themis_cluster_nodes_up", "Nodes that answer, this one included.");
static struct metric peers_known = METRIC_GAUGE("themis_cluster_nodes", "Nodes in the topology.");
static struct metric breakers_open = METRIC_GAUGE(
    "themis_cluster_breakers_open", "Nodes whose circuit breaker is open or half-open.");
static struct metric breaker_opened_total = METRIC_COUNTER(
    "themis_cluster_breaker_opened_total", "Times that a circuit breaker of a node has opened.");
static struct metric downs_total =
    METRIC_COUNTER("themis_cluster_node_downs_total", "Times that a node was found to be down.");

const char *peer_state_name(enum peer_state s)
{
    static const char *const names[] = { "self", "unknown", "up", "draining", "down" };

    return names[s];
}

static struct peer *find(const struct peers *p, const char *id)
{
    for (struct peer *peer = p->first; peer; peer = peer->next)
        if (!peer->is_gone && !strcmp(peer->view.node.id, id))
            return peer;
    return NULL;
}

/* ---- states ---- */

static void count_up(struct peers *p)
{
    int64_t up = 1;

    for (const struct peer *peer = p->first; peer; peer = peer->next)
        up += !peer->is_gone && (peer->view.state == PEER_UP || peer->view.state == PEER_DRAINING);
    metric_set(&peers_up, up);
}

static void set_state(struct peer *peer, enum peer_state state, const char *why)
{
    struct peers *p = peer->peers;

    pthread_mutex_lock(&p->lock);
    enum peer_state before = peer->view.state;
    if (before != state)
        peer->view.since_us = env_wall_us(env_system());
    peer->view.state = state;
    snprintf(peer->view.why, sizeof peer->view.why, "%s", why);
    pthread_mutex_unlock(&p->lock);
    if (before == state)
        return;
    if (state == PEER_DOWN) {
        metric_add(&downs_total, 1);
        log_warn("cluster", "node %s is down: %s", peer->view.node.id, why);
    } else {
        log_info("cluster", "node %s is %s", peer->view.node.id, peer_state_name(state));
    }
    count_up(p);
}

/* ---- breakers ---- */

/* Lock held. */
static void count_open(const struct peers *p)
{
    int64_t open = 0;

    for (const struct peer *peer = p->first; peer; peer = peer->next)
        open += !peer->is_gone && peer->breaker.state != BREAKER_CLOSED;
    metric_set(&breakers_open, open);
}

/* Lock held. */
static void on_breaker(void *ctx, const struct breaker *b, enum breaker_state from)
{
    struct peer *peer = ctx;

    metric_add(&breaker_opened_total, b->state == BREAKER_OPEN);
    log_warn("cluster", "the breaker of node %s was %s and is %s", peer->view.node.id,
             breaker_state_name(from), breaker_state_name(b->state));
    count_open(peer->peers);
}

bool peers_begin(struct peers *p, const char *id, struct breaker_ticket *ticket)
{
    pthread_mutex_lock(&p->lock);
    struct peer *peer = find(p, id);
    bool may = peer && breaker_begin(&peer->breaker, env_mono_us(env_system()), ticket);
    pthread_mutex_unlock(&p->lock);
    return may;
}

void peers_end(struct peers *p, const char *id, struct breaker_ticket ticket,
               enum breaker_outcome outcome)
{
    pthread_mutex_lock(&p->lock);
    struct peer *peer = find(p, id);
    if (peer)
        breaker_end(&peer->breaker, ticket, outcome, env_mono_us(env_system()));
    pthread_mutex_unlock(&p->lock);
}

/* ---- hello ---- */

static void take_hello(struct peer *peer, const struct hello *h)
{
    struct peers *p = peer->peers;
    bool is_other_boot = peer->view.hello.boot[0] && strcmp(peer->view.hello.boot, h->boot) != 0;

    if (strcmp(h->node, peer->view.node.id) != 0 || strcmp(h->cluster, p->opt.cluster) != 0) {
        set_state(peer, PEER_DOWN, "it says that it is another node");
        return;
    }
    pthread_mutex_lock(&p->lock);
    peer->view.hello = *h;
    peer->view.rtt_us = channel_rtt_us(peer->channel);
    if (is_other_boot)
        breaker_reset(&peer->breaker);
    pthread_mutex_unlock(&p->lock);
    if (is_other_boot)
        log_info("cluster", "node %s has started again: boot %s", h->node, h->boot);
    set_state(peer, h->is_draining ? PEER_DRAINING : PEER_UP, "");
}

static void free_peer(struct peer *peer)
{
    struct peers *p = peer->peers;
    struct peer **at = &p->first;

    pthread_mutex_lock(&p->lock);
    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    pthread_mutex_unlock(&p->lock);
    mem_free(peer);
}

static void on_hello(void *ctx, const struct rpc_outcome *outcome)
{
    struct peer *peer = ctx;
    struct error err = { 0 };
    struct hello *h = mem_alloc(sizeof *h);
    struct val v;
    enum errc rc = outcome->err ? outcome->err->code : OK;

    peer->is_asking = false;
    if (peer->is_gone) {
        mem_free(h);
        free_peer(peer);
        return;
    }
    if (rc == OK)
        rc = val_validate(outcome->body, &v, &err);
    if (rc == OK)
        rc = hello_read(v, h, &err);
    if (rc == OK)
        take_hello(peer, h);
    else if (!peer->peers->is_stopped && channel_is_up(peer->channel))
        set_state(peer, PEER_DOWN, outcome->err ? outcome->err->text : err.text);
    mem_free(h);
}

static void ask_hello(struct peer *peer)
{
    struct rpc_call call = {
        .method = RPC_hello, .node = peer->view.node.id, .on_done = on_hello, .ctx = peer
    };

    peer->asked_ms = loop_now_ms(peer->peers->opt.loop);
    peer->is_asking = rpc_call(peer->peers->rpc, &call, NULL) == OK;
}

void peers_answer_hello(struct peers *p, struct rpc_request *r)
{
    struct val_builder *b = val_builder_new(0);
    struct hello *h = mem_zalloc(sizeof *h);
    struct error err = { 0 };
    struct val v;

    p->opt.say(p->opt.ctx, h);
    h->epoch = p->topology ? p->topology->epoch : 0;
    hello_print(h, b);
    if (val_finish(b, &v, &err) == OK)
        rpc_reply(r, val_bytes(v));
    else
        rpc_fail(r, &err);
    val_builder_free(b);
    mem_free(h);
}

/* ---- connections ---- */

static void on_up(void *ctx)
{
    struct peer *peer = ctx;

    if (!peer->is_asking)
        ask_hello(peer);
}

static void on_down(void *ctx, const char *why)
{
    set_state(ctx, PEER_DOWN, why);
}

static struct channel *channel_of(void *ctx, const char *node)
{
    const struct peer *peer = find(ctx, node);

    return peer ? peer->channel : NULL;
}

/* Soon again while a node does not take us: it may not know of us yet. */
static void on_tick(void *ctx)
{
    struct peers *p = ctx;
    uint64_t now_ms = loop_now_ms(p->opt.loop);

    for (struct peer *peer = p->first; peer; peer = peer->next) {
        bool is_well = peer->view.state == PEER_UP || peer->view.state == PEER_DRAINING;
        uint64_t every_ms = is_well ? p->opt.ping_ms : 2 * TICK_MS;
        if (!peer->is_gone && !peer->is_asking && channel_is_up(peer->channel) &&
            now_ms - peer->asked_ms >= every_ms)
            ask_hello(peer);
    }
}

/* "HOST:PORT" or "[HOST]:PORT". */
static void split_address(const char *address, char host[NODE_ADDRESS_BYTES], const char **port)
{
    const char *colon = strrchr(address, ':');
    size_t len = colon ? (size_t)(colon - address) : strlen(address);

    *port = colon ? colon + 1 : "";
    if (len > 1 && address[0] == '[' && address[len - 1] == ']') {
        address++;
        len -= 2;
    }
    snprintf(host, NODE_ADDRESS_BYTES, "%.*s", (int)len, address);
}

static void connect_peer(struct peer *peer)
{
    struct peers *p = peer->peers;
    char host[NODE_ADDRESS_BYTES];
    struct channel_options opt = { .host = host,
                                   .name = peer->view.node.id,
                                   .connect_ms = p->opt.connect_ms,
                                   .ping_ms = p->opt.ping_ms,
                                   .ping_misses = p->opt.ping_misses,
                                   .on_up = on_up,
                                   .on_down = on_down,
                                   .ctx = peer };

    split_address(peer->view.node.cluster, host, &opt.port);
    peer->channel = channel_new(p->opt.loop, p->tls, &opt);
}

/* ---- the topology ---- */

static void drop_peer(struct peer *peer)
{
    struct channel *channel = peer->channel;

    pthread_mutex_lock(&peer->peers->lock);
    peer->is_gone = true;
    pthread_mutex_unlock(&peer->peers->lock);
    peer->channel = NULL;
    bool was_asking = peer->is_asking; /* then the end of the hello frees it */
    channel_free(channel);
    if (!was_asking)
        free_peer(peer);
}

static void add_peer(struct peers *p, const struct topology_node *n)
{
    struct peer *peer = mem_zalloc(sizeof *peer);

    peer->peers = p;
    peer->view.node = *n;
    peer->view.state = PEER_UNKNOWN;
    breaker_init(&peer->breaker, &p->opt.breaker);
    peer->breaker.on_change = on_breaker;
    peer->breaker.ctx = peer;
    peer->view.since_us = env_wall_us(env_system());
    pthread_mutex_lock(&p->lock);
    peer->next = p->first;
    p->first = peer;
    pthread_mutex_unlock(&p->lock);
    connect_peer(peer);
}

void peers_set_topology(struct peers *p, struct topology *t)
{
    if (p->is_stopped)
        return;
    pthread_mutex_lock(&p->lock);
    struct topology *old = p->topology;
    p->topology = topology_ref(t);
    pthread_mutex_unlock(&p->lock);
    topology_unref(old);
    metric_set(&peers_known, (int64_t)t->node_count);
    for (struct peer *peer = p->first, *next; peer; peer = next) {
        next = peer->next;
        long at = topology_find(t, slice_str(peer->view.node.id));
        if (!peer->is_gone &&
            (at < 0 || strcmp(t->nodes[at].cluster, peer->view.node.cluster) != 0))
            drop_peer(peer);
    }
    for (size_t i = 0; i < t->node_count; i++)
        if (strcmp(t->nodes[i].id, p->opt.self) != 0 && !find(p, t->nodes[i].id))
            add_peer(p, &t->nodes[i]);
    count_up(p);
}

bool peers_knows(const struct peers *p, const char *id)
{
    return p->topology && topology_find(p->topology, slice_str(id)) >= 0;
}

void peers_set_tls(struct peers *p, const struct tls_config *tls)
{
    tls_config_free(p->tls);
    p->tls = tls_config_share(tls);
    for (struct peer *peer = p->first; peer; peer = peer->next)
        if (!peer->is_gone)
            channel_set_tls(peer->channel, tls);
}

struct rpc_client *peers_rpc(struct peers *p)
{
    return p->rpc;
}

static void fill_view(struct peers *p, size_t node, struct peer_view *out)
{
    const struct topology_node *n = &p->topology->nodes[node];
    const struct peer *peer = find(p, n->id);

    memset(out, 0, sizeof *out);
    if (peer) {
        *out = peer->view;
        out->breaker = peer->breaker.state;
        out->is_barred = !breaker_would_allow(&peer->breaker, env_mono_us(env_system()));
    } else {
        out->state = strcmp(n->id, p->opt.self) ? PEER_UNKNOWN : PEER_SELF;
    }
    out->node = *n;
}

size_t peers_view(struct peers *p, struct arena *arena, struct peer_view **out,
                  struct topology **topology)
{
    size_t count = 0;

    *out = NULL;
    pthread_mutex_lock(&p->lock);
    *topology = p->topology ? topology_ref(p->topology) : NULL;
    if (p->topology) {
        count = p->topology->node_count;
        *out = arena_alloc(arena, count * sizeof **out);
        for (size_t i = 0; i < count; i++)
            fill_view(p, i, &(*out)[i]);
    }
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < count; i++)
        if ((*out)[i].state == PEER_SELF)
            p->opt.say(p->opt.ctx, &(*out)[i].hello);
    return count;
}

/* ---- life ---- */

struct peers *peers_new(const struct peers_options *opt)
{
    struct peers *p = mem_zalloc(sizeof *p);
    struct rpc_client_options rpc = {
        .loop = opt->loop, .cluster = opt->cluster, .channel_of = channel_of, .ctx = p
    };

    p->opt = *opt;
    p->tls = tls_config_share(opt->tls);
    pthread_mutex_init(&p->lock, NULL);
    p->rpc = rpc_client_new(&rpc);
    p->tick = loop_timer_new(opt->loop, on_tick, p);
    loop_timer_start(p->tick, TICK_MS, TICK_MS);
    metric_register(&downs_total);
    metric_register(&breakers_open);
    metric_register(&breaker_opened_total);
    return p;
}

void peers_stop(struct peers *p)
{
    p->is_stopped = true;
    loop_timer_free(p->tick);
    rpc_client_stop(p->rpc);
    for (struct peer *peer = p->first; peer; peer = peer->next) {
        channel_free(peer->channel);
        peer->channel = NULL;
    }
}

void peers_free(struct peers *p)
{
    if (!p)
        return;
    while (p->first)
        free_peer(p->first);
    rpc_client_free(p->rpc);
    tls_config_free(p->tls);
    topology_unref(p->topology);
    pthread_mutex_destroy(&p->lock);
    mem_free(p);
}
