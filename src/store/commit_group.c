/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From requests to the disk: each request of a group is checked against those
 * before it and given a number; the batches of those that pass become one, with
 * a record of the log for each and every counter once, since only its last value
 * can be read.
 */
#include "store/commit_private.h"

#include "base/env.h"
#include "base/key.h"
#include "base/metrics.h"

enum { SYNC_DELAY_US = 100 * 1000 }; /* unsynced commits are durable after this */

static struct metric sync_seconds =
    METRIC_HISTOGRAM("themis_commit_sync_seconds", "Writing and syncing one group.");

void group_register_metrics(void)
{
    metric_register(&sync_seconds);
}

/* ---- one transaction in a group ---- */

enum errc group_check_window(struct committer *c, struct commit_request *r, struct error *err)
{
    if (r->kind == COMMIT_RESOLVE)
        return OK;
    switch (trail_check(c->trail, &r->position, r->reads, &r->conflict)) {
    case TRAIL_CLEAR:
        return OK;
    case TRAIL_CONFLICT:
        return fail(err, ERR_CONFLICT, "write-write conflict");
    case TRAIL_FORGOTTEN:
        buf_clear(&r->conflict);
        return fail(err, ERR_CONFLICT,
                    "the transaction is older than the conflict window; start it again");
    }
    return OK;
}

static void add_to_trail(struct committer *c, struct slice batch)
{
    struct kv_record record;
    for (size_t at = 0; kv_batch_next(batch, &at, &record);)
        trail_add(c->trail, record.family, record.key);
}

/* Against transactions that are prepared, then what the request does to them. */
static enum errc check_prepared(struct committer *c, struct commit_request *r, struct error *err)
{
    struct prepared_table *t = c->parts.prepared;
    bool is_prepare = r->kind == COMMIT_PREPARE;
    if (r->kind == COMMIT_RESOLVE)
        return prepared_end(t, r->name, c->seq + 1, r->is_decided, err);
    enum errc rc = prepared_check(t, is_prepare ? r->pending : buf_slice(&r->batch.bytes),
                                  is_prepare ? r->reads : NULL, &r->conflict, err);
    r->is_held = rc == ERR_CONFLICT;
    return rc == OK && is_prepare ? prepared_may_add(t, r->prepare, err) : rc;
}

/* The record is on its way in this group: later requests meet the entry. */
static void enter_prepared(struct committer *c, struct commit_request *r)
{
    prepared_add(c->parts.prepared, r->prepare, r->seq);
    r->prepare = NULL;
}

static enum errc admit(struct committer *c, struct commit_request *r, struct error *err)
{
    enum errc rc = OK;
    if (c->is_failed)
        return fail(err, ERR_IO, "the store stopped writing after a failed sync");
    if (!r->is_removal)
        TRY(disk_check_space(c->parts.disk, err));
    TRY(group_check_window(c, r, err));
    TRY(counter_table_load(c->counters, r->counters, r->counter_count, err));
    TRY(check_prepared(c, r, err));
    r->seq = ++c->seq;
    if (r->kind == COMMIT_PREPARE)
        enter_prepared(c, r);
    if (!r->is_derived)
        add_to_trail(c, buf_slice(&r->batch.bytes));
    kv_batch_append(&c->joined, buf_slice(&r->batch.bytes));
    counter_table_apply(c->counters, r->counters, r->counter_count, &r->batch);
    change_log_add(c->parts.log, r->seq, buf_slice(&r->batch.bytes), r->catalog != NULL,
                   &c->joined);
out:
    return rc;
}

/* ---- the group ---- */

static enum errc write_group(struct committer *c, struct group *g, struct error *err)
{
    uint64_t start = env_mono_us(env_system());
    counter_table_flush(c->counters, &c->joined);
    ids_cover(c->parts.ids, &c->joined);
    enum errc rc = kv_write(c->parts.kv, &c->joined, g->is_synced, err);
    uint64_t took = env_mono_us(env_system()) - start;
    metric_observe_us(&sync_seconds, took);
    c->write_us = (c->write_us * 9 + took) / 10;
    if (rc != OK)
        return rc;
    g->is_written = true;
    if (g->is_synced)
        c->sync_due_us = 0;
    else if (!c->sync_due_us)
        c->sync_due_us = start + SYNC_DELAY_US;
    return OK;
}

static enum errc stage_group(struct committer *c, const struct group *g, struct error *err)
{
    for (struct commit_sink *s = c->sinks; s; s = s->next) {
        for (const struct commit_request *r = g->first; r; r = r->next) {
            if (r->rc != OK || !s->stage)
                continue;
            enum errc rc = s->stage(s->ctx, r->seq, buf_slice(&r->batch.bytes), err);
            if (rc != OK)
                return rc;
        }
    }
    return OK;
}

/* A full disk has taken nothing, so the numbers are given again; all else is unknown until the next start. */
bool group_is_unknown(const struct group *g, enum errc rc)
{
    return rc != OK && (g->is_written || rc != ERR_LIMIT);
}

static void fail_group(struct committer *c, struct group *g, const struct error *why)
{
    const char *outcome = group_is_unknown(g, why->code) ? "the outcome of the commit is unknown"
                                                         : "nothing of the commit was written";
    if (!g->is_written) {
        c->seq -= g->accepted;
        change_log_rewind(c->parts.log, c->seq);
        ids_uncover(c->parts.ids);
    }
    g->accepted = 0;
    for (struct commit_request *r = g->first; r; r = r->next) {
        if (r->rc != OK)
            continue;
        r->err = *why;
        r->rc = wrap(&r->err, "%s", outcome);
    }
    counter_table_forget(c->counters);
}

void group_settle(struct committer *c, const struct group *g)
{
    for (const struct commit_request *r = g->first; r; r = r->next) {
        bool was_admitted = r->seq != 0;
        if (!was_admitted)
            continue;
        if (r->kind == COMMIT_RESOLVE)
            prepared_settle(c->parts.prepared, r->name, r->rc == OK);
        else if (r->kind == COMMIT_PREPARE && r->rc != OK)
            prepared_take_back(c->parts.prepared, r->name);
    }
}

enum errc group_commit(struct committer *c, struct group *g, struct error *err)
{
    enum errc rc = OK;
    kv_batch_clear(&c->joined);
    for (struct commit_request *r = g->first; r; r = r->next) {
        r->rc = admit(c, r, &r->err);
        if (r->rc != OK)
            continue;
        g->accepted++;
        g->is_synced |= !r->no_sync;
        if (r->catalog)
            g->catalog = r->catalog;
    }
    if (!g->accepted)
        return OK;
    TRY(write_group(c, g, err));
    TRY(stage_group(c, g, err));
    if (g->is_synced)
        disk_mark(c->parts.disk, c->seq);
out:
    if (rc != OK)
        fail_group(c, g, err);
    return rc;
}
