/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /_api/document: single documents, and arrays in which each document succeeds
 * or fails by itself inside one transaction.
 */
#include "server/doc_call.h"
#include "server/reply.h"
#include "server/router.h"
#include <stdio.h>

enum { ARRAY_MAX = 100000 };

/* ---- one document ---- */

/* The revision that a precondition met, as ArangoDB shows it beside the error. */
static void refuse_revision(struct doc_call *d, struct slice key, const struct error *why)
{
    struct error err = { 0 };
    struct val doc = val_null, body = error_body(d->r->arena, API_ARANGO, why);
    static const char *const shown[] = { "_id", "_key", "_rev" };
    struct slice names[ARRAY_LEN(shown)];
    struct val values[ARRAY_LEN(shown)];
    enum errc rc = doc_call_begin(d, &err);

    if (rc == OK)
        rc = doc_get(d->t, d->c, key, d->r->arena, &doc, &err);
    doc_call_end(d);
    if (rc != OK) { /* gone meanwhile */
        request_fail(d->r, why);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        names[i] = slice_str(shown[i]);
        values[i] = val_get(doc, names[i]);
    }
    request_reply(
        d->r, error_http(why),
        val_merge(d->r->arena, body, val_new_object(d->r->arena, names, values, ARRAY_LEN(shown))));
}

static void answer_one(struct doc_call *d, const struct doc_change *ch)
{
    struct arena *arena = d->r->arena;
    struct http_header headers[2];
    size_t count = 0;
    struct buf id;

    headers[count++] =
        (struct http_header){ "ETag", arena_printf(arena, "\"%.*s\"", SLICE_ARG(ch->rev)) };
    if (d->op == DOC_INSERT) {
        buf_init(&id, 0);
        url_encode(ch->key, &id);
        headers[count++] =
            (struct http_header){ "Location",
                                  arena_printf(arena, "/_db/%.*s/_api/document/%.*s/%.*s",
                                               SLICE_ARG(d->r->db_name), SLICE_ARG(d->c->name),
                                               SLICE_ARG(buf_slice(&id))) };
        buf_release(&id);
    }
    struct val body = d->p.is_silent ? val_empty_object : doc_call_body(d, ch);
    int status = doc_call_status(d);
    doc_call_end(d);
    request_reply_headers(d->r, status, body, headers, count);
}

struct single {
    struct slice key;
    struct val body;
    struct doc_change change;
};

static enum errc write_single(struct doc_call *d, void *ctx, struct error *err)
{
    struct single *s = ctx;

    return doc_call_apply(d, s->key, s->body, &s->change, err);
}

static void write_one(struct doc_call *d, struct slice key, struct val body)
{
    struct error err;
    struct single s = { .key = key, .body = body };

    if (doc_call_write(d, write_single, &s, &err) == OK)
        answer_one(d, &s.change);
    else if (error_http(&err) == 412)
        refuse_revision(d, key, &err);
    else
        request_fail(d->r, &err);
}

/* ---- arrays ---- */

/* What X-Arango-Error-Codes says: "1210:2,1202:1". */
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

/* The elements of an answer; those that failed once more, for silent requests. */
struct array_answer {
    struct val *items, *failed;
    size_t count, failed_count;
    struct error_codes codes;
};

static void answer_array(struct request *r, int status, const struct array_answer *a,
                         bool is_silent)
{
    char text[512];
    struct http_header header = { "X-Arango-Error-Codes", text };
    size_t used = 0;
    struct val body;

    text[0] = 0;
    for (size_t i = 0; i < a->codes.used && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d:%u", i ? "," : "",
                                 a->codes.nums[i], a->codes.counts[i]);
    if (!is_silent)
        body = val_new_array(r->arena, a->items, a->count);
    else if (a->failed_count)
        body = val_new_array(r->arena, a->failed, a->failed_count);
    else
        body = val_empty_object;
    request_reply_headers(r, status, body, &header, a->codes.used ? 1 : 0);
}

