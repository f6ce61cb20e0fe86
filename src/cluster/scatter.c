/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lot is a queue of rows that may go to the same shards: those of one group
 * that have not been tried, or those that one shard has failed. A lot has a home.
 *
 *   row  QUEUED --pull--> OUT --answer--> ENDED
 *          ^               |
 *          +--first failure+--second failure, or not retryable--> ENDED (error entry)
 *
 * How many rows a shard gets: at first its even share among those that have got
 * nothing yet, later its share of what is left, between chunk_min and chunk_max
 * and within its window. It takes from its own lots first, then from lots of
 * others what is more than their homes have room for, dearest accuracy last.
 *
 * Why not everything at once: with the whole batch admitted at a shard there is
 * nothing left that an idle one could take. Why not one by one: an engine that is
 * bound by memory bandwidth computes sixteen in the time of one.
 */
#include "cluster/scatter.h"
#include <math.h>

enum row_state { ROW_QUEUED, ROW_OUT, ROW_ANSWERED, ROW_FAILED };

enum { NONE = UINT32_MAX, ATTEMPTS_MAX = 2 };

struct row {
    enum row_state state;
    uint8_t attempts;
    uint16_t group;
    uint16_t shard; /* it is out at, or was last */
    enum errc code;
    uint32_t call;
    uint32_t next; /* in its lot */
};

struct lot {
    uint16_t group;
    int avoid; /* shard that has failed these rows; -1 = none */
    int home;  /* -1: nobody may serve it */
    uint32_t first, last, count;
};

struct call {
    uint16_t shard;
    uint32_t rows_out;
};

struct shard {
    bool is_paused, has_pulled;
    uint32_t in_flight;
};

struct scatter {
    struct scatter_settings set;
    uint64_t deadline_us;
    struct row *rows; /* owned, as the rest */
    size_t row_count, ended, next_out;
    struct shard *shards;
    size_t shard_count;
    struct scatter_group *groups;
    double *accuracy; /* group_count * shard_count */
    size_t group_count;
    struct lot *lots;
    size_t lot_count, lot_cap;
    struct call *calls; /* number n is at n - 1 */
    size_t call_count, call_cap;
    struct scatter_stats stats;
};

struct scatter_settings scatter_defaults(void)
{
    return (struct scatter_settings){ .chunk_min = 8,
                                      .chunk_max = 16,
                                      .window = 16,
                                      .window_alone = 64,
                                      .deadline_us = 30 * 1000000ull,
                                      .give_up_mean = 0.15 };
}

/* ---- who serves what ---- */

static double accuracy_of(const struct scatter *s, uint16_t group, unsigned shard)
{
    double a = s->accuracy[group * s->shard_count + shard];
    return isnan(a) ? 0 : a;
}

/* Whether it could, if it is not paused. */
static bool could_serve(const struct scatter *s, const struct lot *l, unsigned shard)
{
    if (l->avoid == (int)shard)
        return false;
    return !s->groups[l->group].is_pinned || !isnan(s->accuracy[l->group * s->shard_count + shard]);
}

static bool may_serve(const struct scatter *s, const struct lot *l, unsigned shard)
{
    return !s->shards[shard].is_paused && could_serve(s, l, shard);
}

/* Rows that have this shard as their home. */
static uint32_t queued_at(const struct scatter *s, int shard)
{
    uint32_t n = 0;

    for (size_t i = 0; i < s->lot_count; i++)
        n += s->lots[i].home == shard ? s->lots[i].count : 0;
    return n;
}

static int find_home(const struct scatter *s, const struct lot *l)
{
    int chosen = s->groups[l->group].home, best = -1;

    if (chosen >= 0 && may_serve(s, l, (unsigned)chosen))
        return chosen;
    for (size_t i = 0; i < s->shard_count; i++) {
        if (!may_serve(s, l, (unsigned)i))
            continue;
        double gain = best < 0 ? INFINITY
                               : accuracy_of(s, l->group, (unsigned)i) -
                                     accuracy_of(s, l->group, (unsigned)best);
        if (gain > 0 || (gain == 0 && queued_at(s, (int)i) < queued_at(s, best)))
            best = (int)i;
    }
    return best;
}

