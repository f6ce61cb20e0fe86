/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cluster.h"
#include "base/env.h"
#include "base/log.h"
#include "base/metrics.h"
#include "cluster/dispatch.h"
#include "cluster/member.h"
#include "cluster/peers.h"
#include "cluster/rpc.h"
#include "net/certificate.h"
#include "net/tls.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    PATH_BYTES = 1024,
    HEADER_BYTES = 16 * KIB,
    BODY_BYTES = 64 * MIB,
    CONNECTIONS = 2 * TOPOLOGY_NODES_MAX,
    STREAMS = 10000,
    HEADER_MS = 10000, /* of a handshake, too */
    BODY_MS = 30000,
    IDLE_MS = 60000,
};

/* A topology on its way to the loop. */
struct news {
    struct loop_task task;
    struct cluster *cluster;
    struct topology *topology;
    struct news *next;
};

struct cluster {
    struct cluster_options opt;
    char boot[BOOT_BYTES];
    char host[NODE_ADDRESS_BYTES], advertise[NODE_ADDRESS_BYTES], public_url[NODE_ADDRESS_BYTES];
    char files[3][PATH_BYTES]; /* ca, certificate, key */
    struct certificate *certificate;
    struct http_server *http;
    struct rpc_server_options rpc;
    struct peers *peers;
    struct dispatch *dispatch;
    struct member *member;
    atomic_bool is_draining, is_stopped;
};

static struct metric expires = METRIC_GAUGE("themis_cluster_certificate_expires_seconds",
                                            "End of the node certificate's validity, since 1970.");
static struct metric failures = METRIC_COUNTER("themis_cluster_certificate_failures_total",
                                               "Changed node certificates that could not be used.");

/* ---- flags ---- */

/* "HOST:PORT" with a port of 0 to 65535. */
static bool is_address(const char *text, bool takes_any_port)
{
    const char *colon = strrchr(text, ':');
    uint64_t port;

    return colon && colon > text && colon - text < NODE_ADDRESS_BYTES - 8 &&
           slice_to_u64(slice_str(colon + 1), &port) && port <= 65535 && (port || takes_any_port);
}

static enum errc check_present(const struct cluster_flags *f, struct error *err)
{
    const struct {
        const char *flag, *value;
        bool is_needed;
    } all[] = {
        { "--node-id", f->node_id, true },        { "--etcd", f->etcd, true },
        { "--cluster-listen", f->listen, true },  { "--certs", f->certs, true },
        { "--etcd-certs", f->etcd_certs, false }, { "--advertise", f->advertise, false },
        { "--public-url", f->public_url, false },
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (!f->name && all[i].value)
            return fail(err, ERR_INVALID, "%s is for nodes of a cluster: --cluster is missing",
                        all[i].flag);
        if (f->name && all[i].is_needed && !all[i].value)
            return fail(err, ERR_INVALID, "--cluster needs %s", all[i].flag);
    }
    return OK;
}

enum errc cluster_check_flags(const struct cluster_flags *f, struct error *err)
{
    enum errc rc = check_present(f, err);

    if (rc != OK || !f->name)
        return rc;
    if (!node_id_is_valid(slice_str(f->name)))
        return fail(err, ERR_INVALID, "--cluster takes 1 to 63 of a-z, 0-9 and - (got '%s')",
                    f->name);
    if (!node_id_is_valid(slice_str(f->node_id)))
        return fail(err, ERR_INVALID, "--node-id takes 1 to 63 of a-z, 0-9 and - (got '%s')",
                    f->node_id);
    if (!is_address(f->listen, true))
        return fail(err, ERR_INVALID, "--cluster-listen takes HOST:PORT (got '%s')", f->listen);
    if (f->advertise && !is_address(f->advertise, false))
        return fail(err, ERR_INVALID, "--advertise takes HOST:PORT (got '%s')", f->advertise);
    if (f->public_url && ((strncmp(f->public_url, "http://", 7) != 0 &&
                           strncmp(f->public_url, "https://", 8) != 0) ||
                          strlen(f->public_url) >= NODE_ADDRESS_BYTES))
        return fail(err, ERR_INVALID, "--public-url takes a URL of http or https (got '%s')",
                    f->public_url);
    return OK;
}

/* ---- what the parts ask ---- */

static bool knows(void *ctx, const char *node)
{
    return peers_knows(((struct cluster *)ctx)->peers, node);
}

static void answer_hello(struct rpc_request *r)
{
    struct cluster *c = r->ctx;

    peers_answer_hello(c->peers, r);
}

