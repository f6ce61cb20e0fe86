/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a row knows is in the document: methods, parameters of the path and the
 * query, whether there is a body and of which kind, credentials, the shape of
 * errors. Bodies are not described further than that they are JSON.
 */
#include "server/openapi.h"
#include "base/buf.h"
#include "server/router.h"
#include "server/server.h"

enum { PATHS_MAX = 512 };

struct writer {
    struct arena *arena;
    struct val_builder *b;
};

static void name(struct writer *w, const char *text)
{
    val_put_name(w->b, slice_str(text));
}

static void text(struct writer *w, const char *key, const char *value)
{
    name(w, key);
    val_put_string(w->b, slice_str(value));
}

static void open_object(struct writer *w, const char *key)
{
    name(w, key);
    val_open_object(w->b);
}

static void open_array(struct writer *w, const char *key)
{
    name(w, key);
    val_open_array(w->b);
}

static void end(struct writer *w)
{
    val_close(w->b);
}

/* ---- paths ---- */

/* "/a/{b*}?c" is "/a/{b}". */
static struct slice path_of(struct arena *arena, const char *pattern)
{
    char *out = arena_alloc(arena, strlen(pattern) + 1);
    size_t len = 0;

    for (const char *p = pattern; *p && *p != '?'; p++)
        if (*p != '*')
            out[len++] = *p;
    return slice_of(out, len);
}

static void put_parameter(struct writer *w, struct slice of, const char *in, bool takes_rest)
{
    val_open_object(w->b);
    name(w, "name");
    val_put_string(w->b, of);
    text(w, "in", in);
    name(w, "required");
    val_put_bool(w->b, *in == 'p');
    if (takes_rest)
        text(w, "description", "May contain slashes, which are not encoded.");
    open_object(w, "schema");
    text(w, "type", "string");
    end(w);
    end(w);
}

static void put_parameters(struct writer *w, const struct route *row)
{
    const char *query = strchr(row->path, '?');

    open_array(w, "parameters");
    for (const char *p = strchr(row->path, '{'); p; p = strchr(p + 1, '{')) {
        size_t len = strcspn(p + 1, "*}");
        put_parameter(w, slice_of(p + 1, len), "path", p[1 + len] == '*');
    }
    while (query && *query) {
        size_t len = strcspn(query + 1, "&");
        put_parameter(w, slice_of(query + 1, len), "query", false);
        query += 1 + len;
    }
    end(w);
}

static void put_body(struct writer *w, const struct route *row)
{
    bool is_stream = row->runs_on == ON_HEADERS;

    if (!row->body_max && !is_stream)
        return;
    open_object(w, "requestBody");
    open_object(w, "content");
    open_object(w, is_stream ? "application/octet-stream" : "application/json");
    open_object(w, "schema");
    end(w);
    end(w);
    end(w);
    end(w);
}

static void put_responses(struct writer *w, const struct route *row)
{
    bool is_openai = !strncmp(row->path, "/v1/", 4);

    open_object(w, "responses");
    open_object(w, "2XX");
    text(w, "description", "Done.");
    end(w);
    open_object(w, "default");
    text(w, "$ref",
         is_openai ? "#/components/responses/OpenAIError" : "#/components/responses/Error");
    end(w);
    end(w);
}

static void put_security(struct writer *w, const struct route *row)
{
    open_array(w, "security");
    if (row->role != ROLE_NONE) {
        val_open_object(w->b);
        open_array(w, "basic");
        end(w);
        end(w);
        val_open_object(w->b);
        open_array(w, "bearer");
        end(w);
        end(w);
    }
    end(w);
}

/* "get_api_document_collection_key" */
static const char *operation_id(struct arena *arena, const char *method, struct slice path)
{
    char *out = arena_alloc(arena, strlen(method) + path.len + 2), *at = stpcpy(out, method);

    for (size_t i = 0; i < path.len; i++) {
        char c = path.ptr[i];
        bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (is_word)
            *at++ = c;
        else if (at[-1] != '_')
            *at++ = '_';
    }
    while (at[-1] == '_')
        at--;
    *at = 0;
    return out;
}

static void put_operation(struct writer *w, const struct route *row, const char *method,
                          struct slice path)
{
    open_object(w, method);
    text(w, "operationId", operation_id(w->arena, method, path));
    text(w, "summary", row->help);
    put_parameters(w, row);
    put_body(w, row);
    put_responses(w, row);
    put_security(w, row);
    end(w);
}

