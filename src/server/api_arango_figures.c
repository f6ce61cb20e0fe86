/* SPDX-License-Identifier: Apache-2.0 */
/* /_api/collection/NAME/...: numbers about its documents. */
#include "base/hash.h"
#include "server/collection_reply.h"
#include "server/router.h"

/* Begins an answer about the captured collection; false: it was answered with an error. */
static bool begin(struct request *r, struct txn **t, const struct collection **c)
{
    return request_read_collection(r, r->params[0], t, c);
}

static void end(struct reply *a, struct txn *t)
{
    request_end(a->r, t);
    reply_send(a, 200);
}

static void end_failed(struct request *r, struct txn *t, const struct error *err)
{
    request_end(r, t);
    request_fail(r, err);
}

/* ---- count and figures ---- */

static void put_figures(struct reply *a, struct txn *t, const struct collection *c, uint64_t count,
                        bool has_details)
{
    struct collection_bytes bytes;

    doc_bytes(t, c, &bytes);
    reply_open(a, "figures");
    reply_open(a, "indexes");
    reply_int(a, "count", (int64_t)c->index_count);
    reply_int(a, "size", (int64_t)bytes.indexes);
    reply_close(a);
    reply_int(a, "documentsSize", (int64_t)bytes.documents);
    reply_bool(a, "cacheInUse", false);
    reply_int(a, "cacheSize", 0);
    reply_int(a, "cacheUsage", 0);
    if (has_details) {
        reply_open(a, "engine");
        reply_int(a, "documents", (int64_t)count);
        reply_list(a, "indexes");
        for (size_t i = 0; i < c->index_count; i++) {
            reply_open(a, NULL);
            reply_str(a, "type", c->indexes[i].type);
            reply_int(a, "id", (int64_t)c->indexes[i].id);
            reply_close(a);
        }
        reply_close(a);
        reply_close(a);
    }
    reply_close(a);
}

static void answer_count(struct request *r, bool has_figures)
{
    struct error err = { 0 };
    struct txn *t;
    const struct collection *c;
    struct reply a;
    uint64_t count;
    bool has_details = false;

    if (has_figures && request_flag(r, "details", false, &has_details, &err) != OK) {
        request_fail(r, &err);
        return;
    }
    if (!begin(r, &t, &c))
        return;
    if (doc_count(t, c, &count, &err) != OK) {
        end_failed(r, t, &err);
        return;
    }
    reply_begin(&a, r);
    collection_put_basic(&a, c);
    collection_put_properties(&a, c);
    reply_int(&a, "count", (int64_t)count);
    if (has_figures)
        put_figures(&a, t, c, count, has_details);
    end(&a, t);
}

static void get_count(struct request *r)
{
    answer_count(r, false);
}

static void get_figures(struct request *r)
{
    answer_count(r, true);
}

/* ---- walks over all documents ---- */

/* The counter is exact; walking over the rows proves it. */
static void put_recalculate(struct request *r)
{
    struct error err = { 0 };
    struct txn *t;
    const struct collection *c;
    struct doc_iter *it = NULL;
    struct val doc;
    struct reply a;
    uint64_t count = 0, rows = 0;

    if (!begin(r, &t, &c))
        return;
    enum errc rc = doc_count(t, c, &count, &err);
    if (rc == OK)
        rc = doc_iter_new(&it, t, c, &err);
    while (rc == OK && doc_iter_next(it, &doc))
        rows++;
    if (rc == OK)
        rc = doc_iter_check(it, &err);
    doc_iter_free(it);
    if (rc == OK && rows != count)
        rc = fail(&err, ERR_CORRUPT, "collection '%.*s' has %llu documents, its counter says %llu",
                  SLICE_ARG(c->name), (unsigned long long)rows, (unsigned long long)count);
    if (rc != OK) {
        end_failed(r, t, &err);
        return;
    }
    reply_begin(&a, r);
    reply_bool(&a, "result", true);
    reply_int(&a, "count", (int64_t)count);
    end(&a, t);
}

struct checksum_parts {
    bool has_revisions, has_data;
};

static uint64_t hash_of(struct slice s)
{
    return hash_xxh3(s.ptr, s.len);
}

