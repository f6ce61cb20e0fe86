/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flight is one request on its way:
 *
 *   choose -> local: submit, events pass through
 *          -> remote: call, frames become events
 *               lost before the first event -> choose again, without that node
 *               lost after it               -> last event, failed
 *
 * The way to another node begins on the caller's thread; a second choice is made
 * on the loop, from where a local submit goes to a worker, since it tokenises.
 */
#include "cluster/dispatch.h"
#include "base/env.h"
#include "base/log.h"
#include "base/metrics.h"
#include "cluster/gen_code.h"
#include "cluster/place.h"
#include <stdio.h>

struct dispatch {
    struct generator generator; /* first: what callers have */
    struct dispatch_options opt;
};

struct flight {
    struct dispatch *d;
    struct job job; /* a local submit that comes late */
    /* The caller's. */
    void (*on_event)(void *ctx, const struct gen_event *e);
    void *ctx;
    const atomic_bool *cancel;
    struct gen_payer *payer; /* may be NULL */
    uint64_t used;           /* tokens that another node has told of */
    struct buf body;         /* the request, for another node */
    struct slice node;       /* owned copies of what the choice needs */
    struct slice model;
    uint16_t slot;
    uint64_t until_ms;
    bool tried[TOPOLOGY_NODES_MAX]; /* by node number - 1 */
    unsigned tries;
    uint16_t number; /* of the node that was chosen */
    char chosen[NODE_ID_BYTES];
    struct breaker_ticket ticket; /* of the call under way */
    struct gen_place place;
    struct buf in; /* a frame that is not whole yet */
    bool has_begun, is_over;
    bool is_broken;  /* what came was no answer: the call is to end */
    uint32_t tokens; /* that came so far */
    struct error err;
};

static struct metric remote_total = METRIC_COUNTER(
    "themis_cluster_forwarded_total", "Generations that were passed on to another node.");
static struct metric local_total =
    METRIC_COUNTER("themis_cluster_local_total", "Generations that this node answered itself.");
static struct metric retries_total = METRIC_COUNTER(
    "themis_cluster_retries_total", "Generations that were given to another node after a failure.");
static struct metric fallback_total = METRIC_COUNTER(
    "themis_cluster_fallback_total", "Generations for another node than the owner of their slot.");
static struct metric broken_total = METRIC_COUNTER(
    "themis_cluster_broken_total", "Generations whose node was lost after the first token.");
static struct metric answered_total = METRIC_COUNTER(
    "themis_cluster_answered_total", "Generations of other nodes that this one answered.");

static void flight_free(struct flight *f)
{
    mem_free((char *)f->node.ptr);
    mem_free((char *)f->model.ptr);
    buf_release(&f->body);
    buf_release(&f->in);
    mem_free(f);
}

/* Hands an event on; the last one ends the flight's duty to its caller. */
static void deliver(struct flight *f, const struct gen_event *e)
{
    struct gen_event own = *e;

    if (e->is_last && f->used && f->payer)
        f->payer->charge(f->payer, f->used); /* who asked is gone after the event */
    own.place = f->chosen[0] ? &f->place : NULL;
    f->has_begun = true;
    f->tokens = e->completion_tokens;
    f->is_over = e->is_last;
    f->on_event(f->ctx, &own);
}

static void deliver_failure(struct flight *f, const struct error *err)
{
    bool is_cancel = err->code == ERR_GONE && f->cancel && atomic_load(f->cancel);
    struct gen_event e = { .is_last = true,
                           .finish = is_cancel ? GEN_CANCELLED : GEN_FAILED,
                           .err = is_cancel ? NULL : err,
                           .completion_tokens = f->tokens };

    deliver(f, &e);
}

/* ---- choosing ---- */

static enum errc choose(struct flight *f, bool *is_self, struct error *err)
{
    struct arena *arena = arena_new(0);
    struct topology *t;
    struct peer_view *nodes;
    struct place_choice choice;
    size_t count = peers_view(f->d->opt.peers, arena, &nodes, &t);
    enum errc rc = ERR_BUSY;