static void answer_generate(struct rpc_request *r)
{
    struct cluster *c = r->ctx;

    dispatch_answer(c->opt.local, r);
}

static void put_models(struct cluster *c, struct hello *out)
{
    struct model_info *infos = mem_alloc(MODELS_MAX * sizeof *infos);
    size_t count = c->opt.local->models(c->opt.local, infos, MODELS_MAX);

    for (size_t i = 0; i < count && i < MODELS_MAX; i++) {
        if (infos[i].state != MODEL_READY)
            continue;
        struct peer_model *m = &out->models[out->model_count++];
        memcpy(m->name, infos[i].name, sizeof m->name);
        m->kind = infos[i].kind;
        m->context_tokens = infos[i].context_tokens;
        m->dimension = infos[i].dimension;
    }
    mem_free(infos);
}

static void say_hello(void *ctx, struct hello *out)
{
    struct cluster *c = ctx;

    memset(out, 0, sizeof *out);
    snprintf(out->cluster, sizeof out->cluster, "%s", c->opt.flags.name);
    snprintf(out->node, sizeof out->node, "%s", c->opt.flags.node_id);
    memcpy(out->boot, c->boot, sizeof out->boot);
    out->is_draining = atomic_load(&c->is_draining);
    c->opt.load(c->opt.ctx, &out->running, &out->waiting);
    put_models(c, out);
}

static void use_topology(struct loop_task *task)
{
    struct news *n = CONTAINER_OF(task, struct news, task);

    peers_set_topology(n->cluster->peers, n->topology);
    topology_unref(n->topology);
    mem_free(n);
}

static void on_topology(void *ctx, struct topology *t)
{
    struct cluster *c = ctx;
    struct news *n = mem_zalloc(sizeof *n);

    n->cluster = c;
    n->topology = topology_ref(t);
    n->task.run = use_topology;
    loop_post(c->opt.loop, &n->task);
}

static void on_refused(void *ctx, const char *peer, const char *why)
{
    (void)ctx;
    rpc_note_refused(peer, why);
}

/* Both roles show the new certificate from the next connection on. */
static void use_certificate(void *ctx, struct tls_config *tls)
{
    struct cluster *c = ctx;

    if (atomic_load(&c->is_stopped)) {
        tls_config_free(tls);
        return;
    }
    peers_set_tls(c->peers, tls);
    http_server_set_tls(c->http, tls);
}

/* ---- opening ---- */

static enum errc find_files(struct cluster *c, struct error *err)
{
    static const char *const names[] = { "ca.crt", "node.crt", "node.key" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if ((size_t)snprintf(c->files[i], PATH_BYTES, "%s/%s", c->opt.flags.certs, names[i]) >=
            PATH_BYTES)
            return fail(err, ERR_INVALID, "the path of --certs is too long");
    return OK;
}

static enum errc open_certificate(struct cluster *c, struct tls_config **tls, struct error *err)
{
    struct certificate_options opt = { .ca = c->files[0],
                                       .cert = c->files[1],
                                       .key = c->files[2],
                                       .expires = &expires,
                                       .failures = &failures };
    char name[NODE_ID_BYTES];
    enum errc rc = certificate_open(&c->certificate, tls, &opt, err);

    if (rc != OK)
        return rc;
    if (!tls_config_name(*tls, name, sizeof name))
        return fail(err, ERR_INVALID,
                    "the certificate %s must have exactly one DNS name, the id of the node",
                    c->files[1]);
    if (strcmp(name, c->opt.flags.node_id) != 0)
        return fail(err, ERR_INVALID, "the certificate %s is for the node '%s', not for '%s'",
                    c->files[1], name, c->opt.flags.node_id);
    return OK;
}

/* "[::1]:1" and "127.0.0.1:1"; the flags have been checked. */
static uint16_t split(const char *address, char host[NODE_ADDRESS_BYTES])
{
    const char *colon = strrchr(address, ':');
    size_t len = (size_t)(colon - address);

    if (len > 1 && address[0] == '[' && address[len - 1] == ']') {
        address++;
        len -= 2;
    }
    snprintf(host, NODE_ADDRESS_BYTES, "%.*s", (int)len, address);
    return (uint16_t)strtoul(colon + 1, NULL, 10);
}

/* Keeps tls. */
static enum errc listen_for_nodes(struct cluster *c, struct tls_config *tls, struct error *err)
{
    struct http_server_options opt = {
        .host = c->host,
        .port = split(c->opt.flags.listen, c->host),
        .limits = { .header_bytes = HEADER_BYTES,
                    .body_bytes = BODY_BYTES,
                    .connections = CONNECTIONS,
                    .header_ms = HEADER_MS,
                    .body_ms = BODY_MS,
                    .idle_ms = IDLE_MS,
                    .streams = STREAMS },
        .handler = rpc_http_handler(&c->rpc),
        .server_name = c->opt.server_name,
        .tls = tls,
        .on_refused = on_refused,
    };

