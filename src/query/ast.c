/* SPDX-License-Identifier: Apache-2.0 */
#include "query/ast.h"

static bool equal_values(struct val a, struct val b)
{
    return val_is_int(a) == val_is_int(b) && val_equal(a, b);
}

/* Recursion is bounded by the depth of trees. */
bool ast_equal(const struct ast *a, const struct ast *b)
{
    if (!a || !b)
        return a == b;
    if (a->kind != b->kind || a->op != b->op || a->flags != b->flags || a->count != b->count ||
        !slice_eq(a->name, b->name))
        return false;
    if (a->kind == AST_VALUE && !equal_values(a->val, b->val))
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!ast_equal(a->kids[i], b->kids[i]))
            return false;
    return true;
}

const char *ast_kind_name(enum ast_kind kind)
{
    static const char *const names[] = {
        [AST_QUERY] = "query",
        [AST_SUBQUERY] = "subquery",
        [AST_WITH] = "with",
        [AST_FOR] = "for",
        [AST_TRAVERSE] = "traversal",
        [AST_SHORTEST_PATH] = "shortest path",
        [AST_ALL_SHORTEST_PATHS] = "all shortest paths",
        [AST_K_SHORTEST_PATHS] = "k shortest paths",
        [AST_K_PATHS] = "k paths",
        [AST_FILTER] = "filter",
        [AST_SORT] = "sort",
        [AST_LIMIT] = "limit",
        [AST_LET] = "let",
        [AST_COLLECT] = "collect",
        [AST_WINDOW] = "window",
        [AST_RETURN] = "return",
        [AST_INSERT] = "insert",
        [AST_UPDATE] = "update",
        [AST_REPLACE] = "replace",
        [AST_REMOVE] = "remove",
        [AST_UPSERT] = "upsert",
        [AST_LIST] = "list",
        [AST_VAR] = "variable",
        [AST_ARRAY_PATTERN] = "array pattern",
        [AST_OBJECT_PATTERN] = "object pattern",
        [AST_FIELD_PATTERN] = "attribute pattern",
        [AST_ASSIGN] = "assignment",
        [AST_INTO] = "into",
        [AST_SORT_KEY] = "sort key",
        [AST_PRUNE] = "prune",
        [AST_GRAPH] = "graph",
        [AST_EDGES] = "edge collections",
        [AST_EDGE_COLLECTION] = "edge collection",
        [AST_QUANTIFIER] = "quantifier",
        [AST_VALUE] = "value",
        [AST_NAME] = "reference",
        [AST_BIND] = "bind parameter",
        [AST_BIND_COLLECTION] = "collection bind parameter",
        [AST_ATTR] = "attribute access",
        [AST_ATTR_BIND] = "bound attribute access",
        [AST_INDEX] = "indexed access",
        [AST_EXPAND] = "array expansion",
        [AST_ELEMENT] = "array element",
        [AST_ARRAY_TEST] = "array test",
        [AST_CALL] = "function call",
        [AST_UNARY] = "unary operator",
        [AST_BINARY] = "binary operator",
        [AST_QUANTIFIED] = "array comparison",
        [AST_TERNARY] = "ternary operator",
        [AST_RANGE] = "range",
        [AST_ARRAY] = "array",
        [AST_OBJECT] = "object",
        [AST_FIELD] = "object member",
        [AST_FIELD_BIND] = "bound object member",
        [AST_FIELD_COMPUTED] = "computed object member",
    };
    return names[kind];
}
