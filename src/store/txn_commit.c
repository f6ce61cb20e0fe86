/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a transaction: committed, or prepared and resolved later; and what a loser is told. */
#include "base/key.h"
#include "store/txn_private.h"

/* One change per counter: runs of the same id add up, so the committer has little to do. */
static void fold_counters(struct txn *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->counter_count; i++) {
        struct counter_change *c = &t->counters[i];
        size_t at = 0;
        while (at < kept && (t->counters[at].kind != c->kind || t->counters[at].id != c->id))
            at++;
        if (at == kept)
            t->counters[kept++] = *c;
        else if (c->kind == COUNTER_DOCUMENTS)
            t->counters[at].value += c->value;
        else if (c->value > t->counters[at].value)
            t->counters[at].value = c->value;
    }
    t->counter_count = kept;
}

static void watch_writes(struct txn *t, struct slice batch)
{
    struct kv_record record;
    for (size_t at = 0; kv_batch_next(batch, &at, &record);)
        read_set_add_key(t->reads, record.family, record.key);
}

static void request_init(struct txn *t, struct commit_request *r)
{
    bool has_puts;
    *r = (struct commit_request){ .reads = t->reads,
                                  .position = t->view->position,
                                  .catalog = t->catalog,
                                  .no_sync = t->options.no_sync && !t->must_sync };
    kv_batch_init(&r->batch);
    buf_init(&r->conflict, 0);
    fold_counters(t);
    r->counters = t->counters;
    r->counter_count = t->counter_count;
    write_set_encode(t->writes, &r->batch, &has_puts);
    r->is_removal = t->is_removal || !has_puts;
    r->is_derived = t->is_derived;
    watch_writes(t, buf_slice(&r->batch.bytes));
    txn_iters_record(t);
    read_set_seal(t->reads);
}

static void request_release(struct commit_request *r)
{
    prepared_free(r->prepare);
    kv_batch_release(&r->batch);
    buf_release(&r->conflict);
}

/* Hands the request to the committer and words what it answers. */
static enum errc submit(struct txn *t, struct commit_request *r, struct error *err)
{
    struct error held;
    t->is_over = true;
    enum errc rc = committer_commit(t->store->committer, r, err);
    if (rc == OK)
        t->commit_seq = r->seq;
    if (rc != ERR_CONFLICT || !r->conflict.len)
        return rc;
    held = r->err;
    rc = conflict_fail(t, buf_slice(&r->conflict), err);
    return r->is_held ? wrap(err, "%s", held.text) : rc;
}

enum errc txn_commit(struct txn *t, struct error *err)
{
    struct commit_request r;
    if (t->is_over)
        return fail(err, ERR_INVALID, "the transaction is over");
    if (!txn_has_writes(t)) {
        t->is_over = true; /* a view is consistent: readers never fail */
        return OK;
    }
    request_init(t, &r);
    enum errc rc = submit(t, &r, err);
    request_release(&r);
    return rc;
}

/* ---- two-phase commit ---- */

/* Turns the request to write into one to promise: its writes and counters go into the record. */
static enum errc request_to_prepare(struct txn *t, struct commit_request *r, struct buf *record,
                                    struct error *err)
{
    struct buf key;
    prepared_encode(record, env_wall_us(t->store->env), t->reads, r->counters, r->counter_count,
                    buf_slice(&r->batch.bytes));
    size_t pending = r->batch.bytes.len;
    r->kind = COMMIT_PREPARE;
    r->pending = slice_of(record->ptr + record->len - pending, pending);
    r->counter_count = 0;
    r->no_sync = r->is_removal = false;
    kv_batch_clear(&r->batch);
    buf_init(&key, 0);
    prepared_key(&key, r->name);
    kv_batch_add(&r->batch, &(struct kv_record){ .op = KV_PUT,
                                                 .family = KV_META,
                                                 .key = buf_slice(&key),
                                                 .value = buf_slice(record) });
    buf_release(&key);
    return prepared_new(&r->prepare, r->name, buf_slice(record), err);
}

enum errc txn_prepare(struct txn *t, struct slice name, struct error *err)
{
    struct commit_request r;
    struct buf record;
    if (t->is_over)
        return fail(err, ERR_INVALID, "the transaction is over");
    if (name.len == 0 || name.len > PREPARED_NAME_MAX)
        return fail(err, ERR_INVALID, "the name of a prepared transaction has 1 to %d bytes",
                    PREPARED_NAME_MAX);
    if (t->catalog)
        return fail(err, ERR_INVALID, "a change of the catalog cannot be prepared");
    request_init(t, &r);
    buf_init(&record, 0);
    r.name = name;
    enum errc rc = request_to_prepare(t, &r, &record, err);
    if (rc == OK)
        rc = submit(t, &r, err);
    buf_release(&record);
    request_release(&r);
    return rc;
}

