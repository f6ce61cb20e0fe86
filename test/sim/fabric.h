/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric -- sixteen nodes in one process under virtual time: the gossip, router,
 * breakers, retry loop and batches of the cluster as they are, over a network and
 * engines that are made up here and behave badly, all of it from one seed.
 *
 * Messages are lost, delayed by seconds, delivered twice; nodes are cut off from
 * each other, restart as new processes, refuse, fail. What must hold is checked
 * at each step and at the end; the first thing that does not is kept in `wrong`.
 */
#ifndef TEST_SIM_FABRIC_H
#define TEST_SIM_FABRIC_H

#include "cluster/fleet.h"
#include "cluster/scatter.h"
#include "gossip_cluster.h"
#include <stdio.h>

enum {
    FABRIC_NODES = 16,
    FABRIC_REQUESTS = 160,
    FABRIC_BATCHES = 4,
    FABRIC_SLOTS = 4,
    FABRIC_ROWS_MAX = 80,
    FABRIC_CALLS_MAX = 512, /* of one batch */
    FABRIC_MODEL = 1,
    FABRIC_S = 1000000,
    FABRIC_BUSY_S = 18, /* requests and faults come until then */
    FABRIC_END_S = 48,  /* and everything has ended by then */
};

/* A mistake in what uses the code under test, to show that the checks find it. */
enum fabric_plant {
    PLANT_NOTHING,
    PLANT_TAKE_LATE,  /* an answer that came too late goes to the client */
    PLANT_NO_TIMEOUT, /* a call that is not answered is waited for for ever */
    PLANT_TAKE_ROW,   /* a row's second answer is taken */
    PLANT_DISORDER,   /* rows are given out as they come */
    PLANT_LEAK,       /* a failed call of a batch is not ended */
};

struct fabric;

struct fabric_node {
    struct fabric *f;
    unsigned i;
    struct fleet *fleet; /* NULL: the process is down */
    uint32_t life;
    unsigned pending;
    uint64_t slot_free_us[FABRIC_SLOTS];
};

struct fabric_request {
    unsigned node;
    uint32_t life;
    unsigned answers;
    bool is_begun, streams;
    uint32_t token_call;
    struct errand errand;
};

struct fabric_batch {
    unsigned node;
    uint32_t life;
    bool is_begun;
    struct scatter *scatter;
    unsigned rows, next;
    uint16_t groups[FABRIC_ROWS_MAX];
    uint8_t answers[FABRIC_ROWS_MAX];
    struct fabric_open_call {
        bool is_open;
        uint16_t shard;
        struct breaker_ticket ticket;
    } calls[FABRIC_CALLS_MAX];
};

struct fabric {
    struct gossip_cluster c;
    struct fabric_node nodes[FABRIC_NODES];
    struct fabric_request requests[FABRIC_REQUESTS];
    struct fabric_batch batches[FABRIC_BATCHES];
    double loss, late, twice;
    enum fabric_plant plant;
    char wrong[200]; /* the first violation; empty = none */
    unsigned answered, lost, restarts, retries, late_answers, row_errors;
};

/* One call on its way, there and back. */
struct fabric_mail {
    unsigned from, to;
    uint32_t life; /* of from */
    bool is_batch;
    uint32_t id, number; /* request or batch, call */
    uint32_t row;        /* of a batch's answer; UINT32_MAX = the call's end */
    bool is_token;
    int status;
    unsigned count; /* rows asked */
    uint32_t rows[SCATTER_CHUNK_MAX];
};

static const char *const fabric_domains[] = { "legal", "medical", "geo", "trade" };