/* ---- lots ---- */

static struct lot *lot_for(struct scatter *s, uint16_t group, int avoid)
{
    for (size_t i = 0; i < s->lot_count; i++) {
        if (s->lots[i].group == group && s->lots[i].avoid == avoid)
            return &s->lots[i];
    }
    if (s->lot_count == s->lot_cap) {
        s->lot_cap = s->lot_cap ? s->lot_cap * 2 : 8;
        s->lots = mem_realloc(s->lots, s->lot_cap * sizeof *s->lots);
    }
    struct lot *l = &s->lots[s->lot_count++];
    *l = (struct lot){ .group = group, .avoid = avoid, .home = -1, .first = NONE, .last = NONE };
    l->home = find_home(s, l);
    return l;
}

static void push(struct scatter *s, struct lot *l, uint32_t row)
{
    s->rows[row].next = NONE;
    s->rows[row].state = ROW_QUEUED;
    if (l->last == NONE)
        l->first = row;
    else
        s->rows[l->last].next = row;
    l->last = row;
    l->count++;
}

static uint32_t pop(struct scatter *s, struct lot *l)
{
    uint32_t row = l->first;

    l->first = s->rows[row].next;
    if (l->first == NONE)
        l->last = NONE;
    l->count--;
    return row;
}

static void end_row(struct scatter *s, uint32_t row, enum row_state state, enum errc code)
{
    s->rows[row].state = state;
    s->rows[row].code = code;
    s->ended++;
    s->stats.answered += state == ROW_ANSWERED;
    s->stats.failed += state == ROW_FAILED;
}

/* A shard that could serve it is paused, but has rows of ours: it may come back. */
static bool may_hope(const struct scatter *s, const struct lot *l)
{
    for (size_t i = 0; i < s->shard_count; i++) {
        if (s->shards[i].in_flight && could_serve(s, l, (unsigned)i))
            return true;
    }
    return false;
}

/* Rows that nobody may serve end now, with the failure they had, if any. */
static void end_orphans(struct scatter *s)
{
    for (size_t i = 0; i < s->lot_count; i++) {
        struct lot *l = &s->lots[i];
        if (l->home >= 0 || !l->count || may_hope(s, l))
            continue;
        while (l->count) {
            uint32_t row = pop(s, l);
            enum errc code = s->rows[row].code != OK ? s->rows[row].code : ERR_BUSY;
            end_row(s, row, ROW_FAILED, code);
        }
    }
}

static void find_homes(struct scatter *s)
{
    for (size_t i = 0; i < s->lot_count; i++)
        s->lots[i].home = find_home(s, &s->lots[i]);
}

/* ---- life ---- */

static enum errc check_options(const struct scatter_options *o, struct error *err)
{
    const struct scatter_settings *set = &o->settings;

    if (o->row_count > SCATTER_ROWS_MAX)
        return fail(err, ERR_LIMIT, "a batch of %zu rows, at most %d are allowed", o->row_count,
                    SCATTER_ROWS_MAX);
    if (!o->shard_count || o->shard_count > SCATTER_SHARDS_MAX)
        return fail(err, ERR_INVALID, "a batch over %zu shards, 1 to %d are allowed",
                    o->shard_count, SCATTER_SHARDS_MAX);
    if (o->group_count > SCATTER_GROUPS_MAX)
        return fail(err, ERR_LIMIT, "a batch of %zu domains, at most %d are allowed",
                    o->group_count, SCATTER_GROUPS_MAX);
    if (!set->chunk_min || set->chunk_min > set->chunk_max || set->chunk_max > SCATTER_CHUNK_MAX ||
        set->window < set->chunk_min || set->window_alone < set->window)
        return fail(err, ERR_INVALID,
                    "chunks of %u to %u rows (1 to %d are allowed) in windows of %u and %u, which "
                    "must not fall",
                    set->chunk_min, set->chunk_max, SCATTER_CHUNK_MAX, set->window,
                    set->window_alone);
    for (size_t i = 0; i < o->row_count; i++) {
        if (o->groups_of_rows[i] >= o->group_count)
            return fail(err, ERR_INVALID, "row %zu is of group %u, there are %zu", i,
                        o->groups_of_rows[i], o->group_count);
    }
    for (size_t i = 0; i < o->group_count; i++) {
        if (o->groups[i].home >= (int)o->shard_count)
            return fail(err, ERR_INVALID, "group %zu is at shard %d, there are %zu", i,
                        o->groups[i].home, o->shard_count);
    }
    return OK;
}