    if (!t) {
        arena_free(arena);
        return fail(err, ERR_BUSY, "the node has not joined its cluster yet");
    }
    bool *tried = arena_zalloc(arena, count * sizeof *tried);
    for (size_t i = 0; i < count; i++)
        tried[i] = f->tried[nodes[i].node.number - 1];
    struct place_wish wish = {
        .node = f->node, .model = f->model, .slot = f->slot, .tried = tried
    };
    rc = place_choose(nodes, count, t->owners[f->slot], &wish, &choice, err);
    if (rc == OK) {
        const struct peer_view *n = &nodes[choice.node];
        *is_self = n->state == PEER_SELF;
        f->number = n->node.number;
        snprintf(f->chosen, sizeof f->chosen, "%s", n->node.id);
        f->place = (struct gen_place){ f->chosen, place_reason_name(choice.reason) };
        metric_add(&fallback_total, choice.reason == PLACE_FALLBACK);
        metric_add(*is_self ? &local_total : &remote_total, 1);
    }
    topology_unref(t);
    arena_free(arena);
    return rc;
}

/* ---- this node ---- */

static void on_local_event(void *ctx, const struct gen_event *e)
{
    struct flight *f = ctx;

    deliver(f, e);
    if (e->is_last)
        flight_free(f);
}

static uint64_t left_ms(const struct flight *f)
{
    uint64_t now_ms = env_mono_ms(env_system());

    return f->until_ms > now_ms ? f->until_ms - now_ms : 1;
}

static void run_local(struct job *job)
{
    struct flight *f = CONTAINER_OF(job, struct flight, job);
    struct arena *arena = arena_new(0);
    struct gen_request req;
    struct error err = { 0 };
    enum errc rc = gen_request_decode(buf_slice(&f->body), arena, &req, &err);

    if (rc == OK) {
        req.on_event = on_local_event;
        req.ctx = f;
        req.cancel = f->cancel;
        req.payer = f->payer;
        req.deadline_ms = left_ms(f);
        rc = f->d->opt.local->submit(f->d->opt.local, &req, &err);
    }
    arena_free(arena);
    if (rc != OK) {
        deliver_failure(f, &err);
        flight_free(f);
    }
}

/* ---- another node ---- */

static void on_frames(void *ctx, struct slice bytes)
{
    struct flight *f = ctx;
    struct gen_event_frame frame;
    enum gen_frame got = FRAME_WHOLE;

    if (f->is_over)
        return;
    buf_add_slice(&f->in, bytes);
    struct slice rest = buf_slice(&f->in);
    while (!f->is_over && (got = gen_event_decode(&rest, &frame)) == FRAME_WHOLE) {
        f->used = (uint64_t)frame.event.prompt_tokens + frame.event.completion_tokens;
        deliver(f, &frame.event);
    }
    if (got == FRAME_BROKEN) {
        (void)fail(&f->err, ERR_IO, "node %s sent what is no answer", f->chosen);
        f->is_broken = true;
        deliver_failure(f, &f->err);
    }
    buf_drop(&f->in, f->in.len - rest.len);
}

static bool may_go_elsewhere(const struct flight *f, const struct rpc_outcome *o)
{
    return !f->has_begun && !f->node.len && f->tries < f->d->opt.retries &&
           (o->is_lost || o->err->code == ERR_BUSY || o->err->code == ERR_NOT_FOUND);
}

static enum errc go_remote(struct flight *f, struct error *err);

/* False: nobody is left, and the first failure stands. */
static bool go_elsewhere(struct flight *f)
{
    bool is_self = false;
    struct error err = { 0 };

    f->tried[f->number - 1] = true;
    f->tries++;
    if (choose(f, &is_self, &err) != OK)
        return false;
    metric_add(&retries_total, 1);
    log_info("cluster", "a generation goes on to node %s", f->chosen);
    if (!is_self)
        return go_remote(f, &err) == OK;
    f->job.run = run_local;
    pool_resume(f->d->opt.pool, &f->job);
    return true;
}

/* What the end of a call says of the node. */
static enum breaker_outcome outcome_of(const struct rpc_outcome *o)
{
    if (o->is_lost)
        return BREAKER_FAILURE;
    if (o->err && o->err->code == ERR_GONE) /* nobody waits for it any more */
        return BREAKER_NEUTRAL;
    return o->err ? breaker_outcome_of(error_http(o->err)) : BREAKER_SUCCESS;
}

static void on_done(void *ctx, const struct rpc_outcome *o)
{
    struct flight *f = ctx;

    peers_end(f->d->opt.peers, f->chosen, f->ticket, outcome_of(o));
    if (!f->is_over) {
        struct error err = { 0 };
        if (o->err)
            err = *o->err;
        else
            (void)fail(&err, ERR_IO, "node %s ended its answer too early", f->chosen);
        if (o->err && may_go_elsewhere(f, o) && go_elsewhere(f))
            return;
        if (f->has_begun && o->is_lost) {
            metric_add(&broken_total, 1);
            (void)wrap(&err, "the answer broke off after %u tokens", f->tokens);
        }
        deliver_failure(f, &err);
    }
    flight_free(f);
}

