/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /_api/document: single documents, and arrays in which each document succeeds
 * or fails by itself inside one transaction.
 */
#include "server/reply.h"
#include "server/router.h"
#include <stdio.h>

enum { COMMIT_TRIES = 8, ARRAY_MAX = 100000 };

enum doc_op { OP_INSERT, OP_UPDATE, OP_REPLACE, OP_REMOVE };

struct doc_params {
    struct doc_options opt;
    bool return_new, return_old, is_silent, wait_for_sync;
};

static enum errc read_overwrite(struct request *r, struct doc_options *opt, struct error *err)
{
    static const struct {
        const char *name;
        enum overwrite_mode mode;
    } modes[] = { { "conflict", OVERWRITE_CONFLICT },
                  { "ignore", OVERWRITE_IGNORE },
                  { "replace", OVERWRITE_REPLACE },
                  { "update", OVERWRITE_UPDATE } };
    struct slice text;
    bool is_on;
    enum errc rc = request_flag(r, "overwrite", false, &is_on, err);

    if (is_on)
        opt->overwrite = OVERWRITE_REPLACE;
    if (rc != OK || !request_param(r, "overwriteMode", &text))
        return rc;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        if (slice_is(text, modes[i].name)) {
            opt->overwrite = modes[i].mode;
            return OK;
        }
    }
    return fail(err, ERR_INVALID, "overwriteMode must be conflict, ignore, replace or update");
}

/* A revision in a header may be quoted. */
static struct slice header_rev(struct request *r, const char *name)
{
    struct slice rev = exchange_header(r->x, name);

    if (rev.len >= 2 && rev.ptr[0] == '"' && rev.ptr[rev.len - 1] == '"')
        rev = slice_of(rev.ptr + 1, rev.len - 2);
    return rev;
}

static enum errc read_params(struct request *r, struct doc_params *p, struct error *err)
{
    enum errc rc = OK;
    bool keep_null, merge, ignore_revs;

    *p = (struct doc_params){ 0 };
    TRY(request_flag(r, "returnNew", false, &p->return_new, err));
    TRY(request_flag(r, "returnOld", false, &p->return_old, err));
    TRY(request_flag(r, "silent", false, &p->is_silent, err));
    TRY(request_flag(r, "waitForSync", false, &p->wait_for_sync, err));
    TRY(request_flag(r, "keepNull", true, &keep_null, err));
    TRY(request_flag(r, "mergeObjects", true, &merge, err));
    TRY(request_flag(r, "ignoreRevs", true, &ignore_revs, err));
    TRY(read_overwrite(r, &p->opt, err));
    p->opt.drop_nulls = !keep_null;
    p->opt.replace_objects = !merge;
    p->opt.check_rev = !ignore_revs;
    p->opt.if_rev = header_rev(r, "if-match");
out:
    return rc;
}

/* The key of a body element: {_key}, {_id} or, for removal, a plain string. */
static enum errc element_key(const struct collection *c, struct val v, struct slice *key,
                             struct error *err)
{
    struct slice text = val_string(val_type(v) == VAL_STRING ? v : val_get(v, slice_str("_key")));
    struct slice collection;

    if (!text.len)
        text = val_string(val_get(v, slice_str("_id")));
    if (!text.len)
        return fail_num(err, 1221, "the document names no _key");
    *key = text;
    if (!memchr(text.ptr, '/', text.len))
        return OK;
    if (!doc_split_id(text, &collection, key) || !slice_eq(collection, c->name))
        return fail_num(err, 1205, "'%.*s' is not a document of collection '%.*s'", SLICE_ARG(text),
                        SLICE_ARG(c->name));
    return OK;
}

struct doc_call {
    struct request *r;
    struct txn *t;
    const struct collection *c;
    enum doc_op op;
    struct doc_params p;
};

static enum errc apply(struct doc_call *d, struct slice key, struct val body,
                       struct doc_change *change, struct error *err)
{
    struct arena *arena = d->r->arena;