enum errc scatter_new(struct scatter **out, const struct scatter_options *o, struct error *err)
{
    enum errc rc = check_options(o, err);

    *out = NULL;
    if (rc != OK)
        return rc;
    struct scatter *s = mem_zalloc(sizeof *s);
    s->set = o->settings;
    s->deadline_us = o->now_us + o->settings.deadline_us;
    s->row_count = o->row_count;
    s->shard_count = o->shard_count;
    s->group_count = o->group_count;
    s->rows = mem_zalloc(o->row_count * sizeof *s->rows);
    s->shards = mem_zalloc(o->shard_count * sizeof *s->shards);
    s->groups = mem_zalloc(o->group_count * sizeof *s->groups);
    s->accuracy = mem_zalloc(o->group_count * o->shard_count * sizeof *s->accuracy);
    for (size_t i = 0; i < o->group_count; i++) {
        s->groups[i] = o->groups[i];
        memcpy(s->accuracy + i * o->shard_count, o->groups[i].accuracy,
               o->shard_count * sizeof *s->accuracy);
    }
    for (size_t i = 0; i < o->row_count; i++) {
        s->rows[i].group = o->groups_of_rows[i];
        push(s, lot_for(s, o->groups_of_rows[i], -1), (uint32_t)i);
    }
    end_orphans(s);
    *out = s;
    return OK;
}

void scatter_free(struct scatter *s)
{
    if (!s)
        return;
    mem_free(s->rows);
    mem_free(s->shards);
    mem_free(s->groups);
    mem_free(s->accuracy);
    mem_free(s->lots);
    mem_free(s->calls);
    mem_free(s);
}

bool scatter_is_done(const struct scatter *s)
{
    return s->ended == s->row_count;
}

uint64_t scatter_deadline_us(const struct scatter *s)
{
    return s->deadline_us;
}

const struct scatter_stats *scatter_stats(const struct scatter *s)
{
    return &s->stats;
}

/* ---- handing out ---- */

static unsigned room_in(const struct scatter *s, int shard, unsigned window)
{
    uint32_t in_flight = s->shards[shard].in_flight;
    return in_flight < window ? window - in_flight : 0;
}

static unsigned room_of(const struct scatter *s, int shard)
{
    return room_in(s, shard, s->set.window);
}

/* Rows of a lot beyond what its home has room for now. */
static uint32_t excess_of(const struct scatter *s, const struct lot *l)
{
    uint32_t queued = queued_at(s, l->home), room = room_of(s, l->home);
    uint32_t excess = queued > room ? queued - room : 0;

    return excess < l->count ? excess : l->count;
}

/* What a row of the lot loses when this shard takes it. */
static double loss_at(const struct scatter *s, const struct lot *l, unsigned shard)
{
    double loss = accuracy_of(s, l->group, (unsigned)l->home) - accuracy_of(s, l->group, shard);
    return loss > 0 ? loss : 0;
}

/* Accuracy that the batch may still give up. */
static double left_to_give(const struct scatter *s)
{
    return s->set.give_up_mean * (double)s->row_count - s->stats.given_up;
}

/* Nobody but its home may take its rows. */
static bool is_alone(const struct scatter *s, const struct lot *l)
{
    if (s->groups[l->group].is_pinned)
        return true;
    for (size_t i = 0; i < s->shard_count; i++) {
        if ((int)i != l->home && may_serve(s, l, (unsigned)i) &&
            loss_at(s, l, (unsigned)i) <= left_to_give(s))
            return false;
    }
    return true;
}