/* The end of the record and, when it commits, what it promised. */
static enum errc request_to_resolve(struct commit_request *r, const struct prepared_record *record,
                                    struct slice key, struct arena *arena, struct error *err)
{
    enum errc rc = OK;
    struct counter_change *counters;
    if (r->is_decided) {
        rc = prepared_counters(record, arena, &counters, &r->counter_count, err);
        if (rc != OK)
            return rc;
        r->counters = counters;
        kv_batch_append(&r->batch, record->writes);
    }
    kv_batch_add(&r->batch, &(struct kv_record){ .op = KV_DELETE, .family = KV_META, .key = key });
    return rc;
}

enum errc txn_resolve(struct store *s, struct slice name, bool is_commit, uint64_t *commit_seq,
                      struct error *err)
{
    enum errc rc = OK;
    struct slice bytes = { NULL, 0 };
    struct prepared_record record = { 0 };
    struct arena *arena = arena_new(0);
    struct buf key;
    struct commit_request r = {
        .kind = COMMIT_RESOLVE, .name = name, .is_decided = is_commit, .is_removal = true
    };
    kv_batch_init(&r.batch);
    buf_init(&r.conflict, 0);
    buf_init(&key, 0);
    prepared_key(&key, name);
    rc = kv_get(s->kv, NULL, KV_META, buf_slice(&key), arena, &bytes, err);
    if (rc == ERR_NOT_FOUND)
        rc = fail(err, ERR_NOT_FOUND, "no transaction is prepared under the name '%.*s'",
                  SLICE_ARG(name));
    TRY(rc);
    TRY(prepared_decode(&record, bytes, err));
    TRY(request_to_resolve(&r, &record, buf_slice(&key), arena, err));
    TRY(committer_commit(s->committer, &r, err));
    if (commit_seq)
        *commit_seq = r.seq;
out:
    prepared_record_release(&record);
    request_release(&r);
    buf_release(&key);
    arena_free(arena);
    return rc;
}

size_t txn_prepared(struct store *s, struct prepared_info *out, size_t max)
{
    return prepared_list(s->prepared, out, max);
}

/* ---- conflict texts ---- */

static const char again[] = "another transaction changed it first; try again";

static enum errc fail_document(const struct txn *t, struct slice key, struct error *err)
{
    const struct index_def *index;
    if (key.len < 10)
        return fail(err, ERR_CONFLICT, "write-write conflict; %s", again);
    const struct collection *c = catalog_by_object(t->view->catalog, key_read_u64(key.ptr), &index);
    struct slice name = c ? c->name : slice_str("?");
    bool is_own = write_set_get(t->writes, KV_DOC, key, WRITES_ALL) != NULL;
    return fail(err, ERR_CONFLICT, "%s conflict on document '%.*s/%.*s'; %s",
                is_own ? "write-write" : "read-write", SLICE_ARG(name), (int)(key.len - 10),
                key.ptr + 10, again);
}

static enum errc fail_index(const struct txn *t, struct slice key, struct error *err)
{
    const struct index_def *index = NULL;
    const struct collection *c =
        key.len < 8 ? NULL : catalog_by_object(t->view->catalog, key_read_u64(key.ptr), &index);
    bool is_own = write_set_get(t->writes, KV_INDEX, key, WRITES_ALL) != NULL;
    struct slice unknown = slice_str("?");
    return fail(err, ERR_CONFLICT, "%s conflict in index '%.*s' of collection '%.*s'; %s",
                is_own ? "write-write" : "read-write", SLICE_ARG(index ? index->name : unknown),
                SLICE_ARG(c ? c->name : unknown), again);
}

static enum errc fail_meta(const struct txn *t, struct slice key, struct error *err)
{
    const struct collection *c = NULL;
    if (slice_starts(key, "guard/") && key.len == 14)
        c = catalog_collection_by_id(t->view->catalog, key_read_u64(key.ptr + 6));
    if (c)
        return fail(
            err, ERR_CONFLICT,
            "collection '%.*s' was truncated, dropped, renamed or got an index meanwhile; try "
            "again",
            SLICE_ARG(c->name));
    return fail(err, ERR_CONFLICT, "the catalog was changed meanwhile; try again");
}

enum errc conflict_fail(const struct txn *t, struct slice key, struct error *err)
{
    struct slice rest = slice_of(key.ptr + 1, key.len - 1);
    switch ((enum kv_family)(uint8_t)key.ptr[0]) {
    case KV_DOC:
        return fail_document(t, rest, err);
    case KV_INDEX:
        return fail_index(t, rest, err);
    case KV_META:
        return fail_meta(t, rest, err);
    case KV_LOG:
    case KV_FAMILY_COUNT:
        break;
    }
    return fail(err, ERR_CONFLICT, "write-write conflict; %s", again);
}