/* Independent of the order of members, as of documents. */
static uint64_t data_hash(struct val doc)
{
    static const char *const system[] = { "_key", "_id", "_rev" };
    uint64_t sum = 0;

    for (size_t i = 0; i < val_count(doc); i++) {
        struct slice name = val_name_at(doc, i);
        bool is_system = false;
        for (size_t k = 0; k < ARRAY_LEN(system); k++)
            is_system |= slice_is(name, system[k]);
        if (!is_system)
            sum += hash_of(name) * 31 + val_hash(val_at(doc, i));
    }
    return sum;
}

static enum errc checksum(struct txn *t, const struct collection *c, struct checksum_parts parts,
                          uint64_t *out, struct error *err)
{
    struct doc_iter *it = NULL;
    struct val doc;
    enum errc rc = doc_iter_new(&it, t, c, err);

    *out = 0;
    while (rc == OK && doc_iter_next(it, &doc)) {
        uint64_t one = hash_of(val_string(val_get(doc, slice_str("_key"))));
        if (parts.has_revisions)
            one = one * 31 + hash_of(val_string(val_get(doc, slice_str("_rev"))));
        if (parts.has_data)
            one = one * 31 + data_hash(doc);
        *out += one;
    }
    if (rc == OK)
        rc = doc_iter_check(it, err);
    doc_iter_free(it);
    return rc;
}

/* Every write gives a new _rev, so the sum over keys and revisions changes with each. */
static void get_revision(struct request *r)
{
    struct error err = { 0 };
    struct txn *t;
    const struct collection *c;
    struct reply a;
    uint64_t sum;

    if (!begin(r, &t, &c))
        return;
    if (checksum(t, c, (struct checksum_parts){ .has_revisions = true }, &sum, &err) != OK) {
        end_failed(r, t, &err);
        return;
    }
    reply_begin(&a, r);
    collection_put_basic(&a, c);
    collection_put_properties(&a, c);
    reply_id(&a, "revision", sum);
    end(&a, t);
}

static void get_checksum(struct request *r)
{
    struct error err = { 0 };
    struct checksum_parts parts;
    struct txn *t;
    const struct collection *c;
    struct reply a;
    uint64_t sum, revision;
    bool is_asked; /* by the name that python-arango has for it */
    enum errc rc = request_flag(r, "withRevision", false, &is_asked, &err);

    if (rc == OK)
        rc = request_flag(r, "withRevisions", is_asked, &parts.has_revisions, &err);
    if (rc == OK)
        rc = request_flag(r, "withData", false, &parts.has_data, &err);
    if (rc != OK) {
        request_fail(r, &err);
        return;
    }
    if (!begin(r, &t, &c))
        return;
    rc = checksum(t, c, parts, &sum, &err);
    if (rc == OK)
        rc = checksum(t, c, (struct checksum_parts){ .has_revisions = true }, &revision, &err);
    if (rc != OK) {
        end_failed(r, t, &err);
        return;
    }
    reply_begin(&a, r);
    collection_put_basic(&a, c);
    reply_id(&a, "checksum", sum);
    reply_id(&a, "revision", revision);
    end(&a, t);
}

const struct route api_arango_figures_routes[] = {
    { METHOD_GET, "/_api/collection/{name}/count", ROLE_USER, ON_POOL_TRX, 0, get_count,
      "Number of documents." },
    { METHOD_GET, "/_api/collection/{name}/figures?details", ROLE_USER, ON_POOL_TRX, 0, get_figures,
      "Sizes." },
    { METHOD_GET, "/_api/collection/{name}/revision", ROLE_USER, ON_POOL_TRX, 0, get_revision,
      "A number that changes when a document does." },
    { METHOD_GET, "/_api/collection/{name}/checksum?withRevisions&withRevision&withData", ROLE_USER,
      ON_POOL_TRX, 0, get_checksum, "A checksum over keys, revisions, contents." },
    { METHOD_PUT, "/_api/collection/{name}/recalculateCount", ROLE_USER, ON_POOL, MIB,
      put_recalculate, "Compares the counter with the documents." },
    { 0 },
};
