/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cluster_gate.h"
#include "query/query.h"

#define NOT_YET "documents are not distributed yet"

enum { ANY = METHOD_GET | METHOD_HEAD | METHOD_POST | METHOD_PUT | METHOD_PATCH | METHOD_DELETE };
enum { WRITES = METHOD_POST | METHOD_PUT | METHOD_PATCH | METHOD_DELETE };

/* Beginnings of the patterns of routes that are about data. */
static const struct {
    const char *path;
    unsigned methods;
} data_routes[] = {
    { "/_api/collection", ANY },
    { "/_api/document", ANY },
    { "/_api/import", ANY },
    { "/_api/index", ANY },
    { "/_api/gharial", ANY },
    { "/_api/edges", ANY },
    { "/_api/transaction", ANY },
    { "/_api/changes", ANY },
    { "/_admin/backup", ANY },
    { "/v1/ask", ANY },
    { "/v1/search", ANY },
    { "/v1/import", ANY },
    { "/mcp", ANY },
    /* There is one database, and root, everywhere; others would be known here only. */
    { "/_api/database", WRITES },
    { "/_api/user", WRITES },
    { "/_api/token", WRITES },
};

/* Routes that read data or do not, as the query says. */
static const char *const query_routes[] = { "/_api/cursor", "/_api/explain" };

static bool is_closed(const struct request *r)
{
    return r->ctx->cluster && !r->ctx->has_local_data;
}

static bool is_about_data(const struct request *r)
{
    for (size_t i = 0; i < ARRAY_LEN(data_routes); i++)
        if (slice_starts(slice_str(r->route->path), data_routes[i].path) &&
            data_routes[i].methods & exchange_method(r->x))
            return true;
    return false;
}

static bool is_query(const struct request *r)
{
    for (size_t i = 0; i < ARRAY_LEN(query_routes); i++)
        if (slice_starts(slice_str(r->route->path), query_routes[i]))
            return true;
    return false;
}

enum errc gate_data(const struct request *r, struct error *err)
{
    return is_closed(r) ? fail(err, ERR_NOT_IMPLEMENTED, NOT_YET) : OK;
}

enum errc gate_route(struct request *r, struct error *err)
{
    if (!r->ctx->cluster)
        return OK;
    bool is_data = is_about_data(r);
    if (!is_closed(r) && (is_data || is_query(r)))
        exchange_tag(r->x, "x-themis-data", "local");
    return is_data ? gate_data(r, err) : OK;
}

/* Collections that it names, by themselves or as bind values ("@name" for @@name). */
static bool names_collections(struct val parsed)
{
    struct val binds = val_get(parsed, slice_str("bindVars"));

    for (size_t i = 0; i < val_count(binds); i++)
        if (slice_starts(val_string(val_at(binds, i)), "@"))
            return true;
    return val_count(val_get(parsed, slice_str("collections"))) > 0;
}

enum errc gate_query(struct request *r, struct slice text, struct error *err)
{
    struct val parsed;

    if (!is_closed(r) || query_parse_only(text, r->arena, &parsed, NULL) != OK ||
        !names_collections(parsed))
        return OK;
    return gate_data(r, err);
}

/* ---- whatever leads to a collection ---- */

static enum errc refuse(const struct access_rights *a, const struct database *db,
                        const struct collection *c, enum access_level need, struct error *err)
{
    (void)a, (void)db, (void)c, (void)need;
    return fail(err, ERR_NOT_IMPLEMENTED, NOT_YET);
}

static void ignore(struct access_rights *a)
{
    (void)a;
}

struct access_rights *gate_access(const struct request *r)
{
    static struct access_rights none = { .allow = refuse, .ref = ignore, .unref = ignore };

    return is_closed(r) ? &none : NULL;
}