    return http_server_new(&c->http, c->opt.loop, &opt, err);
}

static enum errc choose_advertise(struct cluster *c, struct error *err)
{
    if (c->opt.flags.advertise) {
        snprintf(c->advertise, sizeof c->advertise, "%s", c->opt.flags.advertise);
        return OK;
    }
    if (!strcmp(c->host, "0.0.0.0") || !strcmp(c->host, "::"))
        return fail(err, ERR_INVALID,
                    "--cluster-listen %s is every address: --advertise must say which one other "
                    "nodes shall use",
                    c->opt.flags.listen);
    snprintf(c->advertise, sizeof c->advertise, strchr(c->host, ':') ? "[%.200s]:%u" : "%.200s:%u",
             c->host, http_server_port(c->http));
    return OK;
}

static void make_parts(struct cluster *c, const struct tls_config *tls)
{
    const struct settings *s = c->opt.settings;
    struct peers_options peers = { .loop = c->opt.loop,
                                   .cluster = c->opt.flags.name,
                                   .self = c->opt.flags.node_id,
                                   .tls = tls,
                                   .connect_ms = (uint64_t)s->cluster_connect_ms,
                                   .ping_ms = (uint64_t)s->cluster_ping_ms,
                                   .ping_misses = (unsigned)s->cluster_ping_misses,
                                   .breaker = breaker_defaults(),
                                   .say = say_hello,
                                   .ctx = c };

    peers.breaker.failures_max = (unsigned)s->failure_threshold;
    peers.breaker.open_us = (uint64_t)s->breaker_open_ms * 1000;
    c->peers = peers_new(&peers);
    struct dispatch_options dispatch = { .local = c->opt.local,
                                         .peers = c->peers,
                                         .pool = c->opt.pool,
                                         .self = c->opt.flags.node_id,
                                         .retries = (unsigned)s->cluster_retries,
                                         .request_ms = (uint64_t)s->request_timeout_ms };
    c->dispatch = dispatch_new(&dispatch);
    c->rpc = (struct rpc_server_options){
        .cluster = c->opt.flags.name,
        .pool = c->opt.pool,
        .handlers = { [RPC_hello] = { answer_hello, true },
                      [RPC_generate] = { answer_generate, false } },
        .knows = knows,
        .ctx = c,
    };
}

/* Asks nobody yet. */
static enum errc open_member(struct cluster *c, struct error *err)
{
    const struct cluster_flags *f = &c->opt.flags;
    struct member_options opt = { .cluster = f->name,
                                  .id = f->node_id,
                                  .cluster_address = c->advertise,
                                  .public_url = c->public_url, /* known when it joins */
                                  .boot = c->boot,
                                  .etcd_urls = f->etcd,
                                  .etcd_certs = f->etcd_certs,
                                  .is_insecure = c->opt.is_insecure,
                                  .lease_s = (uint64_t)c->opt.settings->cluster_lease_s,
                                  .join_ms = (uint64_t)c->opt.settings->cluster_join_ms,
                                  .on_topology = on_topology,
                                  .ctx = c };

    return member_open(&c->member, &opt, err);
}

enum errc cluster_open(struct cluster **out, const struct cluster_options *opt, struct error *err)
{
    struct cluster *c = mem_zalloc(sizeof *c);
    struct tls_config *tls = NULL;
    enum errc rc = OK;