/* How many of a lot of another this shard may take. */
static uint32_t stealable(const struct scatter *s, const struct lot *l, unsigned shard)
{
    if (!l->count || l->home == (int)shard || s->groups[l->group].is_pinned ||
        !may_serve(s, l, shard))
        return 0;
    uint32_t excess = excess_of(s, l);
    double loss = loss_at(s, l, shard);
    double left = left_to_give(s);
    if (loss > 0 && loss * excess > left)
        excess = left > 0 ? (uint32_t)(left / loss + 1e-9) : 0;
    return excess;
}

/* Its part of what is left, by the rule above. */
static unsigned share_of(const struct scatter *s, unsigned shard)
{
    size_t left = 0, usable = 0, fresh = 0;

    for (size_t i = 0; i < s->lot_count; i++)
        left += s->lots[i].count;
    for (size_t i = 0; i < s->shard_count; i++) {
        usable += !s->shards[i].is_paused;
        fresh += !s->shards[i].is_paused && !s->shards[i].has_pulled;
    }
    size_t parts = s->shards[shard].has_pulled ? usable : fresh; /* it is one of them */
    size_t share = parts ? (left + parts - 1) / parts : 0;
    share = share > s->set.chunk_min ? share : s->set.chunk_min;
    return (unsigned)(share < s->set.chunk_max ? share : s->set.chunk_max);
}

static void hand_out(struct scatter *s, struct lot *l, unsigned shard, struct scatter_chunk *out)
{
    uint32_t row = pop(s, l);
    struct row *r = &s->rows[row];

    r->state = ROW_OUT;
    r->attempts++;
    r->shard = (uint16_t)shard;
    r->call = out->call;
    out->rows[out->count++] = row;
    s->stats.handed++;
}

/* Up to share rows, of lots that are its alone up to share_alone. */
static void take_own(struct scatter *s, unsigned shard, unsigned share, unsigned share_alone,
                     struct scatter_chunk *out)
{
    for (size_t i = 0; i < s->lot_count; i++) {
        struct lot *l = &s->lots[i];
        if (l->home != (int)shard || !l->count)
            continue;
        unsigned most = share < share_alone && is_alone(s, l) ? share_alone : share;
        while (out->count < most && l->count)
            hand_out(s, l, shard, out);
    }
}

/* The lot with the least loss, then the most rows to take. */
static struct lot *best_to_steal(struct scatter *s, unsigned shard, uint32_t *most)
{
    struct lot *best = NULL;

    for (size_t i = 0; i < s->lot_count; i++) {
        struct lot *l = &s->lots[i];
        uint32_t n = stealable(s, l, shard);
        if (!n)
            continue;
        double gain = best ? loss_at(s, best, shard) - loss_at(s, l, shard) : 1;
        if (gain > 0 || (gain == 0 && n > *most)) {
            best = l;
            *most = n;
        }
    }
    return best;
}

static void take_others(struct scatter *s, unsigned shard, unsigned share,
                        struct scatter_chunk *out)
{
    uint32_t most = 0;
    struct lot *l;

    while (out->count < share && (l = best_to_steal(s, shard, &most))) {
        for (; most && out->count < share; most--) {
            s->stats.given_up += loss_at(s, l, shard);
            s->stats.stolen++;
            hand_out(s, l, shard, out);
        }
    }
}

/* With rows in hand it waits for room for a decent chunk, unless there are fewer left. */
static bool should_wait(const struct scatter *s, unsigned shard, unsigned room)
{
    uint32_t available = queued_at(s, (int)shard);

    if (!s->shards[shard].in_flight || room >= s->set.chunk_min)
        return false;
    for (size_t i = 0; i < s->lot_count && available <= room; i++)
        available += stealable(s, &s->lots[i], shard);
    return available > room;
}

