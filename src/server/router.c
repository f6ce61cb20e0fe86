/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows are in lists by the first two segments of their patterns, in the order of
 * the tables. A pattern whose second segment is a parameter, or that has only
 * one, is in the list of its first: a path looks into both.
 */
#include "server/router.h"
#include <pthread.h>
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
    api_arango_query_routes,
    api_arango_transaction_routes,
    api_openai_routes,
    api_ask_routes,
    api_backup_routes,
    api_model_routes,
    api_token_routes,
    api_rerank_routes,
    api_mcp_routes,
    api_changes_routes,
    api_snapshot_routes,
    api_encryption_routes,
    api_cluster_routes,
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

/* Compares with what is left of a pattern segment by segment; captures go to params. */
static bool path_matches(struct slice rest, struct slice path, struct slice *params)
{
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

/* ---- rows by their beginning ---- */

enum { LISTS = 128, ROWS_MAX = 512 };

static struct entry {
    const struct route *row;
    struct slice path; /* without parameters */
    struct entry *next;
} entries[ROWS_MAX], *lists[LISTS];
static pthread_once_t lists_made = PTHREAD_ONCE_INIT;

/* Of so many segments of a path that begins with '/'; 0 when there are fewer. */
static size_t beginning(struct slice path, int segments)
{
    for (size_t i = 1; i <= path.len; i++)
        if ((i == path.len || path.ptr[i] == '/') && --segments == 0)
            return i;
    return 0;
}

static struct entry **list_of(struct slice begin)
{
    uint32_t hash = 2166136261; /* FNV-1a */

    for (size_t i = 0; i < begin.len; i++)
        hash = (hash ^ (uint8_t)begin.ptr[i]) * 16777619;
    return &lists[(hash ^ hash >> 16) % LISTS];
}

static void add_row(struct entry *e)
{
    struct slice path = e->path;
    size_t two = beginning(path, 2);
    bool is_literal = two && !memchr(path.ptr, '{', two);
    struct entry **at = list_of(slice_of(path.ptr, is_literal ? two : beginning(path, 1)));

    while (*at)
        at = &(*at)->next;
    *at = e;
}

static void make_lists(void)
{
    size_t count = 0;

    for (size_t t = 0; t < ARRAY_LEN(tables); t++) {
        for (const struct route *row = tables[t]; row->path; row++) {
            assert(count < ROWS_MAX);
            entries[count].row = row;
            entries[count].path = path_part(row->path);
            add_row(&entries[count++]);
        }
    }
}

static void find_in(const struct entry *e, struct slice path, enum http_method method,
                    struct route_match *out)
{
    struct slice params[REQUEST_PARAMS] = { 0 };

    for (; e; e = e->next) {
        const struct route *row = e->row;
        if (!slice_eq(path, e->path) && !path_matches(e->path, path, params))
            continue;
        out->allowed |= row->methods;
        if (!out->route && row->methods & method) {
            out->route = row;
            memcpy(out->params, params, sizeof params);
        }
    }
}

void router_find(struct slice path, enum http_method method, struct route_match *out)
{
    *out = (struct route_match){ 0 };
    if (!path.len || path.ptr[0] != '/')
        return;
    if (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    pthread_once(&lists_made, make_lists);
    size_t one = beginning(path, 1), two = beginning(path, 2);
    struct entry **first = list_of(slice_of(path.ptr, one));
    struct entry **second = two ? list_of(slice_of(path.ptr, two)) : first;
    find_in(*second, path, method, out);
    if (second != first)
        find_in(*first, path, method, out);
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