    switch (d->op) {
    case OP_INSERT:
        return doc_insert(d->t, d->c, body, &d->p.opt, arena, change, err);
    case OP_UPDATE:
        return doc_update(d->t, d->c, key, body, &d->p.opt, arena, change, err);
    case OP_REPLACE:
        return doc_replace(d->t, d->c, key, body, &d->p.opt, arena, change, err);
    case OP_REMOVE:
        return doc_remove(d->t, d->c, key, &d->p.opt, arena, change, err);
    }
    BUG("unknown document operation %d", d->op);
}

static struct val change_body(const struct doc_call *d, const struct doc_change *ch)
{
    struct slice names[6];
    struct val values[6];
    size_t n = 0;
    struct arena *arena = d->r->arena;

    names[n] = slice_str("_id"), values[n++] = val_new_string(arena, ch->id);
    names[n] = slice_str("_key"), values[n++] = val_new_string(arena, ch->key);
    names[n] = slice_str("_rev"), values[n++] = val_new_string(arena, ch->rev);
    if (ch->old_rev.len && d->op != OP_REMOVE)
        names[n] = slice_str("_oldRev"), values[n++] = val_new_string(arena, ch->old_rev);
    if (d->p.return_old && !val_is_null(ch->old_doc))
        names[n] = slice_str("old"), values[n++] = ch->old_doc;
    if (d->p.return_new && d->op != OP_REMOVE)
        names[n] = slice_str("new"), values[n++] = ch->new_doc;
    return val_new_object(arena, names, values, n);
}

static enum errc begin(struct doc_call *d, struct error *err)
{
    struct txn_options opt = { .isolation = ISOLATION_SNAPSHOT };
    enum errc rc = txn_begin(&d->t, d->r->ctx->store, &opt, err);

    return rc == OK ? request_collection(d->r, d->t, d->r->params[0], &d->c, err) : rc;
}

static int status_of(const struct doc_call *d, bool is_done_by_ignore)
{
    bool synced = d->p.wait_for_sync || d->c->wait_for_sync;

    if (is_done_by_ignore)
        return 200;
    if (d->op == OP_REMOVE)
        return synced ? 200 : 202;
    return synced ? 201 : 202;
}

static void answer_one(struct doc_call *d, const struct doc_change *ch)
{
    char etag[64];
    struct http_header header = { "ETag", etag };

    snprintf(etag, sizeof etag, "\"%.*s\"", SLICE_ARG(ch->rev));
    struct val body = d->p.is_silent ? val_empty_object : change_body(d, ch);
    int status = status_of(d, ch->is_ignored);
    txn_end(d->t);
    request_reply_headers(d->r, status, body, &header, 1);
}

/* A conflict with another writer is tried again: a single write has read nothing that binds it. */
static void write_one(struct doc_call *d, struct slice key, struct val body)
{
    struct error err;
    struct doc_change change;
    enum errc rc;
    bool is_conflict;

    for (int tries = 0;; tries++) {
        err = (struct error){ 0 };
        is_conflict = false;
        rc = begin(d, &err);
        if (rc == OK)
            rc = apply(d, key, body, &change, &err);
        if (rc == OK) {
            rc = txn_commit(d->t, &err);
            is_conflict = rc == ERR_CONFLICT;
        }
        if (rc == OK) {
            answer_one(d, &change);
            return;
        }
        txn_end(d->t);
        d->t = NULL;
        if (!is_conflict || tries == COMMIT_TRIES)
            break;
    }
    request_fail(d->r, &err);
}

/* ---- arrays ---- */

struct error_codes {
    int nums[32];
    unsigned counts[32];
    size_t used;
};

static void codes_add(struct error_codes *c, int num)
{
    size_t i = 0;

    while (i < c->used && c->nums[i] != num)
        i++;
    if (i == ARRAY_LEN(c->nums))
        return;
    if (i == c->used) {
        c->nums[c->used++] = num;
        c->counts[i] = 0;
    }
    c->counts[i]++;
}

static void answer_array(struct request *r, int status, struct val *items, size_t count,
                         const struct error_codes *codes)
{
    char text[512];
    struct http_header header = { "X-Arango-Error-Codes", text };
    size_t used = 0;

    text[0] = 0;
    for (size_t i = 0; i < codes->used && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d:%u", i ? "," : "",
                                 codes->nums[i], codes->counts[i]);
    request_reply_headers(r, status, val_new_array(r->arena, items, count), &header,
                          codes->used ? 1 : 0);
}