static uint32_t call_new(struct scatter *s)
{
    if (s->call_count == s->call_cap) {
        s->call_cap = s->call_cap ? s->call_cap * 2 : 16;
        s->calls = mem_realloc(s->calls, s->call_cap * sizeof *s->calls);
    }
    return (uint32_t)s->call_count + 1;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

bool scatter_pull(struct scatter *s, unsigned shard, struct scatter_chunk *out)
{
    assert(shard < s->shard_count);
    struct shard *sh = &s->shards[shard];
    unsigned room = room_of(s, (int)shard);

    out->count = 0;
    end_orphans(s);
    if (sh->is_paused)
        return false;
    if (room && should_wait(s, shard, room))
        room = 0;
    unsigned share = share_of(s, shard);
    unsigned alone = least(share, room_in(s, (int)shard, s->set.window_alone));
    share = least(share, room);
    out->call = call_new(s);
    take_own(s, shard, share, alone, out);
    take_others(s, shard, share, out);
    if (!out->count)
        return false;
    s->calls[s->call_count++] = (struct call){ (uint16_t)shard, out->count };
    sh->in_flight += out->count;
    sh->has_pulled = true;
    s->stats.chunks++;
    return true;
}

/* ---- gathering ---- */

/* The row leaves its call; false: it is not, or no longer, out in that call. */
static bool take_back(struct scatter *s, uint32_t call, uint32_t row)
{
    if (row >= s->row_count || !call || call > s->call_count || s->rows[row].state != ROW_OUT ||
        s->rows[row].call != call) {
        s->stats.late++;
        return false;
    }
    struct call *c = &s->calls[call - 1];
    assert(c->rows_out && s->shards[c->shard].in_flight);
    c->rows_out--;
    s->shards[c->shard].in_flight--;
    return true;
}

bool scatter_answer(struct scatter *s, uint32_t call, uint32_t row)
{
    if (!take_back(s, call, row))
        return false;
    end_row(s, row, ROW_ANSWERED, OK);
    return true;
}

void scatter_row_failed(struct scatter *s, uint32_t call, uint32_t row, enum errc code,
                        bool is_retryable)
{
    if (!take_back(s, call, row))
        return;
    struct row *r = &s->rows[row];
    s->stats.failures++;
    r->code = code;
    if (!is_retryable || r->attempts >= ATTEMPTS_MAX) {
        end_row(s, row, ROW_FAILED, code);
        return;
    }
    s->stats.retried++;
    push(s, lot_for(s, r->group, r->shard), row);
    end_orphans(s);
}

void scatter_call_failed(struct scatter *s, uint32_t call, enum errc code)
{
    if (!call || call > s->call_count)
        return;
    for (uint32_t row = 0; row < s->row_count && s->calls[call - 1].rows_out; row++) {
        if (s->rows[row].state == ROW_OUT && s->rows[row].call == call)
            scatter_row_failed(s, call, row, code, true);
    }
}

static void set_paused(struct scatter *s, unsigned shard, bool is_paused)
{
    assert(shard < s->shard_count);
    if (s->shards[shard].is_paused == is_paused)
        return;
    s->shards[shard].is_paused = is_paused;
    find_homes(s);
    end_orphans(s);
}

void scatter_shard_pause(struct scatter *s, unsigned shard)
{
    set_paused(s, shard, true);
}

void scatter_shard_resume(struct scatter *s, unsigned shard)
{
    set_paused(s, shard, false);
}

void scatter_expire(struct scatter *s, uint64_t now_us)
{
    if (now_us < s->deadline_us)
        return;
    for (uint32_t row = 0; row < s->row_count; row++) {
        struct row *r = &s->rows[row];
        if (r->state == ROW_OUT && take_back(s, r->call, row))
            s->stats.expired++;
        else if (r->state != ROW_QUEUED)
            continue;
        end_row(s, row, ROW_FAILED, ERR_TIMEOUT);
    }
    for (size_t i = 0; i < s->lot_count; i++) {
        s->lots[i].first = s->lots[i].last = NONE;
        s->lots[i].count = 0;
    }
}

bool scatter_next(struct scatter *s, struct scatter_result *out)
{
    if (s->next_out == s->row_count || s->rows[s->next_out].state < ROW_ANSWERED)
        return false;
    const struct row *r = &s->rows[s->next_out];
    *out = (struct scatter_result){ .row = (uint32_t)s->next_out,
                                    .is_answer = r->state == ROW_ANSWERED,
                                    .code = r->code,
                                    .shard = r->shard,
                                    .attempts = r->attempts };
    s->next_out++;
    return true;
}