static struct array_answer array_begin(struct request *r, size_t count)
{
    return (struct array_answer){
        .items = arena_alloc(r->arena, (count + 1) * sizeof(struct val)),
        .failed = arena_alloc(r->arena, (count + 1) * sizeof(struct val)),
    };
}

static void array_fail(struct array_answer *a, struct arena *arena, const struct error *err)
{
    struct val item = doc_call_error(arena, err);

    codes_add(&a->codes, error_num(err));
    a->items[a->count++] = item;
    a->failed[a->failed_count++] = item;
}

/* One element; a failed one is undone alone. Errors of the store end everything. */
static enum errc array_element(struct doc_call *d, struct val body, struct array_answer *a,
                               struct error *err)
{
    struct slice key = slice_of(NULL, 0);
    struct doc_change change;
    struct error one = { 0 };
    size_t mark = txn_mark(d->t);
    enum errc rc = d->op == DOC_INSERT ? OK : doc_element_key(d->c, body, &key, &one);

    if (rc == OK)
        rc = doc_call_apply(d, key, body, &change, &one);
    if (rc == OK) {
        a->items[a->count++] = d->p.is_silent ? val_null : doc_call_body(d, &change);
        return arena_check(d->r->arena, err);
    }
    txn_rewind(d->t, mark);
    if (doc_error_is_fatal(rc)) {
        *err = one;
        return rc;
    }
    array_fail(a, d->r->arena, &one);
    return OK;
}

struct several {
    struct val bodies;
    struct array_answer answer;
};

static enum errc write_several(struct doc_call *d, void *ctx, struct error *err)
{
    struct several *s = ctx;
    size_t count = val_count(s->bodies);
    enum errc rc = OK;

    s->answer = array_begin(d->r, count);
    for (size_t i = 0; rc == OK && i < count; i++)
        rc = array_element(d, val_at(s->bodies, i), &s->answer, err);
    return rc;
}

static void write_array(struct doc_call *d, struct val bodies)
{
    struct error err;
    struct several s = { .bodies = bodies };

    if (doc_call_write(d, write_several, &s, &err) != OK) {
        request_fail(d->r, &err);
        return;
    }
    int status = doc_call_status(d);
    doc_call_end(d);
    answer_array(d->r, status, &s.answer, d->p.is_silent);
}

static void get_many(struct request *r)
{
    struct error err = { 0 }, one;
    struct doc_call d = { .r = r };
    struct val body;
    struct slice key;
    enum errc rc = request_json(r, &body, &err);

    if (rc == OK && val_type(body) != VAL_ARRAY)
        rc = fail(&err, ERR_INVALID, "the body must be an array of keys or documents");
    if (rc == OK)
        rc = doc_call_begin(&d, &err);
    size_t count = rc == OK ? val_count(body) : 0;
    struct array_answer a = array_begin(r, count);
    for (size_t i = 0; rc == OK && i < count; i++) {
        one = (struct error){ 0 };
        enum errc got = doc_element_key(d.c, val_at(body, i), &key, &one);
        if (got == OK)
            got = doc_get(d.t, d.c, key, r->arena, &a.items[a.count], &one);
        if (got == OK)
            a.count++;
        else
            array_fail(&a, r->arena, &one);
        rc = arena_check(r->arena, &err);
    }
    doc_call_end(&d);
    if (rc == OK)
        answer_array(r, 200, &a, false);
    else
        request_fail(r, &err);
}

/* ---- routes ---- */