    c->opt = *opt;
    snprintf(c->boot, sizeof c->boot, "%016llx", (unsigned long long)env_random_u64(env_system()));
    TRY(cluster_check_flags(&opt->flags, err));
    TRY(find_files(c, err));
    TRY(open_certificate(c, &tls, err));
    make_parts(c, tls);
    rc = listen_for_nodes(c, tls, err);
    tls = NULL;
    if (rc != OK)
        goto out;
    TRY(choose_advertise(c, err));
    TRY(open_member(c, err));
    certificate_on_change(c->certificate, c->opt.loop, use_certificate, c);
    log_info("cluster", "node %s of cluster %s listens for nodes on %s, boot %s",
             opt->flags.node_id, opt->flags.name, c->advertise, c->boot);
out:
    tls_config_free(tls);
    *out = c; /* also after a failure: stopping needs its order */
    return rc;
}

enum errc cluster_join(struct cluster *c, const char *public_url, bool (*should_stop)(void *ctx),
                       void *ctx, struct error *err)
{
    const char *given = c->opt.flags.public_url;

    snprintf(c->public_url, sizeof c->public_url, "%s", given ? given : public_url);
    return member_join(c->member, should_stop, ctx, err);
}

struct generator *cluster_generator(struct cluster *c)
{
    return dispatch_generator(c->dispatch);
}

void cluster_chores(struct cluster *c)
{
    certificate_check(c->certificate);
}

void cluster_reload(struct cluster *c)
{
    certificate_reload(c->certificate);
}

/* ---- stopping ---- */

void cluster_drain(struct cluster *c)
{
    if (!c)
        return;
    atomic_store(&c->is_draining, true);
    if (c->member)
        member_leave(c->member);
    http_server_drain(c->http);
}

size_t cluster_active(const struct cluster *c)
{
    return c ? http_server_active(c->http) : 0;
}

void cluster_stop(struct cluster *c)
{
    if (!c)
        return;
    member_stop(c->member);
    http_server_free(c->http);
    c->http = NULL;
    if (c->peers)
        peers_stop(c->peers);
    atomic_store(&c->is_stopped, true);
}

void cluster_free(struct cluster *c)
{
    if (!c)
        return;
    dispatch_free(c->dispatch);
    peers_free(c->peers);
    member_close(c->member);
    certificate_close(c->certificate);
    mem_free(c);
}

/* ---- status ---- */

const char *cluster_name(const struct cluster *c)
{
    return c->opt.flags.name;
}

const char *cluster_node(const struct cluster *c)
{
    return c->opt.flags.node_id;
}

static void put_text(struct val_builder *b, const char *name, const char *text)
{
    val_put_name(b, slice_str(name));
    val_put_string(b, slice_str(text));
}

static void put_int(struct val_builder *b, const char *name, uint64_t n)
{
    val_put_name(b, slice_str(name));
    val_put_int(b, (int64_t)n);
}

static void put_model_names(struct val_builder *b, const struct hello *h)
{
    val_put_name(b, slice_str("models"));
    val_open_array(b);
    for (uint32_t i = 0; i < h->model_count; i++)
        val_put_string(b, slice_str(h->models[i].name));
    val_close(b);
}

static void put_node(struct cluster *c, struct val_builder *b, const struct peer_view *n,
                     size_t slots)
{
    char boot[BOOT_BYTES];

    val_open_object(b);
    put_text(b, "id", n->node.id);
    put_int(b, "number", n->node.number);
    put_text(b, "state", peer_state_name(n->state));
    if (n->why[0])
        put_text(b, "why", n->why);
    if (n->since_us)
        put_int(b, "sinceUs", n->since_us);
    put_text(b, "boot", n->hello.boot);
    put_text(b, "cluster", n->node.cluster);
    put_text(b, "public", n->node.public_url);
    put_int(b, "slots", slots);
    val_put_name(b, slice_str("registered"));
    val_put_bool(b, c->member && member_boot_of(c->member, slice_str(n->node.id), boot));
    if (n->rtt_us) {
        val_put_name(b, slice_str("rttMs"));
        val_put_double(b, (double)n->rtt_us / 1000);
    }
    put_text(b, "breaker", breaker_state_name(n->breaker));
    put_int(b, "running", n->hello.running);
    put_int(b, "waiting", n->hello.waiting);
    put_model_names(b, &n->hello);
    val_close(b);
}

void cluster_put_status(struct cluster *c, struct val_builder *b)
{
    struct arena *arena = arena_new(0);
    struct topology *t;
    struct peer_view *nodes;
    size_t count = peers_view(c->peers, arena, &nodes, &t);

    put_text(b, "cluster", c->opt.flags.name);
    put_text(b, "node", c->opt.flags.node_id);
    put_text(b, "boot", c->boot);
    put_int(b, "epoch", t ? t->epoch : 0);
    val_put_name(b, slice_str("etcd"));
    val_put_bool(b, c->member && member_has_etcd(c->member));
    val_put_name(b, slice_str("nodes"));
    val_open_array(b);
    for (size_t i = 0; i < count; i++)
        put_node(c, b, &nodes[i], topology_slots(t, i));
    val_close(b);
    topology_unref(t);
    arena_free(arena);
}
