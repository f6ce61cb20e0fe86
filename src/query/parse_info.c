/* SPDX-License-Identifier: Apache-2.0 */
/* What a text needs, without running it. */
#include "query/ast.h"
#include "query/query.h"

struct names {
    struct slice items[256];
    size_t count;
};

static void names_add(struct names *n, struct slice s)
{
    for (size_t i = 0; i < n->count; i++)
        if (slice_eq(n->items[i], s))
            return;
    if (n->count < ARRAY_LEN(n->items))
        n->items[n->count++] = s;
}

static void walk(const struct ast *n, struct names *binds, struct names *collections)
{
    if (!n)
        return;
    switch ((enum ast_kind)n->kind) {
    case AST_BIND:
    case AST_BIND_COLLECTION:
    case AST_ATTR_BIND:
    case AST_FIELD_BIND:
        names_add(binds, n->name);
        break;
    case AST_INSERT:
    case AST_REMOVE:
        if (n->kids[1]->kind == AST_NAME)
            names_add(collections, n->kids[1]->name);
        break;
    case AST_UPDATE:
    case AST_REPLACE:
        if (n->kids[2]->kind == AST_NAME)
            names_add(collections, n->kids[2]->name);
        break;
    case AST_FOR:
        if (n->kids[1]->kind == AST_NAME)
            names_add(collections, n->kids[1]->name);
        break;
    default:
        break;
    }
    for (uint32_t i = 0; i < n->count; i++)
        walk(n->kids[i], binds, collections);
}

static void put_names(struct val_builder *b, const char *member, const struct names *n)
{
    val_put_name(b, slice_str(member));
    val_open_array(b);
    for (size_t i = 0; i < n->count; i++)
        val_put_string(b, n->items[i]);
    val_close(b);
}

/* The tree as data; the parser limits its depth. */
static void put_tree(struct val_builder *b, const struct ast *n)
{
    val_open_object(b);
    val_put_name(b, slice_str("type"));
    val_put_string(b, slice_str(ast_kind_name(ast_kind(n))));
    if (n->name.len) {
        val_put_name(b, slice_str("name"));
        val_put_string(b, n->name);
    }
    if (n->kind == AST_VALUE) {
        val_put_name(b, slice_str("value"));
        val_put(b, n->val);
    }
    bool any = false;
    for (uint32_t i = 0; i < n->count; i++)
        any |= n->kids[i] != NULL;
    if (any) {
        val_put_name(b, slice_str("subNodes"));
        val_open_array(b);
        for (uint32_t i = 0; i < n->count; i++)
            if (n->kids[i])
                put_tree(b, n->kids[i]);
        val_close(b);
    }
    val_close(b);
}

enum errc query_parse_only(struct slice query, struct arena *arena, struct val *out,
                           struct error *err)
{
    struct names *names = arena_zalloc(arena, 2 * sizeof *names);
    struct val_builder *b;
    struct buf canonical;
    struct ast *ast;
    enum errc rc = aql_parse(query, arena, &ast, err);

    if (rc != OK)
        return rc;
    walk(ast, &names[0], &names[1]);
    b = val_builder_new(0);
    buf_init(&canonical, 0);
    ast_print(ast, &canonical);
    val_open_object(b);
    put_names(b, "bindVars", &names[0]);
    put_names(b, "collections", &names[1]);
    val_put_name(b, slice_str("canonical"));
    val_put_string(b, buf_slice(&canonical));
    if (ast->depth * 2 < LIMIT_NESTING) { /* each level is an object and an array */
        val_put_name(b, slice_str("ast"));
        val_open_array(b);
        put_tree(b, ast);
        val_close(b);
    }
    val_close(b);
    rc = val_finish_in(b, arena, out, err);
    buf_release(&canonical);
    val_builder_free(b);
    return rc;
}
