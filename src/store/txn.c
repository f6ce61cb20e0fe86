/* SPDX-License-Identifier: Apache-2.0 */
#include "store/txn.h"

#include <inttypes.h>

#include "base/key.h"
#include "store/txn_private.h"

/* For those who ask: expressions of computed values. */
enum { SCRATCH_BYTES_MAX = 64 * MIB };

static const uint64_t default_max_bytes = 512 * (uint64_t)MIB;

enum errc txn_begin(struct txn **out, struct store *s, const struct txn_options *opt,
                    struct error *err)
{
    (void)err;
    struct txn *t = mem_zalloc(sizeof *t);
    t->store = s;
    if (opt)
        t->options = *opt;
    if (!t->options.max_bytes)
        t->options.max_bytes = default_max_bytes;
    if (s->settings && !s->settings->sync_writes)
        t->options.no_sync = true;
    t->must_sync = t->options.must_sync;
    if (t->options.access)
        t->options.access->ref(t->options.access);
    t->writes = write_set_new();
    t->sees_until = TXN_SEES_ALL;
    t->reads = read_set_new();
    t->view = committer_view(s->committer);
    *out = t;
    return OK;
}

void txn_end(struct txn *t)
{
    if (!t)
        return;
    if (t->iters)
        BUG("a transaction ends before its iterators");
    committer_release(t->store->committer, t->view);
    if (t->options.access)
        t->options.access->unref(t->options.access);
    write_set_free(t->writes);
    read_set_free(t->reads);
    mem_free(t->counters);
    val_builder_free(t->builder);
    arena_free(t->scratch);
    mem_free(t);
}

const struct catalog *txn_catalog(const struct txn *t)
{
    return t->view->catalog;
}

struct store *txn_store(const struct txn *t)
{
    return t->store;
}

uint64_t txn_view_seq(const struct txn *t)
{
    return t->view->seq;
}

uint64_t txn_commit_seq(const struct txn *t)
{
    return t->commit_seq;
}

bool txn_has_writes(const struct txn *t)
{
    return !write_set_is_empty(t->writes);
}

uint64_t txn_write_bytes(const struct txn *t)
{
    return write_set_bytes(t->writes);
}

size_t txn_mark(const struct txn *t)
{
    return (size_t)write_set_mark(t->writes);
}

void txn_rewind(struct txn *t, size_t mark)
{
    write_set_rewind(t->writes, mark);
    while (t->counter_count && t->counters[t->counter_count - 1].mark >= mark)
        t->counter_count--;
}

size_t txn_see_until(struct txn *t, size_t mark)
{
    size_t before = (size_t)t->sees_until;
    t->sees_until = mark;
    return before;
}

/* ---- keys ---- */

static bool is_serializable(const struct txn *t)
{
    return t->options.isolation == ISOLATION_SERIALIZABLE && !t->options.is_read_only;
}

static enum errc check_budget(const struct txn *t, struct error *err)
{
    uint64_t used = write_set_bytes(t->writes);
    if (is_serializable(t))
        used += read_set_bytes(t->reads);
    if (used <= t->options.max_bytes)
        return OK;
    return fail(err, ERR_LIMIT, "the transaction is larger than its limit of %" PRIu64 " bytes",
                t->options.max_bytes);
}

enum errc txn_get(struct txn *t, enum kv_family f, struct slice key, struct arena *arena,
                  struct slice *value, struct error *err)
{
    const struct write_entry *own = write_set_get(t->writes, f, key, t->sees_until);
    if (own) {
        if (own->is_delete)
            return ERR_NOT_FOUND;
        *value = arena_copy(arena, own->value); /* may outlive the transaction */
        return OK;
    }
    if (is_serializable(t)) {
        read_set_add_key(t->reads, f, key);
        enum errc rc = check_budget(t, err);
        if (rc != OK)
            return rc;
    }
    enum errc rc = prepared_wait_key(t->store->prepared, t->view->seq, f, key, err);
    if (rc != OK)
        return rc;
    return kv_get(t->store->kv, t->view->snapshot, f, key, arena, value, err);
}

static enum errc check_write(const struct txn *t, struct error *err)
{
    if (t->options.is_read_only)
        return fail(err, ERR_INVALID, "the transaction is read-only");
    if (t->is_over)
        return fail(err, ERR_INVALID, "the transaction is over");
    return check_budget(t, err);
}

enum errc txn_put(struct txn *t, enum kv_family f, struct slice key, struct slice value,
                  struct error *err)
{
    enum errc rc = check_write(t, err);
    if (rc == OK)
        write_set_put(t->writes, f, key, value);
    return rc;
}

enum errc txn_delete(struct txn *t, enum kv_family f, struct slice key, struct error *err)
{
    enum errc rc = check_write(t, err);
    if (rc == OK)
        write_set_delete(t->writes, f, key);
    return rc;
}

/* ---- counters, guards, ranges ---- */

static void add_counter(struct txn *t, enum counter_kind kind, uint64_t id, int64_t value)
{
    if (t->counter_count == t->counter_cap) {
        t->counter_cap = t->counter_cap ? t->counter_cap * 2 : 4;
        t->counters = mem_realloc(t->counters, t->counter_cap * sizeof *t->counters);
    }
    t->counters[t->counter_count++] =
        (struct counter_change){ kind, id, value, write_set_tick(t->writes) };
}

void txn_add_count(struct txn *t, uint64_t object_id, int64_t delta)
{
    add_counter(t, COUNTER_DOCUMENTS, object_id, delta);
}

void txn_note_increment(struct txn *t, uint64_t collection_id, int64_t value)
{
    add_counter(t, COUNTER_INCREMENT, collection_id, value);
}

