/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of open cursors, found by a linear walk: there are at most a
 * thousand and most answers fit their first batch, which needs none.
 */
#include "server/cursor.h"
#include "base/env.h"
#include <pthread.h>
#include <stdio.h>

enum { ID_BITS = 48 };

struct cursor {
    uint64_t id;
    struct query *query;
    struct cursor_options opt;
    char *user; /* owned; opt.user points to it */
    uint64_t expires_ms;
    size_t from, previous; /* first row of the next batch, of the last one */
    uint64_t next_batch_id;
    bool is_busy, is_spent;
    struct cursor *next;
};

struct cursors {
    pthread_mutex_t lock;
    struct cursor *first;
    size_t count, max;
    uint64_t node;
};

struct cursors *cursors_new(size_t max, uint64_t node)
{
    struct cursors *c = mem_zalloc(sizeof *c);

    pthread_mutex_init(&c->lock, NULL);
    c->max = max;
    c->node = node;
    return c;
}

static void cursor_free(struct cursor *c)
{
    query_free(c->query);
    mem_free(c->user);
    mem_free(c);
}

void cursors_free(struct cursors *c)
{
    if (!c)
        return;
    while (c->first) {
        struct cursor *next = c->first->next;
        cursor_free(c->first);
        c->first = next;
    }
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

/* Lock held. */
static uint64_t fresh_id(const struct cursors *c)
{
    for (;;) {
        uint64_t id = c->node << ID_BITS | env_random_u64(env_system()) >> (64 - ID_BITS);
        const struct cursor *same = c->first;
        while (same && same->id != id)
            same = same->next;
        if (!same && id)
            return id;
    }
}

enum errc cursors_add(struct cursors *c, struct query *q, const struct cursor_options *opt,
                      uint64_t *id, struct error *err)
{
    struct cursor *one = mem_zalloc(sizeof *one);

    *one = (struct cursor){
        .query = q, .opt = *opt, .expires_ms = opt->now_ms + opt->ttl_ms, .next_batch_id = 1
    };
    one->user = mem_alloc(opt->user.len + 1);
    memcpy(one->user, opt->user.ptr, opt->user.len);
    one->opt.user = slice_of(one->user, opt->user.len);
    pthread_mutex_lock(&c->lock);
    bool has_room = c->count < c->max;
    if (has_room) {
        *id = one->id = fresh_id(c);
        one->next = c->first;
        c->first = one;
        c->count++;
    }
    pthread_mutex_unlock(&c->lock);
    if (has_room)
        return OK;
    cursor_free(one);
    return fail_num(err, 32, "there are %zu open cursors, which is the limit (max_cursors)",
                    c->max);
}

/* Takes it out of the list when asked. Lock held. */
static struct cursor **cursor_find(struct cursors *c, const struct cursor_name *name)
{
    struct cursor **at = &c->first;

    while (*at && ((*at)->id != name->id || (*at)->opt.db_id != name->db_id ||
                   !slice_eq((*at)->opt.user, name->user)))
        at = &(*at)->next;
    return at;
}

static enum errc unknown(uint64_t id, struct error *err)
{
    return fail_num(err, 1600, "cursor '%llu' not found", (unsigned long long)id);
}

/* Rows and time of each node, with profile 2. */
static void put_nodes(struct val_builder *b, const struct query *q)
{
    size_t count;
    const struct query_node_stats *nodes = query_nodes(q, &count);

    if (!count)
        return;
    val_put_name(b, slice_str("nodes"));
    val_open_array(b);
    for (size_t i = 0; i < count; i++) {
        val_open_object(b);
        val_put_name(b, slice_str("id"));
        val_put_int(b, nodes[i].id);
        val_put_name(b, slice_str("calls"));
        val_put_int(b, (int64_t)nodes[i].calls);
        val_put_name(b, slice_str("items"));
        val_put_int(b, (int64_t)nodes[i].items);
        val_put_name(b, slice_str("runtime"));
        val_put_double(b, nodes[i].seconds);
        val_close(b);
    }
    val_close(b);
}

static void put_profile(struct val_builder *b, const struct query *q)
{
    if (!query_phase_count(q))
        return;
    val_put_name(b, slice_str("profile"));
    val_open_object(b);
    for (size_t i = 0; i < query_phase_count(q); i++) {
        struct query_phase phase = query_phase(q, i);
        val_put_name(b, slice_str(phase.name));
        val_put_double(b, phase.seconds);
    }
    val_close(b);
}

struct val query_warnings(const struct query *q, struct arena *arena)
{
    const struct slice names[] = { slice_str("code"), slice_str("message") };
    size_t count = query_warning_count(q);
    struct val *items = arena_alloc(arena, (count + 1) * sizeof *items);

    for (size_t i = 0; i < count; i++) {
        const struct query_warning *w = query_warning(q, i);
        struct val values[] = { val_new_int(arena, w->num),
                                val_new_string(arena, slice_str(w->text)) };
        items[i] = val_new_object(arena, names, values, ARRAY_LEN(values));
    }
    return val_new_array(arena, items, count);
}

static struct val put_extra(struct query *q, struct arena *arena, struct val plan)
{
    const struct query_stats *s = query_stats(q);
    struct val_builder *b = val_builder_new(0);
    struct val out = val_null;

    val_open_object(b);
    val_put_name(b, slice_str("warnings"));
    val_put(b, query_warnings(q, arena));
    val_put_name(b, slice_str("stats"));
    val_open_object(b);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        { "writesExecuted", s->writes_executed },
        { "writesIgnored", s->writes_ignored },
        { "documentLookups", s->document_lookups },
        { "scannedFull", s->scanned_full },
        { "scannedIndex", s->scanned_index },
        { "filtered", s->filtered },
        { "peakMemoryUsage", s->peak_memory },
        { "fullCount", s->full_count },
        { "modelCalls", s->calls },
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        val_put_name(b, slice_str(rows[i].name));
        val_put_int(b, (int64_t)rows[i].value);
    }
    val_put_name(b, slice_str("httpRequests"));
    val_put_int(b, 0);
    val_put_name(b, slice_str("executionTime"));
    val_put_double(b, (double)s->execution_us / 1e6);
    put_nodes(b, q);
    val_close(b);
    put_profile(b, q);
    if (!val_is_null(plan)) {
        val_put_name(b, slice_str("plan"));
        val_put(b, plan);
    }
    val_close(b);
    if (val_finish_in(b, arena, &out, NULL) != OK)
        out = val_null;
    val_builder_free(b);
    return out;
}

