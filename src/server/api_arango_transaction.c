/* SPDX-License-Identifier: Apache-2.0 */
/* /_api/transaction: stream transactions. Requests join one by the header x-arango-trx-id. */
#include "server/body.h"
#include "server/reply.h"
#include "server/router.h"

enum { NAMES_MAX = 1000 };

static const char *state_text(enum stream_state state)
{
    switch (state) {
    case STREAM_RUNNING:
        return "running";
    case STREAM_COMMITTED:
        return "committed";
    case STREAM_ABORTED:
        return "aborted";
    }
    BUG("unknown state %d", state);
}

static void answer(struct request *r, int status, uint64_t id, enum stream_state state)
{
    struct reply a;

    reply_begin(&a, r);
    reply_open(&a, "result");
    reply_id(&a, "id", id);
    reply_str(&a, "status", state_text(state));
    reply_close(&a);
    reply_send(&a, status);
}

/* ---- begin ---- */

/* One name or an array of names. */
static enum errc read_names(struct request *r, struct val collections, const char *kind,
                            const struct slice **out, size_t *count, struct error *err)
{
    struct val v = val_get(collections, slice_str(kind));
    bool is_one = val_type(v) == VAL_STRING;
    size_t n = is_one ? 1 : val_count(v);

    *out = NULL;
    *count = 0;
    if (val_is_null(v))
        return OK;
    if ((!is_one && val_type(v) != VAL_ARRAY) || n > NAMES_MAX)
        return fail(err, ERR_INVALID,
                    "collections.%s must be a name or an array of at most %d names", kind,
                    NAMES_MAX);
    struct slice *names = arena_alloc(r->arena, (n + 1) * sizeof *names);
    for (size_t i = 0; i < n; i++) {
        struct val name = is_one ? v : val_at(v, i);
        if (val_type(name) != VAL_STRING)
            return fail(err, ERR_INVALID, "collections.%s must hold names", kind);
        names[i] = val_string(name);
    }
    *out = names;
    *count = n;
    return OK;
}

static enum errc read_collections(struct request *r, struct val body, struct stream_options *opt,
                                  struct error *err)
{
    static const char *const kinds[] = { "read", "write", "exclusive" };
    struct val v = val_get(body, slice_str("collections"));
    enum errc rc = OK;

    if (val_type(v) != VAL_OBJECT)
        return fail(err, ERR_INVALID,
                    "the body needs collections: an object with read, write or exclusive");
    TRY(body_check_names(v, kinds, ARRAY_LEN(kinds), err));
    TRY(read_names(r, v, "read", &opt->read, &opt->read_count, err));
    TRY(read_names(r, v, "write", &opt->write, &opt->write_count, err));
    TRY(read_names(r, v, "exclusive", &opt->exclusive, &opt->exclusive_count, err));
out:
    return rc;
}

static enum errc read_isolation(struct val body, enum isolation *out, struct error *err)
{
    struct val v = val_get(body, slice_str("isolation"));

    *out = slice_is(val_string(v), "snapshot") ? ISOLATION_SNAPSHOT : ISOLATION_SERIALIZABLE;
    if (val_is_null(v) || *out == ISOLATION_SNAPSHOT || slice_is(val_string(v), "serializable"))
        return OK;
    return fail(err, ERR_INVALID, "isolation must be \"serializable\" or \"snapshot\"");
}

static enum errc read_max_size(struct request *r, struct val body, uint64_t *out, struct error *err)
{
    struct val v = val_get(body, slice_str("maxTransactionSize"));
    double limit = (double)r->ctx->settings->transaction_max_mb * MIB;

    *out = (uint64_t)limit;
    if (val_is_null(v))
        return OK;
    if (val_type(v) != VAL_NUMBER || val_double(v) < 1)
        return fail(err, ERR_INVALID, "maxTransactionSize must be a number of bytes");
    if (val_double(v) < limit)
        *out = (uint64_t)val_double(v);
    return OK;
}

static enum errc read_options(struct request *r, struct val body, struct stream_options *opt,
                              struct error *err)
{
    /* Nothing is locked, so there is no lock to wait for: lockTimeout and skipFastLockRound
     * have no effect to lose. */
    static const char *const known[] = { "collections", "allowImplicit",     "waitForSync",
                                         "lockTimeout", "skipFastLockRound", "maxTransactionSize",
                                         "isolation" };
    enum errc rc = OK;