static void fabric_wrong(struct fabric *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void fabric_wrong(struct fabric *f, const char *fmt, ...)
{
    va_list args;

    if (f->wrong[0])
        return;
    va_start(args, fmt);
    vsnprintf(f->wrong, sizeof f->wrong, fmt, args);
    va_end(args);
}

static double fabric_chance(struct fabric *f)
{
    return vtime_chance(&f->c.time);
}

static uint64_t fabric_now(const struct fabric *f)
{
    return vtime_now(&f->c.time);
}

static bool fabric_is_up(const struct fabric *f, unsigned i, uint32_t life)
{
    return f->nodes[i].fleet && f->nodes[i].life == life;
}

/* ---- the network ---- */

static void *fabric_copy(const struct fabric_mail *m)
{
    struct fabric_mail *copy = mem_alloc(sizeof *copy);

    *copy = *m;
    return copy;
}

/* From a to b, perhaps never, perhaps late, perhaps twice. */
static void fabric_travel(struct fabric *f, unsigned a, unsigned b, vtime_fn arrive,
                          const struct fabric_mail *m)
{
    unsigned copies = a != b && fabric_chance(f) < f->twice ? 2 : 1;

    if (a != b && (f->c.nodes[a].side != f->c.nodes[b].side || fabric_chance(f) < f->loss))
        return;
    for (unsigned i = 0; i < copies; i++) {
        double delay_s = a == b ? 0 : 0.001 + 0.002 * fabric_chance(f);
        if (a != b && fabric_chance(f) < f->late)
            delay_s += 6 * fabric_chance(f);
        vtime_at(&f->c.time, fabric_now(f) + (uint64_t)(delay_s * FABRIC_S), arrive, f,
                 fabric_copy(m));
    }
}

/* ---- the engines ---- */

static void fabric_on_answer(void *ctx, void *arg);

static void fabric_reply(struct fabric *f, const struct fabric_mail *m, uint32_t row, bool is_token,
                         int status)
{
    struct fabric_mail back = *m;

    back.row = row;
    back.is_token = is_token;
    back.status = status;
    fabric_travel(f, m->to, m->from, fabric_on_answer, &back);
}

/* A moment in the life of a job, and the process that runs it. */
struct fabric_job {
    struct fabric_mail mail;
    uint32_t life; /* of the shard */
    enum { JOB_TOKEN, JOB_ROW, JOB_END } moment;
    uint32_t row;
    int status;
};

static void fabric_reach(void *ctx, void *arg)
{
    struct fabric *f = ctx;
    struct fabric_job *j = arg;
    struct fabric_node *n = &f->nodes[j->mail.to];
    bool is_up = fabric_is_up(f, n->i, j->life);

    switch (j->moment) {
    case JOB_TOKEN:
        if (is_up)
            fabric_reply(f, &j->mail, 0, true, 200);
        break;
    case JOB_ROW:
        n->pending -= is_up;
        if (is_up && j->mail.is_batch)
            fabric_reply(f, &j->mail, j->row, false, j->status);
        break;
    case JOB_END: /* or the connection is reset */
        fabric_reply(f, &j->mail, UINT32_MAX, false, is_up ? j->status : 0);
        break;
    }
    mem_free(j);
}

static void fabric_moment(struct fabric *f, const struct fabric_job *job, int moment,
                          uint64_t at_us)
{
    struct fabric_job *j = mem_alloc(sizeof *j);

    *j = *job;
    j->moment = moment;
    vtime_at(&f->c.time, at_us, fabric_reach, f, j);
}

/* The stream of a call ends 5 ms after its last row, so that it seldom overtakes one. */
static void fabric_run_job(struct fabric *f, const struct fabric_mail *m, uint32_t row,
                           bool is_last, int status)
{
    struct fabric_node *n = &f->nodes[m->to];
    uint64_t *slot = &n->slot_free_us[0], now = fabric_now(f);

    for (unsigned i = 1; i < FABRIC_SLOTS; i++)
        slot = n->slot_free_us[i] < *slot ? &n->slot_free_us[i] : slot;
    uint64_t begin = *slot > now ? *slot : now;
    uint64_t service = (uint64_t)((0.02 + 0.2 * fabric_chance(f)) * FABRIC_S);
    const struct fabric_job job = { .mail = *m, .life = n->life, .row = row, .status = status };
    *slot = begin + service;
    n->pending++;
    if (!m->is_batch)
        fabric_moment(f, &job, JOB_TOKEN, begin + service / 2);
    fabric_moment(f, &job, JOB_ROW, begin + service);
    if (is_last) {
        uint64_t last = *slot;
        for (unsigned i = 0; i < FABRIC_SLOTS; i++)
            last = n->slot_free_us[i] > last ? n->slot_free_us[i] : last;
        fabric_moment(f, &job, JOB_END, last + (m->is_batch ? 5000 : 0));
    }
}

static void fabric_on_call(void *ctx, void *arg)
{
    struct fabric *f = ctx;
    struct fabric_mail *m = arg;
    static const int bad[] = { 503, 500, 422, 502 };
    int status = fabric_chance(f) < 0.08 ? bad[vtime_below(&f->c.time, 4)] : 200;

    if (!f->nodes[m->to].fleet) {
        fabric_reply(f, m, UINT32_MAX, false, 0); /* refused */
    } else if (status != 200 && !m->is_batch) {
        fabric_reply(f, m, UINT32_MAX, false, status);
    } else if (m->is_batch) {
        for (unsigned i = 0; i < m->count; i++)
            fabric_run_job(f, m, m->rows[i], i + 1 == m->count, status);
    } else {
        fabric_run_job(f, m, 0, true, 200);
    }
    mem_free(m);
}

/* ---- requests ---- */

static void fabric_answer(struct fabric *f, struct fabric_request *r)
{
    f->answered++;
    if (++r->answers > 1)
        fabric_wrong(f, "request %zu was answered twice", (size_t)(r - f->requests));
}

static void fabric_on_timeout(void *ctx, void *arg)
{
    struct fabric_mail *m = arg;

    m->status = 0;
    m->row = UINT32_MAX;
    fabric_on_answer(ctx, m); /* frees it */
}

static void fabric_send(struct fabric *f, const struct fabric_mail *m, uint64_t until_us)
{
    fabric_travel(f, m->from, m->to, fabric_on_call, m);
    if (f->plant != PLANT_NO_TIMEOUT || m->is_batch)
        vtime_at(&f->c.time, until_us, fabric_on_timeout, f, fabric_copy(m));
}

static void fabric_advance(struct fabric *f, struct fabric_request *r)
{
    if (r->token_call) {
        fabric_wrong(f, "request %zu was sent again after its first token",
                     (size_t)(r - f->requests));
        return;
    }
    if (fleet_call(f->nodes[r->node].fleet, &r->errand, NULL) != OK) {
        fabric_answer(f, r);
        return;
    }
    const struct fleet_call *call = &r->errand.call;
    for (unsigned i = 0; i < r->errand.tried_count; i++) {
        if (r->errand.tried[i] == call->shard)
            fabric_wrong(f, "shard %u was tried twice", call->shard);
    }
    const struct fabric_mail m = { .from = r->node,
                                   .to = call->shard - 1u,
                                   .life = r->life,
                                   .id = (uint32_t)(r - f->requests),
                                   .number = call->number };
    fabric_send(f, &m, call->until_us);
}

static void fabric_request_answer(struct fabric *f, const struct fabric_mail *m)
{
    struct fabric_request *r = &f->requests[m->id];

    if (m->is_token) {
        if (!r->streams || r->errand.is_over || r->errand.call.number != m->number)
            return;
        if (r->token_call && r->token_call != m->number)
            fabric_wrong(f, "request %u got tokens of two calls", m->id);
        r->token_call = m->number;
        errand_begun(&r->errand);
        return;
    }
    uint16_t asked = r->errand.call.shard;
    enum fleet_verdict verdict =
        fleet_end(f->nodes[r->node].fleet, &r->errand, m->number, m->status);
    if (verdict != FLEET_LATE && asked != m->to + 1)
        fabric_wrong(f, "an answer of shard %u was taken for one of %u", m->to + 1, asked);
    switch (verdict) {
    case FLEET_DONE:
    case FLEET_FAILED:
        fabric_answer(f, r);
        return;
    case FLEET_RETRY:
        f->retries++;
        fabric_advance(f, r);
        return;
    case FLEET_LATE:
        f->late_answers += m->status == 200;
        if (f->plant == PLANT_TAKE_LATE && m->status == 200)
            fabric_answer(f, r);
        return;
    }
}

static unsigned fabric_a_node_that_runs(struct fabric *f)
{
    for (;;) {
        unsigned i = vtime_below(&f->c.time, FABRIC_NODES);
        if (f->nodes[i].fleet)
            return i;
    }
}

static void fabric_begin_request(void *ctx, void *arg)
{
    struct fabric *f = ctx;
    struct fabric_request *r = &f->requests[*(uint32_t *)arg];
    unsigned domain = vtime_below(&f->c.time, 6);

    mem_free(arg);
    r->node = fabric_a_node_that_runs(f);
    r->life = f->nodes[r->node].life;
    r->is_begun = true;
    r->streams = fabric_chance(f) < 0.4;
    const struct fleet_request req = {
        .model = FABRIC_MODEL,
        .domain = slice_str(domain < 4    ? fabric_domains[domain]
                            : domain == 4 ? "unknown"
                                          : ""),
        .slot = (uint16_t)vtime_below(&f->c.time, 4096),
        .owner = (uint16_t)(1 + vtime_below(&f->c.time, FABRIC_NODES)),
        .deadline_us = fabric_now(f) + 12 * FABRIC_S,
    };
    errand_init(f->nodes[r->node].fleet, &r->errand, &req);
    fabric_advance(f, r);
}

/* ---- batches ---- */

static void fabric_give(struct fabric *f, struct fabric_batch *b, uint32_t row)
{
    if (row != b->next)
        fabric_wrong(f, "row %u was given out in place of %u", row, b->next);
    b->next++;
}

static void fabric_gather(struct fabric *f, struct fabric_batch *b)
{
    struct scatter_result r;

    if (f->plant == PLANT_DISORDER)
        return;
    while (scatter_next(b->scatter, &r)) {
        fabric_give(f, b, r.row);
        f->row_errors += !r.is_answer;
        if (!r.is_answer && r.code == OK)
            fabric_wrong(f, "row %u was given out before it ended", r.row);
        if (r.is_answer != (b->answers[r.row] == 1))
            fabric_wrong(f, "row %u ended as %s after %u answers", r.row,
                         r.is_answer ? "an answer" : "an error", b->answers[r.row]);
    }
}

static bool fabric_can_take(struct fabric *f, const struct fabric_batch *b, unsigned shard)
{
    struct fabric_node *n = &f->nodes[b->node];
    const struct gossip *g = f->c.nodes[b->node].gossip;
    const struct gossip_member *m = gossip_find(g, (uint16_t)(shard + 1));
    const struct breaker *breaker = fleet_breaker(n->fleet, (uint16_t)(shard + 1));

    return shard == b->node || (m && m->status == GOSSIP_ALIVE &&
                                (!breaker || breaker_would_allow(breaker, fabric_now(f))));
}

static void fabric_hand_out(struct fabric *f, struct fabric_batch *b, unsigned shard,
                            const struct scatter_chunk *c)
{
    struct fabric_open_call *call = &b->calls[c->call];

    if (c->call >= FABRIC_CALLS_MAX)
        BUG("more calls than the simulation has room for");
    if (!fleet_begin_at(f->nodes[b->node].fleet, (uint16_t)(shard + 1), c->count, &call->ticket)) {
        scatter_call_failed(b->scatter, c->call, ERR_BUSY);
        return;
    }
    call->is_open = true;
    call->shard = (uint16_t)(shard + 1);
    struct fabric_mail m = { .from = b->node,
                             .to = shard,
                             .life = b->life,
                             .is_batch = true,
                             .id = (uint32_t)(b - f->batches),
                             .number = c->call,
                             .count = c->count };
    memcpy(m.rows, c->rows, c->count * sizeof *c->rows);
    fabric_send(f, &m, fabric_now(f) + 4 * FABRIC_S);
}

static void fabric_pump(struct fabric *f, struct fabric_batch *b)
{
    struct scatter_chunk c;

    for (unsigned i = 0; i < FABRIC_NODES; i++) {
        if (fabric_can_take(f, b, i))
            scatter_shard_resume(b->scatter, i);
        else
            scatter_shard_pause(b->scatter, i);
        while (scatter_pull(b->scatter, i, &c))
            fabric_hand_out(f, b, i, &c);
    }
    fabric_gather(f, b);
}

static void fabric_batch_answer(struct fabric *f, const struct fabric_mail *m)
{
    struct fabric_batch *b = &f->batches[m->id];
    struct fabric_open_call *call = &b->calls[m->number];
    bool is_end = m->row == UINT32_MAX;

    if (!is_end && m->status == 200) {
        bool counts = scatter_answer(b->scatter, m->number, m->row);
        if (counts && m->row < b->next)
            fabric_wrong(f, "row %u was answered after it was given out", m->row);
        if (counts || f->plant == PLANT_TAKE_ROW) {
            if (++b->answers[m->row] > 1)
                fabric_wrong(f, "row %u was answered twice", m->row);
            if (f->plant == PLANT_DISORDER)
                fabric_give(f, b, m->row);
        }
    } else if (!is_end) {
        scatter_row_failed(b->scatter, m->number, m->row, ERR_IO, m->status != 422);
    } else if (call->is_open) {
        call->is_open = false;
        if (f->plant != PLANT_LEAK || m->status)
            fleet_end_at(f->nodes[b->node].fleet, call->shard, call->ticket, m->status);
        scatter_call_failed(b->scatter, m->number, ERR_IO);
    }
    fabric_pump(f, b);
}

static void fabric_on_answer(void *ctx, void *arg)
{
    struct fabric *f = ctx;
    struct fabric_mail *m = arg;

    if (fabric_is_up(f, m->from, m->life)) {
        if (m->is_batch)
            fabric_batch_answer(f, m);
        else
            fabric_request_answer(f, m);
    }
    mem_free(m);
}

static void fabric_batch_deadline(void *ctx, void *arg)
{
    struct fabric *f = ctx;
    struct fabric_batch *b = &f->batches[*(uint32_t *)arg];

    mem_free(arg);
    if (!fabric_is_up(f, b->node, b->life))
        return;
    scatter_expire(b->scatter, fabric_now(f));
    fabric_gather(f, b);
    if (!scatter_is_done(b->scatter))
        fabric_wrong(f, "a batch has rows without an answer after its deadline");
}

static void fabric_begin_batch(void *ctx, void *arg)
{
    struct fabric *f = ctx;
    uint32_t id = *(uint32_t *)arg;
    struct fabric_batch *b = &f->batches[id];
    double accuracy[4][FABRIC_NODES];
    struct scatter_group groups[4];

    b->node = fabric_a_node_that_runs(f);
    b->life = f->nodes[b->node].life;
    b->is_begun = true;
    b->rows = 20 + vtime_below(&f->c.time, FABRIC_ROWS_MAX - 20);
    for (unsigned g = 0; g < 4; g++) {
        for (unsigned i = 0; i < FABRIC_NODES; i++)
            accuracy[g][i] = i % 4 == g ? 0.9 : 0.6;
        groups[g] = (struct scatter_group){ .accuracy = accuracy[g],
                                            .home = -1,
                                            .is_pinned = fabric_chance(f) < 0.2 };
    }
    for (unsigned i = 0; i < b->rows; i++)
        b->groups[i] = (uint16_t)vtime_below(&f->c.time, 4);
    struct scatter_options opt = { .settings = scatter_defaults(),
                                   .now_us = fabric_now(f),
                                   .row_count = b->rows,
                                   .groups_of_rows = b->groups,
                                   .groups = groups,
                                   .group_count = 4,
                                   .shard_count = FABRIC_NODES };
    opt.settings.deadline_us = 10 * FABRIC_S;
    if (scatter_new(&b->scatter, &opt, NULL) != OK)
        BUG("the options of a batch are refused");
    vtime_at(&f->c.time, scatter_deadline_us(b->scatter), fabric_batch_deadline, f, arg);
    fabric_pump(f, b);
}

/* ---- nodes and faults ---- */

static void fabric_event(struct gossip_cluster_node *n, const struct gossip_member *m,
                         enum gossip_event event)
{
    struct fabric *f = CONTAINER_OF(n->all, struct fabric, c);
    struct fleet *fleet = f->nodes[n->id - 1].fleet;

    if (fleet)
        fleet_on_gossip(fleet, m, event);
}

static void fabric_load(void *ctx, void *arg)
{
    struct fabric_node *n = ctx;
    const struct gossip_load load = { .pending = n->pending,
                                      .slots = FABRIC_SLOTS,
                                      .service_ms = 120 };

    if (n->fleet && n->life == *(uint32_t *)arg && fleet_set_load(n->fleet, &load, NULL) == OK)
        vtime_at(&n->f->c.time, fabric_now(n->f) + FABRIC_S / 4, fabric_load, n, arg);
    else
        mem_free(arg);
}

static void fabric_start(struct fabric *f, unsigned i)
{
    struct fabric_node *n = &f->nodes[i];
    uint32_t *life = mem_alloc(sizeof *life);

    gossip_cluster_start(&f->c, i);
    n->life++;
    n->pending = 0;
    memset(n->slot_free_us, 0, sizeof n->slot_free_us);
    struct fleet_options opt = { .gossip = f->c.nodes[i].gossip,
                                 .env = &f->c.time.clock.env,
                                 .settings = fleet_defaults() };
    opt.settings.call_us = 4 * FABRIC_S;
    opt.settings.breaker.open_us = 5 * FABRIC_S;
    opt.settings.breaker.probe_us = 4 * FABRIC_S;
    n->fleet = fleet_new(&opt);
    *life = n->life;
    fabric_load(n, life);
    gossip_cluster_announce(&f->c, i, fabric_domains[i % 4], 0.5 + 0.03 * i);
}

static void fabric_stop(struct fabric *f, unsigned i)
{
    fleet_free(f->nodes[i].fleet);
    f->nodes[i].fleet = NULL;
    gossip_cluster_stop(&f->c, i);
}

static void fabric_start_later(void *ctx, void *arg)
{
    struct fabric_node *n = ctx;

    (void)arg;
    if (!n->fleet)
        fabric_start(n->f, n->i);
}

static void fabric_crash(void *ctx, void *arg)
{
    struct fabric *f = ctx;
    unsigned i = fabric_a_node_that_runs(f);

    mem_free(arg);
    fabric_stop(f, i);
    f->restarts++;
    vtime_at(&f->c.time, fabric_now(f) + (uint64_t)(fabric_chance(f) * 5 * FABRIC_S),
             fabric_start_later, &f->nodes[i], NULL);
}

/* Missed pings: everybody who runs gives up those it does not reach. */
static void fabric_pings(void *ctx, void *arg)
{
    struct fabric *f = ctx;

    (void)arg;
    for (unsigned a = 0; a < FABRIC_NODES; a++) {
        for (unsigned b = 0; b < FABRIC_NODES; b++) {
            if (f->nodes[a].fleet && f->c.nodes[a].side != f->c.nodes[b].side)
                fleet_peer_lost(f->nodes[a].fleet, (uint16_t)(b + 1));
        }
    }
}

static void fabric_heal(void *ctx, void *arg)
{
    struct fabric *f = ctx;

    (void)arg;
    for (unsigned i = 0; i < FABRIC_NODES; i++)
        f->c.nodes[i].side = 0;
}

static void fabric_cut(void *ctx, void *arg)
{
    struct fabric *f = ctx;
    uint64_t now = fabric_now(f);

    mem_free(arg);
    for (unsigned i = 0; i < FABRIC_NODES; i++)
        f->c.nodes[i].side = fabric_chance(f) < 0.3;
    vtime_at(&f->c.time, now + 3 * FABRIC_S, fabric_pings, f, NULL);
    vtime_at(&f->c.time, now + (uint64_t)((2 + 6 * fabric_chance(f)) * FABRIC_S), fabric_heal, f,
             NULL);
}

static void fabric_calm(void *ctx, void *arg)
{
    struct fabric *f = ctx;

    (void)arg;
    fabric_heal(f, NULL);
    f->loss = f->late = f->twice = f->c.loss = 0;
}

static void fabric_schedule(struct fabric *f, double from_s, double to_s, vtime_fn fn, uint32_t id)
{
    uint32_t *arg = mem_alloc(sizeof *arg);
    double at_s = from_s + (to_s - from_s) * fabric_chance(f);

    *arg = id;
    vtime_at(&f->c.time, (uint64_t)(at_s * FABRIC_S), fn, f, arg);
}

/* ---- what must hold at the end ---- */

static void fabric_check_fleet(struct fabric *f, unsigned i)
{
    const struct fleet *fleet = f->nodes[i].fleet;
    const struct fleet_stats *s = fleet_stats(fleet);

    if (s->errands != s->done + s->failed)
        fabric_wrong(f, "node %u: some errands have no end", i);
    if (s->calls != s->ended)
        fabric_wrong(f, "node %u: some calls have no end", i);
    for (uint16_t k = 1; k <= FABRIC_NODES; k++) {
        const struct breaker *b = fleet_breaker(fleet, k);
        if (fleet_in_flight(fleet, k))
            fabric_wrong(f, "node %u: calls to %u are still under way", i, k);
        if (!b || k == i + 1)
            continue;
        const struct breaker_stats *st = &b->stats;
        if (st->started != st->success + st->neutral + st->failure + st->late)
            fabric_wrong(f, "node %u: the breaker of %u does not add up", i, k);
        if (st->opened < st->closed || st->opened > st->closed + st->probes + 1)
            fabric_wrong(f, "node %u: the breaker of %u opened and closed oddly", i, k);
    }
}

static void fabric_check_gossip(struct fabric *f, unsigned i)
{
    const struct gossip *g = f->c.nodes[i].gossip;
    const struct gossip_stats *s = gossip_stats(g);

    if (s->received != s->taken + s->from_stranger + s->flooded + s->damaged)
        fabric_wrong(f, "node %u: gossip messages do not add up", i);
    if (s->items != s->accepted + s->stale + s->refused + s->strange)
        fabric_wrong(f, "node %u: gossip items do not add up", i);
    if (s->refused || s->damaged || s->from_stranger)
        fabric_wrong(f, "node %u: gossip refused what honest nodes said", i);
    for (size_t k = 0; k < gossip_count(g); k++) {
        const struct gossip_member *m = gossip_at(g, k);
        const struct gossip_member *self = gossip_self(f->c.nodes[m->id - 1].gossip);
        if (m->status != GOSSIP_ALIVE)
            fabric_wrong(f, "node %u sees %u as %s", i, m->id, gossip_status_name(m->status));
        if (m->boot != self->boot || m->versions[GOSSIP_STATE] != self->versions[GOSSIP_STATE])
            fabric_wrong(f, "node %u has an old state of %u", i, m->id);
    }
}

static void fabric_check_batch(struct fabric *f, struct fabric_batch *b)
{
    if (!b->scatter || !fabric_is_up(f, b->node, b->life))
        return;
    const struct scatter_stats *s = scatter_stats(b->scatter);
    if (!scatter_is_done(b->scatter) || b->next != b->rows)
        fabric_wrong(f, "a batch of %u rows gave out %u", b->rows, b->next);
    if (s->handed != s->answered + s->failures + s->expired || s->answered + s->failed != b->rows)
        fabric_wrong(f, "a batch's rows do not add up");
}

static void fabric_check(struct fabric *f)
{
    for (unsigned i = 0; i < FABRIC_REQUESTS; i++) {
        const struct fabric_request *r = &f->requests[i];
        bool is_lost = !fabric_is_up(f, r->node, r->life); /* the node that it came to is gone */
        f->lost += is_lost && !r->answers;
        if (!r->is_begun || (!r->answers && !is_lost))
            fabric_wrong(f, "request %u has no answer", i);
    }
    for (unsigned i = 0; i < FABRIC_BATCHES; i++)
        fabric_check_batch(f, &f->batches[i]);
    for (unsigned i = 0; i < FABRIC_NODES; i++) {
        if (!f->nodes[i].fleet) {
            fabric_wrong(f, "node %u did not start again", i);
            continue;
        }
        fabric_check_fleet(f, i);
        fabric_check_gossip(f, i);
    }
}

/* One life of a cluster. f is large: static or allocated. */
static inline void fabric_run(struct fabric *f, uint64_t seed, enum fabric_plant plant)
{
    memset(f, 0, sizeof *f);
    gossip_cluster_init(&f->c, FABRIC_NODES, seed);
    f->plant = plant;
    f->c.on_event = fabric_event;
    f->c.loss = 0.25 * fabric_chance(f);
    f->loss = 0.1 * fabric_chance(f);
    f->late = 0.1 * fabric_chance(f);
    f->twice = 0.05;
    for (unsigned i = 0; i < FABRIC_NODES; i++) {
        f->nodes[i].f = f;
        f->nodes[i].i = i;
        fabric_start(f, i);
    }
    for (uint32_t i = 0; i < FABRIC_REQUESTS; i++)
        fabric_schedule(f, 0, FABRIC_BUSY_S, fabric_begin_request, i);
    for (uint32_t i = 0; i < FABRIC_BATCHES; i++)
        fabric_schedule(f, 2, FABRIC_BUSY_S, fabric_begin_batch, i);
    for (unsigned i = 0; i < 2; i++)
        fabric_schedule(f, 3, FABRIC_BUSY_S, fabric_cut, 0);
    for (unsigned i = 0; i < 4; i++)
        fabric_schedule(f, 2, FABRIC_BUSY_S, fabric_crash, 0);
    vtime_at(&f->c.time, 30 * FABRIC_S, fabric_calm, f, NULL);
    vtime_run(&f->c.time, (uint64_t)FABRIC_END_S * FABRIC_S);
    fabric_check(f);

    for (unsigned i = 0; i < FABRIC_BATCHES; i++)
        scatter_free(f->batches[i].scatter);
    for (unsigned i = 0; i < FABRIC_NODES; i++)
        fleet_free(f->nodes[i].fleet);
    gossip_cluster_release(&f->c);
}

#endif