static struct val item_error(struct request *r, const struct error *err)
{
    struct slice names[] = { slice_str("error"), slice_str("errorNum"), slice_str("errorMessage") };
    struct val values[] = { val_true, val_new_int(r->arena, error_num(err)),
                            val_new_string(r->arena, slice_str(err->text)) };

    return val_new_object(r->arena, names, values, ARRAY_LEN(names));
}

/* One element; a failed one is undone alone. Errors of the store end everything. */
static enum errc array_element(struct doc_call *d, struct val body, struct val *item,
                               struct error_codes *codes, struct error *err)
{
    struct slice key = slice_of(NULL, 0);
    struct doc_change change;
    struct error one = { 0 };
    size_t mark = txn_mark(d->t);
    enum errc rc = d->op == OP_INSERT ? OK : element_key(d->c, body, &key, &one);

    if (rc == OK)
        rc = apply(d, key, body, &change, &one);
    if (rc == OK) {
        *item = change_body(d, &change);
        return arena_check(d->r->arena, err);
    }
    txn_rewind(d->t, mark);
    if (rc == ERR_IO || rc == ERR_CORRUPT || rc == ERR_LIMIT || rc == ERR_INTERNAL) {
        *err = one;
        return rc;
    }
    codes_add(codes, error_num(&one));
    *item = item_error(d->r, &one);
    return OK;
}

static void write_array(struct doc_call *d, struct val bodies)
{
    struct error err;
    enum errc rc;
    bool is_conflict;
    size_t count = val_count(bodies);
    struct val *items;

    for (int tries = 0;; tries++) {
        struct error_codes codes = { 0 };
        err = (struct error){ 0 };
        is_conflict = false;
        items = arena_alloc(d->r->arena, (count + 1) * sizeof *items);
        rc = begin(d, &err);
        for (size_t i = 0; rc == OK && i < count; i++)
            rc = array_element(d, val_at(bodies, i), &items[i], &codes, &err);
        if (rc == OK) {
            rc = txn_commit(d->t, &err);
            is_conflict = rc == ERR_CONFLICT;
        }
        if (rc == OK) {
            int status = status_of(d, false);
            txn_end(d->t);
            answer_array(d->r, status, items, d->p.is_silent ? 0 : count, &codes);
            return;
        }
        txn_end(d->t);
        d->t = NULL;
        if (!is_conflict || tries == COMMIT_TRIES)
            break;
    }
    request_fail(d->r, &err);
}

/* ---- routes ---- */

static void write_route(struct request *r, enum doc_op op, bool has_key)
{
    struct error err = { 0 };
    struct doc_call d = { .r = r, .op = op };
    struct val body = val_null;
    enum errc rc = read_params(r, &d.p, &err);

    if (rc == OK && !(op == OP_REMOVE && has_key))
        rc = request_json(r, &body, &err);
    if (rc == OK && !has_key && op != OP_INSERT && val_type(body) != VAL_ARRAY)
        rc = fail(&err, ERR_INVALID, "the body must be an array of documents");
    if (rc == OK && val_type(body) == VAL_ARRAY && !has_key && val_count(body) > ARRAY_MAX)
        rc = fail(&err, ERR_TOO_LARGE, "at most %d documents in one request", ARRAY_MAX);
    if (rc != OK)
        request_fail(r, &err);
    else if (val_type(body) == VAL_ARRAY && !has_key)
        write_array(&d, body);
    else
        write_one(&d, r->params[1], body);
}

static void get_many(struct request *r);

static void post_document(struct request *r)
{
    write_route(r, OP_INSERT, false);
}

static void patch_one(struct request *r)
{
    write_route(r, OP_UPDATE, true);
}

static void put_one(struct request *r)
{
    write_route(r, OP_REPLACE, true);
}

static void delete_one(struct request *r)
{
    write_route(r, OP_REMOVE, true);
}

static void patch_many(struct request *r)
{
    write_route(r, OP_UPDATE, false);
}