static void put_operations(struct writer *w, const struct route *row, struct slice path)
{
    static const struct {
        enum http_method method;
        const char *name;
    } names[] = { { METHOD_GET, "get" },        { METHOD_HEAD, "head" },
                  { METHOD_POST, "post" },      { METHOD_PUT, "put" },
                  { METHOD_PATCH, "patch" },    { METHOD_DELETE, "delete" },
                  { METHOD_OPTIONS, "options" } };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (row->methods & names[i].method)
            put_operation(w, row, names[i].name, path);
}

/* Rows of one path are one item, at the place of the first. */
static void put_paths(struct writer *w)
{
    struct slice paths[PATHS_MAX];
    size_t count = 0;

    for (const struct route *row; (row = router_row(count)); count++) {
        assert(count < PATHS_MAX);
        paths[count] = path_of(w->arena, row->path);
    }
    open_object(w, "paths");
    for (size_t i = 0; i < count; i++) {
        bool is_first = true;
        for (size_t j = 0; j < i; j++)
            is_first = is_first && !slice_eq(paths[i], paths[j]);
        if (!is_first)
            continue;
        val_put_name(w->b, paths[i]);
        val_open_object(w->b);
        for (size_t j = i; j < count; j++)
            if (slice_eq(paths[i], paths[j]))
                put_operations(w, router_row(j), paths[i]);
        end(w);
    }
    end(w);
}

/* ---- what operations refer to ---- */

static void put_member(struct writer *w, const char *key, const char *type)
{
    open_object(w, key);
    text(w, "type", type);
    end(w);
}

static void put_required(struct writer *w, const char *const *names, size_t count)
{
    open_array(w, "required");
    for (size_t i = 0; i < count; i++)
        val_put_string(w->b, slice_str(names[i]));
    end(w);
}

static void put_schemas(struct writer *w)
{
    static const char *const arango[] = { "error", "code", "errorNum", "errorMessage" };
    static const char *const openai[] = { "message", "type" }, *const outer[] = { "error" };

    open_object(w, "schemas");
    open_object(w, "Error");
    text(w, "type", "object");
    put_required(w, arango, ARRAY_LEN(arango));
    open_object(w, "properties");
    put_member(w, "error", "boolean");
    put_member(w, "code", "integer");
    put_member(w, "errorNum", "integer");
    put_member(w, "errorMessage", "string");
    end(w);
    end(w);
    open_object(w, "OpenAIError");
    text(w, "type", "object");
    put_required(w, outer, ARRAY_LEN(outer));
    open_object(w, "properties");
    open_object(w, "error");
    text(w, "type", "object");
    put_required(w, openai, ARRAY_LEN(openai));
    open_object(w, "properties");
    put_member(w, "message", "string");
    put_member(w, "type", "string");
    end(w);
    end(w);
    end(w);
    end(w);
    end(w);
}

static void put_response(struct writer *w, const char *key, const char *schema)
{
    open_object(w, key);
    text(w, "description", "It failed, or was refused.");
    open_object(w, "content");
    open_object(w, "application/json");
    open_object(w, "schema");
    text(w, "$ref", schema);
    end(w);
    end(w);
    end(w);
    end(w);
}

static void put_components(struct writer *w)
{
    open_object(w, "components");
    put_schemas(w);
    open_object(w, "responses");
    put_response(w, "Error", "#/components/schemas/Error");
    put_response(w, "OpenAIError", "#/components/schemas/OpenAIError");
    end(w);
    open_object(w, "securitySchemes");
    open_object(w, "basic");
    text(w, "type", "http");
    text(w, "scheme", "basic");
    end(w);
    open_object(w, "bearer");
    text(w, "type", "http");
    text(w, "scheme", "bearer");
    end(w);
    end(w);
    end(w);
}

static void put_servers(struct writer *w)
{
    open_array(w, "servers");
    val_open_object(w->b);
    text(w, "url", "/");
    text(w, "description", "The database _system.");
    end(w);
    val_open_object(w->b);
    text(w, "url", "/_db/{database}");
    open_object(w, "variables");
    open_object(w, "database");
    text(w, "default", "_system");
    end(w);
    end(w);
    end(w);
    end(w);
}

struct val openapi_document(struct arena *arena)
{
    struct writer w = { arena, val_builder_new(0) };
    struct val out = val_null;

    val_open_object(w.b);
    text(&w, "openapi", "3.1.0");
    open_object(&w, "info");
    text(&w, "title", "themis");
    text(&w, "version", THEMIS_VERSION);
    text(&w, "description",
         "Credentials are required where security says so, unless the server runs with auth off.");
    end(&w);
    put_servers(&w);
    put_paths(&w);
    put_components(&w);
    end(&w);
    if (val_finish_in(w.b, arena, &out, NULL) != OK)
        BUG("the table of routes makes no document");
    val_builder_free(w.b);
    return out;
}