static void write_route(struct request *r, enum doc_op op, bool has_key)
{
    struct error err = { 0 };
    struct doc_call d = { .r = r, .op = op };
    struct val body = val_null;
    enum errc rc = doc_call_read(&d, &err);

    if (rc == OK && !(op == DOC_REMOVE && has_key))
        rc = request_json(r, &body, &err);
    if (rc == OK && !has_key && op != DOC_INSERT && val_type(body) != VAL_ARRAY)
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

static void post_document(struct request *r)
{
    write_route(r, DOC_INSERT, false);
}

static void patch_one(struct request *r)
{
    write_route(r, DOC_UPDATE, true);
}

static void put_one(struct request *r)
{
    write_route(r, DOC_REPLACE, true);
}

static void delete_one(struct request *r)
{
    write_route(r, DOC_REMOVE, true);
}

static void patch_many(struct request *r)
{
    write_route(r, DOC_UPDATE, false);
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
        write_route(r, DOC_REPLACE, false);
}

static void delete_many(struct request *r)
{
    write_route(r, DOC_REMOVE, false);
}

static void get_one(struct request *r)
{
    struct error err = { 0 };
    struct doc_call d = { .r = r };
    struct val doc = val_null;
    enum errc rc = doc_call_begin(&d, &err);

    if (rc == OK)
        rc = doc_get(d.t, d.c, r->params[1], r->arena, &doc, &err);
    doc_call_end(&d);
    struct slice rev = val_string(val_get(doc, slice_str("_rev")));
    struct slice match = doc_header_rev(r, "if-match"), none = doc_header_rev(r, "if-none-match");
    if (rc == OK && match.len && !slice_eq(match, rev)) {
        fail(&err, ERR_PRECONDITION, "the revision is %.*s, not %.*s", SLICE_ARG(rev),
             SLICE_ARG(match));
        refuse_revision(&d, r->params[1], &err);
        return;
    }
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    struct http_header header = { "ETag", arena_printf(r->arena, "\"%.*s\"", SLICE_ARG(rev)) };
    if (none.len && slice_eq(none, rev)) {
        exchange_reply(r->x, 304, NULL, &header, 1, slice_of(NULL, 0));
        request_done(r);
        return;
    }
    request_reply_headers(r, 200, doc, &header, 1);
}

/*
 * The parameters of a call. Drivers send overwrite with every write: beside an insert it is what
 * ignoreRevs is, which they send too.
 */
#define ALL "waitForSync&silent&returnOld&refillIndexCaches&refillCaches&overwrite"
#define CHANGES ALL "&returnNew&ignoreRevs&versionAttribute"

const struct route api_arango_document_routes[] = {
    { METHOD_POST,
      "/_api/document/{collection}?" ALL
      "&returnNew&overwriteMode&keepNull&mergeObjects&versionAttribute",
      ROLE_USER, ON_POOL_TRX, BODY_MAX, post_document, "Inserts one document or an array." },
    { METHOD_PATCH, "/_api/document/{collection}?" CHANGES "&keepNull&mergeObjects", ROLE_USER,
      ON_POOL_TRX, BODY_MAX, patch_many, "Updates an array." },
    { METHOD_PUT, "/_api/document/{collection}?" CHANGES "&onlyget", ROLE_USER, ON_POOL_TRX,
      BODY_MAX, put_many, "Replaces an array; onlyget=true reads one." },
    { METHOD_DELETE, "/_api/document/{collection}?" ALL "&ignoreRevs", ROLE_USER, ON_POOL_TRX,
      BODY_MAX, delete_many, "Removes an array." },
    { METHOD_GET | METHOD_HEAD, "/_api/document/{collection}/{key}", ROLE_USER, ON_POOL_TRX, 0,
      get_one, "Reads one." },
    { METHOD_PATCH, "/_api/document/{collection}/{key}?" CHANGES "&keepNull&mergeObjects",
      ROLE_USER, ON_POOL_TRX, BODY_MAX, patch_one, "Updates one." },
    { METHOD_PUT, "/_api/document/{collection}/{key}?" CHANGES, ROLE_USER, ON_POOL_TRX, BODY_MAX,
      put_one, "Replaces one." },
    { METHOD_DELETE, "/_api/document/{collection}/{key}?" ALL "&ignoreRevs", ROLE_USER, ON_POOL_TRX,
      BODY_MAX, delete_one, "Removes one." },
    { 0 },
};