struct val query_answer(struct query *q, struct arena *arena, size_t from, size_t count,
                        const struct cursor_options *opt, uint64_t id, uint64_t batch_id,
                        bool has_more)
{
    struct slice names[10];
    struct val values[10];
    size_t n = 0;
    struct val *rows = arena_alloc(arena, (count + 1) * sizeof *rows);

    for (size_t i = 0; i < count; i++)
        rows[i] = query_row(q, from + i);
#define MEMBER(name, value) (names[n] = slice_str(name), values[n++] = (value))
    MEMBER("result", val_new_array(arena, rows, count));
    MEMBER("hasMore", val_new_bool(has_more));
    if (id)
        MEMBER("id", val_new_string(
                         arena, slice_str(arena_printf(arena, "%llu", (unsigned long long)id))));
    if (has_more)
        MEMBER("nextBatchId",
               val_new_string(
                   arena, slice_str(arena_printf(arena, "%llu", (unsigned long long)batch_id))));
    if (opt->has_count)
        MEMBER("count", val_new_int(arena, (int64_t)query_row_count(q)));
    MEMBER("cached", val_false);
    MEMBER("extra", put_extra(q, arena, opt->plan));
    MEMBER("error", val_false);
    MEMBER("code", val_new_int(arena, from == 0 ? 201 : 200));
#undef MEMBER
    return val_new_object(arena, names, values, n);
}