/* The caller's flag is its own again after the last event. */
static bool is_unwanted(void *ctx)
{
    const struct flight *f = ctx;

    return f->is_broken || (!f->is_over && f->cancel && atomic_load(f->cancel));
}

static enum errc go_remote(struct flight *f, struct error *err)
{
    struct rpc_call call = { .method = RPC_generate,
                             .node = f->chosen,
                             .body = buf_slice(&f->body),
                             .deadline_ms = left_ms(f),
                             .is_unwanted = is_unwanted,
                             .on_piece = on_frames,
                             .on_done = on_done,
                             .ctx = f };

    /* The choice saw that it may: another call was faster, as the probe of a half-open breaker. */
    if (!peers_begin(f->d->opt.peers, f->chosen, &f->ticket))
        return fail(err, ERR_BUSY, "node %s takes no call now", f->chosen);
    enum errc rc = rpc_call(peers_rpc(f->d->opt.peers), &call, err);
    if (rc != OK)
        peers_end(f->d->opt.peers, f->chosen, f->ticket, BREAKER_NEUTRAL);
    return rc;
}

/* ---- the generator ---- */

static struct flight *flight_new(struct dispatch *d, const struct gen_request *req)
{
    struct flight *f = mem_zalloc(sizeof *f);
    uint64_t ms = req->deadline_ms ? req->deadline_ms : d->opt.request_ms;

    f->d = d;
    f->on_event = req->on_event;
    f->ctx = req->ctx;
    f->cancel = req->cancel;
    f->payer = req->payer;
    f->node = slice_of(mem_strndup(req->node), req->node.len);
    f->model = slice_of(mem_strndup(req->model), req->model.len);
    f->slot = place_slot(req);
    f->until_ms = env_mono_ms(env_system()) + ms;
    buf_init(&f->body, 0);
    buf_init(&f->in, 0);
    return f;
}

/* Shapes and tools do not travel yet: how such an answer is read comes from the model here. */
static bool is_bound(const struct gen_request *req)
{
    return req->shape.kind != GEN_FREE || !val_is_null(req->tools.list);
}

static enum errc submit_bound(struct flight *f, const struct gen_request *req, struct error *err)
{
    struct dispatch *d = f->d;
    struct gen_request own = *req;

    if (req->node.len && !slice_is(req->node, d->opt.self))
        return fail(err, ERR_NOT_IMPLEMENTED,
                    "not implemented: tools, schemas and grammars at another node");
    snprintf(f->chosen, sizeof f->chosen, "%s", d->opt.self);
    f->place = (struct gen_place){ f->chosen, "local" };
    metric_add(&local_total, 1);
    own.on_event = on_local_event;
    own.ctx = f;
    return d->opt.local->submit(d->opt.local, &own, err);
}

static enum errc submit(struct generator *g, const struct gen_request *req, struct error *err)
{
    struct dispatch *d = CONTAINER_OF(g, struct dispatch, generator);
    bool is_self = false;
    enum errc rc = req->payer ? req->payer->admit(req->payer, err) : OK;

    if (rc != OK)
        return rc;
    struct flight *f = flight_new(d, req);
    if (is_bound(req)) {
        rc = submit_bound(f, req, err);
        if (rc != OK)
            flight_free(f);
        return rc;
    }
    rc = choose(f, &is_self, err);
    if (rc == OK && req->format)
        *req->format = NULL; /* of another node's answer all is content */
    if (rc == OK && is_self) {
        struct gen_request own = *req;
        own.on_event = on_local_event;
        own.ctx = f;
        rc = d->opt.local->submit(d->opt.local, &own, err);
    } else if (rc == OK) {
        rc = gen_request_encode(req, &f->body, err);
        if (rc == OK)
            rc = go_remote(f, err);
        if (rc == ERR_BUSY && !f->node.len && go_elsewhere(f))
            rc = OK;
    }
    if (rc != OK)
        flight_free(f);
    return rc;
}

static struct generator *local_of(struct generator *g)
{
    return CONTAINER_OF(g, struct dispatch, generator)->opt.local;
}

static enum errc embed(struct generator *g, const struct embed_request *req, struct error *err)
{
    return local_of(g)->embed(local_of(g), req, err);
}

static enum errc count_tokens(struct generator *g, struct slice model, struct slice text,
                              size_t *count, struct error *err)
{
    return local_of(g)->count_tokens(local_of(g), model, text, count, err);
}