    *opt = (struct stream_options){ 0 };
    TRY(body_check_names(body, known, ARRAY_LEN(known), err));
    TRY(read_collections(r, body, opt, err));
    TRY(body_bool(body, "allowImplicit", &opt->reads_any, err));
    opt->reads_any |= val_is_null(val_get(body, slice_str("allowImplicit")));
    TRY(body_bool(body, "waitForSync", &opt->txn.must_sync, err));
    TRY(read_isolation(body, &opt->txn.isolation, err));
    TRY(read_max_size(r, body, &opt->txn.max_bytes, err));
out:
    return rc;
}

static void post_begin(struct request *r)
{
    struct error err = { 0 };
    struct stream_owner who;
    struct stream_options opt = { 0 };
    struct val body;
    uint64_t id;
    enum errc rc = request_object(r, &body, &err);

    if (rc == OK)
        rc = read_options(r, body, &opt, &err);
    if (rc == OK)
        rc = request_owner(r, &who, &err);
    opt.txn.access = request_access(r);
    if (rc == OK)
        rc = stream_begin(r->ctx->streams, &who, &opt, &id, &err);
    if (rc == OK)
        answer(r, 201, id, STREAM_RUNNING);
    else
        request_fail(r, &err);
}

/* ---- one ---- */

static enum errc read_id(struct request *r, uint64_t *id, struct stream_owner *who,
                         struct error *err)
{
    if (!slice_to_u64(r->params[0], id))
        return fail(err, ERR_INVALID, "'%.*s' is not the id of a transaction",
                    SLICE_ARG(r->params[0]));
    return request_owner(r, who, err);
}

static void get_state(struct request *r)
{
    struct error err = { 0 };
    struct stream_owner who;
    enum stream_state state;
    uint64_t id;
    enum errc rc = read_id(r, &id, &who, &err);

    if (rc == OK)
        rc = stream_find(r->ctx->streams, &who, id, &state, &err);
    if (rc == OK)
        answer(r, 200, id, state);
    else
        request_fail(r, &err);
}

static void put_commit(struct request *r)
{
    struct error err = { 0 };
    struct stream_owner who;
    uint64_t id;
    enum errc rc = read_id(r, &id, &who, &err);

    if (rc == OK)
        rc = stream_commit(r->ctx->streams, &who, id, &err);
    if (rc == OK)
        answer(r, 200, id, STREAM_COMMITTED);
    else
        request_fail(r, &err);
}

static void delete_abort(struct request *r)
{
    struct error err = { 0 };
    struct stream_owner who;
    uint64_t id;
    enum errc rc = read_id(r, &id, &who, &err);

    if (rc == OK)
        rc = stream_abort(r->ctx->streams, &who, id, &err);
    if (rc == OK)
        answer(r, 200, id, STREAM_ABORTED);
    else
        request_fail(r, &err);
}

/* ---- all ---- */

static void get_list(struct request *r)
{
    struct error err = { 0 };
    struct stream_owner who;
    struct reply a;

    if (request_owner(r, &who, &err) != OK) {
        request_fail(r, &err);
        return;
    }
    size_t max = (size_t)r->ctx->settings->max_transactions;
    uint64_t *ids = arena_alloc(r->arena, max * sizeof *ids);
    size_t count = stream_list(r->ctx->streams, &who, ids, max);
    reply_begin(&a, r);
    reply_list(&a, "transactions");
    for (size_t i = 0; i < count && i < max; i++) {
        reply_open(&a, NULL);
        reply_id(&a, "id", ids[i]);
        reply_str(&a, "state", state_text(STREAM_RUNNING));
        reply_close(&a);
    }
    reply_close(&a);
    reply_send(&a, 200);
}

static void post_javascript(struct request *r)
{
    struct error err = { 0 };

    fail(&err, ERR_NOT_IMPLEMENTED,
         "JavaScript transactions are not offered: begin a stream transaction with POST "
         "/_api/transaction/begin");
    request_fail(r, &err);
}

const struct route api_arango_transaction_routes[] = {
    { METHOD_POST, "/_api/transaction/begin", ROLE_USER, ON_POOL, MIB, post_begin,
      "Begins a stream transaction." },
    { METHOD_GET, "/_api/transaction", ROLE_USER, ON_POOL, 0, get_list, "Those that run." },
    { METHOD_POST, "/_api/transaction", ROLE_USER, ON_POOL, MIB, post_javascript,
      "Refused: no JavaScript." },
    { METHOD_GET, "/_api/transaction/{id}", ROLE_USER, ON_POOL, 0, get_state, "Its state." },
    { METHOD_PUT, "/_api/transaction/{id}", ROLE_USER, ON_POOL, MIB, put_commit, "Commits." },
    { METHOD_DELETE, "/_api/transaction/{id}", ROLE_USER, ON_POOL, MIB, delete_abort, "Aborts." },
    { 0 },
};