static void put_many(struct request *r)
{
    bool only_get;
    struct error err = { 0 };

    if (request_flag(r, "onlyget", false, &only_get, &err) != OK)
        request_fail(r, &err);
    else if (only_get)
        get_many(r);
    else
        write_route(r, OP_REPLACE, false);
}

static void delete_many(struct request *r)
{
    write_route(r, OP_REMOVE, false);
}

static void get_many(struct request *r)
{
    struct error err = { 0 }, one;
    struct doc_call d = { .r = r };
    struct error_codes codes = { 0 };
    struct val body;
    struct slice key;
    enum errc rc = request_json(r, &body, &err);

    if (rc == OK && val_type(body) != VAL_ARRAY)
        rc = fail(&err, ERR_INVALID, "the body must be an array of keys or documents");
    if (rc == OK)
        rc = begin(&d, &err);
    size_t count = rc == OK ? val_count(body) : 0;
    struct val *items = arena_alloc(r->arena, (count + 1) * sizeof *items);
    for (size_t i = 0; rc == OK && i < count; i++) {
        one = (struct error){ 0 };
        enum errc got = element_key(d.c, val_at(body, i), &key, &one);
        if (got == OK)
            got = doc_get(d.t, d.c, key, r->arena, &items[i], &one);
        if (got != OK) {
            codes_add(&codes, error_num(&one));
            items[i] = item_error(r, &one);
        }
        rc = arena_check(r->arena, &err);
    }
    txn_end(d.t);
    if (rc == OK)
        answer_array(r, 200, items, count, &codes);
    else
        request_fail(r, &err);
}

static void get_one(struct request *r)
{
    struct error err = { 0 };
    struct doc_call d = { .r = r };
    struct val doc = val_null;
    char etag[64];
    struct http_header header = { "ETag", etag };
    enum errc rc = begin(&d, &err);

    if (rc == OK)
        rc = doc_get(d.t, d.c, r->params[1], r->arena, &doc, &err);
    txn_end(d.t);
    struct slice rev = val_string(val_get(doc, slice_str("_rev")));
    struct slice match = header_rev(r, "if-match"), none = header_rev(r, "if-none-match");
    if (rc == OK && match.len && !slice_eq(match, rev)) {
        rc = fail_num(&err, 1200, "the revision is %.*s, not %.*s", SLICE_ARG(rev),
                      SLICE_ARG(match));
        err.http = 412;
    }
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    snprintf(etag, sizeof etag, "\"%.*s\"", SLICE_ARG(rev));
    if (none.len && slice_eq(none, rev)) {
        exchange_reply(r->x, 304, NULL, &header, 1, slice_of(NULL, 0));
        request_done(r);
        return;
    }
    request_reply_headers(r, 200, doc, &header, 1);
}

const struct route api_arango_document_routes[] = {
    { METHOD_POST, "/_api/document/{collection}", ROLE_USER, ON_POOL, BODY_MAX, post_document,
      "Inserts one document or an array." },
    { METHOD_PATCH, "/_api/document/{collection}", ROLE_USER, ON_POOL, BODY_MAX, patch_many,
      "Updates an array." },
    { METHOD_PUT, "/_api/document/{collection}", ROLE_USER, ON_POOL, BODY_MAX, put_many,
      "Replaces an array; onlyget=true reads one." },
    { METHOD_DELETE, "/_api/document/{collection}", ROLE_USER, ON_POOL, BODY_MAX, delete_many,
      "Removes an array." },
    { METHOD_GET | METHOD_HEAD, "/_api/document/{collection}/{key}", ROLE_USER, ON_POOL, 0, get_one,
      "Reads one." },
    { METHOD_PATCH, "/_api/document/{collection}/{key}", ROLE_USER, ON_POOL, BODY_MAX, patch_one,
      "Updates one." },
    { METHOD_PUT, "/_api/document/{collection}/{key}", ROLE_USER, ON_POOL, BODY_MAX, put_one,
      "Replaces one." },
    { METHOD_DELETE, "/_api/document/{collection}/{key}", ROLE_USER, ON_POOL, BODY_MAX, delete_one,
      "Removes one." },
    { 0 },
};