static enum errc fit_tokens(struct generator *g, struct slice model, struct slice text, size_t max,
                            size_t *len, struct error *err)
{
    return local_of(g)->fit_tokens(local_of(g), model, text, max, len, err);
}

static size_t list_models(struct generator *g, struct model_info *out, size_t max)
{
    return local_of(g)->models(local_of(g), out, max);
}

static bool find_at(const struct peer_view *n, struct slice name, struct model_info *out)
{
    for (uint32_t i = 0; i < n->hello.model_count; i++) {
        const struct peer_model *m = &n->hello.models[i];
        if (m->kind != MODEL_CHAT || (name.len && !slice_is(name, m->name)))
            continue;
        *out = (struct model_info){ .kind = m->kind,
                                    .context_tokens = m->context_tokens,
                                    .state = MODEL_READY };
        snprintf(out->name, sizeof out->name, "%s", m->name);
        return true;
    }
    return false;
}

/* A chat model that only others serve is one, too. */
static enum errc get_model(struct generator *g, struct slice name, enum model_kind kind,
                           struct model_info *out, struct error *err)
{
    struct dispatch *d = CONTAINER_OF(g, struct dispatch, generator);
    enum errc rc = d->opt.local->model(d->opt.local, name, kind, out, err);

    if (rc != ERR_NOT_FOUND || kind != MODEL_CHAT)
        return rc;
    struct arena *arena = arena_new(0);
    struct topology *t;
    struct peer_view *nodes;
    size_t count = peers_view(d->opt.peers, arena, &nodes, &t);
    for (size_t i = 0; i < count && rc != OK; i++)
        if (find_at(&nodes[i], name, out))
            rc = OK;
    topology_unref(t);
    arena_free(arena);
    return rc;
}

struct dispatch *dispatch_new(const struct dispatch_options *opt)
{
    struct dispatch *d = mem_zalloc(sizeof *d);

    d->opt = *opt;
    d->generator = (struct generator){ .submit = submit,
                                       .embed = embed,
                                       .count_tokens = count_tokens,
                                       .fit_tokens = fit_tokens,
                                       .models = list_models,
                                       .model = get_model };
    metric_register(&fallback_total);
    metric_register(&retries_total);
    metric_register(&broken_total);
    return d;
}

void dispatch_free(struct dispatch *d)
{
    mem_free(d);
}

struct generator *dispatch_generator(struct dispatch *d)
{
    return &d->generator;
}

/* ---- answering ---- */

enum { UNREAD_MAX = 2 * MIB }; /* of an answer; a node that takes nothing is given up */

struct answer {
    struct rpc_request *r;
    bool has_begun, is_broken;
};

/* On a lane's thread: must not wait. */
static void on_answer_event(void *ctx, const struct gen_event *e)
{
    struct answer *a = ctx;
    struct exchange *x = a->r->x;
    struct buf frame;

    if (!a->has_begun)
        exchange_start(x, 200, "application/octet-stream", NULL, 0);
    a->has_begun = true;
    if (!a->is_broken && exchange_unsent(x) > UNREAD_MAX) {
        a->is_broken = true;
        exchange_stop_work(x);
        exchange_abort(x);
    }
    if (!a->is_broken) {
        buf_init(&frame, 0);
        gen_event_encode(e, &frame);
        exchange_write(x, buf_slice(&frame));
        buf_release(&frame);
    }
    if (!e->is_last)
        return;
    if (!a->is_broken)
        exchange_finish(x);
    rpc_request_free(a->r);
    mem_free(a);
}

void dispatch_answer(struct generator *local, struct rpc_request *r)
{
    struct arena *arena = arena_new(0);
    struct gen_request req;
    struct error err = { 0 };
    struct answer *a = mem_zalloc(sizeof *a);
    enum errc rc = gen_request_decode(exchange_body(r->x), arena, &req, &err);

    a->r = r;
    if (rc == OK && !req.tenant.len)
        rc = fail(&err, ERR_UNAUTHORIZED, "the request names no user");
    if (rc == OK) {
        metric_add(&answered_total, 1);
        req.on_event = on_answer_event;
        req.ctx = a;
        req.cancel = exchange_cancel_flag(r->x);
        req.deadline_ms = r->deadline_ms;
        rc = local->submit(local, &req, &err);
    }
    arena_free(arena);
    if (rc != OK) {
        rpc_fail(r, &err);
        mem_free(a);
    }
}