static void guard_key(struct buf *out, uint64_t collection_id)
{
    buf_add_str(out, "guard/");
    key_add_u64(out, collection_id);
}

static void guard(struct txn *t, const struct collection *c)
{
    struct buf key;
    for (size_t i = 0; i < t->guard_count && i < GUARDS_REMEMBERED; i++)
        if (t->guards[i] == c->id)
            return;
    t->guards[t->guard_count++ % GUARDS_REMEMBERED] = c->id;
    buf_init(&key, 0);
    guard_key(&key, c->id);
    txn_watch(t, KV_META, buf_slice(&key));
    buf_release(&key);
}

static bool holds(const uint64_t *ids, size_t count, uint64_t id)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static enum errc check_scope(const struct txn *t, const struct collection *c, bool is_write,
                             struct error *err)
{
    const struct txn_scope *s = t->options.scope;
    if (!s || (s->reads_any && !is_write) || holds(s->write, s->write_count, c->id))
        return OK;
    if (!is_write && holds(s->read, s->read_count, c->id))
        return OK;
    return fail_num(err, 1652, "collection '%.*s' was not declared for %s in this transaction",
                    SLICE_ARG(c->name), is_write ? "writing" : "reading");
}

static enum errc ask_access(struct txn *t, const struct collection *c, enum access_level need,
                            uint64_t *allowed, struct error *err)
{
    const struct access_rights *a = t->options.access;
    if (!a || *allowed == c->id)
        return OK;
    enum errc rc = a->allow(a, catalog_database_by_id(t->view->catalog, c->db_id), c, need, err);
    if (rc == OK)
        *allowed = c->id;
    return rc;
}

enum errc txn_open_write(struct txn *t, const struct collection *c, struct error *err)
{
    enum errc rc = ask_access(t, c, ACCESS_WRITE, &t->write_allowed, err);
    if (rc == OK)
        rc = check_scope(t, c, true, err);
    if (rc == OK)
        guard(t, c);
    return rc;
}

enum errc txn_open_read(struct txn *t, const struct collection *c, struct error *err)
{
    enum errc rc = ask_access(t, c, ACCESS_READ, &t->read_allowed, err);
    if (rc == OK)
        rc = check_scope(t, c, false, err);
    if (rc == OK && is_serializable(t))
        guard(t, c);
    return rc;
}

/* [from, to) of the collection's documents. */
static void row_bounds(uint64_t object_id, struct buf *from, struct buf *to)
{
    buf_init(from, 0);
    buf_init(to, 0);
    key_add_u64(from, object_id);
    key_add_u64(to, object_id + 1);
}

/* The rows of a collection: any document that comes or goes changes the count. */
static enum errc read_rows(struct txn *t, uint64_t object_id, struct error *err)
{
    struct buf from, to;
    row_bounds(object_id, &from, &to);
    txn_read_range(t, KV_DOC, buf_slice(&from), buf_slice(&to));
    enum errc rc = prepared_wait_range(t->store->prepared, t->view->seq, KV_DOC, buf_slice(&from),
                                       buf_slice(&to), err);
    buf_release(&from);
    buf_release(&to);
    return rc;
}

enum errc txn_count(struct txn *t, uint64_t object_id, int64_t *out, struct error *err)
{
    enum errc rc = read_rows(t, object_id, err);
    if (rc == OK)
        rc = counter_read(t->store->kv, t->view->snapshot, COUNTER_DOCUMENTS, object_id, out, err);
    for (size_t i = 0; rc == OK && i < t->counter_count; i++)
        if (t->counters[i].kind == COUNTER_DOCUMENTS && t->counters[i].id == object_id &&
            t->counters[i].mark < t->sees_until)
            *out += t->counters[i].value;
    return rc;
}

void txn_wait_for_sync(struct txn *t)
{
    t->must_sync = true;
}

enum errc txn_claim(struct txn *t, const struct collection *c, struct error *err)
{
    struct buf from, to;
    enum errc rc = txn_open_write(t, c, err);
    if (rc != OK)
        return rc;
    row_bounds(c->object_id, &from, &to);
    read_set_add_range(t->reads, KV_DOC, buf_slice(&from), buf_slice(&to));
    buf_release(&from);
    buf_release(&to);
    return OK;
}

enum errc txn_break_guard(struct txn *t, uint64_t collection_id, struct error *err)
{
    struct buf key;
    buf_init(&key, 0);
    guard_key(&key, collection_id);
    enum errc rc = txn_delete(t, KV_META, buf_slice(&key), err);
    buf_release(&key);
    return rc;
}

void txn_watch(struct txn *t, enum kv_family f, struct slice key)
{
    read_set_add_key(t->reads, f, key);
}

void txn_read_range(struct txn *t, enum kv_family f, struct slice from, struct slice to)
{
    if (is_serializable(t))
        read_set_add_range(t->reads, f, from, to);
}

void txn_set_catalog(struct txn *t, struct catalog *catalog)
{
    t->catalog = catalog;
}

struct val_builder *txn_builder(struct txn *t)
{
    if (!t->builder)
        t->builder = val_builder_new(0);
    val_builder_reset(t->builder);
    return t->builder;
}

struct arena *txn_scratch(struct txn *t)
{
    if (!t->scratch) {
        t->scratch = arena_new(SCRATCH_BYTES_MAX);
        t->scratch_start = arena_mark(t->scratch);
    }
    return t->scratch;
}

void txn_scratch_reset(struct txn *t)
{
    if (t->scratch)
        arena_rewind(t->scratch, t->scratch_start);
}
