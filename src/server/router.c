/* SPDX-License-Identifier: Apache-2.0 */
#include "server/router.h"
#include <stdio.h>

static const struct route *const tables[] = {
    api_admin_routes,
    api_arango_database_routes,
    api_arango_user_routes,
    api_arango_collection_routes,
    api_arango_figures_routes,
    api_arango_document_routes,
    api_arango_import_routes,
    api_arango_index_routes,
    api_arango_graph_routes,
    api_arango_graph_data_routes,
    api_arango_cursor_routes,
    api_arango_transaction_routes,
    api_openai_routes,
    api_ask_routes,
    api_backup_routes,
    api_model_routes,
    api_mcp_routes,
    api_changes_routes,
};

static struct slice next_segment(struct slice *path)
{
    size_t i = 0;

    while (i < path->len && path->ptr[i] != '/')
        i++;
    struct slice segment = slice_of(path->ptr, i);
    size_t skip = i < path->len ? i + 1 : i;
    *path = slice_of(path->ptr + skip, path->len - skip);
    return segment;
}

/* The pattern of a row without its parameters. */
static struct slice path_part(const char *pattern)
{
    return slice_of(pattern, (size_t)(strchrnul(pattern, '?') - pattern));
}

/* Compares segment by segment; captures go to params. */
static bool path_matches(const char *pattern, struct slice path, struct slice *params)
{
    struct slice rest = path_part(pattern);
    size_t captured = 0;

    while (rest.len && path.len) {
        struct slice want = next_segment(&rest);
        if (want.len && want.ptr[0] == '{') {
            bool takes_rest = want.ptr[want.len - 2] == '*';
            struct slice got = takes_rest ? path : next_segment(&path);
            if (!got.len)
                return false;
            params[captured++] = got;
            if (takes_rest)
                return true;
        } else if (!slice_eq(next_segment(&path), want)) {
            return false;
        }
    }
    return !rest.len && !path.len;
}

void router_find(struct slice path, enum http_method method, struct route_match *out)
{
    struct slice params[REQUEST_PARAMS] = { 0 };

    *out = (struct route_match){ 0 };
    if (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    for (size_t t = 0; t < ARRAY_LEN(tables); t++) {
        for (const struct route *row = tables[t]; row->path; row++) {
            if (!path_matches(row->path, path, params))
                continue;
            out->allowed |= row->methods;
            if (!out->route && row->methods & method) {
                out->route = row;
                memcpy(out->params, params, sizeof params);
            }
        }
    }
}

bool router_takes_param(const struct route *row, struct slice name)
{
    for (const char *at = strchr(row->path, '?'); at && *at;) {
        const char *end = strchrnul(at + 1, '&');
        if (slice_eq(slice_of(at + 1, (size_t)(end - at - 1)), name))
            return true;
        at = end;
    }
    return false;
}

bool router_split_db(struct slice path, struct slice *db, struct slice *rest)
{
    *db = slice_of(NULL, 0);
    *rest = path;
    if (!slice_starts(path, "/_db/"))
        return true;
    size_t i = 5;
    while (i < path.len && path.ptr[i] != '/')
        i++;
    *db = slice_of(path.ptr + 5, i - 5);
    *rest = i < path.len ? slice_of(path.ptr + i, path.len - i) : slice_str("/");
    return db->len > 0;
}

void router_allow_text(unsigned methods, char *out, size_t size)
{
    static const struct {
        enum http_method method;
        const char *name;
    } names[] = { { METHOD_GET, "GET" },        { METHOD_HEAD, "HEAD" },
                  { METHOD_POST, "POST" },      { METHOD_PUT, "PUT" },
                  { METHOD_PATCH, "PATCH" },    { METHOD_DELETE, "DELETE" },
                  { METHOD_OPTIONS, "OPTIONS" } };
    size_t used = 0;

    out[0] = 0;
    for (size_t i = 0; i < ARRAY_LEN(names) && used < size; i++)
        if (methods & names[i].method)
            used +=
                (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", names[i].name);
}

const struct route *router_row(size_t i)
{
    for (size_t t = 0; t < ARRAY_LEN(tables); t++)
        for (const struct route *row = tables[t]; row->path; row++)
            if (i-- == 0)
                return row;
    return NULL;
}