/* Decides which rows a call gets. Lock held. */
static enum errc batch_choose(struct cursor *one, uint64_t batch_id, size_t *from,
                              struct error *err)
{
    *from = one->from;
    if (batch_id == 0 || batch_id == one->next_batch_id) {
        if (one->is_spent)
            return unknown(one->id, err);
        return OK;
    }
    if (one->opt.allow_retry && batch_id + 1 == one->next_batch_id) {
        *from = one->previous;
        return OK;
    }
    return fail_num(err, 1600, "batch %llu of cursor '%llu' not found",
                    (unsigned long long)batch_id, (unsigned long long)one->id);
}

enum errc cursors_next(struct cursors *c, const struct cursor_name *name, uint64_t batch_id,
                       uint64_t now_ms, struct arena *arena, struct val *body, struct error *err)
{
    enum errc rc = OK;
    uint64_t id = name->id;
    size_t from = 0;

    pthread_mutex_lock(&c->lock);
    struct cursor *one = *cursor_find(c, name);
    if (!one)
        rc = unknown(id, err);
    else if (one->is_busy)
        rc = fail_num(err, 1601, "cursor '%llu' is busy", (unsigned long long)id);
    else
        rc = batch_choose(one, batch_id, &from, err);
    if (rc == OK)
        one->is_busy = true;
    pthread_mutex_unlock(&c->lock);
    if (rc != OK)
        return rc;

    size_t rows = query_row_count(one->query), left = rows - from;
    size_t count = left < one->opt.batch_size ? left : one->opt.batch_size;
    bool has_more = count < left;
    bool is_again = from != one->from;
    *body = query_answer(one->query, arena, from, count, &one->opt, has_more ? id : 0,
                         one->next_batch_id + !is_again, has_more);
    /* The rows must outlive the cursor, which may be gone before they are printed. */
    *body = val_copy(arena, *body);

    one->opt.plan = val_null; /* it was for the first batch, which the same request takes */

    pthread_mutex_lock(&c->lock);
    if (!is_again) {
        one->previous = from;
        one->from = from + count;
        one->next_batch_id++;
        one->is_spent = !has_more;
    }
    one->is_busy = false;
    one->expires_ms = now_ms + one->opt.ttl_ms;
    struct cursor *gone = NULL;
    if (one->is_spent && !one->opt.allow_retry) {
        struct cursor **at = cursor_find(c, name);
        *at = one->next;
        c->count--;
        gone = one;
    }
    pthread_mutex_unlock(&c->lock);
    if (gone)
        cursor_free(gone);
    return OK;
}

enum errc cursors_remove(struct cursors *c, const struct cursor_name *name, struct error *err)
{
    enum errc rc = OK;
    struct cursor *gone = NULL;

    pthread_mutex_lock(&c->lock);
    struct cursor **at = cursor_find(c, name);
    if (!*at) {
        rc = unknown(name->id, err);
    } else if ((*at)->is_busy) {
        rc = fail_num(err, 1601, "cursor '%llu' is busy", (unsigned long long)name->id);
    } else {
        gone = *at;
        *at = gone->next;
        c->count--;
    }
    pthread_mutex_unlock(&c->lock);
    if (gone)
        cursor_free(gone);
    return rc;
}

void cursors_expire(struct cursors *c, uint64_t now_ms)
{
    struct cursor *gone = NULL;

    pthread_mutex_lock(&c->lock);
    for (struct cursor **at = &c->first; *at;) {
        struct cursor *one = *at;
        if (one->is_busy || one->expires_ms > now_ms) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        c->count--;
        one->next = gone;
        gone = one;
    }
    pthread_mutex_unlock(&c->lock);
    while (gone) {
        struct cursor *next = gone->next;
        cursor_free(gone);
        gone = next;
    }
}

size_t cursors_count(struct cursors *c)
{
    pthread_mutex_lock(&c->lock);
    size_t n = c->count;
    pthread_mutex_unlock(&c->lock);
    return n;
}
